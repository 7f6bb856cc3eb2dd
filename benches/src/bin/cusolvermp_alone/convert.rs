//! Layout conversions against a copy of as many bytes.

use super::gpus::{copy, memory, on_each, window};
use super::{Arguments, Failure, Times};
use cust::context::CurrentContext;
use cust::event::{Event, EventFlags};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use meshsolve::DType;
use meshsolve::device::cuda::CudaDevice;
use meshsolve::device::{Buffer, Device, InPlace, IndexMap, MatrixView};

/// One type for each size of element.
const DTYPES: [DType; 3] = [DType::F32, DType::F64, DType::C128];

/// Rows and columns to measure in units of n / 8: a square matrix, the halves and quarters that it has on
/// two and on four GPUs, and shapes whose rows and columns share fewer factors.
const SHAPES: [(u64, u64); 8] = [(8, 8), (8, 4), (4, 8), (16, 4), (4, 12), (8, 5), (5, 8), (7, 9)];

/// Measures matrices of these shapes for each size.
pub fn measure(arguments: &Arguments) -> Result<(), Failure> {
    println!("operation,rows,cols,element_bytes,median_s,min_s,gigabytes_per_s,ratio_to_copy");
    println!("# bytes read and bytes written are both counted; ratio = time of a device copy / time");
    on_each(1, |_, device, stream| {
        for &n in &arguments.sizes {
            for (rows, cols) in SHAPES {
                for dtype in DTYPES {
                    compare(device, stream, dtype, n / 8 * rows, n / 8 * cols, arguments.repeats)?;
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Fills memory with bytes that do not repeat at the distance of any row or column.
fn fill(memory: &mut DeviceBuffer<u8>) -> Result<(), Failure> {
    /// A prime.
    const PERIOD: usize = 16_777_213;
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let bytes: Vec<u8> = (0..PERIOD.min(memory.len())).map(next).collect();
    memory.index(0..bytes.len()).copy_from(&bytes)?;
    for start in (PERIOD..memory.len()).step_by(PERIOD) {
        let end = memory.len().min(start + PERIOD);
        memory.index(start..end).copy_from(&memory.index(0..end - start))?;
    }
    // No stream waits for these copies.
    Ok(CurrentContext::synchronize()?)
}

/// Compares pieces from all over two buffers.
fn expect_equal(first: &DeviceBuffer<u8>, second: &DeviceBuffer<u8>) -> Result<(), Failure> {
    let length = first.len().min(1 << 20);
    let (mut here, mut there) = (vec![0; length], vec![0; length]);
    for piece in 0..=64 {
        let start = (first.len() - length) / 64 * piece;
        first.index(start..start + length).copy_to(&mut here)?;
        second.index(start..start + length).copy_to(&mut there)?;
        if here != there {
            return Err(format!("in place and out of place differ from byte {start} on").into());
        }
    }
    Ok(())
}

/// Times a copy and each conversion in turn, and prints their lines.
fn compare(
    cuda: &CudaDevice<'_>,
    stream: &Stream,
    dtype: DType,
    rows: u64,
    cols: u64,
    repeats: u32,
) -> Result<(), Failure> {
    let device: &dyn Device = cuda;
    let bytes = rows * cols * dtype.size();
    // Scratch as a plan gives it: two slabs of the usual tile.
    let slabs = 2 * 1024.min(rows.min(cols)) * rows.max(cols) * dtype.size();
    let (mut first, second, slabs) = (memory(bytes)?, memory(bytes)?, memory(slabs)?);
    let (row_major, col_major) = (window(&first).slice(0, bytes), window(&second).slice(0, bytes));
    let view = |data: Buffer, leading_dimension| MatrixView { dtype, data, leading_dimension, rows, cols };
    let (by_rows, by_cols) = (view(row_major, cols), view(col_major, rows));
    let (row_map, col_map) = (IndexMap::identity(rows), IndexMap::identity(cols));

    fill(&mut first)?;
    device.convert_forward(&by_rows, &by_cols, row_map, col_map)?;
    device.convert_in_place(dtype, row_major, &InPlace::new(rows, cols), window(&slabs), None)?;
    stream.synchronize()?;
    expect_equal(&first, &second)?;

    type Operation<'a> = (&'static str, Box<dyn Fn() -> Result<(), Failure> + 'a>);
    let operations: [Operation<'_>; 4] = [
        ("device-copy", Box::new(|| copy(cuda, row_major, col_major))),
        ("convert-forward", Box::new(|| Ok(device.convert_forward(&by_rows, &by_cols, row_map, col_map)?))),
        ("convert-reverse", Box::new(|| Ok(device.convert_reverse(&by_cols, &by_rows, row_map, col_map)?))),
        (
            "convert-in-place",
            Box::new(|| {
                Ok(device.convert_in_place(
                    dtype,
                    row_major,
                    &InPlace::new(rows, cols),
                    window(&slabs),
                    None,
                )?)
            }),
        ),
    ];
    let mut seconds: [Vec<f64>; 4] = Default::default();
    let (begin, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    for repeat in 0..=repeats {
        for ((_, operation), seconds) in operations.iter().zip(&mut seconds) {
            begin.record(stream)?;
            operation()?;
            end.record(stream)?;
            end.synchronize()?;
            // The first repeat loads the kernels.
            if repeat > 0 {
                seconds.push(f64::from(end.elapsed_time_f32(&begin)?) / 1000.0);
            }
        }
    }
    let [copying, forward, reverse, in_place] = seconds.map(Times::of);
    for ((name, _), times) in operations.iter().zip([&copying, &forward, &reverse, &in_place]) {
        println!(
            "{name},{rows},{cols},{},{:.6},{:.6},{:.0},{:.3}",
            dtype.size(),
            times.median,
            times.min,
            2e-9 * bytes as f64 / times.median,
            copying.median / times.median
        );
    }
    Ok(())
}
