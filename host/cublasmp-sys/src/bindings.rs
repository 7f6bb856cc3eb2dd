// Made by `cargo xtask bindings` from cublasmp.h of nvidia-cublasmp-cu13 0.10.0.3695. Do not edit.
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(clippy::all)]

use nccl_sys::{cudaStream_t, ncclComm_t};

pub const CUBLASMP_VER_MAJOR: u32 = 0;
pub const CUBLASMP_VER_MINOR: u32 = 10;
pub const CUBLASMP_VER_PATCH: u32 = 0;
pub const CUBLASMP_VERSION: u32 = 1000;
impl cudaDataType_t {
    pub const CUDA_R_16F: cudaDataType_t = cudaDataType_t(2);
    pub const CUDA_C_16F: cudaDataType_t = cudaDataType_t(6);
    pub const CUDA_R_16BF: cudaDataType_t = cudaDataType_t(14);
    pub const CUDA_C_16BF: cudaDataType_t = cudaDataType_t(15);
    pub const CUDA_R_32F: cudaDataType_t = cudaDataType_t(0);
    pub const CUDA_C_32F: cudaDataType_t = cudaDataType_t(4);
    pub const CUDA_R_64F: cudaDataType_t = cudaDataType_t(1);
    pub const CUDA_C_64F: cudaDataType_t = cudaDataType_t(5);
    pub const CUDA_R_4I: cudaDataType_t = cudaDataType_t(16);
    pub const CUDA_C_4I: cudaDataType_t = cudaDataType_t(17);
    pub const CUDA_R_4U: cudaDataType_t = cudaDataType_t(18);
    pub const CUDA_C_4U: cudaDataType_t = cudaDataType_t(19);
    pub const CUDA_R_8I: cudaDataType_t = cudaDataType_t(3);
    pub const CUDA_C_8I: cudaDataType_t = cudaDataType_t(7);
    pub const CUDA_R_8U: cudaDataType_t = cudaDataType_t(8);
    pub const CUDA_C_8U: cudaDataType_t = cudaDataType_t(9);
    pub const CUDA_R_16I: cudaDataType_t = cudaDataType_t(20);
    pub const CUDA_C_16I: cudaDataType_t = cudaDataType_t(21);
    pub const CUDA_R_16U: cudaDataType_t = cudaDataType_t(22);
    pub const CUDA_C_16U: cudaDataType_t = cudaDataType_t(23);
    pub const CUDA_R_32I: cudaDataType_t = cudaDataType_t(10);
    pub const CUDA_C_32I: cudaDataType_t = cudaDataType_t(11);
    pub const CUDA_R_32U: cudaDataType_t = cudaDataType_t(12);
    pub const CUDA_C_32U: cudaDataType_t = cudaDataType_t(13);
    pub const CUDA_R_64I: cudaDataType_t = cudaDataType_t(24);
    pub const CUDA_C_64I: cudaDataType_t = cudaDataType_t(25);
    pub const CUDA_R_64U: cudaDataType_t = cudaDataType_t(26);
    pub const CUDA_C_64U: cudaDataType_t = cudaDataType_t(27);
    pub const CUDA_R_8F_E4M3: cudaDataType_t = cudaDataType_t(28);
    pub const CUDA_R_8F_UE4M3: cudaDataType_t = cudaDataType_t(28);
    pub const CUDA_R_8F_E5M2: cudaDataType_t = cudaDataType_t(29);
    pub const CUDA_R_8F_UE8M0: cudaDataType_t = cudaDataType_t(30);
    pub const CUDA_R_6F_E2M3: cudaDataType_t = cudaDataType_t(31);
    pub const CUDA_R_6F_E3M2: cudaDataType_t = cudaDataType_t(32);
    pub const CUDA_R_4F_E2M1: cudaDataType_t = cudaDataType_t(33);
    pub const CUDA_R_8F_UE5M3: cudaDataType_t = cudaDataType_t(34);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cudaDataType_t(pub ::core::ffi::c_uint);
pub use self::cudaDataType_t as cudaDataType;
impl cublasFillMode_t {
    pub const CUBLAS_FILL_MODE_LOWER: cublasFillMode_t = cublasFillMode_t(0);
    pub const CUBLAS_FILL_MODE_UPPER: cublasFillMode_t = cublasFillMode_t(1);
    pub const CUBLAS_FILL_MODE_FULL: cublasFillMode_t = cublasFillMode_t(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasFillMode_t(pub ::core::ffi::c_uint);
impl cublasDiagType_t {
    pub const CUBLAS_DIAG_NON_UNIT: cublasDiagType_t = cublasDiagType_t(0);
    pub const CUBLAS_DIAG_UNIT: cublasDiagType_t = cublasDiagType_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasDiagType_t(pub ::core::ffi::c_uint);
impl cublasSideMode_t {
    pub const CUBLAS_SIDE_LEFT: cublasSideMode_t = cublasSideMode_t(0);
    pub const CUBLAS_SIDE_RIGHT: cublasSideMode_t = cublasSideMode_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasSideMode_t(pub ::core::ffi::c_uint);
impl cublasOperation_t {
    pub const CUBLAS_OP_N: cublasOperation_t = cublasOperation_t(0);
    pub const CUBLAS_OP_T: cublasOperation_t = cublasOperation_t(1);
    pub const CUBLAS_OP_C: cublasOperation_t = cublasOperation_t(2);
    pub const CUBLAS_OP_HERMITAN: cublasOperation_t = cublasOperation_t(2);
    pub const CUBLAS_OP_CONJG: cublasOperation_t = cublasOperation_t(3);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasOperation_t(pub ::core::ffi::c_uint);
impl cublasComputeType_t {
    pub const CUBLAS_COMPUTE_16F: cublasComputeType_t = cublasComputeType_t(64);
    pub const CUBLAS_COMPUTE_16F_PEDANTIC: cublasComputeType_t = cublasComputeType_t(65);
    pub const CUBLAS_COMPUTE_32F: cublasComputeType_t = cublasComputeType_t(68);
    pub const CUBLAS_COMPUTE_32F_PEDANTIC: cublasComputeType_t = cublasComputeType_t(69);
    pub const CUBLAS_COMPUTE_32F_FAST_16F: cublasComputeType_t = cublasComputeType_t(74);
    pub const CUBLAS_COMPUTE_32F_FAST_16BF: cublasComputeType_t = cublasComputeType_t(75);
    pub const CUBLAS_COMPUTE_32F_FAST_TF32: cublasComputeType_t = cublasComputeType_t(77);
    pub const CUBLAS_COMPUTE_32F_EMULATED_16BFX9: cublasComputeType_t = cublasComputeType_t(78);
    pub const CUBLAS_COMPUTE_64F: cublasComputeType_t = cublasComputeType_t(70);
    pub const CUBLAS_COMPUTE_64F_PEDANTIC: cublasComputeType_t = cublasComputeType_t(71);
    pub const CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT: cublasComputeType_t = cublasComputeType_t(79);
    pub const CUBLAS_COMPUTE_32I: cublasComputeType_t = cublasComputeType_t(72);
    pub const CUBLAS_COMPUTE_32I_PEDANTIC: cublasComputeType_t = cublasComputeType_t(73);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasComputeType_t(pub ::core::ffi::c_uint);
impl cublasMpStatus_t {
    pub const CUBLASMP_STATUS_SUCCESS: cublasMpStatus_t = cublasMpStatus_t(0);
    pub const CUBLASMP_STATUS_NOT_INITIALIZED: cublasMpStatus_t = cublasMpStatus_t(1);
    pub const CUBLASMP_STATUS_ALLOCATION_FAILED: cublasMpStatus_t = cublasMpStatus_t(2);
    pub const CUBLASMP_STATUS_INVALID_VALUE: cublasMpStatus_t = cublasMpStatus_t(3);
    pub const CUBLASMP_STATUS_ARCHITECTURE_MISMATCH: cublasMpStatus_t = cublasMpStatus_t(4);
    pub const CUBLASMP_STATUS_EXECUTION_FAILED: cublasMpStatus_t = cublasMpStatus_t(5);
    pub const CUBLASMP_STATUS_INTERNAL_ERROR: cublasMpStatus_t = cublasMpStatus_t(6);
    pub const CUBLASMP_STATUS_NOT_SUPPORTED: cublasMpStatus_t = cublasMpStatus_t(7);
}
#[repr(transparent)]
#[must_use]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasMpStatus_t(pub ::core::ffi::c_uint);
impl cublasMpGridLayout_t {
    pub const CUBLASMP_GRID_LAYOUT_COL_MAJOR: cublasMpGridLayout_t = cublasMpGridLayout_t(0);
    pub const CUBLASMP_GRID_LAYOUT_ROW_MAJOR: cublasMpGridLayout_t = cublasMpGridLayout_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cublasMpGridLayout_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug)]
pub struct cublasMpHandle {
    _unused: [u8; 0],
}
pub type cublasMpHandle_t = *mut cublasMpHandle;
#[repr(C)]
#[derive(Debug)]
pub struct cublasMpGrid {
    _unused: [u8; 0],
}
pub type cublasMpGrid_t = *mut cublasMpGrid;
#[repr(C)]
#[derive(Debug)]
pub struct cublasMpMatrixDescriptor {
    _unused: [u8; 0],
}
pub type cublasMpMatrixDescriptor_t = *mut cublasMpMatrixDescriptor;
nccl_sys::function_table! {
    /// The functions of cuBLASMp.
    pub struct CublasMp;

    unsafe extern "C" {
        #[must_use]
        pub fn cublasMpCreate(handle: *mut cublasMpHandle_t, stream: cudaStream_t) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpDestroy(handle: cublasMpHandle_t) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpSetStream(handle: cublasMpHandle_t, stream: cudaStream_t) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGetStream(handle: cublasMpHandle_t, stream: *mut cudaStream_t) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGetVersion(version: *mut ::core::ffi::c_int) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGridCreate(
            nprow: i64,
            npcol: i64,
            layout: cublasMpGridLayout_t,
            comm: ncclComm_t,
            grid: *mut cublasMpGrid_t,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGridDestroy(grid: cublasMpGrid_t) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpMatrixDescriptorCreate(
            m: i64,
            n: i64,
            mb: i64,
            nb: i64,
            rsrc: i64,
            csrc: i64,
            lld: i64,
            type_: cudaDataType_t,
            grid: cublasMpGrid_t,
            desc: *mut cublasMpMatrixDescriptor_t,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpMatrixDescriptorDestroy(desc: cublasMpMatrixDescriptor_t) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpMatrixDescriptorInit(
            m: i64,
            n: i64,
            mb: i64,
            nb: i64,
            rsrc: i64,
            csrc: i64,
            lld: i64,
            type_: cudaDataType_t,
            grid: cublasMpGrid_t,
            desc: cublasMpMatrixDescriptor_t,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpTrsm_bufferSize(
            handle: cublasMpHandle_t,
            side: cublasSideMode_t,
            uplo: cublasFillMode_t,
            trans: cublasOperation_t,
            diag: cublasDiagType_t,
            m: i64,
            n: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            b: *mut ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cublasMpMatrixDescriptor_t,
            computeType: cublasComputeType_t,
            workspaceSizeInBytesOnDevice: *mut usize,
            workspaceSizeInBytesOnHost: *mut usize,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpTrsm(
            handle: cublasMpHandle_t,
            side: cublasSideMode_t,
            uplo: cublasFillMode_t,
            trans: cublasOperation_t,
            diag: cublasDiagType_t,
            m: i64,
            n: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            b: *mut ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cublasMpMatrixDescriptor_t,
            computeType: cublasComputeType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnHost: usize,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGemm_bufferSize(
            handle: cublasMpHandle_t,
            transA: cublasOperation_t,
            transB: cublasOperation_t,
            m: i64,
            n: i64,
            k: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            b: *const ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cublasMpMatrixDescriptor_t,
            beta: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cublasMpMatrixDescriptor_t,
            computeType: cublasComputeType_t,
            workspaceSizeInBytesOnDevice: *mut usize,
            workspaceSizeInBytesOnHost: *mut usize,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGemm(
            handle: cublasMpHandle_t,
            transA: cublasOperation_t,
            transB: cublasOperation_t,
            m: i64,
            n: i64,
            k: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            b: *const ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cublasMpMatrixDescriptor_t,
            beta: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cublasMpMatrixDescriptor_t,
            computeType: cublasComputeType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnHost: usize,
        ) -> cublasMpStatus_t;
        pub fn cublasMpGetStatusString(status: cublasMpStatus_t) -> *const ::core::ffi::c_char;
        #[must_use]
        pub fn cublasMpGeadd_bufferSize(
            handle: cublasMpHandle_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            beta: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cublasMpMatrixDescriptor_t,
            workspaceSizeInBytesOnDevice: *mut usize,
            workspaceSizeInBytesOnHost: *mut usize,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpGeadd(
            handle: cublasMpHandle_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            beta: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cublasMpMatrixDescriptor_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnHost: usize,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpTradd_bufferSize(
            handle: cublasMpHandle_t,
            uplo: cublasFillMode_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            beta: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cublasMpMatrixDescriptor_t,
            workspaceSizeInBytesOnDevice: *mut usize,
            workspaceSizeInBytesOnHost: *mut usize,
        ) -> cublasMpStatus_t;
        #[must_use]
        pub fn cublasMpTradd(
            handle: cublasMpHandle_t,
            uplo: cublasFillMode_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            alpha: *const ::core::ffi::c_void,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cublasMpMatrixDescriptor_t,
            beta: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cublasMpMatrixDescriptor_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceSizeInBytesOnHost: usize,
        ) -> cublasMpStatus_t;
    }
}
