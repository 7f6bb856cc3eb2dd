//! Argument blocks of the kernels, and the index maps inside them.
//!
//! Every kernel takes exactly one of these structs by value. They are plain data without padding,
//! so the host hands the driver a pointer to the struct and nothing can be passed in a wrong order.
//!
//! Addresses are 64-bit device addresses (in the emulator, addresses of the host), aligned to the
//! element. Sizes, leading dimensions and strides count elements, never bytes.

use bytemuck::{Pod, Zeroable};
use core::num::NonZero;

/// Address of device memory (of host memory in the emulator). 0 is the null pointer.
pub type Address = u64;

/// Maps an index of a local buffer to an index of another buffer or of the whole matrix.
///
/// With `l' = l + first`, the block-cyclic formula gives
/// `g = ((l' / tile) · procs + proc) · tile + l' mod tile`; then `g + shift`, reduced by `capacity`
/// if it reaches it, is the index in the order of the solver.
///
/// With `fine` > 1 that order is a reading of `fine` shards of `shard` elements, which takes a tile of
/// each shard in turn: with k = g / tile and q = k mod `fine`, the element is number
/// `w = (k / fine) · tile + g mod tile` of shard `(q mod coarse) · (fine / coarse) + q / coarse`. It is
/// invalid unless w < `shard`; otherwise it is element shard number · `shard` + w of the matrix.
///
/// What remains after subtracting `base` is the result. The index is valid if that is below `limit`.
///
/// No step overflows as long as `g < capacity`, `shift < capacity` and `capacity < 2⁶³`, or
/// `shift = 0` and `capacity = u64::MAX` (no rotation).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct IndexMap {
    /// Elements in a tile. A tile of 0 maps nothing.
    pub tile: u64,
    /// Processes that tiles are dealt to in turn; 1 for a contiguous dimension.
    pub procs: u64,
    /// The process that owns the local buffer, below `procs`.
    pub proc: u64,
    /// Local index of the first element covered.
    pub first: u64,
    /// Rotation applied to the global index.
    pub shift: u64,
    /// Length of the rotated range.
    pub capacity: u64,
    /// Shards that a reading takes tiles from in turn; 1 where there is no reading.
    pub fine: u64,
    /// A divisor of `fine`, which decides the turn of the shards: in ascending order for 1 and `fine`.
    pub coarse: u64,
    /// Elements in one of the `fine` shards.
    pub shard: u64,
    /// What is subtracted at the end: where the other buffer begins.
    pub base: u64,
    /// Results from here on are invalid (padding).
    pub limit: u64,
}

impl IndexMap {
    /// The map `l → l`, valid below `limit`.
    pub const fn identity(limit: u64) -> Self {
        Self {
            tile: 1,
            procs: 1,
            proc: 0,
            first: 0,
            shift: 0,
            capacity: u64::MAX,
            fine: 1,
            coarse: 1,
            shard: u64::MAX,
            base: 0,
            limit,
        }
    }

    /// Local index to global index of a block-cyclic dimension of `limit` elements, source process 0.
    pub const fn block_cyclic(tile: u64, procs: u64, proc: u64, limit: u64) -> Self {
        Self { tile, procs, proc, ..Self::identity(limit) }
    }

    /// The index that `l` maps to, or `None` where that is padding.
    #[inline(always)]
    pub fn map(&self, l: u64) -> Option<u64> {
        let tile = NonZero::new(self.tile)?;
        let l = l + self.first;
        let dealt = (l / tile * self.procs + self.proc) * self.tile + l % tile;
        let rotated = dealt + self.shift;
        let ordered = if rotated >= self.capacity { rotated - self.capacity } else { rotated };
        let global = if self.fine > 1 { self.read(ordered, tile)? } else { ordered };
        let result = global.checked_sub(self.base)?;
        (result < self.limit).then_some(result)
    }

    /// The local index that maps to `result`, or `None` if there is none in this buffer.
    #[inline(always)]
    pub fn unmap(&self, result: u64) -> Option<u64> {
        let (tile, procs) = (NonZero::new(self.tile)?, NonZero::new(self.procs)?);
        if result >= self.limit {
            return None;
        }
        let global = result + self.base;
        let ordered = if self.fine > 1 { self.unread(global, tile)? } else { global };
        let turn = if ordered >= self.shift { 0 } else { self.capacity };
        let dealt = ordered + turn - self.shift;
        if dealt / tile % procs != self.proc {
            return None;
        }
        let l = dealt / tile / procs * self.tile + dealt % tile;
        l.checked_sub(self.first)
    }

    /// From the order of the reading to the order of the matrix.
    #[inline(always)]
    fn read(&self, ordered: u64, tile: NonZero<u64>) -> Option<u64> {
        let (fine, coarse) = (NonZero::new(self.fine)?, NonZero::new(self.coarse)?);
        let k = ordered / tile;
        let (turn, within) = (k % fine, k / fine * self.tile + ordered % tile);
        let shard = turn % coarse * (self.fine / coarse) + turn / coarse;
        (within < self.shard).then_some(shard * self.shard + within)
    }

    /// From the order of the matrix to the order of the reading.
    #[inline(always)]
    fn unread(&self, global: u64, tile: NonZero<u64>) -> Option<u64> {
        let (size, coarse) = (NonZero::new(self.shard)?, NonZero::new(self.coarse)?);
        let merged = NonZero::new(self.fine / coarse)?;
        let (shard, within) = (global / size, global % size);
        let turn = shard % merged * self.coarse + shard / merged;
        Some((within / tile * self.fine + turn) * self.tile + within % tile)
    }
}

/// Which triangle of a matrix a kernel looks at, by global index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Triangle {
    /// The whole matrix.
    Both = 0,
    /// Row index ≥ column index.
    Lower = 1,
    /// Row index ≤ column index.
    Upper = 2,
}

/// Arguments of `convert_forward` and `convert_reverse`: a conversion between a row-major buffer
/// and a column-major one.
///
/// Forward, for all `i < rows`, `j < cols`: `dst[i + j·ld_dst] = src[r·ld_src + c]` with
/// `r = row_map(i)`, `c = col_map(j)`, and zero where either is invalid.
/// Reverse: `dst[r·ld_dst + c] = src[i + j·ld_src]` where both are valid; nothing else is written.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ConvertArgs {
    /// Source buffer.
    pub src: Address,
    /// Destination buffer; must not overlap the source.
    pub dst: Address,
    /// Leading dimension of the source.
    pub ld_src: u64,
    /// Leading dimension of the destination.
    pub ld_dst: u64,
    /// Rows of the column-major buffer.
    pub rows: u64,
    /// Columns of the column-major buffer.
    pub cols: u64,
    /// Row of the column-major buffer to row of the row-major one.
    pub row_map: IndexMap,
    /// Column of the column-major buffer to column of the row-major one.
    pub col_map: IndexMap,
}

/// Arguments of `transpose_blocks`: every g × g block of a full row-major `(p·g) × (q·g)` matrix is
/// transposed where it stands.
///
/// The matrix is then column-major in parts: as memory, `[p][g][q][segment of g elements]` of what
/// has to become `[q][g][p][segment]`, which [`MoveSegmentsArgs`] does.
///
/// Every element is looked at in passing: the word at `flag`, if that is not null, becomes 1 if some
/// aligned 64 bits have all bits of one of `exponents`, and is left alone otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct TransposeBlocksArgs {
    /// The matrix.
    pub buf: Address,
    /// Rows in units of `g`.
    pub p: u64,
    /// Columns in units of `g`.
    pub q: u64,
    /// Edge of a block.
    pub g: u64,
    /// Address of an `i32`, or null.
    pub flag: Address,
    /// The exponents of the real numbers in 64 bits, as masks: all bits set where a number is not finite.
    pub exponents: [u64; 2],
}

/// Arguments of `move_segments`: memory that is `[groups][p][g][q][segment]` becomes
/// `[groups][q][g][p][segment]` in place. In its group the segment at `(a·g + i)·q + b` moves to
/// `(b·g + i)·p + a`. The same with `p` and `q` exchanged moves it back.
///
/// Every `stride`-th segment is a cut, and the k-th cut's contents must already be the k-th segment of
/// the scratch: a cycle with cuts can be moved as several chains at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct MoveSegmentsArgs {
    /// The segments.
    pub buf: Address,
    /// The contents of all cuts.
    pub scratch: Address,
    /// Groups of p·g·q segments, each of which is permuted by itself.
    pub groups: u64,
    /// First extent before, last extent after.
    pub p: u64,
    /// Last extent before, first extent after.
    pub q: u64,
    /// Middle extent.
    pub g: u64,
    /// Elements in a segment.
    pub len: u64,
    /// Every segment whose index is a multiple of this is a cut; at least 1.
    pub stride: u64,
}

impl MoveSegmentsArgs {
    /// Number of segments in the buffer.
    #[inline(always)]
    pub const fn segments(&self) -> u64 {
        self.groups * self.group()
    }

    /// Number of segments in a group.
    #[inline(always)]
    pub const fn group(&self) -> u64 {
        self.p * self.g * self.q
    }

    /// Number of cuts, which is also the scratch needed, in segments.
    #[inline(always)]
    pub const fn cuts(&self) -> u64 {
        ceil_div(self.segments(), self.stride)
    }
}

/// `⌈count / size⌉`, and 0 where `size` is 0 (so that device code has no panic path).
#[inline(always)]
pub(crate) const fn ceil_div(count: u64, size: u64) -> u64 {
    match NonZero::new(size) {
        Some(size) => count.div_ceil(size.get()),
        None => 0,
    }
}

/// Arguments of `copy_lines`: `dst[line·ld_dst + x] = src[line·ld_src + x]`, `x < len`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct CopyLinesArgs {
    /// Source buffer.
    pub src: Address,
    /// Destination buffer; must not overlap the lines read.
    pub dst: Address,
    /// Distance of two lines in the source.
    pub ld_src: u64,
    /// Distance of two lines in the destination.
    pub ld_dst: u64,
    /// Contiguous elements in a line.
    pub len: u64,
    /// Number of lines.
    pub lines: u64,
}

/// Arguments of `permute_slots`: an in-place permutation of slots.
///
/// Element `x < width` of a slot is at `line·line_stride + slot·slot_stride + x`, for every line.
/// `cycles` holds the permutation's cycles one after the other: in a cycle `d0, d1, …, dk` slot d0
/// takes what d1 held, d1 what d2 held, …, dk what d0 held.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PermuteSlotsArgs {
    /// The buffer.
    pub buf: Address,
    /// Slots as `u32`, cycle after cycle.
    pub cycles: Address,
    /// `n_cycles + 1` positions in `cycles` as `u32`: cycle k is `starts[k]..starts[k + 1]`.
    pub starts: Address,
    /// Number of cycles.
    pub n_cycles: u64,
    /// Number of lines.
    pub lines: u64,
    /// Distance of two lines.
    pub line_stride: u64,
    /// Distance of two slots.
    pub slot_stride: u64,
    /// Contiguous elements in a slot of one line.
    pub width: u64,
}

/// Arguments of `set_identity`: writes the identity into the padding of a column-major matrix.
///
/// The local element (i, j) with global indices (gi, gj), both valid, becomes `one` if gi = gj and
/// zero otherwise, wherever `row_real(i)` or `col_real(j)` is invalid. Maps of limit 0 make the whole
/// matrix the identity. With `places` it is one if gi = `places[gj]`: the identity with its rows in another order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct SetIdentityArgs {
    /// The matrix.
    pub buf: Address,
    /// Address of an `i32`: if not null and the word is 0, the kernel does nothing.
    pub guard: Address,
    /// Leading dimension.
    pub ld: u64,
    /// Local rows.
    pub rows: u64,
    /// Local columns.
    pub cols: u64,
    /// Local row to global row.
    pub row_map: IndexMap,
    /// Local column to global column.
    pub col_map: IndexMap,
    /// Valid for local rows that are not padding.
    pub row_real: IndexMap,
    /// Valid for local columns that are not padding.
    pub col_real: IndexMap,
    /// The bits of 1 in the element type, low word first.
    pub one: [u64; 2],
    /// Address of the row of each global column's one, as `i32`; null if it is the column's own number.
    pub places: Address,
}

/// Arguments of `clear_other_triangle`: sets all bits to zero outside one triangle of a column-major matrix.
///
/// Only elements with valid global indices are touched.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ClearOtherTriangleArgs {
    /// The matrix.
    pub buf: Address,
    /// Leading dimension.
    pub ld: u64,
    /// Local rows.
    pub rows: u64,
    /// Local columns.
    pub cols: u64,
    /// Local row to global row.
    pub row_map: IndexMap,
    /// Local column to global column.
    pub col_map: IndexMap,
    /// What stays: a [`Triangle`] as its number.
    pub kept: u64,
}

/// Arguments of `fill`: sets `count` contiguous elements to one value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FillArgs {
    /// The buffer.
    pub buf: Address,
    /// Address of an `i32`: if not null and the word is 0, the kernel does nothing.
    pub guard: Address,
    /// Elements to set.
    pub count: u64,
    /// The element's bits, low word first.
    pub value: [u64; 2],
}

/// Arguments of `conjugate`: negates the imaginary parts of `count` contiguous complex numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ConjugateArgs {
    /// The buffer.
    pub buf: Address,
    /// Complex numbers in it.
    pub count: u64,
}

/// Arguments of `find_non_finite`: sets `flag` to 1 if an element is infinite or not a number.
///
/// It never writes another value, so the flag must be 0 before. Only elements with valid global
/// indices inside the triangle are looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FindNonFiniteArgs {
    /// Column-major matrix.
    pub buf: Address,
    /// Address of the `i32` to set.
    pub flag: Address,
    /// Leading dimension in elements (a complex number is one element).
    pub ld: u64,
    /// Local rows.
    pub rows: u64,
    /// Local columns.
    pub cols: u64,
    /// Local row to global row.
    pub row_map: IndexMap,
    /// Local column to global column.
    pub col_map: IndexMap,
    /// 1 for real elements, 2 for complex ones.
    pub parts: u32,
    /// A [`Triangle`] as its number.
    pub triangle: u32,
}

/// Arguments of `find_non_finite_anywhere`: as `find_non_finite`, in `count` contiguous real numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FindAnywhereArgs {
    /// The numbers; a complex one is two.
    pub buf: Address,
    /// Address of the `i32` to set.
    pub flag: Address,
    /// How many.
    pub count: u64,
}

/// A device's own part of a column-major matrix, seen by kernels that visit the diagonal: every (i, j) with
/// equal, valid global indices below `n`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Diagonal {
    /// Column-major matrix.
    pub buf: Address,
    /// Leading dimension in elements (a complex number is one element).
    pub ld: u64,
    /// Local rows.
    pub rows: u64,
    /// Local columns.
    pub cols: u64,
    /// Local row to global row.
    pub row_map: IndexMap,
    /// Local column to global column.
    pub col_map: IndexMap,
    /// Order of the matrix whose diagonal is meant.
    pub n: u64,
    /// Real numbers in an element: 1, or 2 where it is complex.
    pub parts: u64,
}

impl Diagonal {
    /// Where the diagonal entry in local row `i` begins, in real numbers, if this device has it.
    #[inline(always)]
    pub fn in_row(&self, i: u64) -> Option<u64> {
        let global = self.row_map.map(i).filter(|&global| global < self.n)?;
        let j = self.col_map.unmap(global).filter(|&j| j < self.cols)?;
        Some((i + j * self.ld) * self.parts)
    }

    /// The global index of local column `j`.
    #[inline(always)]
    pub fn column(&self, j: u64) -> Option<u64> {
        self.col_map.map(j).filter(|&global| global < self.n)
    }

    /// Where the diagonal entry in global column `global`, local column `j`, begins, in real numbers, if
    /// this device has it.
    #[inline(always)]
    pub fn in_column(&self, j: u64, global: u64) -> Option<u64> {
        let i = self.row_map.unmap(global).filter(|&i| i < self.rows)?;
        Some((i + j * self.ld) * self.parts)
    }
}

/// Arguments of `add_to_diagonal`: adds one number to every diagonal entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct AddToDiagonalArgs {
    /// The entries.
    pub diagonal: Diagonal,
    /// Address of the element to add.
    pub shift: Address,
}

/// Arguments of `make_diagonal_real`: sets the imaginary part of every diagonal entry to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct MakeDiagonalRealArgs {
    /// The entries, of two parts.
    pub diagonal: Diagonal,
}

/// Arguments of `find_zero_diagonal`: stores `n − g` for the smallest g whose diagonal entry is this device's
/// and is zero or has a part that is infinite or not a number; 0 if there is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FindZeroDiagonalArgs {
    /// The entries; `n` must be below 2³¹.
    pub diagonal: Diagonal,
    /// Address of the resulting `i32`.
    pub word: Address,
}

/// Arguments of `diag_log_sum`: the sum of ln|aᵢᵢ| over this device's diagonal entries.
///
/// The sum is taken over local rows in f64 and in a fixed order (see [`crate::arithmetic`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct DiagLogSumArgs {
    /// The entries.
    pub diagonal: Diagonal,
    /// Address of the `f64` result.
    pub out: Address,
}

/// Arguments of `diag_phase`: the product of aᵢᵢ / |aᵢᵢ| over this device's diagonal entries, up to a positive
/// factor (see [`crate::arithmetic::phase_product`]).
///
/// The product is taken over local columns in f64 and in a fixed order. It is negated if an odd number of
/// local columns, of a global index below `n`, were interchanged with another row.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct DiagPhaseArgs {
    /// The entries.
    pub diagonal: Diagonal,
    /// For each local column, as `i64`, the global row counted from 1 that its own was interchanged with;
    /// null if there were no interchanges.
    pub pivots: Address,
    /// Address of the result: real and imaginary part as `f64`.
    pub out: Address,
}

/// Arguments of `phase_to`: the product of `count` complex numbers divided by its absolute value, rounded to
/// the result's type; the real part alone for a real one. See [`crate::arithmetic::phase`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PhaseToArgs {
    /// The numbers: real and imaginary part as `f64`.
    pub src: Address,
    /// Address of the result.
    pub dst: Address,
    /// How many numbers.
    pub count: u64,
    /// Real numbers in the result: 1, or 2 where it is complex.
    pub parts: u64,
}

/// Arguments of `scale_to`: `dst[0] = scale · src[0]`, computed in f64, rounded to the result's type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct ScaleToArgs {
    /// Address of the `f64` to scale.
    pub src: Address,
    /// Address of the result.
    pub dst: Address,
    /// The factor.
    pub scale: f64,
}

/// Arguments of `apply_pseudoinverse`: multiplies local row i of a column-major matrix by f(w) with the
/// eigenvalue w number `row_map(i)`; rows without a valid number are left alone.
///
/// f(w) = 1 / w if |w| > c·max(|w₀|, |wₙ₋₁|) with the number c at `cutoff`; otherwise the row becomes +0. All is
/// computed in the type of the eigenvalues.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ApplyPseudoinverseArgs {
    /// The matrix.
    pub buf: Address,
    /// Leading dimension in elements (a complex number is one element).
    pub ld: u64,
    /// Local rows.
    pub rows: u64,
    /// Local columns.
    pub cols: u64,
    /// Local row to number of an eigenvalue; its results must be below `n`.
    pub row_map: IndexMap,
    /// The eigenvalues in ascending order: real numbers of the matrix's precision.
    pub values: Address,
    /// How many eigenvalues there are.
    pub n: u64,
    /// Address of c, a number as the eigenvalues are.
    pub cutoff: Address,
    /// Real numbers in an element: 1, or 2 where it is complex.
    pub parts: u64,
}

/// Arguments of `combine_status`: one status from the words that all devices reduced.
///
/// The first word w with `max[w] ≠ 0` or `min[w] ≠ 0` decides: the status is −1 if w = 0 and
/// otherwise `max[w]`, or `min[w]` where that is 0. Without such a word it is 0. A positive status is a
/// row of the solver's matrix counted from 1, and becomes `map(row − 1) + 1` where that is valid. Unless
/// `from_end` is 0, a positive word 1 counts such rows from the end of as many (as `find_zero_diagonal` does):
/// it is `from_end` − row + 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct CombineStatusArgs {
    /// Address of the largest values as `i32`.
    pub max: Address,
    /// Address of the smallest values as `i32`.
    pub min: Address,
    /// Address of the resulting `i32`.
    pub out: Address,
    /// Number of words.
    pub count: u64,
    /// Row of the solver's matrix to row of the caller's.
    pub map: IndexMap,
    /// Order of the matrix whose rows word 1 counts from the end; 0 if it counts from 1.
    pub from_end: u64,
}

/// Arguments of `spread_pivots`: `out[col_map(j)]` becomes `pivots[j]` for every valid local column j.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct SpreadPivotsArgs {
    /// A row for each local column, as `i64`.
    pub pivots: Address,
    /// The rows by global column, as `i32`; nothing else is written.
    pub out: Address,
    /// Local columns.
    pub cols: u64,
    /// Local column to global column.
    pub col_map: IndexMap,
}

/// Arguments of `places_of_pivots`: where each of n rows ends up after all interchanges.
///
/// For i = 0, 1, …, n − 1 in turn rows i and `pivots[i]` − 1 change places. A pivot outside 1..=n, as a
/// failed factorisation may leave, changes nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PlacesOfPivotsArgs {
    /// Rows counted from 1, as `i32`.
    pub pivots: Address,
    /// The place of each row, as `i32`.
    pub places: Address,
    /// Words in each of the two.
    pub n: u64,
}

/// Arguments of `gather_rows`: row `map(rows[s])` of one row-major matrix becomes row `map(s)` of another for
/// every s < `count` where both are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct GatherRowsArgs {
    /// The matrix to read.
    pub src: Address,
    /// The matrix to write; must not overlap the other.
    pub dst: Address,
    /// Contiguous elements in a row of both.
    pub cols: u64,
    /// Indices below `count`, as `i32`; others are invalid.
    pub rows: Address,
    /// Words in `rows`.
    pub count: u64,
    /// What turns an index into a row of both matrices.
    pub map: IndexMap,
}
