//! Triangular solves and products: cuBLASMp's trsm, gemm and geadd.

use super::failure::Status;
use super::kept::{Kept, Libraries, Workspace, WorkspaceKey};
use super::{Call, CusolverMpSolver, FIRST, Memory, fill_mode, int};
use crate::solver::{Diagonal, DistributedMatrix, Op, Product, Triangular};
use crate::{DType, Error, Result};
use cublasmp_sys::{cublasComputeType_t, cublasDiagType_t, cublasOperation_t, cublasSideMode_t};
use std::ffi::c_void;
use std::ptr;

/// A factor of a product in the bits of the matrices' type. cuBLASMp reads it with instructions that fault
/// unless it has the alignment of the largest type, a complex number of two doubles.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Factor([u64; 2]);

impl Factor {
    fn new(dtype: DType, value: f64) -> Self {
        Self(dtype.bits(value))
    }

    fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

const LEFT: cublasSideMode_t = cublasSideMode_t::CUBLAS_SIDE_LEFT;

impl CusolverMpSolver<'_> {
    pub(super) fn trsm(
        &self,
        kept: &mut Kept,
        form: Triangular,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
    ) -> Result<Call> {
        let Libraries { cublasmp, blas, .. } = self.libraries;
        let (uplo, trans, diag) = (fill_mode(form.triangle), operation(form.op), diagonal(form.diagonal));
        let (rows, cols, compute) = (int(b.rows.extent())?, int(b.cols.extent())?, compute_type(b.dtype)?);
        let alpha = Factor::new(b.dtype, 1.0);
        let (a_matrix, a) = (self.blas_matrix(kept, a)?, kept.address(a.data));
        let (b_matrix, b) = (self.blas_matrix(kept, b)?, kept.address(b.data));
        Ok(Call {
            key: WorkspaceKey {
                function: "cublasMpTrsm",
                options: [uplo.0.into(), trans.0.into(), diag.0.into(), 0],
                matrices: [a_matrix.cast(), b_matrix.cast(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; two sizes are written.
                unsafe {
                    cublasmp.cublasMpTrsm_bufferSize(
                        blas,
                        LEFT,
                        uplo,
                        trans,
                        diag,
                        rows,
                        cols,
                        alpha.as_ptr(),
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        b,
                        FIRST,
                        FIRST,
                        b_matrix,
                        compute,
                        device,
                        host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptors are live, and so is the memory by the contract of
                // `Call`; the factor has the bits of the matrices' type.
                unsafe {
                    cublasmp.cublasMpTrsm(
                        blas,
                        LEFT,
                        uplo,
                        trans,
                        diag,
                        rows,
                        cols,
                        alpha.as_ptr(),
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        b,
                        FIRST,
                        FIRST,
                        b_matrix,
                        compute,
                        device,
                        bytes.device,
                        host,
                        bytes.host,
                    )
                }
                .outcome()
            }),
            info: None,
        })
    }

    pub(super) fn gemm(
        &self,
        kept: &mut Kept,
        product: Product,
        a: &DistributedMatrix,
        b: &DistributedMatrix,
        c: &DistributedMatrix,
    ) -> Result<Call> {
        let [_, inner] = product.op_a.shape(a);
        if inner.extent() == 0 {
            // The library does not scale C then.
            return self.scale(kept, product.beta, c);
        }
        let Libraries { cublasmp, blas, .. } = self.libraries;
        let (trans_a, trans_b) = (operation(product.op_a), operation(product.op_b));
        let (rows, cols, inner) = (int(c.rows.extent())?, int(c.cols.extent())?, int(inner.extent())?);
        let (alpha, beta) = (Factor::new(c.dtype, product.alpha), Factor::new(c.dtype, product.beta));
        let compute = compute_type(c.dtype)?;
        let (a_matrix, a) = (self.blas_matrix(kept, a)?, kept.address(a.data));
        let (b_matrix, b) = (self.blas_matrix(kept, b)?, kept.address(b.data));
        let (c_matrix, c) = (self.blas_matrix(kept, c)?, kept.address(c.data));
        Ok(Call {
            key: WorkspaceKey {
                function: "cublasMpGemm",
                options: [trans_a.0.into(), trans_b.0.into(), alpha.0[0], beta.0[0]],
                matrices: [a_matrix.cast(), b_matrix.cast(), c_matrix.cast()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptors are live; the factors have the bits of the
                // matrices' type; two sizes are written.
                unsafe {
                    cublasmp.cublasMpGemm_bufferSize(
                        blas,
                        trans_a,
                        trans_b,
                        rows,
                        cols,
                        inner,
                        alpha.as_ptr(),
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        b,
                        FIRST,
                        FIRST,
                        b_matrix,
                        beta.as_ptr(),
                        c,
                        FIRST,
                        FIRST,
                        c_matrix,
                        compute,
                        device,
                        host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptors are live, and so is the memory by the contract of
                // `Call`; the factors have the bits of the matrices' type.
                unsafe {
                    cublasmp.cublasMpGemm(
                        blas,
                        trans_a,
                        trans_b,
                        rows,
                        cols,
                        inner,
                        alpha.as_ptr(),
                        a,
                        FIRST,
                        FIRST,
                        a_matrix,
                        b,
                        FIRST,
                        FIRST,
                        b_matrix,
                        beta.as_ptr(),
                        c,
                        FIRST,
                        FIRST,
                        c_matrix,
                        compute,
                        device,
                        bytes.device,
                        host,
                        bytes.host,
                    )
                }
                .outcome()
            }),
            info: None,
        })
    }

    /// C ← β·C. It is added to 0·C, of which nothing is read.
    fn scale(&self, kept: &mut Kept, beta: f64, c: &DistributedMatrix) -> Result<Call> {
        let Libraries { cublasmp, blas, .. } = self.libraries;
        let (rows, cols) = (int(c.rows.extent())?, int(c.cols.extent())?);
        let (beta, zero) = (Factor::new(c.dtype, beta), Factor::new(c.dtype, 0.0));
        let (matrix, c) = (self.blas_matrix(kept, c)?, kept.address(c.data));
        Ok(Call {
            key: WorkspaceKey {
                function: "cublasMpGeadd",
                options: [beta.0[0], 0, 0, 0],
                matrices: [matrix.cast(), ptr::null(), ptr::null()],
            },
            sizes: Box::new(move |Workspace { device, host }| {
                // SAFETY: the handle and the descriptor are live; the factors have the bits of the matrix's
                // type; two sizes are written.
                unsafe {
                    cublasmp.cublasMpGeadd_bufferSize(
                        blas,
                        cublasOperation_t::CUBLAS_OP_N,
                        rows,
                        cols,
                        beta.as_ptr(),
                        c,
                        FIRST,
                        FIRST,
                        matrix,
                        zero.as_ptr(),
                        c,
                        FIRST,
                        FIRST,
                        matrix,
                        device,
                        host,
                    )
                }
                .outcome()
            }),
            run: Box::new(move |Memory { device, host, bytes }| {
                // SAFETY: the handle and the descriptor are live, and so is the memory by the contract of
                // `Call`; the factors have the bits of the matrix's type.
                unsafe {
                    cublasmp.cublasMpGeadd(
                        blas,
                        cublasOperation_t::CUBLAS_OP_N,
                        rows,
                        cols,
                        beta.as_ptr(),
                        c,
                        FIRST,
                        FIRST,
                        matrix,
                        zero.as_ptr(),
                        c,
                        FIRST,
                        FIRST,
                        matrix,
                        device,
                        bytes.device,
                        host,
                        bytes.host,
                    )
                }
                .outcome()
            }),
            info: None,
        })
    }
}

fn operation(op: Op) -> cublasOperation_t {
    match op {
        Op::NoTranspose => cublasOperation_t::CUBLAS_OP_N,
        Op::Transpose => cublasOperation_t::CUBLAS_OP_T,
        Op::ConjugateTranspose => cublasOperation_t::CUBLAS_OP_C,
    }
}

fn diagonal(diagonal: Diagonal) -> cublasDiagType_t {
    match diagonal {
        Diagonal::NonUnit => cublasDiagType_t::CUBLAS_DIAG_NON_UNIT,
        Diagonal::Unit => cublasDiagType_t::CUBLAS_DIAG_UNIT,
    }
}

/// The matrices' own precision.
fn compute_type(dtype: DType) -> Result<cublasComputeType_t> {
    match dtype {
        DType::F32 | DType::C64 => Ok(cublasComputeType_t::CUBLAS_COMPUTE_32F),
        DType::F64 | DType::C128 => Ok(cublasComputeType_t::CUBLAS_COMPUTE_64F),
        DType::I32 => Err(Error::internal("a matrix of integers for cuBLASMp")),
    }
}
