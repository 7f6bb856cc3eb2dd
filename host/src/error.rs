//! The one error type of the crate.

/// What went wrong, in the words of the status codes that XLA and its users know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller passed something that no call could accept.
    InvalidArgument,
    /// The call is right but the surroundings are not (a missing library, a wrong version).
    FailedPrecondition,
    /// Memory ran out.
    ResourceExhausted,
    /// This build, device or library cannot do it.
    Unsupported,
    /// A participant did not arrive in time.
    DeadlineExceeded,
    /// A bug here, or a library that failed without a better word.
    Internal,
}

/// An error with a text that says what happened, where, what was needed and what helps.
///
/// It is cloned so that every rank of a call reports the same text.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! constructors {
    ($($name:ident => $kind:ident),*) => { $(
        #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
        pub fn $name(message: impl Into<String>) -> Self {
            Self { kind: ErrorKind::$kind, message: message.into() }
        }
    )* };
}

impl Error {
    constructors! {
        invalid_argument => InvalidArgument, failed_precondition => FailedPrecondition,
        resource_exhausted => ResourceExhausted, unsupported => Unsupported,
        deadline_exceeded => DeadlineExceeded, internal => Internal
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error with `context` in front of its text.
    pub fn context(self, context: impl std::fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }
}
