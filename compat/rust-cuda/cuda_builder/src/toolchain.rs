//! Finding a Rust toolchain that can compile `core` for the GPU.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A rustc and its cargo, with the sources of the standard library.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// The cargo beside it.
    pub cargo: PathBuf,
    /// What `rustc --version` says.
    pub version: String,
}

impl Toolchain {
    /// The toolchain in `prefix` (with `prefix/bin/rustc`), or why it does not serve.
    pub fn at(prefix: &Path) -> Result<Self, String> {
        let program = |name: &str| {
            let path = prefix.join("bin").join(format!("{name}{}", env::consts::EXE_SUFFIX));
            if path.is_file() { Ok(path) } else { Err(format!("{}: not there", path.display())) }
        };
        let (rustc, cargo) = (program("rustc")?, program("cargo")?);
        let ask = |question: &[&str]| {
            let mut command = Command::new(&rustc);
            forget_outer_build(&mut command);
            let output = command.args(question).output().map_err(|e| format!("{}: {e}", rustc.display()))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = ask(&["--version"])?;
        let sysroot = ask(&["--print", "sysroot"])?;
        if !Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/Cargo.toml").is_file() {
            return Err(format!("{}: {version} without the standard library's sources", prefix.display()));
        }
        Ok(Self { rustc, cargo, version })
    }

    /// The first that serves of: the one named by `CUDA_BUILDER_TOOLCHAIN` (then no other is tried), the
    /// running cargo's, rustup's (nightly ones first), the system's. Otherwise, why each does not.
    pub fn find() -> Result<Self, Vec<String>> {
        if let Some(prefix) = env::var_os("CUDA_BUILDER_TOOLCHAIN") {
            return Self::at(Path::new(&prefix)).map_err(|why| vec![why]);
        }
        let mut prefixes: Vec<PathBuf> = Vec::new();
        prefixes.extend(
            env::var_os("CARGO").and_then(|cargo| Some(Path::new(&cargo).parent()?.parent()?.into())),
        );
        prefixes.extend(rustup_toolchains());
        prefixes.push("/usr".into());
        let mut reasons = Vec::new();
        for prefix in prefixes {
            match Self::at(&prefix) {
                Ok(toolchain) => return Ok(toolchain),
                Err(why) => reasons.push(why),
            }
        }
        Err(reasons)
    }
}

/// The toolchains that rustup has installed, nightly ones first, otherwise by descending name.
fn rustup_toolchains() -> Vec<PathBuf> {
    let home = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".rustup")));
    let entries = home.and_then(|home| fs::read_dir(home.join("toolchains")).ok());
    let mut paths: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let is_nightly =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nightly"));
    paths.sort_by_key(|path| std::cmp::Reverse((is_nightly(path), path.clone())));
    paths
}

/// Removes what an outer cargo, its build scripts and rustup put into the environment: it would steer
/// the nested build to the outer one's compiler, flags and folders.
pub(crate) fn forget_outer_build(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if belongs_to_outer_build(&name) {
            command.env_remove(&name);
        }
    }
}

fn belongs_to_outer_build(name: &OsStr) -> bool {
    const KEPT: [&str; 4] = ["CARGO_HOME", "CARGO_MAKEFLAGS", "CARGO_NET_OFFLINE", "CARGO_TERM_COLOR"];
    const KEPT_PREFIXES: [&str; 3] = ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_"];
    const REMOVED: [&str; 12] = [
        "CARGO",
        "RUSTC",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "LD_LIBRARY_PATH",
        "TARGET",
        "HOST",
        "OUT_DIR",
        "PROFILE",
        "OPT_LEVEL",
        "DEBUG",
    ];
    let name = name.to_string_lossy();
    let kept = KEPT.contains(&&*name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !kept && (REMOVED.contains(&&*name) || name.starts_with("CARGO_") || name.starts_with("RUSTC_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_without_a_compiler_is_refused_by_name() {
        let why = Toolchain::at(Path::new("no-such-prefix")).expect_err("nothing is there");
        assert!(why.starts_with("no-such-prefix/bin/rustc"), "{why}");
    }

    #[test]
    fn the_outer_build_is_forgotten_but_not_the_user_s_settings() {
        for removed in ["RUSTC", "RUSTC_WRAPPER", "CARGO_PKG_NAME", "CARGO_ENCODED_RUSTFLAGS", "OUT_DIR"] {
            assert!(belongs_to_outer_build(OsStr::new(removed)), "{removed}");
        }
        for kept in ["CARGO_HOME", "CARGO_HTTP_PROXY", "RUSTUP_HOME", "RUSTUP_AUTO_INSTALL", "PATH"] {
            assert!(!belongs_to_outer_build(OsStr::new(kept)), "{kept}");
        }
    }
}
