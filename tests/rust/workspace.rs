//! Estimates of workspace, held against what the libraries said, and those of plans against what routines ask
//! a solver for.

use meshsolve::device::{Buffer, Device, Operation};
use meshsolve::layout::{BlockCyclic, ProcessGrid};
use meshsolve::plan::workspace::{Sides, Square, gemm, gemm_transposed};
use meshsolve::plan::{OperandSpec, Plan, Request};
use meshsolve::routines::{Backend, Operands, run};
use meshsolve::solver::{DistributedMatrix, Eigenproblem, Op, Product, Solver, Triangle, Triangular};
use meshsolve::{DType, Error, ErrorKind, Result, simulate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `cusolvermp_alone --workspace` recorded.
const RECORD: &str = include_str!("../../benches/results/workspace.csv");

/// Bytes that getrs may ask for beyond its estimate where process columns have no right-hand side: 0.1 MB of 1 MB.
const NEGLIGIBLE: u64 = 256 << 10;

const HEADER: &str = "call,dtype,n,nrhs,width,tile,grid,bytes";

const CALLS: [&str; 13] = [
    "potrf",
    "getrf",
    "potrs",
    "getrs",
    "trsm",
    "trsm-c",
    "gemm",
    "gemm-c",
    "sygst",
    "syevd",
    "syevd-values",
    "sygvd",
    "sygvd-values",
];

fn estimate(call: &str, a: Square, sides: Sides) -> u64 {
    let Square { dtype, n, tile, grid } = a;
    match call {
        "potrf" => a.potrf(),
        "getrf" => a.getrf(),
        "potrs" => a.potrs(sides),
        "getrs" => a.getrs(sides),
        // What is transposed, or conjugated and transposed.
        "trsm" | "trsm-c" => a.trsm(),
        "gemm" | "gemm-c" => {
            let [rows, cols] = [grid.rows(), grid.cols()].map(|procs| BlockCyclic::new(n, tile, procs));
            let sides = BlockCyclic::new(sides.nrhs, sides.width, grid.cols());
            if call == "gemm" {
                gemm(dtype, rows, sides, tile)
            } else {
                gemm_transposed(dtype, rows, cols, sides)
            }
        }
        "sygst" => a.sygst(),
        "syevd" | "syevd-values" => a.syevd(call == "syevd"),
        "sygvd" | "sygvd-values" => a.sygvd(call == "sygvd"),
        _ => panic!("no call is named {call}"),
    }
}

#[test]
fn estimates_are_within_ten_percent_of_the_record() {
    let mut lines = RECORD.lines();
    assert_eq!(lines.next(), Some(HEADER));
    let (mut count, mut off) = (0, Vec::new());
    for line in lines {
        let [call, dtype, n, nrhs, width, tile, grid, bytes] =
            line.split(',').collect::<Vec<_>>().try_into().expect("eight columns");
        let number = |text: &str| text.parse::<u64>().unwrap();
        let dtype = DType::ALL.into_iter().find(|known| known.name() == dtype).unwrap();
        let (rows, cols) = grid.split_once('x').unwrap();
        let grid = ProcessGrid::new(number(rows), number(cols));
        let a = Square { dtype, n: number(n), tile: number(tile), grid };
        let sides = Sides { nrhs: number(nrhs), width: number(width) };
        let (estimate, bytes) = (estimate(call, a, sides), number(bytes));
        let error = (estimate as f64 / bytes as f64 - 1.0).abs();
        // What the formulas were found for, and what they were fitted to.
        let is_found = ["potrs", "trsm", "trsm-c", "gemm", "sygst"].contains(&call);
        let is_near = error <= if is_found { 1e-4 } else { 0.1 };
        let is_nearly_empty = call == "getrs" && sides.nrhs < grid.cols();
        if is_near || is_nearly_empty && estimate.abs_diff(bytes) <= NEGLIGIBLE {
            count += 1;
        } else {
            off.push(format!("{line}: {:.2} %", 100.0 * error));
        }
    }
    assert!(off.is_empty(), "{} lines, among them {:#?}", off.len(), &off[..off.len().min(10)]);
    assert!(count > 7000, "{count} lines only");
}

#[test]
fn estimates_are_positive_and_grow_with_the_order() {
    // The last ones are the largest that a plan takes.
    let orders = [1, 2, 7, 100, 511, 512, 513, 1000, 4096, 4097, 8191, 30_001, 1_500_000, 1 << 28];
    let grids =
        [[1, 1], [1, 3], [3, 1], [2, 2], [5, 1], [2, 3], [3, 3], [1, 8], [7, 9], [64, 64], [1, 1 << 16]];
    for dtype in DType::ALL {
        for grid in grids.map(|[rows, cols]| ProcessGrid::new(rows, cols)) {
            for tile in [1, 32, 129, 256, 1000, 2048, 1 << 28] {
                // No wider than those that are solved for at a time.
                let width = tile.min(512);
                let sides = Sides { nrhs: width * grid.cols(), width };
                for call in CALLS {
                    let of = orders.map(|n| estimate(call, Square { dtype, n, tile, grid }, sides));
                    let what = format!("{call}, {dtype:?}, {grid:?}, tile {tile}: {of:?}");
                    assert!(of[0] > 0 && of.is_sorted(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_batch_is_a_tile_for_each_process_column() {
    let batch = |extent, tile, procs| {
        let Sides { nrhs, width } = Sides::first_batch(BlockCyclic::new(extent, tile, procs));
        [nrhs, width]
    };
    assert_eq!(batch(5000, 1024, 4), [2048, 512]);
    assert_eq!(batch(5000, 256, 4), [1024, 256]);
    assert_eq!(batch(5000, 256, 1), [256, 256]);
    assert_eq!(batch(600, 256, 4), [600, 256]);
    assert_eq!(batch(3, 256, 4), [3, 3]);
}

/// A solver that only says how much workspace it would need, by the formulas.
struct Formulas;

/// What a call takes for a square matrix; where it is empty, none is made.
fn factoring(a: &DistributedMatrix, bytes: impl FnOnce(Square) -> u64) -> Result<u64> {
    let Square { n, tile, .. } = square(a);
    assert_eq!((a.cols.extent(), a.cols.tile()), (n, tile));
    Ok(if n == 0 { 0 } else { bytes(square(a)) })
}

/// What a call takes for a square matrix and right-hand sides; where there are none, none is made.
fn solving(
    a: &DistributedMatrix,
    b: &DistributedMatrix,
    bytes: impl FnOnce(Square, Sides) -> u64,
) -> Result<u64> {
    let (nrhs, width) = (b.cols.extent(), b.cols.tile());
    factoring(a, |a| if nrhs == 0 { 0 } else { bytes(a, Sides { nrhs, width: width.min(nrhs) }) })
}

fn square(a: &DistributedMatrix) -> Square {
    Square { dtype: a.dtype, n: a.rows.extent(), tile: a.rows.tile(), grid: a.grid }
}

impl Solver for Formulas {
    fn cholesky_factor_scratch(&self, _: Triangle, a: &DistributedMatrix) -> Result<u64> {
        factoring(a, |a| a.potrf())
    }

    fn cholesky_solve_scratch(
        &self,
        _: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        solving(a, b, |a, sides| a.potrs(sides))
    }

    fn lu_factor_scratch(&self, a: &DistributedMatrix) -> Result<u64> {
        factoring(a, |a| a.getrf())
    }

    fn lu_solve_scratch(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<u64> {
        solving(a, b, |a, sides| a.getrs(sides))
    }

    fn triangular_scratch(&self, _: Triangular, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<u64> {
        solving(a, b, |a, _| a.trsm())
    }

    fn eigen_scratch(&self, Eigenproblem { a, metric, vectors }: Eigenproblem<'_>) -> Result<u64> {
        let vectors = vectors.is_some();
        factoring(a, |a| if metric.is_some() { a.sygvd(vectors) } else { a.syevd(vectors) })
    }

    fn multiply_scratch(
        &self,
        product: Product,
        a: &DistributedMatrix,
        _: &DistributedMatrix,
        c: &DistributedMatrix,
    ) -> Result<u64> {
        let empty = c.rows.extent() * c.cols.extent() == 0;
        Ok(match product.op_a {
            _ if empty => 0,
            Op::NoTranspose => gemm(c.dtype, c.rows, c.cols, a.cols.tile()),
            Op::Transpose | Op::ConjugateTranspose => gemm_transposed(c.dtype, a.rows, a.cols, c.cols),
        })
    }

    fn cholesky_factor(&self, _: Triangle, _: &DistributedMatrix, _: Buffer, _: Buffer) -> Result<()> {
        unreachable!()
    }

    fn cholesky_solve(
        &self,
        _: Triangle,
        _: &DistributedMatrix,
        _: &DistributedMatrix,
        _: Buffer,
        _: Buffer,
    ) -> Result<()> {
        unreachable!()
    }

    fn lu_factor(&self, _: &DistributedMatrix, _: Buffer, _: Buffer, _: Buffer) -> Result<()> {
        unreachable!()
    }

    fn lu_solve(
        &self,
        _: &DistributedMatrix,
        _: Buffer,
        _: &DistributedMatrix,
        _: Buffer,
        _: Buffer,
    ) -> Result<()> {
        unreachable!()
    }

    fn triangular_solve(
        &self,
        _: Triangular,
        _: &DistributedMatrix,
        _: &DistributedMatrix,
        _: Buffer,
    ) -> Result<()> {
        unreachable!()
    }

    fn eigen(&self, _: Eigenproblem<'_>, _: Buffer, _: Buffer, _: Buffer) -> Result<()> {
        unreachable!()
    }

    fn multiply(
        &self,
        _: Product,
        _: &DistributedMatrix,
        _: &DistributedMatrix,
        _: &DistributedMatrix,
        _: Buffer,
    ) -> Result<()> {
        unreachable!()
    }
}

/// A device that notes how much scratch it is asked for, and has none.
#[derive(Default)]
struct Full {
    asked: AtomicU64,
}

impl Device for Full {
    unsafe fn launch(&self, _: &Operation) -> Result<()> {
        unreachable!()
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer> {
        self.asked.fetch_max(bytes, Ordering::Relaxed);
        Err(Error::resource_exhausted("as was to be expected"))
    }

    fn release(&self, _: Buffer) {}

    fn table(&self, _: &Arc<[u32]>) -> Result<Buffer> {
        unreachable!()
    }
}

/// The most scratch that a rank asks its device for when the plan is run.
fn asked(plan: &Plan) -> u64 {
    let device = Full::default();
    let windows = |specs: &[OperandSpec]| -> Vec<Buffer> {
        // SAFETY: nothing gets as far as to touch memory, and none is there.
        specs.iter().map(|spec| unsafe { Buffer::from_raw(4096 as *mut u8, spec.bytes()) }).collect()
    };
    let ended = simulate::on_ranks(usize::try_from(plan.ranks()).unwrap(), |_, communicator| {
        let backend = Backend { device: &device, communicator, solver: Some(&Formulas) };
        let operands = Operands { inputs: windows(plan.inputs()), outputs: windows(plan.outputs()) };
        run(plan, &backend, Ok(operands))
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ResourceExhausted);
    device.asked.into_inner()
}

#[test]
fn plans_estimate_what_their_routines_ask_for() {
    let system = |rest: &str| format!(r#""routine":"system",{rest}"#);
    let eigen = |rest: &str| format!(r#""routine":"eigen","triangle":null,{rest}"#);
    let square = [
        system(r#""method":"cholesky","triangle":null,"task":"solve""#),
        system(r#""method":"cholesky","triangle":null,"task":"prepare""#),
        system(r#""method":"cholesky","triangle":null,"task":"apply""#),
        system(r#""method":"cholesky","triangle":null,"task":"determinant","log_det":true"#),
        system(r#""method":"cholesky","triangle":null,"task":"invert""#),
        system(r#""method":"cholesky","triangle":"lower","task":"factor""#),
        system(r#""method":"lu","triangle":null,"task":"solve""#),
        system(r#""method":"lu","triangle":null,"task":"prepare""#),
        system(r#""method":"lu","triangle":null,"task":"apply""#),
        system(r#""method":"lu","triangle":null,"task":"apply","op":"transpose""#),
        system(r#""method":"lu","triangle":null,"task":"determinant","log_det":true"#),
        system(r#""method":"lu","triangle":null,"task":"invert""#),
        system(r#""method":"triangular","triangle":"upper","task":"solve""#),
        eigen(r#""task":"values""#),
        eigen(r#""task":"values","metric":true"#),
        eigen(r#""task":"vectors""#),
        eigen(r#""task":"vectors","metric":true"#),
        eigen(r#""task":"solve""#),
    ];
    let with_sides = |what: &str| what.contains(r#""solve""#) || what.contains(r#""apply""#);
    let mut requests = Vec::new();
    for grid in ["[1,1]", "[1,2]", "[2,1]", "[2,2]", "[3,2]"] {
        // Sides that are few, that come in batches of a tile and of less; shards of whole tiles and not.
        for (n, tile, nrhs) in [(24, 4, 1), (30, 7, 40), (6144, 1024, 9000), (0, 5, 3)] {
            for what in &square {
                let sides = if with_sides(what) {
                    format!(r#","nrhs":{nrhs},"b":{{"rows":"sharded","cols":"replicated"}}"#)
                } else {
                    String::new()
                };
                requests
                    .push(format!(r#"{{{what},"dtype":"c64","n":{n},"grid":{grid},"tile":{tile}{sides}}}"#));
            }
            // A product that is empty asks for nothing and ends well.
            if n > 0 {
                requests.push(format!(
                    r#"{{"routine":"product","dtype":"f64","m":{n},"n":{nrhs},"k":50,"grid":{grid},"tile":{tile}}}"#
                ));
            }
        }
    }
    let mut count = 0;
    for request in &requests {
        for plan in Plan::candidates(&Request::from_json(request).unwrap()) {
            let (scratch, workspace) = match &plan {
                Plan::System(plan) => (plan.scratch_bytes(), plan.workspace_bytes()),
                Plan::Eigen(plan) => (plan.scratch_bytes(), plan.workspace_bytes()),
                Plan::Product(plan) => (plan.scratch_bytes(), plan.workspace_bytes()),
                Plan::Redistribute(_) => unreachable!(),
            };
            assert_eq!(asked(&plan), scratch + workspace.next_multiple_of(16), "{request}");
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}
