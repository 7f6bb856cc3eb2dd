//! Cholesky factorisation and solve: cuSOLVERMp's potrf and potrs.

use super::failure::Status;
use super::kept::{Kept, Libraries, Workspace, WorkspaceKey};
use super::{Call, CusolverMpSolver, FIRST, Memory, data_type, fill_mode, int};
use crate::Result;
use crate::device::Buffer;
use crate::solver::{DistributedMatrix, Triangle};
use std::ptr;

impl CusolverMpSolver<'_> {
    pub(super) fn potrf(
        &self,
        kept: &mut Kept,
        triangle: Triangle,
        a: &DistributedMatrix,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (uplo, order, kind) = (fill_mode(triangle), int(a.rows.extent())?, data_type(a.dtype)?);
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpPotrf",
                options: [uplo.0.into(), 0, 0, 0],
                matrices: [a_matrix.cast(), ptr::null(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptor are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpPotrf_bufferSize(
                        solver, uplo, order, a, FIRST, FIRST, a_matrix, kind, device, host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptor are live, and so is the memory by the contract of
                // `Call`; the word is on this device.
                unsafe {
                    cusolvermp.cusolverMpPotrf(
                        solver,
                        uplo,
                        order,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
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

    pub(super) fn potrs(
        &self,
        kept: &mut Kept,
        triangle: Triangle,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (uplo, order, kind) = (fill_mode(triangle), int(a.rows.extent())?, data_type(a.dtype)?);
        let columns = int(b.cols.extent())?;
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        let (b_matrix, b) = (self.solver_matrix(kept, b)?, kept.address(b.data));
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpPotrs",
                options: [uplo.0.into(), 0, 0, 0],
                matrices: [a_matrix.cast(), b_matrix.cast(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpPotrs_bufferSize(
                        solver, uplo, order, columns, a, FIRST, FIRST, a_matrix, b, FIRST, FIRST, b_matrix,
                        kind, device, host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: as for the factorisation.
                unsafe {
                    cusolvermp.cusolverMpPotrs(
                        solver,
                        uplo,
                        order,
                        columns,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        b,
                        FIRST,
                        FIRST,
                        b_matrix,
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
}
