//! The host loops of the CPU backend.

mod operations;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use meshsolve::device::{CpuDevice, Device, Scratch};
use operations::{DTYPES, Matrix, operations};

fn host_loops(criterion: &mut Criterion) {
    let device = CpuDevice::new();
    let device: &dyn Device = &device;
    let mut group = criterion.benchmark_group("host_loops");
    for (rows, cols) in [(1024, 1024), (2048, 1024)] {
        for dtype in DTYPES {
            let matrix = Matrix { dtype, rows, cols, tile: 128 };
            let lengths = [matrix.bytes(), matrix.bytes(), matrix.scratch_bytes()];
            let memory = lengths.map(|bytes| Scratch::new(device, bytes).unwrap());
            for data in &memory {
                device.fill(dtype, data.buffer(), dtype.bits(1.0), None).unwrap();
            }
            for operation in operations(device, matrix, memory.each_ref().map(Scratch::buffer)) {
                group.throughput(Throughput::Bytes(operation.bytes));
                group.bench_function(BenchmarkId::new(operation.name, matrix), |b| {
                    b.iter(|| (operation.enqueue)().unwrap());
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, host_loops);
criterion_main!(benches);
