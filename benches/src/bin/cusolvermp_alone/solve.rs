//! A solve with one right-hand side: cuSOLVERMp alone, and the whole routine. By Cholesky factors the matrix is
//! exp(−10·|i−j|/n) + I, by LU factors one of arbitrary numbers that depend on i − j.

use super::bench::{self, ALONE, Bench, Contestant, Whole, arbitrary, definite, distributed, part};
use super::gpus::{memory, window};
use super::{Arguments, Failure, Routine};
use cust::context::CurrentContext;
use cust::memory::DeviceBuffer;
use meshsolve::communicator::Communicator;
use meshsolve::device::{Device, Scratch};
use meshsolve::plan::{MatrixPlan, OperandSpec, Plan, SystemPlan};
use meshsolve::routines::Rank;
use meshsolve::solver::cusolvermp::CusolverMpSolver;
use meshsolve::solver::{Solver, pivot_bytes};

/// Measures every size with every tile and prints a line for each.
pub fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let method = match arguments.routine {
        Routine::LuSolve => "lu",
        _ => "cholesky",
    };
    let request = format!(r#""routine":"system","method":"{method}","task":"solve","nrhs":1"#);
    bench::measure_each(arguments, |bench, n, tile| {
        // Alone, the library is called on A itself, not on a permuted one.
        let stages = bench.plan(&request, n, tile, "stages")?;
        // On another grid A always has memory of its own.
        let grid = if arguments.near_square { r#","near_square":true,"keep_a":true"# } else { "" };
        let plan = bench.plan(&format!("{request}{grid}"), n, tile, &arguments.layout)?;
        measure_one(bench, n, tile, &stages, &plan)
    })
}

/// Times cuSOLVERMp alone on the matrix that `stages` makes and, if asked for, the whole routine by `plan`, in
/// turn. Gives the medians.
fn measure_one(
    bench: &Bench<'_>,
    n: u64,
    tile: u64,
    stages: &Plan,
    plan: &Plan,
) -> Result<Vec<(&'static str, f64)>, Failure> {
    let (system, b_plan) = parts_of(stages);
    let (device, rank) = (bench.device, bench.communicator.rank());
    let solver = CusolverMpSolver::new(&bench.communicator, device, stages.grid())?;
    let is_lu = bench.arguments().routine == Routine::LuSolve;

    // What the caller passes in, kept so that every repeat starts from it.
    let a = match is_lu {
        true => bench.shard(system.a(), |d| arbitrary((n.cast_signed() + d).cast_unsigned()))?,
        false => bench.shard(system.a(), definite(n))?,
    };
    let b = right_hand_side(bench, &stages.inputs()[1])?;
    let [a, b] = [(&a, 0), (&b, 1)].map(|(memory, input)| part(memory, &stages.inputs()[input]));

    let (a_solver, b_solver) = (memory(system.a().solver_bytes())?, memory(b_plan.solver_bytes())?);
    let matrix = distributed(system.a(), window(&a_solver));
    let rhs = distributed(b_plan, window(&b_solver));
    let info = memory(16)?;
    let words = [0, 4].map(|offset| window(&info).slice(offset, 4));
    let triangle = system.triangle();
    let workspace = match is_lu {
        true => solver.lu_factor_scratch(&matrix)?.max(solver.lu_solve_scratch(&matrix, &rhs)?),
        false => (solver.cholesky_factor_scratch(triangle, &matrix)?)
            .max(solver.cholesky_solve_scratch(triangle, &matrix, &rhs)?),
    };
    let workspace = Scratch::new(device, workspace)?;
    let column = stages.grid().coordinate(rank).col;
    let pivots = memory(pivot_bytes(matrix.cols, column))?;
    let pivots = window(&pivots).slice(0, pivot_bytes(matrix.cols, column));
    let moving = Scratch::new(device, system.moving_bytes())?;
    let alone = || {
        if is_lu {
            solver.lu_factor(&matrix, pivots, workspace.buffer(), words[0])?;
            solver.lu_solve(&matrix, pivots, &rhs, workspace.buffer(), words[1])?;
        } else {
            solver.cholesky_factor(triangle, &matrix, workspace.buffer(), words[0])?;
            solver.cholesky_solve(triangle, &matrix, &rhs, workspace.buffer(), words[1])?;
        }
        Ok(())
    };
    let prepare_and_compute = || {
        bench.bring(system.a(), a, matrix.data, moving.buffer())?;
        let way = Rank { device, communicator: &bench.communicator, scratch: moving.buffer() };
        way.forward(b_plan, b, rhs.data)?;
        let seconds = bench.time(alone)?;
        bench.expect_zeros("info of cuSOLVERMp alone", &info)?;
        Ok(seconds)
    };
    let mut contestants =
        vec![Contestant { name: ALONE, note: String::new(), compute: Box::new(prepare_and_compute) }];
    if bench.arguments().through_plan {
        let whole = Whole::new(bench, plan)?;
        contestants.push(Contestant {
            name: if is_lu { "lu_solve" } else { "potrs" },
            note: parts_of(plan).0.candidate().to_string(),
            compute: Box::new(move || whole.time(&[a, b])),
        });
    }
    bench.compare(n, tile, &contestants)
}

/// B: ones.
fn right_hand_side(bench: &Bench<'_>, spec: &OperandSpec) -> Result<DeviceBuffer<u8>, Failure> {
    let device: &dyn Device = bench.device;
    let b = memory(spec.bytes())?;
    CurrentContext::synchronize()?;
    device.fill(spec.dtype, part(&b, spec), spec.dtype.bits(1.0), None)?;
    Ok(b)
}

/// A solve's plan, and the way of its right-hand side.
fn parts_of(plan: &Plan) -> (&SystemPlan, &MatrixPlan) {
    let Plan::System(system) = plan else { unreachable!("a solve was asked for") };
    (system, system.b().expect("a solve has a right-hand side"))
}
