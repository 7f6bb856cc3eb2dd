//! The seam towards memory and kernels.
//!
//! An [`Operation`] is one kernel launch as data: which kernel, on which element size, with which
//! arguments. A [`Device`] carries it out: by host loops ([`cpu`]), by the kernels' own source in
//! the emulator (`emulator`, for tests), or on a GPU. The safe methods on `dyn Device` build the
//! operations from [`Buffer`]s and check that nothing reaches outside them.

mod buffer;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "emulator")]
pub mod emulator;
pub(crate) mod float_environment;
mod in_place;
mod operations;

use crate::Result;
pub use buffer::Buffer;
pub use cpu::CpuDevice;
pub use in_place::InPlace;
use meshsolve_kernels::args::{
    AddToDiagonalArgs, ApplyPseudoinverseArgs, ClearOtherTriangleArgs, CombineStatusArgs, ConjugateArgs,
    ConvertArgs, CopyLinesArgs, DiagLogSumArgs, DiagPhaseArgs, FillArgs, FindAnywhereArgs, FindNonFiniteArgs,
    FindZeroDiagonalArgs, GatherRowsArgs, MakeDiagonalRealArgs, MoveSegmentsArgs, PermuteSlotsArgs,
    PhaseToArgs, PlacesOfPivotsArgs, ScaleToArgs, SetIdentityArgs, SpreadPivotsArgs, TransposeBlocksArgs,
};
pub use meshsolve_kernels::args::{IndexMap, Triangle};
pub use meshsolve_kernels::launch::{ElementSize, RealType, Share};
pub use operations::{MatrixView, Permutation};

/// One kernel launch as data. What each does is documented at its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the argument types say it")]
pub enum Operation {
    ConvertForward(ElementSize, ConvertArgs),
    ConvertReverse(ElementSize, ConvertArgs),
    TransposeBlocks(ElementSize, TransposeBlocksArgs),
    MoveSegments(ElementSize, MoveSegmentsArgs),
    CopyLines(ElementSize, CopyLinesArgs, Share),
    PermuteSlots(ElementSize, PermuteSlotsArgs),
    SetIdentity(ElementSize, SetIdentityArgs),
    ClearOtherTriangle(ElementSize, ClearOtherTriangleArgs),
    Fill(ElementSize, FillArgs),
    Conjugate(RealType, ConjugateArgs),
    FindNonFinite(RealType, FindNonFiniteArgs),
    FindNonFiniteAnywhere(RealType, FindAnywhereArgs),
    AddToDiagonal(RealType, AddToDiagonalArgs),
    MakeDiagonalReal(RealType, MakeDiagonalRealArgs),
    FindZeroDiagonal(RealType, FindZeroDiagonalArgs),
    DiagLogSum(RealType, DiagLogSumArgs),
    DiagPhase(RealType, DiagPhaseArgs),
    PhaseTo(RealType, PhaseToArgs),
    ScaleTo(RealType, ScaleToArgs),
    ApplyPseudoinverse(RealType, ApplyPseudoinverseArgs),
    CombineStatus(CombineStatusArgs),
    SpreadPivots(SpreadPivotsArgs),
    PlacesOfPivots(PlacesOfPivotsArgs),
    GatherRows(ElementSize, GatherRowsArgs),
}

/// Runs kernels in order on one device and lends it scratch memory.
pub trait Device: Sync {
    /// Enqueues one kernel. Operations take effect in the order of the calls.
    ///
    /// # Safety
    /// Every address in the operation must be valid on this device for all elements that the
    /// kernel's documentation says it touches, until the operation is done, and nothing else may
    /// access what it writes.
    unsafe fn launch(&self, operation: &Operation) -> Result<()>;

    /// Memory for the duration of a call, at least 16-byte aligned; contents are arbitrary.
    /// Prefer [`Scratch::new`], which gives it back.
    ///
    /// # Errors
    /// [`crate::ErrorKind::ResourceExhausted`] with the bytes asked for.
    fn allocate(&self, bytes: u64) -> Result<Buffer>;

    /// Gives scratch memory back once the operations enqueued so far are done.
    fn release(&self, buffer: Buffer);

    /// Constant table in device memory; the same table is made only once.
    fn table(&self, words: &std::sync::Arc<[u32]>) -> Result<Buffer>;
}

/// Scratch memory that goes back to its device when dropped.
pub struct Scratch<'d> {
    device: &'d dyn Device,
    buffer: Buffer,
}

impl<'d> Scratch<'d> {
    /// Borrows `bytes` from `device`; none are asked for if `bytes` is 0.
    pub fn new(device: &'d dyn Device, bytes: u64) -> Result<Self> {
        let buffer = if bytes == 0 { Buffer::EMPTY } else { device.allocate(bytes)? };
        Ok(Self { device, buffer })
    }

    /// The memory.
    pub fn buffer(&self) -> Buffer {
        self.buffer
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if !self.buffer.is_empty() {
            self.device.release(self.buffer);
        }
    }
}
