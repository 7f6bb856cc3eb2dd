//! One dimension of a matrix between the caller's sharding and the solver's distribution.

use crate::device::IndexMap;
use crate::layout::{BlockCyclic, Contiguous};
use serde::{Deserialize, Serialize};

/// How the caller's array is placed along one dimension of the process grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Cut into contiguous shards of ⌈extent / processes⌉, padded at the end.
    Sharded,
    /// Held whole by every process.
    Replicated,
}

/// One dimension: extent, tile, processes, the caller's placement, and the room in the solver's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    cyclic: BlockCyclic,
    placement: Placement,
    capacity: u64,
}

impl Dimension {
    /// A dimension of `extent` elements in tiles of `tile` ≥ 1 over `procs` ≥ 1 processes.
    pub fn new(extent: u64, tile: u64, procs: u64, placement: Placement) -> Self {
        let cyclic = BlockCyclic::new(extent, tile, procs);
        let held = match placement {
            Placement::Sharded => Contiguous::new(extent, procs).shard(),
            // Whole tiles of the process that owns most of them.
            Placement::Replicated => cyclic.tiles().div_ceil(procs) * tile,
        };
        Self { cyclic, placement, capacity: held.next_multiple_of(tile) }
    }

    /// The solver's distribution.
    pub fn cyclic(&self) -> BlockCyclic {
        self.cyclic
    }

    /// The caller's placement.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Elements in the whole dimension.
    pub fn extent(&self) -> u64 {
        self.cyclic.extent()
    }

    /// Elements in a tile.
    pub fn tile(&self) -> u64 {
        self.cyclic.tile()
    }

    /// Processes along the dimension.
    pub fn procs(&self) -> u64 {
        self.cyclic.procs()
    }

    /// The caller's shards, if the dimension is sharded.
    pub fn shards(&self) -> Contiguous {
        Contiguous::new(self.extent(), self.procs())
    }

    /// Elements in each device's buffer of the caller, padding included.
    pub fn held(&self) -> u64 {
        match self.placement {
            Placement::Sharded => self.shards().shard(),
            Placement::Replicated => self.extent(),
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
        self.placement == Placement::Sharded && self.procs() > 1
    }

    /// Elements of the caller's shard of `proc` that belong to a lower process once the gaps between
    /// shards are closed (stage 2): shard starts move from proc·held to proc·capacity.
    pub fn leaving(&self, proc: u64) -> u64 {
        match self.placement {
            Placement::Sharded => (proc * (self.capacity - self.held())).min(self.shards().count(proc)),
            Placement::Replicated => 0,
        }
    }

    /// Solver buffer index to index in the caller's buffer on process `proc`, as the conversion of
    /// stage 1 applies it. Of a sharded dimension the elements that will leave are rotated to the
    /// end, where stage 2 sends them from; of a replicated one each process picks what it owns.
    pub fn caller_map(&self, proc: u64) -> IndexMap {
        match self.placement {
            Placement::Sharded => IndexMap {
                shift: self.leaving(proc) % self.capacity.max(1),
                capacity: self.capacity,
                ..IndexMap::identity(self.shards().count(proc))
            },
            Placement::Replicated => self.global_map(proc),
        }
    }

    /// Solver buffer index to global index on process `proc`, in the solver's distribution.
    pub fn global_map(&self, proc: u64) -> IndexMap {
        IndexMap::block_cyclic(self.tile(), self.procs(), proc, self.extent())
    }

    /// Real elements in the buffer of `proc` when it holds the caller's part of the dimension.
    pub fn caller_count(&self, proc: u64) -> u64 {
        match self.placement {
            Placement::Sharded => self.shards().count(proc),
            Placement::Replicated => self.cyclic.count(proc),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
