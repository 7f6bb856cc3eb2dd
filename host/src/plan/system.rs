//! The plan of a square system or a part of its solution: its candidates, and the cheapest of them.

use super::candidate::{self, Candidate, Choice, Verdict, Wanted};
use super::dimension::{Dimension, Order, Placement, Reading};
use super::matrix::{MatrixPlan, View};
use super::price::{Price, Work, flops};
use super::regrid::Regrid;
use super::request::{Layout, Method, Placements, SystemRequest, Task};
use super::substitution::{Step, Substitution};
use super::tile::{chosen_tile, gcd, suggest_tile};
use super::workspace::{Sides, Square, WIDEST_BATCH, Workspace, gemm, gemm_transposed};
use super::{OperandSpec, STATUS_BYTES, explain};
use crate::device::Triangle as Part;
use crate::layout::{BlockCyclic, ProcessGrid};
use crate::solver::{Diagonal, Op, Triangle, Triangular};
use crate::{DType, Result};
use std::ops::Range;

/// A phase in f64, real and imaginary part.
const PHASE_BYTES: u64 = 16;

/// A square system: the ways of A, B and X, the scratch, the operands.
///
/// | task | inputs | outputs |
/// |---|---|---|
/// | [`Task::Solve`] | `a`, `b` | `work`, `b_work`, `x`, determinant, `status` |
/// | [`Task::Prepare`] | `a` | `factor`, of LU `pivots`, determinant, `status` |
/// | [`Task::Apply`] | `factor`, of LU `pivots`, `status`, `b` | `b_work`, `x` |
/// | [`Task::Determinant`] | `a` | `work`, determinant, `status` |
/// | [`Task::Invert`] | `a` | `work`, determinant, `x`, or `x_work` and `x`, `status` |
/// | [`Task::Factor`] | `a` | `x`, or `work` and `x`, `status` |
///
/// After `a` comes `shift`, if one is asked for: an element. The determinant is `log_det`, and of LU
/// `phase`, if asked for: ln |det A|, real, and det A / |det A|, an element. `a` and its like are the
/// caller's row-major shards; what they hold beyond the matrix is never looked at. `work`, `factor` and
/// `x_work` are the solver's buffers; `work` and `factor` take over A's memory where they may. `pivots` are the
/// words of [`crate::solver::pivot_bytes`].
#[derive(Clone, Debug)]
pub struct SystemPlan {
    request: SystemRequest,
    candidate: Candidate,
    considered: Vec<Verdict>,
    price: Price,
    tile: u64,
    b_placements: Placements,
    regrid: Option<Regrid>,
    a: MatrixPlan,
    b: Option<MatrixPlan>,
    /// Where it is not the way of B.
    x: Option<MatrixPlan>,
    roles: Vec<u64>,
    inputs: Vec<OperandSpec>,
    outputs: Vec<OperandSpec>,
}

impl SystemPlan {
    /// Plans a request that was checked: the cheapest candidate.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if a layout or view is asked for that is not possible.
    pub fn new(request: &SystemRequest) -> Result<Self> {
        candidate::cheapest(request)
    }

    /// Every candidate that is possible, each as a plan of its own; whatever it costs, it gives the
    /// same answer.
    pub fn candidates(request: &SystemRequest) -> Vec<Self> {
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

    /// How A comes to another mesh first, if it does.
    pub fn regrid(&self) -> Option<&Regrid> {
        self.regrid.as_ref()
    }

    /// The way of A.
    pub fn a(&self) -> &MatrixPlan {
        &self.a
    }

    /// The way of B, where there are right-hand sides.
    pub fn b(&self) -> Option<&MatrixPlan> {
        self.b.as_ref()
    }

    /// The way of X, which is only gone back: that of B unless the rows and the columns of A are read in
    /// different orders.
    pub fn x(&self) -> Option<&MatrixPlan> {
        self.x.as_ref().or(self.b.as_ref())
    }

    /// The triangle that the solver reads: the named one as the view shows it, or the lower one.
    pub fn triangle(&self) -> Triangle {
        triangle(self.request.triangle, self.candidate.view)
    }

    /// The part of the solver's matrix that holds the caller's numbers.
    pub fn valid_part(&self) -> Part {
        match (self.request.triangle, self.triangle()) {
            (None, _) => Part::Both,
            (Some(_), Triangle::Lower) => Part::Lower,
            (Some(_), Triangle::Upper) => Part::Upper,
        }
    }

    /// Whether B and X are to be conjugated: the solver's matrix is the conjugate of A, which a Hermitian
    /// matrix's transpose is, or the conjugate of what enters.
    pub fn conjugates(&self) -> bool {
        let conjugate = match self.request.method {
            Method::Cholesky => true,
            Method::Lu => false,
            Method::Triangular => self.request.op == Op::ConjugateTranspose,
        };
        conjugate && self.candidate.view == View::Transposed && self.request.dtype.parts() == 2
    }

    /// How the solver's matrix enters.
    pub fn op(&self) -> Op {
        match (self.request.op, self.candidate.view) {
            (op, View::Plain) => op,
            (Op::NoTranspose, View::Transposed) => Op::Transpose,
            (Op::Transpose | Op::ConjugateTranspose, View::Transposed) => Op::NoTranspose,
        }
    }

    /// Whether X comes by [`SystemPlan::substitutions`] instead of the library's call for a factored matrix.
    ///
    /// So do transposed solves by LU, which the library has not, and inverses: that by Cholesky factors can leave out
    /// zeros, and that by LU solves with the permutation, for which no rows have to be interchanged. Many right-hand
    /// sides do on one process, where two such solves take half of potrs' time (2048 on an H200, n = 16384); on
    /// several, products with a transposed matrix would ask for much workspace.
    pub fn substitutes(&self) -> bool {
        let are_many = || self.b.as_ref().is_some_and(|b| b.cols().cyclic().count(0) > WIDEST_BATCH);
        match (self.request.method, self.request.task) {
            (Method::Triangular, _) | (_, Task::Invert) => true,
            (Method::Cholesky, _) => self.grid().size() == 1 && are_many(),
            (Method::Lu, _) => self.request.op != Op::NoTranspose,
        }
    }

    /// The solves with triangular matrices that X comes by, one after the other: op(A) is their product, but for LU's
    /// permutation.
    pub fn substitutions(&self) -> Vec<Substitution> {
        let (triangle, op) = (self.triangle(), self.request.op);
        let (stored, ones) = (Diagonal::NonUnit, Diagonal::Unit);
        let forms = match self.request.method {
            Method::Triangular => {
                vec![(triangle, self.op(), if self.request.unit_diagonal { ones } else { stored })]
            }
            // A = L·Lᴴ or Uᴴ·U.
            Method::Cholesky => {
                let [first, second] = match triangle {
                    Triangle::Lower => [Op::NoTranspose, Op::ConjugateTranspose],
                    Triangle::Upper => [Op::ConjugateTranspose, Op::NoTranspose],
                };
                vec![(triangle, first, stored), (triangle, second, stored)]
            }
            // P·A = L·U, and op(A) = op(U)·op(L)·P.
            Method::Lu if op == Op::NoTranspose => {
                vec![(Triangle::Lower, op, ones), (Triangle::Upper, op, stored)]
            }
            Method::Lu => vec![(Triangle::Upper, op, stored), (Triangle::Lower, op, ones)],
        };
        let n = self.a.rows().cyclic().extent();
        // Few enough rows for little workspace, enough to keep the devices busy.
        let block = SUBSTITUTED.next_multiple_of(self.tile * lcm(self.grid().rows(), self.grid().cols()));
        let substitution =
            |(triangle, op, diagonal)| Substitution { form: Triangular { triangle, op, diagonal }, n, block };
        forms.into_iter().map(substitution).collect()
    }

    /// Right-hand sides on a process column that are solved for at a time by substitution.
    pub fn stripe(&self) -> u64 {
        if self.grid().size() == 1 { STRIPE_OF_ONE } else { STRIPE_OF_SEVERAL }
    }

    /// The request.
    pub fn request(&self) -> &SystemRequest {
        &self.request
    }

    /// Device scratch in bytes, the solver's own not counted.
    pub fn scratch_bytes(&self) -> u64 {
        self.moving_bytes() + STATUS_BYTES + self.phase_bytes() + self.pivoting_bytes()
    }

    /// Device scratch of the redistributions, one allocation that A, B and X share.
    pub fn moving_bytes(&self) -> u64 {
        let matrices = [Some(&self.a), self.b.as_ref(), self.x.as_ref()];
        let most = matrices.into_iter().flatten().map(MatrixPlan::scratch_bytes).max();
        let regrid = self.regrid.as_ref().map_or(0, Regrid::scratch_bytes);
        most.unwrap_or(0).max(regrid).next_multiple_of(16)
    }

    /// Device scratch of the phases of all ranks.
    pub fn phase_bytes(&self) -> u64 {
        if self.returns_phase() { PHASE_BYTES * self.grid().size() } else { 0 }
    }

    /// Device scratch of LU for pivots that are no output; of an inverse after them, and of a transposed solve, for
    /// all pivots and for the rows they lead to; of a transposed solve also for X before its rows are interchanged.
    pub fn pivoting_bytes(&self) -> u64 {
        let bytes = match (self.request.method, self.request.task) {
            (Method::Lu, Task::Solve | Task::Determinant) => self.own_pivot_bytes(),
            (Method::Lu, Task::Invert) => {
                self.own_pivot_bytes().next_multiple_of(16) + 2 * self.row_words_bytes()
            }
            (Method::Lu, Task::Apply) if self.request.op != Op::NoTranspose => {
                let [rows, cols] = self.b.as_ref().map_or([0; 2], MatrixPlan::caller_shape);
                (2 * self.row_words_bytes()) + rows * cols * self.request.dtype.size()
            }
            _ => 0,
        };
        bytes.next_multiple_of(16)
    }

    /// Bytes of the pivots that a device has room for.
    pub fn own_pivot_bytes(&self) -> u64 {
        PIVOT_BYTES * self.a.cols().capacity()
    }

    /// Bytes of a word for each row of the solver's matrix.
    pub fn row_words_bytes(&self) -> u64 {
        (4 * self.a.rows().cyclic().extent()).next_multiple_of(16)
    }

    /// Whether the phase of the determinant is a result.
    pub fn returns_phase(&self) -> bool {
        self.request.log_det && self.request.method == Method::Lu
    }

    /// Device workspace in bytes that the solver's library is estimated to ask for (see
    /// [`super::workspace`]): the most that any of its calls does.
    pub fn workspace_bytes(&self) -> u64 {
        let SystemRequest { n, method, task, .. } = self.request;
        if n == 0 {
            return 0;
        }
        let a = Square::of(&self.a);
        let factor = match method {
            _ if task == Task::Apply => 0,
            Method::Cholesky => a.potrf(),
            Method::Lu => a.getrf(),
            Method::Triangular => 0,
        };
        let sides = match task {
            // Those of the identity.
            Task::Invert => Some(&self.a),
            _ => self.b.as_ref(),
        };
        let sides = sides.map(|sides| sides.cols().cyclic()).filter(|cols| cols.extent() > 0);
        let solve = sides.map_or(0, |cols| match method {
            _ if self.substitutes() => self.workspace_of_substitutions(cols),
            Method::Lu => a.getrs(Sides::first_batch(cols)),
            _ => a.potrs(Sides::first_batch(cols)),
        });
        factor.max(solve)
    }

    /// Workspace of triangular solves in blocks for the right-hand sides in `cols`.
    fn workspace_of_substitutions(&self, cols: BlockCyclic) -> u64 {
        let a = Square::of(&self.a);
        let columns = cols.extent().min(cols.stripe(self.stripe()));
        let along = |extent, procs| BlockCyclic::new(extent, a.tile, procs);
        let length = |range: &Range<u64>| range.end - range.start;
        let of_step = |form: Triangular, step: Step| {
            let block = length(&step.rows);
            let trsm = Square { n: block, ..a }.trsm();
            if step.rest.is_empty() {
                return trsm;
            }
            let (rest, sides) = (length(&step.rest), cols.of_extent(step.columns));
            let gemm = match form.op {
                Op::NoTranspose => gemm(a.dtype, along(rest, a.grid.rows()), sides, a.tile),
                Op::Transpose | Op::ConjugateTranspose => {
                    gemm_transposed(a.dtype, along(block, a.grid.rows()), along(rest, a.grid.cols()), sides)
                }
            };
            trsm.max(gemm)
        };
        let of_solve = |solve: Substitution| {
            let steps = solve.steps(columns, self.inverts_identity().then_some(0));
            steps.map(|step| of_step(solve.form, step)).fold(0, u64::max)
        };
        self.substitutions().into_iter().map(of_solve).fold(0, u64::max)
    }

    /// Whether B is the identity, whose zeros substitution may leave out.
    pub fn inverts_identity(&self) -> bool {
        self.request.task == Task::Invert && self.request.method == Method::Cholesky
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
        let matrix = match (r.method, r.triangle) {
            (Method::Cholesky, None) => "both triangles valid".to_owned(),
            (Method::Cholesky, Some(triangle)) => {
                format!("only the {triangle:?} triangle promised").to_lowercase()
            }
            (Method::Lu, _) => "no structure known".to_owned(),
            (Method::Triangular, triangle) => {
                format!("{:?} triangular", triangle.unwrap_or(Triangle::Lower)).to_lowercase()
            }
        };
        let name = match (r.method, r.task) {
            (Method::Cholesky, Task::Solve) => "Cholesky solve",
            (Method::Cholesky, Task::Prepare) => "Cholesky factor for later solves",
            (Method::Cholesky, Task::Apply) => "Solve with a Cholesky factor",
            (Method::Cholesky, Task::Determinant) => "Determinant by Cholesky factors",
            (Method::Cholesky, Task::Invert) => "Inverse by Cholesky factors",
            (_, Task::Factor) => "Cholesky factor",
            (Method::Lu, Task::Solve) => "LU solve",
            (Method::Lu, Task::Prepare) => "LU factor for later solves",
            (Method::Lu, Task::Apply) => "Solve with an LU factor",
            (Method::Lu, Task::Determinant) => "Determinant by LU factors",
            (Method::Lu, Task::Invert) => "Inverse by LU factors",
            (Method::Triangular, _) => "Triangular solve",
        };
        let wide = if r.has_b() { format!("{} right-hand sides, ", r.nrhs) } else { String::new() };
        let mut text = format!(
            "{name}, {}, n = {}, {wide}{} × {} processes, tile {}, {matrix}\n",
            r.dtype.name(),
            r.n,
            r.grid[0],
            r.grid[1],
            self.tile
        );
        if let Some(regrid) = &self.regrid {
            explain::regrid(&mut text, "A", regrid);
        }
        if r.task != Task::Apply {
            let shares = self.regrid.is_some() || self.outputs.iter().any(|output| output.alias == Some(0));
            explain::forward(&mut text, "A", &self.a, shares);
        }
        if let (Some(b), Some(x)) = (self.b(), self.x()) {
            explain::forward(&mut text, "B", b, false);
            explain::reverse(&mut text, "X", x);
        }
        match r.task {
            Task::Invert => explain::reverse(&mut text, "inverse", &self.a),
            Task::Factor => explain::reverse(&mut text, "factor", &self.a),
            _ => {}
        }
        explain::memory(&mut text, &self.inputs, &self.outputs, self.scratch_bytes(), Some(workspace));
        explain::candidates(&mut text, self.candidate, &self.considered);
        text
    }
}

impl Choice for SystemPlan {
    type Request = SystemRequest;

    fn wanted(request: &SystemRequest) -> Wanted {
        Wanted {
            grid: request.grid,
            layout: request.layout,
            view: request.view,
            near_square: request.near_square,
        }
    }

    fn of(request: &SystemRequest, candidate: Candidate) -> std::result::Result<Self, &'static str> {
        let inverts = matches!(request.task, Task::Invert | Task::Determinant);
        if request.method == Method::Lu && candidate.view == View::Transposed && !inverts {
            return Err("LU factors of the transpose do not serve");
        }
        let tile = chosen_tile(request.tile, request.n, || suggest_tile(request.n, request.mesh()));
        let regrid = candidate.near_square.then(|| near_square(request, tile)).transpose()?;
        let mesh = regrid.as_ref().map_or(request.mesh(), Regrid::mesh);
        let grid = candidate.view.of_grid(mesh);
        let sides = [grid.rows(), grid.cols()];
        let [row_order, col_order] = match candidate.layout {
            Layout::Reading => reading(request, tile, sides)?,
            Layout::Auto | Layout::Stages => [Order::Natural; 2],
        };
        let [rows, cols] = [(sides[0], row_order), (sides[1], col_order)]
            .map(|(procs, order)| Dimension::ordered(request.n, tile, procs, Placement::Sharded, order));
        if candidate.view == View::Transposed && !(rows.fits() && cols.fits()) {
            return Err("the tile does not divide the shards");
        }
        let a = MatrixPlan::new(request.dtype, grid, candidate.view, rows, cols);
        let nowhere = Placements { rows: Placement::Replicated, cols: Placement::Replicated };
        let b_placements = match candidate.view {
            // The new mesh's rows and columns are none of the caller's.
            _ if regrid.is_some() => nowhere,
            // Rows of X are interchanged where all of them are.
            View::Plain if request.method == Method::Lu && request.op != Op::NoTranspose => {
                Placements { rows: Placement::Replicated, ..request.b }
            }
            View::Plain => request.b,
            // The solver's rows lie along the caller's columns, which no placement of B follows.
            View::Transposed => nowhere,
        };
        let sides = |order| MatrixPlan::right_hand_sides(&a, order, request.nrhs, b_placements);
        let [b, x] = if request.has_b() {
            // The rows of X are in the order of A's columns.
            let x_order = col_order.over(grid.rows());
            [Some(sides(row_order)), (x_order != row_order).then(|| sides(x_order))]
        } else {
            [None, None]
        };
        let roles = regrid.as_ref().map_or_else(|| a.roles(), |regrid| regrid.roles(&a));
        let [mut inputs, outputs] = operands(request, &a, b.as_ref());
        if let Some(regrid) = &regrid {
            inputs[0].shape = regrid.caller_shape().to_vec();
        }

        let all_of_b = request.n * request.nrhs * request.dtype.size();
        let fetched = if b_placements == request.b { 0 } else { all_of_b - all_of_b / mesh.size() };
        let factors = request.method != Method::Triangular && request.task != Task::Apply;
        let work = Work {
            brings_a: request.task != Task::Apply,
            returns_a: matches!(request.task, Task::Invert | Task::Factor),
            in_place: a.in_place() && (!request.keep_a || regrid.is_some()),
            regrid: regrid.as_ref(),
            fetched,
            flops: flops(request, a.rows().cyclic().extent()),
            factors,
            prefers_tall: request.method == Method::Cholesky,
            factors_upper: factors
                && request.method == Method::Cholesky
                && triangle(request.triangle, candidate.view) == Triangle::Upper,
        };
        let there_and_back = b.as_ref().map(|b| [b, x.as_ref().unwrap_or(b)]);
        let price = Price::of_system(&a, there_and_back, &work);
        let (request, considered) = (request.clone(), Vec::new());
        Ok(Self {
            request,
            candidate,
            considered,
            price,
            tile,
            b_placements,
            regrid,
            a,
            b,
            x,
            roles,
            inputs,
            outputs,
        })
    }

    fn may_be_near_square(request: &SystemRequest) -> bool {
        let [rows, cols] = request.grid;
        request.near_square == Some(true) || rows.min(cols) == 1 && rows.max(cols) > 3
    }

    fn price(&self) -> Price {
        self.price
    }

    fn beside(self, considered: &[Verdict]) -> Self {
        Self { considered: considered.to_vec(), ..self }
    }
}

/// The triangle that a view shows where one is promised; the lower one if both are valid.
fn triangle(promised: Option<Triangle>, view: View) -> Triangle {
    match (promised, view) {
        (None, _) => Triangle::Lower,
        (Some(promised), View::Plain) => promised,
        (Some(Triangle::Lower), View::Transposed) => Triangle::Upper,
        (Some(Triangle::Upper), View::Transposed) => Triangle::Lower,
    }
}

/// How A may come to a nearly square mesh, or why it may not.
fn near_square(request: &SystemRequest, tile: u64) -> std::result::Result<Regrid, &'static str> {
    if !matches!(request.task, Task::Solve | Task::Determinant) {
        return Err("what comes back, or is kept, lies on the caller's mesh");
    }
    if !request.keep_a {
        return Err("it needs memory of its own");
    }
    Regrid::new(request.n, request.dtype, tile, request.mesh())
}

/// The order of A's rows and columns under a reading, or why there is none.
fn reading(
    request: &SystemRequest,
    tile: u64,
    sides: [u64; 2],
) -> std::result::Result<[Order; 2], &'static str> {
    let n = request.n;
    let divides = sides[0].is_multiple_of(sides[1]) || sides[1].is_multiple_of(sides[0]);
    let whole = sides.iter().all(|procs| n.is_multiple_of(procs * tile));
    if request.method == Method::Lu && request.task == Task::Solve && !request.log_det && !divides && whole {
        // An order of its own for each side: Ã = Π·A·Qᵀ lies as the shards do, Ã·y = Π·b, and x = Qᵀ·y moves.
        return Ok(sides.map(|procs| Order::Read(Reading::new(n, procs, 1))));
    }
    let reading = Reading::symmetric(n, tile, sides)?;
    // A triangle stays one only in its own order.
    if request.triangle.is_some() && !reading.keeps_order(tile) {
        return Err("it needs both triangles");
    }
    Ok(sides.map(|procs| reading.over(procs)))
}

/// Rows in a block of a triangular solve, rounded up to whole tiles of all processes.
const SUBSTITUTED: u64 = 2048;
/// Right-hand sides of a substitution at a time, rounded down to whole tiles. On one process more take no less time
/// each; on several, products with a transposed matrix move it, and more share that.
const STRIPE_OF_ONE: u64 = 2048;
const STRIPE_OF_SEVERAL: u64 = 16_384;

fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}

/// Bytes of one pivot.
const PIVOT_BYTES: u64 = size_of::<i64>() as u64;

/// What each device passes in, and what it gets.
fn operands(request: &SystemRequest, a: &MatrixPlan, b: Option<&MatrixPlan>) -> [Vec<OperandSpec>; 2] {
    let SystemRequest { dtype, method, task, .. } = *request;
    let matrix = |name, shape: [u64; 2]| OperandSpec { name, dtype, shape: shape.to_vec(), alias: None };
    let words = |name, dtype, count| OperandSpec { name, dtype, shape: vec![count], alias: None };
    // The solver's buffer, in A's shape where it may be A's memory: XLA lets only arrays of one shape
    // share it.
    let buffer = |name| matrix(name, if a.in_place() { a.caller_shape() } else { a.solver_shape() });
    let in_place = a.in_place() && !request.keep_a;
    let instead_of_a = |name| OperandSpec { alias: in_place.then_some(0), ..buffer(name) };
    // 64-bit integers, which JAX has not by default, as pairs of words.
    let pivots = words("pivots", DType::I32, 2 * a.cols().capacity());
    let status = words("status", DType::I32, 1);
    let lu = method == Method::Lu;

    let mut inputs = Vec::new();
    if task == Task::Apply {
        inputs.push(buffer("factor"));
        inputs.extend(lu.then(|| pivots.clone()));
        inputs.push(status.clone());
    } else {
        inputs.push(matrix("a", a.caller_shape()));
        inputs.extend(request.shift.then(|| words("shift", dtype, 1)));
    }
    inputs.extend(b.map(|b| matrix("b", b.caller_shape())));

    let mut outputs = Vec::new();
    match task {
        Task::Prepare => {
            outputs.push(instead_of_a("factor"));
            outputs.extend(lu.then_some(pivots));
        }
        Task::Factor if a.in_place() => outputs.push(instead_of_a("x")),
        Task::Factor => outputs.extend([instead_of_a("work"), matrix("x", a.caller_shape())]),
        Task::Invert => {
            outputs.push(instead_of_a("work"));
            outputs.extend((!a.in_place()).then(|| buffer("x_work")));
            outputs.push(matrix("x", a.caller_shape()));
        }
        Task::Solve | Task::Determinant => outputs.push(instead_of_a("work")),
        Task::Apply => {}
    }
    if let Some(b) = b {
        outputs.extend([matrix("b_work", b.solver_shape()), matrix("x", b.caller_shape())]);
    }
    outputs.extend(request.log_det.then(|| words("log_det", dtype.real(), 1)));
    outputs.extend((request.log_det && lu).then(|| words("phase", dtype, 1)));
    outputs.extend((task != Task::Apply).then_some(status));
    [inputs, outputs]
}
