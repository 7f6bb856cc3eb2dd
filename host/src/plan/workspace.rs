//! Estimates of the device workspace that cuSOLVERMp and cuBLASMp ask for, in bytes.
//!
//! The libraries tell it to a communicator's ranks only, and a plan has none. The formulas here are fitted to
//! what they said: cuSOLVERMp 0.9.1 and cuBLASMp 0.10.0 with NCCL 2.29.7 on an H200, for all types, orders of
//! 8192, 20 000 and 65 536, tiles of 256 to 2048, the grids 1×1, 1×2, 2×1, 2×2, 1×4, 4×1, 2×4, 4×2 and 3×2, and
//! one tile of right-hand sides for each process column. The record lies in `benches/results/workspace.csv`, and
//! a test holds every line of it to 10 %, but for 0.1 MB of [`Square::getrs`] with fewer right-hand sides than process
//! columns: [`Square::potrs`], [`Square::trsm`], [`Square::sygst`] and [`gemm`]
//! agree to the last few bytes. Beyond the record nothing is promised; in particular nobody asked for less than
//! four tiles, for grids of three, five or more than eight processes, for [`Square::sygvd`], and for what
//! [`gemm_transposed`] needs of matrices that are not square.
//!
//! All formulas count elements of the rank that needs most, in whole tiles where the libraries do, and grow
//! with the order. The exception is the choice of [`Square::potrs`] and [`Square::getrs`] between two methods
//! for wide right-hand sides.

use super::MatrixPlan;
use super::tile::gcd;
use crate::DType;
use crate::layout::{BlockCyclic, ProcessGrid};

/// What every product of cuBLASMp takes, whatever the type.
const PRODUCT_BYTES: u64 = 32 << 20;
/// Small buffers beside, rounded up.
const SMALL_BYTES: u64 = 256;

/// Right-hand sides on a process column that a routine solves for at a time: as many as cuSOLVERMp does itself, and
/// few enough for it not to leave them to `trsm`.
pub const WIDEST_BATCH: u64 = 512;
/// Right-hand sides in tiles at least this wide may be left to `trsm`.
const WIDE: u64 = 1024;
/// `potrs` leaves wide right-hand sides to `trsm` if each process has fewer tiles of the matrix: it did with
/// 683 and did not with 1024.
const TILES_OF_POTRS: u64 = 1024;
/// The same for `getrs`, which did with 1024 and did not with 2048.
const TILES_OF_GETRS: u64 = 2048;

/// What is known of a library's workspace on a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workspace {
    /// By the formulas of this module.
    Estimated(u64),
    /// As the library said.
    Exact(u64),
}

/// A square matrix in square tiles, as the libraries see it. Order and tile are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Square {
    /// Element type.
    pub dtype: DType,
    /// The order.
    pub n: u64,
    /// Edge of the tiles.
    pub tile: u64,
    /// The process grid.
    pub grid: ProcessGrid,
}

/// Right-hand sides of one call, beside a [`Square`].
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    /// How many there are.
    pub nrhs: u64,
    /// Columns in a tile.
    pub width: u64,
}

impl Sides {
    /// Those that a routine has a solver take at a time (see
    /// [`crate::solver::DistributedMatrix::batches`]), of all that `cols` deals out.
    pub fn first_batch(cols: BlockCyclic) -> Self {
        let count =
            |proc| (cols.extent().saturating_sub(proc * cols.tile())).min(cols.tile()).min(WIDEST_BATCH);
        Self { nrhs: (0..cols.procs()).map(count).sum(), width: count(0) }
    }

    /// Those that a process column solves for at a time.
    fn stripe(&self) -> u64 {
        self.width.min(WIDEST_BATCH)
    }
}

impl Square {
    /// A plan's matrix as the solver has it.
    pub(super) fn of(plan: &MatrixPlan) -> Self {
        let rows = plan.rows().cyclic();
        Self { dtype: plan.dtype(), n: rows.extent(), tile: rows.tile(), grid: plan.grid() }
    }

    fn tiles(&self) -> u64 {
        self.n.div_ceil(self.tile)
    }

    /// Rows of a process row in whole tiles.
    fn rows(&self) -> u64 {
        self.tiles().div_ceil(self.grid.rows()) * self.tile
    }

    /// Columns of a process column in whole tiles.
    fn cols(&self) -> u64 {
        self.tiles().div_ceil(self.grid.cols()) * self.tile
    }

    /// Elements that process (0, 0) holds, which no other exceeds.
    fn held(&self) -> u64 {
        let along = |procs| BlockCyclic::new(self.n, self.tile, procs).count(0);
        along(self.grid.rows()) * along(self.grid.cols())
    }

    /// Cholesky factors: a slab of a process row and a tile.
    pub fn potrf(&self) -> u64 {
        self.dtype.size() * self.tile * (self.rows() + self.tile) + 10 * SMALL_BYTES
    }

    /// LU factors: a slab of a process row, one of a process column, a tile, and some columns and rows.
    pub fn getrf(&self) -> u64 {
        let Self { n, tile, .. } = *self;
        let (rows, cols) = (self.rows(), self.cols());
        let slabs = tile * (rows + cols + tile);
        let narrow = 5 * n + 292 * rows + 256 * cols + (64 + 96 * self.grid.rows()) * tile + 14_500;
        self.dtype.size() * (slabs + narrow)
    }

    /// A solve with Cholesky factors: three times the right-hand sides that are solved for at once, spread over
    /// the longer side; or what [`Square::trsm`] takes.
    pub fn potrs(&self, sides: Sides) -> u64 {
        self.solve(sides, TILES_OF_POTRS)
    }

    /// A solve with LU factors: as [`Square::potrs`], and the rows that are interchanged, twice, with two words
    /// for each row.
    pub fn getrs(&self, sides: Sides) -> u64 {
        let interchanged = 2 * self.dtype.size() * sides.nrhs.min(WIDEST_BATCH) + 16;
        self.solve(sides, TILES_OF_GETRS).saturating_add(interchanged * self.rows())
    }

    fn solve(&self, sides: Sides, tiles_of_a_process: u64) -> u64 {
        let few_tiles = self.tiles().pow(2) < tiles_of_a_process * self.grid.size();
        if self.grid.cols() > 1 && sides.width >= WIDE && few_tiles {
            return self.trsm();
        }
        3 * self.dtype.size() * self.rows().max(self.cols()) * sides.stripe()
    }

    /// A triangular solve, for right-hand sides in tiles no wider than the matrix's: a quarter of the matrix,
    /// gathered, the process's share of a quarter, and slabs.
    pub fn trsm(&self) -> u64 {
        let [procs_along_rows, procs_along_cols] = [self.grid.rows(), self.grid.cols()];
        let half = self.tiles().div_ceil(2);
        let (rows, cols) = (half.div_ceil(procs_along_rows), half.div_ceil(procs_along_cols));
        let gathered = rows * procs_along_rows * cols * procs_along_cols;
        let one_dimensional = procs_along_rows == 1 || procs_along_cols == 1;
        let other_half = if one_dimensional { 2 * (self.tiles() - half) } else { 0 };
        let tiles = gathered + rows * cols + (procs_along_rows + 1) * rows + 2 * half + other_half + 6;
        let bytes_of_a_tile = self.dtype.size() * self.tile.pow(2);
        // A tile as large as the largest matrices, many times.
        tiles.saturating_mul(bytes_of_a_tile).saturating_add(2 * PRODUCT_BYTES + SMALL_BYTES)
    }

    /// The reduction of a Hermitian eigenproblem with a metric to one without, which is a part of
    /// [`Square::sygvd`]: slabs of 512 rows and 128 columns, and four tiles.
    pub fn sygst(&self) -> u64 {
        let count = |procs| BlockCyclic::new(self.n, self.tile, procs).count(0);
        let slabs = 512 * count(self.grid.rows()) + 128 * count(self.grid.cols());
        self.dtype.size() * (slabs + 4 * self.tile.pow(2))
    }

    /// A Hermitian eigenproblem. On one process four matrices. Otherwise the most of two steps: the reduction to
    /// a tridiagonal matrix, which takes a matrix and slabs; and dividing and conquering in real numbers, which
    /// for vectors takes up to three matrices shared by as many processes as there are, or by the next smaller
    /// power of two and a buffer for the way there.
    pub fn syevd(&self, vectors: bool) -> u64 {
        let Self { n, tile, grid, dtype } = *self;
        let own = if vectors { n } else { 0 };
        if grid.size() == 1 {
            return dtype.size() * (4 * n * n + 127 * n + 33_000 + own);
        }
        let (rows, cols) = (self.rows(), self.cols());
        let slabs = tile * (4 * rows.max(cols) + 2 * rows + tile);
        let reduction = self.held() + slabs + n + rows + 2 * cols + 2 * own;
        let conquerors = 1 << grid.size().ilog2();
        let all_conquer = conquerors == grid.size();
        let share = if all_conquer { self.held() } else { n * n / conquerors };
        let shares = match (vectors, dtype.parts()) {
            (false, _) => 1,
            (true, 1) => 3,
            (true, _) => 2,
        };
        let way_there = if vectors && !all_conquer { self.held() / 2 } else { 0 };
        let conquest = dtype.real().size() * (shares * share + 13 * n) + dtype.size() * way_there;
        conquest.max(dtype.size() * reduction)
    }

    /// A Hermitian eigenproblem with a metric: taken to be [`Square::syevd`] and the larger of the two steps
    /// before it, factoring the metric and reducing the problem.
    pub fn sygvd(&self, vectors: bool) -> u64 {
        self.syevd(vectors).saturating_add(self.potrf().max(self.sygst()))
    }
}

/// The product of matrices whose result has these `rows` and `cols`, in tiles of `inner` along what is summed
/// over: on one process a fixed size, otherwise also a slab and a tile of each factor.
pub fn gemm(dtype: DType, rows: BlockCyclic, cols: BlockCyclic, inner: u64) -> u64 {
    let fixed = PRODUCT_BYTES + SMALL_BYTES;
    if rows.procs() * cols.procs() == 1 {
        return fixed;
    }
    let slab_and_tile = |side: BlockCyclic| side.extent() / side.procs() + side.tile();
    fixed + dtype.size() * inner * (slab_and_tile(rows) + slab_and_tile(cols))
}

/// The product of Aᵀ or Aᴴ, A with these rows and columns in square tiles, with a matrix that has these `cols`. On
/// several processes A is transposed first, which takes the process's share of it, what it sends and what it gets, and
/// slabs; or as much for one of its rows or columns of tiles, and [`gemm`].
pub fn gemm_transposed(dtype: DType, a_rows: BlockCyclic, a_cols: BlockCyclic, cols: BlockCyclic) -> u64 {
    let [rows_of_processes, cols_of_processes] = [a_rows.procs(), a_cols.procs()];
    let (procs, tile) = (rows_of_processes * cols_of_processes, a_rows.tile());
    let product = gemm(dtype, BlockCyclic::new(a_cols.extent(), tile, rows_of_processes), cols, tile);
    if procs == 1 {
        return product;
    }
    let own_tiles = |side: BlockCyclic| side.tiles().div_ceil(side.procs());
    // Tile (I, J) stays where it is if J leads to its process row and I to its process column. Where the sides share
    // a factor there are processes of which no tile does.
    let stay = if gcd(rows_of_processes, cols_of_processes) == 1 { 1 } else { 0 };
    let transposed = |rows: BlockCyclic, cols: BlockCyclic| {
        let moved = 2 * (rows.extent() * cols.extent() / procs * (procs - stay)).div_ceil(procs);
        (own_tiles(rows) * own_tiles(cols)).saturating_mul(tile.pow(2)).saturating_add(moved)
    };
    let bytes = |elements: u64| elements.saturating_mul(dtype.size()).saturating_add(2 * SMALL_BYTES);
    let slabs = (own_tiles(a_rows) + own_tiles(a_cols) + 1).saturating_mul(tile.pow(2));
    let one_of = |side: BlockCyclic| side.of_extent(side.extent().min(tile * side.procs()));
    let one = if own_tiles(a_rows) < own_tiles(a_cols) {
        transposed(one_of(a_rows), a_cols)
    } else {
        transposed(a_rows, one_of(a_cols))
    };
    bytes(transposed(a_rows, a_cols).saturating_add(slabs)).max(bytes(one).saturating_add(product))
}
