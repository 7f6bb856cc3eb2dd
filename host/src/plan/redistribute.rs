//! The plan of a redistribution by itself: to the 2-D block-cyclic distribution, or back.

use super::dimension::{Dimension, Placement};
use super::matrix::{MatrixPlan, View};
use super::request::{Direction, RedistributeRequest};
use super::tile::{chosen_tile, suggest_tile};
use super::{OperandSpec, explain};
use serde::Serialize;

/// Extents below this are no reason for small tiles.
const SMALL_EXTENT: u64 = 64;

/// The local buffers of a block-cyclic matrix: column-major, of the same size on every process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LocalBuffers {
    /// Rows of each buffer, Lr: the distance of two columns in elements, if there is any row.
    pub rows: u64,
    /// Columns of each buffer, Lc.
    pub cols: u64,
    /// Rows that the processes of each process row own (ScaLAPACK's NUMROC); they stand first.
    pub owned_rows: Vec<u64>,
    /// Columns that the processes of each process column own.
    pub owned_cols: Vec<u64>,
}

/// A matrix on its way to the 2-D block-cyclic distribution or back, in the caller's order of rows and
/// columns (the stages of a [`MatrixPlan`]). Process (r, c) is the device at (r, c) of the caller's mesh.
///
/// | direction | inputs | outputs |
/// |---|---|---|
/// | forward | `a` | `cyclic` |
/// | reverse | `cyclic` | `a`, or `work` and `a` |
///
/// `a` is the row-major shard, ⌈m / Pr⌉ × ⌈n / Pc⌉. `cyclic` and `work` are a column-major local buffer,
/// and so, as a row-major shape, Lc × Lr; where the buffer and the shard share memory, both have the
/// shard's shape. The way back uses the block-cyclic matrix up, so that it works in `work`, or in `a` if
/// that may take over the memory of `cyclic`. Elements of a local buffer that the process does not own
/// mean nothing.
///
/// ```
/// use meshsolve::device::Buffer;
/// use meshsolve::plan::{Direction, Plan, RedistributeRequest, Request};
/// use meshsolve::simulate::{self, RankOperands};
/// use meshsolve::{DType, Result};
///
/// # fn main() -> Result<()> {
/// // The 4 × 4 matrix of elements 10·i + j, on 2 × 2 processes in shards of 2 × 2.
/// let mut shards = [
///     [0.0, 1.0, 10.0, 11.0],
///     [2.0, 3.0, 12.0, 13.0],
///     [20.0, 21.0, 30.0, 31.0],
///     [22.0, 23.0, 32.0, 33.0],
/// ];
/// let plan = Plan::new(&Request::Redistribute(RedistributeRequest {
///     dtype: DType::F64,
///     m: 4,
///     n: 4,
///     grid: [2, 2],
///     tile: Some(1),
///     direction: Direction::Forward,
///     keep_a: true,
/// }))?;
/// let mut local = [[0.0_f64; 4]; 4];
/// // SAFETY: both arrays outlive the call, which alone uses them.
/// let window = |memory: &mut [f64; 4]| unsafe { Buffer::from_raw(memory.as_mut_ptr().cast(), 32) };
/// let operands = (shards.iter_mut().zip(&mut local))
///     .map(|(a, cyclic)| RankOperands { inputs: vec![window(a)], outputs: vec![window(cyclic)] })
///     .collect();
/// simulate::run(&plan, operands)?;
/// // Process (0, 1) owns rows 0 and 2 of columns 1 and 3, and holds them column by column.
/// assert_eq!(local[1], [1.0, 21.0, 3.0, 23.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedistributePlan {
    request: RedistributeRequest,
    tile: u64,
    matrix: MatrixPlan,
    roles: Vec<u64>,
    inputs: Vec<OperandSpec>,
    outputs: Vec<OperandSpec>,
}

impl RedistributePlan {
    /// Plans a request that was checked.
    ///
    /// Without a tile it takes one that suits a square matrix of the smaller extent: the buffers of a
    /// narrow matrix then grow little when they are rounded up to whole tiles.
    pub fn new(request: &RedistributeRequest) -> Self {
        let grid = request.mesh();
        let smaller = request.m.min(request.n).max(SMALL_EXTENT);
        let tile = chosen_tile(request.tile, request.m.max(request.n), || suggest_tile(smaller, grid));
        let [rows, cols] = [(request.m, grid.rows()), (request.n, grid.cols())]
            .map(|(extent, procs)| Dimension::new(extent, tile, procs, Placement::Sharded));
        let matrix = MatrixPlan::new(request.dtype, grid, View::Plain, rows, cols);

        let spec = |name, shape: [u64; 2], alias: Option<usize>| OperandSpec {
            name,
            dtype: request.dtype,
            shape: shape.to_vec(),
            alias,
        };
        let in_place = matrix.in_place() && !request.keep_a;
        let taken_over = |given: bool| given.then_some(0);
        let shard = matrix.caller_shape();
        let [local_rows, local_cols] = matrix.solver_shape();
        // XLA lets only arrays of one shape share memory.
        let local = if in_place { shard } else { [local_cols, local_rows] };
        let (inputs, outputs) = match request.direction {
            Direction::Forward => {
                (vec![spec("a", shard, None)], vec![spec("cyclic", local, taken_over(in_place))])
            }
            Direction::Reverse if in_place => {
                (vec![spec("cyclic", local, None)], vec![spec("a", shard, taken_over(true))])
            }
            Direction::Reverse => (
                vec![spec("cyclic", local, None)],
                vec![spec("work", local, taken_over(!request.keep_a)), spec("a", shard, None)],
            ),
        };
        let roles = (0..grid.size()).collect();
        Self { request: request.clone(), tile, matrix, roles, inputs, outputs }
    }

    /// The request.
    pub fn request(&self) -> &RedistributeRequest {
        &self.request
    }

    /// The edge of the square tiles.
    pub fn tile(&self) -> u64 {
        self.tile
    }

    /// The way of the matrix.
    pub fn matrix(&self) -> &MatrixPlan {
        &self.matrix
    }

    /// The rank that the device at each place of the caller's mesh plays: its place, row by row.
    pub fn roles(&self) -> &[u64] {
        &self.roles
    }

    /// What the local buffers of the block-cyclic matrix hold.
    pub fn local_buffers(&self) -> LocalBuffers {
        let [rows, cols] = self.matrix.solver_shape();
        let owned = |dimension: &Dimension| -> Vec<u64> {
            (0..dimension.procs()).map(|proc| dimension.cyclic().count(proc)).collect()
        };
        LocalBuffers {
            rows,
            cols,
            owned_rows: owned(self.matrix.rows()),
            owned_cols: owned(self.matrix.cols()),
        }
    }

    /// Device scratch in bytes.
    pub fn scratch_bytes(&self) -> u64 {
        self.matrix.scratch_bytes()
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
        let way = match r.direction {
            Direction::Forward => "to the block-cyclic distribution",
            Direction::Reverse => "from the block-cyclic distribution",
        };
        let mut text = format!(
            "Redistribution {way}, {}, {} × {}, {} × {} processes, tile {}\n",
            r.dtype.name(),
            r.m,
            r.n,
            r.grid[0],
            r.grid[1],
            self.tile
        );
        match r.direction {
            Direction::Forward => {
                explain::forward(&mut text, "A", &self.matrix, self.outputs[0].alias.is_some());
            }
            Direction::Reverse => explain::reverse(&mut text, "A", &self.matrix),
        }
        explain::memory(&mut text, &self.inputs, &self.outputs, self.scratch_bytes(), None);
        text
    }
}
