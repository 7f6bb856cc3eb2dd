use crate::support::*;
use bytemuck::Pod;
use meshsolve_kernels::args::{CombineStatusArgs, FindAnywhereArgs, FindNonFiniteArgs, IndexMap, Triangle};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{RealType, combine_status, find_non_finite, find_non_finite_anywhere};

/// Puts each of `bad` at each of some places of a finite matrix and asks the kernel.
fn check_non_finite<R: Pod>(real: RealType, parts: usize, finite: &[R], bad: &[R], order: Order) {
    let (rows, cols, ld) = (35, 34, 37);
    let (row_map, col_map) = (IndexMap::block_cyclic(4, 2, 1, 66), IndexMap::block_cyclic(4, 2, 1, 61));
    let (global_rows, global_cols) = (dealt(&row_map, rows), dealt(&col_map, cols));
    let clean: Vec<R> = (0..ld * cols * parts).map(|index| finite[index % finite.len()]).collect();
    for (triangle, inside) in [
        (Triangle::Both, (|_, _| true) as fn(usize, usize) -> bool),
        (Triangle::Lower, |row, col| row >= col),
        (Triangle::Upper, |row, col| row <= col),
    ] {
        let ask = |matrix: &[R]| {
            let (mut buf, mut flag) = (Buffer::new(matrix), Buffer::new(&[0_i32]));
            let args = FindNonFiniteArgs {
                buf: buf.address(),
                flag: flag.address(),
                ld: ld as u64,
                rows: rows as u64,
                cols: cols as u64,
                row_map,
                col_map,
                parts: parts as u32,
                triangle: triangle as u32,
            };
            run_on_blocks(find_non_finite(real, args), 1, order);
            flag.values()[0]
        };
        assert_eq!(ask(&clean), 0, "{real:?}: all elements are finite");
        let on_the_diagonal = (0..cols).map(|j| j + j * ld);
        for (at, place) in (0..ld * cols).step_by(11).chain(on_the_diagonal).enumerate() {
            let (i, j) = (place % ld, place / ld);
            let mut matrix = clean.clone();
            matrix[place * parts + at % parts] = bad[at % bad.len()];
            let global = global_rows.get(i).copied().flatten().zip(global_cols[j]);
            let expected = global.is_some_and(|(row, col)| inside(row, col));
            assert_eq!(ask(&matrix), expected.into(), "{real:?}, {triangle:?}, ({i}, {j}), {order:?}");
        }
    }
}

#[test]
fn non_finite_elements_are_found_in_their_triangle_only() {
    const F32: [f32; 5] = [0.0, -0.0, f32::MAX, f32::MIN, 1e-45];
    const BAD_F32: [f32; 4] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN];
    const F64: [f64; 5] = [0.0, -0.0, f64::MAX, f64::MIN, 5e-324];
    const BAD_F64: [f64; 4] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN];
    for (order, parts) in [(Order::Forward, 1), (Order::Reverse, 2), (Order::Shuffled(3), 1)] {
        check_non_finite(RealType::F32, parts, &F32, &BAD_F32, order);
        check_non_finite(RealType::F64, parts, &F64, &BAD_F64, order);
    }
}

/// Puts `bad` at each place of numbers that begin `first` numbers into aligned memory, and beside them.
fn check_anywhere<R: Pod>(real: RealType, finite: R, bad: R, first: usize, count: usize, order: Order) {
    for place in 0..first + count + 1 {
        let mut memory = vec![finite; first + count + 1];
        memory[place] = bad;
        let (mut buf, mut flag) = (Buffer::new(&memory), Buffer::new(&[0_i32]));
        let args = FindAnywhereArgs {
            buf: buf.address() + (first * size_of::<R>()) as u64,
            flag: flag.address(),
            count: count as u64,
        };
        run_on_blocks(find_non_finite_anywhere(real, args), 2, order);
        let expected = (first..first + count).contains(&place);
        assert_eq!(flag.values()[0], expected.into(), "{real:?}: {place} of {first} + {count}, {order:?}");
    }
}

#[test]
fn non_finite_numbers_are_found_anywhere_and_nowhere_else() {
    for (order, count) in
        [(Order::Forward, 0), (Order::Reverse, 1), (Order::Shuffled(5), 9), (Order::Forward, 23)]
    {
        for first in 0..4 {
            check_anywhere(RealType::F32, f32::MAX, f32::NAN, first, count, order);
            check_anywhere(RealType::F64, f64::MIN, f64::NEG_INFINITY, first, count, order);
        }
    }
    // Several items of a block, and blocks that come back for more.
    let mut numbers = vec![1.0_f32; 30_000];
    for place in [0, 4095, 4096, 16_383, 29_998, 29_999] {
        numbers[place] = f32::INFINITY;
        let (mut buf, mut flag) = (Buffer::new(&numbers), Buffer::new(&[0_i32]));
        let args = FindAnywhereArgs { buf: buf.address(), flag: flag.address(), count: numbers.len() as u64 };
        run_on_blocks(find_non_finite_anywhere(RealType::F32, args), 2, Order::Forward);
        assert_eq!(flag.values()[0], 1, "{place}");
        numbers[place] = 1.0;
    }
}

#[test]
fn a_flag_that_is_set_stays_set() {
    let (mut buf, mut flag) = (Buffer::new(&[1.0_f64]), Buffer::new(&[1_i32]));
    let map = IndexMap::identity(1);
    let (buf, flag_at) = (buf.address(), flag.address());
    let args = FindNonFiniteArgs {
        buf,
        flag: flag_at,
        ld: 1,
        rows: 1,
        cols: 1,
        row_map: map,
        col_map: map,
        parts: 1,
        triangle: 0,
    };
    run(find_non_finite(RealType::F64, args), Order::Forward);
    assert_eq!(flag.values(), [1]);
}

#[test]
fn the_first_word_that_is_not_zero_decides_the_status() {
    for (max, min, expected) in [
        (vec![], vec![], 0),
        (vec![0, 0, 0], vec![0, 0, 0], 0),
        (vec![1, 5, 6], vec![0, 0, 0], -1),
        (vec![0, 5, 6], vec![0, 2, 3], 5),
        (vec![0, 0, 6], vec![0, 0, 0], 6),
        (vec![0, 0, 0], vec![0, 0, -3], -3),
        (vec![0, 0, 9], vec![0, -2, 0], -2),
        (vec![0, 0, 9], vec![-1, 0, 0], -1),
    ] {
        let (mut max_words, mut min_words) = (Buffer::<i32>::new(&max), Buffer::<i32>::new(&min));
        let mut out = Buffer::new(&[123_i32]);
        let args = CombineStatusArgs {
            max: max_words.address(),
            min: min_words.address(),
            out: out.address(),
            count: max.len() as u64,
            map: IndexMap::identity(u64::MAX),
            from_end: 0,
        };
        run(combine_status(args), Order::Forward);
        assert_eq!(out.values(), [expected], "max {max:?}, min {min:?}");
    }
}

#[test]
fn a_positive_status_becomes_the_callers_row() {
    // 3 shards of 5 elements in tiles of 2, read in turn: 0 1 5 6 10 11 2 3 7 8 12 13 4 – 9 – 14 –
    let map = IndexMap { fine: 3, coarse: 1, shard: 5, ..IndexMap::block_cyclic(2, 1, 0, 15) };
    for (solvers, callers) in
        [(1, 1), (3, 6), (4, 7), (7, 3), (12, 14), (13, 5), (15, 10), (14, 14), (-4, -4)]
    {
        let (mut max, mut min) = (Buffer::new(&[0, solvers.max(0)]), Buffer::new(&[0, solvers.min(0)]));
        let mut out = Buffer::new(&[123_i32]);
        let args = CombineStatusArgs {
            max: max.address(),
            min: min.address(),
            out: out.address(),
            count: 2,
            map,
            from_end: 0,
        };
        run(combine_status(args), Order::Forward);
        assert_eq!(out.values(), [callers], "row {solvers}");
    }
}

#[test]
fn word_one_may_count_from_the_end() {
    // A reading of 4 shards of 5 elements, one tile of 5 each, dealt as 0 2 1 3.
    let map = IndexMap { fine: 4, coarse: 2, shard: 5, ..IndexMap::block_cyclic(5, 1, 0, 20) };
    let identity = IndexMap::identity(u64::MAX);
    for (max, min, map, expected) in [
        // n − g of the row g = 0, 3 and 19, counted from 1.
        ([0, 20, 0], [0, 0, 0], identity, 1),
        ([0, 17, 5], [0, 0, 2], identity, 4),
        ([0, 1, 0], [0, 0, 0], identity, 20),
        // The solver's rows 0, 7 and 12 are the caller's 0, 12 and 7.
        ([0, 20, 0], [0, 0, 0], map, 1),
        ([0, 13, 0], [0, 0, 0], map, 13),
        ([0, 8, 0], [0, 0, 0], map, 8),
        // All others are as they are without.
        ([1, 20, 0], [0, 0, 0], identity, -1),
        ([0, 0, 0], [0, -3, 0], identity, -3),
        ([0, -2, 0], [0, -3, 0], identity, -2),
        ([0, 0, 5], [0, 0, 0], identity, 5),
        ([0, 0, 0], [0, 0, 0], identity, 0),
    ] {
        let (mut max_words, mut min_words) = (Buffer::new(&max), Buffer::new(&min));
        let mut out = Buffer::new(&[123_i32]);
        let args = CombineStatusArgs {
            max: max_words.address(),
            min: min_words.address(),
            out: out.address(),
            count: 3,
            map,
            from_end: 20,
        };
        run(combine_status(args), Order::Forward);
        assert_eq!(out.values(), [expected], "max {max:?}, min {min:?}, {map:?}");
    }
}
