//! `cargo xtask test`: every check that a machine without a GPU can run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::environment::{Environment, JAX, OLDEST_JAX};
use crate::process::{Outcome, cargo, root, run};
use crate::{ptx, wheel};

/// Kernels on the host, thread by thread: for tests only.
const TEST_FEATURES: &str = "meshsolve/emulator,meshsolve-kernels/emulator";
/// The generators of bindings and the microbenchmarks: no test needs them, but the lints shall see them.
const LINT_FEATURES: &str = "xtask/bindings,cust_raw/generate,meshsolve-benches/criterion";

const TEST_REQUIREMENTS: [&str; 5] = [JAX, "pytest", "pytest-xdist", "hypothesis", "scikit-learn"];
const SMOKE_REQUIREMENTS: [&str; 2] = [OLDEST_JAX, "pytest"];
const PTX_CURRENT: &str = "PTX is what the kernels compile to";
const FOUNDATION_FAILED: &str = "a step that it builds on failed";
const PTXAS: &str = "nvidia-cuda-nvcc==13.5.37";
const RUFF: &str = "ruff==0.17.6";

/// Runs all steps, also after a failure, and ends with a summary.
pub fn run_all() -> Outcome {
    let mut suite = Suite::default();

    suite.step("Rust formatting", || run(cargo().args(["fmt", "--all", "--check"])));
    suite.step("Python lints", || {
        let tools = Environment::ready(".venv-tools", &[RUFF])?;
        run(tools.python().args(["-m", "ruff", "check", "."]))?;
        run(tools.python().args(["-m", "ruff", "format", "--check", "."]))
    });
    suite.step("Rust lints", || {
        run(cargo()
            .args(["clippy", "--workspace", "--all-targets"])
            .args(["--features", TEST_FEATURES, "--features", LINT_FEATURES])
            .args(["--", "-D", "warnings"]))
    });
    suite.step("Rust documentation", crate::doc);

    let full =
        suite.step("environment of the full tests", || Environment::ready(".venv", &TEST_REQUIREMENTS));
    let oldest = suite
        .step("environment with the oldest JAX", || Environment::ready(".venv-oldest", &SMOKE_REQUIREMENTS));
    let ptxas = suite.step("ptxas", ptxas);
    suite.step("Rust tests", || {
        let mut tests = cargo();
        tests.args(["test", "--workspace", "--no-fail-fast", "--features", TEST_FEATURES]);
        if let Some(ptxas) = &ptxas {
            tests.env("MESHSOLVE_PTXAS", ptxas);
        }
        tests.env("MESHSOLVE_JAXLIB_HEADERS", jaxlib_headers([&full, &oldest])?);
        run(&mut tests)
    });
    match ptx::obstacle() {
        None => drop(suite.step(PTX_CURRENT, ptx::check)),
        Some(obstacle) => suite.skip(PTX_CURRENT, &obstacle),
    }

    let wheel = suite.step("Python wheel", wheel::build);
    for (name, environment, options) in [
        // Most of the time is tracing and compiling, on one thread.
        (
            "Python tests in full",
            &full,
            &["--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal"][..],
        ),
        ("Python smoke tests, oldest JAX", &oldest, &["-m", "smoke"]),
    ] {
        let (Some(environment), Some(wheel)) = (environment, &wheel) else {
            suite.skip(name, FOUNDATION_FAILED);
            continue;
        };
        suite.step(name, || {
            environment.install_wheel(wheel)?;
            let mut tests = environment.python();
            tests.args(["-m", "pytest", "-q", "tests/python"]).args(options);
            run(tests.env("JAX_PLATFORMS", "cpu"))
        });
    }
    match (&full, &wheel) {
        (Some(environment), Some(_)) => {
            suite.step("demonstration", || crate::run_examples(environment));
        }
        _ => suite.skip("demonstration", FOUNDATION_FAILED),
    }
    suite.finish()
}

/// The assembler that judges the PTX; it needs no GPU.
fn ptxas() -> Outcome<PathBuf> {
    let ptxas = Environment::ready(".venv-ptxas", &[PTXAS])?.site_packages()?.join("nvidia/cu13/bin/ptxas");
    if ptxas.is_file() { Ok(ptxas) } else { Err(format!("{PTXAS} has no {}", ptxas.display())) }
}

/// The folders of XLA's C headers, as one list for an environment variable.
fn jaxlib_headers(environments: [&Option<Environment>; 2]) -> Outcome<OsString> {
    let folders: Vec<_> = environments
        .into_iter()
        .flatten()
        .map(|environment| Ok(environment.site_packages()?.join("jaxlib/include")))
        .collect::<Outcome<_>>()?;
    std::env::join_paths(folders).map_err(|error| error.to_string())
}

enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

/// What has been run so far.
#[derive(Default)]
pub struct Suite {
    results: Vec<(String, Verdict, Duration)>,
}

impl Suite {
    /// Runs one step. None if it failed.
    pub fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Outcome<T>) -> Option<T> {
        eprintln!("\n=== {name}");
        let start = Instant::now();
        let (verdict, value) = match work() {
            Ok(value) => (Verdict::Passed, Some(value)),
            Err(error) => {
                eprintln!("FAILED: {error}");
                (Verdict::Failed(error), None)
            }
        };
        self.results.push((name.to_owned(), verdict, start.elapsed()));
        value
    }

    fn skip(&mut self, name: &str, reason: &str) {
        eprintln!("\n=== {name}\nskipped: {reason}");
        self.results.push((name.to_owned(), Verdict::Skipped(reason.to_owned()), Duration::ZERO));
    }

    /// Prints one line a step, and fails if any step did.
    pub fn finish(self) -> Outcome {
        println!("\nSummary of {}", root().display());
        for (name, verdict, time) in &self.results {
            let (word, reason) = match verdict {
                Verdict::Passed => ("passed", ""),
                Verdict::Failed(error) => ("FAILED", error.as_str()),
                Verdict::Skipped(reason) => ("skipped", reason.as_str()),
            };
            println!("  {word:8} {name:36} {:6.1} s  {reason}", time.as_secs_f64());
        }
        let failed =
            self.results.iter().filter(|(_, verdict, _)| matches!(verdict, Verdict::Failed(_))).count();
        if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} steps failed", self.results.len())) }
    }
}
