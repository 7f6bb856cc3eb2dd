//! Device kernels of meshsolve: one source, compiled to PTX and, for tests, for the host.
//!
//! [`launch`] makes a [`Call`](launch::Call): a kernel's name, its geometry and its arguments
//! ([`args`]). A GPU runs it from [`PTX`]; with the feature `emulator` the module `emulator` runs the
//! same source on the host.
//!
//! Kernels move data as carriers of 4, 8 or 16 bytes ([`launch::ElementSize`]) and know nothing of the
//! element type, except for the few that compute.
#![cfg_attr(target_os = "cuda", no_std, feature(abi_ptx))]

pub mod args;
pub mod arithmetic;
#[cfg(all(feature = "emulator", not(target_os = "cuda")))]
pub mod emulator;
pub mod kernels;
pub mod launch;

/// The kernels as PTX for compute capability 7.0 and later, as `cargo xtask ptx` builds it.
#[cfg(not(target_os = "cuda"))]
pub const PTX: &str = include_str!("../ptx/meshsolve.ptx");

/// The version of rustc that made [`PTX`].
#[cfg(not(target_os = "cuda"))]
pub const PTX_RUSTC: &str = include_str!("../ptx/rustc-version.txt");
