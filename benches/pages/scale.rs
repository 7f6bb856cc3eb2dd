//! `docs/scale.md`: what the plan of a large matrix moves on grids that no test machine has.

use super::{Files, Outcome, read, table, with_block};
use meshsolve::DType;
use meshsolve::layout::{ProcessGrid, numroc};
use meshsolve::plan::{Dimension, MatrixPlan, Phase, Placement, Traffic, View, suggest_tile};
use std::path::PathBuf;
use std::time::Instant;

/// Order of the matrix.
const N: u64 = 1_500_000;
const DTYPE: DType = DType::F64;
/// Process rows, and as many process columns.
const GRIDS: [u64; 3] = [8, 32, 64];
/// The tile that measured best on large matrices.
const USUAL_TILE: u64 = 1024;

/// Bandwidth of a device's link in each direction, bytes/s, with a name.
const LINKS: [(&str, f64); 2] = [("370 GB/s", 370e9), ("50 GB/s", 50e9)];
/// Bytes read and written in a second by a device's memory.
const MEMORY: f64 = 4.2e12;
/// Seconds that a round takes beyond its bytes.
const LATENCY: f64 = 25e-6;
/// Floating-point operations in a second that each device adds to a factorisation.
const FLOPS: f64 = 40e12;

/// Stages 2 and 3 in the plan's order; each grid is square, so rows and columns are alike.
const PHASES: [&str; 4] = ["2, columns", "2, rows", "3, columns", "3, rows"];

/// The page, with new planning times if some are given.
pub fn files(planning: Option<String>) -> Outcome<Files> {
    let path = PathBuf::from("docs/scale.md");
    let mut page = read(&path)?;
    let cases: Vec<Case> = cases().collect();
    page = with_block(&page, "totals", &totals(&cases))?;
    page = with_block(&page, "phases", &phases(&cases))?;
    if let Some(planning) = planning {
        page = with_block(&page, "planning", &planning)?;
    }
    Ok(Files::from([(path, page)]))
}

struct Case {
    procs: u64,
    tile: u64,
    plan: MatrixPlan,
}

fn cases() -> impl Iterator<Item = Case> {
    GRIDS.into_iter().flat_map(|procs| {
        let mut tiles = vec![suggest_tile(N, ProcessGrid::new(procs, procs)), USUAL_TILE];
        tiles.dedup();
        tiles.into_iter().map(move |tile| Case { procs, tile, plan: plan(procs, tile) })
    })
}

fn plan(procs: u64, tile: u64) -> MatrixPlan {
    let order = || Dimension::new(N, tile, procs, Placement::Sharded);
    MatrixPlan::new(DTYPE, ProcessGrid::new(procs, procs), View::Plain, order(), order())
}

/// What one phase moves.
struct PhaseCost {
    /// Rounds in which something is sent.
    rounds: u32,
    /// Bytes that all devices send.
    all: u64,
    /// Bytes through the busiest device's link, in its busier direction.
    busiest: u64,
    /// Bytes from one device to another, of the pair with most.
    pair: u64,
    /// Longest transfers of the rounds, in bytes, summed.
    longest: u64,
}

impl PhaseCost {
    /// `bytes`: of the other dimension, for each element along the phase's own.
    fn of(phase: &Phase, procs: u64, bytes: u64) -> Self {
        let mut between = std::collections::BTreeMap::new();
        let (mut rounds, mut longest) = (0, 0);
        for transfers in phase.rounds() {
            let Some(most) = transfers.iter().map(|t| t.len).max() else { continue };
            rounds += 1;
            longest += most * bytes;
            for t in transfers {
                *between.entry((t.from, t.to)).or_insert(0) += t.len * bytes;
            }
        }
        let through = |end: fn(&(u64, u64)) -> u64, p| -> u64 {
            between.iter().filter(|(pair, _)| end(pair) == p).map(|(_, bytes)| bytes).sum()
        };
        let busier = |p| through(|pair| pair.0, p).max(through(|pair| pair.1, p));
        Self {
            rounds,
            // Every line of devices along the phase does the same.
            all: between.values().sum::<u64>() * procs,
            busiest: (0..procs).map(busier).max().unwrap_or(0),
            pair: between.values().copied().max().unwrap_or(0),
            longest,
        }
    }
}

impl Case {
    fn phases(&self) -> impl Iterator<Item = PhaseCost> {
        self.plan
            .phases()
            .iter()
            .map(|(axis, phase)| PhaseCost::of(phase, self.procs, self.plan.across(*axis) * DTYPE.size()))
    }

    fn devices(&self) -> f64 {
        (self.procs * self.procs) as f64
    }

    /// Seconds of stage 1: the caller's buffer is read, the solver's written.
    fn conversion_time(&self) -> f64 {
        let [rows, cols] = self.plan.caller_shape();
        (rows * cols * DTYPE.size() + self.plan.solver_bytes()) as f64 / MEMORY
    }

    /// Seconds of a phase at most: rounds one after another; and what is sent is packed, what is
    /// received unpacked, and the whole buffer put in order once, none of it beside the exchange.
    fn phase_time(&self, cost: &PhaseCost, link: f64) -> f64 {
        if cost.rounds == 0 {
            return 0.0;
        }
        let local = 2 * (2 * cost.busiest + self.plan.solver_bytes());
        f64::from(cost.rounds) * LATENCY + cost.longest as f64 / link + local as f64 / MEMORY
    }

    fn name(&self) -> [String; 2] {
        [format!("{0} × {0}", self.procs), self.tile.to_string()]
    }
}

/// Bytes that change devices, in all, if every device keeps what it may keep: in stage 2 and in stage 3
/// of one dimension, all elements of the other moving along. From owners alone, not from a plan.
fn bounds(n: u64, tile: u64, procs: u64, element_bytes: u64) -> [u64; 2] {
    let shard = n.div_ceil(procs);
    let capacity = shard.next_multiple_of(tile);
    let part = |width: u64, p: u64| [(p * width).min(n), ((p + 1) * width).min(n)];
    let (mut keeps_2, mut keeps_3) = (0, 0);
    for p in 0..procs {
        let ([from, to], [start, end]) = (part(shard, p), part(capacity, p));
        keeps_2 += to.min(end).saturating_sub(from.max(start));
        keeps_3 += numroc(end, tile, p, procs) - numroc(start, tile, p, procs);
    }
    [keeps_2, keeps_3].map(|kept| (n - kept) * n * element_bytes)
}

fn totals(cases: &[Case]) -> String {
    let mut head = vec![
        "grid",
        "T",
        "shard → buffer, each side",
        "buffer of a device",
        "scratch",
        "rounds",
        "sent by a device, mean",
        "busiest link, one direction",
    ];
    let times = LINKS.map(|(name, _)| format!("time at {name}"));
    head.extend(times.iter().map(String::as_str));
    head.push("factorisation");
    let rows: Vec<_> = cases
        .iter()
        .map(|case| {
            let costs: Vec<_> = case.phases().collect();
            let mut row = case.name().to_vec();
            row.push(format!("{} → {}", case.plan.rows().held(), case.plan.rows().capacity()));
            row.push(bytes(case.plan.solver_bytes() as f64));
            row.push(bytes(case.plan.scratch_bytes() as f64));
            row.push(costs.iter().map(|c| c.rounds).sum::<u32>().to_string());
            row.push(bytes(costs.iter().map(|c| c.all).sum::<u64>() as f64 / case.devices()));
            row.push(bytes(costs.iter().map(|c| c.busiest).sum::<u64>() as f64));
            for (_, link) in LINKS {
                let phases: f64 = costs.iter().map(|cost| case.phase_time(cost, link)).sum();
                row.push(seconds(case.conversion_time() + phases));
            }
            row.push(seconds((N as f64).powi(3) / 3.0 / (case.devices() * FLOPS)));
            row
        })
        .collect();
    table(&head, &rows)
}

fn phases(cases: &[Case]) -> String {
    let mut head = vec![
        "grid",
        "T",
        "stage",
        "rounds",
        "sent by a device, mean",
        "busiest link, one direction",
        "busiest pair of devices",
        "bound, mean",
        "above it",
    ];
    let times = LINKS.map(|(name, _)| format!("time at {name}"));
    head.extend(times.iter().map(String::as_str));
    let mut rows = Vec::new();
    for case in cases {
        let [stage_2, stage_3] = bounds(N, case.tile, case.procs, DTYPE.size());
        for ((name, cost), bound) in
            PHASES.iter().zip(case.phases()).zip([stage_2, stage_2, stage_3, stage_3])
        {
            if cost.rounds == 0 {
                continue;
            }
            let mut row = case.name().to_vec();
            row.extend([
                (*name).to_owned(),
                cost.rounds.to_string(),
                bytes(cost.all as f64 / case.devices()),
                bytes(cost.busiest as f64),
                bytes(cost.pair as f64),
                bytes(bound as f64 / case.devices()),
                format!("{:.2} %", 100.0 * (cost.all as f64 / bound as f64 - 1.0)),
            ]);
            row.extend(LINKS.map(|(_, link)| seconds(case.phase_time(&cost, link))));
            rows.push(row);
        }
    }
    table(&head, &rows)
}

/// How long planning takes here, and asking a plan what each rank sends.
pub fn planning() -> String {
    let rows: Vec<_> = cases()
        .map(|case| {
            let mut row = case.name().to_vec();
            row.push(median_milliseconds(|| plan(case.procs, case.tile)));
            let traffic = |sum: Traffic, rank| sum + case.plan.forward_traffic(rank);
            let ranks = 0..case.plan.grid().size();
            row.push(median_milliseconds(|| ranks.clone().fold(Traffic::default(), traffic)));
            row
        })
        .collect();
    let times = table(&["grid", "T", "making the plan", "traffic of every rank"], &rows);
    let caution =
        if cfg!(debug_assertions) { "\nTaken from a debug build; a release build is faster.\n" } else { "" };
    times + caution
}

fn median_milliseconds<R>(work: impl Fn() -> R) -> String {
    let mut times = [(); 11].map(|()| {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed().as_secs_f64()
    });
    times.sort_by(f64::total_cmp);
    format!("{:.2} ms", 1e3 * times[times.len() / 2])
}

/// Three digits and a unit.
fn bytes(count: f64) -> String {
    let (value, unit) = if count < 1e9 { (count / 1e6, "MB") } else { (count / 1e9, "GB") };
    format!("{} {unit}", three_digits(value))
}

fn seconds(time: f64) -> String {
    if time < 1.0 { format!("{} ms", three_digits(1e3 * time)) } else { format!("{} s", three_digits(time)) }
}

fn three_digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_phase_moves_one_percent_more_than_changes_owners() {
        for case in cases() {
            let [stage_2, stage_3] = bounds(N, case.tile, case.procs, DTYPE.size());
            for (cost, bound) in case.phases().zip([stage_2, stage_2, stage_3, stage_3]) {
                assert!(
                    cost.all >= bound && cost.all as f64 <= 1.01 * bound as f64,
                    "{:?}: {} bytes, bound {bound}",
                    case.name(),
                    cost.all
                );
            }
        }
    }

    #[test]
    fn phases_add_up_to_the_traffic_of_all_ranks() {
        for case in cases() {
            let ranks = 0..case.plan.grid().size();
            let sent: u64 = ranks.map(|rank| case.plan.forward_traffic(rank).sent).sum();
            assert_eq!(case.phases().map(|cost| cost.all).sum::<u64>(), sent, "{:?}", case.name());
        }
    }

    #[test]
    fn bounds_are_those_of_counting_elements() {
        for n in 1_u64..40 {
            for tile in 1..7 {
                for procs in 1..6 {
                    let shard = n.div_ceil(procs);
                    let capacity = shard.div_ceil(tile) * tile;
                    let stage_2 = (0..n).filter(|g| g / shard != g / capacity).count() as u64;
                    let stage_3 = (0..n).filter(|g| g / capacity != g / tile % procs).count() as u64;
                    assert_eq!(bounds(n, tile, procs, 1), [stage_2 * n, stage_3 * n], "{n} {tile} {procs}");
                }
            }
        }
    }
}
