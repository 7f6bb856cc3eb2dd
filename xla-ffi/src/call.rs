//! A safe view of XLA's call frame and function table.
//!
//! Whatever a handler keeps after it returns is copied here: XLA reuses the structs that describe
//! buffers and attributes as soon as the handler returns, only the memory behind a buffer lives
//! until the call's future completes.

use std::any::Any;
use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{offset_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;

use crate::attributes::Attribute;
use crate::failure::{Failure, FailureKind};
use crate::sys;

/// The table of functions that a runtime offers.
///
/// Each XLA instance of a process (jaxlib's own, and each plugin) has one; it lives as long as the
/// process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Api(NonNull<sys::Api>);

// SAFETY: the table is constant and its functions may be called from any thread.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// The function in slot `$name`, or `None` when this runtime's table ends before it.
macro_rules! slot {
    ($api:expr, $name:ident) => {
        if $api.covers(std::mem::offset_of!($crate::sys::Api, $name)) {
            // SAFETY: the slot lies within the table.
            unsafe { (*$api.as_ptr()).$name }
        } else {
            None
        }
    };
}
pub(crate) use slot;

impl Api {
    pub(crate) fn as_ptr(self) -> *const sys::Api {
        self.0.as_ptr()
    }

    /// Tells one XLA instance from another.
    pub fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The minor version of the runtime's API.
    pub fn minor(self) -> c_int {
        // SAFETY: the version is in every table.
        unsafe { (*self.as_ptr()).api_version.minor_version }
    }

    /// Whether the slot at `offset` bytes lies within the table.
    pub(crate) fn covers(self, offset: usize) -> bool {
        // Before 0.6.0 runtimes reported the end of `stream_get` though their tables, from minor 1
        // on, went at least to `future_set_error`.
        const UNDERSTATED: usize = offset_of!(sys::Api, type_register);
        // SAFETY: the size is in every table.
        let size = match unsafe { (*self.as_ptr()).struct_size } {
            UNDERSTATED => offset_of!(sys::Api, run_id_get),
            size => size,
        };
        offset + size_of::<*const c_void>() <= size
    }

    /// Makes an error that XLA will own.
    pub(crate) fn error(self, failure: &Failure) -> *mut sys::Error {
        let message = CString::new(failure.message.replace('\0', "\\0")).unwrap_or_default();
        let mut args = sys::ErrorCreateArgs {
            struct_size: size_of::<sys::ErrorCreateArgs>(),
            extension_start: ptr::null_mut(),
            message: message.as_ptr(),
            errc: failure.kind.code(),
        };
        let Some(create) = slot!(self, error_create) else { no_way_to_report(&failure.message) };
        // SAFETY: the arguments are complete; XLA copies the text.
        unsafe { create(&mut args) }
    }

    /// Turns an error that a function of the table returned into ours and destroys it.
    pub(crate) fn check(self, error: *mut sys::Error) -> Result<(), Failure> {
        if error.is_null() {
            return Ok(());
        }
        let mut details = sys::ErrorGetDetailsArgs {
            struct_size: size_of::<sys::ErrorGetDetailsArgs>(),
            extension_start: ptr::null_mut(),
            error,
            message: ptr::null(),
            // Minors below 4 do not tell the code.
            errc: sys::error_code::UNKNOWN,
        };
        if let Some(get_details) = slot!(self, error_get_details) {
            // SAFETY: the error is live and the struct is at least as large as any version wants.
            unsafe { get_details(&mut details) };
        }
        let message = if details.message.is_null() {
            "XLA gave an error without a text".to_owned()
        } else {
            // SAFETY: XLA's text is terminated by zero and lives until the error is destroyed.
            unsafe { CStr::from_ptr(details.message) }.to_string_lossy().into_owned()
        };
        if let Some(destroy) = slot!(self, error_destroy) {
            let mut args = sys::ErrorDestroyArgs {
                struct_size: size_of::<sys::ErrorDestroyArgs>(),
                extension_start: ptr::null_mut(),
                error,
            };
            // SAFETY: the error is ours and not used afterwards.
            unsafe { destroy(&mut args) };
        }
        Err(Failure::new(FailureKind::from_code(details.errc), message))
    }
}

/// Without a table there is no error to return, and returning none would mean success.
fn no_way_to_report(message: &str) -> ! {
    eprintln!("meshsolve: XLA offers no way to report this error: {message}");
    std::process::abort()
}

/// One call of a handler.
pub struct Call<'frame> {
    frame: *mut sys::CallFrame,
    api: Api,
    lifetime: PhantomData<&'frame mut sys::CallFrame>,
}

/// An operand or result as XLA describes it, with the description copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Element type, a number of [`sys::data_type`].
    pub dtype: c_int,
    /// Extent of each dimension.
    pub dims: Vec<u64>,
    /// The elements, row-major. They live until the call's future completes.
    pub data: *mut u8,
}

impl Call<'_> {
    /// The runtime's function table.
    pub fn api(&self) -> Api {
        self.api
    }

    pub(crate) fn context(&self) -> *mut sys::Context {
        // SAFETY: `enter` demands a valid frame.
        unsafe { (*self.frame).ctx }
    }

    /// The stage of this call, a number of [`sys::stage`].
    pub fn stage(&self) -> c_int {
        // SAFETY: `enter` demands a valid frame.
        unsafe { (*self.frame).stage }
    }

    /// The operands of the call.
    pub fn operands(&self) -> Result<Vec<Operand>, Failure> {
        // SAFETY: `enter` demands a valid frame, in which `args` and `types` hold `size` entries.
        unsafe {
            let args = &(*self.frame).args;
            copy_buffers("operand", args.size, args.types, args.args)
        }
    }

    /// The results of the call.
    pub fn results(&self) -> Result<Vec<Operand>, Failure> {
        // SAFETY: `enter` demands a valid frame, in which `rets` and `types` hold `size` entries.
        unsafe {
            let rets = &(*self.frame).rets;
            copy_buffers("result", rets.size, rets.types, rets.rets)
        }
    }

    /// The attribute called `name`, if the call has one.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        // SAFETY: `enter` demands a valid frame, in which the three arrays hold `size` entries.
        unsafe {
            let attrs = &(*self.frame).attrs;
            let count = usize::try_from(attrs.size).unwrap_or(0);
            let index = (0..count).find(|&i| span(*attrs.names.add(i)) == name.as_bytes())?;
            Some(copy_attribute(*attrs.types.add(index), *attrs.attrs.add(index)))
        }
    }

    /// The number that all devices of one execution share, and no other execution has.
    pub fn run_id(&self) -> Result<i64, Failure> {
        let get = slot!(self.api, run_id_get).ok_or_else(|| too_old("run ids"))?;
        let mut args = sys::RunIdGetArgs {
            struct_size: size_of::<sys::RunIdGetArgs>(),
            extension_start: ptr::null_mut(),
            ctx: self.context(),
            run_id: 0,
        };
        // SAFETY: the arguments are complete and the context is that of this call.
        self.api.check(unsafe { get(&mut args) })?;
        Ok(args.run_id)
    }

    /// The device that this call runs on, unique among all devices of the platform.
    pub fn device_ordinal(&self) -> Result<i32, Failure> {
        let get = slot!(self.api, device_ordinal_get).ok_or_else(|| too_old("device ordinals"))?;
        let mut args = sys::DeviceOrdinalGetArgs {
            // Up to and with the field; the struct itself is padded.
            struct_size: offset_of!(sys::DeviceOrdinalGetArgs, device_ordinal) + size_of::<i32>(),
            extension_start: ptr::null_mut(),
            ctx: self.context(),
            device_ordinal: 0,
        };
        // SAFETY: the arguments are complete and the context is that of this call.
        self.api.check(unsafe { get(&mut args) })?;
        Ok(args.device_ordinal)
    }

    /// The stream that a GPU call has to enqueue its work on (a `CUstream`).
    pub fn stream(&self) -> Result<NonNull<c_void>, Failure> {
        let get = slot!(self.api, stream_get).ok_or_else(|| too_old("streams"))?;
        let mut args = sys::StreamGetArgs {
            struct_size: size_of::<sys::StreamGetArgs>(),
            extension_start: ptr::null_mut(),
            ctx: self.context(),
            stream: ptr::null_mut(),
        };
        // SAFETY: the arguments are complete and the context is that of this call.
        self.api.check(unsafe { get(&mut args) })?;
        NonNull::new(args.stream).ok_or_else(|| Failure::internal("XLA gave the null stream"))
    }

    /// Device memory from XLA's allocator, to be given back by [`Call::free`] within this call; usable
    /// in the order of the call's stream.
    pub fn allocate(&self, bytes: usize) -> Result<NonNull<c_void>, Failure> {
        let allocate = slot!(self.api, device_memory_allocate).ok_or_else(|| too_old("device memory"))?;
        let mut args = sys::DeviceMemoryAllocateArgs {
            struct_size: size_of::<sys::DeviceMemoryAllocateArgs>(),
            extension_start: ptr::null_mut(),
            ctx: self.context(),
            size: bytes,
            alignment: LARGEST_ALIGNMENT,
            data: ptr::null_mut(),
        };
        // SAFETY: the arguments are complete and the context is that of this call.
        self.api.check(unsafe { allocate(&mut args) })?;
        NonNull::new(args.data).ok_or_else(|| {
            Failure::new(
                FailureKind::ResourceExhausted,
                format!("XLA has no {bytes} bytes of device memory left"),
            )
        })
    }

    /// Gives device memory of `bytes` bytes back to XLA.
    pub fn free(&self, data: *mut c_void, bytes: usize) -> Result<(), Failure> {
        let free = slot!(self.api, device_memory_free).ok_or_else(|| too_old("device memory"))?;
        let mut args = sys::DeviceMemoryFreeArgs {
            struct_size: size_of::<sys::DeviceMemoryFreeArgs>(),
            extension_start: ptr::null_mut(),
            ctx: self.context(),
            size: bytes,
            data,
        };
        // SAFETY: the arguments are complete and the context is that of this call.
        self.api.check(unsafe { free(&mut args) })
    }

    /// Makes this call asynchronous: XLA waits for the promise instead of the handler's return.
    pub fn promise(&self) -> Result<Promise, Failure> {
        let create = slot!(self.api, future_create).ok_or_else(|| too_old("futures"))?;
        let mut args = sys::FutureCreateArgs {
            struct_size: size_of::<sys::FutureCreateArgs>(),
            extension_start: ptr::null_mut(),
            future: ptr::null_mut(),
        };
        // SAFETY: the arguments are complete.
        self.api.check(unsafe { create(&mut args) })?;
        let future =
            NonNull::new(args.future).ok_or_else(|| Failure::internal("XLA made a future that is null"))?;
        // SAFETY: `enter` demands a valid frame; every runtime with futures has this field.
        unsafe { (*self.frame).future = future.as_ptr() };
        Ok(Promise { api: self.api, future: Some(future) })
    }
}

/// XLA's GPU allocators promise no larger alignment.
const LARGEST_ALIGNMENT: usize = 16;

fn too_old(what: &str) -> Failure {
    Failure::unsupported(format!(
        "this XLA runtime has no {what}, which meshsolve needs to bring the devices of a CPU mesh \
         together; it needs jaxlib 0.6.0 or newer"
    ))
}

/// # Safety
/// `types` and `buffers` must hold `count` valid entries.
unsafe fn copy_buffers(
    what: &str,
    count: i64,
    types: *const c_int,
    buffers: *const *mut c_void,
) -> Result<Vec<Operand>, Failure> {
    (0..usize::try_from(count).unwrap_or(0))
        .map(|i| {
            // SAFETY: i < count.
            if unsafe { *types.add(i) } != sys::BUFFER_OPERAND {
                return Err(Failure::invalid(format!("{what} {i} of the call is not an array")));
            }
            // SAFETY: i < count, and an entry of this type points to a buffer.
            let buffer = unsafe { &*(*buffers.add(i)).cast::<sys::Buffer>() };
            // SAFETY: `dims` holds `rank` entries.
            let dims = unsafe { entries(buffer.dims, usize::try_from(buffer.rank).unwrap_or(0)) };
            let dims = dims
                .iter()
                .map(|&extent| u64::try_from(extent))
                .collect::<Result<_, _>>()
                .map_err(|_| Failure::invalid(format!("{what} {i} has the impossible shape {dims:?}")))?;
            Ok(Operand { dtype: buffer.dtype, dims, data: buffer.data.cast() })
        })
        .collect()
}

/// # Safety
/// `kind` and `value` must be what XLA gave for one attribute.
unsafe fn copy_attribute(kind: c_int, value: *const c_void) -> Attribute {
    match kind {
        sys::attribute_type::STRING => {
            // SAFETY: an attribute of this kind points to a span.
            let text = unsafe { span(value.cast()) };
            Attribute::Text(String::from_utf8_lossy(text).into_owned())
        }
        sys::attribute_type::SCALAR => {
            // SAFETY: an attribute of this kind points to a scalar.
            let scalar = unsafe { &*value.cast::<sys::Scalar>() };
            let value = scalar.value;
            // SAFETY: the scalar holds one value of its type.
            unsafe {
                match scalar.dtype {
                    sys::data_type::S32 => Attribute::Integer(value.cast::<i32>().read_unaligned().into()),
                    sys::data_type::S64 => Attribute::Integer(value.cast::<i64>().read_unaligned()),
                    sys::data_type::F32 => Attribute::Real(value.cast::<f32>().read_unaligned().into()),
                    sys::data_type::F64 => Attribute::Real(value.cast::<f64>().read_unaligned()),
                    _ => Attribute::Other,
                }
            }
        }
        sys::attribute_type::ARRAY => {
            // SAFETY: an attribute of this kind points to an array.
            let array = unsafe { &*value.cast::<sys::Array>() };
            match array.dtype {
                sys::data_type::S64 => {
                    // SAFETY: the array holds `size` values of its type, which XLA aligns for it.
                    let values = unsafe { entries(array.data.cast::<i64>(), array.size) };
                    Attribute::Integers(values.to_vec())
                }
                _ => Attribute::Other,
            }
        }
        _ => Attribute::Other,
    }
}

/// # Safety
/// `pointer` must hold `count` entries that live as long as the result; it may be null if there
/// are none.
unsafe fn entries<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(pointer, count) }
}

/// # Safety
/// `text` must point to a valid span that lives as long as the result.
unsafe fn span<'a>(text: *const sys::ByteSpan) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { entries((*text).ptr.cast(), (*text).len) }
}

/// The end of an asynchronous call that XLA waits for.
///
/// A promise that is dropped fails the call, so that nothing waits forever.
#[derive(Debug)]
pub struct Promise {
    api: Api,
    future: Option<NonNull<sys::Future>>,
}

// SAFETY: XLA's futures may be completed from any thread.
unsafe impl Send for Promise {}

impl Promise {
    /// Ends the call. XLA may run what depends on it in this very thread before this returns.
    pub fn complete(mut self, outcome: &Result<(), Failure>) {
        match outcome {
            Ok(()) => self.fulfil(),
            Err(failure) => self.fail(failure),
        }
    }

    fn fulfil(&mut self) {
        let Some(future) = self.future.take() else { return };
        let Some(set_available) = slot!(self.api, future_set_available) else { return };
        let mut args = sys::FutureSetAvailableArgs {
            struct_size: size_of::<sys::FutureSetAvailableArgs>(),
            extension_start: ptr::null_mut(),
            future: future.as_ptr(),
        };
        // SAFETY: the future is live until it is completed, which happens here and only once.
        report(self.api.check(unsafe { set_available(&mut args) }));
    }

    fn fail(&mut self, failure: &Failure) {
        let Some(future) = self.future.take() else { return };
        let Some(set_error) = slot!(self.api, future_set_error) else { return };
        let mut args = sys::FutureSetErrorArgs {
            struct_size: size_of::<sys::FutureSetErrorArgs>(),
            extension_start: ptr::null_mut(),
            future: future.as_ptr(),
            error: self.api.error(failure),
        };
        // SAFETY: the future is live until it is completed, which happens here and only once; XLA
        // takes the error.
        report(self.api.check(unsafe { set_error(&mut args) }));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.fail(&Failure::internal("meshsolve gave this call up without an answer"));
    }
}

/// A future that refuses to be completed leaves nobody to tell but the user.
fn report(completion: Result<(), Failure>) {
    if let Err(failure) = completion {
        eprintln!("meshsolve: XLA refused the end of a call: {failure}");
    }
}

/// Runs `body`, turning a panic into a failure: a panic must not cross into C.
pub fn guarded<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = panic_text(&*payload);
        let failure = Failure::internal(format!("meshsolve panicked, which is a defect of ours: {text}"));
        // A payload may panic again when dropped.
        std::mem::forget(payload);
        Err(failure)
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

/// The way into every handler: answers XLA's query for metadata itself, else runs `body` and turns
/// its failure or panic into XLA's error.
///
/// # Safety
/// `frame` must be a valid call frame of the runtime, exclusively ours until this returns.
pub unsafe fn enter(
    frame: *mut sys::CallFrame,
    body: impl FnOnce(&Call<'_>) -> Result<(), Failure>,
) -> *mut sys::Error {
    // SAFETY: the caller's promise. In a query for metadata `api` may be null.
    let api = unsafe { NonNull::new((*frame).api.cast_mut()) }.map(Api);
    // SAFETY: the caller's promise.
    if unsafe { answer_metadata(frame, api) } {
        return ptr::null_mut();
    }
    let Some(api) = api else { no_way_to_report("a call without a function table") };
    let call = Call { frame, api, lifetime: PhantomData };
    match guarded(|| body(&call)) {
        Ok(()) => ptr::null_mut(),
        Err(failure) => {
            // XLA wants an error or a future, never both.
            // SAFETY: the caller's promise; every runtime from minor 1 on has this field.
            unsafe { (*frame).future = ptr::null_mut() };
            api.error(&failure)
        }
    }
}

/// Answers a query for metadata; returns whether this was one.
///
/// # Safety
/// As for [`enter`].
unsafe fn answer_metadata(frame: *mut sys::CallFrame, api: Option<Api>) -> bool {
    // SAFETY: the extensions of a frame form a list that ends in null.
    unsafe {
        let mut extension = (*frame).extension_start;
        while !extension.is_null() {
            if (*extension).kind == sys::EXTENSION_METADATA {
                let metadata = (*extension.cast::<sys::MetadataExtension>()).metadata;
                (*metadata).api_version.major_version = sys::API_MAJOR;
                // Runtimes up to 0.8.0 accept their own minor only, which is 1, and give no table
                // here. Later ones accept any minor between their oldest and their own.
                (*metadata).api_version.minor_version = api
                    .map_or(sys::OLDEST_MINOR, |api| api.minor().clamp(sys::OLDEST_MINOR, sys::NEWEST_MINOR));
                (*metadata).traits = 0;
                return true;
            }
            extension = (*extension).next;
        }
    }
    false
}
