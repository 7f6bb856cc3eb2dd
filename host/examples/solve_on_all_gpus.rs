//! Solves A·X = B on all GPUs of this machine, in plain Rust: one thread and one stream for each GPU.
//!
//! A is the n × n matrix exp(−|i−j|/10) + I, which is symmetric positive definite. Its columns are cut
//! into as many shards as there are GPUs; B and X are whole on every GPU.
//!
//! ```text
//! cargo run --release --features cuda --example solve_on_all_gpus -- 8192
//! ```
//!
//! NCCL, cuBLASMp and cuSOLVERMp come from a `site-packages` folder (`--libraries`) or from where the
//! system loader looks.

use clap::Parser;
use cust::context::{Context, CurrentContext};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use meshsolve::communicator::nccl::{self, Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::device::Buffer;
use meshsolve::device::cuda::{self, CudaDevice, DriverMemory};
use meshsolve::plan::{OperandSpec, Plan};
use meshsolve::routines::{Backend, Operands, run};
use meshsolve::solver::cusolvermp::{self, CusolverMpSolver};
use meshsolve::{DType, libraries};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Solves exp(−|i−j|/10) + I on all GPUs of this machine.
#[derive(Parser)]
struct Arguments {
    /// Order of A.
    #[arg(default_value_t = 8192)]
    n: u64,
    /// Right-hand sides.
    #[arg(long, default_value_t = 1)]
    nrhs: u64,
    /// Tile of the solver's layout; chosen by the plan if not given.
    #[arg(long)]
    tile: Option<u64>,
    /// A site-packages folder, or one that holds the libraries themselves.
    #[arg(long)]
    libraries: Vec<PathBuf>,
}

/// What went wrong on a rank, for people.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    libraries::set_library_folders(arguments.libraries.clone());
    match solve_on_all_gpus(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn solve_on_all_gpus(arguments: &Arguments) -> Result<(), Failure> {
    let gpus = count_gpus()?;
    let Arguments { n, nrhs, tile, .. } = *arguments;
    let tile = tile.map_or("null".to_owned(), |tile| tile.to_string());
    let plan = Plan::from_json(&format!(
        r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":{n},"nrhs":{nrhs},"grid":[1,{gpus}],"tile":{tile},
            "b":{{"rows":"replicated","cols":"replicated"}},"triangle":null,"log_det":true}}"#
    ))?;
    let Plan::System(potrs) = &plan else { unreachable!("a Cholesky solve was asked for") };
    println!("{}", potrs.explain());

    let system = System::new(n, nrhs);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..gpus)
            .map(|rank| {
                let (plan, system) = (&plan, &system);
                scope.spawn(move || solve_on_one(rank, gpus, plan, system))
            })
            .collect();
        let results: Vec<_> = ranks.into_iter().map(|rank| rank.join().expect("no rank panics")).collect();
        results.into_iter().collect()
    })
}

/// The GPUs of this machine, or why there are none.
fn count_gpus() -> Result<u64, Failure> {
    let found = cust::init(cust::CudaFlags::empty()).and_then(|()| cust::device::Device::num_devices());
    match found {
        Ok(0) => Err("This machine's NVIDIA driver shows no GPU; is CUDA_VISIBLE_DEVICES empty?".into()),
        Ok(count) => Ok(u64::from(count)),
        // Not `{error}`: its text comes from the driver, which may be what is missing.
        Err(error) => Err(format!(
            "There is no GPU that this program can use ({error:?}). It needs an NVIDIA GPU and its driver \
             (libcuda.so.1); `nvidia-smi` shows both."
        )
        .into()),
    }
}

/// One rank: its share of the data, two solves, and a check of the result.
fn solve_on_one(rank: u64, ranks: u64, plan: &Plan, system: &System) -> Result<(), Failure> {
    let mut phases = Phases::new(rank);

    // The library keeps its state in the context, which therefore stays until the process ends.
    let gpu = cust::device::Device::get_device(u32::try_from(rank)?)?;
    std::mem::forget(Context::new(gpu)?);
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    // SAFETY: stream and context live until the end of this function and of the process.
    let memory = unsafe { DriverMemory::new(stream.as_inner()) };
    // SAFETY: as above; it is not the null stream.
    let device = unsafe { CudaDevice::new(stream.as_inner(), &memory) }?;
    phases.end("context and stream");

    let parent = Parent::own("all GPUs", rank, ranks, Members::ThisProcess, &device)?;
    // Which rank of the solver's grid a device plays is up to the plan.
    let group = NcclGroup::split(&parent, &device, 0, plan.roles()[usize::try_from(rank)?], &[])?;
    // SAFETY: the group was split on this device, which outlives the communicator.
    let communicator = unsafe { NcclCommunicator::new(group, &device) };
    phases.end("communicator");
    let solver = CusolverMpSolver::new(&communicator, &device, plan.grid())?;
    phases.end("cuSOLVERMp");

    let [a_spec, _] = plan.inputs() else { unreachable!("a Cholesky solve has two inputs") };
    let (a_shard, b) = (system.shard(a_spec, rank), system.right_hand_sides());
    let (a_memory, b_memory) = (memory_for(a_spec)?, upload(&b)?);
    let outputs: Vec<Option<DeviceBuffer<u8>>> = (plan.outputs().iter())
        .map(|spec| spec.alias.is_none().then(|| memory_for(spec)).transpose())
        .collect::<Result<_, _>>()?;
    let inputs = vec![window(&a_memory, a_spec), window(&b_memory, &plan.inputs()[1])];
    let operands = Operands {
        outputs: (outputs.iter().zip(plan.outputs()))
            .map(|(memory, spec)| match (memory, spec.alias) {
                (Some(memory), _) => window(memory, spec),
                (None, alias) => inputs[alias.expect("an output has memory or shares an input's")],
            })
            .collect(),
        inputs,
    };
    phases.end("data on the host");

    for call in ["first call", "second call"] {
        // The call before used A up.
        a_memory.index(..size_of_val(&a_shard[..])).copy_from(bytemuck::cast_slice(&a_shard))?;
        CurrentContext::synchronize()?;
        phases.end("upload");
        run(
            plan,
            &Backend { device: &device, communicator: &communicator, solver: Some(&solver) },
            Ok(operands.clone()),
        )?;
        stream.synchronize()?;
        phases.end(call);
        if rank == 0 {
            println!(
                "after the {call}: {:?}, {:?}, {} modules of kernels",
                nccl::counters(),
                cusolvermp::counters(),
                cuda::modules_loaded()
            );
        }
    }

    let output = |name: &str| {
        let place = plan.outputs().iter().position(|spec| spec.name == name).expect("an output of the plan");
        let memory = outputs[place].as_ref().expect("only the work matrix shares an input's memory");
        (memory, &plan.outputs()[place])
    };
    let status: Vec<i32> = download(output("status"))?;
    let log_det: Vec<f64> = download(output("log_det"))?;
    let x: Vec<f64> = download(output("x"))?;
    let residual = system.residual(&x, &b);
    phases.end("check");
    if rank == 0 {
        println!("status {}, ln det A = {}, backward error {residual:.1e}", status[0], log_det[0]);
    }
    phases.print();
    // A comparison that NaN fails.
    if status[0] == 0 && residual <= system.bound() {
        return Ok(());
    }
    Err(format!(
        "rank {rank}: status {}, backward error {residual:e}, which should not exceed {:e}",
        status[0],
        system.bound()
    )
    .into())
}

/// The equations, as functions of the indices.
struct System {
    n: u64,
    nrhs: u64,
    /// aᵢⱼ by |i − j|.
    by_distance: Vec<f64>,
}

impl System {
    fn new(n: u64, nrhs: u64) -> Self {
        let element = |distance: u64| if distance == 0 { 2.0 } else { (-(distance as f64) / 10.0).exp() };
        Self { n, nrhs, by_distance: (0..n).map(element).collect() }
    }

    /// What rank `rank` of a 1 × P grid passes in: all rows and its share of the columns, row-major;
    /// zero where the shard reaches past the matrix.
    fn shard(&self, spec: &OperandSpec, rank: u64) -> Vec<f64> {
        let (width, first) = (spec.shape[1], rank * spec.shape[1]);
        let inside = |i: u64, j: u64| i < self.n && j < self.n;
        let element =
            |i: u64, j: u64| if inside(i, j) { self.by_distance[i.abs_diff(j) as usize] } else { 0.0 };
        (0..spec.shape[0]).flat_map(|i| (first..first + width).map(move |j| element(i, j))).collect()
    }

    /// B, row-major.
    fn right_hand_sides(&self) -> Vec<f64> {
        (0..self.n * self.nrhs).map(|place| (place as f64 * 0.7).sin()).collect()
    }

    /// Largest |A·X − B| in 64 rows and all columns, relative to ‖A‖·‖X‖ + ‖B‖ (largest elements, rows of A
    /// summed).
    fn residual(&self, x: &[f64], b: &[f64]) -> f64 {
        let nrhs = self.nrhs as usize;
        let largest =
            |values: &[f64]| values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        // Row sums are largest in the middle of the matrix.
        let norm: f64 = (0..self.n).map(|j| self.by_distance[j.abs_diff(self.n / 2) as usize]).sum();
        let scale = norm * largest(x) + largest(b);
        let step = (self.n / 64).max(1) as usize;
        let mut worst = 0.0;
        for i in (0..self.n as usize).step_by(step) {
            for k in 0..nrhs {
                let product: f64 =
                    (0..self.n as usize).map(|j| self.by_distance[i.abs_diff(j)] * x[j * nrhs + k]).sum();
                let relative = (product - b[i * nrhs + k]).abs() / scale;
                // `max` would drop NaN.
                if relative > worst || relative.is_nan() {
                    worst = relative;
                }
            }
        }
        worst
    }

    /// Above this a solve is wrong: 30·n rounding errors at most, far more than occur.
    fn bound(&self) -> f64 {
        30.0 * self.n.max(1) as f64 * f64::EPSILON
    }
}

/// Device memory for an operand; at least one element, for the driver gives no empty memory.
fn memory_for(spec: &OperandSpec) -> Result<DeviceBuffer<u8>, Failure> {
    Ok(DeviceBuffer::zeroed(usize::try_from(spec.bytes().max(DType::F64.size()))?)?)
}

fn upload(values: &[f64]) -> Result<DeviceBuffer<u8>, Failure> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    Ok(DeviceBuffer::from_slice(if bytes.is_empty() { &[0] } else { bytes })?)
}

/// The values of an operand.
fn download<T: bytemuck::Pod>((memory, spec): (&DeviceBuffer<u8>, &OperandSpec)) -> Result<Vec<T>, Failure> {
    let bytes = usize::try_from(spec.bytes())?;
    let mut values = vec![T::zeroed(); bytes / size_of::<T>()];
    memory.index(..bytes).copy_to(bytemuck::cast_slice_mut(&mut values))?;
    Ok(values)
}

/// The part of device memory that an operand takes.
fn window(memory: &DeviceBuffer<u8>, spec: &OperandSpec) -> Buffer {
    // SAFETY: only the solves use the window, and the memory outlives them.
    unsafe { Buffer::from_raw(memory.as_device_ptr().as_raw() as *mut u8, spec.bytes()) }
}

/// How long each phase took on one rank.
struct Phases {
    rank: u64,
    began: Instant,
    times: Vec<(&'static str, Duration)>,
}

impl Phases {
    fn new(rank: u64) -> Self {
        Self { rank, began: Instant::now(), times: Vec::new() }
    }

    fn end(&mut self, name: &'static str) {
        self.times.push((name, self.began.elapsed()));
        self.began = Instant::now();
    }

    fn print(&self) {
        let times: Vec<_> = self.times.iter().map(|(name, time)| format!("{name} {time:.1?}")).collect();
        println!("rank {}: {}", self.rank, times.join(", "));
    }
}
