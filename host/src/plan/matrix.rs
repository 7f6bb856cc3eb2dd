//! The way of one matrix between the caller's sharding and the solver's distribution.

use super::dealing::Deal;
use super::dimension::{Dimension, Order, Placement};
use super::phase::{Phase, Transport};
use super::request::Placements;
use crate::DType;
use crate::device::{InPlace, Permutation};
use crate::layout::{Coordinate, GlobalTile, ProcessGrid};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Which dimension a phase works along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rows move between process rows.
    Rows,
    /// Columns move between process columns.
    Cols,
}

/// How the caller's row-major buffer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// As the matrix: stage 1 makes it column-major.
    Plain,
    /// As the column-major buffer of the transposed matrix, which it is byte for byte where the tile
    /// divides the shards. The solver's rows are the caller's columns, and its grid is the caller's
    /// mesh transposed.
    Transposed,
}

impl View {
    /// The solver's grid over a mesh, or the mesh under a solver's grid.
    pub(super) fn of_grid(self, grid: ProcessGrid) -> ProcessGrid {
        match self {
            View::Plain => grid,
            View::Transposed => ProcessGrid::new(grid.cols(), grid.rows()),
        }
    }
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
    conversion: InPlace,
    reorderings: Vec<(Axis, Permutation)>,
    phases: [(Axis, Phase); 4],
    most_pieces: u64,
}

/// A slab travels in parts of at least so many bytes: small enough that packing the first one and
/// unpacking the last one, which nothing goes beside, are short; large enough for the link's full rate,
/// since every exchange costs some time however short. Between two H200s 256 MiB were best, before 128.
pub const UNIT_BYTES: u64 = 256 << 20;

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
        Self::with_units(dtype, grid, view, rows, cols, UNIT_BYTES)
    }

    /// As [`MatrixPlan::new`], with slabs in parts of at least `unit_bytes` instead of [`UNIT_BYTES`].
    pub fn with_units(
        dtype: DType,
        grid: ProcessGrid,
        view: View,
        rows: Dimension,
        cols: Dimension,
        unit_bytes: u64,
    ) -> Self {
        assert!(rows.procs() == grid.rows() && cols.procs() == grid.cols(), "dimensions of another grid");
        let fits = rows.fits() && cols.fits();
        assert!(view == View::Plain || fits, "a buffer to be padded has no transposed view");
        let mut reorderings: Vec<(Axis, Permutation)> = [(Axis::Cols, &cols), (Axis::Rows, &rows)]
            .into_iter()
            .filter(|_| fits)
            .filter_map(|(axis, dimension)| Some((axis, dimension.reordering()?)))
            .collect();
        let mut conversion = InPlace::new(rows.capacity(), cols.capacity());
        if let (View::Plain, [(axis, _)]) = (view, &reorderings[..]) {
            let (along, across) = if *axis == Axis::Rows { (&rows, &cols) } else { (&cols, &rows) };
            if along.dealt_shard() == Some(across.capacity()) {
                conversion = InPlace::dealing(rows.capacity(), cols.capacity(), along.tile());
                reorderings.clear();
            }
        }
        let transport = |dimension: &Dimension, across: u64, packed| {
            let slab_bytes = dimension.tile() * across * dtype.size();
            let parts = [4, 2]
                .into_iter()
                .find(|&parts| dimension.tile().is_multiple_of(parts) && slab_bytes / parts >= unit_bytes);
            let parts = parts.unwrap_or(1);
            // Three slabs are the bound for a call.
            Transport { unit: dimension.tile() / parts, units: 3 * parts, packed }
        };
        // Columns of the solver's buffer are contiguous.
        let by_cols = transport(&cols, rows.capacity(), false);
        let by_rows = transport(&rows, cols.capacity(), true);
        let deal = |dimension: &Dimension| {
            let tiles = dimension.cyclic().tiles();
            let place = |k: GlobalTile| (k.0 < tiles).then(|| dimension.place(k));
            dimension.moves().then(|| Deal::new(dimension, place))
        };
        let deal_cols = deal(&cols);
        let other = (rows != cols).then(|| deal(&rows));
        let deal_rows = other.as_ref().unwrap_or(&deal_cols);
        let dealing = |deal: &Option<Deal>, transport| {
            deal.as_ref().map_or_else(Phase::default, |deal| deal.phase(transport))
        };
        let phases = [
            (Axis::Cols, Phase::compaction(&cols, by_cols)),
            (Axis::Rows, Phase::compaction(&rows, by_rows)),
            (Axis::Cols, dealing(&deal_cols, by_cols)),
            (Axis::Rows, dealing(deal_rows, by_rows)),
        ];
        let mut plan =
            Self { dtype, grid, view, rows, cols, conversion, reorderings, phases, most_pieces: 0 };
        plan.most_pieces = (0..grid.size()).map(|rank| plan.pieces(grid.coordinate(rank))).max().unwrap_or(0);
        plan
    }

    /// The way of `nrhs` right-hand sides, placed so: their rows lie over the processes of the rows of `a`, in
    /// this order.
    pub(super) fn right_hand_sides(a: &Self, rows_in: Order, nrhs: u64, placements: Placements) -> Self {
        let rows = &a.rows;
        let rows = Dimension::ordered(rows.extent(), rows.tile(), rows.procs(), placements.rows, rows_in);
        // One tile column for each process column, as long as that is not wider than the matrix's own: the
        // solver spreads wide right-hand sides, and no column ever moves in stages 2 and 3. Wider tiles would
        // have cuBLASMp 0.10.0 ask for workspace of many matrices.
        let procs = a.cols.procs();
        let order = match (placements.cols, a.cols.order()) {
            // Each process column keeps the shard that its devices hold.
            (Placement::Sharded, Order::Read(reading)) => Order::Read(reading.beside(nrhs, procs)),
            _ => Order::Natural,
        };
        let tile = nrhs.div_ceil(procs).clamp(1, a.cols.tile());
        let cols = Dimension::ordered(nrhs, tile, procs, placements.cols, order);
        Self::new(a.dtype, a.grid, View::Plain, rows, cols)
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
        self.view.of_grid(self.grid)
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

    /// The rank that the device at each place of the caller's mesh plays; places are counted row by row.
    pub fn roles(&self) -> Vec<u64> {
        let mesh = self.mesh();
        let mut roles = vec![0; usize::try_from(mesh.size()).expect("ranks of this program")];
        for rank in 0..mesh.size() {
            let place = mesh.rank(self.mesh_coordinate(rank));
            roles[usize::try_from(place).expect("a place in the mesh")] = rank;
        }
        roles
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

    /// Stage 1 of the plain view in place. It applies a reading in passing where the shards that the
    /// reading deals are squares on each device, as those of A are.
    pub fn in_place_conversion(&self) -> &InPlace {
        &self.conversion
    }

    /// What has to change place on every device, in slots of one tile, where stage 1 does not apply
    /// the reading in passing: in the transposed view, and in place as far as the conversion does not. In
    /// this order forward.
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

    /// Whether nothing is to be done on the way to the solver: the caller's buffer is the solver's.
    pub fn stays(&self) -> bool {
        let is_idle = |phase: &Phase| phase.rounds().all(|round| round.is_empty());
        self.view == View::Transposed
            && self.reorderings.is_empty()
            && self.phases.iter().all(|(_, phase)| is_idle(phase))
    }

    /// Bytes of a unit of scratch in a phase.
    pub fn unit_bytes(&self, axis: Axis, phase: &Phase) -> u64 {
        phase.unit() * self.across(axis) * self.dtype.size()
    }

    /// Bytes of a column tile of the solver's buffer, which is what a collected result comes in.
    pub fn piece_bytes(&self) -> u64 {
        self.cols.tile() * self.rows.capacity() * self.dtype.size()
    }

    /// Scratch in bytes for both directions: the units of the phase that uses most, two pieces of a
    /// collected result; what serves a conversion in place best, of two slabs at most.
    pub fn scratch_bytes(&self) -> u64 {
        let phases =
            self.phases.iter().map(|(axis, phase)| phase.scratch() * self.across(*axis) * self.dtype.size());
        let collected = self.collection_rounds().min(2) * self.piece_bytes();
        let [rows, cols] = self.solver_shape();
        let slab = (self.rows.tile() * cols).max(self.cols.tile() * rows) * self.dtype.size();
        let converts = self.view == View::Plain && self.in_place();
        let useful = self.conversion.scratch() * self.dtype.size();
        let in_place = if converts { useful.min(2 * slab) } else { 0 };
        phases.chain([collected, in_place]).max().unwrap_or(0)
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

    /// The grid's rows and columns whose ranks own parts of what `rank` holds whole.
    fn peers(&self, rank: u64) -> [Range<u64>; 2] {
        let at = self.grid.coordinate(rank);
        let along = |dimension: &Dimension, own: u64| match dimension.placement() {
            Placement::Sharded => own..own + 1,
            Placement::Replicated => 0..dimension.procs(),
        };
        [along(&self.rows, at.row), along(&self.cols, at.col)]
    }

    /// How many pieces the rank at a place contributes to a replicated result: its column tiles. A rank
    /// without a real element contributes none.
    fn pieces(&self, at: Coordinate) -> u64 {
        if self.rows.caller_count(at.row) == 0 || self.cols.caller_count(at.col) == 0 {
            return 0;
        }
        let filled = match self.cols.placement() {
            // A sharded dimension's elements may be rotated anywhere in the buffer.
            Placement::Sharded => self.cols.capacity(),
            Placement::Replicated => self.cols.caller_count(at.col),
        };
        filled.div_ceil(self.cols.tile())
    }

    /// Number of rounds of [`MatrixPlan::collection`], the same on each rank.
    pub fn collection_rounds(&self) -> u64 {
        let [rows, cols] = self.peers(0);
        ((rows.end - rows.start) * (cols.end - cols.start) - 1) * self.most_pieces
    }

    /// The rounds in which `rank` hands its pieces on and takes those of its peers: in each, at most
    /// one piece out and one in, each with the peer's rank.
    pub fn collection(&self, rank: u64) -> impl Iterator<Item = CollectionRound> + '_ {
        let [rows, cols] = self.peers(rank);
        let at = self.grid.coordinate(rank);
        let width = cols.end - cols.start;
        let count = (rows.end - rows.start) * width;
        let me = (at.row - rows.start) * width + at.col - cols.start;
        let tile = self.cols.tile();
        (1..count).flat_map(move |step| {
            let peer = |i: u64| Coordinate { row: rows.start + i / width, col: cols.start + i % width };
            let (to, from) = (peer((me + step) % count), peer((me + count - step) % count));
            let (ours, theirs) = (self.pieces(at), self.pieces(from));
            let (to, from) = (self.grid.rank(to), self.grid.rank(from));
            (0..self.most_pieces).map(move |k| {
                let piece =
                    |owner, pieces| (k < pieces).then_some(Piece { owner, first: k * tile, cols: tile });
                (piece(rank, ours).map(|piece| (to, piece)), piece(from, theirs))
            })
        })
    }

    /// What `rank` sends and receives in stages 2 and 3 forward.
    pub fn forward_traffic(&self, rank: u64) -> Traffic {
        self.phase_traffic(rank, false)
    }

    /// What `rank` sends and receives on the way back, collection of a replicated result included.
    pub fn reverse_traffic(&self, rank: u64) -> Traffic {
        self.phase_traffic(rank, true) + self.collection_traffic(rank)
    }

    fn collection_traffic(&self, rank: u64) -> Traffic {
        let [rows, cols] = self.peers(rank);
        let others = (rows.end - rows.start) * (cols.end - cols.start) - 1;
        let ours = self.pieces(self.grid.coordinate(rank));
        let filled_rows = rows.clone().filter(|&row| self.rows.caller_count(row) > 0).count() as u64;
        let all: u64 =
            filled_rows * cols.map(|col| self.pieces(Coordinate { row: rows.start, col })).sum::<u64>();
        Traffic {
            sent: others * ours * self.piece_bytes(),
            received: (all - ours) * self.piece_bytes(),
            messages: others * ours,
        }
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
        let collected = (0..self.grid.size()).map(|rank| self.collection_traffic(rank).sent).sum::<u64>();
        phases + if reverse { collected } else { 0 }
    }

    /// Rounds of messages, forward or on the way back.
    pub fn rounds(&self, reverse: bool) -> u64 {
        let phases: usize = self.phases.iter().map(|(_, phase)| phase.exchanges()).sum();
        phases as u64 + if reverse { self.collection_rounds() } else { 0 }
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
