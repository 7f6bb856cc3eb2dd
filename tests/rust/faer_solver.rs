//! The development solver on distributed matrices, judged by residuals and by matrices whose leading
//! minors are known.

use meshsolve::DType;
use meshsolve::communicator::LocalCommunicator;
use meshsolve::device::Buffer;
use meshsolve::layout::{BlockCyclic, ProcessGrid};
use meshsolve::solver::{DistributedMatrix, FaerSolver, Solver, Triangle};
use std::time::Duration;

type Complex = (f64, f64);

const NAN: Complex = (f64::NAN, f64::NAN);

fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn conjugate(a: Complex) -> Complex {
    (a.0, -a.1)
}

fn is_complex(dtype: DType) -> bool {
    matches!(dtype, DType::C64 | DType::C128)
}

fn is_single(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::C64)
}

/// Ten roundings of one unit for each of `n` terms.
fn tolerance(dtype: DType, n: usize) -> f64 {
    10.0 * (n + 1) as f64 * if is_single(dtype) { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// A column-major matrix that every test can read.
#[derive(Clone)]
struct Dense {
    rows: usize,
    cols: usize,
    values: Vec<Complex>,
}

impl Dense {
    fn from_fn(rows: usize, cols: usize, value: impl Fn(usize, usize) -> Complex) -> Self {
        let values =
            (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| value(i, j)).collect();
        Self { rows, cols, values }
    }

    fn at(&self, i: usize, j: usize) -> Complex {
        self.values[j * self.rows + i]
    }
}

/// One rank's part, as bits, with rows to spare in every column.
struct Local {
    bytes: Vec<u64>,
    leading_dimension: usize,
    /// Element size and place in the whole of every element, `None` for the spare rows.
    places: Vec<Option<(usize, usize)>>,
    dtype: DType,
}

const SPARE: Complex = (-77.0, -77.0);

impl Local {
    fn new(whole: &Dense, grid: [usize; 2], tile: [usize; 2], rank: usize, dtype: DType) -> Self {
        let at = [rank / grid[1], rank % grid[1]];
        let owned = |extent: usize, d: usize| -> Vec<usize> {
            (0..extent).filter(|g| g / tile[d] % grid[d] == at[d]).collect()
        };
        let (rows, cols) = (owned(whole.rows, 0), owned(whole.cols, 1));
        let leading_dimension = rows.len() + 1 + rank;
        let mut places = vec![None; leading_dimension * cols.len()];
        for (j, &col) in cols.iter().enumerate() {
            for (i, &row) in rows.iter().enumerate() {
                places[j * leading_dimension + i] = Some((row, col));
            }
        }
        let bytes = vec![0; (places.len() * dtype.size() as usize).div_ceil(8)];
        let mut local = Self { bytes, leading_dimension, places, dtype };
        for index in 0..local.places.len() {
            let value = local.places[index].map_or(SPARE, |(i, j)| whole.at(i, j));
            local.put(index, value);
        }
        local
    }

    fn put(&mut self, index: usize, (re, im): Complex) {
        let parts = self.dtype.parts() as usize;
        for (part, value) in [re, im].into_iter().take(parts).enumerate() {
            if is_single(self.dtype) {
                bytemuck::cast_slice_mut::<u64, f32>(&mut self.bytes)[index * parts + part] = value as f32;
            } else {
                bytemuck::cast_slice_mut::<u64, f64>(&mut self.bytes)[index * parts + part] = value;
            }
        }
    }

    fn get(&self, index: usize) -> Complex {
        let parts = self.dtype.parts() as usize;
        let part = |part| {
            if part >= parts {
                0.0
            } else if is_single(self.dtype) {
                f64::from(bytemuck::cast_slice::<u64, f32>(&self.bytes)[index * parts + part])
            } else {
                bytemuck::cast_slice::<u64, f64>(&self.bytes)[index * parts + part]
            }
        };
        (part(0), part(1))
    }

    /// Writes the part into `whole` and checks that the spare rows are as they were.
    fn collect(&self, whole: &mut Dense) {
        for (index, place) in self.places.iter().enumerate() {
            match place {
                Some((i, j)) => whole.values[j * whole.rows + i] = self.get(index),
                None => {
                    let spare = if is_complex(self.dtype) { SPARE } else { (SPARE.0, 0.0) };
                    assert_eq!(self.get(index), spare, "a spare row was written");
                }
            }
        }
    }

    fn matrix(&mut self, whole: &Dense, grid: [usize; 2], tile: [usize; 2]) -> DistributedMatrix {
        let dimension =
            |extent: usize, d: usize| BlockCyclic::new(extent as u64, tile[d] as u64, grid[d] as u64);
        DistributedMatrix {
            dtype: self.dtype,
            grid: ProcessGrid::new(grid[0] as u64, grid[1] as u64),
            rows: dimension(whole.rows, 0),
            cols: dimension(whole.cols, 1),
            leading_dimension: self.leading_dimension as u64,
            data: buffer(&mut self.bytes),
        }
    }
}

fn buffer<T: bytemuck::Pod>(values: &mut [T]) -> Buffer {
    // SAFETY: the values outlive the solver's calls, and nothing else uses them meanwhile.
    unsafe { Buffer::from_raw(values.as_mut_ptr().cast(), size_of_val(values) as u64) }
}

struct Outcome {
    factor: Dense,
    solution: Dense,
    /// The largest info of all ranks after the factorization.
    info: i32,
}

/// Where the factor of a promised triangle stands.
fn promised(triangle: Triangle, i: usize, j: usize) -> bool {
    match triangle {
        Triangle::Lower => i >= j,
        Triangle::Upper => i <= j,
    }
}

/// Factors `a`, of which only `triangle` is shown to the solver (`hidden` stands in the other one), and
/// solves for `b`.
fn run(
    grid: [usize; 2],
    [row_tile, col_tile]: [usize; 2],
    dtype: DType,
    triangle: Triangle,
    a: &Dense,
    hidden: Complex,
    b: &Dense,
) -> Outcome {
    let shown =
        Dense::from_fn(a.rows, a.cols, |i, j| if promised(triangle, i, j) { a.at(i, j) } else { hidden });
    let group = LocalCommunicator::group(grid[0] * grid[1], Duration::from_secs(60));
    let parts: Vec<(Local, Local, i32)> = std::thread::scope(|scope| {
        let shown = &shown;
        let threads: Vec<_> = group
            .iter()
            .enumerate()
            .map(|(rank, communicator)| {
                scope.spawn(move || {
                    let mut a_part = Local::new(shown, grid, [row_tile, row_tile], rank, dtype);
                    let mut b_part = Local::new(b, grid, [row_tile, col_tile], rank, dtype);
                    let a_matrix = a_part.matrix(shown, grid, [row_tile, row_tile]);
                    let b_matrix = b_part.matrix(b, grid, [row_tile, col_tile]);
                    let solver = FaerSolver::new(communicator);
                    let bytes = solver.cholesky_scratch(triangle, &a_matrix, &b_matrix).unwrap();
                    // Arbitrary contents, here NaN of both precisions.
                    let mut scratch = vec![u64::MAX; usize::try_from(bytes).unwrap().div_ceil(8)];
                    let scratch = buffer(&mut scratch).slice(0, bytes);
                    let (mut factor_info, mut solve_info) = ([i32::MIN], [i32::MIN]);
                    solver.cholesky_factor(triangle, &a_matrix, scratch, buffer(&mut factor_info)).unwrap();
                    let info = buffer(&mut solve_info);
                    solver.cholesky_solve(triangle, &a_matrix, &b_matrix, scratch, info).unwrap();
                    assert_eq!(solve_info, [0]);
                    (a_part, b_part, factor_info[0])
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut outcome =
        Outcome { factor: shown, solution: b.clone(), info: parts.iter().map(|part| part.2).max().unwrap() };
    for (a_part, b_part, _) in &parts {
        a_part.collect(&mut outcome.factor);
        b_part.collect(&mut outcome.solution);
    }
    outcome
}

/// Hermitian and diagonally dominant, so positive definite; every entry differs from its neighbours.
fn definite(n: usize, dtype: DType) -> Dense {
    Dense::from_fn(n, n, |i, j| {
        let (low, high) = (i.min(j) as f64, i.max(j) as f64);
        if i == j {
            return (2.0 * n as f64 + low, 0.0);
        }
        let angle = 0.7 * high + 1.3 * low;
        let imaginary = if is_complex(dtype) { angle.sin() } else { 0.0 };
        (angle.cos(), if i > j { imaginary } else { -imaginary })
    })
}

fn right_hand_side(n: usize, k: usize, dtype: DType) -> Dense {
    Dense::from_fn(n, k, |i, j| {
        (1.0 + i as f64 + 0.1 * j as f64, if is_complex(dtype) { j as f64 - i as f64 } else { 0.0 })
    })
}

fn assert_close(got: Complex, expected: Complex, bound: f64, what: &str) {
    let error = (got.0 - expected.0).hypot(got.1 - expected.1);
    assert!(error <= bound, "{what}: got {got:?}, expected {expected:?}, error {error:e} above {bound:e}");
}

/// Checks A = L·Lᴴ or Uᴴ·U, A·X = B, and that the other triangle was left alone.
fn check(grid: [usize; 2], tile: [usize; 2], dtype: DType, triangle: Triangle, n: usize, k: usize) {
    let (a, b) = (definite(n, dtype), right_hand_side(n, k, dtype));
    let what = format!("grid {grid:?} tile {tile:?} {dtype:?} {triangle:?} n {n} k {k}");
    let outcome = run(grid, tile, dtype, triangle, &a, (55.0, 0.0), &b);
    let others = (0..n * n).map(|index| (index / n, index % n)).filter(|&(i, j)| !promised(triangle, i, j));
    for (i, j) in others {
        assert_eq!(
            outcome.factor.at(i, j),
            (55.0, 0.0),
            "{what}: the other triangle was written at {i}, {j}"
        );
    }
    let outcome = run(grid, tile, dtype, triangle, &a, NAN, &b);
    assert_eq!(outcome.info, 0, "{what}");
    let largest = 3.0 * n as f64;
    for j in 0..n {
        for i in 0..n {
            if !promised(triangle, i, j) {
                continue;
            }
            let mut sum = (0.0, 0.0);
            for inner in 0..=i.min(j) {
                let (left, right) = match triangle {
                    Triangle::Lower => (outcome.factor.at(i, inner), conjugate(outcome.factor.at(j, inner))),
                    Triangle::Upper => (conjugate(outcome.factor.at(inner, i)), outcome.factor.at(inner, j)),
                };
                let product = times(left, right);
                sum = (sum.0 + product.0, sum.1 + product.1);
            }
            assert_close(
                sum,
                a.at(i, j),
                tolerance(dtype, n) * largest,
                &format!("{what}: factor at {i}, {j}"),
            );
        }
    }
    for j in 0..k {
        // Backward stable: the residual is small against ‖A‖·‖x‖, both as sums over a row.
        let size: f64 = (0..n).map(|i| outcome.solution.at(i, j)).map(|x| x.0.abs() + x.1.abs()).sum();
        for i in 0..n {
            let mut sum = (0.0, 0.0);
            for inner in 0..n {
                let product = times(a.at(i, inner), outcome.solution.at(inner, j));
                sum = (sum.0 + product.0, sum.1 + product.1);
            }
            let bound = tolerance(dtype, n) * largest * size;
            assert_close(sum, b.at(i, j), bound, &format!("{what}: A·X at {i}, {j}"));
        }
    }
}

fn check_all_types(grid: [usize; 2], tile: [usize; 2], n: usize, k: usize) {
    for dtype in DType::ALL {
        for triangle in [Triangle::Lower, Triangle::Upper] {
            check(grid, tile, dtype, triangle, n, k);
        }
    }
}

#[test]
fn one_rank() {
    check_all_types([1, 1], [4, 2], 11, 3);
}

#[test]
fn square_and_flat_grids_with_partial_tiles() {
    check_all_types([2, 2], [3, 2], 13, 5);
    check_all_types([1, 4], [2, 1], 9, 6);
    check_all_types([3, 1], [2, 4], 11, 2);
    check_all_types([2, 3], [1, 1], 8, 4);
}

#[test]
fn large_enough_for_the_blocked_algorithm() {
    check_all_types([2, 2], [32, 3], 190, 7);
}

#[test]
fn ranks_that_own_nothing() {
    check_all_types([2, 2], [8, 8], 5, 1);
    check_all_types([3, 2], [2, 2], 1, 1);
}

#[test]
fn nothing_to_factor_or_to_solve() {
    check_all_types([2, 2], [3, 2], 0, 2);
    check_all_types([2, 2], [3, 2], 7, 0);
    check_all_types([2, 1], [3, 2], 0, 0);
}

/// LAPACK's info for a matrix of every type and triangle, on a grid with tile 3.
fn assert_info(a: &Dense, dtypes: &[DType], expected: i32) {
    for &dtype in dtypes {
        for triangle in [Triangle::Lower, Triangle::Upper] {
            let outcome = run([2, 2], [3, 2], dtype, triangle, a, NAN, &right_hand_side(a.rows, 2, dtype));
            assert_eq!(outcome.info, expected, "{dtype:?} {triangle:?}");
        }
    }
}

fn diagonal(values: &[f64]) -> Dense {
    Dense::from_fn(values.len(), values.len(), |i, j| (if i == j { values[i] } else { 0.0 }, 0.0))
}

#[test]
fn info_is_the_order_of_the_first_minor_that_is_not_positive() {
    for bad in [-1.0, 0.0, f64::NAN] {
        // Around the tiles' borders, and both ends.
        for position in [0, 1, 2, 3, 5, 6, 9] {
            let mut values: Vec<f64> = (1..=10).map(f64::from).collect();
            values[position] = bad;
            assert_info(&diagonal(&values), &DType::ALL, position as i32 + 1);
        }
    }
    assert_info(&diagonal(&[1.0, 2.0, -3.0, 4.0, -5.0]), &DType::ALL, 3);
}

#[test]
fn info_of_matrices_with_known_minors() {
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
fn info_beyond_the_first_block_of_a_full_matrix() {
    // Leading minors below the changed entry are those of a definite matrix.
    for position in [63, 64, 127, 128, 149] {
        for dtype in DType::ALL {
            let mut a = definite(150, dtype);
            a.values[position * 150 + position] = (-1.0, 0.0);
            assert_info(&a, &[dtype], position as i32 + 1);
        }
    }
}

#[test]
fn a_grid_of_another_size_is_refused() {
    let communicator = &LocalCommunicator::group(1, Duration::from_secs(1))[0];
    let whole = definite(4, DType::F64);
    let mut part = Local::new(&whole, [2, 1], [2, 2], 0, DType::F64);
    let matrix = part.matrix(&whole, [2, 1], [2, 2]);
    let error =
        FaerSolver::new(communicator).cholesky_scratch(Triangle::Lower, &matrix, &matrix).unwrap_err();
    assert!(error.to_string().contains("matrix A on rank 0: its grid has 2 processes, needed 1"), "{error}");
}
