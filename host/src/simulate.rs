//! All ranks of a plan on threads of this process, over host loops and the development solver.
//!
//! This is the CPU backend: the same plan, stages and routines as on GPUs; only the innermost
//! copies and the solver differ.

use crate::communicator::LocalCommunicator;
use crate::device::{Buffer, CpuDevice, float_environment};
use crate::plan::Plan;
use crate::routines::{Backend, Operands, run as run_rank};
use crate::solver::FaerSolver;
use crate::{Error, Result};
use std::time::Duration;

/// One device's buffers, in the order of the plan's operand specifications.
#[derive(Clone, Debug)]
pub struct RankOperands {
    /// What the device passes in.
    pub inputs: Vec<Buffer>,
    /// What the device gets.
    pub outputs: Vec<Buffer>,
}

/// How long a rank waits for another before the call fails. All ranks run here, so only a bug or a
/// machine that stands still lets it pass.
const DEADLINE: Duration = Duration::from_secs(600);

/// Runs all ranks of `plan` and returns when all are done. `operands` are in the order of the caller's
/// mesh, row by row.
///
/// # Errors
/// One error for all ranks; results are then unspecified.
pub fn run(plan: &Plan, operands: Vec<RankOperands>) -> Result<()> {
    if operands.len() as u64 != plan.ranks() {
        return Err(Error::internal(format!(
            "operands of {} ranks for a plan of {} ranks",
            operands.len(),
            plan.ranks()
        )));
    }
    let mut by_role: Vec<(u64, Operands)> = (plan.roles().iter().copied())
        .zip(operands.into_iter().map(|o| Operands { inputs: o.inputs, outputs: o.outputs }))
        .collect();
    by_role.sort_by_key(|(role, _)| *role);
    on_ranks(by_role.len(), |rank, communicator| {
        let device = CpuDevice::new();
        let solver = FaerSolver::new(communicator);
        run_rank(
            plan,
            &Backend { device: &device, communicator, solver: Some(&solver) },
            Ok(by_role[rank].1.clone()),
        )
    })
}

/// Runs `work` for every rank of a group on threads of its own, and returns the first rank's error
/// if one fails or panics. A rank that fails ends the others' waiting.
pub fn on_ranks(size: usize, work: impl Fn(usize, &LocalCommunicator) -> Result<()> + Sync) -> Result<()> {
    let group = LocalCommunicator::group(size, DEADLINE);
    let mut results = Vec::with_capacity(size);
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = group
            .into_iter()
            .enumerate()
            .map(|(rank, communicator)| {
                scope.spawn(move || {
                    float_environment::restore();
                    let caught =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(rank, &communicator)));
                    let result = caught.unwrap_or_else(|payload| {
                        Err(Error::internal(format!("rank {rank} panicked: {}", panic_text(&*payload))))
                    });
                    if let Err(error) = &result {
                        communicator.abort(error.clone());
                    }
                    result
                })
            })
            .collect();
        results.extend(threads.into_iter().map(|t| t.join().expect("panics are caught inside")));
    });
    results.into_iter().collect()
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
