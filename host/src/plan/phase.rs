//! Stages 2 and 3 along one dimension: rounds of transfers between processes and of moves beside
//! them, as data.
//!
//! Positions are local elements of the dimension in the solver's buffer; whatever moves takes all of
//! the buffer's other dimension with it. How the rounds of stage 2 come about is in `compaction.rs`,
//! those of stage 3 in `dealing.rs`.

/// Where a run of elements stands on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the matrix, from this local element of the dimension on.
    Matrix(u64),
    /// In this unit of the call's scratch, packed.
    Scratch(u64),
}

/// A run of elements that goes from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Sending process, by its index along the dimension.
    pub from: u64,
    /// Receiving process.
    pub to: u64,
    /// Where it stands at the sender.
    pub source: Place,
    /// Where it goes at the receiver.
    pub target: Place,
    /// Elements of the dimension.
    pub len: u64,
}

/// A run of elements that changes its place on one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMove {
    /// The process, by its index along the dimension.
    pub proc: u64,
    /// Where it stands.
    pub source: Place,
    /// Where it goes.
    pub target: Place,
    /// Elements of the dimension.
    pub len: u64,
}

/// What happens at once: each process sends at most one transfer, receives at most one, and beside
/// that carries out its moves in their order. No move touches what a transfer of the same round reads
/// or writes, and no transfer writes what another one reads, so that each process may run its
/// exchange and its moves at the same time. The next round sees all of this one's results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Between processes.
    pub transfers: Vec<Transfer>,
    /// On each process.
    pub moves: Vec<LocalMove>,
}

impl Round {
    /// The round that undoes this one.
    pub fn reversed(&self) -> Self {
        let transfers = self.transfers.iter();
        let moves = self.moves.iter().rev();
        Self {
            transfers: transfers
                .map(|t| Transfer { from: t.to, to: t.from, source: t.target, target: t.source, len: t.len })
                .collect(),
            moves: moves.map(|m| LocalMove { source: m.target, target: m.source, ..*m }).collect(),
        }
    }

    /// What process `proc` sends and what it receives.
    pub fn transfers_of(&self, proc: u64) -> (Option<Transfer>, Option<Transfer>) {
        let find = |of: fn(&Transfer) -> u64| self.transfers.iter().copied().find(|t| of(t) == proc);
        (find(|t| t.from), find(|t| t.to))
    }

    /// What process `proc` moves, in order.
    pub fn moves_of(&self, proc: u64) -> impl Iterator<Item = &LocalMove> {
        self.moves.iter().filter(move |m| m.proc == proc)
    }

    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.moves.is_empty()
    }
}

/// How the elements of a phase travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Most elements of the dimension in one transfer; divides the tile.
    pub unit: u64,
    /// Units of scratch that each process has, at least 3.
    pub units: u64,
    /// Whether transfers go from scratch to scratch, because runs of the dimension are not contiguous.
    pub packed: bool,
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
    fn add(&mut self, transfer: &Transfer, times: u64) {
        self.elements += times * transfer.len;
        self.messages += times;
    }
}

/// What one process sends, receives and copies in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// To other processes.
    pub sent: Volume,
    /// From other processes.
    pub received: Volume,
    /// Elements of the dimension that it copies from place to place.
    pub copied: u64,
}

/// One stage along one dimension.
///
/// Where whole tiles travel they may do so in several parts, each of which goes the same way in its turn;
/// only the way of the first part is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    rounds: Vec<Round>,
    parts: u64,
    /// Elements of the dimension in a unit of scratch, and from part to part of a tile.
    unit: u64,
    /// Units of scratch that one part uses; its successor uses as many others.
    units: u64,
    /// Rounds from the start of a part to the start of its successor.
    pitch: usize,
    scratch: u64,
    moved: Vec<Moved>,
}

impl Phase {
    /// The phase in which `parts` parts of every tile go these ways, one after the other; rounds in which
    /// nothing happens are left out.
    ///
    /// A part begins as soon as its predecessor exchanges nothing any more, and at most one begins before
    /// another has ended.
    pub(super) fn new(mut rounds: Vec<Round>, parts: u64) -> Self {
        rounds.retain(|round| !round.is_empty());
        let mut moved = Vec::new();
        let mut unit = 0;
        // The last unit of scratch in use, and the longest run there.
        let mut last: Option<(u64, u64)> = None;
        let mut note = |place, len| {
            unit = unit.max(len);
            if let Place::Scratch(number) = place {
                last = last.max(Some((number, len)));
            }
        };
        for round in &rounds {
            for t in &round.transfers {
                of(&mut moved, t.from).sent.add(t, parts);
                of(&mut moved, t.to).received.add(t, parts);
                note(t.source, t.len);
                note(t.target, t.len);
            }
            for m in &round.moves {
                of(&mut moved, m.proc).copied += parts * m.len;
                note(m.source, m.len);
                note(m.target, m.len);
            }
        }
        let units = last.map_or(0, |(number, _)| number + 1);
        let one = last.map_or(0, |(number, len)| number * unit + len);
        let scratch = if parts > 1 { units * unit + one } else { one };
        let exchanges = rounds.iter().filter(|round| !round.transfers.is_empty()).count();
        let pitch = exchanges.max(rounds.len().div_ceil(2));
        Self { rounds, parts, unit, units, pitch, scratch, moved }
    }

    /// The rounds in their order.
    pub fn rounds(&self) -> impl DoubleEndedIterator<Item = Round> + '_ {
        let parts = if self.rounds.is_empty() { 0 } else { index(self.parts) };
        let count = if parts == 0 { 0 } else { (parts - 1) * self.pitch + self.rounds.len() };
        (0..count).map(move |k| {
            // The parts that are under way: one, or one that ends and one that begins.
            let last = (k / self.pitch).min(parts - 1);
            let mut round = Round::default();
            for part in last.saturating_sub(1)..=last {
                if let Some(one) = self.rounds.get(k - part * self.pitch) {
                    self.add_part(&mut round, one, part as u64);
                }
            }
            round
        })
    }

    /// Adds what a part does in a round of its own.
    fn add_part(&self, round: &mut Round, one: &Round, part: u64) {
        let place = |place| match place {
            Place::Matrix(first) => Place::Matrix(first + part * self.unit),
            Place::Scratch(unit) => Place::Scratch(unit + part % 2 * self.units),
        };
        let transfers = one.transfers.iter();
        round.transfers.extend(transfers.map(|t| Transfer {
            source: place(t.source),
            target: place(t.target),
            ..*t
        }));
        let moves = one.moves.iter();
        round.moves.extend(moves.map(|m| LocalMove {
            source: place(m.source),
            target: place(m.target),
            ..*m
        }));
    }

    /// Rounds in which something goes from process to process.
    pub fn exchanges(&self) -> usize {
        index(self.parts) * self.rounds.iter().filter(|round| !round.transfers.is_empty()).count()
    }

    /// Elements of the dimension in a unit of scratch.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Elements of the dimension that scratch must have room for.
    pub fn scratch(&self) -> u64 {
        self.scratch
    }

    /// What process `proc` sends, receives and copies.
    pub fn moved(&self, proc: u64) -> Moved {
        self.moved.get(index(proc)).copied().unwrap_or_default()
    }
}

/// The entry of a process in a list that grows to hold it.
fn of(moved: &mut Vec<Moved>, proc: u64) -> &mut Moved {
    let proc = index(proc);
    if moved.len() <= proc {
        moved.resize(proc + 1, Moved::default());
    }
    &mut moved[proc]
}

/// A number of this process's memory as an index.
pub(super) fn index(i: u64) -> usize {
    usize::try_from(i).expect("an index of this process")
}

/// Plays phases on runs of named elements and finds what they break.
#[cfg(test)]
pub(super) mod player {
    use super::*;
    use std::collections::{HashMap, HashSet};

    /// The elements of one process: its matrix, and its units of scratch.
    #[derive(Clone, Debug)]
    pub struct Held {
        pub matrix: Vec<Option<u64>>,
        pub scratch: HashMap<u64, Vec<Option<u64>>>,
    }

    impl Held {
        fn run(&mut self, place: Place, len: u64) -> &mut [Option<u64>] {
            match place {
                Place::Matrix(first) => &mut self.matrix[index(first)..index(first + len)],
                Place::Scratch(unit) => {
                    let unit = self.scratch.entry(unit).or_default();
                    unit.resize(unit.len().max(index(len)), None);
                    &mut unit[..index(len)]
                }
            }
        }

        /// Takes a run away from where it stands.
        fn take(&mut self, place: Place, len: u64) -> Vec<Option<u64>> {
            let run = self.run(place, len);
            let taken = run.to_vec();
            run.fill(None);
            taken
        }

        /// Puts a run where nothing may stand.
        fn put(&mut self, place: Place, run: &[Option<u64>]) {
            let target = self.run(place, run.len() as u64);
            assert!(target.iter().all(Option::is_none), "{place:?} holds something that is still needed");
            target.copy_from_slice(run);
        }
    }

    /// Elements that a place covers, as (in the matrix?, unit, element).
    fn cells(place: Place, len: u64) -> impl Iterator<Item = (bool, u64, u64)> {
        (0..len).map(move |i| match place {
            Place::Matrix(first) => (true, 0, first + i),
            Place::Scratch(unit) => (false, unit, i),
        })
    }

    /// Plays rounds on columns named by their global index and returns what each process then holds.
    pub fn play(
        rounds: &[Round],
        transport: Transport,
        matrices: Vec<Vec<Option<u64>>>,
    ) -> Vec<Vec<Option<u64>>> {
        let mut held: Vec<Held> =
            matrices.into_iter().map(|matrix| Held { matrix, scratch: HashMap::new() }).collect();
        for round in rounds {
            assert!(!round.is_empty(), "a round in which nothing happens");
            let (mut senders, mut receivers) = (HashSet::new(), HashSet::new());
            // What transfers touch, which the moves of the same round must not.
            let mut touched = HashSet::new();
            let mut letters = Vec::new();
            for t in &round.transfers {
                assert!(senders.insert(t.from) && receivers.insert(t.to), "two at once in {round:?}");
                assert_ne!(t.from, t.to);
                assert!(t.len > 0 && t.len <= transport.unit, "{t:?} is no unit of {transport:?}");
                let both = [t.source, t.target];
                assert!(!transport.packed || both.iter().all(|p| matches!(p, Place::Scratch(_))), "{t:?}");
                for (proc, place) in [(t.from, t.source), (t.to, t.target)] {
                    for cell in cells(place, t.len) {
                        assert!(touched.insert((proc, cell)), "{t:?} meets another transfer");
                    }
                }
                // Nothing is taken away yet: a target that another transfer still reads must fail.
                letters.push((t, held[index(t.from)].run(t.source, t.len).to_vec()));
            }
            for (t, letter) in &letters {
                held[index(t.to)].put(t.target, letter);
            }
            for m in &round.moves {
                for cell in cells(m.source, m.len).chain(cells(m.target, m.len)) {
                    assert!(!touched.contains(&(m.proc, cell)), "{m:?} meets a transfer of its round");
                }
                let run = held[index(m.proc)].take(m.source, m.len);
                held[index(m.proc)].put(m.target, &run);
            }
            for (t, _) in letters {
                held[index(t.from)].run(t.source, t.len).fill(None);
            }
            for held in &held {
                assert!(held.scratch.keys().all(|&unit| unit < transport.units), "{held:?}");
            }
        }
        for held in &held {
            assert!(held.scratch.values().flatten().all(Option::is_none), "left in scratch: {held:?}");
        }
        held.into_iter().map(|held| held.matrix).collect()
    }

    /// Plays a phase, then plays it backwards and expects what there was.
    pub fn there_and_back(
        phase: &Phase,
        transport: Transport,
        before: Vec<Vec<Option<u64>>>,
    ) -> Vec<Vec<Option<u64>>> {
        let after = play(&phase.rounds().collect::<Vec<_>>(), transport, before.clone());
        let back: Vec<Round> = phase.rounds().rev().map(|round| round.reversed()).collect();
        assert_eq!(play(&back, transport, after.clone()), before, "the way back");
        after
    }
}
