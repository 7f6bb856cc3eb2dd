//! The process grid.

/// A Pr × Pc grid of processes with ranks in row-major order: rank = row · Pc + column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessGrid {
    rows: u64,
    cols: u64,
}

/// A process's place in its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinate {
    /// Process row.
    pub row: u64,
    /// Process column.
    pub col: u64,
}

impl ProcessGrid {
    /// A grid of `rows` × `cols` processes, both at least 1.
    pub fn new(rows: u64, cols: u64) -> Self {
        assert!(rows > 0 && cols > 0, "a process grid needs a process");
        Self { rows, cols }
    }

    /// Process rows, Pr.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Process columns, Pc.
    pub fn cols(&self) -> u64 {
        self.cols
    }

    /// Processes in all.
    pub fn size(&self) -> u64 {
        self.rows * self.cols
    }

    /// The place of a rank.
    pub fn coordinate(&self, rank: u64) -> Coordinate {
        Coordinate { row: rank / self.cols, col: rank % self.cols }
    }

    /// The rank at a place.
    pub fn rank(&self, at: Coordinate) -> u64 {
        at.row * self.cols + at.col
    }
}
