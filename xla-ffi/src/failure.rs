//! Errors on their way to XLA: a code and a text.

#![forbid(unsafe_code)]

use std::ffi::c_int;
use std::fmt;

use meshsolve::ErrorKind;

use crate::sys::error_code;

/// Why a call failed, in terms that XLA understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status code that the user's exception begins with.
    pub kind: FailureKind,
    /// What happened, what was needed, and what to do about it.
    pub message: String,
}

/// The status codes that we raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The caller passed something wrong.
    InvalidArgument,
    /// A participant did not arrive in time.
    DeadlineExceeded,
    /// Memory or another resource ran out.
    ResourceExhausted,
    /// The surroundings are not in the state that the call needs.
    FailedPrecondition,
    /// This runtime or machine cannot do what was asked.
    Unsupported,
    /// A defect of ours or of the runtime.
    Internal,
    /// A status of the runtime's that we never raise ourselves, by its number.
    Other(c_int),
}

impl Failure {
    /// A failure of the given kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The caller passed something wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidArgument, message)
    }

    /// This runtime or machine cannot do what was asked.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unsupported, message)
    }

    /// A defect of ours or of the runtime.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Internal, message)
    }
}

impl FailureKind {
    /// The number of this status in XLA's C API.
    pub fn code(self) -> c_int {
        match self {
            Self::InvalidArgument => error_code::INVALID_ARGUMENT,
            Self::DeadlineExceeded => error_code::DEADLINE_EXCEEDED,
            Self::ResourceExhausted => error_code::RESOURCE_EXHAUSTED,
            Self::FailedPrecondition => error_code::FAILED_PRECONDITION,
            Self::Unsupported => error_code::UNIMPLEMENTED,
            Self::Internal => error_code::INTERNAL,
            Self::Other(code) => code,
        }
    }

    /// The status with this number. XLA refuses errors with a number that it does not know, or with
    /// that of success, so these count as unknown.
    pub fn from_code(code: c_int) -> Self {
        match code {
            error_code::INVALID_ARGUMENT => Self::InvalidArgument,
            error_code::DEADLINE_EXCEEDED => Self::DeadlineExceeded,
            error_code::RESOURCE_EXHAUSTED => Self::ResourceExhausted,
            error_code::FAILED_PRECONDITION => Self::FailedPrecondition,
            error_code::UNIMPLEMENTED => Self::Unsupported,
            error_code::INTERNAL => Self::Internal,
            1..=16 => Self::Other(code),
            _ => Self::Other(error_code::UNKNOWN),
        }
    }

    /// The name that Python sees in the reply to a plan request.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Unsupported => "unsupported",
            Self::Internal => "internal",
            Self::Other(_) => "unknown",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<meshsolve::Error> for Failure {
    fn from(error: meshsolve::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::InvalidArgument => FailureKind::InvalidArgument,
            ErrorKind::FailedPrecondition => FailureKind::FailedPrecondition,
            ErrorKind::ResourceExhausted => FailureKind::ResourceExhausted,
            ErrorKind::Unsupported => FailureKind::Unsupported,
            ErrorKind::Internal => FailureKind::Internal,
            ErrorKind::DeadlineExceeded => FailureKind::DeadlineExceeded,
        };
        Self::new(kind, error.to_string())
    }
}
