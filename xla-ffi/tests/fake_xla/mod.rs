//! A stand-in for XLA's side of the FFI, one for each shape of runtime that exists.
//!
//! It checks what XLA checks (struct sizes, state types) and also what XLA silently assumes: that
//! an error comes with no future, that nobody calls a slot outside the table, and that nothing but
//! the memory of a buffer is used after a handler returned (descriptions are scrambled then).

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{offset_of, size_of};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

use meshsolve_xla_ffi::sys;

/// What tells runtimes apart.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub name: &'static str,
    pub minor: c_int,
    /// The size that the table claims to have.
    pub struct_size: usize,
    /// Whether a query for metadata comes with the table.
    pub table_in_metadata: bool,
    /// Whether the collectives extension is attached.
    pub collectives: bool,
}

/// Every kind of runtime that we serve. The table of jaxlib 0.5.0 is longer than it says.
pub const VERSIONS: [Version; 6] = [
    Version { name: "0.6.2", minor: 1, struct_size: 192, table_in_metadata: false, collectives: false },
    Version { name: "0.8.0", minor: 1, struct_size: 192, table_in_metadata: false, collectives: false },
    Version { name: "0.8.3", minor: 2, struct_size: 192, table_in_metadata: true, collectives: false },
    Version { name: "0.10.2", minor: 3, struct_size: 192, table_in_metadata: true, collectives: false },
    Version { name: "0.11.1", minor: 4, struct_size: 200, table_in_metadata: true, collectives: false },
    Version {
        name: "0.11.2 with NCCL",
        minor: 4,
        struct_size: 200,
        table_in_metadata: true,
        collectives: true,
    },
];

/// Too old: neither run ids nor device ordinals.
pub const OLD: Version =
    Version { name: "0.5.0", minor: 1, struct_size: 88, table_in_metadata: false, collectives: false };

/// An error as XLA would see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: c_int,
    pub message: String,
}

struct Error {
    status: Status,
    text: CString,
}

fn error(code: c_int, message: impl Into<String>) -> *mut sys::Error {
    let message = message.into();
    let text = CString::new(message.clone()).expect("no zero bytes");
    Box::into_raw(Box::new(Error { status: Status { code, message }, text })).cast()
}

/// Takes an error that a handler returned.
fn take(error: *mut sys::Error) -> Option<Status> {
    // SAFETY: all errors are made by `error`.
    (!error.is_null()).then(|| unsafe { Box::from_raw(error.cast::<Error>()) }.status)
}

/// A future as XLA would see it.
#[derive(Default)]
pub struct Future {
    end: Mutex<Option<Result<(), Status>>>,
    ended: Condvar,
    next: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Future {
    fn complete(&self, end: Result<(), Status>) -> *mut sys::Error {
        let mut slot = self.end.lock().unwrap();
        if slot.is_some() {
            return error(13, "a future was completed twice");
        }
        *slot = Some(end);
        self.ended.notify_all();
        drop(slot);
        // XLA goes on with the device's program in the thread that completes the future.
        if let Some(next) = self.next.lock().unwrap().take() {
            next();
        }
        ptr::null_mut()
    }

    /// Sets what comes after this in the device's program.
    pub fn then(&self, next: impl FnOnce() + Send + 'static) {
        *self.next.lock().unwrap() = Some(Box::new(next));
    }

    /// Waits like XLA, though not forever.
    pub fn wait(&self) -> Result<(), Status> {
        let end = self.end.lock().unwrap();
        let (end, _) =
            self.ended.wait_timeout_while(end, Duration::from_secs(60), |end| end.is_none()).unwrap();
        end.clone().expect("the future was never completed")
    }
}

/// Futures by the address that the handler knows.
static FUTURES: LazyLock<Mutex<HashMap<usize, Arc<Future>>>> = LazyLock::new(Mutex::default);

fn future(address: *mut sys::Future) -> Option<Arc<Future>> {
    FUTURES.lock().unwrap().get(&(address as usize)).cloned()
}

/// Whether anyone called a slot outside the table.
pub static OUTSIDE_TABLE: AtomicBool = AtomicBool::new(false);

/// A call's surroundings: what XLA's context points to.
struct Context {
    version: Version,
    run_id: i64,
    device: i32,
    stage: c_int,
    site: *const CallSite,
    collectives: UnsafeCell<Collectives>,
}

/// The collectives extension together with its memory of the request.
#[repr(C)]
struct Collectives {
    extension: sys::CollectivesExtension,
    stage: c_int,
}

/// One call of a compiled program, with its state.
pub struct CallSite {
    state: Mutex<Option<State>>,
    requested: Mutex<Option<(Vec<i64>, i64)>>,
}

struct State {
    type_id: i64,
    object: usize,
    deleter: sys::Deleter,
}

impl Drop for CallSite {
    fn drop(&mut self) {
        if let Some(state) = self.state.get_mut().unwrap().take() {
            // SAFETY: as XLA does when the program dies.
            unsafe { (state.deleter)(state.object as *mut c_void) };
        }
    }
}

/// Type ids by XLA instance; the deleter is there from minor 2 on.
struct Type {
    id: i64,
    deleter: Option<sys::Deleter>,
}

static TYPES: LazyLock<Mutex<Vec<Type>>> = LazyLock::new(Mutex::default);
static NEXT_TYPE: AtomicI64 = AtomicI64::new(1);

/// What XLA does with the size of every struct that it is given.
macro_rules! demand_size {
    ($args:expr, $size:expr) => {
        if (*$args).struct_size < $size {
            let (given, wanted) = ((*$args).struct_size, $size);
            return error(
                3,
                format!("unexpected struct size: {given}, at least {wanted} at line {}", line!()),
            );
        }
    };
}

unsafe extern "C" fn error_create(args: *mut sys::ErrorCreateArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 28);
        error((*args).errc, CStr::from_ptr((*args).message).to_string_lossy())
    }
}

/// `errc` exists from minor 4 on, and only then may it be written.
unsafe extern "C" fn error_get<const MINOR: c_int>(args: *mut sys::ErrorGetDetailsArgs) {
    // SAFETY: the handler's promise.
    unsafe {
        let error = &*(*args).error.cast::<Error>();
        (*args).message = error.text.as_ptr();
        if MINOR >= 4 {
            (*args).errc = error.status.code;
        }
    }
}

unsafe extern "C" fn error_destroy(args: *mut sys::ErrorDestroyArgs) {
    // SAFETY: the handler's promise.
    drop(take(unsafe { (*args).error }));
}

unsafe extern "C" fn type_register<const MINOR: c_int>(args: *mut c_void) -> *mut sys::Error {
    let args = args.cast::<sys::TypeRegisterArgs>();
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, if MINOR >= 2 { 48 } else { 40 });
        let id = NEXT_TYPE.fetch_add(1, Ordering::Relaxed);
        let deleter = if MINOR >= 2 {
            demand_size!((*args).type_info, 24);
            (*(*args).type_info).deleter
        } else {
            None
        };
        (*(*args).type_id).type_id = id;
        TYPES.lock().unwrap().push(Type { id, deleter });
        ptr::null_mut()
    }
}

/// The state's call site, type id, object and deleter, whatever the shape of the struct.
unsafe extern "C" fn state_set<const MINOR: c_int>(args: *mut c_void) -> *mut sys::Error {
    // SAFETY: the handler's promise, the shape being that of the minor.
    unsafe {
        let (ctx, type_id, object, deleter) = match MINOR {
            1 => {
                let args = args.cast::<sys::StateSetArgsMinor1>();
                demand_size!(args, 48);
                ((*args).ctx, (*args).type_id, (*args).state, (*args).deleter)
            }
            2 => {
                let args = args.cast::<sys::StateArgsWithoutStage>();
                demand_size!(args, 40);
                ((*args).ctx, (*args).type_id, (*args).state, None)
            }
            _ => {
                let args = args.cast::<sys::StateArgs>();
                demand_size!(args, 48);
                if (*args).stage != sys::stage::INSTANTIATE {
                    return error(3, format!("stage {} in State_Set", (*args).stage));
                }
                ((*args).ctx, (*args).type_id, (*args).state, None)
            }
        };
        let type_id = (*type_id).type_id;
        let deleter = deleter.or_else(|| {
            TYPES.lock().unwrap().iter().find(|known| known.id == type_id).and_then(|known| known.deleter)
        });
        let Some(deleter) = deleter else { return error(3, format!("type {type_id} has no deleter")) };
        let mut state = (*(*ctx.cast::<Context>()).site).state.lock().unwrap();
        if state.is_some() {
            return error(9, "State is already set");
        }
        *state = Some(State { type_id, object: object as usize, deleter });
        ptr::null_mut()
    }
}

unsafe extern "C" fn state_get<const MINOR: c_int>(args: *mut c_void) -> *mut sys::Error {
    // SAFETY: the handler's promise, the shape being that of the minor.
    unsafe {
        let (ctx, type_id, out) = if MINOR < 3 {
            let args = args.cast::<sys::StateArgsWithoutStage>();
            demand_size!(args, 40);
            ((*args).ctx, (*args).type_id, &raw mut (*args).state)
        } else {
            let args = args.cast::<sys::StateArgs>();
            demand_size!(args, 48);
            if (*args).stage != sys::stage::INSTANTIATE {
                return error(3, format!("stage {} in State_Get", (*args).stage));
            }
            ((*args).ctx, (*args).type_id, &raw mut (*args).state)
        };
        match &*(*(*ctx.cast::<Context>()).site).state.lock().unwrap() {
            None => return error(5, "State is not set"),
            Some(state) if state.type_id != (*type_id).type_id => {
                return error(3, "State is of another type");
            }
            Some(state) => *out = state.object as *mut c_void,
        }
        ptr::null_mut()
    }
}

unsafe extern "C" fn future_create(args: *mut sys::FutureCreateArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 16);
        let future = Arc::new(Future::default());
        (*args).future = Arc::as_ptr(&future).cast_mut().cast();
        FUTURES.lock().unwrap().insert((*args).future as usize, future);
        ptr::null_mut()
    }
}

unsafe extern "C" fn future_set_available(args: *mut sys::FutureSetAvailableArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 24);
        future((*args).future).map_or_else(|| error(13, "no such future"), |future| future.complete(Ok(())))
    }
}

unsafe extern "C" fn future_set_error(args: *mut sys::FutureSetErrorArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 32);
        let Some(status) = take((*args).error) else { return error(3, "an error that is none") };
        future((*args).future)
            .map_or_else(|| error(13, "no such future"), |future| future.complete(Err(status)))
    }
}

unsafe extern "C" fn run_id_get(args: *mut sys::RunIdGetArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 32);
        (*args).run_id = (*(*args).ctx.cast::<Context>()).run_id;
        ptr::null_mut()
    }
}

unsafe extern "C" fn device_ordinal_get(args: *mut sys::DeviceOrdinalGetArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 28);
        (*args).device_ordinal = (*(*args).ctx.cast::<Context>()).device;
        ptr::null_mut()
    }
}

unsafe extern "C" fn find_extension(args: *mut sys::FindExtensionArgs) -> *mut sys::Error {
    // SAFETY: the handler's promise.
    unsafe {
        demand_size!(args, 40);
        let context = &*(*args).ctx.cast::<Context>();
        let attached = context.version.collectives && (*args).extension_type == sys::EXTENSION_COLLECTIVES;
        (*args).extension = if attached { context.collectives.get().cast() } else { ptr::null() };
        ptr::null_mut()
    }
}

/// Any slot that this runtime does not have.
unsafe extern "C" fn outside_table<T>(_: *mut T) -> *mut sys::Error {
    OUTSIDE_TABLE.store(true, Ordering::Relaxed);
    ptr::null_mut()
}

unsafe fn group(groups: *const sys::ReplicaGroup, count: usize) -> Vec<i64> {
    assert_eq!(count, 1);
    // SAFETY: the handler's promise.
    unsafe { std::slice::from_raw_parts((*groups).ids, (*groups).size) }.to_vec()
}

unsafe extern "C" fn request_communicator(
    this: *const sys::CollectivesExtension,
    args: *mut sys::RequestCommunicatorArgs,
) -> *mut sys::Error {
    // SAFETY: the handler's promise; the extension is the first field of `Collectives`.
    unsafe {
        demand_size!(args, 48);
        let this = &*this.cast::<Collectives>();
        if this.stage != sys::stage::PREPARE {
            return error(9, "GPU communicator request is only available during the prepare stage");
        }
        if (*args).group_mode != 3 {
            return error(3, "not flattened ids");
        }
        let site = &*this.extension.state.cast::<CallSite>();
        let request = (group((*args).groups, (*args).num_groups), (*args).communication_id);
        *site.requested.lock().unwrap() = Some(request);
        ptr::null_mut()
    }
}

/// What [`get_communicator`] lends out.
pub const COMMUNICATOR: usize = 0xC0FFEE;

unsafe extern "C" fn get_communicator(
    this: *const sys::CollectivesExtension,
    args: *mut sys::GetCommunicatorArgs,
) -> *mut sys::Error {
    // SAFETY: the handler's promise; the extension is the first field of `Collectives`.
    unsafe {
        demand_size!(args, 56);
        let this = &*this.cast::<Collectives>();
        let site = &*this.extension.state.cast::<CallSite>();
        let wanted = Some((group((*args).groups, (*args).num_groups), (*args).communication_id));
        if this.stage != sys::stage::EXECUTE || *site.requested.lock().unwrap() != wanted {
            return error(9, "GPU communicator get is only available after cliques are acquired");
        }
        (*args).communicator = COMMUNICATOR as *mut c_void;
        ptr::null_mut()
    }
}

/// A runtime of some version.
pub struct Runtime {
    pub version: Version,
    table: &'static sys::Api,
}

// SAFETY: the table is constant.
unsafe impl Sync for Runtime {}

impl Runtime {
    pub fn new(version: Version) -> Self {
        // Tables live as long as the process, and handlers rely on it.
        let table = Box::leak(Box::new(match version.minor {
            1 => table::<1>(version),
            2 => table::<2>(version),
            3 => table::<3>(version),
            _ => table::<4>(version),
        }));
        Self { version, table }
    }

    /// Asks a handler for its metadata: major, minor, traits.
    pub fn metadata(&self, handler: sys::Handler) -> (c_int, c_int, u32) {
        // In older runtimes these bytes belong to somebody else.
        const CANARY: i64 = 0x5EED_5EED;
        let mut metadata = sys::Metadata {
            struct_size: 36,
            api_version: sys::ApiVersion {
                struct_size: 24,
                extension_start: ptr::null_mut(),
                major_version: -1,
                minor_version: -1,
            },
            traits: u32::MAX,
            state_type_id: sys::TypeId { type_id: CANARY },
        };
        let mut extension = sys::MetadataExtension {
            extension_base: sys::ExtensionBase { struct_size: 32, kind: 1, next: ptr::null_mut() },
            metadata: &raw mut metadata,
        };
        let mut other = sys::ExtensionBase { struct_size: 24, kind: 99, next: (&raw mut extension).cast() };
        let mut frame = empty_frame(if self.version.table_in_metadata { self.table } else { ptr::null() });
        frame.extension_start = &raw mut other;
        // SAFETY: a complete query.
        let answer = unsafe { handler(&raw mut frame) };
        assert_eq!(take(answer), None);
        assert_eq!(metadata.state_type_id.type_id, CANARY, "wrote beyond the struct");
        (metadata.api_version.major_version, metadata.api_version.minor_version, metadata.traits)
    }

    pub fn call_site(&self) -> CallSite {
        CallSite { state: Mutex::new(None), requested: Mutex::new(None) }
    }

    /// One call of `handler`, as XLA makes it.
    pub fn call(&self, handler: sys::Handler, site: &CallSite, call: CallArguments<'_>) -> Outcome {
        let collectives = Collectives {
            extension: sys::CollectivesExtension {
                base: sys::ContextExtension {
                    // Newer than we know: minors append.
                    struct_size: size_of::<sys::CollectivesExtension>() + 16,
                    id: sys::ContextExtensionId { extension_type: 129, major_version: 0, minor_version: 2 },
                    next: ptr::null(),
                },
                state: ptr::from_ref(site).cast_mut().cast(),
                request_communicator: Some(request_communicator),
                get_communicator: Some(get_communicator),
            },
            stage: call.stage,
        };
        let context = Context {
            version: self.version,
            run_id: call.run_id,
            device: call.device,
            stage: call.stage,
            site,
            collectives: UnsafeCell::new(collectives),
        };
        let mut attributes = RawAttributes::new(&call.attributes);
        let (mut operands, mut results) = (RawBuffers::new(&call.operands), RawBuffers::new(&call.results));
        let mut frame = empty_frame(self.table);
        frame.ctx = ptr::from_ref(&context).cast_mut().cast();
        frame.stage = context.stage;
        frame.args.size = operands.types.len() as i64;
        frame.args.types = operands.types.as_mut_ptr();
        frame.args.args = operands.pointers.as_mut_ptr();
        frame.rets.size = results.types.len() as i64;
        frame.rets.types = results.types.as_mut_ptr();
        frame.rets.rets = results.pointers.as_mut_ptr();
        frame.attrs.size = attributes.types.len() as i64;
        frame.attrs.types = attributes.types.as_mut_ptr();
        frame.attrs.names = attributes.names.as_mut_ptr();
        frame.attrs.attrs = attributes.values.as_mut_ptr();
        // SAFETY: a complete call.
        let error = take(unsafe { handler(&raw mut frame) });
        operands.scramble();
        results.scramble();
        match (error, frame.future.is_null()) {
            (None, true) => Outcome::Done,
            (None, false) => Outcome::Pending(future(frame.future).expect("a future that this runtime made")),
            (Some(status), true) => Outcome::Error(status),
            (Some(status), false) => panic!("an error and a future: {status:?}"),
        }
    }
}

/// What a handler answered.
pub enum Outcome {
    Done,
    Pending(Arc<Future>),
    Error(Status),
}

impl Outcome {
    /// The end of the call, however long it takes.
    pub fn wait(&self) -> Result<(), Status> {
        match self {
            Self::Done => Ok(()),
            Self::Pending(future) => future.wait(),
            Self::Error(status) => Err(status.clone()),
        }
    }
}

/// An array to pass: element type, dimensions, memory.
#[derive(Clone)]
pub struct Array<'a> {
    pub dtype: c_int,
    pub dims: &'a [i64],
    pub data: *mut c_void,
}

/// An attribute to pass.
#[derive(Clone)]
pub enum Value {
    Text(&'static str),
    I32(i32),
    I64(i64),
    F64(f64),
    Integers(&'static [i64]),
}

/// What a handler is called with.
#[derive(Clone)]
pub struct CallArguments<'a> {
    pub stage: c_int,
    pub run_id: i64,
    pub device: i32,
    pub attributes: Vec<(&'static str, Value)>,
    pub operands: Vec<Array<'a>>,
    pub results: Vec<Array<'a>>,
}

struct RawAttributes {
    types: Vec<c_int>,
    names: Vec<*mut sys::ByteSpan>,
    values: Vec<*mut c_void>,
}

impl RawAttributes {
    /// Leaks a few bytes a call.
    fn new(attributes: &[(&'static str, Value)]) -> Self {
        let span = |text: &'static str| {
            Box::into_raw(Box::new(sys::ByteSpan { ptr: text.as_ptr().cast::<c_char>(), len: text.len() }))
        };
        let scalar =
            |dtype, value| -> *mut c_void { Box::into_raw(Box::new(sys::Scalar { dtype, value })).cast() };
        let (mut types, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (name, value) in attributes {
            names.push(span(name));
            let (kind, value) = match *value {
                Value::Text(text) => (4, span(text).cast()),
                Value::I32(value) => (3, scalar(4, Box::into_raw(Box::new(value)).cast())),
                Value::I64(value) => (3, scalar(5, Box::into_raw(Box::new(value)).cast())),
                Value::F64(value) => (3, scalar(12, Box::into_raw(Box::new(value)).cast())),
                Value::Integers(values) => {
                    let data = values.as_ptr().cast_mut().cast();
                    (1, Box::into_raw(Box::new(sys::Array { dtype: 5, size: values.len(), data })).cast())
                }
            };
            types.push(kind);
            values.push(value);
        }
        Self { types, names, values }
    }
}

struct RawBuffers {
    types: Vec<c_int>,
    pointers: Vec<*mut c_void>,
    buffers: Vec<sys::Buffer>,
    dims: Vec<Vec<i64>>,
}

impl RawBuffers {
    fn new(arrays: &[Array<'_>]) -> Self {
        let mut dims: Vec<Vec<i64>> = arrays.iter().map(|array| array.dims.to_vec()).collect();
        let mut buffers: Vec<sys::Buffer> = arrays
            .iter()
            .zip(&mut dims)
            .map(|(array, dims)| sys::Buffer {
                struct_size: 48,
                extension_start: ptr::null_mut(),
                dtype: array.dtype,
                data: array.data,
                rank: dims.len() as i64,
                dims: dims.as_mut_ptr(),
            })
            .collect();
        let pointers = buffers.iter_mut().map(|buffer| ptr::from_mut(buffer).cast()).collect();
        Self { types: vec![1; arrays.len()], pointers, buffers, dims }
    }

    /// XLA uses these structs for the next device as soon as a handler returns.
    fn scramble(&mut self) {
        for (buffer, dims) in self.buffers.iter_mut().zip(&mut self.dims) {
            buffer.data = ptr::without_provenance_mut(1);
            buffer.rank = -1;
            buffer.dtype = -1;
            dims.fill(i64::MIN);
        }
    }
}

fn empty_frame(api: *const sys::Api) -> sys::CallFrame {
    sys::CallFrame {
        struct_size: 168,
        extension_start: ptr::null_mut(),
        api,
        ctx: ptr::null_mut(),
        stage: sys::stage::EXECUTE,
        args: sys::Args {
            struct_size: 40,
            extension_start: ptr::null_mut(),
            size: 0,
            types: ptr::null_mut(),
            args: ptr::null_mut(),
        },
        rets: sys::Rets {
            struct_size: 40,
            extension_start: ptr::null_mut(),
            size: 0,
            types: ptr::null_mut(),
            rets: ptr::null_mut(),
        },
        attrs: sys::Attrs {
            struct_size: 48,
            extension_start: ptr::null_mut(),
            size: 0,
            types: ptr::null_mut(),
            names: ptr::null_mut(),
            attrs: ptr::null_mut(),
        },
        future: ptr::null_mut(),
    }
}

fn table<const MINOR: c_int>(version: Version) -> sys::Api {
    let has_run_id = version.struct_size > offset_of!(sys::Api, run_id_get);
    let has_ordinal = version.struct_size > offset_of!(sys::Api, device_ordinal_get);
    let has_extensions = version.struct_size > offset_of!(sys::Api, find_extension);
    sys::Api {
        struct_size: version.struct_size,
        extension_start: ptr::null_mut(),
        api_version: sys::ApiVersion {
            struct_size: 24,
            extension_start: ptr::null_mut(),
            major_version: 0,
            minor_version: version.minor,
        },
        internal_api: ptr::null(),
        error_create: Some(error_create),
        error_get_details: Some(error_get::<MINOR>),
        error_destroy: Some(error_destroy),
        handler_register: None,
        stream_get: None,
        type_register: Some(type_register::<MINOR>),
        context_get: None,
        state_set: Some(state_set::<MINOR>),
        state_get: Some(state_get::<MINOR>),
        device_memory_allocate: None,
        device_memory_free: None,
        thread_pool_schedule: None,
        thread_pool_num_threads: None,
        future_create: Some(future_create),
        future_set_available: Some(future_set_available),
        future_set_error: Some(future_set_error),
        run_id_get: Some(if has_run_id { run_id_get } else { outside_table }),
        device_ordinal_get: Some(if has_ordinal { device_ordinal_get } else { outside_table }),
        find_extension: Some(if has_extensions { find_extension } else { outside_table }),
    }
}
