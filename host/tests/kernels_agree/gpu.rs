//! The first GPU of this machine.

use crate::{Buffer, Device, Memory};
use cust::context::CurrentContext;
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use cust::stream::{Stream, StreamFlags};
use meshsolve::device::cuda::{CudaDevice, DriverMemory};

/// Whether tests run on the GPU.
pub fn is_wanted() -> bool {
    std::env::var_os("MESHSOLVE_TEST_GPU").is_some_and(|value| value == "1")
}

/// Runs `body` with the GPU, on a stream that waits for no other.
pub fn with_device<R>(body: impl FnOnce(&CudaDevice<'_>, &Stream) -> R) -> R {
    thread_local! {
        static STREAM: Stream = {
            // The context stays, for the kernels are kept in it.
            std::mem::forget(cust::quick_init().expect("a GPU, as MESHSOLVE_TEST_GPU=1 says"));
            Stream::new(StreamFlags::NON_BLOCKING, None).unwrap()
        };
    }
    STREAM.with(|stream| {
        // SAFETY: the stream lives as long as the thread, whose current context is the stream's.
        let memory = unsafe { DriverMemory::new(stream.as_inner()) };
        // SAFETY: as above.
        let device = unsafe { CudaDevice::new(stream.as_inner(), &memory) }.unwrap();
        body(&device, stream)
    })
}

/// What device memory holds, as the operations see it.
pub fn window<T: DeviceCopy>(memory: &DeviceBuffer<T>) -> Buffer {
    let bytes = (memory.len() * size_of::<T>()) as u64;
    // SAFETY: the tests use the window only while the memory lives, in the order of one stream.
    unsafe { Buffer::from_raw(memory.as_device_ptr().as_raw() as *mut u8, bytes) }
}

/// Waits for uploads: they may still be under way when the call returns, and no stream waits for them.
pub fn finish_uploads() {
    CurrentContext::synchronize().unwrap();
}

/// The memories after the operations, which ran on copies of them.
pub fn operate<const N: usize>(
    memories: &[Memory; N],
    operate: impl Fn(&dyn Device, [Buffer; N]),
) -> [Memory; N] {
    with_device(|device, stream| {
        let copies = memories.each_ref().map(|memory| DeviceBuffer::from_slice(&memory.0).unwrap());
        finish_uploads();
        operate(device, copies.each_ref().map(window));
        stream.synchronize().unwrap();
        copies.map(|copy| {
            let mut memory = Memory(vec![0; copy.len()]);
            copy.copy_to(&mut memory.0).unwrap();
            memory
        })
    })
}
