//! Square systems op(A)·X = B and the parts of their solution, each by its [`SystemPlan`].

use super::call::{Named, Square, Status, cut};
use super::redistribute::{Rank, distributed, solver_view};
use super::triangular::TriangularSolve;
use super::{Backend, Operands};
use crate::communicator::{Ballot, Reduction};
use crate::device::{Buffer, Device, MatrixView, Scratch};
use crate::layout::BlockCyclic;
use crate::plan::workspace::WIDEST_BATCH;
use crate::plan::{MatrixPlan, Method, STATUS_BYTES, SystemPlan, Task};
use crate::solver::{DistributedMatrix, Op, Solver, pivot_bytes};
use crate::{DType, Result};

/// The phase of a determinant: two f64.
const PHASE_BYTES: u64 = 16;

/// Runs the plan on this rank. Collective; every rank returns the same error or none.
///
/// Nothing here waits for the device, but for keeping no more than a few calls of a library ahead of it: what only
/// the device knows (non-finite input, a failed factorisation) becomes the status word, and NaN in every result. The
/// status is −1 for non-finite input. A positive one is a row of A, counted from 1, and tells where the solver stopped: at the first
/// leading minor of that order which is not positive definite, at the first pivot that is zero, or at the
/// first zero on the diagonal of a triangular matrix. Under a reading, which takes the rows in another
/// order, it is the row that came up then; the column, where LU reads rows and columns in different orders. A
/// determinant of LU is 0 then, and its logarithm −∞.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and library
/// failures.
pub fn system(plan: &SystemPlan, fingerprint: u64, backend: &Backend<'_>, operands: &Operands) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let solver = backend.solver()?;
    let named = Named { inputs: plan.inputs(), outputs: plan.outputs(), operands };
    let memory = scratch(plan, device, solver, communicator.rank(), &named);
    communicator.agree(Ballot { fingerprint, verdict: memory.as_ref().map(|_| ()).map_err(Clone::clone) })?;
    let (scratch, sizes) = memory?;
    // The solver's workspace comes first, with the full alignment of the allocation.
    let [workspace, status, moving, phases, pivoting] = cut(scratch.buffer(), sizes);
    let rank = Rank { device, communicator, scratch: moving };
    let call = System {
        plan,
        rank,
        a: Square::new(plan.a(), rank, plan.valid_part()),
        solver,
        workspace,
        status: Status::new(status),
        phases,
        pivoting,
    };
    match plan.request().task {
        Task::Apply => call.apply(&named),
        _ => call.begin_with_a(&named),
    }
}

/// The solver's buffer of A: work, a factor, or the result itself where that is what A becomes.
fn solver_buffer(named: &Named<'_>) -> Buffer {
    let names = ["work", "factor", "x"];
    let buffer = named.input("factor").or_else(|| names.iter().find_map(|name| named.output(name)));
    buffer.expect("every task has one of them")
}

/// Device scratch, and the sizes of its parts: the solver's workspace, status, redistributions, phases,
/// pivots.
fn scratch<'d>(
    plan: &SystemPlan,
    device: &'d dyn Device,
    solver: &dyn Solver,
    rank: u64,
    named: &Named<'_>,
) -> Result<(Scratch<'d>, [u64; 5])> {
    let matrix = distributed(plan.a(), solver_buffer(named));
    let rhs = right_hand_sides(plan, &matrix, named, rank);
    let request = plan.request();
    let mut workspace = match request.method {
        _ if request.task == Task::Apply => 0,
        Method::Cholesky => solver.cholesky_factor_scratch(plan.triangle(), &matrix)?,
        Method::Lu => solver.lu_factor_scratch(&matrix)?,
        Method::Triangular => 0,
    };
    // A library's workspace may grow with the right-hand sides, which therefore come a few at a time.
    let mut asked = Vec::new();
    for (lower_from, rhs) in portions(plan, &rhs, rank) {
        let shape = (lower_from, rhs.cols);
        if rhs.cols.extent() == 0 || asked.contains(&shape) {
            continue;
        }
        asked.push(shape);
        let mut needs = |bytes: u64| workspace = bytes.max(workspace);
        if plan.substitutes() {
            for substitution in substitutions(plan, solver, rank) {
                needs(substitution.scratch(&matrix, &rhs, lower_from)?);
            }
        } else if request.method == Method::Lu {
            needs(solver.lu_solve_scratch(&matrix, &rhs)?);
        } else {
            needs(solver.cholesky_solve_scratch(plan.triangle(), &matrix, &rhs)?);
        }
    }
    let sizes = [
        workspace.next_multiple_of(16),
        STATUS_BYTES,
        plan.moving_bytes(),
        plan.phase_bytes(),
        plan.pivoting_bytes(),
    ];
    Ok((Scratch::new(device, sizes.iter().sum())?, sizes))
}

/// The right-hand sides as the solver sees them: B, the identity for an inverse, or none.
fn right_hand_sides(
    plan: &SystemPlan,
    matrix: &DistributedMatrix,
    named: &Named<'_>,
    rank: u64,
) -> DistributedMatrix {
    match (plan.b(), plan.request().task) {
        (Some(b), _) => distributed(b, named.output("b_work").expect("B has a buffer")),
        (None, Task::Invert) => distributed(plan.a(), inverse_buffer(named)),
        (None, _) => no_columns(matrix, rank),
    }
}

/// A matrix without columns beside `a`: right-hand sides where there are none.
fn no_columns(a: &DistributedMatrix, rank: u64) -> DistributedMatrix {
    let rows = a.rows.count(a.grid.coordinate(rank).row).max(1);
    let cols = BlockCyclic::new(0, 1, a.grid.cols());
    DistributedMatrix { cols, leading_dimension: rows, data: Buffer::EMPTY, ..*a }
}

/// The solver's buffer of an inverse.
fn inverse_buffer(named: &Named<'_>) -> Buffer {
    named.output("x_work").or_else(|| named.output("x")).expect("an inverse has a buffer")
}

/// The right-hand sides that are solved for at a time; those of the identity with the first one's number, for their
/// zeros.
fn portions(plan: &SystemPlan, rhs: &DistributedMatrix, rank: u64) -> Vec<(Option<u64>, DistributedMatrix)> {
    if plan.substitutes() {
        let of_identity = plan.inverts_identity();
        let stripes = rhs.stripes(rank, plan.stripe()).into_iter();
        return stripes.map(|(first, rhs)| (of_identity.then_some(first), rhs)).collect();
    }
    rhs.batches(rank, WIDEST_BATCH).into_iter().map(|rhs| (None, rhs)).collect()
}

/// The solves with triangular matrices that X comes by.
fn substitutions<'a>(
    plan: &SystemPlan,
    solver: &'a dyn Solver,
    rank: u64,
) -> impl Iterator<Item = TriangularSolve<'a>> {
    plan.substitutions().into_iter().map(move |substitution| TriangularSolve { rank, solver, substitution })
}

/// One rank's part of a call.
struct System<'a> {
    plan: &'a SystemPlan,
    rank: Rank<'a>,
    a: Square<'a>,
    solver: &'a dyn Solver,
    workspace: Buffer,
    status: Status,
    phases: Buffer,
    pivoting: Buffer,
}

impl System<'_> {
    /// The tasks that begin with A.
    fn begin_with_a(&self, named: &Named<'_>) -> Result<()> {
        let Self { plan, rank, .. } = self;
        let task = plan.request().task;
        let work = solver_buffer(named);
        let matrix = distributed(plan.a(), work);
        let rhs = right_hand_sides(plan, &matrix, named, rank.communicator.rank());
        let pivots = self.own_pivots(named.output("pivots").unwrap_or(self.pivoting));
        let status = named.output("status").expect("every task but one has a status");

        self.status.clear(rank)?;
        let (mut a, flag) = (named.input("a").expect("A is passed in"), self.status.word(0));
        if let Some(regrid) = plan.regrid() {
            rank.regrid(regrid, plan.a(), a, work)?;
            a = work;
        }
        self.a.bring(a, work, plan.request().unit_diagonal, flag)?;
        if plan.request().method == Method::Cholesky {
            self.a.make_diagonal_real(work)?;
        }
        if let Some(shift) = named.input("shift") {
            self.a.shift(work, shift, flag)?;
        }
        if plan.b().is_some() {
            self.bring_b(named)?;
        }

        self.a.keep_from_solver(work, flag)?;
        self.factor(&matrix, pivots)?;
        match (task, plan.request().method) {
            // P·A = L·U, and so X = U⁻¹·L⁻¹·P.
            (Task::Invert, Method::Lu) => {
                let used = plan.own_pivot_bytes().next_multiple_of(16);
                let words = self.pivoting.slice(used, self.pivoting.bytes() - used);
                self.a.set_permutation(rhs.data, self.places(pivots, words)?)?;
            }
            (Task::Invert, _) => self.a.set_identity(rhs.data, None)?,
            _ => {}
        }
        if matches!(task, Task::Solve | Task::Invert) {
            self.solve(&matrix, pivots, &rhs, self.status.word(2))?;
        }
        let from_end = (plan.request().method != Method::Cholesky).then(|| self.a.order());
        self.status.combine(rank, status, plan.a().cols().order_map(), from_end)?;
        if let Some(log_det) = named.output("log_det") {
            self.determinant(work, pivots, log_det, named.output("phase"), status)?;
        }

        let dtype = plan.a().dtype();
        match task {
            Task::Solve => return self.return_x(named, status),
            Task::Invert => rank.reverse(plan.a(), rhs.data, named.output("x").expect("a result"))?,
            Task::Factor => {
                // A solver's own rounding.
                self.a.make_diagonal_real(work)?;
                let view = solver_view(plan.a(), work);
                rank.device.clear_other_triangle(&view, self.a.row_map, self.a.col_map, plan.valid_part())?;
                rank.reverse(plan.a(), work, named.output("x").expect("a result"))?;
            }
            Task::Prepare | Task::Determinant | Task::Apply => {}
        }
        let result = named.output("x").or_else(|| named.output("factor"));
        result.map_or(Ok(()), |x| rank.device.fill(dtype, x, dtype.nan_bits(), Some(status)))
    }

    /// Solves with a factor that an earlier call prepared.
    fn apply(&self, named: &Named<'_>) -> Result<()> {
        let Self { plan, rank, .. } = self;
        let matrix = distributed(plan.a(), solver_buffer(named));
        let rhs = right_hand_sides(plan, &matrix, named, rank.communicator.rank());
        let pivots = self.own_pivots(named.input("pivots").unwrap_or(Buffer::EMPTY));
        self.bring_b(named)?;
        self.solve(&matrix, pivots, &rhs, self.status.ignored)?;
        self.return_x(named, named.input("status").expect("a factor has a status"))
    }

    /// The pivots of this rank's columns within room for them.
    fn own_pivots(&self, room: Buffer) -> Buffer {
        if self.plan.request().method != Method::Lu {
            return Buffer::EMPTY;
        }
        let at = self.plan.grid().coordinate(self.rank.communicator.rank());
        room.slice(0, pivot_bytes(self.plan.a().cols().cyclic(), at.col))
    }

    fn bring_b(&self, named: &Named<'_>) -> Result<()> {
        let (plan, b_work) = self.b(named);
        self.rank.forward(plan, named.input("b").expect("B is passed in"), b_work)?;
        if self.plan.conjugates() { self.rank.device.conjugate(plan.dtype(), b_work) } else { Ok(()) }
    }

    fn b(&self, named: &Named<'_>) -> (&MatrixPlan, Buffer) {
        (self.plan.b().expect("a task with B"), named.output("b_work").expect("B has a buffer"))
    }

    /// Brings X back, or NaN if `status` is not 0.
    fn return_x(&self, named: &Named<'_>, status: Buffer) -> Result<()> {
        let (_, b_work) = self.b(named);
        let plan = self.plan.x().expect("a task with B");
        let (dtype, x) = (plan.dtype(), named.output("x").expect("a result"));
        let Rank { device, .. } = self.rank;
        if self.plan.conjugates() {
            device.conjugate(dtype, b_work)?;
        }
        let request = self.plan.request();
        if request.method == Method::Lu && request.op != Op::NoTranspose {
            self.undo_interchanges(plan, named, b_work, x)?;
        } else {
            self.rank.reverse(plan, b_work, x)?;
        }
        device.fill(dtype, x, dtype.nan_bits(), Some(status))
    }

    /// X = Pᵀ·Y: brings all rows of Y back to every device of a process column, and puts each where the
    /// pivots say.
    fn undo_interchanges(&self, b: &MatrixPlan, named: &Named<'_>, y_work: Buffer, x: Buffer) -> Result<()> {
        let own = self.own_pivots(named.input("pivots").expect("LU has pivots"));
        let places = self.places(own, self.pivoting)?;
        let y = self.pivoting.slice(2 * self.plan.row_words_bytes(), x.bytes());
        self.rank.reverse(b, y_work, y)?;
        let order = self.plan.a().rows().order_map();
        self.rank.device.gather_rows(b.dtype(), y, x, b.caller_shape()[1], places, order)
    }

    /// Where the interchanges bring each row of the solver's matrix, as words within the room.
    fn places(&self, own_pivots: Buffer, room: Buffer) -> Result<Buffer> {
        let Rank { device, communicator, .. } = self.rank;
        let used = 4 * self.a.order();
        let [pivots, places] = [0, self.plan.row_words_bytes()].map(|begin| room.slice(begin, used));
        device.fill(DType::I32, pivots, [0; 2], None)?;
        // Process row 0 holds them.
        if self.plan.grid().coordinate(communicator.rank()).row == 0 {
            device.spread_pivots(own_pivots, self.a.col_map, pivots)?;
        }
        communicator.all_reduce(Reduction::MaxI32, pivots)?;
        device.places_of_pivots(pivots, places)?;
        Ok(places)
    }

    /// Factors A where it stands; the second status word says where that failed.
    fn factor(&self, matrix: &DistributedMatrix, pivots: Buffer) -> Result<()> {
        let Self { plan, solver, workspace, .. } = *self;
        let request = plan.request();
        match request.method {
            Method::Cholesky => {
                return solver.cholesky_factor(plan.triangle(), matrix, workspace, self.status.word(1));
            }
            // What is wrong with U its diagonal says.
            Method::Lu => solver.lu_factor(matrix, pivots, workspace, self.status.ignored)?,
            Method::Triangular if request.unit_diagonal => return Ok(()),
            Method::Triangular => {}
        }
        let view = solver_view(plan.a(), matrix.data);
        let (n, word) = (self.a.order(), self.status.word(1));
        self.rank.device.find_zero_diagonal(&view, self.a.row_map, self.a.col_map, n, word)
    }

    /// Overwrites B with the solution. After a failed factorisation this is harmless arithmetic whose result
    /// is overwritten later.
    fn solve(
        &self,
        matrix: &DistributedMatrix,
        pivots: Buffer,
        rhs: &DistributedMatrix,
        info: Buffer,
    ) -> Result<()> {
        let Self { plan, solver, workspace, .. } = *self;
        let (rank, request) = (self.rank.communicator.rank(), plan.request());
        for (lower_from, rhs) in &portions(plan, rhs, rank) {
            if plan.substitutes() {
                for substitution in substitutions(plan, solver, rank) {
                    substitution.run(matrix, rhs, *lower_from, workspace)?;
                }
            } else if request.method == Method::Lu {
                solver.lu_solve(matrix, pivots, rhs, workspace, info)?;
            } else {
                solver.cholesky_solve(plan.triangle(), matrix, rhs, workspace, info)?;
            }
        }
        Ok(())
    }

    /// The logarithm of the determinant's absolute value, and its phase, from the factor's diagonal. Padding
    /// inside a reading has ones there.
    fn determinant(
        &self,
        work: Buffer,
        pivots: Buffer,
        log_det: Buffer,
        phase: Option<Buffer>,
        status: Buffer,
    ) -> Result<()> {
        let Rank { device, communicator, .. } = self.rank;
        let (dtype, n, log_sum) = (self.plan.a().dtype(), self.a.order(), self.status.log_sum);
        let view = solver_view(self.plan.a(), work);
        device.diag_log_sum(&view, self.a.row_map, self.a.col_map, n, log_sum)?;
        communicator.all_reduce(Reduction::SumF64, log_sum)?;
        // det A = (∏ Lᵢᵢ)² for Cholesky factors, and ± ∏ Uᵢᵢ for those of LU.
        let lu = self.plan.request().method == Method::Lu;
        device.scale_to(log_sum, if lu { 1.0 } else { 2.0 }, dtype, log_det)?;
        let real = dtype.real();
        if lu {
            device.fill(real, log_det, real.bits(f64::NEG_INFINITY), Some(status))?;
        }
        let fails = if lu { self.status.word(0) } else { status };
        device.fill(real, log_det, real.nan_bits(), Some(fails))?;
        let Some(phase) = phase else { return Ok(()) };
        self.phase(&view, pivots)?;
        device.phase_to(self.phases, dtype, phase)?;
        device.fill(dtype, phase, [0; 2], Some(status))?;
        device.fill(dtype, phase, dtype.nan_bits(), Some(fails))
    }

    /// Every rank's part of the determinant's phase, in rank order on all ranks.
    fn phase(&self, view: &MatrixView, pivots: Buffer) -> Result<()> {
        let Rank { device, communicator, .. } = self.rank;
        let rank = communicator.rank();
        device.fill(DType::F64, self.phases, [0; 2], None)?;
        // Process row 0 holds the pivots.
        let holds_pivots = self.plan.grid().coordinate(rank).row == 0;
        let own = self.phases.slice(rank * PHASE_BYTES, PHASE_BYTES);
        let view = &MatrixView { cols: pivots.bytes() / 8, ..*view };
        device.diag_phase(
            view,
            self.a.row_map,
            self.a.col_map,
            self.a.order(),
            holds_pivots.then_some(pivots),
            own,
        )?;
        communicator.all_reduce(Reduction::SumF64, self.phases)
    }
}
