//! Writes the bindings of the `-sys` crates from NVIDIA's headers. `cargo xtask bindings` calls it.
//!
//! `generate-bindings HEADERS REPOSITORY`: HEADERS is a `site-packages` folder with the headers' wheels; the
//! environment variable LIBCLANG_PATH names the folder of libclang.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One crate's bindings.
struct Bindings {
    /// Folder of the crate in the repository.
    package: &'static str,
    /// The header, below `site-packages`.
    header: &'static str,
    /// Name of the table of functions.
    table: &'static str,
    /// The library, for the table's documentation.
    library: &'static str,
    functions: &'static str,
    /// Functions that `functions` matches and that are left out.
    without_functions: &'static str,
    types: &'static str,
    constants: &'static str,
    /// The type of status codes: one that is not looked at makes the compiler warn.
    status: &'static str,
    /// Lines at the top: what comes from other crates.
    imports: &'static [&'static str],
    /// Types that `imports` brings.
    imported_types: &'static str,
}

const CUDA_INCLUDE: &str = "nvidia/cu13/include";
const NCCL_INCLUDE: &str = "nvidia/nccl/include";

const ALL: [Bindings; 3] = [
    Bindings {
        package: "host/nccl-sys",
        header: "nvidia/nccl/include/nccl.h",
        table: "Nccl",
        library: "NCCL",
        functions: "nccl(GetVersion|GetUniqueId|GetErrorString|GetLastError|GroupStart|GroupEnd|MemAlloc|MemFree\
                    |CommInitRank|CommInitRankConfig|CommInitAll|CommSplit|CommFinalize|CommDestroy|CommAbort\
                    |CommGetAsyncError|CommCount|CommUserRank|CommCuDevice|CommRegister|CommDeregister\
                    |Send|Recv|AllReduce|AllGather|Broadcast|Reduce|ReduceScatter)",
        without_functions: "",
        types: "",
        constants: "NCCL_(MAJOR|MINOR|PATCH|VERSION_CODE|UNIQUE_ID_BYTES|API_MAGIC|SPLIT_NOCOLOR)",
        status: "ncclResult_t",
        imports: &["/// A CUDA stream.", "pub type cudaStream_t = *mut core::ffi::c_void;"],
        imported_types: "cudaStream_t|CUstream_st",
    },
    Bindings {
        package: "host/cublasmp-sys",
        header: "nvidia/cublasmp/cu13/include/cublasmp.h",
        table: "CublasMp",
        library: "cuBLASMp",
        functions: "cublasMp(Create|Destroy|SetStream|GetStream|GetVersion|GetStatusString|GridCreate|GridDestroy\
                    |MatrixDescriptorCreate|MatrixDescriptorDestroy|MatrixDescriptorInit\
                    |Trsm.*|Gemm.*|Geadd.*|Tradd.*)",
        without_functions: "",
        types: "cudaDataType",
        constants: "CUBLASMP_VER_.*|CUBLASMP_VERSION",
        status: "cublasMpStatus_t",
        imports: &["use nccl_sys::{cudaStream_t, ncclComm_t};"],
        imported_types: "cudaStream_t|CUstream_st|ncclComm_t|ncclComm",
    },
    Bindings {
        package: "host/cusolvermp-sys",
        header: "nvidia/cu13/include/cusolverMp.h",
        table: "CusolverMp",
        library: "cuSOLVERMp",
        functions: "cusolverMp.*",
        without_functions: "cusolverMp(Logger|NewtonSchulz).*",
        types: "cusolverMp(Grid|Polar|Gesvd).*",
        constants: "CUSOLVERMP_VER_.*|CUSOLVERMP_VERSION",
        status: "cusolverStatus_t",
        imports: &[
            "use cublasmp_sys::{cublasFillMode_t, cublasOperation_t, cublasSideMode_t, cudaDataType, cudaDataType_t};",
            "use nccl_sys::{cudaStream_t, ncclComm_t};",
        ],
        // FILE: only the loggers, left out above, take one.
        imported_types: "cudaStream_t|CUstream_st|ncclComm_t|ncclComm|cudaDataType|cudaDataType_t\
                         |cublas(FillMode|Operation|SideMode)_t|FILE|_IO_.*|__off(64)?_t",
    },
];

fn main() -> Result<(), String> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [headers, repository] = arguments.as_slice() else {
        return Err("usage: generate-bindings HEADERS REPOSITORY".into());
    };
    let compiler_headers = compiler_headers()?;
    for bindings in &ALL {
        let target = repository.join(bindings.package).join("src/bindings.rs");
        let text = generate(bindings, headers, &compiler_headers, repository)?;
        fs::write(&target, text).map_err(|error| format!("{}: {error}", target.display()))?;
        println!("wrote {}", target.display());
    }
    Ok(())
}

/// libclang from PyPI comes without the compiler's own headers (stddef.h and so on); gcc's serve.
fn compiler_headers() -> Result<String, String> {
    let output = Command::new("gcc")
        .arg("-print-file-name=include")
        .output()
        .map_err(|error| format!("gcc: {error}. Install it (Debian: apt-get install gcc libc6-dev)."))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn generate(
    bindings: &Bindings,
    headers: &Path,
    compiler_headers: &str,
    repository: &Path,
) -> Result<String, String> {
    let include = |folder: &str| format!("-I{}", headers.join(folder).display());
    let header = headers.join(bindings.header);
    let imports = bindings.imports.iter().fold(bindgen::builder(), |builder, line| builder.raw_line(*line));
    let text = imports
        .header(header.to_string_lossy())
        .clang_args(["-isystem", compiler_headers, &include(CUDA_INCLUDE), &include(NCCL_INCLUDE)])
        .allowlist_function(bindings.functions)
        .blocklist_function(bindings.without_functions)
        .allowlist_type(bindings.types)
        .allowlist_var(bindings.constants)
        .blocklist_type(bindings.imported_types)
        .default_enum_style(bindgen::EnumVariation::NewType { is_bitfield: false, is_global: false })
        .prepend_enum_name(false)
        .must_use_type(bindings.status)
        .generate_comments(false)
        .merge_extern_blocks(true)
        .disable_header_comment()
        .use_core()
        .rustfmt_configuration_file(Some(repository.join("rustfmt.toml")))
        .generate()
        .map_err(|error| format!("{}: {error}", header.display()))?
        .to_string();
    let version = wheel_version(headers, bindings.header)?;
    Ok(format!(
        "// Made by `cargo xtask bindings` from {}. Do not edit.\n\
         #![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]\n\
         #![allow(clippy::all)]\n\n{}",
        version,
        with_table(bindings, &text)?
    ))
}

/// Puts bindgen's one block of C declarations into a table that is filled at run time.
fn with_table(bindings: &Bindings, text: &str) -> Result<String, String> {
    const BLOCK: &str = "unsafe extern \"C\" {\n";
    let blocks: Vec<_> = text.match_indices(BLOCK).collect();
    let [(start, _)] = blocks[..] else {
        return Err(format!("{}: expected one extern block, found {}", bindings.table, blocks.len()));
    };
    let length = text[start..].find("\n}").ok_or("the extern block has no end")?;
    let (before, rest) = text.split_at(start);
    let (block, after) = rest.split_at(length + 2);
    let indented = block.lines().map(|line| format!("    {line}\n")).collect::<String>();
    Ok(format!(
        "{before}nccl_sys::function_table! {{\n    /// The functions of {}.\n    pub struct {};\n\n{indented}}}{after}",
        bindings.library, bindings.table
    ))
}

/// `cusolverMp.h of nvidia-cusolvermp-cu13 0.9.1`: found by looking for the header in the wheels' records.
fn wheel_version(site: &Path, header: &str) -> Result<String, String> {
    let wheels = fs::read_dir(site).map_err(|error| format!("{}: {error}", site.display()))?;
    let owner = wheels.flatten().map(|entry| entry.path()).find(|path| {
        fs::read_to_string(path.join("RECORD"))
            .is_ok_and(|record| record.lines().any(|line| line.starts_with(&format!("{header},"))))
    });
    let owner = owner.ok_or_else(|| format!("no wheel brought {header}"))?;
    let stem = owner.file_stem().unwrap_or_default().to_string_lossy();
    let (package, version) = stem.split_once('-').unwrap_or((&stem, "unknown"));
    let file = header.rsplit('/').next().unwrap_or(header);
    Ok(format!("{file} of {} {version}", package.replace('_', "-")))
}
