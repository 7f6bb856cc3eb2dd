//! The row interchanges of a factorisation.

use super::carrier::Carrier;
use super::work::{for_each_in_lines, for_each_item};
use crate::args::{GatherRowsArgs, PlacesOfPivotsArgs, SpreadPivotsArgs, ceil_div};
use crate::launch::THREADS;
use cuda_std::thread::thread_idx_x;

/// See [`SpreadPivotsArgs`].
#[inline(always)]
pub(crate) unsafe fn spread(args: &SpreadPivotsArgs) {
    let (pivots, out) = (args.pivots as *const i64, args.out as *mut i32);
    for_each_item(ceil_div(args.cols, THREADS.into()), |item| {
        let j = item * u64::from(THREADS) + u64::from(thread_idx_x());
        let column = if j < args.cols { args.col_map.map(j) } else { None };
        if let Some(global) = column {
            // SAFETY: there is a pivot for each local column and a word for each global one.
            unsafe { *out.add(global as usize) = *pivots.add(j as usize) as i32 };
        }
    });
}

/// See [`PlacesOfPivotsArgs`]. Each thread follows one row through all interchanges: n² steps, but none waits
/// for memory that another step wrote.
#[inline(always)]
pub(crate) unsafe fn places_of(args: &PlacesOfPivotsArgs) {
    let (pivots, places) = (args.pivots as *const i32, args.places as *mut i32);
    for_each_item(ceil_div(args.n, THREADS.into()), |item| {
        let row = item * u64::from(THREADS) + u64::from(thread_idx_x());
        if row < args.n {
            let (mut at, mut i) = (row, 0);
            while i < args.n {
                // SAFETY: there are n words.
                let pivot = i64::from(unsafe { *pivots.add(i as usize) });
                let other = if pivot >= 1 && pivot as u64 <= args.n { pivot as u64 - 1 } else { i };
                at = if at == i {
                    other
                } else if at == other {
                    i
                } else {
                    at
                };
                i += 1;
            }
            // SAFETY: there are n words.
            unsafe { *places.add(row as usize) = at as i32 };
        }
    });
}

/// See [`GatherRowsArgs`].
#[inline(always)]
pub(crate) unsafe fn gather_rows<T: Carrier>(args: &GatherRowsArgs) {
    let (src, dst, rows) = (args.src as *const T, args.dst as *mut T, args.rows as *const i32);
    for_each_in_lines(args.cols, args.count, 1, |_, s, x| {
        // SAFETY: there are `count` words.
        let row = unsafe { *rows.add(s as usize) };
        let from = if row >= 0 && (row as u64) < args.count { args.map.map(row as u64) } else { None };
        if let (Some(from), Some(to)) = (from, args.map.map(s)) {
            // SAFETY: both matrices have every row that the map gives.
            unsafe { *dst.add((to * args.cols + x) as usize) = *src.add((from * args.cols + x) as usize) };
        }
    });
}
