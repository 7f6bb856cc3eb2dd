//! The project's own commands: `cargo xtask --help` lists them.
//!
//! Every command sets up by itself what it needs: virtual environments of Python in the folder, named
//! `.venv*`, and files below `target/`.

mod bindings;
mod environment;
mod gpu;
mod process;
mod ptx;
mod suite;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use environment::{Environment, JAX};
use process::{Outcome, cargo, root};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's own commands")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Learn handwritten digits, and sort them into groups, over four simulated devices
    Demo,
    /// Run every check that this machine can run
    Test {
        /// Run the suite for NVIDIA GPUs instead; it is skipped where there is none
        #[arg(long)]
        gpu: bool,
    },
    /// Compile the device kernels to PTX
    Ptx {
        /// Leave the committed PTX alone and fail if it differs from a fresh one
        #[arg(long)]
        check: bool,
    },
    /// Regenerate the bindings of NCCL, cuBLASMp, cuSOLVERMp and the CUDA driver
    Bindings,
    /// Build the Python wheel into target/wheels
    Wheel,
    /// Build the documentation of the Rust crates
    Doc,
    /// Compute the tables of docs/scale.md: what plans for large grids move
    Scale {
        /// Leave the page alone and fail if it is out of date
        #[arg(long)]
        check: bool,
    },
    /// Draw the charts and make the tables of docs/performance.md from benches/results
    Plots {
        /// Leave page and charts alone and fail if they are out of date
        #[arg(long)]
        check: bool,
    },
    /// Run the benchmarks that need no GPU
    Bench {
        /// Run a routine's benchmark on NVIDIA GPUs instead, beside what else solves it, or the kernels'
        /// beside a device copy
        #[arg(long)]
        gpu: Option<GpuBench>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum GpuBench {
    Potrs,
    #[value(name = "lu_solve")]
    LuSolve,
    Syevd,
    Linalg,
    Kernels,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo => demo(),
        Task::Test { gpu: false } => suite::run_all(),
        Task::Test { gpu: true } => gpu::test(),
        Task::Ptx { check: false } => ptx::rebuild(),
        Task::Ptx { check: true } => ptx::check(),
        Task::Bindings => bindings::regenerate(),
        Task::Wheel => wheel::build().map(|wheel| println!("built {}", wheel.display())),
        Task::Doc => doc(),
        Task::Scale { check } => page("scale", check),
        Task::Plots { check } => page("performance", check),
        Task::Bench { gpu: Some(GpuBench::Kernels) } => gpu::bench_kernels(),
        Task::Bench { gpu: Some(GpuBench::Potrs) } => gpu::bench_solve("potrs", false),
        Task::Bench { gpu: Some(GpuBench::LuSolve) } => gpu::bench_solve("lu_solve", false),
        Task::Bench { gpu: Some(GpuBench::Syevd) } => {
            gpu::bench_solve("syevd", false).and_then(|()| gpu::bench_solve("syevd", true))
        }
        Task::Bench { gpu: Some(GpuBench::Linalg) } => gpu::bench_linalg(),
        Task::Bench { gpu: None } => bench(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo() -> Outcome {
    let environment = Environment::ready(".venv", &[JAX, "scikit-learn"])?;
    environment.install_wheel(&wheel::build()?)?;
    run_examples(&environment)
}

fn run_examples(environment: &Environment) -> Outcome {
    ["kernel_ridge_digits.py", "spectral_clustering_digits.py"]
        .into_iter()
        .try_for_each(|name| process::run(environment.python().arg(root().join("examples").join(name))))
}

fn doc() -> Outcome {
    process::run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn bench() -> Outcome {
    process::run(cargo().args(["bench", "--package", "meshsolve-benches", "--features", "criterion"]))
}

/// Makes or checks a page of docs/. With optimisation, because planning is timed.
fn page(name: &str, check: bool) -> Outcome {
    let mut pages = cargo();
    pages.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "meshsolve-benches",
        "--bin",
        "pages",
        "--",
        name,
    ]);
    process::run(pages.args(check.then_some("--check")))
}
