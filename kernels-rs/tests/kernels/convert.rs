use crate::support::*;
use meshsolve_kernels::args::{ConvertArgs, IndexMap};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{convert_forward, convert_reverse};
use proptest::prelude::*;

/// A conversion between a row-major matrix and a column-major one with `rows × cols`.
#[derive(Clone, Copy, Debug)]
struct Case {
    rows: usize,
    cols: usize,
    row_map: IndexMap,
    col_map: IndexMap,
    /// How much longer leading dimensions are than they must be: of the row-major side, of the other.
    slack: (usize, usize),
    /// How many elements the two matrices stand behind an address that is a multiple of 16 bytes.
    offset: (usize, usize),
    blocks: u32,
}

impl Case {
    fn row_major_ld(&self) -> usize {
        self.col_map.limit as usize + self.slack.0
    }

    fn col_major_ld(&self) -> usize {
        self.rows + self.slack.1
    }

    /// (offset in the row-major matrix if there is one, offset in the column-major one).
    fn pairs(&self) -> Vec<(Option<usize>, usize)> {
        let (rows, cols) = (dealt(&self.row_map, self.rows), dealt(&self.col_map, self.cols));
        let mut pairs = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            for (j, col) in cols.iter().enumerate() {
                let row_major =
                    row.zip(*col).map(|(row, col)| self.offset.0 + row * self.row_major_ld() + col);
                pairs.push((row_major, self.offset.1 + i + j * self.col_major_ld()));
            }
        }
        pairs
    }

    fn check<T: Element>(&self, order: Order) {
        let row_major: Vec<T> = encoded(1, self.offset.0 + self.row_map.limit as usize * self.row_major_ld());
        let col_major: Vec<T> = encoded(2, self.offset.1 + self.cols * self.col_major_ld());
        let (at_row_major, at_col_major) =
            ((self.offset.0 * size_of::<T>()) as u64, (self.offset.1 * size_of::<T>()) as u64);
        let args = |src, dst, ld_src: usize, ld_dst: usize| ConvertArgs {
            src,
            dst,
            ld_src: ld_src as u64,
            ld_dst: ld_dst as u64,
            rows: self.rows as u64,
            cols: self.cols as u64,
            row_map: self.row_map,
            col_map: self.col_map,
        };

        let (mut src, mut dst) = (Buffer::new(&row_major), Buffer::new(&col_major));
        let forward = args(
            src.address() + at_row_major,
            dst.address() + at_col_major,
            self.row_major_ld(),
            self.col_major_ld(),
        );
        run_on_blocks(convert_forward(T::SIZE, forward), self.blocks, order);
        let mut expected = col_major.clone();
        for (from, to) in self.pairs() {
            expected[to] = from.map_or(T::zeroed(), |from| row_major[from]);
        }
        assert_eq!(src.values(), row_major, "the source changed");
        assert!(dst.values() == expected, "forward, {:?}, {order:?}, {self:?}", T::SIZE);

        let (mut src, mut dst) = (Buffer::new(&col_major), Buffer::new(&row_major));
        let reverse = args(
            src.address() + at_col_major,
            dst.address() + at_row_major,
            self.col_major_ld(),
            self.row_major_ld(),
        );
        run_on_blocks(convert_reverse(T::SIZE, reverse), self.blocks, order);
        let mut expected = row_major.clone();
        for (to, from) in self.pairs() {
            if let Some(to) = to {
                expected[to] = col_major[from];
            }
        }
        assert_eq!(src.values(), col_major, "the source changed");
        assert!(dst.values() == expected, "reverse, {:?}, {order:?}, {self:?}", T::SIZE);
    }

    fn check_all(&self, order: Order) {
        self.check::<u32>(order);
        self.check::<u64>(order);
        self.check::<u128>(order);
    }
}

#[test]
fn conversion_of_all_extents_around_tile_edges() {
    for rows in EXTENTS {
        for (at, cols) in EXTENTS.into_iter().enumerate() {
            let (row_map, col_map) = (IndexMap::identity(rows as u64), IndexMap::identity(cols as u64));
            let case = Case { rows, cols, row_map, col_map, slack: (0, 0), offset: (0, 0), blocks: u32::MAX };
            case.check_all(ORDERS[at % ORDERS.len()]);
            // Leading dimensions that are multiples of 16 bytes, so that both sides move in vectors.
            let slack = (cols.next_multiple_of(4) - cols, rows.next_multiple_of(4) - rows + 4);
            Case { slack, ..case }.check_all(ORDERS[at % ORDERS.len()]);
        }
    }
}

#[test]
fn conversion_through_all_kinds_of_maps_in_all_orders() {
    let (rows, cols) = (67, 70);
    for order in ORDERS {
        for (at, row_map) in maps(rows).into_iter().enumerate() {
            for col_map in maps(cols) {
                let blocks = [1, 2, u32::MAX][at % 3];
                let case = Case { rows, cols, row_map, col_map, slack: (3, 3), offset: (0, 0), blocks };
                case.check_all(order);
                let slack = ((4 - col_map.limit as usize % 4) % 4, 4 - rows % 4);
                Case { slack, ..case }.check_all(order);
            }
        }
    }
}

#[test]
fn conversion_with_each_side_aligned_or_not() {
    let (rows, cols) = (70, 131);
    // Dealt in tiles of 4 and of 6: all vectors of columns stay together, or only some.
    for (row_map, col_map) in
        [4, 6].map(|tile| (IndexMap::identity(rows), IndexMap::block_cyclic(tile, 2, 1, 2 * cols)))
    {
        let (rows, cols) = (rows as usize, cols as usize);
        for slack in [(2, 2), (2, 3), (3, 2), (3, 3)] {
            for offset in [(0, 0), (4, 1), (2, 4), (3, 2)] {
                let case = Case { rows, cols, row_map, col_map, slack, offset, blocks: u32::MAX };
                case.check_all(Order::Shuffled(7));
            }
        }
    }
}

#[test]
fn conversion_of_nothing_is_an_empty_call() {
    let map = IndexMap::identity(4);
    let args =
        ConvertArgs { src: 0, dst: 0, ld_src: 1, ld_dst: 1, rows: 0, cols: 4, row_map: map, col_map: map };
    for size in meshsolve_kernels::launch::ElementSize::ALL {
        assert!(convert_forward(size, args).is_empty());
        assert!(convert_reverse(size, args).is_empty());
        assert!(!convert_forward(size, ConvertArgs { rows: 1, ..args }).is_empty());
    }
}

prop_compose! {
    fn any_map(count: usize)(
        tile in 1_u64..40, procs in 1_u64..4, proc_seed in 0_u64..4, first in 0_u64..9,
        turn in 0.0..1.0_f64, cut in 0_u64..20, rotates: bool,
    ) -> IndexMap {
        let base = IndexMap { first, ..IndexMap::block_cyclic(tile, procs, proc_seed % procs, 0) };
        // All global indices of the dimension are below this.
        let capacity = (count as u64 + first).div_ceil(tile) * tile * procs;
        let rotation = if rotates {
            IndexMap { shift: (turn * capacity as f64) as u64 % capacity, capacity, ..base }
        } else {
            base
        };
        IndexMap { limit: capacity.saturating_sub(cut).max(1), ..rotation }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn conversion_of_anything(
        (rows, cols, row_map, col_map) in (1_usize..100, 1_usize..100).prop_flat_map(|(rows, cols)| {
            (Just(rows), Just(cols), any_map(rows), any_map(cols))
        }),
        slack in (0_usize..4, 0_usize..4),
        offset in (0_usize..4, 0_usize..4),
        blocks in 1_u32..6,
        seed: u64,
    ) {
        Case { rows, cols, row_map, col_map, slack, offset, blocks }.check_all(Order::Shuffled(seed));
    }

    #[test]
    fn unmap_is_the_inverse_of_map(map in any_map(60), outside in 0_u64..1000) {
        let dealt = dealt(&map, 60);
        for (l, result) in dealt.iter().enumerate() {
            prop_assert_eq!(map.map(l as u64), result.map(|result| result as u64));
            if let Some(result) = result {
                prop_assert_eq!(map.unmap(*result as u64), Some(l as u64));
            }
        }
        if let Some(l) = map.unmap(outside) {
            prop_assert_eq!(map.map(l), Some(outside));
        }
    }
}
