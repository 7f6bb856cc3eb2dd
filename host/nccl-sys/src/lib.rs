//! Bindings to NCCL, loaded at run time.
//!
//! [`Nccl`] is the table of functions; the types and constants are those of `nccl.h`. The module [`loader`]
//! finds shared libraries and serves the crates beside this one too.
//!
//! `cargo xtask bindings` regenerates `bindings.rs` and says in its first lines from which header.

// The function tables of all three crates name this crate.
extern crate self as nccl_sys;

mod bindings;
pub mod loader;

use std::ffi::CStr;
use std::path::Path;
use std::ptr;

pub use bindings::*;

use loader::{Error, Library, LibraryInfo, SearchPath};

/// NCCL as pip installs it.
pub const LIBRARY: LibraryInfo = LibraryInfo {
    name: "NCCL",
    file: "libnccl.so.2",
    wheel_folders: &["nvidia/nccl/lib"],
    pip_package: "nvidia-nccl-cu13",
};

/// `NCCL_CONFIG_UNDEF_INT`: a field of the configuration that NCCL is to choose. (A macro that bindgen cannot
/// follow.)
pub const NCCL_CONFIG_UNDEF_INT: i32 = i32::MIN;

impl Nccl {
    /// Finds NCCL (see [`Library::find`]) and asks for its version.
    ///
    /// # Errors
    /// NCCL is not there, or what was loaded under its name is something else.
    pub fn find(search: &SearchPath) -> Result<Self, Error> {
        Self::with_version(Library::find(LIBRARY, search)?)
    }

    /// Loads NCCL from this file and asks for its version.
    ///
    /// # Errors
    /// As [`Nccl::find`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::with_version(Library::load(LIBRARY, path)?)
    }

    fn with_version(library: Library) -> Result<Self, Error> {
        // SAFETY: the functions' names all begin with `nccl`: no other library has them.
        let nccl = unsafe { Self::from_library(library) };
        let mut version = 0;
        // SAFETY: writes one int.
        if unsafe { nccl.ncclGetVersion(&mut version) }? == ncclResult_t::ncclSuccess {
            nccl.library().record_version(version_text(version));
        }
        Ok(nccl)
    }

    /// What a result means, with NCCL's code, its text and, if there is one, the last error in its own words.
    pub fn describe(&self, result: ncclResult_t) -> String {
        // SAFETY: returns a static string, or NULL.
        let meaning = unsafe { self.ncclGetErrorString(result) }.ok().and_then(text);
        // SAFETY: NULL asks for this thread's last error; returns a string that NCCL owns, or NULL.
        let last = unsafe { self.ncclGetLastError(ptr::null_mut()) }.ok().and_then(text);
        let mut description = format!("NCCL error {}", result.0);
        for part in [meaning, last].into_iter().flatten().filter(|part| !part.trim().is_empty()) {
            description.push_str(": ");
            description.push_str(part.trim());
        }
        description
    }
}

fn text(string: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: not NULL, and NCCL ends its strings with a zero.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// `22907` → `2.29.7`. The rule of `NCCL_VERSION` in `nccl.h`, for NCCL 2.9 and later.
fn version_text(code: i32) -> String {
    format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)
}

impl Default for ncclConfig_t {
    /// `NCCL_CONFIG_INITIALIZER`: everything is left to NCCL. A later NCCL takes this older struct by its size.
    fn default() -> Self {
        let unset = NCCL_CONFIG_UNDEF_INT;
        Self {
            size: size_of::<Self>(),
            magic: NCCL_API_MAGIC,
            version: NCCL_VERSION_CODE,
            blocking: unset,
            cgaClusterSize: unset,
            minCTAs: unset,
            maxCTAs: unset,
            netName: ptr::null(),
            splitShare: unset,
            trafficClass: unset,
            commName: ptr::null(),
            collnetEnable: unset,
            CTAPolicy: unset,
            shrinkShare: unset,
            nvlsCTAs: unset,
            nChannelsPerNetPeer: unset,
            nvlinkCentricSched: unset,
            graphUsageMode: unset,
            numRmaCtx: unset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_header() {
        assert_eq!(size_of::<ncclUniqueId>(), NCCL_UNIQUE_ID_BYTES as usize);
        // size_t, 2 + 4 ints, a pointer, 2 ints, a pointer, 8 ints: no gaps on a 64-bit machine.
        assert_eq!(size_of::<ncclConfig_t>(), 8 + 6 * 4 + 8 + 2 * 4 + 8 + 8 * 4);
        assert_eq!(size_of::<ncclResult_t>(), size_of::<std::ffi::c_int>());
    }

    #[test]
    fn the_default_configuration_leaves_everything_to_nccl() {
        let config = ncclConfig_t::default();
        assert_eq!(
            (config.size, config.magic, config.version),
            (size_of::<ncclConfig_t>(), 0xcafe_beef, 22907)
        );
        let names = [config.netName, config.commName];
        assert!(names.iter().all(|name| name.is_null()));
        let settings = [
            config.blocking,
            config.cgaClusterSize,
            config.minCTAs,
            config.maxCTAs,
            config.splitShare,
            config.trafficClass,
            config.collnetEnable,
            config.CTAPolicy,
            config.shrinkShare,
            config.nvlsCTAs,
            config.nChannelsPerNetPeer,
            config.nvlinkCentricSched,
            config.graphUsageMode,
            config.numRmaCtx,
        ];
        assert!(settings.iter().all(|&setting| setting == i32::MIN));
    }

    #[test]
    fn a_version_code_reads_as_people_write_it() {
        assert_eq!(version_text(22907), "2.29.7");
        assert_eq!(version_text(20900), "2.9.0");
    }

    #[test]
    fn another_library_in_its_place_is_told_by_the_missing_function() {
        let error = Nccl::load(Path::new("libc.so.6")).expect_err("libc has no ncclGetVersion");
        assert!(matches!(error, Error::MissingSymbol { symbol: "ncclGetVersion", version: None, .. }));
        let message = error.to_string();
        for part in ["NCCL", "ncclGetVersion", "libc.so.6", "unknown", "nvidia-nccl-cu13"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }

    #[test]
    fn a_missing_library_names_every_place_and_the_package() {
        let empty = std::env::temp_dir().join("meshsolve-no-libraries-here");
        let absent = LibraryInfo { file: "libnccl-not-installed.so.2", ..LIBRARY };
        let message =
            Library::find(absent, &SearchPath::new([&empty])).expect_err("no such file").to_string();
        let in_wheel = empty.join("nvidia/nccl/lib/libnccl-not-installed.so.2");
        let beside = empty.join("libnccl-not-installed.so.2");
        for part in [&*in_wheel.to_string_lossy(), &*beside.to_string_lossy(), "pip install nvidia-nccl-cu13"]
        {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }
    #[test]
    fn a_file_that_does_not_load_ends_the_search_with_the_reason() {
        let folder = std::env::temp_dir().join(format!("meshsolve-broken-library-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let broken = LibraryInfo { file: "libnccl-broken.so.2", ..LIBRARY };
        std::fs::write(folder.join(broken.file), "not a library")
            .expect("the temporary folder can be written");
        let found = Library::find(broken, &SearchPath::new([&folder]));
        std::fs::remove_dir_all(&folder).expect("the folder was made above");
        let message = found.expect_err("text does not load").to_string();
        assert!(message.contains("libnccl-broken.so.2") && message.contains("file too short"), "{message}");
    }
}
