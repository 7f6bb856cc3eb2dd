//! Local stand-in for the Rust-CUDA crate `cust_raw`: the CUDA driver API as cust 0.3.2 sees it.
//!
//! Types and signatures come from bindgen. Every function resolves its symbol in `libcuda.so.1` when it
//! is first called, so building and loading need neither CUDA nor a driver. Without a driver a call
//! answers [`CUDA_ERROR_SHARED_OBJECT_INIT_FAILED`](CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
//! a function that the driver lacks answers
//! [`CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`](CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
//! a result code that this version of the API does not know becomes
//! [`CUDA_ERROR_UNKNOWN`](CUresult::CUDA_ERROR_UNKNOWN).

use libloading::Library;
use std::ffi::c_void;
use std::sync::{LazyLock, OnceLock};

/// Defines each declared function as a call through the driver's symbol of the same name.
macro_rules! driver_functions {
    ($(pub fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> CUresult;)*) => {$(
        /// The driver function of this name, loaded at the first call.
        ///
        /// # Safety
        /// As the CUDA driver API documents it.
        pub unsafe fn $name($($argument: $type),*) -> CUresult {
            // A result code is taken as a number: the enum may not hold codes it does not list.
            type Function = unsafe extern "C" fn($($type),*) -> u32;
            static SYMBOL: $crate::Symbol = $crate::Symbol::new(stringify!($name));
            match SYMBOL.address() {
                // SAFETY: the symbol has this signature in every driver; the arguments are the caller's.
                Ok(address) => $crate::result_of(unsafe {
                    std::mem::transmute::<*const std::ffi::c_void, Function>(address)($($argument),*)
                }),
                Err(error) => error,
            }
        }
    )*};
}

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
#[allow(unpredictable_function_pointer_comparisons)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
mod bindings;
pub use bindings::*;

/// The driver library, or `None` where there is none.
static DRIVER: LazyLock<Option<Library>> = LazyLock::new(|| {
    let names = if cfg!(windows) { &["nvcuda.dll"][..] } else { &["libcuda.so.1", "libcuda.so"] };
    // SAFETY: loading NVIDIA's driver runs its initialisers, which have no precondition.
    names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
});

/// A function of the driver, looked up once.
struct Symbol {
    name: &'static str,
    /// Address as an integer (so that it can be shared between threads), or why there is none.
    address: OnceLock<Result<usize, CUresult>>,
}

impl Symbol {
    const fn new(name: &'static str) -> Self {
        Self { name, address: OnceLock::new() }
    }

    fn address(&self) -> Result<*const c_void, CUresult> {
        let address = self.address.get_or_init(|| {
            let driver = DRIVER.as_ref().ok_or(CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)?;
            // SAFETY: only the address is taken here; `driver_functions!` gives it its type.
            unsafe { driver.get::<*const c_void>(self.name) }
                .map(|symbol| (*symbol).expose_provenance())
                .map_err(|_| CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND)
        });
        address.map(std::ptr::with_exposed_provenance)
    }
}

/// The result with this code, `CUDA_ERROR_UNKNOWN` if it has no name here.
fn result_of(code: u32) -> CUresult {
    let known = KNOWN_RESULTS.iter().find(|&&known| known as u32 == code);
    known.copied().unwrap_or(CUresult::CUDA_ERROR_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_their_meaning_and_unknown_ones_become_unknown() {
        assert_eq!(result_of(0), CUresult::CUDA_SUCCESS);
        assert_eq!(result_of(2), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(result_of(719), CUresult::CUDA_ERROR_LAUNCH_FAILED);
        for code in [11, 998, 1000, u32::MAX] {
            assert_eq!(result_of(code), CUresult::CUDA_ERROR_UNKNOWN, "code {code}");
        }
    }

    #[test]
    fn a_function_that_no_driver_has_is_an_error() {
        static MISSING: Symbol = Symbol::new("cuThereIsNoSuchFunction");
        let expected = match *DRIVER {
            Some(_) => CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
            None => CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED,
        };
        assert_eq!(MISSING.address(), Err(expected));
    }
}
