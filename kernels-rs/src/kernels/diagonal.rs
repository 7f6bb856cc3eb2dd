//! The diagonal of a matrix: adding to it, whether it holds zeros, and the determinant's modulus and phase.

use super::carrier::Real;
use super::reduce::combined;
use super::work::for_each_item;
use crate::args::{
    AddToDiagonalArgs, DiagLogSumArgs, DiagPhaseArgs, Diagonal, FindZeroDiagonalArgs, MakeDiagonalRealArgs,
    PhaseToArgs, ScaleToArgs, ceil_div,
};
use crate::arithmetic::{self, ln_modulus, phase_product};
use crate::launch::THREADS;
use cuda_std::thread::thread_idx_x;

/// Real and imaginary part of the element that begins at `place`.
///
/// # Safety
/// `place` must be what `diagonal` gave.
#[inline(always)]
unsafe fn entry<R: Real>(diagonal: &Diagonal, place: u64) -> [f64; 2] {
    let buf = diagonal.buf as *const R;
    // SAFETY: a local element is inside the matrix and has as many parts.
    unsafe {
        let re = (*buf.add(place as usize)).to_f64();
        let im = if diagonal.parts > 1 { (*buf.add(place as usize + 1)).to_f64() } else { 0.0 };
        [re, im]
    }
}

/// See [`AddToDiagonalArgs`].
#[inline(always)]
pub(crate) unsafe fn add_to<R: Real>(args: &AddToDiagonalArgs) {
    let diagonal = &args.diagonal;
    let (buf, shift) = (diagonal.buf as *mut R, args.shift as *const R);
    for_each_item(ceil_div(diagonal.cols, THREADS.into()), |item| {
        let j = item * u64::from(THREADS) + u64::from(thread_idx_x());
        let column = if j < diagonal.cols { diagonal.column(j) } else { None };
        if let Some(place) = column.and_then(|global| diagonal.in_column(j, global)) {
            let mut part = 0;
            while part < diagonal.parts {
                // SAFETY: a local element is inside the matrix; it and the shift have as many parts.
                unsafe {
                    let to = buf.add((place + part) as usize);
                    *to = *to + *shift.add(part as usize);
                }
                part += 1;
            }
        }
    });
}

/// See [`MakeDiagonalRealArgs`].
#[inline(always)]
pub(crate) unsafe fn make_real<R: Real>(args: &MakeDiagonalRealArgs) {
    let diagonal = &args.diagonal;
    let buf = diagonal.buf as *mut R;
    for_each_item(ceil_div(diagonal.cols, THREADS.into()), |item| {
        let j = item * u64::from(THREADS) + u64::from(thread_idx_x());
        let column = if j < diagonal.cols { diagonal.column(j) } else { None };
        if let Some(place) = column.and_then(|global| diagonal.in_column(j, global)) {
            // SAFETY: a local element is inside the matrix, and has two parts.
            unsafe { *buf.add((place + 1) as usize) = R::from_f64(0.0) };
        }
    });
}

/// See [`FindZeroDiagonalArgs`].
#[inline(always)]
pub(crate) unsafe fn find_zero<R: Real>(args: &FindZeroDiagonalArgs) {
    let diagonal = &args.diagonal;
    let from_end = |j| {
        let global = diagonal.column(j)?;
        let place = diagonal.in_column(j, global)?;
        // SAFETY: the place is the diagonal's.
        let [re, im] = unsafe { entry::<R>(diagonal, place) };
        let is_regular = re.is_finite() && im.is_finite() && (re != 0.0 || im != 0.0);
        (!is_regular).then_some(diagonal.n - global)
    };
    if let Some(word) = combined(diagonal.cols, 0_u64, from_end, |a, b| if a < b { b } else { a }) {
        // SAFETY: the result is an i32 by the arguments' contract.
        unsafe { *(args.word as *mut i32) = word as i32 };
    }
}

/// See [`DiagLogSumArgs`].
#[inline(always)]
pub(crate) unsafe fn log_sum<R: Real>(args: &DiagLogSumArgs) {
    let diagonal = &args.diagonal;
    // SAFETY: the place is the diagonal's.
    let term = |i| diagonal.in_row(i).map(|place| ln_modulus(unsafe { entry::<R>(diagonal, place) }));
    if let Some(sum) = combined(diagonal.rows, 0.0, term, |a, b| a + b) {
        // SAFETY: the result is an f64 by the arguments' contract.
        unsafe { *(args.out as *mut f64) = sum };
    }
}

/// See [`DiagPhaseArgs`].
#[inline(always)]
pub(crate) unsafe fn phase<R: Real>(args: &DiagPhaseArgs) {
    let diagonal = &args.diagonal;
    let term = |j| {
        let global = diagonal.column(j)?;
        // SAFETY: unless null there is a pivot for each local column.
        let is_interchanged =
            args.pivots != 0 && unsafe { *(args.pivots as *const i64).add(j as usize) } != global as i64 + 1;
        let [re, im] = match diagonal.in_column(j, global) {
            // SAFETY: the place is the diagonal's.
            Some(place) => unsafe { entry::<R>(diagonal, place) },
            None => [1.0, 0.0],
        };
        Some(if is_interchanged { [-re, -im] } else { [re, im] })
    };
    if let Some(product) = combined(diagonal.cols, [1.0, 0.0], term, phase_product) {
        // SAFETY: the result is two f64 by the arguments' contract.
        unsafe { *(args.out as *mut [f64; 2]) = product };
    }
}

/// See [`PhaseToArgs`].
#[inline(always)]
pub(crate) unsafe fn phase_to<R: Real>(args: &PhaseToArgs) {
    let (src, dst) = (args.src as *const [f64; 2], args.dst as *mut R);
    let mut product = [1.0, 0.0];
    let mut k = 0;
    while k < args.count {
        // SAFETY: there are `count` numbers.
        product = phase_product(product, unsafe { *src.add(k as usize) });
        k += 1;
    }
    let [re, im] = arithmetic::phase(product);
    // SAFETY: the result has as many parts.
    unsafe {
        *dst = R::from_f64(re);
        if args.parts > 1 {
            *dst.add(1) = R::from_f64(im);
        }
    }
}

/// See [`ScaleToArgs`].
#[inline(always)]
pub(crate) unsafe fn scale_to<R: Real>(args: &ScaleToArgs) {
    // SAFETY: both addresses are valid by the arguments' contract.
    unsafe { *(args.dst as *mut R) = R::from_f64(args.scale * *(args.src as *const f64)) };
}
