//! cuSOLVERMp and cuBLASMp on one GPU, and on two where there are two, by the same checks as the development
//! solver.

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
use meshsolve_tests::gpus::{self, on_gpus, window};
use meshsolve_tests::solvers::{
    Deal, OPERANDS, Rank, RankMemory, Ranks, check_cholesky, check_eigen, check_lu, check_metric,
    check_multiply, check_singular_lu, check_triangular, hermitian_matrices,
};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The first GPUs.
struct Gpus;

impl Ranks for Gpus {
    fn each<R: Send>(&self, grid: [usize; 2], body: impl Fn(&Rank<'_>) -> R + Sync) -> Vec<R> {
        on_gpus(grid[0] * grid[1], |communicator, device, stream| {
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

#[test]
#[ignore = "needs a GPU and NVIDIA's libraries: run it there with --include-ignored --test-threads=1"]
fn cholesky() {
    on_all_grids(|checks, grid, dtype| {
        for (n, nrhs, tile) in SYSTEMS {
            let deal = Deal { grid, tile, dtype };
            let (a, b) = (Dense::definite(n, dtype), Dense::arbitrary(n, nrhs, dtype, 2));
            for triangle in [Triangle::Lower, Triangle::Upper] {
                checks
                    .run(&format!("potrf + potrs {triangle:?} n {n} nrhs {nrhs} {grid:?} {dtype:?}"), || {
                        check_cholesky(&Gpus, deal, triangle, &a, &b)
                    });
            }
        }
    });
}

#[test]
#[ignore = "needs a GPU and NVIDIA's libraries: run it there with --include-ignored --test-threads=1"]
fn lu() {
    on_all_grids(|checks, grid, dtype| {
        for (n, nrhs, tile) in SYSTEMS {
            let deal = Deal { grid, tile, dtype };
            let (a, b) = (Dense::arbitrary(n, n, dtype, 1), Dense::arbitrary(n, nrhs, dtype, 2));
            checks.run(&format!("getrf + getrs n {n} nrhs {nrhs} {grid:?} {dtype:?}"), || {
                check_lu(&Gpus, deal, &a, &b, LARGEST_MULTIPLIER)
            });
        }
        for column in [0, 63, 64, 199] {
            checks.run(&format!("getrf with a column {column} of zeros {grid:?} {dtype:?}"), || {
                check_singular(grid, dtype, column)
            });
        }
    });
}

#[test]
#[ignore = "needs a GPU and NVIDIA's libraries: run it there with --include-ignored --test-threads=1"]
fn triangular_solves() {
    on_all_grids(|checks, grid, dtype| {
        for (n, nrhs, tile) in TRIANGULAR {
            let deal = Deal { grid, tile, dtype };
            checks.run(&format!("trsm n {n} nrhs {nrhs} {grid:?} {dtype:?}"), || {
                check_triangular(&Gpus, deal, n, nrhs)
            });
        }
    });
}

#[test]
#[ignore = "needs a GPU and NVIDIA's libraries: run it there with --include-ignored --test-threads=1"]
fn products() {
    on_all_grids(|checks, grid, dtype| {
        for (size, tiles) in PRODUCTS {
            for ops in OPERANDS {
                checks.run(&format!("gemm {ops:?} {size:?} {grid:?} {dtype:?}"), || {
                    check_multiply(&Gpus, grid, dtype, ops, size, tiles)
                });
            }
        }
    });
}

#[test]
#[ignore = "needs a GPU and NVIDIA's libraries: run it there with --include-ignored --test-threads=1"]
fn eigenproblems() {
    on_all_grids(|checks, grid, dtype| {
        let mut check = |kind: &str, n: usize, tile: usize, a: &Dense, known: Option<&[f64]>| {
            checks.run(&format!("syevd {kind} n {n} tile {tile} {grid:?} {dtype:?}"), || {
                check_eigen(&Gpus, Deal { grid, tile: [tile; 2], dtype }, a, known)
            });
        };
        for (kind, a, known) in hermitian_matrices(150, dtype) {
            check(kind, 150, 32, &a, known.as_deref());
        }
        for (n, tile) in EIGENPROBLEMS {
            check("arbitrary", n, tile, &Dense::hermitian(n, dtype, 3), None);
        }
        for (n, tile) in (0..5).flat_map(|n| [1, 2, 64].map(|tile| (n, tile))) {
            for (kind, a, known) in hermitian_matrices(n, dtype) {
                check(kind, n, tile, &a, known.as_deref());
            }
        }
    });
}

#[test]
#[ignore = "needs a GPU and NVIDIA's libraries: run it there with --include-ignored --test-threads=1"]
fn eigenproblems_with_a_metric() {
    on_all_grids(|checks, grid, dtype| {
        let tiny = (0..5).flat_map(|n| [1, 2, 64].map(|tile| (n, tile)));
        for (n, tile) in EIGENPROBLEMS.into_iter().chain(tiny) {
            checks.run(&format!("sygvd n {n} tile {tile} {grid:?} {dtype:?}"), || {
                check_metric(&Gpus, Deal { grid, tile: [tile; 2], dtype }, n)
            });
        }
    });
}

/// How many checks failed.
#[derive(Default)]
struct Checks {
    failures: usize,
}

impl Checks {
    /// Goes on after a check that failed, so that one run says all that is wrong; the name comes first,
    /// for a check that brings the process down.
    fn run(&mut self, name: &str, check: impl FnOnce() -> f64) {
        eprint!("{name}: ");
        let start = Instant::now();
        match catch_unwind(AssertUnwindSafe(check)) {
            Ok(worst) => eprintln!("at most {worst:.2} ε in {:?}", start.elapsed()),
            Err(_) => {
                eprintln!("FAILED: {name}");
                self.failures += 1;
            }
        }
    }
}

/// Runs the checks for all types and all grids of one and two GPUs, as far as this machine has them; then once
/// more, which must make nothing new.
fn on_all_grids(checks_of: impl Fn(&mut Checks, [usize; 2], DType)) {
    let mut checks = Checks::default();
    let gpus = gpus::count();
    if gpus < 2 {
        eprintln!("skipped: 1 × 2 and 2 × 1, for this machine has {gpus} GPU");
    }
    let mut everything = || {
        for grid in [[1, 1], [1, 2], [2, 1]].into_iter().filter(|[rows, cols]| rows * cols <= gpus.max(1)) {
            for dtype in DType::ALL {
                checks_of(&mut checks, grid, dtype);
            }
        }
        (nccl::counters(), cusolvermp::counters())
    };
    let before = everything();
    assert_eq!(everything(), before, "nothing is made a second time");
    eprintln!("{before:?}\n{:?}", meshsolve::libraries::loaded());
    assert_eq!(checks.failures, 0, "their messages stand above");
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

/// Order and tile: around the tile, a tile above the order, ragged ends, and tiles that are no powers of two,
/// with which the library's documentation says its divide and conquer may fail.
const EIGENPROBLEMS: [(usize, usize); 9] =
    [(300, 64), (257, 128), (64, 64), (65, 64), (40, 64), (20, 8), (39, 10), (40, 7), (300, 96)];

/// Rows, columns and terms, and the tiles of each.
const PRODUCTS: [([usize; 3], [usize; 3]); 5] = [
    ([200, 100, 150], [64, 32, 48]),
    ([64, 130, 7], [64, 64, 64]),
    ([30, 1, 300], [16, 16, 16]),
    ([20, 30, 0], [16, 16, 16]),
    ([0, 5, 3], [4, 4, 4]),
];

/// cuSOLVERMp 0.9.1 does not always take the largest element of a column that several process rows hold.
const LARGEST_MULTIPLIER: f64 = 10.0;

/// A column of zeros stays one in floating point, too.
fn check_singular(grid: [usize; 2], dtype: DType, column: usize) -> f64 {
    let mut a = Dense::arbitrary(200, 200, dtype, 4);
    (0..200).for_each(|i| a.set(i, column, (0.0, 0.0)));
    check_singular_lu(&Gpus, Deal { grid, tile: [64, 64], dtype }, &a, column);
    0.0
}
