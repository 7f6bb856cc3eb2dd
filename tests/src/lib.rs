//! End-to-end tests of meshsolve.
