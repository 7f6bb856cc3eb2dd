//! Bringing the devices of one process grid together, without a thread that waits.
//!
//! On the CPU backend XLA calls the handler once for each device. Each call makes a deposit here
//! and returns; the call that makes the set complete gets all deposits and sees to the work. One
//! that fails, or a set that is not complete in time, gives the deposits back with the failure, so
//! that every device ends with the same text.
//!
//! A call site inside a loop runs many times under one run id. So a [`Key`] has a queue of
//! generations: an arrival joins the first one that has not yet seen its device.
//!
//! This module knows nothing of XLA. [`Table`] is a plain state machine, which tests drive through
//! every order of events; [`Rendezvous`] puts a lock and a watchdog around it.

#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::failure::{Failure, FailureKind};

/// What the devices that must meet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The execution of the program.
    pub run: i64,
    /// The call within the program.
    pub call_site: u64,
    /// The process grid, where the mesh has several: linear index on the mesh axes outside it.
    pub group: i32,
}

/// One device's part in a meeting.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Whom to meet.
    pub key: Key,
    /// The rank in the process grid that the device claims.
    pub rank: i32,
    /// The number of ranks that must come.
    pub ranks: usize,
    /// The device's number, by which a device that comes again is told from a second one that
    /// claims the same rank.
    pub device: i32,
    /// How long the first to come waits for the last.
    pub patience: Duration,
}

/// What became of an arrival.
#[derive(Debug)]
pub enum Arrival<D> {
    /// Others are still to come; the last one, or a failure, will take the deposit out.
    Waiting,
    /// All are here: their deposits in rank order.
    Complete(Vec<D>),
    /// The meeting failed.
    Failed(Released<D>),
}

/// Deposits given back, and the failure that all their owners must report.
#[derive(Debug)]
pub struct Released<D> {
    /// The deposits of those who had arrived.
    pub deposits: Vec<D>,
    /// The first failure of the meeting.
    pub failure: Failure,
}

/// The meetings under way.
#[derive(Debug)]
pub struct Table<D> {
    meetings: HashMap<Key, VecDeque<Generation<D>>>,
}

/// One meeting of a key.
#[derive(Debug)]
struct Generation<D> {
    /// By rank, the device that came and its deposit.
    arrived: Vec<Option<(i32, D)>>,
    /// Every device that came, also those that failed.
    seen: Vec<i32>,
    /// The failure, from the first on. Then the generation stays for those still to come.
    failure: Option<Failure>,
    patience: Duration,
    /// When to give up waiting or, after a failure, to forget the generation.
    deadline: Instant,
}

impl<D> Default for Table<D> {
    fn default() -> Self {
        Self { meetings: HashMap::new() }
    }
}

impl<D> Table<D> {
    /// A device arrives with its deposit.
    pub fn arrive(&mut self, ticket: Ticket, deposit: D, now: Instant) -> Arrival<D> {
        if let Some(mut released) = self.wrong_group(&ticket, now) {
            released.deposits.push(deposit);
            return Arrival::Failed(released);
        }
        let generation = self.join(&ticket, now);
        let refusal = match (usize::try_from(ticket.rank), generation.failure.is_some()) {
            (_, true) => None,
            (Ok(rank), _) if rank < ticket.ranks => match &mut generation.arrived[rank] {
                place @ None => {
                    *place = Some((ticket.device, deposit));
                    if generation.arrived.iter().any(Option::is_none) {
                        return Arrival::Waiting;
                    }
                    let deposits = generation.take_deposits();
                    self.close(&ticket);
                    return Arrival::Complete(deposits);
                }
                Some((other, _)) => Some(format!(
                    "device {} and device {other} both claim rank {rank} of the process grid (group {}); \
                     each rank must belong to one device",
                    ticket.device, ticket.key.group
                )),
            },
            _ => Some(format!(
                "device {} claims rank {} of a process grid of {} ranks (group {}); a rank is \
                 row · columns + column, counted from 0",
                ticket.device, ticket.rank, ticket.ranks, ticket.key.group
            )),
        };
        let mut released = self.settle(&ticket, refusal.map(Failure::invalid), now);
        released.deposits.push(deposit);
        Arrival::Failed(released)
    }

    /// A device that should have arrived fails instead: so do all others of its meeting.
    ///
    /// The failure in the answer is the one to report: the first of the meeting.
    pub fn fail(&mut self, ticket: Ticket, failure: Failure, now: Instant) -> Released<D> {
        self.join(&ticket, now);
        self.settle(&ticket, Some(failure), now)
    }

    /// Gives up the meetings that have waited too long.
    pub fn expire(&mut self, now: Instant) -> Vec<Released<D>> {
        let late: Vec<(Key, usize)> = self
            .meetings
            .iter()
            .flat_map(|(&key, generations)| (0..generations.len()).map(move |i| (key, i)))
            .filter(|&(key, i)| {
                let generation = &self.meetings[&key][i];
                generation.failure.is_none() && generation.deadline <= now
            })
            .collect();
        let failures: Vec<Failure> = late.iter().map(|&(key, i)| self.too_late(key, i)).collect();
        let mut given_up = Vec::new();
        for ((key, i), failure) in late.into_iter().zip(failures) {
            if let Some(generation) = self.meetings.get_mut(&key).and_then(|queue| queue.get_mut(i)) {
                given_up.push(generation.poison(failure, now));
            }
        }
        // Failed ones whose latecomers never came.
        self.meetings.retain(|_, generations| {
            generations.retain(|generation| generation.deadline > now);
            !generations.is_empty()
        });
        given_up
    }

    /// When [`Table::expire`] has something to do next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.meetings.values().flatten().map(|generation| generation.deadline).min()
    }

    /// Whether no meeting is under way.
    pub fn is_empty(&self) -> bool {
        self.meetings.is_empty()
    }

    /// The first generation that has not seen this device, which it now has.
    fn join(&mut self, ticket: &Ticket, now: Instant) -> &mut Generation<D> {
        let queue = self.meetings.entry(ticket.key).or_default();
        let index = queue.iter().position(|g| !g.seen.contains(&ticket.device)).unwrap_or_else(|| {
            queue.push_back(Generation {
                arrived: std::iter::repeat_with(|| None).take(ticket.ranks).collect(),
                seen: Vec::with_capacity(ticket.ranks),
                failure: None,
                patience: ticket.patience,
                deadline: now + ticket.patience,
            });
            queue.len() - 1
        });
        let generation = &mut queue[index];
        generation.seen.push(ticket.device);
        generation
    }

    /// The last generation that has seen this device.
    fn joined(&mut self, ticket: &Ticket) -> Option<(usize, &mut Generation<D>)> {
        let queue = self.meetings.get_mut(&ticket.key)?;
        queue.iter_mut().enumerate().rev().find(|(_, g)| g.seen.contains(&ticket.device))
    }

    /// Records a failure, or reads the one that is there, in the generation just joined.
    fn settle(&mut self, ticket: &Ticket, failure: Option<Failure>, now: Instant) -> Released<D> {
        let unexplained = || Failure::internal("a meeting of devices failed without a reason");
        let Some((_, generation)) = self.joined(ticket) else {
            return Released { deposits: Vec::new(), failure: failure.unwrap_or_else(unexplained) };
        };
        let released = match generation.failure.clone() {
            Some(first) => Released { deposits: Vec::new(), failure: first },
            None => generation.poison(failure.unwrap_or_else(unexplained), now),
        };
        if generation.seen.len() >= ticket.ranks {
            self.close(ticket);
        }
        released
    }

    /// Forgets the generation just joined: nobody else belongs to it.
    fn close(&mut self, ticket: &Ticket) {
        let Some((index, _)) = self.joined(ticket) else { return };
        if let Some(queue) = self.meetings.get_mut(&ticket.key) {
            queue.remove(index);
            if queue.is_empty() {
                self.meetings.remove(&ticket.key);
            }
        }
    }

    /// A device cannot be in two groups at once: fails both meetings.
    fn wrong_group(&mut self, ticket: &Ticket, now: Instant) -> Option<Released<D>> {
        let (&other, _) = self.meetings.iter().find(|(key, generations)| {
            (key.run, key.call_site) == (ticket.key.run, ticket.key.call_site)
                && key.group != ticket.key.group
                && generations.iter().any(|g| g.failure.is_none() && g.seen.contains(&ticket.device))
        })?;
        let failure = Failure::invalid(format!(
            "device {} joins group {} while it still waits in group {} of the same call; the group must be \
             the device's linear index on the mesh axes outside the process grid",
            ticket.device, ticket.key.group, other.group
        ));
        let mut released = Released { deposits: Vec::new(), failure: failure.clone() };
        for generation in self.meetings.get_mut(&other).into_iter().flatten() {
            if generation.failure.is_none() {
                released.deposits.extend(generation.poison(failure.clone(), now).deposits);
            }
        }
        released.deposits.extend(self.fail(*ticket, failure, now).deposits);
        Some(released)
    }

    fn too_late(&self, key: Key, index: usize) -> Failure {
        let generation = &self.meetings[&key][index];
        let (mut arrived, mut missing) = (Vec::new(), Vec::new());
        for (rank, place) in generation.arrived.iter().enumerate() {
            match place {
                Some((device, _)) => arrived.push(format!("{rank} (device {device})")),
                None => missing.push(rank.to_string()),
            }
        }
        let mut text = format!(
            "only {} of {} devices of a process grid came together within {} s (group {}, run {}): arrived \
             rank {}; missing rank {}.",
            arrived.len(),
            generation.arrived.len(),
            generation.patience.as_secs_f64(),
            key.group,
            key.run,
            arrived.join(", "),
            missing.join(", "),
        );
        let mut groups: Vec<i32> = self
            .meetings
            .keys()
            .filter(|k| (k.run, k.call_site) == (key.run, key.call_site) && k.group != key.group)
            .map(|k| k.group)
            .collect();
        groups.sort_unstable();
        if !groups.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, " Groups {groups:?} of the same call are waiting, too.");
        }
        text.push_str(
            " Every device of the grid must make this call in the same run, and all of them must belong to \
             this process. If many programs are in flight, set NPROC=64 before JAX starts so that XLA has \
             threads for all of them; MESHSOLVE_RENDEZVOUS_SECONDS sets the time to wait.",
        );
        Failure::new(FailureKind::DeadlineExceeded, text)
    }
}

impl<D> Generation<D> {
    fn take_deposits(&mut self) -> Vec<D> {
        self.arrived.iter_mut().filter_map(Option::take).map(|(_, deposit)| deposit).collect()
    }

    /// Fails the meeting; it stays, without deposits, to tell those still to come.
    fn poison(&mut self, failure: Failure, now: Instant) -> Released<D> {
        self.failure = Some(failure.clone());
        self.deadline = now + self.patience;
        Released { deposits: self.take_deposits(), failure }
    }
}

/// A [`Table`] for many threads, with a watchdog for deadlines.
#[derive(Debug)]
pub struct Rendezvous<D> {
    table: Mutex<Table<D>>,
    deadlines_changed: Condvar,
}

impl<D> Default for Rendezvous<D> {
    fn default() -> Self {
        Self { table: Mutex::new(Table::default()), deadlines_changed: Condvar::new() }
    }
}

impl<D> Rendezvous<D> {
    /// See [`Table::arrive`].
    pub fn arrive(&self, ticket: Ticket, deposit: D) -> Arrival<D> {
        let arrival = self.lock().arrive(ticket, deposit, Instant::now());
        if matches!(arrival, Arrival::Waiting) {
            self.deadlines_changed.notify_one();
        }
        arrival
    }

    /// See [`Table::fail`].
    pub fn fail(&self, ticket: Ticket, failure: Failure) -> Released<D> {
        let released = self.lock().fail(ticket, failure, Instant::now());
        self.deadlines_changed.notify_one();
        released
    }

    /// Gives up meetings that have waited too long, forever; for a thread of its own.
    pub fn watch(&self, give_back: impl Fn(Released<D>)) -> ! {
        let mut table = self.lock();
        loop {
            let now = Instant::now();
            let given_up = table.expire(now);
            if !given_up.is_empty() {
                // Owners may do anything, so not under the lock.
                drop(table);
                given_up.into_iter().for_each(&give_back);
                table = self.lock();
                continue;
            }
            table = match table.next_deadline() {
                None => self.deadlines_changed.wait(table).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let pause = deadline.saturating_duration_since(now);
                    self.deadlines_changed
                        .wait_timeout(table, pause)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<D>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
