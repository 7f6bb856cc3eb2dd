//! Carries out a [`MatrixPlan`] on one rank: caller's buffer to solver's buffer and back.

use crate::Result;
use crate::communicator::{Communicator, Message};
use crate::device::{Buffer, Device, MatrixView};
use crate::layout::ProcessGrid;
use crate::plan::{Axis, MatrixPlan, Transfer, View};

/// One rank with what it works with. `scratch` is shared by all stages of a call.
#[derive(Clone, Copy)]
pub struct Rank<'a> {
    /// The rank's device.
    pub device: &'a dyn Device,
    /// All ranks of the grid, in the grid's order.
    pub communicator: &'a dyn Communicator,
    /// At least [`MatrixPlan::scratch_bytes`].
    pub scratch: Buffer,
}

impl Rank<'_> {
    /// Stages 1 to 3: fills `solver` from `caller`. If both are the same memory, stage 1 works in
    /// place, which the plan must allow.
    pub fn forward(&self, plan: &MatrixPlan, caller: Buffer, solver: Buffer) -> Result<()> {
        let rank = self.communicator.rank();
        let view = solver_view(plan, solver);
        let in_place = in_place(plan, caller, solver);
        match plan.view() {
            View::Plain if in_place => {
                self.device.convert_in_place(view.dtype, solver, view.rows, view.cols, self.scratch)?;
            }
            View::Plain => {
                let at = plan.grid().coordinate(rank);
                self.device.convert_forward(
                    &caller_view(plan, caller),
                    &view,
                    plan.rows().caller_map(at.row),
                    plan.cols().caller_map(at.col),
                )?;
            }
            View::Transposed if in_place => {}
            View::Transposed => self.copy_whole(plan, caller, solver)?,
        }
        if in_place || plan.view() == View::Transposed {
            for (axis, permutation) in plan.reorderings() {
                self.permute(plan, *axis, &view, permutation)?;
            }
        }
        for (axis, phase) in plan.phases() {
            for round in phase.rounds() {
                self.exchange(plan, *axis, &view, plan.of_rank(*axis, rank, round))?;
            }
            if let Some(permutation) = phase.permutation(plan.position(*axis, rank)) {
                self.permute(plan, *axis, &view, permutation)?;
            }
        }
        Ok(())
    }

    /// Completes a square matrix that was brought to the solver: the identity goes into the padding that
    /// a reading leaves inside, so that what is solved is the caller's system beside a trivial one.
    pub fn complete(&self, plan: &MatrixPlan, solver: Buffer) -> Result<()> {
        let (rows, cols) = (plan.rows(), plan.cols());
        if !rows.is_padded() {
            return Ok(());
        }
        let at = plan.grid().coordinate(self.communicator.rank());
        let real = [rows.original_map(at.row), cols.original_map(at.col)];
        let view = solver_view(plan, solver);
        self.device.set_identity(&view, rows.global_map(at.row), cols.global_map(at.col), real, None)
    }

    /// The stages backwards: fills `caller` from `solver`, which is used up. If both are the same
    /// memory, the last stage works in place, which the plan must allow.
    pub fn reverse(&self, plan: &MatrixPlan, solver: Buffer, caller: Buffer) -> Result<()> {
        let rank = self.communicator.rank();
        let view = solver_view(plan, solver);
        for (axis, phase) in plan.phases().iter().rev() {
            if let Some(permutation) = phase.permutation(plan.position(*axis, rank)) {
                self.permute(plan, *axis, &view, &permutation.inverse())?;
            }
            for round in phase.reversed_rounds() {
                self.exchange(plan, *axis, &view, plan.of_rank(*axis, rank, &round))?;
            }
        }
        let in_place = in_place(plan, caller, solver);
        if in_place || plan.view() == View::Transposed {
            for (axis, permutation) in plan.reorderings().iter().rev() {
                self.permute(plan, *axis, &view, &permutation.inverse())?;
            }
        }
        match plan.view() {
            View::Plain if in_place => {
                self.device.convert_in_place(view.dtype, solver, view.cols, view.rows, self.scratch)
            }
            View::Plain => {
                self.place(plan, rank, 0, &view, caller)?;
                self.collect(plan, &view, caller)
            }
            View::Transposed if in_place => Ok(()),
            View::Transposed => self.copy_whole(plan, solver, caller),
        }
    }

    /// Copies a buffer that is the caller's and the solver's alike.
    fn copy_whole(&self, plan: &MatrixPlan, from: Buffer, to: Buffer) -> Result<()> {
        let elements = plan.solver_bytes() / plan.dtype().size();
        self.device.copy_lines(plan.dtype(), from, elements, to, elements, elements, 1)
    }

    /// One round along an axis: sends one transfer, packed if need be, receives and unpacks another.
    fn exchange(
        &self,
        plan: &MatrixPlan,
        axis: Axis,
        view: &MatrixView,
        (send, receive): (Option<Transfer>, Option<Transfer>),
    ) -> Result<()> {
        let rank = self.communicator.rank();
        let across = plan.across(axis);
        let size = plan.dtype().size();
        if across == 0 {
            return Ok(());
        }
        let packed = |t: Transfer, offset: u64| self.scratch.slice(offset, t.len * across * size);
        let mut sends = None;
        let mut receives = None;
        if let Some(t) = send {
            let data = match axis {
                // Whole columns are contiguous already. What is received goes to scratch first, so it
                // may end where these stand.
                Axis::Cols => view.data.slice(t.source * across * size, t.len * across * size),
                Axis::Rows => {
                    let data = packed(t, 0);
                    self.copy(axis, view, t.source, t.len, data, Direction::Pack)?;
                    data
                }
            };
            sends = Some(Message { peer: plan.rank_at(axis, rank, t.to), data });
        }
        if let Some(t) = receive {
            receives =
                Some(Message { peer: plan.rank_at(axis, rank, t.from), data: packed(t, plan.unit_bytes()) });
        }
        if sends.is_none() && receives.is_none() {
            return Ok(());
        }
        self.communicator.exchange(sends.as_slice(), receives.as_slice())?;
        match (receive, receives) {
            (Some(t), Some(message)) => {
                self.copy(axis, view, t.target, t.len, message.data, Direction::Unpack)
            }
            _ => Ok(()),
        }
    }

    /// Copies rows or columns `first..first + len` of a matrix to or from a packed buffer.
    fn copy(
        &self,
        axis: Axis,
        view: &MatrixView,
        first: u64,
        len: u64,
        packed: Buffer,
        direction: Direction,
    ) -> Result<()> {
        let size = view.dtype.size();
        let ld = view.leading_dimension;
        let (offset, run, lines, packed_ld) = match axis {
            Axis::Cols => (first * ld, len * ld, 1, len * ld),
            Axis::Rows => (first, len, view.cols, len),
        };
        let end = if lines == 0 { 0 } else { (lines - 1) * ld + run };
        let matrix = view.data.slice(offset * size, end * size);
        match direction {
            Direction::Pack => self.device.copy_lines(view.dtype, matrix, ld, packed, packed_ld, run, lines),
            Direction::Unpack => {
                self.device.copy_lines(view.dtype, packed, packed_ld, matrix, ld, run, lines)
            }
        }
    }

    fn permute(
        &self,
        plan: &MatrixPlan,
        axis: Axis,
        view: &MatrixView,
        permutation: &crate::device::Permutation,
    ) -> Result<()> {
        match axis {
            Axis::Rows => self.device.permute_rows(view, plan.rows().tile(), permutation),
            Axis::Cols => self.device.permute_columns(view, plan.cols().tile(), permutation),
        }
    }

    /// Writes columns of `owner`'s solver buffer, from its local column `first` on, to where they
    /// belong in this rank's caller buffer.
    fn place(
        &self,
        plan: &MatrixPlan,
        owner: u64,
        first: u64,
        columns: &MatrixView,
        caller: Buffer,
    ) -> Result<()> {
        let at = plan.grid().coordinate(owner);
        let mut col_map = plan.cols().caller_map(at.col);
        col_map.first = first;
        self.device.convert_reverse(
            columns,
            &caller_view(plan, caller),
            plan.rows().caller_map(at.row),
            col_map,
        )
    }

    /// Completes a replicated result with the parts that other ranks own.
    fn collect(&self, plan: &MatrixPlan, view: &MatrixView, caller: Buffer) -> Result<()> {
        let size = plan.dtype().size();
        let column = view.rows * size;
        for (send, receive) in plan.collection(self.communicator.rank()) {
            let sends = send.map(|(peer, piece)| Message {
                peer,
                data: view.data.slice(piece.first * column, piece.cols * column),
            });
            let receives = receive
                .map(|piece| Message { peer: piece.owner, data: self.scratch.slice(0, piece.cols * column) });
            self.communicator.exchange(sends.as_slice(), receives.as_slice())?;
            if let (Some(piece), Some(message)) = (receive, receives) {
                let columns = MatrixView { data: message.data, cols: piece.cols, ..*view };
                self.place(plan, piece.owner, piece.first, &columns, caller)?;
            }
        }
        Ok(())
    }
}

/// Whether both are the same memory, which the plan must allow.
fn in_place(plan: &MatrixPlan, caller: Buffer, solver: Buffer) -> bool {
    let shared = caller.address() == solver.address() && !solver.is_empty();
    assert!(!shared || plan.in_place(), "the caller's buffer is not the solver's size");
    shared
}

#[derive(Clone, Copy)]
enum Direction {
    Pack,
    Unpack,
}

/// The solver's buffer: column-major, whole tiles.
pub(super) fn solver_view(plan: &MatrixPlan, data: Buffer) -> MatrixView {
    let [rows, cols] = plan.solver_shape();
    MatrixView { dtype: plan.dtype(), data, leading_dimension: rows.max(1), rows, cols }
}

/// The caller's buffer: row-major.
fn caller_view(plan: &MatrixPlan, data: Buffer) -> MatrixView {
    let [rows, cols] = plan.caller_shape();
    MatrixView { dtype: plan.dtype(), data, leading_dimension: cols.max(1), rows, cols }
}

/// The matrix in a solver's buffer, as the solver sees it.
pub(super) fn distributed(plan: &MatrixPlan, data: Buffer) -> crate::solver::DistributedMatrix {
    let grid: ProcessGrid = plan.grid();
    crate::solver::DistributedMatrix {
        dtype: plan.dtype(),
        grid,
        rows: plan.rows().cyclic(),
        cols: plan.cols().cyclic(),
        leading_dimension: plan.rows().capacity().max(1),
        data,
    }
}
