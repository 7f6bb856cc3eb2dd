//! What is kept of cuSOLVERMp for each device, made once and never per call.
//!
//! The library allows one handle for each device, so calls take turns by a lock. Nothing here is ever
//! destroyed: destroying is collective, and the end of the process does it.

use crate::device::Buffer;
use crate::device::cuda::{self, CudaDevice};
use crate::{Error, ErrorKind, Result, libraries};
use cublasmp_sys::{cublasFillMode_t, cudaDataType_t};
use cusolvermp_sys::{
    CusolverMp, cusolverMpGrid_t, cusolverMpGridMapping_t, cusolverMpHandle_t, cusolverMpMatrixDescriptor_t,
    cusolverStatus_t,
};
use cust::sys;
use nccl_sys::{loader, ncclComm_t};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

static HANDLES: AtomicU64 = AtomicU64::new(0);
static GRIDS: AtomicU64 = AtomicU64::new(0);
static DESCRIPTORS: AtomicU64 = AtomicU64::new(0);

/// What was made of cuSOLVERMp so far in this process. The numbers stand still once every shape of
/// matrix was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Handles: one for each device.
    pub handles: u64,
    /// Process grids.
    pub grids: u64,
    /// Matrix descriptors.
    pub descriptors: u64,
}

/// What was made of cuSOLVERMp so far in this process.
pub fn counters() -> Counters {
    let [handles, grids, descriptors] =
        [&HANDLES, &GRIDS, &DESCRIPTORS].map(|counter| counter.load(Ordering::Relaxed));
    Counters { handles, grids, descriptors }
}

/// Bytes of the device memory that stands in for buffers of length 0.
const SPARE_BYTES: usize = 256;

/// Host workspaces in turn. Two library calls make a solve, so that a third solve waits on the host if
/// the first is not done.
const HOST_WORKSPACES: usize = 4;

/// The library and a device's handle in it.
#[derive(Clone, Copy)]
pub(super) struct Library {
    pub(super) table: &'static CusolverMp,
    pub(super) handle: cusolverMpHandle_t,
}

/// Tells one process grid from another. The mapping of ranks is row-major.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GridKey {
    /// Of a kept group, so that its address stays its own.
    pub(super) communicator: ncclComm_t,
    pub(super) rows: u64,
    pub(super) cols: u64,
}

/// A matrix as the library describes it; the source process is (0, 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) kind: cudaDataType_t,
    pub(super) rows: i64,
    pub(super) cols: i64,
    pub(super) row_tile: i64,
    pub(super) col_tile: i64,
    pub(super) leading_dimension: i64,
}

/// A function of the library that needs workspace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Factor,
    Solve,
}

/// What the size of a workspace depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkspaceKey {
    pub(super) step: Step,
    pub(super) triangle: cublasFillMode_t,
    pub(super) a: cusolverMpMatrixDescriptor_t,
    pub(super) b: Option<cusolverMpMatrixDescriptor_t>,
}

/// Bytes of workspace.
#[derive(Clone, Copy)]
pub(super) struct Workspace {
    pub(super) device: usize,
    pub(super) host: usize,
}

/// Answer of a function in the table.
type Answer = Result<cusolverStatus_t, loader::Error>;

/// A call that did not succeed.
pub(super) enum Failure {
    /// The library refused.
    Status(cusolverStatus_t),
    /// The function is not there, or the driver failed beside it.
    Other(Error),
}

impl Failure {
    fn check(answer: Answer) -> Result<(), Self> {
        match answer.map_err(|error| Self::Other(libraries::missing(error)))? {
            cusolverStatus_t::CUSOLVER_STATUS_SUCCESS => Ok(()),
            status => Err(Self::Status(status)),
        }
    }

    /// The error: which function failed, where, and how.
    pub(super) fn describe(self, function: &str, rank: u64, device: i32, table: &CusolverMp) -> Error {
        let at = format!("{function} on rank {rank} (device {device})");
        let status = match self {
            Self::Other(error) => return error.context(at),
            Self::Status(status) => status,
        };
        let version = table.library().version().unwrap_or("of unknown version");
        let text = format!("{at}: cuSOLVERMp {version} status {}: {}", status.0, meaning(status));
        match kind(status) {
            ErrorKind::ResourceExhausted => Error::resource_exhausted(text),
            ErrorKind::Unsupported => Error::unsupported(text),
            _ => Error::internal(text),
        }
    }
}

fn kind(status: cusolverStatus_t) -> ErrorKind {
    match status {
        cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED => ErrorKind::ResourceExhausted,
        cusolverStatus_t::CUSOLVER_STATUS_NOT_SUPPORTED
        | cusolverStatus_t::CUSOLVER_STATUS_ARCH_MISMATCH
        | cusolverStatus_t::CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED => ErrorKind::Unsupported,
        _ => ErrorKind::Internal,
    }
}

/// cuSOLVERMp has no function that explains a status.
fn meaning(status: cusolverStatus_t) -> &'static str {
    match status {
        cusolverStatus_t::CUSOLVER_STATUS_NOT_INITIALIZED => "the library or CUDA could not be initialised",
        cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED => {
            "no memory left outside XLA's pool; give XLA a smaller share (XLA_PYTHON_CLIENT_MEM_FRACTION)"
        }
        cusolverStatus_t::CUSOLVER_STATUS_INVALID_VALUE => "an argument is not valid",
        cusolverStatus_t::CUSOLVER_STATUS_ARCH_MISMATCH => "the device is too old",
        cusolverStatus_t::CUSOLVER_STATUS_MAPPING_ERROR => "memory could not be mapped",
        cusolverStatus_t::CUSOLVER_STATUS_EXECUTION_FAILED => "a kernel failed",
        cusolverStatus_t::CUSOLVER_STATUS_INTERNAL_ERROR => "an operation inside the library failed",
        cusolverStatus_t::CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED => "this kind of matrix is not supported",
        cusolverStatus_t::CUSOLVER_STATUS_NOT_SUPPORTED => "these parameters are not supported",
        cusolverStatus_t::CUSOLVER_STATUS_INVALID_WORKSPACE => "the workspace is not valid",
        _ => "see cusolverStatus_t in NVIDIA's documentation",
    }
}

/// A block of host memory and the event after which the library is done with it.
struct HostWorkspace {
    /// Wide words, so that the block is aligned for anything the library keeps in it.
    memory: Vec<u128>,
    done: sys::CUevent,
}

/// One device's share.
pub(super) struct Kept {
    device: i32,
    library: Library,
    grids: HashMap<GridKey, cusolverMpGrid_t>,
    descriptors: HashMap<(cusolverMpGrid_t, Shape), cusolverMpMatrixDescriptor_t>,
    workspaces: HashMap<WorkspaceKey, Workspace>,
    host: Vec<HostWorkspace>,
    /// Which of `host` was used last.
    last_host: usize,
    spare: u64,
}

// SAFETY: the library's objects and the driver's may be used from any thread, one at a time; `Kept` is
// only ever used in a mutex.
unsafe impl Send for Kept {}

/// All devices' shares by device number.
static DEVICES: LazyLock<Mutex<HashMap<i32, &'static Mutex<Kept>>>> = LazyLock::new(Mutex::default);

impl Kept {
    /// The device's share and a grid that was made before.
    pub(super) fn find(
        device: &CudaDevice<'_>,
        key: GridKey,
    ) -> Option<(&'static Mutex<Kept>, cusolverMpGrid_t)> {
        let kept = *DEVICES.lock().unwrap_or_else(PoisonError::into_inner).get(&device.ordinal())?;
        let grid = *super::lock(kept).grids.get(&key)?;
        Some((kept, grid))
    }

    /// The device's share, made the first time, which loads the library.
    pub(super) fn of_device(device: &CudaDevice<'_>, rank: u64) -> Result<&'static Mutex<Kept>> {
        let ordinal = device.ordinal();
        let found = DEVICES.lock().unwrap_or_else(PoisonError::into_inner).get(&ordinal).copied();
        if let Some(kept) = found {
            return Ok(kept);
        }
        let kept: &'static Mutex<Kept> = Box::leak(Box::new(Mutex::new(Self::new(device, rank)?)));
        DEVICES.lock().unwrap_or_else(PoisonError::into_inner).insert(ordinal, kept);
        Ok(kept)
    }

    fn new(device: &CudaDevice<'_>, rank: u64) -> Result<Self> {
        let table = libraries::cusolvermp()?;
        let mut spare = 0;
        // SAFETY: writes one address.
        let result = unsafe { sys::cuMemAlloc_v2(&raw mut spare, SPARE_BYTES) };
        cuda::check(result, || format!("allocating {SPARE_BYTES} bytes on device {}", device.ordinal()))?;
        let host = (0..HOST_WORKSPACES).map(|_| HostWorkspace::new()).collect::<Result<_>>()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle; the stream is live and not the null stream, which the library does
        // not take, by the contract of `CudaDevice`.
        let answer =
            unsafe { table.cusolverMpCreate(&raw mut handle, device.ordinal(), device.stream().cast()) };
        Failure::check(answer)
            .map_err(|failure| failure.describe("cusolverMpCreate", rank, device.ordinal(), table))?;
        HANDLES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: made above.
        unsafe { table.record_version(handle) }.map_err(libraries::missing)?;
        Ok(Self {
            device: device.ordinal(),
            library: Library { table, handle },
            grids: HashMap::new(),
            descriptors: HashMap::new(),
            workspaces: HashMap::new(),
            host,
            last_host: 0,
            spare,
        })
    }

    /// The library and this device's handle.
    pub(super) fn library(&self) -> Library {
        self.library
    }

    /// Has the library enqueue everything on `stream` from now on.
    pub(super) fn set_stream(&self, stream: sys::CUstream) -> Result<(), Failure> {
        let Library { table, handle } = self.library;
        // SAFETY: the handle is live, and so is the stream for the call that holds this lock.
        Failure::check(unsafe { table.cusolverMpSetStream(handle, stream.cast()) })
    }

    /// Makes a grid. Collective over the communicator.
    pub(super) fn make_grid(&self, key: GridKey, rank: u64) -> Result<cusolverMpGrid_t> {
        let Library { table, handle } = self.library;
        let side = |value: u64| {
            i32::try_from(value)
                .map_err(|_| Error::invalid_argument(format!("a process grid with a side of {value}")))
        };
        let [rows, cols] = [side(key.rows)?, side(key.cols)?];
        let mut grid = std::ptr::null_mut();
        // SAFETY: the handle is live, and so is the communicator of a kept group; writes one grid.
        let answer = unsafe {
            table.cusolverMpCreateDeviceGrid(
                handle,
                &raw mut grid,
                key.communicator,
                rows,
                cols,
                cusolverMpGridMapping_t::CUSOLVERMP_GRID_MAPPING_ROW_MAJOR,
            )
        };
        Failure::check(answer)
            .map_err(|failure| failure.describe("cusolverMpCreateDeviceGrid", rank, self.device, table))?;
        GRIDS.fetch_add(1, Ordering::Relaxed);
        Ok(grid)
    }

    /// Keeps a grid that all ranks have made.
    pub(super) fn keep_grid(&mut self, key: GridKey, grid: cusolverMpGrid_t) {
        self.grids.insert(key, grid);
    }

    /// The descriptor of matrices of this shape, made the first time.
    pub(super) fn descriptor(
        &mut self,
        grid: cusolverMpGrid_t,
        shape: Shape,
    ) -> Result<cusolverMpMatrixDescriptor_t, Failure> {
        if let Some(&descriptor) = self.descriptors.get(&(grid, shape)) {
            return Ok(descriptor);
        }
        let Shape { kind, rows, cols, row_tile, col_tile, leading_dimension } = shape;
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the grid is live; writes one descriptor.
        Failure::check(unsafe {
            self.library.table.cusolverMpCreateMatrixDesc(
                &raw mut descriptor,
                grid,
                kind,
                rows,
                cols,
                row_tile,
                col_tile,
                0,
                0,
                leading_dimension,
            )
        })?;
        DESCRIPTORS.fetch_add(1, Ordering::Relaxed);
        self.descriptors.insert((grid, shape), descriptor);
        Ok(descriptor)
    }

    /// The size of a workspace, which `ask` has the library write the first time.
    pub(super) fn workspace(
        &mut self,
        key: WorkspaceKey,
        ask: impl FnOnce(*mut usize, *mut usize) -> Answer,
    ) -> Result<Workspace, Failure> {
        if let Some(&workspace) = self.workspaces.get(&key) {
            return Ok(workspace);
        }
        let mut workspace = Workspace { device: 0, host: 0 };
        Failure::check(ask(&raw mut workspace.device, &raw mut workspace.host))?;
        self.workspaces.insert(key, workspace);
        Ok(workspace)
    }

    /// The buffer's address; one that is not null for a buffer of length 0 too, as the library wants it
    /// from ranks that own nothing.
    pub(super) fn address(&self, buffer: Buffer) -> *mut c_void {
        (if buffer.is_empty() { self.spare } else { buffer.address() }) as *mut c_void
    }

    /// Calls the library with a block of `bytes` bytes of host memory, which it may use until `stream`
    /// has passed the call.
    pub(super) fn with_host_workspace(
        &mut self,
        stream: sys::CUstream,
        bytes: usize,
        call: impl FnOnce(*mut c_void) -> Answer,
    ) -> Result<(), Failure> {
        self.last_host = (self.last_host + 1) % HOST_WORKSPACES;
        let workspace = &mut self.host[self.last_host];
        workspace.make_room(bytes).map_err(Failure::Other)?;
        let answer = call(workspace.memory.as_mut_ptr().cast());
        // Even after a failure: part of the work may have been enqueued.
        workspace.record(stream).map_err(Failure::Other)?;
        Failure::check(answer)
    }
}

impl HostWorkspace {
    fn new() -> Result<Self> {
        let mut done = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes one event.
        cuda::check(unsafe { sys::cuEventCreate(&raw mut done, flags) }, || "creating an event".into())?;
        Ok(Self { memory: Vec::new(), done })
    }

    /// Waits until the last user is done, then sees to at least `bytes` bytes, never none.
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        // SAFETY: the event is live; one that was never recorded counts as over.
        let result = unsafe { sys::cuEventSynchronize(self.done) };
        cuda::check(result, || "waiting for an earlier call of cuSOLVERMp".into())?;
        let words = bytes.div_ceil(size_of::<u128>()).max(1);
        if self.memory.len() < words {
            // Nothing of the old contents is needed, so the old block goes before the new one comes.
            self.memory = Vec::new();
            self.memory.resize(words, 0);
        }
        Ok(())
    }

    /// Marks the place in `stream` after which the block is free again.
    fn record(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: event and stream are live and of the same context.
        let result = unsafe { sys::cuEventRecord(self.done, stream) };
        cuda::check(result, || "recording an event".into())
    }
}
