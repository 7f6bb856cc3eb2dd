//! The way of one matrix between the caller's sharding and the solver's distribution.

use super::dimension::{Dimension, Placement};
use super::phase::{Phase, Transfer};
use crate::DType;
use crate::device::Permutation;
use crate::layout::{Coordinate, ProcessGrid};

/// Which dimension a phase works along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rows move between process rows.
    Rows,
    /// Columns move between process columns.
    Cols,
}

/// How the caller's row-major buffer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// As the matrix: stage 1 makes it column-major.
    Plain,
    /// As the column-major buffer of the transposed matrix, which it is byte for byte where the tile
    /// divides the shards. The solver's rows are the caller's columns, and its grid is the caller's
    /// mesh transposed.
    Transposed,
}

/// What one rank sends and receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent to other ranks.
    pub sent: u64,
    /// Bytes received from other ranks.
    pub received: u64,
    /// Messages sent.
    pub messages: u64,
}

impl Traffic {
    /// The larger of each figure.
    fn max(self, other: Self) -> Self {
        Self {
            sent: self.sent.max(other.sent),
            received: self.received.max(other.received),
            messages: self.messages.max(other.messages),
        }
    }
}

impl std::ops::Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            messages: self.messages + other.messages,
        }
    }
}

/// The stages of one matrix, forward (caller to solver) and reverse.
///
/// 1. Conversion between the caller's row-major buffer and the solver's column-major one; none in the
///    transposed view. The local side of a reading comes with it, or follows it in place.
/// 2. Compaction: closes the gaps between shards, columns first.
/// 3. Dealing: whole tiles to their owners, columns first.
///
/// In reverse the same backwards; a replicated result is then collected from its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixPlan {
    dtype: DType,
    grid: ProcessGrid,
    view: View,
    rows: Dimension,
    cols: Dimension,
    reorderings: Vec<(Axis, Permutation)>,
    phases: [(Axis, Phase); 4],
    unit_bytes: u64,
}

/// A piece of a replicated result that a rank hands to another: some of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The rank that owns it.
    pub owner: u64,
    /// First local column.
    pub first: u64,
    /// Columns.
    pub cols: u64,
}

/// A round of [`MatrixPlan::collection`]: a piece to send and to whom, and a piece to receive.
pub type CollectionRound = (Option<(u64, Piece)>, Option<Piece>);

impl MatrixPlan {
    /// The plan of a matrix of `rows` × `cols` on `grid`, the solver's; each dimension must have been
    /// made for the grid's processes along it. The transposed view needs dimensions that fit
    /// ([`Dimension::fits`]).
    pub fn new(dtype: DType, grid: ProcessGrid, view: View, rows: Dimension, cols: Dimension) -> Self {
        assert!(rows.procs() == grid.rows() && cols.procs() == grid.cols(), "dimensions of another grid");
        let fits = rows.fits() && cols.fits();
        assert!(view == View::Plain || fits, "a buffer to be padded has no transposed view");
        let reorderings = [(Axis::Cols, &cols), (Axis::Rows, &rows)]
            .into_iter()
            .filter(|_| fits)
            .filter_map(|(axis, dimension)| Some((axis, dimension.reordering()?)))
            .collect();
        let phases = [
            (Axis::Cols, Phase::compaction(&cols)),
            (Axis::Rows, Phase::compaction(&rows)),
            (Axis::Cols, Phase::dealing(&cols)),
            (Axis::Rows, Phase::dealing(&rows)),
        ];
        let mut plan = Self { dtype, grid, view, rows, cols, reorderings, phases, unit_bytes: 0 };
        // Once, because every round of a call asks for it.
        plan.unit_bytes = plan.largest_unit_bytes();
        plan
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The solver's process grid.
    pub fn grid(&self) -> ProcessGrid {
        self.grid
    }

    /// How the caller's buffer is taken.
    pub fn view(&self) -> View {
        self.view
    }

    /// The caller's mesh, as a grid.
    pub fn mesh(&self) -> ProcessGrid {
        match self.view {
            View::Plain => self.grid,
            View::Transposed => ProcessGrid::new(self.grid.cols(), self.grid.rows()),
        }
    }

    /// Where the device that plays `rank` stands in the caller's mesh.
    pub fn mesh_coordinate(&self, rank: u64) -> Coordinate {
        let at = self.grid.coordinate(rank);
        let (row, col) = (self.rows.mesh_coordinate(at.row), self.cols.mesh_coordinate(at.col));
        match self.view {
            View::Plain => Coordinate { row, col },
            View::Transposed => Coordinate { row: col, col: row },
        }
    }

    /// The rows.
    pub fn rows(&self) -> &Dimension {
        &self.rows
    }

    /// The columns.
    pub fn cols(&self) -> &Dimension {
        &self.cols
    }

    /// Stages 2 and 3 in forward order.
    pub fn phases(&self) -> &[(Axis, Phase)] {
        &self.phases
    }

    /// What has to change place on every device, in slots of one tile, where stage 1 does not apply
    /// the reading in passing: in place, and in the transposed view. In this order forward.
    pub fn reorderings(&self) -> &[(Axis, Permutation)] {
        &self.reorderings
    }

    /// Rows and columns of the caller's buffer on each device.
    pub fn caller_shape(&self) -> [u64; 2] {
        match self.view {
            View::Plain => [self.rows.held(), self.cols.held()],
            View::Transposed => [self.cols.held(), self.rows.held()],
        }
    }

    /// Rows and columns of the solver's buffer on each device.
    pub fn solver_shape(&self) -> [u64; 2] {
        [self.rows.capacity(), self.cols.capacity()]
    }

    /// Bytes of the solver's buffer on each device.
    pub fn solver_bytes(&self) -> u64 {
        self.rows.capacity() * self.cols.capacity() * self.dtype.size()
    }

    /// Whether stage 1, if there is one, can work where the caller's buffer stands: the tile divides
    /// both shards.
    pub fn in_place(&self) -> bool {
        self.rows.fits() && self.cols.fits()
    }

    /// Bytes of the largest piece that is in flight at one time.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    fn largest_unit_bytes(&self) -> u64 {
        let moved = self.phases.iter().map(|(axis, phase)| phase.longest() * self.across(*axis));
        let collected = if self.peers(0).len() > 1 { self.cols.tile() * self.rows.capacity() } else { 0 };
        moved.chain([collected]).max().unwrap_or(0) * self.dtype.size()
    }

    /// Scratch in bytes for both directions: a unit to send and a unit to receive; for a conversion
    /// in place of a matrix that is not square on its device, two slabs at least.
    pub fn scratch_bytes(&self) -> u64 {
        let [rows, cols] = self.solver_shape();
        let slab = self.rows.tile() * cols.max(1);
        let slab = slab.max(self.cols.tile() * rows) * self.dtype.size();
        let converts = self.view == View::Plain && self.in_place();
        let in_place = if converts && rows != cols && rows > 1 && cols > 1 { 2 * slab } else { 0 };
        (2 * self.unit_bytes()).max(in_place)
    }

    /// Elements of the other dimension that move with each element along `axis`.
    pub fn across(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Rows => self.cols.capacity(),
            Axis::Cols => self.rows.capacity(),
        }
    }

    /// This rank's place along `axis`.
    pub fn position(&self, axis: Axis, rank: u64) -> u64 {
        let Coordinate { row, col } = self.grid.coordinate(rank);
        match axis {
            Axis::Rows => row,
            Axis::Cols => col,
        }
    }

    /// The rank at `position` along `axis`, in line with `rank`.
    pub fn rank_at(&self, axis: Axis, rank: u64, position: u64) -> u64 {
        let at = self.grid.coordinate(rank);
        self.grid.rank(match axis {
            Axis::Rows => Coordinate { row: position, ..at },
            Axis::Cols => Coordinate { col: position, ..at },
        })
    }

    /// What `rank` sends and receives in a round along `axis`.
    pub fn of_rank(&self, axis: Axis, rank: u64, round: &[Transfer]) -> (Option<Transfer>, Option<Transfer>) {
        let me = self.position(axis, rank);
        let find = |of: fn(&Transfer) -> u64| round.iter().copied().find(|t| of(t) == me);
        (find(|t| t.from), find(|t| t.to))
    }

    /// The ranks that own parts of what `rank` holds whole, `rank` included, in ascending order.
    pub fn peers(&self, rank: u64) -> Vec<u64> {
        let at = self.grid.coordinate(rank);
        let along = |dimension: &Dimension, own: u64| match dimension.placement() {
            Placement::Sharded => own..own + 1,
            Placement::Replicated => 0..dimension.procs(),
        };
        along(&self.rows, at.row)
            .flat_map(|row| along(&self.cols, at.col).map(move |col| self.grid.rank(Coordinate { row, col })))
            .collect()
    }

    /// The pieces that `rank` contributes to a replicated result. Those without a real element are
    /// left out.
    pub fn pieces(&self, rank: u64) -> Vec<Piece> {
        let at = self.grid.coordinate(rank);
        if self.rows.caller_count(at.row) == 0 {
            return Vec::new();
        }
        let filled = match self.cols.placement() {
            // A sharded dimension's elements may be rotated anywhere in the buffer.
            Placement::Sharded if self.cols.caller_count(at.col) == 0 => 0,
            Placement::Sharded => self.cols.capacity(),
            Placement::Replicated => self.cols.caller_count(at.col),
        };
        let tile = self.cols.tile();
        (0..filled.div_ceil(tile)).map(|k| Piece { owner: rank, first: k * tile, cols: tile }).collect()
    }

    /// The rounds in which `rank` hands its pieces on and takes those of its peers: in each, at most
    /// one piece out and one in, each with the peer's rank.
    pub fn collection(&self, rank: u64) -> Vec<CollectionRound> {
        let peers = self.peers(rank);
        let count = peers.len();
        let me = peers.iter().position(|&p| p == rank).expect("a rank is among its own peers");
        let pieces: Vec<Vec<Piece>> = peers.iter().map(|&p| self.pieces(p)).collect();
        let longest = pieces.iter().map(Vec::len).max().unwrap_or(0);
        let mut rounds = Vec::new();
        for step in 1..count {
            let (to, from) = ((me + step) % count, (me + count - step) % count);
            for k in 0..longest {
                let send = pieces[me].get(k).map(|&piece| (peers[to], piece));
                let receive = pieces[from].get(k).copied();
                if send.is_some() || receive.is_some() {
                    rounds.push((send, receive));
                }
            }
        }
        rounds
    }

    /// What `rank` sends and receives in stages 2 and 3 forward.
    pub fn forward_traffic(&self, rank: u64) -> Traffic {
        self.phase_traffic(rank, false)
    }

    /// What `rank` sends and receives on the way back, collection of a replicated result included.
    pub fn reverse_traffic(&self, rank: u64) -> Traffic {
        self.phase_traffic(rank, true) + self.collection_traffic(rank)
    }

    fn piece_bytes(&self, piece: Piece) -> u64 {
        piece.cols * self.rows.capacity() * self.dtype.size()
    }

    fn collection_traffic(&self, rank: u64) -> Traffic {
        let bytes = |piece: Piece| self.piece_bytes(piece);
        self.collection(rank).into_iter().fold(Traffic::default(), |total, (send, receive)| {
            total
                + Traffic {
                    sent: send.map_or(0, |(_, piece)| bytes(piece)),
                    received: receive.map_or(0, bytes),
                    messages: u64::from(send.is_some()),
                }
        })
    }

    /// What the busiest rank sends and receives at most, forward or on the way back; of a replicated
    /// result rank 0 has most to collect.
    pub fn busiest(&self, reverse: bool) -> Traffic {
        // Phases along rows and along columns add up, so the busiest places meet in one rank.
        let along = |axis: Axis, procs: u64| {
            let ranks = (0..procs).map(|p| match axis {
                Axis::Rows => self.grid.rank(Coordinate { row: p, col: 0 }),
                Axis::Cols => self.grid.rank(Coordinate { row: 0, col: p }),
            });
            ranks.map(|rank| self.axis_traffic(axis, rank, reverse)).fold(Traffic::default(), Traffic::max)
        };
        let phases = along(Axis::Rows, self.grid.rows()) + along(Axis::Cols, self.grid.cols());
        phases + if reverse { self.collection_traffic(0) } else { Traffic::default() }
    }

    /// Bytes that all ranks together send, forward or on the way back.
    pub fn sent_in_all(&self, reverse: bool) -> u64 {
        let (rows, cols) = (self.grid.rows(), self.grid.cols());
        let along = |axis: Axis, procs: u64, step: u64| -> u64 {
            (0..procs).map(|p| self.axis_traffic(axis, p * step, reverse).sent).sum()
        };
        let phases = cols * along(Axis::Rows, rows, cols) + rows * along(Axis::Cols, cols, 1);
        let own =
            |rank: u64| -> u64 { self.pieces(rank).into_iter().map(|piece| self.piece_bytes(piece)).sum() };
        let others = self.peers(0).len() as u64 - 1;
        let collected = if reverse { others * (0..self.grid.size()).map(own).sum::<u64>() } else { 0 };
        phases + collected
    }

    /// Rounds of messages, forward or on the way back.
    pub fn rounds(&self, reverse: bool) -> u64 {
        let phases: usize = self.phases.iter().map(|(_, phase)| phase.rounds().len()).sum();
        let collection = if reverse { self.collection(0).len() } else { 0 };
        (phases + collection) as u64
    }

    fn phase_traffic(&self, rank: u64, reverse: bool) -> Traffic {
        self.axis_traffic(Axis::Rows, rank, reverse) + self.axis_traffic(Axis::Cols, rank, reverse)
    }

    fn axis_traffic(&self, axis: Axis, rank: u64, reverse: bool) -> Traffic {
        let bytes = self.across(axis) * self.dtype.size();
        let mut total = Traffic::default();
        if bytes == 0 {
            return total;
        }
        for (_, phase) in self.phases.iter().filter(|(along, _)| *along == axis) {
            let moved = phase.moved(self.position(axis, rank));
            let (out, into) =
                if reverse { (moved.received, moved.sent) } else { (moved.sent, moved.received) };
            total = total
                + Traffic {
                    sent: out.elements * bytes,
                    received: into.elements * bytes,
                    messages: out.messages,
                };
        }
        total
    }
}
