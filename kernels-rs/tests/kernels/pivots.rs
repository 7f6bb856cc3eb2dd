use crate::support::*;
use meshsolve_kernels::args::{GatherRowsArgs, PlacesOfPivotsArgs, SpreadPivotsArgs};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{gather_rows, places_of_pivots, spread_pivots};
use proptest::prelude::*;

#[test]
fn pivots_go_to_their_global_columns() {
    for order in ORDERS {
        for cols in [0, 1, 33, 255, 256, 257, 700] {
            for col_map in maps(cols.max(1)) {
                let pivots: Vec<i64> = (0..cols as i64).map(|j| j * 7 + 3).collect();
                let mut expected = vec![0; col_map.limit as usize];
                for (j, column) in dealt(&col_map, cols).into_iter().enumerate() {
                    if let Some(global) = column {
                        expected[global] = pivots[j] as i32;
                    }
                }
                let (mut from, mut out) = (Buffer::new(&pivots), Buffer::new(&vec![0_i32; expected.len()]));
                let args = SpreadPivotsArgs {
                    pivots: from.address(),
                    out: out.address(),
                    cols: cols as u64,
                    col_map,
                };
                run_on_blocks(spread_pivots(args), 2, order);
                assert_eq!(out.values(), expected, "{cols} columns, {col_map:?}, {order:?}");
            }
        }
    }
}

/// The kernel's permutation.
fn places_of(pivots: &[i32], order: Order) -> Vec<i32> {
    let (mut words, mut places) = (Buffer::new(pivots), Buffer::new(&vec![-1_i32; pivots.len()]));
    let args =
        PlacesOfPivotsArgs { pivots: words.address(), places: places.address(), n: pivots.len() as u64 };
    run_on_blocks(places_of_pivots(args), 1, order);
    places.values()
}

/// Rows interchanged one after the other, as a factorisation does, and then looked for.
fn interchanged(pivots: &[i32]) -> Vec<i32> {
    let n = pivots.len();
    let mut rows: Vec<i32> = (0..n as i32).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        if (1..=n as i32).contains(&pivot) {
            rows.swap(i, pivot as usize - 1);
        }
    }
    (0..n as i32).map(|row| rows.iter().position(|&at| at == row).unwrap() as i32).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn interchanges_make_a_permutation(
        pivots in (0_i32..600).prop_flat_map(|n| prop::collection::vec(-2..n + 4, n as usize)),
        seed in any::<u64>(),
    ) {
        prop_assert_eq!(places_of(&pivots, Order::Shuffled(seed)), interchanged(&pivots));
    }
}

#[test]
fn the_permutation_of_special_pivots() {
    for order in ORDERS {
        assert_eq!(places_of(&[], order), []);
        assert_eq!(places_of(&[1], order), [0]);
        assert_eq!(places_of(&[3, 3, 3], order), [1, 2, 0]);
        assert_eq!(places_of(&[i32::MIN, i32::MAX, 0, -1, 6], order), [0, 1, 2, 3, 4]);
        // Every row moves down by one.
        let ends_last = vec![300; 300];
        assert_eq!(places_of(&ends_last, order), interchanged(&ends_last));
    }
}

fn check_gather<T: Element>(count: usize, cols: usize, order: Order) {
    // Different indices, of which some are none.
    let mut rows: Vec<i32> = (0..count as i32).map(|s| (s * 7 + 3) % count as i32).collect();
    if count.is_multiple_of(7) {
        rows = (0..count as i32).rev().collect();
    }
    if count > 10 {
        (rows[3], rows[6], rows[9]) = (-1, count as i32, i32::MIN);
    }
    for map in maps(count.max(1)) {
        let from: Vec<T> = encoded(1, map.limit as usize * cols);
        let to: Vec<T> = encoded(2, from.len());
        let targets = dealt(&map, count);
        let mut expected = to.clone();
        for (s, &row) in rows.iter().enumerate() {
            let source = usize::try_from(row).ok().and_then(|row| targets.get(row).copied().flatten());
            if let (Some(source), Some(target)) = (source, targets[s]) {
                expected[target * cols..][..cols].copy_from_slice(&from[source * cols..][..cols]);
            }
        }
        let (mut src, mut dst, mut words) = (Buffer::new(&from), Buffer::new(&to), Buffer::new(&rows));
        let args = GatherRowsArgs {
            src: src.address(),
            dst: dst.address(),
            cols: cols as u64,
            rows: words.address(),
            count: count as u64,
            map,
        };
        run_on_blocks(gather_rows(T::SIZE, args), 3, order);
        assert!(dst.values() == expected, "{:?}, {count} × {cols}, {map:?}, {order:?}", T::SIZE);
        assert_eq!(src.values(), from);
    }
}

#[test]
fn rows_are_gathered_bit_for_bit() {
    for (order, count) in ORDERS.into_iter().cycle().zip([0, 1, 2, 14, 31, 65, 33, 300]) {
        for cols in [0, 1, 3, 4, 8, 257] {
            check_gather::<u32>(count, cols, order);
            check_gather::<u64>(count, cols, order);
            check_gather::<u128>(count, cols, order);
        }
    }
}
