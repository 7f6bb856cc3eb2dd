use crate::support::*;
use meshsolve_kernels::args::{
    ClearOtherTriangleArgs, ConjugateArgs, FillArgs, IndexMap, SetIdentityArgs, Triangle,
};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{ElementSize, RealType, clear_other_triangle, conjugate, fill, set_identity};

/// A guard word: none, one that forbids, or one that allows.
const GUARDS: [Option<i32>; 4] = [None, Some(0), Some(1), Some(-7)];

/// Calls `check` with the guard's address and whether the kernel must act.
fn with_guard(guard: Option<i32>, check: impl FnOnce(u64, bool)) {
    let mut word = Buffer::new(&[guard.unwrap_or(0)]);
    check(guard.map_or(0, |_| word.address()), guard != Some(0));
}

fn check_identity<T: Element>(rows: usize, cols: usize, order: Order, guard: Option<i32>) {
    let one = T::encode(77);
    for row_map in maps(rows) {
        for col_map in maps(cols) {
            for (row_real, col_real) in [
                (IndexMap::identity(0), IndexMap::identity(0)),
                (IndexMap::identity(rows as u64 / 2), IndexMap::identity(cols as u64)),
                (
                    IndexMap { limit: row_map.limit / 2, ..row_map },
                    IndexMap::block_cyclic(4, 2, 1, cols as u64),
                ),
                (IndexMap::identity(u64::MAX), IndexMap::identity(u64::MAX)),
            ] {
                let ld = rows + 2;
                let before: Vec<T> = encoded(1, ld * cols);
                let mut buf = Buffer::new(&before);
                let mut expected = before.clone();
                // The ones where they are in the identity, and in another order.
                let permuted = (order == Order::Forward) == (rows > cols);
                let ones: Vec<i32> = (0..col_map.limit as i32)
                    .map(|j| if permuted { (5 * j + 3) % 64 - 1 } else { j })
                    .collect();
                let mut places = Buffer::new(&ones);
                with_guard(guard, |guard, acts| {
                    let args = SetIdentityArgs {
                        buf: buf.address(),
                        guard,
                        ld: ld as u64,
                        rows: rows as u64,
                        cols: cols as u64,
                        row_map,
                        col_map,
                        row_real,
                        col_real,
                        one: one.words(),
                        places: if permuted { places.address() } else { 0 },
                    };
                    run_on_blocks(set_identity(T::SIZE, args), 2, order);
                    let (real_rows, real_cols) = (dealt(&row_real, rows), dealt(&col_real, cols));
                    for (i, row) in dealt(&row_map, rows).into_iter().enumerate() {
                        for (j, col) in dealt(&col_map, cols).into_iter().enumerate() {
                            let Some((row, col)) = row.zip(col) else { continue };
                            if acts && (real_rows[i].is_none() || real_cols[j].is_none()) {
                                expected[i + j * ld] =
                                    if row as i32 == ones[col] { one } else { T::zeroed() };
                            }
                        }
                    }
                });
                assert!(
                    buf.values() == expected,
                    "{:?}, {order:?}, {rows} × {cols}, {row_map:?}, {col_map:?}, {row_real:?}, {col_real:?}",
                    T::SIZE
                );
            }
        }
    }
}

#[test]
fn the_identity_goes_into_the_padding_only() {
    for (order, guard) in ORDERS.into_iter().zip(GUARDS) {
        check_identity::<u32>(33, 65, order, guard);
        check_identity::<u64>(31, 40, order, guard);
        check_identity::<u128>(65, 33, order, guard);
        check_identity::<u64>(300, 3, order, guard);
    }
}

fn check_triangle<T: Element>(rows: usize, cols: usize, order: Order) {
    let ld = rows + 2;
    for (row_map, col_map) in
        maps(rows).into_iter().flat_map(|map| maps(cols).into_iter().map(move |col| (map, col)))
    {
        for (kept, stays) in [
            (Triangle::Both, (|_, _| true) as fn(usize, usize) -> bool),
            (Triangle::Lower, |row, col| row >= col),
            (Triangle::Upper, |row, col| row <= col),
        ] {
            let before: Vec<T> = encoded(1, ld * cols);
            let mut expected = before.clone();
            for (i, row) in dealt(&row_map, rows).into_iter().enumerate() {
                for (j, col) in dealt(&col_map, cols).into_iter().enumerate() {
                    if row.zip(col).is_some_and(|(row, col)| !stays(row, col)) {
                        expected[i + j * ld] = T::zeroed();
                    }
                }
            }
            let mut buf = Buffer::new(&before);
            let args = ClearOtherTriangleArgs {
                buf: buf.address(),
                ld: ld as u64,
                rows: rows as u64,
                cols: cols as u64,
                row_map,
                col_map,
                kept: kept as u64,
            };
            run_on_blocks(clear_other_triangle(T::SIZE, args), 2, order);
            assert!(
                buf.values() == expected,
                "{:?}, {kept:?}, {order:?}, {rows} × {cols}, {row_map:?}, {col_map:?}",
                T::SIZE
            );
        }
    }
}

#[test]
fn one_triangle_stays_and_the_other_is_cleared() {
    for order in ORDERS {
        check_triangle::<u32>(33, 65, order);
        check_triangle::<u64>(31, 40, order);
        check_triangle::<u128>(65, 33, order);
        check_triangle::<u64>(300, 3, order);
    }
}

fn check_fill<T: Element>(count: usize, order: Order) {
    for guard in GUARDS {
        let before: Vec<T> = encoded(1, count);
        let mut buf = Buffer::new(&before);
        let value = T::encode(5);
        with_guard(guard, |guard, acts| {
            let args = FillArgs { buf: buf.address(), guard, count: count as u64, value: value.words() };
            run_on_blocks(fill(T::SIZE, args), 3, order);
            let expected = if acts { vec![value; count] } else { before };
            assert_eq!(buf.values(), expected, "{order:?}");
        });
    }
}

#[test]
fn a_value_fills_a_buffer() {
    for order in ORDERS {
        for count in EXTENTS.into_iter().chain([255, 256, 257, 1500]) {
            check_fill::<u32>(count, order);
            check_fill::<u64>(count, order);
            check_fill::<u128>(count, order);
        }
    }
    assert!(fill(ElementSize::B4, FillArgs { buf: 0, guard: 0, count: 0, value: [0; 2] }).is_empty());
}

#[test]
fn imaginary_parts_change_their_sign() {
    for order in ORDERS {
        for count in EXTENTS.into_iter().chain([255, 256, 257, 1500]) {
            let before: Vec<f64> = (0..2 * count).map(|at| at as f64 - 3.5).collect();
            let expected: Vec<f64> =
                before.iter().enumerate().map(|(at, x)| if at % 2 == 0 { *x } else { 0.0 - x }).collect();
            let (mut double, singles) = (Buffer::new(&before), before.iter().map(|&x| x as f32));
            let mut single = Buffer::new(&singles.collect::<Vec<_>>());
            let args = |buf| ConjugateArgs { buf, count: count as u64 };
            run_on_blocks(conjugate(RealType::F64, args(double.address())), 3, order);
            run_on_blocks(conjugate(RealType::F32, args(single.address())), 3, order);
            assert_eq!(double.values(), expected, "{order:?}");
            assert_eq!(single.values(), expected.iter().map(|&x| x as f32).collect::<Vec<_>>());
        }
    }
}
