//! The Python wheel.

use std::fs;
use std::path::PathBuf;

use crate::environment::Environment;
use crate::process::{Outcome, root, run, target};

/// Builds the wheel, and returns its path in `target/wheels`, where it is the only one.
pub fn build() -> Outcome<PathBuf> {
    let wheels = target().join("wheels");
    let _ = fs::remove_dir_all(&wheels);
    let environment = Environment::ready(".venv-build", &[])?;
    run(environment
        .pip("wheel")
        .args(["--no-deps", "--wheel-dir"])
        .arg(&wheels)
        .arg(root().join("xla-ffi")))?;
    let built = fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    built
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| format!("no wheel in {}", wheels.display()))
}
