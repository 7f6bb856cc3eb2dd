//! The algorithms, each written once over the seams.

mod block_cyclic;
mod call;
mod eigen;
mod product;
mod redistribute;
mod regrid;
mod system;
mod triangular;

use crate::communicator::{Ballot, Communicator};
use crate::device::{Buffer, Device};
use crate::plan::{OperandSpec, Plan};
use crate::solver::Solver;
use crate::{Error, Result};
pub use block_cyclic::redistribute;
pub use eigen::eigen;
pub use product::product;
pub use redistribute::Rank;
pub use system::system;
pub use triangular::TriangularSolve;

/// What a rank works with.
#[derive(Clone, Copy)]
pub struct Backend<'a> {
    /// Kernels and scratch.
    pub device: &'a dyn Device,
    /// The other ranks.
    pub communicator: &'a dyn Communicator,
    /// The mathematics; none where the plan needs none ([`Plan::needs_solver`]).
    pub solver: Option<&'a dyn Solver>,
}

impl<'a> Backend<'a> {
    /// The solver of a routine that needs one.
    fn solver(&self) -> Result<&'a dyn Solver> {
        self.solver.ok_or_else(|| Error::internal("a backend without a solver for a plan that needs one"))
    }
}

/// One rank's buffers, in the order of the plan's operand specifications.
#[derive(Clone, Debug)]
pub struct Operands {
    /// What the caller passes in.
    pub inputs: Vec<Buffer>,
    /// What the caller gets.
    pub outputs: Vec<Buffer>,
}

impl Operands {
    fn check(&self, plan: &Plan) -> Result<()> {
        let check = |kind: &str, buffers: &[Buffer], specs: &[OperandSpec]| {
            if buffers.len() != specs.len() {
                return Err(Error::internal(format!(
                    "{} {kind}s passed; the plan has {}",
                    buffers.len(),
                    specs.len()
                )));
            }
            match buffers.iter().zip(specs).find(|(b, s)| b.bytes() != s.bytes()) {
                None => Ok(()),
                Some((buffer, spec)) => Err(Error::internal(format!(
                    "{kind} {} has {} bytes; the plan needs {} ({:?}, {:?})",
                    spec.name,
                    buffer.bytes(),
                    spec.bytes(),
                    spec.shape,
                    spec.dtype
                ))),
            }
        };
        check("input", &self.inputs, plan.inputs())?;
        check("output", &self.outputs, plan.outputs())
    }
}

/// Runs a plan on this rank. Collective: every rank of the communicator calls it with the same plan,
/// also one whose operands could not be had, so that all ranks end with its error.
///
/// # Errors
/// The same on every rank; see the routine.
pub fn run(plan: &Plan, backend: &Backend<'_>, operands: Result<Operands>) -> Result<()> {
    if backend.communicator.size() != plan.ranks() {
        return Err(Error::internal(format!(
            "a communicator of {} ranks for a plan of {}",
            backend.communicator.size(),
            plan.ranks()
        )));
    }
    let operands = operands.and_then(|operands| operands.check(plan).map(|()| operands));
    let operands = match operands {
        Ok(operands) => operands,
        Err(error) => {
            return backend
                .communicator
                .agree(Ballot { fingerprint: plan.fingerprint(), verdict: Err(error) });
        }
    };
    match plan {
        Plan::System(of) => system(of, plan.fingerprint(), backend, &operands),
        Plan::Eigen(of) => eigen(of, plan.fingerprint(), backend, &operands),
        Plan::Product(of) => product(of, plan.fingerprint(), backend, &operands),
        Plan::Redistribute(of) => redistribute(of, plan.fingerprint(), backend, &operands),
    }
}
