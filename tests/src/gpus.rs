//! Ranks on the first GPUs of this machine, one thread for each, on communicators of our own.

use cust::context::Context;
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use cust::stream::{Stream, StreamFlags};
use meshsolve::communicator::nccl::{Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::device::Buffer;
use meshsolve::device::cuda::{CudaDevice, DriverMemory};

/// How many GPUs this machine has.
pub fn count() -> usize {
    let count = cust::init(cust::CudaFlags::empty()).and_then(|()| cust::device::Device::num_devices());
    count.map_or(0, |count| count as usize)
}

/// Runs `body` for two ranks on a GPU each; gives what each returned.
pub fn on_two_gpus<R: Send>(
    body: impl Fn(&NcclCommunicator, &CudaDevice<'_>, &Stream) -> R + Sync,
) -> Vec<R> {
    on_gpus(2, body)
}

/// Runs `body` for so many ranks on a GPU each; gives what each returned.
pub fn on_gpus<R: Send>(
    ranks: usize,
    body: impl Fn(&NcclCommunicator, &CudaDevice<'_>, &Stream) -> R + Sync,
) -> Vec<R> {
    let gpus = count();
    assert!(gpus >= ranks, "this test needs {ranks} GPUs; this machine has {gpus}");
    let ranks = ranks as u64;
    let body = &body;
    let rank_body = move |rank: u64| {
        // Kept state lives in the context, which therefore stays.
        let gpu = cust::device::Device::get_device(u32::try_from(rank).unwrap()).unwrap();
        std::mem::forget(Context::new(gpu).unwrap());
        // The libraries' handles hold on to the stream of their last call, so streams stay, too.
        let stream = &*Box::leak(Box::new(Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()));
        // SAFETY: the stream is never destroyed.
        let memory = unsafe { DriverMemory::new(stream.as_inner()) };
        // SAFETY: as above.
        let device = unsafe { CudaDevice::new(stream.as_inner(), &memory) }.unwrap();
        let parent =
            Parent::own(&format!("{ranks} GPUs"), rank, ranks, Members::ThisProcess, &device).unwrap();
        let group = NcclGroup::split(&parent, &device, 0, rank, &[]).unwrap();
        // SAFETY: split on this device, which outlives the communicator.
        let communicator = unsafe { NcclCommunicator::new(group, &device) };
        let result = body(&communicator, &device, stream);
        stream.synchronize().unwrap();
        result
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || rank_body(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The memory as the library takes it.
pub fn window<T: DeviceCopy>(memory: &DeviceBuffer<T>) -> Buffer {
    let bytes = (memory.len() * size_of::<T>()) as u64;
    // SAFETY: only used by this thread while the memory lives.
    unsafe { Buffer::from_raw(memory.as_device_ptr().as_raw() as *mut u8, bytes) }
}

/// The memory's contents once the stream has come so far.
pub fn download<T: DeviceCopy + Default>(stream: &Stream, memory: &DeviceBuffer<T>) -> Vec<T> {
    stream.synchronize().unwrap();
    let mut values = vec![T::default(); memory.len()];
    memory.copy_to(&mut values).unwrap();
    values
}
