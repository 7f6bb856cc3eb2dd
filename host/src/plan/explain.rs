//! Plans in words.

use super::OperandSpec;
use super::candidate::{Candidate, Verdict};
use super::matrix::{MatrixPlan, View};
use super::regrid::Regrid;
use super::workspace::Workspace;
use std::fmt::Write as _;

/// Bytes over the links in all, and at the busiest device in its busier direction.
fn traffic(plan: &MatrixPlan, reverse: bool) -> String {
    let busiest = plan.busiest(reverse);
    format!(
        "{} over the links in all, {} at the busiest device",
        bytes(plan.sent_in_all(reverse)),
        bytes(busiest.sent.max(busiest.received))
    )
}

fn rounds(plan: &MatrixPlan, phases: std::ops::Range<usize>) -> usize {
    plan.phases()[phases].iter().map(|(_, phase)| phase.exchanges()).sum()
}

/// Stages of a matrix on its way to the solver.
pub(super) fn forward(text: &mut String, name: &str, plan: &MatrixPlan, in_place: bool) {
    let [rows, cols] = plan.caller_shape();
    let [solver_rows, solver_cols] = plan.solver_shape();
    let how = match (plan.view(), in_place) {
        (View::Plain, true) => "in place",
        (View::Plain, false) => "out of place",
        (View::Transposed, true) => "as it stands, the transpose",
        (View::Transposed, false) => "a copy as it stands, the transpose",
    };
    let _ = writeln!(
        text,
        "  {name}: {rows} × {cols} on each device → {solver_rows} × {solver_cols} column-major ({how}); \
         stage 2 in {} rounds, stage 3 in {}; {}",
        rounds(plan, 0..2),
        rounds(plan, 2..4),
        traffic(plan, false)
    );
}

/// The way to another mesh.
pub(super) fn regrid(text: &mut String, name: &str, regrid: &Regrid) {
    let [rows, cols] = regrid.caller_shape();
    let (mesh, traffic) = (regrid.mesh(), regrid.traffic());
    let _ = writeln!(
        text,
        "  {name}: {rows} × {cols} on each device → a mesh of {} × {}; {} over each device's link",
        mesh.rows(),
        mesh.cols(),
        bytes(traffic.sent)
    );
}

/// Stages of a result on its way back.
pub(super) fn reverse(text: &mut String, name: &str, plan: &MatrixPlan) {
    let _ = writeln!(
        text,
        "  {name}: back in {} rounds, collected in {}; {}",
        rounds(plan, 0..4),
        plan.collection_rounds(),
        traffic(plan, true)
    );
}

/// Bytes on each device; the workspace is that of the solver's library, where there is one.
pub(super) fn memory(
    text: &mut String,
    inputs: &[OperandSpec],
    outputs: &[OperandSpec],
    scratch: u64,
    workspace: Option<Workspace>,
) {
    let sum = |specs: &[OperandSpec]| {
        specs.iter().filter(|s| s.alias.is_none()).map(OperandSpec::bytes).sum::<u64>()
    };
    let _ = write!(
        text,
        "  memory on each device: {} passed in, {} of results and work, {} of scratch",
        bytes(sum(inputs)),
        bytes(sum(outputs)),
        bytes(scratch)
    );
    let _ = match workspace {
        None => writeln!(text),
        Some(Workspace::Estimated(count)) => {
            writeln!(text, "; on GPUs the solver's workspace about {} (estimated)", bytes(count))
        }
        Some(Workspace::Exact(count)) => {
            writeln!(text, "; on GPUs the solver's workspace {} (exact)", bytes(count))
        }
    };
}

/// All candidates with what they would cost, or why they are none.
pub(super) fn candidates(text: &mut String, chosen: Candidate, considered: &[Verdict]) {
    text.push_str("  candidates (bytes of the busiest device; seconds by a rough model):\n");
    for (candidate, verdict) in considered {
        let mark = if *candidate == chosen { "→" } else { " " };
        let _ = match verdict {
            Ok(price) => writeln!(
                text,
                "  {mark} {candidate}: {} over the link in {} rounds, {} through memory, {:.2e} flops; {:.2e} s",
                bytes(price.link_bytes),
                price.rounds,
                bytes(price.memory_bytes),
                price.flops,
                price.seconds
            ),
            Err(why) => writeln!(text, "  {mark} {candidate}: not possible, {why}"),
        };
    }
}

/// A number of bytes with a unit that keeps it short.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}
