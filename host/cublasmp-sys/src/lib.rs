//! Bindings to cuBLASMp, loaded at run time.
//!
//! [`CublasMp`] is the table of functions; the types and constants are those of `cublasmp.h`. Types that cuBLASMp
//! and cuSOLVERMp share (`cudaDataType_t`, `cublasOperation_t`, …) live here.
//!
//! `cargo xtask bindings` regenerates `bindings.rs` and says in its first lines from which header.

mod bindings;

use std::ffi::CStr;
use std::path::Path;

pub use bindings::*;

use nccl_sys::loader::{Error, Library, LibraryInfo, SearchPath};

/// cuBLASMp as pip installs it.
pub const LIBRARY: LibraryInfo = LibraryInfo {
    name: "cuBLASMp",
    file: "libcublasmp.so.0",
    wheel_folders: &["nvidia/cublasmp/cu13/lib"],
    pip_package: "nvidia-cublasmp-cu13",
};

impl CublasMp {
    /// Finds cuBLASMp (see [`Library::find`]) after NCCL, which it needs, and asks for its version.
    ///
    /// # Errors
    /// cuBLASMp or NCCL is not there, or what was loaded under its name is something else.
    pub fn find(search: &SearchPath) -> Result<Self, Error> {
        Library::find(nccl_sys::LIBRARY, search)?;
        Self::with_version(Library::find(LIBRARY, search)?)
    }

    /// Loads cuBLASMp from this file and asks for its version. NCCL is left to the system loader.
    ///
    /// # Errors
    /// As [`CublasMp::find`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::with_version(Library::load(LIBRARY, path)?)
    }

    fn with_version(library: Library) -> Result<Self, Error> {
        // SAFETY: the functions' names all begin with `cublasMp`: no other library has them.
        let cublasmp = unsafe { Self::from_library(library) };
        let mut version = 0;
        // SAFETY: writes one int.
        if unsafe { cublasmp.cublasMpGetVersion(&mut version) }? == cublasMpStatus_t::CUBLASMP_STATUS_SUCCESS
        {
            cublasmp.library().record_version(version_text(version));
        }
        Ok(cublasmp)
    }

    /// What a status means, in the library's words.
    pub fn meaning(&self, status: cublasMpStatus_t) -> String {
        // SAFETY: returns a static string, or NULL.
        match unsafe { self.cublasMpGetStatusString(status) } {
            Ok(string) if !string.is_null() => {
                // SAFETY: not NULL; a static string that ends with a zero.
                unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
            }
            _ => "no description".to_owned(),
        }
    }
}

/// `1000` → `0.10.0`: the rule of `CUBLASMP_VERSION` in `cublasmp.h`, and of cuSOLVERMp's too.
pub fn version_text(code: i32) -> String {
    format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_headers() {
        assert_eq!(size_of::<cudaDataType_t>(), size_of::<std::ffi::c_int>());
        let types = [
            cudaDataType_t::CUDA_R_32F,
            cudaDataType_t::CUDA_R_64F,
            cudaDataType_t::CUDA_C_32F,
            cudaDataType_t::CUDA_C_64F,
        ];
        assert_eq!(types.map(|kind| kind.0), [0, 1, 4, 5]);
        assert_eq!(version_text(CUBLASMP_VERSION as i32), "0.10.0");
    }

    #[test]
    fn another_library_in_its_place_is_told_by_the_missing_function() {
        let message =
            CublasMp::load(Path::new("libc.so.6")).expect_err("libc has no cublasMpGetVersion").to_string();
        for part in ["cuBLASMp", "cublasMpGetVersion", "libc.so.6", "nvidia-cublasmp-cu13"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }

    #[test]
    fn a_missing_library_is_an_error_that_names_the_package() {
        let message =
            CublasMp::load(Path::new("/nowhere/libcublasmp.so.0")).expect_err("no such file").to_string();
        for part in ["cuBLASMp", "/nowhere/libcublasmp.so.0", "pip install nvidia-cublasmp-cu13"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }
}
