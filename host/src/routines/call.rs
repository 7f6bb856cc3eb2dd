//! What routines with a square matrix share: buffers by name, statuses, the way of the matrix to the solver.

use super::Operands;
use super::redistribute::{Rank, solver_view};
use crate::communicator::Reduction;
use crate::device::{Buffer, IndexMap, Triangle};
use crate::plan::{MatrixPlan, OperandSpec};
use crate::{DType, Result};

/// Words that decide the status, in the order in which they do. The first tells of non-finite input.
const WORDS: u64 = 3;

/// A call's buffers by the names that its plan gives them.
pub(super) struct Named<'a> {
    pub(super) inputs: &'a [OperandSpec],
    pub(super) outputs: &'a [OperandSpec],
    pub(super) operands: &'a Operands,
}

impl Named<'_> {
    fn find(specs: &[OperandSpec], buffers: &[Buffer], name: &str) -> Option<Buffer> {
        specs.iter().position(|spec| spec.name == name).map(|index| buffers[index])
    }

    pub(super) fn input(&self, name: &str) -> Option<Buffer> {
        Self::find(self.inputs, &self.operands.inputs, name)
    }

    pub(super) fn output(&self, name: &str) -> Option<Buffer> {
        Self::find(self.outputs, &self.operands.outputs, name)
    }
}

/// Where the words stand in the scratch block of [`crate::plan::STATUS_BYTES`].
pub(super) struct Status {
    max: Buffer,
    min: Buffer,
    /// An f64.
    pub(super) log_sum: Buffer,
    /// Takes an `info` that says nothing.
    pub(super) ignored: Buffer,
}

impl Status {
    pub(super) fn new(block: Buffer) -> Self {
        Self {
            max: block.slice(0, WORDS * 4),
            min: block.slice(16, WORDS * 4),
            log_sum: block.slice(32, 8),
            ignored: block.slice(40, 4),
        }
    }

    pub(super) fn word(&self, index: u64) -> Buffer {
        self.max.slice(index * 4, 4)
    }

    pub(super) fn clear(&self, rank: &Rank<'_>) -> Result<()> {
        rank.device.fill(DType::I32, self.max, [0; 2], None)
    }

    /// Makes one status of all ranks' words, as [`crate::device::Device::combine_status`] says; `map` leads
    /// from the solver's rows to the caller's.
    pub(super) fn combine(
        &self,
        rank: &Rank<'_>,
        out: Buffer,
        map: IndexMap,
        from_end: Option<u64>,
    ) -> Result<()> {
        let Rank { device, communicator, .. } = *rank;
        device.copy_lines(DType::I32, self.max, WORDS, self.min, WORDS, WORDS, 1)?;
        communicator.all_reduce(Reduction::MaxI32, self.max)?;
        communicator.all_reduce(Reduction::MinI32, self.min)?;
        device.combine_status(self.max, self.min, out, map, from_end)
    }
}

/// A square matrix on its way to the solver.
pub(super) struct Square<'a> {
    pub(super) plan: &'a MatrixPlan,
    pub(super) rank: Rank<'a>,
    /// The part of the solver's matrix that holds the caller's numbers.
    pub(super) part: Triangle,
    /// This rank's rows and columns in the solver's order.
    pub(super) row_map: IndexMap,
    pub(super) col_map: IndexMap,
}

impl<'a> Square<'a> {
    pub(super) fn new(plan: &'a MatrixPlan, rank: Rank<'a>, part: Triangle) -> Self {
        let at = plan.grid().coordinate(rank.communicator.rank());
        let (row_map, col_map) = (plan.rows().global_map(at.row), plan.cols().global_map(at.col));
        Self { plan, rank, part, row_map, col_map }
    }

    /// Order of the solver's matrix.
    pub(super) fn order(&self) -> u64 {
        self.plan.rows().cyclic().extent()
    }

    /// Brings the matrix to the solver, and sets the word `flag` of some rank to 1 if what is to be read is
    /// not finite; the diagonal of a triangular matrix of `unit_diagonal` is not.
    pub(super) fn bring(
        &self,
        caller: Buffer,
        work: Buffer,
        unit_diagonal: bool,
        flag: Buffer,
    ) -> Result<()> {
        let Self { plan, rank, part, .. } = self;
        if *part == Triangle::Both {
            return rank.forward_whole(plan, caller, work, flag);
        }
        rank.forward(plan, caller, work)?;
        rank.complete(plan, work)?;
        let (mut row_map, mut col_map) = (self.row_map, self.col_map);
        if unit_diagonal {
            // A diagonal that is not read may hold anything: rows or columns counted from one less leave it out.
            // The matrix ends one earlier then.
            let map = if *part == Triangle::Lower { &mut row_map } else { &mut col_map };
            (map.base, map.limit) = (map.base + 1, map.limit.saturating_sub(1));
        }
        rank.device.find_non_finite(&solver_view(plan, work), row_map, col_map, *part, flag)
    }

    /// Takes the imaginary parts on a Hermitian matrix's diagonal for zero, as LAPACK does.
    pub(super) fn make_diagonal_real(&self, work: Buffer) -> Result<()> {
        self.rank.device.make_diagonal_real(&solver_view(self.plan, work), self.row_map, self.col_map)
    }

    /// Adds a multiple of the identity, to the caller's elements only; one that is not finite, or leads to what is
    /// not, sets the word `flag`.
    pub(super) fn shift(&self, work: Buffer, shift: Buffer, flag: Buffer) -> Result<()> {
        let Self { plan, rank, part, .. } = self;
        rank.device.find_non_finite_anywhere(plan.dtype(), shift, flag)?;
        let at = plan.grid().coordinate(rank.communicator.rank());
        let (rows, cols) = (plan.rows().original_map(at.row), plan.cols().original_map(at.col));
        let view = solver_view(plan, work);
        rank.device.add_to_diagonal(&view, rows, cols, shift)?;
        rank.device.find_non_finite(&view, self.row_map, self.col_map, *part, flag)
    }

    /// Fills the solver's buffer with the identity; if there is a guard, only where that word is not 0.
    pub(super) fn set_identity(&self, work: Buffer, guard: Option<Buffer>) -> Result<()> {
        self.set_permuted_identity(work, None, guard)
    }

    /// Fills the solver's buffer with the permutation that brings each row j to its place `places[j]`.
    pub(super) fn set_permutation(&self, work: Buffer, places: Buffer) -> Result<()> {
        self.set_permuted_identity(work, Some(places), None)
    }

    fn set_permuted_identity(
        &self,
        work: Buffer,
        places: Option<Buffer>,
        guard: Option<Buffer>,
    ) -> Result<()> {
        let nothing = IndexMap::identity(0);
        let view = solver_view(self.plan, work);
        self.rank.device.set_identity(&view, self.row_map, self.col_map, [nothing; 2], places, guard)
    }

    /// A solver may not end on input that is not finite: then gives it the identity instead, on all ranks.
    pub(super) fn keep_from_solver(&self, work: Buffer, flag: Buffer) -> Result<()> {
        self.rank.communicator.all_reduce(Reduction::MaxI32, flag)?;
        self.set_identity(work, Some(flag))
    }
}

/// Consecutive windows of `sizes` bytes.
pub(super) fn cut<const N: usize>(block: Buffer, sizes: [u64; N]) -> [Buffer; N] {
    let mut begin = 0;
    sizes.map(|bytes| {
        begin += bytes;
        block.slice(begin - bytes, bytes)
    })
}
