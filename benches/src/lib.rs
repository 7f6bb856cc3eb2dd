//! Benchmarks of meshsolve: run them with `cargo xtask bench`. What the programs for GPUs share is here.

#[cfg(feature = "cuda")]
pub mod clock;
#[cfg(feature = "cuda")]
pub mod gpus;
