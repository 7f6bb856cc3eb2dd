//! The plan of a Hermitian eigenproblem: its candidates, and the cheapest of them.

use super::candidate::{self, Candidate, Choice, Verdict, Wanted};
use super::dimension::{Dimension, Order, Placement, Reading};
use super::matrix::{MatrixPlan, View};
use super::price::{Price, Way, eigen_flops};
use super::request::{EigenRequest, EigenTask, Layout, Placements};
use super::tile::{chosen_tile, suggest_eigen_tile};
use super::workspace::{Square, Workspace, gemm, gemm_transposed};
use super::{OperandSpec, STATUS_BYTES, explain};
use crate::device::Triangle as Part;
use crate::layout::ProcessGrid;
use crate::solver::Triangle;
use crate::{DType, Result};

/// A Hermitian eigenproblem: the ways of A, the metric, the vectors, B and X, the scratch, the operands.
///
/// | task | inputs | outputs |
/// |---|---|---|
/// | [`EigenTask::Values`] | `a` | `w`, `work`, `status` |
/// | [`EigenTask::Vectors`] | `a` | `w`, `v`, `v_work`, `work`, `status` |
/// | [`EigenTask::Solve`] | `a`, `cutoff`, `b` | `w`, `x`, `v_work`, `y_work`, `b_work`, `work`, `status` |
///
/// After `a` come `metric`, which has a buffer `metric_work` then, and `shift`, an element, as far as they
/// are asked for. `w` are all n eigenvalues, real and ascending, on every device; `cutoff` is a real number.
/// `a`, `metric` and `v` are the caller's row-major shards, of which what lies beyond the matrix is never looked at
/// and means nothing; the `…work` are the solver's buffers; `work` takes
/// over A's memory where it may. `v` has no buffer of the solver's beside it where it can be one itself.
///
/// A reading permutes rows and columns of A alike, which leaves the eigenvalues as they are and permutes the
/// rows of the vectors: those come back by the same reading. The vectors' columns are in the order of the
/// values, and so never read. The transposed view shows the conjugate of A, with the same values and conjugate
/// vectors, but vectors would come back transposed.
///
/// Where the tile does not divide the shards, a reading would need padding: A beside c·I with c > ‖A‖₁, so that the
/// values of the padding come last. That is no candidate. Every row of padding adds 3/n of the solver's time, which
/// for n = 16384 on an H200 is 0.6 ms, when the stages take a few milliseconds for all of A; and the solver's errors
/// are relative to its largest eigenvalue, which c makes up to √n times as large.
///
/// ```
/// use meshsolve::device::Buffer;
/// use meshsolve::plan::{Plan, Request};
/// use meshsolve::simulate::{self, RankOperands};
/// use meshsolve::Result;
///
/// # fn main() -> Result<()> {
/// // A = [2 1; 1 2]; each of two processes holds a column. Its eigenvalues are 1 and 3.
/// let mut a = [[2.0, 1.0], [1.0, 2.0]];
/// let plan = Plan::new(&Request::from_json(
///     r#"{"routine":"eigen","task":"values","dtype":"f64","n":2,"grid":[1,2],"tile":null,"triangle":null}"#,
/// )?)?;
/// let mut outputs: Vec<Vec<Vec<f64>>> =
///     vec![plan.outputs().iter().map(|spec| vec![0.0; spec.bytes().div_ceil(8) as usize]).collect(); 2];
/// // SAFETY: the memory outlives the call, which alone uses it.
/// let window = |memory: &mut [f64], bytes| unsafe { Buffer::from_raw(memory.as_mut_ptr().cast(), bytes) };
/// let operands = (a.iter_mut().zip(&mut outputs))
///     .map(|(a, outputs)| {
///         let a = window(a, 16);
///         let own = plan.outputs().iter().zip(outputs);
///         // A is not needed afterwards, so that its memory may be the solver's.
///         let outputs = own.map(|(spec, memory)| spec.alias.map_or_else(|| window(memory, spec.bytes()), |_| a));
///         RankOperands { inputs: vec![a], outputs: outputs.collect() }
///     })
///     .collect();
/// simulate::run(&plan, operands)?;
/// let w = plan.outputs().iter().position(|spec| spec.name == "w").unwrap();
/// for outputs in &outputs {
///     assert!((outputs[w][0] - 1.0).abs() < 1e-14 && (outputs[w][1] - 3.0).abs() < 1e-14);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EigenPlan {
    request: EigenRequest,
    candidate: Candidate,
    considered: Vec<Verdict>,
    price: Price,
    tile: u64,
    b_placements: Placements,
    a: MatrixPlan,
    v: Option<MatrixPlan>,
    b: Option<MatrixPlan>,
    roles: Vec<u64>,
    inputs: Vec<OperandSpec>,
    outputs: Vec<OperandSpec>,
}

impl EigenPlan {
    /// Plans a request that was checked: the cheapest candidate.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if a layout or view is asked for that is not possible.
    pub fn new(request: &EigenRequest) -> Result<Self> {
        candidate::cheapest(request)
    }

    /// Every candidate that is possible, each as a plan of its own; whatever it costs, it gives the
    /// same values, and vectors up to their phases.
    pub fn candidates(request: &EigenRequest) -> Vec<Self> {
        candidate::all(request)
    }

    /// The solver's process grid.
    pub fn grid(&self) -> ProcessGrid {
        self.a.grid()
    }

    /// For each place in the caller's mesh, row-major, the rank in the solver's grid that the device
    /// there plays.
    pub fn roles(&self) -> &[u64] {
        &self.roles
    }

    /// The way taken.
    pub fn candidate(&self) -> Candidate {
        self.candidate
    }

    /// Where B has to lie, and X comes to lie.
    pub fn b_placements(&self) -> Placements {
        self.b_placements
    }

    /// The tile of A.
    pub fn tile(&self) -> u64 {
        self.tile
    }

    /// The way of A, and of the metric.
    pub fn a(&self) -> &MatrixPlan {
        &self.a
    }

    /// The way of the vectors, which is only gone back, where they are wanted.
    pub fn v(&self) -> Option<&MatrixPlan> {
        self.v.as_ref()
    }

    /// The way of B, and of X back, where there are right-hand sides.
    pub fn b(&self) -> Option<&MatrixPlan> {
        self.b.as_ref()
    }

    /// The part of the solver's matrices that holds the caller's numbers.
    pub fn valid_part(&self) -> Part {
        if self.request.triangle.is_none() { Part::Both } else { Part::Lower }
    }

    /// Whether B and X are to be conjugated: the solver's matrix is the conjugate of A.
    pub fn conjugates(&self) -> bool {
        self.candidate.view == View::Transposed && self.request.dtype.parts() == 2
    }

    /// The request.
    pub fn request(&self) -> &EigenRequest {
        &self.request
    }

    /// Device scratch in bytes, the solver's own not counted.
    pub fn scratch_bytes(&self) -> u64 {
        self.moving_bytes() + STATUS_BYTES
    }

    /// Device scratch of the redistributions, one allocation that all matrices share.
    pub fn moving_bytes(&self) -> u64 {
        let matrices = [Some(&self.a), self.v.as_ref(), self.b.as_ref()];
        let most = matrices.into_iter().flatten().map(MatrixPlan::scratch_bytes).max();
        most.unwrap_or(0).next_multiple_of(16)
    }

    /// Device workspace in bytes that the solver's library is estimated to ask for (see
    /// [`super::workspace`]): the most that any of its calls does.
    pub fn workspace_bytes(&self) -> u64 {
        let EigenRequest { dtype, n, task, metric, .. } = self.request;
        if n == 0 {
            return 0;
        }
        let (a, vectors) = (Square::of(&self.a), task != EigenTask::Values);
        let eigen = if metric { a.sygvd(vectors).max(a.potrf()) } else { a.syevd(vectors) };
        // Vᴴ·B, and V times that.
        let rows = self.a.rows().cyclic();
        let products = self.b.as_ref().map(|b| b.cols().cyclic()).map_or(0, |sides| {
            let cols = self.a.cols().cyclic();
            gemm_transposed(dtype, rows, cols, sides).max(gemm(dtype, rows, sides, rows.tile()))
        });
        eigen.max(products)
    }

    /// What each device passes in.
    pub fn inputs(&self) -> &[OperandSpec] {
        &self.inputs
    }

    /// What each device gets.
    pub fn outputs(&self) -> &[OperandSpec] {
        &self.outputs
    }

    /// The plan in words, for people.
    pub fn explain(&self) -> String {
        self.explain_with(Workspace::Estimated(self.workspace_bytes()))
    }

    /// The plan in words, with what is known of the solver's workspace.
    pub(super) fn explain_with(&self, workspace: Workspace) -> String {
        let r = &self.request;
        let name = match r.task {
            EigenTask::Values => "Eigenvalues".to_owned(),
            EigenTask::Vectors => "Eigenvalues and eigenvectors".to_owned(),
            EigenTask::Solve => format!("Solve by eigenvalues, {} right-hand sides", r.nrhs),
        };
        let metric = if r.metric { ", with a metric" } else { "" };
        let triangles = match r.triangle {
            None => "both triangles valid".to_owned(),
            Some(triangle) => format!("only the {triangle:?} triangle promised").to_lowercase(),
        };
        let mut text = format!(
            "{name}{metric}, {}, n = {}, {} × {} processes, tile {}, {triangles}\n",
            r.dtype.name(),
            r.n,
            r.grid[0],
            r.grid[1],
            self.tile
        );
        let shares = self.outputs.iter().any(|output| output.alias == Some(0));
        explain::forward(&mut text, "A", &self.a, shares);
        if r.metric {
            explain::forward(&mut text, "metric", &self.a, false);
        }
        if let Some(v) = &self.v {
            explain::reverse(&mut text, "V", v);
        }
        if let Some(b) = &self.b {
            explain::forward(&mut text, "B", b, false);
            explain::reverse(&mut text, "X", b);
        }
        explain::memory(&mut text, &self.inputs, &self.outputs, self.scratch_bytes(), Some(workspace));
        explain::candidates(&mut text, self.candidate, &self.considered);
        text
    }
}

impl Choice for EigenPlan {
    type Request = EigenRequest;

    fn wanted(request: &EigenRequest) -> Wanted {
        Wanted { grid: request.grid, layout: request.layout, view: request.view, near_square: None }
    }

    fn of(request: &EigenRequest, candidate: Candidate) -> std::result::Result<Self, &'static str> {
        let EigenRequest { dtype, n, task, triangle, .. } = *request;
        let view = candidate.view;
        let returns_vectors = task == EigenTask::Vectors;
        if returns_vectors && view == View::Transposed {
            return Err("vectors would come back transposed");
        }
        let read = if view == View::Plain { Triangle::Lower } else { Triangle::Upper };
        if triangle.is_some_and(|promised| promised != read) {
            return Err("the solver would read the other triangle");
        }
        let mesh = request.mesh();
        let grid = view.of_grid(mesh);
        let tile = chosen_tile(request.tile, n, || suggest_eigen_tile(n, mesh));
        let sides = [grid.rows(), grid.cols()];
        let [row_order, col_order] = match candidate.layout {
            Layout::Reading => reading(n, tile, sides, returns_vectors, triangle)?,
            Layout::Auto | Layout::Stages => [Order::Natural; 2],
        };
        let along = |procs, order| Dimension::ordered(n, tile, procs, Placement::Sharded, order);
        let (rows, cols) = (along(sides[0], row_order), along(sides[1], col_order));
        if view == View::Transposed && !(rows.fits() && cols.fits()) {
            return Err("the tile does not divide the shards");
        }
        let a = MatrixPlan::new(dtype, grid, view, rows, cols);
        let v = returns_vectors
            .then(|| MatrixPlan::new(dtype, grid, view, rows, along(sides[1], Order::Natural)));
        let roles = a.roles();
        assert!(v.as_ref().is_none_or(|v| v.roles() == roles), "a device plays one role for all matrices");
        let b_placements = match view {
            View::Plain => request.b,
            // The solver's rows lie along the caller's columns, which no placement of B follows.
            View::Transposed => Placements { rows: Placement::Replicated, cols: Placement::Replicated },
        };
        let b = (task == EigenTask::Solve)
            .then(|| MatrixPlan::right_hand_sides(&a, row_order, request.nrhs, b_placements));
        let [inputs, outputs] = operands(request, &a, v.as_ref(), b.as_ref());

        let way = |plan, reverse, in_place| Way { plan, reverse, in_place };
        let mut ways = vec![way(&a, false, a.in_place() && !request.keep_a)];
        ways.extend(request.metric.then(|| way(&a, false, false)));
        ways.extend(v.as_ref().map(|v| way(v, true, v.in_place())));
        ways.extend(b.iter().flat_map(|b| [way(b, false, false), way(b, true, false)]));
        let all_of_b = n * request.nrhs * dtype.size();
        let fetched = if b_placements == request.b { 0 } else { all_of_b - all_of_b / mesh.size() };
        let price = Price::of_eigen(&a, &ways, fetched, eigen_flops(request));
        let (request, considered) = (request.clone(), Vec::new());
        Ok(Self {
            request,
            candidate,
            considered,
            price,
            tile,
            b_placements,
            a,
            v,
            b,
            roles,
            inputs,
            outputs,
        })
    }

    fn price(&self) -> Price {
        self.price
    }

    fn beside(self, considered: &[Verdict]) -> Self {
        Self { considered: considered.to_vec(), ..self }
    }
}

/// The order of A's rows and columns under a reading, or why there is none.
fn reading(
    n: u64,
    tile: u64,
    sides: [u64; 2],
    returns_vectors: bool,
    triangle: Option<Triangle>,
) -> std::result::Result<[Order; 2], &'static str> {
    let reading = if returns_vectors && sides[1] > sides[0] {
        // The vectors' columns lie in the order of the mesh.
        Reading::in_mesh_order(n, tile, sides).ok_or("the tile does not divide the shards")?
    } else {
        Reading::symmetric(n, tile, sides)?
    };
    if reading.extent(tile) > n {
        // Padding would have eigenvalues of its own among those of A.
        return Err("the tile does not divide the shards");
    }
    // A triangle stays one only in its own order.
    if triangle.is_some() && !reading.keeps_order(tile) {
        return Err("it needs both triangles");
    }
    Ok(sides.map(|procs| reading.over(procs)))
}

/// What each device passes in, and what it gets.
fn operands(
    request: &EigenRequest,
    a: &MatrixPlan,
    v: Option<&MatrixPlan>,
    b: Option<&MatrixPlan>,
) -> [Vec<OperandSpec>; 2] {
    let EigenRequest { dtype, .. } = *request;
    let matrix = |name, shape: [u64; 2]| OperandSpec { name, dtype, shape: shape.to_vec(), alias: None };
    let words = |name, dtype, count| OperandSpec { name, dtype, shape: vec![count], alias: None };

    let mut inputs = vec![matrix("a", a.caller_shape())];
    inputs.extend(request.metric.then(|| matrix("metric", a.caller_shape())));
    inputs.extend(request.shift.then(|| words("shift", dtype, 1)));
    if let Some(b) = b {
        inputs.extend([words("cutoff", dtype.real(), 1), matrix("b", b.caller_shape())]);
    }

    let mut outputs = vec![words("w", dtype.real(), request.n)];
    if let Some(v) = v {
        outputs.push(matrix("v", v.caller_shape()));
        outputs.extend((!v.in_place()).then(|| matrix("v_work", v.solver_shape())));
    }
    if let Some(b) = b {
        outputs.extend([
            matrix("x", b.caller_shape()),
            matrix("v_work", a.solver_shape()),
            matrix("y_work", b.solver_shape()),
            matrix("b_work", b.solver_shape()),
        ]);
    }
    // In A's shape where it may be A's memory: XLA lets only arrays of one shape share it.
    let work = matrix("work", if a.in_place() { a.caller_shape() } else { a.solver_shape() });
    outputs.push(OperandSpec { alias: (a.in_place() && !request.keep_a).then_some(0), ..work });
    outputs.extend(request.metric.then(|| matrix("metric_work", a.solver_shape())));
    outputs.push(words("status", DType::I32, 1));
    [inputs, outputs]
}
