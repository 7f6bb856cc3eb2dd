use crate::support::*;
use meshsolve_kernels::args::{ApplyPseudoinverseArgs, IndexMap};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::apply_pseudoinverse;

/// A column-major matrix of `rows × cols` elements of `parts` numbers, with one to spare below each column.
struct Matrix {
    rows: usize,
    cols: usize,
    parts: usize,
    row_map: IndexMap,
}

impl Matrix {
    fn ld(&self) -> usize {
        self.rows + 1
    }

    /// The kernel's result and the eigenvalues' factors, `None` where a row is to be cut.
    fn check<R: Number>(&self, values: &[f64], cutoff: f64, order: Order) -> Vec<Option<R>> {
        let values: Vec<R> = values.iter().map(|&value| R::of(value)).collect();
        let cutoff = R::of(cutoff);
        let magnitude = |x: R| if x < R::of(0.0) { R::of(-1.0) * x } else { x };
        let largest =
            values.iter().copied().map(magnitude).fold(R::of(0.0), |a, b| if a < b { b } else { a });
        let factors: Vec<Option<R>> = (values.iter())
            .map(|&value| (magnitude(value) > cutoff * largest).then(|| R::of(1.0) / value))
            .collect();
        // Numbers of both signs that tell their place; not a number, negative zero and infinity where a row
        // is cut, which must leave no trace.
        let (rows, parts) = (dealt(&self.row_map, self.rows), self.parts);
        let factor_of = |i: usize| rows.get(i).copied().flatten().map(|row| factors[row]);
        let mut before = Vec::new();
        for at in 0..self.ld() * self.cols * parts {
            let number = [0.1, -0.7][at % 2] + at as f64 * [1.0, -1.0][at / 2 % 2];
            let number = match factor_of(at / parts % self.ld()) {
                Some(None) => [f64::NAN, -0.0, f64::INFINITY, number][at % 4],
                _ => number,
            };
            before.push(R::of(number));
        }
        let expected: Vec<R> = (before.iter().enumerate())
            .map(|(at, &number)| match factor_of(at / parts % self.ld()) {
                None => number,
                Some(Some(factor)) => number * factor,
                Some(None) => R::of(0.0),
            })
            .collect();
        let mut buf = Buffer::new(&before);
        let (mut numbers, mut word) = (Buffer::new(&values), Buffer::new(&[cutoff]));
        let args = ApplyPseudoinverseArgs {
            buf: buf.address(),
            ld: self.ld() as u64,
            rows: self.rows as u64,
            cols: self.cols as u64,
            row_map: self.row_map,
            values: numbers.address(),
            n: values.len() as u64,
            cutoff: word.address(),
            parts: parts as u64,
        };
        run_on_blocks(apply_pseudoinverse(R::REAL, args), 2, order);
        let (result, what) = (buf.values(), (self.rows, self.cols, parts, self.row_map, order));
        assert!(
            bytemuck::cast_slice::<R, u8>(&result) == bytemuck::cast_slice::<R, u8>(&expected),
            "{:?} {what:?} cut at {cutoff:?}",
            R::REAL
        );
        assert_eq!(numbers.values(), values);
        factors
    }

    fn check_all_types(&self, values: &[f64], cutoff: f64, order: Order) {
        for parts in [1, 2] {
            let matrix = Matrix { parts, ..*self };
            matrix.check::<f32>(values, cutoff, order);
            matrix.check::<f64>(values, cutoff, order);
        }
    }
}

/// n ascending numbers of which `negative` are below zero and, if there are more, one is zero.
fn ascending(n: usize, negative: usize) -> Vec<f64> {
    (0..n).map(|k| 0.37 * (k as f64 - negative as f64)).collect()
}

#[test]
fn rows_are_scaled_by_the_inverses_of_large_eigenvalues() {
    for (order, rows) in ORDERS.into_iter().cycle().zip([1, 2, 33, 255, 256, 257]) {
        for (row_map, cols) in maps(rows).into_iter().zip([1, 31, 32, 33, 70].into_iter().cycle()) {
            let (n, matrix) = (row_map.limit as usize, Matrix { rows, cols, parts: 1, row_map });
            // The largest in magnitude is the last, then the first.
            for (negative, cutoff) in [(n / 3, 0.0), (n / 3, 0.3), (n - n / 5, 0.3)] {
                matrix.check_all_types(&ascending(n, negative), cutoff, order);
            }
        }
    }
}

#[test]
fn what_is_cut_is_not_above_the_cutoff() {
    let whole = |n: u64| Matrix { rows: n as usize, cols: 3, parts: 1, row_map: IndexMap::identity(n) };
    let values = [-4.0, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0];
    let kept = |cutoff| {
        let factors = whole(7).check::<f64>(&values, cutoff, Order::Forward);
        factors.iter().filter_map(|factor| *factor).collect::<Vec<_>>()
    };
    // Of 4, the largest magnitude; what equals the bound is cut.
    assert_eq!(kept(0.0), [-0.25, -0.5, -1.0, 2.0, 1.0, 1.0 / 3.0]);
    assert_eq!(kept(0.25), [-0.25, -0.5, 1.0 / 3.0]);
    assert_eq!(kept(0.75), [-0.25]);
    assert_eq!(kept(1.0), []);
    // Nothing is above a bound of 0 or of something that is not a number.
    assert_eq!(whole(3).check::<f32>(&[0.0; 3], 0.0, Order::Forward), [None; 3]);
    assert_eq!(kept(f64::NAN), []);
}

#[test]
fn nothing_to_scale() {
    let none = IndexMap::identity(0);
    for (rows, cols) in [(0, 3), (3, 0), (3, 2)] {
        Matrix { rows, cols, parts: 1, row_map: none }.check_all_types(&[], 0.5, Order::Forward);
    }
}
