//! Triangular solves in blocks: which rows and columns each step is about.

use crate::solver::Triangular;
use std::ops::Range;

/// A solve op(A)·X = B with a triangular matrix, in blocks of rows (Golub and Van Loan, Matrix Computations, 3.1): each
/// step solves for a block and takes what it contributes from the rows that are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// How A is read.
    pub form: Triangular,
    /// The order of A.
    pub n: u64,
    /// Rows in a block.
    pub block: u64,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rows that are solved for.
    pub rows: Range<u64>,
    /// The rows that are still to be solved for.
    pub rest: Range<u64>,
    /// The columns of B that the step is about: so many, from the first one on.
    pub columns: u64,
}

impl Substitution {
    /// The steps for `columns` right-hand sides, in their order. With `lower_from`, B has the columns from that one on
    /// of a lower triangular matrix. Then X is lower triangular, too, if op(A) is, and its zeros are left out; after
    /// a solve that is not, B has no zeros.
    pub fn steps(&self, columns: u64, lower_from: Option<u64>) -> impl Iterator<Item = Step> + use<> {
        let Self { form, n, block } = *self;
        let (count, forward) = (n.div_ceil(block), form.is_forward());
        let zeros_before = lower_from.filter(|_| forward);
        (zeros_before.unwrap_or(0) / block..count).map(move |step| {
            let begin = block * if forward { step } else { count - 1 - step };
            let rows = begin..n.min(begin + block);
            let rest = if forward { rows.end..n } else { 0..begin };
            let columns = zeros_before.map_or(columns, |first| columns.min(rows.end.saturating_sub(first)));
            Step { rows, rest, columns }
        })
    }
}
