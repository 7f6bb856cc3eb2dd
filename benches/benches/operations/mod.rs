//! The operations of a device that move whole matrices: what the benchmarks of host loops and of kernels
//! measure.

use meshsolve::device::{Buffer, Device, InPlace, IndexMap, MatrixView, Permutation};
use meshsolve::{DType, Result};

/// One type for each size of element that kernels know: 4, 8 and 16 bytes.
pub const DTYPES: [DType; 3] = [DType::F32, DType::F64, DType::C128];

/// What an operation works on.
#[derive(Clone, Copy)]
pub struct Matrix {
    /// Element type.
    pub dtype: DType,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Rows and columns in a slot that is permuted; divides both by a multiple of 4.
    pub tile: u64,
}

impl Matrix {
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.rows * self.cols * self.dtype.size()
    }

    /// Scratch of a conversion in place: two slabs, as plans give it.
    pub fn scratch_bytes(&self) -> u64 {
        2 * self.tile * self.rows.max(self.cols) * self.dtype.size()
    }
}

impl std::fmt::Display for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{}", self.dtype.name(), self.rows, self.cols)
    }
}

/// One operation, ready to be enqueued any number of times.
pub struct Operation<'a> {
    /// What it is.
    pub name: &'static str,
    /// Bytes read and bytes written.
    pub bytes: u64,
    /// Enqueues it.
    pub enqueue: Box<dyn Fn() -> Result<()> + 'a>,
}

/// All operations on `first` and `second`, of the matrix's length each, with its scratch.
pub fn operations<'a>(
    device: &'a dyn Device,
    matrix: Matrix,
    [first, second, scratch]: [Buffer; 3],
) -> Vec<Operation<'a>> {
    let Matrix { dtype, rows, cols, tile } = matrix;
    let view = |data, leading_dimension| MatrixView { dtype, data, leading_dimension, rows, cols };
    let (by_rows, by_cols) = (view(first, cols), view(second, rows));
    let (row_map, col_map) = (IndexMap::identity(rows), IndexMap::identity(cols));
    let (row_slots, col_slots) = (dealt(rows / tile), dealt(cols / tile));
    let both = 2 * matrix.bytes();
    let moved = |slots: &Permutation, count: u64| both / count * slots.moved();
    let operation = |name, bytes, enqueue| Operation { name, bytes, enqueue };
    vec![
        operation(
            "convert forward",
            both,
            Box::new(move || device.convert_forward(&by_rows, &by_cols, row_map, col_map)),
        ),
        operation(
            "convert reverse",
            both,
            Box::new(move || device.convert_reverse(&by_cols, &by_rows, row_map, col_map)),
        ),
        operation(
            "convert in place",
            both,
            Box::new(move || device.convert_in_place(dtype, first, &InPlace::new(rows, cols), scratch, None)),
        ),
        operation(
            "copy a row slab's lines",
            both / (rows / tile),
            Box::new(move || device.copy_lines(dtype, second, rows, first, tile, tile, cols)),
        ),
        operation(
            "permute rows",
            moved(&row_slots, rows / tile),
            Box::new(move || device.permute_rows(&by_cols, tile, &row_slots)),
        ),
        operation(
            "permute columns",
            moved(&col_slots, cols / tile),
            Box::new(move || device.permute_columns(&by_cols, tile, &col_slots)),
        ),
        operation("fill", matrix.bytes(), Box::new(move || device.fill(dtype, first, dtype.bits(1.0), None))),
    ]
}

/// The order in which four processes hold the slots that were dealt to them in turn.
fn dealt(slots: u64) -> Permutation {
    assert_eq!(slots % 4, 0, "slots are dealt to four processes");
    let sources: Vec<u32> =
        (0..slots).map(|slot| u32::try_from(slot % (slots / 4) * 4 + slot / (slots / 4)).unwrap()).collect();
    Permutation::from_sources(&sources)
}
