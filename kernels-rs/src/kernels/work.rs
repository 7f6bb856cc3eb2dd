//! How the work of a launch is dealt to blocks and threads.

use crate::args::{Address, IndexMap, ceil_div};
use crate::launch::{STRIP_COLS, THREADS};
use core::num::NonZero;
use cuda_std::shared::SharedMem;
use cuda_std::thread::*;

/// What an invalid index looks like where indices are kept in shared memory.
pub(crate) const INVALID: u64 = u64::MAX;

/// Calls `work` for the block's share of `0..count`: its own index, then every grid's width further.
///
/// All threads of a block get the same items, so `work` may hold barriers.
#[inline(always)]
pub(crate) fn for_each_item(count: u64, mut work: impl FnMut(u64)) {
    let mut item = u64::from(block_idx_x());
    while item < count {
        work(item);
        item += u64::from(grid_dim_x());
    }
}

/// Splits `index` into `(index mod size, index / size)`; nothing for size 0.
#[inline(always)]
pub(crate) fn split(index: u64, size: u64) -> (u64, u64) {
    match NonZero::new(size) {
        Some(size) => (index % size, index / size),
        None => (0, 0),
    }
}

/// Whether a guarded kernel acts.
///
/// # Safety
/// `guard` must be null or the address of an `i32`.
#[inline(always)]
pub(crate) unsafe fn acts(guard: Address) -> bool {
    // SAFETY: the caller's promise.
    guard == 0 || unsafe { *(guard as *const i32) } != 0
}

/// Calls `work(copy, line, x)` for the thread's share of `copies × lines × len`, in blocks as
/// `Geometry::lines` makes them: x runs along a line, y over lines.
#[inline(always)]
pub(crate) fn for_each_in_lines(len: u64, lines: u64, copies: u64, mut work: impl FnMut(u64, u64, u64)) {
    let (width, height) = (u64::from(block_dim_x()), u64::from(block_dim_y()));
    let (chunks, groups) = (ceil_div(len, width), ceil_div(lines, height));
    for_each_item(chunks * groups * copies, |item| {
        let (chunk, rest) = split(item, chunks);
        let (group, copy) = split(rest, groups);
        let x = chunk * width + u64::from(thread_idx_x());
        let line = group * height + u64::from(thread_idx_y());
        if x < len && line < lines {
            work(copy, line, x);
        }
    });
}

/// Calls `work(i, j, row_map(i), col_map(j))` for the thread's share of a matrix, where both are valid.
///
/// Neighbouring threads visit neighbouring rows. Needs `STRIP_COLS` indices of shared memory.
#[inline(always)]
pub(crate) fn for_each_mapped(
    (rows, row_map): (u64, &IndexMap),
    (cols, col_map): (u64, &IndexMap),
    work: impl FnMut(u64, u64, u64, u64),
) {
    for_each_pair((rows, |i| map_below(row_map, i, rows)), (cols, |j| map_below(col_map, j, cols)), work);
}

/// [`for_each_mapped`] with any functions of a row and of a column, which are `INVALID` from `rows` and
/// `cols` on; each is called once for its row or column in a strip.
#[inline(always)]
pub(crate) fn for_each_pair(
    (rows, of_row): (u64, impl Fn(u64) -> u64),
    (cols, of_col): (u64, impl Fn(u64) -> u64),
    mut work: impl FnMut(u64, u64, u64, u64),
) {
    let col_of = SharedMem::<u64>::dynamic(0);
    let strips = ceil_div(rows, THREADS.into());
    for_each_item(strips * ceil_div(cols, STRIP_COLS.into()), |item| {
        let (strip, group) = split(item, strips);
        let i = strip * u64::from(THREADS) + u64::from(thread_idx_x());
        let first_col = group * u64::from(STRIP_COLS);
        if thread_idx_x() < STRIP_COLS {
            let j = first_col + u64::from(thread_idx_x());
            // SAFETY: each of the first STRIP_COLS threads writes its own element.
            unsafe { col_of.write(thread_idx_x(), of_col(j)) };
        }
        sync_threads();
        let row = of_row(i);
        for k in 0..STRIP_COLS {
            // SAFETY: written before the barrier.
            let col = unsafe { col_of.read(k) };
            if row != INVALID && col != INVALID {
                work(i, first_col + u64::from(k), row, col);
            }
        }
        sync_threads();
    });
}

/// What `index` maps to, `INVALID` if it is not below `count` or padding.
#[inline(always)]
pub(crate) fn map_below(map: &IndexMap, index: u64, count: u64) -> u64 {
    if index < count { map.map(index).unwrap_or(INVALID) } else { INVALID }
}
