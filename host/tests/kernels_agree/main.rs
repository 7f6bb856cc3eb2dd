//! The host loops and the kernels' own source agree bit for bit on every operation.
//!
//! Each side works on its own copy of the same memory; the whole of it is compared, so that a write
//! outside the result counts too. What is right is the business of the kernels' own tests.
//!
//! With the feature `cuda` and `MESHSOLVE_TEST_GPU=1` in the environment every case also runs on the
//! first GPU, with the kernels as the driver compiled them. `PROPTEST_CASES` sets how many cases there are:
//! with few of them, and `--skip large`, the suite also fits a tool that checks every access.
#![cfg(feature = "emulator")]

#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "cuda")]
mod large;

use meshsolve::communicator::LocalCommunicator;
use meshsolve::device::emulator::{EmulatorDevice, Order};
use meshsolve::device::{
    Buffer, CpuDevice, Device, InPlace, IndexMap, MatrixView, Operation, Permutation, Triangle,
};
use meshsolve::plan::{Plan, Request};
use meshsolve::routines::{Backend, Operands, run};
use meshsolve::simulate::on_ranks;
use meshsolve::solver::FaerSolver;
use meshsolve::{DType, Result};
use meshsolve_kernels::args::{MoveSegmentsArgs, TransposeBlocksArgs};
use proptest::prelude::*;

/// Memory aligned to 16 bytes, filled with bits that are finite numbers in every element type and
/// differ from place to place.
#[derive(Clone, PartialEq)]
struct Memory(Vec<u128>);

impl Memory {
    fn new(bytes: u64) -> Self {
        let mut memory = Self(vec![0; bytes.div_ceil(16) as usize]);
        let words: &mut [u32] = bytemuck::cast_slice_mut(&mut memory.0);
        for (word, index) in words.iter_mut().zip(1_u32..) {
            // The exponents of an f32 and of an f64 both stay in the middle of their ranges.
            *word = index.wrapping_mul(0x9E37_79B1) & 0x807F_FFFF | 0x3F80_0000;
        }
        memory
    }

    /// Memory with these numbers at its start.
    fn of<T: bytemuck::Pod>(values: &[T]) -> Self {
        let mut memory = Self(vec![0; size_of_val(values).div_ceil(16)]);
        bytemuck::cast_slice_mut(&mut memory.0)[..size_of_val(values)]
            .copy_from_slice(bytemuck::cast_slice::<T, u8>(values));
        memory
    }

    fn buffer(&mut self) -> Buffer {
        let bytes = size_of_val(&*self.0) as u64;
        // SAFETY: the memory outlives the operations of `agree`, which are its only use meanwhile.
        unsafe { Buffer::from_raw(self.0.as_mut_ptr().cast(), bytes) }
    }
}

/// Runs the same operations on all kinds of device, each on a copy of the memories, and compares all.
fn agree<const N: usize>(memories: [Memory; N], order: Order, operate: impl Fn(&dyn Device, [Buffer; N])) {
    let mut on_cpu = memories.clone();
    operate(&CpuDevice::new(), on_cpu.each_mut().map(Memory::buffer));
    let compare = |other: &[Memory; N], whose: &str| {
        for (which, (cpu, other)) in on_cpu.iter().zip(other).enumerate() {
            let difference = cpu.0.iter().zip(&other.0).position(|(cpu, other)| cpu != other);
            assert_eq!(difference, None, "{whose} memory {which} differs first at this unit of 16 bytes");
        }
    };
    let mut emulated = memories.clone();
    operate(&EmulatorDevice::new(order), emulated.each_mut().map(Memory::buffer));
    compare(&emulated, &format!("the emulator's ({order:?})"));
    if gpu::is_wanted() {
        compare(&gpu::operate(&memories, operate), "the GPU's");
    }
    assert!(on_cpu != memories, "the operations changed nothing, so nothing was compared");
}

/// Stands in for the GPU in a build without the feature `cuda`.
#[cfg(not(feature = "cuda"))]
mod gpu {
    use super::{Buffer, Device, Memory};

    pub fn is_wanted() -> bool {
        std::env::var_os("MESHSOLVE_TEST_GPU").is_some_and(|value| value == "1")
    }

    pub fn operate<const N: usize>(_: &[Memory; N], _: impl Fn(&dyn Device, [Buffer; N])) -> [Memory; N] {
        panic!("MESHSOLVE_TEST_GPU=1 needs a build with the feature `cuda`")
    }
}

/// 40 cases unless the environment says otherwise.
fn cases() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(40),
    }
}

/// The outputs of all places of a Cholesky solve on a 2 × 2 mesh, on devices of one kind.
fn solve<D: Device>(plan: &Plan, new_device: impl Fn() -> D + Sync) -> Vec<Vec<Memory>> {
    let mut inputs: Vec<Vec<Memory>> = (0..4).map(|place| shards(plan, place / 2, place % 2)).collect();
    let size = |spec: &meshsolve::plan::OperandSpec| spec.shape.iter().product::<u64>() * spec.dtype.size();
    let mut outputs: Vec<Vec<Memory>> =
        (0..4).map(|_| plan.outputs().iter().map(|spec| Memory::new(size(spec))).collect()).collect();
    let operands: Vec<Operands> = (inputs.iter_mut().zip(&mut outputs))
        .map(|(inputs, outputs)| {
            let mut operands = Operands {
                inputs: inputs.iter_mut().map(Memory::buffer).collect(),
                outputs: outputs.iter_mut().map(Memory::buffer).collect(),
            };
            let specs = plan.inputs().iter().chain(plan.outputs());
            for (buffer, spec) in operands.inputs.iter_mut().chain(&mut operands.outputs).zip(specs) {
                *buffer = buffer.slice(0, size(spec));
            }
            operands
        })
        .collect();
    let work = |rank: usize, communicator: &LocalCommunicator| -> Result<()> {
        let (device, solver) = (new_device(), FaerSolver::new(communicator));
        let place = plan.roles().iter().position(|&role| role == rank as u64).unwrap();
        run(
            plan,
            &Backend { device: &device, communicator, solver: Some(&solver) },
            Ok(operands[place].clone()),
        )
    };
    on_ranks(4, work).unwrap();
    outputs
}

/// The inputs of the process at (r, c): shards of a symmetric matrix with a heavy diagonal and of b.
fn shards(plan: &Plan, r: u64, c: u64) -> Vec<Memory> {
    let shard = |shape: &[u64], value: fn(u64, u64) -> f64| {
        let at = |k: u64| value(r * shape[0] + k / shape[1], c * shape[1] + k % shape[1]);
        Memory::of(&(0..shape[0] * shape[1]).map(at).collect::<Vec<f64>>())
    };
    let a = |i: u64, j: u64| if i == j { 9.0 } else { 1.0 / (1.0 + i.abs_diff(j) as f64) };
    let b = |i: u64, j: u64| (i * 7 + j * 3) as f64 - 40.0;
    vec![shard(&plan.inputs()[0].shape, a), shard(&plan.inputs()[1].shape, b)]
}

#[test]
fn a_whole_cholesky_solve() {
    // The tile divides the shard, so that conversion is in place, and then it does not.
    for (n, tile) in [(24, 4), (26, 5)] {
        let request = format!(
            r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":{n},"nrhs":6,"grid":[2,2],"tile":{tile},
                "b":{{"rows":"sharded","cols":"sharded"}},"triangle":null,"log_det":true}}"#
        );
        for plan in Plan::candidates(&Request::from_json(&request).unwrap()) {
            let on_cpu = solve(&plan, CpuDevice::new);
            for order in [Order::Forward, Order::Reverse, Order::Shuffled(5)] {
                let emulated = solve(&plan, || EmulatorDevice::new(order));
                assert!(on_cpu == emulated, "n = {n}, tile {tile}, {order:?}");
            }
            // Memory that starts alike on both sides would hide a solve that wrote nothing.
            let status =
                on_cpu.iter().map(|outputs| bytemuck::cast_slice::<_, i32>(&outputs.last().unwrap().0)[0]);
            assert_eq!(status.collect::<Vec<_>>(), [0; 4]);
        }
    }
}

fn any_order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Forward), Just(Order::Reverse), any::<u64>().prop_map(Order::Shuffled)]
}

fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

prop_compose! {
    /// A map of `count` local indices whose results stay below its limit, and at least one is valid.
    fn any_map(count: u64)(
        tile in 1_u64..40, procs in 1_u64..4, proc_seed in 0_u64..4, cut in 0_u64..20,
        turn in 0.0..1.0_f64, kind in 0..3, merged in 1_u64..4, short in 0_u64..40,
    ) -> IndexMap {
        let proc = proc_seed % procs;
        let tiles = count.div_ceil(tile);
        let capacity = tiles * tile * procs;
        let base = IndexMap::block_cyclic(tile, procs, proc, capacity);
        let ordered = match kind {
            0 => base,
            1 => IndexMap { shift: (turn * capacity as f64) as u64 % capacity, capacity, ..base },
            // Shards end inside their last tile.
            _ => {
                let fine = procs * merged;
                let shard = (tiles.div_ceil(merged) * tile - short % tile).max(1);
                IndexMap { fine, coarse: procs, shard, limit: fine * shard, ..base }
            }
        };
        // Local index 0 stays valid, so that every operation has something to do.
        let least = ordered.map(0).map_or(capacity, |first| first + 1);
        IndexMap { limit: ordered.limit.saturating_sub(cut).max(least), ..ordered }
    }
}

/// Extents of a matrix with maps for its rows and columns.
fn any_mapped() -> impl Strategy<Value = (u64, u64, IndexMap, IndexMap)> {
    (1_u64..80, 1_u64..80)
        .prop_flat_map(|(rows, cols)| (Just(rows), Just(cols), any_map(rows), any_map(cols)))
}

/// The buffer from its element `offset` on.
fn from_element(offset: u64, dtype: DType, buffer: Buffer) -> Buffer {
    buffer.slice(offset * dtype.size(), buffer.bytes() - offset * dtype.size())
}

fn view(dtype: DType, data: Buffer, ld: u64, rows: u64, cols: u64) -> MatrixView {
    MatrixView { dtype, data, leading_dimension: ld, rows, cols }
}

#[test]
fn nothing_is_finite() {
    let mut flag = Memory::of(&[0_i32]);
    let word = flag.buffer().slice(0, 4);
    for device in [&CpuDevice::new() as &dyn Device, &EmulatorDevice::new(Order::Forward)] {
        for dtype in [DType::F32, DType::C128] {
            device.find_non_finite_anywhere(dtype, Buffer::EMPTY, word).unwrap();
            device.fill(dtype, Buffer::EMPTY, dtype.nan_bits(), None).unwrap();
        }
    }
    assert_eq!(flag.0[0], 0);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn conversions(
        (rows, cols, row_map, col_map) in any_mapped(), slack in 0_u64..4, offsets in (0_u64..3, 0_u64..3),
        dtype in any_dtype(), order in any_order(),
    ) {
        let (wide, tall) = (col_map.limit + slack, rows + slack);
        let row_major = Memory::new((offsets.0 + row_map.limit * wide) * dtype.size());
        let col_major = Memory::new((offsets.1 + cols * tall + 1) * dtype.size());
        let operate = |forward: bool| move |device: &dyn Device, [row_major, col_major]: [Buffer; 2]| {
            let (row_major, col_major) =
                (from_element(offsets.0, dtype, row_major), from_element(offsets.1, dtype, col_major));
            let row_major = view(dtype, row_major, wide, row_map.limit, col_map.limit);
            let col_major = view(dtype, col_major, tall, rows, cols);
            if forward {
                device.convert_forward(&row_major, &col_major, row_map, col_map).unwrap();
            } else {
                device.convert_reverse(&col_major, &row_major, row_map, col_map).unwrap();
            }
        };
        // Contents that differ between the two, so that every copied element is a change.
        let mut other = col_major.clone();
        other.0.iter_mut().for_each(|unit| *unit ^= 0x0000_0001_0000_0001_0000_0001_0000_0001);
        agree([row_major.clone(), other.clone()], order, operate(true));
        agree([row_major, other], order, operate(false));
    }

    #[test]
    fn conversion_in_place(
        rows in 2_u64..90, cols in 2_u64..90, room in 1_u64..200, offset in 0_u64..3, dtype in any_dtype(),
        order in any_order(),
    ) {
        let matrix = Memory::new((offset + rows * cols) * dtype.size());
        let scratch = Memory::new(room * rows.max(cols) * dtype.size());
        agree([matrix, scratch, Memory::of(&[0_i32])], order, |device, [matrix, scratch, flag]| {
            let matrix = from_element(offset, dtype, matrix).slice(0, rows * cols * dtype.size());
            device.convert_in_place(dtype, matrix, &InPlace::new(rows, cols), scratch, Some(flag)).unwrap();
        });
    }

    #[test]
    fn conversion_in_place_that_deals_tiles(
        tile in 1_u64..12, tiles in 1_u64..5, shards in 2_u64..6, wide: bool, reverse: bool, room in 1_u64..200,
        offset in 0_u64..3, dtype in any_dtype(), order in any_order(),
    ) {
        let (short, long) = (tile * tiles, tile * tiles * shards);
        prop_assume!(short > 1);
        let (rows, cols) = if wide { (short, long) } else { (long, short) };
        let dealing = InPlace::dealing(rows, cols, tile);
        let matrix = Memory::new((offset + rows * cols) * dtype.size());
        let scratch = Memory::new(room * long * dtype.size());
        agree([matrix, scratch], order, |device, [matrix, scratch]| {
            let matrix = from_element(offset, dtype, matrix);
            match reverse {
                false => device.convert_in_place(dtype, matrix, &dealing, scratch, None).unwrap(),
                true => device.restore_in_place(dtype, matrix, &dealing, scratch).unwrap(),
            }
        });
    }

    #[test]
    fn every_step_of_the_conversion_in_place(
        groups in 1_u64..4, p in 1_u64..5, q in 1_u64..5, g in 2_u64..40, len in 1_u64..80, stride in 1_u64..400,
        bad: Option<prop::sample::Index>, offset in 0_u64..3, dtype in any_dtype(), order in any_order(),
    ) {
        let (size, from) = (dtype.element_size(), offset * dtype.size());
        let mut matrix = Memory::new(from + p * q * g * g * dtype.size());
        if let Some(bad) = bad {
            let words: &mut [u32] = bytemuck::cast_slice_mut(&mut matrix.0);
            let place = bad.index(words.len());
            words[place] = 0x7FF0_0000;
        }
        agree([matrix, Memory::of(&[0_i32])], order, |device, [matrix, flag]| {
            let exponents = dtype.real_type().exponents();
            let args = TransposeBlocksArgs { buf: matrix.address() + from, p, q, g, flag: flag.address(), exponents };
            // SAFETY: the buffer holds the matrix.
            unsafe { device.launch(&Operation::TransposeBlocks(size, args)).unwrap() };
        });
        prop_assume!(p * q > 1 && stride < p * q * g * groups);
        let args = MoveSegmentsArgs { buf: 0, scratch: 0, groups, p, q, g, len, stride };
        let matrix = Memory::new(from + args.segments() * len * dtype.size());
        let scratch = Memory::new(args.cuts() * len * dtype.size());
        agree([matrix, scratch], order, |device, [matrix, scratch]| {
            let args = MoveSegmentsArgs { buf: matrix.address() + from, scratch: scratch.address(), ..args };
            // SAFETY: the buffers hold the segments and the cuts.
            unsafe { device.launch(&Operation::MoveSegments(size, args)).unwrap() };
        });
    }

    #[test]
    fn copies_of_lines(
        len in 1_u64..600, lines in 1_u64..30, more in (0_u64..5, 0_u64..5), offset in 0_u64..3,
        dtype in any_dtype(), order in any_order(),
    ) {
        let size = dtype.size();
        let (from, to) = (len + more.0, len + more.1);
        let mut target = Memory::new((offset + lines * to) * size);
        target.0.iter_mut().for_each(|unit| *unit = !*unit);
        agree([Memory::new((offset + lines * from) * size), target], order, |device, [src, dst]| {
            let (src, dst) = (from_element(offset, dtype, src), from_element(offset, dtype, dst));
            device.copy_lines(dtype, src, from, dst, to, len, lines).unwrap();
        });
    }

    #[test]
    fn permutations_of_slots(
        sources in (2_u32..10).prop_flat_map(|n| Just((0..n).collect::<Vec<_>>()).prop_shuffle()),
        tile in 1_u64..40, other in 1_u64..40, slack in 0_u64..4, offset in 0_u64..3, dtype in any_dtype(),
        order in any_order(),
    ) {
        let permutation = Permutation::from_sources(&sources);
        prop_assume!(!permutation.is_identity());
        let along = sources.len() as u64 * tile;
        let matrix = Memory::new((offset + (along + slack) * other) * dtype.size());
        agree([matrix.clone()], order, |device, [matrix]| {
            let matrix = view(dtype, from_element(offset, dtype, matrix), other, other, along);
            device.permute_columns(&matrix, tile, &permutation).unwrap();
        });
        agree([matrix], order, |device, [matrix]| {
            let matrix = view(dtype, from_element(offset, dtype, matrix), along + slack, along, other);
            device.permute_rows(&matrix, tile, &permutation).unwrap();
        });
    }

    #[test]
    fn identity_and_fill(
        (rows, cols, row_map, col_map) in any_mapped(), real in (0_u64..80, 0_u64..80), guard in 0_i32..3,
        count in 1_u64..1000, offset in 0_u64..3, dtype in any_dtype(), order in any_order(),
    ) {
        let matrix = Memory::new(rows * cols * dtype.size());
        let guarded = [matrix.clone(), Memory::of(&[guard]), Memory::new(64)];
        agree(guarded, order, |device, [matrix, guard, changed]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            let real = [IndexMap { limit: real.0, ..row_map }, IndexMap::identity(real.1)];
            device.set_identity(&matrix, row_map, col_map, real, None, Some(guard)).unwrap();
            device.fill(DType::I32, changed, [0, 0], None).unwrap();
        });
        agree([matrix.clone()], order, |device, [matrix]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            device.set_identity(&matrix, row_map, col_map, [IndexMap::identity(0); 2], None, None).unwrap();
        });
        // Some places are rows of this matrix, others are not.
        let places: Vec<i32> = (0..col_map.limit as i32).map(|j| (7 * j + 3) % 80 - 1).collect();
        agree([matrix.clone(), Memory::of(&places)], order, |device, [matrix, places]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            let nothing = [IndexMap::identity(0); 2];
            device.set_identity(&matrix, row_map, col_map, nothing, Some(places), None).unwrap();
        });
        let filled = [Memory::new((offset + count) * dtype.size()), Memory::of(&[guard]), Memory::new(64)];
        agree(filled, order, |device, [data, guard, changed]| {
            let data = data.slice(offset * dtype.size(), count * dtype.size());
            device.fill(dtype, data, dtype.nan_bits(), Some(guard)).unwrap();
            device.fill(DType::I32, changed, [7, 0], None).unwrap();
        });
    }

    #[test]
    fn search_for_non_finite_elements(
        (rows, cols, row_map, col_map) in any_mapped(), at in 0.0..1.0_f64,
        triangle in prop::sample::select(vec![Triangle::Both, Triangle::Lower, Triangle::Upper]),
        dtype in any_dtype(), order in any_order(),
    ) {
        let mut matrix = Memory::new(rows * cols * dtype.size());
        // All bits set are not a number in every type.
        let numbers = rows * cols * u64::from(dtype.parts());
        let real_size = dtype.real().size();
        let place = ((at * numbers as f64) as u64 * real_size) as usize;
        bytemuck::cast_slice_mut::<_, u8>(&mut matrix.0)[place..][..real_size as usize].fill(0xFF);
        agree([matrix, Memory::of(&[0_i32; 4]), Memory::new(64)], order, |device, [matrix, flag, changed]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            device.find_non_finite(&matrix, row_map, col_map, triangle, flag.slice(0, 4)).unwrap();
            device.find_non_finite_anywhere(dtype, matrix.data, flag.slice(4, 4)).unwrap();
            // From the second number on, which is not aligned to 16 bytes, and without the last.
            let bytes = (numbers - 1) * real_size;
            let inner = matrix.data.slice(real_size.min(bytes), bytes.saturating_sub(real_size));
            device.find_non_finite_anywhere(dtype, inner, flag.slice(8, 4)).unwrap();
            device.fill(DType::I32, changed, [0, 0], None).unwrap();
        });
    }

    #[test]
    fn sums_of_logarithms(
        rows in 1_u64..700, cols in 1_u64..50, tile in 1_u64..40, procs in (1_u64..4, 1_u64..4),
        seeds in (0_u64..4, 0_u64..4), n in 0_u64..900, dtype in any_dtype(), order in any_order(),
    ) {
        let row_map = IndexMap::block_cyclic(tile, procs.0, seeds.0 % procs.0, u64::MAX);
        let col_map = IndexMap::block_cyclic(tile, procs.1, seeds.1 % procs.1, u64::MAX);
        let memories = [Memory::new(rows * cols * dtype.size()), Memory::of(&[f64::NAN, 0.0]), Memory::of(&[0.0_f64; 2])];
        agree(memories, order, |device, [matrix, sum, scaled]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            device.diag_log_sum(&matrix, row_map, col_map, n, sum).unwrap();
            device.scale_to(sum, 2.0, dtype, scaled).unwrap();
        });
    }

    #[test]
    fn diagonals(
        (rows, cols, row_map, col_map) in any_mapped(), same in any::<bool>(), n in 0_u64..90, zero in 0_u64..90,
        bits in prop::collection::vec(any::<bool>(), 80), dtype in any_dtype(), order in any_order(),
    ) {
        // Often with all of the diagonal, which two different maps seldom share.
        let (col_map, cols) = if same { (row_map, rows) } else { (col_map, cols) };
        let mut matrix = Memory::new(rows * cols * dtype.size());
        if let Some((i, j)) = row_map.unmap(zero).zip(col_map.unmap(zero)).filter(|&(i, j)| i < rows && j < cols) {
            let place = ((i + j * rows) * dtype.size()) as usize;
            bytemuck::cast_slice_mut::<_, u8>(&mut matrix.0)[place..][..dtype.size() as usize].fill(0);
        }
        let own = |j: u64| col_map.map(j).map_or(-1, |global| global as i64 + 1);
        let pivots: Vec<i64> = (0..cols).map(|j| own(j) + i64::from(bits[j as usize])).collect();
        // One result each in 16 bytes: without pivots, with them, then a word.
        let memories = [matrix.clone(), Memory::of(&pivots), Memory::of(&[-1_i32; 12])];
        agree(memories, order, |device, [matrix, pivots, results]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            let [without, with, word] = [0, 16, 32].map(|at| results.slice(at, 16));
            device.diag_phase(&matrix, row_map, col_map, n, None, without).unwrap();
            device.diag_phase(&matrix, row_map, col_map, n, Some(pivots), with).unwrap();
            device.find_zero_diagonal(&matrix, row_map, col_map, n, word).unwrap();
        });
        let shift = Memory::of(&[0x3F99_999A_3F99_999A_u64, 0xBFD1_2345_BFD1_2345]);
        agree([matrix, shift, Memory::new(64)], order, |device, [matrix, shift, changed]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            device.add_to_diagonal(&matrix, row_map, col_map, shift).unwrap();
            device.make_diagonal_real(&matrix, row_map, col_map).unwrap();
            device.fill(DType::I32, changed, [0, 0], None).unwrap();
        });
    }

    #[test]
    fn rows_scaled_by_eigenvalues(
        (rows, cols, row_map, _) in any_mapped(), negative in 0.0..1.0_f64, cutoff in 0.0..1.0_f32,
        slack in 0_u64..4, dtype in any_dtype(), order in any_order(),
    ) {
        let n = row_map.limit;
        let values: Vec<f32> = (0..n).map(|k| 0.7 * (k as f64 - negative * n as f64) as f32).collect();
        let numbers = |values: &[f32]| match dtype.real() {
            DType::F32 => Memory::of(values),
            _ => Memory::of(&values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>()),
        };
        let matrix = Memory::new((rows + slack) * cols * dtype.size());
        agree([matrix, numbers(&values), numbers(&[cutoff])], order, |device, [matrix, values, cutoff]| {
            let matrix = view(dtype, matrix, rows + slack, rows, cols);
            let values = values.slice(0, n * dtype.real().size());
            device.apply_pseudoinverse(&matrix, row_map, values, cutoff).unwrap();
        });
    }

    #[test]
    fn phases_of_all_devices(
        pairs in prop::collection::vec(prop::array::uniform2(-2.0..2.0_f64), 1..9), real in any::<bool>(),
        dtype in any_dtype(), order in any_order(),
    ) {
        let pairs: Vec<[f64; 2]> =
            pairs.into_iter().map(|[re, im]| [re, if real { 0.0 } else { im }]).collect();
        let bytes = size_of_val(&*pairs) as u64;
        agree([Memory::of(&pairs), Memory::of(&[-1_i32; 4])], order, |device, [pairs, phase]| {
            device.phase_to(pairs.slice(0, bytes), dtype, phase).unwrap();
        });
    }

    #[test]
    fn cleared_triangles(
        (rows, cols, row_map, col_map) in any_mapped(), dtype in any_dtype(), order in any_order(),
        kept in prop::sample::select(vec![Triangle::Both, Triangle::Lower, Triangle::Upper]),
    ) {
        let matrix = Memory::new(rows * cols * dtype.size());
        agree([matrix, Memory::new(64)], order, |device, [matrix, changed]| {
            let matrix = view(dtype, matrix, rows, rows, cols);
            device.clear_other_triangle(&matrix, row_map, col_map, kept).unwrap();
            device.fill(DType::I32, changed, [0, 0], None).unwrap();
        });
    }

    #[test]
    fn pivots_and_the_rows_they_move(
        (count, map) in (1_u64..80).prop_flat_map(|count| (Just(count), any_map(count))), cols in 1_u64..40,
        pivots in prop::collection::vec(-3_i64..90, 80), offset in 0_u64..3, dtype in any_dtype(),
        order in any_order(),
    ) {
        let spread = Memory::of(&vec![0_i32; map.limit.max(count) as usize]);
        let (pivots, rows) = (Memory::of(&pivots), Memory::of(&[-1_i32; 80]));
        let src = Memory::new((offset + map.limit * cols) * dtype.size());
        let mut dst = src.clone();
        dst.0.iter_mut().for_each(|unit| *unit = !*unit);
        agree([pivots, spread, rows, src, dst], order, |device, [pivots, spread, rows, src, dst]| {
            device.spread_pivots(pivots.slice(0, 8 * count), map, spread).unwrap();
            let rows = rows.slice(0, 4 * count);
            device.places_of_pivots(spread.slice(0, 4 * count), rows).unwrap();
            let (src, dst) = (from_element(offset, dtype, src), from_element(offset, dtype, dst));
            device.gather_rows(dtype, src, dst, cols, rows, map).unwrap();
        });
    }

    #[test]
    fn status_words(
        max in prop::collection::vec(-2_i32..9, 4), min in prop::collection::vec(-2_i32..3, 4),
        map in any_map(9), from_end in prop::option::of(8_u64..12), order in any_order(),
    ) {
        agree([Memory::of(&max), Memory::of(&min), Memory::of(&[99_i32; 4])], order, |device, [max, min, out]| {
            device.combine_status(max, min, out, map, from_end).unwrap();
        });
    }

    #[test]
    fn conjugates(
        count in 1_u64..1000, dtype in prop::sample::select(vec![DType::C64, DType::C128]), order in any_order(),
    ) {
        agree([Memory::new(count * dtype.size())], order, |device, [data]| {
            device.conjugate(dtype, data.slice(0, count * dtype.size())).unwrap();
        });
    }
}
