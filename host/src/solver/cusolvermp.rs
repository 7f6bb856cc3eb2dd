//! NVIDIA's cuSOLVERMp and cuBLASMp: the distributed solver on GPUs.
//!
//! What the libraries make is kept for the life of the process; a [`CusolverMpSolver`] is one call's view
//! of it. Each of their functions is put together as a `Call` in the module of its routine.

mod blas;
mod cholesky;
mod eigen;
mod failure;
mod kept;
mod lu;

use super::checks::{check_alike, check_factor, check_pivots, check_product, check_system, check_values};
use super::{DistributedMatrix, Eigenproblem, Product, Solver, Triangle, Triangular};
use crate::communicator::nccl::NcclCommunicator;
use crate::communicator::{Ballot, Communicator};
use crate::device::cuda::{self, CudaDevice};
use crate::device::{Buffer, Device};
use crate::layout::ProcessGrid;
use crate::{DType, Error, Result, libraries};
use cublasmp_sys::{cublasFillMode_t, cublasMpMatrixDescriptor_t, cudaDataType_t};
use cusolvermp_sys::{cusolverMpMatrixDescriptor_t, cusolverStatus_t};
use cust::sys;
use eigen::PackedProblem;
use failure::{Failure, Outcome};
pub use kept::{Counters, counters};
use kept::{GridKey, Grids, Kept, Libraries, Shape, Workspace, WorkspaceKey};
use std::cell::Cell;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All matrices are used from their first row and column on (counted from 1, as in ScaLAPACK).
const FIRST: i64 = 1;

/// cuSOLVERMp for one call, on the stream of its device and over the ranks of its communicator.
pub struct CusolverMpSolver<'a> {
    device: &'a CudaDevice<'a>,
    libraries: Libraries,
    kept: &'static Mutex<Kept>,
    /// The libraries' grids, which live as long as the process.
    grids: Grids,
    process_grid: ProcessGrid,
    rank: u64,
    most_scratch: Cell<u64>,
}

impl<'a> CusolverMpSolver<'a> {
    /// The solver for matrices over `grid`, whose ranks are those of `communicator`.
    ///
    /// The libraries' handles hold on to the stream of its last call: the stream of `device` must stay
    /// alive until a later call on the device used another one.
    ///
    /// Collective. The first time on a grid it loads the libraries and makes what is kept, and all ranks
    /// agree that it worked.
    ///
    /// # Errors
    /// The same on every rank: a missing library, versions that differ between ranks, a failure of the
    /// libraries.
    pub fn new(
        communicator: &NcclCommunicator,
        device: &'a CudaDevice<'a>,
        grid: ProcessGrid,
    ) -> Result<Self> {
        let rank = communicator.rank();
        let solver = |kept: &'static Mutex<Kept>, made| Self {
            device,
            libraries: lock(kept).libraries(),
            kept,
            grids: made,
            process_grid: grid,
            rank,
            most_scratch: Cell::new(0),
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
        let made = lock(kept).make_grids(key, rank);
        // Only a grid that every rank has is kept: the ranks' memories never differ.
        let verdict = made.as_ref().map(|_| ()).map_err(Clone::clone);
        communicator.agree(Ballot { fingerprint: fingerprint(grid), verdict })?;
        let made = made?;
        lock(kept).keep_grids(key, made);
        Ok(solver(kept, made))
    }

    /// The most bytes of device scratch that this rank was told so far to bring along, through the methods of
    /// [`Solver`].
    pub fn most_scratch(&self) -> u64 {
        self.most_scratch.get()
    }

    /// Locks what is kept for the device and turns the libraries to this call's stream.
    fn enter(&self) -> Result<MutexGuard<'static, Kept>> {
        let kept = lock(self.kept);
        kept.set_stream(self.device.stream())
            .map_err(|failure| self.failure("setting the stream", failure))?;
        Ok(kept)
    }

    /// Sets the word to 0: where there is nothing for the library to do, and where it may leave the word alone.
    fn succeed(&self, info: Buffer) -> Result<()> {
        let device: &dyn Device = self.device;
        device.fill(DType::I32, info, [0; 2], None)
    }

    fn solver_matrix(&self, kept: &mut Kept, m: &DistributedMatrix) -> Result<cusolverMpMatrixDescriptor_t> {
        kept.solver_matrix(self.grids.solver, shape(m)?)
            .map_err(|failure| self.failure("cusolverMpCreateMatrixDesc", failure))
    }

    fn blas_matrix(&self, kept: &mut Kept, m: &DistributedMatrix) -> Result<cublasMpMatrixDescriptor_t> {
        kept.blas_matrix(self.grids.blas, shape(m)?)
            .map_err(|failure| self.failure("cublasMpMatrixDescriptorCreate", failure))
    }

    /// Bytes of workspace for the call, the first time as the library says.
    fn workspace(&self, kept: &mut Kept, call: &Call) -> Result<Workspace> {
        kept.workspace(call.key, |workspace| (call.sizes)(workspace))
            .map_err(|failure| self.failure(call.key.function, failure).context("asking for workspace"))
    }

    /// The device scratch that a call takes, in bytes.
    fn scratch(&self, kept: &mut Kept, call: &Call) -> Result<u64> {
        let bytes = (self.workspace(kept, call)?.device as u64).next_multiple_of(256);
        self.most_scratch.set(self.most_scratch.get().max(bytes));
        Ok(bytes)
    }

    /// Makes the call, with `scratch` on the device and kept memory on the host.
    fn run(&self, kept: &mut Kept, call: &Call, scratch: Buffer) -> Result<()> {
        let workspace = self.workspace(kept, call)?;
        let function = call.key.function;
        if scratch.bytes() < workspace.device as u64 {
            return Err(Error::internal(format!(
                "rank {}: {} bytes of scratch for {function}, needed {}",
                self.rank,
                scratch.bytes(),
                workspace.device
            )));
        }
        let device_work = kept.address(scratch);
        let outcome = kept.with_host_workspace(self.device.stream(), workspace.host, |host_work| {
            (call.run)(Memory { device: device_work, host: host_work, bytes: workspace })
        });
        match (outcome, call.info) {
            // The library waits for a factorisation's result and calls one that failed an internal error,
            // with the reason in `info`, where callers look for it.
            (Err(Failure::Solver(cusolverStatus_t::CUSOLVER_STATUS_INTERNAL_ERROR)), Some(info))
                if self.read(info)? > 0 =>
            {
                Ok(())
            }
            (outcome, _) => outcome.map_err(|failure| self.failure(function, failure)),
        }
    }

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

    /// Checks the matrices of an eigenproblem and that the library is right about vectors.
    fn check_eigen(&self, Eigenproblem { a, metric, vectors }: Eigenproblem<'_>) -> Result<()> {
        if vectors.is_some() {
            libraries::require_cusolvermp(eigen::OLDEST_WITH_VECTORS, "eigenvectors")?;
        }
        check_factor(self.rank, self.process_grid, a)?;
        for (name, other) in [("M", metric), ("V", vectors)] {
            if let Some(other) = other {
                check_alike(self.rank, self.process_grid, a, name, other)?;
            }
        }
        Ok(())
    }

    /// An error that says where it happened.
    fn failure(&self, function: &str, failure: Failure) -> Error {
        failure.describe(function, self.rank, self.device.ordinal())
    }
}

/// A function of one of the libraries with all its arguments but the workspace.
struct Call {
    key: WorkspaceKey,
    /// Has the library write how much workspace it needs.
    sizes: Box<dyn Fn(&mut Workspace) -> Outcome>,
    /// Calls it. The memory must have the sizes asked for and stay valid until the stream has passed the
    /// call, as must the matrices, which were checked to lie in their buffers.
    run: Box<dyn Fn(Memory) -> Outcome>,
    /// The word for the reason why a factorisation or an iteration failed.
    info: Option<Buffer>,
}

/// Workspace of one call.
struct Memory {
    device: *mut c_void,
    host: *mut c_void,
    bytes: Workspace,
}

impl Solver for CusolverMpSolver<'_> {
    fn cholesky_factor_scratch(&self, triangle: Triangle, a: &DistributedMatrix) -> Result<u64> {
        check_factor(self.rank, self.process_grid, a)?;
        if is_empty(a) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let call = self.potrf(kept, triangle, a, Buffer::EMPTY)?;
        self.scratch(kept, &call)
    }

    fn cholesky_factor(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        check_factor(self.rank, self.process_grid, a)?;
        // The library may fail without a reason, which `info` must not seem to give.
        self.succeed(info)?;
        if is_empty(a) {
            return Ok(());
        }
        let kept = &mut *self.enter()?;
        let call = self.potrf(kept, triangle, a, info)?;
        self.run(kept, &call, scratch)
    }

    fn cholesky_solve_scratch(
        &self,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        check_system(self.rank, self.process_grid, a, b)?;
        if is_empty(b) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let call = self.potrs(kept, triangle, a, b, Buffer::EMPTY)?;
        self.scratch(kept, &call)
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
        if is_empty(b) {
            return self.succeed(info);
        }
        let kept = &mut *self.enter()?;
        let call = self.potrs(kept, triangle, a, b, info)?;
        self.run(kept, &call, scratch)
    }

    fn lu_factor_scratch(&self, a: &DistributedMatrix) -> Result<u64> {
        check_factor(self.rank, self.process_grid, a)?;
        if is_empty(a) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let call = self.getrf(kept, a, Buffer::EMPTY, Buffer::EMPTY)?;
        self.scratch(kept, &call)
    }

    fn lu_factor(&self, a: &DistributedMatrix, pivots: Buffer, scratch: Buffer, info: Buffer) -> Result<()> {
        check_factor(self.rank, self.process_grid, a)?;
        check_pivots(self.rank, a, pivots)?;
        // The library may fail without a reason, which `info` must not seem to give.
        self.succeed(info)?;
        if is_empty(a) {
            return Ok(());
        }
        let kept = &mut *self.enter()?;
        let call = self.getrf(kept, a, pivots, info)?;
        self.run(kept, &call, scratch)
    }

    fn lu_solve_scratch(&self, a: &DistributedMatrix, b: &DistributedMatrix) -> Result<u64> {
        check_system(self.rank, self.process_grid, a, b)?;
        if is_empty(b) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let call = self.getrs(kept, a, Buffer::EMPTY, b, Buffer::EMPTY)?;
        self.scratch(kept, &call)
    }

    fn lu_solve(
        &self,
        a: &DistributedMatrix,
        pivots: Buffer,
        b: &DistributedMatrix,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        check_system(self.rank, self.process_grid, a, b)?;
        check_pivots(self.rank, a, pivots)?;
        if is_empty(b) {
            return self.succeed(info);
        }
        let kept = &mut *self.enter()?;
        let call = self.getrs(kept, a, pivots, b, info)?;
        self.run(kept, &call, scratch)
    }

    fn triangular_scratch(
        &self,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<u64> {
        check_system(self.rank, self.process_grid, a, b)?;
        if is_empty(b) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let call = self.trsm(kept, form, a, b)?;
        self.scratch(kept, &call)
    }

    fn triangular_solve(
        &self,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()> {
        check_system(self.rank, self.process_grid, a, b)?;
        if is_empty(b) {
            return Ok(());
        }
        let kept = &mut *self.enter()?;
        let call = self.trsm(kept, form, a, b)?;
        self.run(kept, &call, scratch)
    }

    fn eigen_scratch(&self, problem: Eigenproblem<'_>) -> Result<u64> {
        self.check_eigen(problem)?;
        if is_empty(problem.a) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let packed = PackedProblem::new(self.rank, problem);
        let call = self.eigen_call(kept, packed.problem(), Buffer::EMPTY, Buffer::EMPTY)?;
        Ok(self.scratch(kept, &call)?.max(packed.scratch()))
    }

    fn eigen(&self, problem: Eigenproblem<'_>, values: Buffer, scratch: Buffer, info: Buffer) -> Result<()> {
        self.check_eigen(problem)?;
        check_values(self.rank, problem.a, values)?;
        self.succeed(info)?;
        if is_empty(problem.a) {
            return Ok(());
        }
        if let Some(metric) = problem.metric {
            return self.eigen_with_metric(problem, metric, values, scratch, info);
        }
        let kept = &mut *self.enter()?;
        let call = self.eigen_call(kept, problem, values, info)?;
        self.run(kept, &call, scratch)
    }

    fn multiply_scratch(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
    ) -> Result<u64> {
        check_product(self.rank, self.process_grid, product, a, b, c)?;
        if is_empty(c) {
            return Ok(0);
        }
        let kept = &mut *self.enter()?;
        let call = self.gemm(kept, product, a, b, c)?;
        self.scratch(kept, &call)
    }

    fn multiply(
        &self,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
        scratch: Buffer,
    ) -> Result<()> {
        check_product(self.rank, self.process_grid, product, a, b, c)?;
        if is_empty(c) {
            return Ok(());
        }
        let kept = &mut *self.enter()?;
        let call = self.gemm(kept, product, a, b, c)?;
        self.run(kept, &call, scratch)
    }
}

/// Whether the whole matrix has no element, so that there is nothing for a library to do.
fn is_empty(m: &DistributedMatrix) -> bool {
    m.rows.extent() == 0 || m.cols.extent() == 0
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

/// The matrix as the libraries' descriptors say it.
fn shape(m: &DistributedMatrix) -> Result<Shape> {
    Ok(Shape {
        kind: data_type(m.dtype)?,
        rows: int(m.rows.extent())?,
        cols: int(m.cols.extent())?,
        row_tile: int(m.rows.tile())?,
        col_tile: int(m.cols.tile())?,
        leading_dimension: int(m.leading_dimension)?,
    })
}

fn data_type(dtype: DType) -> Result<cudaDataType_t> {
    match dtype {
        DType::F32 => Ok(cudaDataType_t::CUDA_R_32F),
        DType::F64 => Ok(cudaDataType_t::CUDA_R_64F),
        DType::C64 => Ok(cudaDataType_t::CUDA_C_32F),
        DType::C128 => Ok(cudaDataType_t::CUDA_C_64F),
        DType::I32 => Err(Error::internal("a matrix of integers for a solver")),
    }
}

fn fill_mode(triangle: Triangle) -> cublasFillMode_t {
    match triangle {
        Triangle::Lower => cublasFillMode_t::CUBLAS_FILL_MODE_LOWER,
        Triangle::Upper => cublasFillMode_t::CUBLAS_FILL_MODE_UPPER,
    }
}

/// A size as the libraries take it.
fn int(value: u64) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| Error::invalid_argument(format!("cuSOLVERMp and cuBLASMp count in i64, got {value}")))
}

fn lock(kept: &'static Mutex<Kept>) -> MutexGuard<'static, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
