//! What every [`Solver`] must do, on whatever ranks: on CPU threads with the development solver, on
//! GPUs with NVIDIA's libraries. Oracles are plain loops over the whole matrices.

use crate::dense::{
    Complex, Dense, NAN, check_ascending, check_eigenpairs, check_eigenpairs_with_metric, check_residual,
    decode, encode, epsilon, is_complex, rounding, tolerance,
};
use meshsolve::DType;
use meshsolve::device::Buffer;
use meshsolve::layout::{BlockCyclic, ProcessGrid};
use meshsolve::plan::Substitution;
use meshsolve::routines::TriangularSolve;
use meshsolve::solver::{
    Diagonal, DistributedMatrix, Eigenproblem, Op, Product, Solver, Triangle, Triangular, pivot_bytes,
};

/// All of them.
pub const OPS: [Op; 3] = [Op::NoTranspose, Op::Transpose, Op::ConjugateTranspose];

/// How the operands of a product may enter.
pub const OPERANDS: [[Op; 2]; 9] = {
    let mut pairs = [[Op::NoTranspose; 2]; 9];
    let mut k = 0;
    while k < 9 {
        pairs[k] = [OPS[k / 3], OPS[k % 3]];
        k += 1;
    }
    pairs
};

/// Ranks with a solver each.
pub trait Ranks {
    /// Runs `body` on every rank of a grid and gives what each returned, in rank order.
    fn each<R: Send>(&self, grid: [usize; 2], body: impl Fn(&Rank<'_>) -> R + Sync) -> Vec<R>;
}

/// One rank.
pub struct Rank<'a> {
    /// Its number.
    pub number: usize,
    /// Its solver.
    pub solver: &'a dyn Solver,
    /// Its device's memory.
    pub memory: &'a dyn RankMemory,
}

/// Memory that a rank's solver can use.
pub trait RankMemory {
    /// Memory that holds these bytes, until the rank is done.
    fn upload(&self, bytes: &[u8]) -> Buffer;

    /// What memory holds once everything enqueued is done.
    fn download(&self, buffer: Buffer) -> Vec<u8>;
}

/// Scratch and what comes after it in memory.
struct Scratch {
    buffer: Buffer,
    beyond: Buffer,
}

impl Rank<'_> {
    /// Scratch with arbitrary contents, here NaN of both precisions.
    fn scratch(&self, bytes: meshsolve::Result<u64>) -> Scratch {
        const BEYOND: u64 = 1024;
        let bytes = bytes.unwrap();
        let all = self.memory.upload(&vec![0xFF; usize::try_from(bytes + BEYOND).unwrap()]);
        Scratch { buffer: all.slice(0, bytes), beyond: all.slice(bytes, BEYOND) }
    }

    fn assert_within(&self, scratch: &Scratch) {
        let beyond = self.memory.download(scratch.beyond);
        assert!(beyond.iter().all(|&byte| byte == 0xFF), "written beyond the scratch");
    }

    /// Memory for `n` real numbers of `dtype`, and what comes after it.
    fn values(&self, dtype: DType, n: usize) -> Scratch {
        self.scratch(Ok(n as u64 * dtype.real().size()))
    }

    fn read_values(&self, dtype: DType, values: &Scratch) -> Vec<f64> {
        self.assert_within(values);
        let (bytes, real) = (self.memory.download(values.buffer), dtype.real());
        bytes.chunks(real.size() as usize).map(|bytes| decode(real, bytes).0).collect()
    }

    /// A word that is not 0.
    fn word(&self) -> Buffer {
        self.memory.upload(&i32::MIN.to_ne_bytes())
    }

    fn read_word(&self, word: Buffer) -> i32 {
        i32::from_ne_bytes(self.memory.download(word).try_into().unwrap())
    }
}

/// How a matrix is dealt out.
#[derive(Clone, Copy, Debug)]
pub struct Deal {
    /// Process rows and columns.
    pub grid: [usize; 2],
    /// Rows and columns of a tile.
    pub tile: [usize; 2],
    /// Element type.
    pub dtype: DType,
}

/// One rank's part of a matrix, with rows to spare in every column.
struct Part {
    deal: Deal,
    shape: [usize; 2],
    leading_dimension: usize,
    /// Place in the whole of every element, `None` for the spare rows.
    places: Vec<Option<(usize, usize)>>,
    before: Vec<u8>,
    buffer: Buffer,
}

const SPARE: Complex = (-77.0, -77.0);

impl Part {
    fn new(rank: &Rank<'_>, deal: Deal, whole: &Dense) -> Self {
        let Deal { grid, tile, dtype } = deal;
        let at = [rank.number / grid[1], rank.number % grid[1]];
        let owned = |extent: usize, d: usize| -> Vec<usize> {
            (0..extent).filter(|g| g / tile[d] % grid[d] == at[d]).collect()
        };
        let (rows, cols) = (owned(whole.rows, 0), owned(whole.cols, 1));
        let leading_dimension = rows.len() + 1 + rank.number;
        let mut places = vec![None; leading_dimension * cols.len()];
        for (j, &col) in cols.iter().enumerate() {
            for (i, &row) in rows.iter().enumerate() {
                places[j * leading_dimension + i] = Some((row, col));
            }
        }
        let value = |place: &Option<(usize, usize)>| place.map_or(SPARE, |(i, j)| whole.at(i, j));
        let before: Vec<u8> = places.iter().flat_map(|place| encode(dtype, value(place))).collect();
        let buffer = rank.memory.upload(&before);
        Self { deal, shape: [whole.rows, whole.cols], leading_dimension, places, before, buffer }
    }

    fn matrix(&self) -> DistributedMatrix {
        let Deal { grid, tile, dtype } = self.deal;
        let dimension = |d: usize| BlockCyclic::new(self.shape[d] as u64, tile[d] as u64, grid[d] as u64);
        DistributedMatrix {
            dtype,
            grid: ProcessGrid::new(grid[0] as u64, grid[1] as u64),
            rows: dimension(0),
            cols: dimension(1),
            leading_dimension: self.leading_dimension as u64,
            data: self.buffer,
        }
    }

    /// The elements as they are now; the spare rows must be as they were.
    fn elements(&self, rank: &Rank<'_>) -> Vec<(usize, usize, Complex)> {
        let size = self.deal.dtype.size() as usize;
        let now = rank.memory.download(self.buffer);
        let spare = self.places.iter().zip(now.chunks(size).zip(self.before.chunks(size)));
        for (_, (now, before)) in spare.filter(|(place, _)| place.is_none()) {
            assert_eq!(now, before, "a spare row was written");
        }
        self.written_elements(rank)
    }

    /// The elements as they are now, whatever the spare rows are.
    fn written_elements(&self, rank: &Rank<'_>) -> Vec<(usize, usize, Complex)> {
        let size = self.deal.dtype.size() as usize;
        let now = rank.memory.download(self.buffer);
        let elements = self.places.iter().zip(now.chunks(size));
        elements
            .filter_map(|(&place, now)| place.map(|(i, j)| (i, j, decode(self.deal.dtype, now))))
            .collect()
    }

    fn assert_untouched(&self, rank: &Rank<'_>) {
        assert!(rank.memory.download(self.buffer) == self.before, "an input was written");
    }
}

/// Puts the ranks' elements together; every place must come once.
fn assemble<'a>(
    rows: usize,
    cols: usize,
    parts: impl IntoIterator<Item = &'a Vec<(usize, usize, Complex)>>,
) -> Dense {
    let mut seen = vec![0; rows * cols];
    let mut whole = Dense::from_fn(rows, cols, |_, _| (0.0, 0.0));
    for &(i, j, value) in parts.into_iter().flatten() {
        seen[j * rows + i] += 1;
        whole.set(i, j, value);
    }
    assert!(seen.iter().all(|&times| times == 1));
    whole
}

/// What a factorisation and a solve left behind.
pub struct Solved {
    /// In the place of A.
    pub factor: Dense,
    /// For each column of A the row, counted from 0, that the column's row was interchanged with; none
    /// from Cholesky.
    pub pivots: Vec<usize>,
    /// In the place of B.
    pub solution: Dense,
    /// The largest `info` of all ranks after the factorisation.
    pub info: i32,
}

/// Factors and solves by Cholesky. A lies in square tiles as high as those of B.
pub fn cholesky(ranks: &impl Ranks, deal: Deal, triangle: Triangle, a: &Dense, b: &Dense) -> Solved {
    let square = Deal { tile: [deal.tile[0]; 2], ..deal };
    let parts = ranks.each(deal.grid, |rank| {
        let (a_part, b_part) = (Part::new(rank, square, a), Part::new(rank, deal, b));
        let (a_matrix, b_matrix) = (a_part.matrix(), b_part.matrix());
        let to_factor = rank.scratch(rank.solver.cholesky_factor_scratch(triangle, &a_matrix));
        let to_solve = rank.scratch(rank.solver.cholesky_solve_scratch(triangle, &a_matrix, &b_matrix));
        let [factor_info, solve_info] = [rank.word(), rank.word()];
        rank.solver.cholesky_factor(triangle, &a_matrix, to_factor.buffer, factor_info).unwrap();
        rank.solver.cholesky_solve(triangle, &a_matrix, &b_matrix, to_solve.buffer, solve_info).unwrap();
        rank.assert_within(&to_factor);
        rank.assert_within(&to_solve);
        assert_eq!(rank.read_word(solve_info), 0);
        (a_part.elements(rank), b_part.elements(rank), rank.read_word(factor_info))
    });
    Solved {
        factor: assemble(a.rows, a.cols, parts.iter().map(|part| &part.0)),
        pivots: Vec::new(),
        solution: assemble(b.rows, b.cols, parts.iter().map(|part| &part.1)),
        info: parts.iter().map(|part| part.2).max().unwrap(),
    }
}

/// Factors and solves by LU.
pub fn lu(ranks: &impl Ranks, deal: Deal, a: &Dense, b: &Dense) -> Solved {
    let square = Deal { tile: [deal.tile[0]; 2], ..deal };
    // Before and after a call: what is beyond the pivots must stay.
    const UNTOUCHED: i64 = -5;
    let parts = ranks.each(deal.grid, |rank| {
        let (a_part, b_part) = (Part::new(rank, square, a), Part::new(rank, deal, b));
        let (a_matrix, b_matrix) = (a_part.matrix(), b_part.matrix());
        let [row, col] = [rank.number / deal.grid[1], rank.number % deal.grid[1]];
        let bytes = pivot_bytes(a_matrix.cols, col as u64);
        let words = rank.memory.upload(&UNTOUCHED.to_ne_bytes().repeat(bytes as usize / 8 + deal.tile[0]));
        let pivots = words.slice(0, bytes);
        let to_factor = rank.scratch(rank.solver.lu_factor_scratch(&a_matrix));
        let to_solve = rank.scratch(rank.solver.lu_solve_scratch(&a_matrix, &b_matrix));
        let [factor_info, solve_info] = [rank.word(), rank.word()];
        rank.solver.lu_factor(&a_matrix, pivots, to_factor.buffer, factor_info).unwrap();
        rank.solver.lu_solve(&a_matrix, pivots, &b_matrix, to_solve.buffer, solve_info).unwrap();
        rank.assert_within(&to_factor);
        rank.assert_within(&to_solve);
        assert_eq!(rank.read_word(solve_info), 0);
        let words = rank.memory.download(words);
        let words: Vec<i64> =
            words.chunks(8).map(|word| i64::from_ne_bytes(word.try_into().unwrap())).collect();
        let (held, beyond) = words.split_at(words.len() - deal.tile[0]);
        assert_eq!(beyond, vec![UNTOUCHED; deal.tile[0]], "beyond the pivots");
        let cols = (0..a.cols).filter(|j| j / deal.tile[0] % deal.grid[1] == col);
        let owned: Vec<(usize, i64)> = match row {
            0 => cols.zip(held.iter().copied()).collect(),
            _ => Vec::new(),
        };
        (a_part.elements(rank), b_part.elements(rank), rank.read_word(factor_info), owned, held.to_vec())
    });
    let mut pivots = vec![None; a.cols];
    for &(col, pivot) in parts.iter().flat_map(|part| &part.3) {
        assert!(
            1 <= pivot && pivot <= a.rows as i64,
            "the pivot of column {col} of {} is {pivot}; the ranks hold {:?}",
            a.cols,
            parts.iter().map(|part| &part.4).collect::<Vec<_>>()
        );
        assert_eq!(pivots[col].replace(pivot as usize - 1), None);
    }
    Solved {
        factor: assemble(a.rows, a.cols, parts.iter().map(|part| &part.0)),
        pivots: pivots.into_iter().map(Option::unwrap).collect(),
        solution: assemble(b.rows, b.cols, parts.iter().map(|part| &part.1)),
        info: parts.iter().map(|part| part.2).max().unwrap(),
    }
}

/// Solves op(A)·X = B for each of `forms` in turn, each with what it gets by `a` and `b`; A must stay as it was.
/// So many rows of tiles on each process are solved for at a time, times the ranks. With `lower_from`, B has the columns
/// from that one on of a lower triangular matrix.
pub fn triangular(
    ranks: &impl Ranks,
    deal: Deal,
    (blocks, lower_from): (u64, Option<u64>),
    forms: &[Triangular],
    a: impl Fn(Triangular) -> Dense + Sync,
    b: &Dense,
) -> Vec<Dense> {
    let square = Deal { tile: [deal.tile[0]; 2], ..deal };
    let parts = ranks.each(deal.grid, |rank| {
        let solve = |&form: &Triangular| {
            let (a_part, b_part) = (Part::new(rank, square, &a(form)), Part::new(rank, deal, b));
            let (a_matrix, b_matrix) = (a_part.matrix(), b_part.matrix());
            let block = blocks * (deal.tile[0] * deal.grid[0] * deal.grid[1]) as u64;
            let substitution = Substitution { form, n: a_matrix.rows.extent(), block };
            let solve = TriangularSolve { rank: rank.number as u64, solver: rank.solver, substitution };
            let scratch = rank.scratch(solve.scratch(&a_matrix, &b_matrix, lower_from));
            solve.run(&a_matrix, &b_matrix, lower_from, scratch.buffer).unwrap();
            rank.assert_within(&scratch);
            a_part.assert_untouched(rank);
            b_part.elements(rank)
        };
        forms.iter().map(solve).collect::<Vec<_>>()
    });
    (0..forms.len()).map(|k| assemble(b.rows, b.cols, parts.iter().map(|part| &part[k]))).collect()
}

/// What an eigensolver left behind.
pub struct Eigen {
    /// The values, which all ranks have to the last bit.
    pub values: Vec<f64>,
    /// The vectors, if they were wanted.
    pub vectors: Option<Dense>,
    /// The largest `info` of all ranks.
    pub info: i32,
}

/// Eigenvalues of Hermitian A, or of A·v = λ·M·v, and vectors if they are wanted.
pub fn eigen(
    ranks: &impl Ranks,
    deal: Deal,
    a: &Dense,
    metric: Option<&Dense>,
    wants_vectors: bool,
) -> Eigen {
    let square = Deal { tile: [deal.tile[0]; 2], ..deal };
    let blank = Dense::from_fn(a.rows, a.cols, |_, _| NAN);
    let parts = ranks.each(deal.grid, |rank| {
        let a_part = Part::new(rank, square, a);
        let m_part = metric.map(|metric| Part::new(rank, square, metric));
        let v_part = wants_vectors.then(|| Part::new(rank, square, &blank));
        let matrix = |part: &Option<Part>| part.as_ref().map(Part::matrix);
        let (a_matrix, m_matrix, v_matrix) = (a_part.matrix(), matrix(&m_part), matrix(&v_part));
        let problem = Eigenproblem { a: &a_matrix, metric: m_matrix.as_ref(), vectors: v_matrix.as_ref() };
        let scratch = rank.scratch(rank.solver.eigen_scratch(problem));
        let (values, info) = (rank.values(deal.dtype, a.rows), rank.word());
        rank.solver.eigen(problem, values.buffer, scratch.buffer, info).unwrap();
        rank.assert_within(&scratch);
        let vectors = if metric.is_none() {
            // Looks at the rows to spare.
            a_part.elements(rank);
            v_part.map(|part| part.elements(rank))
        } else {
            v_part.map(|part| part.written_elements(rank))
        };
        (vectors, rank.read_values(deal.dtype, &values), rank.read_word(info))
    });
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for (rank, part) in parts.iter().enumerate() {
        let (here, first) = (&part.1, &parts[0].1);
        assert_eq!(bits(here), bits(first), "eigenvalues of rank {rank}, {here:?}, and 0, {first:?}");
    }
    let vectors =
        wants_vectors.then(|| assemble(a.rows, a.cols, parts.iter().map(|part| part.0.as_ref().unwrap())));
    Eigen { values: parts[0].1.clone(), vectors, info: parts.iter().map(|part| part.2).max().unwrap() }
}

/// A product and its operands as they are stored.
pub struct Case {
    /// What is asked for.
    pub product: Product,
    /// A, B and C.
    pub operands: [Dense; 3],
    /// Rows and columns of their tiles.
    pub tiles: [[usize; 2]; 3],
}

/// Calculates the products in turn; A and B must stay as they were.
pub fn multiply(ranks: &impl Ranks, grid: [usize; 2], dtype: DType, cases: &[Case]) -> Vec<Dense> {
    let parts = ranks.each(grid, |rank| {
        let multiply = |case: &Case| {
            let part =
                |k: usize| Part::new(rank, Deal { grid, tile: case.tiles[k], dtype }, &case.operands[k]);
            let [a_part, b_part, c_part] = [part(0), part(1), part(2)];
            let [a, b, c] = [a_part.matrix(), b_part.matrix(), c_part.matrix()];
            let scratch = rank.scratch(rank.solver.multiply_scratch(case.product, &a, &b, &c));
            rank.solver.multiply(case.product, &a, &b, &c, scratch.buffer).unwrap();
            rank.assert_within(&scratch);
            a_part.assert_untouched(rank);
            b_part.assert_untouched(rank);
            c_part.elements(rank)
        };
        cases.iter().map(multiply).collect::<Vec<_>>()
    });
    let whole = |(k, case): (usize, &Case)| {
        let c = &case.operands[2];
        assemble(c.rows, c.cols, parts.iter().map(|part| &part[k]))
    };
    cases.iter().enumerate().map(whole).collect()
}

/// Whether an element lies in a triangle.
pub fn lies_in(triangle: Triangle, i: usize, j: usize) -> bool {
    match triangle {
        Triangle::Lower => i >= j,
        Triangle::Upper => i <= j,
    }
}

/// A matrix that is not a number outside of a triangle.
pub fn shown_in(triangle: Triangle, a: &Dense) -> Dense {
    Dense::from_fn(a.rows, a.cols, |i, j| if lies_in(triangle, i, j) { a.at(i, j) } else { NAN })
}

/// A as a solver may use it: outside the form's triangle 0, and ones on a unit diagonal.
pub fn read_as(form: Triangular, a: &Dense) -> Dense {
    Dense::from_fn(a.rows, a.cols, |i, j| match (i == j, form.diagonal) {
        (true, Diagonal::Unit) => (1.0, 0.0),
        _ if lies_in(form.triangle, i, j) => a.at(i, j),
        _ => (0.0, 0.0),
    })
}

/// The two factors that LU leaves in one matrix.
pub fn lower_and_upper(factor: &Dense) -> [Dense; 2] {
    let part = |triangle, diagonal| read_as(Triangular { triangle, op: Op::NoTranspose, diagonal }, factor);
    [part(Triangle::Lower, Diagonal::Unit), part(Triangle::Upper, Diagonal::NonUnit)]
}

/// Checks A = L·Lᴴ or Uᴴ·U, with NaN in the other triangle, and the residual. Gives the residual in ε.
pub fn check_cholesky(ranks: &impl Ranks, deal: Deal, triangle: Triangle, a: &Dense, b: &Dense) -> f64 {
    let (n, dtype) = (a.rows, deal.dtype);
    let what = format!("Cholesky {triangle:?} {deal:?} n {n} nrhs {}", b.cols);
    let solved = cholesky(ranks, deal, triangle, &shown_in(triangle, a), b);
    assert_eq!(solved.info, 0, "{what}");
    let form = Triangular { triangle, op: Op::NoTranspose, diagonal: Diagonal::NonUnit };
    let factor = read_as(form, &solved.factor);
    let adjoint = factor.op(Op::ConjugateTranspose);
    let (left, right) = match triangle {
        Triangle::Lower => (&factor, &adjoint),
        Triangle::Upper => (&adjoint, &factor),
    };
    // Componentwise: |A − L·Lᴴ| ≤ n·ε·|L|·|Lᴴ|.
    let distance = left.times(right).distance(a, &left.magnitude().times(&right.magnitude()));
    assert!(distance <= tolerance(dtype, n), "{what}: A − L·Lᴴ is {distance:e} of |L|·|Lᴴ|");
    check_residual(a, &solved.solution, b, dtype, &what)
}

/// Checks P·A = L·U, that no multiplier is above `largest` in the measure that the pivots are chosen by (1
/// if each pivot is the largest of its column), and the residual of the solution, which it gives in ε.
pub fn check_lu(ranks: &impl Ranks, deal: Deal, a: &Dense, b: &Dense, largest: f64) -> f64 {
    let (n, dtype) = (a.rows, deal.dtype);
    let what = format!("LU {deal:?} n {n} nrhs {}", b.cols);
    let solved = lu(ranks, deal, a, b);
    assert_eq!(solved.info, 0, "{what}: info");
    let mut permuted = a.clone();
    for (i, &pivot) in solved.pivots.iter().enumerate() {
        assert!(pivot >= i && pivot < n, "{what}: row {i} interchanged with {pivot}");
        permuted.swap_rows(i, pivot);
    }
    let [lower, upper] = lower_and_upper(&solved.factor);
    // Componentwise: |P·A − L·U| ≤ n·ε·|L|·|U|.
    let bound = lower.magnitude().times(&upper.magnitude());
    let distance = lower.times(&upper).distance(&permuted, &bound);
    assert!(distance <= tolerance(dtype, n), "{what}: P·A − L·U is {distance:e} of |L|·|U|");
    // |Re| + |Im| is within √2 of the absolute value.
    let limit = (largest + tolerance(dtype, n)) * if is_complex(dtype) { 2_f64.sqrt() } else { 1.0 };
    let multiplier = lower.magnitude().values.iter().map(|x| x.0).fold(0.0, f64::max);
    assert!(multiplier <= limit, "{what}: a multiplier is {multiplier}");
    check_residual(a, &solved.solution, b, dtype, &what)
}

/// Checks that the factorisation of a singular matrix ends, and that the first element of U's diagonal that
/// is not a finite number other than zero is the zero in column `zero`.
pub fn check_singular_lu(ranks: &impl Ranks, deal: Deal, a: &Dense, zero: usize) {
    let what = format!("LU of a singular matrix {deal:?} n {}", a.rows);
    let solved = lu(ranks, deal, a, &Dense::arbitrary(a.rows, 1, deal.dtype, 5));
    assert!(solved.info >= 0, "{what}: info is {}", solved.info);
    let diagonal = |j| solved.factor.at(j, j);
    let usable = |(re, im): Complex| re.is_finite() && im.is_finite() && (re, im) != (0.0, 0.0);
    assert_eq!((0..a.rows).find(|&j| !usable(diagonal(j))), Some(zero), "{what}");
    assert_eq!(diagonal(zero), (0.0, 0.0), "{what}");
}

/// A triangular matrix that is far from singular with and without its diagonal, with `hidden` where
/// `form` says that nothing is read.
fn triangular_matrix(n: usize, dtype: DType, form: Triangular, hidden: Complex) -> Dense {
    let mut a = Dense::arbitrary(n, n, dtype, 3);
    for j in 0..n {
        for i in 0..n {
            let (re, im) = a.at(i, j);
            let value = match (i == j, form.diagonal) {
                (true, Diagonal::Unit) => hidden,
                (true, Diagonal::NonUnit) => (re + 2.0_f64.copysign(re), im),
                _ if !lies_in(form.triangle, i, j) => hidden,
                // A power of two, so that the element stays exact.
                _ => (re / 64.0, im / 64.0),
            };
            a.set(i, j, value);
        }
    }
    a
}

/// Hermitian matrices of order n of all kinds that eigensolvers treat in ways of their own, with their
/// eigenvalues where those are known.
pub fn hermitian_matrices(n: usize, dtype: DType) -> Vec<(&'static str, Dense, Option<Vec<f64>>)> {
    let with = |value: &dyn Fn(usize) -> f64| (0..n).map(value).collect::<Vec<f64>>();
    let clusters = with(&|k| if k < n / 3 { -2.0 } else { 1.0 + (k / (n / 3 + 1)) as f64 * 1e-5 });
    let half = with(&|k| k.saturating_sub(n / 2) as f64);
    // Not in order.
    let scattered = with(&|k| (k * 7 % n.max(1)) as f64 - n as f64 / 3.0);
    let mut sorted = scattered.clone();
    sorted.sort_by(f64::total_cmp);
    vec![
        ("arbitrary", Dense::hermitian(n, dtype, 1), None),
        ("definite", Dense::definite(n, dtype), None),
        ("identity", Dense::diagonal(&vec![1.0; n]), Some(vec![1.0; n])),
        ("zero", Dense::diagonal(&vec![0.0; n]), Some(vec![0.0; n])),
        ("diagonal", Dense::diagonal(&scattered), Some(sorted)),
        ("clustered", Dense::with_spectrum(&clusters, dtype), Some(clusters)),
        ("rank-deficient", Dense::with_spectrum(&half, dtype), Some(half)),
    ]
}

/// Checks eigenvalues and eigenvectors of A, of which the solver only gets the lower triangle: by the residual,
/// by the values alone, and by the values where they are known. Gives the residual in ε·‖A‖.
pub fn check_eigen(ranks: &impl Ranks, deal: Deal, a: &Dense, known: Option<&[f64]>) -> f64 {
    let (n, dtype) = (a.rows, deal.dtype);
    let what = format!("eigen {deal:?} n {n}");
    let shown = shown_in(Triangle::Lower, a);
    let [with, alone] = [true, false].map(|wants_vectors| eigen(ranks, deal, &shown, None, wants_vectors));
    assert_eq!([with.info, alone.info], [0, 0], "{what}");
    let residual = check_eigenpairs(a, &with.values, &with.vectors.unwrap(), dtype, &what);
    let unit = epsilon(dtype) * a.one_norm();
    let allowed = rounding(n) * unit;
    check_ascending(&alone.values, unit, &what);
    for (name, expected) in [("with vectors", Some(&with.values[..])), ("known", known)] {
        for (k, (value, expected)) in alone.values.iter().zip(expected.into_iter().flatten()).enumerate() {
            let distance = (value - expected).abs();
            assert!(distance <= allowed, "{what}: value {k} alone is {value:e}, {name} {expected:e}");
        }
    }
    residual
}

/// Checks values and vectors of A·v = λ·M·v by the residual, which it gives in ε·(‖A‖ + ‖M‖·max|λ|)·‖V‖, and
/// the values alone.
pub fn check_metric(ranks: &impl Ranks, deal: Deal, n: usize) -> f64 {
    let dtype = deal.dtype;
    let what = format!("eigen with a metric {deal:?} n {n}");
    let (a, metric) = (Dense::hermitian(n, dtype, 1), Dense::definite(n, dtype));
    let [shown_a, shown_metric] = [&a, &metric].map(|m| shown_in(Triangle::Lower, m));
    let [with, alone] =
        [true, false].map(|wants_vectors| eigen(ranks, deal, &shown_a, Some(&shown_metric), wants_vectors));
    assert_eq!([with.info, alone.info], [0, 0], "{what}");
    let v = &with.vectors.unwrap();
    let residual = check_eigenpairs_with_metric(&a, &metric, &with.values, v, dtype, &what);
    let largest = with.values.iter().fold(a.one_norm(), |largest, value| largest.max(value.abs()));
    for (value, other) in alone.values.iter().zip(&with.values) {
        let allowed = rounding(n) * epsilon(dtype) * largest;
        assert!(
            (value - other).abs() <= allowed,
            "{what}: a value alone is {value:e}, with vectors {other:e}"
        );
    }
    residual
}

/// Checks all triangular solves: op(A)·X = B componentwise. Gives the largest |B − op(A)·X| in units of
/// ε·|op(A)|·|X|.
pub fn check_triangular(ranks: &impl Ranks, deal: Deal, n: usize, nrhs: usize) -> f64 {
    let mut forms = Vec::new();
    for triangle in [Triangle::Lower, Triangle::Upper] {
        for diagonal in [Diagonal::NonUnit, Diagonal::Unit] {
            forms.extend(OPS.map(|op| Triangular { triangle, op, diagonal }));
        }
    }
    let b = Dense::arbitrary(n, nrhs, deal.dtype, 5);
    let hide = |form| triangular_matrix(n, deal.dtype, form, NAN);
    let from = n / 3;
    let lower = Dense::from_fn(n, nrhs, |i, j| if i < from + j { (0.0, 0.0) } else { b.at(i, j) });
    // All rows at once, as few as possible, and those without the zeros above a diagonal.
    let cases = [((1 << 20, None), &b), ((1, None), &b), ((1, Some(from as u64)), &lower)];
    let mut worst = 0.0_f64;
    let solutions = cases.into_iter().flat_map(|(blocks, b)| {
        let solutions = triangular(ranks, deal, blocks, &forms, hide, b);
        forms.iter().zip(solutions).map(move |(&form, x)| (form, x, b)).collect::<Vec<_>>()
    });
    for (form, x, b) in solutions {
        let a = read_as(form, &triangular_matrix(n, deal.dtype, form, (0.0, 0.0))).op(form.op);
        let bound = a.magnitude().times(&x.magnitude());
        let distance = a.times(&x).distance(b, &bound);
        let allowed = tolerance(deal.dtype, n);
        assert!(distance <= allowed, "{form:?} {deal:?} n {n} nrhs {nrhs}: {distance:e} above {allowed:e}");
        worst = worst.max(distance / epsilon(deal.dtype));
    }
    worst
}

/// Checks products of `[m, n, k]` with tiles of these sizes. Gives the largest error in units of
/// ε·(|α|·|op(A)|·|op(B)| + |β|·|C|).
pub fn check_multiply(
    ranks: &impl Ranks,
    grid: [usize; 2],
    dtype: DType,
    [op_a, op_b]: [Op; 2],
    [m, n, k]: [usize; 3],
    [m_tile, n_tile, k_tile]: [usize; 3],
) -> f64 {
    let stored = |op, rows, cols| match op {
        Op::NoTranspose => [rows, cols],
        Op::Transpose | Op::ConjugateTranspose => [cols, rows],
    };
    // The contract of products wants one tile where B enters transposed.
    let [n_tile, k_tile] = if op_b == Op::NoTranspose { [n_tile, k_tile] } else { [m_tile; 2] };
    let cases = [(1.0, 0.0), (-1.0, 1.0), (0.5, -2.0)].map(|(alpha, beta)| {
        let matrix = |[rows, cols]: [usize; 2], seed| Dense::arbitrary(rows, cols, dtype, seed);
        // With β = 0 nothing is read from C.
        let c = match beta {
            0.0 => Dense::from_fn(m, n, |_, _| NAN),
            _ => matrix([m, n], 13),
        };
        Case {
            product: Product { op_a, op_b, alpha, beta },
            operands: [matrix(stored(op_a, m, k), 11), matrix(stored(op_b, k, n), 12), c],
            tiles: [stored(op_a, m_tile, k_tile), stored(op_b, k_tile, n_tile), [m_tile, n_tile]],
        }
    });
    let results = multiply(ranks, grid, dtype, &cases);
    let mut worst = 0.0_f64;
    for (case, got) in cases.iter().zip(&results) {
        let Product { op_a, op_b, alpha, beta } = case.product;
        let [a, b, c] = &case.operands;
        let (a, b) = (a.op(op_a), b.op(op_b));
        let (product, size) = (a.times(&b), a.magnitude().times(&b.magnitude()));
        let old = |i, j| if beta == 0.0 { (0.0, 0.0) } else { c.at(i, j) };
        let expected = Dense::from_fn(m, n, |i, j| {
            let (p, c) = (product.at(i, j), old(i, j));
            (alpha * p.0 + beta * c.0, alpha * p.1 + beta * c.1)
        });
        let bound = Dense::from_fn(m, n, |i, j| {
            (alpha.abs() * size.at(i, j).0 + beta.abs() * old(i, j).0.hypot(old(i, j).1), 0.0)
        });
        let distance = got.distance(&expected, &bound);
        let allowed = tolerance(dtype, k);
        let what = format!("{:?} grid {grid:?} {dtype:?} m {m} n {n} k {k}", case.product);
        assert!(distance <= allowed, "{what}: {distance:e} above {allowed:e}");
        worst = worst.max(distance / epsilon(dtype));
    }
    worst
}
