//! What a call site runs: the seam between XLA's calls and the library.

#![forbid(unsafe_code)]

use std::sync::Arc;

use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{OperandSpec, Plan};
use meshsolve::routines::{self, Backend, Operands};
use meshsolve::simulate::{self, RankOperands};

use crate::failure::Failure;

/// A planned routine on all ranks of a process grid.
///
/// The library's [`Plan`] is the one outside of tests.
pub trait Routine: Send + Sync {
    /// The number of ranks of the process grid.
    fn ranks(&self) -> usize;
    /// What each rank brings.
    fn inputs(&self) -> &[OperandSpec];
    /// What each rank gets.
    fn outputs(&self) -> &[OperandSpec];
    /// The rank that the device at each place of the caller's mesh plays, row by row.
    fn roles(&self) -> &[u64];
    /// Runs all ranks, whose memory is given in the order of the mesh, and returns when they are done.
    ///
    /// # Errors
    /// One for all ranks.
    fn run(&self, ranks: Vec<RankOperands>) -> Result<(), Failure>;
    /// The solver's process grid.
    fn grid(&self) -> ProcessGrid;
    /// A number that is the same for the same call in all processes.
    fn fingerprint(&self) -> u64;
    /// Whether [`Routine::run_rank`] needs a solver in the backend.
    fn needs_solver(&self) -> bool;
    /// Runs one rank, whose device and peers are in `backend`; collective.
    ///
    /// # Errors
    /// The same on all ranks.
    fn run_rank(&self, backend: &Backend<'_>, operands: meshsolve::Result<Operands>) -> Result<(), Failure>;
}

impl Routine for Plan {
    fn ranks(&self) -> usize {
        // A grid of devices that all belong to one process.
        usize::try_from(Plan::ranks(self)).unwrap_or(usize::MAX)
    }

    fn inputs(&self) -> &[OperandSpec] {
        Plan::inputs(self)
    }

    fn outputs(&self) -> &[OperandSpec] {
        Plan::outputs(self)
    }

    fn roles(&self) -> &[u64] {
        Plan::roles(self)
    }

    fn run(&self, ranks: Vec<RankOperands>) -> Result<(), Failure> {
        Ok(simulate::run(self, ranks)?)
    }

    fn grid(&self) -> ProcessGrid {
        Plan::grid(self)
    }

    fn fingerprint(&self) -> u64 {
        Plan::fingerprint(self)
    }

    fn needs_solver(&self) -> bool {
        Plan::needs_solver(self)
    }

    fn run_rank(&self, backend: &Backend<'_>, operands: meshsolve::Result<Operands>) -> Result<(), Failure> {
        Ok(routines::run(self, backend, operands)?)
    }
}

/// The routine that a plan request in JSON asks for.
///
/// # Errors
/// The request is wrong, or no plan fits it.
pub fn plan(request: &str) -> Result<Arc<dyn Routine>, Failure> {
    Ok(Arc::new(Plan::from_json(request)?))
}
