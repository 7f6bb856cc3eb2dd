//! NVIDIA's cuSOLVERMp: the distributed solver on GPUs.
//!
//! What the library makes is kept for the life of the process; a [`CusolverMpSolver`] is one call's view of it.

mod kept;

use super::checks::{check_factor, check_system};
use super::{DistributedMatrix, Solver, Triangle};
use crate::communicator::nccl::NcclCommunicator;
use crate::communicator::{Ballot, Communicator};
use crate::device::cuda::{self, CudaDevice};
use crate::device::{Buffer, Device};
use crate::layout::ProcessGrid;
use crate::{DType, Error, Result, libraries};
use cublasmp_sys::{cublasFillMode_t, cudaDataType_t};
use cusolvermp_sys::{cusolverMpGrid_t, cusolverMpMatrixDescriptor_t, cusolverStatus_t};
use cust::sys;
pub use kept::{Counters, counters};
use kept::{Failure, GridKey, Kept, Library, Shape, Step, Workspace, WorkspaceKey};
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All matrices are used from their first row and column on (counted from 1, as in ScaLAPACK).
const FIRST: i64 = 1;

/// cuSOLVERMp for one call, on the stream of its device and over the ranks of its communicator.
pub struct CusolverMpSolver<'a> {
    device: &'a CudaDevice<'a>,
    library: Library,
    kept: &'static Mutex<Kept>,
    /// The library's grid, which lives as long as the process.
    grid: cusolverMpGrid_t,
    process_grid: ProcessGrid,
    rank: u64,
}

impl<'a> CusolverMpSolver<'a> {
    /// The solver for matrices over `grid`, whose ranks are those of `communicator`.
    ///
    /// The library's handle holds on to the stream of its last call: the stream of `device` must stay
    /// alive until a later call on the device used another one.
    ///
    /// Collective. The first time on a grid it loads the library and makes what is kept, and all ranks
    /// agree that it worked.
    ///
    /// # Errors
    /// The same on every rank: a missing library, versions that differ between ranks, a failure of the
    /// library.
    pub fn new(
        communicator: &NcclCommunicator,
        device: &'a CudaDevice<'a>,
        grid: ProcessGrid,
    ) -> Result<Self> {
        let rank = communicator.rank();
        let solver = |kept: &'static Mutex<Kept>, made| Self {
            device,
            library: lock(kept).library(),
            kept,
            grid: made,
            process_grid: grid,
            rank,
        };
        let key = GridKey { communicator: communicator.group().raw(), rows: grid.rows(), cols: grid.cols() };
        if let Some((kept, made)) = Kept::find(device, key) {
            return Ok(solver(kept, made));
        }
        if grid.size() != communicator.size() {
            return Err(Error::internal(format!(
                "rank {rank}: a grid of {} processes over a group of {}",
                grid.size(),
                communicator.size()
            )));
        }
        // A rank that cannot go on must say so before the others begin what needs all of them.
        let kept = Kept::of_device(device, rank);
        let verdict = kept.as_ref().map(|_| ()).map_err(Clone::clone);
        communicator.agree(Ballot { fingerprint: fingerprint(grid), verdict })?;
        let kept = kept?;
        let made = lock(kept).make_grid(key, rank);
        // Only a grid that every rank has is kept: the ranks' memories never differ.
        let verdict = made.as_ref().map(|_| ()).map_err(Clone::clone);
        communicator.agree(Ballot { fingerprint: fingerprint(grid), verdict })?;
        let made = made?;
        lock(kept).keep_grid(key, made);
        Ok(solver(kept, made))
    }

    /// Locks what is kept for the device and turns the library to this call's stream.
    fn enter(&self) -> Result<MutexGuard<'static, Kept>> {
        let kept = lock(self.kept);
        kept.set_stream(self.device.stream())
            .map_err(|failure| self.failure("cusolverMpSetStream", failure))?;
        Ok(kept)
    }

    /// Sets the word to 0 where there is nothing for the library to do.
    fn succeed(&self, info: Buffer) -> Result<()> {
        let device: &dyn Device = self.device;
        device.fill(DType::I32, info, [0; 2], None)
    }

    fn descriptor(&self, kept: &mut Kept, m: &DistributedMatrix) -> Result<cusolverMpMatrixDescriptor_t> {
        let shape = Shape {
            kind: data_type(m.dtype)?,
            rows: int(m.rows.extent())?,
            cols: int(m.cols.extent())?,
            row_tile: int(m.rows.tile())?,
            col_tile: int(m.cols.tile())?,
            leading_dimension: int(m.leading_dimension)?,
        };
        kept.descriptor(self.grid, shape)
            .map_err(|failure| self.failure("cusolverMpCreateMatrixDesc", failure))
    }

    /// What [`Solver::cholesky_factor`] passes to the library.
    fn factor_call(&self, kept: &mut Kept, triangle: Triangle, a: &DistributedMatrix) -> Result<FactorCall> {
        let descriptor = self.descriptor(kept, a)?;
        let call = FactorCall {
            triangle: fill_mode(triangle),
            order: int(a.rows.extent())?,
            kind: data_type(a.dtype)?,
            a: kept.address(a.data),
            descriptor,
        };
        Ok(call)
    }

    fn factor_workspace(&self, kept: &mut Kept, call: &FactorCall) -> Result<Workspace> {
        let key = WorkspaceKey { step: Step::Factor, triangle: call.triangle, a: call.descriptor, b: None };
        let Library { table, handle } = self.library;
        let FactorCall { triangle, order, kind, a, descriptor } = *call;
        let sizes = kept.workspace(key, |device, host| {
            // SAFETY: the handle and the descriptor are live; two sizes are written.
            unsafe {
                table.cusolverMpPotrf_bufferSize(
                    handle,
                    triangle,
                    order,
                    a.cast_const(),
                    FIRST,
                    FIRST,
                    descriptor,
                    kind,
                    device,
                    host,
                )
            }
        });
        sizes.map_err(|failure| self.failure("cusolverMpPotrf_bufferSize", failure))
    }

    /// What [`Solver::cholesky_solve`] passes to the library.
    fn solve_call(
        &self,
        kept: &mut Kept,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<SolveCall> {
        let factor = self.factor_call(kept, triangle, a)?;
        let descriptor = self.descriptor(kept, b)?;
        Ok(SolveCall { factor, columns: int(b.cols.extent())?, b: kept.address(b.data), descriptor })
    }

    fn solve_workspace(&self, kept: &mut Kept, call: &SolveCall) -> Result<Workspace> {
        let SolveCall { factor, columns, b, descriptor } = *call;
        let key = WorkspaceKey {
            step: Step::Solve,
            triangle: factor.triangle,
            a: factor.descriptor,
            b: Some(descriptor),
        };
        let Library { table, handle } = self.library;
        let sizes = kept.workspace(key, |device, host| {
            // SAFETY: the handle and the descriptors are live; two sizes are written.
            unsafe {
                table.cusolverMpPotrs_bufferSize(
                    handle,
                    factor.triangle,
                    factor.order,
                    columns,
                    factor.a.cast_const(),
                    FIRST,
                    FIRST,
                    factor.descriptor,
                    b.cast_const(),
                    FIRST,
                    FIRST,
                    descriptor,
                    factor.kind,
                    device,
                    host,
                )
            }
        });
        sizes.map_err(|failure| self.failure("cusolverMpPotrs_bufferSize", failure))
    }

    /// The scratch as the library takes it, at least as long as it asked for.
    fn device_workspace(&self, kept: &Kept, scratch: Buffer, workspace: Workspace) -> Result<*mut c_void> {
        if scratch.bytes() >= workspace.device as u64 {
            return Ok(kept.address(scratch));
        }
        Err(Error::internal(format!(
            "rank {}: {} bytes of scratch for cuSOLVERMp, needed {}",
            self.rank,
            scratch.bytes(),
            workspace.device
        )))
    }

    /// Turns what a call of the library left behind into an error that says where it happened.
    /// Waits for a word on the device.
    fn read(&self, word: Buffer) -> Result<i32> {
        let mut value = 0_i32;
        let stream = self.device.stream();
        // SAFETY: the word is on this device; the value is filled before the wait ends.
        unsafe {
            let result =
                sys::cuMemcpyDtoHAsync_v2((&raw mut value).cast(), word.address(), size_of::<i32>(), stream);
            cuda::check(result, || "reading a status".into())?;
            cuda::check(sys::cuStreamSynchronize(stream), || "waiting for a status".into())?;
        }
        Ok(value)
    }

    fn failure(&self, function: &str, failure: Failure) -> Error {
        failure.describe(function, self.rank, self.device.ordinal(), self.library.table)
    }
}

/// Arguments of potrf.
#[derive(Clone, Copy)]
struct FactorCall {
    triangle: cublasFillMode_t,
    order: i64,
    kind: cudaDataType_t,
    a: *mut c_void,
    descriptor: cusolverMpMatrixDescriptor_t,
}

/// Arguments of potrs.
#[derive(Clone, Copy)]
struct SolveCall {
    factor: FactorCall,
    columns: i64,
    b: *mut c_void,
    descriptor: cusolverMpMatrixDescriptor_t,
}

impl Solver for CusolverMpSolver<'_> {
    fn cholesky_scratch(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        check_system(self.rank, self.process_grid, a, b)?;
        if a.rows.extent() == 0 {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let factor = self.factor_call(kept, triangle, a)?;
        let mut bytes = self.factor_workspace(kept, &factor)?.device;
        if b.cols.extent() > 0 {
            let solve = self.solve_call(kept, triangle, a, b)?;
            bytes = bytes.max(self.solve_workspace(kept, &solve)?.device);
        }
        Ok((bytes as u64).next_multiple_of(256))
    }

    fn cholesky_factor(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        check_factor(self.rank, self.process_grid, a)?;
        if a.rows.extent() == 0 {
            return self.succeed(info);
        }
        let kept = &mut *self.enter()?;
        let call = self.factor_call(kept, triangle, a)?;
        let workspace = self.factor_workspace(kept, &call)?;
        let device_work = self.device_workspace(kept, scratch, workspace)?;
        let Library { table, handle } = self.library;
        let FactorCall { triangle, order, kind, a, descriptor } = call;
        let outcome = kept.with_host_workspace(self.device.stream(), workspace.host, |host_work| {
            // SAFETY: handle and descriptor are live and the stream is this call's; the matrix was
            // checked to lie in its buffer; both workspaces have the lengths given; the word is on
            // this device. All stays valid until the stream has passed the call.
            unsafe {
                table.cusolverMpPotrf(
                    handle,
                    triangle,
                    order,
                    a,
                    FIRST,
                    FIRST,
                    descriptor,
                    kind,
                    device_work,
                    workspace.device,
                    host_work,
                    workspace.host,
                    info.address() as *mut i32,
                )
            }
        });
        match outcome {
            // The library waits for its result and calls a matrix that is not positive definite an
            // internal error, with the order of the minor in `info`, where callers look for it.
            Err(Failure::Status(cusolverStatus_t::CUSOLVER_STATUS_INTERNAL_ERROR))
                if self.read(info)? > 0 =>
            {
                Ok(())
            }
            outcome => outcome.map_err(|failure| self.failure("cusolverMpPotrf", failure)),
        }
    }

    fn cholesky_solve(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        check_system(self.rank, self.process_grid, a, b)?;
        if a.rows.extent() == 0 || b.cols.extent() == 0 {
            return self.succeed(info);
        }
        let kept = &mut *self.enter()?;
        let call = self.solve_call(kept, triangle, a, b)?;
        let workspace = self.solve_workspace(kept, &call)?;
        let device_work = self.device_workspace(kept, scratch, workspace)?;
        let Library { table, handle } = self.library;
        let SolveCall { factor, columns, b, descriptor } = call;
        let outcome = kept.with_host_workspace(self.device.stream(), workspace.host, |host_work| {
            // SAFETY: as for the factorisation; the right-hand sides were checked too.
            unsafe {
                table.cusolverMpPotrs(
                    handle,
                    factor.triangle,
                    factor.order,
                    columns,
                    factor.a.cast_const(),
                    FIRST,
                    FIRST,
                    factor.descriptor,
                    b,
                    FIRST,
                    FIRST,
                    descriptor,
                    factor.kind,
                    device_work,
                    workspace.device,
                    host_work,
                    workspace.host,
                    info.address() as *mut i32,
                )
            }
        });
        outcome.map_err(|failure| self.failure("cusolverMpPotrs", failure))
    }
}

/// What has to be the same on all ranks before a grid is made: its shape and the libraries' versions.
fn fingerprint(grid: ProcessGrid) -> u64 {
    let mut hasher = DefaultHasher::new();
    grid.hash(&mut hasher);
    for library in libraries::loaded() {
        (library.name, library.version).hash(&mut hasher);
    }
    hasher.finish()
}

fn data_type(dtype: DType) -> Result<cudaDataType_t> {
    match dtype {
        DType::F32 => Ok(cudaDataType_t::CUDA_R_32F),
        DType::F64 => Ok(cudaDataType_t::CUDA_R_64F),
        DType::C64 => Ok(cudaDataType_t::CUDA_C_32F),
        DType::C128 => Ok(cudaDataType_t::CUDA_C_64F),
        DType::I32 => Err(Error::internal("a matrix of integers for cuSOLVERMp")),
    }
}

fn fill_mode(triangle: Triangle) -> cublasFillMode_t {
    match triangle {
        Triangle::Lower => cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
        Triangle::Upper => cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
    }
}

/// A size as cuSOLVERMp takes it.
fn int(value: u64) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| Error::invalid_argument(format!("cuSOLVERMp counts in i64, got {value}")))
}

fn lock(kept: &'static Mutex<Kept>) -> MutexGuard<'static, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
