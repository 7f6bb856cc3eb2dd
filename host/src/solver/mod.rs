//! The seam towards the library that does the mathematics.

mod checks;
#[cfg(feature = "cuda")]
pub mod cusolvermp;
mod faer;

pub use self::faer::FaerSolver;
use crate::device::Buffer;
use crate::layout::{BlockCyclic, ProcessGrid};
use crate::{DType, Result};
use serde::{Deserialize, Serialize};

/// A triangle of a square matrix, its diagonal included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Triangle {
    /// Row index ≥ column index.
    Lower,
    /// Row index ≤ column index.
    Upper,
}

/// How a matrix enters a product or a system: op(A) of the BLAS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// A.
    #[default]
    NoTranspose,
    /// Aᵀ.
    Transpose,
    /// Aᴴ; for real types the same as Aᵀ.
    ConjugateTranspose,
}

impl Op {
    /// Rows and columns of op(A).
    fn shape(self, m: &DistributedMatrix) -> [BlockCyclic; 2] {
        match self {
            Op::NoTranspose => [m.rows, m.cols],
            Op::Transpose | Op::ConjugateTranspose => [m.cols, m.rows],
        }
    }
}

/// Whether a triangular matrix has ones on its diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diagonal {
    /// What is stored.
    NonUnit,
    /// Ones; what is stored is not read.
    Unit,
}

/// How a stored matrix is read as a triangular one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Triangular {
    /// The triangle that is read, of A and not of op(A).
    pub triangle: Triangle,
    /// What is applied to it.
    pub op: Op,
    /// Its diagonal.
    pub diagonal: Diagonal,
}

/// The product α·op(A)·op(B) + β·C, with real α and β. All tiles are
/// square and of one size if B enters transposed: on two process rows cuBLASMp 0.10.0 gives wrong products
/// of other tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// How A enters.
    pub op_a: Op,
    /// How B enters.
    pub op_b: Op,
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of what C held; if it is 0, C need not hold numbers.
    pub beta: f64,
}

/// The matrices of a Hermitian eigenproblem, all n × n and distributed alike.
#[derive(Clone, Copy, Debug)]
pub struct Eigenproblem<'a> {
    /// The Hermitian matrix.
    pub a: &'a DistributedMatrix,
    /// M, Hermitian positive definite, if it is not the identity.
    pub metric: Option<&'a DistributedMatrix>,
    /// Where the vectors go, if they are wanted.
    pub vectors: Option<&'a DistributedMatrix>,
}

/// This rank's part of a 2-D block-cyclic matrix: column-major, source process (0, 0).
#[derive(Clone, Copy, Debug)]
pub struct DistributedMatrix {
    /// Element type.
    pub dtype: DType,
    /// The process grid.
    pub grid: ProcessGrid,
    /// Distribution of the rows over the grid's rows.
    pub rows: BlockCyclic,
    /// Distribution of the columns over the grid's columns.
    pub cols: BlockCyclic,
    /// Distance of two columns in elements, at least 1 and at least the rows owned.
    pub leading_dimension: u64,
    /// The local buffer.
    pub data: Buffer,
}

impl DistributedMatrix {
    /// The matrix cut into as many columns at a time as make one tile on each process column, on the rank
    /// `rank`; at least one part, which has most columns.
    pub fn batches(&self, rank: u64) -> impl Iterator<Item = Self> + use<> {
        let whole = *self;
        let (extent, tile, procs) = (self.cols.extent(), self.cols.tile(), self.cols.procs());
        let held = self.cols.count(self.grid.coordinate(rank).col);
        let most = tile * procs;
        (0..extent.div_ceil(most).max(1)).map(move |batch| {
            let cols = BlockCyclic::new(most.min(extent - batch * most), tile, procs);
            let first = (batch * tile).min(held);
            let offset = first * whole.leading_dimension * whole.dtype.size();
            let bytes = whole.data.bytes();
            let rest = if first < held { whole.data.slice(offset, bytes - offset) } else { Buffer::EMPTY };
            Self { cols, data: rest, ..whole }
        })
    }
}

/// Bytes of the buffer for [`Solver::lu_factor`]'s pivots on a rank in process column `col`: an `i64` for
/// each column that it owns, in every process row.
pub fn pivot_bytes(cols: BlockCyclic, col: u64) -> u64 {
    cols.count(col) * size_of::<i64>() as u64
}

/// A library that factors and solves distributed matrices. All methods are collective; they are
/// enqueued in the order of the device's operations.
///
/// Matrices are used whole. Those of a system lie in square tiles, and B's rows in the tiles of A's
/// rows. `scratch` has the bytes that the `…_scratch` method gave for the same arguments on this rank;
/// its contents are arbitrary.
///
/// `info` is a signed 32-bit word on the device: 0, or what the method says. It may be set on one rank
/// only: callers reduce it.
pub trait Solver {
    /// Device scratch in bytes for [`Solver::cholesky_factor`].
    fn cholesky_factor_scratch(&self, triangle: Triangle, a: &DistributedMatrix) -> Result<u64>;

    /// Factors Hermitian positive definite `a` in place: A = L·Lᴴ or Uᴴ·U (LAPACK's potrf). Only
    /// `triangle` is read and written.
    ///
    /// `info` is k if the leading minor of order k is not positive.
    fn cholesky_factor(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()>;

    /// Device scratch in bytes for [`Solver::cholesky_solve`].
    fn cholesky_solve_scratch(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64>;

    /// Overwrites `b` with the solution of A·X = B, given the factor (LAPACK's potrs).
    fn cholesky_solve(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()>;

    /// Device scratch in bytes for [`Solver::lu_factor`].
    fn lu_factor_scratch(&self, a: &DistributedMatrix) -> Result<u64>;

    /// Factors square `a` in place with partial pivoting: P·A = L·U, L with a unit diagonal that is not
    /// stored (LAPACK's getrf).
    ///
    /// `pivots` has the bytes of [`pivot_bytes`]. Together they are a row, dealt out like the first row of
    /// A: the ranks of process row 0 hold them, and what the others hold is unspecified. The l-th `i64`
    /// belongs to the rank's l-th column: if that is column j of A, it is the row, counted from 1, that
    /// row j was interchanged with when column j was eliminated.
    ///
    /// If U has a diagonal element that is exactly zero, U cannot be solved with, and what is eliminated
    /// after it may not be finite. A positive `info` says that there is one; 0 does not say that there is
    /// none, and the number is no index: cuSOLVERMp 0.9.1 keeps what the last tile column found, counted
    /// within the tile. Who has to know looks at the diagonal of U: its first element that is zero is the
    /// first that is not a finite number other than zero.
    fn lu_factor(&self, a: &DistributedMatrix, pivots: Buffer, scratch: Buffer, info: Buffer) -> Result<()>;

    /// Device scratch in bytes for [`Solver::lu_solve`].
    fn lu_solve_scratch(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<u64>;

    /// Overwrites `b` with the solution of A·X = B, given the factors and the pivots as
    /// [`Solver::lu_factor`] left them (LAPACK's getrs without transposition).
    fn lu_solve(
        &self,
        a: &DistributedMatrix,
        pivots: Buffer,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()>;

    /// Device scratch in bytes for [`Solver::triangular_solve`].
    fn triangular_scratch(
        &self,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64>;

    /// Overwrites `b` with the solution of op(A)·X = B, A triangular (BLAS's trsm from the left with
    /// α = 1). Only the triangle of `form` is read. A zero on the diagonal is not looked for: it makes
    /// X infinite or NaN.
    fn triangular_solve(
        &self,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()>;

    /// Device scratch in bytes for [`Solver::eigen`].
    fn eigen_scratch(&self, problem: Eigenproblem<'_>) -> Result<u64>;

    /// Eigenvalues of A·v = λ·v, or of A·v = λ·M·v, and eigenvectors if a matrix for them is given: A·V = V·Λ and
    /// Vᴴ·V = I, or A·V = M·V·Λ and Vᴴ·M·V = I (LAPACK's syevd and heevd, sygvd and hegvd of type 1). Only the
    /// lower triangles of A and M are read; all of both is overwritten, and with a metric also what buffers hold
    /// between columns.
    ///
    /// `values` holds as many real numbers as A has rows; every rank gets all of them, ascending, though values
    /// that differ by rounding errors only may be out of order. The k-th column of V belongs to the k-th value.
    ///
    /// `info` is positive if the iteration did not converge, or if M is not positive definite. Elements that are
    /// not finite may keep a solver from coming to an end: callers see to it that there are none.
    fn eigen(&self, problem: Eigenproblem<'_>, values: Buffer, scratch: Buffer, info: Buffer) -> Result<()>;

    /// Device scratch in bytes for [`Solver::multiply`].
    fn multiply_scratch(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
    ) -> Result<u64>;

    /// Overwrites `c` with α·op(A)·op(B) + β·C (BLAS's gemm). Dimensions that meet have the same tile;
    /// tiles need not be square.
    fn multiply(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()>;
}
