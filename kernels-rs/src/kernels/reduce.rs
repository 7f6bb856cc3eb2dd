//! One value from all threads of a block.

use crate::launch::THREADS;
use cuda_std::shared::{SharedMem, SharedValue};
use cuda_std::thread::{sync_threads, thread_idx_x};

/// A value as shared memory keeps it.
pub(crate) trait Shared: Copy {
    type Bits: SharedValue;
    fn to_bits(self) -> Self::Bits;
    fn from_bits(bits: Self::Bits) -> Self;
}

impl Shared for u64 {
    type Bits = u64;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        bits
    }
}

impl Shared for f64 {
    type Bits = u64;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

impl Shared for [f64; 2] {
    type Bits = u128;
    #[inline(always)]
    fn to_bits(self) -> u128 {
        f64::to_bits(self[0]) as u128 | (f64::to_bits(self[1]) as u128) << 64
    }
    #[inline(always)]
    fn from_bits(bits: u128) -> Self {
        [f64::from_bits(bits as u64), f64::from_bits((bits >> 64) as u64)]
    }
}

/// What [`crate::arithmetic::combined_in_kernel_order`] gives for the same arguments, in thread 0 of the only
/// block; nothing in the others. Needs [`THREADS`] values of shared memory.
#[inline(always)]
pub(crate) fn combined<T: Shared>(
    count: u64,
    start: T,
    term: impl Fn(u64) -> Option<T>,
    combine: impl Fn(T, T) -> T,
) -> Option<T> {
    let partial = SharedMem::<T::Bits>::dynamic(0);
    let t = thread_idx_x();
    let mut result = start;
    let mut i = u64::from(t);
    while i < count {
        if let Some(value) = term(i) {
            result = combine(result, value);
        }
        i += u64::from(THREADS);
    }
    // SAFETY: a thread writes its own element, and reads another's only after a barrier.
    unsafe {
        partial.write(t, result.to_bits());
        let mut half = THREADS / 2;
        while half > 0 {
            sync_threads();
            if t < half {
                result = combine(result, T::from_bits(partial.read(t + half)));
                partial.write(t, result.to_bits());
            }
            half /= 2;
        }
    }
    (t == 0).then_some(result)
}
