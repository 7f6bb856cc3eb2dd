//! Eigenvalues and eigenvectors of Hermitian matrices: cuSOLVERMp's syevd, sygst, which brings A·v = λ·B·v into
//! that form, and sygvd, which does both.

use super::failure::Status;
use super::kept::{Kept, Libraries, Workspace, WorkspaceKey};
use super::{Call, CusolverMpSolver, FIRST, Memory, data_type, fill_mode, int};
use crate::Result;
use crate::device::Buffer;
use crate::solver::{DistributedMatrix, Triangle};
use cublasmp_sys::cublasFillMode_t;
use cusolvermp_sys::{cusolverEigMode_t, cusolverEigType_t};
use std::ptr;

/// The oldest cuSOLVERMp whose eigenvectors can be relied on: an older one may return wrong ones without
/// a word.
pub(super) const OLDEST_WITH_VECTORS: [u32; 3] = [0, 9, 1];

/// A·v = λ·B·v.
const TYPE_1: cusolverEigType_t = cusolverEigType_t::CUSOLVER_EIG_TYPE_1;

/// A matrix for vectors that are not wanted, which the library wants all the same and leaves alone: one of A's
/// shape, at an address that is not null.
fn or_none(vectors: Option<&DistributedMatrix>, a: &DistributedMatrix) -> DistributedMatrix {
    vectors.copied().unwrap_or(DistributedMatrix { data: Buffer::EMPTY, ..*a })
}

impl CusolverMpSolver<'_> {
    pub(super) fn syevd(
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

    pub(super) fn sygst(
        &self,
        kept: &mut Kept,
        a: &DistributedMatrix,
        factor: &DistributedMatrix,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (order, kind, uplo) = (int(a.rows.extent())?, data_type(a.dtype)?, lower());
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        let (l_matrix, l) = (self.solver_matrix(kept, factor)?, kept.address(factor.data));
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpSygst",
                options: [0; 4],
                matrices: [a_matrix.cast(), l_matrix.cast(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpSygst_bufferSize(
                        solver, TYPE_1, uplo, order, FIRST, FIRST, a_matrix, FIRST, FIRST, l_matrix, kind,
                        device, host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptors are live, and so is the memory by the contract of
                // `Call`; the word is on this device.
                unsafe {
                    cusolvermp.cusolverMpSygst(
                        solver,
                        TYPE_1,
                        uplo,
                        order,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        l,
                        FIRST,
                        FIRST,
                        l_matrix,
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
            info: None,
        })
    }

    /// Overwrites B, too: by its Cholesky factor.
    pub(super) fn sygvd(
        &self,
        kept: &mut Kept,
        [a, b]: [&DistributedMatrix; 2],
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
        let (b_matrix, b) = (self.solver_matrix(kept, b)?, kept.address(b.data));
        let (z_matrix, z) = (self.solver_matrix(kept, &z)?, kept.address(z.data));
        let values = kept.address(values);
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpSygvd",
                options: [jobz.0.into(), 0, 0, 0],
                matrices: [a_matrix.cast(), b_matrix.cast(), z_matrix.cast()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpSygvd_bufferSize(
                        solver, TYPE_1, jobz, uplo, order, FIRST, FIRST, a_matrix, FIRST, FIRST, b_matrix,
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
                        b,
                        FIRST,
                        FIRST,
                        b_matrix,
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
