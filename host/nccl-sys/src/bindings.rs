// Made by `cargo xtask bindings` from nccl.h of nvidia-nccl-cu13 2.29.7. Do not edit.
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![allow(clippy::all)]

/// A CUDA stream.
pub type cudaStream_t = *mut core::ffi::c_void;

pub const NCCL_MAJOR: u32 = 2;
pub const NCCL_MINOR: u32 = 29;
pub const NCCL_PATCH: u32 = 7;
pub const NCCL_VERSION_CODE: u32 = 22907;
pub const NCCL_UNIQUE_ID_BYTES: u32 = 128;
pub const NCCL_SPLIT_NOCOLOR: i32 = -1;
pub const NCCL_API_MAGIC: u32 = 3405692655;
#[repr(C)]
#[derive(Debug)]
pub struct ncclComm {
    _unused: [u8; 0],
}
pub type ncclComm_t = *mut ncclComm;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclUniqueId {
    pub internal: [::core::ffi::c_char; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclUniqueId"][::core::mem::size_of::<ncclUniqueId>() - 128usize];
    ["Alignment of ncclUniqueId"][::core::mem::align_of::<ncclUniqueId>() - 1usize];
    ["Offset of field: ncclUniqueId::internal"][::core::mem::offset_of!(ncclUniqueId, internal) - 0usize];
};
impl ncclResult_t {
    pub const ncclSuccess: ncclResult_t = ncclResult_t(0);
    pub const ncclUnhandledCudaError: ncclResult_t = ncclResult_t(1);
    pub const ncclSystemError: ncclResult_t = ncclResult_t(2);
    pub const ncclInternalError: ncclResult_t = ncclResult_t(3);
    pub const ncclInvalidArgument: ncclResult_t = ncclResult_t(4);
    pub const ncclInvalidUsage: ncclResult_t = ncclResult_t(5);
    pub const ncclRemoteError: ncclResult_t = ncclResult_t(6);
    pub const ncclInProgress: ncclResult_t = ncclResult_t(7);
    pub const ncclNumResults: ncclResult_t = ncclResult_t(8);
}
#[repr(transparent)]
#[must_use]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ncclResult_t(pub ::core::ffi::c_uint);
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ncclConfig_v22800 {
    pub size: usize,
    pub magic: ::core::ffi::c_uint,
    pub version: ::core::ffi::c_uint,
    pub blocking: ::core::ffi::c_int,
    pub cgaClusterSize: ::core::ffi::c_int,
    pub minCTAs: ::core::ffi::c_int,
    pub maxCTAs: ::core::ffi::c_int,
    pub netName: *const ::core::ffi::c_char,
    pub splitShare: ::core::ffi::c_int,
    pub trafficClass: ::core::ffi::c_int,
    pub commName: *const ::core::ffi::c_char,
    pub collnetEnable: ::core::ffi::c_int,
    pub CTAPolicy: ::core::ffi::c_int,
    pub shrinkShare: ::core::ffi::c_int,
    pub nvlsCTAs: ::core::ffi::c_int,
    pub nChannelsPerNetPeer: ::core::ffi::c_int,
    pub nvlinkCentricSched: ::core::ffi::c_int,
    pub graphUsageMode: ::core::ffi::c_int,
    pub numRmaCtx: ::core::ffi::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of ncclConfig_v22800"][::core::mem::size_of::<ncclConfig_v22800>() - 88usize];
    ["Alignment of ncclConfig_v22800"][::core::mem::align_of::<ncclConfig_v22800>() - 8usize];
    ["Offset of field: ncclConfig_v22800::size"][::core::mem::offset_of!(ncclConfig_v22800, size) - 0usize];
    ["Offset of field: ncclConfig_v22800::magic"][::core::mem::offset_of!(ncclConfig_v22800, magic) - 8usize];
    ["Offset of field: ncclConfig_v22800::version"]
        [::core::mem::offset_of!(ncclConfig_v22800, version) - 12usize];
    ["Offset of field: ncclConfig_v22800::blocking"]
        [::core::mem::offset_of!(ncclConfig_v22800, blocking) - 16usize];
    ["Offset of field: ncclConfig_v22800::cgaClusterSize"]
        [::core::mem::offset_of!(ncclConfig_v22800, cgaClusterSize) - 20usize];
    ["Offset of field: ncclConfig_v22800::minCTAs"]
        [::core::mem::offset_of!(ncclConfig_v22800, minCTAs) - 24usize];
    ["Offset of field: ncclConfig_v22800::maxCTAs"]
        [::core::mem::offset_of!(ncclConfig_v22800, maxCTAs) - 28usize];
    ["Offset of field: ncclConfig_v22800::netName"]
        [::core::mem::offset_of!(ncclConfig_v22800, netName) - 32usize];
    ["Offset of field: ncclConfig_v22800::splitShare"]
        [::core::mem::offset_of!(ncclConfig_v22800, splitShare) - 40usize];
    ["Offset of field: ncclConfig_v22800::trafficClass"]
        [::core::mem::offset_of!(ncclConfig_v22800, trafficClass) - 44usize];
    ["Offset of field: ncclConfig_v22800::commName"]
        [::core::mem::offset_of!(ncclConfig_v22800, commName) - 48usize];
    ["Offset of field: ncclConfig_v22800::collnetEnable"]
        [::core::mem::offset_of!(ncclConfig_v22800, collnetEnable) - 56usize];
    ["Offset of field: ncclConfig_v22800::CTAPolicy"]
        [::core::mem::offset_of!(ncclConfig_v22800, CTAPolicy) - 60usize];
    ["Offset of field: ncclConfig_v22800::shrinkShare"]
        [::core::mem::offset_of!(ncclConfig_v22800, shrinkShare) - 64usize];
    ["Offset of field: ncclConfig_v22800::nvlsCTAs"]
        [::core::mem::offset_of!(ncclConfig_v22800, nvlsCTAs) - 68usize];
    ["Offset of field: ncclConfig_v22800::nChannelsPerNetPeer"]
        [::core::mem::offset_of!(ncclConfig_v22800, nChannelsPerNetPeer) - 72usize];
    ["Offset of field: ncclConfig_v22800::nvlinkCentricSched"]
        [::core::mem::offset_of!(ncclConfig_v22800, nvlinkCentricSched) - 76usize];
    ["Offset of field: ncclConfig_v22800::graphUsageMode"]
        [::core::mem::offset_of!(ncclConfig_v22800, graphUsageMode) - 80usize];
    ["Offset of field: ncclConfig_v22800::numRmaCtx"]
        [::core::mem::offset_of!(ncclConfig_v22800, numRmaCtx) - 84usize];
};
pub type ncclConfig_t = ncclConfig_v22800;
impl ncclRedOp_t {
    pub const ncclSum: ncclRedOp_t = ncclRedOp_t(0);
    pub const ncclProd: ncclRedOp_t = ncclRedOp_t(1);
    pub const ncclMax: ncclRedOp_t = ncclRedOp_t(2);
    pub const ncclMin: ncclRedOp_t = ncclRedOp_t(3);
    pub const ncclAvg: ncclRedOp_t = ncclRedOp_t(4);
    pub const ncclNumOps: ncclRedOp_t = ncclRedOp_t(5);
    pub const ncclMaxRedOp: ncclRedOp_t = ncclRedOp_t(2147483647);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ncclRedOp_t(pub ::core::ffi::c_uint);
impl ncclDataType_t {
    pub const ncclInt8: ncclDataType_t = ncclDataType_t(0);
    pub const ncclChar: ncclDataType_t = ncclDataType_t(0);
    pub const ncclUint8: ncclDataType_t = ncclDataType_t(1);
    pub const ncclInt32: ncclDataType_t = ncclDataType_t(2);
    pub const ncclInt: ncclDataType_t = ncclDataType_t(2);
    pub const ncclUint32: ncclDataType_t = ncclDataType_t(3);
    pub const ncclInt64: ncclDataType_t = ncclDataType_t(4);
    pub const ncclUint64: ncclDataType_t = ncclDataType_t(5);
    pub const ncclFloat16: ncclDataType_t = ncclDataType_t(6);
    pub const ncclHalf: ncclDataType_t = ncclDataType_t(6);
    pub const ncclFloat32: ncclDataType_t = ncclDataType_t(7);
    pub const ncclFloat: ncclDataType_t = ncclDataType_t(7);
    pub const ncclFloat64: ncclDataType_t = ncclDataType_t(8);
    pub const ncclDouble: ncclDataType_t = ncclDataType_t(8);
    pub const ncclBfloat16: ncclDataType_t = ncclDataType_t(9);
    pub const ncclFloat8e4m3: ncclDataType_t = ncclDataType_t(10);
    pub const ncclFloat8e5m2: ncclDataType_t = ncclDataType_t(11);
    pub const ncclNumTypes: ncclDataType_t = ncclDataType_t(12);
}
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct ncclDataType_t(pub ::core::ffi::c_uint);
nccl_sys::function_table! {
    /// The functions of NCCL.
    pub struct Nccl;

    unsafe extern "C" {
        #[must_use]
        pub fn ncclMemAlloc(ptr: *mut *mut ::core::ffi::c_void, size: usize) -> ncclResult_t;
        #[must_use]
        pub fn ncclMemFree(ptr: *mut ::core::ffi::c_void) -> ncclResult_t;
        #[must_use]
        pub fn ncclGetVersion(version: *mut ::core::ffi::c_int) -> ncclResult_t;
        #[must_use]
        pub fn ncclGetUniqueId(uniqueId: *mut ncclUniqueId) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommInitRankConfig(
            comm: *mut ncclComm_t,
            nranks: ::core::ffi::c_int,
            commId: ncclUniqueId,
            rank: ::core::ffi::c_int,
            config: *mut ncclConfig_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommInitRank(
            comm: *mut ncclComm_t,
            nranks: ::core::ffi::c_int,
            commId: ncclUniqueId,
            rank: ::core::ffi::c_int,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommInitAll(
            comm: *mut ncclComm_t,
            ndev: ::core::ffi::c_int,
            devlist: *const ::core::ffi::c_int,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommSplit(
            comm: ncclComm_t,
            color: ::core::ffi::c_int,
            key: ::core::ffi::c_int,
            newcomm: *mut ncclComm_t,
            config: *mut ncclConfig_t,
        ) -> ncclResult_t;
        pub fn ncclGetErrorString(result: ncclResult_t) -> *const ::core::ffi::c_char;
        pub fn ncclGetLastError(comm: ncclComm_t) -> *const ::core::ffi::c_char;
        #[must_use]
        pub fn ncclCommGetAsyncError(comm: ncclComm_t, asyncError: *mut ncclResult_t) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommCount(comm: ncclComm_t, count: *mut ::core::ffi::c_int) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommCuDevice(comm: ncclComm_t, device: *mut ::core::ffi::c_int) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommUserRank(comm: ncclComm_t, rank: *mut ::core::ffi::c_int) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommRegister(
            comm: ncclComm_t,
            buff: *mut ::core::ffi::c_void,
            size: usize,
            handle: *mut *mut ::core::ffi::c_void,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclCommDeregister(comm: ncclComm_t, handle: *mut ::core::ffi::c_void) -> ncclResult_t;
        #[must_use]
        pub fn ncclReduce(
            sendbuff: *const ::core::ffi::c_void,
            recvbuff: *mut ::core::ffi::c_void,
            count: usize,
            datatype: ncclDataType_t,
            op: ncclRedOp_t,
            root: ::core::ffi::c_int,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclBroadcast(
            sendbuff: *const ::core::ffi::c_void,
            recvbuff: *mut ::core::ffi::c_void,
            count: usize,
            datatype: ncclDataType_t,
            root: ::core::ffi::c_int,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclAllReduce(
            sendbuff: *const ::core::ffi::c_void,
            recvbuff: *mut ::core::ffi::c_void,
            count: usize,
            datatype: ncclDataType_t,
            op: ncclRedOp_t,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclReduceScatter(
            sendbuff: *const ::core::ffi::c_void,
            recvbuff: *mut ::core::ffi::c_void,
            recvcount: usize,
            datatype: ncclDataType_t,
            op: ncclRedOp_t,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclAllGather(
            sendbuff: *const ::core::ffi::c_void,
            recvbuff: *mut ::core::ffi::c_void,
            sendcount: usize,
            datatype: ncclDataType_t,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclSend(
            sendbuff: *const ::core::ffi::c_void,
            count: usize,
            datatype: ncclDataType_t,
            peer: ::core::ffi::c_int,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclRecv(
            recvbuff: *mut ::core::ffi::c_void,
            count: usize,
            datatype: ncclDataType_t,
            peer: ::core::ffi::c_int,
            comm: ncclComm_t,
            stream: cudaStream_t,
        ) -> ncclResult_t;
        #[must_use]
        pub fn ncclGroupStart() -> ncclResult_t;
        #[must_use]
        pub fn ncclGroupEnd() -> ncclResult_t;
    }
}
