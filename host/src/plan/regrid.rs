//! A matrix that is sharded along one dimension, brought to shards along both.
//!
//! A solver is quickest on a grid that is nearly square; a mesh of one axis is not. Before anything else,
//! devices that stand next to each other trade pieces of their shards, as many of them as the shorter side of the
//! new mesh has, and then hold row-major shards of it.

use super::matrix::{MatrixPlan, Traffic};
use crate::DType;
use crate::layout::{Coordinate, ProcessGrid};

/// A mesh of one axis and the nearly square one that its devices become. All shards of both are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regrid {
    from: ProcessGrid,
    to: ProcessGrid,
    n: u64,
    dtype: DType,
    /// The most scratch in bytes.
    buffer: u64,
}

/// A piece of the matrix, a part of one shard before and of one after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// Who gives it, or takes it: a place in the new mesh.
    pub peer: Coordinate,
    /// Its first element in the shard.
    pub first: u64,
    /// Elements from one of its rows to the next in the shard.
    pub stride: u64,
}

/// Bytes of scratch that rows of a piece travel through.
const BUFFER_BYTES: u64 = 64 << 20;

impl Regrid {
    /// The nearly square mesh that a matrix of order `n` on `mesh` may be brought to, or why there is none.
    ///
    /// Its longer side is along the axis of `mesh`, so that most stays where it is. The tile has to divide the
    /// shards.
    pub fn new(n: u64, dtype: DType, tile: u64, mesh: ProcessGrid) -> Result<Self, &'static str> {
        if mesh.rows() > 1 && mesh.cols() > 1 {
            return Err("the mesh has two axes");
        }
        let devices = mesh.size();
        let short =
            (2..).take_while(|side| side * side <= devices).filter(|&side| devices.is_multiple_of(side));
        let short = short.last().ok_or("so many processes make no grid with two sides")?;
        if !n.is_multiple_of(devices * tile) {
            return Err("the tile does not divide the shards");
        }
        let long = devices / short;
        let to = if mesh.rows() > 1 { ProcessGrid::new(long, short) } else { ProcessGrid::new(short, long) };
        Ok(Self { from: mesh, to, n, dtype, buffer: BUFFER_BYTES })
    }

    /// The same with at most so many bytes of scratch, or those of one row.
    pub fn with_buffer(self, buffer: u64) -> Self {
        Self { buffer, ..self }
    }

    /// The new mesh.
    pub fn mesh(&self) -> ProcessGrid {
        self.to
    }

    /// Rows and columns of the caller's shards.
    pub fn caller_shape(&self) -> [u64; 2] {
        [self.n / self.from.rows(), self.n / self.from.cols()]
    }

    fn by_rows(&self) -> bool {
        self.from.rows() > 1
    }

    /// Devices that trade with each other, and which of them a place in the new mesh is.
    fn group(&self) -> u64 {
        if self.by_rows() { self.to.cols() } else { self.to.rows() }
    }

    fn member(&self, at: Coordinate) -> u64 {
        if self.by_rows() { at.col } else { at.row }
    }

    /// Where the device stands in the caller's mesh that stands here in the new one.
    fn place(&self, at: Coordinate) -> u64 {
        if self.by_rows() { at.row * self.to.cols() + at.col } else { at.col * self.to.rows() + at.row }
    }

    /// The rank that the device at each place of the caller's mesh plays, if `a` is planned on the new mesh.
    pub fn roles(&self, a: &MatrixPlan) -> Vec<u64> {
        let mut roles = vec![0; usize::try_from(self.from.size()).expect("ranks of this program")];
        for rank in 0..self.from.size() {
            let place = self.place(a.mesh_coordinate(rank));
            roles[usize::try_from(place).expect("a place in the mesh")] = rank;
        }
        roles
    }

    /// Rows and columns of a piece.
    pub fn piece(&self) -> [u64; 2] {
        if self.by_rows() {
            [self.n / self.from.rows(), self.n / self.to.cols()]
        } else {
            [self.n / self.to.rows(), self.n / self.from.cols()]
        }
    }

    /// What the device here gives to `member` of its group, in the caller's shard.
    fn given(&self, at: Coordinate, member: u64) -> Trade {
        let ([rows, cols], [_, stride]) = (self.piece(), self.caller_shape());
        let first = member * if self.by_rows() { cols } else { rows * cols };
        Trade { peer: self.peer(at, member), first, stride }
    }

    /// What the device here takes from `member` of its group, in the new shard.
    fn taken(&self, at: Coordinate, member: u64) -> Trade {
        let ([rows, cols], stride) = (self.piece(), self.n / self.to.cols());
        let first = member * if self.by_rows() { rows * stride } else { cols };
        Trade { peer: self.peer(at, member), first, stride }
    }

    fn peer(&self, at: Coordinate, member: u64) -> Coordinate {
        if self.by_rows() { Coordinate { col: member, ..at } } else { Coordinate { row: member, ..at } }
    }

    /// The trades of the device here, what it gives and what it takes at a time; the first is with itself.
    pub fn trades(&self, at: Coordinate) -> impl Iterator<Item = [Trade; 2]> + '_ {
        let (me, group) = (self.member(at), self.group());
        (0..group).map(move |step| {
            [self.given(at, (me + step) % group), self.taken(at, (me + group - step) % group)]
        })
    }

    /// Whether a piece lies on end where it is given, so that only the taker has to put it in place; otherwise
    /// only the giver has to gather it.
    pub fn gives_on_end(&self) -> bool {
        !self.by_rows()
    }

    /// Rows of a piece that travel at a time.
    pub fn rows_at_a_time(&self) -> u64 {
        let [rows, cols] = self.piece();
        (self.buffer / (cols * self.dtype.size()).max(1)).clamp(1, rows.max(1))
    }

    /// Device scratch in bytes.
    pub fn scratch_bytes(&self) -> u64 {
        self.rows_at_a_time() * self.piece()[1] * self.dtype.size()
    }

    /// What each device sends and receives.
    pub fn traffic(&self) -> Traffic {
        let [rows, cols] = self.piece();
        let others = self.group() - 1;
        let bytes = others * rows * cols * self.dtype.size();
        Traffic { sent: bytes, received: bytes, messages: others * rows.div_ceil(self.rows_at_a_time()) }
    }

    /// Bytes through each device's memory: its own piece is copied, others are gathered or put in place, and
    /// read and written by the link.
    pub(super) fn memory_bytes(&self) -> u64 {
        let [rows, cols] = self.piece();
        let Traffic { sent, received, .. } = self.traffic();
        2 * rows * cols * self.dtype.size() + 2 * sent + sent + received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_shards_of_both_meshes() {
        for devices in [4, 6, 8, 9, 12] {
            for mesh in [ProcessGrid::new(devices, 1), ProcessGrid::new(1, devices)] {
                let n = 2 * devices * 3;
                let regrid = Regrid::new(n, DType::F64, 3, mesh).unwrap();
                let to = regrid.mesh();
                assert_eq!(to.size(), devices);
                let ([rows, cols], [_, caller_cols]) = (regrid.piece(), regrid.caller_shape());
                // The element of the matrix at every index of a shard.
                let before = |at: Coordinate, index: u64| {
                    let place = regrid.place(at);
                    let [shard_rows, shard_cols] = regrid.caller_shape();
                    let (row, col) = (place / mesh.cols() * shard_rows, place % mesh.cols() * shard_cols);
                    (row + index / caller_cols, col + index % caller_cols)
                };
                let after = |at: Coordinate, index: u64| {
                    let (shard_rows, shard_cols) = (n / to.rows(), n / to.cols());
                    (at.row * shard_rows + index / shard_cols, at.col * shard_cols + index % shard_cols)
                };
                for rank in 0..devices {
                    let at = to.coordinate(rank);
                    let mut filled = 0;
                    for [_, taken] in regrid.trades(at) {
                        let back = regrid.trades(taken.peer).find(|[given, _]| given.peer == at);
                        let [given, _] = back.expect("the peer gives what is taken");
                        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                            let index = |trade: Trade| trade.first + i * trade.stride + j;
                            assert_eq!(after(at, index(taken)), before(taken.peer, index(given)));
                            filled += 1;
                        }
                    }
                    assert_eq!(filled, n * n / devices);
                }
            }
        }
    }

    #[test]
    fn meshes_without_a_nearly_square_one() {
        let new = |n, rows, cols| Regrid::new(n, DType::F64, 4, ProcessGrid::new(rows, cols));
        assert_eq!(new(96, 2, 2), Err("the mesh has two axes"));
        for (rows, cols) in [(1, 1), (1, 2), (3, 1), (1, 7)] {
            assert!(new(4 * 42, rows, cols).unwrap_err().contains("no grid with two sides"));
        }
        assert_eq!(new(40, 4, 1), Err("the tile does not divide the shards"));
        let side = |mesh: ProcessGrid| [mesh.rows(), mesh.cols()];
        assert_eq!(side(new(96, 8, 1).unwrap().mesh()), [4, 2]);
        assert_eq!(side(new(96, 1, 12).unwrap_or_else(|why| panic!("{why}")).mesh()), [3, 4]);
    }
}
