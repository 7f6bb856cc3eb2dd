//! A solve with one right-hand side: cuSOLVERMp alone, and the whole routine. By Cholesky factors the matrix is
//! exp(−10·|i−j|/n) + I, by LU factors one of arbitrary numbers that depend on i − j.

use super::gpus::{copy, memory, on_each, window};
use super::{Arguments, Clock, Failure, Routine, Times};
use clap::ValueEnum;
use cust::context::CurrentContext;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use meshsolve::DType;
use meshsolve::communicator::Communicator;
use meshsolve::communicator::nccl::{Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::device::cuda::CudaDevice;
use meshsolve::device::{Buffer, Scratch};
use meshsolve::plan::{MatrixPlan, OperandSpec, Plan, SystemPlan};
use meshsolve::routines::{Backend, Operands, Rank, run};
use meshsolve::solver::cusolvermp::CusolverMpSolver;
use meshsolve::solver::{DistributedMatrix, Solver, pivot_bytes};

/// Measures every size with every tile and prints a line for each.
pub fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let [rows, cols] = arguments.grid;
    let ranks = rows * cols;
    let dtype = DType::from(arguments.dtype);
    let method = match arguments.routine {
        Routine::Potrs => "cholesky",
        Routine::LuSolve => "lu",
    };
    let plan = |n, tile, layout: &str| {
        let name = format!("{dtype:?}").to_lowercase();
        Plan::from_json(&format!(
            r#"{{"routine":"system","method":"{method}","task":"solve","dtype":"{name}","n":{n},"nrhs":1,
                "grid":[{rows},{cols}],"tile":{tile},"triangle":null,"layout":"{layout}"}}"#
        ))
    };
    let clock = Clock::new(ranks);
    println!("routine,n,tile,grid,dtype,median_s,min_s");
    on_each(ranks, |rank, device, stream| {
        let measure = || {
            let parent = Parent::own("benchmark", rank, ranks, Members::ThisProcess, device)?;
            let group = NcclGroup::split(&parent, device, 0, rank, &[])?;
            // SAFETY: the group was split on this device, which outlives the communicator.
            let communicator = unsafe { NcclCommunicator::new(group, device) };
            let bench = Bench { device, stream, parent, communicator, clock: &clock, arguments };
            for &n in &arguments.sizes {
                let mut medians = Vec::new();
                for &tile in &arguments.tiles {
                    // Alone, the library is called on A itself, not on a permuted one.
                    let ours = plan(n, tile, &arguments.layout)?;
                    medians.push(bench.measure(&plan(n, tile, "stages")?, &ours)?);
                }
                let best = |of: fn(&[f64; 2]) -> f64| medians.iter().map(of).fold(f64::INFINITY, f64::min);
                if rank == 0 && arguments.through_plan {
                    let (alone, ours) = (best(|medians| medians[0]), best(|medians| medians[1]));
                    let ratio = ours / alone;
                    println!("# n = {n}, each at its best tile: ours / cusolvermp-alone {ratio:.3}");
                }
            }
            Ok(())
        };
        measure().inspect_err(|failure: &Failure| {
            // The others would wait for this rank for ever.
            eprintln!("rank {rank}: {failure}");
            std::process::exit(1);
        })
    })?;
    Ok(())
}

/// One rank.
struct Bench<'a> {
    device: &'a CudaDevice<'a>,
    stream: &'a Stream,
    parent: Parent,
    communicator: NcclCommunicator,
    clock: &'a Clock,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    /// Times cuSOLVERMp alone on the matrix that `stages` makes and, if asked for, the whole routine by
    /// `plan`, in turn. Gives both medians, infinite for what was not asked for.
    fn measure(&self, stages: &Plan, plan: &Plan) -> Result<[f64; 2], Failure> {
        let (system, b_plan) = parts_of(stages);
        let rank = self.communicator.rank();
        let solver = CusolverMpSolver::new(&self.communicator, self.device, stages.grid())?;

        // What the caller passes in, kept so that every repeat starts from it.
        let (a, b) = (self.matrix(system.a())?, self.right_hand_side(&stages.inputs()[1])?);
        let [a, b] = [(&a, 0), (&b, 1)].map(|(memory, input)| part(memory, &stages.inputs()[input]));

        let (a_solver, b_solver) = (memory(system.a().solver_bytes())?, memory(b_plan.solver_bytes())?);
        let matrix = distributed(system.a(), window(&a_solver));
        let rhs = distributed(b_plan, window(&b_solver));
        let info = memory(16)?;
        let words = [0, 4].map(|offset| window(&info).slice(offset, 4));
        let (routine, triangle) = (self.arguments.routine, system.triangle());
        let workspace = match routine {
            Routine::Potrs => (solver.cholesky_factor_scratch(triangle, &matrix)?)
                .max(solver.cholesky_solve_scratch(triangle, &matrix, &rhs)?),
            Routine::LuSolve => {
                solver.lu_factor_scratch(&matrix)?.max(solver.lu_solve_scratch(&matrix, &rhs)?)
            }
        };
        let workspace = Scratch::new(self.device, workspace)?;
        let column = stages.grid().coordinate(rank).col;
        let pivots = memory(pivot_bytes(matrix.cols, column))?;
        let pivots = window(&pivots).slice(0, pivot_bytes(matrix.cols, column));
        let moving = Scratch::new(self.device, system.moving_bytes())?;
        let way = Rank { device: self.device, communicator: &self.communicator, scratch: moving.buffer() };
        let alone = || {
            match routine {
                Routine::Potrs => {
                    solver.cholesky_factor(triangle, &matrix, workspace.buffer(), words[0])?;
                    solver.cholesky_solve(triangle, &matrix, &rhs, workspace.buffer(), words[1])?;
                }
                Routine::LuSolve => {
                    solver.lu_factor(&matrix, pivots, workspace.buffer(), words[0])?;
                    solver.lu_solve(&matrix, pivots, &rhs, workspace.buffer(), words[1])?;
                }
            }
            Ok(())
        };

        let whole = match self.arguments.through_plan {
            true => Some((Whole::new(plan)?, self.as_role(plan)?)),
            false => None,
        };
        CurrentContext::synchronize()?;
        let (mut alone_seconds, mut whole_seconds) = (Vec::new(), Vec::new());
        // The first repeat makes what is kept, and does not count.
        for repeat in 0..=self.arguments.repeats {
            way.forward(system.a(), a, matrix.data)?;
            way.complete(system.a(), matrix.data)?;
            way.forward(b_plan, b, rhs.data)?;
            let seconds = self.clock.time(rank, self.stream, alone)?;
            alone_seconds.extend((repeat > 0).then_some(seconds));
            self.expect_zeros("info of cuSOLVERMp alone", &info)?;
            if let Some((whole, role)) = &whole {
                copy(self.device, a, whole.operands.inputs[0])?;
                copy(self.device, b, whole.operands.inputs[1])?;
                let solver = CusolverMpSolver::new(role, self.device, plan.grid())?;
                let backend = Backend { device: self.device, communicator: role, solver: Some(&solver) };
                let operands = whole.operands.clone();
                let seconds =
                    self.clock.time(rank, self.stream, || Ok(run(plan, &backend, Ok(operands))?))?;
                whole_seconds.extend((repeat > 0).then_some(seconds));
                self.expect_zeros("status of the whole routine", whole.status())?;
            }
        }
        let mut medians = [f64::INFINITY; 2];
        if rank == 0 {
            let alone = self.print("cusolvermp-alone", stages, alone_seconds);
            medians[0] = alone.median;
            if whole.is_some() {
                let value = routine.to_possible_value().expect("no routine is hidden");
                let (name, way) = (value.get_name(), parts_of(plan).0.candidate());
                let whole = self.print(name, plan, whole_seconds);
                let ratio = whole.median / alone.median;
                println!("# {name} ({way}) / cusolvermp-alone: {ratio:.3} (medians)");
                medians[1] = whole.median;
            }
        }
        Ok(medians)
    }

    /// The same ranks in the order of the roles that the plan gives them.
    fn as_role(&self, plan: &Plan) -> Result<NcclCommunicator, Failure> {
        let place = usize::try_from(self.communicator.rank())?;
        let group = NcclGroup::split(&self.parent, self.device, 0, plan.roles()[place], plan.roles())?;
        // SAFETY: the group was split on this device, which outlives the communicator.
        Ok(unsafe { NcclCommunicator::new(group, self.device) })
    }

    /// This rank's shard of A, row-major.
    fn matrix(&self, plan: &MatrixPlan) -> Result<DeviceBuffer<u8>, Failure> {
        let [rows, cols] = plan.caller_shape();
        let at = plan.mesh_coordinate(self.communicator.rank());
        let (first_row, first_col) = (at.row * rows, at.col * cols);
        // An element depends on j − i alone, so that every row is a window of one sequence. What lies
        // past the end of the matrix is never read. None is near zero, in the factor neither, whatever the
        // order of the rows: a GPU is faster on zeros.
        let n = plan.rows().extent();
        let length = n as f64 / 10.0;
        let size = usize::try_from(plan.dtype().size())?;
        let last_row = first_row + rows.saturating_sub(1);
        let sequence: Vec<u8> = (0..rows + cols)
            .flat_map(|k| {
                let distance = last_row.abs_diff(first_col + k);
                let value = match self.arguments.routine {
                    Routine::Potrs if distance == 0 => 2.0,
                    Routine::Potrs => (-(distance as f64) / length).exp(),
                    Routine::LuSolve => arbitrary(n + first_col + k - last_row),
                };
                let bits: [u8; 16] =
                    plan.dtype().bits(value).map(u64::to_ne_bytes).concat().try_into().unwrap();
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

    /// B: ones.
    fn right_hand_side(&self, spec: &OperandSpec) -> Result<DeviceBuffer<u8>, Failure> {
        let device: &dyn meshsolve::device::Device = self.device;
        let b = memory(spec.bytes())?;
        CurrentContext::synchronize()?;
        device.fill(spec.dtype, window(&b).slice(0, spec.bytes()), spec.dtype.bits(1.0), None)?;
        Ok(b)
    }

    /// Makes sure that the library solved what was timed.
    fn expect_zeros(&self, what: &str, memory: &DeviceBuffer<u8>) -> Result<(), Failure> {
        self.stream.synchronize()?;
        let mut bytes = vec![1; memory.len()];
        memory.copy_to(&mut bytes)?;
        match bytes.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(format!("the {what} is not zero: {bytes:?}").into()),
        }
    }

    fn print(&self, routine: &str, plan: &Plan, seconds: Vec<f64>) -> Times {
        let (system, _) = parts_of(plan);
        let (times, dtype) = (Times::of(seconds), format!("{:?}", system.a().dtype()).to_lowercase());
        println!(
            "{routine},{},{},{}x{},{dtype},{:.6},{:.6}",
            system.request().n,
            system.tile(),
            system.request().grid[0],
            system.request().grid[1],
            times.median,
            times.min
        );
        times
    }
}

/// A solve's plan, and the way of its right-hand side.
fn parts_of(plan: &Plan) -> (&SystemPlan, &MatrixPlan) {
    let Plan::System(system) = plan else { unreachable!("a solve was asked for") };
    (system, system.b().expect("a solve has a right-hand side"))
}

/// A number from −1 to 1 for each k, by multiplications that mix all bits.
fn arbitrary(k: u64) -> f64 {
    let mixed = (k + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Memory for a call of the whole routine.
struct Whole {
    operands: Operands,
    memories: Vec<DeviceBuffer<u8>>,
}

impl Whole {
    fn new(plan: &Plan) -> Result<Self, Failure> {
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
        Ok(Self { operands: Operands { inputs, outputs }, memories })
    }

    /// The last output of every routine.
    fn status(&self) -> &DeviceBuffer<u8> {
        self.memories.last().expect("a plan has outputs")
    }
}

/// The part of the memory that an operand takes.
fn part(memory: &DeviceBuffer<u8>, spec: &OperandSpec) -> Buffer {
    window(memory).slice(0, spec.bytes())
}

/// The matrix in a solver's buffer.
fn distributed(plan: &MatrixPlan, data: Buffer) -> DistributedMatrix {
    DistributedMatrix {
        dtype: plan.dtype(),
        grid: plan.grid(),
        rows: plan.rows().cyclic(),
        cols: plan.cols().cyclic(),
        leading_dimension: plan.rows().capacity().max(1),
        data,
    }
}
