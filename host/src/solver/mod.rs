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

/// A triangle of a Hermitian matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Triangle {
    /// Row index ≥ column index.
    Lower,
    /// Row index ≤ column index.
    Upper,
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

/// A library that factors and solves distributed matrices. All methods are collective; they are
/// enqueued in the order of the device's operations.
///
/// `info` is a signed 32-bit word on the device that follows LAPACK: 0, or k > 0 if the leading
/// minor of order k is not positive definite. It may be set on one rank only: callers reduce it.
pub trait Solver {
    /// Device scratch in bytes for [`Solver::cholesky_factor`] and [`Solver::cholesky_solve`].
    fn cholesky_scratch(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64>;

    /// Factors Hermitian positive definite `a` in place: A = L·Lᴴ or Uᴴ·U (LAPACK's potrf). Only
    /// `triangle` is read and written.
    fn cholesky_factor(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()>;

    /// Overwrites `b` with the solution of A·X = B, given the factor (LAPACK's potrs).
    fn cholesky_solve(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()>;
}
