//! Row-major to column-major and back, out of place, through tiles in shared memory.

use super::carrier::Carrier;
use super::work::{INVALID, for_each_item, map_below, split};
use crate::args::{ConvertArgs, ceil_div};
use crate::launch::{THREADS, convert_edge, tile_bytes};
use cuda_std::shared::SharedMem;
use cuda_std::thread::{sync_threads, thread_idx_x};

/// Values a thread loads before it stores the first, so that several loads are on their way at once.
const BATCH: u32 = 4;

/// A tile of the column-major matrix on its way through shared memory.
struct Tile<T> {
    /// Element (i, j) at i·(edge + 1) + j.
    elements: SharedMem<T>,
    /// Row of the row-major matrix for each row of the tile.
    row_of: SharedMem<u64>,
    /// Column of the row-major matrix for each column of the tile.
    col_of: SharedMem<u64>,
    /// First row and column of the tile.
    first: (u64, u64),
}

impl<T: Carrier> Tile<T> {
    const EDGE: u32 = convert_edge(T::SIZE);

    /// Maps the rows and columns of the tile at `first`. A barrier must follow.
    #[inline(always)]
    unsafe fn new(args: &ConvertArgs, first: (u64, u64)) -> Self {
        let edge = Self::EDGE;
        let maps_at = tile_bytes(edge, T::SIZE);
        let tile = Self {
            elements: SharedMem::dynamic(0),
            row_of: SharedMem::dynamic(maps_at),
            col_of: SharedMem::dynamic(maps_at + edge * 8),
            first,
        };
        let t = thread_idx_x();
        // SAFETY: 2·edge ≤ THREADS threads write one index each.
        unsafe {
            if t < edge {
                tile.row_of.write(t, map_below(&args.row_map, first.0 + u64::from(t), args.rows));
            } else if t < 2 * edge {
                let t = t - edge;
                tile.col_of.write(t, map_below(&args.col_map, first.1 + u64::from(t), args.cols));
            }
        }
        tile
    }

    #[inline(always)]
    fn at(i: u32, j: u32) -> u32 {
        i * (Self::EDGE + 1) + j
    }

    /// Calls `load(slow, fast)` and then `store(slow, fast, value)` for the thread's elements of the
    /// tile; `fast` runs along neighbouring threads.
    #[inline(always)]
    fn each(load: impl Fn(u32, u32) -> T, store: impl Fn(u32, u32, T)) {
        let edge = Self::EDGE;
        let place = |k: u32| {
            let e = thread_idx_x() + THREADS * k;
            (e / edge, e % edge)
        };
        for batch in 0..edge * edge / THREADS / BATCH {
            let places: [_; BATCH as usize] = core::array::from_fn(|k| place(batch * BATCH + k as u32));
            let values = places.map(|(slow, fast)| load(slow, fast));
            // Indexed, because an iterator over the array would keep it in memory instead of registers.
            #[allow(clippy::needless_range_loop)]
            for k in 0..BATCH as usize {
                store(places[k].0, places[k].1, values[k]);
            }
        }
    }

    /// Offset of the tile's element (i, j) in the row-major matrix, if it has one.
    #[inline(always)]
    unsafe fn row_major(&self, i: u32, j: u32, ld: u64) -> Option<u64> {
        // SAFETY: both are inside the tile, and written before a barrier.
        let (row, col) = unsafe { (self.row_of.read(i), self.col_of.read(j)) };
        (row != INVALID && col != INVALID).then(|| row * ld + col)
    }

    /// Offset of the tile's element (i, j) in the column-major matrix, if it is inside.
    #[inline(always)]
    fn column_major(&self, i: u32, j: u32, args: &ConvertArgs, ld: u64) -> Option<u64> {
        let (i, j) = (self.first.0 + u64::from(i), self.first.1 + u64::from(j));
        (i < args.rows && j < args.cols).then(|| i + j * ld)
    }
}

/// Calls `work` with the first row and column of each of the block's tiles.
#[inline(always)]
fn for_each_tile(args: &ConvertArgs, edge: u32, mut work: impl FnMut((u64, u64))) {
    let edge = u64::from(edge);
    let down = ceil_div(args.rows, edge);
    for_each_item(down * ceil_div(args.cols, edge), |item| {
        let (i, j) = split(item, down);
        work((i * edge, j * edge));
    });
}

/// See [`ConvertArgs`].
#[inline(always)]
pub(crate) unsafe fn forward<T: Carrier>(args: &ConvertArgs) {
    let (src, dst) = (args.src as *const T, args.dst as *mut T);
    for_each_tile(args, Tile::<T>::EDGE, |first| {
        // SAFETY: offsets that exist are inside the matrices, by the arguments' contract; the tile is
        // written between the two barriers and read after the second, before the first of the next tile.
        unsafe {
            let tile = Tile::<T>::new(args, first);
            sync_threads();
            Tile::each(
                |i, j| match tile.row_major(i, j, args.ld_src) {
                    Some(offset) => *src.add(offset as usize),
                    None => T::default(),
                },
                |i, j, value| tile.elements.write(Tile::<T>::at(i, j), value),
            );
            sync_threads();
            Tile::each(
                |j, i| tile.elements.read(Tile::<T>::at(i, j)),
                |j, i, value| {
                    if let Some(offset) = tile.column_major(i, j, args, args.ld_dst) {
                        *dst.add(offset as usize) = value;
                    }
                },
            );
        }
    });
}

/// See [`ConvertArgs`].
#[inline(always)]
pub(crate) unsafe fn reverse<T: Carrier>(args: &ConvertArgs) {
    let (src, dst) = (args.src as *const T, args.dst as *mut T);
    for_each_tile(args, Tile::<T>::EDGE, |first| {
        // SAFETY: offsets as in `forward`; the tile and its maps are written before the first barrier
        // and read between the two.
        unsafe {
            let tile = Tile::<T>::new(args, first);
            Tile::each(
                |j, i| match tile.column_major(i, j, args, args.ld_src) {
                    Some(offset) => *src.add(offset as usize),
                    None => T::default(),
                },
                |j, i, value| tile.elements.write(Tile::<T>::at(i, j), value),
            );
            sync_threads();
            Tile::each(
                |i, j| tile.elements.read(Tile::<T>::at(i, j)),
                |i, j, value| {
                    if let Some(offset) = tile.row_major(i, j, args.ld_dst) {
                        *dst.add(offset as usize) = value;
                    }
                },
            );
            sync_threads();
        }
    });
}
