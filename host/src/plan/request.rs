//! What a caller asks for, as it comes over the C interface.

use super::dimension::Placement;
use crate::layout::ProcessGrid;
use crate::solver::Triangle;
use crate::{DType, Error, Result};
use serde::{Deserialize, Serialize};

/// A call to plan: the routine and everything that decides its data movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "routine", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Solve A·X = B with A Hermitian positive definite.
    Potrs(PotrsRequest),
}

/// Placement of a right-hand side along the two dimensions of the process grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placements {
    /// Of the rows along the process rows.
    pub rows: Placement,
    /// Of the columns along the process columns.
    pub cols: Placement,
}

/// How the solver's order of rows and columns may come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Whichever is cheaper.
    #[default]
    Auto,
    /// The caller's order: tiles move to where the solver wants them.
    Stages,
    /// An order under which the caller's shards lie where the solver wants them: a permutation of the
    /// rows and of the columns alike.
    Reading,
}

/// A Cholesky solve. A is n × n and sharded along both dimensions of the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PotrsRequest {
    /// Element type of A, B and X.
    pub dtype: DType,
    /// Order of A.
    pub n: u64,
    /// Columns of B.
    pub nrhs: u64,
    /// Rows and columns of the mesh over which A is sharded.
    pub grid: [u64; 2],
    /// Tile of A, chosen here if not given.
    pub tile: Option<u64>,
    /// Placement of B, and of X.
    pub b: Placements,
    /// The triangle that the caller promises; both are valid if none is named.
    pub triangle: Option<Triangle>,
    /// Whether ln det A is wanted.
    pub log_det: bool,
    /// Whether the caller needs A afterwards. Then the work matrix has memory of its own, and the
    /// conversion goes there directly; otherwise it shares A's where the tile allows it.
    #[serde(default)]
    pub keep_a: bool,
    /// How the solver's order may come about.
    #[serde(default)]
    pub layout: Layout,
}

/// Orders above this would overflow 64-bit byte counts somewhere.
const LARGEST_EXTENT: u64 = 1 << 28;
/// More processes than any machine has.
const LARGEST_GRID: u64 = 1 << 16;

impl Request {
    /// Reads a request from JSON.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`] if it is not one, or holds numbers out of range.
    pub fn from_json(text: &str) -> Result<Self> {
        let request: Self = serde_json::from_str(text)
            .map_err(|e| Error::invalid_argument(format!("this is no request that meshsolve knows: {e}")))?;
        let Self::Potrs(potrs) = &request;
        potrs.check()?;
        Ok(request)
    }
}

impl PotrsRequest {
    /// The caller's mesh, as a grid.
    pub fn mesh(&self) -> ProcessGrid {
        ProcessGrid::new(self.grid[0], self.grid[1])
    }

    fn check(&self) -> Result<()> {
        let range = |what: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Error::invalid_argument(format!("{what} is {value}; it must be from {low} to {high}")))
            }
        };
        range("the order of a", self.n, 0, LARGEST_EXTENT)?;
        range("the number of right-hand sides", self.nrhs, 0, LARGEST_EXTENT)?;
        range("the number of process rows", self.grid[0], 1, LARGEST_GRID)?;
        range("the number of process columns", self.grid[1], 1, LARGEST_GRID)?;
        range("the number of processes", self.grid[0] * self.grid[1], 1, LARGEST_GRID)?;
        if let Some(tile) = self.tile {
            range("the tile", tile, 1, LARGEST_EXTENT)?;
        }
        if !DType::ALL.contains(&self.dtype) {
            return Err(Error::invalid_argument(format!(
                "the element type is {:?}; it must be f32, f64, c64 or c128",
                self.dtype
            )));
        }
        Ok(())
    }
}
