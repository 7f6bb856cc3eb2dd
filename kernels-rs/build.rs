//! With the feature `build-ptx` and MESHSOLVE_BUILD_PTX=1, rebuilds the PTX from the kernels
//! (`cargo xtask ptx` does the same).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "build-ptx")]
    rebuild_ptx();
}

#[cfg(feature = "build-ptx")]
fn rebuild_ptx() {
    println!("cargo:rerun-if-env-changed=MESHSOLVE_BUILD_PTX");
    println!("cargo:rerun-if-changed=Cargo.toml");
    println!("cargo:rerun-if-changed=src");
    if std::env::var_os("MESHSOLVE_BUILD_PTX").is_none_or(|value| value != "1") {
        return;
    }
    let version = match cuda_builder::Toolchain::find() {
        Ok(toolchain) => toolchain.version + "\n",
        Err(seen) => panic!("{}", cuda_builder::CudaBuilderError::NoToolchain(seen)),
    };
    let built =
        cuda_builder::CudaBuilder::new(env!("CARGO_MANIFEST_DIR")).copy_to("ptx/meshsolve.ptx").build();
    built.unwrap_or_else(|error| panic!("{error}"));
    std::fs::write("ptx/rustc-version.txt", version).expect("ptx/rustc-version.txt can be written");
}
