//! LU factorisation with partial pivoting and solve: cuSOLVERMp's getrf and getrs.

use super::failure::Status;
use super::kept::{Kept, Libraries, Workspace, WorkspaceKey};
use super::{Call, CusolverMpSolver, FIRST, Memory, data_type, int};
use crate::Result;
use crate::device::Buffer;
use crate::solver::DistributedMatrix;
use cublasmp_sys::cublasOperation_t;
use std::ptr;

/// The library has no other.
const TRANS: cublasOperation_t = cublasOperation_t::CUBLAS_OP_N;

impl CusolverMpSolver<'_> {
    /// Without pivots, where only workspace is asked for, their address is still not null, which would
    /// mean a factorisation without pivoting.
    pub(super) fn getrf(
        &self,
        kept: &mut Kept,
        a: &DistributedMatrix,
        pivots: Buffer,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (order, kind) = (int(a.rows.extent())?, data_type(a.dtype)?);
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        let pivots = kept.address(pivots).cast::<i64>();
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpGetrf",
                options: [0; 4],
                matrices: [a_matrix.cast(), ptr::null(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptor are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpGetrf_bufferSize(
                        solver, order, order, a, FIRST, FIRST, a_matrix, pivots, kind, device, host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptor are live, and so is the memory by the contract of
                // `Call`; the pivots were checked to lie in their buffer; the word is on this device.
                unsafe {
                    cusolvermp.cusolverMpGetrf(
                        solver,
                        order,
                        order,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        pivots,
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

    pub(super) fn getrs(
        &self,
        kept: &mut Kept,
        a: &DistributedMatrix,
        pivots: Buffer,
        b: &DistributedMatrix,
        info: Buffer,
    ) -> Result<Call> {
        let Libraries { cusolvermp, solver, .. } = self.libraries;
        let (order, columns, kind) = (int(a.rows.extent())?, int(b.cols.extent())?, data_type(a.dtype)?);
        let (a_matrix, a) = (self.solver_matrix(kept, a)?, kept.address(a.data));
        let (b_matrix, b) = (self.solver_matrix(kept, b)?, kept.address(b.data));
        let pivots = kept.address(pivots).cast::<i64>();
        Ok(Call {
            key: WorkspaceKey {
                function: "cusolverMpGetrs",
                options: [0; 4],
                matrices: [a_matrix.cast(), b_matrix.cast(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; two sizes are written.
                unsafe {
                    cusolvermp.cusolverMpGetrs_bufferSize(
                        solver, TRANS, order, columns, a, FIRST, FIRST, a_matrix, pivots, b, FIRST, FIRST,
                        b_matrix, kind, device, host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: as for the factorisation.
                unsafe {
                    cusolvermp.cusolverMpGetrs(
                        solver,
                        TRANS,
                        order,
                        columns,
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        pivots,
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
