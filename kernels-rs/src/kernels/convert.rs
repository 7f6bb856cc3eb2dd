//! Row-major to column-major and back, out of place, through tiles in shared memory.

use super::carrier::Carrier;
use super::tile::{Lines, Plain, Tile, is_aligned};
use super::work::{INVALID, for_each_item, map_below, split};
use crate::args::{ConvertArgs, ceil_div};
use crate::launch::{convert_edge, tile_bytes};
use cuda_std::shared::SharedMem;
use cuda_std::thread::{sync_threads, thread_idx_x};

/// Rows and columns of the row-major matrix that a tile of the column-major one maps to, in shared memory.
struct Mapped {
    /// Offset of the row-major row for each row of the tile.
    line_of: SharedMem<u64>,
    /// Row-major column for each column of the tile.
    col_of: SharedMem<u64>,
    aligned: bool,
}

impl Mapped {
    /// The tables for tiles of `edge`, at `byte_offset` in shared memory, for a matrix at `address` with
    /// leading dimension `ld`.
    #[inline(always)]
    fn new<T: Carrier>(byte_offset: u32, edge: u32, address: u64, ld: u64) -> Self {
        let table = |at: u32| SharedMem::dynamic(byte_offset + at * edge * 8);
        let aligned = is_aligned::<T>(address, ld);
        Self { line_of: table(0), col_of: table(1), aligned }
    }

    /// Fills the tables for the tile at `first`. A barrier must follow.
    #[inline(always)]
    unsafe fn fill(&self, args: &ConvertArgs, edge: u32, ld: u64, first: (u64, u64)) {
        let t = thread_idx_x();
        // SAFETY: there are more threads than entries, and each writes its own.
        unsafe {
            if t < edge {
                let row = map_below(&args.row_map, first.0 + u64::from(t), args.rows);
                self.line_of.write(t, if row == INVALID { INVALID } else { row * ld });
            } else if t < 2 * edge {
                let col = map_below(&args.col_map, first.1 + u64::from(t - edge), args.cols);
                self.col_of.write(t - edge, col);
            }
        }
    }
}

impl<T: Carrier> Lines<T> for Mapped {
    #[inline(always)]
    fn aligned(&self) -> bool {
        self.aligned
    }

    #[inline(always)]
    fn has_lines(&self, line: u32, count: u32) -> bool {
        (line..line + count).all(|line| Lines::<T>::line(self, line) != INVALID)
    }

    #[inline(always)]
    fn line(&self, line: u32) -> u64 {
        // SAFETY: inside the tile; filled before a barrier. So is the other.
        unsafe { self.line_of.read(line) }
    }

    #[inline(always)]
    fn element(&self, at: u32) -> u64 {
        // SAFETY: see `line`.
        unsafe { self.col_of.read(at) }
    }

    #[inline(always)]
    fn vector(&self, at: u32) -> u64 {
        let wide = 16 / T::SIZE.bytes();
        let col = |k: u32| Lines::<T>::element(self, at * wide + k);
        let start = col(0);
        let next_to_each_other = (1..wide).all(|k| col(k) == start.wrapping_add(k.into()));
        if next_to_each_other && start % u64::from(wide) == 0 { start } else { INVALID }
    }
}

/// Calls `work` with the first row and column of each of the block's tiles, going down the columns of the
/// column-major matrix, and with the tile's columns.
#[inline(always)]
fn for_each_tile<T: Carrier>(
    args: &ConvertArgs,
    (edge, address, ld): (u32, u64, u64),
    mut work: impl FnMut((u64, u64), Plain),
) {
    let edge = u64::from(edge);
    let down = ceil_div(args.rows, edge);
    let aligned = is_aligned::<T>(address, ld);
    for_each_item(down * ceil_div(args.cols, edge), |item| {
        let (i, j) = split(item, down);
        let first = (i * edge, j * edge);
        let columns = Plain { ld, extent: (args.cols, args.rows), first: (first.1, first.0), aligned };
        work(first, columns);
    });
}

/// See [`ConvertArgs`]. `EDGE` must be [`convert_edge`].
#[inline(always)]
pub(crate) unsafe fn forward<T: Carrier, const EDGE: u32>(args: &ConvertArgs) {
    const { assert!(EDGE == convert_edge(T::SIZE)) };
    let (src, dst) = (args.src as *const T, args.dst as *mut T);
    let tile = Tile::<T, EDGE>::dynamic(0);
    let rows = Mapped::new::<T>(tile_bytes(EDGE, T::SIZE), EDGE, args.src, args.ld_src);
    for_each_tile::<T>(args, (EDGE, args.dst, args.ld_dst), |first, columns| {
        // SAFETY: offsets that exist are inside the matrices, by the arguments' contract; the tile is
        // written between the two barriers and read after the second, before the first of the next tile.
        unsafe {
            rows.fill(args, EDGE, args.ld_src, first);
            sync_threads();
            tile.put(Tile::<T, EDGE>::load(src, &rows), src, &rows, |_| {});
            sync_threads();
            tile.store(dst, &columns);
        }
    });
}

/// See [`ConvertArgs`]. `EDGE` must be [`convert_edge`].
#[inline(always)]
pub(crate) unsafe fn reverse<T: Carrier, const EDGE: u32>(args: &ConvertArgs) {
    const { assert!(EDGE == convert_edge(T::SIZE)) };
    let (src, dst) = (args.src as *const T, args.dst as *mut T);
    let tile = Tile::<T, EDGE>::dynamic(0);
    let rows = Mapped::new::<T>(tile_bytes(EDGE, T::SIZE), EDGE, args.dst, args.ld_dst);
    for_each_tile::<T>(args, (EDGE, args.src, args.ld_src), |first, columns| {
        // SAFETY: offsets as in `forward`; the tile and the tables are written before the first barrier
        // and read between the two.
        unsafe {
            rows.fill(args, EDGE, args.ld_dst, first);
            tile.put(Tile::<T, EDGE>::load(src, &columns), src, &columns, |_| {});
            sync_threads();
            tile.store(dst, &rows);
            sync_threads();
        }
    });
}
