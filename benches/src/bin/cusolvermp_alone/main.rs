//! What NVIDIA's libraries take on their own on GPUs, to measure ours against.
//!
//! * without a mode: cuSOLVERMp's factorisation and solve, or its eigensolver, called through our bindings
//!   on data that already lies in its layout, with handle, grid, descriptors and workspace from earlier calls;
//! * `--through-plan`: the same, and in turn with it the whole routine on the caller's buffers;
//! * `--workspace`: the device workspace that the libraries ask for;
//! * `--convert`: the layout conversions against a copy of as many bytes on one GPU.
//!
//! One process, one thread for each GPU. Results are lines of comma-separated values below a header;
//! lines that begin with `#` are for people.

mod bench;
mod convert;
mod eigen;
mod solve;
mod workspace;

use clap::{Parser, ValueEnum};
use meshsolve::{DType, libraries};
use meshsolve_benches::clock::{Clock, Times};
use meshsolve_benches::gpus::{self, Failure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures a routine of cuSOLVERMp alone, or beside ours, or our layout conversions.
#[derive(Parser)]
struct Arguments {
    /// Also time the whole routine on the caller's buffers, in turn with cuSOLVERMp alone.
    #[arg(long)]
    through_plan: bool,
    /// Time layout conversions against device copies instead, on one GPU.
    #[arg(long, conflicts_with = "through_plan")]
    convert: bool,
    /// Print the device workspace that the libraries ask for instead.
    #[arg(long, conflicts_with_all = ["through_plan", "convert"])]
    workspace: bool,
    /// The routine.
    #[arg(long, value_enum, default_value_t = Routine::Potrs)]
    routine: Routine,
    /// Only eigenvalues, without vectors.
    #[arg(long)]
    values: bool,
    /// Orders of the matrix.
    #[arg(long, value_delimiter = ',', default_values_t = [4096, 8192, 16384])]
    sizes: Vec<u64>,
    /// Tiles; each is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [256, 512, 1024])]
    tiles: Vec<u64>,
    /// Process rows and columns, as 1x2. Their product is the number of GPUs.
    #[arg(long, default_value = "1x2", value_parser = grid)]
    grid: [u64; 2],
    /// Have the whole routine solve on a nearly square grid, where --grid has one axis.
    #[arg(long, requires = "through_plan")]
    near_square: bool,
    /// The layout that the whole routine plans with: auto, stages or reading.
    #[arg(long, default_value = "auto")]
    layout: String,
    /// Element type; conversions take all sizes.
    #[arg(long, value_enum, default_value_t = ElementType::F64)]
    dtype: ElementType,
    /// Timed repeats, after one that is not.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// A site-packages folder, or one that holds the libraries themselves.
    #[arg(long)]
    libraries: Vec<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Routine {
    /// A solve by Cholesky factors.
    Potrs,
    /// A solve by LU factors.
    LuSolve,
    /// Eigenvalues and eigenvectors of a Hermitian matrix.
    Syevd,
    /// The same with a metric: by the library's one call, and by its steps.
    Sygvd,
}

#[derive(Clone, Copy, ValueEnum)]
enum ElementType {
    F32,
    F64,
    C64,
    C128,
}

impl From<ElementType> for DType {
    fn from(element: ElementType) -> Self {
        match element {
            ElementType::F32 => Self::F32,
            ElementType::F64 => Self::F64,
            ElementType::C64 => Self::C64,
            ElementType::C128 => Self::C128,
        }
    }
}

fn grid(text: &str) -> Result<[u64; 2], String> {
    let sides = text.split_once('x').and_then(|(rows, cols)| Some([rows.parse().ok()?, cols.parse().ok()?]));
    match sides {
        Some([rows, cols]) if rows > 0 && cols > 0 => Ok([rows, cols]),
        _ => Err(format!("{text:?} is not rows x columns, such as 1x2")),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    libraries::set_library_folders(arguments.libraries.clone());
    let outcome = match (arguments.convert, arguments.workspace) {
        (true, _) => convert::measure(&arguments),
        (_, true) => workspace::record(&arguments),
        _ => match arguments.routine {
            Routine::Potrs | Routine::LuSolve => solve::measure(&arguments),
            Routine::Syevd | Routine::Sygvd => eigen::measure(&arguments),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
