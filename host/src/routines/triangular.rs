//! Triangular solves in blocks, each by the library, with products between them.

use crate::Result;
use crate::device::Buffer;
use crate::solver::{DistributedMatrix, Op, Product, Solver, Triangular};
use std::ops::Range;

/// A triangular solve op(A)·X = B on one rank, in blocks of rows (Golub and Van Loan, Matrix Computations, 3.1).
///
/// For a solve at once cuBLASMp 0.10.0 asks for workspace of a quarter of all of A and of a quarter of what the process
/// holds of it, and more (see [`crate::plan::workspace::Square::trsm`]); for blocks it is as much of one, and what
/// products take.
#[derive(Clone, Copy)]
pub struct TriangularSolve<'a> {
    /// The rank.
    pub rank: u64,
    /// The library.
    pub solver: &'a dyn Solver,
    /// How A is read.
    pub form: Triangular,
    /// Rows in a block: a multiple of the tile times the sides of the grid, so that each begins on process (0, 0).
    pub block: u64,
}

/// One block's part of a solve.
struct Step {
    /// On the diagonal.
    diagonal: DistributedMatrix,
    /// Its right-hand sides.
    sides: DistributedMatrix,
    /// What couples it to the rows that are still to be solved for, and their right-hand sides.
    coupled: Option<[DistributedMatrix; 2]>,
}

impl TriangularSolve<'_> {
    /// Device scratch in bytes.
    ///
    /// # Errors
    /// Those of the library.
    pub fn scratch(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<u64> {
        let mut most = 0;
        for Step { diagonal, sides, coupled } in self.steps(a, b) {
            most = self.solver.triangular_scratch(self.form, &diagonal, &sides)?.max(most);
            if let Some([coupling, rest]) = coupled {
                most = self.solver.multiply_scratch(self.product(), &coupling, &sides, &rest)?.max(most);
            }
        }
        Ok(most)
    }

    /// Overwrites `b` with X. Collective. If op(A) is lower triangular, rows of `b` before `first` may be left out:
    /// they are zero, and so are those of X.
    ///
    /// # Errors
    /// Those of the library.
    pub fn run(
        &self,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        first: u64,
        scratch: Buffer,
    ) -> Result<()> {
        let before = if self.form.is_forward() { first / self.block } else { 0 };
        let steps = self.steps(a, b).skip(before.try_into().unwrap_or(usize::MAX));
        for Step { diagonal, sides, coupled } in steps {
            self.solver.triangular_solve(self.form, &diagonal, &sides, scratch)?;
            if let Some([coupling, rest]) = coupled {
                self.solver.multiply(self.product(), &coupling, &sides, &rest, scratch)?;
            }
        }
        Ok(())
    }

    /// B − op(A)·X of the rows to come.
    fn product(&self) -> Product {
        Product { op_a: self.form.op, op_b: Op::NoTranspose, alpha: -1.0, beta: 1.0 }
    }

    /// The blocks in the order in which they are solved for.
    fn steps(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> impl Iterator<Item = Step> {
        let Self { rank, form, block, .. } = *self;
        let (a, b, n) = (*a, *b, a.rows.extent());
        let (count, columns) = (n.div_ceil(block), 0..b.cols.extent());
        let forward = form.is_forward();
        (0..count).map(move |step| {
            let begin = block * if forward { step } else { count - 1 - step };
            let here = begin..n.min(begin + block);
            let rest = if forward { here.end..n } else { 0..begin };
            let sides = |rows: &Range<u64>| b.part(rank, rows.clone(), columns.clone());
            let coupling = |rows: &Range<u64>, cols: &Range<u64>| a.part(rank, rows.clone(), cols.clone());
            let coupled = (!rest.is_empty()).then(|| {
                let coupling =
                    if form.op == Op::NoTranspose { coupling(&rest, &here) } else { coupling(&here, &rest) };
                [coupling, sides(&rest)]
            });
            Step { diagonal: coupling(&here, &here), sides: sides(&here), coupled }
        })
    }
}
