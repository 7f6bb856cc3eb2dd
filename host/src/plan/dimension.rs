//! One dimension of a matrix between the caller's sharding and the solver's distribution.

use crate::device::{IndexMap, Permutation};
use crate::layout::{BlockCyclic, Contiguous, GlobalTile, LocalTile};
use serde::{Deserialize, Serialize};

/// How the caller's array is placed along one dimension of the process grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Cut into contiguous shards of ⌈extent / processes⌉, padded at the end.
    Sharded,
    /// Held whole by every process.
    #[default]
    Replicated,
}

/// An order of a dimension's tiles under which shards already lie block-cyclically.
///
/// The dimension is cut into `fine` shards of `shard` elements, each rounded up to whole tiles. The
/// order takes one tile of each shard in turn, τ(0), τ(1), …, τ(fine − 1), and then the next tile of
/// each, with τ(q) = (q mod coarse) · fine / coarse + q / coarse. Dealt to `fine` processes, tile by
/// tile, process q gets shard τ(q) as it stands; dealt to `coarse` of them, process p gets shard p of
/// `coarse` with its tiles in another order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reading {
    /// Shards, at least 1.
    pub fine: u64,
    /// A divisor of `fine`; τ is the identity for 1 and for `fine`.
    pub coarse: u64,
    /// Elements in a shard.
    pub shard: u64,
}

impl Reading {
    /// The reading of `extent` elements cut into `fine` shards.
    pub fn new(extent: u64, fine: u64, coarse: u64) -> Self {
        assert!(coarse > 0 && fine.is_multiple_of(coarse), "{coarse} does not divide {fine}");
        Self { fine, coarse, shard: extent.div_ceil(fine) }
    }

    /// The reading of a dimension that lies over `sides[0]` processes in one place and over `sides[1]` in
    /// another, so that it has one order in both. Where neither number divides the other, tiles have to be
    /// dealt on the side of fewer processes.
    ///
    /// # Errors
    /// Why there is none: those tiles would not be whole.
    pub fn symmetric(extent: u64, tile: u64, sides: [u64; 2]) -> Result<Self, &'static str> {
        let (long, short) = (sides[0].max(sides[1]), sides[0].min(sides[1]));
        if long.is_multiple_of(short) {
            return Ok(Self::new(extent, long, short));
        }
        Self::in_mesh_order(extent, tile, sides)
            .ok_or("neither side of the grid divides the other, and the tile does not divide the shards")
    }

    /// A reading under which every device plays the rank at its own place in the mesh. Unless the sides are
    /// equal or one of them is 1, tiles have to be dealt on the side of fewer processes, so that the tile must
    /// divide all shards.
    pub fn in_mesh_order(extent: u64, tile: u64, sides: [u64; 2]) -> Option<Self> {
        let (long, short) = (sides[0].max(sides[1]), sides[0].min(sides[1]));
        let whole = |count: u64| extent.is_multiple_of(count * tile);
        let keeps = short == 1 || short == long || whole(long) && whole(short);
        keeps.then(|| Self::new(extent, long, if short == long { short } else { 1 }))
    }

    /// The order over `procs` processes of a dimension that has this reading.
    pub fn over(self, procs: u64) -> Order {
        if procs == self.fine || procs == self.coarse { Order::Read(self) } else { Order::Dealt(self) }
    }

    /// The reading of another dimension, one that lies over `procs` processes only and shares them with
    /// this reading's: each process keeps the shard that it holds.
    pub fn beside(&self, extent: u64, procs: u64) -> Self {
        Self::new(extent, procs, if procs == self.fine { self.coarse } else { 1 })
    }

    /// Fine shards in a shard of the coarse side.
    fn merged(&self) -> u64 {
        self.fine / self.coarse
    }

    /// The shard whose turn is `turn`: τ.
    pub fn shard_of_turn(&self, turn: u64) -> u64 {
        turn % self.coarse * self.merged() + turn / self.coarse
    }

    /// The turn of a shard: the inverse of τ.
    pub fn turn_of_shard(&self, shard: u64) -> u64 {
        shard % self.merged() * self.coarse + shard / self.merged()
    }

    /// Tiles in a shard that is rounded up to whole tiles.
    fn tiles(&self, tile: u64) -> u64 {
        self.shard.div_ceil(tile)
    }

    /// Elements in the order, padding included.
    pub fn extent(&self, tile: u64) -> u64 {
        self.fine * self.tiles(tile) * tile
    }

    /// Whether elements keep their order, padding aside.
    pub fn keeps_order(&self, tile: u64) -> bool {
        let in_turn = self.coarse == 1 || self.coarse == self.fine;
        self.fine == 1 || self.tiles(tile) <= 1 && in_turn
    }

    fn apply(&self, map: IndexMap) -> IndexMap {
        IndexMap { fine: self.fine, coarse: self.coarse, shard: self.shard, ..map }
    }
}

/// How the solver's order of a dimension comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The caller's order: elements move (stages 2 and 3).
    Natural,
    /// A reading over as many processes as its fine or its coarse side: nothing changes devices.
    Read(Reading),
    /// The order of a reading over another number of processes: whole tiles are dealt (stage 3), all of
    /// them full. This is for grids of which neither side divides the other.
    Dealt(Reading),
}

impl Order {
    /// The same order of a dimension that lies over `procs` processes.
    pub fn over(&self, procs: u64) -> Self {
        self.reading().map_or(Order::Natural, |reading| reading.over(procs))
    }

    fn reading(&self) -> Option<Reading> {
        match *self {
            Order::Natural => None,
            Order::Read(reading) | Order::Dealt(reading) => Some(reading),
        }
    }
}

/// One dimension: extent, tile, processes, the caller's placement, the solver's order, and the room in
/// the solver's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    extent: u64,
    cyclic: BlockCyclic,
    placement: Placement,
    order: Order,
    capacity: u64,
}

impl Dimension {
    /// A dimension of `extent` elements in tiles of `tile` ≥ 1 over `procs` ≥ 1 processes, in the
    /// caller's order.
    pub fn new(extent: u64, tile: u64, procs: u64, placement: Placement) -> Self {
        Self::ordered(extent, tile, procs, placement, Order::Natural)
    }

    /// The same in another order. A reading must be of this extent; dealt, its shards and those of the
    /// processes must be whole tiles.
    pub fn ordered(extent: u64, tile: u64, procs: u64, placement: Placement, order: Order) -> Self {
        if let Order::Read(reading) = order {
            let sides = [reading.fine, reading.coarse];
            assert!(sides.contains(&procs), "{procs} processes are no side of {reading:?}");
        }
        if let Order::Dealt(reading) = order {
            let whole = |shard: u64, count: u64| shard.is_multiple_of(tile) && shard * count == extent;
            let fits = whole(reading.shard, reading.fine) && whole(extent.div_ceil(procs), procs);
            assert!(fits, "{extent} elements over {procs} processes are not whole tiles of {reading:?}");
        }
        let solvers_extent = order.reading().map_or(extent, |reading| reading.extent(tile));
        let cyclic = BlockCyclic::new(solvers_extent, tile, procs);
        // Whole tiles of the process that owns most of them.
        let owned = cyclic.tiles().div_ceil(procs) * tile;
        let capacity = match (order, placement) {
            (Order::Natural, Placement::Sharded) => {
                Contiguous::new(extent, procs).shard().next_multiple_of(tile)
            }
            _ => owned,
        };
        Self { extent, cyclic, placement, order, capacity }
    }

    /// The solver's distribution, padding inside a reading included.
    pub fn cyclic(&self) -> BlockCyclic {
        self.cyclic
    }

    /// The caller's placement.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The solver's order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Elements of the caller in the whole dimension.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// Elements in a tile.
    pub fn tile(&self) -> u64 {
        self.cyclic.tile()
    }

    /// Processes along the dimension.
    pub fn procs(&self) -> u64 {
        self.cyclic.procs()
    }

    /// The caller's shards, if the dimension is sharded. Those of a reading's coarse side are whole
    /// shards of its fine side.
    pub fn shards(&self) -> Contiguous {
        match self.order {
            Order::Read(reading) => {
                Contiguous::of_shards(self.extent, reading.shard * (reading.fine / self.procs()))
            }
            Order::Natural | Order::Dealt(_) => Contiguous::new(self.extent, self.procs()),
        }
    }

    /// Which of the caller's shards process `proc` holds: the coordinate in the caller's mesh of the
    /// device that plays it.
    pub fn mesh_coordinate(&self, proc: u64) -> u64 {
        match self.order {
            Order::Read(reading) if reading.fine == self.procs() => reading.shard_of_turn(proc),
            _ => proc,
        }
    }

    /// Elements in each device's buffer of the caller, padding included.
    pub fn held(&self) -> u64 {
        match self.placement {
            Placement::Sharded => self.shards().shard(),
            Placement::Replicated => self.extent,
        }
    }

    /// Elements in each device's solver buffer: whole tiles, at least what any process owns.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether the caller's buffer has the solver's extent already.
    pub fn fits(&self) -> bool {
        (self.placement == Placement::Sharded || self.procs() == 1) && self.capacity == self.held()
    }

    /// Whether elements change devices between the caller's placement and the solver's.
    pub fn moves(&self) -> bool {
        self.placement == Placement::Sharded && self.procs() > 1 && !matches!(self.order, Order::Read(_))
    }

    /// Whether the solver's dimension has elements that the caller's has not.
    pub fn is_padded(&self) -> bool {
        self.cyclic.extent() > self.extent
    }

    /// Elements of the caller's shard of `proc` that belong to a lower process once the gaps between
    /// shards are closed (stage 2): shard starts move from proc·held to proc·capacity.
    pub fn leaving(&self, proc: u64) -> u64 {
        if self.moves() { (proc * (self.capacity - self.held())).min(self.shards().count(proc)) } else { 0 }
    }

    /// The process that owns a tile, counted in the caller's order, after stage 3, and its place there.
    pub fn place(&self, tile: GlobalTile) -> (u64, LocalTile) {
        self.cyclic.place(match self.order {
            Order::Natural => tile,
            Order::Read(reading) | Order::Dealt(reading) => {
                let each = reading.tiles(self.tile()).max(1);
                GlobalTile(tile.0 % each * reading.fine + reading.turn_of_shard(tile.0 / each))
            }
        })
    }

    /// Elements of the fine shards whose tiles [`Self::reordering`] deals in turn, under a reading.
    pub(super) fn dealt_shard(&self) -> Option<u64> {
        match self.order {
            Order::Read(reading) => Some(reading.shard),
            Order::Natural | Order::Dealt(_) => None,
        }
    }

    /// How the caller's tiles have to change place on every process where they stand, if they must:
    /// the coarse side of a reading, with its buffer in the caller's local order.
    pub fn reordering(&self) -> Option<Permutation> {
        let Order::Read(reading) = self.order else { return None };
        let merged = reading.fine / self.procs();
        let each = u32::try_from(reading.tiles(self.tile())).expect("fewer than 2³² tiles");
        let merged = u32::try_from(merged).expect("fewer than 2³² shards");
        let sources: Vec<u32> = (0..merged * each).map(|slot| slot % merged * each + slot / merged).collect();
        Some(Permutation::from_sources(&sources)).filter(|permutation| !permutation.is_identity())
    }

    /// Solver buffer index to index in the caller's buffer on process `proc`, as the conversion of
    /// stage 1 applies it. Of a sharded dimension the elements that will leave are rotated to the
    /// end, where stage 2 sends them from; of a replicated one each process picks what it owns. A
    /// reading is applied in passing.
    pub fn caller_map(&self, proc: u64) -> IndexMap {
        match (self.placement, self.order) {
            (Placement::Replicated, _) => self.original_map(proc),
            (Placement::Sharded, Order::Read(_)) => {
                let shard = self.mesh_coordinate(proc);
                IndexMap {
                    base: shard * self.held(),
                    limit: self.shards().count(shard),
                    ..self.original_map(proc)
                }
            }
            (Placement::Sharded, Order::Natural | Order::Dealt(_)) => IndexMap {
                shift: self.leaving(proc) % self.capacity.max(1),
                capacity: self.capacity,
                ..IndexMap::identity(self.shards().count(proc))
            },
        }
    }

    /// Solver buffer index to index in the solver's order on process `proc`, padding inside a reading
    /// included.
    pub fn global_map(&self, proc: u64) -> IndexMap {
        IndexMap::block_cyclic(self.tile(), self.procs(), proc, self.cyclic.extent())
    }

    /// Solver buffer index to index in the caller's order on process `proc`; padding is invalid.
    pub fn original_map(&self, proc: u64) -> IndexMap {
        let map = IndexMap::block_cyclic(self.tile(), self.procs(), proc, self.extent);
        self.order.reading().map_or(map, |reading| reading.apply(map))
    }

    /// Index in the solver's order to index in the caller's; padding is invalid.
    pub fn order_map(&self) -> IndexMap {
        IndexMap { procs: 1, proc: 0, ..self.original_map(0) }
    }

    /// Real elements in the buffer of `proc` when it holds the caller's part of the dimension; of a
    /// replicated one padding inside a reading counts.
    pub fn caller_count(&self, proc: u64) -> u64 {
        match self.placement {
            Placement::Sharded => self.shards().count(self.mesh_coordinate(proc)),
            Placement::Replicated => self.cyclic.count(proc),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capacity_holds_what_each_process_owns() {
        for extent in 0..60 {
            for tile in 1..12 {
                for procs in 1..6 {
                    for placement in [Placement::Sharded, Placement::Replicated] {
                        let d = Dimension::new(extent, tile, procs, placement);
                        for p in 0..procs {
                            assert!(d.capacity() >= d.cyclic().count(p), "{d:?} process {p}");
                        }
                        assert_eq!(d.capacity() % tile, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn a_reading_takes_a_tile_of_each_shard_in_turn() {
        // Two processes hold two shards each, so the turn is 0, 2, 1, 3.
        let reading = Reading::new(22, 4, 2);
        assert_eq!(reading.shard, 6);
        let d = Dimension::ordered(22, 4, 4, Placement::Sharded, Order::Read(reading));
        assert_eq!((0..4).map(|p| d.mesh_coordinate(p)).collect::<Vec<_>>(), [0, 2, 1, 3]);
        let order: Vec<i64> =
            (0..32).map(|k| d.order_map().map(k).map_or(-1, |g| i64::try_from(g).unwrap())).collect();
        #[rustfmt::skip]
        assert_eq!(order, [
            0, 1, 2, 3,  12, 13, 14, 15,  6, 7, 8, 9,  18, 19, 20, 21,
            4, 5, -1, -1,  16, 17, -1, -1,  10, 11, -1, -1,  -1, -1, -1, -1,
        ]);
        let coarse = Dimension::ordered(22, 4, 2, Placement::Sharded, Order::Read(reading));
        assert_eq!((coarse.held(), coarse.capacity(), d.held(), d.capacity()), (12, 16, 6, 8));
        // Tiles 0 and 1 of one shard, 2 and 3 of the other: the solver wants one of each in turn.
        assert_eq!(coarse.reordering().unwrap().sources(), [0, 2, 1, 3]);
        assert_eq!(d.reordering(), None);
    }

    #[test]
    fn the_order_is_kept_where_each_shard_is_one_tile_and_has_its_turn() {
        let keeps = |n, fine, coarse, tile| Reading::new(n, fine, coarse).keeps_order(tile);
        assert!(keeps(100, 1, 1, 7));
        assert!(keeps(40, 4, 1, 10) && keeps(40, 4, 4, 16));
        assert!(!keeps(40, 4, 2, 10), "the turn is 0, 2, 1, 3");
        assert!(!keeps(40, 4, 4, 5));
    }

    prop_compose! {
        fn read_dimension()(
            coarse in 1_u64..5, merged in 1_u64..5, extent in 0_u64..200, tile in 1_u64..12,
            on_fine_side: bool, replicated: bool,
        ) -> Dimension {
            let fine = coarse * merged;
            let procs = if on_fine_side { fine } else { coarse };
            let placement = if replicated { Placement::Replicated } else { Placement::Sharded };
            Dimension::ordered(extent, tile, procs, placement, Order::Read(Reading::new(extent, fine, coarse)))
        }
    }

    proptest! {
        #[test]
        fn every_element_has_one_place_in_a_reading(d in read_dimension()) {
            let mut found = vec![0; usize::try_from(d.extent()).unwrap()];
            for p in 0..d.procs() {
                let (caller, original, global) = (d.caller_map(p), d.original_map(p), d.global_map(p));
                prop_assert_eq!(d.cyclic().count(p), d.capacity());
                for l in 0..d.capacity() {
                    let in_order = global.map(l).expect("padding counts in the solver's order");
                    prop_assert_eq!(d.order_map().map(in_order), original.map(l));
                    if let Some(g) = original.map(l) {
                        found[usize::try_from(g).unwrap()] += 1;
                        prop_assert_eq!(original.unmap(g), Some(l));
                        prop_assert_eq!(d.order_map().unmap(g), Some(in_order));
                        let (owner, slot) = d.cyclic().local(crate::layout::GlobalElement(in_order));
                        prop_assert_eq!((owner, slot.0), (p, l));
                    }
                    let held = caller.map(l);
                    let begin = match d.placement() {
                        Placement::Sharded => d.mesh_coordinate(p) * d.held(),
                        Placement::Replicated => 0,
                    };
                    prop_assert_eq!(held.map(|h| begin + h), original.map(l));
                    if let Some(h) = held {
                        prop_assert!(h < d.held());
                        prop_assert_eq!(caller.unmap(h), Some(l));
                    }
                }
            }
            prop_assert!(found.iter().all(|&times| times == 1), "{:?}", found);
        }

        #[test]
        fn tiles_in_local_order_become_the_readings_order(
            coarse in 1_u64..5, merged in 1_u64..5, tiles in 1_u64..6, tile in 1_u64..9, cut in 0_u64..16,
            on_fine_side: bool,
        ) {
            let fine = coarse * merged;
            let extent = fine * tiles * tile - cut % fine;
            let procs = if on_fine_side { fine } else { coarse };
            let order = Order::Read(Reading::new(extent, fine, coarse));
            let d = Dimension::ordered(extent, tile, procs, Placement::Sharded, order);
            prop_assert!(d.fits());
            let permutation = d.reordering();
            for p in 0..d.procs() {
                for l in 0..d.capacity() {
                    let slot = l / d.tile();
                    let from = permutation.as_ref().map_or(slot, |p| p.sources()[usize::try_from(slot).unwrap()]);
                    let local = from * d.tile() + l % d.tile();
                    let real = Some(local).filter(|&l| l < d.caller_count(p));
                    prop_assert_eq!(d.caller_map(p).map(l), real);
                }
            }
        }
    }
}
