//! An NVIDIA GPU: kernels from the committed PTX, launched on the caller's stream.
//!
//! Kept state, made once and never per call: one module for each context, and the constant tables of
//! plans. Everything else belongs to the call.

use super::{Buffer, Device, Operation};
use crate::{Error, Result};
use cust::function::Function;
use cust::module::Module;
use cust::sys;
use meshsolve_kernels::PTX;
use meshsolve_kernels::launch::{self, Call};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Where a call's scratch comes from: XLA's allocator, or the driver's.
pub trait StreamMemory: Sync {
    /// Device memory, at least 16-byte aligned, that may be used in the order of the stream.
    ///
    /// # Errors
    /// [`crate::ErrorKind::ResourceExhausted`] with the bytes asked for.
    fn allocate(&self, bytes: u64) -> Result<u64>;

    /// Gives memory back; operations enqueued before may still use it.
    fn release(&self, address: u64, bytes: u64);
}

/// The driver's own stream-ordered pool.
#[derive(Debug)]
pub struct DriverMemory {
    stream: sys::CUstream,
}

// SAFETY: a stream handle may be used from any thread whose context is the stream's.
unsafe impl Sync for DriverMemory {}

impl DriverMemory {
    /// Memory in the order of `stream`.
    ///
    /// # Safety
    /// `stream` must be a live stream of the context that is current where this is used.
    pub unsafe fn new(stream: sys::CUstream) -> Self {
        Self { stream }
    }
}

impl StreamMemory for DriverMemory {
    fn allocate(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the stream is live and its context current, by the constructor's contract.
        let result = unsafe { sys::cuMemAllocAsync(&raw mut address, usize_of(bytes)?, self.stream) };
        check(result, || format!("allocating {bytes} bytes of device memory"))?;
        Ok(address)
    }

    fn release(&self, address: u64, _bytes: u64) {
        // SAFETY: as above; the memory came from `allocate`. An error here has nobody to go to.
        let result = unsafe { sys::cuMemFreeAsync(address, self.stream) };
        if result != sys::CUresult::CUDA_SUCCESS {
            tracing::warn!("giving back device memory failed: {}", describe(result));
        }
    }
}

/// One GPU for the duration of a call.
///
/// While it lives, the stream's context is current on this thread; it must not leave the thread.
pub struct CudaDevice<'a> {
    stream: sys::CUstream,
    context: CurrentContext,
    ordinal: i32,
    memory: &'a dyn StreamMemory,
}

// SAFETY: `Device` asks for `Sync`; all fields are handles that the driver lets any thread use.
unsafe impl Sync for CudaDevice<'_> {}

impl<'a> CudaDevice<'a> {
    /// The GPU of `stream`, with scratch from `memory`.
    ///
    /// # Safety
    /// `stream` must be a live stream other than the null stream, and stay live.
    pub unsafe fn new(stream: sys::CUstream, memory: &'a dyn StreamMemory) -> Result<Self> {
        // SAFETY: the caller's promise.
        let context = unsafe { CurrentContext::of(stream)? };
        let mut ordinal = 0;
        // SAFETY: the stream's context is current.
        check(unsafe { sys::cuCtxGetDevice(&raw mut ordinal) }, || {
            "asking for the device of a context".into()
        })?;
        Ok(Self { stream, context, ordinal, memory })
    }

    /// The stream that everything of this call is enqueued on.
    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// The driver's number of the device.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Enqueues one kernel with its argument block.
    fn run<A: bytemuck::Pod>(&self, call: &Call<A>) -> Result<()> {
        if call.is_empty() {
            return Ok(());
        }
        let kernels = kernels(self.context.handle)?;
        let function = kernels.function(call.kernel)?;
        let [gx, gy, gz] = call.geometry.grid;
        let [bx, by, bz] = call.geometry.block;
        let mut args = call.args;
        let mut parameters = [(&raw mut args).cast::<c_void>()];
        // SAFETY: the kernel takes exactly this argument block, which the driver copies before it
        // returns; the geometry is the kernel's own; stream and function share the current context.
        let result = unsafe {
            sys::cuLaunchKernel(
                function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                call.geometry.shared_bytes,
                self.stream,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check(result, || format!("launching kernel {} on device {}", call.kernel, self.ordinal))
    }
}

impl Device for CudaDevice<'_> {
    unsafe fn launch(&self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::ConvertForward(size, args) => self.run(&launch::convert_forward(size, args)),
            Operation::ConvertReverse(size, args) => self.run(&launch::convert_reverse(size, args)),
            Operation::TransposeBlocks(size, args) => self.run(&launch::transpose_blocks(size, args)),
            Operation::MoveSegments(size, args) => self.run(&launch::move_segments(size, args)),
            Operation::CopyLines(size, args, share) => self.run(&launch::copy_lines(size, args, share)),
            Operation::PermuteSlots(size, args) => self.run(&launch::permute_slots(size, args)),
            Operation::SetIdentity(size, args) => self.run(&launch::set_identity(size, args)),
            Operation::ClearOtherTriangle(size, args) => self.run(&launch::clear_other_triangle(size, args)),
            Operation::Fill(size, args) => self.run(&launch::fill(size, args)),
            Operation::Conjugate(real, args) => self.run(&launch::conjugate(real, args)),
            Operation::FindNonFinite(real, args) => self.run(&launch::find_non_finite(real, args)),
            Operation::FindNonFiniteAnywhere(real, args) => {
                self.run(&launch::find_non_finite_anywhere(real, args))
            }
            Operation::AddToDiagonal(real, args) => self.run(&launch::add_to_diagonal(real, args)),
            Operation::MakeDiagonalReal(real, args) => self.run(&launch::make_diagonal_real(real, args)),
            Operation::FindZeroDiagonal(real, args) => self.run(&launch::find_zero_diagonal(real, args)),
            Operation::DiagLogSum(real, args) => self.run(&launch::diag_log_sum(real, args)),
            Operation::DiagPhase(real, args) => self.run(&launch::diag_phase(real, args)),
            Operation::PhaseTo(real, args) => self.run(&launch::phase_to(real, args)),
            Operation::ScaleTo(real, args) => self.run(&launch::scale_to(real, args)),
            Operation::ApplyPseudoinverse(real, args) => self.run(&launch::apply_pseudoinverse(real, args)),
            Operation::CombineStatus(args) => self.run(&launch::combine_status(args)),
            Operation::SpreadPivots(args) => self.run(&launch::spread_pivots(args)),
            Operation::PlacesOfPivots(args) => self.run(&launch::places_of_pivots(args)),
            Operation::GatherRows(size, args) => self.run(&launch::gather_rows(size, args)),
        }
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer> {
        let address = self.memory.allocate(bytes)?;
        // SAFETY: device memory that is this call's until `release`.
        Ok(unsafe { Buffer::from_raw(address as *mut u8, bytes) })
    }

    fn release(&self, buffer: Buffer) {
        self.memory.release(buffer.address(), buffer.bytes());
    }

    fn table(&self, words: &Arc<[u32]>) -> Result<Buffer> {
        table(self.context.handle, words)
    }
}

/// Makes a stream's context current for a scope.
struct CurrentContext {
    handle: sys::CUcontext,
    pushed: bool,
}

impl CurrentContext {
    /// # Safety
    /// `stream` must be a live stream other than the null stream.
    unsafe fn of(stream: sys::CUstream) -> Result<Self> {
        let (mut current, mut wanted) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the driver fills the two handles; the stream is live.
        unsafe {
            check(sys::cuCtxGetCurrent(&raw mut current), || "asking for the current context".into())?;
            check(sys::cuStreamGetCtx(stream, &raw mut wanted), || "asking for a stream's context".into())?;
        }
        let pushed = wanted != current;
        if pushed {
            // SAFETY: the context of a live stream is live.
            check(unsafe { sys::cuCtxPushCurrent_v2(wanted) }, || "making a context current".into())?;
        }
        Ok(Self { handle: wanted, pushed })
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = std::ptr::null_mut();
            // SAFETY: pushed by `of` on this thread.
            unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}

/// The kernels in one context.
struct Kernels {
    module: Module,
    functions: Mutex<HashMap<&'static str, usize>>,
}

static MODULES_LOADED: AtomicU64 = AtomicU64::new(0);

/// How many times the kernels were loaded into a context; one for each device in use.
pub fn modules_loaded() -> u64 {
    MODULES_LOADED.load(Ordering::Relaxed)
}

impl Kernels {
    fn function(&self, name: &'static str) -> Result<sys::CUfunction> {
        let mut functions = lock(&self.functions);
        if let Some(&function) = functions.get(name) {
            return Ok(function as sys::CUfunction);
        }
        let function: Function<'_> = self
            .module
            .get_function(name)
            .map_err(|e| Error::internal(format!("kernel {name} is not in the module: {e:?}")))?;
        functions.insert(name, function.to_raw() as usize);
        Ok(function.to_raw())
    }
}

/// The kernels of the current context `context`, loaded the first time.
fn kernels(context: sys::CUcontext) -> Result<&'static Kernels> {
    static LOADED: LazyLock<Mutex<HashMap<usize, &'static Kernels>>> = LazyLock::new(Mutex::default);
    let mut loaded = lock(&LOADED);
    if let Some(kernels) = loaded.get(&(context as usize)) {
        return Ok(kernels);
    }
    let module = Module::from_ptx(PTX, &[])
        .map_err(|e| Error::internal(format!("the driver does not take meshsolve's kernels: {e:?}")))?;
    // XLA's contexts live as long as the process, and so do the kernels in them.
    let kernels: &'static Kernels = Box::leak(Box::new(Kernels { module, functions: Mutex::default() }));
    loaded.insert(context as usize, kernels);
    MODULES_LOADED.fetch_add(1, Ordering::Relaxed);
    Ok(kernels)
}

/// Context and contents of a constant table.
type TableKey = (usize, Arc<[u32]>);

/// A constant table in the memory of the current context `context`, made the first time. Tables are a
/// few words for each tile column of a plan; they stay.
fn table(context: sys::CUcontext, words: &Arc<[u32]>) -> Result<Buffer> {
    static TABLES: LazyLock<Mutex<HashMap<TableKey, Buffer>>> = LazyLock::new(Mutex::default);
    let key = (context as usize, Arc::clone(words));
    let mut tables = lock(&TABLES);
    if let Some(&buffer) = tables.get(&key) {
        return Ok(buffer);
    }
    let bytes = size_of_val(&**words);
    let mut address = 0;
    // SAFETY: the driver fills the address; then as many bytes as were allocated are copied. The copy from
    // ordinary memory may go on after its call, on the default stream, and is waited for: no stream of ours would.
    unsafe {
        check(sys::cuMemAlloc_v2(&raw mut address, bytes.max(1)), || {
            format!("allocating a table of {bytes} bytes")
        })?;
        check(sys::cuMemcpyHtoD_v2(address, words.as_ptr().cast(), bytes), || "copying a table".into())?;
        check(sys::cuStreamSynchronize(std::ptr::null_mut()), || "waiting for a table".into())?;
    }
    // SAFETY: this memory is never given back and never written again.
    let buffer = unsafe { Buffer::from_raw(address as *mut u8, bytes as u64) };
    tables.insert(key, buffer);
    Ok(buffer)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn usize_of(bytes: u64) -> Result<usize> {
    usize::try_from(bytes)
        .map_err(|_| Error::resource_exhausted(format!("{bytes} bytes are beyond this machine")))
}

/// Turns a driver result into an error that says what was being done.
pub(crate) fn check(result: sys::CUresult, doing: impl FnOnce() -> String) -> Result<()> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            Err(Error::resource_exhausted(format!("{}: the device has no memory left", doing())))
        }
        sys::CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED => Err(Error::failed_precondition(format!(
            "{}: there is no NVIDIA driver on this machine (libcuda.so.1 was not found)",
            doing()
        ))),
        other => Err(Error::internal(format!("{}: {}", doing(), describe(other)))),
    }
}

/// Name and number of a driver result.
fn describe(result: sys::CUresult) -> String {
    let mut name = std::ptr::null();
    // SAFETY: the driver sets the pointer to a constant text, or leaves it.
    unsafe { sys::cuGetErrorName(result, &raw mut name) };
    let number = result as u32;
    if name.is_null() {
        return format!("CUDA error {number}");
    }
    // SAFETY: a constant text terminated by zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    format!("{name} ({number})")
}
