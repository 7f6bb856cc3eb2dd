//! Writing constants: the identity into padding, one value into a buffer.

use super::carrier::Carrier;
use super::work::{acts, for_each_item, for_each_mapped};
use crate::args::{FillArgs, SetIdentityArgs, ceil_div};
use crate::launch::THREADS;
use cuda_std::thread::thread_idx_x;

/// See [`SetIdentityArgs`].
#[inline(always)]
pub(crate) unsafe fn set_identity<T: Carrier>(args: &SetIdentityArgs) {
    // SAFETY: the guard is null or an i32 by the arguments' contract.
    if !unsafe { acts(args.guard) } {
        return;
    }
    let buf = args.buf as *mut T;
    let one = T::from_words(args.one);
    for_each_mapped((args.rows, &args.row_map), (args.cols, &args.col_map), |i, j, row, col| {
        if row >= args.from || col >= args.from {
            // SAFETY: a local element is inside the matrix.
            unsafe { *buf.add((i + j * args.ld) as usize) = if row == col { one } else { T::default() } };
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
