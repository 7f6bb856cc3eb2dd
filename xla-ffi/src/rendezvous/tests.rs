//! Every order of events, checked against a ledger: whatever happens, each deposit comes back
//! exactly once, and meetings never mix.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn key(group: i32) -> Key {
    Key { run: -7, call_site: 3, group }
}

/// Device numbers differ from ranks, so that mixing them up shows.
fn device(rank: i32) -> i32 {
    100 + rank
}

fn ticket(rank: i32, ranks: usize) -> Ticket {
    Ticket { key: key(0), rank, ranks, device: device(rank), patience: PATIENCE }
}

/// A deposit that says who made it when: rank and round.
type Deposit = (i32, usize);

/// All ways to merge the sequences, each keeping its own order.
fn merges<T: Clone>(sequences: &[Vec<T>]) -> Vec<Vec<T>> {
    if sequences.iter().all(Vec::is_empty) {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, sequence) in sequences.iter().enumerate() {
        let Some((first, rest)) = sequence.split_first() else { continue };
        let mut others = sequences.to_vec();
        others[i] = rest.to_vec();
        for mut tail in merges(&others) {
            tail.insert(0, first.clone());
            all.push(tail);
        }
    }
    all
}

fn orders(ranks: usize) -> Vec<Vec<i32>> {
    merges(&(0..ranks as i32).map(|rank| vec![rank]).collect::<Vec<_>>())
}

#[test]
fn the_orders_are_all_orders() {
    assert_eq!(orders(4).len(), 24);
    assert_eq!(merges(&[vec![0, 0, 0], vec![1, 1, 1], vec![2, 2, 2]]).len(), 1680);
}

#[test]
fn the_last_to_arrive_gets_all_deposits_in_rank_order() {
    for ranks in 1..=5 {
        for order in orders(ranks) {
            let mut table = Table::default();
            let now = Instant::now();
            for (i, &rank) in order.iter().enumerate() {
                match table.arrive(ticket(rank, ranks), (rank, 0), now) {
                    Arrival::Waiting => assert!(i + 1 < ranks, "{order:?}: the last one waits"),
                    Arrival::Complete(deposits) => {
                        assert_eq!(i + 1, ranks, "{order:?}: complete too early");
                        assert_eq!(deposits, (0..ranks as i32).map(|r| (r, 0)).collect::<Vec<_>>());
                    }
                    Arrival::Failed(released) => panic!("{order:?}: {}", released.failure),
                }
            }
            assert!(table.is_empty());
        }
    }
}

#[test]
fn rounds_of_a_loop_never_mix() {
    for (ranks, rounds) in [(1, 4), (2, 4), (3, 3)] {
        let sequences: Vec<Vec<Deposit>> =
            (0..ranks).map(|rank| (0..rounds).map(|round| (rank, round)).collect()).collect();
        for order in merges(&sequences) {
            let mut table = Table::default();
            let mut finished = Vec::new();
            for &(rank, round) in &order {
                match table.arrive(ticket(rank, ranks as usize), (rank, round), Instant::now()) {
                    Arrival::Waiting => {}
                    Arrival::Complete(deposits) => finished.push(deposits),
                    Arrival::Failed(released) => panic!("{order:?}: {}", released.failure),
                }
            }
            let expected: Vec<Vec<Deposit>> =
                (0..rounds).map(|round| (0..ranks).map(|rank| (rank, round)).collect()).collect();
            assert_eq!(finished, expected, "{order:?}");
            assert!(table.is_empty());
        }
    }
}

#[test]
fn one_failure_reaches_everyone_in_every_order() {
    let ranks = 4;
    for order in orders(ranks) {
        for failing in 0..ranks as i32 {
            let mut table = Table::default();
            let mut told = Vec::new();
            for &rank in &order {
                let now = Instant::now();
                let released = if rank == failing {
                    let released = table.fail(ticket(rank, ranks), Failure::invalid("no"), now);
                    told.push(rank);
                    released
                } else {
                    match table.arrive(ticket(rank, ranks), (rank, 0), now) {
                        Arrival::Waiting => continue,
                        Arrival::Complete(_) => panic!("{order:?}: complete without rank {failing}"),
                        Arrival::Failed(released) => released,
                    }
                };
                assert_eq!(released.failure, Failure::invalid("no"));
                told.extend(released.deposits.iter().map(|&(rank, _)| rank));
            }
            told.sort_unstable();
            assert_eq!(told, [0, 1, 2, 3], "{order:?}, rank {failing} failing");
            assert!(table.is_empty(), "{order:?}, rank {failing} failing");
        }
    }
}

#[test]
fn of_two_failures_all_report_the_first() {
    let mut table: Table<Deposit> = Table::default();
    let now = Instant::now();
    assert_eq!(table.fail(ticket(1, 3), Failure::invalid("first"), now).failure.message, "first");
    assert_eq!(table.fail(ticket(0, 3), Failure::internal("second"), now).failure.message, "first");
    let Arrival::Failed(released) = table.arrive(ticket(2, 3), (2, 0), now) else { panic!("not told") };
    assert_eq!((released.failure.message.as_str(), released.deposits), ("first", vec![(2, 0)]));
    assert!(table.is_empty());
}

#[test]
fn a_late_meeting_names_who_came_and_who_did_not() {
    let ranks = 4;
    for order in orders(ranks) {
        for punctual in 1..ranks {
            let mut table = Table::default();
            let start = Instant::now();
            for &rank in &order[..punctual] {
                assert!(matches!(table.arrive(ticket(rank, ranks), (rank, 0), start), Arrival::Waiting));
            }
            assert_eq!(table.next_deadline(), Some(start + PATIENCE));
            assert!(table.expire(start + PATIENCE - Duration::from_millis(1)).is_empty());
            let late = start + PATIENCE;
            let released = table.expire(late);
            let [Released { deposits, failure }] = &released[..] else { panic!("{order:?}: {released:?}") };
            let mut came: Vec<i32> = order[..punctual].to_vec();
            let mut missing: Vec<i32> = order[punctual..].to_vec();
            came.sort_unstable();
            missing.sort_unstable();
            assert_eq!(*deposits, came.iter().map(|&rank| (rank, 0)).collect::<Vec<_>>());
            assert_eq!(failure.kind, FailureKind::DeadlineExceeded);
            let names: Vec<String> =
                came.iter().map(|&rank| format!("{rank} (device {})", device(rank))).collect();
            let missing: Vec<String> = missing.iter().map(i32::to_string).collect();
            let expected = format!("arrived rank {}; missing rank {}.", names.join(", "), missing.join(", "));
            assert!(failure.message.contains(&expected), "{}", failure.message);
            // Those who come after all hear the same.
            for &rank in &order[punctual..] {
                match table.arrive(ticket(rank, ranks), (rank, 0), late) {
                    Arrival::Failed(released) => {
                        assert_eq!(released.deposits, [(rank, 0)]);
                        assert_eq!(released.failure, *failure);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(table.is_empty());
        }
    }
}

#[test]
fn a_failed_meeting_is_forgotten_in_the_end() {
    let mut table: Table<Deposit> = Table::default();
    let start = Instant::now();
    table.fail(ticket(0, 2), Failure::invalid("no"), start);
    assert!(table.expire(start + PATIENCE / 2).is_empty());
    assert!(!table.is_empty());
    assert!(table.expire(start + PATIENCE).is_empty());
    assert!(table.is_empty());
    assert_eq!(table.next_deadline(), None);
}

#[test]
fn a_rank_outside_the_grid_fails_all() {
    for rank in [-1, 2, i32::MAX, i32::MIN] {
        let mut table = Table::default();
        let now = Instant::now();
        assert!(matches!(table.arrive(ticket(0, 2), (0, 0), now), Arrival::Waiting));
        let wrong = Ticket { rank, device: 55, ..ticket(1, 2) };
        let Arrival::Failed(released) = table.arrive(wrong, (rank, 0), now) else { panic!("accepted") };
        assert_eq!(released.deposits, [(0, 0), (rank, 0)]);
        assert_eq!(released.failure.kind, FailureKind::InvalidArgument);
        let expected = format!("device 55 claims rank {rank} of a process grid of 2 ranks");
        assert!(released.failure.message.contains(&expected), "{}", released.failure);
        assert!(table.is_empty());
    }
}

#[test]
fn two_devices_cannot_share_a_rank() {
    let mut table = Table::default();
    let now = Instant::now();
    assert!(matches!(table.arrive(ticket(1, 3), (1, 0), now), Arrival::Waiting));
    let second = Ticket { device: 42, ..ticket(1, 3) };
    let Arrival::Failed(released) = table.arrive(second, (1, 1), now) else { panic!("accepted") };
    assert_eq!(released.deposits, [(1, 0), (1, 1)]);
    let text = &released.failure.message;
    assert!(text.contains("device 42 and device 101 both claim rank 1"), "{text}");
    let Arrival::Failed(last) = table.arrive(ticket(0, 3), (0, 0), now) else { panic!("not told") };
    assert_eq!(&last.failure.message, text);
    assert!(table.is_empty());
}

#[test]
fn a_device_cannot_be_in_two_groups() {
    let mut table = Table::default();
    let now = Instant::now();
    assert!(matches!(table.arrive(ticket(0, 2), (0, 0), now), Arrival::Waiting));
    let elsewhere = Ticket { key: key(5), ..ticket(0, 2) };
    let Arrival::Failed(released) = table.arrive(elsewhere, (0, 1), now) else { panic!("accepted") };
    assert_eq!(released.deposits, [(0, 0), (0, 1)]);
    let text = &released.failure.message;
    assert!(text.contains("device 100 joins group 5 while it still waits in group 0"), "{text}");
    for group in [0, 5] {
        let other = Ticket { key: key(group), ..ticket(1, 2) };
        let Arrival::Failed(last) = table.arrive(other, (1, 0), now) else { panic!("not told") };
        assert_eq!(&last.failure.message, text);
    }
    assert!(table.is_empty());
}

#[test]
fn keys_do_not_meet() {
    let keys = [key(0), key(1), Key { run: 8, ..key(0) }, Key { call_site: 4, ..key(0) }];
    let mut table = Table::default();
    let now = Instant::now();
    for (i, &key) in keys.iter().enumerate() {
        // Groups of one run have devices of their own.
        let first = Ticket { key, device: 10 * i as i32, ..ticket(0, 2) };
        assert!(matches!(table.arrive(first, (0, i), now), Arrival::Waiting));
    }
    for (i, &key) in keys.iter().enumerate() {
        let second = Ticket { key, device: 10 * i as i32 + 1, ..ticket(1, 2) };
        let Arrival::Complete(deposits) = table.arrive(second, (1, i), now) else { panic!("not complete") };
        assert_eq!(deposits, [(0, i), (1, i)]);
    }
    assert!(table.is_empty());
}

/// Threads in any order, one of which fails now and then, under a watchdog that has nothing to do:
/// every deposit comes back once, complete or failed, never in a mixed round.
#[test]
fn many_threads_meet_many_times() {
    const RANKS: i32 = 6;
    const ROUNDS: usize = 300;
    let rendezvous: &'static Rendezvous<Deposit> = Box::leak(Box::default());
    thread::spawn(|| rendezvous.watch(|released| panic!("gave up: {}", released.failure)));
    let (sender, receiver) = mpsc::channel::<(bool, Vec<Deposit>)>();
    let fails = |rank: i32, round: usize| round % 7 == 3 && rank as usize == round % RANKS as usize;
    let threads: Vec<_> = (0..RANKS)
        .map(|rank| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    // One run for two rounds, so that loops and new runs both occur.
                    let key = Key { run: round as i64 / 2, call_site: 0, group: 0 };
                    let ticket = Ticket { key, ..ticket(rank, RANKS as usize) };
                    if fails(rank, round) {
                        let mut released = rendezvous.fail(ticket, Failure::invalid("no"));
                        released.deposits.push((rank, round));
                        sender.send((false, released.deposits)).unwrap();
                    } else {
                        match rendezvous.arrive(ticket, (rank, round)) {
                            Arrival::Waiting => {}
                            Arrival::Complete(deposits) => sender.send((true, deposits)).unwrap(),
                            Arrival::Failed(released) => sender.send((false, released.deposits)).unwrap(),
                        }
                    }
                }
            })
        })
        .collect();
    drop(sender);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut returned: HashMap<Deposit, usize> = HashMap::new();
    for (complete, deposits) in receiver {
        if complete {
            let round = deposits[0].1;
            assert_eq!(deposits, (0..RANKS).map(|rank| (rank, round)).collect::<Vec<_>>());
        }
        deposits.into_iter().for_each(|deposit| *returned.entry(deposit).or_default() += 1);
    }
    for rank in 0..RANKS {
        for round in 0..ROUNDS {
            assert_eq!(returned.get(&(rank, round)), Some(&1), "rank {rank}, round {round}");
        }
    }
    assert!(rendezvous.lock().is_empty());
}

#[test]
fn the_watchdog_wakes_for_a_nearer_deadline() {
    let rendezvous: &'static Rendezvous<Deposit> = Box::leak(Box::default());
    let (sender, receiver) = mpsc::channel();
    let sender = Arc::new(Mutex::new(sender));
    thread::spawn(move || rendezvous.watch(move |released| sender.lock().unwrap().send(released).unwrap()));
    let patient = Ticket { key: key(1), patience: Duration::from_secs(3600), ..ticket(0, 2) };
    assert!(matches!(rendezvous.arrive(patient, (0, 0)), Arrival::Waiting));
    thread::sleep(Duration::from_millis(50));
    let hasty = Ticket { key: key(2), device: 7, patience: Duration::from_millis(100), ..ticket(1, 2) };
    assert!(matches!(rendezvous.arrive(hasty, (1, 0)), Arrival::Waiting));
    let released = receiver.recv_timeout(Duration::from_secs(30)).expect("the watchdog slept on");
    assert_eq!(released.deposits, [(1, 0)]);
    assert!(released.failure.message.contains("within 0.1 s (group 2, run -7)"), "{}", released.failure);
    assert!(released.failure.message.contains("Groups [1] of the same call are waiting"));
}
