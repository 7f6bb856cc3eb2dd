//! Regenerating the bindings of NVIDIA's libraries from the headers in their wheels.

use std::fs;
use std::path::Path;

use crate::environment::Environment;
use crate::process::{Outcome, cargo, output, root, run, target};

use std::process::Command;

/// The versions are fixed, so that the same bindings come out every time.
const WHEELS: [&str; 10] = [
    "libclang==18.1.1",
    "nvidia-nccl-cu13==2.29.7",
    "nvidia-cublasmp-cu13==0.10.0.3695",
    "nvidia-cusolvermp-cu13==0.9.1.9318.post1",
    // What those headers include.
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
    "nvidia-cusolver==12.4.1.2",
    "nvidia-cublas==13.10.0.20",
    // The driver's header: of CUDA 11.8, whose structs have the shapes that cust 0.3.2 was written for.
    "nvidia-cuda-runtime-cu11==11.8.89",
];

/// Takes from each wheel only what is needed here: the headers, the list of files, libclang.
const UNPACK: &str = r#"
import sys, zipfile
target, *wheels = sys.argv[1:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as files:
        wanted = [n for n in files.namelist() if "/include/" in n or n.endswith(("/RECORD", "/libclang.so"))]
        files.extractall(target, wanted)
"#;

/// Downloads the headers (about 1 GB of wheels, once), and writes the bindings.
pub fn regenerate() -> Outcome {
    let headers = target().join("headers");
    let done = headers.join("wheels.txt");
    if fs::read_to_string(&done).is_ok_and(|list| list == WHEELS.join("\n")) {
        eprintln!("headers are in {}", headers.display());
    } else {
        download(&headers)?;
        fs::write(&done, WHEELS.join("\n")).map_err(|error| format!("{}: {error}", done.display()))?;
    }
    let libclang = headers.join("libclang-18.1.1.data/platlib/clang/native");
    run(cargo()
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--features",
            "bindings",
            "--bin",
            "generate-bindings",
        ])
        .arg("--")
        .args([&headers, root()])
        .env("LIBCLANG_PATH", &libclang))?;
    run(cargo()
        .args([
            "run",
            "--quiet",
            "--package",
            "cust_raw",
            "--features",
            "generate",
            "--bin",
            "generate_cust_raw",
        ])
        .arg("--")
        .arg(headers.join("nvidia/cuda_runtime/include/cuda.h"))
        .arg(root().join("compat/rust-cuda/cust_raw/src/bindings.rs"))
        .arg("-isystem")
        .arg(output(Command::new("gcc").arg("-print-file-name=include"))?)
        .env("LIBCLANG_PATH", &libclang))
}

fn download(headers: &Path) -> Outcome {
    let environment = Environment::ready(".venv-build", &[])?;
    let wheels = target().join("header-wheels");
    for folder in [headers, &wheels] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    run(environment.pip("download").args(["--no-deps", "--dest"]).arg(&wheels).args(WHEELS))?;
    let files = fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    run(environment
        .python()
        .args(["-c", UNPACK])
        .arg(headers)
        .args(files.flatten().map(|entry| entry.path())))?;
    fs::remove_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))
}
