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
use std::ops::Range;

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

impl Triangular {
    /// Whether op(A) is lower triangular: its first rows do not depend on others, and are solved for first.
    pub fn is_forward(&self) -> bool {
        (self.triangle == Triangle::Lower) == (self.op == Op::NoTranspose)
    }
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
    /// The part in these rows and columns, on the rank `rank`. Both begin at a multiple of the tile times the
    /// processes, so that the part begins on process (0, 0), too.
    pub fn part(&self, rank: u64, rows: Range<u64>, cols: Range<u64>) -> Self {
        let at = self.grid.coordinate(rank);
        // Before the part each process holds as much.
        let cut = |dimension: BlockCyclic, range: Range<u64>, proc| {
            let (tile, procs) = (dimension.tile(), dimension.procs());
            assert!(
                range.start.is_multiple_of(tile * procs),
                "a part of {dimension:?} begins at {}",
                range.start
            );
            let part = BlockCyclic::new(range.end - range.start, tile, procs);
            (part, range.start / procs, part.count(proc))
        };
        let (rows, first_row, own_rows) = cut(self.rows, rows, at.row);
        let (cols, first_col, own_cols) = cut(self.cols, cols, at.col);
        let data = if own_rows * own_cols == 0 {
            Buffer::EMPTY
        } else {
            let offset = (first_col * self.leading_dimension + first_row) * self.dtype.size();
            self.data.slice(offset, self.data.bytes() - offset)
        };
        Self { rows, cols, data, ..*self }
    }

    /// The matrix cut into parts of whole tiles, on the rank `rank`, with what comes before each: at most `widest`
    /// columns on each process column, or a tile where that is wider. At least one part; the first has most columns.
    pub fn stripes(&self, rank: u64, widest: u64) -> Vec<(u64, Self)> {
        let (extent, width) = (self.cols.extent(), self.cols.stripe(widest));
        let firsts = (0..extent.div_ceil(width).max(1)).map(|stripe| stripe * width);
        firsts
            .map(|first| (first, self.part(rank, 0..self.rows.extent(), first..extent.min(first + width))))
            .collect()
    }

    /// The matrix cut into parts of at most `widest` columns on each process column, on the rank `rank`; at least
    /// one part, which has most columns. Columns of a part may lie elsewhere in the whole than in its order.
    pub fn batches(&self, rank: u64, widest: u64) -> Vec<Self> {
        let whole = *self;
        let (extent, tile, procs) = (self.cols.extent(), self.cols.tile(), self.cols.procs());
        let (rows, most) = (0..self.rows.extent(), tile * procs);
        let parts = (0..extent.div_ceil(most).max(1)).flat_map(|turn| {
            let (first, end) = (turn * most, extent.min((turn + 1) * most));
            let tiles = whole.part(rank, rows.clone(), first..end);
            (0..tile.min(end - first).div_ceil(widest).max(1)).map(move |cut| {
                // So many columns of each of these tiles, which together are tiles again.
                let begin = cut * widest;
                let count = |proc: u64| {
                    (end - first).saturating_sub(proc * tile).min(tile).saturating_sub(begin).min(widest)
                };
                let cols = BlockCyclic::new((0..procs).map(count).sum(), count(0).max(1), procs);
                let own = cols.count(tiles.grid.coordinate(rank).col);
                let offset = begin * tiles.leading_dimension * tiles.dtype.size();
                let data = if own == 0 || tiles.data.is_empty() {
                    Buffer::EMPTY
                } else {
                    tiles.data.slice(offset, tiles.data.bytes() - offset)
                };
                Self { cols, data, ..tiles }
            })
        });
        parts.collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stripes_are_consecutive_parts_of_whole_tiles(
            extent in 0_u64..90, tile in 1_u64..20, procs in 1_u64..5, widest in 1_u64..60,
        ) {
            let whole = DistributedMatrix {
                dtype: DType::F64,
                grid: ProcessGrid::new(1, procs),
                rows: BlockCyclic::new(1, 1, 1),
                cols: BlockCyclic::new(extent, tile, procs),
                leading_dimension: 1,
                data: Buffer::EMPTY,
            };
            for rank in 0..procs {
                // SAFETY: only addresses and lengths are looked at.
                let data = unsafe {
                    Buffer::from_raw(std::ptr::without_provenance_mut(4096), whole.cols.count(rank) * 8)
                };
                let (mut before, mut held) = (0, 0);
                let stripes = DistributedMatrix { data, ..whole }.stripes(rank, widest);
                for &(first, stripe) in &stripes {
                    prop_assert_eq!(first, before);
                    prop_assert_eq!((stripe.cols.tile(), stripe.cols.procs()), (tile, procs));
                    let count = stripe.cols.count(rank);
                    prop_assert!(count <= widest.max(tile));
                    prop_assert!(stripe.cols.extent() <= stripes[0].1.cols.extent());
                    prop_assert!(count == 0 || stripe.data.address() == 4096 + held * 8);
                    before += stripe.cols.extent();
                    held += count;
                }
                prop_assert_eq!((before, held), (extent, whole.cols.count(rank)));
            }
        }

        #[test]
        fn batches_are_matrices_and_hold_every_column_once(
            extent in 0_u64..90, tile in 1_u64..20, procs in 1_u64..5, widest in 1_u64..25, rows in 1_u64..4,
        ) {
            let grid = ProcessGrid::new(1, procs);
            let cols = BlockCyclic::new(extent, tile, procs);
            let ranks: Vec<_> = (0..procs)
                .map(|rank| {
                    let bytes = rows * cols.count(rank) * 8;
                    // SAFETY: only addresses and lengths are looked at.
                    let data = unsafe { Buffer::from_raw(std::ptr::without_provenance_mut(4096), bytes) };
                    let rows = BlockCyclic::new(rows, 1, 1);
                    let whole = DistributedMatrix {
                        dtype: DType::F64, grid, rows, cols, leading_dimension: rows.extent(), data,
                    };
                    whole.batches(rank, widest)
                })
                .collect();
            for (rank, batches) in (0..procs).zip(&ranks) {
                prop_assert_eq!(batches.len(), ranks[0].len());
                let mut held = 0;
                for (batch, first) in batches.iter().zip(&ranks[0]) {
                    prop_assert_eq!(batch.cols, first.cols);
                    prop_assert!(batch.cols.extent() <= batches[0].cols.extent());
                    let count = batch.cols.count(rank);
                    prop_assert!(count <= widest);
                    if count > 0 {
                        // In the order in which they lie.
                        prop_assert_eq!(batch.data.address(), 4096 + held * rows * 8);
                        prop_assert!(batch.data.bytes() >= count * rows * 8);
                    }
                    held += count;
                }
                prop_assert_eq!(held, cols.count(rank));
            }
        }
    }
}
