//! Devices and communicators that watch what runs beside what.
//!
//! A device's operations run in their order, and so do its exchanges; between the two there is only the
//! order that [`Communicator::start`] and [`Communicator::finish`] make: an exchange comes after all
//! operations enqueued before its start, and before all that are enqueued after its finish. [`Watch`] notes
//! what every step reads and writes, and panics when two steps without an order between them touch the
//! same bytes, one of them writing. Exchanges are carried out as late as they may
//! be, when they are finished, so that whoever does not wait sees old contents, too.

use meshsolve::Result;
use meshsolve::communicator::{Ballot, Communicator, Message, Reduction, Ticket};
use meshsolve::device::{Buffer, Device, Operation};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

type Span = Range<u64>;

/// What a step touches, as ranges of addresses.
#[derive(Clone, Debug, Default)]
struct Accesses {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

impl Accesses {
    /// Bytes that one of the two writes and the other one touches.
    fn conflict(&self, other: &Self) -> Option<(Span, Span)> {
        let pairs = |ours: &[Span], theirs: &[Span]| {
            let pairs = ours.iter().flat_map(|a| theirs.iter().map(move |b| (a.clone(), b.clone())));
            pairs.into_iter().find(|(a, b)| a.start < b.end && b.start < a.end)
        };
        pairs(&self.writes, &other.writes)
            .or_else(|| pairs(&self.writes, &other.reads))
            .or_else(|| pairs(&self.reads, &other.writes))
    }
}

fn span(buffer: &Buffer) -> Span {
    buffer.address()..buffer.address() + buffer.bytes()
}

/// From the first to the last element of `lines` lines.
fn lines(address: u64, ld: u64, lines: u64, len: u64, size: u64) -> Span {
    let elements = if lines == 0 || len == 0 { 0 } else { (lines - 1) * ld + len };
    address..address + elements * size
}

/// What an operation of a redistribution touches.
fn accesses(operation: &Operation) -> Accesses {
    use Operation::*;
    match operation {
        CopyLines(size, a, _) => {
            let size = u64::from(size.bytes());
            Accesses {
                reads: vec![lines(a.src, a.ld_src, a.lines, a.len, size)],
                writes: vec![lines(a.dst, a.ld_dst, a.lines, a.len, size)],
            }
        }
        ConvertForward(size, a) => {
            let size = u64::from(size.bytes());
            let [rows, cols] = [a.row_map.limit, a.col_map.limit];
            Accesses {
                reads: vec![lines(a.src, a.ld_src, rows, cols, size)],
                writes: vec![lines(a.dst, a.ld_dst, a.cols, a.rows, size)],
            }
        }
        ConvertReverse(size, a) => {
            let size = u64::from(size.bytes());
            let [rows, cols] = [a.row_map.limit, a.col_map.limit];
            Accesses {
                reads: vec![lines(a.src, a.ld_src, a.cols, a.rows, size)],
                writes: vec![lines(a.dst, a.ld_dst, rows, cols, size)],
            }
        }
        TransposeBlocks(size, a) => {
            let bytes = a.p * a.q * a.g * a.g * u64::from(size.bytes());
            Accesses { reads: vec![], writes: vec![bytes_from(a.buf, bytes)] }
        }
        MoveSegments(size, a) => {
            let segment = a.len * u64::from(size.bytes());
            Accesses {
                reads: vec![bytes_from(a.scratch, a.cuts() * segment)],
                writes: vec![bytes_from(a.buf, a.segments() * segment)],
            }
        }
        other => panic!("no part of a redistribution: {other:?}"),
    }
}

/// So many bytes from an address on.
fn bytes_from(start: u64, bytes: u64) -> Span {
    start..start + bytes
}

/// A step on one of the two lanes.
#[derive(Debug)]
struct Step {
    what: String,
    accesses: Accesses,
}

#[derive(Debug, Default)]
struct State {
    /// All operations and all exchanges so far, each lane in its order.
    operations: Vec<Step>,
    exchanges: Vec<Step>,
    /// How many exchanges the operations to come wait for.
    finished: usize,
    /// Operations that ran beside an exchange.
    overlapped: usize,
    /// Furthest byte of the scratch that was touched.
    scratch: Span,
    used: u64,
}

impl State {
    fn touch(&mut self, accesses: &Accesses) {
        for span in accesses.reads.iter().chain(&accesses.writes).filter(|span| !span.is_empty()) {
            if self.scratch.contains(&span.start) {
                self.used = self.used.max(span.end - self.scratch.start);
            }
        }
    }

    fn operation(&mut self, step: Step) {
        self.touch(&step.accesses);
        for exchange in &self.exchanges[self.finished..] {
            if let Some(conflict) = exchange.accesses.conflict(&step.accesses) {
                panic!("{} runs beside {}: {conflict:x?}", step.what, exchange.what);
            }
        }
        if self.finished < self.exchanges.len() {
            self.overlapped += 1;
        }
        self.operations.push(step);
    }

    fn exchange(&mut self, step: Step) -> u64 {
        self.touch(&step.accesses);
        let inside =
            |a: &[Span], b: &[Span]| a.iter().any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end));
        let Accesses { reads, writes } = &step.accesses;
        assert!(!inside(reads, writes), "{} receives into what it sends", step.what);
        self.exchanges.push(step);
        self.exchanges.len() as u64
    }
}

/// One rank's steps.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    state: Arc<Mutex<State>>,
}

impl Watch {
    /// Nothing has happened yet; `scratch` is the memory whose use is measured.
    pub fn new(scratch: Buffer) -> Self {
        let watch = Self::default();
        watch.lock().scratch = span(&scratch);
        watch
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Bytes of the scratch up to the furthest one that was touched.
    pub fn used_scratch(&self) -> u64 {
        self.lock().used
    }

    /// Operations and exchanges so far.
    pub fn steps(&self) -> (usize, usize) {
        let state = self.lock();
        (state.operations.len(), state.exchanges.len())
    }

    /// Operations that ran beside an exchange.
    pub fn overlapped(&self) -> usize {
        self.lock().overlapped
    }

    /// Panics if an exchange is not finished: its memory could be given back while it runs.
    pub fn assert_finished(&self) {
        let state = self.lock();
        assert_eq!(state.finished, state.exchanges.len(), "an exchange that nobody waits for");
    }
}

/// A device whose operations are watched.
pub struct WatchedDevice<'a> {
    /// The device that carries them out.
    pub device: &'a dyn Device,
    /// The watch.
    pub watch: Watch,
}

impl Device for WatchedDevice<'_> {
    unsafe fn launch(&self, operation: &Operation) -> Result<()> {
        self.watch.lock().operation(Step { what: format!("{operation:?}"), accesses: accesses(operation) });
        // SAFETY: the caller's promise.
        unsafe { self.device.launch(operation) }
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer> {
        self.device.allocate(bytes)
    }

    fn release(&self, buffer: Buffer) {
        self.watch.assert_finished();
        self.device.release(buffer);
    }

    fn table(&self, words: &Arc<[u32]>) -> Result<Buffer> {
        self.device.table(words)
    }
}

/// A communicator whose exchanges are watched, and carried out when they are finished.
pub struct WatchedCommunicator<'a> {
    /// The communicator that carries them out.
    communicator: &'a dyn Communicator,
    watch: Watch,
    late: Mutex<Vec<(Vec<Message>, Vec<Message>)>>,
}

impl<'a> WatchedCommunicator<'a> {
    /// Watches `communicator`.
    pub fn new(communicator: &'a dyn Communicator, watch: Watch) -> Self {
        Self { communicator, watch, late: Mutex::default() }
    }
}

impl Communicator for WatchedCommunicator<'_> {
    fn rank(&self) -> u64 {
        self.communicator.rank()
    }

    fn size(&self) -> u64 {
        self.communicator.size()
    }

    fn start(&self, sends: &[Message], receives: &[Message]) -> Result<Ticket> {
        let spans = |messages: &[Message]| messages.iter().map(|m| span(&m.data)).collect();
        let accesses = Accesses { reads: spans(sends), writes: spans(receives) };
        let number = self.watch.lock().exchange(Step {
            what: format!("an exchange that sends {sends:?} and receives {receives:?}"),
            accesses,
        });
        self.late.lock().unwrap().push((sends.to_vec(), receives.to_vec()));
        Ok(Ticket::new(number))
    }

    fn finish(&self, ticket: Ticket) -> Result<()> {
        let until = usize::try_from(ticket.number()).unwrap();
        let from = self.watch.lock().finished;
        for (sends, receives) in &self.late.lock().unwrap()[from.min(until)..until] {
            self.communicator.exchange(sends, receives)?;
        }
        let mut state = self.watch.lock();
        state.finished = state.finished.max(until);
        Ok(())
    }

    fn all_reduce(&self, reduction: Reduction, words: Buffer) -> Result<()> {
        self.communicator.all_reduce(reduction, words)
    }

    fn agree(&self, ballot: Ballot) -> Result<()> {
        self.communicator.agree(ballot)
    }

    fn split(&self, color: u64, key: u64) -> Result<Box<dyn Communicator>> {
        self.communicator.split(color, key)
    }
}
