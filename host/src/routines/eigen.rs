//! Hermitian eigenproblems, each by its [`EigenPlan`].

use super::call::{Named, Square, Status, cut};
use super::redistribute::{Rank, distributed, solver_view};
use super::{Backend, Operands};
use crate::communicator::Ballot;
use crate::device::{Buffer, Device, Scratch};
use crate::plan::{EigenPlan, EigenTask, STATUS_BYTES};
use crate::solver::{DistributedMatrix, Eigenproblem, Op, Product, Solver, Triangle};
use crate::{DType, Result};

/// The status of an iteration that did not converge, or overflowed.
const NO_CONVERGENCE: i32 = -2;

/// Vᴴ·B and V·Y.
const TO_VECTORS: Product =
    Product { op_a: Op::ConjugateTranspose, op_b: Op::NoTranspose, alpha: 1.0, beta: 0.0 };
const FROM_VECTORS: Product = Product { op_a: Op::NoTranspose, ..TO_VECTORS };

/// Runs the plan on this rank. Collective; every rank returns the same error or none.
///
/// Nothing here waits for the device: what only the device knows becomes the status word, and NaN in every
/// result. The status is −1 for non-finite input, −2 if the solver's iteration did not converge or overflowed.
/// A positive one is a row of the metric, counted from 1, at which its factorisation stopped: it is not positive
/// definite.
///
/// A metric is factored first, to learn whether and where that fails, which solvers need not say and may not
/// survive; then it is brought anew.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and library
/// failures.
pub fn eigen(plan: &EigenPlan, fingerprint: u64, backend: &Backend<'_>, operands: &Operands) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let solver = backend.solver()?;
    let named = Named { inputs: plan.inputs(), outputs: plan.outputs(), operands };
    let matrices = Matrices::new(plan, &named);
    let memory = matrices.scratch(plan, device, solver);
    communicator.agree(Ballot { fingerprint, verdict: memory.as_ref().map(|_| ()).map_err(Clone::clone) })?;
    let (scratch, sizes) = memory?;
    // The solver's workspace comes first, with the full alignment of the allocation.
    let [workspace, status, moving] = cut(scratch.buffer(), sizes);
    let rank = Rank { device, communicator, scratch: moving };
    let a = Square::new(plan.a(), rank, plan.valid_part());
    Eigen { plan, rank, a, matrices, solver, workspace, status: Status::new(status) }.run(&named)
}

/// The matrices as the solver sees them.
struct Matrices {
    a: DistributedMatrix,
    metric: Option<DistributedMatrix>,
    v: Option<DistributedMatrix>,
    /// B and later X, and Vᴴ·B between.
    sides: Option<[DistributedMatrix; 2]>,
}

impl Matrices {
    fn new(plan: &EigenPlan, named: &Named<'_>) -> Self {
        let output = |name| named.output(name).expect("the plan has it");
        let v = match plan.request().task {
            EigenTask::Values => None,
            EigenTask::Vectors => Some(distributed(
                plan.v().expect("vectors are wanted"),
                named.output("v_work").unwrap_or_else(|| output("v")),
            )),
            EigenTask::Solve => Some(distributed(plan.a(), output("v_work"))),
        };
        Self {
            a: distributed(plan.a(), output("work")),
            metric: named.output("metric_work").map(|buffer| distributed(plan.a(), buffer)),
            v,
            sides: plan.b().map(|b| ["b_work", "y_work"].map(|name| distributed(b, output(name)))),
        }
    }

    fn problem(&self) -> Eigenproblem<'_> {
        Eigenproblem { a: &self.a, metric: self.metric.as_ref(), vectors: self.v.as_ref() }
    }

    /// Device scratch, and the sizes of its parts: the solver's workspace, status, redistributions.
    fn scratch<'d>(
        &self,
        plan: &EigenPlan,
        device: &'d dyn Device,
        solver: &dyn Solver,
    ) -> Result<(Scratch<'d>, [u64; 3])> {
        let mut workspace = solver.eigen_scratch(self.problem())?;
        let mut needs = |bytes: u64| workspace = workspace.max(bytes);
        if let Some(metric) = &self.metric {
            needs(solver.cholesky_factor_scratch(Triangle::Lower, metric)?);
        }
        if let (Some(v), Some([b, y])) = (&self.v, &self.sides) {
            needs(solver.multiply_scratch(TO_VECTORS, v, b, y)?);
            needs(solver.multiply_scratch(FROM_VECTORS, v, y, b)?);
        }
        let sizes = [workspace.next_multiple_of(16), STATUS_BYTES, plan.moving_bytes()];
        Ok((Scratch::new(device, sizes.iter().sum())?, sizes))
    }
}

/// One rank's part of a call.
struct Eigen<'a> {
    plan: &'a EigenPlan,
    rank: Rank<'a>,
    /// The way of A, and of the metric.
    a: Square<'a>,
    matrices: Matrices,
    solver: &'a dyn Solver,
    workspace: Buffer,
    status: Status,
}

impl Eigen<'_> {
    fn run(&self, named: &Named<'_>) -> Result<()> {
        let Self { plan, rank, a, matrices, solver, workspace, status } = self;
        let Matrices { a: matrix, metric, v, sides } = matrices;
        let (input, output) = (|name| named.input(name).expect("planned"), |name| named.output(name));
        let (w, out) =
            (output("w").expect("every task has it"), output("status").expect("every task has it"));
        let flag = status.word(0);

        status.clear(rank)?;
        a.bring(input("a"), matrix.data, false, flag)?;
        a.make_diagonal_real(matrix.data)?;
        if let Some(cutoff) = named.input("cutoff") {
            rank.device.find_non_finite_anywhere(plan.a().dtype().real(), cutoff, flag)?;
        }
        if let Some(shift) = named.input("shift") {
            a.shift(matrix.data, shift, flag)?;
        }
        if let Some(metric) = metric {
            a.bring(input("metric"), metric.data, false, flag)?;
            a.make_diagonal_real(metric.data)?;
        }
        if let (Some(b), Some([rhs, _])) = (plan.b(), sides) {
            rank.forward(b, input("b"), rhs.data)?;
            self.conjugate(rhs)?;
        }

        a.keep_from_solver(matrix.data, flag)?;
        if let Some(metric) = metric {
            self.check_metric(metric, input("metric"))?;
        }
        let info = status.word(2);
        solver.eigen(matrices.problem(), w, *workspace, info)?;
        // With a metric, numbers may have become too large on the way.
        rank.device.find_non_finite_anywhere(plan.a().dtype(), w, info)?;
        let no_convergence = u64::from(NO_CONVERGENCE.cast_unsigned());
        rank.device.fill(DType::I32, info, [no_convergence, 0], Some(info))?;
        status.combine(rank, out, plan.a().rows().order_map(), None)?;

        if let (Some(of), Some(v)) = (plan.v(), v) {
            rank.reverse(of, v.data, output("v").expect("vectors are wanted"))?;
        }
        if let (Some(b), Some(v), Some([rhs, y])) = (plan.b(), v, sides) {
            solver.multiply(TO_VECTORS, v, rhs, y, *workspace)?;
            // The rows of Y are in the order of the values.
            let view = solver_view(b, y.data);
            rank.device.apply_pseudoinverse(&view, a.row_map, w, input("cutoff"))?;
            solver.multiply(FROM_VECTORS, v, y, rhs, *workspace)?;
            self.conjugate(rhs)?;
            rank.reverse(b, rhs.data, output("x").expect("a solution"))?;
        }
        let dtype = plan.a().dtype();
        for (result, dtype) in [("w", dtype.real()), ("v", dtype), ("x", dtype)] {
            if let Some(result) = output(result) {
                rank.device.fill(dtype, result, dtype.nan_bits(), Some(out))?;
            }
        }
        Ok(())
    }

    /// Says at which row the metric is not positive definite, and has the solver see the identity then.
    fn check_metric(&self, metric: &DistributedMatrix, caller: Buffer) -> Result<()> {
        let Self { a, solver, workspace, status, .. } = self;
        let (flag, indefinite) = (status.word(0), status.word(1));
        a.set_identity(metric.data, Some(flag))?;
        solver.cholesky_factor(Triangle::Lower, metric, *workspace, indefinite)?;
        // What is not finite was found the first time.
        a.bring(caller, metric.data, false, status.ignored)?;
        a.make_diagonal_real(metric.data)?;
        a.set_identity(metric.data, Some(flag))?;
        a.keep_from_solver(metric.data, indefinite)
    }

    /// Conjugates B or X if the solver's matrix is the conjugate of A.
    fn conjugate(&self, side: &DistributedMatrix) -> Result<()> {
        if self.plan.conjugates() { self.rank.device.conjugate(side.dtype, side.data) } else { Ok(()) }
    }
}
