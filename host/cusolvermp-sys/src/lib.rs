//! Bindings to cuSOLVERMp, loaded at run time.
//!
//! [`CusolverMp`] is the table of functions; the types and constants are those of `cusolverMp.h`. Types that it shares with
//! cuBLASMp come from `cublasmp_sys`.
//!
//! `cargo xtask bindings` regenerates `bindings.rs` and says in its first lines from which header.

mod bindings;

use std::path::Path;

pub use bindings::*;

use cublasmp_sys::version_text;
use nccl_sys::loader::{Error, Library, LibraryInfo, SearchPath};

/// cuSOLVERMp as pip installs it.
pub const LIBRARY: LibraryInfo = LibraryInfo {
    name: "cuSOLVERMp",
    file: "libcusolverMp.so.0",
    wheel_folders: &["nvidia/cu13/lib"],
    pip_package: "nvidia-cusolvermp-cu13",
};

impl CusolverMp {
    /// Finds cuSOLVERMp (see [`Library::find`]) after NCCL and cuBLASMp, which it needs.
    ///
    /// Its version is known only once there is a handle: see [`CusolverMp::record_version`].
    ///
    /// # Errors
    /// One of the three is not there, or what was loaded under cuSOLVERMp's name is something else.
    pub fn find(search: &SearchPath) -> Result<Self, Error> {
        Library::find(nccl_sys::LIBRARY, search)?;
        Library::find(cublasmp_sys::LIBRARY, search)?;
        Self::checked(Library::find(LIBRARY, search)?)
    }

    /// Loads cuSOLVERMp from this file. NCCL and cuBLASMp are left to the system loader.
    ///
    /// # Errors
    /// As [`CusolverMp::find`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::checked(Library::load(LIBRARY, path)?)
    }

    fn checked(library: Library) -> Result<Self, Error> {
        // Every version has this function. What lacks it is another library.
        // SAFETY: only looked up, never called.
        if unsafe { library.function::<unsafe extern "C" fn()>("cusolverMpCreate") }.is_none() {
            return Err(library.missing("cusolverMpCreate"));
        }
        // SAFETY: the functions' names all begin with `cusolverMp`: no other library has them.
        Ok(unsafe { Self::from_library(library) })
    }

    /// Asks the library for its version, which later messages will then name.
    ///
    /// # Errors
    /// The library lacks the function that tells it.
    ///
    /// # Safety
    /// `handle` was made by this library's `cusolverMpCreate` and not yet destroyed.
    pub unsafe fn record_version(&self, handle: cusolverMpHandle_t) -> Result<(), Error> {
        let mut version = 0;
        // SAFETY: the caller promises the handle; writes one int.
        if unsafe { self.cusolverMpGetVersion(handle, &mut version) }?
            == cusolverStatus_t::CUSOLVER_STATUS_SUCCESS
        {
            self.library().record_version(version_text(version));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_header() {
        assert_eq!(version_text(CUSOLVERMP_VERSION as i32), "0.9.1");
        assert_eq!(cusolverMpGridMapping_t::CUSOLVERMP_GRID_MAPPING_ROW_MAJOR.0, 1);
        assert_eq!(size_of::<cusolverStatus_t>(), size_of::<std::ffi::c_int>());
        assert_eq!(size_of::<cusolverMpHandle_t>(), size_of::<usize>());
    }

    #[test]
    fn another_library_in_its_place_is_told_by_the_missing_function() {
        let message =
            CusolverMp::load(Path::new("libc.so.6")).expect_err("libc has no cusolverMpCreate").to_string();
        for part in ["cuSOLVERMp", "cusolverMpCreate", "libc.so.6", "nvidia-cusolvermp-cu13"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }

    #[test]
    fn a_missing_library_is_an_error_that_names_the_package() {
        let message =
            CusolverMp::load(Path::new("/nowhere/libcusolverMp.so.0")).expect_err("no such file").to_string();
        for part in ["cuSOLVERMp", "/nowhere/libcusolverMp.so.0", "pip install nvidia-cusolvermp-cu13"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }

    #[test]
    fn a_function_that_an_older_version_lacks_is_an_error_with_that_version() {
        // libc stands in for a version without the function.
        let library = Library::load(LIBRARY, Path::new("libc.so.6")).expect("every Linux program has libc");
        library.record_version("0.7.0".into());
        // SAFETY: no function of the table is found, so none can be called.
        let old = unsafe { CusolverMp::from_library(library) };
        // SAFETY: the function is missing, so nothing is called.
        let answer = unsafe { old.cusolverMpDestroy(std::ptr::null_mut()) };
        let message = answer.expect_err("libc has no cusolverMpDestroy").to_string();
        assert!(message.contains("cusolverMpDestroy") && message.contains("0.7.0"), "{message}");
    }
}
