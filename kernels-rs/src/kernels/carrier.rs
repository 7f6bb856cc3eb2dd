//! The types that kernels move and compute with.

use crate::launch::ElementSize;
use core::ops::{Add, Div, Mul};
use cuda_std::shared::SharedValue;

/// Plain bits of 4, 8 or 16 bytes. A u128 moves in one access of 16 bytes; a struct would not.
pub(crate) trait Carrier: SharedValue + Default {
    /// The size as launches know it.
    const SIZE: ElementSize;

    /// The value with these bits, low word first.
    fn from_words(words: [u64; 2]) -> Self;

    /// The value in the low bits.
    fn to_bits(self) -> u128;

    /// Element `k` of 16 bytes, counted from the low ones.
    #[inline(always)]
    fn of_vector(vector: u128, k: u32) -> Self {
        let bits = vector >> (k * 8 * Self::SIZE.bytes());
        Self::from_words([bits as u64, (bits >> 64) as u64])
    }

    /// 16 bytes with the value as element `k` and zeros around it.
    #[inline(always)]
    fn in_vector(self, k: u32) -> u128 {
        self.to_bits() << (k * 8 * Self::SIZE.bytes())
    }
}

impl Carrier for u32 {
    const SIZE: ElementSize = ElementSize::B4;
    #[inline(always)]
    fn from_words(words: [u64; 2]) -> Self {
        words[0] as u32
    }
    #[inline(always)]
    fn to_bits(self) -> u128 {
        self as u128
    }
}

impl Carrier for u64 {
    const SIZE: ElementSize = ElementSize::B8;
    #[inline(always)]
    fn from_words(words: [u64; 2]) -> Self {
        words[0]
    }
    #[inline(always)]
    fn to_bits(self) -> u128 {
        self as u128
    }
}

impl Carrier for u128 {
    const SIZE: ElementSize = ElementSize::B16;
    #[inline(always)]
    fn from_words(words: [u64; 2]) -> Self {
        words[0] as u128 | (words[1] as u128) << 64
    }
    #[inline(always)]
    fn to_bits(self) -> u128 {
        self
    }
}

/// The real types of the kernels that compute.
pub(crate) trait Real:
    Copy + PartialOrd + Add<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// How many there are in 16 bytes.
    const LANES: u64;

    /// Whether one of the numbers in these 16 bytes is infinite or not a number.
    fn any_non_finite(vector: u128) -> bool;

    /// Neither infinite nor not a number.
    fn is_finite(self) -> bool;

    /// The same value.
    fn to_f64(self) -> f64;

    /// The nearest value.
    fn from_f64(value: f64) -> Self;

    /// The same value with the other sign.
    fn negated(self) -> Self;
}

impl Real for f32 {
    const LANES: u64 = 4;
    #[inline(always)]
    fn any_non_finite(vector: u128) -> bool {
        let lane = |k: u32| f32::from_bits((vector >> (32 * k)) as u32).is_finite();
        !(lane(0) & lane(1) & lane(2) & lane(3))
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn negated(self) -> Self {
        -self
    }
}

impl Real for f64 {
    const LANES: u64 = 2;
    #[inline(always)]
    fn any_non_finite(vector: u128) -> bool {
        let lane = |k: u32| f64::from_bits((vector >> (64 * k)) as u64).is_finite();
        !(lane(0) & lane(1))
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn negated(self) -> Self {
        -self
    }
}
