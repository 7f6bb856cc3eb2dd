//! The plan of a product: its candidates, and the cheapest of them.

use super::candidate::{self, Candidate, Choice, Verdict, Wanted};
use super::dimension::{Dimension, Order, Placement, Reading};
use super::matrix::{MatrixPlan, View};
use super::price::{Price, Way};
use super::request::{Layout, ProductRequest};
use super::tile::{chosen_tile, suggest_tile};
use super::workspace::{Workspace, gemm};
use super::{OperandSpec, explain};
use crate::Result;
use crate::layout::ProcessGrid;
use std::fmt::Write as _;

/// The product C = A·B: the ways of A, B and C, the scratch, the operands.
///
/// Inputs are `a` and `b`, outputs `c` and then the solver's buffers `a_work`, `b_work` and `c_work`, as far
/// as they are needed: A and B are only read, and where a matrix lies as the solver wants it, it has none.
/// `a`, `b` and `c` are the caller's row-major shards; what shards hold beyond the matrix is never looked at,
/// and in `c` means nothing.
///
/// In the transposed view the solver computes Cᵀ = Bᵀ·Aᵀ, all three as they stand.
///
/// ```
/// use meshsolve::device::Buffer;
/// use meshsolve::plan::{Layout, Plan, ProductRequest, Request};
/// use meshsolve::simulate::{self, RankOperands};
/// use meshsolve::{DType, Result};
///
/// # fn main() -> Result<()> {
/// // A = [1 2; 3 4], B = [5 6; 7 8]; each of two processes holds a column of both.
/// let mut a = [[1.0, 3.0], [2.0, 4.0]];
/// let mut b = [[5.0, 7.0], [6.0, 8.0]];
/// let plan = Plan::new(&Request::Product(ProductRequest {
///     dtype: DType::F64,
///     m: 2,
///     n: 2,
///     k: 2,
///     grid: [1, 2],
///     tile: None,
///     layout: Layout::Auto,
///     view: None,
/// }))?;
/// // As they stand: Cᵀ comes to lie where C does.
/// assert_eq!(plan.outputs().len(), 1);
/// let mut c = [[0.0_f64; 2]; 2];
/// // SAFETY: the arrays outlive the call, which alone uses them.
/// let window = |memory: &mut [f64; 2]| unsafe { Buffer::from_raw(memory.as_mut_ptr().cast(), 16) };
/// let operands = (a.iter_mut().zip(&mut b).zip(&mut c))
///     .map(|((a, b), c)| RankOperands { inputs: vec![window(a), window(b)], outputs: vec![window(c)] })
///     .collect();
/// simulate::run(&plan, operands)?;
/// assert_eq!(c, [[19.0, 43.0], [22.0, 50.0]]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ProductPlan {
    request: ProductRequest,
    candidate: Candidate,
    considered: Vec<Verdict>,
    price: Price,
    tiles: [u64; 3],
    a: MatrixPlan,
    b: MatrixPlan,
    c: MatrixPlan,
    roles: Vec<u64>,
    inputs: Vec<OperandSpec>,
    outputs: Vec<OperandSpec>,
}

impl ProductPlan {
    /// Plans a request that was checked: the cheapest candidate.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if a layout or view is asked for that is not possible.
    pub fn new(request: &ProductRequest) -> Result<Self> {
        candidate::cheapest(request)
    }

    /// Every candidate that is possible, each as a plan of its own; whatever it costs, it gives the
    /// same product but for rounding.
    pub fn candidates(request: &ProductRequest) -> Vec<Self> {
        candidate::all(request)
    }

    /// The request.
    pub fn request(&self) -> &ProductRequest {
        &self.request
    }

    /// The solver's process grid.
    pub fn grid(&self) -> ProcessGrid {
        self.c.grid()
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

    /// The tile along k.
    pub fn inner_tile(&self) -> u64 {
        self.tiles[2]
    }

    /// The way of A.
    pub fn a(&self) -> &MatrixPlan {
        &self.a
    }

    /// The way of B.
    pub fn b(&self) -> &MatrixPlan {
        &self.b
    }

    /// The way of C, which is only gone back.
    pub fn c(&self) -> &MatrixPlan {
        &self.c
    }

    /// Device scratch in bytes, the solver's own not counted.
    pub fn scratch_bytes(&self) -> u64 {
        let scratch = [&self.a, &self.b, &self.c].map(MatrixPlan::scratch_bytes);
        scratch.into_iter().max().unwrap_or(0).next_multiple_of(16)
    }

    /// What a device needs beside A, B and C, in bytes, the solver's workspace not counted.
    pub fn temporary_bytes(&self) -> u64 {
        self.outputs[1..].iter().map(OperandSpec::bytes).sum::<u64>() + self.scratch_bytes()
    }

    /// Device workspace in bytes that the solver's library is estimated to ask for (see
    /// [`super::workspace`]).
    pub fn workspace_bytes(&self) -> u64 {
        let ProductRequest { dtype, m, n, .. } = self.request;
        if m == 0 || n == 0 {
            return 0;
        }
        gemm(dtype, self.c.rows().cyclic(), self.c.cols().cyclic(), self.inner_tile())
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
        let [m_tile, n_tile, k_tile] = self.tiles;
        let mut text = format!(
            "Product, {}, m = {}, n = {}, k = {}, {} × {} processes, tiles {m_tile}, {n_tile} and {k_tile}\n",
            r.dtype.name(),
            r.m,
            r.n,
            r.k,
            r.grid[0],
            r.grid[1],
        );
        explain::forward(&mut text, "A", &self.a, self.a.stays());
        explain::forward(&mut text, "B", &self.b, self.b.stays());
        explain::reverse(&mut text, "C", &self.c);
        let _ =
            writeln!(text, "  beside A, B and C on each device: {}", explain::bytes(self.temporary_bytes()));
        explain::memory(&mut text, &self.inputs, &self.outputs, self.scratch_bytes(), Some(workspace));
        explain::candidates(&mut text, self.candidate, &self.considered);
        text
    }
}

impl Choice for ProductPlan {
    type Request = ProductRequest;

    fn wanted(request: &ProductRequest) -> Wanted {
        Wanted { grid: request.grid, layout: request.layout, view: request.view, near_square: None }
    }

    fn of(request: &ProductRequest, candidate: Candidate) -> std::result::Result<Self, &'static str> {
        let ProductRequest { dtype, m, n, k, .. } = *request;
        let (mesh, view) = (request.mesh(), candidate.view);
        let grid = view.of_grid(mesh);
        let [pr, pc] = [mesh.rows(), mesh.cols()];
        let tile = |extent, sides: [u64; 2]| {
            chosen_tile(request.tile, extent, || suggest_tile(extent, ProcessGrid::new(sides[0], sides[1])))
        };
        // m lies over the process rows only and n over the process columns only; k over both, in B and in A.
        let tiles = [tile(m, [pr, 1]), tile(n, [1, pc]), tile(k, [pr, pc])];
        let [m_order, n_order, k_in_a, k_in_b] = match candidate.layout {
            Layout::Reading => {
                let reading = Reading::symmetric(k, tiles[2], [pr, pc])?;
                let beside = |extent, procs| Order::Read(reading.beside(extent, procs));
                [beside(m, pr), beside(n, pc), reading.over(pc), reading.over(pr)]
            }
            Layout::Auto | Layout::Stages => [Order::Natural; 4],
        };
        let along =
            |extent, tile, procs, order| Dimension::ordered(extent, tile, procs, Placement::Sharded, order);
        let (m, n) = (along(m, tiles[0], pr, m_order), along(n, tiles[1], pc, n_order));
        let [k_in_a, k_in_b] =
            [(pc, k_in_a), (pr, k_in_b)].map(|(procs, order)| along(k, tiles[2], procs, order));
        if view == View::Transposed {
            if ![m, n, k_in_a, k_in_b].iter().all(Dimension::fits) {
                return Err("the tile does not divide the shards");
            }
            // Stage 1, which would write zeros there, does not take place.
            if k_in_a.is_padded() {
                return Err("what the shards hold beyond k would be multiplied");
            }
        }
        let matrix = |rows, cols| match view {
            View::Plain => MatrixPlan::new(dtype, grid, view, rows, cols),
            View::Transposed => MatrixPlan::new(dtype, grid, view, cols, rows),
        };
        let (a, b, c) = (matrix(m, k_in_a), matrix(k_in_b, n), matrix(m, n));
        let roles = c.roles();
        assert!(a.roles() == roles && b.roles() == roles, "a device plays one role for all matrices");
        let price = Price::of_product([
            Way { plan: &a, reverse: false, in_place: a.stays() },
            Way { plan: &b, reverse: false, in_place: b.stays() },
            Way { plan: &c, reverse: true, in_place: c.in_place() },
        ]);
        let spec = |name, shape: [u64; 2]| OperandSpec { name, dtype, shape: shape.to_vec(), alias: None };
        let inputs = vec![spec("a", a.caller_shape()), spec("b", b.caller_shape())];
        let mut outputs = vec![spec("c", c.caller_shape())];
        outputs.extend((!a.stays()).then(|| spec("a_work", a.solver_shape())));
        outputs.extend((!b.stays()).then(|| spec("b_work", b.solver_shape())));
        outputs.extend((!c.in_place()).then(|| spec("c_work", c.solver_shape())));
        let (request, considered) = (request.clone(), Vec::new());
        Ok(Self { request, candidate, considered, price, tiles, a, b, c, roles, inputs, outputs })
    }

    fn price(&self) -> Price {
        self.price
    }

    fn beside(self, considered: &[Verdict]) -> Self {
        Self { considered: considered.to_vec(), ..self }
    }
}
