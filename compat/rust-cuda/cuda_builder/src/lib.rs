//! Local stand-in for the Rust-CUDA crate `cuda_builder`, over rustc's own PTX back end.
//!
//! It needs a Rust toolchain with the standard library's sources, but no CUDA toolkit, no LLVM and no
//! linker: the PTX is what `rustc --emit=asm` writes.
//!
//! ```no_run
//! use cuda_builder::{CudaBuilder, NvvmArch};
//! let ptx = CudaBuilder::new("kernels-rs")
//!     .arch(NvvmArch::Compute70)
//!     .copy_to("kernels-rs/ptx/meshsolve.ptx")
//!     .build()?;
//! # Ok::<(), cuda_builder::CudaBuilderError>(())
//! ```

mod toolchain;

pub use toolchain::Toolchain;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs, io};

/// The oldest GPU generation that the PTX is for; later ones load it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NvvmArch {
    Compute70,
    Compute75,
    Compute80,
    Compute86,
    Compute89,
    Compute90,
    Compute100,
    Compute120,
}

impl NvvmArch {
    /// The name that rustc and ptxas use, as `sm_70`.
    pub fn target_cpu(self) -> &'static str {
        match self {
            Self::Compute70 => "sm_70",
            Self::Compute75 => "sm_75",
            Self::Compute80 => "sm_80",
            Self::Compute86 => "sm_86",
            Self::Compute89 => "sm_89",
            Self::Compute90 => "sm_90",
            Self::Compute100 => "sm_100",
            Self::Compute120 => "sm_120",
        }
    }
}

/// Why there is no PTX.
#[derive(Debug)]
pub enum CudaBuilderError {
    /// The path given to [`CudaBuilder::new`] holds no crate.
    CratePathDoesntExist(PathBuf),
    /// No usable toolchain; what was looked at and why it does not serve.
    NoToolchain(Vec<String>),
    /// The nested build failed; its command and messages.
    BuildFailed(String),
    /// Lines of the PTX that trap or call: a check in a kernel can fail, or something was not inlined.
    TrapsOrCalls(Vec<String>),
    /// A file could not be read or written.
    Io(PathBuf, io::Error),
}

impl fmt::Display for CudaBuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CratePathDoesntExist(path) => write!(f, "{}: no crate there", path.display()),
            Self::NoToolchain(seen) => write!(
                f,
                "no Rust toolchain here can build for nvptx64-nvidia-cuda: that needs the sources of the \
                 standard library. Install the Debian packages rustc-web, cargo-web and rust-web-src, or a \
                 rustup toolchain with the component rust-src, or name a toolchain's prefix in \
                 CUDA_BUILDER_TOOLCHAIN. Looked at: {}",
                seen.join("; ")
            ),
            Self::BuildFailed(messages) => write!(f, "the PTX build failed:\n{messages}"),
            Self::TrapsOrCalls(lines) => write!(
                f,
                "the PTX must be free of traps and calls, but holds:\n{}\nLook for a check that can fail \
                 (an index, a division, an unwrap) or a function that is not inlined",
                lines.join("\n")
            ),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for CudaBuilderError {}

/// Builds the PTX of a crate of kernels.
pub struct CudaBuilder {
    crate_root: PathBuf,
    arch: NvvmArch,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
}

impl CudaBuilder {
    /// A build of the crate in this folder, for compute capability 7.0.
    pub fn new(path_to_crate_root: impl AsRef<Path>) -> Self {
        Self {
            crate_root: path_to_crate_root.as_ref().into(),
            arch: NvvmArch::Compute70,
            copy_to: None,
            target_dir: None,
        }
    }

    /// The oldest generation to build for.
    pub fn arch(mut self, arch: NvvmArch) -> Self {
        self.arch = arch;
        self
    }

    /// Where to copy the PTX.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().into());
        self
    }

    /// Where the nested build keeps its files; by default a folder under `OUT_DIR`, or else under the
    /// crate's `target`.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().into());
        self
    }

    /// Builds the PTX, checks that it cannot trap, and returns its path.
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        let root = self
            .crate_root
            .canonicalize()
            .ok()
            .filter(|root| root.join("Cargo.toml").is_file())
            .ok_or_else(|| CudaBuilderError::CratePathDoesntExist(self.crate_root.clone()))?;
        let toolchain = Toolchain::find().map_err(CudaBuilderError::NoToolchain)?;
        let target_dir = self.target_dir.clone().unwrap_or_else(|| match env::var_os("OUT_DIR") {
            Some(out) => Path::new(&out).join("ptx-target"),
            None => root.join("target/ptx-target"),
        });
        let built = self.compile(&root, &toolchain, &target_dir)?;
        let text = fs::read_to_string(&built).map_err(|e| CudaBuilderError::Io(built.clone(), e))?;
        let offending = traps_and_calls(&text);
        if !offending.is_empty() {
            return Err(CudaBuilderError::TrapsOrCalls(offending));
        }
        let Some(to) = self.copy_to else { return Ok(built) };
        fs::write(&to, text).map_err(|e| CudaBuilderError::Io(to.clone(), e))?;
        Ok(to)
    }

    /// Runs the nested cargo; the path of what rustc wrote.
    fn compile(
        &self,
        root: &Path,
        toolchain: &Toolchain,
        target_dir: &Path,
    ) -> Result<PathBuf, CudaBuilderError> {
        let flags = [
            &format!("-Ctarget-cpu={}", self.arch.target_cpu()),
            "-Zunstable-options",
            // A failing check becomes a bare trap, without the machinery of panics.
            "-Cpanic=immediate-abort",
        ];
        let profile = [
            "profile.release.opt-level=3",
            "profile.release.lto='fat'",
            "profile.release.codegen-units=1",
            "profile.release.debug=false",
            "profile.release.incremental=false",
            "profile.release.panic='abort'",
        ];
        let mut cargo = Command::new(&toolchain.cargo);
        toolchain::forget_outer_build(&mut cargo);
        cargo
            .env("RUSTC", &toolchain.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .current_dir(root)
            // A cdylib, because an rlib loses the shared memory that dependencies declare.
            .args(["rustc", "--lib", "--crate-type", "cdylib", "--release", "-Zbuild-std=core"])
            .args(["--target", "nvptx64-nvidia-cuda", "--target-dir"])
            .arg(target_dir)
            .args(profile.iter().flat_map(|setting| ["--config", setting]))
            .args(["--", "--emit=asm", "-Zno-link"]);
        let output = cargo.output().map_err(|e| CudaBuilderError::Io(toolchain.cargo.clone(), e))?;
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            return Err(CudaBuilderError::BuildFailed(format!("{cargo:?}\n{messages}")));
        }
        newest_assembly(&target_dir.join("nvptx64-nvidia-cuda/release/deps"))
    }
}

/// The file that the last build wrote: `<crate>.s`, with a hash in its name in some versions of cargo.
fn newest_assembly(folder: &Path) -> Result<PathBuf, CudaBuilderError> {
    let entries = fs::read_dir(folder).map_err(|e| CudaBuilderError::Io(folder.into(), e))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "s"))
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
        .ok_or_else(|| CudaBuilderError::BuildFailed(format!("{}: no PTX there", folder.display())))
}

/// Lines of a PTX text that trap, call, or define a function that could be called.
pub fn traps_and_calls(ptx: &str) -> Vec<String> {
    let offends = |line: &&str| {
        let mut words = line.split_whitespace();
        // An instruction may have a predicate in front.
        let first = words.next().filter(|word| !word.starts_with('@')).or_else(|| words.next());
        let opcode = first.unwrap_or_default().trim_end_matches(';');
        opcode == "trap" || opcode.split('.').next() == Some("call") || line.contains(".func")
    };
    ptx.lines().filter(offends).map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_and_calls_are_found_and_nothing_else() {
        let ptx = "\
.visible .entry trap_free(\n\t.param .u64 callee\n)\n{\n\tmov.u32 \t%r1, 7;\n\t@%p1 trap;\n\ttrap;\n\
\tcall.uni \n\t@!%p2 call (r), f;\n.func helper()\n\tst.global.u32 \t[%rd1], %r1;\n\tret;\n}\n";
        assert_eq!(
            traps_and_calls(ptx),
            ["@%p1 trap;", "trap;", "call.uni", "@!%p2 call (r), f;", ".func helper()"]
        );
    }

    #[test]
    fn a_folder_without_a_crate_is_refused() {
        let error = CudaBuilder::new("src").build().expect_err("src holds no manifest");
        assert_eq!(error.to_string(), "src: no crate there");
    }
}
