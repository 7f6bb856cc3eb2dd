//! Shards along one dimension become shards along both, by their [`Regrid`].

use super::redistribute::Rank;
use crate::Result;
use crate::communicator::Message;
use crate::device::Buffer;
use crate::plan::{MatrixPlan, Regrid};

impl Rank<'_> {
    /// Fills `shard`, row-major on the new mesh, from the caller's. `plan` is that of the matrix on the new mesh.
    pub(super) fn regrid(
        &self,
        regrid: &Regrid,
        plan: &MatrixPlan,
        caller: Buffer,
        shard: Buffer,
    ) -> Result<()> {
        let Rank { device, communicator, .. } = *self;
        let (dtype, mesh) = (plan.dtype(), plan.mesh());
        let roles = plan.roles();
        let at = plan.mesh_coordinate(communicator.rank());
        let ([rows, cols], size, step) = (regrid.piece(), dtype.size(), regrid.rows_at_a_time());
        for (turn, [given, taken]) in regrid.trades(at).enumerate() {
            for first in (0..rows).step_by(usize::try_from(step).expect("rows of a shard")) {
                let count = step.min(rows - first);
                // Its rows in a shard, to the end of the last one.
                let window = |buffer: Buffer, begin: u64, stride: u64| {
                    buffer.slice((begin + first * stride) * size, ((count - 1) * stride + cols) * size)
                };
                let from = window(caller, given.first, given.stride);
                let to = window(shard, taken.first, taken.stride);
                if turn == 0 {
                    device.copy_lines(dtype, from, given.stride, to, taken.stride, cols, count)?;
                    continue;
                }
                let buffer = self.scratch.slice(0, count * cols * size);
                let [sent, received] = if regrid.gives_on_end() { [from, buffer] } else { [buffer, to] };
                if !regrid.gives_on_end() {
                    device.copy_lines(dtype, from, given.stride, buffer, cols, cols, count)?;
                }
                let role = |peer| roles[usize::try_from(mesh.rank(peer)).expect("a place in the mesh")];
                communicator.exchange(
                    &[Message { peer: role(given.peer), data: sent }],
                    &[Message { peer: role(taken.peer), data: received }],
                )?;
                if regrid.gives_on_end() {
                    device.copy_lines(dtype, buffer, cols, to, taken.stride, cols, count)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::device::CpuDevice;
    use crate::layout::ProcessGrid;
    use crate::plan::{Dimension, Placement, View};
    use crate::simulate::on_ranks;

    /// The place of an element in the matrix, as its value.
    fn value(row: u64, col: u64) -> f64 {
        row as f64 + col as f64 / 1024.0
    }

    fn window(memory: &mut [f64]) -> Buffer {
        // SAFETY: the memory outlives the calls that use the window, which alone do.
        unsafe { Buffer::from_raw(memory.as_mut_ptr().cast(), size_of_val(memory) as u64) }
    }

    #[test]
    fn every_element_comes_to_its_new_shard() {
        for mesh in [[4, 1], [1, 4], [6, 1], [1, 6], [1, 9], [12, 1]].map(|[r, c]| ProcessGrid::new(r, c)) {
            let (tile, n) = (3, mesh.size() * 6);
            // A row at a time, a few, and all.
            for buffer in [1, 5 * 8 * n, 1 << 30] {
                let regrid = Regrid::new(n, DType::F64, tile, mesh).unwrap().with_buffer(buffer);
                let to = regrid.mesh();
                let along = |procs| Dimension::new(n, tile, procs, Placement::Sharded);
                let plan = MatrixPlan::new(DType::F64, to, View::Plain, along(to.rows()), along(to.cols()));
                on_ranks(usize::try_from(mesh.size()).unwrap(), |rank, communicator| {
                    let device = CpuDevice::new();
                    let rank = rank as u64;
                    let place = regrid.roles(&plan).iter().position(|&role| role == rank).unwrap() as u64;
                    let [rows, cols] = regrid.caller_shape();
                    let corner = (place / mesh.cols() * rows, place % mesh.cols() * cols);
                    let mut caller: Vec<f64> = (0..rows * cols)
                        .map(|index| value(corner.0 + index / cols, corner.1 + index % cols))
                        .collect();
                    let mut shard = vec![f64::NAN; caller.len()];
                    let mut scratch = vec![0.0; usize::try_from(regrid.scratch_bytes() / 8).unwrap()];
                    let before = communicator.traffic();
                    let context = Rank { device: &device, communicator, scratch: window(&mut scratch) };
                    context.regrid(&regrid, &plan, window(&mut caller), window(&mut shard))?;
                    let after = communicator.traffic();
                    let moved = (after.sent - before.sent, after.received - before.received);
                    assert_eq!(moved, (regrid.traffic().sent, regrid.traffic().received));
                    assert_eq!(after.messages - before.messages, regrid.traffic().messages);
                    let (at, [rows, cols]) = (to.coordinate(rank), plan.caller_shape());
                    for (index, &got) in (0..).zip(&shard) {
                        let expected = value(at.row * rows + index / cols, at.col * cols + index % cols);
                        assert_eq!(got.to_bits(), expected.to_bits(), "{mesh:?} rank {rank} at {index}");
                    }
                    Ok(())
                })
                .unwrap();
            }
        }
    }
}
