//! Eigenvalues and eigenvectors of Hermitian matrices: cuSOLVERMp's syevd, and sygvd with a metric.

use super::failure::Status;
use super::kept::{Kept, Libraries, Workspace, WorkspaceKey};
use super::{Call, CusolverMpSolver, FIRST, Memory, data_type, fill_mode, int};
use crate::Result;
use crate::device::{Buffer, Device};
use crate::solver::{DistributedMatrix, Eigenproblem, Triangle};
use cublasmp_sys::cublasFillMode_t;
use cusolvermp_sys::{cusolverEigMode_t, cusolverEigType_t};
use std::ptr;

/// The oldest cuSOLVERMp whose eigenvectors can be relied on: an older one may return wrong ones without
/// a word.
pub(super) const OLDEST_WITH_VECTORS: [u32; 3] = [0, 9, 1];

/// A·v = λ·M·v.
const TYPE_1: cusolverEigType_t = cusolverEigType_t::CUSOLVER_EIG_TYPE_1;

/// A matrix for vectors that are not wanted, which the library wants all the same and leaves alone: one of A's
/// shape, at an address that is not null.
fn or_none(vectors: Option<&DistributedMatrix>, a: &DistributedMatrix) -> DistributedMatrix {
    vectors.copied().unwrap_or(DistributedMatrix { data: Buffer::EMPTY, ..*a })
}

/// The matrices of a problem without rows to spare: cuSOLVERMp 0.9.1's sygvd, and its sygst, give wrong numbers
/// where a leading dimension is larger than the rows that a rank owns. Only a metric brings them into play.
pub(super) struct PackedProblem {
    a: DistributedMatrix,
    metric: Option<DistributedMatrix>,
    vectors: Option<DistributedMatrix>,
}

impl PackedProblem {
    pub(super) fn new(rank: u64, Eigenproblem { a, metric, vectors }: Eigenproblem<'_>) -> Self {
        let pack = |m: &DistributedMatrix| {
            let rows = m.rows.count(m.grid.coordinate(rank).row).max(1);
            let leading_dimension = if metric.is_some() { rows } else { m.leading_dimension };
            DistributedMatrix { leading_dimension, ..*m }
        };
        Self { a: pack(a), metric: metric.map(pack), vectors: vectors.map(pack) }
    }

    pub(super) fn problem(&self) -> Eigenproblem<'_> {
        Eigenproblem { a: &self.a, metric: self.metric.as_ref(), vectors: self.vectors.as_ref() }
    }

    /// Bytes that packing needs at least: one column's.
    pub(super) fn scratch(&self) -> u64 {
        self.a.leading_dimension * self.a.dtype.size()
    }
}

impl CusolverMpSolver<'_> {
    /// An eigenproblem with a metric, its matrices packed where they stand and V unpacked.
    pub(super) fn eigen_with_metric(
        &self,
        problem: Eigenproblem<'_>,
        metric: &DistributedMatrix,
        values: Buffer,
        scratch: Buffer,
        info: Buffer,
    ) -> Result<()> {
        let packed = PackedProblem::new(self.rank, problem);
        for m in [problem.a, metric] {
            self.repack(m, packed.a.leading_dimension, scratch)?;
        }
        {
            let kept = &mut *self.enter()?;
            let call = self.eigen_call(kept, packed.problem(), values, info)?;
            self.run(kept, &call, scratch)?;
        }
        match (&packed.vectors, problem.vectors) {
            (Some(vectors), Some(wanted)) => self.repack(vectors, wanted.leading_dimension, scratch),
            _ => Ok(()),
        }
    }

    /// Gives this rank's part another leading dimension where it stands, by way of the scratch: from the first
    /// columns on to a smaller one, from the last ones on to a larger one, so that none is overwritten unread.
    fn repack(&self, m: &DistributedMatrix, leading_dimension: u64, scratch: Buffer) -> Result<()> {
        let at = m.grid.coordinate(self.rank);
        let (rows, cols, from, to) =
            (m.rows.count(at.row), m.cols.count(at.col), m.leading_dimension, leading_dimension);
        if from == to || rows * cols == 0 {
            return Ok(());
        }
        let device: &dyn Device = self.device;
        let size = m.dtype.size();
        let step = scratch.bytes() / (rows * size);
        let parts = cols.div_ceil(step);
        for part in 0..parts {
            let first = step * if to < from { part } else { parts - 1 - part };
            let count = step.min(cols - first);
            let window = |ld: u64| m.data.slice(first * ld * size, ((count - 1) * ld + rows) * size);
            device.copy_lines(m.dtype, window(from), from, scratch, rows, rows, count)?;
            device.copy_lines(m.dtype, scratch, rows, window(to), to, rows, count)?;
        }
        Ok(())
    }

    /// The call for a problem.
    pub(super) fn eigen_call(
        &self,
        kept: &mut Kept,
        Eigenproblem { a, metric, vectors }: Eigenproblem<'_>,
        values: Buffer,
        info: Buffer,
    ) -> Result<Call> {
        match metric {
            None => self.syevd(kept, a, values, vectors, info),
            Some(metric) => self.sygvd(kept, [a, metric], values, vectors, info),
        }
    }

    fn syevd(
        &self,
        kept: &mut Kept,
        a: &DistributedMatrix,
        values: Buffer,
        vectors: Option<&DistributedMatrix>,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (order, kind, uplo) = (int(a.rows.extent())?, data_type(a.dtype)?, lower());
        let jobz = if vectors.is_some() { c"V" } else { c"N" };
        let q = or_none(vectors, a);
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        let (q_matrix, q) = (self.solver_matrix(kept, &q)?, kept.address(q.data));
        let values = kept.address(values);
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpSyevd",
                options: [vectors.is_some().into(), 0, 0, 0],
                matrices: [a_matrix.cast(), q_matrix.cast(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live, and the job is a constant that is only
                // read; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpSyevd_bufferSize(
                        solver,
                        jobz.as_ptr().cast_mut(),
                        uplo,
                        order,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        values,
                        q,
                        FIRST,
                        FIRST,
                        q_matrix,
                        kind,
                        device,
                        host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptors are live, and so is the memory by the contract of
                // `Call`; the job is a constant that is only read; the values were checked to lie in their
                // buffer; the word is on this device.
                unsafe {
                    cusolvermp.cusolverMpSyevd(
                        solver,
                        jobz.as_ptr().cast_mut(),
                        uplo,
                        order,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        values,
                        q,
                        FIRST,
                        FIRST,
                        q_matrix,
                        kind,
                        device,
                        bytes.device,
                        host,
                        bytes.host,
                        info.address() as *mut i32,
                    )
                }
                .outcome()
            }),
            info: Some(info),
        })
    }

    fn sygvd(
        &self,
        kept: &mut Kept,
        [a, m]: [&DistributedMatrix; 2],
        values: Buffer,
        vectors: Option<&DistributedMatrix>,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (order, kind, uplo) = (int(a.rows.extent())?, data_type(a.dtype)?, lower());
        let jobz = match vectors {
            Some(_) => cusolverEigMode_t::CUSOLVER_EIG_MODE_VECTOR,
            None => cusolverEigMode_t::CUSOLVER_EIG_MODE_NOVECTOR,
        };
        let z = or_none(vectors, a);
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        let (m_matrix, m) = (self.solver_matrix(kept, m)?, kept.address(m.data));
        let (z_matrix, z) = (self.solver_matrix(kept, &z)?, kept.address(z.data));
        let values = kept.address(values);
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpSygvd",
                options: [jobz.0.into(), 0, 0, 0],
                matrices: [a_matrix.cast(), m_matrix.cast(), z_matrix.cast()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpSygvd_bufferSize(
                        solver, TYPE_1, jobz, uplo, order, FIRST, FIRST, a_matrix, FIRST, FIRST, m_matrix,
                        FIRST, FIRST, z_matrix, kind, device, host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: as for syevd.
                unsafe {
                    cusolvermp.cusolverMpSygvd(
                        solver,
                        TYPE_1,
                        jobz,
                        uplo,
                        order,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        m,
                        FIRST,
                        FIRST,
                        m_matrix,
                        values,
                        z,
                        FIRST,
                        FIRST,
                        z_matrix,
                        kind,
                        device,
                        bytes.device,
                        host,
                        bytes.host,
                        info.address() as *mut i32,
                    )
                }
                .outcome()
            }),
            info: Some(info),
        })
    }
}

/// The triangle that is read: the library takes no other.
fn lower() -> cublasFillMode_t {
    fill_mode(Triangle::Lower)
}
