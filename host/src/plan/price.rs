//! What a way would cost, by a model just good enough to choose between ways of one call.
//!
//! The rates are orders of magnitude, of two GPUs of the H200 kind; only their ratios matter. A call's
//! time is not the aim: what is the same in every way (checks, the solver's own messages) is left out.

use super::dimension::Dimension;
use super::matrix::{Axis, MatrixPlan, View};
use super::regrid::Regrid;
use super::request::{EigenRequest, EigenTask, Method, SystemRequest, Task};
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

/// Seconds a row that a Cholesky factorisation takes longer from the upper triangle. cuSOLVERMp 0.9.1 on an H200, all
/// types: 0.6 µs for n = 8192, 0.9 for 16384, 1.0 for 32768, where that is 58, 34 and 12 % of the time in float64.
const UPPER_ROW: f64 = 9e-7;

/// The part of a panel's way to other processes that nothing is computed beside: not measured, and rather too low, so
/// that a nearly square grid is taken only where it is clearly cheaper.
const EXPOSED: f64 = 0.25;

/// Floating-point operations a second that a device does inside a distributed factorisation.
fn rate(dtype: DType) -> f64 {
    match dtype.real() {
        DType::F64 => 5.0e13,
        _ => 4.5e13,
    }
}

/// Floating-point operations a second of all devices that a matrix lies on.
fn rate_of_all(plan: &MatrixPlan) -> f64 {
    seconds(plan.grid().size(), 1.0) * rate(plan.dtype())
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

/// The way of a matrix in one direction.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    /// There and back.
    pub plan: &'a MatrixPlan,
    /// Whether it is the way back.
    pub reverse: bool,
    /// Whether the caller's memory is the solver's buffer.
    pub in_place: bool,
}

/// What a call for a system does with A besides where it lies, and what else costs time.
pub(super) struct Work<'a> {
    /// Whether A goes to the solver.
    pub brings_a: bool,
    /// Whether a matrix comes back as A lies.
    pub returns_a: bool,
    /// Whether A's memory is the solver's buffer.
    pub in_place: bool,
    /// How A comes to another mesh first, if it does.
    pub regrid: Option<&'a Regrid>,
    /// Bytes of the right-hand sides that every device gets before the call.
    pub fetched: u64,
    /// Real floating-point operations of the solver.
    pub flops: f64,
    /// Whether A is factored.
    pub factors: bool,
    /// Whether the solver is slower on a grid of more columns than rows.
    pub prefers_tall: bool,
    /// Whether it is a Cholesky factorisation that reads the upper triangle.
    pub factors_upper: bool,
}

impl Work<'_> {
    /// Bytes of a factorisation's panels that each process gets: the rows of L that it needs and the columns of U,
    /// or of L again, half of a matrix for each in all. This is what a grid that is nearly square has less of.
    fn panels(&self, a: &MatrixPlan) -> u64 {
        let (n, grid) = (a.rows().cyclic().extent(), a.grid());
        if !self.factors || grid.size() == 1 {
            return 0;
        }
        n * n / 2 * a.dtype().size() / grid.rows() + n * n / 2 * a.dtype().size() / grid.cols()
    }
}

impl Price {
    /// The redistributions of A, of right-hand sides and of solutions back, and the operations of the solver.
    pub(super) fn of_system(a: &MatrixPlan, sides: Option<[&MatrixPlan; 2]>, work: &Work<'_>) -> Self {
        let way = |plan, reverse, in_place| Way { plan, reverse, in_place };
        let mut ways = Vec::new();
        ways.extend(work.brings_a.then(|| way(a, false, work.in_place)));
        ways.extend(work.returns_a.then(|| way(a, true, a.in_place())));
        ways.extend(sides.into_iter().flat_map(|[b, x]| [way(b, false, false), way(x, true, false)]));
        let wide = work.prefers_tall && a.grid().cols() > a.grid().rows();
        let seconds_of_flops = if wide { WIDE_GRID } else { 1.0 } * work.flops / rate_of_all(a);
        let seconds_of_rows =
            if work.factors_upper { UPPER_ROW * a.rows().cyclic().extent() as f64 } else { 0.0 };
        let seconds_of_solver = seconds_of_flops + seconds_of_rows + EXPOSED * seconds(work.panels(a), LINK);
        let price = Self::new(&ways, work.fetched, work.flops, seconds_of_solver);
        let Some(regrid) = work.regrid else { return price };
        let (traffic, memory_bytes) = (regrid.traffic(), regrid.memory_bytes());
        let added = seconds(traffic.sent, LINK)
            + seconds(traffic.messages, LATENCY.recip())
            + seconds(memory_bytes, MEMORY);
        Self {
            link_bytes: price.link_bytes + traffic.sent,
            rounds: price.rounds + traffic.messages,
            memory_bytes: price.memory_bytes + memory_bytes,
            seconds: price.seconds + added,
            ..price
        }
    }

    /// The redistributions of A, B and C, and 2·m·n·k operations, four times as many in complex arithmetic.
    #[expect(clippy::cast_precision_loss, reason = "a model of two digits")]
    pub(super) fn of_product([a, b, c]: [Way<'_>; 3]) -> Self {
        let elements = |dimension: &Dimension| dimension.cyclic().extent() as f64;
        let inner = match a.plan.view() {
            View::Plain => a.plan.cols(),
            View::Transposed => a.plan.rows(),
        };
        let result = elements(c.plan.rows()) * elements(c.plan.cols());
        let flops = f64::from(c.plan.dtype().parts().pow(2)) * 2.0 * result * elements(inner);
        Self::new(&[a, b, c], 0, flops, flops / rate_of_all(c.plan))
    }

    /// The redistributions of an eigenproblem's matrices, the bytes of right-hand sides that every device gets
    /// before them, and the operations of the solver.
    pub(super) fn of_eigen(a: &MatrixPlan, ways: &[Way<'_>], fetched: u64, flops: f64) -> Self {
        Self::new(ways, fetched, flops, flops / rate_of_all(a))
    }

    /// The ways of matrices, `fetched` bytes to every device before them, and the solver's operations.
    fn new(ways: &[Way<'_>], fetched: u64, flops: f64, seconds_of_flops: f64) -> Self {
        let busier = |plan: &MatrixPlan, reverse: bool| {
            let traffic = plan.busiest(reverse);
            traffic.sent.max(traffic.received)
        };
        let moved: u64 = ways.iter().map(|way| busier(way.plan, way.reverse)).sum();
        let link_bytes = moved + fetched;
        let rounds =
            ways.iter().map(|way| way.plan.rounds(way.reverse)).sum::<u64>() + u64::from(fetched > 0);
        let memory_bytes = ways.iter().map(|way| passes(way.plan, way.in_place)).sum();
        let seconds = seconds(link_bytes, LINK)
            + seconds(rounds, LATENCY.recip())
            + seconds(memory_bytes, MEMORY)
            + seconds_of_flops;
        Self { link_bytes, rounds, memory_bytes, flops, seconds }
    }
}

/// `amount` at so much a second.
#[expect(clippy::cast_precision_loss, reason = "a model of two digits")]
fn seconds(amount: u64, rate: f64) -> f64 {
    amount as f64 / rate
}

/// Real operations of order n: n³/3 of a Cholesky factorisation, twice as many of LU, 2·n² for each
/// right-hand side of a solve with both factors, n² with one; an inverse has n right-hand sides. Four times
/// as many in complex arithmetic.
#[expect(clippy::cast_precision_loss, reason = "a model of two digits")]
pub(super) fn flops(request: &SystemRequest, n: u64) -> f64 {
    let (n, nrhs) = (n as f64, request.nrhs as f64);
    let factorisation = match request.method {
        Method::Cholesky => n * n * n / 3.0,
        Method::Lu => 2.0 * n * n * n / 3.0,
        Method::Triangular => 0.0,
    };
    let solve = |columns: f64| match request.method {
        Method::Triangular => n * n * columns,
        Method::Cholesky | Method::Lu => 2.0 * n * n * columns,
    };
    let real = match request.task {
        Task::Solve => factorisation + solve(nrhs),
        Task::Apply => solve(nrhs),
        Task::Invert => factorisation + solve(n),
        Task::Prepare | Task::Determinant | Task::Factor => factorisation,
    };
    f64::from(request.dtype.parts().pow(2)) * real
}

/// Real operations of an eigenproblem of order n: 4·n³/3 for the tridiagonal matrix; with vectors up to 8·n³/3
/// for those of that matrix, by divide and conquer, and 2·n³ to bring them back (LAPACK Working Note 41). A
/// metric takes n³/3 for its factor, n³ for the reduction by it, and with vectors n³ for the way back. Two
/// products with the vectors apply a filtered inverse. Four times as many in complex arithmetic.
#[expect(clippy::cast_precision_loss, reason = "a model of two digits")]
pub(super) fn eigen_flops(request: &EigenRequest) -> f64 {
    let (n, nrhs) = (request.n as f64, request.nrhs as f64);
    let vectors = request.task != EigenTask::Values;
    let mut real = if vectors { 18.0 } else { 4.0 } / 3.0 * n * n * n;
    if request.metric {
        real += if vectors { 7.0 } else { 4.0 } / 3.0 * n * n * n;
    }
    real += 4.0 * n * n * nrhs;
    f64::from(request.dtype.parts().pow(2)) * real
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
    let lines = |axis: Axis, elements: u64| 2 * elements * plan.across(axis) * plan.dtype().size();
    let tile = |axis: Axis| match axis {
        Axis::Rows => plan.rows().tile(),
        Axis::Cols => plan.cols().tile(),
    };
    let reordering: u64 = (plan.reorderings().iter().filter(|_| reorders))
        .map(|(axis, permutation)| lines(*axis, permutation.moved() * tile(*axis)))
        .sum();
    // Packing, unpacking and moves; phases in one direction are alike for all devices, or nearly.
    let copying: u64 = plan.phases().iter().map(|(axis, phase)| lines(*axis, phase.moved(0).copied)).sum();
    let traffic = plan.busiest(false);
    stage_1 + reordering + copying + traffic.sent + traffic.received
}
