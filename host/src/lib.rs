//! Distributed dense linear algebra on NVIDIA GPUs and, for development, on CPUs.
//!
//! A matrix arrives as JAX shards it: contiguous row-major blocks. A distributed solver wants it
//! column-major and 2-D block-cyclic. This crate turns the one into the other and back, and runs
//! the solver in between.
//!
//! * [`layout`]: index spaces and their conversions, exact integer arithmetic.
//! * [`plan`]: what a call will do, as plain data: stages, rounds, bytes, scratch.
//! * [`device`], [`communicator`], [`solver`]: the three seams towards hardware and libraries.
//! * [`routines`]: the algorithms, written once over the seams.
//! * [`simulate`]: all ranks of a plan on threads of this process.
#![warn(clippy::cast_possible_truncation)]

pub mod communicator;
pub mod device;
mod dtype;
mod error;
pub mod layout;
#[cfg(feature = "cuda")]
pub mod libraries;
pub mod plan;
pub mod routines;
pub mod simulate;
pub mod solver;

pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
