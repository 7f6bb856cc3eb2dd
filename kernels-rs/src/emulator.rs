//! Runs a [`Call`] on the host, by the kernels' own source.

use crate::launch::Call;
use bytemuck::Pod;
use core::any::TypeId;
use cuda_std::emulator;

pub use cuda_std::emulator::Order;

/// An entry point: how to call it, and with what.
pub(crate) struct Entry {
    args: TypeId,
    run: fn(&[u8]),
}

impl Entry {
    /// The entry point `run`, which reads an `A` from the bytes it is given.
    pub(crate) fn new<A: 'static>(run: fn(&[u8])) -> Self {
        Self { args: TypeId::of::<A>(), run }
    }
}

/// Runs a call in the emulator; an empty one does nothing.
///
/// # Panics
/// If there is no kernel of that name with such arguments, or if the kernel breaks a rule (see
/// [`cuda_std::emulator`]).
///
/// # Safety
/// The arguments must be valid for the kernel: see the type's documentation. Addresses are the host's.
pub unsafe fn launch<A: Pod>(call: &Call<A>, order: Order) {
    let entry = Entry::find(call.kernel).unwrap_or_else(|| panic!("no kernel is named {}", call.kernel));
    assert!(entry.args == TypeId::of::<A>(), "{} takes other arguments", call.kernel);
    let geometry = emulator::Launch {
        grid: call.geometry.grid,
        block: call.geometry.block,
        shared_bytes: call.geometry.shared_bytes,
        order,
    };
    // SAFETY: the caller vouches for the arguments.
    unsafe { emulator::launch(&geometry, || (entry.run)(bytemuck::bytes_of(&call.args))) };
}
