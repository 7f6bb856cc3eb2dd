//! Stage 3 along one dimension: a schedule found by playing it.
//!
//! Which process sends to which in an exchange comes from an edge colouring; which tile goes, and where it
//! is put, from the play: straight to its final slot where that is vacant, and otherwise to scratch until
//! it is. Where tiles travel in parts, one part of each is played, and the others go the same ways.

use super::colouring::colour_edges;
use super::dimension::Dimension;
use super::phase::{LocalMove, Phase, Place, Round, Transfer, Transport, index};
use crate::layout::{GlobalTile, LocalTile};
use std::ops::Range;

/// Stage 3 along one dimension: which tiles change processes, and in which exchanges. How they travel is
/// left to [`Deal::phase`].
pub struct Deal {
    procs: usize,
    slots: usize,
    tile_len: u64,
    homes: Vec<Option<Home>>,
    passengers: Vec<Passenger>,
    /// Exchange by exchange: (from, to).
    exchanges: Vec<Vec<(usize, usize)>>,
}

impl Deal {
    /// Brings whole tiles to their owners. The tile `k` stands at slot k mod Lt of process k / Lt, with Lt
    /// tiles in each buffer; `place` says on which process and in which slot it belongs, or `None` for a
    /// tile of padding alone, which is not moved and may be overwritten. No two tiles may have one place.
    ///
    /// The transfers are the edges of a bipartite multigraph of senders and receivers. A process that
    /// has fewer tiles to send than to receive, or fewer of both than the busiest, gets idle edges, which
    /// makes the graph regular. In an edge colouring with as many colours as that degree every process
    /// sends and receives one tile (or idles) in each exchange. So there are as many exchanges as the
    /// busiest process has tiles, and no process ever holds more tiles than its matrix has slots: with
    /// the scratch there is always room for one more.
    pub fn new(dimension: &Dimension, place: impl Fn(GlobalTile) -> Option<(u64, LocalTile)>) -> Self {
        let procs = index(dimension.procs());
        let slots = index(dimension.capacity() / dimension.tile());
        let homes: Vec<Option<Home>> = (0..dimension.procs() * slots as u64)
            .map(|k| {
                place(GlobalTile(k))
                    .map(|(proc, LocalTile(slot))| Home { proc: index(proc), slot: index(slot) })
            })
            .collect();
        let passengers = passengers(&homes, slots);
        let exchanges = exchanges(procs, &passengers);
        Self { procs, slots, tile_len: dimension.tile(), homes, passengers, exchanges }
    }

    /// The rounds in which the tiles travel.
    pub fn phase(&self, transport: Transport) -> Phase {
        let parts = self.tile_len / transport.unit;
        // Two parts may be under way at one time.
        let units = if parts > 1 { transport.units / 2 } else { transport.units };
        let play = Play::new(self, Transport { units, ..transport });
        Phase::new(play.rounds(&self.exchanges), parts)
    }
}

/// The process and the slot where a tile belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Home {
    proc: usize,
    slot: usize,
}

/// A tile that is about to travel.
#[derive(Clone, Copy)]
struct Passenger {
    tile: usize,
    from: usize,
    to: usize,
}

/// The tiles that belong on another process than the one they start from, in their order.
fn passengers(homes: &[Option<Home>], slots: usize) -> Vec<Passenger> {
    let mut passengers = Vec::with_capacity(homes.len());
    // Without slots there is no tile.
    for (from, homes) in homes.chunks(slots.max(1)).enumerate() {
        for (slot, home) in homes.iter().enumerate() {
            if let &Some(Home { proc: to, .. }) = home
                && to != from
            {
                passengers.push(Passenger { tile: from * slots + slot, from, to });
            }
        }
    }
    passengers
}

/// Groups (from, to) edges into exchanges; see [`Deal::new`].
fn exchanges(procs: usize, passengers: &[Passenger]) -> Vec<Vec<(usize, usize)>> {
    let mut edges: Vec<_> = passengers.iter().map(|p| (p.from, p.to)).collect();
    let (mut out, mut into) = (vec![0usize; procs], vec![0usize; procs]);
    for &(from, to) in &edges {
        out[from] += 1;
        into[to] += 1;
    }
    let most = out.iter().chain(&into).copied().max().unwrap_or(0);
    // An idle edge from a process to another stands for a place that was vacant from the start; what else
    // is missing are edges from a process to itself, so that nobody receives before he has sent.
    let times = |count: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..procs).flat_map(|p| std::iter::repeat_n(p, count(p))).collect()
    };
    edges.extend(
        times(&|p| into[p].saturating_sub(out[p]))
            .into_iter()
            .zip(times(&|p| out[p].saturating_sub(into[p]))),
    );
    edges.extend(times(&|p| most - out[p].max(into[p])).into_iter().map(|p| (p, p)));
    let mut exchanges: Vec<_> = (0..most).map(|_| Vec::with_capacity(procs)).collect();
    for (&edge, colour) in edges[..passengers.len()].iter().zip(colour_edges(procs, &edges)) {
        exchanges[colour].push(edge);
    }
    exchanges.retain(|exchange| !exchange.is_empty());
    exchanges
}

/// A place on a process: its slots come first, then its units of scratch.
type Spot = usize;

/// What one process holds.
#[derive(Clone)]
struct Process {
    /// By place: the tile that stands there.
    held: Vec<Option<usize>>,
    /// How many of the places are slots.
    slots: usize,
    /// What the exchange under way reads, and what it writes.
    reads: Option<Spot>,
    writes: Option<Spot>,
    /// Slots to look at, because they became vacant or their tile came to this process.
    open: Vec<usize>,
    /// Slots that were searched for cycles.
    searched: Vec<bool>,
    cursor: usize,
}

impl Process {
    fn busy(&self, spot: Spot) -> bool {
        self.reads == Some(spot) || self.writes == Some(spot)
    }

    fn vacant(&self, mut spots: Range<Spot>) -> Option<Spot> {
        spots.find(|&spot| self.held[spot].is_none() && !self.busy(spot))
    }

    fn vacant_scratch(&self) -> Option<Spot> {
        self.vacant(self.slots..self.held.len())
    }

    fn vacant_slot(&self) -> Option<Spot> {
        self.vacant(0..self.slots)
    }
}

/// Tiles that one process may send to another.
#[derive(Clone, Default)]
struct Queue {
    /// Those whose final place became vacant, the best last.
    ready: Vec<usize>,
    /// Those that stand where a tile of their own process belongs, the best last.
    pressing: Vec<usize>,
    /// All that are left of the list [`Play::rest`], the best first.
    rest: Range<usize>,
}

/// Takes the last tile of a list that fits, and drops those behind it.
fn last(list: &mut Vec<usize>, fits: impl Fn(&usize) -> bool) -> Option<usize> {
    std::iter::from_fn(|| list.pop()).find(fits)
}

struct Play<'d> {
    transport: Transport,
    /// Elements in a tile.
    tile_len: u64,
    /// Slots of a process.
    slots: usize,
    /// By tile, which is named by the place it starts from, process · slots + slot: its final place.
    homes: &'d [Option<Home>],
    /// By process · slots + slot: the tile that belongs there.
    wanted: Vec<Option<usize>>,
    /// By tile: on which process it is, and where.
    stands: Vec<(usize, Spot)>,
    /// By tile: whether it was chosen for an exchange.
    sent: Vec<bool>,
    /// Tiles that are not in their final place.
    unfinished: usize,
    processes: Vec<Process>,
    /// By from · processes + to.
    queues: Vec<Queue>,
    /// The tiles that travel, queue by queue.
    rest: Vec<usize>,
}

impl<'d> Play<'d> {
    fn new(deal: &'d Deal, transport: Transport) -> Self {
        let &Deal { procs, slots, tile_len, ref homes, ref passengers, .. } = deal;
        let tiles = procs * slots;
        let mut wanted = vec![None; tiles];
        let mut stands = Vec::with_capacity(tiles);
        let mut unfinished = 0;
        let processes = (0..procs)
            .map(|proc| {
                let mut held = vec![None; slots + index(transport.units)];
                let first = proc * slots;
                for (slot, (held, home)) in held.iter_mut().zip(&homes[first..first + slots]).enumerate() {
                    let tile = first + slot;
                    stands.push((proc, slot));
                    let &Some(home) = home else { continue };
                    let before = wanted[home.proc * slots + home.slot].replace(tile);
                    assert!(before.is_none(), "two tiles belong in one place");
                    *held = Some(tile);
                    unfinished += usize::from(home != Home { proc, slot });
                }
                Process {
                    held,
                    slots,
                    reads: None,
                    writes: None,
                    open: (0..slots).collect(),
                    searched: vec![false; slots],
                    cursor: 0,
                }
            })
            .collect();

        let mut queues = vec![Queue::default(); procs * procs];
        for &Passenger { from, to, .. } in passengers {
            queues[from * procs + to].rest.end += 1;
        }
        let mut first = 0;
        for queue in &mut queues {
            let count = queue.rest.end;
            queue.rest = first..first;
            first += count;
        }
        let mut rest = vec![0; first];
        // Best are those that stand where a tile of another process belongs.
        let whose = |tile: usize| wanted[tile].map(|waiting| stands[waiting].0);
        for best in [true, false] {
            for &Passenger { tile, from, to } in passengers {
                if whose(tile).is_some_and(|proc| proc != from) == best {
                    let queue = &mut queues[from * procs + to].rest;
                    rest[queue.end] = tile;
                    queue.end += 1;
                }
            }
        }
        for &Passenger { tile, from, to } in passengers {
            let queue = &mut queues[from * procs + to];
            if whose(tile) == Some(from) {
                queue.pressing.push(tile);
            }
            let vacant = homes[tile].is_some_and(|home| homes[home.proc * slots + home.slot].is_none());
            if vacant {
                queue.ready.push(tile);
            }
        }
        for queue in &mut queues {
            queue.pressing.reverse();
            queue.ready.reverse();
        }
        let sent = vec![false; tiles];
        Self { transport, tile_len, slots, homes, wanted, stands, sent, unfinished, processes, queues, rest }
    }

    /// Plays all exchanges and what goes with them.
    fn rounds(mut self, exchanges: &[Vec<(usize, usize)>]) -> Vec<Round> {
        let mut exchanges = exchanges.iter().map(Vec::as_slice).peekable();
        let packed = self.transport.packed;
        let mut rounds: Vec<Round> = Vec::new();
        let mut searched_again = false;
        // What is packed goes one round later.
        let mut passengers = if packed { Vec::new() } else { self.choose(exchanges.next()) };
        while self.unfinished > 0 {
            // Rounds are much alike.
            let moves = rounds.last().map_or(0, |round| round.moves.len());
            let mut round =
                Round { transfers: Vec::with_capacity(passengers.len()), moves: Vec::with_capacity(moves) };
            // Before the first exchange nothing hides a move, so only what it sends is packed.
            let exposed = packed && rounds.is_empty() && exchanges.peek().is_some();
            self.begin(&mut round, &passengers);
            if !exposed {
                self.settle(&mut round);
                self.break_cycles(&mut round);
            }
            if packed {
                passengers = self.choose(exchanges.next());
                self.pack(&mut round, &passengers);
                if !exposed {
                    self.settle(&mut round);
                }
                self.make_room(&mut round, &passengers);
            }
            self.end();
            if !packed {
                passengers = self.choose(exchanges.next());
            }
            if round.is_empty() && passengers.is_empty() {
                // All exchanges are over, so what is left are cycles; some came about meanwhile.
                assert!(!std::mem::replace(&mut searched_again, true), "a schedule that gets stuck");
                for process in &mut self.processes {
                    process.searched.fill(false);
                    process.cursor = 0;
                }
            }
            rounds.push(round);
        }
        rounds
    }

    fn place(&self, spot: Spot) -> Place {
        match spot.checked_sub(self.slots) {
            None => Place::Matrix(spot as u64 * self.tile_len),
            Some(unit) => Place::Scratch(unit as u64),
        }
    }

    /// The process and the slot where a tile ends.
    fn home(&self, tile: usize) -> Home {
        self.homes[tile].expect("only tiles with a place move")
    }

    /// The tile that belongs in a slot, if there is one.
    fn wanted(&self, proc: usize, slot: usize) -> Option<usize> {
        self.wanted[proc * self.slots + slot]
    }

    fn queue(&mut self, from: usize, to: usize) -> &mut Queue {
        let procs = self.processes.len();
        &mut self.queues[from * procs + to]
    }

    /// Picks a tile for each pair of an exchange.
    fn choose(&mut self, exchange: Option<&[(usize, usize)]>) -> Vec<Passenger> {
        let pairs = exchange.unwrap_or_default().iter();
        pairs.map(|&(from, to)| Passenger { tile: self.choose_one(from, to), from, to }).collect()
    }

    fn choose_one(&mut self, from: usize, to: usize) -> usize {
        let queue = &mut self.queues[from * self.processes.len() + to];
        let slots = &self.processes[to].held;
        let vacant = |tile: usize| self.homes[tile].is_some_and(|home| slots[home.slot].is_none());
        let fits = |tile: &usize| !self.sent[*tile] && vacant(*tile);
        let mut tile = last(&mut queue.ready, fits);
        // What is packed is put where it belongs later anyway, so nothing is lost by making way for what
        // waits here. Otherwise better vacate what the next exchange can fill, while there is scratch.
        let sender = &self.processes[from].held[self.slots..];
        if self.transport.packed || sender.iter().filter(|tile| tile.is_none()).count() < 2 {
            tile = tile.or_else(|| last(&mut queue.pressing, |tile| !self.sent[*tile]));
        }
        let rest = || queue.rest.by_ref().map(|i| self.rest[i]).find(|&tile| !self.sent[tile]);
        let tile = tile.or_else(rest).expect("an edge for each tile that travels");
        self.sent[tile] = true;
        tile
    }

    /// Starts an exchange: finds a place for each tile at its receiver.
    fn begin(&mut self, round: &mut Round, passengers: &[Passenger]) {
        for &Passenger { tile, from, to } in passengers {
            let Home { slot, .. } = self.home(tile);
            let receiver = &mut self.processes[to];
            let direct = !self.transport.packed && receiver.held[slot].is_none();
            let spot = if direct { Some(slot) } else { receiver.vacant_scratch() };
            let spot = spot.or_else(|| receiver.vacant_slot()).expect("room for one tile more");
            receiver.writes = Some(spot);
            round.transfers.push(Transfer {
                from: from as u64,
                to: to as u64,
                source: self.place(self.stands[tile].1),
                target: self.place(spot),
                len: self.transport.unit,
            });
        }
        for &Passenger { tile, from, to } in passengers {
            let spot = self.stands[tile].1;
            self.processes[from].reads = Some(spot);
            self.processes[from].held[spot] = None;
            let spot = self.processes[to].writes.expect("found above");
            self.processes[to].held[spot] = Some(tile);
            self.stands[tile] = (to, spot);
        }
    }

    /// Ends the exchange: what it read is vacant, what it wrote may move on.
    fn end(&mut self) {
        for proc in 0..self.processes.len() {
            if let Some(spot) = self.processes[proc].reads.take() {
                self.vacated(proc, spot);
            }
            let Some(spot) = self.processes[proc].writes.take() else { continue };
            let tile = self.processes[proc].held[spot].expect("written by the exchange");
            let Home { slot, .. } = self.home(tile);
            if spot == slot {
                self.unfinished -= 1;
                continue;
            }
            self.processes[proc].open.push(slot);
            if let Some(standing) = self.processes[proc].held[slot] {
                let to = self.home(standing).proc;
                if to != proc {
                    self.queue(proc, to).pressing.push(standing);
                }
            }
        }
    }

    /// A place became vacant. If it is a slot, its tile may come, from here or from another process.
    fn vacated(&mut self, proc: usize, spot: Spot) {
        if spot >= self.slots {
            return;
        }
        if let Some(tile) = self.wanted(proc, spot) {
            let from = self.stands[tile].0;
            if from == proc {
                self.processes[proc].open.push(spot);
            } else {
                self.queue(from, proc).ready.push(tile);
            }
        }
    }

    fn shift(&mut self, round: &mut Round, proc: usize, from: Spot, to: Spot) {
        round.moves.push(LocalMove {
            proc: proc as u64,
            source: self.place(from),
            target: self.place(to),
            len: self.transport.unit,
        });
        let tile = self.processes[proc].held[from].take().expect("a tile to move");
        self.processes[proc].held[to] = Some(tile);
        self.stands[tile].1 = to;
        self.unfinished -= usize::from(self.home(tile) == Home { proc, slot: to });
        self.vacated(proc, from);
    }

    /// Moves every tile whose final slot is vacant, and those whose slots become vacant by that.
    fn settle(&mut self, round: &mut Round) {
        for proc in 0..self.processes.len() {
            while let Some(slot) = self.processes[proc].open.pop() {
                let vacant = self.processes[proc].held[slot].is_none() && !self.processes[proc].busy(slot);
                let Some(tile) = self.wanted(proc, slot).filter(|_| vacant) else { continue };
                let (stands, spot) = self.stands[tile];
                if stands == proc && !self.processes[proc].busy(spot) {
                    self.shift(round, proc, spot, slot);
                }
            }
        }
    }

    /// Has each process that has nothing else to move turn one cycle of its own tiles, by way of scratch.
    fn break_cycles(&mut self, round: &mut Round) {
        if self.processes.iter().all(|process| process.cursor == self.slots) {
            return;
        }
        let mut idle = vec![true; self.processes.len()];
        for m in &round.moves {
            idle[index(m.proc)] = false;
        }
        for proc in (0..self.processes.len()).filter(|&proc| idle[proc]) {
            let Some(spare) = self.processes[proc].vacant_scratch() else { continue };
            if let Some(slot) = self.next_cycle(proc) {
                self.shift(round, proc, slot, spare);
            }
        }
        self.settle(round);
    }

    /// A slot on the next cycle of tiles that belong to the process where they stand.
    fn next_cycle(&mut self, proc: usize) -> Option<usize> {
        let process = &mut self.processes[proc];
        while process.cursor < self.slots {
            let start = process.cursor;
            process.cursor += 1;
            let mut at = start;
            while !std::mem::replace(&mut process.searched[at], true) {
                let Some(tile) = process.held[at] else { break };
                match self.homes[tile].expect("only tiles with a place move") {
                    home if home == (Home { proc, slot: start }) => {
                        if at != start {
                            return Some(start);
                        }
                        break;
                    }
                    home if home.proc == proc => at = home.slot,
                    _ => break,
                }
            }
        }
        None
    }

    /// Packs what the next exchange sends.
    fn pack(&mut self, round: &mut Round, passengers: &[Passenger]) {
        for &Passenger { tile, from, .. } in passengers {
            let spot = self.processes[from].vacant_scratch().unwrap_or_else(|| self.put_aside(round, from));
            self.shift(round, from, self.stands[tile].1, spot);
        }
    }

    /// Sees to it that each receiver of the next exchange has a unit of scratch for it once the exchange
    /// under way is over.
    fn make_room(&mut self, round: &mut Round, passengers: &[Passenger]) {
        for &Passenger { to, .. } in passengers {
            if self.processes[to].held[self.slots..].iter().all(Option::is_some) {
                self.put_aside(round, to);
            }
        }
    }

    /// Moves a tile that waits in scratch to any vacant slot, and gives its place in scratch.
    fn put_aside(&mut self, round: &mut Round, proc: usize) -> Spot {
        let process = &self.processes[proc];
        let waits = |&spot: &Spot| {
            process.held[spot].is_some_and(|tile| self.home(tile).proc == proc) && !process.busy(spot)
        };
        let spot = (self.slots..process.held.len()).find(waits).expect("scratch full of tiles that wait");
        let slot = process.vacant_slot().expect("no process holds more tiles than its matrix has slots");
        self.shift(round, proc, spot, slot);
        spot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Placement;
    use crate::plan::phase::player::there_and_back;
    use proptest::prelude::*;

    /// A tile order and how it travels.
    #[derive(Clone, Debug)]
    struct Case {
        unit: u64,
        parts: u64,
        procs: u64,
        slots: u64,
        /// By tile: where it belongs, as process · slots + slot; `None` for padding.
        places: Vec<Option<u64>>,
        packed: bool,
    }

    impl Case {
        fn transport(&self) -> Transport {
            Transport { unit: self.unit, units: 3 * self.parts, packed: self.packed }
        }

        fn phase(&self) -> Phase {
            let tile = self.unit * self.parts;
            let dimension =
                Dimension::new(self.procs * self.slots * tile, tile, self.procs, Placement::Sharded);
            let deal = Deal::new(&dimension, |k| {
                self.places[index(k.0)].map(|place| (place / self.slots, LocalTile(place % self.slots)))
            });
            deal.phase(self.transport())
        }

        /// Every tile of the case arrives where it belongs, and comes back.
        fn check(&self) {
            let phase = self.phase();
            let (tile, slots) = (self.unit * self.parts, self.slots);
            let before: Vec<Vec<Option<u64>>> = (0..self.procs)
                .map(|p| {
                    (0..slots * tile)
                        .map(|l| {
                            Some(p * slots * tile + l).filter(|g| self.places[index(g / tile)].is_some())
                        })
                        .collect()
                })
                .collect();
            let after = there_and_back(&phase, self.transport(), before);
            for (k, place) in (0..).zip(&self.places) {
                let Some(place) = place else { continue };
                for x in 0..tile {
                    let found = after[index(place / slots)][index(place % slots * tile + x)];
                    assert_eq!(found, Some(k * tile + x), "tile {k}");
                }
            }
            self.check_cost(&phase);
        }

        /// As many exchanges as the busiest process has units, and few rounds more; each unit travels
        /// at most once.
        fn check_cost(&self, phase: &Phase) {
            let travels = |k: u64, place: u64| k / self.slots != place / self.slots;
            let count = |at: &dyn Fn(u64, u64) -> u64, p: u64| {
                (0..)
                    .zip(&self.places)
                    .filter(|&(k, place)| place.is_some_and(|q| travels(k, q) && at(k, q) == p))
                    .count()
            };
            let most = (0..self.procs)
                .map(|p| count(&|k, _| k / self.slots, p).max(count(&|_, q| q / self.slots, p)))
                .max()
                .unwrap_or(0);
            let most = most * index(self.parts);
            let sent: usize = phase.rounds().map(|round| round.transfers.len()).sum();
            let travelling =
                (0..).zip(&self.places).filter(|&(k, place)| place.is_some_and(|q| travels(k, q))).count();
            assert_eq!(sent, travelling * index(self.parts), "each unit travels once");
            assert!(phase.exchanges() <= most, "{} exchanges for {most} units", phase.exchanges());
            if self.procs > 1 && most > 0 {
                let local = phase.rounds().count() - phase.exchanges();
                assert!(local <= 2 + index(self.slots * self.parts), "{local} rounds without an exchange");
            }
        }
    }

    fn case(procs: impl Strategy<Value = u64>) -> impl Strategy<Value = Case> {
        (procs, 0u64..7, 1u64..4, 1u64..4, any::<bool>()).prop_flat_map(
            |(procs, slots, unit, parts, packed)| {
                let tiles = procs * slots;
                let order = Just((0..tiles).collect::<Vec<_>>()).prop_shuffle();
                let padding = prop::collection::vec(prop::bool::weighted(0.2), index(tiles));
                (order, padding).prop_map(move |(order, padding)| {
                    let places = order
                        .into_iter()
                        .zip(padding)
                        .map(|(place, none)| (!none).then_some(place))
                        .collect();
                    Case { unit, parts, procs, slots, places, packed }
                })
            },
        )
    }

    /// Tiles dealt out in turn, as the solver has them.
    fn cyclic(procs: u64, slots: u64, tiles: u64, parts: u64, packed: bool) -> Case {
        let places =
            (0..procs * slots).map(|k| (k < tiles).then_some(k % procs * slots + k / procs)).collect();
        Case { unit: 1, parts, procs, slots, places, packed }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_order_of_tiles(case in case(1u64..=8)) {
            case.check();
        }
    }

    #[test]
    fn tiles_dealt_out_in_turn() {
        for packed in [false, true] {
            for procs in 1..=8 {
                for slots in 0..=17 {
                    for missing in [0, 1, procs / 2, procs] {
                        for parts in [1, 2, 4] {
                            cyclic(procs, slots, (procs * slots).saturating_sub(missing), parts, packed)
                                .check();
                        }
                    }
                }
            }
        }
    }
}
