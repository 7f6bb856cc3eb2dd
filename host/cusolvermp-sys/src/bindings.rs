// Made by `cargo xtask bindings` from cusolverMp.h of nvidia-cusolvermp-cu13 0.9.1.9318.post1. Do not edit.
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(clippy::all)]

use cublasmp_sys::{cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cudaDataType, cudaDataType_t};
use nccl_sys::{cudaStream_t, ncclComm_t};

pub const CUSOLVERMP_VER_MAJOR: u32 = 0;
pub const CUSOLVERMP_VER_MINOR: u32 = 9;
pub const CUSOLVERMP_VER_PATCH: u32 = 1;
pub const CUSOLVERMP_VER_BUILD: u32 = 0;
pub const CUSOLVERMP_VERSION: u32 = 901;
impl cudaEmulationStrategy_t {
    pub const CUDA_EMULATION_STRATEGY_DEFAULT: cudaEmulationStrategy_t = cudaEmulationStrategy_t(0);
    pub const CUDA_EMULATION_STRATEGY_PERFORMANT: cudaEmulationStrategy_t = cudaEmulationStrategy_t(1);
    pub const CUDA_EMULATION_STRATEGY_EAGER: cudaEmulationStrategy_t = cudaEmulationStrategy_t(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cudaEmulationStrategy_t(pub ::core::ffi::c_uint);
impl cusolverStatus_t {
    pub const CUSOLVER_STATUS_SUCCESS: cusolverStatus_t = cusolverStatus_t(0);
    pub const CUSOLVER_STATUS_NOT_INITIALIZED: cusolverStatus_t = cusolverStatus_t(1);
    pub const CUSOLVER_STATUS_ALLOC_FAILED: cusolverStatus_t = cusolverStatus_t(2);
    pub const CUSOLVER_STATUS_INVALID_VALUE: cusolverStatus_t = cusolverStatus_t(3);
    pub const CUSOLVER_STATUS_ARCH_MISMATCH: cusolverStatus_t = cusolverStatus_t(4);
    pub const CUSOLVER_STATUS_MAPPING_ERROR: cusolverStatus_t = cusolverStatus_t(5);
    pub const CUSOLVER_STATUS_EXECUTION_FAILED: cusolverStatus_t = cusolverStatus_t(6);
    pub const CUSOLVER_STATUS_INTERNAL_ERROR: cusolverStatus_t = cusolverStatus_t(7);
    pub const CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED: cusolverStatus_t = cusolverStatus_t(8);
    pub const CUSOLVER_STATUS_NOT_SUPPORTED: cusolverStatus_t = cusolverStatus_t(9);
    pub const CUSOLVER_STATUS_ZERO_PIVOT: cusolverStatus_t = cusolverStatus_t(10);
    pub const CUSOLVER_STATUS_INVALID_LICENSE: cusolverStatus_t = cusolverStatus_t(11);
    pub const CUSOLVER_STATUS_IRS_PARAMS_NOT_INITIALIZED: cusolverStatus_t = cusolverStatus_t(12);
    pub const CUSOLVER_STATUS_IRS_PARAMS_INVALID: cusolverStatus_t = cusolverStatus_t(13);
    pub const CUSOLVER_STATUS_IRS_PARAMS_INVALID_PREC: cusolverStatus_t = cusolverStatus_t(14);
    pub const CUSOLVER_STATUS_IRS_PARAMS_INVALID_REFINE: cusolverStatus_t = cusolverStatus_t(15);
    pub const CUSOLVER_STATUS_IRS_PARAMS_INVALID_MAXITER: cusolverStatus_t = cusolverStatus_t(16);
    pub const CUSOLVER_STATUS_IRS_INTERNAL_ERROR: cusolverStatus_t = cusolverStatus_t(20);
    pub const CUSOLVER_STATUS_IRS_NOT_SUPPORTED: cusolverStatus_t = cusolverStatus_t(21);
    pub const CUSOLVER_STATUS_IRS_OUT_OF_RANGE: cusolverStatus_t = cusolverStatus_t(22);
    pub const CUSOLVER_STATUS_IRS_NRHS_NOT_SUPPORTED_FOR_REFINE_GMRES: cusolverStatus_t =
        cusolverStatus_t(23);
    pub const CUSOLVER_STATUS_IRS_INFOS_NOT_INITIALIZED: cusolverStatus_t = cusolverStatus_t(25);
    pub const CUSOLVER_STATUS_IRS_INFOS_NOT_DESTROYED: cusolverStatus_t = cusolverStatus_t(26);
    pub const CUSOLVER_STATUS_IRS_MATRIX_SINGULAR: cusolverStatus_t = cusolverStatus_t(30);
    pub const CUSOLVER_STATUS_INVALID_WORKSPACE: cusolverStatus_t = cusolverStatus_t(31);
}
#[repr(transparent)]
#[must_use]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverStatus_t(pub ::core::ffi::c_uint);
impl cusolverEigType_t {
    pub const CUSOLVER_EIG_TYPE_1: cusolverEigType_t = cusolverEigType_t(1);
    pub const CUSOLVER_EIG_TYPE_2: cusolverEigType_t = cusolverEigType_t(2);
    pub const CUSOLVER_EIG_TYPE_3: cusolverEigType_t = cusolverEigType_t(3);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverEigType_t(pub ::core::ffi::c_uint);
impl cusolverEigMode_t {
    pub const CUSOLVER_EIG_MODE_NOVECTOR: cusolverEigMode_t = cusolverEigMode_t(0);
    pub const CUSOLVER_EIG_MODE_VECTOR: cusolverEigMode_t = cusolverEigMode_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverEigMode_t(pub ::core::ffi::c_uint);
impl cusolverMathMode_t {
    pub const CUSOLVER_DEFAULT_MATH: cusolverMathMode_t = cusolverMathMode_t(1);
    pub const CUSOLVER_FP32_EMULATED_BF16X9_MATH: cusolverMathMode_t = cusolverMathMode_t(2);
    pub const CUSOLVER_FP64_EMULATED_FIXEDPOINT_MATH: cusolverMathMode_t = cusolverMathMode_t(4);
    pub const CUSOLVER_FP32_FP64_EMULATED_MATH: cusolverMathMode_t = cusolverMathMode_t(6);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverMathMode_t(pub ::core::ffi::c_uint);
impl cusolverMpGridMapping_t {
    pub const CUSOLVERMP_GRID_MAPPING_ROW_MAJOR: cusolverMpGridMapping_t = cusolverMpGridMapping_t(1);
    pub const CUSOLVERMP_GRID_MAPPING_COL_MAJOR: cusolverMpGridMapping_t = cusolverMpGridMapping_t(0);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverMpGridMapping_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug)]
pub struct cusolverMpGrid {
    _unused: [u8; 0],
}
pub type cusolverMpGrid_t = *mut cusolverMpGrid;
#[repr(C)]
#[derive(Debug)]
pub struct cusolverMpMatrixDescriptor {
    _unused: [u8; 0],
}
pub type cusolverMpMatrixDescriptor_t = *mut cusolverMpMatrixDescriptor;
#[repr(C)]
#[derive(Debug)]
pub struct cusolverMpHandle {
    _unused: [u8; 0],
}
pub type cusolverMpHandle_t = *mut cusolverMpHandle;
#[repr(C)]
#[derive(Debug)]
pub struct cusolverMpNewtonSchulzDescriptor {
    _unused: [u8; 0],
}
pub type cusolverMpNewtonSchulzDescriptor_t = *mut cusolverMpNewtonSchulzDescriptor;
impl cusolverMpNewtonSchulzDescriptorAttribute_t {
    pub const CUSOLVERMP_NEWTON_SCHULZ_DESCRIPTOR_ATTRIBUTE_NORMALIZE:
        cusolverMpNewtonSchulzDescriptorAttribute_t = cusolverMpNewtonSchulzDescriptorAttribute_t(0);
    pub const CUSOLVERMP_NEWTON_SCHULZ_DESCRIPTOR_ATTRIBUTE_REDUCE_VIA_COMPUTE_TYPE:
        cusolverMpNewtonSchulzDescriptorAttribute_t = cusolverMpNewtonSchulzDescriptorAttribute_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverMpNewtonSchulzDescriptorAttribute_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug)]
pub struct cusolverMpPolarDescriptor {
    _unused: [u8; 0],
}
pub type cusolverMpPolarDescriptor_t = *mut cusolverMpPolarDescriptor;
impl cusolverMpPolarDescriptorAttribute_t {
    pub const CUSOLVERMP_POLAR_DESCRIPTOR_ATTRIBUTE_REQUESTED_KSI: cusolverMpPolarDescriptorAttribute_t =
        cusolverMpPolarDescriptorAttribute_t(0);
    pub const CUSOLVERMP_POLAR_DESCRIPTOR_ATTRIBUTE_A_NORM_FROBENIUS: cusolverMpPolarDescriptorAttribute_t =
        cusolverMpPolarDescriptorAttribute_t(1);
    pub const CUSOLVERMP_POLAR_DESCRIPTOR_ATTRIBUTE_RCOND_ESTIMATE: cusolverMpPolarDescriptorAttribute_t =
        cusolverMpPolarDescriptorAttribute_t(2);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverMpPolarDescriptorAttribute_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug)]
pub struct cusolverMpGesvdDescriptor {
    _unused: [u8; 0],
}
pub type cusolverMpGesvdDescriptor_t = *mut cusolverMpGesvdDescriptor;
impl cusolverMpGesvdDescriptorAttribute_t {
    pub const CUSOLVERMP_GESVD_DESCRIPTOR_ATTRIBUTE_COMPUTE_RESIDUAL: cusolverMpGesvdDescriptorAttribute_t =
        cusolverMpGesvdDescriptorAttribute_t(0);
    pub const CUSOLVERMP_GESVD_DESCRIPTOR_ATTRIBUTE_SHAPE: cusolverMpGesvdDescriptorAttribute_t =
        cusolverMpGesvdDescriptorAttribute_t(1);
    pub const CUSOLVERMP_GESVD_DESCRIPTOR_ATTRIBUTE_A_NORM_FROBENIUS: cusolverMpGesvdDescriptorAttribute_t =
        cusolverMpGesvdDescriptorAttribute_t(2);
    pub const CUSOLVERMP_GESVD_DESCRIPTOR_ATTRIBUTE_RCOND: cusolverMpGesvdDescriptorAttribute_t =
        cusolverMpGesvdDescriptorAttribute_t(3);
    pub const CUSOLVERMP_GESVD_DESCRIPTOR_ATTRIBUTE_RESIDUAL_FROBENIUS_ESTIMATE:
        cusolverMpGesvdDescriptorAttribute_t = cusolverMpGesvdDescriptorAttribute_t(4);
    pub const CUSOLVERMP_GESVD_DESCRIPTOR_ATTRIBUTE_NUM_SINGULAR_FOUND: cusolverMpGesvdDescriptorAttribute_t =
        cusolverMpGesvdDescriptorAttribute_t(5);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverMpGesvdDescriptorAttribute_t(pub ::core::ffi::c_uint);
impl cusolverMpGesvdOutputShape_t {
    pub const CUSOLVERMP_GESVD_OUTPUT_SHAPE_THIN: cusolverMpGesvdOutputShape_t =
        cusolverMpGesvdOutputShape_t(0);
    pub const CUSOLVERMP_GESVD_OUTPUT_SHAPE_FULL: cusolverMpGesvdOutputShape_t =
        cusolverMpGesvdOutputShape_t(1);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct cusolverMpGesvdOutputShape_t(pub ::core::ffi::c_uint);
pub type cusolverMpLoggerCallback_t = ::core::option::Option<
    unsafe extern "C" fn(
        logLevel: ::core::ffi::c_int,
        functionName: *const ::core::ffi::c_char,
        message: *const ::core::ffi::c_char,
    ),
>;
nccl_sys::function_table! {
    /// The functions of cuSOLVERMp.
    pub struct CusolverMp;

    unsafe extern "C" {
        #[must_use]
        pub fn cusolverMpPolarDescriptorCreate(polarDesc: *mut cusolverMpPolarDescriptor_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPolarDescriptorDestroy(polarDesc: cusolverMpPolarDescriptor_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPolarDescriptorSetAttribute(
            polarDesc: cusolverMpPolarDescriptor_t,
            attr: cusolverMpPolarDescriptorAttribute_t,
            buf: *const ::core::ffi::c_void,
            sizeInBytes: usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPolarDescriptorGetAttribute(
            polarDesc: cusolverMpPolarDescriptor_t,
            attr: cusolverMpPolarDescriptorAttribute_t,
            buf: *mut ::core::ffi::c_void,
            sizeInBytes: usize,
            sizeInBytesWritten: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGesvdDescriptorCreate(gesvdDesc: *mut cusolverMpGesvdDescriptor_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGesvdDescriptorDestroy(gesvdDesc: cusolverMpGesvdDescriptor_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGesvdDescriptorSetAttribute(
            gesvdDesc: cusolverMpGesvdDescriptor_t,
            attr: cusolverMpGesvdDescriptorAttribute_t,
            buf: *const ::core::ffi::c_void,
            sizeInBytes: usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGesvdDescriptorGetAttribute(
            gesvdDesc: cusolverMpGesvdDescriptor_t,
            attr: cusolverMpGesvdDescriptorAttribute_t,
            buf: *mut ::core::ffi::c_void,
            sizeInBytes: usize,
            sizeInBytesWritten: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpCreate(
            handle: *mut cusolverMpHandle_t,
            deviceId: ::core::ffi::c_int,
            stream: cudaStream_t,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpDestroy(handle: cusolverMpHandle_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSetStream(handle: cusolverMpHandle_t, stream: cudaStream_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetStream(handle: cusolverMpHandle_t, stream: *mut cudaStream_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetVersion(
            handle: cusolverMpHandle_t,
            version: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpCreateDeviceGrid(
            handle: cusolverMpHandle_t,
            grid: *mut cusolverMpGrid_t,
            comm: ncclComm_t,
            numRowDevices: i32,
            numColDevices: i32,
            mapping: cusolverMpGridMapping_t,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpDestroyGrid(grid: cusolverMpGrid_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpCreateMatrixDesc(
            desc: *mut cusolverMpMatrixDescriptor_t,
            grid: cusolverMpGrid_t,
            dataType: cudaDataType,
            M_A: i64,
            N_A: i64,
            MB_A: i64,
            NB_A: i64,
            RSRC_A: u32,
            CSRC_A: u32,
            LLD_A: i64,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpDestroyMatrixDesc(desc: cusolverMpMatrixDescriptor_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpBufferRegister(
            grid: cusolverMpGrid_t,
            ptr: *mut ::core::ffi::c_void,
            size: usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpBufferDeregister(
            grid: cusolverMpGrid_t,
            ptr: *mut ::core::ffi::c_void,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpMalloc(
            grid: cusolverMpGrid_t,
            ptr: *mut *mut ::core::ffi::c_void,
            size: usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpFree(grid: cusolverMpGrid_t, ptr: *mut ::core::ffi::c_void) -> cusolverStatus_t;
        pub fn cusolverMpNUMROC(n: i64, nb: i64, iproc: u32, isrcproc: u32, nprocs: u32) -> i64;
        #[must_use]
        pub fn cusolverMpMatrixScatterH2D(
            handle: cusolverMpHandle_t,
            M: i64,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            root: ::core::ffi::c_int,
            h_src: *const ::core::ffi::c_void,
            h_ldsrc: i64,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpMatrixGatherD2H(
            handle: cusolverMpHandle_t,
            M: i64,
            N: i64,
            d_A: *const ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            root: ::core::ffi::c_int,
            h_dst: *mut ::core::ffi::c_void,
            h_lddst: i64,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetrf_bufferSize(
            handle: cusolverMpHandle_t,
            M: i64,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_ipiv: *mut i64,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetrf(
            handle: cusolverMpHandle_t,
            M: i64,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_ipiv: *mut i64,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetrs_bufferSize(
            handle: cusolverMpHandle_t,
            trans: cublasOperation_t,
            N: i64,
            NRHS: i64,
            d_A: *const ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_ipiv: *const i64,
            d_B: *mut ::core::ffi::c_void,
            IB: i64,
            JB: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetrs(
            handle: cusolverMpHandle_t,
            trans: cublasOperation_t,
            N: i64,
            NRHS: i64,
            d_A: *const ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_ipiv: *const i64,
            d_B: *mut ::core::ffi::c_void,
            IB: i64,
            JB: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            d_info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPotrf_bufferSize(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            n: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPotrf(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            n: i64,
            a: *mut ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPotrs_bufferSize(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            n: i64,
            nrhs: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            b: *const ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPotrs(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            n: i64,
            nrhs: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            b: *mut ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpOrmqr_bufferSize(
            handle: cusolverMpHandle_t,
            side: cublasSideMode_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            k: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            tau: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpOrmqr(
            handle: cusolverMpHandle_t,
            side: cublasSideMode_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            k: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            tau: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpOrmtr_bufferSize(
            handle: cusolverMpHandle_t,
            side: cublasSideMode_t,
            uplo: cublasFillMode_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            tau: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpOrmtr(
            handle: cusolverMpHandle_t,
            side: cublasSideMode_t,
            uplo: cublasFillMode_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            a: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            tau: *const ::core::ffi::c_void,
            c: *mut ::core::ffi::c_void,
            ic: i64,
            jc: i64,
            descC: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGels_bufferSize(
            handle: cusolverMpHandle_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            nrhs: i64,
            a: *mut ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            b: *mut ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGels(
            handle: cusolverMpHandle_t,
            trans: cublasOperation_t,
            m: i64,
            n: i64,
            nrhs: i64,
            a: *mut ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            b: *mut ::core::ffi::c_void,
            ib: i64,
            jb: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpStedc_bufferSize(
            handle: cusolverMpHandle_t,
            compz: *mut ::core::ffi::c_char,
            N: i64,
            d_D: *mut ::core::ffi::c_void,
            d_E: *mut ::core::ffi::c_void,
            d_Q: *mut ::core::ffi::c_void,
            IQ: i64,
            JQ: i64,
            descQ: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
            iwork: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpStedc(
            handle: cusolverMpHandle_t,
            compz: *mut ::core::ffi::c_char,
            N: i64,
            d_D: *mut ::core::ffi::c_void,
            d_E: *mut ::core::ffi::c_void,
            d_Q: *mut ::core::ffi::c_void,
            IQ: i64,
            JQ: i64,
            descQ: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGeqrf_bufferSize(
            handle: cusolverMpHandle_t,
            M: i64,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGeqrf(
            handle: cusolverMpHandle_t,
            M: i64,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_tau: *mut ::core::ffi::c_void,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpOrgqr_bufferSize(
            handle: cusolverMpHandle_t,
            m: i64,
            n: i64,
            k: i64,
            d_A: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_tau: *const ::core::ffi::c_void,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpOrgqr(
            handle: cusolverMpHandle_t,
            m: i64,
            n: i64,
            k: i64,
            d_A: *mut ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_tau: *const ::core::ffi::c_void,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            d_info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSytrd_bufferSize(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_D: *mut ::core::ffi::c_void,
            d_E: *mut ::core::ffi::c_void,
            d_TAU: *mut ::core::ffi::c_void,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSytrd(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_D: *mut ::core::ffi::c_void,
            d_E: *mut ::core::ffi::c_void,
            d_TAU: *mut ::core::ffi::c_void,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSyevd_bufferSize(
            handle: cusolverMpHandle_t,
            jobz: *mut ::core::ffi::c_char,
            uplo: cublasFillMode_t,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_D: *mut ::core::ffi::c_void,
            d_Q: *mut ::core::ffi::c_void,
            IQ: i64,
            JQ: i64,
            descQ: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSyevd(
            handle: cusolverMpHandle_t,
            jobz: *mut ::core::ffi::c_char,
            uplo: cublasFillMode_t,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_D: *mut ::core::ffi::c_void,
            d_Q: *mut ::core::ffi::c_void,
            IQ: i64,
            JQ: i64,
            descQ: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            d_info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSygst_bufferSize(
            handle: cusolverMpHandle_t,
            ibtype: cusolverEigType_t,
            uplo: cublasFillMode_t,
            N: i64,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            IB: i64,
            JB: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSygst(
            handle: cusolverMpHandle_t,
            ibtype: cusolverEigType_t,
            uplo: cublasFillMode_t,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_B: *const ::core::ffi::c_void,
            IB: i64,
            JB: i64,
            descB: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSygvd_bufferSize(
            handle: cusolverMpHandle_t,
            ibtype: cusolverEigType_t,
            jobz: cusolverEigMode_t,
            uplo: cublasFillMode_t,
            N: i64,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            IB: i64,
            JB: i64,
            descB: cusolverMpMatrixDescriptor_t,
            IZ: i64,
            JZ: i64,
            descZ: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSygvd(
            handle: cusolverMpHandle_t,
            ibtype: cusolverEigType_t,
            jobz: cusolverEigMode_t,
            uplo: cublasFillMode_t,
            N: i64,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_B: *mut ::core::ffi::c_void,
            IB: i64,
            JB: i64,
            descB: cusolverMpMatrixDescriptor_t,
            d_W: *mut ::core::ffi::c_void,
            d_Z: *mut ::core::ffi::c_void,
            IZ: i64,
            JZ: i64,
            descZ: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpLaset(
            handle: cusolverMpHandle_t,
            uplo: cublasFillMode_t,
            M: i64,
            N: i64,
            alpha: *const ::core::ffi::c_void,
            beta: *const ::core::ffi::c_void,
            d_A: *mut ::core::ffi::c_void,
            IA: i64,
            JA: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPolar_bufferSize(
            handle: cusolverMpHandle_t,
            polarDesc: cusolverMpPolarDescriptor_t,
            uplo: cublasFillMode_t,
            m: i64,
            n: i64,
            d_A: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_H: *const ::core::ffi::c_void,
            ih: i64,
            jh: i64,
            descH: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpPolar(
            handle: cusolverMpHandle_t,
            polarDesc: cusolverMpPolarDescriptor_t,
            uplo: cublasFillMode_t,
            m: i64,
            n: i64,
            d_A: *mut ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_H: *mut ::core::ffi::c_void,
            ih: i64,
            jh: i64,
            descH: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            d_info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGesvd_bufferSize(
            handle: cusolverMpHandle_t,
            gesvdDesc: cusolverMpGesvdDescriptor_t,
            jobu: cusolverEigMode_t,
            jobvt: cusolverEigMode_t,
            m: i64,
            n: i64,
            d_A: *const ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_S: *const ::core::ffi::c_void,
            d_U: *const ::core::ffi::c_void,
            iu: i64,
            ju: i64,
            descU: cusolverMpMatrixDescriptor_t,
            d_VT: *const ::core::ffi::c_void,
            ivt: i64,
            jvt: i64,
            descVT: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            workspaceInBytesOnDevice: *mut usize,
            workspaceInBytesOnHost: *mut usize,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGesvd(
            handle: cusolverMpHandle_t,
            gesvdDesc: cusolverMpGesvdDescriptor_t,
            jobu: cusolverEigMode_t,
            jobvt: cusolverEigMode_t,
            m: i64,
            n: i64,
            d_A: *mut ::core::ffi::c_void,
            ia: i64,
            ja: i64,
            descA: cusolverMpMatrixDescriptor_t,
            d_S: *mut ::core::ffi::c_void,
            d_U: *mut ::core::ffi::c_void,
            iu: i64,
            ju: i64,
            descU: cusolverMpMatrixDescriptor_t,
            d_VT: *mut ::core::ffi::c_void,
            ivt: i64,
            jvt: i64,
            descVT: cusolverMpMatrixDescriptor_t,
            computeType: cudaDataType_t,
            d_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnDevice: usize,
            h_work: *mut ::core::ffi::c_void,
            workspaceInBytesOnHost: usize,
            d_info: *mut ::core::ffi::c_int,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSetMathMode(handle: cusolverMpHandle_t, mode: cusolverMathMode_t) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetMathMode(
            handle: cusolverMpHandle_t,
            mode: *mut cusolverMathMode_t,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpSetEmulationStrategy(
            handle: cusolverMpHandle_t,
            strategy: cudaEmulationStrategy_t,
        ) -> cusolverStatus_t;
        #[must_use]
        pub fn cusolverMpGetEmulationStrategy(
            handle: cusolverMpHandle_t,
            strategy: *mut cudaEmulationStrategy_t,
        ) -> cusolverStatus_t;
    }
}
