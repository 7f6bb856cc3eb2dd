//! Whole matrices for oracles: plain loops in complex f64, whatever the element type under test.

use meshsolve::DType;
use meshsolve::solver::Op;
use std::cmp::Ordering;

/// Real and imaginary part.
pub type Complex = (f64, f64);

/// Where an element must not be read.
pub const NAN: Complex = (f64::NAN, f64::NAN);

/// The product of two numbers.
pub fn times(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// The other root.
pub fn conjugate(a: Complex) -> Complex {
    (a.0, -a.1)
}

/// Whether elements have an imaginary part.
pub fn is_complex(dtype: DType) -> bool {
    dtype.parts() == 2
}

/// The distance of 1 and the next number.
pub fn epsilon(dtype: DType) -> f64 {
    if dtype.real() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// Ten roundings of one unit for each of `n` terms.
pub fn tolerance(dtype: DType, n: usize) -> f64 {
    10.0 * (n + 1) as f64 * epsilon(dtype)
}

/// The bytes of an element.
pub fn encode(dtype: DType, (re, im): Complex) -> Vec<u8> {
    let parts = [re, im].into_iter().take(dtype.parts() as usize);
    match dtype.real() {
        DType::F32 => parts.flat_map(|part| (part as f32).to_ne_bytes()).collect(),
        _ => parts.flat_map(f64::to_ne_bytes).collect(),
    }
}

/// The element in these bytes.
pub fn decode(dtype: DType, bytes: &[u8]) -> Complex {
    let size = dtype.real().size() as usize;
    let part = |part: &[u8]| match dtype.real() {
        DType::F32 => f64::from(f32::from_ne_bytes(part.try_into().unwrap())),
        _ => f64::from_ne_bytes(part.try_into().unwrap()),
    };
    (part(&bytes[..size]), if is_complex(dtype) { part(&bytes[size..]) } else { 0.0 })
}

/// A column-major matrix that every test can read.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Column after column.
    pub values: Vec<Complex>,
}

impl Dense {
    /// The matrix whose elements are `value(row, column)`.
    pub fn from_fn(rows: usize, cols: usize, value: impl Fn(usize, usize) -> Complex) -> Self {
        let values =
            (0..cols).flat_map(|j| (0..rows).map(move |i| (i, j))).map(|(i, j)| value(i, j)).collect();
        Self { rows, cols, values }
    }

    /// Numbers without a pattern in ±1, of which `seed` gives others; exact in every element type.
    pub fn arbitrary(rows: usize, cols: usize, dtype: DType, seed: u64) -> Self {
        let part = |i: usize, j: usize, which: u64| {
            let mut word = (i as u64) << 40 ^ (j as u64) << 16 ^ seed << 2 ^ which;
            // Rounds of a multiplicative hash.
            for _ in 0..3 {
                word = (word ^ word >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
            f64::from((word >> 44) as u32) / f64::from(1_u32 << 19) - 1.0
        };
        Self::from_fn(rows, cols, |i, j| (part(i, j, 0), if is_complex(dtype) { part(i, j, 1) } else { 0.0 }))
    }

    /// The element at a place.
    pub fn at(&self, i: usize, j: usize) -> Complex {
        self.values[j * self.rows + i]
    }

    /// Changes the element at a place.
    pub fn set(&mut self, i: usize, j: usize, value: Complex) {
        self.values[j * self.rows + i] = value;
    }

    /// op(A).
    pub fn op(&self, op: Op) -> Self {
        match op {
            Op::NoTranspose => self.clone(),
            Op::Transpose => Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i)),
            Op::ConjugateTranspose => Self::from_fn(self.cols, self.rows, |i, j| conjugate(self.at(j, i))),
        }
    }

    /// The product with `other`.
    pub fn times(&self, other: &Self) -> Self {
        assert_eq!(self.cols, other.rows);
        Self::from_fn(self.rows, other.cols, |i, j| {
            (0..self.cols).map(|k| times(self.at(i, k), other.at(k, j))).fold((0.0, 0.0), sum)
        })
    }

    /// Absolute values.
    pub fn magnitude(&self) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| (self.at(i, j).0.hypot(self.at(i, j).1), 0.0))
    }

    /// Hermitian and diagonally dominant, so positive definite; every entry differs from its neighbours.
    pub fn definite(n: usize, dtype: DType) -> Self {
        Self::from_fn(n, n, |i, j| {
            let (low, high) = (i.min(j) as f64, i.max(j) as f64);
            if i == j {
                return (2.0 * n as f64 + low, 0.0);
            }
            let angle = 0.7 * high + 1.3 * low;
            let imaginary = if is_complex(dtype) { angle.sin() } else { 0.0 };
            (angle.cos(), if i > j { imaginary } else { -imaginary })
        })
    }

    /// Hermitian, of numbers without a pattern; exact in every element type.
    pub fn hermitian(n: usize, dtype: DType, seed: u64) -> Self {
        Self::arbitrary(n, n, dtype, seed).mirrored()
    }

    /// The Hermitian matrix with this lower triangle, and with the real parts of the diagonal.
    pub fn mirrored(&self) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| match i.cmp(&j) {
            Ordering::Greater => self.at(i, j),
            Ordering::Equal => (self.at(i, i).0, 0.0),
            Ordering::Less => conjugate(self.at(j, i)),
        })
    }

    /// The diagonal matrix of these numbers.
    pub fn diagonal(values: &[f64]) -> Self {
        Self::from_fn(values.len(), values.len(), |i, j| (if i == j { values[i] } else { 0.0 }, 0.0))
    }

    /// A reflection I − 2·u·uᴴ/(uᴴ·u) without zeros: Hermitian, and its own inverse.
    pub fn reflection(n: usize, dtype: DType) -> Self {
        let u = Self::arbitrary(n, 1, dtype, 8);
        let square: f64 = u.values.iter().map(|x| x.0 * x.0 + x.1 * x.1).sum();
        Self::from_fn(n, n, |i, j| {
            let (re, im) = times(u.at(i, 0), conjugate(u.at(j, 0)));
            (f64::from(u8::from(i == j)) - 2.0 * re / square, -2.0 * im / square)
        })
    }

    /// Hermitian with these eigenvalues up to the rounding of its elements; the reflection's columns belong to
    /// them.
    pub fn with_spectrum(values: &[f64], dtype: DType) -> Self {
        let basis = Self::reflection(values.len(), dtype);
        let whole = basis.times(&Self::diagonal(values)).times(&basis);
        let exact = |x| decode(dtype, &encode(dtype, x));
        Self { values: whole.values.into_iter().map(exact).collect(), ..whole }.mirrored()
    }

    /// The difference to `other`.
    pub fn minus(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| {
            let (a, b) = (self.at(i, j), other.at(i, j));
            (a.0 - b.0, a.1 - b.1)
        })
    }

    /// The largest sum of absolute values in a column; NaN if one is.
    pub fn one_norm(&self) -> f64 {
        let columns = self.values.chunks(self.rows.max(1));
        let sums = columns.map(|column| column.iter().map(|x| x.0.hypot(x.1)).sum());
        sums.fold(0.0, |most: f64, sum| if most.is_nan() || sum <= most { most } else { sum })
    }

    /// Interchanges two rows.
    pub fn swap_rows(&mut self, one: usize, other: usize) {
        for column in self.values.chunks_mut(self.rows) {
            column.swap(one, other);
        }
    }

    /// How far this is from `expected`, element by element, in units of `bound` (real, and 0 only where
    /// the two are equal). NaN counts as infinitely far.
    pub fn distance(&self, expected: &Self, bound: &Self) -> f64 {
        let shape = |m: &Self| (m.rows, m.cols);
        assert_eq!((shape(self), shape(bound)), (shape(expected), shape(expected)));
        let pairs = self.values.iter().zip(&expected.values).zip(&bound.values);
        let ratios = pairs.map(|((got, expected), bound)| {
            let error = (got.0 - expected.0).hypot(got.1 - expected.1);
            match error {
                0.0 => 0.0,
                error if error.is_finite() => error / bound.0,
                _ => f64::INFINITY,
            }
        });
        ratios.fold(0.0, f64::max)
    }
}

/// The sum of two numbers.
pub fn sum(a: Complex, b: Complex) -> Complex {
    (a.0 + b.0, a.1 + b.1)
}

/// Checks that X solves A·X = B as a backward stable solver does: ‖B − A·X‖ / (‖A‖·‖X‖) in 1-norms is at
/// most √n·ε. That is below 25·n·ε, which would let a tile of zeros pass in single precision. Gives the
/// ratio in ε.
pub fn check_residual(a: &Dense, x: &Dense, b: &Dense, dtype: DType, what: &str) -> f64 {
    let product = a.times(x);
    let residual = b.minus(&product);
    let size = a.one_norm() * x.one_norm();
    let ratio = if b.values.is_empty() { 0.0 } else { residual.one_norm() / size / epsilon(dtype) };
    // Below 16 rows single roundings show.
    let bound = (a.rows.max(16) as f64).sqrt();
    let finite = x.values.iter().all(|x| x.0.is_finite() && x.1.is_finite());
    assert!(finite && ratio <= bound, "{what}: residual {ratio} ε, at most {bound} ε, finite: {finite}");
    ratio
}

/// Ten times √n: what rounding may add up to, in ε, where it does so at random. Below 16 single roundings show.
pub fn rounding(n: usize) -> f64 {
    10.0 * (n.max(16) as f64).sqrt()
}

/// Checks that values ascend, but for 8 `unit`s, each a rounding of the largest: cuSOLVERMp 0.9.1 leaves those of a
/// cluster in any order. NaN does not ascend.
pub fn check_ascending(values: &[f64], unit: f64, what: &str) {
    let ascends =
        values.windows(2).all(|pair| pair[0] <= pair[1] + 8.0 * unit) && values.iter().all(|x| x.is_finite());
    assert!(ascends, "{what}: not ascending: {values:?}");
}

/// Checks eigenvalues and eigenvectors of Hermitian A as a backward stable solver leaves them: values ascend,
/// ‖A·V − V·Λ‖ in 1-norms is at most 10·√n·ε·‖A‖, and each element of I − Vᴴ·V at most half of that
/// without ‖A‖; both norms are at most 50·n·ε, which alone would let a tile of zeros pass in single precision.
/// Gives the residual in ε·‖A‖.
pub fn check_eigenpairs(a: &Dense, values: &[f64], v: &Dense, dtype: DType, what: &str) -> f64 {
    let (n, eps) = (a.rows, epsilon(dtype));
    let (usual, most) = (rounding(n), 50.0 * n as f64);
    check_ascending(values, eps * a.one_norm(), what);
    let gram = v.op(Op::ConjugateTranspose).times(v).minus(&Dense::diagonal(&vec![1.0; n]));
    let element = gram.magnitude().values.iter().map(|x| x.0 / eps).fold(0.0, f64::max);
    let gram = gram.one_norm() / eps;
    let finite = v.values.iter().all(|x| x.0.is_finite() && x.1.is_finite());
    assert!(
        finite && element <= 0.5 * usual && gram <= most,
        "{what}: I − Vᴴ·V has {element} ε and a norm of {gram} ε, finite: {finite}"
    );
    let residual = a.times(v).minus(&v.times(&Dense::diagonal(values))).one_norm() / eps;
    let allowed = usual.min(most) * a.one_norm();
    assert!(residual <= allowed, "{what}: residual {residual} ε above {allowed} ε");
    if residual == 0.0 { 0.0 } else { residual / a.one_norm() }
}

/// The same for A·v = λ·M·v: ‖A·V − M·V·Λ‖ is small beside (‖A‖ + ‖M‖·max|λ|)·‖V‖, and ‖I − Vᴴ·M·V‖ beside
/// ‖M‖·‖V‖². Gives the residual in ε of that.
pub fn check_eigenpairs_with_metric(
    a: &Dense,
    metric: &Dense,
    values: &[f64],
    v: &Dense,
    dtype: DType,
    what: &str,
) -> f64 {
    let (n, eps) = (a.rows, epsilon(dtype));
    let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    check_ascending(values, eps * largest, what);
    let residual = a.times(v).minus(&metric.times(v).times(&Dense::diagonal(values))).one_norm();
    let unit = eps * (a.one_norm() + metric.one_norm() * largest) * v.one_norm();
    assert!(residual <= rounding(n) * unit, "{what}: residual {residual:e} of {unit:e}");
    // None is left out or comes twice.
    let gram = v.op(Op::ConjugateTranspose).times(&metric.times(v)).minus(&Dense::diagonal(&vec![1.0; n]));
    let allowed = rounding(n) * eps * metric.one_norm() * v.one_norm().powi(2);
    assert!(gram.one_norm() <= allowed, "{what}: I − Vᴴ·M·V is {:e} above {allowed:e}", gram.one_norm());
    if residual == 0.0 { 0.0 } else { residual / unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenpairs_tell_wrong_values_and_vectors() {
        let n = 48;
        let spectrum: Vec<f64> = (0..n).map(|k| if k < 20 { -1.5 } else { k as f64 / 16.0 }).collect();
        for dtype in DType::ALL {
            let (a, v) = (Dense::with_spectrum(&spectrum, dtype), Dense::reflection(n, dtype));
            let exact = |x: &Complex| decode(dtype, &encode(dtype, *x));
            let v = Dense { values: v.values.iter().map(exact).collect(), ..v };
            check_eigenpairs(&a, &spectrum, &v, dtype, "right");
            let changed = |change: &dyn Fn(&mut Dense, &mut Vec<f64>)| {
                let (mut v, mut values) = (v.clone(), spectrum.clone());
                change(&mut v, &mut values);
                (v, values)
            };
            let tile = |v: &mut Dense, value: &dyn Fn(&Dense, usize, usize) -> Complex| {
                let before = v.clone();
                for (i, j) in (0..64).map(|at| (8 + at / 8, 24 + at % 8)) {
                    v.set(i, j, value(&before, i, j));
                }
            };
            for (v, values) in [
                changed(&|v, _| tile(v, &|_, _, _| (0.0, 0.0))),
                // Two tiles in each other's place, of rows and of columns.
                changed(&|v, _| (8..16).for_each(|i| v.swap_rows(i, i + 8))),
                changed(&|v, _| (0..8 * n).for_each(|at| v.values.swap(24 * n + at, 32 * n + at))),
                changed(&|v, _| v.set(0, 0, NAN)),
                changed(&|_, values| values[30] += 1e-3),
                changed(&|_, values| values.swap(30, 31)),
                changed(&|_, values| values[0] = f64::NAN),
                // Another basis of the same space, but not an orthonormal one.
                changed(&|v, _| (0..n).for_each(|i| v.set(i, 1, sum(v.at(i, 0), v.at(i, 1))))),
            ] {
                let refused = std::panic::catch_unwind(|| check_eigenpairs(&a, &values, &v, dtype, "wrong"));
                assert!(refused.is_err());
            }
        }
    }

    #[test]
    fn a_residual_tells_a_wrong_element_and_nan() {
        for dtype in DType::ALL {
            let a = Dense::from_fn(40, 40, |i, j| (if i == j { 4.0 } else { 1.0 / (1 + i + j) as f64 }, 0.0));
            let x = Dense::from_fn(40, 2, |i, j| (1.0 + (i * 2 + j) as f64 / 64.0, 0.0));
            let b = a.times(&x);
            check_residual(&a, &x, &b, dtype, "right");
            let mut swapped = x.clone();
            swapped.swap_rows(3, 4);
            let mut zeroed = x.clone();
            zeroed.set(39, 1, (0.0, 0.0));
            let mut undefined = x.clone();
            undefined.set(0, 0, NAN);
            for wrong in [swapped, zeroed, undefined] {
                let refused = std::panic::catch_unwind(|| check_residual(&a, &wrong, &b, dtype, "wrong"));
                assert!(refused.is_err());
            }
        }
    }

    #[test]
    fn norms_are_those_of_columns_and_tell_nan() {
        let a =
            Dense::from_fn(2, 3, |i, j| [[(3.0, 4.0), (-2.0, 0.0)], [(0.0, 1.0), (1.0, 0.0)]][i % 2][j % 2]);
        assert_eq!(a.one_norm(), 6.0);
        for place in 0..6 {
            let mut a = a.clone();
            a.values[place] = (f64::NAN, 0.0);
            assert!(a.one_norm().is_nan());
        }
        assert_eq!(Dense::diagonal(&[]).one_norm(), 0.0);
    }

    #[test]
    fn distances_tell_nan_and_exact_zeros() {
        let one = |value| Dense::from_fn(1, 1, |_, _| (value, 0.0));
        assert_eq!(one(3.0).distance(&one(1.0), &one(4.0)), 0.5);
        assert_eq!(one(0.0).distance(&one(0.0), &one(0.0)), 0.0);
        assert_eq!(one(1.0).distance(&one(0.0), &one(0.0)), f64::INFINITY);
        assert_eq!(one(f64::NAN).distance(&one(0.0), &one(1.0)), f64::INFINITY);
    }

    #[test]
    fn elements_survive_their_bytes() {
        for dtype in DType::ALL {
            let value = (1.5, if is_complex(dtype) { -0.25 } else { 0.0 });
            let bytes = encode(dtype, value);
            assert_eq!((bytes.len() as u64, decode(dtype, &bytes)), (dtype.size(), value));
            let m = Dense::arbitrary(3, 3, dtype, 7);
            for &value in &m.values {
                assert_eq!(decode(dtype, &encode(dtype, value)), value);
            }
        }
    }
}
