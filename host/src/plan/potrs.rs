//! The plan of a Cholesky solve.

use super::dimension::{Dimension, Placement};
use super::matrix::MatrixPlan;
use super::request::PotrsRequest;
use super::tile::suggest_tile;
use super::{OperandSpec, explain};
use crate::DType;
use crate::layout::ProcessGrid;
use crate::solver::Triangle;

/// Words of device scratch that hold statuses and the log determinant.
pub const STATUS_BYTES: u64 = 64;

/// A Cholesky solve: the ways of A, B and X, the scratch, the operands.
#[derive(Clone, Debug)]
pub struct PotrsPlan {
    request: PotrsRequest,
    tile: u64,
    a: MatrixPlan,
    b: MatrixPlan,
    inputs: Vec<OperandSpec>,
    outputs: Vec<OperandSpec>,
}

impl PotrsPlan {
    /// Plans a request that was checked.
    pub fn new(request: &PotrsRequest) -> Self {
        let grid = request.process_grid();
        let tile = request.tile.unwrap_or_else(|| suggest_tile(request.n, grid));
        let order = |procs| Dimension::new(request.n, tile, procs, Placement::Sharded);
        let a = MatrixPlan::new(request.dtype, grid, order(grid.rows()), order(grid.cols()));
        // One tile column of B for each process column: the solver spreads wide right-hand sides, and
        // no column of B ever moves in stages 2 and 3.
        let spread = request.nrhs.div_ceil(grid.cols()).max(1);
        let b = MatrixPlan::new(
            request.dtype,
            grid,
            Dimension::new(request.n, tile, grid.rows(), request.b.rows),
            Dimension::new(request.nrhs, spread, grid.cols(), request.b.cols),
        );
        let spec =
            |name, dtype, shape: [u64; 2]| OperandSpec { name, dtype, shape: shape.to_vec(), alias: None };
        let word = |name, dtype| OperandSpec { name, dtype, shape: vec![1], alias: None };
        let inputs =
            vec![spec("a", request.dtype, a.caller_shape()), spec("b", request.dtype, b.caller_shape())];
        let mut outputs = vec![
            OperandSpec {
                alias: (a.in_place() && !request.keep_a).then_some(0),
                ..spec("work", request.dtype, a.solver_shape())
            },
            spec("b_work", request.dtype, b.solver_shape()),
            spec("x", request.dtype, b.caller_shape()),
        ];
        if request.log_det {
            outputs.push(word("log_det", request.dtype.real()));
        }
        outputs.push(word("status", DType::I32));
        Self { request: request.clone(), tile, a, b, inputs, outputs }
    }

    /// The process grid.
    pub fn grid(&self) -> ProcessGrid {
        self.request.process_grid()
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

    /// The triangle that the solver reads: the promised one, or the lower one.
    pub fn triangle(&self) -> Triangle {
        self.request.triangle.unwrap_or(Triangle::Lower)
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
        text
    }
}
