//! Ranks on threads: messages, reductions, votes, groups, and how they fail.

use bytemuck::Pod;
use meshsolve::communicator::{Ballot, Communicator, LocalCommunicator, Message, Reduction};
use meshsolve::device::Buffer;
use meshsolve::{Error, ErrorKind};
use proptest::prelude::*;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `work` on a thread for each rank and gives what they return, in rank order.
fn on_ranks<R: Send>(
    size: usize,
    deadline: Duration,
    work: impl Fn(&LocalCommunicator) -> R + Sync,
) -> Vec<R> {
    let group = LocalCommunicator::group(size, deadline);
    std::thread::scope(|scope| {
        let threads: Vec<_> = group.iter().map(|communicator| scope.spawn(|| work(communicator))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn buffer<T: Pod>(values: &mut [T]) -> Buffer {
    // SAFETY: the tests keep `values` until the call that uses the window has returned.
    unsafe { Buffer::from_raw(values.as_mut_ptr().cast(), size_of_val(values) as u64) }
}

fn messages(peers_and_data: &mut [(u64, Vec<u32>)]) -> Vec<Message> {
    peers_and_data.iter_mut().map(|(peer, data)| Message { peer: *peer, data: buffer(data) }).collect()
}

/// A value that says which word of which message from whom to whom it is.
fn word(source: u64, peer: u64, nth: usize, position: usize) -> u32 {
    u32::try_from(((source * 16 + peer) * 16 + nth as u64) * 4096 + position as u64).unwrap()
}

/// Ends all ranks' calls the same way, with an error.
fn common_error<R>(results: Vec<meshsolve::Result<R>>) -> Error {
    let errors: Vec<Error> = results.into_iter().map(|r| r.err().expect("every rank fails")).collect();
    assert!(errors.iter().all(|e| *e == errors[0]), "{errors:?}");
    errors[0].clone()
}

/// By source and peer: the lengths in words of its messages.
type Lengths = Vec<Vec<Vec<usize>>>;

/// By rank: the order in which it names its peers.
type Orders = Vec<Vec<u64>>;

/// Messages, and the orders in which they are sent and received.
fn traffic() -> impl Strategy<Value = (Lengths, Orders, Orders)> {
    (1usize..6).prop_flat_map(|size| {
        let lengths = prop::collection::vec(0usize..300, 0..4);
        let lengths = prop::collection::vec(prop::collection::vec(lengths, size), size);
        let order = Just((0..size as u64).collect::<Vec<_>>()).prop_shuffle();
        let orders = prop::collection::vec(order, size);
        (lengths, orders.clone(), orders)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_in_order_whatever_the_order_of_the_peers((lengths, to, from) in traffic()) {
        let size = lengths.len();
        let counts = on_ranks(size, PATIENCE, |communicator| {
            let me = communicator.rank();
            let lengths_of = |source: u64, peer: u64| lengths[source as usize][peer as usize].iter().enumerate();
            let mut sends: Vec<(u64, Vec<u32>)> = Vec::new();
            for &peer in &to[me as usize] {
                for (nth, &length) in lengths_of(me, peer) {
                    sends.push((peer, (0..length).map(|position| word(me, peer, nth, position)).collect()));
                }
            }
            let mut receives: Vec<(u64, Vec<u32>)> = Vec::new();
            for &peer in &from[me as usize] {
                for (_, &length) in lengths_of(peer, me) {
                    receives.push((peer, vec![u32::MAX; length]));
                }
            }
            communicator.exchange(&messages(&mut sends), &messages(&mut receives)).unwrap();
            let mut received = receives.iter();
            for &peer in &from[me as usize] {
                for (nth, &length) in lengths_of(peer, me) {
                    let expected: Vec<u32> = (0..length).map(|position| word(peer, me, nth, position)).collect();
                    assert_eq!(received.next().unwrap().1, expected);
                }
            }
            communicator.traffic()
        });
        for (me, counted) in counts.into_iter().enumerate() {
            let others = (0..size).filter(|&peer| peer != me);
            let sent: Vec<usize> = others.clone().flat_map(|peer| lengths[me][peer].clone()).collect();
            let received: Vec<usize> = others.flat_map(|peer| lengths[peer][me].clone()).collect();
            prop_assert_eq!(counted.messages, sent.len() as u64);
            prop_assert_eq!(counted.sent, 4 * sent.iter().sum::<usize>() as u64);
            prop_assert_eq!(counted.received, 4 * received.iter().sum::<usize>() as u64);
        }
    }
}

#[test]
fn a_sender_returns_only_when_its_message_was_read() {
    on_ranks(2, PATIENCE, |communicator| {
        for round in 0..200u32 {
            let mut data = vec![round; 1000];
            let message = [Message { peer: 1 - communicator.rank(), data: buffer(&mut data) }];
            if communicator.rank() == 0 {
                communicator.exchange(&message, &[]).unwrap();
                // Would be seen by a receiver that reads late.
                data.fill(u32::MAX);
            } else {
                data.fill(u32::MAX);
                communicator.exchange(&[], &message).unwrap();
                assert_eq!(data, vec![round; 1000]);
            }
        }
    });
}

#[test]
fn lengths_that_differ_are_an_error_on_both_sides() {
    let error = common_error(on_ranks(2, PATIENCE, |communicator| {
        let mut data = vec![0u32; if communicator.rank() == 0 { 3 } else { 5 }];
        let message = [Message { peer: 1 - communicator.rank(), data: buffer(&mut data) }];
        if communicator.rank() == 0 {
            communicator.exchange(&message, &[])
        } else {
            communicator.exchange(&[], &message)
        }
    }));
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("rank 0 sends 12 bytes to rank 1, which expects 20"), "{error}");
}

#[test]
fn a_peer_outside_the_group_is_an_error_for_all() {
    let error = common_error(on_ranks(2, PATIENCE, |communicator| {
        let peer = if communicator.rank() == 1 { 7 } else { 1 };
        communicator.exchange(&[], &[Message { peer, data: Buffer::EMPTY }])
    }));
    assert!(error.to_string().contains("rank 1 exchanges with rank 7 of a group of 2 ranks"), "{error}");
}

#[test]
fn the_deadline_names_the_rank_that_is_missing() {
    let short = Duration::from_millis(500);
    type Call = dyn Fn(&LocalCommunicator) -> meshsolve::Result<()> + Sync;
    let calls: [&Call; 4] = [
        &|c| c.exchange(&[], &[Message { peer: 2, data: Buffer::EMPTY }]),
        &|c| c.exchange(&[Message { peer: 2, data: Buffer::EMPTY }], &[]),
        &|c| c.all_reduce(Reduction::MaxI32, Buffer::EMPTY),
        &|c| c.split(0, 0).map(|_| ()),
    ];
    for call in calls {
        let start = Instant::now();
        let mut results = on_ranks(4, short, |c| if c.rank() == 2 { Ok(()) } else { call(c) });
        results.remove(2).unwrap();
        let error = common_error(results);
        assert!(start.elapsed() >= short);
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        assert!(error.to_string().contains("not in any call: rank 2;"), "{error}");
    }
}

#[test]
fn ranks_that_wait_for_one_another_are_told_so() {
    let error = common_error(on_ranks(2, Duration::from_millis(200), |communicator| {
        communicator.exchange(&[], &[Message { peer: 1 - communicator.rank(), data: Buffer::EMPTY }])
    }));
    assert!(error.to_string().contains("all ranks wait for one another"), "{error}");
}

#[test]
fn abort_ends_pending_and_later_calls_with_the_first_error() {
    let error = common_error(on_ranks(3, PATIENCE, |communicator| {
        let pending = if communicator.rank() == 0 {
            std::thread::sleep(Duration::from_millis(50));
            communicator.abort(Error::resource_exhausted("rank 0 has no memory"));
            communicator.abort(Error::internal("this one comes too late"));
            Ok(())
        } else {
            let mut data = [0u32; 4];
            let message = [Message { peer: 0, data: buffer(&mut data) }];
            communicator.exchange(&message, &message)
        };
        assert_eq!(pending.is_ok(), communicator.rank() == 0);
        let later = communicator.agree(Ballot { fingerprint: 1, verdict: Ok(()) });
        pending.and(later)
    }));
    assert_eq!(error, Error::resource_exhausted("rank 0 has no memory"));
}

#[test]
fn sums_are_taken_in_rank_order() {
    // ((1e16 + 1) − 1e16) + 1 is 1 in double precision; in other orders it is 0 or 2.
    let parts = [1e16, 1.0, -1e16, 1.0];
    let sums = on_ranks(4, PATIENCE, |communicator| {
        let rank = communicator.rank();
        (0..100)
            .map(|round| {
                let mut words = [parts[rank as usize], f64::from(round) * 10f64.powi(rank as i32)];
                communicator.all_reduce(Reduction::SumF64, buffer(&mut words)).unwrap();
                words
            })
            .collect::<Vec<_>>()
    });
    for sums in sums {
        for (round, sum) in sums.into_iter().enumerate() {
            assert_eq!(sum, [1.0, 1111.0 * round as f64]);
        }
    }
}

#[test]
fn largest_and_smallest_words() {
    let parts = [[5, -7, 0], [i32::MIN, -8, 1], [4, i32::MAX, -1]];
    let results = on_ranks(3, PATIENCE, |communicator| {
        let (mut max, mut min) = (parts[communicator.rank() as usize], parts[communicator.rank() as usize]);
        communicator.all_reduce(Reduction::MaxI32, buffer(&mut max)).unwrap();
        communicator.all_reduce(Reduction::MinI32, buffer(&mut min)).unwrap();
        (max, min)
    });
    assert_eq!(results, [([5, i32::MAX, 1], [i32::MIN, -8, -1]); 3]);
}

#[test]
fn a_vote_ends_the_same_for_all_and_can_be_repeated() {
    let results = on_ranks(3, PATIENCE, |communicator| {
        let refusal = Error::resource_exhausted("needed 8 bytes, got 4");
        let verdict = if communicator.rank() == 1 { Err(refusal) } else { Ok(()) };
        [
            communicator.agree(Ballot { fingerprint: 9, verdict: Ok(()) }),
            communicator.agree(Ballot { fingerprint: 9, verdict }),
            communicator.agree(Ballot { fingerprint: communicator.rank() / 2, verdict: Ok(()) }),
            communicator.agree(Ballot { fingerprint: 9, verdict: Ok(()) }),
        ]
    });
    assert!(results.iter().all(|r| *r == results[0]), "{results:?}");
    let [agreed, refused, differing, again] = results[0].clone();
    assert_eq!((agreed, again), (Ok(()), Ok(())));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceExhausted);
    assert!(
        refused.to_string().contains("rank 1") && refused.to_string().contains("needed 8 bytes"),
        "{refused}"
    );
    let differing = differing.unwrap_err();
    assert_eq!(differing.kind(), ErrorKind::FailedPrecondition);
    assert!(differing.to_string().contains("rank 2"), "{differing}");
}

#[test]
fn different_calls_at_the_same_time_are_an_error() {
    let error = common_error(on_ranks(3, PATIENCE, |communicator| {
        let mut words = [1, 2];
        if communicator.rank() == 2 {
            communicator.agree(Ballot { fingerprint: 0, verdict: Ok(()) })
        } else {
            communicator.all_reduce(Reduction::MaxI32, buffer(&mut words))
        }
    }));
    assert!(error.to_string().contains("rank 0 all_reduce(MaxI32, 8 bytes), rank 2 agree"), "{error}");
}

#[test]
fn groups_of_a_split_are_ordered_by_key_and_apart_from_one_another() {
    let results = on_ranks(6, PATIENCE, |communicator| {
        let rank = communicator.rank();
        // Even ranks keep their order by equal keys; odd ones are turned round.
        let key = if rank % 2 == 0 { 3 } else { 10 - rank };
        let group = communicator.split(rank % 2, key).unwrap();
        let mut sum = [rank as f64];
        group.all_reduce(Reduction::SumF64, buffer(&mut sum)).unwrap();
        let (mut sent, mut received) = ([rank as u32], [u32::MAX]);
        let next = Message { peer: (group.rank() + 1) % 3, data: buffer(&mut sent) };
        let previous = Message { peer: (group.rank() + 2) % 3, data: buffer(&mut received) };
        group.exchange(&[next], &[previous]).unwrap();
        (group.size(), group.rank(), sum[0], received[0], communicator.traffic().sent)
    });
    let expected = [
        (3, 0, 6.0, 4, 4),
        (3, 2, 9.0, 3, 4),
        (3, 1, 6.0, 0, 4),
        (3, 1, 9.0, 5, 4),
        (3, 2, 6.0, 2, 4),
        (3, 0, 9.0, 1, 4),
    ];
    assert_eq!(results, expected);
}

#[test]
fn a_failure_reaches_those_who_wait_in_another_group() {
    let error = common_error(on_ranks(4, PATIENCE, |communicator| {
        let group = communicator.split(communicator.rank() / 2, 0)?;
        if communicator.rank() == 3 {
            // Until the others are in their next calls.
            std::thread::sleep(Duration::from_millis(100));
            communicator.abort(Error::internal("rank 3 has failed"));
        }
        group.agree(Ballot { fingerprint: 0, verdict: Ok(()) })?;
        communicator.agree(Ballot { fingerprint: 0, verdict: Ok(()) })
    }));
    assert_eq!(error, Error::internal("rank 3 has failed"));
}
