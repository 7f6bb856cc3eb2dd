//! Square systems op(A)·X = B and the parts of their solution, each by its [`SystemPlan`].

use super::redistribute::{Rank, distributed, solver_view};
use super::{Backend, Operands};
use crate::communicator::{Ballot, Reduction};
use crate::device::{Buffer, Device, IndexMap, MatrixView, Scratch, Triangle};
use crate::layout::BlockCyclic;
use crate::plan::{MatrixPlan, Method, OperandSpec, STATUS_BYTES, SystemPlan, Task};
use crate::solver::{Diagonal, DistributedMatrix, Op, Solver, Triangular, pivot_bytes};
use crate::{DType, Result};

/// Words that decide the status, in the order in which they do: non-finite input, then the `info` of
/// the factorisation and of the solve.
const WORDS: u64 = 3;
/// The phase of a determinant: two f64.
const PHASE_BYTES: u64 = 16;

/// Where the words stand in the scratch block of [`STATUS_BYTES`].
struct Status {
    max: Buffer,
    min: Buffer,
    log_sum: Buffer,
    /// Takes an `info` that says nothing.
    ignored: Buffer,
}

impl Status {
    fn new(block: Buffer) -> Self {
        Self {
            max: block.slice(0, WORDS * 4),
            min: block.slice(16, WORDS * 4),
            log_sum: block.slice(32, 8),
            ignored: block.slice(40, 4),
        }
    }

    fn word(&self, index: u64) -> Buffer {
        self.max.slice(index * 4, 4)
    }
}

/// Runs the plan on this rank. Collective; every rank returns the same error or none.
///
/// Nothing here waits for the device: what only the device knows (non-finite input, a failed
/// factorisation) becomes the status word, and NaN in every result. The status is −1 for non-finite
/// input. A positive one is a row of A, counted from 1, and tells where the solver stopped: at the first
/// leading minor of that order which is not positive definite, at the first pivot that is zero, or at the
/// first zero on the diagonal of a triangular matrix. Under a reading, which takes the rows in another
/// order, it is the row that came up then. A determinant of LU is 0 then, and its logarithm −∞.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and library
/// failures.
pub fn system(plan: &SystemPlan, fingerprint: u64, backend: &Backend<'_>, operands: &Operands) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let solver = backend.solver()?;
    let named = Named { plan, operands };
    let memory = scratch(plan, device, solver, communicator.rank(), &named);
    communicator.agree(Ballot { fingerprint, verdict: memory.as_ref().map(|_| ()).map_err(Clone::clone) })?;
    let (scratch, sizes) = memory?;
    // The solver's workspace comes first, with the full alignment of the allocation.
    let mut begin = 0;
    let [workspace, status, moving, phases, pivoting] = sizes.map(|bytes| {
        begin += bytes;
        scratch.buffer().slice(begin - bytes, bytes)
    });
    let at = plan.grid().coordinate(communicator.rank());
    let call = System {
        plan,
        rank: Rank { device, communicator, scratch: moving },
        solver,
        workspace,
        status: Status::new(status),
        phases,
        pivoting,
        row_map: plan.a().rows().global_map(at.row),
        col_map: plan.a().cols().global_map(at.col),
    };
    match plan.request().task {
        Task::Apply => call.apply(&named),
        _ => call.begin_with_a(&named),
    }
}

/// A call's buffers by the names that the plan gives them.
struct Named<'a> {
    plan: &'a SystemPlan,
    operands: &'a Operands,
}

impl Named<'_> {
    fn find(specs: &[OperandSpec], buffers: &[Buffer], name: &str) -> Option<Buffer> {
        specs.iter().position(|spec| spec.name == name).map(|index| buffers[index])
    }

    fn input(&self, name: &str) -> Option<Buffer> {
        Self::find(self.plan.inputs(), &self.operands.inputs, name)
    }

    fn output(&self, name: &str) -> Option<Buffer> {
        Self::find(self.plan.outputs(), &self.operands.outputs, name)
    }

    /// The solver's buffer of A: work, a factor, or the result itself where that is what A becomes.
    fn solver_buffer(&self) -> Buffer {
        let names = ["work", "factor", "x"];
        let buffer = self.input("factor").or_else(|| names.iter().find_map(|name| self.output(name)));
        buffer.expect("every task has one of them")
    }
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
    let matrix = distributed(plan.a(), named.solver_buffer());
    let rhs = right_hand_sides(plan, &matrix, named, rank);
    let request = plan.request();
    let workspace = match request.method {
        Method::Cholesky => solver.cholesky_scratch(plan.triangle(), &matrix, &rhs)?,
        Method::Lu if request.op == Op::NoTranspose => solver.lu_scratch(&matrix, &rhs)?,
        Method::Lu => {
            let mut most = 0;
            for form in transposed_factors(request.op) {
                most = solver.triangular_scratch(form, &matrix, &rhs)?.max(most);
            }
            most
        }
        Method::Triangular => solver.triangular_scratch(triangular(plan), &matrix, &rhs)?,
    };
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
        (None, _) => {
            let procs = matrix.grid.cols();
            let rows = matrix.rows.count(matrix.grid.coordinate(rank).row).max(1);
            DistributedMatrix {
                cols: BlockCyclic::new(0, 1, procs),
                leading_dimension: rows,
                data: Buffer::EMPTY,
                ..*matrix
            }
        }
    }
}

/// The solver's buffer of an inverse.
fn inverse_buffer(named: &Named<'_>) -> Buffer {
    named.output("x_work").or_else(|| named.output("x")).expect("an inverse has a buffer")
}

/// A triangular matrix as the solver reads it.
fn triangular(plan: &SystemPlan) -> Triangular {
    let unit = plan.request().unit_diagonal;
    Triangular {
        triangle: plan.triangle(),
        op: plan.op(),
        diagonal: if unit { Diagonal::Unit } else { Diagonal::NonUnit },
    }
}

/// The factors of A = Pᵀ·L·U in the order in which op(A) is solved with: Uᵀ, then Lᵀ.
fn transposed_factors(op: Op) -> [Triangular; 2] {
    use crate::solver::Triangle::{Lower, Upper};
    [(Upper, Diagonal::NonUnit), (Lower, Diagonal::Unit)].map(|(triangle, diagonal)| Triangular {
        triangle,
        op,
        diagonal,
    })
}

/// One rank's part of a call.
struct System<'a> {
    plan: &'a SystemPlan,
    rank: Rank<'a>,
    solver: &'a dyn Solver,
    workspace: Buffer,
    status: Status,
    phases: Buffer,
    pivoting: Buffer,
    row_map: IndexMap,
    col_map: IndexMap,
}

impl System<'_> {
    /// The tasks that begin with A.
    fn begin_with_a(&self, named: &Named<'_>) -> Result<()> {
        let Self { plan, rank, .. } = self;
        let task = plan.request().task;
        let work = named.solver_buffer();
        let matrix = distributed(plan.a(), work);
        let rhs = right_hand_sides(plan, &matrix, named, rank.communicator.rank());
        let pivots = self.own_pivots(named.output("pivots").unwrap_or(self.pivoting));
        let status = named.output("status").expect("every task but one has a status");

        rank.device.fill(DType::I32, self.status.max, [0; 2], None)?;
        self.bring_a(named.input("a").expect("A is passed in"), work)?;
        if let Some(shift) = named.input("shift") {
            self.shift(work, shift)?;
        }
        if plan.b().is_some() {
            self.bring_b(named)?;
        }
        if task == Task::Invert {
            let nothing = IndexMap::identity(0);
            let view = solver_view(plan.a(), rhs.data);
            rank.device.set_identity(&view, self.row_map, self.col_map, [nothing; 2], None)?;
        }

        self.keep_from_solver(work)?;
        self.factor(&matrix, pivots)?;
        if matches!(task, Task::Solve | Task::Invert) {
            self.solve(&matrix, pivots, &rhs, self.status.word(2))?;
        }
        self.combine_status(status)?;
        if let Some(log_det) = named.output("log_det") {
            self.determinant(work, pivots, log_det, named.output("phase"), status)?;
        }

        let dtype = plan.a().dtype();
        match task {
            Task::Solve => return self.return_x(named, status),
            Task::Invert => rank.reverse(plan.a(), rhs.data, named.output("x").expect("a result"))?,
            Task::Factor => {
                let view = solver_view(plan.a(), work);
                rank.device.clear_other_triangle(&view, self.row_map, self.col_map, plan.valid_part())?;
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
        let matrix = distributed(plan.a(), named.solver_buffer());
        let rhs = right_hand_sides(plan, &matrix, named, rank.communicator.rank());
        let pivots = self.own_pivots(named.input("pivots").unwrap_or(Buffer::EMPTY));
        self.bring_b(named)?;
        if plan.request().op == Op::NoTranspose || plan.request().method != Method::Lu {
            self.solve(&matrix, pivots, &rhs, self.status.ignored)?;
        } else {
            // op(A) = op(U)·op(L)·P.
            for form in transposed_factors(plan.request().op) {
                self.solver.triangular_solve(form, &matrix, &rhs, self.workspace)?;
            }
        }
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

    /// Adds a multiple of the identity; to the caller's elements only.
    fn shift(&self, work: Buffer, shift: Buffer) -> Result<()> {
        let a = self.plan.a();
        let at = a.grid().coordinate(self.rank.communicator.rank());
        let (rows, cols) = (a.rows().original_map(at.row), a.cols().original_map(at.col));
        self.rank.device.add_to_diagonal(&solver_view(a, work), rows, cols, shift)
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
        let (plan, b_work) = self.b(named);
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
        let Rank { device, communicator, .. } = self.rank;
        let words = self.plan.row_words_bytes();
        let order = self.plan.a().rows();
        let used = 4 * order.cyclic().extent();
        let (pivots, places) = (self.pivoting.slice(0, used), self.pivoting.slice(words, used));
        let y = self.pivoting.slice(2 * words, x.bytes());
        device.fill(DType::I32, pivots, [0; 2], None)?;
        // Process row 0 holds them.
        if self.plan.grid().coordinate(communicator.rank()).row == 0 {
            let own = self.own_pivots(named.input("pivots").expect("LU has pivots"));
            device.spread_pivots(own, self.col_map, pivots)?;
        }
        communicator.all_reduce(Reduction::MaxI32, pivots)?;
        device.places_of_pivots(pivots, places)?;
        self.rank.reverse(b, y_work, y)?;
        device.gather_rows(b.dtype(), y, x, b.caller_shape()[1], places, order.order_map())
    }

    /// Brings A to the solver, and sets the first status word if what is to be read is not finite.
    fn bring_a(&self, a: Buffer, work: Buffer) -> Result<()> {
        let Self { plan, rank, .. } = self;
        let (part, word) = (plan.valid_part(), self.status.word(0));
        if part == Triangle::Both {
            return rank.forward_whole(plan.a(), a, work, word);
        }
        rank.forward(plan.a(), a, work)?;
        rank.complete(plan.a(), work)?;
        let (mut row_map, mut col_map) = (self.row_map, self.col_map);
        if plan.request().unit_diagonal {
            // A diagonal that is not read may hold anything: rows or columns one less leave it out.
            match part {
                Triangle::Lower => row_map.base += 1,
                _ => col_map.base += 1,
            }
        }
        rank.device.find_non_finite(&solver_view(plan.a(), work), row_map, col_map, part, word)
    }

    /// A solver may not end on input that is not finite: then gives it the identity instead, on all ranks.
    fn keep_from_solver(&self, work: Buffer) -> Result<()> {
        let Rank { device, communicator, .. } = self.rank;
        let (view, word) = (solver_view(self.plan.a(), work), self.status.word(0));
        communicator.all_reduce(Reduction::MaxI32, word)?;
        let nothing = IndexMap::identity(0);
        device.set_identity(&view, self.row_map, self.col_map, [nothing; 2], Some(word))
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
        let (n, word) = (self.order(), self.status.word(1));
        self.rank.device.find_zero_diagonal(&view, self.row_map, self.col_map, n, word)
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
        match plan.request().method {
            Method::Cholesky => solver.cholesky_solve(plan.triangle(), matrix, rhs, workspace, info),
            Method::Lu => solver.lu_solve(matrix, pivots, rhs, workspace, info),
            Method::Triangular => solver.triangular_solve(triangular(plan), matrix, rhs, workspace),
        }
    }

    /// Makes one status of all ranks' words.
    fn combine_status(&self, out: Buffer) -> Result<()> {
        let Rank { device, communicator, .. } = self.rank;
        let Status { max, min, .. } = self.status;
        device.copy_lines(DType::I32, max, WORDS, min, WORDS, WORDS, 1)?;
        communicator.all_reduce(Reduction::MaxI32, max)?;
        communicator.all_reduce(Reduction::MinI32, min)?;
        let from_end = (self.plan.request().method != Method::Cholesky).then(|| self.order());
        device.combine_status(max, min, out, self.plan.a().rows().order_map(), from_end)
    }

    /// Order of the solver's matrix.
    fn order(&self) -> u64 {
        self.plan.a().rows().cyclic().extent()
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
        let (dtype, n, log_sum) = (self.plan.a().dtype(), self.order(), self.status.log_sum);
        let view = solver_view(self.plan.a(), work);
        device.diag_log_sum(&view, self.row_map, self.col_map, n, log_sum)?;
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
            self.row_map,
            self.col_map,
            self.order(),
            holds_pivots.then_some(pivots),
            own,
        )?;
        communicator.all_reduce(Reduction::SumF64, self.phases)
    }
}
