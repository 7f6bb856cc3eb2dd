//! Whole matrices for oracles: plain loops in complex f64, whatever the element type under test.

use meshsolve::DType;
use meshsolve::solver::Op;

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

    /// The largest sum of absolute values in a column.
    pub fn one_norm(&self) -> f64 {
        let columns = self.values.chunks(self.rows.max(1));
        columns.map(|column| column.iter().map(|x| x.0.hypot(x.1)).sum()).fold(0.0, f64::max)
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
    let residual = Dense::from_fn(b.rows, b.cols, |i, j| {
        let (got, expected) = (product.at(i, j), b.at(i, j));
        (expected.0 - got.0, expected.1 - got.1)
    });
    let size = a.one_norm() * x.one_norm();
    let ratio = if b.values.is_empty() { 0.0 } else { residual.one_norm() / size / epsilon(dtype) };
    // Below 16 rows single roundings show.
    let bound = (a.rows.max(16) as f64).sqrt();
    let finite = x.values.iter().all(|x| x.0.is_finite() && x.1.is_finite());
    assert!(finite && ratio <= bound, "{what}: residual {ratio} ε, at most {bound} ε, finite: {finite}");
    ratio
}

#[cfg(test)]
mod tests {
    use super::*;

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
