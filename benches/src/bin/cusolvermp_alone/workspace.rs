//! Device workspace that the libraries ask for, in bytes: a line for each call, type, order and tile.
//!
//! Every rank is a process of its own on the first GPU, so that one GPU is enough for any grid: NCCL lets
//! processes share a GPU if each claims to be a machine of its own. They only ask; nothing is computed.

use super::gpus::{memory, on_each, window};
use super::{Arguments, Failure};
use meshsolve::DType;
use meshsolve::communicator::nccl::{
    Members, NcclCommunicator, NcclGroup, Parent, new_unique_id, register_unique_id,
};
use meshsolve::device::Buffer;
use meshsolve::layout::{BlockCyclic, ProcessGrid};
use meshsolve::solver::cusolvermp::CusolverMpSolver;
use meshsolve::solver::{
    Diagonal, DistributedMatrix, Eigenproblem, Op, Product, Solver, Triangle, Triangular,
};
use std::env;
use std::process::{Command, Stdio};

/// Tell a process its rank and the communicator's unique id.
const RANK: &str = "MESHSOLVE_WORKSPACE_RANK";
const ID: &str = "MESHSOLVE_WORKSPACE_ID";
/// The name of the communicator.
const KEY: &str = "workspace";

/// Asks for every size and tile, in all types, and prints what the rank that needs most needs.
pub fn record(arguments: &Arguments) -> Result<(), Failure> {
    match env::var(RANK) {
        Ok(rank) => ask(arguments, rank.parse()?),
        Err(_) => ask_on_all_ranks(arguments),
    }
}

fn ask_on_all_ranks(arguments: &Arguments) -> Result<(), Failure> {
    let id: Vec<String> = new_unique_id()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let ranks = arguments.grid[0] * arguments.grid[1];
    let children = (0..ranks).map(|rank| {
        Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .env(RANK, rank.to_string())
            .env(ID, id.concat())
            .env("NCCL_HOSTID", format!("rank-{rank}"))
            .stdout(Stdio::piped())
            .spawn()
    });
    let children = children.collect::<Result<Vec<_>, _>>()?;
    let mut largest: Vec<(String, u64)> = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("a rank ended with {}", output.status).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let lines = text.lines().map(|line| {
            let (what, bytes) = line.rsplit_once(',').ok_or("a line without a number")?;
            Ok::<_, Failure>((what.to_owned(), bytes.parse()?))
        });
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        largest = if largest.is_empty() {
            lines
        } else {
            largest.into_iter().zip(lines).map(|((what, one), (_, other))| (what, one.max(other))).collect()
        };
    }
    println!("call,dtype,n,nrhs,width,tile,grid,bytes");
    for (what, bytes) in largest {
        println!("{what},{bytes}");
    }
    Ok(())
}

/// One rank's part, in a process of its own.
fn ask(arguments: &Arguments, rank: u64) -> Result<(), Failure> {
    let [rows, cols] = arguments.grid;
    let text = env::var(ID)?;
    let digits = |at| u8::from_str_radix(text.get(2 * at..2 * at + 2).unwrap_or_default(), 16);
    let id = (0..text.len() / 2).map(digits).collect::<Result<Vec<u8>, _>>()?;
    register_unique_id(KEY, id.try_into().map_err(|_| "a unique id of another length")?);
    on_each(1, |_, device, _| {
        let parent = Parent::own(KEY, rank, rows * cols, Members::SeveralProcesses, device)?;
        let group = NcclGroup::split(&parent, device, 0, rank, &[])?;
        // SAFETY: the group was split on this device, which outlives the communicator.
        let communicator = unsafe { NcclCommunicator::new(group, device) };
        let grid = ProcessGrid::new(rows, cols);
        let solver = CusolverMpSolver::new(&communicator, device, grid)?;
        let some = memory(1)?;
        for dtype in DType::ALL {
            for &n in &arguments.sizes {
                for &tile in &arguments.tiles {
                    let matrix = |columns: u64, width: u64| {
                        let [rows, cols] =
                            [BlockCyclic::new(n, tile, rows), BlockCyclic::new(columns, width, cols)];
                        let at = grid.coordinate(rank);
                        let leading_dimension = rows.count(at.row).max(1);
                        let bytes = leading_dimension * cols.count(at.col) * dtype.size();
                        let address = window(&some).address() as *mut u8;
                        // SAFETY: only address and length are looked at; no call runs on it.
                        let data = unsafe { Buffer::from_raw(address, bytes) };
                        DistributedMatrix { dtype, grid, rows, cols, leading_dimension, data }
                    };
                    let say = |call: &str, [nrhs, width]: [u64; 2], bytes: u64| {
                        let dtype = dtype.name();
                        println!("{call},{dtype},{n},{nrhs},{width},{tile},{rows}x{cols},{bytes}");
                    };
                    let (a, triangle) = (matrix(n, tile), Triangle::Lower);
                    say("potrf", [0; 2], solver.cholesky_factor_scratch(triangle, &a)?);
                    say("getrf", [0; 2], solver.lu_factor_scratch(&a)?);
                    for (call, metric, vectors) in [
                        ("syevd-values", None, None),
                        ("syevd", None, Some(&a)),
                        ("sygvd-values", Some(&a), None),
                        ("sygvd", Some(&a), Some(&a)),
                    ] {
                        let problem = Eigenproblem { a: &a, metric, vectors };
                        say(call, [0; 2], solver.eigen_scratch(problem)?);
                    }
                    // One right-hand side, and those of one tile for each process column.
                    let widths = [1, 16, tile.min(1024), tile];
                    let mut all_sides = vec![[1, 1]];
                    all_sides.extend(widths.map(|width| [width * cols, width]));
                    all_sides.dedup();
                    for sides in all_sides {
                        let b = matrix(sides[0], sides[1]);
                        say("potrs", sides, solver.cholesky_solve_scratch(triangle, &a, &b)?);
                        say("getrs", sides, solver.lu_solve_scratch(&a, &b)?);
                        for (op, trsm, gemm) in
                            [(Op::NoTranspose, "trsm", "gemm"), (Op::ConjugateTranspose, "trsm-c", "gemm-c")]
                        {
                            let form = Triangular { triangle, op, diagonal: Diagonal::NonUnit };
                            let product = Product { op_a: op, op_b: Op::NoTranspose, alpha: 1.0, beta: 0.0 };
                            say(trsm, sides, solver.triangular_scratch(form, &a, &b)?);
                            say(gemm, sides, solver.multiply_scratch(product, &a, &b, &b)?);
                        }
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}
