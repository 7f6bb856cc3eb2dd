//! What a caller asks for, as it comes over the C interface.

use super::dimension::Placement;
use super::matrix::View;
use crate::layout::ProcessGrid;
use crate::solver::{Op, Triangle};
use crate::{DType, Error, Result};
use serde::{Deserialize, Serialize};

/// A call to plan: the routine and everything that decides its data movement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "routine", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Solve A·X = B, or do a part of it.
    System(SystemRequest),
    /// Eigenvalues and eigenvectors of a Hermitian matrix, or what is solved by them.
    Eigen(EigenRequest),
    /// Multiply two matrices.
    Product(ProductRequest),
    /// Bring a matrix into the 2-D block-cyclic distribution, or back.
    Redistribute(RedistributeRequest),
}

/// Placement of a right-hand side along the two dimensions of the process grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What is known of a system's matrix, and so how it is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Hermitian positive definite: by Cholesky factors (LAPACK's potrf, potrs).
    Cholesky,
    /// Nothing: by LU factors with partial pivoting (getrf, getrs).
    Lu,
    /// Triangular: by substitution (trsm).
    Triangular,
}

/// What is wanted of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// From A and B the solution X.
    Solve,
    /// From A its factor in the solver's distribution, for any number of [`Task::Apply`].
    Prepare,
    /// From a prepared factor and B the solution X.
    Apply,
    /// From A its determinant alone.
    Determinant,
    /// From A its inverse, which comes back as A lies.
    Invert,
    /// From A its Cholesky factor, which comes back as A lies, in A's order, with zeros beside it.
    Factor,
}

/// A square system op(A)·X = B, or a part of its solution. A is n × n and sharded along both dimensions of
/// the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemRequest {
    /// How A is solved with.
    pub method: Method,
    /// What is wanted.
    pub task: Task,
    /// Element type of A, B and X.
    pub dtype: DType,
    /// Order of A.
    pub n: u64,
    /// Columns of B.
    #[serde(default)]
    pub nrhs: u64,
    /// Rows and columns of the mesh over which A is sharded.
    pub grid: [u64; 2],
    /// Tile of A, chosen here if not given.
    pub tile: Option<u64>,
    /// Placement of B, and of X.
    #[serde(default)]
    pub b: Placements,
    /// Of a positive definite matrix the triangle that the caller promises; both are valid if none is named.
    /// Of a Cholesky factor that is wanted, and of a triangular matrix, the triangle that it is.
    pub triangle: Option<Triangle>,
    /// How A enters; other than as it stands only if it is triangular or a prepared LU factor.
    #[serde(default)]
    pub op: Op,
    /// Whether the diagonal of a triangular matrix is ones, whatever is stored there.
    #[serde(default)]
    pub unit_diagonal: bool,
    /// Whether ln |det A| is wanted; of LU the phase det A / |det A|, too.
    #[serde(default)]
    pub log_det: bool,
    /// Whether A + λ·I is meant, λ being passed in.
    #[serde(default)]
    pub shift: bool,
    /// Whether the caller needs A afterwards. Then the work matrix has memory of its own, and the
    /// conversion goes there directly; otherwise it shares A's where the tile allows it.
    #[serde(default)]
    pub keep_a: bool,
    /// How the solver's order may come about.
    #[serde(default)]
    pub layout: Layout,
    /// How A is to be taken; chosen here if not given.
    #[serde(default)]
    pub view: Option<View>,
    /// Whether A on a mesh of one axis is brought to a nearly square one first; chosen here if not given.
    #[serde(default)]
    pub near_square: Option<bool>,
}

/// What is wanted of a Hermitian eigenproblem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EigenTask {
    /// The eigenvalues.
    Values,
    /// The eigenvalues, and the eigenvectors as the columns of a matrix that lies as A does.
    Vectors,
    /// The solution of A·X = B of least norm with the least residual, from the eigenvalues that are not
    /// negligible: X = V·f(Λ)·Vᴴ·B, where f(λ) = 1/λ if |λ| > c·max |λ| and else 0, c being passed in.
    Solve,
}

/// A Hermitian eigenproblem A·v = λ·v, or A·v = λ·M·v with a positive definite M, the metric. Both are n × n
/// and sharded alike along both dimensions of the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EigenRequest {
    /// What is wanted.
    pub task: EigenTask,
    /// Element type of A, M, B and X.
    pub dtype: DType,
    /// Order of A.
    pub n: u64,
    /// Columns of B.
    #[serde(default)]
    pub nrhs: u64,
    /// Rows and columns of the mesh over which A is sharded.
    pub grid: [u64; 2],
    /// Tile of A, chosen here if not given.
    pub tile: Option<u64>,
    /// Placement of B, and of X.
    #[serde(default)]
    pub b: Placements,
    /// The triangle of A and of M that the caller promises; both are valid if none is named. Solvers read the
    /// lower one, so that vectors need that one.
    pub triangle: Option<Triangle>,
    /// Whether there is a metric.
    #[serde(default)]
    pub metric: bool,
    /// Whether A + λ·I is meant, λ being passed in.
    #[serde(default)]
    pub shift: bool,
    /// Whether the caller needs A afterwards; as for a system. The metric is always kept.
    #[serde(default)]
    pub keep_a: bool,
    /// How the solver's order may come about.
    #[serde(default)]
    pub layout: Layout,
    /// How A is to be taken; chosen here if not given.
    #[serde(default)]
    pub view: Option<View>,
}

/// The product C = A·B of an m × k and a k × n matrix. All three are sharded along both dimensions of the
/// grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProductRequest {
    /// Element type of A, B and C.
    pub dtype: DType,
    /// Rows of A and of C.
    pub m: u64,
    /// Columns of B and of C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// Rows and columns of the mesh over which the matrices are sharded.
    pub grid: [u64; 2],
    /// Edge of the square tiles, chosen here for each of m, n and k if not given.
    pub tile: Option<u64>,
    /// How the solver's order of m, n and k may come about.
    #[serde(default)]
    pub layout: Layout,
    /// How the matrices are to be taken; chosen here if not given.
    #[serde(default)]
    pub view: Option<View>,
}

/// Which way a redistribution goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the caller's shards to the block-cyclic distribution.
    Forward,
    /// Back to the caller's shards.
    Reverse,
}

/// A redistribution by itself. A is m × n and sharded along both dimensions of the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedistributeRequest {
    /// Element type of A.
    pub dtype: DType,
    /// Rows of A.
    pub m: u64,
    /// Columns of A.
    pub n: u64,
    /// Rows and columns of the mesh over which A is sharded; the process grid of the block-cyclic
    /// distribution is the same.
    pub grid: [u64; 2],
    /// Edge of the square tiles, chosen here if not given.
    pub tile: Option<u64>,
    /// Which way.
    pub direction: Direction,
    /// Whether the caller needs what it passes in afterwards. Otherwise the work is done in that memory
    /// as far as possible.
    #[serde(default)]
    pub keep_a: bool,
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
        match &request {
            Self::System(system) => system.check()?,
            Self::Eigen(eigen) => eigen.check()?,
            Self::Product(product) => product.check()?,
            Self::Redistribute(redistribute) => redistribute.check()?,
        }
        Ok(request)
    }
}

impl SystemRequest {
    /// The caller's mesh, as a grid.
    pub fn mesh(&self) -> ProcessGrid {
        ProcessGrid::new(self.grid[0], self.grid[1])
    }

    /// Whether there are right-hand sides.
    pub fn has_b(&self) -> bool {
        matches!(self.task, Task::Solve | Task::Apply)
    }

    fn check(&self) -> Result<()> {
        range("the order of a", self.n, 0, LARGEST_EXTENT)?;
        range("the number of right-hand sides", self.nrhs, 0, LARGEST_EXTENT)?;
        check_distribution(self.dtype, self.grid, self.tile)?;
        let Self { method, task, .. } = *self;
        let cholesky = method == Method::Cholesky;
        let triangular = method == Method::Triangular;
        let refused = [
            (triangular && task != Task::Solve, "a triangular matrix is only solved with"),
            (task == Task::Factor && !cholesky, "only a Cholesky factor comes back in the order of a"),
            (
                (triangular || task == Task::Factor) && self.triangle.is_none(),
                "a triangular matrix needs its triangle named",
            ),
            (
                method == Method::Lu && self.triangle.is_some(),
                "LU reads all of a: no triangle can be promised",
            ),
            (
                self.op != Op::NoTranspose && !(triangular || method == Method::Lu && task == Task::Apply),
                "only a triangular matrix and a prepared LU factor may enter transposed",
            ),
            (self.unit_diagonal && !triangular, "only a triangular matrix has a diagonal of ones"),
            (
                self.log_det && (triangular || matches!(task, Task::Apply | Task::Factor)),
                "a determinant comes only with a factorisation",
            ),
            (self.shift && task == Task::Apply, "a factor cannot be shifted"),
        ];
        match refused.into_iter().find(|(wrong, _)| *wrong) {
            None => Ok(()),
            Some((_, why)) => Err(Error::invalid_argument(format!("{why}: got {method:?}, {task:?}"))),
        }
    }
}

impl EigenRequest {
    /// The caller's mesh, as a grid.
    pub fn mesh(&self) -> ProcessGrid {
        ProcessGrid::new(self.grid[0], self.grid[1])
    }

    fn check(&self) -> Result<()> {
        range("the order of a", self.n, 0, LARGEST_EXTENT)?;
        range("the number of right-hand sides", self.nrhs, 0, LARGEST_EXTENT)?;
        check_distribution(self.dtype, self.grid, self.tile)?;
        let refused = [
            (
                self.task == EigenTask::Vectors && self.triangle == Some(Triangle::Upper),
                "the solver finds eigenvectors from the lower triangle: the upper one was promised",
            ),
            (
                self.task == EigenTask::Solve && self.metric,
                "a system is solved by eigenvalues without a metric: one was announced",
            ),
        ];
        match refused.into_iter().find(|(wrong, _)| *wrong) {
            None => Ok(()),
            Some((_, why)) => Err(Error::invalid_argument(why)),
        }
    }
}

impl ProductRequest {
    /// The caller's mesh, as a grid.
    pub fn mesh(&self) -> ProcessGrid {
        ProcessGrid::new(self.grid[0], self.grid[1])
    }

    fn check(&self) -> Result<()> {
        range("the number of rows of a", self.m, 0, LARGEST_EXTENT)?;
        range("the number of columns of b", self.n, 0, LARGEST_EXTENT)?;
        range("the number of columns of a", self.k, 0, LARGEST_EXTENT)?;
        check_distribution(self.dtype, self.grid, self.tile)
    }
}

impl RedistributeRequest {
    /// The caller's mesh, as a grid.
    pub fn mesh(&self) -> ProcessGrid {
        ProcessGrid::new(self.grid[0], self.grid[1])
    }

    fn check(&self) -> Result<()> {
        range("the number of rows of a", self.m, 0, LARGEST_EXTENT)?;
        range("the number of columns of a", self.n, 0, LARGEST_EXTENT)?;
        check_distribution(self.dtype, self.grid, self.tile)
    }
}

/// Whether a value lies between two others.
fn range(what: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid_argument(format!("{what} is {value}; it must be from {low} to {high}")))
    }
}

/// Checks what every request says about A besides its size.
fn check_distribution(dtype: DType, grid: [u64; 2], tile: Option<u64>) -> Result<()> {
    range("the number of process rows", grid[0], 1, LARGEST_GRID)?;
    range("the number of process columns", grid[1], 1, LARGEST_GRID)?;
    range("the number of processes", grid[0] * grid[1], 1, LARGEST_GRID)?;
    if let Some(tile) = tile {
        range("the tile", tile, 1, LARGEST_EXTENT)?;
    }
    if !DType::ALL.contains(&dtype) {
        return Err(Error::invalid_argument(format!(
            "the element type is {dtype:?}; it must be f32, f64, c64 or c128"
        )));
    }
    Ok(())
}
