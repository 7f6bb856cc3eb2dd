//! Benchmarks of meshsolve: run them with `cargo bench`.
