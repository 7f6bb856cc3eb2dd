//! What rank 0 does with whole matrices, which are column-major without gaps.

use super::Value;
use crate::solver::{Diagonal, Op, Product, Triangle, Triangular};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::evd;
use faer::linalg::matmul::{matmul, matmul_with_conj};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place_with_conj, solve_unit_lower_triangular_in_place_with_conj,
    solve_unit_upper_triangular_in_place_with_conj, solve_upper_triangular_in_place_with_conj,
};
use faer::perm::swap_rows_idx;
use faer::traits::ComplexField;
use faer::traits::math_utils::{abs1, conj, from_f64, mul, mul_real, one, real, recip, sub, zero};
use faer::{Accum, Conj, MatMut, MatRef, c32, c64};

/// An element type of matrices.
pub(super) trait Element: ComplexField<Real: Value> + Value {
    /// The same in double precision.
    type Wide: ComplexField<Real = f64>;
    fn widen(&self) -> Self::Wide;
    fn narrow(wide: &Self::Wide) -> Self;
}

macro_rules! element {
    ($type:ty, $wide:ty, $widen:expr, $narrow:expr) => {
        impl Element for $type {
            type Wide = $wide;
            fn widen(&self) -> $wide {
                ($widen)(*self)
            }
            fn narrow(wide: &$wide) -> Self {
                ($narrow)(*wide)
            }
        }
    };
}

element!(f32, f64, f64::from, rounded);
element!(f64, f64, |x| x, |wide| wide);
element!(c32, c64, |x: c32| c64::new(x.re.into(), x.im.into()), |x: c64| c32::new(
    rounded(x.re),
    rounded(x.im)
));
element!(c64, c64, |x| x, |wide| wide);

#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn rounded(wide: f64) -> f32 {
    wide as f32
}

/// Factors the lower triangle of a column-major n × n matrix in place and returns LAPACK's info.
///
/// The row-major upper triangle of A is the column-major lower triangle of Aᵀ = conj(A), whose factor
/// is conj(L) = Uᵀ: in place that is U, row-major.
pub(super) fn cholesky_factor<T: Element>(a: &mut [T], n: usize) -> i32 {
    if n == 0 {
        return 0;
    }
    let threads = faer::get_global_parallelism();
    let scratch = llt::factor::cholesky_in_place_scratch::<T>(n, threads, Default::default());
    let outcome = llt::factor::cholesky_in_place(
        MatMut::from_column_major_slice_mut(a, n, n),
        Default::default(),
        threads,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    match outcome {
        Ok(_) => 0,
        Err(llt::factor::LltError::NonPositivePivot { index }) => number(index + 1),
    }
}

/// Solves in place for all columns of `b`, given [`cholesky_factor`]'s result.
pub(super) fn cholesky_solve<T: Element>(triangle: Triangle, factor: &[T], b: &mut [T], n: usize) {
    if b.is_empty() {
        return;
    }
    let cols = b.len() / n;
    // For an upper triangle the factor is that of conj(A).
    let conj = match triangle {
        Triangle::Lower => Conj::No,
        Triangle::Upper => Conj::Yes,
    };
    let threads = faer::get_global_parallelism();
    let scratch = llt::solve::solve_in_place_scratch::<T>(n, cols, threads);
    llt::solve::solve_in_place_with_conj(
        MatRef::from_column_major_slice(factor, n, n),
        conj,
        MatMut::from_column_major_slice_mut(b, n, cols),
        threads,
        MemStack::new(&mut MemBuffer::new(scratch)),
    );
}

/// Columns that are eliminated before the rest of the matrix follows.
const PANEL: usize = 32;

/// Factors a square matrix with one pivot a row in place, and returns LAPACK's info.
///
/// The panel is ours because a pivot that is zero must leave finite factors behind, as LAPACK's does.
pub(super) fn lu_factor<T: Element>(a: &mut [T], pivots: &mut [i64]) -> i32 {
    let n = pivots.len();
    let threads = faer::get_global_parallelism();
    let mut a = MatMut::from_column_major_slice_mut(a, n, n);
    let mut info = 0;
    for start in (0..n).step_by(PANEL) {
        let end = n.min(start + PANEL);
        for j in start..end {
            let pivot = largest(a.as_ref(), j);
            pivots[j] = number(pivot + 1);
            swap_rows_idx(a.as_mut(), j, pivot);
            if a[(j, j)] == zero::<T>() {
                if info == 0 {
                    info = number(j + 1);
                }
                continue;
            }
            let inverse = recip(&a[(j, j)]);
            for i in j + 1..n {
                a[(i, j)] = mul(&a[(i, j)], &inverse);
            }
            for col in j + 1..end {
                for i in j + 1..n {
                    a[(i, col)] = sub(&a[(i, col)], &mul(&a[(i, j)], &a[(j, col)]));
                }
            }
        }
        // What the panel leaves: U's rows beside it, and the part that is still to be factored.
        let (_, left) = a.as_mut().split_at_row_mut(start);
        let (panel, right) = left.split_at_col_mut(end);
        let panel = panel.as_ref().subcols(start, end - start);
        let (top, rest) = right.split_at_row_mut(end - start);
        let (diagonal, below) = panel.split_at_row(end - start);
        let mut top = top;
        solve_unit_lower_triangular_in_place_with_conj(diagonal, Conj::No, top.as_mut(), threads);
        matmul(rest, Accum::Add, below, top.as_ref(), -one::<T>(), threads);
    }
    info
}

/// The row of the largest element of column `j` on or below the diagonal; the first of several.
fn largest<T: Element>(a: MatRef<'_, T>, j: usize) -> usize {
    (j + 1..a.nrows()).fold(j, |best, i| if abs1(&a[(i, j)]) > abs1(&a[(best, j)]) { i } else { best })
}

/// A row as LAPACK counts it, in the type that the caller keeps it in.
fn number<N: TryFrom<usize>>(row: usize) -> N
where
    N::Error: std::fmt::Debug,
{
    N::try_from(row).expect("a matrix on one rank has fewer rows")
}

/// Solves in place for all columns of `b`, given [`lu_factor`]'s result.
pub(super) fn lu_solve<T: Element>(factors: &[T], pivots: &[i64], b: &mut [T]) {
    let n = pivots.len();
    if b.is_empty() {
        return;
    }
    let cols = b.len() / n;
    let mut rows = MatMut::from_column_major_slice_mut(&mut *b, n, cols);
    for (i, &pivot) in pivots.iter().enumerate() {
        swap_rows_idx(rows.as_mut(), i, usize::try_from(pivot - 1).expect("a row"));
    }
    let half = |triangle, diagonal| Triangular { triangle, op: Op::NoTranspose, diagonal };
    triangular_solve(half(Triangle::Lower, Diagonal::Unit), factors, b, n);
    triangular_solve(half(Triangle::Upper, Diagonal::NonUnit), factors, b, n);
}

/// Solves op(A)·X = B in place for all columns of `b`, with the triangle of A that `form` names.
pub(super) fn triangular_solve<T: Element>(form: Triangular, a: &[T], b: &mut [T], n: usize) {
    if b.is_empty() {
        return;
    }
    let cols = b.len() / n;
    let (a, conj) = view(form.op, a, (n, n));
    let b = MatMut::from_column_major_slice_mut(b, n, cols);
    let threads = faer::get_global_parallelism();
    match (form.is_forward(), form.diagonal) {
        (true, Diagonal::NonUnit) => solve_lower_triangular_in_place_with_conj(a, conj, b, threads),
        (true, Diagonal::Unit) => solve_unit_lower_triangular_in_place_with_conj(a, conj, b, threads),
        (false, Diagonal::NonUnit) => solve_upper_triangular_in_place_with_conj(a, conj, b, threads),
        (false, Diagonal::Unit) => solve_unit_upper_triangular_in_place_with_conj(a, conj, b, threads),
    }
}

/// Eigenvalues of the Hermitian n × n matrix with the lower triangle of `a`, ascending, and if they are wanted
/// eigenvectors as columns; with a metric those of A·v = λ·M·v. Overwrites A and M. Returns a positive number if
/// the iteration did not converge or M is not positive definite, else 0.
pub(super) fn eigen<T: Element>(
    a: &mut [T],
    metric: Option<&mut [T]>,
    values: &mut [T::Real],
    mut vectors: Option<&mut [T]>,
) -> i32 {
    let n = values.len();
    let Some(metric) = metric else { return standard_eigen(a, values, vectors) };
    let info = cholesky_factor(metric, n);
    if info > 0 {
        return info;
    }
    reduce(a, metric, n);
    let info = standard_eigen(a, values, vectors.as_deref_mut());
    if let Some(vectors) = vectors {
        // An eigenvector of the reduced matrix is Lᴴ·v.
        let (triangle, op) = (Triangle::Lower, Op::ConjugateTranspose);
        triangular_solve(Triangular { triangle, op, diagonal: Diagonal::NonUnit }, metric, vectors, n);
    }
    info
}

/// Always in double precision and with vectors: in single precision those of a positive definite matrix of order
/// 1000 are off by 10⁵ ε, and values alone, which come by QR iterations, by more than √n ε in any precision.
fn standard_eigen<T: Element>(a: &[T], values: &mut [T::Real], vectors: Option<&mut [T]>) -> i32 {
    let n = values.len();
    if n == 0 {
        return 0;
    }
    let threads = faer::get_global_parallelism();
    let mut params = <evd::SelfAdjointEvdParams as faer::Auto<T::Wide>>::auto();
    // From here on it divides and conquers, which leaves the vectors orthogonal to a third of the rounding errors.
    params.recursion_threshold = 16;
    let with = evd::ComputeEigenvectors::Yes;
    let scratch = evd::self_adjoint_evd_scratch::<T::Wide>(n, with, threads, params.into());
    // Far from 1 it loses digits. A power of two changes none.
    let lower = (0..n).flat_map(|j| &a[j * n + j..(j + 1) * n]);
    let largest = lower.map(|x| abs1(&x.widen())).fold(0.0, f64::max);
    let exponent = if largest > 0.0 { largest.log2().round().clamp(-1000.0, 1000.0) } else { 0.0 };
    let scale = (-exponent).exp2();
    let wide: Vec<T::Wide> = a.iter().map(|x| mul_real(&x.widen(), &scale)).collect();
    let (mut diagonal, mut columns) = (vec![zero::<T::Wide>(); n], vec![zero::<T::Wide>(); n * n]);
    let outcome = evd::self_adjoint_evd(
        MatRef::from_column_major_slice(&wide, n, n),
        DiagMut::from_slice_mut(&mut diagonal),
        Some(MatMut::from_column_major_slice_mut(&mut columns, n, n)),
        threads,
        MemStack::new(&mut MemBuffer::new(scratch)),
        params.into(),
    );
    for (value, element) in values.iter_mut().zip(&diagonal) {
        *value = from_f64(real(element) * exponent.exp2());
    }
    for (element, wide) in vectors.into_iter().flatten().zip(&columns) {
        *element = T::narrow(wide);
    }
    i32::from(outcome.is_err())
}

/// Overwrites the Hermitian n × n matrix with the lower triangle of `a` by C = L⁻¹·A·L⁻ᴴ, with the lower
/// triangle of `factor` for L. Since C is Hermitian, it is L⁻¹·(L⁻¹·A)ᴴ.
fn reduce<T: Element>(a: &mut [T], factor: &[T], n: usize) {
    let half = Triangular { triangle: Triangle::Lower, op: Op::NoTranspose, diagonal: Diagonal::NonUnit };
    for j in 0..n {
        for i in 0..j {
            a[j * n + i] = conj(&a[i * n + j]);
        }
    }
    triangular_solve(half, factor, a, n);
    for j in 0..n {
        for i in 0..=j {
            let (above, below) = (conj(&a[j * n + i]), conj(&a[i * n + j]));
            (a[j * n + i], a[i * n + j]) = (below, above);
        }
    }
    triangular_solve(half, factor, a, n);
}

/// A matrix with its rows and columns.
type Whole<M> = (M, (usize, usize));

/// Overwrites C with α·op(A)·op(B) + β·C.
pub(super) fn multiply<T: Element>(
    product: Product,
    (a, a_size): Whole<&[T]>,
    (b, b_size): Whole<&[T]>,
    (c, (rows, cols)): Whole<&mut [T]>,
) {
    let beta = if product.beta == 0.0 { Accum::Replace } else { Accum::Add };
    if product.beta != 0.0 {
        let factor = from_f64::<T>(product.beta);
        c.iter_mut().for_each(|value| *value = mul(value, &factor));
    }
    let ((a, conj_a), (b, conj_b)) = (view(product.op_a, a, a_size), view(product.op_b, b, b_size));
    let c = MatMut::from_column_major_slice_mut(c, rows, cols);
    let threads = faer::get_global_parallelism();
    matmul_with_conj(c, beta, a, conj_a, b, conj_b, from_f64(product.alpha), threads);
}

/// op(A), the conjugation beside it.
fn view<T: Element>(op: Op, a: &[T], (rows, cols): (usize, usize)) -> (MatRef<'_, T>, Conj) {
    let a = MatRef::from_column_major_slice(a, rows, cols);
    match op {
        Op::NoTranspose => (a, Conj::No),
        Op::Transpose => (a.transpose(), Conj::No),
        Op::ConjugateTranspose => (a.transpose(), Conj::Yes),
    }
}
