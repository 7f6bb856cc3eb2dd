//! Local stand-in for the Rust-CUDA crate `cuda_std`: what a kernel needs, on rustc's own PTX back end.
//!
//! Kernels are compiled for the device where `target_os = "cuda"`. Everywhere else the same functions
//! are served by the [`emulator`], which runs a kernel's source on the host.
#![cfg_attr(target_os = "cuda", no_std)]
#![cfg_attr(target_os = "cuda", feature(stdarch_nvptx, asm_experimental_arch))]

#[cfg(not(target_os = "cuda"))]
pub mod emulator;
pub mod shared;
pub mod thread;

pub use cuda_std_macros::kernel;
