//! Packing, unpacking and permuting slabs.

use super::carrier::Carrier;
use super::chain::move_along;
use super::work::{for_each_in_lines, for_each_item, split};
use crate::args::{CopyLinesArgs, PermuteSlotsArgs, ceil_div};
use crate::launch::{COPIED, copied_of_line};
use cuda_std::thread::{block_dim_x, block_dim_y, thread_idx_x, thread_idx_y};

/// Slots of a cycle under way at a time: a thread has but one element in each.
const HOPS: usize = 4;

/// See [`CopyLinesArgs`]. A thread reads all its elements before it writes the first: of one line, or of
/// several where a line has not as many for it.
#[inline(always)]
pub(crate) unsafe fn copy_lines<T: Carrier>(args: &CopyLinesArgs) {
    let (src, dst) = (args.src as *const T, args.dst as *mut T);
    let (x, y) = (u64::from(block_dim_x()), u64::from(block_dim_y()));
    let along = copied_of_line(args.len, x);
    let (width, height) = (x * along, y * (COPIED / along));
    let chunks = ceil_div(args.len, width);
    for_each_item(chunks * ceil_div(args.lines, height), |item| {
        let (chunk, group) = split(item, chunks);
        let first = (chunk * width + u64::from(thread_idx_x()), group * height + u64::from(thread_idx_y()));
        let place = |k: usize| {
            let (step, steps) = (k as u64 & (along - 1), k as u64 >> along.trailing_zeros());
            let (x, line) = (first.0 + step * x, first.1 + steps * y);
            (x < args.len && line < args.lines).then_some((x, line))
        };
        // SAFETY: lines are inside their buffers by the arguments' contract.
        unsafe {
            let values: [T; COPIED as usize] = core::array::from_fn(|k| match place(k) {
                Some((x, line)) => *src.add((line * args.ld_src + x) as usize),
                None => T::default(),
            });
            for (k, value) in values.iter().enumerate() {
                if let Some((x, line)) = place(k) {
                    *dst.add((line * args.ld_dst + x) as usize) = *value;
                }
            }
        }
    });
}

/// See [`PermuteSlotsArgs`]. A thread moves one element of each slot of a cycle, so no two meet.
#[inline(always)]
pub(crate) unsafe fn permute_slots<T: Carrier>(args: &PermuteSlotsArgs) {
    let (buf, cycles, starts) = (args.buf as *mut T, args.cycles as *const u32, args.starts as *const u32);
    for_each_in_lines(args.width, args.lines, args.n_cycles, |cycle, line, x| {
        let place = |slot: u32| {
            buf.wrapping_add((line * args.line_stride + u64::from(slot) * args.slot_stride + x) as usize)
        };
        // SAFETY: there are n_cycles + 1 starts, they point into the cycles, and all slots are inside
        // the buffer; a slot is on one cycle only.
        unsafe {
            let (mut k, end) = (*starts.add(cycle as usize), *starts.add(cycle as usize + 1));
            if k < end {
                let first = place(*cycles.add(k as usize));
                let held = *first;
                let next = |_| {
                    k += 1;
                    (k < end).then(|| place(*cycles.add(k as usize)))
                };
                let last = move_along::<HOPS, _, _>(first, next, |from| *from, |to, value| *to = value);
                *last = held;
            }
        }
    });
}
