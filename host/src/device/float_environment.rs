//! How the CPU rounds, and whether it keeps subnormal numbers: a setting of each thread.

/// Gives this thread the setting that Rust code is compiled for.
///
/// A thread starts with the setting of the one that started it. XLA's have subnormal numbers flushed to zero, and
/// under that faer's eigenvalues of complex matrices come out wrong.
pub(crate) fn restore() {
    // All exceptions masked, to the nearest, nothing flushed: what a program starts with.
    #[cfg(target_arch = "x86_64")]
    set(0x1f80);
}

/// Sets the control and status register of floating-point arithmetic.
#[cfg(target_arch = "x86_64")]
fn set(register: u32) {
    // SAFETY: the instruction reads the four bytes that it is given; which values of the register callers use,
    // they answer for.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const register, options(nostack, readonly)) };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::simulate::on_ranks;
    use std::hint::black_box;

    fn keeps_subnormal_numbers() -> bool {
        black_box(f64::MIN_POSITIVE) / black_box(2.0) != 0.0
    }

    #[test]
    fn ranks_keep_subnormal_numbers_whoever_starts_them() {
        // As in XLA's threads: flush results, and take operands for zero.
        std::thread::spawn(|| {
            super::set(0x1f80 | 0x8040);
            assert!(!keeps_subnormal_numbers());
            on_ranks(2, |_, _| {
                assert!(keeps_subnormal_numbers());
                Ok(())
            })
            .unwrap();
        })
        .join()
        .unwrap();
    }
}
