//! Calls of the kernels: name, geometry and arguments, decided here and nowhere else.
//!
//! All functions are pure. A call whose grid is empty ([`Call::is_empty`]) has nothing to do and must
//! not be launched: drivers refuse empty grids.

use crate::args::*;

/// Threads in a block, for every kernel that runs more than one.
pub const THREADS: u32 = 256;

/// Most blocks in a grid; a kernel with more work loops over it.
const MAX_BLOCKS: u64 = 1 << 20;

/// Most blocks of a copy that runs beside an exchange: fewer than any data centre GPU has multiprocessors, for
/// an exchange needs some for itself. Between two H200s 48 and 64 blocks copied slower than the link carried,
/// and with 96 the exchange took longer.
const PART_BLOCKS: u64 = 80;

/// Threads of such a block in units of [`THREADS`], so that few blocks have enough under way: with one the
/// copies took longer than the exchange, with four they held it up.
const PART_THREADS: u32 = 2;

/// Vectors of 16 bytes that a thread carries of a tile.
pub(crate) const TILE_VECTORS: u32 = 4;

/// Elements that a thread of `copy_lines` copies at a time: of one line, or of several. A power of two.
pub(crate) const COPIED: u64 = 4;

/// Elements of a segment that a thread of `move_segments` moves.
pub(crate) const PER_LINE: u32 = 4;

/// Columns that a block of [`THREADS`] rows visits in the kernels that look at global indices.
pub(crate) const STRIP_COLS: u32 = 32;

/// Bytes of an element as far as moving it is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementSize {
    /// 4 bytes: f32.
    B4,
    /// 8 bytes: f64 and complex f32.
    B8,
    /// 16 bytes: complex f64.
    B16,
}

impl ElementSize {
    /// All sizes.
    pub const ALL: [Self; 3] = [Self::B4, Self::B8, Self::B16];

    /// The size of so many bytes, if there is one.
    pub const fn from_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            4 => Some(Self::B4),
            8 => Some(Self::B8),
            16 => Some(Self::B16),
            _ => None,
        }
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B4 => 4,
            Self::B8 => 8,
            Self::B16 => 16,
        }
    }

    fn pick(self, names: [&'static str; 3]) -> &'static str {
        names[self as usize]
    }

    /// How many elements make 16 bytes, if all these addresses and distances are multiples of that;
    /// otherwise 1.
    fn elements_in_a_wide_one(self, addresses: &[Address], distances: &[u64]) -> u64 {
        let elements = u64::from(16 / self.bytes());
        let aligned = addresses.iter().all(|address| address % 16 == 0)
            && distances.iter().all(|distance| distance % elements == 0);
        if aligned { elements } else { 1 }
    }
}

/// The real type of the kernels that compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealType {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl RealType {
    /// The exponents of the numbers in 64 bits, as masks. A number is not finite if all bits of its
    /// exponent are set.
    pub const fn exponents(self) -> [u64; 2] {
        match self {
            Self::F32 => [0x7F80_0000, 0x7F80_0000 << 32],
            Self::F64 => [0x7FF0 << 48; 2],
        }
    }

    fn pick(self, names: [&'static str; 2]) -> &'static str {
        names[self as usize]
    }
}

/// How much of a device a copy may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Whole,
    /// A part that leaves multiprocessors, and most of the memory's bandwidth, to an exchange that runs
    /// beside the copy.
    Part,
}

impl Share {
    /// Most blocks of a grid.
    const fn blocks(self) -> u64 {
        match self {
            Self::Whole => MAX_BLOCKS,
            Self::Part => PART_BLOCKS,
        }
    }

    /// Threads of a block, in units of [`THREADS`].
    const fn threads(self) -> u32 {
        match self {
            Self::Whole => 1,
            Self::Part => PART_THREADS,
        }
    }
}

/// Blocks, threads and shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

impl Geometry {
    /// Blocks of [`THREADS`] threads, one for each of `items` pieces of work as far as grids go.
    fn blocks(items: u64, shared_bytes: u32) -> Self {
        Self { grid: [items.min(MAX_BLOCKS) as u32, 1, 1], block: [THREADS, 1, 1], shared_bytes }
    }

    /// A single thread.
    const ONE_THREAD: Self = Self { grid: [1, 1, 1], block: [1, 1, 1], shared_bytes: 0 };

    /// Blocks of `x × y` threads for lines of `len` elements, so that short lines do not leave most of a
    /// block idle; `copies` such jobs side by side.
    fn lines(len: u64, lines: u64, copies: u64) -> Self {
        let x = len.next_power_of_two().min(u64::from(THREADS)) as u32;
        let y = THREADS / x;
        let items = ceil_div(len, u64::from(x)) * ceil_div(lines, u64::from(y)) * copies;
        Self { block: [x, y, 1], ..Self::blocks(items, 0) }
    }
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<A> {
    /// Name of the entry point in the PTX.
    pub kernel: &'static str,
    /// Geometry of the launch.
    pub geometry: Geometry,
    /// The kernel's only argument, passed by value.
    pub args: A,
}

impl<A> Call<A> {
    /// Whether there is nothing to do, so that no launch must be made.
    pub fn is_empty(&self) -> bool {
        self.geometry.grid.contains(&0)
    }
}

/// Edge of the tiles that a conversion carries through shared memory.
pub(crate) const fn convert_edge(size: ElementSize) -> u32 {
    match size {
        ElementSize::B4 => 64,
        ElementSize::B8 | ElementSize::B16 => 32,
    }
}

/// Edge of the tiles that `transpose_blocks` swaps. A block holds two.
pub(crate) const fn swap_edge(size: ElementSize) -> u32 {
    convert_edge(size)
}

/// Bytes of a square tile in shared memory.
pub(crate) const fn tile_bytes(edge: u32, size: ElementSize) -> u32 {
    edge * edge * size.bytes()
}

/// Threads that carry a square tile, [`TILE_VECTORS`] vectors each.
pub(crate) const fn tile_threads(edge: u32, size: ElementSize) -> u32 {
    tile_bytes(edge, size) / (16 * TILE_VECTORS)
}

fn convert(kernel: &'static str, size: ElementSize, args: ConvertArgs) -> Call<ConvertArgs> {
    let edge = convert_edge(size);
    let tiles = ceil_div(args.rows, edge.into()) * ceil_div(args.cols, edge.into());
    // The tile, and an offset for each of its rows and columns.
    let shared_bytes = tile_bytes(edge, size) + 2 * edge * 8;
    let block = [tile_threads(edge, size), 1, 1];
    Call { kernel, geometry: Geometry { block, ..Geometry::blocks(tiles, shared_bytes) }, args }
}

/// Row-major to column-major, out of place.
pub fn convert_forward(size: ElementSize, args: ConvertArgs) -> Call<ConvertArgs> {
    convert(size.pick(["convert_forward_b4", "convert_forward_b8", "convert_forward_b16"]), size, args)
}

/// Column-major to row-major, out of place.
pub fn convert_reverse(size: ElementSize, args: ConvertArgs) -> Call<ConvertArgs> {
    convert(size.pick(["convert_reverse_b4", "convert_reverse_b8", "convert_reverse_b16"]), size, args)
}

/// Swaps of two tiles, or of one with itself, in a g × g block, a few empty ones included.
#[inline(always)]
pub(crate) const fn swaps(g: u64, edge: u32) -> u64 {
    let half = ceil_div(g, 2 * edge as u64);
    half * (2 * half + 1)
}

/// Transposes every g × g block of a row-major matrix where it stands.
pub fn transpose_blocks(size: ElementSize, args: TransposeBlocksArgs) -> Call<TransposeBlocksArgs> {
    let edge = swap_edge(size);
    let items = args.p * args.q * swaps(args.g, edge);
    let block = [tile_threads(edge, size), 1, 1];
    Call {
        kernel: size.pick(["transpose_blocks_b4", "transpose_blocks_b8", "transpose_blocks_b16"]),
        geometry: Geometry { block, ..Geometry::blocks(items, 2 * tile_bytes(edge, size)) },
        args,
    }
}

/// Segments among which a block of `rows` rows of threads looks for the beginnings of chains.
#[inline(always)]
pub(crate) const fn segment_group(rows: u32) -> u32 {
    if rows > 16 { rows } else { 16 }
}

/// Moves segments in place, in accesses of 16 bytes where everything is aligned to that.
pub fn move_segments(size: ElementSize, args: MoveSegmentsArgs) -> Call<MoveSegmentsArgs> {
    let wide = size.elements_in_a_wide_one(&[args.buf, args.scratch], &[args.len]);
    let size = if wide > 1 { ElementSize::B16 } else { size };
    let args = MoveSegmentsArgs { len: args.len / wide, ..args };
    let x = ceil_div(args.len, PER_LINE.into()).next_power_of_two().min(THREADS.into()) as u32;
    let y = ceil_div(64, x.into()) as u32;
    let group = segment_group(y);
    let pieces = ceil_div(args.len, u64::from(x * PER_LINE));
    let items = ceil_div(args.segments(), group.into()) * pieces;
    Call {
        kernel: size.pick(["move_segments_b4", "move_segments_b8", "move_segments_b16"]),
        geometry: Geometry { block: [x, y, 1], ..Geometry::blocks(items, group * 4) },
        args,
    }
}

/// How many of the [`COPIED`] elements of a thread of `copy_lines` are on one line, where `x` threads go
/// along a line of `len` elements: no more than it has. A power of two.
#[inline(always)]
pub(crate) const fn copied_of_line(len: u64, x: u64) -> u64 {
    match ceil_div(len, x) {
        0 | 1 => 1,
        2 => 2,
        _ => COPIED,
    }
}

/// Copies lines, in accesses of 16 bytes where everything is aligned to that.
pub fn copy_lines(size: ElementSize, args: CopyLinesArgs, share: Share) -> Call<CopyLinesArgs> {
    let wide = size.elements_in_a_wide_one(&[args.src, args.dst], &[args.ld_src, args.ld_dst, args.len]);
    let size = if wide > 1 { ElementSize::B16 } else { size };
    let args = CopyLinesArgs {
        ld_src: args.ld_src / wide,
        ld_dst: args.ld_dst / wide,
        len: args.len / wide,
        ..args
    };
    let [x, rows, z] = Geometry::lines(args.len, args.lines, 1).block;
    let block = [x, rows * share.threads(), z];
    let (x, y) = (u64::from(block[0]), u64::from(block[1]));
    let along = copied_of_line(args.len, x);
    let (width, height) = (x * along, y * (COPIED / along));
    let items = ceil_div(args.len, width) * ceil_div(args.lines, height);
    Call {
        kernel: size.pick(["copy_lines_b4", "copy_lines_b8", "copy_lines_b16"]),
        geometry: Geometry { block, ..Geometry::blocks(items.min(share.blocks()), 0) },
        args,
    }
}

/// Permutes slots in place, in accesses of 16 bytes where everything is aligned to that.
pub fn permute_slots(size: ElementSize, args: PermuteSlotsArgs) -> Call<PermuteSlotsArgs> {
    let wide = size.elements_in_a_wide_one(&[args.buf], &[args.line_stride, args.slot_stride, args.width]);
    let size = if wide > 1 { ElementSize::B16 } else { size };
    let args = PermuteSlotsArgs {
        line_stride: args.line_stride / wide,
        slot_stride: args.slot_stride / wide,
        width: args.width / wide,
        ..args
    };
    Call {
        kernel: size.pick(["permute_slots_b4", "permute_slots_b8", "permute_slots_b16"]),
        geometry: Geometry::lines(args.width, args.lines, args.n_cycles),
        args,
    }
}

/// Geometry of the kernels that visit a matrix in strips of [`THREADS`] rows and [`STRIP_COLS`] columns.
fn strips(rows: u64, cols: u64) -> Geometry {
    let strips = ceil_div(rows, THREADS.into()) * ceil_div(cols, STRIP_COLS.into());
    Geometry::blocks(strips, STRIP_COLS * 8)
}

/// Writes the identity into the padding of a column-major matrix.
pub fn set_identity(size: ElementSize, args: SetIdentityArgs) -> Call<SetIdentityArgs> {
    Call {
        kernel: size.pick(["set_identity_b4", "set_identity_b8", "set_identity_b16"]),
        geometry: strips(args.rows, args.cols),
        args,
    }
}

/// Clears one triangle of a column-major matrix.
pub fn clear_other_triangle(size: ElementSize, args: ClearOtherTriangleArgs) -> Call<ClearOtherTriangleArgs> {
    Call {
        kernel: size.pick(["clear_other_triangle_b4", "clear_other_triangle_b8", "clear_other_triangle_b16"]),
        geometry: strips(args.rows, args.cols),
        args,
    }
}

/// Sets elements to one value, in accesses of 16 bytes where everything is aligned to that.
pub fn fill(size: ElementSize, args: FillArgs) -> Call<FillArgs> {
    let wide = size.elements_in_a_wide_one(&[args.buf], &[args.count]);
    let value = match size {
        ElementSize::B4 => [args.value[0] & 0xFFFF_FFFF | args.value[0] << 32; 2],
        ElementSize::B8 => [args.value[0]; 2],
        ElementSize::B16 => args.value,
    };
    let size = if wide > 1 { ElementSize::B16 } else { size };
    let args = FillArgs { count: args.count / wide, value, ..args };
    Call {
        kernel: size.pick(["fill_b4", "fill_b8", "fill_b16"]),
        geometry: Geometry::blocks(ceil_div(args.count, THREADS.into()), 0),
        args,
    }
}

/// Conjugates complex numbers in place.
pub fn conjugate(real: RealType, args: ConjugateArgs) -> Call<ConjugateArgs> {
    Call {
        kernel: real.pick(["conjugate_f32", "conjugate_f64"]),
        geometry: Geometry::blocks(ceil_div(args.count, THREADS.into()), 0),
        args,
    }
}

/// Looks for elements that are not finite.
pub fn find_non_finite(real: RealType, args: FindNonFiniteArgs) -> Call<FindNonFiniteArgs> {
    Call {
        kernel: real.pick(["find_non_finite_f32", "find_non_finite_f64"]),
        geometry: strips(args.rows, args.cols),
        args,
    }
}

/// Vectors of 16 bytes that a thread of `find_non_finite_anywhere` reads before it looks at the first.
pub(crate) const SEARCHED: u64 = 4;

/// Looks for numbers that are not finite in contiguous memory.
pub fn find_non_finite_anywhere(real: RealType, args: FindAnywhereArgs) -> Call<FindAnywhereArgs> {
    Call {
        kernel: real.pick(["find_non_finite_anywhere_f32", "find_non_finite_anywhere_f64"]),
        geometry: Geometry::blocks(ceil_div(args.count, u64::from(THREADS) * SEARCHED), 0),
        args,
    }
}

/// Adds a number to the device's own diagonal entries.
pub fn add_to_diagonal(real: RealType, args: AddToDiagonalArgs) -> Call<AddToDiagonalArgs> {
    Call {
        kernel: real.pick(["add_to_diagonal_f32", "add_to_diagonal_f64"]),
        geometry: Geometry::blocks(ceil_div(args.diagonal.cols, THREADS.into()), 0),
        args,
    }
}

/// Drops the imaginary parts of the device's own diagonal entries.
pub fn make_diagonal_real(real: RealType, args: MakeDiagonalRealArgs) -> Call<MakeDiagonalRealArgs> {
    Call {
        kernel: real.pick(["make_diagonal_real_f32", "make_diagonal_real_f64"]),
        geometry: Geometry::blocks(ceil_div(args.diagonal.cols, THREADS.into()), 0),
        args,
    }
}

/// One block that combines a value of so many bytes from each thread.
fn combining(bytes: u32) -> Geometry {
    Geometry::blocks(1, THREADS * bytes)
}

/// Looks for the first of the device's own diagonal entries that is zero or not finite.
pub fn find_zero_diagonal(real: RealType, args: FindZeroDiagonalArgs) -> Call<FindZeroDiagonalArgs> {
    Call {
        kernel: real.pick(["find_zero_diagonal_f32", "find_zero_diagonal_f64"]),
        geometry: combining(8),
        args,
    }
}

/// Sums the logarithms of the device's own diagonal entries.
pub fn diag_log_sum(real: RealType, args: DiagLogSumArgs) -> Call<DiagLogSumArgs> {
    Call { kernel: real.pick(["diag_log_sum_f32", "diag_log_sum_f64"]), geometry: combining(8), args }
}

/// Multiplies the phases of the device's own diagonal entries.
pub fn diag_phase(real: RealType, args: DiagPhaseArgs) -> Call<DiagPhaseArgs> {
    Call { kernel: real.pick(["diag_phase_f32", "diag_phase_f64"]), geometry: combining(16), args }
}

/// Multiplies the phases of all devices.
pub fn phase_to(real: RealType, args: PhaseToArgs) -> Call<PhaseToArgs> {
    Call { kernel: real.pick(["phase_to_f32", "phase_to_f64"]), geometry: Geometry::ONE_THREAD, args }
}

/// Scales one f64 into the result's type.
pub fn scale_to(real: RealType, args: ScaleToArgs) -> Call<ScaleToArgs> {
    Call { kernel: real.pick(["scale_to_f32", "scale_to_f64"]), geometry: Geometry::ONE_THREAD, args }
}

/// Multiplies rows by the inverses of the eigenvalues that are not cut.
pub fn apply_pseudoinverse(real: RealType, args: ApplyPseudoinverseArgs) -> Call<ApplyPseudoinverseArgs> {
    Call {
        kernel: real.pick(["apply_pseudoinverse_f32", "apply_pseudoinverse_f64"]),
        geometry: strips(args.rows, args.cols),
        args,
    }
}

/// Makes one status of the reduced words.
pub fn combine_status(args: CombineStatusArgs) -> Call<CombineStatusArgs> {
    Call { kernel: "combine_status", geometry: Geometry::ONE_THREAD, args }
}

/// Puts a device's own pivots at their global indices.
pub fn spread_pivots(args: SpreadPivotsArgs) -> Call<SpreadPivotsArgs> {
    Call { kernel: "spread_pivots", geometry: Geometry::blocks(ceil_div(args.cols, THREADS.into()), 0), args }
}

/// Makes a permutation of interchanges.
pub fn places_of_pivots(args: PlacesOfPivotsArgs) -> Call<PlacesOfPivotsArgs> {
    Call { kernel: "places_of_pivots", geometry: Geometry::blocks(ceil_div(args.n, THREADS.into()), 0), args }
}

/// Permutes rows from one matrix to another, in accesses of 16 bytes where everything is aligned to that.
pub fn gather_rows(size: ElementSize, args: GatherRowsArgs) -> Call<GatherRowsArgs> {
    let wide = size.elements_in_a_wide_one(&[args.src, args.dst], &[args.cols]);
    let size = if wide > 1 { ElementSize::B16 } else { size };
    let args = GatherRowsArgs { cols: args.cols / wide, ..args };
    Call {
        kernel: size.pick(["gather_rows_b4", "gather_rows_b8", "gather_rows_b16"]),
        geometry: Geometry::lines(args.cols, args.count, 1),
        args,
    }
}
