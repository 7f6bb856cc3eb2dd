//! GPUs of this machine with a thread and a stream each.

use cust::context::Context;
use cust::memory::{DeviceBuffer, DeviceCopy};
use cust::stream::{Stream, StreamFlags};
use meshsolve::device::Buffer;
use meshsolve::device::cuda::{CudaDevice, DriverMemory};

/// What went wrong, for people.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs `body` on threads of their own for the GPUs `0..count`, each with its number, its device and its
/// stream; gives the results in that order, or the first failure.
pub fn on_each<R: Send>(
    count: u64,
    body: impl Fn(u64, &CudaDevice<'_>, &Stream) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let found = cust::init(cust::CudaFlags::empty()).and_then(|()| cust::device::Device::num_devices());
    match found {
        Ok(found) if u64::from(found) >= count => {}
        Ok(found) => return Err(format!("this needs {count} GPUs; the machine has {found}").into()),
        // Not `{error}`: its text comes from the driver, which may be what is missing.
        Err(error) => return Err(format!("there is no GPU that this program can use: {error:?}").into()),
    }
    let body = &body;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|rank| scope.spawn(move || on_one(rank, body))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a panic was printed above")).collect()
    })
}

fn on_one<R>(
    rank: u64,
    body: impl Fn(u64, &CudaDevice<'_>, &Stream) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let gpu = cust::device::Device::get_device(u32::try_from(rank)?)?;
    // Kernels and the solver's state are kept in the context, which therefore stays.
    std::mem::forget(Context::new(gpu)?);
    keep_freed_memory(gpu.as_raw())?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    // SAFETY: the stream lives until the end of this function, its context longer.
    let memory = unsafe { DriverMemory::new(stream.as_inner()) };
    // SAFETY: as above; it is not the null stream.
    let device = unsafe { CudaDevice::new(stream.as_inner(), &memory) }?;
    let result = body(rank, &device, &stream);
    stream.synchronize()?;
    result
}

/// Has the driver's pool keep what is given back, as XLA's does: otherwise every call would map its
/// scratch anew.
fn keep_freed_memory(device: i32) -> Result<(), Failure> {
    use cust::sys::{CUmemPool_attribute, CUresult, cuDeviceGetDefaultMemPool, cuMemPoolSetAttribute};
    let (mut pool, mut threshold) = (std::ptr::null_mut(), u64::MAX);
    // SAFETY: writes one pool, which the device owns.
    let mut result = unsafe { cuDeviceGetDefaultMemPool(&raw mut pool, device) };
    if result == CUresult::CUDA_SUCCESS {
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the attribute's value is one u64, which is read.
        result = unsafe { cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()) };
    }
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => {
            Err(format!("setting up the memory pool of GPU {device}: CUDA error {}", other as u32).into())
        }
    }
}

/// Device memory of at least one byte, for the driver gives no empty memory.
pub fn memory(bytes: u64) -> Result<DeviceBuffer<u8>, Failure> {
    Ok(DeviceBuffer::zeroed(usize::try_from(bytes.max(1))?)?)
}

/// The memory as the library's operations take it.
pub fn window<T: DeviceCopy>(memory: &DeviceBuffer<T>) -> Buffer {
    let bytes = (memory.len() * size_of::<T>()) as u64;
    // SAFETY: used in the order of one stream and only while the memory lives, as the callers see to.
    unsafe { Buffer::from_raw(memory.as_device_ptr().as_raw() as *mut u8, bytes) }
}

/// Enqueues a copy between buffers of equal length on the stream of `device`.
pub fn copy(device: &CudaDevice<'_>, from: Buffer, to: Buffer) -> Result<(), Failure> {
    assert_eq!(from.bytes(), to.bytes(), "copies are between buffers of equal length");
    // SAFETY: both windows lie in live memory of this device and do not overlap.
    let result = unsafe {
        cust::sys::cuMemcpyDtoDAsync_v2(
            to.address(),
            from.address(),
            usize::try_from(from.bytes())?,
            device.stream(),
        )
    };
    match result {
        cust::sys::CUresult::CUDA_SUCCESS => Ok(()),
        other => {
            Err(format!("copying {} bytes on the device: CUDA error {}", from.bytes(), other as u32).into())
        }
    }
}
