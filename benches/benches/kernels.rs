//! The kernels on the first GPU, each in turn with a device copy. Skipped, with the reason, where there is
//! none.

#[cfg(feature = "cuda")]
#[path = "../src/bin/cusolvermp_alone/gpus.rs"]
mod gpus;
#[cfg(feature = "cuda")]
mod operations;

/// What went wrong, for people.
#[cfg(feature = "cuda")]
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[cfg(not(feature = "cuda"))]
fn main() {
    println!("kernels: skipped, because this was built without `--features cuda`");
}

#[cfg(feature = "cuda")]
fn main() -> Result<(), Failure> {
    match cust::init(cust::CudaFlags::empty()).and_then(|()| cust::device::Device::num_devices()) {
        Ok(1..) => gpus::on_each(1, |_, device, stream| on_gpu::kernels(device, stream)).map(drop),
        Ok(0) => {
            println!("kernels: skipped, because the driver shows no GPU");
            Ok(())
        }
        // Not `{error}`: its text comes from the driver, which may be what is missing.
        Err(error) => {
            println!("kernels: skipped, because there is no GPU that this program can use ({error:?})");
            Ok(())
        }
    }
}

#[cfg(feature = "cuda")]
mod on_gpu {
    use super::Failure;
    use super::gpus::{copy, memory, window};
    use super::operations::{DTYPES, Matrix, operations};
    use criterion::{BenchmarkId, Criterion, Throughput};
    use cust::event::{Event, EventFlags};
    use cust::stream::Stream;
    use meshsolve::device::cuda::CudaDevice;
    use std::time::Duration;

    /// Times by events of the stream, so that enqueuing does not count.
    struct Timer<'a> {
        stream: &'a Stream,
        begin: Event,
        end: Event,
    }

    impl Timer<'_> {
        fn time(&self, enqueue: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
            self.begin.record(self.stream)?;
            enqueue()?;
            self.end.record(self.stream)?;
            self.end.synchronize()?;
            Ok(self.end.elapsed(&self.begin)?)
        }
    }

    /// Matrices of 256 MB and more, so that no cache holds them.
    pub fn kernels(device: &CudaDevice<'_>, stream: &Stream) -> Result<(), Failure> {
        let (begin, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
        let timer = Timer { stream, begin, end };
        let mut criterion = Criterion::default()
            .sample_size(20)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1))
            .configure_from_args();
        let mut group = criterion.benchmark_group("kernels");
        for (rows, cols) in [(8192, 8192), (16384, 8192), (8192, 16384)] {
            for dtype in DTYPES {
                let matrix = Matrix { dtype, rows, cols, tile: 1024 };
                let bytes = matrix.bytes();
                let owned = [memory(bytes)?, memory(bytes)?, memory(matrix.scratch_bytes())?];
                let windows = owned.each_ref().map(window);
                let copying = || copy(device, windows[0], windows[1]);
                for operation in operations(device, matrix, windows) {
                    let (mut ours, mut copies, mut count) = (Duration::ZERO, Duration::ZERO, 0_u64);
                    group.throughput(Throughput::Bytes(operation.bytes));
                    group.bench_function(BenchmarkId::new(operation.name, matrix), |b| {
                        b.iter_custom(|iterations| {
                            let mut sample = Duration::ZERO;
                            for _ in 0..iterations {
                                copies += timer.time(copying).unwrap();
                                sample += timer.time(|| Ok((operation.enqueue)()?)).unwrap();
                            }
                            (ours, count) = (ours + sample, count + iterations);
                            sample
                        });
                    });
                    // A filter on the command line may leave this one out.
                    if count > 0 {
                        let rate = |bytes: u64, time: Duration| bytes as f64 / time.as_secs_f64();
                        let fraction = rate(operation.bytes, ours) / rate(2 * bytes, copies);
                        println!("{} {matrix}: {fraction:.2} of a device copy", operation.name);
                    }
                }
            }
        }
        group.finish();
        criterion.final_summary();
        Ok(())
    }
}
