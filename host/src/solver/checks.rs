//! What every solver asks of the matrices it gets. Plans see to it; a misfit is a bug of ours, which
//! would otherwise show as a wrong result, or on another rank.

use super::{DistributedMatrix, Op, Product, pivot_bytes};
use crate::device::Buffer;
use crate::layout::ProcessGrid;
use crate::{Error, Result};

/// Checks this rank's part of a matrix on a solver's grid.
fn check(rank: u64, grid: ProcessGrid, name: &str, m: &DistributedMatrix) -> Result<()> {
    let at = grid.coordinate(rank);
    let spread = (m.rows.procs(), m.cols.procs());
    let (rows, cols) = (m.rows.count(at.row), m.cols.count(at.col));
    let elements = if rows * cols == 0 { 0 } else { (cols - 1) * m.leading_dimension + rows };
    let bytes = elements * m.dtype.size();
    let problem = if m.grid != grid {
        let (p, q) = (m.grid.rows(), m.grid.cols());
        format!("its grid is {p} × {q}, the solver's {} × {}", grid.rows(), grid.cols())
    } else if spread != (grid.rows(), grid.cols()) {
        let (p, q) = spread;
        format!("it lies over {p} × {q} processes, its grid is {} × {}", grid.rows(), grid.cols())
    } else if m.leading_dimension < rows.max(1) {
        format!("its leading dimension is {}, needed {}", m.leading_dimension, rows.max(1))
    } else if m.data.bytes() < bytes {
        format!("its buffer has {} bytes, needed {bytes}", m.data.bytes())
    } else {
        return Ok(());
    };
    Err(Error::internal(format!("matrix {name} on rank {rank}: {problem}")))
}

/// Checks a matrix that is to be factored: square, in square tiles.
pub(super) fn check_factor(rank: u64, grid: ProcessGrid, a: &DistributedMatrix) -> Result<()> {
    check(rank, grid, "A", a)?;
    let (rows, cols) = (a.rows, a.cols);
    let problem = if rows.extent() != cols.extent() {
        format!("it is {} × {}, needed square", rows.extent(), cols.extent())
    } else if rows.tile() != cols.tile() {
        format!("its tiles are {} × {}, needed square ones", rows.tile(), cols.tile())
    } else {
        return Ok(());
    };
    Err(Error::internal(format!("matrix A on rank {rank}: {problem}")))
}

/// Checks a matrix and right-hand sides that fit it.
pub(super) fn check_system(
    rank: u64,
    grid: ProcessGrid,
    a: &DistributedMatrix,
    b: &DistributedMatrix,
) -> Result<()> {
    check_factor(rank, grid, a)?;
    check(rank, grid, "B", b)?;
    if (b.rows.extent(), b.rows.tile(), b.dtype) == (a.rows.extent(), a.rows.tile(), a.dtype) {
        return Ok(());
    }
    Err(Error::internal(format!(
        "matrix B on rank {rank} has {} rows of {:?} in tiles of {}, needed {} of {:?} in tiles of {} as in A",
        b.rows.extent(),
        b.dtype,
        b.rows.tile(),
        a.rows.extent(),
        a.dtype,
        a.rows.tile()
    )))
}

/// Checks a matrix that is to be distributed as `a` is, with elements of the same type.
pub(super) fn check_alike(
    rank: u64,
    grid: ProcessGrid,
    a: &DistributedMatrix,
    name: &str,
    other: &DistributedMatrix,
) -> Result<()> {
    check(rank, grid, name, other)?;
    if (other.rows, other.cols, other.dtype) == (a.rows, a.cols, a.dtype) {
        return Ok(());
    }
    let describe = |m: &DistributedMatrix| {
        let (rows, cols) = (m.rows, m.cols);
        format!(
            "{} × {} of {:?} in tiles of {} × {}",
            rows.extent(),
            cols.extent(),
            m.dtype,
            rows.tile(),
            cols.tile()
        )
    };
    Err(Error::internal(format!(
        "matrix {name} on rank {rank} is {}, needed {} as A",
        describe(other),
        describe(a)
    )))
}

/// Checks the place of the eigenvalues of `a`: as many real numbers as it has rows.
pub(super) fn check_values(rank: u64, a: &DistributedMatrix, values: Buffer) -> Result<()> {
    let needed = a.rows.extent() * a.dtype.real().size();
    if values.bytes() >= needed {
        return Ok(());
    }
    let bytes = values.bytes();
    Err(Error::internal(format!("the eigenvalues on rank {rank} have {bytes} bytes, needed {needed}")))
}

/// Checks the place of the pivots that belong to the columns of `a`.
pub(super) fn check_pivots(rank: u64, a: &DistributedMatrix, pivots: Buffer) -> Result<()> {
    let needed = pivot_bytes(a.cols, a.grid.coordinate(rank).col);
    if pivots.bytes() >= needed {
        return Ok(());
    }
    let bytes = pivots.bytes();
    Err(Error::internal(format!("the pivots on rank {rank} have {bytes} bytes, needed {needed}")))
}

/// Checks the matrices of a product: dimensions that meet, in the same tiles, of one element type.
pub(super) fn check_product(
    rank: u64,
    grid: ProcessGrid,
    product: Product,
    a: &DistributedMatrix,
    b: &DistributedMatrix,
    c: &DistributedMatrix,
) -> Result<()> {
    let tile = c.rows.tile();
    for (name, m) in [("A", a), ("B", b), ("C", c)] {
        check(rank, grid, name, m)?;
        if product.op_b != Op::NoTranspose && (m.rows.tile(), m.cols.tile()) != (tile, tile) {
            return Err(Error::internal(format!(
                "matrix {name} on rank {rank} lies in tiles of {} × {}, needed {tile} × {tile} where B enters \
                 as {:?}",
                m.rows.tile(),
                m.cols.tile(),
                product.op_b
            )));
        }
        if m.dtype != c.dtype {
            return Err(Error::internal(format!(
                "matrix {name} on rank {rank} has elements of {:?}, needed {:?} as in C",
                m.dtype, c.dtype
            )));
        }
    }
    let ([a_rows, a_cols], [b_rows, b_cols]) = (product.op_a.shape(a), product.op_b.shape(b));
    for (what, one, other) in [
        ("rows of op(A) and C", a_rows, c.rows),
        ("columns of op(A) and rows of op(B)", a_cols, b_rows),
        ("columns of op(B) and C", b_cols, c.cols),
    ] {
        if (one.extent(), one.tile()) != (other.extent(), other.tile()) {
            return Err(Error::internal(format!(
                "a product on rank {rank}: {what} are {} in tiles of {} and {} in tiles of {}",
                one.extent(),
                one.tile(),
                other.extent(),
                other.tile()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::layout::BlockCyclic;
    use crate::solver::Op;

    /// The part of rank 1 of a 1 × 2 grid, of a matrix of f64, in a buffer that just holds it.
    fn matrix(rows: u64, cols: u64, row_tile: u64, col_tile: u64) -> (ProcessGrid, DistributedMatrix) {
        let grid = ProcessGrid::new(1, 2);
        let [rows, cols] = [(rows, row_tile, 1), (cols, col_tile, 2)]
            .map(|(n, tile, procs)| BlockCyclic::new(n, tile, procs));
        let leading_dimension = rows.count(0).max(1);
        let bytes = leading_dimension * cols.count(1) * 8;
        // SAFETY: never accessed, only measured.
        let data = unsafe { Buffer::from_raw(std::ptr::null_mut(), bytes) };
        (grid, DistributedMatrix { dtype: DType::F64, grid, rows, cols, leading_dimension, data })
    }

    fn refusal(outcome: Result<()>, parts: &[&str]) {
        let message = outcome.expect_err("to be refused").to_string();
        for part in parts {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }

    #[test]
    fn what_fits_is_accepted() {
        let (grid, a) = matrix(10, 10, 4, 4);
        for columns in [0, 1, 7] {
            let (_, b) = matrix(10, columns, 4, 3);
            assert_eq!(check_system(1, grid, &a, &b), Ok(()));
        }
    }

    #[test]
    fn what_the_library_would_get_wrong_is_refused() {
        let (grid, a) = matrix(10, 10, 4, 4);
        let (_, wide) = matrix(10, 11, 4, 4);
        refusal(check_factor(1, grid, &wide), &["A on rank 1", "10 × 11", "square"]);
        let (_, oblong) = matrix(10, 10, 4, 5);
        refusal(check_factor(1, grid, &oblong), &["4 × 5", "square"]);
        let (_, other_tile) = matrix(10, 3, 5, 3);
        refusal(check_system(1, grid, &a, &other_tile), &["B on rank 1", "tiles of 5", "tiles of 4"]);
        let (_, longer) = matrix(11, 3, 4, 3);
        refusal(check_system(1, grid, &a, &longer), &["11 rows", "needed 10"]);
        let single = DistributedMatrix { dtype: DType::F32, ..matrix(10, 3, 4, 3).1 };
        refusal(check_system(1, grid, &a, &single), &["F32", "F64"]);
    }

    #[test]
    fn a_buffer_too_short_is_refused() {
        // Rank 1 of 1 × 2 owns columns 4…7: 4 columns of 10 rows.
        let (grid, a) = matrix(10, 10, 4, 4);
        let short = DistributedMatrix { data: a.data.slice(0, 319), ..a };
        refusal(check_factor(1, grid, &short), &["319 bytes", "needed 320"]);
        refusal(
            check_factor(1, grid, &DistributedMatrix { leading_dimension: 9, ..a }),
            &["is 9, needed 10"],
        );
        let elsewhere = DistributedMatrix { grid: ProcessGrid::new(2, 1), ..a };
        refusal(check_factor(1, grid, &elsewhere), &["2 × 1", "1 × 2"]);
    }

    #[test]
    fn every_column_needs_a_pivot() {
        // Rank 1 of 1 × 2 owns columns 4…7.
        let (_, a) = matrix(10, 10, 4, 4);
        // SAFETY: never accessed, only measured.
        let buffer = |bytes| unsafe { Buffer::from_raw(std::ptr::null_mut(), bytes) };
        assert_eq!(check_pivots(1, &a, buffer(32)), Ok(()));
        refusal(check_pivots(1, &a, buffer(31)), &["rank 1", "31 bytes", "needed 32"]);
    }

    #[test]
    fn what_is_distributed_alike_is_accepted_and_nothing_else() {
        let (grid, a) = matrix(10, 10, 4, 4);
        assert_eq!(check_alike(1, grid, &a, "V", &matrix(10, 10, 4, 4).1), Ok(()));
        let single = DistributedMatrix { dtype: DType::F32, ..a };
        let short = DistributedMatrix { data: a.data.slice(0, 319), ..a };
        for (other, part) in [
            (matrix(10, 9, 4, 4).1, "10 × 9 of F64"),
            (matrix(10, 10, 4, 5).1, "tiles of 4 × 5"),
            (matrix(10, 10, 5, 5).1, "tiles of 5 × 5"),
            (single, "of F32"),
        ] {
            let parts = ["matrix V on rank 1", part, "needed 10 × 10 of F64 in tiles of 4 × 4"];
            refusal(check_alike(1, grid, &a, "V", &other), &parts);
        }
        refusal(check_alike(1, grid, &a, "L", &short), &["matrix L on rank 1", "319 bytes", "needed 320"]);
    }

    #[test]
    fn every_row_needs_an_eigenvalue_which_is_real() {
        let (_, real) = matrix(10, 10, 4, 4);
        let complex = DistributedMatrix { dtype: DType::C64, ..real };
        // SAFETY: never accessed, only measured.
        let buffer = |bytes| unsafe { Buffer::from_raw(std::ptr::null_mut(), bytes) };
        for (a, needed) in [(real, 80), (complex, 40)] {
            assert_eq!(check_values(1, &a, buffer(needed)), Ok(()));
            let bytes = format!("{} bytes, needed {needed}", needed - 1);
            refusal(check_values(1, &a, buffer(needed - 1)), &["rank 1", &bytes]);
        }
    }

    #[test]
    fn what_meets_in_a_product_must_fit() {
        let product = |op_a, op_b| Product { op_a, op_b, alpha: 1.0, beta: 0.0 };
        let plain = product(Op::NoTranspose, Op::NoTranspose);
        let ((grid, a), (_, b), (_, c)) = (matrix(10, 6, 4, 3), matrix(6, 8, 3, 5), matrix(10, 8, 4, 5));
        assert_eq!(check_product(1, grid, plain, &a, &b, &c), Ok(()));
        // The same product of one transpose or the other.
        let (_, transposed_a) = matrix(6, 10, 3, 4);
        let (_, transposed_b) = matrix(8, 6, 5, 3);
        let left = product(Op::Transpose, Op::NoTranspose);
        assert_eq!(check_product(1, grid, left, &transposed_a, &b, &c), Ok(()));
        refusal(check_product(1, grid, left, &a, &b, &c), &["rows of op(A) and C", "6", "10"]);
        let right = product(Op::NoTranspose, Op::ConjugateTranspose);
        refusal(
            check_product(1, grid, right, &a, &transposed_b, &c),
            &["matrix A", "rank 1", "tiles of 4 × 3", "ConjugateTranspose"],
        );
        let [(_, a_4), (_, b_4), (_, c_4)] =
            [[10, 6], [8, 6], [10, 8]].map(|[rows, cols]| matrix(rows, cols, 4, 4));
        assert_eq!(check_product(1, grid, right, &a_4, &b_4, &c_4), Ok(()));
        refusal(
            check_product(1, grid, plain, &a, &transposed_b, &c),
            &["columns of op(A) and rows of op(B)"],
        );
        let (_, other_tile) = matrix(10, 8, 4, 4);
        let parts = ["columns of op(B) and C", "tiles of 5", "tiles of 4"];
        refusal(check_product(1, grid, plain, &a, &b, &other_tile), &parts);
        let single = DistributedMatrix { dtype: DType::F32, ..b };
        refusal(check_product(1, grid, plain, &a, &single, &c), &["matrix B", "F32", "F64"]);
    }
}
