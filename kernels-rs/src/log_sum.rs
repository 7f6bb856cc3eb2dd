//! The logarithm and the order of summation of `diag_log_sum`, the same on device and host.
//!
//! The device has no mathematics library, and a log determinant should not depend on where it was
//! computed: both sides use these functions and agree bit for bit.

use crate::launch::THREADS;

/// ln 2 in two parts. The high one has 12 zero bits at its end, so that its product with an exponent
/// is exact; the low one is the rest, rounded.
const LN_2_HIGH: f64 = f64::from_bits(core::f64::consts::LN_2.to_bits() & !0xFFF);
const LN_2_LOW: f64 = 2.8235290563031577e-13;

/// Natural logarithm of |x|, within 1 unit in the last place or so; −∞ at 0.
///
/// With |x| = 2ᵏ·(1 + f), √½ ≤ 1 + f < √2 and s = f / (2 + f), the series
/// ln(1 + f) = 2·(s + s³/3 + s⁵/5 + …) is written as f − f²/2 + s·(f²/2 + 2·(s²/3 + s⁴/5 + …)), whose
/// leading terms are exact or small. |s| ≤ 0.1716, so ten terms reach 2⁻⁵⁵.
#[inline(always)]
pub fn ln_abs(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = 52;
    const ONE: u64 = 1.0_f64.to_bits();
    const INFINITY: u64 = f64::INFINITY.to_bits();
    let bits = x.to_bits() & !(1 << 63);
    if bits >= INFINITY {
        return f64::from_bits(bits); // ∞ or not a number
    }
    if bits == 0 {
        return f64::NEG_INFINITY;
    }
    let is_subnormal = bits >> MANTISSA_BITS == 0;
    let (bits, scaled_by) =
        if is_subnormal { ((f64::from_bits(bits) * (1_u64 << 54) as f64).to_bits(), 54) } else { (bits, 0) };
    let mut exponent = (bits >> MANTISSA_BITS) as i32 - 1023 - scaled_by;
    let mut mantissa = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | ONE);
    if mantissa >= core::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let f = mantissa - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let mut series = 0.0;
    let mut k = 10;
    while k >= 1 {
        series = z * (2.0 / (2 * k + 1) as f64 + series);
        k -= 1;
    }
    let half_square = 0.5 * f * f;
    let exponent = exponent as f64;
    let correction = s * (half_square + series) + exponent * LN_2_LOW;
    exponent * LN_2_HIGH + (f - (half_square - correction))
}

/// The sum of `term(i)` for `i < count` in the order of the kernel: thread t of [`THREADS`] adds the
/// terms t, t + [`THREADS`], …; then the partial sums are added pairwise, the upper half to the lower.
/// A term that is `None` is left out.
pub fn sum_in_kernel_order(count: u64, term: impl Fn(u64) -> Option<f64>) -> f64 {
    let mut partial = [0.0; THREADS as usize];
    for i in 0..count {
        if let Some(value) = term(i) {
            partial[(i % u64::from(THREADS)) as usize] += value;
        }
    }
    let mut half = partial.len() / 2;
    while half > 0 {
        let (lower, upper) = partial.split_at_mut(half);
        lower.iter_mut().zip(upper).for_each(|(lower, upper)| *lower += *upper);
        half /= 2;
    }
    partial[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units in the last place, for finite values of one sign.
    fn ulps(a: f64, b: f64) -> u64 {
        (a.to_bits() as i64).abs_diff(b.to_bits() as i64)
    }

    #[test]
    fn the_logarithm_agrees_with_the_standard_library() {
        let mut state = 1_u64;
        for step in 0..400_000_u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // All exponents in turn with a pseudo-random mantissa, and values close to 1.
            let anywhere = f64::from_bits((step % 2047) << 52 | state >> 12);
            let near_one = 1.0 + (state >> 11) as f64 / (1_u64 << 53) as f64 * 0.9 - 0.45;
            let very_near_one = f64::from_bits(1.0_f64.to_bits() + (state >> 40));
            for x in [anywhere, near_one, very_near_one] {
                if x != 0.0 {
                    let distance = ulps(ln_abs(x), x.ln());
                    assert!(distance <= 2, "ln {x:e} = {:e}, {distance} ulp off", ln_abs(x));
                    assert_eq!(ln_abs(-x).to_bits(), ln_abs(x).to_bits());
                }
            }
        }
    }

    #[test]
    fn the_logarithm_of_special_values() {
        assert_eq!(ln_abs(0.0), f64::NEG_INFINITY);
        assert_eq!(ln_abs(-0.0), f64::NEG_INFINITY);
        assert_eq!(ln_abs(f64::INFINITY), f64::INFINITY);
        assert_eq!(ln_abs(f64::NEG_INFINITY), f64::INFINITY);
        assert!(ln_abs(f64::NAN).is_nan());
        assert_eq!(ln_abs(1.0).to_bits(), 0.0_f64.to_bits());
        for x in [f64::from_bits(1), f64::MIN_POSITIVE / 3.0, f64::MIN_POSITIVE, f64::MAX] {
            assert!(ulps(ln_abs(x), x.ln()) <= 1, "ln {x:e}");
        }
    }

    #[test]
    fn the_sum_takes_every_term_once_and_in_the_stated_order() {
        assert_eq!(
            sum_in_kernel_order(1000, |i| (i % 3 == 0).then_some(i as f64)),
            (0..1000).step_by(3).sum::<u32>() as f64
        );
        assert_eq!(sum_in_kernel_order(0, |_| Some(1.0)), 0.0);
        // 1 and 1e16 meet first where the order says so: terms 0 and 256 share a thread, 0 and 128 do not.
        let terms = |one, large, minus| {
            move |i| {
                Some(if i == one {
                    1.0
                } else if i == large {
                    1e16
                } else if i == minus {
                    -1e16
                } else {
                    0.0
                })
            }
        };
        assert_eq!(sum_in_kernel_order(600, terms(0, 256, 512)), 0.0);
        assert_eq!(sum_in_kernel_order(600, terms(0, 128, 384)), 1.0);
    }
}
