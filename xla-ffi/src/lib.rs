//! XLA FFI entry points of meshsolve.
