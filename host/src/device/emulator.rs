//! The kernels' own source on the host, thread by thread: slow and exact, for tests.

use super::{Buffer, CpuDevice, Device, Operation};
use crate::Result;
use bytemuck::Pod;
pub use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::{
    emulator,
    launch::{self, Call},
};
use std::sync::Arc;

/// A device that runs every operation through the kernel that a GPU would run, in the emulator.
///
/// Memory is the host's, lent and counted by a [`CpuDevice`]. A kernel that breaks a rule (see
/// `cuda_std`'s emulator) panics.
#[derive(Debug)]
pub struct EmulatorDevice {
    memory: CpuDevice,
    order: Order,
}

impl EmulatorDevice {
    /// A device whose blocks and threads run in this order.
    pub fn new(order: Order) -> Self {
        Self { memory: CpuDevice::new(), order }
    }

    /// The memory that this device lends.
    pub fn memory(&self) -> &CpuDevice {
        &self.memory
    }

    /// Runs one kernel.
    ///
    /// # Safety
    /// As for [`Device::launch`].
    unsafe fn run<A: Pod>(&self, call: Call<A>) {
        // SAFETY: the arguments are valid by this function's contract.
        unsafe { emulator::launch(&call, self.order) };
    }
}

impl Device for EmulatorDevice {
    unsafe fn launch(&self, operation: &Operation) -> Result<()> {
        // SAFETY: all addresses are valid for what the operation touches, by this function's contract.
        unsafe {
            match *operation {
                Operation::ConvertForward(size, args) => self.run(launch::convert_forward(size, args)),
                Operation::ConvertReverse(size, args) => self.run(launch::convert_reverse(size, args)),
                Operation::TransposeBlocks(size, args) => self.run(launch::transpose_blocks(size, args)),
                Operation::MoveSegments(size, args) => self.run(launch::move_segments(size, args)),
                Operation::CopyLines(size, args, share) => self.run(launch::copy_lines(size, args, share)),
                Operation::PermuteSlots(size, args) => self.run(launch::permute_slots(size, args)),
                Operation::SetIdentity(size, args) => self.run(launch::set_identity(size, args)),
                Operation::ClearOtherTriangle(size, args) => {
                    self.run(launch::clear_other_triangle(size, args))
                }
                Operation::Fill(size, args) => self.run(launch::fill(size, args)),
                Operation::Conjugate(real, args) => self.run(launch::conjugate(real, args)),
                Operation::FindNonFinite(real, args) => self.run(launch::find_non_finite(real, args)),
                Operation::FindNonFiniteAnywhere(real, args) => {
                    self.run(launch::find_non_finite_anywhere(real, args))
                }
                Operation::AddToDiagonal(real, args) => self.run(launch::add_to_diagonal(real, args)),
                Operation::MakeDiagonalReal(real, args) => self.run(launch::make_diagonal_real(real, args)),
                Operation::FindZeroDiagonal(real, args) => self.run(launch::find_zero_diagonal(real, args)),
                Operation::DiagLogSum(real, args) => self.run(launch::diag_log_sum(real, args)),
                Operation::DiagPhase(real, args) => self.run(launch::diag_phase(real, args)),
                Operation::PhaseTo(real, args) => self.run(launch::phase_to(real, args)),
                Operation::ScaleTo(real, args) => self.run(launch::scale_to(real, args)),
                Operation::ApplyPseudoinverse(real, args) => {
                    self.run(launch::apply_pseudoinverse(real, args))
                }
                Operation::CombineStatus(args) => self.run(launch::combine_status(args)),
                Operation::SpreadPivots(args) => self.run(launch::spread_pivots(args)),
                Operation::PlacesOfPivots(args) => self.run(launch::places_of_pivots(args)),
                Operation::GatherRows(size, args) => self.run(launch::gather_rows(size, args)),
            }
        }
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer> {
        self.memory.allocate(bytes)
    }

    fn release(&self, buffer: Buffer) {
        self.memory.release(buffer);
    }

    fn table(&self, words: &Arc<[u32]>) -> Result<Buffer> {
        self.memory.table(words)
    }
}
