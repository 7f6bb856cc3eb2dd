use crate::support::*;
use bytemuck::Pod;
use meshsolve_kernels::args::{CopyLinesArgs, MoveSegmentsArgs, TransposeBlocksArgs};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{ElementSize, RealType, Share, copy_lines, move_segments, transpose_blocks};
use proptest::prelude::*;

/// A matrix of `p·g` rows and `q·g` columns, cut at every `stride`-th segment, `offset` elements behind
/// an address that is a multiple of 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Case {
    p: usize,
    q: usize,
    g: usize,
    stride: usize,
    offset: usize,
    blocks: u32,
}

impl Case {
    fn rows(&self) -> usize {
        self.p * self.g
    }

    fn cols(&self) -> usize {
        self.q * self.g
    }

    fn check<T: Element>(&self, order: Order) {
        let (rows, cols) = (self.rows(), self.cols());
        let matrix: Vec<T> = encoded(1, self.offset + rows * cols);
        let mut buf = Buffer::new(&matrix);
        let cuts = (rows * self.q).div_ceil(self.stride);
        let mut scratch = Buffer::new(&encoded::<T>(2, cuts * self.g));
        let start = buf.address() + (self.offset * size_of::<T>()) as u64;
        let [p, q, g, stride] = [self.p, self.q, self.g, self.stride].map(|x| x as u64);
        let blocks = TransposeBlocksArgs { buf: start, p, q, g, flag: 0, exponents: [0; 2] };
        let transpose = transpose_blocks(T::SIZE, blocks);
        run_on_blocks(transpose, self.blocks, order);

        let at = |place: usize| self.offset + place;
        let mut expected = matrix.clone();
        for row in 0..rows {
            for col in 0..cols {
                let (a, i, b, j) = (row / self.g, row % self.g, col / self.g, col % self.g);
                expected[at((a * self.g + j) * cols + b * self.g + i)] = matrix[at(row * cols + col)];
            }
        }
        assert!(buf.values() == expected, "blocks, {:?}, {order:?}, {self:?}", T::SIZE);

        let args =
            MoveSegmentsArgs { buf: start, scratch: scratch.address(), groups: 1, p, q, g, len: g, stride };
        assert_eq!(args.cuts(), cuts as u64);
        let (ld_src, dst) = (stride * g, args.scratch);
        let save = CopyLinesArgs { src: start, dst, ld_src, ld_dst: g, len: g, lines: args.cuts() };
        run(copy_lines(T::SIZE, save, Share::Whole), order);
        run_on_blocks(move_segments(T::SIZE, args), self.blocks, order);
        scratch.values();
        for row in 0..rows {
            for col in 0..cols {
                expected[at(row + col * rows)] = matrix[at(row * cols + col)];
            }
        }
        assert!(buf.values() == expected, "whole, {:?}, {order:?}, {self:?}", T::SIZE);
    }

    fn check_all(&self, order: Order) {
        self.check::<u32>(order);
        self.check::<u64>(order);
        self.check::<u128>(order);
    }
}

#[test]
fn conversion_of_blocks_around_tile_edges_in_all_orders() {
    // Multiples of four take the way in vectors of 16 bytes for every size of element.
    for (at, g) in EXTENTS.into_iter().chain([4, 60, 68, 128, 132]).enumerate() {
        for (p, q) in [(1, 1), (1, 3), (2, 1), (2, 3)] {
            let (order, stride) = (ORDERS[(at + p) % 4], [1, 2, 7, 1000][(at + q) % 4]);
            let case = Case { p, q, g, stride, offset: 0, blocks: [u32::MAX, 2][at % 2] };
            case.check_all(order);
            Case { offset: 1 + at % 3, ..case }.check_all(order);
        }
    }
}

/// Puts `bad` at places of a matrix of 2·g × g numbers, and one behind it, where it does not count.
fn check_numbers<R: Pod>(real: RealType, parts: usize, [finite, bad]: [R; 2], g: usize, offset: usize) {
    let size = ElementSize::from_bytes(parts * size_of::<R>()).unwrap();
    let count = parts * 2 * g * g;
    for place in (0..count).step_by(7).chain([count - 1, count]) {
        let mut numbers = vec![finite; parts * offset + count + 1];
        numbers[parts * offset + place] = bad;
        let (mut buf, mut flag) = (Buffer::new(&numbers), Buffer::new(&[0_i32]));
        let args = TransposeBlocksArgs {
            buf: buf.address() + (parts * offset * size_of::<R>()) as u64,
            p: 2,
            q: 1,
            g: g as u64,
            flag: flag.address(),
            exponents: real.exponents(),
        };
        run_on_blocks(transpose_blocks(size, args), 3, Order::Shuffled(place as u64));
        buf.values();
        assert_eq!(flag.values()[0], (place < count).into(), "{real:?}, {parts}, {place} of {count}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_found_in_passing() {
    for (g, offset) in [(4, 0), (36, 0), (36, 1), (7, 0), (1, 0)] {
        for parts in [1, 2] {
            check_numbers(RealType::F32, parts, [f32::MAX, f32::NAN], g, offset);
            check_numbers(RealType::F32, parts, [-f32::MAX, f32::NEG_INFINITY], g, offset);
            check_numbers(RealType::F64, parts, [f64::MIN, f64::NAN], g, offset);
            check_numbers(RealType::F64, parts, [f64::MAX, f64::INFINITY], g, offset);
        }
    }
}

#[test]
fn conversion_with_one_very_long_cycle() {
    // (3, 4, 100): most segments are on one cycle.
    for stride in [1, 10, 64, 500, 2000] {
        let case = Case { p: 3, q: 4, g: 100, stride, offset: 0, blocks: u32::MAX };
        case.check::<u64>(Order::Reverse);
    }
}

#[test]
fn cycles_without_a_cut_are_found_and_moved() {
    // A stride beyond the last segment leaves segment 0 as the only cut, and that one stays in place.
    // Few blocks go over the segments in several rounds.
    for (p, q, g) in [(2, 2, 8), (5, 3, 4), (7, 2, 33), (4, 6, 16), (5, 3, 40), (2, 1, 64)] {
        for blocks in [1, 5, u32::MAX] {
            for order in ORDERS {
                Case { p, q, g, stride: p * q * g + 1, offset: 0, blocks }.check::<u64>(order);
            }
        }
    }
}

#[test]
fn segments_longer_than_a_block_are_shared_out() {
    // In vectors and element by element; the last piece is ragged.
    for (p, q, g, offset) in [(1, 2, 2052, 0), (2, 1, 1030, 0), (1, 2, 2052, 1)] {
        Case { p, q, g, stride: 64, offset, blocks: u32::MAX }.check::<u32>(Order::Shuffled(3));
    }
}

/// Segments of `len` elements in groups, cut at every `stride`-th, `offset` elements behind an address that
/// is a multiple of 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Groups {
    groups: usize,
    p: usize,
    q: usize,
    g: usize,
    len: usize,
    stride: usize,
    offset: usize,
    blocks: u32,
}

impl Groups {
    /// There, and back by `p` and `q` exchanged.
    fn check<T: Element>(&self, order: Order) {
        let Self { groups, p, q, g, len, .. } = *self;
        let given: Vec<T> = encoded(3, self.offset + groups * p * g * q * len);
        let mut expected = given.clone();
        for (group, a, i, b) in (0..groups)
            .flat_map(|group| (0..p).map(move |a| (group, a)))
            .flat_map(|(group, a)| (0..g).flat_map(move |i| (0..q).map(move |b| (group, a, i, b))))
        {
            let from = self.offset + (((group * p + a) * g + i) * q + b) * len;
            let to = self.offset + (((group * q + b) * g + i) * p + a) * len;
            expected[to..to + len].copy_from_slice(&given[from..from + len]);
        }
        let mut buf = Buffer::new(&given);
        self.play(&mut buf, [p, q], order);
        assert!(buf.values() == expected, "there, {:?}, {order:?}, {self:?}", T::SIZE);
        self.play(&mut buf, [q, p], order);
        assert!(buf.values() == given, "back, {:?}, {order:?}, {self:?}", T::SIZE);
    }

    fn play<T: Element>(&self, buf: &mut Buffer<T>, [p, q]: [usize; 2], order: Order) {
        let segments = self.groups * p * self.g * q;
        let cuts = segments.div_ceil(self.stride);
        let mut scratch = Buffer::new(&encoded::<T>(2, cuts * self.len));
        let start = buf.address() + (self.offset * size_of::<T>()) as u64;
        let [groups, p, q, g, len, stride] =
            [self.groups, p, q, self.g, self.len, self.stride].map(|x| x as u64);
        let args = MoveSegmentsArgs { buf: start, scratch: scratch.address(), groups, p, q, g, len, stride };
        assert_eq!((args.segments(), args.cuts()), (segments as u64, cuts as u64));
        let save = CopyLinesArgs {
            src: start,
            dst: args.scratch,
            ld_src: stride * len,
            ld_dst: len,
            len,
            lines: args.cuts(),
        };
        run(copy_lines(T::SIZE, save, Share::Whole), order);
        run_on_blocks(move_segments(T::SIZE, args), self.blocks, order);
        scratch.values();
    }
}

#[test]
fn groups_of_powers_of_two_need_no_cuts() {
    for (groups, p, q, g, len) in [(3, 1, 2, 16, 5), (1, 2, 1, 64, 4), (4, 4, 1, 8, 7), (2, 8, 2, 4, 16)] {
        for order in ORDERS {
            let stride = groups * p * q * g;
            Groups { groups, p, q, g, len, stride, offset: 0, blocks: 5 }.check::<u64>(order);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn conversion_of_anything(
        p in 1_usize..6, q in 1_usize..6, g in 1_usize..40, stride in 1_usize..300, offset in 0_usize..4,
        blocks in 1_u32..9, seed: u64,
    ) {
        Case { p, q, g, stride, offset, blocks }.check_all(Order::Shuffled(seed));
    }

    #[test]
    fn groups_of_anything_there_and_back(
        groups in 1_usize..6, p in 1_usize..4, q in 1_usize..4, g in 1_usize..20, len in 1_usize..20,
        stride in 1_usize..200, offset in 0_usize..4, blocks in 1_u32..9, seed: u64,
    ) {
        let case = Groups { groups, p, q, g, len, stride, offset, blocks };
        case.check::<u32>(Order::Shuffled(seed));
        case.check::<u64>(Order::Shuffled(seed));
        case.check::<u128>(Order::Shuffled(seed));
    }
}
