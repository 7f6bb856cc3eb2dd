//! `cargo xtask test --gpu` and `cargo xtask bench --gpu`: what needs NVIDIA GPUs.

use std::process::{Child, Command, Stdio};

use crate::environment::Environment;
use crate::process::{Outcome, cargo, line, root, run};
use crate::suite::Suite;
use crate::wheel;

/// JAX for GPUs, with the libraries that meshsolve loads.
const REQUIREMENTS: [&str; 4] = [
    "jax[cuda13]==0.11.2",
    "nvidia-nccl-cu13>=2.29.2",
    "nvidia-cublasmp-cu13>=0.10.0",
    "nvidia-cusolvermp-cu13>=0.9.1",
];
/// Where the results of benchmarks go.
const RESULTS: &str = "benches/results/gpu.csv";

/// The smoke suite: kernels and ranks from Rust, then solves through JAX in both process models.
pub fn test() -> Outcome {
    let Some(gpus) = gpus() else { return skipped() };
    let mut suite = Suite::default();
    suite.step("kernels on a GPU", || {
        run(cargo()
            .args(["test", "--release", "--package", "meshsolve", "--features", "cuda,emulator"])
            .args(["--test", "kernels_agree", "--", "--test-threads=1"])
            .env("MESHSOLVE_TEST_GPU", "1"))
    });
    suite.step("ranks on two GPUs", || {
        run(cargo()
            .args(["test", "--release", "--package", "meshsolve-tests", "--test", "gpu_ranks"])
            .args(["--", "--include-ignored"]))
    });
    suite.step("solver on one GPU and on two", || {
        run(cargo()
            .args(["test", "--release", "--package", "meshsolve-tests", "--test", "gpu_solver"])
            .args(["--", "--include-ignored", "--test-threads=1"]))
    });
    let Some(environment) = suite.step("environment with JAX for GPUs", environment) else {
        return suite.finish();
    };
    for (name, communicator) in [("XLA's communicator", None), ("communicators of our own", Some("own"))] {
        let python = || {
            let mut python = environment.python();
            python.arg("tests/gpu/smoke.py").env("PYTHONUNBUFFERED", "1");
            python.envs(communicator.map(|kind| ("MESHSOLVE_COMM", kind)));
            python
        };
        suite.step(&format!("one process, {name}"), || run(&mut python()));
        suite.step(&format!("{gpus} processes, {name}"), || {
            side_by_side(gpus, |rank, port| {
                let mut command = python();
                command.args([rank, gpus, port].map(|number| number.to_string()));
                command
            })
        });
    }
    // NCCL's transport between processes that share a GPU is slow, and so is compiling four times at a time.
    suite.step("4 processes on one GPU, float64", || {
        side_by_side(4, |rank, port| {
            let mut python = environment.python();
            python.args(["tests/gpu/smoke.py", "--share-gpu", "--only", "float64"]);
            python.args([rank, 4, port].map(|number| number.to_string()));
            python
        })
    });
    suite.finish()
}

/// The kernels beside a device copy.
pub fn bench_kernels() -> Outcome {
    let Some(_) = gpus() else { return skipped() };
    run(cargo().args([
        "bench",
        "--package",
        "meshsolve-benches",
        "--features",
        "cuda,criterion",
        "--bench",
        "kernels",
    ]))
}

/// A solve (`potrs` or `lu_solve`) or an eigenproblem (`syevd`, of which the values alone may be wanted) beside
/// cuSOLVERMp alone, JAXMg if it is installed, and one GPU.
pub fn bench_solve(routine: &str, values: bool) -> Outcome {
    let Some(gpus) = gpus() else { return skipped() };
    let (sizes, tiles): (&[u32], _) = match routine {
        "syevd" => (&[4096, 8192, 16384], ["256", "512"]),
        _ => (&[4096, 8192, 16384, 32768, 65536], ["512", "1024"]),
    };
    let sizes: Vec<_> = sizes.iter().map(u32::to_string).collect();
    let values: &[_] = if values { &["--values"] } else { &[] };
    run(cargo()
        .args(["run", "--release", "--package", "meshsolve-benches", "--features", "cuda"])
        .args(["--bin", "cusolvermp_alone", "--", "--through-plan", "--routine", routine])
        .args(values)
        .args(["--tiles", &tiles.join(",")])
        .args(["--grid", &format!("1x{gpus}"), "--sizes", &sizes.join(",")]))?;
    let environment = environment()?;
    let raw = crate::process::target().join(format!("{routine}-times.jsonl"));
    let _ = std::fs::remove_file(&raw);
    // JAXMg and ours both want cuSOLVERMp's one handle of a process, so they take turns.
    for turn in [&[][..], &["--peer", "--no-ours", "--csv", RESULTS]] {
        side_by_side(gpus, |rank, port| {
            let mut command = environment.python();
            command.args(["benches/gpu/solve.py", "--routine", routine]).args(values);
            command.arg("--raw").arg(&raw).arg("--sizes").args(&sizes);
            for (option, number) in [("--rank", rank), ("--nprocs", gpus), ("--port", port)] {
                command.arg(option).arg(number.to_string());
            }
            command.arg("--tiles").args(tiles).args(turn);
            command
        })?;
    }
    let mut beside_one = environment.python();
    beside_one.args(["benches/gpu/solve.py", "--routine", routine]).args(values);
    run(beside_one.arg("--tiles").args(tiles).arg("--sizes").args(&sizes).args([
        "--one-gpu",
        "--csv",
        RESULTS,
    ]))
}

/// The routines beside the solves, against JAX on one GPU.
pub fn bench_linalg() -> Outcome {
    let Some(_) = gpus() else { return skipped() };
    run(environment()?.python().args(["benches/gpu/linalg.py", "--csv", RESULTS]))
}

fn environment() -> Outcome<Environment> {
    let environment = Environment::ready(".venv-gpu", &REQUIREMENTS)?;
    environment.install_wheel(&wheel::build()?)?;
    Ok(environment)
}

/// How many GPUs the driver shows; `None` without a driver or without a GPU.
fn gpus() -> Option<u16> {
    let list = Command::new("nvidia-smi").arg("--list-gpus").stderr(Stdio::null()).output().ok()?;
    let lines = String::from_utf8_lossy(&list.stdout).lines().count();
    u16::try_from(lines).ok().filter(|&gpus| list.status.success() && gpus > 0)
}

fn skipped() -> Outcome {
    println!("skipped: `nvidia-smi --list-gpus` shows no GPU on this machine");
    Ok(())
}

/// Runs one process for each GPU and waits for all; the first that fails ends the others.
fn side_by_side(processes: u16, command: impl Fn(u16, u16) -> Command) -> Outcome {
    let port = free_port()?;
    let mut running: Vec<(String, Child)> = Vec::new();
    for rank in (0..processes).rev() {
        let mut command = command(rank, port);
        let shown = line(&command);
        eprintln!("$ {shown} &");
        running.push((shown, command.spawn().map_err(|error| format!("a process did not start: {error}"))?));
    }
    while !running.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut failure = None;
        running.retain_mut(|(shown, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => false,
            ended => {
                failure = Some(format!("`{shown}` failed: {ended:?}"));
                false
            }
        });
        if let Some(failure) = failure {
            for (_, child) in &mut running {
                // It may have ended by itself; nothing is left to do then.
                let _ = child.kill().and_then(|()| child.wait());
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// A port at which the processes can meet.
fn free_port() -> Outcome<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.port())
        .map_err(|error| format!("no free port in {}: {error}", root().display()))
}
