//! The block-cyclic distribution of one dimension.

use super::{ElementInTile, GlobalElement, GlobalTile, LocalElement, LocalTile};

/// One dimension dealt out in tiles to processes in turn, beginning with process 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockCyclic {
    extent: u64,
    tile: u64,
    procs: u64,
}

impl BlockCyclic {
    /// `extent` elements in tiles of `tile` ≥ 1 over `procs` ≥ 1 processes.
    pub fn new(extent: u64, tile: u64, procs: u64) -> Self {
        assert!(tile > 0 && procs > 0, "a block-cyclic dimension needs tile and processes above zero");
        Self { extent, tile, procs }
    }

    /// Elements in the dimension.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// Elements in a tile (the last one may hold fewer).
    pub fn tile(&self) -> u64 {
        self.tile
    }

    /// Processes along the dimension.
    pub fn procs(&self) -> u64 {
        self.procs
    }

    /// Tiles in the dimension, a partial one included.
    pub fn tiles(&self) -> u64 {
        self.extent.div_ceil(self.tile)
    }

    /// The tile of an element and the place inside it.
    pub fn split(&self, g: GlobalElement) -> (GlobalTile, ElementInTile) {
        (GlobalTile(g.0 / self.tile), ElementInTile(g.0 % self.tile))
    }

    /// The process that owns a tile, and the tile's place there.
    pub fn place(&self, k: GlobalTile) -> (u64, LocalTile) {
        (k.0 % self.procs, LocalTile(k.0 / self.procs))
    }

    /// The process that owns an element, and the element's place there.
    pub fn local(&self, g: GlobalElement) -> (u64, LocalElement) {
        let (tile, within) = self.split(g);
        let (owner, local) = self.place(tile);
        (owner, LocalElement(local.0 * self.tile + within.0))
    }

    /// The element of the whole dimension that stands at `l` on process `proc`.
    pub fn global(&self, l: LocalElement, proc: u64) -> GlobalElement {
        GlobalElement((l.0 / self.tile * self.procs + proc) * self.tile + l.0 % self.tile)
    }

    /// Another extent dealt out alike.
    pub fn of_extent(&self, extent: u64) -> Self {
        Self { extent, ..*self }
    }

    /// Elements that are dealt out evenly, as long as there are so many: whole tiles, at most `widest` on each process or
    /// one where a tile is wider.
    pub fn stripe(&self, widest: u64) -> u64 {
        (widest / self.tile).max(1) * self.tile * self.procs
    }

    /// Elements that process `proc` owns.
    pub fn count(&self, proc: u64) -> u64 {
        numroc(self.extent, self.tile, proc, self.procs)
    }
}

/// Number of rows or columns that process `proc` of `procs` owns of a dimension of `n` elements in
/// tiles of `tile`, source process 0 (ScaLAPACK's NUMROC).
pub fn numroc(n: u64, tile: u64, proc: u64, procs: u64) -> u64 {
    let full = n / tile;
    full / procs * tile
        + match proc.cmp(&(full % procs)) {
            std::cmp::Ordering::Less => tile,
            std::cmp::Ordering::Equal => n % tile,
            std::cmp::Ordering::Greater => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// ScaLAPACK Users' Guide style example, worked out by hand: 9 elements, tile 2, 2 processes.
    #[test]
    fn nine_elements_in_tiles_of_two_over_two_processes() {
        let d = BlockCyclic::new(9, 2, 2);
        let owners: Vec<u64> = (0..9).map(|g| d.local(GlobalElement(g)).0).collect();
        let locals: Vec<u64> = (0..9).map(|g| d.local(GlobalElement(g)).1.0).collect();
        assert_eq!(owners, [0, 0, 1, 1, 0, 0, 1, 1, 0]);
        assert_eq!(locals, [0, 1, 0, 1, 2, 3, 2, 3, 4]);
        assert_eq!((d.count(0), d.count(1)), (5, 4));
    }

    proptest! {
        #[test]
        fn global_undoes_local(n in 1u64..500, tile in 1u64..40, procs in 1u64..9, g in 0u64..500) {
            prop_assume!(g < n);
            let d = BlockCyclic::new(n, tile, procs);
            let (owner, l) = d.local(GlobalElement(g));
            prop_assert_eq!(d.global(l, owner), GlobalElement(g));
        }

        #[test]
        fn counts_are_those_of_dealing_out(n in 0u64..500, tile in 1u64..40, procs in 1u64..9) {
            let d = BlockCyclic::new(n, tile, procs);
            let mut dealt = vec![0u64; usize::try_from(procs).unwrap()];
            for g in 0..n {
                dealt[usize::try_from(g / tile % procs).unwrap()] += 1;
            }
            for (p, &count) in (0..).zip(&dealt) {
                prop_assert_eq!(d.count(p), count);
            }
        }
    }
}
