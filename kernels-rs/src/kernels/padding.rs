//! Writing into a matrix or buffer where it stands: the identity into padding, zeros into a triangle, one value,
//! conjugates.

use super::carrier::{Carrier, Real};
use super::work::{INVALID, acts, for_each_item, for_each_mapped, for_each_pair, map_below};
use crate::args::{
    ClearOtherTriangleArgs, ConjugateArgs, FillArgs, IndexMap, SetIdentityArgs, Triangle, ceil_div,
};
use crate::launch::THREADS;
use cuda_std::thread::thread_idx_x;

/// Set in the index of a row or column that is padding.
const PADDING: u64 = 1 << 63;

/// What `index` maps to, marked if it is padding.
#[inline(always)]
fn map_and_mark(map: &IndexMap, real: &IndexMap, index: u64, count: u64) -> u64 {
    let global = map_below(map, index, count);
    if global == INVALID || real.map(index).is_some() { global } else { global | PADDING }
}

/// See [`SetIdentityArgs`].
#[inline(always)]
pub(crate) unsafe fn set_identity<T: Carrier>(args: &SetIdentityArgs) {
    // SAFETY: the guard is null or an i32 by the arguments' contract.
    if !unsafe { acts(args.guard) } {
        return;
    }
    let buf = args.buf as *mut T;
    let one = T::from_words(args.one);
    for_each_pair(
        (args.rows, |i| map_and_mark(&args.row_map, &args.row_real, i, args.rows)),
        (args.cols, |j| {
            let global = map_and_mark(&args.col_map, &args.col_real, j, args.cols);
            if global == INVALID || args.places == 0 {
                return global;
            }
            // SAFETY: there is a row for each global column.
            let row = unsafe { *(args.places as *const u32).add((global & !PADDING) as usize) };
            u64::from(row) | global & PADDING
        }),
        |i, j, row, place| {
            if (row | place) & PADDING != 0 {
                let is_one = (row ^ place) & !PADDING == 0;
                // SAFETY: a local element is inside the matrix.
                unsafe { *buf.add((i + j * args.ld) as usize) = if is_one { one } else { T::default() } };
            }
        },
    );
}

/// See [`ClearOtherTriangleArgs`].
#[inline(always)]
pub(crate) unsafe fn clear_other_triangle<T: Carrier>(args: &ClearOtherTriangleArgs) {
    let buf = args.buf as *mut T;
    let (lower_only, upper_only) = (args.kept == Triangle::Lower as u64, args.kept == Triangle::Upper as u64);
    for_each_mapped((args.rows, &args.row_map), (args.cols, &args.col_map), |i, j, row, col| {
        if (lower_only && row < col) || (upper_only && row > col) {
            // SAFETY: a local element is inside the matrix.
            unsafe { *buf.add((i + j * args.ld) as usize) = T::default() };
        }
    });
}

/// See [`FillArgs`].
#[inline(always)]
pub(crate) unsafe fn fill<T: Carrier>(args: &FillArgs) {
    // SAFETY: the guard is null or an i32 by the arguments' contract.
    if !unsafe { acts(args.guard) } {
        return;
    }
    let buf = args.buf as *mut T;
    let value = T::from_words(args.value);
    for_each_item(ceil_div(args.count, THREADS.into()), |item| {
        let index = item * u64::from(THREADS) + u64::from(thread_idx_x());
        if index < args.count {
            // SAFETY: inside the buffer.
            unsafe { *buf.add(index as usize) = value };
        }
    });
}

/// See [`ConjugateArgs`].
#[inline(always)]
pub(crate) unsafe fn conjugate<R: Real>(args: &ConjugateArgs) {
    let buf = args.buf as *mut R;
    for_each_item(ceil_div(args.count, THREADS.into()), |item| {
        let index = item * u64::from(THREADS) + u64::from(thread_idx_x());
        if index < args.count {
            // SAFETY: the imaginary part of a number inside the buffer.
            unsafe {
                let imaginary = buf.add((2 * index + 1) as usize);
                *imaginary = (*imaginary).negated();
            }
        }
    });
}
