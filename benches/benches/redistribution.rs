//! A matrix's way to the solver's layout and back on simulated ranks, a thread each.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use meshsolve::device::{CpuDevice, Device, Scratch};
use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{Dimension, MatrixPlan, Placement, View};
use meshsolve::routines::Rank;
use meshsolve::{DType, simulate};

fn redistribution(criterion: &mut Criterion) {
    let dtype = DType::F64;
    let device = CpuDevice::new();
    let device: &dyn Device = &device;
    let mut group = criterion.benchmark_group("redistribution");
    // 1024 is a multiple of grid × tile; 1000 is not, so that stage 2 has work to do.
    for (rows, cols) in [(1, 4), (2, 2), (4, 2)] {
        for n in [1024, 1000] {
            let grid = ProcessGrid::new(rows, cols);
            let order = |procs| Dimension::new(n, 64, procs, Placement::Sharded);
            let plan = MatrixPlan::new(dtype, grid, View::Plain, order(rows), order(cols));
            let [held_rows, held_cols] = plan.caller_shape();
            let of_ranks = |bytes: u64| -> Vec<Scratch<'_>> {
                let each = (0..grid.size()).map(|_| Scratch::new(device, bytes).unwrap());
                each.inspect(|s| device.fill(dtype, s.buffer(), dtype.bits(1.0), None).unwrap()).collect()
            };
            let caller = of_ranks(held_rows * held_cols * dtype.size());
            let solver = of_ranks(plan.solver_bytes());
            let on_ranks = |forward: bool| {
                simulate::on_ranks(caller.len(), |r, communicator| {
                    let device = CpuDevice::new();
                    let scratch = Scratch::new(&device, plan.scratch_bytes())?;
                    let rank = Rank { device: &device, communicator, scratch: scratch.buffer() };
                    let (caller, solver) = (caller[r].buffer(), solver[r].buffer());
                    if forward {
                        rank.forward(&plan, caller, solver)
                    } else {
                        rank.reverse(&plan, solver, caller)
                    }
                })
                .unwrap();
            };
            group.throughput(Throughput::Bytes(n * n * dtype.size()));
            for (name, forward) in [("forward", true), ("reverse", false)] {
                let case = format!("{rows}x{cols} n={n}");
                group.bench_function(BenchmarkId::new(name, case), |b| b.iter(|| on_ranks(forward)));
            }
        }
    }
    group.finish();
}

criterion_group!(benches, redistribution);
criterion_main!(benches);
