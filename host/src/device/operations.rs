//! Safe, checked ways to launch each kernel.

use super::{Buffer, Device, InPlace, IndexMap, Operation, Share, Triangle};
use crate::{DType, Result};
use meshsolve_kernels::args::{
    AddToDiagonalArgs, ApplyPseudoinverseArgs, ClearOtherTriangleArgs, CombineStatusArgs, ConjugateArgs,
    ConvertArgs, CopyLinesArgs, DiagLogSumArgs, DiagPhaseArgs, Diagonal, FillArgs, FindAnywhereArgs,
    FindNonFiniteArgs, FindZeroDiagonalArgs, GatherRowsArgs, MakeDiagonalRealArgs, PermuteSlotsArgs,
    PhaseToArgs, PlacesOfPivotsArgs, ScaleToArgs, SetIdentityArgs, SpreadPivotsArgs,
};
use std::sync::Arc;

/// A matrix in device memory; which of its two directions is contiguous is said where it is used.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView {
    /// Element type.
    pub dtype: DType,
    /// The memory.
    pub data: Buffer,
    /// Distance of two columns (column-major) or two rows (row-major), in elements.
    pub leading_dimension: u64,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
}

/// A permutation of slots, kept as its cycles of two or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    slots: u32,
    cycles: Arc<[u32]>,
    starts: Arc<[u32]>,
}

impl Permutation {
    /// Slot `i` takes what slot `sources[i]` holds.
    ///
    /// # Panics
    /// If `sources` is not a permutation of `0..sources.len()`.
    pub fn from_sources(sources: &[u32]) -> Self {
        let mut seen = vec![false; sources.len()];
        let (mut cycles, mut starts) = (Vec::new(), vec![0]);
        for start in 0..sources.len() {
            let first = cycles.len();
            let mut at = start;
            while !std::mem::replace(&mut seen[at], true) {
                cycles.push(u32::try_from(at).expect("fewer than 2³² slots"));
                at = sources[at] as usize;
            }
            match cycles.len() - first {
                0 => {}
                _ if at != start => panic!("slot {at} is the source of two slots"),
                1 => cycles.truncate(first),
                _ => starts.push(u32::try_from(cycles.len()).expect("fewer than 2³² slots")),
            }
        }
        let slots = u32::try_from(sources.len()).expect("fewer than 2³² slots");
        Self { slots, cycles: cycles.into(), starts: starts.into() }
    }

    /// The permutation that undoes this one.
    pub fn inverse(&self) -> Self {
        let cycles = (self.starts.windows(2))
            .flat_map(|w| self.cycles[w[0] as usize..w[1] as usize].iter().rev().copied())
            .collect();
        Self { slots: self.slots, cycles, starts: self.starts.clone() }
    }

    /// The slot that each slot takes from.
    pub fn sources(&self) -> Vec<u64> {
        let mut sources: Vec<u64> = (0..u64::from(self.slots)).collect();
        for bounds in self.starts.windows(2) {
            let cycle = &self.cycles[bounds[0] as usize..bounds[1] as usize];
            for (i, &slot) in cycle.iter().enumerate() {
                sources[slot as usize] = u64::from(cycle[(i + 1) % cycle.len()]);
            }
        }
        sources
    }

    /// Whether nothing moves.
    pub fn is_identity(&self) -> bool {
        self.cycles.is_empty()
    }

    /// Slots that change place.
    pub fn moved(&self) -> u64 {
        self.cycles.len() as u64
    }
}

/// Panics unless `lines` lines of `len` elements, `ld` apart, fit into `data`: plans compute
/// geometry, so a misfit is a bug here, never the caller's input.
fn check(what: &str, data: Buffer, size: u64, ld: u64, lines: u64, len: u64) {
    let need = if lines == 0 || len == 0 { 0 } else { ((lines - 1) * ld + len) * size };
    assert!(need <= data.bytes(), "{what} needs {need} bytes, its buffer has {}", data.bytes());
}

impl MatrixView {
    fn check(&self, what: &str) {
        check(what, self.data, self.dtype.size(), self.leading_dimension, self.cols, self.rows);
        assert!(
            self.cols <= 1 || self.leading_dimension >= self.rows,
            "{what}: leading dimension below its rows"
        );
    }

    /// The diagonal entries in here, of a matrix of order `n`.
    fn diagonal(&self, row_map: IndexMap, col_map: IndexMap, n: u64) -> Diagonal {
        self.check("matrix whose diagonal is visited");
        Diagonal {
            buf: self.data.address(),
            ld: self.leading_dimension,
            rows: self.rows,
            cols: self.cols,
            row_map,
            col_map,
            n,
            parts: u64::from(self.dtype.parts()),
        }
    }
}

/// Checks the two sides of a conversion and puts its arguments together.
fn conversion(
    src: &MatrixView,
    dst: &MatrixView,
    column_major: &MatrixView,
    row_major: &MatrixView,
    row_map: IndexMap,
    col_map: IndexMap,
) -> ConvertArgs {
    column_major.check("column-major side of a conversion");
    let MatrixView { dtype, data, leading_dimension, rows, cols } = *row_major;
    check("row-major side of a conversion", data, dtype.size(), leading_dimension, rows, cols);
    assert!(row_map.limit <= rows && col_map.limit <= cols, "index maps reach outside the row-major side");
    ConvertArgs {
        src: src.data.address(),
        dst: dst.data.address(),
        ld_src: src.leading_dimension,
        ld_dst: dst.leading_dimension,
        rows: column_major.rows,
        cols: column_major.cols,
        row_map,
        col_map,
    }
}

impl dyn Device + '_ {
    /// Column-major `dst` from row-major `src`: `dst(i, j) = src(row_map(i), col_map(j))`, zero where
    /// a map is invalid. `src` and `dst` must not overlap.
    pub fn convert_forward(
        &self,
        src: &MatrixView,
        dst: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
    ) -> Result<()> {
        let args = conversion(src, dst, dst, src, row_map, col_map);
        // SAFETY: `conversion` checked that every access stays inside the two buffers.
        unsafe { self.launch(&Operation::ConvertForward(dst.dtype.element_size(), args)) }
    }

    /// Row-major `dst` from column-major `src`: `dst(row_map(i), col_map(j)) = src(i, j)` where both
    /// maps are valid; nothing else is written. `src` and `dst` must not overlap.
    pub fn convert_reverse(
        &self,
        src: &MatrixView,
        dst: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
    ) -> Result<()> {
        let args = conversion(src, dst, src, dst, row_map, col_map);
        // SAFETY: `conversion` checked that every access stays inside the two buffers.
        unsafe { self.launch(&Operation::ConvertReverse(src.dtype.element_size(), args)) }
    }

    /// Turns a full row-major matrix into a column-major one where it stands.
    ///
    /// `scratch` holds the cut segments: more of it, up to [`InPlace::scratch`], means more and shorter
    /// chains. It must hold at least one segment unless the matrix is square. The word `flag`, if given,
    /// becomes 1 if an element is not finite, which costs nothing here.
    pub fn convert_in_place(
        &self,
        dtype: DType,
        data: Buffer,
        matrix: &InPlace,
        scratch: Buffer,
        flag: Option<Buffer>,
    ) -> Result<()> {
        if matrix.is_trivial() {
            return flag.map_or(Ok(()), |flag| self.find_non_finite_anywhere(dtype, data, flag));
        }
        self.transpose_blocks(dtype, data, matrix, flag)?;
        self.move_segments(dtype, data, matrix, scratch, false)
    }

    /// Undoes `convert_in_place`, with the same matrix and as much scratch.
    pub fn restore_in_place(
        &self,
        dtype: DType,
        data: Buffer,
        matrix: &InPlace,
        scratch: Buffer,
    ) -> Result<()> {
        if matrix.is_trivial() {
            return Ok(());
        }
        self.move_segments(dtype, data, matrix, scratch, true)?;
        self.transpose_blocks(dtype, data, matrix, None)
    }

    fn transpose_blocks(
        &self,
        dtype: DType,
        data: Buffer,
        matrix: &InPlace,
        flag: Option<Buffer>,
    ) -> Result<()> {
        check("matrix converted in place", data, dtype.size(), 0, 1, matrix.elements());
        let args = matrix.blocks(dtype.real_type(), data.address(), word_address("flag", flag));
        // SAFETY: the buffer holds the whole matrix, as checked, and the flag a word.
        unsafe { self.launch(&Operation::TransposeBlocks(dtype.element_size(), args)) }
    }

    fn move_segments(
        &self,
        dtype: DType,
        data: Buffer,
        matrix: &InPlace,
        scratch: Buffer,
        reverse: bool,
    ) -> Result<()> {
        check("matrix converted in place", data, dtype.size(), 0, 1, matrix.elements());
        let room = scratch.bytes() / dtype.size();
        let Some(args) = matrix.segments(data.address(), scratch.address(), room, reverse) else {
            return Ok(());
        };
        self.copy_lines(dtype, data, args.stride * args.len, scratch, args.len, args.len, args.cuts())?;
        // SAFETY: the buffer holds all segments; the scratch holds all cuts, which were just copied there.
        unsafe { self.launch(&Operation::MoveSegments(dtype.element_size(), args)) }
    }

    /// Copies `lines` lines of `len` elements, `ld_src` apart in `src` and `ld_dst` apart in `dst`.
    /// The two must not overlap.
    #[expect(clippy::too_many_arguments, reason = "the geometry of a strided copy")]
    pub fn copy_lines(
        &self,
        dtype: DType,
        src: Buffer,
        ld_src: u64,
        dst: Buffer,
        ld_dst: u64,
        len: u64,
        lines: u64,
    ) -> Result<()> {
        self.copy_lines_in(Share::Whole, dtype, src, ld_src, dst, ld_dst, len, lines)
    }

    /// As `copy_lines`, with a share of the device.
    #[expect(clippy::too_many_arguments, reason = "the geometry of a strided copy")]
    pub fn copy_lines_in(
        &self,
        share: Share,
        dtype: DType,
        src: Buffer,
        ld_src: u64,
        dst: Buffer,
        ld_dst: u64,
        len: u64,
        lines: u64,
    ) -> Result<()> {
        check("source of a copy", src, dtype.size(), ld_src, lines, len);
        check("destination of a copy", dst, dtype.size(), ld_dst, lines, len);
        let args = CopyLinesArgs { src: src.address(), dst: dst.address(), ld_src, ld_dst, len, lines };
        // SAFETY: the checks above keep every access inside the two buffers.
        unsafe { self.launch(&Operation::CopyLines(dtype.element_size(), args, share)) }
    }

    /// Permutes slots of `tile` columns of a column-major matrix in place.
    pub fn permute_columns(&self, view: &MatrixView, tile: u64, permutation: &Permutation) -> Result<()> {
        assert_eq!(view.leading_dimension, view.rows.max(1), "slots of columns are contiguous");
        let width = tile * view.rows;
        self.permute(view, permutation, [1, 0, width, width])
    }

    /// Permutes slots of `tile` rows of a column-major matrix in place.
    pub fn permute_rows(&self, view: &MatrixView, tile: u64, permutation: &Permutation) -> Result<()> {
        self.permute(view, permutation, [view.cols, view.leading_dimension, tile, tile])
    }

    fn permute(
        &self,
        view: &MatrixView,
        permutation: &Permutation,
        [lines, line_stride, slot_stride, width]: [u64; 4],
    ) -> Result<()> {
        if permutation.is_identity() || lines == 0 || width == 0 {
            return Ok(());
        }
        let len = (u64::from(permutation.slots) - 1) * slot_stride + width;
        check("matrix with permuted slots", view.data, view.dtype.size(), line_stride, lines, len);
        let args = PermuteSlotsArgs {
            buf: view.data.address(),
            cycles: self.table(&permutation.cycles)?.address(),
            starts: self.table(&permutation.starts)?.address(),
            n_cycles: permutation.starts.len() as u64 - 1,
            lines,
            line_stride,
            slot_stride,
            width,
        };
        // SAFETY: slots are below `permutation.slots`, checked to fit; tables come from this device.
        unsafe { self.launch(&Operation::PermuteSlots(view.dtype.element_size(), args)) }
    }

    /// Writes the identity, by global index, where the row or the column is padding: where `real`, the
    /// maps of rows and columns that are none, is invalid. Does so if the word `guard` (when given) is
    /// not 0. With `places`, an i32 word for each global column, the one of column j is in row `places[j]`.
    pub fn set_identity(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        real: [IndexMap; 2],
        places: Option<Buffer>,
        guard: Option<Buffer>,
    ) -> Result<()> {
        view.check("matrix set to the identity");
        let places = places.map_or(0, |places| {
            check("rows of ones", places, 4, col_map.limit, 1, col_map.limit);
            places.address()
        });
        let args = SetIdentityArgs {
            buf: view.data.address(),
            guard: word_address("guard", guard),
            ld: view.leading_dimension,
            rows: view.rows,
            cols: view.cols,
            row_map,
            col_map,
            row_real: real[0],
            col_real: real[1],
            one: view.dtype.bits(1.0),
            places,
        };
        // SAFETY: the matrix was checked, the guard holds a word, and there is a place for every column.
        unsafe { self.launch(&Operation::SetIdentity(view.dtype.element_size(), args)) }
    }

    /// Zeros (all bits) outside the triangle `kept`, by global index: [`Triangle::Lower`] keeps row ≥ column.
    pub fn clear_other_triangle(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        kept: Triangle,
    ) -> Result<()> {
        view.check("matrix with a triangle to clear");
        let args = ClearOtherTriangleArgs {
            buf: view.data.address(),
            ld: view.leading_dimension,
            rows: view.rows,
            cols: view.cols,
            row_map,
            col_map,
            kept: kept as u64,
        };
        // SAFETY: the matrix was checked.
        unsafe { self.launch(&Operation::ClearOtherTriangle(view.dtype.element_size(), args)) }
    }

    /// Sets all elements of `data` to one value, given by its bits, if the word `guard` (when given)
    /// is not 0.
    pub fn fill(&self, dtype: DType, data: Buffer, value: [u64; 2], guard: Option<Buffer>) -> Result<()> {
        let count = data.bytes() / dtype.size();
        let args = FillArgs { buf: data.address(), guard: word_address("guard", guard), count, value };
        // SAFETY: `count` elements fit into the buffer, the guard holds a word.
        unsafe { self.launch(&Operation::Fill(dtype.element_size(), args)) }
    }

    /// Conjugates all elements of `data`; nothing to do for real types.
    pub fn conjugate(&self, dtype: DType, data: Buffer) -> Result<()> {
        if dtype.parts() == 1 {
            return Ok(());
        }
        let args = ConjugateArgs { buf: data.address(), count: data.bytes() / dtype.size() };
        // SAFETY: `count` elements fit into the buffer.
        unsafe { self.launch(&Operation::Conjugate(dtype.real_type(), args)) }
    }

    /// Sets the word `flag` to 1 if an element of the triangle, by global index, is not finite.
    pub fn find_non_finite(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        triangle: Triangle,
        flag: Buffer,
    ) -> Result<()> {
        view.check("matrix searched for non-finite elements");
        check("flag", flag, 4, 1, 1, 1);
        let args = FindNonFiniteArgs {
            buf: view.data.address(),
            flag: flag.address(),
            ld: view.leading_dimension,
            rows: view.rows,
            cols: view.cols,
            row_map,
            col_map,
            parts: view.dtype.parts(),
            triangle: triangle as u32,
        };
        // SAFETY: the matrix and the flag were checked.
        unsafe { self.launch(&Operation::FindNonFinite(view.dtype.real_type(), args)) }
    }

    /// Sets the word `flag` to 1 if an element of `data` is not finite.
    pub fn find_non_finite_anywhere(&self, dtype: DType, data: Buffer, flag: Buffer) -> Result<()> {
        check("flag", flag, 4, 1, 1, 1);
        let count = data.bytes() / dtype.real().size();
        let args = FindAnywhereArgs { buf: data.address(), flag: flag.address(), count };
        // SAFETY: `count` real numbers fit into the buffer, the flag was checked.
        unsafe { self.launch(&Operation::FindNonFiniteAnywhere(dtype.real_type(), args)) }
    }

    /// Adds `shift`, one element of the matrix's type, to every element with equal global row and column.
    pub fn add_to_diagonal(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        shift: Buffer,
    ) -> Result<()> {
        check("shift", shift, view.dtype.size(), 1, 1, 1);
        let args =
            AddToDiagonalArgs { diagonal: view.diagonal(row_map, col_map, u64::MAX), shift: shift.address() };
        // SAFETY: the matrix and the shift were checked.
        unsafe { self.launch(&Operation::AddToDiagonal(view.dtype.real_type(), args)) }
    }

    /// Sets the imaginary part of every element with equal global row and column to zero; real matrices have none.
    pub fn make_diagonal_real(&self, view: &MatrixView, row_map: IndexMap, col_map: IndexMap) -> Result<()> {
        if view.dtype.parts() == 1 {
            return Ok(());
        }
        let args = MakeDiagonalRealArgs { diagonal: view.diagonal(row_map, col_map, u64::MAX) };
        // SAFETY: the matrix was checked, and is complex.
        unsafe { self.launch(&Operation::MakeDiagonalReal(view.dtype.real_type(), args)) }
    }

    /// Stores n − g in the i32 `word` for the smallest global g < n whose diagonal entry is this device's and
    /// is zero or not finite; 0 if there is none. The largest word of all devices tells the first such g.
    pub fn find_zero_diagonal(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        n: u64,
        word: Buffer,
    ) -> Result<()> {
        check("word", word, 4, 1, 1, 1);
        assert!(i32::try_from(n).is_ok(), "a word holds a row of a matrix of {n} rows");
        let args =
            FindZeroDiagonalArgs { diagonal: view.diagonal(row_map, col_map, n), word: word.address() };
        // SAFETY: the matrix and the word were checked.
        unsafe { self.launch(&Operation::FindZeroDiagonal(view.dtype.real_type(), args)) }
    }

    /// Stores the sum of ln|aᵢᵢ| over this device's diagonal entries in the f64 `out`.
    pub fn diag_log_sum(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        n: u64,
        out: Buffer,
    ) -> Result<()> {
        check("sum", out, 8, 1, 1, 1);
        let args = DiagLogSumArgs { diagonal: view.diagonal(row_map, col_map, n), out: out.address() };
        // SAFETY: the matrix and the result were checked.
        unsafe { self.launch(&Operation::DiagLogSum(view.dtype.real_type(), args)) }
    }

    /// Stores the product of aᵢᵢ / |aᵢᵢ| over this device's diagonal entries, up to a positive factor, in the two
    /// f64 `out`: (1, 0) without entries, zero or NaN if an entry is that.
    ///
    /// `pivots` holds an i64 for each local column: the row, counted from 1, that it was interchanged with.
    /// The product is negated if an odd number of local columns below `n` were interchanged with another row.
    pub fn diag_phase(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        col_map: IndexMap,
        n: u64,
        pivots: Option<Buffer>,
        out: Buffer,
    ) -> Result<()> {
        check("phase", out, 16, 1, 1, 1);
        let pivots = pivots.map_or(0, |pivots| {
            check("pivots", pivots, 8, view.cols, 1, view.cols);
            pivots.address()
        });
        let diagonal = view.diagonal(row_map, col_map, n);
        let args = DiagPhaseArgs { diagonal, pivots, out: out.address() };
        // SAFETY: the matrix, the pivots and the result were checked.
        unsafe { self.launch(&Operation::DiagPhase(view.dtype.real_type(), args)) }
    }

    /// Stores the product of the complex numbers `src`, pairs of f64, divided by its absolute value in the
    /// element `dst` of `dtype`; its real part alone if that is real. Zero stays zero and NaN stays NaN.
    pub fn phase_to(&self, src: Buffer, dtype: DType, dst: Buffer) -> Result<()> {
        check("destination of a phase", dst, dtype.size(), 1, 1, 1);
        let args = PhaseToArgs {
            src: src.address(),
            dst: dst.address(),
            count: src.bytes() / 16,
            parts: dtype.parts().into(),
        };
        // SAFETY: `count` pairs fit into the source, the destination was checked.
        unsafe { self.launch(&Operation::PhaseTo(dtype.real_type(), args)) }
    }

    /// Stores `scale` times the f64 `src` in `dst`, rounded to the real type of `dtype`.
    pub fn scale_to(&self, src: Buffer, scale: f64, dtype: DType, dst: Buffer) -> Result<()> {
        check("source of a scaling", src, 8, 1, 1, 1);
        check("destination of a scaling", dst, dtype.real().size(), 1, 1, 1);
        let args = ScaleToArgs { src: src.address(), dst: dst.address(), scale };
        // SAFETY: both words were checked.
        unsafe { self.launch(&Operation::ScaleTo(dtype.real_type(), args)) }
    }

    /// Multiplies every local row i of a column-major matrix for which `row_map` is valid by f(w), w being the
    /// eigenvalue number `row_map(i)`: f(w) = 1 / w if |w| > c·max(|w₀|, |wₙ₋₁|), and otherwise the row becomes 0.
    /// Other rows are left alone.
    ///
    /// `values` holds the n eigenvalues and nothing else, ascending, in the real type of the matrix; `cutoff`
    /// holds c in the same type. With V·Λ·Vᴴ = A this makes V times the result the pseudoinverse of A times B
    /// from Vᴴ·B.
    pub fn apply_pseudoinverse(
        &self,
        view: &MatrixView,
        row_map: IndexMap,
        values: Buffer,
        cutoff: Buffer,
    ) -> Result<()> {
        view.check("matrix whose rows are scaled");
        let size = view.dtype.real().size();
        check("cutoff", cutoff, size, 1, 1, 1);
        check("eigenvalues", values, size, row_map.limit, 1, row_map.limit);
        let args = ApplyPseudoinverseArgs {
            buf: view.data.address(),
            ld: view.leading_dimension,
            rows: view.rows,
            cols: view.cols,
            row_map,
            values: values.address(),
            n: values.bytes() / size,
            cutoff: cutoff.address(),
            parts: view.dtype.parts().into(),
        };
        // SAFETY: the matrix and the cutoff were checked, and there is an eigenvalue for every valid row.
        unsafe { self.launch(&Operation::ApplyPseudoinverse(view.dtype.real_type(), args)) }
    }

    /// Stores one status made from the words' largest and smallest values over all ranks in `out`:
    /// the first word that is not zero decides, −1 if it is word 0. A positive one, a row of the
    /// solver's matrix counted from 1, becomes the row of the caller's that `map` tells. With
    /// `from_end` = n a positive word 1 is n − g, as `find_zero_diagonal` stores it for row g.
    pub fn combine_status(
        &self,
        max: Buffer,
        min: Buffer,
        out: Buffer,
        map: IndexMap,
        from_end: Option<u64>,
    ) -> Result<()> {
        assert_eq!(max.bytes(), min.bytes(), "as many largest as smallest values");
        check("status", out, 4, 1, 1, 1);
        let args = CombineStatusArgs {
            max: max.address(),
            min: min.address(),
            out: out.address(),
            count: max.bytes() / 4,
            map,
            from_end: from_end.unwrap_or(0),
        };
        // SAFETY: all words were checked.
        unsafe { self.launch(&Operation::CombineStatus(args)) }
    }

    /// Stores the i64 `pivots[j]` in the i32 word `out[col_map(j)]` for every valid local column j; nothing
    /// else is written.
    pub fn spread_pivots(&self, pivots: Buffer, col_map: IndexMap, out: Buffer) -> Result<()> {
        check("pivots of all columns", out, 4, col_map.limit, 1, col_map.limit);
        let args = SpreadPivotsArgs {
            pivots: pivots.address(),
            out: out.address(),
            cols: pivots.bytes() / 8,
            col_map,
        };
        // SAFETY: there is a word for every valid result of the map, and `cols` pivots.
        unsafe { self.launch(&Operation::SpreadPivots(args)) }
    }

    /// Stores in `places` where each of n rows ends up if for i ascending rows i and `pivots[i]` − 1 change
    /// places. Both are n words of i32; a pivot outside 1..=n changes nothing.
    pub fn places_of_pivots(&self, pivots: Buffer, places: Buffer) -> Result<()> {
        assert_eq!(pivots.bytes(), places.bytes(), "as many pivots as rows");
        let args =
            PlacesOfPivotsArgs { pivots: pivots.address(), places: places.address(), n: places.bytes() / 4 };
        // SAFETY: there are n words of both.
        unsafe { self.launch(&Operation::PlacesOfPivots(args)) }
    }

    /// Copies row `map(rows[s])` of `src` to row `map(s)` of `dst` for every s below the number of i32 words
    /// in `rows`, where both are valid. The two are row-major with `cols` columns on end and must not overlap.
    pub fn gather_rows(
        &self,
        dtype: DType,
        src: Buffer,
        dst: Buffer,
        cols: u64,
        rows: Buffer,
        map: IndexMap,
    ) -> Result<()> {
        check("source of rows", src, dtype.size(), cols, map.limit, cols);
        check("destination of rows", dst, dtype.size(), cols, map.limit, cols);
        let args = GatherRowsArgs {
            src: src.address(),
            dst: dst.address(),
            cols,
            rows: rows.address(),
            count: rows.bytes() / 4,
            map,
        };
        // SAFETY: both matrices have every row that the map gives.
        unsafe { self.launch(&Operation::GatherRows(dtype.element_size(), args)) }
    }
}

/// The address of a word, null if there is none.
fn word_address(what: &str, word: Option<Buffer>) -> u64 {
    word.map_or(0, |word| {
        check(what, word, 4, 1, 1, 1);
        word.address()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_of_a_permutation() {
        let p = Permutation::from_sources(&[2, 1, 3, 0, 5, 4]);
        assert_eq!(&*p.cycles, [0, 2, 3, 4, 5]);
        assert_eq!(&*p.starts, [0, 3, 5]);
        assert_eq!(p.moved(), 5);
        assert!(Permutation::from_sources(&[0, 1, 2]).is_identity());
    }

    #[test]
    #[should_panic(expected = "source of two slots")]
    fn not_a_permutation() {
        Permutation::from_sources(&[1, 2, 1]);
    }
}
