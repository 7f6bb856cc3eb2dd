//! The way of one matrix between the caller's sharding and the solver's distribution.

use super::dimension::{Dimension, Placement};
use super::phase::{Phase, Transfer};
use crate::DType;
use crate::layout::{Coordinate, ProcessGrid};

/// Which dimension a phase works along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rows move between process rows.
    Rows,
    /// Columns move between process columns.
    Cols,
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
/// 1. Conversion between the caller's row-major buffer and the solver's column-major one.
/// 2. Compaction: closes the gaps between shards, columns first.
/// 3. Dealing: whole tiles to their owners, columns first.
///
/// In reverse the same backwards; a replicated result is then collected from its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixPlan {
    dtype: DType,
    grid: ProcessGrid,
    rows: Dimension,
    cols: Dimension,
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
    /// The plan of a matrix of `rows` × `cols` on `grid`; each dimension must have been made for the
    /// grid's processes along it.
    pub fn new(dtype: DType, grid: ProcessGrid, rows: Dimension, cols: Dimension) -> Self {
        assert!(rows.procs() == grid.rows() && cols.procs() == grid.cols(), "dimensions of another grid");
        let phases = [
            (Axis::Cols, Phase::compaction(&cols)),
            (Axis::Rows, Phase::compaction(&rows)),
            (Axis::Cols, Phase::dealing(&cols)),
            (Axis::Rows, Phase::dealing(&rows)),
        ];
        let mut plan = Self { dtype, grid, rows, cols, phases, unit_bytes: 0 };
        // Once, because every round of a call asks for it.
        plan.unit_bytes = plan.largest_unit_bytes();
        plan
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The process grid.
    pub fn grid(&self) -> ProcessGrid {
        self.grid
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

    /// Rows and columns of the caller's buffer on each device.
    pub fn caller_shape(&self) -> [u64; 2] {
        [self.rows.held(), self.cols.held()]
    }

    /// Rows and columns of the solver's buffer on each device.
    pub fn solver_shape(&self) -> [u64; 2] {
        [self.rows.capacity(), self.cols.capacity()]
    }

    /// Bytes of the solver's buffer on each device.
    pub fn solver_bytes(&self) -> u64 {
        self.rows.capacity() * self.cols.capacity() * self.dtype.size()
    }

    /// Whether stage 1 can work where the caller's buffer stands: the tile divides both shards.
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
        let in_place = if self.in_place() && rows != cols && rows > 1 && cols > 1 { 2 * slab } else { 0 };
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
        let phases = self.phase_traffic(rank, true);
        let bytes = |piece: Piece| piece.cols * self.rows.capacity() * self.dtype.size();
        self.collection(rank).into_iter().fold(phases, |total, (send, receive)| {
            total
                + Traffic {
                    sent: send.map_or(0, |(_, piece)| bytes(piece)),
                    received: receive.map_or(0, bytes),
                    messages: u64::from(send.is_some()),
                }
        })
    }

    fn phase_traffic(&self, rank: u64, reverse: bool) -> Traffic {
        let mut total = Traffic::default();
        for (axis, phase) in &self.phases {
            let bytes = self.across(*axis) * self.dtype.size();
            let moved = phase.moved(self.position(*axis, rank));
            let (out, into) =
                if reverse { (moved.received, moved.sent) } else { (moved.sent, moved.received) };
            if bytes > 0 {
                total = total
                    + Traffic {
                        sent: out.elements * bytes,
                        received: into.elements * bytes,
                        messages: out.messages,
                    };
            }
        }
        total
    }
}
