//! The committed PTX: complete, free of traps and calls, and accepted by ptxas for every generation.

use meshsolve_kernels::{PTX, kernels, launch};
use std::process::Command;

/// The instructions of the PTX: the word that each line starts with, after a predicate.
fn opcodes() -> impl Iterator<Item = &'static str> {
    PTX.lines().filter_map(|line| line.split_whitespace().find(|word| !word.starts_with('@')))
}

#[test]
fn every_kernel_is_an_entry_point_and_nothing_else_is() {
    let mut entries: Vec<&str> =
        PTX.lines().filter_map(|line| line.strip_prefix(".visible .entry ")?.strip_suffix('(')).collect();
    let mut names = kernels::NAMES.to_vec();
    entries.sort();
    names.sort();
    assert_eq!(entries, names, "rebuild the PTX with `cargo xtask ptx`");
}

#[test]
fn nothing_can_trap_or_call() {
    for word in ["trap", "call", "call.uni", "brkpt", "exit"] {
        assert!(opcodes().all(|opcode| opcode.trim_end_matches(';') != word), "the PTX holds {word}");
    }
    assert!(!PTX.contains(".func"), "the PTX holds a function");
    assert!(!PTX.contains(".local"), "the PTX keeps an array in local memory");
}

#[test]
fn floating_point_is_never_fused_so_that_the_host_gets_the_same_bits() {
    for opcode in opcodes().filter(|opcode| opcode.contains(".f64") || opcode.contains(".f32")) {
        assert!(!opcode.starts_with("fma"), "{opcode}");
        // Without a rounding mode ptxas may fuse a product and a sum.
        if ["add", "sub", "mul", "div"].contains(&opcode.split('.').next().unwrap_or_default()) {
            assert!(opcode.contains(".rn"), "{opcode}");
        }
    }
}

#[test]
fn the_ptx_is_for_compute_capability_7_0_and_says_who_made_it() {
    assert!(PTX.contains(".target sm_70"));
    assert!(meshsolve_kernels::PTX_RUSTC.starts_with("rustc "));
}

#[test]
fn every_block_fits_the_default_shared_memory() {
    let map = meshsolve_kernels::args::IndexMap::identity(1);
    for size in launch::ElementSize::ALL {
        let convert = launch::convert_forward(
            size,
            meshsolve_kernels::args::ConvertArgs {
                src: 0,
                dst: 0,
                ld_src: 1,
                ld_dst: 1,
                rows: 1,
                cols: 1,
                row_map: map,
                col_map: map,
            },
        );
        let blocks = launch::transpose_blocks(
            size,
            meshsolve_kernels::args::TransposeBlocksArgs {
                buf: 0,
                p: 1,
                q: 1,
                g: 1,
                flag: 0,
                exponents: [0; 2],
            },
        );
        for bytes in [convert.geometry.shared_bytes, blocks.geometry.shared_bytes] {
            assert!(bytes <= 48 << 10, "{size:?}: {bytes} bytes");
        }
    }
}

#[test]
fn ptxas_takes_it_for_every_generation_without_spills() {
    let Some(ptxas) = std::env::var_os("MESHSOLVE_PTXAS") else {
        println!("skipped: MESHSOLVE_PTXAS does not name a ptxas (`cargo xtask test` provides one)");
        return;
    };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/ptx/meshsolve.ptx");
    for generation in [75, 80, 86, 89, 90, 100, 120] {
        let output = Command::new(&ptxas)
            .args(["--verbose", "--gpu-name", &format!("sm_{generation}"), source, "--output-file"])
            .arg(if cfg!(windows) { "NUL" } else { "/dev/null" })
            .output()
            .expect("MESHSOLVE_PTXAS names a program");
        let messages =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "sm_{generation}: {messages}");
        let reports: Vec<&str> =
            messages.lines().filter(|line| line.contains("bytes spill stores")).collect();
        assert_eq!(reports.len(), kernels::NAMES.len(), "sm_{generation}: {messages}");
        for report in reports {
            assert!(
                report.contains(" 0 bytes spill stores, 0 bytes spill loads")
                    && report.contains("0 bytes stack frame"),
                "sm_{generation}: {report}"
            );
        }
    }
}
