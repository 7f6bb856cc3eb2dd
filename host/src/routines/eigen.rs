//! Hermitian eigenproblems, each by its [`EigenPlan`].

use super::call::{Named, Square, Status, cut};
use super::redistribute::{Rank, distributed, solver_view};
use super::{Backend, Operands};
use crate::communicator::Ballot;
use crate::device::{Buffer, Device, Scratch};
use crate::plan::{EigenPlan, EigenTask, STATUS_BYTES};
use crate::solver::{Diagonal, DistributedMatrix, Op, Product, Solver, Triangle, Triangular};
use crate::{DType, Result};

/// The status of an iteration that did not converge.
const NO_CONVERGENCE: i32 = -2;

/// Lᴴ, of a metric's factor L.
const BACK: Triangular =
    Triangular { triangle: Triangle::Lower, op: Op::ConjugateTranspose, diagonal: Diagonal::NonUnit };

/// Vᴴ·B and V·Y.
const TO_VECTORS: Product =
    Product { op_a: Op::ConjugateTranspose, op_b: Op::NoTranspose, alpha: 1.0, beta: 0.0 };
const FROM_VECTORS: Product = Product { op_a: Op::NoTranspose, ..TO_VECTORS };

/// Runs the plan on this rank. Collective; every rank returns the same error or none.
///
/// Nothing here waits for the device: what only the device knows becomes the status word, and NaN in every
/// result. The status is −1 for non-finite input, −2 if the solver's iteration did not converge. A positive
/// one is a row of the metric, counted from 1, at which its factorisation stopped: it is not positive definite.
///
/// A·v = λ·M·v with M = L·Lᴴ is solved as L⁻¹·A·L⁻ᴴ·y = λ·y with y = Lᴴ·v (LAPACK's sygvd, hegvd), step by
/// step, so that no step ever begins with what another could not make.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and library
/// failures.
pub fn eigen(plan: &EigenPlan, fingerprint: u64, backend: &Backend<'_>, operands: &Operands) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let solver = backend.solver()?;
    let named = Named { inputs: plan.inputs(), outputs: plan.outputs(), operands };
    let matrices = Matrices::new(plan, &named);
    let memory = matrices.scratch(plan, device, solver, communicator.rank());
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

    /// Device scratch, and the sizes of its parts: the solver's workspace, status, redistributions.
    fn scratch<'d>(
        &self,
        plan: &EigenPlan,
        device: &'d dyn Device,
        solver: &dyn Solver,
        rank: u64,
    ) -> Result<(Scratch<'d>, [u64; 3])> {
        let mut workspace = solver.eigen_scratch(&self.a, self.v.as_ref())?;
        let mut needs = |bytes: u64| workspace = workspace.max(bytes);
        if let Some(metric) = &self.metric {
            needs(solver.cholesky_factor_scratch(Triangle::Lower, metric)?);
            needs(solver.reduce_scratch(&self.a, metric)?);
            if let Some(v) = &self.v {
                let batch = v.batches(rank).next().expect("one at least");
                needs(solver.triangular_scratch(BACK, metric, &batch)?);
            }
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
        if let Some(shift) = named.input("shift") {
            a.shift(matrix.data, shift)?;
        }
        if let Some(metric) = metric {
            a.bring(input("metric"), metric.data, false, flag)?;
        }
        if let (Some(b), Some([rhs, _])) = (plan.b(), sides) {
            rank.forward(b, input("b"), rhs.data)?;
            self.conjugate(rhs)?;
        }

        a.keep_from_solver(matrix.data, flag)?;
        if let Some(metric) = metric {
            a.set_identity(metric.data, Some(flag))?;
            self.reduce(metric)?;
        }
        let (overflowed, info) = (status.word(2), status.word(3));
        solver.eigen(matrix, w, v.as_ref(), *workspace, info)?;
        self.say_no_convergence(overflowed)?;
        self.say_no_convergence(info)?;
        status.combine(rank, out, plan.a().rows().order_map(), None)?;

        if let (Some(metric), Some(v)) = (metric, v) {
            for batch in v.batches(rank.communicator.rank()) {
                solver.triangular_solve(BACK, metric, &batch, *workspace)?;
            }
        }
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

    /// Makes a problem with a metric one without. What cannot be used is replaced by the identity: a factor
    /// that there is none of, a matrix that overflowed.
    fn reduce(&self, metric: &DistributedMatrix) -> Result<()> {
        let Self { plan, rank, a, matrices: Matrices { a: matrix, .. }, solver, workspace, status } = self;
        let (indefinite, overflowed) = (status.word(1), status.word(2));
        solver.cholesky_factor(Triangle::Lower, metric, *workspace, indefinite)?;
        a.keep_from_solver(metric.data, indefinite)?;
        solver.reduce(matrix, metric, *workspace, status.ignored)?;
        let view = solver_view(plan.a(), matrix.data);
        let part = crate::device::Triangle::Lower;
        rank.device.find_non_finite(&view, a.row_map, a.col_map, part, overflowed)?;
        a.keep_from_solver(matrix.data, overflowed)
    }

    /// Turns a word that is not 0 into the status that says so.
    fn say_no_convergence(&self, word: Buffer) -> Result<()> {
        let status = u64::from(NO_CONVERGENCE.cast_unsigned());
        self.rank.device.fill(DType::I32, word, [status, 0], Some(word))
    }

    /// Conjugates B or X if the solver's matrix is the conjugate of A.
    fn conjugate(&self, side: &DistributedMatrix) -> Result<()> {
        if self.plan.conjugates() { self.rank.device.conjugate(side.dtype, side.data) } else { Ok(()) }
    }
}
