//! A function of a matrix by its eigenvalues, applied between the products with the eigenvectors.

use super::carrier::Real;
use super::work::{INVALID, for_each_pair, map_below};
use crate::args::ApplyPseudoinverseArgs;

#[inline(always)]
fn magnitude<R: Real>(x: R) -> R {
    if x < R::from_f64(0.0) { x.negated() } else { x }
}

/// What the row of eigenvalue number `index` is multiplied by.
///
/// # Safety
/// `index` must be below the number of eigenvalues.
#[inline(always)]
unsafe fn factor<R: Real>(args: &ApplyPseudoinverseArgs, index: u64) -> R {
    let values = args.values as *const R;
    // SAFETY: there are n eigenvalues, at least one because `index` is one of them.
    let [value, first, last, cutoff] = unsafe {
        [*values.add(index as usize), *values, *values.add((args.n - 1) as usize), *(args.cutoff as *const R)]
    };
    // In ascending order one of the ends is the largest in magnitude.
    let (first, last) = (magnitude(first), magnitude(last));
    let largest = if first < last { last } else { first };
    if magnitude(value) > cutoff * largest { R::from_f64(1.0) / value } else { R::from_f64(0.0) }
}

/// See [`ApplyPseudoinverseArgs`].
#[inline(always)]
pub(crate) unsafe fn apply_pseudoinverse<R: Real>(args: &ApplyPseudoinverseArgs) {
    let buf = args.buf as *mut R;
    // A row's factor travels in place of its index: as an f64, which holds it exactly and is never NaN, as
    // the bits of `INVALID` would be.
    let of_row = |i| match map_below(&args.row_map, i, args.rows) {
        INVALID => INVALID,
        // SAFETY: the map's results are below n.
        row => unsafe { factor::<R>(args, row) }.to_f64().to_bits(),
    };
    let of_col = |j| if j < args.cols { j } else { INVALID };
    for_each_pair((args.rows, of_row), (args.cols, of_col), |i, j, factor, _| {
        let (factor, zero) = (R::from_f64(f64::from_bits(factor)), R::from_f64(0.0));
        let mut part = 0;
        while part < args.parts {
            // SAFETY: a local element is inside the matrix and has as many parts.
            unsafe {
                let to = buf.add(((i + j * args.ld) * args.parts + part) as usize);
                *to = if factor == zero { zero } else { *to * factor };
            }
            part += 1;
        }
    });
}
