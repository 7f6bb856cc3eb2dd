//! What the libraries' statuses mean.

use crate::{Error, ErrorKind, libraries};
use cublasmp_sys::cublasMpStatus_t;
use cusolvermp_sys::cusolverStatus_t;
use nccl_sys::loader;

/// A call that did not succeed.
pub(super) enum Failure {
    /// cuSOLVERMp refused.
    Solver(cusolverStatus_t),
    /// cuBLASMp refused.
    Blas(cublasMpStatus_t),
    /// The function is not there, or the driver failed beside it.
    Other(Error),
}

/// How a call of a library ended.
pub(super) type Outcome = Result<(), Failure>;

/// What the libraries' functions return.
pub(super) trait Status {
    fn outcome(self) -> Outcome;
}

impl Status for cusolverStatus_t {
    fn outcome(self) -> Outcome {
        if self == Self::CUSOLVER_STATUS_SUCCESS { Ok(()) } else { Err(Failure::Solver(self)) }
    }
}

impl Status for cublasMpStatus_t {
    fn outcome(self) -> Outcome {
        if self == Self::CUBLASMP_STATUS_SUCCESS { Ok(()) } else { Err(Failure::Blas(self)) }
    }
}

impl<S: Status> Status for Result<S, loader::Error> {
    fn outcome(self) -> Outcome {
        self.map_err(|error| Failure::Other(libraries::missing(error)))?.outcome()
    }
}

impl Failure {
    /// The error: which function failed, where, and how.
    pub(super) fn describe(self, function: &str, rank: u64, device: i32) -> Error {
        let at = format!("{function} on rank {rank} (device {device})");
        let (library, code, meaning, kind) = match self {
            Self::Other(error) => return error.context(at),
            Self::Solver(status) => {
                (cusolvermp_sys::LIBRARY.name, status.0, meaning(status).to_owned(), kind(status))
            }
            Self::Blas(status) => {
                (cublasmp_sys::LIBRARY.name, status.0, blas_meaning(status), blas_kind(status))
            }
        };
        let loaded = libraries::loaded().into_iter().find(|loaded| loaded.name == library);
        let version = loaded.and_then(|loaded| loaded.version).unwrap_or("of unknown version".into());
        let text = format!("{at}: {library} {version} status {code}: {meaning}");
        match kind {
            ErrorKind::ResourceExhausted => Error::resource_exhausted(text),
            ErrorKind::Unsupported => Error::unsupported(text),
            _ => Error::internal(text),
        }
    }
}

fn kind(status: cusolverStatus_t) -> ErrorKind {
    match status {
        cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED => ErrorKind::ResourceExhausted,
        cusolverStatus_t::CUSOLVER_STATUS_NOT_SUPPORTED
        | cusolverStatus_t::CUSOLVER_STATUS_ARCH_MISMATCH
        | cusolverStatus_t::CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED => ErrorKind::Unsupported,
        _ => ErrorKind::Internal,
    }
}

fn blas_kind(status: cublasMpStatus_t) -> ErrorKind {
    match status {
        cublasMpStatus_t::CUBLASMP_STATUS_ALLOCATION_FAILED => ErrorKind::ResourceExhausted,
        cublasMpStatus_t::CUBLASMP_STATUS_NOT_SUPPORTED
        | cublasMpStatus_t::CUBLASMP_STATUS_ARCHITECTURE_MISMATCH => ErrorKind::Unsupported,
        _ => ErrorKind::Internal,
    }
}

const NO_MEMORY: &str =
    "no memory left outside XLA's pool; give XLA a smaller share (XLA_PYTHON_CLIENT_MEM_FRACTION)";

/// cuBLASMp explains its statuses itself.
fn blas_meaning(status: cublasMpStatus_t) -> String {
    match libraries::cublasmp() {
        Ok(_) if status == cublasMpStatus_t::CUBLASMP_STATUS_ALLOCATION_FAILED => NO_MEMORY.to_owned(),
        Ok(cublasmp) => cublasmp.meaning(status),
        Err(error) => error.to_string(),
    }
}

/// cuSOLVERMp has no function that explains a status.
fn meaning(status: cusolverStatus_t) -> &'static str {
    match status {
        cusolverStatus_t::CUSOLVER_STATUS_NOT_INITIALIZED => "the library or CUDA could not be initialised",
        cusolverStatus_t::CUSOLVER_STATUS_ALLOC_FAILED => NO_MEMORY,
        cusolverStatus_t::CUSOLVER_STATUS_INVALID_VALUE => "an argument is not valid",
        cusolverStatus_t::CUSOLVER_STATUS_ARCH_MISMATCH => "the device is too old",
        cusolverStatus_t::CUSOLVER_STATUS_MAPPING_ERROR => "memory could not be mapped",
        cusolverStatus_t::CUSOLVER_STATUS_EXECUTION_FAILED => "a kernel failed",
        cusolverStatus_t::CUSOLVER_STATUS_INTERNAL_ERROR => "an operation inside the library failed",
        cusolverStatus_t::CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED => "this kind of matrix is not supported",
        cusolverStatus_t::CUSOLVER_STATUS_NOT_SUPPORTED => "these parameters are not supported",
        cusolverStatus_t::CUSOLVER_STATUS_INVALID_WORKSPACE => "the workspace is not valid",
        _ => "see cusolverStatus_t in NVIDIA's documentation",
    }
}
