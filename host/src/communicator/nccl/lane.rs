//! The stream on which a group's exchanges run beside a call's own stream.

use crate::device::cuda::check;
use crate::{Error, Result};
use cust::stream::{Stream, StreamFlags};
use cust::sys;

/// Exchanges whose ends are told apart. Waiting for an older one waits for a newer one instead.
const KEPT: usize = 4;

/// A point in a stream's work.
struct Mark(sys::CUevent);

// SAFETY: the driver lets any thread use an event.
unsafe impl Send for Mark {}

impl Mark {
    /// A mark of the current context that was not set yet.
    fn new() -> Result<Self> {
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the driver writes the handle.
        check(unsafe { sys::cuEventCreate(&raw mut event, flags) }, || "making an event".into())?;
        Ok(Self(event))
    }

    /// Marks what a stream has to do so far.
    ///
    /// # Safety
    /// `stream` must be a live stream of the mark's context, which must be current.
    unsafe fn set(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the caller's promise; the event is live.
        check(unsafe { sys::cuEventRecord(self.0, stream) }, || "marking a stream's work".into())
    }

    /// Has a stream wait for what is marked now; the mark may be set anew after that.
    ///
    /// # Safety
    /// As for [`Mark::set`].
    unsafe fn hold(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the caller's promise; the event is live.
        check(unsafe { sys::cuStreamWaitEvent(stream, self.0, 0) }, || "ordering two streams".into())
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and gone after this. The driver keeps what is still waited for.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// A kept stream for exchanges, and the events that order it against the streams of calls.
pub(super) struct Lane {
    stream: Stream,
    /// Recorded on a call's stream when an exchange begins.
    ready: Mark,
    /// Recorded on this stream when an exchange has been enqueued, in turn.
    done: [Mark; KEPT],
    started: u64,
}

impl Lane {
    /// A lane of the current context.
    pub(super) fn new() -> Result<Self> {
        // The driver takes the highest priority there is: the few blocks that drive the link must not
        // queue behind those of a copy.
        let stream = Stream::new(StreamFlags::NON_BLOCKING, Some(i32::MIN))
            .map_err(|error| Error::internal(format!("making a stream for exchanges: {error:?}")))?;
        let done = [Mark::new()?, Mark::new()?, Mark::new()?, Mark::new()?];
        Ok(Self { stream, ready: Mark::new()?, done, started: 0 })
    }

    /// Has `enqueue` put an exchange on the lane's stream, after all that `stream` has to do so far.
    /// Gives the exchange's number.
    ///
    /// # Safety
    /// `stream` must be a live stream of the lane's context, which must be current.
    pub(super) unsafe fn start(
        &mut self,
        stream: sys::CUstream,
        enqueue: impl FnOnce(sys::CUstream) -> Result<()>,
    ) -> Result<u64> {
        let lane = self.stream.as_inner();
        let done = self.done(self.started);
        // SAFETY: the caller's promise; the lane's stream lives as long as the lane.
        unsafe {
            self.ready.set(stream)?;
            self.ready.hold(lane)?;
        }
        let enqueued = enqueue(lane);
        // SAFETY: as above.
        unsafe {
            done.set(lane)?;
            if enqueued.is_err() {
                // The caller takes the exchange as over, whatever was enqueued nevertheless.
                done.hold(stream)?;
            }
        }
        enqueued?;
        self.started += 1;
        Ok(self.started - 1)
    }

    /// Has `stream` wait for an exchange.
    ///
    /// # Safety
    /// `stream` must be a live stream of the lane's context, which must be current.
    pub(super) unsafe fn finish(&self, stream: sys::CUstream, number: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.done(number).hold(stream) }
    }

    /// The mark at the end of an exchange.
    fn done(&self, number: u64) -> &Mark {
        &self.done[usize::try_from(number % KEPT as u64).expect("below KEPT")]
    }
}
