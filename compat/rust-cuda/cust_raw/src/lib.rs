//! Local stand-in for the Rust-CUDA crate `cust_raw`.
