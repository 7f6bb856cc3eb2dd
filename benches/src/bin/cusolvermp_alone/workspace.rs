//! Device workspace that the libraries ask for, in bytes: a line for each call, type, order and tile.

use super::gpus::{memory, on_each, window};
use super::{Arguments, Failure};
use meshsolve::DType;
use meshsolve::communicator::nccl::{Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::device::Buffer;
use meshsolve::layout::{BlockCyclic, ProcessGrid};
use meshsolve::solver::cusolvermp::CusolverMpSolver;
use meshsolve::solver::{Diagonal, DistributedMatrix, Op, Product, Solver, Triangle, Triangular};

/// Asks for every size and tile, in all types.
pub fn record(arguments: &Arguments) -> Result<(), Failure> {
    let [rows, cols] = arguments.grid;
    println!("call,dtype,n,nrhs,tile,grid,rank,bytes");
    on_each(rows * cols, |rank, device, _| {
        let parent = Parent::own("workspace", rank, rows * cols, Members::ThisProcess, device)?;
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
                    let a = matrix(n, tile);
                    let form = Triangular {
                        triangle: Triangle::Lower,
                        op: Op::NoTranspose,
                        diagonal: Diagonal::NonUnit,
                    };
                    let product =
                        Product { op_a: Op::NoTranspose, op_b: Op::NoTranspose, alpha: 1.0, beta: 0.0 };
                    let print = |call: &str, nrhs: u64, bytes: u64| {
                        let dtype = dtype.name();
                        println!("{call},{dtype},{n},{nrhs},{tile},{rows}x{cols},{rank},{bytes}");
                    };
                    for (call, bytes) in [
                        ("syevd", solver.eigen_scratch(&a, Some(&a))?),
                        ("syevd-values", solver.eigen_scratch(&a, None)?),
                        ("sygst", solver.reduce_scratch(&a, &a)?),
                    ] {
                        print(call, 0, bytes);
                    }
                    for (nrhs, b) in [(1, matrix(1, 1)), (n, matrix(n, tile))] {
                        for (call, bytes) in [
                            ("potrf+potrs", solver.cholesky_scratch(Triangle::Lower, &a, &b)?),
                            ("getrf+getrs", solver.lu_scratch(&a, &b)?),
                            ("trsm", solver.triangular_scratch(form, &a, &b)?),
                            ("gemm", solver.multiply_scratch(product, &a, &b, &b)?),
                        ] {
                            print(call, nrhs, bytes);
                        }
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}
