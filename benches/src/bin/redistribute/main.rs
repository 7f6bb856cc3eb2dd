//! Stages 2 and 3 of the redistribution between two GPUs, there and back, against plain NCCL send and
//! receive of as many bytes.
//!
//! One process, one thread for each GPU. First a check, bit for bit; then for each case the median of
//! interleaved repeats. `link` is the plan's bytes per direction over the wall time; `of sendrecv` the
//! time of one message each way of so many bytes over ours. `alone` is the time of the plan's own
//! messages with no copies beside them.

mod check;

use clap::Parser;
use cust::memory::DeviceBuffer;
use cust::stream::Stream;
use meshsolve::communicator::nccl::{Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::communicator::{Communicator, Message};
use meshsolve::device::cuda::CudaDevice;
use meshsolve::device::{Buffer, Scratch};
use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{Dimension, MatrixPlan, Placement, UNIT_BYTES, View};
use meshsolve::routines::Rank;
use meshsolve::{DType, libraries};
use meshsolve_benches::clock::{Clock, Times};
use meshsolve_benches::gpus::{Failure, memory, on_each, window};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// GPUs, and ranks.
const RANKS: u64 = 2;

/// Orders, tiles and types that are measured unless sizes are given.
const CASES: [(u64, u64, DType); 5] = [
    (8192, 1024, DType::F64),
    (32768, 1024, DType::F64),
    (30000, 1024, DType::F64),
    (32768, 1024, DType::F32),
    (16384, 1024, DType::C128),
];

/// Measures the redistribution between two GPUs against NCCL's send and receive.
#[derive(Parser)]
struct Arguments {
    /// Orders to measure instead of the usual cases, in f64 with a tile of 1024.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u64>,
    /// Least sizes of the parts in which slabs travel, in MiB; each is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [UNIT_BYTES >> 20])]
    unit_mib: Vec<u64>,
    /// Timed repeats, after one that is not.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Also print lines for benches/results, with this commit.
    #[arg(long, value_name = "COMMIT")]
    csv: Option<String>,
    /// A site-packages folder, or one that holds the libraries themselves.
    #[arg(long)]
    libraries: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    libraries::set_library_folders(arguments.libraries.clone());
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let cases: Vec<_> = match arguments.sizes.is_empty() {
        true => CASES.to_vec(),
        false => arguments.sizes.iter().map(|&n| (n, 1024, DType::F64)).collect(),
    };
    let clock = Clock::new(RANKS);
    on_each(RANKS, |rank, device, stream| {
        let work = || {
            let parent = Parent::own("benchmark", rank, RANKS, Members::ThisProcess, device)?;
            let group = NcclGroup::split(&parent, device, 0, rank, &[])?;
            // SAFETY: the group was split on this device, which outlives the communicator.
            let communicator = unsafe { NcclCommunicator::new(group, device) };
            let bench = Bench { device, stream, communicator: &communicator, clock: &clock, arguments };
            check::all(&bench)?;
            if rank == 0 {
                println!(
                    "grid  dtype     n  tile  MiB  rounds  GB each way | forward ms  link GB/s  of sendrecv | \
                     reverse ms  link GB/s  of sendrecv | sendrecv ms  GB/s | alone ms"
                );
            }
            for &(n, tile, dtype) in &cases {
                for grid in [[1, 2], [2, 1]] {
                    for &mib in &arguments.unit_mib {
                        bench.measure(&plan(dtype, grid, n, tile, mib << 20), mib)?;
                    }
                }
            }
            Ok(())
        };
        work().inspect_err(|failure: &Failure| {
            // The other would wait for this rank for ever.
            eprintln!("rank {rank}: {failure}");
            std::process::exit(1);
        })
    })?;
    Ok(())
}

/// The way of a square matrix.
fn plan(dtype: DType, [rows, cols]: [u64; 2], n: u64, tile: u64, unit_bytes: u64) -> MatrixPlan {
    let order = |procs| Dimension::new(n, tile, procs, Placement::Sharded);
    let grid = ProcessGrid::new(rows, cols);
    MatrixPlan::with_units(dtype, grid, View::Plain, order(rows), order(cols), unit_bytes)
}

/// One rank.
struct Bench<'a> {
    device: &'a CudaDevice<'a>,
    stream: &'a Stream,
    communicator: &'a NcclCommunicator,
    clock: &'a Clock,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    fn rank<'s>(&'s self, scratch: &'s Scratch<'_>) -> Rank<'s> {
        Rank { device: self.device, communicator: self.communicator, scratch: scratch.buffer() }
    }

    fn measure(&self, plan: &MatrixPlan, mib: u64) -> Result<(), Failure> {
        let me = self.communicator.rank();
        // Both directions of the busier rank.
        let bytes = (0..RANKS).map(|rank| plan.forward_traffic(rank)).map(|t| t.sent.max(t.received)).max();
        let bytes = bytes.unwrap_or(0);
        let matrix = memory(plan.solver_bytes())?;
        let solver = window(&matrix).slice(0, plan.solver_bytes());
        let letters = [memory(bytes)?, memory(bytes)?];
        let scratch = Scratch::new(self.device, plan.scratch_bytes())?;
        let rank = self.rank(&scratch);
        let time = |work: &dyn Fn() -> Result<(), Failure>| self.clock.time(me, self.stream, work);
        let sendrecv = || {
            let message = |letter: &DeviceBuffer<u8>| Message {
                peer: RANKS - 1 - me,
                data: window(letter).slice(0, bytes),
            };
            Ok(self.communicator.exchange(&[message(&letters[0])], &[message(&letters[1])])?)
        };
        let mut seconds: [Vec<f64>; 4] = Default::default();
        for repeat in 0..=self.arguments.repeats {
            let times = [
                time(&|| Ok(rank.distribute(plan, solver)?))?,
                time(&sendrecv)?,
                time(&|| Ok(rank.restore(plan, solver)?))?,
                time(&|| self.messages(plan, solver, scratch.buffer()))?,
            ];
            // The first repeat loads kernels and connects the ranks.
            if repeat > 0 {
                seconds.iter_mut().zip(times).for_each(|(all, one)| all.push(one));
            }
        }
        if me == 0 {
            self.print(plan, mib, bytes, seconds.map(Times::of));
        }
        Ok(())
    }

    /// The messages of stages 2 and 3 with nothing beside them.
    fn messages(&self, plan: &MatrixPlan, solver: Buffer, scratch: Buffer) -> Result<(), Failure> {
        use meshsolve::plan::Place;
        let me = self.communicator.rank();
        for (axis, phase) in plan.phases() {
            let element = plan.across(*axis) * plan.dtype().size();
            let data = |place, len: u64| match place {
                Place::Matrix(first) => solver.slice(first * element, len * element),
                Place::Scratch(unit) => scratch.slice(unit * plan.unit_bytes(*axis, phase), len * element),
            };
            let mut under_way = None;
            for round in phase.rounds() {
                let (send, receive) = round.transfers_of(plan.position(*axis, me));
                let peer = RANKS - 1 - me;
                let send = send.map(|t| Message { peer, data: data(t.source, t.len) });
                let receive = receive.map(|t| Message { peer, data: data(t.target, t.len) });
                if send.is_some() || receive.is_some() {
                    under_way = Some(self.communicator.start(send.as_slice(), receive.as_slice())?);
                }
            }
            if let Some(last) = under_way {
                self.communicator.finish(last)?;
            }
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    fn print(
        &self,
        plan: &MatrixPlan,
        mib: u64,
        bytes: u64,
        [forward, sendrecv, reverse, alone]: [Times; 4],
    ) {
        let grid = format!("{}x{}", plan.grid().rows(), plan.grid().cols());
        let dtype = plan.dtype().name();
        let (n, tile) = (plan.rows().extent(), plan.rows().tile());
        let rounds: usize = plan.phases().iter().map(|(_, phase)| phase.exchanges()).sum();
        let rate = |times: &Times| 1e-9 * bytes as f64 / times.median;
        let share = |times: &Times| sendrecv.median / times.median;
        println!(
            "{grid}   {dtype:5} {n:6} {tile:5} {mib:4} {rounds:7} {:12.3} | {:10.3} {:10.1} {:12.3} | {:10.3} {:10.1} {:12.3} | {:11.3} {:5.1} | {:8.3}",
            1e-9 * bytes as f64,
            1e3 * forward.median,
            rate(&forward),
            share(&forward),
            1e3 * reverse.median,
            rate(&reverse),
            share(&reverse),
            1e3 * sendrecv.median,
            rate(&sendrecv),
            1e3 * alone.median,
        );
        let Some(commit) = &self.arguments.csv else { return };
        let name = cust::device::Device::get_device(0).and_then(|gpu| gpu.name());
        let hardware = format!("{RANKS} x {}", name.unwrap_or_else(|_| "unknown GPU".to_owned()));
        let mut versions = format!("meshsolve {}", env!("CARGO_PKG_VERSION"));
        for library in libraries::loaded() {
            versions += &format!("; {} {}", library.name, library.version.as_deref().unwrap_or("?"));
        }
        for (case, times) in [("forward", &forward), ("reverse", &reverse)] {
            println!(
                "{},{hardware},{versions},{commit},redistribute,{case},{dtype},{n},{n},{tile},{grid},1p,{:.6},s,nccl-sendrecv,{:.6},{:.4}",
                today(),
                times.median,
                sendrecv.median,
                times.median / sendrecv.median
            );
        }
    }
}

/// The date in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut day = since.as_secs() / 86400;
    let mut year = 1970;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for days in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", day + 1)
}
