//! The development solver on distributed matrices, judged by residuals, by factors put together again,
//! and by matrices whose pivots or leading minors are known.

use meshsolve::DType;
use meshsolve::communicator::LocalCommunicator;
use meshsolve::device::Buffer;
use meshsolve::layout::{BlockCyclic, ProcessGrid};
use meshsolve::solver::{
    Diagonal, DistributedMatrix, Eigenproblem, FaerSolver, Op, Product, Solver, Triangle, Triangular,
};
use meshsolve_tests::Memory;
use meshsolve_tests::dense::{Dense, check_residual};
use meshsolve_tests::solvers::{
    Deal, OPERANDS, Rank, RankMemory, Ranks, Solved, check_cholesky, check_eigen, check_lu, check_metric,
    check_multiply, check_singular_lu, check_triangular, cholesky, hermitian_matrices, lies_in,
    lower_and_upper, lu, shown_in, triangular,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::time::Duration;

/// Ranks on threads of this process.
struct Threads;

impl Ranks for Threads {
    fn each<R: Send>(&self, grid: [usize; 2], body: impl Fn(&Rank<'_>) -> R + Sync) -> Vec<R> {
        let group = LocalCommunicator::group(grid[0] * grid[1], Duration::from_secs(60));
        let body = &body;
        std::thread::scope(|scope| {
            let threads: Vec<_> = group
                .iter()
                .enumerate()
                .map(|(number, communicator)| {
                    scope.spawn(move || {
                        let solver = FaerSolver::new(communicator);
                        let memory = HostMemory { blocks: RefCell::default() };
                        body(&Rank { number, solver: &solver, memory: &memory })
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

struct HostMemory {
    blocks: RefCell<Vec<Memory>>,
}

impl RankMemory for HostMemory {
    fn upload(&self, bytes: &[u8]) -> Buffer {
        let mut block = Memory::new(bytes.len() as u64);
        block.bytes_mut().copy_from_slice(bytes);
        let buffer = block.buffer();
        self.blocks.borrow_mut().push(block);
        buffer
    }

    fn download(&self, buffer: Buffer) -> Vec<u8> {
        // SAFETY: a block of this memory, which nothing writes to now.
        unsafe { buffer.as_slice::<u8>() }.to_vec()
    }
}

/// Checks the Cholesky solve, and that the triangle that was not promised is left alone.
fn check_cholesky_of_all_types(grid: [usize; 2], tile: [usize; 2], n: usize, nrhs: usize) {
    for dtype in DType::ALL {
        let (a, b) = (Dense::definite(n, dtype), Dense::arbitrary(n, nrhs, dtype, 1));
        for triangle in [Triangle::Lower, Triangle::Upper] {
            let deal = Deal { grid, tile, dtype };
            check_cholesky(&Threads, deal, triangle, &a, &b);
            let marked = |i, j| if lies_in(triangle, i, j) { a.at(i, j) } else { (55.0, 0.0) };
            let Solved { factor, .. } = cholesky(&Threads, deal, triangle, &Dense::from_fn(n, n, marked), &b);
            for (i, j) in (0..n * n).map(|at| (at / n, at % n)).filter(|&(i, j)| !lies_in(triangle, i, j)) {
                assert_eq!(factor.at(i, j), (55.0, 0.0), "{deal:?} {triangle:?} {i}, {j}");
            }
        }
    }
}

#[test]
fn cholesky_on_one_rank() {
    check_cholesky_of_all_types([1, 1], [4, 2], 11, 3);
}

#[test]
fn cholesky_on_square_and_flat_grids_with_partial_tiles() {
    check_cholesky_of_all_types([2, 2], [3, 2], 13, 5);
    check_cholesky_of_all_types([1, 4], [2, 1], 9, 6);
    check_cholesky_of_all_types([3, 1], [2, 4], 11, 2);
    check_cholesky_of_all_types([2, 3], [1, 1], 8, 4);
}

#[test]
fn cholesky_large_enough_for_the_blocked_algorithm() {
    check_cholesky_of_all_types([2, 2], [32, 3], 190, 7);
}

#[test]
fn cholesky_on_ranks_that_own_nothing() {
    check_cholesky_of_all_types([2, 2], [8, 8], 5, 1);
    check_cholesky_of_all_types([3, 2], [2, 2], 1, 1);
}

#[test]
fn cholesky_of_nothing() {
    check_cholesky_of_all_types([2, 2], [3, 2], 0, 2);
    check_cholesky_of_all_types([2, 2], [3, 2], 7, 0);
    check_cholesky_of_all_types([2, 1], [3, 2], 0, 0);
}

/// Cholesky's info for a matrix of every type and triangle, on a grid with tile 3.
fn assert_info(a: &Dense, dtypes: &[DType], expected: i32) {
    for &dtype in dtypes {
        for triangle in [Triangle::Lower, Triangle::Upper] {
            let shown = shown_in(triangle, a);
            let deal = Deal { grid: [2, 2], tile: [3, 2], dtype };
            let outcome = cholesky(&Threads, deal, triangle, &shown, &Dense::arbitrary(a.rows, 2, dtype, 1));
            assert_eq!(outcome.info, expected, "{dtype:?} {triangle:?}");
        }
    }
}

#[test]
fn cholesky_info_is_the_order_of_the_first_minor_that_is_not_positive() {
    for bad in [-1.0, 0.0, f64::NAN] {
        // Around the tiles' borders, and both ends.
        for position in [0, 1, 2, 3, 5, 6, 9] {
            let mut values: Vec<f64> = (1..=10).map(f64::from).collect();
            values[position] = bad;
            assert_info(&Dense::diagonal(&values), &DType::ALL, position as i32 + 1);
        }
    }
    assert_info(&Dense::diagonal(&[1.0, 2.0, -3.0, 4.0, -5.0]), &DType::ALL, 3);
}

#[test]
fn cholesky_info_of_matrices_with_known_minors() {
    // Minors 0, −9, 36.
    let counting = Dense::from_fn(3, 3, |i, j| ((3 * i.max(j) + i.min(j)) as f64, 0.0));
    assert_info(&counting, &DType::ALL, 1);
    // Minors 1, −3.
    let second = Dense::from_fn(2, 2, |i, j| (if i == j { 1.0 } else { 2.0 }, 0.0));
    assert_info(&second, &DType::ALL, 2);
    // Hermitian with minors 2, 4 − 1 = 3, −15: the last diagonal entry is −5 with zeros beside it.
    let hermitian = Dense::from_fn(3, 3, |i, j| match (i, j) {
        (0, 0) | (1, 1) => (2.0, 0.0),
        (2, 2) => (-5.0, 0.0),
        (1, 0) => (0.0, 1.0),
        (0, 1) => (0.0, -1.0),
        _ => (0.0, 0.0),
    });
    assert_info(&hermitian, &[DType::C64, DType::C128], 3);
    // Minors 1, 1 − |2i|² = −3.
    let imaginary = Dense::from_fn(2, 2, |i, j| (f64::from(i == j), 2.0 * (i as f64 - j as f64)));
    assert_info(&imaginary, &[DType::C64, DType::C128], 2);
}

#[test]
fn cholesky_info_beyond_the_first_block_of_a_full_matrix() {
    // Leading minors below the changed entry are those of a definite matrix.
    for position in [63, 64, 127, 128, 149] {
        for dtype in DType::ALL {
            let mut a = Dense::definite(150, dtype);
            a.set(position, position, (-1.0, 0.0));
            assert_info(&a, &[dtype], position as i32 + 1);
        }
    }
}

/// Grids, tiles, order and right-hand sides: partial tiles, a tile above the order, ranks that own
/// nothing, both sides of the panel (32 columns), nothing at all.
const SYSTEMS: [([usize; 2], [usize; 2], usize, usize); 15] = [
    ([1, 1], [4, 2], 11, 3),
    ([2, 2], [3, 2], 13, 5),
    ([1, 4], [2, 1], 9, 6),
    ([3, 1], [2, 4], 11, 2),
    ([2, 3], [1, 1], 8, 4),
    ([3, 3], [4, 3], 29, 7),
    ([2, 2], [8, 8], 5, 1),
    ([3, 2], [2, 2], 1, 1),
    ([1, 2], [31, 1], 31, 1),
    ([2, 1], [7, 2], 32, 2),
    ([3, 2], [5, 1], 33, 1),
    ([2, 2], [32, 3], 70, 2),
    ([2, 2], [3, 2], 0, 2),
    ([2, 2], [3, 2], 7, 0),
    ([3, 3], [1, 1], 0, 0),
];

#[test]
fn lu_of_arbitrary_matrices() {
    for (grid, tile, n, nrhs) in SYSTEMS {
        for dtype in DType::ALL {
            let (a, b) = (Dense::arbitrary(n, n, dtype, 1), Dense::arbitrary(n, nrhs, dtype, 2));
            check_lu(&Threads, Deal { grid, tile, dtype }, &a, &b, 1.0);
        }
    }
}

/// Every element of a row times a power of two, which says nothing about its worth as a pivot.
#[test]
fn lu_of_badly_scaled_rows() {
    for dtype in DType::ALL {
        let plain = Dense::arbitrary(40, 40, dtype, 3);
        let scale = |i: usize| 2.0_f64.powi((i * 7 % 5) as i32 * 12 - 24);
        let a = Dense::from_fn(40, 40, |i, j| (plain.at(i, j).0 * scale(i), plain.at(i, j).1 * scale(i)));
        let b = Dense::arbitrary(40, 2, dtype, 4);
        check_lu(&Threads, Deal { grid: [2, 3], tile: [6, 2], dtype }, &a, &b, 1.0);
    }
}

/// Without interchanges 1e-20 would be the first pivot and x = (0, 1).
#[test]
fn lu_needs_its_pivots() {
    for dtype in DType::ALL {
        let a = Dense::from_fn(2, 2, |i, j| (if (i, j) == (0, 0) { 1e-20 } else { 1.0 }, 0.0));
        let b = Dense::from_fn(2, 1, |i, _| ((i + 1) as f64, 0.0));
        let solved = lu(&Threads, Deal { grid: [2, 1], tile: [1, 1], dtype }, &a, &b);
        assert_eq!((solved.info, &solved.pivots[..]), (0, &[1, 1][..]));
        assert_eq!(solved.solution.values, [(1.0, 0.0), (1.0, 0.0)], "{dtype:?}");
    }
}

/// Row i has one element, in column i + 1, the last row in column 0: the row that is put last by the
/// first interchange comes last again every time.
#[test]
fn pivots_of_a_cyclic_shift_are_all_the_last_row() {
    for n in [2, 5, 31, 32, 33, 65] {
        let a = Dense::from_fn(n, n, |i, j| (if (i + 1) % n == j { 2.0 + i as f64 } else { 0.0 }, 0.0));
        let deal = Deal { grid: [3, 2], tile: [4, 1], dtype: DType::F64 };
        let solved = lu(&Threads, deal, &a, &Dense::arbitrary(n, 1, DType::F64, 1));
        assert_eq!(solved.pivots, vec![n - 1; n]);
        let [lower, upper] = lower_and_upper(&solved.factor);
        let diagonal = |value: fn(usize, usize) -> f64| {
            Dense::from_fn(n, n, |i, j| (if i == j { value(i, n) } else { 0.0 }, 0.0))
        };
        assert_eq!(lower, diagonal(|_, _| 1.0));
        // Row n − 1 of A comes first, then rows 0, 1, ….
        assert_eq!(upper, diagonal(|i, n| if i == 0 { 1.0 + n as f64 } else { 1.0 + i as f64 }));
    }
}

#[test]
fn lu_info_is_the_first_zero_of_the_diagonal() {
    let deal = |dtype| Deal { grid: [2, 2], tile: [5, 2], dtype };
    for dtype in DType::ALL {
        for columns in [&[0][..], &[4], &[5, 20], &[31], &[32], &[69], &[69, 0]] {
            let mut a = Dense::arbitrary(70, 70, dtype, 4);
            for &column in columns {
                (0..70).for_each(|i| a.set(i, column, (0.0, 0.0)));
            }
            let first = *columns.iter().min().unwrap();
            let b = Dense::arbitrary(70, 1, dtype, 5);
            check_singular_lu(&Threads, deal(dtype), &a, first);
            // As LAPACK says it.
            assert_eq!(lu(&Threads, deal(dtype), &a, &b).info, first as i32 + 1);
        }
        // Rank 1 in numbers that leave exact zeros.
        let power = |i: usize| 2.0_f64.powi(i as i32 % 4);
        let one = Dense::from_fn(12, 12, |i, j| (power(i) * power(j + 1), 0.0));
        check_singular_lu(&Threads, deal(dtype), &one, 1);
        let zero = Dense::from_fn(12, 12, |_, _| (0.0, 0.0));
        check_singular_lu(&Threads, deal(dtype), &zero, 0);
    }
}

#[test]
fn triangular_solves() {
    for (grid, tile, n, nrhs) in SYSTEMS {
        for dtype in DType::ALL {
            check_triangular(&Threads, Deal { grid, tile, dtype }, n, nrhs);
        }
    }
}

/// Aᵀ = Uᵀ·Lᵀ·P: two triangular solves, then the interchanges backwards.
#[test]
fn triangular_solves_with_the_factors_of_lu_solve_transposed_systems() {
    for dtype in DType::ALL {
        let deal = Deal { grid: [2, 2], tile: [4, 2], dtype };
        let (a, b) = (Dense::arbitrary(37, 37, dtype, 6), Dense::arbitrary(37, 3, dtype, 7));
        let solved = lu(&Threads, deal, &a, &b);
        for op in [Op::Transpose, Op::ConjugateTranspose] {
            let solve = |triangle, diagonal, b: &Dense| {
                let form = Triangular { triangle, op, diagonal };
                triangular(&Threads, deal, (1, None), &[form], |_| solved.factor.clone(), b).remove(0)
            };
            let y = solve(Triangle::Upper, Diagonal::NonUnit, &b);
            let mut x = solve(Triangle::Lower, Diagonal::Unit, &y);
            for (i, &pivot) in solved.pivots.iter().enumerate().rev() {
                x.swap_rows(i, pivot);
            }
            check_residual(&a.op(op), &x, &b, dtype, &format!("{op:?} {dtype:?}"));
        }
    }
}

#[test]
fn eigenvalues_and_vectors_of_all_kinds_of_matrices() {
    for (grid, tile, n) in [([2, 2], 5, 21), ([3, 3], 4, 29), ([2, 3], 16, 64), ([3, 2], 7, 33)] {
        for dtype in DType::ALL {
            for (_, a, known) in hermitian_matrices(n, dtype) {
                check_eigen(&Threads, Deal { grid, tile: [tile; 2], dtype }, &a, known.as_deref());
            }
        }
    }
}

#[test]
fn eigenproblems_of_any_order_and_tile() {
    for (grid, tile, n, _) in SYSTEMS {
        for dtype in DType::ALL {
            let deal = Deal { grid, tile, dtype };
            check_eigen(&Threads, deal, &Dense::hermitian(n, dtype, 3), None);
            check_metric(&Threads, deal, n);
        }
    }
}

#[test]
fn tiny_eigenproblems() {
    for grid in [[1, 1], [1, 2], [2, 1], [2, 2], [3, 2]] {
        for (n, tile) in (0..5).flat_map(|n| [1, 2, 64].map(|tile| (n, tile))) {
            for dtype in DType::ALL {
                let deal = Deal { grid, tile: [tile; 2], dtype };
                for (_, a, known) in hermitian_matrices(n, dtype) {
                    check_eigen(&Threads, deal, &a, known.as_deref());
                }
                check_metric(&Threads, deal, n);
            }
        }
    }
}

#[test]
fn products() {
    for (grid, size, tiles) in [
        ([1, 1], [5, 4, 3], [2, 3, 4]),
        ([2, 2], [7, 9, 8], [2, 3, 1]),
        ([3, 3], [10, 11, 17], [3, 2, 4]),
        ([1, 3], [6, 1, 20], [8, 8, 3]),
        ([2, 1], [40, 33, 35], [16, 5, 7]),
        ([2, 2], [5, 6, 0], [2, 2, 2]),
        ([2, 2], [0, 6, 4], [2, 2, 2]),
        ([2, 2], [3, 0, 4], [2, 2, 2]),
    ] {
        for dtype in DType::ALL {
            for ops in OPERANDS {
                check_multiply(&Threads, grid, dtype, ops, size, tiles);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_grid_and_tile(
        grid in [1..4_usize, 1..4], tile in [1..9_usize, 1..5], n in 0..24_usize, nrhs in 0..5_usize,
        dtype in proptest::sample::select(&DType::ALL[..]), seed in 0..1000_u64,
    ) {
        let deal = Deal { grid, tile, dtype };
        let (a, b) = (Dense::arbitrary(n, n, dtype, seed), Dense::arbitrary(n, nrhs, dtype, seed + 1));
        check_lu(&Threads, deal, &a, &b, 1.0);
        check_triangular(&Threads, deal, n, nrhs);
        check_eigen(&Threads, deal, &Dense::hermitian(n, dtype, seed), None);
        check_metric(&Threads, deal, n);
        for ops in OPERANDS {
            check_multiply(&Threads, grid, dtype, ops, [n, nrhs, tile[0]], [tile[0], tile[1], 2]);
        }
    }
}

#[test]
fn a_grid_of_another_size_is_refused() {
    let communicator = &LocalCommunicator::group(1, Duration::from_secs(1))[0];
    let dimension = |procs| BlockCyclic::new(4, 2, procs);
    let matrix = DistributedMatrix {
        dtype: DType::F64,
        grid: ProcessGrid::new(2, 1),
        rows: dimension(2),
        cols: dimension(1),
        leading_dimension: 2,
        // Only its length is looked at.
        data: Memory::new(64).buffer(),
    };
    let solver = FaerSolver::new(communicator);
    let product = Product { op_a: Op::NoTranspose, op_b: Op::NoTranspose, alpha: 1.0, beta: 0.0 };
    for refusal in [
        solver.cholesky_factor_scratch(Triangle::Lower, &matrix),
        solver.cholesky_solve_scratch(Triangle::Lower, &matrix, &matrix),
        solver.lu_factor_scratch(&matrix),
        solver.lu_solve_scratch(&matrix, &matrix),
        solver.eigen_scratch(Eigenproblem { a: &matrix, metric: Some(&matrix), vectors: None }),
        solver.multiply_scratch(product, &matrix, &matrix, &matrix),
    ] {
        let text = refusal.unwrap_err().to_string();
        assert!(text.contains("matrix A on rank 0: its grid has 2 processes, needed 1"), "{text}");
    }
}
