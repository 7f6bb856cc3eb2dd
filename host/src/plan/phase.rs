//! Stages 2 and 3 along one dimension: rounds of transfers between processes, as data.
//!
//! Positions are local elements of the dimension in the solver's buffer; a transfer moves all of the
//! buffer's other dimension with them. In a round every process first packs what it sends, then
//! unpacks what it receives, so a place may be vacated and filled in one round.

use super::colouring::colour_edges;
use super::dimension::Dimension;
use crate::device::Permutation;
use crate::layout::{GlobalElement, GlobalTile};

/// A run of elements that goes from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Sending process, by its index along the dimension.
    pub from: u64,
    /// Receiving process.
    pub to: u64,
    /// First local element at the sender.
    pub source: u64,
    /// First local element at the receiver.
    pub target: u64,
    /// Elements of the dimension.
    pub len: u64,
}

impl Transfer {
    fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, source: self.target, target: self.source, len: self.len }
    }
}

/// A number of messages and the elements of the dimension in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Elements of the dimension.
    pub elements: u64,
    /// Messages.
    pub messages: u64,
}

impl Volume {
    fn add(&mut self, transfer: &Transfer) {
        self.elements += transfer.len;
        self.messages += 1;
    }
}

/// What one process sends and receives in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// To other processes.
    pub sent: Volume,
    /// From other processes.
    pub received: Volume,
}

/// Transfers that happen at once: each process sends at most one and receives at most one.
pub type Round = Vec<Transfer>;

/// One stage along one dimension: rounds, then a permutation of tile slots on each process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    rounds: Vec<Round>,
    permutations: Vec<Permutation>,
}

impl Phase {
    /// The rounds in their order.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// The rounds that undo these, last one first.
    pub fn reversed_rounds(&self) -> impl Iterator<Item = Round> {
        self.rounds.iter().rev().map(|round| round.iter().map(|t| t.reversed()).collect())
    }

    /// What process `proc` permutes after the rounds, in slots of one tile; `None` if nothing.
    pub fn permutation(&self, proc: u64) -> Option<&Permutation> {
        usize::try_from(proc).ok().and_then(|p| self.permutations.get(p)).filter(|p| !p.is_identity())
    }

    /// Most elements of the dimension in one transfer.
    pub fn longest(&self) -> u64 {
        self.rounds.iter().flatten().map(|t| t.len).max().unwrap_or(0)
    }

    /// What process `proc` sends and receives.
    pub fn moved(&self, proc: u64) -> Moved {
        let mut moved = Moved::default();
        for transfer in self.rounds.iter().flatten() {
            if transfer.from == proc {
                moved.sent.add(transfer);
            }
            if transfer.to == proc {
                moved.received.add(transfer);
            }
        }
        moved
    }

    /// Stage 2: closes the gaps that shards leave when each is rounded up to whole tiles, so that
    /// element g of the dimension stands at g mod capacity on process g / capacity.
    ///
    /// Stage 1 has rotated what leaves a process to the end of its buffer, in order. Received
    /// elements follow the ones that stay; they reach places of sent ones only after these went.
    /// The lowest process that still waits never has anything left to send, so a round always moves
    /// something.
    pub fn compaction(dimension: &Dimension) -> Self {
        let (held, capacity) = (dimension.held(), dimension.capacity());
        if !dimension.moves() || held == capacity {
            return Self::default();
        }
        let shards = dimension.shards();
        let procs = dimension.procs();
        let kept = |p: u64| shards.count(p) - dimension.leaving(p);
        let last = |p: u64| dimension.extent().saturating_sub(p * capacity).min(capacity);
        let mut sent = vec![0; index(procs)];
        let mut filled: Vec<u64> = (0..procs).map(kept).collect();
        let mut rounds = Vec::new();
        loop {
            let mut round = Round::new();
            let mut sending = vec![false; index(procs)];
            for to in 0..procs {
                let target = filled[index(to)];
                if target == last(to) {
                    continue;
                }
                let next = GlobalElement(to * capacity + target);
                let (from, within) = shards.local(next);
                if sending[index(from)] || within.0 != sent[index(from)] {
                    continue; // the sender is busy, or has earlier elements to send first
                }
                let room = capacity - dimension.leaving(to) + sent[index(to)] - target;
                let run = (dimension.leaving(from) - within.0).min((to + 1) * capacity - next.0);
                let len = run.min(room).min(dimension.tile());
                if len == 0 {
                    continue;
                }
                let source = capacity - dimension.leaving(from) + within.0;
                round.push(Transfer { from, to, source, target, len });
                sending[index(from)] = true;
                sent[index(from)] += len;
                filled[index(to)] += len;
            }
            if round.is_empty() {
                break;
            }
            rounds.push(round);
        }
        debug_assert!(
            (0..procs).all(|p| filled[index(p)] == last(p)),
            "compaction of {dimension:?} got stuck"
        );
        Self { rounds, permutations: Vec::new() }
    }

    /// Stage 3: deals whole tiles out in turn. With Lt tiles in each buffer, tile k goes from slot
    /// k mod Lt of process k / Lt to where [`Dimension::place`] says: in the natural order to slot k / P
    /// of process k mod P.
    ///
    /// The transfers are the edges of a bipartite multigraph of senders and receivers. Each process
    /// has as many tiles to send as to receive; those with fewer than the most get idle edges to
    /// themselves, which makes the graph regular. In an edge colouring with as many colours as that
    /// degree every process then sends and receives exactly one tile (or idles) a round, so a
    /// received tile goes where the sent one stood, and no process holds more than before. A
    /// permutation of slots at the end brings the tiles into order. Tiles of padding alone take part
    /// in the bookkeeping but are not sent.
    pub fn dealing(dimension: &Dimension) -> Self {
        let (tile, procs) = (dimension.tile(), dimension.procs());
        let slots = dimension.capacity() / tile;
        if !dimension.moves() || slots == 0 {
            return Self::default();
        }
        let cyclic = dimension.cyclic();
        let owner = |k: u64| dimension.place(GlobalTile(k)).0;
        let tiles = procs * slots;
        let mut travelling: Vec<u64> = (0..tiles).filter(|&k| k / slots != owner(k)).collect();
        let mut degree = vec![0u64; index(procs)];
        for &k in &travelling {
            degree[index(k / slots)] += 1;
        }
        let most = degree.iter().copied().max().unwrap_or(0);
        let mut edges: Vec<(usize, usize)> =
            travelling.iter().map(|&k| (index(k / slots), index(owner(k)))).collect();
        for (p, &d) in degree.iter().enumerate() {
            edges.extend((d..most).map(|_| (p, p)));
        }
        travelling.resize(edges.len(), u64::MAX);
        let mut by_colour = vec![Vec::new(); index(most)];
        for (edge, colour) in colour_edges(index(procs), &edges).into_iter().enumerate() {
            if travelling[edge] != u64::MAX {
                by_colour[colour].push(travelling[edge]);
            }
        }

        // holds[p][s]: the tile in slot s of process p
        let mut holds: Vec<Vec<u64>> = (0..procs).map(|p| (p * slots..(p + 1) * slots).collect()).collect();
        let mut rounds = Vec::new();
        for sent in by_colour {
            let mut vacated = vec![None; index(procs)];
            for &k in &sent {
                vacated[index(k / slots)] = Some(k % slots);
            }
            let mut round = Round::new();
            for k in sent {
                let (from, to) = (k / slots, owner(k));
                let target = vacated[index(to)].expect("a receiver sends in the same round");
                holds[index(to)][index(target)] = k;
                if k < cyclic.tiles() {
                    round.push(Transfer {
                        from,
                        to,
                        source: k % slots * tile,
                        target: target * tile,
                        len: tile,
                    });
                }
            }
            if !round.is_empty() {
                rounds.push(round);
            }
        }
        let permutations = holds
            .iter()
            .map(|held| {
                let mut sources = vec![0; held.len()];
                for (slot, &k) in (0..).zip(held) {
                    sources[index(dimension.place(GlobalTile(k)).1.0)] = slot;
                }
                Permutation::from_sources(&sources)
            })
            .collect();
        Self { rounds, permutations }
    }
}

fn index(i: u64) -> usize {
    usize::try_from(i).expect("an index of this process")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Placement;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Plays a phase on columns named by their global index and returns what each process holds.
    fn play(phase: &Phase, mut held: Vec<Vec<Option<u64>>>) -> Vec<Vec<Option<u64>>> {
        for round in phase.rounds() {
            let (mut senders, mut receivers) = (HashSet::new(), HashSet::new());
            let packed: Vec<Vec<Option<u64>>> = round
                .iter()
                .map(|t| {
                    assert!(senders.insert(t.from) && receivers.insert(t.to), "two at once in {round:?}");
                    assert_ne!(t.from, t.to);
                    held[index(t.from)][index(t.source)..index(t.source + t.len)].to_vec()
                })
                .collect();
            for t in round {
                held[index(t.from)][index(t.source)..index(t.source + t.len)].fill(None);
            }
            for (t, data) in round.iter().zip(packed) {
                let target = &mut held[index(t.to)][index(t.target)..index(t.target + t.len)];
                assert!(target.iter().all(Option::is_none), "{t:?} overwrites something");
                target.copy_from_slice(&data);
            }
        }
        held
    }

    proptest! {
        #[test]
        fn compaction_closes_the_gaps(extent in 0u64..120, tile in 1u64..14, procs in 1u64..8) {
            let d = Dimension::new(extent, tile, procs, Placement::Sharded);
            let before = (0..procs)
                .map(|p| {
                    let map = d.caller_map(p);
                    (0..d.capacity()).map(|l| map.map(l).map(|s| p * d.held() + s)).collect()
                })
                .collect();
            let after = play(&Phase::compaction(&d), before);
            if d.moves() {
                for (p, held) in (0..).zip(&after) {
                    for (l, &g) in (0..).zip(held) {
                        let expected = p * d.capacity() + l;
                        prop_assert_eq!(g, (expected < extent).then_some(expected));
                    }
                }
            }
        }

        #[test]
        fn dealing_gives_each_process_its_tiles(extent in 0u64..200, tile in 1u64..9, procs in 1u64..8) {
            let d = Dimension::new(extent, tile, procs, Placement::Sharded);
            let phase = Phase::dealing(&d);
            // padding is left in place of what is not sent: only real elements must arrive
            let before = (0..procs)
                .map(|p| (0..d.capacity()).map(|l| Some(p * d.capacity() + l).filter(|&g| g < extent)).collect())
                .collect();
            let after = play(&phase, before);
            for p in 0..procs {
                let held = &after[index(p)];
                let mut sources: Vec<u64> = (0..d.capacity() / tile).collect();
                if let Some(permutation) = phase.permutation(p) {
                    sources = permutation.sources();
                }
                for l in 0..d.cyclic().count(p) {
                    let slot = sources[index(l / tile)];
                    let global = d.cyclic().global(crate::layout::LocalElement(l), p).0;
                    prop_assert_eq!(held[index(slot * tile + l % tile)], Some(global));
                }
            }
        }

        #[test]
        fn dealing_takes_no_more_rounds_than_the_busiest_process_has_tiles(
            extent in 1u64..300, tile in 1u64..9, procs in 2u64..9
        ) {
            let d = Dimension::new(extent, tile, procs, Placement::Sharded);
            let slots = d.capacity() / tile;
            let most = (0..procs)
                .map(|p| (p * slots..(p + 1) * slots).filter(|k| k % procs != p).count())
                .max()
                .unwrap();
            prop_assert!(Phase::dealing(&d).rounds().len() <= most);
        }
    }
}
