//! Plans of a square matrix in float64: making one, and asking it what every rank sends.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use meshsolve::DType;
use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{Dimension, MatrixPlan, Placement, Traffic, View, suggest_tile};

fn planning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("planning");
    for procs in [8, 32, 64] {
        let grid = ProcessGrid::new(procs, procs);
        for n in [65_536, 1_500_000] {
            let mut tiles = vec![suggest_tile(n, grid), 1024];
            tiles.dedup();
            for tile in tiles {
                let order = || Dimension::new(n, tile, procs, Placement::Sharded);
                let make = || MatrixPlan::new(DType::F64, grid, View::Plain, order(), order());
                let case = format!("{procs}x{procs} n={n} T={tile}");
                group.bench_function(BenchmarkId::new("plan", &case), |b| b.iter(make));
                let plan = make();
                group.bench_function(BenchmarkId::new("traffic of all ranks", &case), |b| {
                    let total = |sum: Traffic, rank| sum + plan.forward_traffic(rank);
                    b.iter(|| (0..grid.size()).fold(Traffic::default(), total));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, planning);
criterion_main!(benches);
