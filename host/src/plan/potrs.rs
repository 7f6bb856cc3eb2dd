//! The plan of a Cholesky solve: its candidates, and the cheapest of them.

use super::dimension::{Dimension, Order, Placement, Reading};
use super::matrix::{MatrixPlan, View};
use super::price::{Price, cholesky_flops};
use super::request::{Layout, Placements, PotrsRequest};
use super::tile::suggest_tile;
use super::{OperandSpec, explain};
use crate::device::Triangle as Part;
use crate::layout::ProcessGrid;
use crate::solver::Triangle;
use crate::{DType, Error, Result};

/// Words of device scratch that hold statuses and the log determinant.
pub const STATUS_BYTES: u64 = 64;

/// A way that a plan may take: whether tiles move or a reading is taken, and the view of A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// [`Layout::Stages`] or [`Layout::Reading`].
    pub layout: Layout,
    /// How A is taken.
    pub view: View,
}

impl Candidate {
    /// All of them; of equally cheap ones the first is taken.
    const ALL: [Self; 4] = [
        Self { layout: Layout::Stages, view: View::Plain },
        Self { layout: Layout::Reading, view: View::Plain },
        Self { layout: Layout::Stages, view: View::Transposed },
        Self { layout: Layout::Reading, view: View::Transposed },
    ];
}

impl std::fmt::Display for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.layout == Layout::Reading { "reading" } else { "stages" })?;
        f.write_str(if self.view == View::Transposed { ", transposed" } else { "" })
    }
}

/// What a candidate would cost, or why it is none.
pub(super) type Verdict = (Candidate, std::result::Result<Price, &'static str>);

/// A Cholesky solve: the ways of A, B and X, the scratch, the operands.
#[derive(Clone, Debug)]
pub struct PotrsPlan {
    request: PotrsRequest,
    candidate: Candidate,
    considered: Vec<Verdict>,
    price: Price,
    tile: u64,
    b_placements: Placements,
    a: MatrixPlan,
    b: MatrixPlan,
    roles: Vec<u64>,
    inputs: Vec<OperandSpec>,
    outputs: Vec<OperandSpec>,
}

impl PotrsPlan {
    /// Plans a request that was checked: the cheapest candidate.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if a reading is asked for and there is none.
    pub fn new(request: &PotrsRequest) -> Result<Self> {
        let (plans, considered) = Self::consider(request);
        // Of equal minima the first is taken.
        let cheapest = plans.into_iter().min_by(|Self { price: one, .. }, Self { price: other, .. }| {
            one.seconds.total_cmp(&other.seconds).then(one.link_bytes.cmp(&other.link_bytes))
        });
        cheapest.ok_or_else(|| no_reading(request, &considered))
    }

    /// Every candidate that is possible, each as a plan of its own; whatever it costs, it gives the
    /// same answer.
    pub fn candidates(request: &PotrsRequest) -> Vec<Self> {
        Self::consider(request).0
    }

    /// The plans of all candidates that are possible, and a word on each of the candidates.
    fn consider(request: &PotrsRequest) -> (Vec<Self>, Vec<Verdict>) {
        let tried = Candidate::ALL.map(|candidate| (candidate, Self::of(request, candidate)));
        let considered: Vec<Verdict> = (tried.iter())
            .map(|(candidate, plan)| (*candidate, plan.as_ref().map(|plan| plan.price).map_err(|&why| why)))
            .collect();
        let plans = tried.into_iter().filter_map(|(_, plan)| plan.ok());
        let plans = plans.map(|plan| Self { considered: considered.clone(), ..plan }).collect();
        (plans, considered)
    }

    /// The plan of one candidate, or why it is none.
    fn of(request: &PotrsRequest, candidate: Candidate) -> std::result::Result<Self, &'static str> {
        if request.layout != Layout::Auto && request.layout != candidate.layout {
            return Err("another layout was asked for");
        }
        let mesh = request.mesh();
        let grid = match candidate.view {
            View::Plain => mesh,
            View::Transposed => ProcessGrid::new(mesh.cols(), mesh.rows()),
        };
        let tile = request.tile.unwrap_or_else(|| suggest_tile(request.n, mesh));
        let [rows, cols] = orders(request, candidate.layout, tile, grid)?
            .map(|(procs, order)| Dimension::ordered(request.n, tile, procs, Placement::Sharded, order));
        if candidate.view == View::Transposed && !(rows.fits() && cols.fits()) {
            return Err("the tile does not divide the shards");
        }
        let a = MatrixPlan::new(request.dtype, grid, candidate.view, rows, cols);
        let b_placements = match candidate.view {
            View::Plain => request.b,
            // The solver's rows lie along the caller's columns, which no placement of B follows.
            View::Transposed => Placements { rows: Placement::Replicated, cols: Placement::Replicated },
        };
        let b = right_hand_sides(request, b_placements, tile, &a);
        let mut roles = vec![0; usize::try_from(mesh.size()).expect("ranks of this program")];
        for rank in 0..grid.size() {
            let place = mesh.rank(a.mesh_coordinate(rank));
            roles[usize::try_from(place).expect("a place in the mesh")] = rank;
        }

        let spec =
            |name, dtype, shape: [u64; 2]| OperandSpec { name, dtype, shape: shape.to_vec(), alias: None };
        let word = |name, dtype| OperandSpec { name, dtype, shape: vec![1], alias: None };
        let inputs =
            vec![spec("a", request.dtype, a.caller_shape()), spec("b", request.dtype, b.caller_shape())];
        let in_place = a.in_place() && !request.keep_a;
        let work_shape = if a.in_place() { a.caller_shape() } else { a.solver_shape() };
        let mut outputs = vec![
            OperandSpec { alias: in_place.then_some(0), ..spec("work", request.dtype, work_shape) },
            spec("b_work", request.dtype, b.solver_shape()),
            spec("x", request.dtype, b.caller_shape()),
        ];
        if request.log_det {
            outputs.push(word("log_det", request.dtype.real()));
        }
        outputs.push(word("status", DType::I32));

        let all_of_b = request.n * request.nrhs * request.dtype.size();
        let fetched = if b_placements == request.b { 0 } else { all_of_b - all_of_b / mesh.size() };
        let flops = cholesky_flops(request.dtype, a.rows().cyclic().extent(), request.nrhs);
        let price = Price::new(&a, in_place, &b, fetched, flops);
        let (request, considered) = (request.clone(), Vec::new());
        Ok(Self { request, candidate, considered, price, tile, b_placements, a, b, roles, inputs, outputs })
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

    /// The way of A.
    pub fn a(&self) -> &MatrixPlan {
        &self.a
    }

    /// The way of B, and of X back.
    pub fn b(&self) -> &MatrixPlan {
        &self.b
    }

    /// The triangle that the solver reads: the promised one as the view shows it, or the lower one.
    pub fn triangle(&self) -> Triangle {
        match (self.request.triangle, self.candidate.view) {
            (None, _) => Triangle::Lower,
            (Some(promised), View::Plain) => promised,
            (Some(Triangle::Lower), View::Transposed) => Triangle::Upper,
            (Some(Triangle::Upper), View::Transposed) => Triangle::Lower,
        }
    }

    /// The part of the solver's matrix that holds the caller's numbers.
    pub fn valid_part(&self) -> Part {
        match (self.request.triangle, self.triangle()) {
            (None, _) => Part::Both,
            (Some(_), Triangle::Lower) => Part::Lower,
            (Some(_), Triangle::Upper) => Part::Upper,
        }
    }

    /// Whether the solver's matrix is the conjugate of A: a Hermitian matrix's transpose is.
    pub fn conjugates(&self) -> bool {
        self.candidate.view == View::Transposed && self.request.dtype.parts() == 2
    }

    /// The request.
    pub fn request(&self) -> &PotrsRequest {
        &self.request
    }

    /// Device scratch in bytes, the solver's own not counted.
    pub fn scratch_bytes(&self) -> u64 {
        self.moving_bytes() + STATUS_BYTES
    }

    /// Device scratch of the redistributions, one allocation that A, B and X share.
    pub fn moving_bytes(&self) -> u64 {
        self.a.scratch_bytes().max(self.b.scratch_bytes()).next_multiple_of(16)
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
        let r = &self.request;
        let promise = match r.triangle {
            None => "both triangles valid".to_owned(),
            Some(triangle) => format!("only the {triangle:?} triangle promised").to_lowercase(),
        };
        let mut text = format!(
            "Cholesky solve, {}, n = {}, {} right-hand sides, {} × {} processes, tile {}, {promise}\n",
            r.dtype.name(),
            r.n,
            r.nrhs,
            r.grid[0],
            r.grid[1],
            self.tile
        );
        let shares = self.outputs[0].alias.is_some();
        explain::forward(&mut text, "A", &self.a, shares);
        explain::forward(&mut text, "B", &self.b, false);
        explain::reverse(&mut text, "X", &self.b);
        explain::memory(&mut text, &self.inputs, &self.outputs, self.scratch_bytes());
        explain::candidates(&mut text, self.candidate, &self.considered);
        text
    }
}

/// Processes and order of the rows and of the columns of the solver's matrix, or why there are none.
fn orders(
    request: &PotrsRequest,
    layout: Layout,
    tile: u64,
    grid: ProcessGrid,
) -> std::result::Result<[(u64, Order); 2], &'static str> {
    let sides = [grid.rows(), grid.cols()];
    if layout != Layout::Reading {
        return Ok(sides.map(|procs| (procs, Order::Natural)));
    }
    let (long, short) = (sides[0].max(sides[1]), sides[0].min(sides[1]));
    let divides = long.is_multiple_of(short);
    let reading = Reading::new(request.n, long, if divides { short } else { 1 });
    let whole = |count: u64| request.n.is_multiple_of(count * tile);
    if !(divides || whole(long) && whole(short)) {
        return Err("neither side of the grid divides the other, and the tile does not divide the shards");
    }
    if request.triangle.is_some() && !reading.keeps_order(tile) {
        return Err("it needs both triangles");
    }
    Ok(sides.map(|procs| {
        (procs, if divides || procs == long { Order::Read(reading) } else { Order::Dealt(reading) })
    }))
}

/// The way of B: its rows follow A's rows.
fn right_hand_sides(request: &PotrsRequest, placements: Placements, tile: u64, a: &MatrixPlan) -> MatrixPlan {
    let grid = a.grid();
    let rows = Dimension::ordered(request.n, tile, grid.rows(), placements.rows, a.rows().order());
    // One tile column of B for each process column: the solver spreads wide right-hand sides, and
    // no column of B ever moves in stages 2 and 3.
    let spread = request.nrhs.div_ceil(grid.cols()).max(1);
    let order = match (placements.cols, a.cols().order()) {
        // Each process column keeps the shard that its devices hold.
        (Placement::Sharded, Order::Read(reading)) => {
            let coarse = if reading.fine == grid.cols() { reading.coarse } else { 1 };
            Order::Read(Reading::new(request.nrhs, grid.cols(), coarse))
        }
        _ => Order::Natural,
    };
    let cols = Dimension::ordered(request.nrhs, spread, grid.cols(), placements.cols, order);
    MatrixPlan::new(request.dtype, grid, View::Plain, rows, cols)
}

fn no_reading(request: &PotrsRequest, considered: &[Verdict]) -> Error {
    let reasons: Vec<String> = (considered.iter())
        .filter(|(candidate, _)| candidate.layout == Layout::Reading)
        .filter_map(|(candidate, price)| Some(format!("{candidate}: {}", price.err()?)))
        .collect();
    let [rows, cols] = request.grid;
    Error::invalid_argument(format!(
        "layout \"reading\" was asked for, and on {rows} × {cols} processes there is none ({}). Use layout \
         \"auto\" or \"stages\"",
        reasons.join("; ")
    ))
}
