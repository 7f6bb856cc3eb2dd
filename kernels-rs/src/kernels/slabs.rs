//! Packing, unpacking and permuting slabs.

use super::carrier::Carrier;
use super::work::for_each_in_lines;
use crate::args::{CopyLinesArgs, PermuteSlotsArgs};

/// See [`CopyLinesArgs`].
#[inline(always)]
pub(crate) unsafe fn copy_lines<T: Carrier>(args: &CopyLinesArgs) {
    let (src, dst) = (args.src as *const T, args.dst as *mut T);
    for_each_in_lines(args.len, args.lines, 1, |_, line, x| {
        // SAFETY: lines are inside their buffers by the arguments' contract.
        unsafe { *dst.add((line * args.ld_dst + x) as usize) = *src.add((line * args.ld_src + x) as usize) };
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
                let mut to = place(*cycles.add(k as usize));
                let held = *to;
                k += 1;
                while k < end {
                    let from = place(*cycles.add(k as usize));
                    *to = *from;
                    to = from;
                    k += 1;
                }
                *to = held;
            }
        }
    });
}
