//! That what is measured is right: the whole way there and back, bit for bit.

use super::{Bench, RANKS, plan};
use cust::memory::{CopyDestination, DeviceBuffer};
use meshsolve::DType;
use meshsolve::communicator::Communicator;
use meshsolve::device::Scratch;
use meshsolve::plan::MatrixPlan;
use meshsolve_benches::gpus::{Failure, memory, window};

/// Checks sizes with and without stage 2, whole slabs and parts of slabs, several times each: what runs
/// beside an exchange may be right by luck.
pub fn all(bench: &Bench<'_>) -> Result<(), Failure> {
    let mut checked = 0;
    for grid in [[1, RANKS], [RANKS, 1]] {
        for (n, tile) in [(96, 8), (100, 8), (37, 5), (4096, 256), (4000, 256), (8192, 1024)] {
            for unit_bytes in [1, u64::MAX] {
                for _ in 0..3 {
                    one(bench, &plan(DType::F64, grid, n, tile, unit_bytes))?;
                    checked += 1;
                }
            }
        }
    }
    if bench.communicator.rank() == 0 {
        println!("# {checked} ways there and back are right, bit for bit");
    }
    Ok(())
}

/// The bits of an element say where it belongs; padding is all ones.
fn one(bench: &Bench<'_>, plan: &MatrixPlan) -> Result<(), Failure> {
    let me = bench.communicator.rank();
    let at = plan.grid().coordinate(me);
    let n = plan.rows().extent();
    let case =
        format!("n = {n}, tile {}, {:?}, scratch {}", plan.rows().tile(), plan.grid(), plan.scratch_bytes());
    let [rows, cols] = plan.caller_shape();
    let given: Vec<u64> = (0..rows * cols)
        .map(|k| (at.row * rows + k / cols, at.col * cols + k % cols))
        .map(|(i, j)| if i < n && j < n { i * n + j } else { u64::MAX })
        .collect();
    let caller = DeviceBuffer::from_slice(&given)?;
    let back = DeviceBuffer::from_slice(&vec![u64::MAX; given.len()])?;
    let solver = memory(plan.solver_bytes())?;
    cust::context::CurrentContext::synchronize()?;
    let scratch = Scratch::new(bench.device, plan.scratch_bytes())?;
    let rank = bench.rank(&scratch);
    let distributed = window(&solver).slice(0, plan.solver_bytes());
    rank.forward(plan, window(&caller), distributed)?;
    bench.stream.synchronize()?;
    let mut found = vec![0u8; solver.len()];
    solver.copy_to(&mut found)?;
    let [ld, width] = plan.solver_shape();
    let global = |l: u64, tile: u64, proc: u64, procs: u64| (l / tile * procs + proc) * tile + l % tile;
    for j in 0..width {
        let gj = global(j, plan.cols().tile(), at.col, plan.grid().cols());
        for i in 0..ld {
            let gi = global(i, plan.rows().tile(), at.row, plan.grid().rows());
            let bytes = usize::try_from((i + j * ld) * 8)?;
            let bits = u64::from_ne_bytes(found[bytes..bytes + 8].try_into()?);
            if gi < n && gj < n && bits != gi * n + gj {
                return Err(format!(
                    "({i}, {j}) of rank {me} should hold ({gi}, {gj}), not {bits:#x}: {case}"
                )
                .into());
            }
        }
    }
    rank.reverse(plan, distributed, window(&back))?;
    bench.stream.synchronize()?;
    let mut came = vec![0; given.len()];
    back.copy_to(&mut came)?;
    match came == given {
        true => Ok(()),
        false => Err(format!("rank {me} did not get back what it gave: {case}").into()),
    }
}
