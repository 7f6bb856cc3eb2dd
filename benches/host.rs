//! What runs without a GPU: planning, and the host loops of the conversions.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use meshsolve::DType;
use meshsolve::device::{CpuDevice, Device, IndexMap, MatrixView, Scratch};
use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{Dimension, MatrixPlan, Placement, View};

fn planning(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    for (procs, n, tile) in
        [(2, 65_536, 512), (8, 1_500_000, 512), (32, 1_500_000, 512), (64, 1_500_000, 512)]
    {
        group.bench_function(BenchmarkId::from_parameter(format!("{procs}x{procs}/n={n}/T={tile}")), |b| {
            b.iter(|| {
                let order = || Dimension::new(n, tile, procs, Placement::Sharded);
                MatrixPlan::new(DType::F64, ProcessGrid::new(procs, procs), View::Plain, order(), order())
            });
        });
    }
    group.finish();
}

fn conversions(c: &mut Criterion) {
    let device = CpuDevice::new();
    let device: &dyn Device = &device;
    let (rows, cols) = (2048, 1024);
    let mut group = c.benchmark_group("convert on the host");
    for dtype in DType::ALL {
        let bytes = rows * cols * dtype.size();
        let (src, dst) = (Scratch::new(device, bytes).unwrap(), Scratch::new(device, bytes).unwrap());
        device.fill(dtype, src.buffer(), dtype.bits(1.0), None).unwrap();
        let view = |data, leading_dimension| MatrixView { dtype, data, leading_dimension, rows, cols };
        group.throughput(Throughput::Bytes(2 * bytes));
        group.bench_function(BenchmarkId::new("out of place", format!("{dtype:?}")), |b| {
            let (from, to) = (view(src.buffer(), cols), view(dst.buffer(), rows));
            b.iter(|| {
                device
                    .convert_forward(&from, &to, IndexMap::identity(rows), IndexMap::identity(cols))
                    .unwrap();
            });
        });
        let scratch = Scratch::new(device, bytes / 16).unwrap();
        group.bench_function(BenchmarkId::new("in place", format!("{dtype:?}")), |b| {
            b.iter(|| device.convert_in_place(dtype, src.buffer(), rows, cols, scratch.buffer()).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, planning, conversions);
criterion_main!(benches);
