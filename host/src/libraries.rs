//! NVIDIA's distributed libraries, found and loaded once for the whole process.
//!
//! They are loaded when the first call needs them, by full path and in the order in which they need
//! one another: NCCL, cuBLASMp, cuSOLVERMp. A copy that the process already holds is taken first, so
//! that NCCL is the one whose communicators JAX hands out.

use crate::{Error, Result};
use cublasmp_sys::CublasMp;
use cusolvermp_sys::CusolverMp;
use nccl_sys::Nccl;
use nccl_sys::loader::{self, Library, SearchPath};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The oldest NCCL with which cuBLASMp loads.
const OLDEST_NCCL: [u32; 3] = [2, 29, 2];

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static NCCL: OnceLock<Nccl> = OnceLock::new();
static CUBLASMP: OnceLock<CublasMp> = OnceLock::new();
static CUSOLVERMP: OnceLock<CusolverMp> = OnceLock::new();

/// Where libraries that are not loaded yet are looked for, before `LD_LIBRARY_PATH` and the system's
/// own folders. Each is a `site-packages` folder or one that holds the libraries themselves.
pub fn set_library_folders(folders: Vec<PathBuf>) {
    *FOLDERS.lock().unwrap_or_else(PoisonError::into_inner) = folders;
}

/// A library that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedLibrary {
    /// The name that people use.
    pub name: &'static str,
    /// The file, or only its name where the system loader chose.
    pub path: PathBuf,
    /// What the library says of itself; cuSOLVERMp does so only once a call was made.
    pub version: Option<String>,
}

/// The libraries that were loaded so far.
pub fn loaded() -> Vec<LoadedLibrary> {
    let libraries: [(&'static str, Option<&Library>); 3] = [
        (nccl_sys::LIBRARY.name, NCCL.get().map(Nccl::library)),
        (cublasmp_sys::LIBRARY.name, CUBLASMP.get().map(CublasMp::library)),
        (cusolvermp_sys::LIBRARY.name, CUSOLVERMP.get().map(CusolverMp::library)),
    ];
    let describe = |(name, library): (&'static str, Option<&Library>)| {
        let library = library?;
        Some(LoadedLibrary {
            name,
            path: library.path().to_owned(),
            version: library.version().map(str::to_owned),
        })
    };
    libraries.into_iter().filter_map(describe).collect()
}

/// NCCL.
///
/// # Errors
/// [`crate::ErrorKind::FailedPrecondition`] with the places that were searched and the pip package.
pub fn nccl() -> Result<&'static Nccl> {
    load(&NCCL, |search| Nccl::find(search).map_err(missing))
}

/// cuBLASMp, after NCCL, which it needs.
///
/// # Errors
/// As for [`nccl`]; also if NCCL is too old for cuBLASMp.
pub fn cublasmp() -> Result<&'static CublasMp> {
    let nccl = nccl()?;
    load(&CUBLASMP, |search| {
        CublasMp::find(search).map_err(|error| no_cublasmp(&error, nccl.library().version()))
    })
}

/// cuSOLVERMp, after NCCL and cuBLASMp, which it needs.
///
/// # Errors
/// As for [`cublasmp`].
pub fn cusolvermp() -> Result<&'static CusolverMp> {
    cublasmp()?;
    load(&CUSOLVERMP, |search| CusolverMp::find(search).map_err(missing))
}

/// Makes sure that the cuSOLVERMp in use is not older than `oldest`, which `what` needs. Its version is known
/// once there is a handle.
///
/// # Errors
/// [`crate::ErrorKind::FailedPrecondition`], the same on every rank, with both versions and the pip package.
pub(crate) fn require_cusolvermp(oldest: [u32; 3], what: &str) -> Result<()> {
    require(cusolvermp()?.library().version(), oldest, what)
}

/// [`require_cusolvermp`] for a cuSOLVERMp of this version.
fn require(version: Option<&str>, oldest: [u32; 3], what: &str) -> Result<()> {
    if version.is_some_and(|version| numbers(version) >= oldest) {
        return Ok(());
    }
    let [major, minor, patch] = oldest;
    Err(Error::failed_precondition(format!(
        "{what} need cuSOLVERMp {major}.{minor}.{patch} or later, because an older one can return wrong ones \
         without an error, but this process has cuSOLVERMp {}: `pip install --upgrade {}`, then start anew",
        version.unwrap_or("of unknown version"),
        cusolvermp_sys::LIBRARY.pip_package
    )))
}

/// What `cell` holds, loaded the first time. A failure is not kept: the next call may bring folders.
fn load<T>(cell: &'static OnceLock<T>, find: impl FnOnce(&SearchPath) -> Result<T>) -> Result<&'static T> {
    if let Some(library) = cell.get() {
        return Ok(library);
    }
    // Held while loading, so that one thread at a time loads.
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = cell.get() {
        return Ok(library);
    }
    let library = find(&SearchPath::new(folders.iter()))?;
    Ok(cell.get_or_init(|| library))
}

/// A library, or one of its functions, is not there.
pub(crate) fn missing(error: loader::Error) -> Error {
    Error::failed_precondition(error.to_string())
}

/// Why cuBLASMp did not load. An NCCL that is too old shows only as a symbol that cuBLASMp lacks.
fn no_cublasmp(error: &loader::Error, nccl_version: Option<&str>) -> Error {
    let lacks_nccl_function = match error {
        loader::Error::NotFound { tries, .. } => {
            tries.iter().any(|(_, answer)| answer.contains("undefined symbol: nccl"))
        }
        loader::Error::MissingSymbol { .. } => false,
    };
    match nccl_version {
        Some(version) if lacks_nccl_function && numbers(version) < OLDEST_NCCL => {
            let [major, minor, patch] = OLDEST_NCCL;
            Error::failed_precondition(format!(
                "cuBLASMp needs NCCL {major}.{minor}.{patch} or later, but this process has NCCL {version}: \
                 `pip install --upgrade {}`, then start anew. In full: {error}",
                nccl_sys::LIBRARY.pip_package
            ))
        }
        _ => Error::failed_precondition(error.to_string()),
    }
}

/// `2.29.7` → `[2, 29, 7]`; what is not a number counts as 0.
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn not_found(answer: &str) -> loader::Error {
        loader::Error::NotFound {
            name: cublasmp_sys::LIBRARY.name,
            file: cublasmp_sys::LIBRARY.file,
            pip_package: cublasmp_sys::LIBRARY.pip_package,
            tries: vec![("/site-packages/libcublasmp.so.0".into(), answer.into())],
        }
    }

    #[test]
    fn an_old_nccl_is_named_with_its_package() {
        let error = no_cublasmp(&not_found("undefined symbol: ncclCommWindowRegister"), Some("2.27.3"));
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        let message = error.to_string();
        for part in ["NCCL 2.29.2", "NCCL 2.27.3", "nvidia-nccl-cu13", "ncclCommWindowRegister"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }

    #[test]
    fn nccl_is_not_blamed_for_what_it_did_not_cause() {
        let absent = "cannot open shared object file: No such file or directory";
        for (answer, nccl) in
            [(absent, "2.27.3"), ("file too short", "2.27.3"), ("undefined symbol: nccl", "2.30.0")]
        {
            let message = no_cublasmp(&not_found(answer), Some(nccl)).to_string();
            assert!(message.contains(answer) && message.contains("nvidia-cublasmp-cu13"), "{message}");
            assert!(!message.contains("nvidia-nccl"), "{message}");
        }
    }

    #[test]
    fn a_cusolvermp_with_wrong_vectors_is_refused_with_the_remedy() {
        for good in ["0.9.1", "0.9.2", "0.10.0", "1.0.0"] {
            assert_eq!(require(Some(good), [0, 9, 1], "eigenvectors"), Ok(()), "{good}");
        }
        for (version, shown) in
            [(Some("0.9.0"), "0.9.0:"), (Some("0.7.2"), "0.7.2:"), (None, "of unknown version:")]
        {
            let error = require(version, [0, 9, 1], "eigenvectors").expect_err("too old");
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
            let message = error.to_string();
            for part in ["eigenvectors", "cuSOLVERMp 0.9.1", shown, "--upgrade nvidia-cusolvermp-cu13"] {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("2.9.0") < OLDEST_NCCL);
        assert!(numbers("2.29.2") >= OLDEST_NCCL);
        assert!(numbers("2.100") > OLDEST_NCCL);
    }
}
