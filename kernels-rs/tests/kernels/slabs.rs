use crate::support::*;
use meshsolve_kernels::args::{CopyLinesArgs, PermuteSlotsArgs};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{ElementSize, Share, copy_lines, permute_slots};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// Copies lines between two buffers, both of which start `offset` elements into aligned memory.
fn check_copy<T: Element>(
    (len, lines): (usize, usize),
    (ld_src, ld_dst): (usize, usize),
    offset: usize,
    blocks: u32,
    order: Order,
) {
    let from: Vec<T> = encoded(1, offset + (lines - 1) * ld_src + len);
    let to: Vec<T> = encoded(2, offset + (lines - 1) * ld_dst + len);
    let (mut src, mut dst) = (Buffer::new(&from), Buffer::new(&to));
    let start = (offset * size_of::<T>()) as u64;
    let args = CopyLinesArgs {
        src: src.address() + start,
        dst: dst.address() + start,
        ld_src: ld_src as u64,
        ld_dst: ld_dst as u64,
        len: len as u64,
        lines: lines as u64,
    };
    run_on_blocks(copy_lines(T::SIZE, args, Share::Whole), blocks, order);
    let mut expected = to.clone();
    for line in 0..lines {
        for x in 0..len {
            expected[offset + line * ld_dst + x] = from[offset + line * ld_src + x];
        }
    }
    assert_eq!(src.values(), from, "the source changed");
    assert!(dst.values() == expected, "{:?}, {order:?}, {len} × {lines}, {ld_src} to {ld_dst}", T::SIZE);
}

fn check_copy_all(extent: (usize, usize), lds: (usize, usize), offset: usize, blocks: u32, order: Order) {
    check_copy::<u32>(extent, lds, offset, blocks, order);
    check_copy::<u64>(extent, lds, offset, blocks, order);
    check_copy::<u128>(extent, lds, offset, blocks, order);
}

#[test]
fn lines_are_copied_in_all_orders() {
    for len in EXTENTS.into_iter().chain([255, 256, 260, 520]) {
        for (order, lines) in ORDERS.into_iter().zip([1, 3, 33, 64]) {
            check_copy_all((len, lines), (len, len + 3), 0, u32::MAX, order);
            check_copy_all((len, lines), (len.next_multiple_of(4) + 4, len.next_multiple_of(4)), 0, 2, order);
            check_copy_all((len, lines), (len + 1, len), 1, u32::MAX, order);
        }
    }
}

/// A part of the device is a smaller grid for the same copy, whose blocks come round more than once.
#[test]
fn a_copy_on_a_part_of_the_device_has_more_items_than_blocks() {
    let (len, lines) = (1031, 128);
    let from: Vec<u32> = encoded(1, len * lines);
    let to: Vec<u32> = encoded(2, (len + 2) * lines);
    let whole = |share| {
        let (mut src, mut dst) = (Buffer::new(&from), Buffer::new(&to));
        let args = CopyLinesArgs {
            src: src.address(),
            dst: dst.address(),
            ld_src: len as u64,
            ld_dst: len as u64 + 2,
            len: len as u64,
            lines: lines as u64,
        };
        let call = copy_lines(ElementSize::B4, args, share);
        let blocks = call.geometry.grid[0];
        run(call, Order::Reverse);
        assert_eq!(src.values(), from, "the source changed");
        (blocks, dst.values())
    };
    let (all, (some, copied)) = (whole(Share::Whole).0, whole(Share::Part));
    assert!(all > some && all % some != 0, "{all} items on {some} blocks");
    for (line, found) in copied.chunks(len + 2).enumerate() {
        assert!(found[..len] == from[line * len..][..len], "line {line}");
        assert!(found[len..] == to[line * (len + 2) + len..][..2], "beside line {line}");
    }
}

#[test]
fn threads_of_a_copy_are_all_busy_whatever_the_length_of_lines() {
    // Elements of 16 bytes in a line, and blocks of 256 threads with four elements each that 64 lines take.
    for (len, blocks) in [(64, 4), (128, 8), (256, 16), (512, 32), (1024, 64), (2048, 128)] {
        let args = CopyLinesArgs { src: 0, dst: 1 << 30, ld_src: len, ld_dst: len, len, lines: 64 };
        let whole = copy_lines(ElementSize::B16, args, Share::Whole).geometry;
        assert_eq!((whole.grid[0], whole.block.iter().product::<u32>()), (blocks, 256), "{len}");
        let part = copy_lines(ElementSize::B16, args, Share::Part).geometry;
        assert_eq!(part.block.iter().product::<u32>(), 512, "{len}");
        // An H200 has 132 multiprocessors, of which an exchange takes 32.
        assert!(part.grid[0] <= 100 && part.grid[0] <= blocks.div_ceil(2), "{len}");
    }
}

#[test]
fn wide_accesses_are_used_exactly_where_everything_is_aligned() {
    let aligned = CopyLinesArgs { src: 4096, dst: 8192, ld_src: 64, ld_dst: 32, len: 16, lines: 3 };
    let wide = copy_lines(ElementSize::B4, aligned, Share::Whole);
    assert_eq!(wide.kernel, "copy_lines_b16");
    assert_eq!(wide.args, CopyLinesArgs { ld_src: 16, ld_dst: 8, len: 4, ..aligned });
    for args in [
        CopyLinesArgs { src: 4100, ..aligned },
        CopyLinesArgs { dst: 8196, ..aligned },
        CopyLinesArgs { ld_src: 65, ..aligned },
        CopyLinesArgs { ld_dst: 34, ..aligned },
        CopyLinesArgs { len: 15, ..aligned },
    ] {
        let call = copy_lines(ElementSize::B4, args, Share::Whole);
        assert_eq!((call.kernel, call.args), ("copy_lines_b4", args));
    }
    assert_eq!(copy_lines(ElementSize::B8, aligned, Share::Whole).args.len, 8);
    assert_eq!(copy_lines(ElementSize::B16, aligned, Share::Whole).args, aligned);
}

/// The cycles of "slot d takes what slot `sources[d]` held", in the kernel's format.
fn cycles_of(sources: &[usize]) -> (Vec<u32>, Vec<u32>) {
    let (mut cycles, mut starts) = (Vec::new(), vec![0]);
    let mut seen = vec![false; sources.len()];
    for first in 0..sources.len() {
        if sources[first] == first {
            continue;
        }
        let mut slot = first;
        while !seen[slot] {
            seen[slot] = true;
            cycles.push(slot as u32);
            slot = sources[slot];
        }
        if cycles.len() as u32 > *starts.last().expect("never empty") {
            starts.push(cycles.len() as u32);
        }
    }
    (cycles, starts)
}

/// Permutes slots of `width` elements, `gap` apart, within lines (`slots_inside_lines`) or across them.
fn check_permute<T: Element>(
    sources: &[usize],
    (width, lines): (usize, usize),
    gap: usize,
    slots_inside_lines: bool,
    order: Order,
) {
    let slots = sources.len();
    let (line_stride, slot_stride) = if slots_inside_lines {
        (slots * (width + gap), width + gap)
    } else {
        (width + gap, lines * (width + gap))
    };
    let before: Vec<T> = encoded(1, slots * lines * (width + gap));
    let mut buf = Buffer::new(&before);
    let (cycles, starts) = cycles_of(sources);
    let n_cycles = starts.len() as u64 - 1;
    let (mut cycles, mut starts) = (Buffer::new(&cycles), Buffer::new(&starts));
    let args = PermuteSlotsArgs {
        buf: buf.address(),
        cycles: cycles.address(),
        starts: starts.address(),
        n_cycles,
        lines: lines as u64,
        line_stride: line_stride as u64,
        slot_stride: slot_stride as u64,
        width: width as u64,
    };
    run(permute_slots(T::SIZE, args), order);
    let mut expected = before.clone();
    for (slot, source) in sources.iter().enumerate() {
        for line in 0..lines {
            for x in 0..width {
                let at = |slot: usize| line * line_stride + slot * slot_stride + x;
                expected[at(slot)] = before[at(*source)];
            }
        }
    }
    assert!(
        buf.values() == expected,
        "{:?}, {order:?}, {sources:?}, {width} × {lines}, gap {gap}, inside lines: {slots_inside_lines}",
        T::SIZE
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn slots_are_permuted(
        sources in (1_usize..12).prop_flat_map(|n| Just((0..n).collect::<Vec<_>>()).prop_shuffle()),
        width in prop_oneof![1_usize..70, Just(64), Just(300)],
        lines in 1_usize..40,
        gap in prop_oneof![Just(0_usize), Just(4), 0_usize..5],
        slots_inside_lines: bool,
        seed: u64,
    ) {
        for order in [Order::Forward, Order::Reverse, Order::Shuffled(seed)] {
            check_permute::<u32>(&sources, (width, lines), gap, slots_inside_lines, order);
            check_permute::<u64>(&sources, (width, lines), gap, slots_inside_lines, order);
            check_permute::<u128>(&sources, (width, lines), gap, slots_inside_lines, order);
        }
    }

    #[test]
    fn any_lines_are_copied(
        len in 1_usize..600, lines in 1_usize..40, more in (0_usize..5, 0_usize..5),
        offset in 0_usize..3, blocks in 1_u32..9, seed: u64,
    ) {
        let check = || -> TestCaseResult {
            check_copy_all((len, lines), (len + more.0, len + more.1), offset, blocks, Order::Shuffled(seed));
            Ok(())
        };
        check()?;
    }
}
