//! Carries out a [`MatrixPlan`] on one rank: caller's buffer to solver's buffer and back.

use crate::Result;
use crate::communicator::{Communicator, Message, Ticket};
use crate::device::{Buffer, Device, MatrixView, Permutation, Share, Triangle};
use crate::layout::ProcessGrid;
use crate::plan::{Axis, Dimension, LocalMove, MatrixPlan, Phase, Place, Round, View};

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
        self.convert(plan, caller, solver, None)?;
        self.distribute(plan, solver)
    }

    /// Brings a square matrix to the solver and completes it, and sets the word `flag` of some rank to 1 if
    /// it has an element that is not finite. A conversion in place sees all elements in passing, as long as
    /// nothing is padding. What shards hold beyond the matrix is not looked at.
    pub fn forward_whole(
        &self,
        plan: &MatrixPlan,
        caller: Buffer,
        solver: Buffer,
        flag: Buffer,
    ) -> Result<()> {
        let in_place = in_place(plan, caller, solver);
        let converts = plan.view() == View::Plain && in_place;
        let ends_in_padding = |d: &Dimension| d.shards().shard() * d.procs() > d.extent();
        // Where nothing is converted on the way to other memory, it comes along.
        let brings_padding = (in_place || plan.view() == View::Transposed)
            && (ends_in_padding(plan.rows()) || ends_in_padding(plan.cols()));
        let in_passing = Some(flag).filter(|_| converts && !plan.rows().is_padded() && !brings_padding);
        self.convert(plan, caller, solver, in_passing)?;
        self.distribute(plan, solver)?;
        self.complete(plan, solver)?;
        if in_passing.is_some() {
            return Ok(());
        }
        if !brings_padding {
            // What is not the caller's in there is finite, and reading on end is fast.
            return self.device.find_non_finite_anywhere(plan.dtype(), solver, flag);
        }
        let at = plan.grid().coordinate(self.communicator.rank());
        let (rows, cols) = (plan.rows().global_map(at.row), plan.cols().global_map(at.col));
        self.device.find_non_finite(&solver_view(plan, solver), rows, cols, Triangle::Both, flag)
    }

    /// Stage 1. In place the word `flag`, if given, becomes 1 if an element is not finite.
    fn convert(&self, plan: &MatrixPlan, caller: Buffer, solver: Buffer, flag: Option<Buffer>) -> Result<()> {
        let rank = self.communicator.rank();
        let view = solver_view(plan, solver);
        let in_place = in_place(plan, caller, solver);
        match plan.view() {
            View::Plain if in_place => {
                let conversion = plan.in_place_conversion();
                self.device.convert_in_place(view.dtype, solver, conversion, self.scratch, flag)?;
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
        Ok(())
    }

    /// Stages 2 and 3, in the solver's buffer: from contiguous shards to the solver's distribution.
    pub fn distribute(&self, plan: &MatrixPlan, solver: Buffer) -> Result<()> {
        let view = solver_view(plan, solver);
        for (axis, phase) in plan.phases() {
            Passage::new(self, plan, *axis, phase, view).play(phase.rounds())?;
        }
        Ok(())
    }

    /// Stages 3 and 2 backwards, in the solver's buffer.
    pub fn restore(&self, plan: &MatrixPlan, solver: Buffer) -> Result<()> {
        let view = solver_view(plan, solver);
        for (axis, phase) in plan.phases().iter().rev() {
            Passage::new(self, plan, *axis, phase, view)
                .play(phase.rounds().rev().map(|round| round.reversed()))?;
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
        self.device.set_identity(&view, rows.global_map(at.row), cols.global_map(at.col), real, None, None)
    }

    /// The stages backwards: fills `caller` from `solver`, which is used up. If both are the same
    /// memory, the last stage works in place, which the plan must allow.
    pub fn reverse(&self, plan: &MatrixPlan, solver: Buffer, caller: Buffer) -> Result<()> {
        let rank = self.communicator.rank();
        let view = solver_view(plan, solver);
        self.restore(plan, solver)?;
        let in_place = in_place(plan, caller, solver);
        if in_place || plan.view() == View::Transposed {
            for (axis, permutation) in plan.reorderings().iter().rev() {
                self.permute(plan, *axis, &view, &permutation.inverse())?;
            }
        }
        match plan.view() {
            View::Plain if in_place => {
                self.device.restore_in_place(view.dtype, solver, plan.in_place_conversion(), self.scratch)
            }
            View::Plain => {
                self.place(plan, rank, 0, &view, caller)?;
                self.collect(plan, &view, caller)
            }
            View::Transposed if in_place => Ok(()),
            View::Transposed => self.copy_whole(plan, solver, caller),
        }
    }

    /// Copies a whole buffer of the solver's size.
    pub fn copy_whole(&self, plan: &MatrixPlan, from: Buffer, to: Buffer) -> Result<()> {
        let elements = plan.solver_bytes() / plan.dtype().size();
        self.device.copy_lines(plan.dtype(), from, elements, to, elements, elements, 1)
    }

    fn permute(
        &self,
        plan: &MatrixPlan,
        axis: Axis,
        view: &MatrixView,
        permutation: &Permutation,
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

    /// Completes a replicated result with the parts that other ranks own. A piece is placed while the
    /// next one comes in.
    fn collect(&self, plan: &MatrixPlan, view: &MatrixView, caller: Buffer) -> Result<()> {
        let column = view.rows * plan.dtype().size();
        let rank = self.communicator.rank();
        let mut beside = Beside::new(self.communicator);
        let mut came = None;
        // One round more for the piece that comes last.
        for (k, (send, receive)) in (0..).zip(plan.collection(rank).chain([(None, None)])) {
            let sends = send.map(|(peer, piece)| Message {
                peer,
                data: view.data.slice(piece.first * column, piece.cols * column),
            });
            let receives = receive.map(|piece| Message {
                peer: piece.owner,
                data: self.scratch.slice(k % 2 * plan.piece_bytes(), piece.cols * column),
            });
            beside.start(sends.as_slice(), receives.as_slice())?;
            if let Some((piece, message)) = came.replace(receive.zip(receives)).flatten() {
                let columns = MatrixView { data: message.data, cols: piece.cols, ..*view };
                self.place(plan, piece.owner, piece.first, &columns, caller)?;
            }
        }
        Ok(())
    }
}

/// Exchanges that run beside the device's operations, one ahead of them.
struct Beside<'a> {
    communicator: &'a dyn Communicator,
    under_way: Option<Ticket>,
}

impl<'a> Beside<'a> {
    fn new(communicator: &'a dyn Communicator) -> Self {
        Self { communicator, under_way: None }
    }

    /// What operations may take of the device.
    fn share(&self) -> Share {
        if self.under_way.is_some() { Share::Part } else { Share::Whole }
    }

    /// Starts the next exchange, which sees all operations enqueued so far, and then has the operations to
    /// come wait for the one before it.
    fn start(&mut self, sends: &[Message], receives: &[Message]) -> Result<()> {
        let ticket = match (sends, receives) {
            ([], []) => None,
            _ => Some(self.communicator.start(sends, receives)?),
        };
        match std::mem::replace(&mut self.under_way, ticket) {
            Some(before) => self.communicator.finish(before),
            None => Ok(()),
        }
    }
}

/// Whatever happens, memory is given back only after the exchanges that use it.
impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.under_way.take()
            && let Err(error) = self.communicator.finish(ticket)
        {
            tracing::warn!("waiting for an exchange failed: {error}");
        }
    }
}

/// One phase on one rank.
struct Passage<'a> {
    rank: &'a Rank<'a>,
    plan: &'a MatrixPlan,
    axis: Axis,
    view: MatrixView,
    /// Elements of the other dimension that go with each one.
    across: u64,
    unit_bytes: u64,
}

impl<'a> Passage<'a> {
    fn new(rank: &'a Rank<'a>, plan: &'a MatrixPlan, axis: Axis, phase: &Phase, view: MatrixView) -> Self {
        Self { rank, plan, axis, view, across: plan.across(axis), unit_bytes: plan.unit_bytes(axis, phase) }
    }

    /// Carries out this rank's part of the rounds: the exchange of each beside its moves.
    fn play(&self, rounds: impl Iterator<Item = Round>) -> Result<()> {
        if self.across == 0 {
            return Ok(());
        }
        let Rank { communicator, .. } = self.rank;
        let me = self.plan.position(self.axis, communicator.rank());
        let peer = |position| self.plan.rank_at(self.axis, communicator.rank(), position);
        let mut beside = Beside::new(*communicator);
        for round in rounds {
            let (send, receive) = round.transfers_of(me);
            let sends = send.map(|t| Message { peer: peer(t.to), data: self.window(t.source, t.len) });
            let receives =
                receive.map(|t| Message { peer: peer(t.from), data: self.window(t.target, t.len) });
            beside.start(sends.as_slice(), receives.as_slice())?;
            for run in round.moves_of(me) {
                self.shift(run, beside.share())?;
            }
        }
        beside.start(&[], &[])
    }

    /// The contiguous memory of a place; along rows only scratch has any.
    fn window(&self, place: Place, len: u64) -> Buffer {
        let element = self.across * self.view.dtype.size();
        match place {
            Place::Matrix(first) => self.view.data.slice(first * element, len * element),
            Place::Scratch(unit) => self.rank.scratch.slice(unit * self.unit_bytes, len * element),
        }
    }

    /// Copies a run from place to place.
    fn shift(&self, run: &LocalMove, share: Share) -> Result<()> {
        let dtype = self.view.dtype;
        let end = |place| match (self.axis, place) {
            // Rows first..first + len of every column.
            (Axis::Rows, Place::Matrix(first)) => {
                let ld = self.view.leading_dimension;
                let elements = (self.view.cols - 1) * ld + run.len;
                (self.view.data.slice(first * dtype.size(), elements * dtype.size()), ld)
            }
            (Axis::Rows, place) => (self.window(place, run.len), run.len),
            (Axis::Cols, place) => (self.window(place, run.len), run.len * self.across),
        };
        let ((source, ld_source), (target, ld_target)) = (end(run.source), end(run.target));
        let (len, lines) = match self.axis {
            Axis::Rows => (run.len, self.view.cols),
            Axis::Cols => (run.len * self.across, 1),
        };
        self.rank.device.copy_lines_in(share, dtype, source, ld_source, target, ld_target, len, lines)
    }
}

/// Whether both are the same memory, which the plan must allow.
fn in_place(plan: &MatrixPlan, caller: Buffer, solver: Buffer) -> bool {
    let shared = caller.address() == solver.address() && !solver.is_empty();
    assert!(!shared || plan.in_place(), "the caller's buffer is not the solver's size");
    shared
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
