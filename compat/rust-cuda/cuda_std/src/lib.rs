//! Local stand-in for the Rust-CUDA crate `cuda_std`.
