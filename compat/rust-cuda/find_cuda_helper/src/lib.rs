//! Local stand-in for the Rust-CUDA crate `find_cuda_helper`.
