//! What only the device knows: whether the input is finite, and what all devices found.

use super::carrier::Real;
use super::work::{for_each_item, for_each_mapped};
use crate::args::{CombineStatusArgs, FindAnywhereArgs, FindNonFiniteArgs, Triangle, ceil_div};
use crate::launch::{SEARCHED, THREADS};
use cuda_std::thread::thread_idx_x;

/// See [`FindNonFiniteArgs`].
#[inline(always)]
pub(crate) unsafe fn find_non_finite<R: Real>(args: &FindNonFiniteArgs) {
    let (buf, flag) = (args.buf as *const R, args.flag as *mut i32);
    let (lower_only, upper_only) =
        (args.triangle == Triangle::Lower as u32, args.triangle == Triangle::Upper as u32);
    let parts = u64::from(args.parts);
    let mut found = false;
    for_each_mapped((args.rows, &args.row_map), (args.cols, &args.col_map), |i, j, row, col| {
        let outside = (lower_only && row < col) || (upper_only && row > col);
        if !outside {
            let mut part = 0;
            while part < parts {
                // SAFETY: a local element is inside the matrix and has that many parts.
                let value = unsafe { *buf.add(((i + j * args.ld) * parts + part) as usize) };
                found |= !value.is_finite();
                part += 1;
            }
        }
    });
    if found {
        // Many threads may write; all write the same.
        // SAFETY: the flag is an i32 by the arguments' contract.
        unsafe { flag.write_volatile(1) };
    }
}

/// See [`FindAnywhereArgs`]. Where the numbers begin at a multiple of 16 bytes they are read as vectors of
/// that size; what is left is read one by one.
#[inline(always)]
pub(crate) unsafe fn find_non_finite_anywhere<R: Real>(args: &FindAnywhereArgs) {
    let vectors = if args.buf.is_multiple_of(16) { args.count / R::LANES } else { 0 };
    let of_block = u64::from(THREADS) * SEARCHED;
    let mut found = false;
    for_each_item(ceil_div(vectors, of_block), |item| {
        let first = item * of_block + u64::from(thread_idx_x());
        let place = |k: usize| first + k as u64 * u64::from(THREADS);
        // Bits of zero are finite.
        let read: [u128; SEARCHED as usize] = core::array::from_fn(|k| match place(k) < vectors {
            // SAFETY: only vectors inside the buffer are read.
            true => unsafe { *(args.buf as *const u128).add(place(k) as usize) },
            false => 0,
        });
        // Indexed, because an iterator over the array would keep it in memory instead of registers.
        #[allow(clippy::needless_range_loop)]
        for k in 0..SEARCHED as usize {
            found |= R::any_non_finite(read[k]);
        }
    });
    let done = vectors * R::LANES;
    for_each_item(ceil_div(args.count - done, THREADS.into()), |item| {
        let index = done + item * u64::from(THREADS) + u64::from(thread_idx_x());
        if index < args.count {
            // SAFETY: inside the buffer.
            found |= unsafe { !(*(args.buf as *const R).add(index as usize)).is_finite() };
        }
    });
    if found {
        // SAFETY: the flag is an i32 by the arguments' contract; all threads write the same.
        unsafe { (args.flag as *mut i32).write_volatile(1) };
    }
}

/// See [`CombineStatusArgs`].
#[inline(always)]
pub(crate) unsafe fn combine_status(args: &CombineStatusArgs) {
    let (max, min) = (args.max as *const i32, args.min as *const i32);
    let mut status = 0;
    let mut word = 0;
    while word < args.count && status == 0 {
        // SAFETY: both have `count` words.
        let (max, min) = unsafe { (*max.add(word as usize), *min.add(word as usize)) };
        if max != 0 || min != 0 {
            status = if word == 0 {
                -1
            } else if word == 1 && args.from_end > 0 && max > 0 {
                args.from_end as i32 - max + 1
            } else if max != 0 {
                max
            } else {
                min
            };
        }
        word += 1;
    }
    if status > 0
        && let Some(row) = args.map.map((status - 1) as u64)
    {
        status = (row + 1) as i32;
    }
    // SAFETY: the result is an i32 by the arguments' contract.
    unsafe { *(args.out as *mut i32) = status };
}
