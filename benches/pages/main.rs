//! Makes the parts of `docs/` that are computed: `cargo xtask scale` and `cargo xtask plots`.
//!
//! A page is written by hand but for its blocks, each between `<!-- begin NAME -->` and `<!-- end NAME -->`.

mod chart;
mod performance;
mod results;
mod scale;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What went wrong, for people.
type Outcome<T = ()> = Result<T, String>;

/// Contents of files, by their path in the repository.
type Files = BTreeMap<PathBuf, String>;

const USAGE: &str = "usage: pages scale|performance [--check]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["scale"] => scale::files(Some(scale::planning())).and_then(|files| write(&files)),
        ["scale", "--check"] => scale::files(None).and_then(|files| check(&files)),
        ["performance"] => performance::files().and_then(|files| write(&files)),
        ["performance", "--check"] => performance::files().and_then(|files| check(&files)),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("benches lies in the repository's folder")
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(files: &Files) -> Outcome {
    for (path, content) in files {
        let path = root().join(path);
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fails, with the command that helps, if a file is not what would be written now.
fn check(files: &Files) -> Outcome {
    for (path, content) in files {
        if &read(path)? != content {
            return Err(format!(
                "{} is out of date: run `cargo xtask scale` and `cargo xtask plots`",
                path.display()
            ));
        }
    }
    Ok(())
}

/// A page with the content of one block replaced.
fn with_block(page: &str, name: &str, content: &str) -> Outcome<String> {
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let found = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = found.ok_or_else(|| format!("the page has no block {name}"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", content.trim_end()))
}

/// A table in Markdown.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.to_vec()) + &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        assert_eq!(row.len(), head.len(), "a cell for each column");
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_pages_are_what_the_program_makes() {
        check(&scale::files(None).unwrap()).unwrap();
        check(&performance::files().unwrap()).unwrap();
    }

    #[test]
    fn a_block_is_replaced_and_the_rest_stays() {
        let page = "before\n<!-- begin x -->\nold\n<!-- end x -->\nafter\n";
        let made = with_block(page, "x", "new\n").unwrap();
        assert_eq!(made, "before\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nafter\n");
        assert_eq!(with_block(&made, "x", "new").unwrap(), made);
        assert!(with_block(page, "y", "").is_err());
    }
}
