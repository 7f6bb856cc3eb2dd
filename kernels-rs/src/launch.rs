//! Calls of the kernels: name, geometry and arguments, decided here and nowhere else.
//!
//! All functions are pure. A call whose grid is empty ([`Call::is_empty`]) has nothing to do and must
//! not be launched: drivers refuse empty grids.

use crate::args::*;

/// Threads in a block, for every kernel that runs more than one.
pub const THREADS: u32 = 256;

/// Most blocks in a grid; a kernel with more work loops over it.
const MAX_BLOCKS: u64 = 1 << 20;

/// Edge of the square tiles that `transpose_blocks` swaps.
pub(crate) const SWAP_EDGE: u32 = 32;

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
    fn pick(self, names: [&'static str; 2]) -> &'static str {
        names[self as usize]
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

/// Bytes of a square tile in shared memory; one more column keeps banks from conflicting.
pub(crate) const fn tile_bytes(edge: u32, size: ElementSize) -> u32 {
    edge * (edge + 1) * size.bytes()
}

fn convert(kernel: &'static str, size: ElementSize, args: ConvertArgs) -> Call<ConvertArgs> {
    let edge = convert_edge(size);
    let tiles = ceil_div(args.rows, edge.into()) * ceil_div(args.cols, edge.into());
    // The tile and one index for each of its rows and columns.
    let shared_bytes = tile_bytes(edge, size) + 2 * edge * 8;
    Call { kernel, geometry: Geometry::blocks(tiles, shared_bytes), args }
}

/// Row-major to column-major, out of place.
pub fn convert_forward(size: ElementSize, args: ConvertArgs) -> Call<ConvertArgs> {
    convert(size.pick(["convert_forward_b4", "convert_forward_b8", "convert_forward_b16"]), size, args)
}

/// Column-major to row-major, out of place.
pub fn convert_reverse(size: ElementSize, args: ConvertArgs) -> Call<ConvertArgs> {
    convert(size.pick(["convert_reverse_b4", "convert_reverse_b8", "convert_reverse_b16"]), size, args)
}

/// Transposes every g × g block of a row-major matrix where it stands.
pub fn transpose_blocks(size: ElementSize, args: InPlaceArgs) -> Call<InPlaceArgs> {
    let tiles = ceil_div(args.g, SWAP_EDGE.into());
    Call {
        kernel: size.pick(["transpose_blocks_b4", "transpose_blocks_b8", "transpose_blocks_b16"]),
        geometry: Geometry::blocks(args.p * args.q * tiles * tiles, 2 * tile_bytes(SWAP_EDGE, size)),
        args,
    }
}

/// Copies the cut segments to scratch.
pub fn save_cuts(size: ElementSize, args: InPlaceArgs) -> Call<InPlaceArgs> {
    Call {
        kernel: size.pick(["save_cuts_b4", "save_cuts_b8", "save_cuts_b16"]),
        geometry: Geometry::lines(args.g, args.cuts(), 1),
        args,
    }
}

/// Moves every segment on a cycle with a cut; after [`save_cuts`].
pub fn move_chains(size: ElementSize, args: InPlaceArgs) -> Call<InPlaceArgs> {
    Call {
        kernel: size.pick(["move_chains_b4", "move_chains_b8", "move_chains_b16"]),
        geometry: Geometry::lines(args.g, args.cuts(), 1),
        args,
    }
}

/// Moves every segment on a cycle without a cut; before or after [`move_chains`].
pub fn move_cycles(size: ElementSize, args: InPlaceArgs) -> Call<InPlaceArgs> {
    Call {
        kernel: size.pick(["move_cycles_b4", "move_cycles_b8", "move_cycles_b16"]),
        // One thread looks at one segment, leaves a flag for its block, and moves one element.
        geometry: Geometry::blocks(
            ceil_div(args.segments(), THREADS.into()) * ceil_div(args.g, THREADS.into()),
            THREADS * 4,
        ),
        args,
    }
}

/// Copies lines, in accesses of 16 bytes where everything is aligned to that.
pub fn copy_lines(size: ElementSize, args: CopyLinesArgs) -> Call<CopyLinesArgs> {
    let wide = size.elements_in_a_wide_one(&[args.src, args.dst], &[args.ld_src, args.ld_dst, args.len]);
    let size = if wide > 1 { ElementSize::B16 } else { size };
    let args = CopyLinesArgs {
        ld_src: args.ld_src / wide,
        ld_dst: args.ld_dst / wide,
        len: args.len / wide,
        ..args
    };
    Call {
        kernel: size.pick(["copy_lines_b4", "copy_lines_b8", "copy_lines_b16"]),
        geometry: Geometry::lines(args.len, args.lines, 1),
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

/// Sets elements to one value.
pub fn fill(size: ElementSize, args: FillArgs) -> Call<FillArgs> {
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

/// Sums the logarithms of the device's own diagonal entries.
pub fn diag_log_sum(real: RealType, args: DiagLogSumArgs) -> Call<DiagLogSumArgs> {
    Call {
        kernel: real.pick(["diag_log_sum_f32", "diag_log_sum_f64"]),
        geometry: Geometry::blocks(1, THREADS * 8),
        args,
    }
}

/// Scales one f64 into the result's type.
pub fn scale_to(real: RealType, args: ScaleToArgs) -> Call<ScaleToArgs> {
    Call { kernel: real.pick(["scale_to_f32", "scale_to_f64"]), geometry: Geometry::ONE_THREAD, args }
}

/// Makes one status of the reduced words.
pub fn combine_status(args: CombineStatusArgs) -> Call<CombineStatusArgs> {
    Call { kernel: "combine_status", geometry: Geometry::ONE_THREAD, args }
}
