//! cuSOLVERMp and cuBLASMp on two GPUs, by the same checks as the development solver.

use cust::context::CurrentContext;
use cust::memory::{CopyDestination, DeviceBuffer, DevicePointer, DeviceSlice};
use cust::stream::Stream;
use meshsolve::DType;
use meshsolve::communicator::{Communicator, nccl};
use meshsolve::device::Buffer;
use meshsolve::layout::ProcessGrid;
use meshsolve::solver::Triangle;
use meshsolve::solver::cusolvermp::{self, CusolverMpSolver};
use meshsolve_tests::dense::Dense;
use meshsolve_tests::gpus::{on_two_gpus, window};
use meshsolve_tests::solvers::{
    Deal, Rank, RankMemory, Ranks, check_cholesky, check_lu, check_multiply, check_triangular,
};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The first two GPUs.
struct Gpus;

impl Ranks for Gpus {
    fn each<R: Send>(&self, grid: [usize; 2], body: impl Fn(&Rank<'_>) -> R + Sync) -> Vec<R> {
        on_two_gpus(|communicator, device, stream| {
            let grid = ProcessGrid::new(grid[0] as u64, grid[1] as u64);
            let solver = CusolverMpSolver::new(communicator, device, grid).unwrap();
            let memory = GpuMemory { stream, blocks: RefCell::default() };
            let number = usize::try_from(communicator.rank()).unwrap();
            body(&Rank { number, solver: &solver, memory: &memory })
        })
    }
}

struct GpuMemory<'a> {
    stream: &'a Stream,
    blocks: RefCell<Vec<DeviceBuffer<u8>>>,
}

impl RankMemory for GpuMemory<'_> {
    fn upload(&self, bytes: &[u8]) -> Buffer {
        if bytes.is_empty() {
            return Buffer::EMPTY;
        }
        let block = DeviceBuffer::from_slice(bytes).unwrap();
        // An upload from ordinary memory may end after the call that began it.
        CurrentContext::synchronize().unwrap();
        let buffer = window(&block);
        self.blocks.borrow_mut().push(block);
        buffer
    }

    fn download(&self, buffer: Buffer) -> Vec<u8> {
        self.stream.synchronize().unwrap();
        let mut bytes = vec![0; usize::try_from(buffer.bytes()).unwrap()];
        if !bytes.is_empty() {
            // SAFETY: a block of this memory, which nothing writes to after the stream was waited for.
            let block = unsafe {
                DeviceSlice::from_raw_parts(DevicePointer::<u8>::from_raw(buffer.address()), bytes.len())
            };
            block.copy_to(&mut bytes).unwrap();
        }
        bytes
    }
}

/// One test: NCCL calls of several tests must not interleave on the same devices.
#[test]
#[ignore = "needs two GPUs and NVIDIA's libraries: run it there with --include-ignored"]
fn two_gpus() {
    let mut failures = everything();
    let before = (nccl::counters(), cusolvermp::counters());
    failures += everything();
    eprintln!("{before:?}\n{:?}", meshsolve::libraries::loaded());
    assert_eq!((nccl::counters(), cusolvermp::counters()), before, "nothing is made a second time");
    assert_eq!(failures, 0, "their messages stand above");
}

/// Runs every check, so that one run says all that is wrong; gives the number of those that failed.
fn everything() -> usize {
    let mut failures = 0;
    for grid in [[1, 2], [2, 1]] {
        for dtype in DType::ALL {
            let mut run = |name: &str, check: &dyn Fn() -> f64| {
                let start = Instant::now();
                match catch_unwind(AssertUnwindSafe(check)) {
                    Ok(worst) => {
                        eprintln!("{name} {grid:?} {dtype:?}: at most {worst:.2} ε in {:?}", start.elapsed());
                    }
                    Err(_) => {
                        eprintln!("{name} {grid:?} {dtype:?}: FAILED");
                        failures += 1;
                    }
                }
            };
            for (n, nrhs, tile) in SYSTEMS {
                let deal = Deal { grid, tile, dtype };
                let (a, b) = (Dense::definite(n, dtype), Dense::arbitrary(n, nrhs, dtype, 2));
                for triangle in [Triangle::Lower, Triangle::Upper] {
                    run(&format!("potrf + potrs {triangle:?} n {n} nrhs {nrhs}"), &|| {
                        check_cholesky(&Gpus, deal, triangle, &a, &b)
                    });
                }
            }
            for (n, nrhs, tile) in SYSTEMS {
                let deal = Deal { grid, tile, dtype };
                let (a, b) = (Dense::arbitrary(n, n, dtype, 1), Dense::arbitrary(n, nrhs, dtype, 2));
                run(&format!("getrf + getrs n {n} nrhs {nrhs}"), &|| check_lu(&Gpus, deal, &a, &b, 0));
            }
            run("getrf of singular matrices", &|| singular(grid, dtype));
            for (n, nrhs, tile) in TRIANGULAR {
                let deal = Deal { grid, tile, dtype };
                run(&format!("trsm n {n} nrhs {nrhs}"), &|| check_triangular(&Gpus, deal, n, nrhs));
            }
            for (size, tiles) in PRODUCTS {
                run(&format!("gemm {size:?}"), &|| check_multiply(&Gpus, grid, dtype, size, tiles));
            }
        }
    }
    failures
}

/// Order, right-hand sides and tile: around the tile, a tile above the order, ragged ends on both ranks.
const SYSTEMS: [(usize, usize, [usize; 2]); 7] = [
    (300, 1, [64, 64]),
    (300, 3, [64, 2]),
    (500, 5, [96, 96]),
    (256, 2, [128, 1]),
    (40, 2, [64, 64]),
    (65, 0, [64, 64]),
    (1, 1, [4, 4]),
];

const TRIANGULAR: [(usize, usize, [usize; 2]); 4] =
    [(300, 3, [64, 2]), (257, 1, [128, 128]), (40, 2, [64, 64]), (70, 0, [64, 64])];

/// Rows, columns and terms, and the tiles of each.
const PRODUCTS: [([usize; 3], [usize; 3]); 5] = [
    ([200, 100, 150], [64, 32, 48]),
    ([64, 130, 7], [64, 64, 64]),
    ([30, 1, 300], [16, 16, 16]),
    ([20, 30, 0], [16, 16, 16]),
    ([0, 5, 3], [4, 4, 4]),
];

/// A column of zeros stays one in floating point, too.
fn singular(grid: [usize; 2], dtype: DType) -> f64 {
    for column in [0, 63, 64, 199] {
        let mut a = Dense::arbitrary(200, 200, dtype, 4);
        (0..200).for_each(|i| a.set(i, column, (0.0, 0.0)));
        let deal = Deal { grid, tile: [64, 64], dtype };
        check_lu(&Gpus, deal, &a, &Dense::arbitrary(200, 1, dtype, 5), column as i32 + 1);
    }
    0.0
}
