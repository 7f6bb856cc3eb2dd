//! Ranks that compute the same in several ways, in turn.

use super::gpus::{copy, memory, on_each, window};
use super::{Arguments, Clock, Failure, Times};
use clap::ValueEnum;
use cust::context::CurrentContext;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use meshsolve::DType;
use meshsolve::communicator::Communicator;
use meshsolve::communicator::nccl::{Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::device::Buffer;
use meshsolve::device::cuda::CudaDevice;
use meshsolve::plan::{MatrixPlan, OperandSpec, Plan};
use meshsolve::routines::{Backend, Operands, Rank, run};
use meshsolve::solver::DistributedMatrix;
use meshsolve::solver::cusolvermp::CusolverMpSolver;

/// The library's name in results.
pub const ALONE: &str = "cusolvermp-alone";

/// One rank.
pub struct Bench<'a> {
    pub device: &'a CudaDevice<'a>,
    pub communicator: NcclCommunicator,
    stream: &'a Stream,
    parent: Parent,
    clock: &'a Clock,
    arguments: &'a Arguments,
}

/// A way to compute something.
pub struct Contestant<'a> {
    /// What its results are recorded under.
    pub name: &'static str,
    /// What else people want to know of it.
    pub note: String,
    /// Prepares, computes and makes sure that it worked; gives the seconds of the computation.
    pub compute: Box<dyn Fn() -> Result<f64, Failure> + 'a>,
}

/// Has `measure` measure every order with every tile and give the medians of all contestants. The first
/// one's is what the others are compared with.
pub fn measure_each(
    arguments: &Arguments,
    measure: impl Fn(&Bench<'_>, u64, u64) -> Result<Vec<(&'static str, f64)>, Failure> + Sync,
) -> Result<(), Failure> {
    let ranks = arguments.grid[0] * arguments.grid[1];
    let clock = Clock::new(ranks);
    println!("routine,n,tile,grid,dtype,median_s,min_s");
    on_each(ranks, |rank, device, stream| {
        let measure_all = || {
            let parent = Parent::own("benchmark", rank, ranks, Members::ThisProcess, device)?;
            let group = NcclGroup::split(&parent, device, 0, rank, &[])?;
            // SAFETY: the group was split on this device, which outlives the communicator.
            let communicator = unsafe { NcclCommunicator::new(group, device) };
            let bench = Bench { device, communicator, stream, parent, clock: &clock, arguments };
            for &n in &arguments.sizes {
                let mut best: Vec<(&str, f64)> = Vec::new();
                for &tile in &arguments.tiles {
                    let medians = measure(&bench, n, tile)?;
                    if best.is_empty() {
                        best.clone_from(&medians);
                    }
                    best.iter_mut().zip(medians).for_each(|(best, (_, median))| best.1 = best.1.min(median));
                }
                if let Some((&(first, seconds), others)) = best.split_first().filter(|_| rank == 0) {
                    for (name, median) in others {
                        let ratio = median / seconds;
                        println!("# n = {n}, each at its best tile: {name} / {first} {ratio:.3}");
                    }
                }
            }
            Ok(())
        };
        measure_all().inspect_err(|failure: &Failure| {
            // The others would wait for this rank for ever.
            eprintln!("rank {rank}: {failure}");
            std::process::exit(1);
        })
    })?;
    Ok(())
}

impl Bench<'_> {
    /// What was asked for.
    pub fn arguments(&self) -> &Arguments {
        self.arguments
    }

    /// The plan of a request: its own members in JSON, to which those come that all routines have.
    pub fn plan(&self, request: &str, n: u64, tile: u64, layout: &str) -> Result<Plan, Failure> {
        let [rows, cols] = self.arguments.grid;
        let dtype = self.arguments.dtype.to_possible_value().ok_or("a hidden element type")?;
        let dtype = dtype.get_name();
        Ok(Plan::from_json(&format!(
            r#"{{{request},"dtype":"{dtype}","n":{n},"grid":[{rows},{cols}],"tile":{tile},"triangle":null,
                "layout":"{layout}"}}"#
        ))?)
    }

    /// Seconds of work on all ranks, the slowest one's.
    pub fn time(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
        self.clock.time(self.communicator.rank(), self.stream, work)
    }

    /// Times the contestants in turn, prints a line for each, and gives the medians.
    pub fn compare(
        &self,
        n: u64,
        tile: u64,
        contestants: &[Contestant<'_>],
    ) -> Result<Vec<(&'static str, f64)>, Failure> {
        CurrentContext::synchronize()?;
        let mut seconds = vec![Vec::new(); contestants.len()];
        // The first repeat makes what is kept, and does not count.
        for repeat in 0..=self.arguments.repeats {
            for (contestant, seconds) in contestants.iter().zip(&mut seconds) {
                let took = (contestant.compute)()?;
                seconds.extend((repeat > 0).then_some(took));
            }
        }
        let times: Vec<Times> = seconds.into_iter().map(Times::of).collect();
        if self.communicator.rank() == 0 {
            let [rows, cols] = self.arguments.grid;
            let dtype = DType::from(self.arguments.dtype).name();
            let first = times[0].median;
            for (Contestant { name, note, .. }, times) in contestants.iter().zip(&times) {
                println!("{name},{n},{tile},{rows}x{cols},{dtype},{:.6},{:.6}", times.median, times.min);
                if *name != contestants[0].name {
                    let ratio = times.median / first;
                    println!("# {name} ({note}) / {}: {ratio:.3} (medians)", contestants[0].name);
                }
            }
        }
        Ok(contestants.iter().zip(times).map(|(contestant, times)| (contestant.name, times.median)).collect())
    }

    /// This rank's shard of a matrix whose elements are `value(column − row)`, row-major.
    pub fn shard(&self, plan: &MatrixPlan, value: impl Fn(i64) -> f64) -> Result<DeviceBuffer<u8>, Failure> {
        let [rows, cols] = plan.caller_shape();
        let at = plan.mesh_coordinate(self.communicator.rank());
        // Every row is a window of one sequence. What lies past the end of the matrix is never read.
        let size = usize::try_from(plan.dtype().size())?;
        let last_row = at.row * rows + rows.saturating_sub(1);
        let begin = (at.col * cols).cast_signed() - last_row.cast_signed();
        let sequence: Vec<u8> = (0..rows + cols)
            .flat_map(|k| {
                let bits = plan.dtype().bits(value(begin + k.cast_signed())).map(u64::to_ne_bytes).concat();
                bits.into_iter().take(size)
            })
            .collect();
        let sequence = DeviceBuffer::from_slice(if sequence.is_empty() { &[0] } else { &sequence[..] })?;
        let shard = memory(rows * cols * plan.dtype().size())?;
        CurrentContext::synchronize()?;
        let row_bytes = cols * plan.dtype().size();
        for i in 0..rows {
            let from = window(&sequence).slice((rows - 1 - i) * plan.dtype().size(), row_bytes);
            copy(self.device, from, window(&shard).slice(i * row_bytes, row_bytes))?;
        }
        // The sequence goes away here.
        self.stream.synchronize()?;
        Ok(shard)
    }

    /// Brings a square matrix into the solver's layout.
    pub fn bring(&self, plan: &MatrixPlan, from: Buffer, to: Buffer, moving: Buffer) -> Result<(), Failure> {
        let rank = Rank { device: self.device, communicator: &self.communicator, scratch: moving };
        rank.forward(plan, from, to)?;
        Ok(rank.complete(plan, to)?)
    }

    /// Makes sure that what was timed was done.
    pub fn expect_zeros(&self, what: &str, memory: &DeviceBuffer<u8>) -> Result<(), Failure> {
        self.stream.synchronize()?;
        let mut bytes = vec![1; memory.len()];
        memory.copy_to(&mut bytes)?;
        match bytes.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(format!("the {what} is not zero: {bytes:?}").into()),
        }
    }
}

/// A call of the whole routine: memory for it, and the ranks in the order of its roles.
pub struct Whole<'a> {
    bench: &'a Bench<'a>,
    plan: &'a Plan,
    role: NcclCommunicator,
    operands: Operands,
    memories: Vec<DeviceBuffer<u8>>,
}

impl<'a> Whole<'a> {
    pub fn new(bench: &'a Bench<'a>, plan: &'a Plan) -> Result<Self, Failure> {
        let mut memories = Vec::new();
        let mut operand = |spec: &OperandSpec| {
            let memory = memory(spec.bytes())?;
            let window = part(&memory, spec);
            memories.push(memory);
            Ok::<_, Failure>(window)
        };
        let inputs: Vec<Buffer> = plan.inputs().iter().map(&mut operand).collect::<Result<_, _>>()?;
        let outputs = (plan.outputs().iter())
            .map(|spec| spec.alias.map_or_else(|| operand(spec), |input| Ok(inputs[input])))
            .collect::<Result<_, _>>()?;
        let place = usize::try_from(bench.communicator.rank())?;
        let group = NcclGroup::split(&bench.parent, bench.device, 0, plan.roles()[place], plan.roles())?;
        // SAFETY: the group was split on this device, which outlives the communicator.
        let role = unsafe { NcclCommunicator::new(group, bench.device) };
        Ok(Self { bench, plan, role, operands: Operands { inputs, outputs }, memories })
    }

    /// Seconds of the routine, on copies of the inputs.
    pub fn time(&self, inputs: &[Buffer]) -> Result<f64, Failure> {
        let Self { bench, plan, role, operands, memories } = self;
        for (&from, &to) in inputs.iter().zip(&operands.inputs) {
            copy(bench.device, from, to)?;
        }
        let solver = CusolverMpSolver::new(role, bench.device, plan.grid())?;
        let backend = Backend { device: bench.device, communicator: role, solver: Some(&solver) };
        let operands = operands.clone();
        let seconds = bench.time(|| Ok(run(plan, &backend, Ok(operands))?))?;
        // The last output of every routine.
        let status = memories.last().expect("a plan has outputs");
        bench.expect_zeros("status of the whole routine", status)?;
        Ok(seconds)
    }
}

/// The part of the memory that an operand takes.
pub fn part(memory: &DeviceBuffer<u8>, spec: &OperandSpec) -> Buffer {
    window(memory).slice(0, spec.bytes())
}

/// The matrix in a solver's buffer.
pub fn distributed(plan: &MatrixPlan, data: Buffer) -> DistributedMatrix {
    DistributedMatrix {
        dtype: plan.dtype(),
        grid: plan.grid(),
        rows: plan.rows().cyclic(),
        cols: plan.cols().cyclic(),
        leading_dimension: plan.rows().capacity().max(1),
        data,
    }
}

/// exp(−10·|d|/n), and 2 for d = 0: a positive definite matrix, of which neither an element nor one of its
/// factor is near zero, whatever the order of its rows; a GPU is faster on zeros.
pub fn definite(n: u64) -> impl Fn(i64) -> f64 {
    move |d| if d == 0 { 2.0 } else { (-10.0 * d.unsigned_abs() as f64 / n as f64).exp() }
}

/// A number from −1 to 1 for each k, by multiplications that mix all bits.
pub fn arbitrary(k: u64) -> f64 {
    let mixed = k.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}
