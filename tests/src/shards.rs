//! Whole matrices cut into a caller's shards, and put together from them.

use crate::Memory;
use crate::dense::{Dense, NAN, decode, encode};
use meshsolve::layout::ProcessGrid;
use meshsolve::plan::OperandSpec;

/// How a matrix lies on a mesh: sharded along its rows and columns, or whole along one of them.
#[derive(Clone, Copy, Debug)]
pub struct Shards {
    /// The caller's mesh, as a grid.
    pub mesh: ProcessGrid,
    /// Whether rows are sharded over the mesh's rows.
    pub rows: bool,
    /// Whether columns are sharded over the mesh's columns.
    pub cols: bool,
}

impl Shards {
    /// Sharded along both dimensions.
    pub fn of(mesh: ProcessGrid) -> Self {
        Self { mesh, rows: true, cols: true }
    }

    /// Calls `visit` with every element of the shard at a place: its index there, its row and its column in
    /// the whole.
    pub fn for_each(&self, place: usize, spec: &OperandSpec, mut visit: impl FnMut(u64, usize, usize)) {
        let at = self.mesh.coordinate(place as u64);
        let row = if self.rows { at.row * spec.shape[0] } else { 0 };
        let col = if self.cols { at.col * spec.shape[1] } else { 0 };
        for index in 0..spec.shape[0] * spec.shape[1] {
            let (i, j) = (row + index / spec.shape[1], col + index % spec.shape[1]);
            visit(index, i as usize, j as usize);
        }
    }

    /// The shard of a place. What it holds beyond the matrix is NaN.
    pub fn cut(&self, place: usize, spec: &OperandSpec, whole: &Dense) -> Memory {
        let mut memory = Memory::new(spec.bytes());
        self.for_each(place, spec, |index, i, j| {
            let value = if i < whole.rows && j < whole.cols { whole.at(i, j) } else { NAN };
            memory.set_element(spec.dtype, index, &encode(spec.dtype, value));
        });
        memory
    }

    /// The matrix of all places' shards. Where several hold an element, they must agree.
    pub fn join<'m>(
        &self,
        [rows, cols]: [usize; 2],
        spec: &OperandSpec,
        shards: impl Iterator<Item = &'m Memory>,
    ) -> Dense {
        let mut whole = Dense::from_fn(rows, cols, |_, _| NAN);
        for (place, shard) in shards.enumerate() {
            self.for_each(place, spec, |index, i, j| {
                if i < rows && j < cols {
                    let (known, value) =
                        (whole.at(i, j), decode(spec.dtype, shard.element(spec.dtype, index)));
                    assert!(known.0.is_nan() || known == value, "places differ at ({i}, {j})");
                    whole.set(i, j, value);
                }
            });
        }
        whole
    }
}
