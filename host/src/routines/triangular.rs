//! Triangular solves in blocks, each by the library, with products between them.

use crate::Result;
use crate::device::Buffer;
use crate::plan::{Step, Substitution};
use crate::solver::{DistributedMatrix, Op, Product, Solver};
use std::ops::Range;

/// A triangular solve op(A)·X = B on one rank.
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
    /// The steps. Blocks are a multiple of the tile times the sides of the grid, so that each begins on process (0, 0).
    pub substitution: Substitution,
}

/// The matrices of a step.
struct Parts {
    /// What is on the diagonal.
    diagonal: DistributedMatrix,
    /// Its right-hand sides.
    sides: DistributedMatrix,
    /// What couples it to the rows that are still to be solved for, and their right-hand sides.
    coupled: Option<[DistributedMatrix; 2]>,
}

impl TriangularSolve<'_> {
    /// Device scratch in bytes for [`TriangularSolve::run`].
    ///
    /// # Errors
    /// Those of the library.
    pub fn scratch(
        &self,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        lower_from: Option<u64>,
    ) -> Result<u64> {
        let mut most = 0;
        for Parts { diagonal, sides, coupled } in self.parts(a, b, lower_from) {
            most = self.solver.triangular_scratch(self.substitution.form, &diagonal, &sides)?.max(most);
            if let Some([coupling, rest]) = coupled {
                most = self.solver.multiply_scratch(self.product(), &coupling, &sides, &rest)?.max(most);
            }
        }
        Ok(most)
    }

    /// Overwrites `b` with X. Collective. With `lower_from`, `b` has the columns from that one on of a lower triangular
    /// matrix (see [`Substitution::steps`]).
    ///
    /// # Errors
    /// Those of the library.
    pub fn run(
        &self,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        lower_from: Option<u64>,
        scratch: Buffer,
    ) -> Result<()> {
        for Parts { diagonal, sides, coupled } in self.parts(a, b, lower_from) {
            self.solver.triangular_solve(self.substitution.form, &diagonal, &sides, scratch)?;
            if let Some([coupling, rest]) = coupled {
                self.solver.multiply(self.product(), &coupling, &sides, &rest, scratch)?;
            }
        }
        Ok(())
    }

    /// B − op(A)·X of the rows to come.
    fn product(&self) -> Product {
        Product { op_a: self.substitution.form.op, op_b: Op::NoTranspose, alpha: -1.0, beta: 1.0 }
    }

    fn parts(
        &self,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        lower_from: Option<u64>,
    ) -> impl Iterator<Item = Parts> {
        let Self { rank, substitution, .. } = *self;
        let (a, b) = (*a, *b);
        substitution.steps(b.cols.extent(), lower_from).map(move |Step { rows, rest, columns }| {
            let sides = |rows: &Range<u64>| b.part(rank, rows.clone(), 0..columns);
            let coupling = |rows: &Range<u64>, cols: &Range<u64>| a.part(rank, rows.clone(), cols.clone());
            let coupled = (!rest.is_empty()).then(|| {
                let coupling = match substitution.form.op {
                    Op::NoTranspose => coupling(&rest, &rows),
                    Op::Transpose | Op::ConjugateTranspose => coupling(&rows, &rest),
                };
                [coupling, sides(&rest)]
            });
            Parts { diagonal: coupling(&rows, &rows), sides: sides(&rows), coupled }
        })
    }
}
