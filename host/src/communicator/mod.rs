//! The seam between ranks.

mod local;
#[cfg(feature = "cuda")]
pub mod nccl;

use crate::device::Buffer;
use crate::{Error, Result};
pub use local::LocalCommunicator;

/// One buffer to or from one peer.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Rank of the peer.
    pub peer: u64,
    /// What is sent, or where what is received goes.
    pub data: Buffer,
}

/// An exchange that was started and must be finished.
#[derive(Debug)]
#[must_use = "an exchange must be finished before its memory is used or given back"]
pub struct Ticket(u64);

impl Ticket {
    /// A ticket with a number that tells its communicator which exchange it is for.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// That number.
    pub fn number(&self) -> u64 {
        self.0
    }
}

/// How an all-reduce combines words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum of f64 words, in the same order on every rank.
    SumF64,
    /// Largest of signed 32-bit words.
    MaxI32,
    /// Smallest of signed 32-bit words.
    MinI32,
}

/// What a rank knows on the host before a call goes to the devices.
#[derive(Clone, Debug)]
pub struct Ballot {
    /// Hash of what must be the same on every rank: the request, library versions.
    pub fingerprint: u64,
    /// Whether this rank can go on.
    pub verdict: Result<()>,
}

/// A group of ranks, each with a device. All methods but `rank` and `size` are collective.
pub trait Communicator {
    /// This rank, below [`Communicator::size`].
    fn rank(&self) -> u64;

    /// Ranks in the group.
    fn size(&self) -> u64;

    /// Starts to send and receive as one group: nothing waits for the order inside. The k-th message that
    /// a rank sends to a peer is the k-th that the peer receives from it; lengths must agree.
    ///
    /// The exchange begins when the device's operations enqueued so far and the exchanges started before
    /// are done. Operations enqueued from now on run beside it: until it is finished they must not touch
    /// what it receives, nor write what it sends. An exchange that cannot be started is over.
    fn start(&self, sends: &[Message], receives: &[Message]) -> Result<Ticket>;

    /// Has the device's operations enqueued from now on wait for an exchange and those started before it.
    /// The host waits for nothing.
    fn finish(&self, ticket: Ticket) -> Result<()>;

    /// Sends and receives as one group, in the order of the device's operations: see
    /// [`Communicator::start`].
    fn exchange(&self, sends: &[Message], receives: &[Message]) -> Result<()> {
        let ticket = self.start(sends, receives)?;
        self.finish(ticket)
    }

    /// Combines the words of all ranks in place, enqueued in the order of the device's operations.
    fn all_reduce(&self, reduction: Reduction, words: Buffer) -> Result<()>;

    /// Host to host: succeeds on every rank if every rank's verdict is good and all fingerprints are
    /// equal; otherwise every rank gets the same error.
    fn agree(&self, ballot: Ballot) -> Result<()>;

    /// Splits the group: ranks with one `color` form a group, ordered by `key`, then by rank.
    fn split(&self, color: u64, key: u64) -> Result<Box<dyn Communicator>>;
}

/// The outcome of a vote, given all ranks' ballots in rank order: the first refusal, or a mismatch.
pub(crate) fn tally(ballots: &[Ballot]) -> Result<()> {
    for (rank, ballot) in ballots.iter().enumerate() {
        if let Err(error) = &ballot.verdict {
            return Err(error.clone().context(format!("rank {rank} cannot go on")));
        }
    }
    let first = ballots.first().map(|b| b.fingerprint);
    match ballots.iter().position(|b| Some(b.fingerprint) != first) {
        None => Ok(()),
        Some(rank) => Err(Error::failed_precondition(format!(
            "rank {rank} runs a different call than rank 0: every process must make the same calls in the same \
             order, with the same shapes, types and library versions"
        ))),
    }
}
