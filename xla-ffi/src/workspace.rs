//! The workspace that solvers on GPUs asked for, by plan.
//!
//! A plan by itself has an estimate only; once it has run in this process, what was asked for is known.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Bytes by the plan's fingerprint.
static ASKED: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);

/// Notes that a device of this process was asked for `bytes`; the largest number counts.
pub fn note(fingerprint: u64, bytes: u64) {
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let most = asked.entry(fingerprint).or_default();
    *most = bytes.max(*most);
}

/// The most bytes that a device of this process was asked for, if the plan has run.
pub fn asked(fingerprint: u64) -> Option<u64> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).get(&fingerprint).copied()
}
