use crate::support::*;
use meshsolve_kernels::args::InPlaceArgs;
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{move_chains, move_cycles, save_cuts, transpose_blocks};
use proptest::prelude::*;

/// A matrix of `p·g` rows and `q·g` columns, cut at every `stride`-th segment.
#[derive(Clone, Copy, Debug)]
struct Case {
    p: usize,
    q: usize,
    g: usize,
    stride: usize,
    blocks: u32,
}

impl Case {
    fn rows(&self) -> usize {
        self.p * self.g
    }

    fn cols(&self) -> usize {
        self.q * self.g
    }

    fn args(&self, buf: u64, scratch: u64) -> InPlaceArgs {
        let [p, q, g, stride] = [self.p, self.q, self.g, self.stride].map(|x| x as u64);
        InPlaceArgs { buf, scratch, p, q, g, stride }
    }

    /// The whole conversion, with chains and cycles moved in either order.
    fn check<T: Element>(&self, order: Order, cycles_first: bool) {
        let (rows, cols) = (self.rows(), self.cols());
        let matrix: Vec<T> = encoded(1, rows * cols);
        let mut buf = Buffer::new(&matrix);
        let cuts = (rows * self.q).div_ceil(self.stride);
        let mut scratch = Buffer::new(&encoded::<T>(2, cuts * self.g));
        let args = self.args(buf.address(), scratch.address());
        assert_eq!(args.cuts(), cuts as u64);
        run_on_blocks(transpose_blocks(T::SIZE, args), self.blocks, order);

        let mut expected = matrix.clone();
        for row in 0..rows {
            for col in 0..cols {
                let (a, i, b, j) = (row / self.g, row % self.g, col / self.g, col % self.g);
                expected[(a * self.g + j) * cols + b * self.g + i] = matrix[row * cols + col];
            }
        }
        assert!(buf.values() == expected, "blocks, {:?}, {order:?}, {self:?}", T::SIZE);

        run_on_blocks(save_cuts(T::SIZE, args), self.blocks, order);
        if cycles_first {
            run_on_blocks(move_cycles(T::SIZE, args), self.blocks, order);
        }
        run_on_blocks(move_chains(T::SIZE, args), self.blocks, order);
        if !cycles_first {
            run_on_blocks(move_cycles(T::SIZE, args), self.blocks, order);
        }
        scratch.values();
        for row in 0..rows {
            for col in 0..cols {
                expected[row + col * rows] = matrix[row * cols + col];
            }
        }
        assert!(buf.values() == expected, "whole, {:?}, {order:?}, {self:?}", T::SIZE);
    }
}

#[test]
fn conversion_of_blocks_around_tile_edges_in_all_orders() {
    for (at, g) in EXTENTS.into_iter().enumerate() {
        for (p, q) in [(1, 1), (1, 3), (2, 1), (2, 3)] {
            for (order, stride) in ORDERS.into_iter().zip([1, 2, 7, 1000]) {
                let case = Case { p, q, g, stride, blocks: [u32::MAX, 2][at % 2] };
                case.check::<u32>(order, false);
                case.check::<u64>(order, true);
                case.check::<u128>(order, false);
            }
        }
    }
}

#[test]
fn conversion_with_one_very_long_cycle() {
    // (3, 4, 100): most segments are on one cycle.
    for stride in [1, 10, 64, 500, 2000] {
        Case { p: 3, q: 4, g: 100, stride, blocks: u32::MAX }.check::<u64>(Order::Reverse, false);
    }
}

#[test]
fn cycles_without_a_cut_are_found_and_moved() {
    // A stride beyond the last segment leaves segment 0 as the only cut, and that one stays in place.
    // One block goes over the last two in several rounds.
    for (p, q, g) in [(2, 2, 8), (5, 3, 4), (7, 2, 33), (4, 6, 16), (5, 3, 40)] {
        for blocks in [1, u32::MAX] {
            let case = Case { p, q, g, stride: p * q * g + 1, blocks };
            for order in ORDERS {
                case.check::<u64>(order, true);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn conversion_of_anything(
        p in 1_usize..6, q in 1_usize..6, g in 1_usize..40, stride in 1_usize..300,
        blocks in 1_u32..9, seed: u64, cycles_first: bool,
    ) {
        let case = Case { p, q, g, stride, blocks };
        case.check::<u32>(Order::Shuffled(seed), cycles_first);
        case.check::<u64>(Order::Shuffled(seed), cycles_first);
        case.check::<u128>(Order::Shuffled(seed), cycles_first);
    }
}
