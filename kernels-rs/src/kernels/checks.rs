//! What only the device knows: whether the input is finite, and what all devices found.

use super::carrier::Real;
use super::work::for_each_mapped;
use crate::args::{CombineStatusArgs, FindNonFiniteArgs, Triangle};

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
