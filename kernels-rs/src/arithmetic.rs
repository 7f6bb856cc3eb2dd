//! The arithmetic of determinants and the order of their sums and products, the same on device and host.
//!
//! The device has no mathematics library, and a determinant should not depend on where it was computed:
//! both sides use these functions and agree bit for bit.

use crate::launch::THREADS;

/// Bits of the mantissa that an f64 stores.
const MANTISSA_BITS: u32 = 52;
/// The bits of an f64 without its sign: of 1, and of ∞; larger ones are not numbers.
const ONE: u64 = 1.0_f64.to_bits();
const INFINITY: u64 = f64::INFINITY.to_bits();

/// The bits of |x|, which compare as the numbers do.
#[inline(always)]
const fn magnitude(x: f64) -> u64 {
    x.to_bits() & !(1 << 63)
}

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
    let bits = magnitude(x);
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

/// ln|re + i·im| = ln(max) + ½·ln(1 + (min/max)²) with the larger and the smaller of |re| and |im|; exactly
/// ln|re| if im = 0, and not a number if either part is none.
#[inline(always)]
pub fn ln_modulus([re, im]: [f64; 2]) -> f64 {
    let (re, im) = (magnitude(re), magnitude(im));
    let (larger, smaller) = if re < im { (im, re) } else { (re, im) };
    let of_larger = ln_abs(f64::from_bits(larger));
    if smaller == 0 || larger >= INFINITY {
        return of_larger;
    }
    let ratio = f64::from_bits(smaller) / f64::from_bits(larger);
    of_larger + 0.5 * ln_abs(1.0 + ratio * ratio)
}

/// `z` times the power of two that brings the larger of |re| and |im| into [1, 2). Zero stays zero, and all
/// that is not finite becomes not a number in both parts.
#[inline(always)]
fn rescaled([re, im]: [f64; 2]) -> [f64; 2] {
    let larger = |re, im| if magnitude(re) < magnitude(im) { magnitude(im) } else { magnitude(re) };
    let exponent_of = |bits: u64| bits >> MANTISSA_BITS;
    if larger(re, im) >= INFINITY {
        return [f64::NAN; 2];
    }
    if larger(re, im) == 0 {
        return [0.0; 2];
    }
    // Where 2 to the opposite exponent, or the exponent itself, is not that of a normal number.
    let first = match exponent_of(larger(re, im)) {
        0 => (1_u64 << 54) as f64,
        2046 => 0.5,
        _ => 1.0,
    };
    let (re, im) = (re * first, im * first);
    let scale = f64::from_bits((2046 - exponent_of(larger(re, im))) << MANTISSA_BITS);
    [re * scale, im * scale]
}

/// The product of two complex numbers up to a positive factor, with the larger part of the result in [1, 2):
/// the phase of a product of any length neither overflows nor vanishes. Zero times a finite number is zero;
/// with anything that is not finite both parts are not numbers.
#[inline(always)]
pub fn phase_product(x: [f64; 2], y: [f64; 2]) -> [f64; 2] {
    let ([a, b], [c, d]) = (rescaled(x), rescaled(y));
    rescaled([a * c - b * d, a * d + b * c])
}

/// z / |z|: exactly ±1 if im = 0, zero for zero, and not a number in both parts for what is not finite.
#[inline(always)]
pub fn phase(z: [f64; 2]) -> [f64; 2] {
    let [re, im] = rescaled(z);
    if re.is_nan() || (re == 0.0 && im == 0.0) {
        return [re, im];
    }
    let on_axis = re == 0.0 || im == 0.0;
    let modulus = if on_axis { re.abs() + im.abs() } else { sqrt(re * re + im * im) };
    [re / modulus, im / modulus]
}

/// Square root of a normal positive number, within 1 unit in the last place.
///
/// Half the exponent gives a first guess within 6.1 % above; every step of Newton's method squares the
/// relative error and halves it: 2⁻⁹, 2⁻¹⁹, 2⁻³⁹, 2⁻⁷⁹.
#[inline(always)]
pub fn sqrt(x: f64) -> f64 {
    let mut root = f64::from_bits((x.to_bits() + ONE) >> 1);
    let mut step = 0;
    while step < 4 {
        root = 0.5 * (root + x / root);
        step += 1;
    }
    root
}

/// `start` combined with all of `term(i)` for `i < count` in the order of the kernels: thread t of [`THREADS`]
/// takes the terms t, t + [`THREADS`], …; then the partial results are combined pairwise, the lower half
/// with the upper. A term that is `None` is left out. `start` must be neutral, for each thread starts from it.
pub fn combined_in_kernel_order<T: Copy>(
    count: u64,
    start: T,
    term: impl Fn(u64) -> Option<T>,
    combine: impl Fn(T, T) -> T,
) -> T {
    let mut partial = [start; THREADS as usize];
    for i in 0..count {
        if let Some(value) = term(i) {
            let of_thread = &mut partial[(i % u64::from(THREADS)) as usize];
            *of_thread = combine(*of_thread, value);
        }
    }
    let mut half = partial.len() / 2;
    while half > 0 {
        let (lower, upper) = partial.split_at_mut(half);
        lower.iter_mut().zip(upper).for_each(|(lower, upper)| *lower = combine(*lower, *upper));
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
        let sum = |count, term: &dyn Fn(u64) -> Option<f64>| {
            combined_in_kernel_order(count, 0.0, term, |a, b| a + b)
        };
        assert_eq!(
            sum(1000, &|i| (i % 3 == 0).then_some(i as f64)),
            (0..1000).step_by(3).sum::<u32>() as f64
        );
        assert_eq!(sum(0, &|_| Some(1.0)), 0.0);
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
        assert_eq!(sum(600, &terms(0, 256, 512)), 0.0);
        assert_eq!(sum(600, &terms(0, 128, 384)), 1.0);
    }

    /// Pseudo-random bits.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *state
    }

    /// A pseudo-random number of any sign and of an exponent in this range.
    fn any_number(state: &mut u64, exponents: core::ops::Range<u64>) -> f64 {
        let exponent = exponents.start + random(state) % (exponents.end - exponents.start);
        f64::from_bits(random(state) & 1 << 63 | exponent << MANTISSA_BITS | random(state) >> 12)
    }

    #[test]
    fn the_square_root_agrees_with_the_standard_library() {
        let state = &mut 3;
        for _ in 0..400_000 {
            let anywhere = any_number(state, 1..2047).abs();
            let used = 1.0 + (random(state) >> 11) as f64 / (1_u64 << 53) as f64 * 7.0;
            for x in [anywhere, used] {
                let distance = ulps(sqrt(x), x.sqrt());
                assert!(distance <= 1, "√{x:e} = {:e}, {distance} ulp off", sqrt(x));
            }
        }
        for x in [1.0, 2.0, 4.0, 2.0_f64.next_down(), 4.0_f64.next_down(), f64::MIN_POSITIVE, f64::MAX] {
            assert!(ulps(sqrt(x), x.sqrt()) <= 1, "√{x:e}");
        }
    }

    #[test]
    fn the_logarithm_of_a_modulus_agrees_with_the_standard_library() {
        let state = &mut 5;
        for _ in 0..200_000 {
            let re = any_number(state, 0..2046);
            let near = re * any_number(state, 983..1063);
            let expected = if near.is_finite() { re.hypot(near).ln() } else { continue };
            let found = ln_modulus([re, near]);
            if expected.is_finite() {
                assert!(
                    (found - expected).abs() <= 1e-15 * expected.abs().max(1.0),
                    "{re:e}, {near:e}: {found}"
                );
            }
            assert_eq!(found.to_bits(), ln_modulus([-near, re]).to_bits());
            for zero in [0.0, -0.0] {
                assert_eq!(ln_modulus([re, zero]).to_bits(), ln_abs(re).to_bits());
                assert_eq!(ln_modulus([zero, re]).to_bits(), ln_abs(re).to_bits());
            }
        }
        // Neither squares nor the modulus itself need to be numbers.
        let half_of_ln_2 = 0.5 * core::f64::consts::LN_2;
        assert_eq!(ln_modulus([f64::MAX, -f64::MAX]), f64::MAX.ln() + half_of_ln_2);
        let tiny = f64::from_bits(1);
        assert_eq!(ln_modulus([tiny, tiny]), tiny.ln() + half_of_ln_2);
        assert_eq!(ln_modulus([0.0, -0.0]), f64::NEG_INFINITY);
        assert_eq!(ln_modulus([f64::NEG_INFINITY, 1.0]), f64::INFINITY);
        for z in [[f64::NAN, 1.0], [0.0, f64::NAN], [f64::INFINITY, f64::NAN]] {
            assert!(ln_modulus(z).is_nan());
        }
    }

    #[test]
    fn rescaling_is_exact() {
        let state = &mut 7;
        for _ in 0..200_000 {
            let re = any_number(state, 0..2047);
            let im = re * any_number(state, 1003..1023);
            let [x, y] = rescaled([re, im]);
            assert!((1.0..2.0).contains(&x.abs().max(y.abs())), "{re:e}, {im:e}: {x}, {y}");
            // The factor is a power of two if both mantissas are the same: true unless one was subnormal.
            let mantissa = |x: f64| x.to_bits() << 12;
            if re.is_normal() && im.is_normal() {
                assert_eq!((mantissa(x), mantissa(y)), (mantissa(re), mantissa(im)), "{re:e}, {im:e}");
                assert_eq!((x.signum(), y.signum()), (re.signum(), im.signum()));
            }
        }
        for x in [f64::from_bits(1), f64::MIN_POSITIVE / 4.0, f64::MIN_POSITIVE, 1.0, 2.0_f64.powi(1023)] {
            assert_eq!(rescaled([x, -x]), [1.0, -1.0], "{x:e}");
        }
    }

    #[test]
    fn the_phase_of_a_long_product() {
        // 700 turns by 1 radian each, with moduli whose product is far beyond every exponent.
        let (mut product, mut angle) = ([1.0, 0.0], 0.0_f64);
        for step in 0..700_i32 {
            let modulus = if step % 5 == 0 { 1e-250 } else { 1e280 };
            let turn = f64::from(step % 7) - 2.5;
            product = phase_product(product, [modulus * turn.cos(), modulus * turn.sin()]);
            angle += turn;
        }
        let [re, im] = phase(product);
        assert!((re - angle.cos()).abs() < 1e-12 && (im - angle.sin()).abs() < 1e-12, "{re} {im}");
        assert!((re.hypot(im) - 1.0).abs() < 4.0 * f64::EPSILON);
    }

    #[test]
    fn phases_of_special_values() {
        for x in [f64::from_bits(1), 3.0, 0.1, f64::MAX] {
            for zero in [0.0, -0.0] {
                assert_eq!((phase([x, zero]), phase([-x, zero])), ([1.0, 0.0], [-1.0, 0.0]));
                assert_eq!((phase([zero, x]), phase([zero, -x])), ([0.0, 1.0], [0.0, -1.0]));
            }
            assert_eq!(phase_product([x, -x], [0.0, -0.0]), [0.0, 0.0]);
            assert!(phase_product([0.0, 0.0], [x, f64::NAN]).iter().all(|part| part.is_nan()));
            assert!(phase_product([f64::INFINITY, 0.0], [x, 0.0]).iter().all(|part| part.is_nan()));
        }
        assert_eq!(phase([-0.0, 0.0]), [0.0, 0.0]);
        assert!(phase([f64::NAN, 0.0]).iter().all(|part| part.is_nan()));
        assert!(phase([1.0, f64::INFINITY]).iter().all(|part| part.is_nan()));
    }
}
