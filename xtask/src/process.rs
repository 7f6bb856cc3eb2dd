//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a task ends with; the error is a message for the person who started it.
pub type Outcome<T = ()> = Result<T, String>;

/// The repository's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's folder")
}

/// The folder in which cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Cargo, in the repository's folder.
pub fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root());
    command
}

/// Shows and runs a command; an exit code other than 0 is an error.
pub fn run(command: &mut Command) -> Outcome {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command.status().map_err(|error| format!("`{line}` did not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed: {status}")) }
}

/// Runs a command without showing it, and returns what it writes to standard output.
pub fn output(command: &mut Command) -> Outcome<String> {
    let line = line(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command as one would type it, without long scripts.
pub fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let word = |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy();
        if word.contains('\n') { "…".to_owned() } else { word.into_owned() }
    };
    words.map(word).collect::<Vec<_>>().join(" ")
}
