//! Votes: what the hosts of a group tell one another before a call goes to the devices.

use super::{Handle, check, deadline};
use crate::communicator::{Ballot, tally};
use crate::device::cuda;
use crate::{Error, ErrorKind, Result};
use cust::event::{Event, EventFlags, EventStatus};
use cust::memory::{DeviceBuffer, LockedBuffer};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use nccl_sys::{Nccl, ncclDataType_t, ncclRedOp_t};
use std::time::{Duration, Instant};

/// Words of 8 bytes for one ballot with all it says: fingerprint, kind and length of an error, its text.
const RECORD_WORDS: usize = 128;
const TEXT_BYTES: usize = (RECORD_WORDS - 2) * 8;

/// Words of the first, short round: fingerprint, its complement, 1 for a good verdict.
const SHORT_WORDS: usize = 3;

/// A wait begins with polling at full speed for so long: a vote among ranks that are all there takes
/// some tens of microseconds.
const EAGER: Duration = Duration::from_millis(1);

/// One rank's polling station: a communicator and a stream that nothing else uses.
///
/// A vote thus waits for the other hosts, never for work that devices still have to do.
pub(super) struct Votes {
    nccl: &'static Nccl,
    communicator: Handle,
    rank: usize,
    size: usize,
    stream: Stream,
    done: Event,
    /// A record for each rank, in pinned memory and on the device.
    host: LockedBuffer<u64>,
    device: DeviceBuffer<u64>,
    /// Why there will be no more votes.
    given_up: Option<Error>,
}

// SAFETY: the driver and NCCL let any thread use these handles and this memory, one at a time; the
// owner keeps `Votes` in a mutex.
unsafe impl Send for Votes {}

impl Votes {
    /// A station on the current device, over a communicator that nothing else uses. Collective.
    pub(super) fn new(nccl: &'static Nccl, communicator: Handle, rank: usize, size: usize) -> Result<Self> {
        let words = size * RECORD_WORDS;
        let failed = |error| {
            Error::internal(format!("rank {rank} prepares for votes, {words} words of memory: {error:?}"))
        };
        // The driver takes the highest priority there is: a vote must not queue behind long kernels.
        let stream = Stream::new(StreamFlags::NON_BLOCKING, Some(i32::MIN)).map_err(failed)?;
        let done = Event::new(EventFlags::DISABLE_TIMING).map_err(failed)?;
        let host = LockedBuffer::new(&0, words).map_err(failed)?;
        // SAFETY: every word is written before it is read.
        let device = unsafe { DeviceBuffer::uninitialized(words) }.map_err(failed)?;
        let mut votes = Self { nccl, communicator, rank, size, stream, done, host, device, given_up: None };
        // The first collectives of a communicator connect the ranks, and no deadline ends that: it is
        // done here, where all ranks have just come for the split.
        let trial = Ballot { fingerprint: 0, verdict: Ok(()) };
        votes.unanimous(&trial)?;
        votes.gather(&trial)?;
        Ok(votes)
    }

    /// Casts this rank's ballot. Every rank gets the outcome of [`tally`] over all ballots.
    ///
    /// # Errors
    /// That outcome; [`ErrorKind::DeadlineExceeded`] if a rank does not come. After a failure that is
    /// no outcome the group cannot vote again: later calls return the same error.
    pub(super) fn agree(&mut self, ballot: &Ballot) -> Result<()> {
        if let Some(error) = &self.given_up {
            return Err(error.clone());
        }
        let ballots = self
            .unanimous(ballot)
            .and_then(|unanimous| if unanimous { Ok(Vec::new()) } else { self.gather(ballot) });
        match ballots {
            Ok(ballots) => tally(&ballots),
            Err(error) => {
                // Ends the kernel that may still wait on the device for the others.
                // SAFETY: nothing uses the communicator after this.
                let _ = unsafe { self.nccl.ncclCommAbort(self.communicator.0) };
                self.given_up = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The short round: whether all verdicts are good and all fingerprints equal.
    fn unanimous(&mut self, ballot: &Ballot) -> Result<bool> {
        let short = [ballot.fingerprint, !ballot.fingerprint, u64::from(ballot.verdict.is_ok())];
        self.host[..SHORT_WORDS].copy_from_slice(&short);
        self.upload(0, SHORT_WORDS)?;
        let words = self.device.as_device_ptr().as_raw() as *mut std::ffi::c_void;
        // SAFETY: in place over memory of this device; the communicator is live and only used here.
        let result = unsafe {
            self.nccl.ncclAllReduce(
                words.cast_const(),
                words,
                SHORT_WORDS,
                ncclDataType_t::ncclUint64,
                ncclRedOp_t::ncclMin,
                self.communicator.0,
                self.stream.as_inner().cast(),
            )
        };
        check(self.nccl, result, || format!("rank {} votes", self.rank))?;
        self.download(SHORT_WORDS)?;
        // The smallest complement belongs to the largest fingerprint.
        Ok(self.host[0] == !self.host[1] && self.host[2] == 1)
    }

    /// The long round, after a refusal: every rank's ballot, in rank order.
    fn gather(&mut self, ballot: &Ballot) -> Result<Vec<Ballot>> {
        let mine = self.rank * RECORD_WORDS;
        self.host[mine..mine + RECORD_WORDS].copy_from_slice(&encode(ballot));
        self.upload(mine, RECORD_WORDS)?;
        let records = self.device.as_device_ptr().as_raw();
        // SAFETY: in place over memory for one record of each rank, this rank's at its own place; the
        // communicator is live and only used here.
        let result = unsafe {
            self.nccl.ncclAllGather(
                (records + (mine * 8) as u64) as *const std::ffi::c_void,
                records as *mut std::ffi::c_void,
                RECORD_WORDS,
                ncclDataType_t::ncclUint64,
                self.communicator.0,
                self.stream.as_inner().cast(),
            )
        };
        check(self.nccl, result, || format!("rank {} tells its verdict", self.rank))?;
        self.download(self.size * RECORD_WORDS)?;
        Ok(self.host.chunks_exact(RECORD_WORDS).map(decode).collect())
    }

    /// Enqueues the copy of `count` words from place `first` on to the same place on the device.
    fn upload(&self, first: usize, count: usize) -> Result<()> {
        let (from, bytes) = (self.host[first..first + count].as_ptr(), count * 8);
        // SAFETY: both hold the words; the pinned ones are not touched before `download` has waited.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                self.device.as_device_ptr().as_raw() + (first * 8) as u64,
                from.cast(),
                bytes,
                self.stream.as_inner(),
            )
        };
        cuda::check(result, || format!("rank {} copies its ballot to its device", self.rank))
    }

    /// Copies the first `count` words back and waits until they are here.
    fn download(&mut self, count: usize) -> Result<()> {
        let (to, bytes) = (self.host[..count].as_mut_ptr(), count * 8);
        // SAFETY: both hold the words; the pinned ones are not touched before the wait below is over.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                to.cast(),
                self.device.as_device_ptr().as_raw(),
                bytes,
                self.stream.as_inner(),
            )
        };
        cuda::check(result, || format!("rank {} copies votes from its device", self.rank))?;
        let failed = |error| Error::internal(format!("rank {} waits for a vote: {error:?}", self.rank));
        self.done.record(&self.stream).map_err(failed)?;
        let start = Instant::now();
        while self.done.query().map_err(failed)? == EventStatus::NotReady {
            let waited = start.elapsed();
            if waited < EAGER {
                std::thread::yield_now();
                continue;
            }
            if waited > deadline() {
                return Err(self.late(waited));
            }
            super::check_background(self.nccl, self.communicator, || format!("rank {} votes", self.rank))?;
            std::thread::sleep(EAGER / 10);
        }
        Ok(())
    }

    fn late(&self, waited: Duration) -> Error {
        Error::deadline_exceeded(format!(
            "rank {} of {} waited {waited:.0?} for the other ranks to make the same call; every process must \
             make the same calls in the same order, and none may have ended. If one still compiles or computes, \
             give a longer deadline",
            self.rank, self.size
        ))
    }
}

type Constructor = fn(String) -> Error;

/// The kinds of errors, in the order of their numbers in a record; 0 there is a good verdict.
const KINDS: [(ErrorKind, Constructor); 6] = [
    (ErrorKind::InvalidArgument, Error::invalid_argument),
    (ErrorKind::FailedPrecondition, Error::failed_precondition),
    (ErrorKind::ResourceExhausted, Error::resource_exhausted),
    (ErrorKind::Unsupported, Error::unsupported),
    (ErrorKind::DeadlineExceeded, Error::deadline_exceeded),
    (ErrorKind::Internal, Error::internal),
];

/// A ballot as words; a text too long for them ends early.
fn encode(ballot: &Ballot) -> [u64; RECORD_WORDS] {
    let mut record = [0; RECORD_WORDS];
    record[0] = ballot.fingerprint;
    if let Err(error) = &ballot.verdict {
        let kind = KINDS.iter().position(|&(kind, _)| kind == error.kind()).map_or(KINDS.len(), |i| i + 1);
        let text = error.to_string();
        let text = &text[..text.floor_char_boundary(TEXT_BYTES)];
        record[1] = kind as u64 | (text.len() as u64) << 32;
        bytemuck::cast_slice_mut(&mut record[2..])[..text.len()].copy_from_slice(text.as_bytes());
    }
    record
}

/// The ballot in a record of [`encode`].
fn decode(record: &[u64]) -> Ballot {
    let halves = [record[1] & 0xffff_ffff, record[1] >> 32];
    // What is out of range is no record of `encode`; it reads as an error of the last kind.
    let [kind, length] = halves.map(|half| usize::try_from(half).unwrap_or(usize::MAX));
    let verdict = match kind {
        0 => Ok(()),
        _ => {
            let bytes: &[u8] = bytemuck::cast_slice(&record[2..]);
            let text = String::from_utf8_lossy(&bytes[..length.min(TEXT_BYTES)]).into_owned();
            let (_, error) = KINDS[(kind - 1).min(KINDS.len() - 1)];
            Err(error(text))
        }
    };
    Ballot { fingerprint: record[0], verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through_words(ballot: &Ballot) -> Ballot {
        decode(&encode(ballot))
    }

    #[test]
    fn ballots_survive_as_words() {
        let good = through_words(&Ballot { fingerprint: u64::MAX - 6, verdict: Ok(()) });
        assert_eq!((good.fingerprint, good.verdict), (u64::MAX - 6, Ok(())));
        for (number, (kind, error)) in KINDS.into_iter().enumerate() {
            let error = error(format!("Ähre {number}\nsecond line"));
            assert_eq!(error.kind(), kind);
            let came = through_words(&Ballot { fingerprint: number as u64, verdict: Err(error.clone()) });
            assert_eq!((came.fingerprint, came.verdict), (number as u64, Err(error)));
        }
    }

    #[test]
    fn a_long_text_ends_at_a_whole_character() {
        // Two bytes a character after one of one byte, so that the cut falls inside a character.
        let text = format!("x{}", "ä".repeat(TEXT_BYTES));
        let came = through_words(&Ballot { fingerprint: 1, verdict: Err(Error::internal(text.clone())) });
        let kept = came.verdict.expect_err("a refusal").to_string();
        assert_eq!(kept.len(), TEXT_BYTES - 1);
        assert!(text.starts_with(&kept));
    }
}
