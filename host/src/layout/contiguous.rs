//! The contiguous distribution of one dimension, as JAX shards it.

use super::{GlobalElement, LocalElement};

/// One dimension cut into equal shards; the last ones may be padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Contiguous {
    extent: u64,
    shard: u64,
}

impl Contiguous {
    /// `extent` elements over `procs` ≥ 1 processes, in shards of ⌈extent / procs⌉.
    pub fn new(extent: u64, procs: u64) -> Self {
        assert!(procs > 0, "a dimension needs a process");
        Self::of_shards(extent, extent.div_ceil(procs))
    }

    /// `extent` elements in shards of `shard`.
    pub fn of_shards(extent: u64, shard: u64) -> Self {
        Self { extent, shard }
    }

    /// Elements in a shard, padding included.
    pub fn shard(&self) -> u64 {
        self.shard
    }

    /// Elements of shard `proc` that are not padding; they stand at its start.
    pub fn count(&self, proc: u64) -> u64 {
        self.extent.saturating_sub(proc * self.shard).min(self.shard)
    }

    /// The process that holds an element, and the element's place there.
    pub fn local(&self, g: GlobalElement) -> (u64, LocalElement) {
        (g.0 / self.shard, LocalElement(g.0 % self.shard))
    }

    /// The element of the whole dimension at `l` on process `proc`.
    pub fn global(&self, l: LocalElement, proc: u64) -> GlobalElement {
        GlobalElement(proc * self.shard + l.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_over_four_leaves_the_last_shard_short() {
        let d = Contiguous::new(10, 4);
        assert_eq!(d.shard(), 3);
        assert_eq!((0..4).map(|p| d.count(p)).collect::<Vec<_>>(), [3, 3, 3, 1]);
        assert_eq!(d.local(GlobalElement(7)), (2, LocalElement(1)));
        assert_eq!(d.global(LocalElement(1), 2), GlobalElement(7));
    }

    #[test]
    fn more_processes_than_elements() {
        let d = Contiguous::new(3, 8);
        assert_eq!((0..8).map(|p| d.count(p)).collect::<Vec<_>>(), [1, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(Contiguous::new(0, 3).count(1), 0);
    }
}
