//! Ranks that are threads of this process and share its memory.

use super::{Ballot, Communicator, Message, Reduction, Ticket, tally};
use crate::device::Buffer;
use crate::plan::Traffic;
use crate::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One rank among threads of this process; buffers are ordinary memory.
///
/// Every call returns only when its work is done. Sends and receives of one exchange must not
/// overlap in memory. A failure ends the whole group, and all groups split from it: every pending
/// and later call of every rank returns that same error.
pub struct LocalCommunicator {
    world: Arc<World>,
    /// Index into [`State::groups`].
    group: usize,
    /// This group's ranks as they count in the world; errors speak of these.
    members: Arc<[u64]>,
    rank: u64,
}

/// What all ranks share, whatever group they talk in.
struct World {
    deadline: Duration,
    state: Mutex<State>,
    /// Signalled after every change of `state` that someone may wait for.
    changed: Condvar,
}

struct State {
    failure: Option<Error>,
    /// By rank in the world.
    traffic: Vec<Traffic>,
    /// Whether a rank of the world waits for others at this moment.
    waiting: Vec<bool>,
    groups: Vec<Group>,
    /// Groups made by a split: (parent, the parent's round, color) → index into `groups`.
    children: HashMap<(usize, u64, u64), usize>,
}

struct Group {
    /// Messages that nobody took yet, by (source, destination).
    mail: HashMap<(u64, u64), VecDeque<Buffer>>,
    /// By source: its messages whose bytes are not copied out yet, so that it must keep them.
    unread: Vec<usize>,
    /// By rank: what it brought to the meeting that is not complete yet.
    arrivals: Vec<Option<Contribution>>,
    /// Meetings completed.
    round: u64,
    /// What the ranks brought to the last completed meeting.
    outcome: Arc<[Contribution]>,
}

/// What a rank brings to a call in which each needs something from all.
#[derive(Clone)]
enum Contribution {
    Words { reduction: Reduction, bytes: Vec<u8> },
    Ballot(Ballot),
    Split { color: u64, key: u64 },
}

impl LocalCommunicator {
    /// `size` ranks, in order. In one call a rank waits for another at most `deadline`, which thus
    /// has to cover what the slowest rank computes between two calls.
    pub fn group(size: usize, deadline: Duration) -> Vec<LocalCommunicator> {
        let members: Arc<[u64]> = (0..size as u64).collect();
        let state = State {
            failure: None,
            traffic: vec![Traffic::default(); size],
            waiting: vec![false; size],
            groups: vec![Group::new(size)],
            children: HashMap::new(),
        };
        let world = Arc::new(World { deadline, state: Mutex::new(state), changed: Condvar::new() });
        (0..size as u64)
            .map(|rank| Self { world: world.clone(), group: 0, members: members.clone(), rank })
            .collect()
    }

    /// Makes every pending and later call of every rank return `error`, unless something failed before.
    pub fn abort(&self, error: Error) {
        self.fail(&mut self.world.lock(), error);
    }

    /// What this rank exchanged so far, in this group and in all others of the same world.
    pub fn traffic(&self) -> Traffic {
        self.world.lock().traffic[self.world_index(self.rank)]
    }

    /// Records the first failure and gives back the one that counts.
    fn fail(&self, state: &mut State, error: Error) -> Error {
        let error = state.failure.get_or_insert(error).clone();
        self.world.changed.notify_all();
        error
    }

    /// Waits until `ready` gives a value. If the group fails, or `late` describes to the world that
    /// the deadline has passed, the failure is returned.
    fn wait<R>(
        &self,
        mut ready: impl FnMut(&mut State) -> Option<R>,
        late: impl FnOnce(&State) -> String,
    ) -> Result<R> {
        let start = Instant::now();
        let me = self.world_index(self.rank);
        let mut state = self.world.lock();
        let result = loop {
            if let Some(error) = &state.failure {
                break Err(error.clone());
            }
            if let Some(value) = ready(&mut state) {
                break Ok(value);
            }
            let left = self.world.deadline.saturating_sub(start.elapsed());
            if left.is_zero() {
                let error = self.timeout(&late(&state), &state);
                break Err(self.fail(&mut state, error));
            }
            state.waiting[me] = true;
            state = self.world.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting[me] = false;
        };
        // `ready` may have changed what others wait for.
        self.world.changed.notify_all();
        result
    }

    fn timeout(&self, what: &str, state: &State) -> Error {
        let me = self.world_index(self.rank);
        let absent: Vec<u64> = (0..)
            .zip(&state.waiting)
            .filter(|&(rank, waits)| rank != me as u64 && !waits)
            .map(|p| p.0)
            .collect();
        let cause = if absent.is_empty() {
            "all ranks wait for one another: their calls do not match".to_string()
        } else {
            format!("not in any call: {}; give a longer deadline if they still compute", ranks(&absent))
        };
        Error::deadline_exceeded(format!("rank {me} waited {:?} for {what}; {cause}", self.world.deadline))
    }

    /// Brings `contribution` to a meeting of all ranks. Gives the meeting's number and what every rank
    /// brought, in rank order.
    fn meet(&self, contribution: Contribution) -> Result<(u64, Arc<[Contribution]>)> {
        let call = contribution.call();
        let mut contribution = Some(contribution);
        let mut round = None;
        let outcome = self.wait(
            |state| {
                let group = &mut state.groups[self.group];
                if contribution.is_some() {
                    round = Some(group.round);
                    group.arrivals[index(self.rank)] = contribution.take();
                    if group.arrivals.iter().all(Option::is_some) {
                        group.outcome = group.arrivals.iter_mut().filter_map(Option::take).collect();
                        group.round += 1;
                    }
                }
                // The next meeting cannot end before this rank has come to it.
                (round != Some(group.round)).then(|| group.outcome.clone())
            },
            |state| {
                let arrivals = &state.groups[self.group].arrivals;
                let missing = self.members.iter().zip(arrivals).filter(|(_, arrival)| arrival.is_none());
                let missing: Vec<u64> = missing.map(|(&member, _)| member).collect();
                format!("{} to call {call}", ranks(&missing))
            },
        )?;
        if let Some(other) = outcome.iter().position(|c| c.call() != outcome[0].call()) {
            return Err(Error::internal(format!(
                "ranks made different calls at the same time: rank {} {}, rank {} {}",
                self.members[0],
                outcome[0].call(),
                self.members[other],
                outcome[other].call()
            )));
        }
        Ok((round.unwrap_or_default(), outcome))
    }

    fn check_peers(&self, messages: &[Message]) -> Result<()> {
        match messages.iter().find(|m| m.peer >= self.size()) {
            None => Ok(()),
            Some(message) => Err(self.fail(
                &mut self.world.lock(),
                Error::internal(format!(
                    "rank {} exchanges with rank {} of a group of {} ranks",
                    self.members[index(self.rank)],
                    message.peer,
                    self.size()
                )),
            )),
        }
    }

    fn post(&self, sends: &[Message]) {
        let mut state = self.world.lock();
        let group = &mut state.groups[self.group];
        group.unread[index(self.rank)] += sends.len();
        for send in sends {
            group.mail.entry((self.rank, send.peer)).or_default().push_back(send.data);
        }
        for send in sends.iter().filter(|send| send.peer != self.rank) {
            let traffic = &mut state.traffic[self.world_index(self.rank)];
            traffic.sent += send.data.bytes();
            traffic.messages += 1;
        }
        self.world.changed.notify_all();
    }

    fn receive(&self, receive: &Message) -> Result<()> {
        let way = (receive.peer, self.rank);
        let source = self.wait(
            |state| {
                let mail = state.groups[self.group].mail.get_mut(&way)?;
                // A message of another length stays for its sender to withdraw.
                let sent = mail.front()?.bytes();
                let fits = sent == receive.data.bytes();
                Some(if fits { mail.pop_front().ok_or(sent) } else { Err(sent) })
            },
            |_| format!("a message from rank {}", self.members[index(receive.peer)]),
        )?;
        let source = source.map_err(|sent| {
            let (from, to) = (self.members[index(receive.peer)], self.members[index(self.rank)]);
            let error = Error::internal(format!(
                "rank {from} sends {sent} bytes to rank {to}, which expects {}: both must follow the same plan",
                receive.data.bytes()
            ));
            self.fail(&mut self.world.lock(), error)
        })?;
        if !source.is_empty() {
            // SAFETY: both windows are memory of this process and of the same length. The sender keeps
            // its own until `unread` says that it was copied, the receiver its own by being here; nobody
            // writes to either meanwhile (contract of `Buffer`). `copy` allows a rank's message to
            // itself to overlap.
            unsafe {
                std::ptr::copy(pointer(source).cast_const(), pointer(receive.data), index(source.bytes()));
            }
        }
        let mut state = self.world.lock();
        state.groups[self.group].unread[index(receive.peer)] -= 1;
        if receive.peer != self.rank {
            let traffic = &mut state.traffic[self.world_index(self.rank)];
            traffic.received += source.bytes();
        }
        self.world.changed.notify_all();
        Ok(())
    }

    fn wait_until_read(&self) -> Result<()> {
        self.wait(
            |state| (state.groups[self.group].unread[index(self.rank)] == 0).then_some(()),
            |state| {
                let mail = &state.groups[self.group].mail;
                let left = (0..).zip(self.members.iter());
                let left =
                    left.filter(|&(peer, _)| mail.get(&(self.rank, peer)).is_some_and(|m| !m.is_empty()));
                let left: Vec<u64> = left.map(|(_, &member)| member).collect();
                format!("{} to receive a message", ranks(&left))
            },
        )
    }

    /// Takes back what nobody took and waits for copies that are under way: after it nothing reads
    /// this rank's memory.
    fn withdraw(&self) {
        let mut state = self.world.lock();
        let Group { mail, unread, .. } = &mut state.groups[self.group];
        for (_, letters) in mail.iter_mut().filter(|((source, _), _)| *source == self.rank) {
            unread[index(self.rank)] -= letters.len();
            letters.clear();
        }
        while state.groups[self.group].unread[index(self.rank)] > 0 {
            state = self.world.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn world_index(&self, rank: u64) -> usize {
        index(self.members[index(rank)])
    }
}

impl Communicator for LocalCommunicator {
    fn rank(&self) -> u64 {
        self.rank
    }

    fn size(&self) -> u64 {
        self.members.len() as u64
    }

    /// Done when it returns.
    fn start(&self, sends: &[Message], receives: &[Message]) -> Result<Ticket> {
        self.check_peers(sends)?;
        self.check_peers(receives)?;
        self.post(sends);
        let result = receives.iter().try_for_each(|r| self.receive(r)).and_then(|()| self.wait_until_read());
        if result.is_err() {
            self.withdraw();
        }
        result.map(|()| Ticket::new(0))
    }

    fn finish(&self, _: Ticket) -> Result<()> {
        Ok(())
    }

    fn all_reduce(&self, reduction: Reduction, words: Buffer) -> Result<()> {
        // SAFETY: the words are memory of this process that nobody else uses during the call (contract
        // of `Buffer`); the other ranks see a copy.
        let bytes = unsafe { words.as_slice::<u8>() }.to_vec();
        let (_, all) = self.meet(Contribution::Words { reduction, bytes })?;
        match reduction {
            Reduction::SumF64 => combine(&all, words, |a: f64, b| a + b),
            Reduction::MaxI32 => combine(&all, words, i32::max),
            Reduction::MinI32 => combine(&all, words, i32::min),
        }
        Ok(())
    }

    fn agree(&self, ballot: Ballot) -> Result<()> {
        let (_, all) = self.meet(Contribution::Ballot(ballot))?;
        let ballots = all.iter().filter_map(|c| match c {
            Contribution::Ballot(ballot) => Some(ballot.clone()),
            _ => None,
        });
        tally(&ballots.collect::<Vec<_>>())
    }

    fn split(&self, color: u64, key: u64) -> Result<Box<dyn Communicator>> {
        let (round, all) = self.meet(Contribution::Split { color, key })?;
        let mut order: Vec<(u64, u64)> = (0..)
            .zip(all.iter())
            .filter_map(|(rank, contribution)| match contribution {
                Contribution::Split { color: c, key } if *c == color => Some((*key, rank)),
                _ => None,
            })
            .collect();
        order.sort_unstable();
        let mut state = self.world.lock();
        let State { groups, children, .. } = &mut *state;
        let group = *children.entry((self.group, round, color)).or_insert_with(|| {
            groups.push(Group::new(order.len()));
            groups.len() - 1
        });
        Ok(Box::new(Self {
            world: self.world.clone(),
            group,
            members: order.iter().map(|&(_, rank)| self.members[index(rank)]).collect(),
            rank: order.iter().take_while(|&&(_, rank)| rank != self.rank).count() as u64,
        }))
    }
}

impl World {
    /// The state; a thread that panicked elsewhere has not left it half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    fn new(size: usize) -> Self {
        Self {
            mail: HashMap::new(),
            unread: vec![0; size],
            arrivals: vec![None; size],
            round: 0,
            outcome: Arc::new([]),
        }
    }
}

impl Contribution {
    /// The call in words; equal on all ranks unless a rank made another one.
    fn call(&self) -> String {
        match self {
            Self::Words { reduction, bytes } => format!("all_reduce({reduction:?}, {} bytes)", bytes.len()),
            Self::Ballot(_) => "agree".into(),
            Self::Split { .. } => "split".into(),
        }
    }
}

/// Combines all ranks' words in rank order, so that every rank gets the same bits.
fn combine<T: bytemuck::Pod>(all: &[Contribution], words: Buffer, combine: impl Fn(T, T) -> T) {
    // SAFETY: as in `all_reduce`, and the slice taken there is gone.
    let words = unsafe { words.as_mut_slice::<T>() };
    for (rank, contribution) in all.iter().enumerate() {
        let Contribution::Words { bytes, .. } = contribution else { continue };
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
            let theirs = bytemuck::pod_read_unaligned(bytes);
            *word = if rank == 0 { theirs } else { combine(*word, theirs) };
        }
    }
}

fn ranks(list: &[u64]) -> String {
    let numbers: Vec<String> = list.iter().map(u64::to_string).collect();
    format!("rank{} {}", if list.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// A rank, or a length in memory of this process, as an index.
fn index(value: u64) -> usize {
    usize::try_from(value).expect("fits the address space of this process")
}

fn pointer(buffer: Buffer) -> *mut u8 {
    index(buffer.address()) as *mut u8
}
