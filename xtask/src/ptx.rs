//! The device kernels as PTX.

use std::fs;
use std::path::Path;

use cuda_builder::{CudaBuilder, NvvmArch, Toolchain};

use crate::process::{Outcome, root, target};

/// The PTX that is committed.
const PTX: &str = "kernels-rs/ptx/meshsolve.ptx";
/// The compiler that made it, as `rustc --version` names it.
const COMPILER: &str = "kernels-rs/ptx/rustc-version.txt";

/// Compiles the kernels and replaces the committed PTX.
pub fn rebuild() -> Outcome {
    let compiler = toolchain()?.version;
    build(&root().join(PTX))?;
    fs::write(root().join(COMPILER), compiler + "\n").map_err(|error| format!("{COMPILER}: {error}"))?;
    println!("wrote {PTX}");
    Ok(())
}

/// Why [`check`] cannot be made on this machine, if so: another compiler makes other bytes.
pub fn obstacle() -> Option<String> {
    let recorded = match read(&root().join(COMPILER)) {
        Ok(recorded) => String::from_utf8_lossy(&recorded).trim().to_owned(),
        Err(error) => return Some(error),
    };
    match toolchain() {
        Ok(toolchain) if toolchain.version == recorded => None,
        Ok(toolchain) => Some(format!("the PTX was made by {recorded}; here is {}", toolchain.version)),
        Err(error) => Some(error),
    }
}

/// Compiles the kernels afresh and compares every byte with the committed PTX.
pub fn check() -> Outcome {
    if let Some(obstacle) = obstacle() {
        return Err(obstacle);
    }
    let fresh = target().join("meshsolve-check.ptx");
    build(&fresh)?;
    if read(&fresh)? != read(&root().join(PTX))? {
        return Err(format!(
            "{PTX} differs from {}, made afresh from the kernels. Run `cargo xtask ptx` and commit the result.",
            fresh.display()
        ));
    }
    println!("{PTX} is what the kernels compile to");
    Ok(())
}

fn toolchain() -> Outcome<Toolchain> {
    Toolchain::find().map_err(|tried| {
        format!(
            "no Rust compiler with the sources of its standard library, which PTX needs (Debian: apt-get install \
             rustc-web cargo-web rust-web-src). Looked at: {}",
            tried.join("; ")
        )
    })
}

fn build(copy_to: &Path) -> Outcome {
    let builder = CudaBuilder::new(root().join("kernels-rs")).arch(NvvmArch::Compute70);
    let built = builder.target_dir(target().join("ptx")).copy_to(copy_to).build();
    built.map(drop).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
