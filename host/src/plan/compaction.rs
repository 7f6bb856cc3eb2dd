//! Stage 2 along one dimension.

use super::dimension::Dimension;
use super::phase::{LocalMove, Phase, Place, Round, Transfer, Transport, index};
use crate::layout::GlobalElement;

/// A run that changes process: elements `source..source + len` there, `target..` here.
struct Run {
    from: u64,
    to: u64,
    source: u64,
    target: u64,
    len: u64,
}

impl Phase {
    /// Stage 2: closes the gaps that shards leave when each is rounded up to whole tiles, so that
    /// element g of the dimension stands at g mod capacity on process g / capacity.
    ///
    /// Stage 1 has rotated what leaves a process to the end of its buffer, in order. Received
    /// elements follow the ones that stay; they reach places of sent ones only after these went. They
    /// are received into scratch and moved to their places beside the next exchange, so that one
    /// exchange may fill what it empties itself.
    pub fn compaction(dimension: &Dimension, transport: Transport) -> Self {
        let exchanges = exchanges(dimension, transport.unit);
        // Packing goes one round ahead of the exchange, moving to the final places follows one behind.
        let ahead = usize::from(transport.packed);
        let rounds = (0..=exchanges.len() + ahead).map(|k| {
            let mut round = Round::default();
            let at = |e: usize| exchanges.get(e).map(Vec::as_slice).unwrap_or_default();
            if let Some(e) = k.checked_sub(ahead) {
                round.transfers.extend(at(e).iter().map(|run| Transfer {
                    from: run.from,
                    to: run.to,
                    source: if transport.packed { sent_from(e) } else { Place::Matrix(run.source) },
                    target: received_at(e, transport),
                    len: run.len,
                }));
            }
            if let Some(e) = k.checked_sub(ahead + 1) {
                round.moves.extend(at(e).iter().map(|run| LocalMove {
                    proc: run.to,
                    source: received_at(e, transport),
                    target: Place::Matrix(run.target),
                    len: run.len,
                }));
            }
            if transport.packed {
                round.moves.extend(at(k).iter().map(|run| LocalMove {
                    proc: run.from,
                    source: Place::Matrix(run.source),
                    target: sent_from(k),
                    len: run.len,
                }));
            }
            round
        });
        Self::new(rounds.collect(), 1)
    }
}

/// Where exchange e sends from. Three units in turn: it is 2·e and the one received at 2·e + 1 (mod 3); the
/// third holds what exchange e − 1 received until it is moved out, and then what exchange e + 1 sends.
fn sent_from(exchange: usize) -> Place {
    Place::Scratch(2 * exchange as u64 % 3)
}

/// Where exchange e receives: see [`sent_from`]; two units in turn if nothing is packed.
fn received_at(exchange: usize, transport: Transport) -> Place {
    let exchange = exchange as u64;
    Place::Scratch(if transport.packed { (2 * exchange + 1) % 3 } else { exchange % 2 })
}

/// The runs that travel, exchange by exchange. The lowest process that still waits never has anything
/// left to send, so an exchange always moves something.
fn exchanges(dimension: &Dimension, unit: u64) -> Vec<Vec<Run>> {
    let (held, capacity) = (dimension.held(), dimension.capacity());
    if !dimension.moves() || held == capacity {
        return Vec::new();
    }
    let shards = dimension.shards();
    let procs = dimension.procs();
    let kept = |p: u64| shards.count(p) - dimension.leaving(p);
    let last = |p: u64| dimension.extent().saturating_sub(p * capacity).min(capacity);
    let mut sent = vec![0; index(procs)];
    let mut filled: Vec<u64> = (0..procs).map(kept).collect();
    let mut exchanges = Vec::new();
    loop {
        let mut runs = Vec::new();
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
            let len = run.min(room).min(unit);
            if len == 0 {
                continue;
            }
            let source = capacity - dimension.leaving(from) + within.0;
            runs.push(Run { from, to, source, target, len });
            sending[index(from)] = true;
            sent[index(from)] += len;
            filled[index(to)] += len;
        }
        if runs.is_empty() {
            break;
        }
        exchanges.push(runs);
    }
    debug_assert!((0..procs).all(|p| filled[index(p)] == last(p)), "compaction of {dimension:?} got stuck");
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Placement;
    use crate::plan::phase::player::there_and_back;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn compaction_closes_the_gaps(
            extent in 0u64..120, unit in 1u64..8, parts in 1u64..4, procs in 1u64..=8, packed: bool
        ) {
            let d = Dimension::new(extent, unit * parts, procs, Placement::Sharded);
            let transport = Transport { unit, units: 3 * parts, packed };
            let before = (0..procs)
                .map(|p| {
                    let map = d.caller_map(p);
                    (0..d.capacity()).map(|l| map.map(l).map(|s| p * d.held() + s)).collect()
                })
                .collect();
            let after = there_and_back(&Phase::compaction(&d, transport), transport, before);
            if d.moves() {
                for (p, held) in (0..).zip(&after) {
                    for (l, &g) in (0..).zip(held) {
                        let expected = p * d.capacity() + l;
                        prop_assert_eq!(g, (expected < extent).then_some(expected));
                    }
                }
            }
        }
    }
}
