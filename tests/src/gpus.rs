//! Ranks on the first two GPUs of this machine, one thread for each, on communicators of our own.

use cust::context::Context;
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use cust::stream::{Stream, StreamFlags};
use meshsolve::communicator::nccl::{Members, NcclCommunicator, NcclGroup, Parent};
use meshsolve::device::Buffer;
use meshsolve::device::cuda::{CudaDevice, DriverMemory};

const RANKS: u64 = 2;

/// Runs `body` for each rank on a GPU of its own; gives what each returned.
pub fn on_two_gpus<R: Send>(
    body: impl Fn(&NcclCommunicator, &CudaDevice<'_>, &Stream) -> R + Sync,
) -> Vec<R> {
    let gpus = cust::init(cust::CudaFlags::empty()).and_then(|()| cust::device::Device::num_devices());
    if gpus.as_ref().map_or(true, |&count| u64::from(count) < RANKS) {
        panic!("this test needs {RANKS} GPUs; this machine has {gpus:?}");
    }
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
        let parent = Parent::own("two GPUs", rank, RANKS, Members::ThisProcess, &device).unwrap();
        let group = NcclGroup::split(&parent, &device, 0, rank, &[]).unwrap();
        // SAFETY: split on this device, which outlives the communicator.
        let communicator = unsafe { NcclCommunicator::new(group, &device) };
        let result = body(&communicator, &device, stream);
        stream.synchronize().unwrap();
        result
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || rank_body(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
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
