//! Cholesky solve: A·X = B with A Hermitian positive definite.

use super::redistribute::{Rank, distributed, solver_view};
use super::{Backend, Operands};
use crate::DType;
use crate::Result;
use crate::communicator::{Ballot, Reduction};
use crate::device::{Buffer, IndexMap, Scratch, Triangle};
use crate::plan::{PotrsPlan, STATUS_BYTES};

/// Words that decide the status, in the order in which they do: non-finite input, then the `info` of
/// the factorisation and of the solve.
const WORDS: u64 = 3;

/// Where the words stand in the scratch block of [`STATUS_BYTES`].
struct Status {
    max: Buffer,
    min: Buffer,
    log_sum: Buffer,
}

impl Status {
    fn new(block: Buffer) -> Self {
        Self { max: block.slice(0, WORDS * 4), min: block.slice(16, WORDS * 4), log_sum: block.slice(32, 8) }
    }

    fn word(&self, index: u64) -> Buffer {
        self.max.slice(index * 4, 4)
    }
}

/// Runs the plan on this rank. Collective; every rank returns the same error or none.
///
/// Nothing here waits for the device: what only the device knows (non-finite input, a failed
/// factorisation) becomes the status word, and NaN in every result. The status is −1 for non-finite
/// input. A positive one tells where the factorisation stopped: under the stages k is the order of the
/// first leading minor that is not positive definite; under a reading it is the caller's row, counted
/// from 1, that came up when the minor of the rows taken so far was not.
///
/// # Errors
/// Those of [`crate::communicator::Communicator::agree`] before anything was written, and library
/// failures.
pub fn potrs(plan: &PotrsPlan, fingerprint: u64, backend: &Backend<'_>, operands: &Operands) -> Result<()> {
    let Backend { device, communicator, .. } = *backend;
    let solver = backend.solver()?;
    let [a, b] = operands.inputs[..] else { unreachable!("operands were checked") };
    let [work, b_work, x] = operands.outputs[..3] else { unreachable!("operands were checked") };
    let (log_det, status_out) = match operands.outputs[3..] {
        [log_det, status] => (Some(log_det), status),
        [status] => (None, status),
        _ => unreachable!("operands were checked"),
    };
    let dtype = plan.a().dtype();
    let (matrix, rhs) = (distributed(plan.a(), work), distributed(plan.b(), b_work));
    let triangle = plan.triangle();

    let scratch = solver.cholesky_scratch(triangle, &matrix, &rhs).and_then(|bytes| {
        let bytes = bytes.next_multiple_of(16);
        let moving = plan.moving_bytes();
        let all = Scratch::new(device, moving + STATUS_BYTES + bytes)?;
        Ok((all, moving, bytes))
    });
    communicator
        .agree(Ballot { fingerprint, verdict: scratch.as_ref().map(|_| ()).map_err(Clone::clone) })?;
    let (scratch, moving, workspace_bytes) = scratch?;
    // The solver's workspace comes first, with the full alignment of the allocation.
    let workspace = scratch.buffer().slice(0, workspace_bytes);
    let status = Status::new(scratch.buffer().slice(workspace_bytes, STATUS_BYTES));
    let moving = scratch.buffer().slice(workspace_bytes + STATUS_BYTES, moving);
    let rank = Rank { device, communicator, scratch: moving };

    device.fill(DType::I32, status.max, [0; 2], None)?;
    let view = solver_view(plan.a(), work);
    let at = plan.grid().coordinate(communicator.rank());
    let (row_map, col_map) = (plan.a().rows().global_map(at.row), plan.a().cols().global_map(at.col));
    match plan.valid_part() {
        Triangle::Both => rank.forward_whole(plan.a(), a, work, status.word(0))?,
        part => {
            rank.forward(plan.a(), a, work)?;
            rank.complete(plan.a(), work)?;
            device.find_non_finite(&view, row_map, col_map, part, status.word(0))?;
        }
    }
    rank.forward(plan.b(), b, b_work)?;
    if plan.conjugates() {
        device.conjugate(dtype, b_work)?;
    }
    communicator.all_reduce(Reduction::MaxI32, status.word(0))?;
    // A solver may not end on input that is not finite: give it the identity instead.
    let nothing = IndexMap::identity(0);
    device.set_identity(&view, row_map, col_map, [nothing; 2], Some(status.word(0)))?;

    solver.cholesky_factor(triangle, &matrix, workspace, status.word(1))?;
    // After a failed factorisation this is harmless arithmetic whose result is overwritten below.
    solver.cholesky_solve(triangle, &matrix, &rhs, workspace, status.word(2))?;

    device.copy_lines(DType::I32, status.max, WORDS, status.min, WORDS, WORDS, 1)?;
    communicator.all_reduce(Reduction::MaxI32, status.max)?;
    communicator.all_reduce(Reduction::MinI32, status.min)?;
    device.combine_status(status.max, status.min, status_out, plan.a().rows().order_map())?;

    if let Some(log_det) = log_det {
        // det A = (∏ Lᵢᵢ)², so ln det A is twice the sum of the logarithms of L's diagonal.
        // Padding inside a reading has ones there.
        device.diag_log_sum(&view, row_map, col_map, plan.a().rows().cyclic().extent(), status.log_sum)?;
        communicator.all_reduce(Reduction::SumF64, status.log_sum)?;
        device.scale_to(status.log_sum, 2.0, dtype, log_det)?;
        device.fill(dtype.real(), log_det, dtype.real().nan_bits(), Some(status_out))?;
    }
    if plan.conjugates() {
        device.conjugate(dtype, b_work)?;
    }
    rank.reverse(plan.b(), b_work, x)?;
    device.fill(dtype, x, dtype.nan_bits(), Some(status_out))
}
