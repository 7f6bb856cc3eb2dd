//! What a way would cost, by a model just good enough to choose between ways of one call.
//!
//! The rates are orders of magnitude, of two GPUs of the H200 kind; only their ratios matter. A call's
//! time is not the aim: what is the same in every way (checks, the solver's own messages) is left out.

use super::matrix::{Axis, MatrixPlan, View};
use crate::DType;
use serde::Serialize;

/// Bytes a second over a device's link, in one direction.
const LINK: f64 = 3.7e11;
/// Bytes a second through a device's memory, what is read and what is written added up.
const MEMORY: f64 = 4.2e12;
/// Seconds that a round of messages takes, however short.
const LATENCY: f64 = 2.5e-5;

/// How much longer a factorisation takes where the grid has more columns than rows: the panels are
/// columns, which then fewer processes share. cuSOLVERMp 0.9.1 on two H200s, n = 16384 to 65536.
const WIDE_GRID: f64 = 1.1;

/// Floating-point operations a second that a device does inside a distributed factorisation.
fn rate(dtype: DType) -> f64 {
    match dtype.real() {
        DType::F64 => 5.0e13,
        _ => 4.5e13,
    }
}

/// The cost of a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Price {
    /// Bytes over the link of the busiest device, in the busier direction.
    pub link_bytes: u64,
    /// Rounds of messages.
    pub rounds: u64,
    /// Bytes through each device's memory; a copy counts twice, for it is read and written.
    pub memory_bytes: u64,
    /// Real floating-point operations of all devices together.
    pub flops: f64,
    /// Seconds by the model.
    pub seconds: f64,
}

impl Price {
    /// The redistributions of a matrix and of right-hand sides, there and back, and the operations of
    /// the solver on `ranks` devices. `fetched` are bytes of the right-hand side that every device gets
    /// before the call.
    pub(super) fn new(a: &MatrixPlan, in_place: bool, b: &MatrixPlan, fetched: u64, flops: f64) -> Self {
        let busier = |plan: &MatrixPlan, reverse: bool| {
            let traffic = plan.busiest(reverse);
            traffic.sent.max(traffic.received)
        };
        let moved = busier(a, false) + busier(b, false) + busier(b, true);
        let link_bytes = moved + fetched;
        let rounds = a.rounds(false) + b.rounds(false) + b.rounds(true) + u64::from(fetched > 0);
        let memory_bytes = passes(a, in_place) + 2 * passes(b, false);
        let (ranks, rate) = (seconds(a.grid().size(), 1.0), rate(a.dtype()));
        let shape = if a.grid().cols() > a.grid().rows() { WIDE_GRID } else { 1.0 };
        let seconds = seconds(link_bytes, LINK)
            + seconds(rounds, LATENCY.recip())
            + seconds(memory_bytes, MEMORY)
            + shape * flops / (ranks * rate);
        Self { link_bytes, rounds, memory_bytes, flops, seconds }
    }
}

/// `amount` at so much a second.
#[expect(clippy::cast_precision_loss, reason = "a model of two digits")]
fn seconds(amount: u64, rate: f64) -> f64 {
    amount as f64 / rate
}

/// Real operations of a Cholesky factorisation of order n, n³/3, and of the two triangular solves with
/// `nrhs` right-hand sides, 2·n²·nrhs; four times as many in complex arithmetic.
#[expect(clippy::cast_precision_loss, reason = "a model of two digits")]
pub(super) fn cholesky_flops(dtype: DType, n: u64, nrhs: u64) -> f64 {
    let (n, nrhs) = (n as f64, nrhs as f64);
    f64::from(dtype.parts().pow(2)) * (n * n * n / 3.0 + 2.0 * n * n * nrhs)
}

/// Bytes through a device's memory on the way of one matrix in one direction.
fn passes(plan: &MatrixPlan, in_place: bool) -> u64 {
    let bytes = |[rows, cols]: [u64; 2]| rows * cols * plan.dtype().size();
    let [rows, cols] = plan.solver_shape();
    let local = bytes([rows, cols]);
    let (stage_1, reorders) = match (plan.view(), in_place) {
        (View::Transposed, true) => (0, true),
        (View::Transposed, false) => (2 * local, true),
        // A pass over the blocks, and one over segments unless there is but one block.
        (View::Plain, true) => (if rows == cols { 2 } else { 4 } * local, true),
        (View::Plain, false) => (bytes(plan.caller_shape()) + local, false),
    };
    let slots = |axis: Axis, moved: u64| {
        let tile = match axis {
            Axis::Rows => plan.rows().tile(),
            Axis::Cols => plan.cols().tile(),
        };
        2 * moved * tile * plan.across(axis) * plan.dtype().size()
    };
    let reordering: u64 =
        plan.reorderings().iter().filter(|_| reorders).map(|(axis, p)| slots(*axis, p.moved())).sum();
    let permuting: u64 = (plan.phases().iter())
        .map(|(axis, phase)| slots(*axis, phase.permutation(0).map_or(0, |permutation| permutation.moved())))
        .sum();
    let traffic = plan.busiest(false);
    // What is sent is packed first and what is received is unpacked; rows only are packed, as a rule.
    stage_1 + reordering + permuting + 2 * (traffic.sent + traffic.received)
}
