//! A redistribution by itself: a sharded matrix to the 2-D block-cyclic distribution, or back.

use super::redistribute::Rank;
use super::{Backend, Operands};
use crate::Result;
use crate::communicator::Ballot;
use crate::device::Scratch;
use crate::plan::{Direction, RedistributePlan};

/// Runs the plan on this rank. Collective; every rank returns the same error or none. An output that
/// the plan declares an alias may be the memory of the input or have its own; in either case the input
/// of a plan that does not keep it is used up.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and failures of
/// a device or of the communicator.
pub fn redistribute(
    plan: &RedistributePlan,
    fingerprint: u64,
    backend: &Backend<'_>,
    operands: &Operands,
) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let [input] = operands.inputs[..] else { unreachable!("operands were checked") };
    let scratch = Scratch::new(device, plan.scratch_bytes());
    communicator
        .agree(Ballot { fingerprint, verdict: scratch.as_ref().map(|_| ()).map_err(Clone::clone) })?;
    let scratch = scratch?;
    let rank = Rank { device, communicator, scratch: scratch.buffer() };
    match (plan.request().direction, &operands.outputs[..]) {
        (Direction::Forward, &[cyclic]) => rank.forward(plan.matrix(), input, cyclic),
        (Direction::Reverse, &[a]) => rank.reverse(plan.matrix(), input, a),
        (Direction::Reverse, &[work, a]) => {
            if work.address() != input.address() {
                rank.copy_whole(plan.matrix(), input, work)?;
            }
            rank.reverse(plan.matrix(), work, a)
        }
        _ => unreachable!("operands were checked"),
    }
}
