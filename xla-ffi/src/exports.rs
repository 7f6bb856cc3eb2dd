//! The C symbols that Python loads.

use std::ffi::{CStr, CString, c_char, c_void};

use meshsolve::plan::Plan;
use serde_json::json;

use crate::call::guarded;
use crate::failure::Failure;
use crate::{handlers, runtime, workspace};

/// One handler to register with XLA.
#[repr(C)]
pub struct ExportedHandler {
    /// FFI target, text terminated by zero.
    pub target: *const c_char,
    /// JAX platform, text terminated by zero.
    pub platform: *const c_char,
    /// Stage, a key of the dictionary that `jax.ffi.register_ffi_target` takes; terminated by zero.
    pub stage: *const c_char,
    /// The handler, an `XLA_FFI_Handler`.
    pub function: *const c_void,
}

// SAFETY: constant text and code.
unsafe impl Sync for ExportedHandler {}

const fn handler(
    platform: &'static CStr,
    stage: &'static CStr,
    function: crate::sys::Handler,
) -> ExportedHandler {
    ExportedHandler {
        target: c"meshsolve".as_ptr(),
        platform: platform.as_ptr(),
        stage: stage.as_ptr(),
        function: function as *const c_void,
    }
}

static HANDLERS: [ExportedHandler; 6] = [
    handler(c"cpu", c"instantiate", handlers::instantiate),
    handler(c"cpu", c"prepare", handlers::prepare),
    handler(c"cpu", c"execute", handlers::execute_on_cpu),
    handler(c"CUDA", c"instantiate", handlers::instantiate),
    handler(c"CUDA", c"prepare", handlers::prepare),
    handler(c"CUDA", c"execute", handlers::execute_on_gpu),
];

/// The version of the library, text terminated by zero that lives forever.
#[unsafe(no_mangle)]
pub extern "C" fn meshsolve_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The handlers to register with XLA: `*count` entries that live forever.
///
/// # Safety
/// `count` must be valid for a write, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshsolve_handlers(count: *mut usize) -> *const ExportedHandler {
    // SAFETY: the caller's promise.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = HANDLERS.len();
    }
    HANDLERS.as_ptr()
}

/// Plans a call: a request in JSON to a reply in JSON, `{"plan": …}` or
/// `{"error": {"kind": …, "message": …}}`. Never null; free it with [`meshsolve_free`].
///
/// # Safety
/// `request` must be text terminated by zero, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshsolve_plan(request: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe {
        answer(request, |text| {
            let plan = Plan::from_json(text)?;
            Ok(plan.reply_json(workspace::asked(plan.fingerprint())))
        })
    }
}

/// Tells the library about the process, or asks it something: a message in JSON (see
/// [`crate::runtime`]) to a reply in JSON, or to `{"error": …}` as from [`meshsolve_plan`]. Never null; free it with
/// [`meshsolve_free`].
///
/// # Safety
/// `message` must be text terminated by zero, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshsolve_runtime(message: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe { answer(message, |text| Ok(runtime::handle(text)?.to_string())) }
}

/// # Safety
/// `question` must be text terminated by zero, or null.
unsafe fn answer(
    question: *const c_char,
    reply: impl FnOnce(&str) -> Result<String, Failure>,
) -> *mut c_char {
    let reply = guarded(|| {
        if question.is_null() {
            return Err(Failure::invalid("the text passed to meshsolve is null; it must be JSON"));
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(question) }.to_str().map_err(|error| {
            Failure::invalid(format!("the text passed to meshsolve is not UTF-8: {error}"))
        })?;
        reply(text)
    });
    let reply = reply.unwrap_or_else(|failure| {
        json!({ "error": { "kind": failure.kind.name(), "message": failure.message } }).to_string()
    });
    // JSON text holds no zero byte: it would be written as an escape.
    CString::new(reply).unwrap_or_default().into_raw()
}

/// Frees a reply of [`meshsolve_plan`] or [`meshsolve_runtime`].
///
/// # Safety
/// `reply` must come from one of these and be used no more, or be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshsolve_free(reply: *mut c_char) {
    if !reply.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { CString::from_raw(reply) });
    }
}
