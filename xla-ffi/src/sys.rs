//! The part of XLA's FFI C API that we use, as `#[repr(C)]` structs.
//!
//! They follow `xla/ffi/api/c_api.h` (API minors 1 to 4, jaxlib 0.4.38 to 0.11.2) and
//! `xla/ffi/api/collectives_c_api.h` (collectives 0.1 and later). One binary serves every one of
//! these versions, so where a struct changed between minors each shape is here under its own name;
//! [`crate::call`] and [`crate::state`] choose by the minor that the runtime reports. The test
//! `headers` compares these structs with the headers that jaxlib ships.
//!
//! A `struct_size` field holds the number of bytes that the maker of a struct knows about; XLA
//! demands that it be at least what XLA expects.

// The fields carry the names of the C headers, which document them.
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_void};

/// `XLA_FFI_Error`, known by address only.
#[repr(C)]
pub struct Error {
    _opaque: [u8; 0],
}

/// `XLA_FFI_ExecutionContext`, since minor 4 `XLA_FFI_InvokeContext`; known by address only.
#[repr(C)]
pub struct Context {
    _opaque: [u8; 0],
}

/// `XLA_FFI_Future`, known by address only.
#[repr(C)]
pub struct Future {
    _opaque: [u8; 0],
}

/// The only major version of the API so far.
pub const API_MAJOR: c_int = 0;
/// The oldest minor that we speak.
pub const OLDEST_MINOR: c_int = 1;
/// The newest minor that we know.
pub const NEWEST_MINOR: c_int = 4;

/// Error codes of `XLA_FFI_Error_Code` that we return.
pub mod error_code {
    use std::ffi::c_int;
    pub const UNKNOWN: c_int = 2;
    pub const INVALID_ARGUMENT: c_int = 3;
    pub const DEADLINE_EXCEEDED: c_int = 4;
    pub const RESOURCE_EXHAUSTED: c_int = 8;
    pub const FAILED_PRECONDITION: c_int = 9;
    pub const UNIMPLEMENTED: c_int = 12;
    pub const INTERNAL: c_int = 13;
}

/// Element types of `XLA_FFI_DataType` that we name.
pub mod data_type {
    use std::ffi::c_int;
    pub const PRED: c_int = 1;
    pub const S8: c_int = 2;
    pub const S16: c_int = 3;
    pub const S32: c_int = 4;
    pub const S64: c_int = 5;
    pub const U8: c_int = 6;
    pub const U16: c_int = 7;
    pub const U32: c_int = 8;
    pub const U64: c_int = 9;
    pub const F16: c_int = 10;
    pub const F32: c_int = 11;
    pub const F64: c_int = 12;
    pub const C64: c_int = 15;
    pub const BF16: c_int = 16;
    pub const C128: c_int = 18;
}

/// Kinds of attributes, `XLA_FFI_AttrType`.
pub mod attribute_type {
    use std::ffi::c_int;
    pub const ARRAY: c_int = 1;
    pub const DICTIONARY: c_int = 2;
    pub const SCALAR: c_int = 3;
    pub const STRING: c_int = 4;
}

/// The only kind of operand and result, `XLA_FFI_ArgType_BUFFER` and `XLA_FFI_RetType_BUFFER`.
pub const BUFFER_OPERAND: c_int = 1;

/// Stages of a call, `XLA_FFI_ExecutionStage`.
pub mod stage {
    use std::ffi::c_int;
    pub const INSTANTIATE: c_int = 0;
    pub const PREPARE: c_int = 1;
    pub const INITIALIZE: c_int = 2;
    pub const EXECUTE: c_int = 3;
}

/// `XLA_FFI_Extension_Base`: a node of the list of extensions of a struct (up to minor 3; later
/// `XLA_FFI_InternalExtension_Base`).
#[repr(C)]
pub struct ExtensionBase {
    pub struct_size: usize,
    pub kind: c_int,
    pub next: *mut ExtensionBase,
}

/// The extension by which XLA asks a handler for its metadata.
pub const EXTENSION_METADATA: c_int = 1;

#[repr(C)]
pub struct ApiVersion {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub major_version: c_int,
    pub minor_version: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TypeId {
    pub type_id: i64,
}

/// `XLA_FFI_Metadata`. XLA reports 36 bytes for it in every version. `state_type_id` exists from
/// jaxlib 0.8.0 on; we leave it alone: XLA takes "unknown" for an answer, and on older versions
/// those bytes are not part of the struct.
#[repr(C)]
pub struct Metadata {
    pub struct_size: usize,
    pub api_version: ApiVersion,
    pub traits: u32,
    pub state_type_id: TypeId,
}

#[repr(C)]
pub struct MetadataExtension {
    pub extension_base: ExtensionBase,
    pub metadata: *mut Metadata,
}

/// `XLA_FFI_ByteSpan`: text without a terminating zero.
#[repr(C)]
pub struct ByteSpan {
    pub ptr: *const c_char,
    pub len: usize,
}

#[repr(C)]
pub struct Scalar {
    pub dtype: c_int,
    pub value: *mut c_void,
}

#[repr(C)]
pub struct Array {
    pub dtype: c_int,
    pub size: usize,
    pub data: *mut c_void,
}

#[repr(C)]
pub struct Buffer {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub dtype: c_int,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *mut i64,
}

#[repr(C)]
pub struct Args {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub size: i64,
    pub types: *mut c_int,
    pub args: *mut *mut c_void,
}

#[repr(C)]
pub struct Rets {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub size: i64,
    pub types: *mut c_int,
    pub rets: *mut *mut c_void,
}

#[repr(C)]
pub struct Attrs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub size: i64,
    pub types: *mut c_int,
    pub names: *mut *mut ByteSpan,
    pub attrs: *mut *mut c_void,
}

/// `XLA_FFI_CallFrame`. XLA reports 168 bytes for it, without `future`, though every runtime from
/// minor 1 on has that field.
#[repr(C)]
pub struct CallFrame {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub api: *const Api,
    pub ctx: *mut Context,
    pub stage: c_int,
    pub args: Args,
    pub rets: Rets,
    pub attrs: Attrs,
    pub future: *mut Future,
}

/// `XLA_FFI_Handler`: what a target is made of, one for each stage.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Error;

#[repr(C)]
pub struct ErrorCreateArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub message: *const c_char,
    pub errc: c_int,
}

/// `XLA_FFI_Error_GetDetails_Args` of minor 4. Older runtimes have `XLA_FFI_Error_GetMessage` in
/// the same slot, which lacks `errc` and takes a larger struct without complaint.
#[repr(C)]
pub struct ErrorGetDetailsArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub error: *mut Error,
    pub message: *const c_char,
    pub errc: c_int,
}

#[repr(C)]
pub struct ErrorDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub error: *mut Error,
}

/// Destroys a state object when XLA no longer needs it.
pub type Deleter = unsafe extern "C" fn(*mut c_void);

#[repr(C)]
pub struct TypeInfo {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub deleter: Option<Deleter>,
}

/// `XLA_FFI_TypeId_Register_Args` of minor 1.
#[repr(C)]
pub struct TypeRegisterArgsMinor1 {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub name: ByteSpan,
    pub type_id: *mut TypeId,
}

/// `XLA_FFI_Type_Register_Args` of minor 2 and later.
#[repr(C)]
pub struct TypeRegisterArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub name: ByteSpan,
    pub type_id: *mut TypeId,
    pub type_info: *const TypeInfo,
}

/// `XLA_FFI_State_Set_Args` of minor 1.
#[repr(C)]
pub struct StateSetArgsMinor1 {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub type_id: *mut TypeId,
    pub state: *mut c_void,
    pub deleter: Option<Deleter>,
}

/// `XLA_FFI_State_Set_Args` of minor 2 and `XLA_FFI_State_Get_Args` of minors 1 and 2.
#[repr(C)]
pub struct StateArgsWithoutStage {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub type_id: *mut TypeId,
    pub state: *mut c_void,
}

/// `XLA_FFI_State_Set_Args` and `XLA_FFI_State_Get_Args` of minor 3 and later.
#[repr(C)]
pub struct StateArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub stage: c_int,
    pub type_id: *mut TypeId,
    pub state: *mut c_void,
}

#[repr(C)]
pub struct StreamGetArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub stream: *mut c_void,
}

#[repr(C)]
pub struct FutureCreateArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub future: *mut Future,
}

#[repr(C)]
pub struct FutureSetAvailableArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub future: *mut Future,
}

#[repr(C)]
pub struct FutureSetErrorArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub future: *mut Future,
    pub error: *mut Error,
}

#[repr(C)]
pub struct RunIdGetArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub run_id: i64,
}

#[repr(C)]
pub struct DeviceOrdinalGetArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub device_ordinal: i32,
}

/// `XLA_FFI_Extension_Id`: which extension of an invoke context (minor 4).
#[repr(C)]
pub struct ContextExtensionId {
    pub extension_type: i64,
    pub major_version: i32,
    pub minor_version: i32,
}

/// `XLA_FFI_Extension`: an extension of an invoke context (minor 4).
#[repr(C)]
pub struct ContextExtension {
    pub struct_size: usize,
    pub id: ContextExtensionId,
    pub next: *const ContextExtension,
}

#[repr(C)]
pub struct FindExtensionArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub extension_type: i64,
    pub extension: *const ContextExtension,
}

#[repr(C)]
pub struct DeviceMemoryAllocateArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub size: usize,
    pub alignment: usize,
    pub data: *mut c_void,
}

#[repr(C)]
pub struct DeviceMemoryFreeArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub ctx: *mut Context,
    pub size: usize,
    pub data: *mut c_void,
}

/// A slot of the table whose arguments depend on the minor, or that we do not call.
pub type UntypedFn = unsafe extern "C" fn(*mut c_void) -> *mut Error;

/// `XLA_FFI_Api`: the functions that the runtime offers. A slot may be used only if it lies within
/// `struct_size` bytes; see [`crate::call::Api`].
#[repr(C)]
pub struct Api {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub api_version: ApiVersion,
    pub internal_api: *const c_void,
    pub error_create: Option<unsafe extern "C" fn(*mut ErrorCreateArgs) -> *mut Error>,
    pub error_get_details: Option<unsafe extern "C" fn(*mut ErrorGetDetailsArgs)>,
    pub error_destroy: Option<unsafe extern "C" fn(*mut ErrorDestroyArgs)>,
    pub handler_register: Option<UntypedFn>,
    pub stream_get: Option<unsafe extern "C" fn(*mut StreamGetArgs) -> *mut Error>,
    pub type_register: Option<UntypedFn>,
    pub context_get: Option<UntypedFn>,
    pub state_set: Option<UntypedFn>,
    pub state_get: Option<UntypedFn>,
    pub device_memory_allocate: Option<unsafe extern "C" fn(*mut DeviceMemoryAllocateArgs) -> *mut Error>,
    pub device_memory_free: Option<unsafe extern "C" fn(*mut DeviceMemoryFreeArgs) -> *mut Error>,
    pub thread_pool_schedule: Option<UntypedFn>,
    pub thread_pool_num_threads: Option<UntypedFn>,
    pub future_create: Option<unsafe extern "C" fn(*mut FutureCreateArgs) -> *mut Error>,
    pub future_set_available: Option<unsafe extern "C" fn(*mut FutureSetAvailableArgs) -> *mut Error>,
    pub future_set_error: Option<unsafe extern "C" fn(*mut FutureSetErrorArgs) -> *mut Error>,
    /// Since jaxlib 0.5.1; covered by `struct_size` since 0.6.0.
    pub run_id_get: Option<unsafe extern "C" fn(*mut RunIdGetArgs) -> *mut Error>,
    /// Since jaxlib 0.6.0.
    pub device_ordinal_get: Option<unsafe extern "C" fn(*mut DeviceOrdinalGetArgs) -> *mut Error>,
    /// Since minor 4.
    pub find_extension: Option<unsafe extern "C" fn(*mut FindExtensionArgs) -> *mut Error>,
}

/// The extension of an invoke context that lends out XLA's communicators.
pub const EXTENSION_COLLECTIVES: i64 = 129;
/// Groups are named by flattened ids: replica · partitions + partition.
pub const GROUP_MODE_FLATTENED_ID: c_int = 3;

#[repr(C)]
pub struct ReplicaGroup {
    pub ids: *const i64,
    pub size: usize,
}

#[repr(C)]
pub struct RequestCommunicatorArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub group_mode: c_int,
    pub groups: *const ReplicaGroup,
    pub num_groups: usize,
    pub communication_id: i64,
}

#[repr(C)]
pub struct GetCommunicatorArgs {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub group_mode: c_int,
    pub groups: *const ReplicaGroup,
    pub num_groups: usize,
    pub communication_id: i64,
    pub communicator: *mut c_void,
}

/// The collectives extension, version 0.1; later minors of major 0 only append fields.
#[repr(C)]
pub struct CollectivesExtension {
    pub base: ContextExtension,
    pub state: *mut c_void,
    pub request_communicator:
        Option<unsafe extern "C" fn(*const CollectivesExtension, *mut RequestCommunicatorArgs) -> *mut Error>,
    pub get_communicator:
        Option<unsafe extern "C" fn(*const CollectivesExtension, *mut GetCommunicatorArgs) -> *mut Error>,
}

// Facts of the binary interface, checked on every build; the headers are compared in a test.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<CallFrame>() == 176 && offset_of!(CallFrame, future) == 168);
    assert!(size_of::<Metadata>() == 48 && offset_of!(Metadata, traits) == 32);
    assert!(offset_of!(Metadata, state_type_id) == 40);
    assert!(size_of::<MetadataExtension>() == 32 && size_of::<Buffer>() == 48);
    assert!(size_of::<Args>() == 40 && size_of::<Rets>() == 40 && size_of::<Attrs>() == 48);
    assert!(size_of::<Api>() == 200 && offset_of!(Api, stream_get) == 80);
    assert!(offset_of!(Api, run_id_get) == 176 && offset_of!(Api, find_extension) == 192);
    assert!(size_of::<StateSetArgsMinor1>() == 48 && size_of::<StateArgsWithoutStage>() == 40);
    assert!(size_of::<StateArgs>() == 48 && size_of::<TypeInfo>() == 24);
    assert!(size_of::<TypeRegisterArgsMinor1>() == 40 && size_of::<TypeRegisterArgs>() == 48);
    assert!(size_of::<ErrorGetDetailsArgs>() == 40 && size_of::<FutureCreateArgs>() == 24);
    assert!(size_of::<DeviceMemoryAllocateArgs>() == 48 && size_of::<DeviceMemoryFreeArgs>() == 40);
    assert!(size_of::<CollectivesExtension>() == 56);
    assert!(size_of::<RequestCommunicatorArgs>() == 48 && size_of::<GetCommunicatorArgs>() == 56);
};
