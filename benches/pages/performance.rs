//! `docs/performance.md` and its charts: the recorded results.

use super::chart::{self, Axis, Bars, Scale, Series, bars};
use super::results::{Line, latest};
use super::{Files, Outcome, read, table, with_block};
use std::path::PathBuf;

const ORDER: Axis = Axis { name: "order n of the matrix", scale: Scale::Binary };
const TIME: Axis = Axis { name: "time", scale: Scale::Seconds };
const RATIO: Axis = Axis { name: "time ÷ cuSOLVERMp's", scale: Scale::Ratio };

/// The reference that a solve is measured by.
const BARE: &str = "cusolvermp-alone";

/// The page and its charts.
pub fn files() -> Outcome<Files> {
    from_lines(&latest()?)
}

fn from_lines(results: &[Line]) -> Outcome<Files> {
    let path = PathBuf::from("docs/performance.md");
    let mut page = read(&path)?;
    let mut files = Files::new();
    for (bench, task, whole) in [
        ("potrs", "Cholesky solve, one right-hand side", "a whole solve"),
        ("lu_solve", "LU solve, one right-hand side", "a whole LU solve"),
        ("eigh", "Eigenvalues and eigenvectors", "a whole eigendecomposition"),
        ("eigvalsh", "Eigenvalues", "all that eigenvalues take"),
    ] {
        let lines: Vec<&Line> = results.iter().filter(|l| l.bench == bench && l.unit == "s").collect();
        page = with_block(&page, bench, &solves(bench, [task, whole], &lines, &mut files)?)?;
    }
    page = with_block(&page, "linalg", &routines(results))?;
    let of = |benches: &[&str], reference: &str| -> Vec<&Line> {
        results.iter().filter(|l| benches.contains(&l.bench.as_str()) && l.reference == reference).collect()
    };
    let moved = of(&["convert", "convert-inplace"], "device-copy");
    page = with_block(&page, "convert", &fractions("convert", "a device copy", &moved, &mut files)?)?;
    let sent = of(&["redistribute"], "nccl-sendrecv");
    let text = fractions("redistribute", "NCCL's send and receive", &sent, &mut files)?;
    page = with_block(&page, "redistribute", &text)?;
    page = with_block(&page, "sources", &sources(results))?;
    files.insert(path, page);
    Ok(files)
}

/// Lines split by what `key` says, in the order in which each key appears first.
fn grouped<'a, K: PartialEq>(lines: &[&'a Line], key: impl Fn(&'a Line) -> K) -> Vec<(K, Vec<&'a Line>)> {
    let mut groups: Vec<(K, Vec<&Line>)> = Vec::new();
    for &line in lines {
        let of_line = key(line);
        match groups.iter_mut().find(|(key, _)| *key == of_line) {
            Some((_, group)) => group.push(line),
            None => groups.push((of_line, vec![line])),
        }
    }
    groups
}

/// A table of the routines beside the solves.
fn routines(results: &[Line]) -> String {
    let benches = ["cholesky", "inv", "matmul", "potrs-100", "lu_solve-100"];
    let lines: Vec<&Line> = results.iter().filter(|l| benches.contains(&l.bench.as_str())).collect();
    let mut text = String::new();
    for ((hardware, dtype, grid), mut group) in grouped(&lines, |l| (&l.hardware, &l.dtype, &l.grid)) {
        text += &format!("### {hardware}, grid {}, {}\n\n", by(grid), in_words(dtype));
        group.sort_by_key(|l| (benches.iter().position(|bench| *bench == l.bench), l.n));
        let row = |l: &Line| {
            let theirs = l.reference_value;
            vec![
                routine_name(l).to_owned(),
                l.n.to_string(),
                seconds(l.value),
                reference_name(&l.reference).to_owned(),
                theirs.map_or("–".to_owned(), seconds),
                theirs.map_or("–".to_owned(), |theirs| format!("{:.2}", l.value / theirs)),
            ]
        };
        let rows: Vec<_> = group.into_iter().map(row).collect();
        text += &(table(&["routine", "n", "meshsolve", "beside", "takes", "ratio"], &rows) + "\n");
    }
    text
}

fn routine_name(line: &Line) -> &str {
    match (line.bench.as_str(), line.case.as_str()) {
        ("inv", "pos") => "inverse, positive definite",
        ("inv", _) => "inverse",
        ("cholesky", _) => "Cholesky factor",
        ("matmul", _) => "product",
        ("potrs-100", _) => "100 solves with a Cholesky factor",
        ("lu_solve-100", _) => "100 solves with an LU factor",
        (other, _) => other,
    }
}

/// Charts and tables of a solve, for each machine, type and grid.
fn solves(bench: &str, [task, whole]: [&str; 2], lines: &[&Line], files: &mut Files) -> Outcome<String> {
    let mut text = String::new();
    for ((hardware, dtype, grid), group) in grouped(lines, |l| (&l.hardware, &l.dtype, &l.grid)) {
        let place = format!("{hardware}, grid {}, {}", by(grid), in_words(dtype));
        text += &format!("### {place}\n\n");
        let slug = slug(&format!("{hardware} {grid} {dtype}"));
        let times = times(&group);
        // A chart of a single order would show no course.
        if times.iter().any(|series| series.points.len() > 1) {
            let title = format!("{task}: {place}");
            let chart = chart::lines(&title, &ORDER, &TIME, &times)?;
            text += &figure(&format!("{bench}-time-{slug}"), &title, chart, files);
        }
        let ratios = ratios(&group);
        if ratios.iter().any(|series| series.points.len() > 1) {
            let title = format!("Time of {whole} over cuSOLVERMp's own: {place}");
            let chart = chart::lines(&title, &ORDER, &RATIO, &ratios)?;
            text += &figure(&format!("{bench}-ratio-{slug}"), &title, chart, files);
        }
        for ((reference, _), mut beside) in grouped(&group, |l| (&l.reference, l.reference_value.is_some())) {
            beside.sort_by_key(|l| (l.n, l.tile));
            let mut head = vec!["n", "tile", "called", "meshsolve"];
            let row = |l: &Line| {
                let tile = l.tile.map_or("–".to_owned(), |tile| tile.to_string());
                let mut row = vec![l.n.to_string(), tile, how(l), seconds(l.value)];
                if let Some(theirs) = l.reference_value {
                    row.extend([seconds(theirs), format!("{:.2}", l.value / theirs)]);
                }
                row
            };
            let rows: Vec<_> = beside.into_iter().map(row).collect();
            if rows[0].len() > head.len() {
                head.extend([reference_name(reference), "ratio"]);
            }
            text += &(table(&head, &rows) + "\n");
        }
    }
    Ok(text)
}

/// For each order the shortest time, since each tile has its line.
fn best(values: impl Iterator<Item = (u64, f64)>) -> Vec<(f64, f64)> {
    let mut best = std::collections::BTreeMap::new();
    for (n, value) in values {
        let least = best.entry(n).or_insert(value);
        *least = value.min(*least);
    }
    best.into_iter().map(|(n, value)| (n as f64, value)).collect()
}

/// Ours as most users call it, and all that it was measured beside.
fn times(group: &[&Line]) -> Vec<Series> {
    let mut ours = grouped(group, |l| (l.case.as_str(), l.processes.as_str()));
    // Calls under jit with a process for each GPU if there are any, else the nearest to that.
    ours.sort_by_key(|((case, processes), _)| (*case != "jit", *processes != "np"));
    let mut series: Vec<Series> = ours
        .into_iter()
        .take(1)
        .map(|(_, lines)| Series {
            name: format!("meshsolve, {}", how(lines[0])),
            points: best(lines.iter().map(|l| (l.n, l.value))),
        })
        .collect();
    for (reference, lines) in grouped(group, |l| &l.reference) {
        let points = best(lines.iter().filter_map(|l| Some((l.n, l.reference_value?))));
        series.push(Series { name: reference_name(reference).to_owned(), points });
    }
    series
}

/// Ours over cuSOLVERMp alone, each with its best tile, from the same runs.
fn ratios(group: &[&Line]) -> Vec<Series> {
    let bare: Vec<&Line> = group.iter().copied().filter(|l| l.reference == BARE).collect();
    grouped(&bare, |l| (&l.case, &l.processes))
        .into_iter()
        .map(|(_, lines)| {
            let measured = || lines.iter().filter_map(|l| Some((l.n, l.value, l.reference_value?)));
            let ours = best(measured().map(|(n, ours, _)| (n, ours)));
            let theirs = best(measured().map(|(n, _, theirs)| (n, theirs)));
            let points = ours.iter().zip(&theirs).map(|(ours, theirs)| (ours.0, ours.1 / theirs.1)).collect();
            Series { name: format!("meshsolve, {}", how(lines[0])), points }
        })
        .collect()
}

/// Charts and tables of speeds as fractions of a reference's, for each machine.
fn fractions(name: &str, reference: &str, lines: &[&Line], files: &mut Files) -> Outcome<String> {
    if lines.is_empty() {
        return Ok("No figures are recorded yet.".to_owned());
    }
    let mut text = String::new();
    for (hardware, group) in grouped(lines, |l| &l.hardware) {
        text += &format!("### {hardware}\n\n");
        let types: Vec<&String> = grouped(&group, |l| &l.dtype).into_iter().map(|(dtype, _)| dtype).collect();
        let names: Vec<String> = types.iter().map(|dtype| in_words(dtype)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let categories = grouped(&group, |l| (category(l), l.m, l.n));
        let all: Vec<Bars> = categories
            .into_iter()
            .map(|((category, m, n), lines)| Bars {
                category: format!("{category}, {m} × {n}"),
                values: types
                    .iter()
                    .map(|dtype| lines.iter().find(|l| &l.dtype == *dtype).and_then(|l| l.fraction()))
                    .collect(),
            })
            .collect();
        let title = format!("Bandwidth as a fraction of {reference}: {hardware}");
        let svg = bars(&title, &format!("fraction of {reference}"), &names, &all)?;
        text += &figure(&format!("{name}-{}", slug(hardware)), &title, svg, files);
        let rows: Vec<_> = all
            .iter()
            .map(|bars| {
                let cell = |value: &Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
                [bars.category.clone()].into_iter().chain(bars.values.iter().map(cell)).collect()
            })
            .collect();
        let head: Vec<&str> = ["what, rows × columns"].into_iter().chain(names.iter().copied()).collect();
        text += &(table(&head, &rows) + "\n");
    }
    Ok(text)
}

/// What a fraction is of: the case, and the grid and tile where there are several devices.
fn category(line: &Line) -> String {
    let case = line.case.replace('-', " ");
    if line.grid == "1x1" { case } else { format!("{case}, grid {}", by(&line.grid)) }
}

/// Which machines, versions, commits and dates the figures come from.
fn sources(results: &[Line]) -> String {
    let all: Vec<&Line> = results.iter().collect();
    let rows: Vec<_> = grouped(&all, |l| (&l.date, &l.hardware, &l.versions, &l.commit))
        .into_iter()
        .map(|((date, hardware, versions, commit), lines)| {
            let benches: Vec<&str> =
                grouped(&lines, |l| &l.bench).into_iter().map(|(bench, _)| bench.as_str()).collect();
            [benches.join(", "), date.clone(), hardware.clone(), versions.clone(), commit.clone()].to_vec()
        })
        .collect();
    table(&["benchmark", "date", "hardware", "versions", "commit"], &rows)
}

/// Adds a chart to the files; gives the line that shows it.
fn figure(name: &str, title: &str, svg: String, files: &mut Files) -> String {
    files.insert(PathBuf::from(format!("docs/plots/{name}.svg")), svg);
    format!("![{title}](plots/{name}.svg)\n\n")
}

fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

fn by(grid: &str) -> String {
    grid.replace('x', " × ")
}

fn in_words(dtype: &str) -> String {
    match dtype {
        "f32" => "float32",
        "f64" => "float64",
        "c64" => "complex64",
        "c128" => "complex128",
        other => other,
    }
    .to_owned()
}

/// The way of calling.
fn how(line: &Line) -> String {
    let case = match line.case.as_str() {
        "jit" => "under jit",
        "eager" => "eagerly",
        "rust" => "from Rust",
        other => other,
    };
    let processes = match line.processes.as_str() {
        "1p" => "one process",
        "np" => "a process for each GPU",
        other => other,
    };
    format!("{case}, {processes}")
}

fn reference_name(reference: &str) -> &str {
    match reference {
        "cusolvermp-alone" => "cuSOLVERMp alone",
        "jaxmg-1.4.1" => "JAXMg 1.4.1",
        "jax-1gpu" => "JAX on one GPU",
        "potrs-factor" | "lu_solve-factor" => "one factorisation",
        "xla" => "XLA's product of the same arrays",
        other => other,
    }
}

fn seconds(time: f64) -> String {
    if time < 1.0 { format!("{:.3} ms", 1e3 * time) } else { format!("{time:.3} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bench: &str, tile: u64, value: f64, reference: &str, reference_value: f64) -> Line {
        Line {
            date: "2026-12-24".into(),
            hardware: "4 x GPU".into(),
            versions: "meshsolve 7.8.9".into(),
            commit: "abc1234".into(),
            bench: bench.into(),
            case: "jit".into(),
            dtype: "f32".into(),
            m: 4096,
            n: 4096,
            tile: Some(tile),
            grid: "2x2".into(),
            processes: "np".into(),
            value,
            unit: "s".into(),
            reference: reference.into(),
            reference_value: Some(reference_value),
        }
    }

    #[test]
    fn each_side_at_its_best_tile() {
        let results = [
            line("potrs", 256, 2.0, BARE, 3.0),
            line("potrs", 512, 5.0, BARE, 1.0),
            Line { n: 8192, ..line("potrs", 256, 8.0, BARE, 4.0) },
        ];
        let group: Vec<&Line> = results.iter().collect();
        assert_eq!(ratios(&group)[0].points, [(4096.0, 2.0), (8192.0, 2.0)]);
        let times: Vec<_> = times(&group).into_iter().map(|s| (s.name, s.points)).collect();
        assert_eq!(times[0].1, [(4096.0, 2.0), (8192.0, 8.0)]);
        assert_eq!(times[1], ("cuSOLVERMp alone".to_owned(), vec![(4096.0, 1.0), (8192.0, 4.0)]));
    }

    #[test]
    fn machines_and_benchmarks_that_are_new_appear() {
        let results = [
            line("potrs", 256, 2.0, BARE, 3.0),
            Line { n: 8192, ..line("potrs", 256, 8.0, BARE, 4.0) },
            Line { reference_value: None, ..line("potrs", 256, 9.0, "", 0.0) },
            Line { unit: "GB/s".into(), ..line("redistribute", 256, 300.0, "nccl-sendrecv", 400.0) },
        ];
        let files = from_lines(&results).unwrap();
        let page = &files[&PathBuf::from("docs/performance.md")];
        for text in [
            "4 x GPU, grid 2 × 2, float32",
            "meshsolve 7.8.9",
            "| 0.75 |",
            "| 0.67 |",
            "process for each GPU | 9.000 s |\n",
        ] {
            assert!(page.contains(text), "{text:?} is not in {page}");
        }
        for chart in ["potrs-time-4-x-gpu-2x2-f32", "potrs-ratio-4-x-gpu-2x2-f32", "redistribute-4-x-gpu"] {
            let svg = &files[&PathBuf::from(format!("docs/plots/{chart}.svg"))];
            assert!(svg.starts_with("<svg") && page.contains(&format!("(plots/{chart}.svg)")), "{chart}");
        }
    }
}
