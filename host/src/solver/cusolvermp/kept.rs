//! What is kept of cuSOLVERMp and cuBLASMp for each device, made once and never per call.
//!
//! Each library allows one handle for each device, so calls take turns by a lock. Nothing here is ever
//! destroyed: destroying is collective, and the end of the process does it.

use super::failure::{Failure, Outcome, Status};
use crate::device::Buffer;
use crate::device::cuda::{self, CudaDevice};
use crate::{Error, Result, libraries};
use cublasmp_sys::{
    CublasMp, cublasMpGrid_t, cublasMpGridLayout_t, cublasMpHandle_t, cublasMpMatrixDescriptor_t,
    cudaDataType_t,
};
use cusolvermp_sys::{
    CusolverMp, cusolverMpGrid_t, cusolverMpGridMapping_t, cusolverMpHandle_t, cusolverMpMatrixDescriptor_t,
};
use cust::sys;
use nccl_sys::ncclComm_t;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

static HANDLES: AtomicU64 = AtomicU64::new(0);
static GRIDS: AtomicU64 = AtomicU64::new(0);
static DESCRIPTORS: AtomicU64 = AtomicU64::new(0);

/// What was made of cuSOLVERMp and cuBLASMp so far in this process. The numbers stand still once every
/// shape of matrix was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Handles: one of each library for each device.
    pub handles: u64,
    /// Process grids: one of each library.
    pub grids: u64,
    /// Matrix descriptors.
    pub descriptors: u64,
}

/// What was made of cuSOLVERMp and cuBLASMp so far in this process.
pub fn counters() -> Counters {
    let [handles, grids, descriptors] =
        [&HANDLES, &GRIDS, &DESCRIPTORS].map(|counter| counter.load(Ordering::Relaxed));
    Counters { handles, grids, descriptors }
}

/// Bytes of the device memory that stands in for buffers of length 0.
const SPARE_BYTES: usize = 256;

/// Host workspaces in turn: the host is at most so many calls that need one ahead of the device. Two such calls make
/// a solve.
const HOST_WORKSPACES: usize = 4;

/// The libraries and a device's handles in them.
#[derive(Clone, Copy)]
pub(super) struct Libraries {
    pub(super) cusolvermp: &'static CusolverMp,
    pub(super) solver: cusolverMpHandle_t,
    pub(super) cublasmp: &'static CublasMp,
    pub(super) blas: cublasMpHandle_t,
}

/// One process grid as each library has it.
#[derive(Clone, Copy)]
pub(super) struct Grids {
    pub(super) solver: cusolverMpGrid_t,
    pub(super) blas: cublasMpGrid_t,
}

/// Tells one process grid from another. The mapping of ranks is row-major.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GridKey {
    /// Of a kept group, so that its address stays its own.
    pub(super) communicator: ncclComm_t,
    pub(super) rows: u64,
    pub(super) cols: u64,
}

/// A matrix as the libraries describe it; the source process is (0, 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) kind: cudaDataType_t,
    pub(super) rows: i64,
    pub(super) cols: i64,
    pub(super) row_tile: i64,
    pub(super) col_tile: i64,
    pub(super) leading_dimension: i64,
}

/// What the size of a workspace depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkspaceKey {
    pub(super) function: &'static str,
    /// Operations, triangle and the like; unused ones are 0.
    pub(super) options: [u64; 4],
    /// The matrices' descriptors, of which each is made once; unused ones are null.
    pub(super) matrices: [*const c_void; 3],
}

/// Bytes of workspace.
#[derive(Clone, Copy)]
pub(super) struct Workspace {
    pub(super) device: usize,
    pub(super) host: usize,
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
    libraries: Libraries,
    grids: HashMap<GridKey, Grids>,
    solver_matrices: HashMap<(cusolverMpGrid_t, Shape), cusolverMpMatrixDescriptor_t>,
    blas_matrices: HashMap<(cublasMpGrid_t, Shape), cublasMpMatrixDescriptor_t>,
    workspaces: HashMap<WorkspaceKey, Workspace>,
    host: Vec<HostWorkspace>,
    /// Which of `host` was used last.
    last_host: usize,
    spare: u64,
    /// What a call without host workspace gets.
    no_memory: Box<[u128; 1]>,
}

// SAFETY: the library's objects and the driver's may be used from any thread, one at a time; `Kept` is
// only ever used in a mutex.
unsafe impl Send for Kept {}

/// All devices' shares by device number.
static DEVICES: LazyLock<Mutex<HashMap<i32, &'static Mutex<Kept>>>> = LazyLock::new(Mutex::default);

impl Kept {
    /// The device's share and grids that were made before.
    pub(super) fn find(device: &CudaDevice<'_>, key: GridKey) -> Option<(&'static Mutex<Kept>, Grids)> {
        let kept = *DEVICES.lock().unwrap_or_else(PoisonError::into_inner).get(&device.ordinal())?;
        let grids = *super::lock(kept).grids.get(&key)?;
        Some((kept, grids))
    }

    /// The device's share, made the first time, which loads the libraries.
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
        let (cublasmp, cusolvermp) = (libraries::cublasmp()?, libraries::cusolvermp()?);
        let ordinal = device.ordinal();
        let failed = |function| move |failure: Failure| failure.describe(function, rank, ordinal);
        let mut spare = 0;
        // SAFETY: writes one address.
        let result = unsafe { sys::cuMemAlloc_v2(&raw mut spare, SPARE_BYTES) };
        cuda::check(result, || format!("allocating {SPARE_BYTES} bytes on device {ordinal}"))?;
        let host = (0..HOST_WORKSPACES).map(|_| HostWorkspace::new()).collect::<Result<_>>()?;
        let mut solver = std::ptr::null_mut();
        // SAFETY: writes one handle; the stream is live and not the null stream, which the library does
        // not take, by the contract of `CudaDevice`.
        unsafe { cusolvermp.cusolverMpCreate(&raw mut solver, ordinal, device.stream().cast()) }
            .outcome()
            .map_err(failed("cusolverMpCreate"))?;
        HANDLES.fetch_add(1, Ordering::Relaxed);
        // SAFETY: made above.
        unsafe { cusolvermp.record_version(solver) }.map_err(libraries::missing)?;
        let mut blas = std::ptr::null_mut();
        // SAFETY: writes one handle, of the current context, which is the live stream's.
        unsafe { cublasmp.cublasMpCreate(&raw mut blas, device.stream().cast()) }
            .outcome()
            .map_err(failed("cublasMpCreate"))?;
        HANDLES.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            device: ordinal,
            libraries: Libraries { cusolvermp, solver, cublasmp, blas },
            grids: HashMap::new(),
            solver_matrices: HashMap::new(),
            blas_matrices: HashMap::new(),
            workspaces: HashMap::new(),
            host,
            last_host: 0,
            spare,
            no_memory: Box::default(),
        })
    }

    /// The libraries and this device's handles.
    pub(super) fn libraries(&self) -> Libraries {
        self.libraries
    }

    /// Has both libraries enqueue everything on `stream` from now on, so that neither holds on to an
    /// older one.
    pub(super) fn set_stream(&self, stream: sys::CUstream) -> Outcome {
        let Libraries { cusolvermp, solver, cublasmp, blas } = self.libraries;
        // SAFETY: the handles are live, and so is the stream for the call that holds this lock.
        unsafe {
            cusolvermp.cusolverMpSetStream(solver, stream.cast()).outcome()?;
            cublasmp.cublasMpSetStream(blas, stream.cast()).outcome()
        }
    }

    /// Makes a grid in both libraries. Collective over the communicator.
    pub(super) fn make_grids(&self, key: GridKey, rank: u64) -> Result<Grids> {
        let Libraries { cusolvermp, solver: handle, cublasmp, .. } = self.libraries;
        let failed = |function| move |failure: Failure| failure.describe(function, rank, self.device);
        let side = |value: u64| {
            i32::try_from(value)
                .map_err(|_| Error::invalid_argument(format!("a process grid with a side of {value}")))
        };
        let [rows, cols] = [side(key.rows)?, side(key.cols)?];
        let (mut solver, mut blas) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the handle is live, and so is the communicator of a kept group; writes one grid.
        unsafe {
            cusolvermp.cusolverMpCreateDeviceGrid(
                handle,
                &raw mut solver,
                key.communicator,
                rows,
                cols,
                cusolverMpGridMapping_t::CUSOLVERMP_GRID_MAPPING_ROW_MAJOR,
            )
        }
        .outcome()
        .map_err(failed("cusolverMpCreateDeviceGrid"))?;
        GRIDS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe {
            cublasmp.cublasMpGridCreate(
                rows.into(),
                cols.into(),
                cublasMpGridLayout_t::CUBLASMP_GRID_LAYOUT_ROW_MAJOR,
                key.communicator,
                &raw mut blas,
            )
        }
        .outcome()
        .map_err(failed("cublasMpGridCreate"))?;
        GRIDS.fetch_add(1, Ordering::Relaxed);
        Ok(Grids { solver, blas })
    }

    /// Keeps grids that all ranks have made.
    pub(super) fn keep_grids(&mut self, key: GridKey, grids: Grids) {
        self.grids.insert(key, grids);
    }

    /// cuSOLVERMp's descriptor of matrices of this shape, made the first time.
    pub(super) fn solver_matrix(
        &mut self,
        grid: cusolverMpGrid_t,
        shape: Shape,
    ) -> Result<cusolverMpMatrixDescriptor_t, Failure> {
        if let Some(&descriptor) = self.solver_matrices.get(&(grid, shape)) {
            return Ok(descriptor);
        }
        let Shape { kind, rows, cols, row_tile, col_tile, leading_dimension } = shape;
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the grid is live; writes one descriptor.
        unsafe {
            self.libraries.cusolvermp.cusolverMpCreateMatrixDesc(
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
        }
        .outcome()?;
        DESCRIPTORS.fetch_add(1, Ordering::Relaxed);
        self.solver_matrices.insert((grid, shape), descriptor);
        Ok(descriptor)
    }

    /// cuBLASMp's descriptor of matrices of this shape, made the first time.
    pub(super) fn blas_matrix(
        &mut self,
        grid: cublasMpGrid_t,
        shape: Shape,
    ) -> Result<cublasMpMatrixDescriptor_t, Failure> {
        if let Some(&descriptor) = self.blas_matrices.get(&(grid, shape)) {
            return Ok(descriptor);
        }
        let Shape { kind, rows, cols, row_tile, col_tile, leading_dimension } = shape;
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the grid is live; writes one descriptor.
        unsafe {
            self.libraries.cublasmp.cublasMpMatrixDescriptorCreate(
                rows,
                cols,
                row_tile,
                col_tile,
                0,
                0,
                leading_dimension,
                kind,
                grid,
                &raw mut descriptor,
            )
        }
        .outcome()?;
        DESCRIPTORS.fetch_add(1, Ordering::Relaxed);
        self.blas_matrices.insert((grid, shape), descriptor);
        Ok(descriptor)
    }

    /// The size of a workspace, which `ask` has the library write the first time.
    pub(super) fn workspace(
        &mut self,
        key: WorkspaceKey,
        ask: impl FnOnce(&mut Workspace) -> Outcome,
    ) -> Result<Workspace, Failure> {
        if let Some(&workspace) = self.workspaces.get(&key) {
            return Ok(workspace);
        }
        let mut workspace = Workspace { device: 0, host: 0 };
        ask(&mut workspace)?;
        self.workspaces.insert(key, workspace);
        Ok(workspace)
    }

    /// The buffer's address; one that is not null for a buffer of length 0 too, as the library wants it
    /// from ranks that own nothing.
    pub(super) fn address(&self, buffer: Buffer) -> *mut c_void {
        (if buffer.is_empty() { self.spare } else { buffer.address() }) as *mut c_void
    }

    /// Calls the library with a block of `bytes` bytes of host memory, which it may use until `stream`
    /// has passed the call. Where it needs none the address is still not null.
    pub(super) fn with_host_workspace(
        &mut self,
        stream: sys::CUstream,
        bytes: usize,
        call: impl FnOnce(*mut c_void) -> Outcome,
    ) -> Outcome {
        if bytes == 0 {
            return call(self.no_memory.as_mut_ptr().cast());
        }
        self.last_host = (self.last_host + 1) % HOST_WORKSPACES;
        let workspace = &mut self.host[self.last_host];
        workspace.make_room(bytes).map_err(Failure::Other)?;
        let outcome = call(workspace.memory.as_mut_ptr().cast());
        // Even after a failure: part of the work may have been enqueued.
        workspace.record(stream).map_err(Failure::Other)?;
        outcome
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

    /// Waits until the last user is done, then sees to at least `bytes` bytes.
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        // SAFETY: the event is live; one that was never recorded counts as over.
        let result = unsafe { sys::cuEventSynchronize(self.done) };
        cuda::check(result, || "waiting for an earlier call of the solver".into())?;
        let words = bytes.div_ceil(size_of::<u128>());
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
