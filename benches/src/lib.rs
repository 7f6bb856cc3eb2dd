//! Benchmarks of meshsolve.
