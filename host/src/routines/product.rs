//! The product C = A·B by its [`ProductPlan`].

use super::redistribute::{Rank, distributed};
use super::{Backend, Operands};
use crate::Result;
use crate::communicator::Ballot;
use crate::device::Scratch;
use crate::plan::{ProductPlan, View};
use crate::solver::{Op, Product};

/// C as A·B alone: what C held is not read.
const PRODUCT: Product = Product { op_a: Op::NoTranspose, op_b: Op::NoTranspose, alpha: 1.0, beta: 0.0 };

/// Runs the plan on this rank. Collective; every rank returns the same error or none. A and B are only
/// read. Elements that are not finite are multiplied like others.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and library
/// failures.
pub fn product(
    plan: &ProductPlan,
    fingerprint: u64,
    backend: &Backend<'_>,
    operands: &Operands,
) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let solver = backend.solver()?;
    let [a, b] = operands.inputs[..] else { unreachable!("operands were checked") };
    let c = operands.outputs[0];
    let work = |name| {
        let index = plan.outputs().iter().position(|output| output.name == name)?;
        Some(operands.outputs[index])
    };
    let [a_work, b_work, c_work] =
        [("a_work", a), ("b_work", b), ("c_work", c)].map(|(name, caller)| work(name).unwrap_or(caller));
    let matrices = [(plan.a(), a_work), (plan.b(), b_work), (plan.c(), c_work)];
    let [a_matrix, b_matrix, c_matrix] = matrices.map(|(plan, buffer)| distributed(plan, buffer));
    let (left, right) = match plan.candidate().view {
        View::Plain => (a_matrix, b_matrix),
        // Cᵀ = Bᵀ·Aᵀ
        View::Transposed => (b_matrix, a_matrix),
    };

    let memory = (|| {
        let workspace = solver.multiply_scratch(PRODUCT, &left, &right, &c_matrix)?.next_multiple_of(16);
        Ok((Scratch::new(device, workspace + plan.scratch_bytes())?, workspace))
    })();
    communicator.agree(Ballot { fingerprint, verdict: memory.as_ref().map(|_| ()).map_err(Clone::clone) })?;
    let (scratch, workspace) = memory?;
    // The solver's workspace comes first, with the full alignment of the allocation.
    let moving = scratch.buffer().slice(workspace, plan.scratch_bytes());
    let rank = Rank { device, communicator, scratch: moving };

    rank.forward(plan.a(), a, a_work)?;
    rank.forward(plan.b(), b, b_work)?;
    solver.multiply(PRODUCT, &left, &right, &c_matrix, scratch.buffer().slice(0, workspace))?;
    rank.reverse(plan.c(), c_work, c)
}
