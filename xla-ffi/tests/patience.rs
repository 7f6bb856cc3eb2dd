//! The waiting time from the environment, alone in a process because the environment is shared.

use std::env;
use std::time::Duration;

use meshsolve_xla_ffi::attributes::positive_seconds;
use meshsolve_xla_ffi::cpu::{PATIENCE_VARIABLE, default_patience};

#[test]
fn the_environment_is_read_once() {
    // SAFETY: no other thread reads the environment: this is the only test that does.
    unsafe { env::set_var(PATIENCE_VARIABLE, " 7.5 ") };
    assert_eq!(default_patience(), Duration::from_millis(7500));
    // SAFETY: as above.
    unsafe { env::set_var(PATIENCE_VARIABLE, "8") };
    assert_eq!(default_patience(), Duration::from_millis(7500));
}

#[test]
fn only_positive_finite_numbers_are_times() {
    assert_eq!(positive_seconds(0.25), Some(Duration::from_millis(250)));
    for wrong in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        assert_eq!(positive_seconds(wrong), None, "{wrong}");
    }
}
