//! The dynamic shared memory of a block.
//!
//! rustc's PTX back end cannot place a `static` in shared memory, so the buffer is declared in
//! module-level PTX. A generic pointer to it would compile to generic loads and stores, which neither
//! LLVM nor ptxas can narrow; [`SharedMem`] therefore keeps the 32-bit shared address and issues
//! `ld.shared` and `st.shared` itself.

use core::marker::PhantomData;

#[cfg(target_os = "cuda")]
core::arch::global_asm!(".extern .shared .align 16 .b8 cuda_std_dynamic_shared[];");

/// Plain values of 4, 8 or 16 bytes that can live in shared memory.
///
/// # Safety
/// The type must be plain bits of exactly the size that its accesses move, aligned to that size.
pub unsafe trait SharedValue: Copy + 'static {
    /// Reads from a shared address.
    ///
    /// # Safety
    /// `address` must be aligned and inside the block's shared memory.
    #[cfg(target_os = "cuda")]
    unsafe fn load(address: u32) -> Self;

    /// Writes to a shared address.
    ///
    /// # Safety
    /// As for [`SharedValue::load`].
    #[cfg(target_os = "cuda")]
    unsafe fn store(address: u32, value: Self);
}

macro_rules! shared_value {
    ($type:ty, $class:ident, $suffix:literal) => {
        // SAFETY: an integer or float of that size; the suffix names the same size.
        unsafe impl SharedValue for $type {
            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn load(address: u32) -> Self {
                let value: $type;
                // SAFETY: the caller vouches for the address.
                unsafe {
                    core::arch::asm!(concat!("ld.shared.", $suffix, " {0}, [{1}];"), out($class) value,
                        in(reg32) address, options(readonly, nostack, preserves_flags))
                };
                value
            }

            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn store(address: u32, value: Self) {
                // SAFETY: the caller vouches for the address.
                unsafe {
                    core::arch::asm!(concat!("st.shared.", $suffix, " [{1}], {0};"), in($class) value,
                        in(reg32) address, options(nostack, preserves_flags))
                };
            }
        }
    };
}
shared_value!(u32, reg32, "b32");
shared_value!(u64, reg64, "b64");

// SAFETY: two 8-byte halves of one 16-byte value, aligned to 16.
unsafe impl SharedValue for u128 {
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    unsafe fn load(address: u32) -> Self {
        let (low, high): (u64, u64);
        // SAFETY: the caller vouches for the address.
        unsafe {
            core::arch::asm!("ld.shared.v2.b64 {{{0}, {1}}}, [{2}];", out(reg64) low, out(reg64) high,
                in(reg32) address, options(readonly, nostack, preserves_flags))
        };
        low as u128 | (high as u128) << 64
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    unsafe fn store(address: u32, value: Self) {
        // SAFETY: the caller vouches for the address.
        unsafe {
            core::arch::asm!("st.shared.v2.b64 [{2}], {{{0}, {1}}};", in(reg64) value as u64,
                in(reg64) (value >> 64) as u64, in(reg32) address, options(nostack, preserves_flags))
        };
    }
}

/// A typed window of the block's dynamic shared memory.
///
/// The size of that memory is the launch's; the emulator checks every access against it.
#[derive(Clone, Copy)]
pub struct SharedMem<T> {
    /// Shared address on the device, offset in bytes on the host.
    address: u32,
    element: PhantomData<*mut T>,
}

impl<T: SharedValue> SharedMem<T> {
    /// The window that starts `byte_offset` bytes into the dynamic shared memory.
    #[inline(always)]
    pub fn dynamic(byte_offset: u32) -> Self {
        #[cfg(target_os = "cuda")]
        let base: u32;
        #[cfg(target_os = "cuda")]
        // SAFETY: only takes an address.
        unsafe {
            core::arch::asm!("mov.u32 {0}, cuda_std_dynamic_shared;", out(reg32) base,
                options(pure, nomem, nostack, preserves_flags))
        };
        #[cfg(not(target_os = "cuda"))]
        let base = 0;
        Self { address: base + byte_offset, element: PhantomData }
    }

    #[inline(always)]
    fn address_of(self, index: u32) -> u32 {
        self.address + index * size_of::<T>() as u32
    }

    /// Element `index` of the window.
    ///
    /// # Safety
    /// The element must be inside the launch's shared memory, written before, and ordered after that
    /// write by [`sync_threads`](crate::thread::sync_threads) if another thread made it.
    #[inline(always)]
    pub unsafe fn read(self, index: u32) -> T {
        #[cfg(target_os = "cuda")]
        // SAFETY: the caller's promise.
        return unsafe { T::load(self.address_of(index)) };
        #[cfg(not(target_os = "cuda"))]
        return crate::emulator::read_shared(self.address_of(index));
    }

    /// Sets element `index` of the window.
    ///
    /// # Safety
    /// The element must be inside the launch's shared memory, and no other thread may touch it before
    /// the next [`sync_threads`](crate::thread::sync_threads).
    #[inline(always)]
    pub unsafe fn write(self, index: u32, value: T) {
        #[cfg(target_os = "cuda")]
        // SAFETY: the caller's promise.
        return unsafe { T::store(self.address_of(index), value) };
        #[cfg(not(target_os = "cuda"))]
        return crate::emulator::write_shared(self.address_of(index), value);
    }
}
