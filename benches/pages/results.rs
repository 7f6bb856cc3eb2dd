//! The recorded results, `benches/results/*.csv` but for the record of workspace.

use super::{Outcome, root};
use serde::Deserialize;
use std::fs;

/// One figure. What the columns mean stands in `benches/results/README.md`.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    pub date: String,
    pub hardware: String,
    pub versions: String,
    pub commit: String,
    pub bench: String,
    pub case: String,
    pub dtype: String,
    pub m: u64,
    pub n: u64,
    pub tile: Option<u64>,
    pub grid: String,
    pub processes: String,
    pub value: f64,
    pub unit: String,
    pub reference: String,
    pub reference_value: Option<f64>,
}

impl Line {
    /// Our speed as a fraction of the reference's, whether the figures are times or rates.
    pub fn fraction(&self) -> Option<f64> {
        let reference = self.reference_value?;
        Some(if self.unit == "s" { reference / self.value } else { self.value / reference })
    }

    /// Whether both lines are figures of the same thing.
    fn same_case(&self, other: &Self) -> bool {
        let key = |line: &Self| {
            let texts = [&line.hardware, &line.bench, &line.case, &line.dtype, &line.grid, &line.processes]
                .map(Clone::clone);
            (texts, line.reference.clone(), line.m, line.n, line.tile)
        };
        key(self) == key(other)
    }
}

/// The latest line of every case, files and lines in their order.
pub fn latest() -> Outcome<Vec<Line>> {
    let folder = root().join("benches/results");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .filter(|path| path.file_stem().is_some_and(|name| name != "workspace"))
        .collect();
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        lines.extend(parse(&text).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(latest_of(lines))
}

fn parse(text: &str) -> Outcome<Vec<Line>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|line| line.map_err(|error| error.to_string())).collect()
}

/// Of lines about the same case the one with the latest date, the last one if there are several.
fn latest_of(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        match kept.iter_mut().find(|other| other.same_case(&line)) {
            Some(other) if other.date <= line.date => *other = line,
            Some(_) => {}
            None => kept.push(line),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "date,hardware,versions,commit,bench,case,dtype,m,n,tile,grid,processes,value,unit,\
                        reference,reference_value,ratio\n";

    #[test]
    fn the_latest_line_of_a_case_counts_wherever_it_stands() {
        let lines = "2026-12-02,H,v,new,potrs,jit,f64,8,8,4,1x2,np,3.0,s,other,6.0,0.5\n\
                     2026-12-01,H,v,old,potrs,jit,f64,8,8,4,1x2,np,4.0,s,other,6.0,0.67\n\
                     2026-12-01,H,v,old,potrs,jit,f64,8,8,,1x2,np,5.0,s,other,,\n\
                     2026-12-02,H,v,newest,potrs,jit,f64,8,8,4,1x2,np,2.0,s,other,6.0,0.33\n";
        let kept = latest_of(parse(&format!("{HEAD}{lines}")).unwrap());
        let seen: Vec<_> = kept.iter().map(|l| (l.commit.as_str(), l.tile, l.fraction())).collect();
        assert_eq!(seen, [("newest", Some(4), Some(3.0)), ("old", None, None)]);
    }

    #[test]
    fn a_fraction_of_times_and_of_rates() {
        let lines = "2026-12-02,H,v,c,convert,forward,f64,8,8,,1x1,1p,4.0,s,device-copy,3.0,1.33\n\
                     2026-12-02,H,v,c,convert,reverse,f64,8,8,,1x1,1p,3.0,GB/s,device-copy,4.0,0.75\n";
        let lines = parse(&format!("{HEAD}{lines}")).unwrap();
        assert_eq!(lines.iter().map(Line::fraction).collect::<Vec<_>>(), [Some(0.75), Some(0.75)]);
    }
}
