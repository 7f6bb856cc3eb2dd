//! Ranks that each own a GPU and talk through NCCL.
//!
//! Communicators are kept, never made per call. A [`Parent`] is borrowed from XLA or our own;
//! a [`NcclGroup`] is what was split from it once, for one process grid; a [`NcclCommunicator`] is the
//! group as one call sees it, on that call's stream.

mod lane;
mod own;
mod vote;

use super::{Ballot, Communicator, Message, Reduction, Ticket};
use crate::device::Buffer;
use crate::device::cuda::{self, CudaDevice};
use crate::libraries;
use crate::{Error, Result};
use cust::sys;
use lane::Lane;
use nccl_sys::{Nccl, loader, ncclComm, ncclComm_t, ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
pub use own::{Members, UNIQUE_ID_BYTES, new_unique_id, register_unique_id};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vote::Votes;

/// Least and most blocks of NCCL's kernels. NCCL rounds up to a power of two and gives a message half of
/// them between two ranks, fewer among more, unless that leaves each more than 16 MiB. With 33 it is 32
/// blocks: between two H200s 134 MB then go at 330 GB/s, and at 289 otherwise.
const BLOCKS: [i32; 2] = [33, 64];

static DEADLINE_MS: AtomicU64 = AtomicU64::new(60_000);
static SPLITS: AtomicU64 = AtomicU64::new(0);
static OWN_COMMUNICATORS: AtomicU64 = AtomicU64::new(0);

/// How long a rank waits for others on the host, in votes and while communicators are made: 60 s unless
/// set here. It has to cover what the slowest process compiles or computes between two calls.
pub fn set_deadline(deadline: Duration) {
    DEADLINE_MS.store(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn deadline() -> Duration {
    Duration::from_millis(DEADLINE_MS.load(Ordering::Relaxed))
}

/// What was made so far in this process. The numbers stand still once every grid was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Communicators split from others: two for each group, one of them for votes.
    pub splits: u64,
    /// Communicators of our own, where XLA lends none.
    pub own_communicators: u64,
}

/// What was made so far in this process.
pub fn counters() -> Counters {
    Counters {
        splits: SPLITS.load(Ordering::Relaxed),
        own_communicators: OWN_COMMUNICATORS.load(Ordering::Relaxed),
    }
}

/// A communicator that may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Handle(ncclComm_t);

// SAFETY: NCCL lets any thread use a communicator, one at a time. Those of a group are used under its
// locks, a parent only to split it, from the one thread that drives its device.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The communicator over all devices of a program, from which groups are split.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    nccl: &'static Nccl,
    communicator: Handle,
    rank: u64,
    size: u64,
    generation: u64,
}

impl Parent {
    /// A communicator that somebody else owns, for example XLA's; it is never destroyed here.
    ///
    /// `generation` tells apart two owners whose communicators had the same address: whoever knows that
    /// the owner was replaced counts it up.
    ///
    /// # Errors
    /// NCCL is missing, or does not know the communicator.
    ///
    /// # Safety
    /// `communicator` must be an `ncclComm_t` of the NCCL in this process, for the current device, and
    /// live while groups are split from it.
    pub unsafe fn borrowed(communicator: *mut c_void, generation: u64) -> Result<Self> {
        let nccl = libraries::nccl()?;
        let handle: ncclComm_t = communicator.cast();
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the communicator is live by this function's contract; each call writes one int.
        unsafe {
            check(nccl, nccl.ncclCommUserRank(handle, &raw mut rank), || "asking for a rank".into())?;
            check(nccl, nccl.ncclCommCount(handle, &raw mut size), || "asking for a group's size".into())?;
        }
        let [rank, size] = [rank, size].map(|value| u64::try_from(value).unwrap_or_default());
        Ok(Self { nccl, communicator: Handle(handle), rank, size, generation })
    }

    /// This device's rank in the communicator.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Devices in the communicator.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Tells one kept group from another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct GroupKey {
    parent: Handle,
    rank: u64,
    size: u64,
    generation: u64,
    device: i32,
    color: u64,
    key: u64,
    division: Box<[u64]>,
}

/// One device's membership in the ranks of one process grid: a communicator for their data and one for
/// their votes. Kept for the life of the process.
pub struct NcclGroup {
    nccl: &'static Nccl,
    communicator: Handle,
    /// Exchanges run on it. Held while something is enqueued on `communicator`.
    lane: Mutex<Lane>,
    votes: Mutex<Votes>,
    rank: u64,
    size: u64,
    device: i32,
}

impl NcclGroup {
    /// The group of the devices that name the same `color`, with ranks in the order of `key`.
    ///
    /// The first time it is split from `parent`, which is collective over all the parent's devices and
    /// waits for the work enqueued on this one; later it is looked up. `division` says how all of them
    /// are divided, in any form that is the same on each: a device whose own color and key are those of
    /// an earlier division must still split anew when others' are not.
    ///
    /// # Errors
    /// NCCL failed, or [`crate::ErrorKind::DeadlineExceeded`] if the parent works in the background and
    /// another device does not come.
    pub fn split(
        parent: &Parent,
        device: &CudaDevice<'_>,
        color: u64,
        key: u64,
        division: &[u64],
    ) -> Result<Arc<Self>> {
        static KEPT: LazyLock<Mutex<HashMap<GroupKey, Arc<NcclGroup>>>> = LazyLock::new(Mutex::default);
        let Parent { nccl: _, communicator, rank, size, generation } = *parent;
        let ordinal = device.ordinal();
        let group_key = GroupKey {
            parent: communicator,
            rank,
            size,
            generation,
            device: ordinal,
            color,
            key,
            division: division.into(),
        };
        if let Some(group) = lock(&KEPT).get(&group_key) {
            return Ok(group.clone());
        }
        // Not under the lock: the other devices of this process split at the same time.
        let group = Arc::new(Self::make(parent, ordinal, color, key)?);
        lock(&KEPT).insert(group_key, group.clone());
        Ok(group)
    }

    fn make(parent: &Parent, device: i32, color: u64, key: u64) -> Result<Self> {
        let nccl = parent.nccl;
        // NCCL asks that nothing be under way on a communicator while it is split.
        // SAFETY: only waits, for the current context.
        cuda::check(unsafe { sys::cuCtxSynchronize() }, || format!("waiting for device {device}"))?;
        let who = || format!("splitting rank {} of {} into group {color}", parent.rank, parent.size);
        let [color, key] = [int(color)?, int(key)?];
        // Blocking even if the parent is not: cuSOLVERMp expects that.
        let [least, most] = BLOCKS;
        let config = ncclConfig_t {
            blocking: 1,
            minCTAs: least,
            maxCTAs: most,
            commName: c"meshsolve".as_ptr(),
            ..Default::default()
        };
        let communicator = split_communicator(nccl, parent.communicator, color, key, config, who)?;
        // SAFETY: just made, so live.
        let member = unsafe { Parent::borrowed(communicator.0.cast(), 0)? };
        let who = || format!("splitting rank {} of {} for votes", member.rank, member.size);
        // Votes are a few words: one block of threads on the device is enough for them.
        let name: &CStr = c"meshsolve votes";
        let config = ncclConfig_t {
            blocking: 1,
            minCTAs: 1,
            maxCTAs: 1,
            commName: name.as_ptr(),
            ..Default::default()
        };
        // Before the first vote, which the others then miss: no rank may keep a group that another has not.
        let lane = Lane::new()?;
        let voting = split_communicator(nccl, communicator, 0, int(member.rank)?, config, who)?;
        let votes = Votes::new(nccl, voting, size(member.rank)?, size(member.size)?)?;
        Ok(Self {
            nccl,
            communicator,
            lane: Mutex::new(lane),
            votes: Mutex::new(votes),
            rank: member.rank,
            size: member.size,
            device,
        })
    }

    /// This device's rank in the group.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Devices in the group.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// For the library that works over the same ranks.
    pub(crate) fn raw(&self) -> ncclComm_t {
        self.communicator.0
    }

    fn check(&self, result: Result<ncclResult_t, loader::Error>, doing: &str) -> Result<()> {
        check(self.nccl, result, || {
            format!("rank {} of {} (device {}) {doing}", self.rank, self.size, self.device)
        })
    }
}

/// A group as one call sees it: everything is enqueued in the order of the call's stream, exchanges on a
/// stream of their own beside it.
pub struct NcclCommunicator {
    group: Arc<NcclGroup>,
    stream: sys::CUstream,
}

impl NcclCommunicator {
    /// The group on the stream of `device`.
    ///
    /// # Safety
    /// `device` must be the one that the group was split on, and must outlive the communicator and all
    /// that are split from it.
    pub unsafe fn new(group: Arc<NcclGroup>, device: &CudaDevice<'_>) -> Self {
        Self { group, stream: device.stream() }
    }

    /// The group.
    pub fn group(&self) -> &NcclGroup {
        &self.group
    }

    /// Calls `send` or `receive` for one message.
    fn enqueue(&self, stream: sys::CUstream, message: &Message, receives: bool) -> Result<()> {
        let NcclGroup { nccl, communicator, .. } = *self.group;
        let Message { peer, data } = *message;
        let (peer_rank, bytes) = (int(peer)?, size(data.bytes())?);
        let (kind, stream) = (ncclDataType_t::ncclUint8, stream.cast());
        let address = data.address() as *mut c_void;
        // SAFETY: the window is valid on this device for this call, by the contract of `Buffer`; the
        // communicator is live and its lock held by the caller.
        let result = unsafe {
            if receives {
                nccl.ncclRecv(address, bytes, kind, peer_rank, communicator.0, stream)
            } else {
                nccl.ncclSend(address.cast_const(), bytes, kind, peer_rank, communicator.0, stream)
            }
        };
        let way = if receives { "receives" } else { "sends" };
        self.group.check(result, &format!("{way} {bytes} bytes, peer {peer}"))
    }
}

impl Communicator for NcclCommunicator {
    fn rank(&self) -> u64 {
        self.group.rank
    }

    fn size(&self) -> u64 {
        self.group.size
    }

    fn start(&self, sends: &[Message], receives: &[Message]) -> Result<Ticket> {
        // Both sides know that a message is empty, and leave it out.
        let messages = sends.iter().map(|m| (m, false)).chain(receives.iter().map(|m| (m, true)));
        let messages: Vec<_> = messages.filter(|(message, _)| !message.data.is_empty()).collect();
        let enqueue = |stream| {
            if messages.is_empty() {
                return Ok(());
            }
            // SAFETY: opens a group on this thread, which is closed below whatever happens.
            self.group.check(unsafe { self.group.nccl.ncclGroupStart() }, "opens an exchange")?;
            let enqueued =
                messages.iter().try_for_each(|&(message, receives)| self.enqueue(stream, message, receives));
            // SAFETY: closes the group that was opened above.
            let closed = self.group.check(unsafe { self.group.nccl.ncclGroupEnd() }, "starts an exchange");
            enqueued.and(closed)
        };
        // SAFETY: the call's stream is live and its context current, by the contract of `new`.
        unsafe { lock(&self.group.lane).start(self.stream, enqueue) }.map(Ticket::new)
    }

    fn finish(&self, ticket: Ticket) -> Result<()> {
        // SAFETY: as in `start`.
        unsafe { lock(&self.group.lane).finish(self.stream, ticket.number()) }
    }

    fn all_reduce(&self, reduction: Reduction, words: Buffer) -> Result<()> {
        let (kind, operation, word) = match reduction {
            Reduction::SumF64 => (ncclDataType_t::ncclFloat64, ncclRedOp_t::ncclSum, 8),
            Reduction::MaxI32 => (ncclDataType_t::ncclInt32, ncclRedOp_t::ncclMax, 4),
            Reduction::MinI32 => (ncclDataType_t::ncclInt32, ncclRedOp_t::ncclMin, 4),
        };
        let count = size(words.bytes() / word)?;
        if count == 0 {
            return Ok(());
        }
        let _order = lock(&self.group.lane);
        let address = words.address() as *mut c_void;
        let NcclGroup { nccl, communicator, .. } = *self.group;
        // SAFETY: the words are valid on this device for this call, by the contract of `Buffer`; NCCL
        // reduces in place; the communicator is live and its lock held.
        let result = unsafe {
            nccl.ncclAllReduce(
                address.cast_const(),
                address,
                count,
                kind,
                operation,
                communicator.0,
                self.stream.cast(),
            )
        };
        self.group.check(result, &format!("reduces {count} words ({reduction:?})"))
    }

    fn agree(&self, ballot: Ballot) -> Result<()> {
        // What failed in the background since the last call has to be known before the next one.
        let doing = || format!("rank {} of {} works", self.group.rank, self.group.size);
        let sound = check_background(self.group.nccl, self.group.communicator, doing);
        lock(&self.group.votes).agree(&Ballot { verdict: ballot.verdict.and(sound), ..ballot })
    }

    fn split(&self, color: u64, key: u64) -> Result<Box<dyn Communicator>> {
        let NcclGroup { nccl, communicator, rank, size, device, .. } = *self.group;
        let parent = Parent { nccl, communicator, rank, size, generation: 0 };
        let group = NcclGroup::make(&parent, device, color, key)?;
        Ok(Box::new(Self { group: Arc::new(group), stream: self.stream }))
    }
}

/// Splits a communicator. Collective over all its ranks.
fn split_communicator(
    nccl: &'static Nccl,
    parent: Handle,
    color: i32,
    key: i32,
    mut config: ncclConfig_t,
    doing: impl Fn() -> String,
) -> Result<Handle> {
    let child = made_by(nccl, &doing, |slot| {
        // SAFETY: the parent is live; NCCL writes the child to the slot, which outlives the call; the
        // configuration is copied.
        let result = unsafe { nccl.ncclCommSplit(parent.0, color, key, slot, &raw mut config) };
        // SAFETY: the parent is the one that works in the background, if one does.
        unsafe { settle(nccl, parent.0, result, &doing) }
    })?;
    SPLITS.fetch_add(1, Ordering::Relaxed);
    Ok(child)
}

/// The communicator that `make` has NCCL write to the place it is given.
fn made_by(
    nccl: &'static Nccl,
    doing: impl Fn() -> String,
    make: impl FnOnce(*mut ncclComm_t) -> Result<()>,
) -> Result<Handle> {
    // When the wait ends early NCCL may still write to the slot: it is freed only after success.
    let slot: &'static AtomicPtr<ncclComm> = Box::leak(Box::new(AtomicPtr::new(std::ptr::null_mut())));
    make(slot.as_ptr())?;
    // A parent that works in the background may report success before the child's pointer is written.
    let start = Instant::now();
    let communicator = loop {
        let communicator = slot.load(Ordering::Acquire);
        if !communicator.is_null() {
            break communicator;
        }
        if start.elapsed() > deadline() {
            return Err(late(doing, start));
        }
        std::thread::sleep(POLL);
    };
    // SAFETY: just made, so live; it is the one that may still work in the background.
    unsafe { settle(nccl, communicator, Ok(ncclResult_t::ncclInProgress), &doing)? };
    // SAFETY: leaked above; NCCL is done with it and this function is the only other user.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(slot).cast_mut()) });
    Ok(Handle(communicator))
}

/// How often background work is asked whether it is done.
const POLL: Duration = Duration::from_micros(100);

fn late(doing: impl Fn() -> String, start: Instant) -> Error {
    Error::deadline_exceeded(format!(
        "{}: not done after {:.0?}; every device of the program must make the same calls in the same order, \
         and none may have ended",
        doing(),
        start.elapsed()
    ))
}

/// Waits until a communicator that works in the background is done with what was asked of it.
///
/// # Safety
/// If `result` says that work goes on, `communicator` must be live and the one it goes on in.
unsafe fn settle(
    nccl: &Nccl,
    communicator: ncclComm_t,
    result: Result<ncclResult_t, loader::Error>,
    doing: impl Fn() -> String,
) -> Result<()> {
    let start = Instant::now();
    let mut state = result.map_err(libraries::missing)?;
    while state == ncclResult_t::ncclInProgress {
        if start.elapsed() > deadline() {
            return Err(late(doing, start));
        }
        std::thread::sleep(POLL);
        // SAFETY: the communicator is live by this function's contract; one value is written.
        let answer = unsafe { nccl.ncclCommGetAsyncError(communicator, &raw mut state) };
        check(nccl, answer, &doing)?;
    }
    check(nccl, Ok(state), doing)
}

/// An error if something failed in the background of a live communicator.
fn check_background(nccl: &Nccl, communicator: Handle, doing: impl FnOnce() -> String) -> Result<()> {
    let mut state = ncclResult_t::ncclSuccess;
    // SAFETY: the communicator is live; one value is written.
    let answer = unsafe { nccl.ncclCommGetAsyncError(communicator.0, &raw mut state) };
    let state = answer.map(|answer| if answer == ncclResult_t::ncclSuccess { state } else { answer });
    match state {
        Ok(ncclResult_t::ncclInProgress) => Ok(()),
        state => check(nccl, state, doing),
    }
}

/// Turns an answer of NCCL into an error that says what was being done.
fn check(
    nccl: &Nccl,
    answer: Result<ncclResult_t, loader::Error>,
    doing: impl FnOnce() -> String,
) -> Result<()> {
    match answer.map_err(libraries::missing)? {
        ncclResult_t::ncclSuccess => Ok(()),
        result => Err(Error::internal(format!("{}: {}", doing(), nccl.describe(result)))),
    }
}

/// A rank, color or key as NCCL takes it.
fn int(value: u64) -> Result<i32> {
    i32::try_from(value).map_err(|_| Error::internal(format!("NCCL counts in 32 bits, got {value}")))
}

/// A number of bytes or words as NCCL takes it.
fn size(value: u64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::internal(format!("{value} is beyond this machine's memory")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
