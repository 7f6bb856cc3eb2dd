//! Solves of square systems on simulated ranks: residuals by plain loops on dense copies.

use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{OperandSpec, Placement, Plan, Request};
use meshsolve::simulate::{self, RankOperands};
use meshsolve_tests::Memory;
use proptest::prelude::*;

type Complex = [f64; 2];

/// Element types as the test needs them: complex numbers in f64, and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    F32,
    F64,
    C64,
    C128,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::C64 => "c64",
            Type::C128 => "c128",
        }
    }

    fn is_complex(self) -> bool {
        matches!(self, Type::C64 | Type::C128)
    }

    fn is_double(self) -> bool {
        matches!(self, Type::F64 | Type::C128)
    }

    fn epsilon(self) -> f64 {
        if self.is_double() { f64::EPSILON } else { f64::from(f32::EPSILON) }
    }

    fn bytes(self, z: Complex) -> Vec<u8> {
        let parts = &z[..if self.is_complex() { 2 } else { 1 }];
        match self.is_double() {
            true => parts.iter().flat_map(|x| x.to_ne_bytes()).collect(),
            false => parts.iter().flat_map(|&x| (x as f32).to_ne_bytes()).collect(),
        }
    }

    fn value(self, bytes: &[u8]) -> Complex {
        let width = if self.is_double() { 8 } else { 4 };
        let part = |k: usize| match bytes.get(k * width..(k + 1) * width) {
            None => 0.0,
            Some(b) if self.is_double() => f64::from_ne_bytes(b.try_into().unwrap()),
            Some(b) => f64::from(f32::from_ne_bytes(b.try_into().unwrap())),
        };
        [part(0), part(1)]
    }

    /// What a value becomes when it is stored.
    fn rounded(self, z: Complex) -> Complex {
        self.value(&self.bytes(z))
    }
}

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn conj(a: Complex) -> Complex {
    [a[0], -a[1]]
}

type Dense = Vec<Vec<Complex>>;

/// X·Xᴴ + n·I with pseudo-random X, rounded to the type.
fn positive_definite(ty: Type, n: usize) -> Dense {
    let mut state = 12345_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31) * 2.0 - 1.0
    };
    let x: Dense = (0..n)
        .map(|_| (0..n).map(|_| [next(), if ty.is_complex() { next() } else { 0.0 }]).collect())
        .collect();
    let product = |i: usize, j: usize| {
        (0..n).fold([if i == j { n as f64 } else { 0.0 }, 0.0], |sum, k| {
            let t = times(x[i][k], conj(x[j][k]));
            [sum[0] + t[0], sum[1] + t[1]]
        })
    };
    // The upper triangle from the lower one, so that rounding keeps the matrix Hermitian.
    let entry = |i: usize, j: usize| {
        if i >= j { ty.rounded(product(i, j)) } else { conj(ty.rounded(product(j, i))) }
    };
    (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
}

struct Solved {
    x: Dense,
    log_det: f64,
    status: i32,
}

/// Every way in which a request can be carried out, with its name.
fn candidates(request: &str) -> Vec<(String, Plan)> {
    let plans = Plan::candidates(&Request::from_json(request).unwrap());
    plans.into_iter().map(|plan| (name(&plan), plan)).collect()
}

fn name(plan: &Plan) -> String {
    let Plan::System(system) = plan else { unreachable!("a solve was asked for") };
    system.candidate().to_string()
}

/// Runs a plan on all places of a mesh and puts x together; all must agree on status and log det.
fn solve(ty: Type, plan: &Plan, a: &Dense, b: &Dense, grid: [u64; 2]) -> Solved {
    let Plan::System(system) = plan else { unreachable!("a solve was asked for") };
    let grid = ProcessGrid::new(grid[0], grid[1]);
    let (n, k) = (a.len(), b.first().map_or(0, Vec::len));
    let size = |spec: &OperandSpec| Memory::new(spec.bytes());
    let fill = |spec: &OperandSpec, from: &Dense, rows_at: usize, cols_at: usize| {
        let mut memory = size(spec);
        let (rows, cols) = (spec.shape[0] as usize, spec.shape[1] as usize);
        for i in 0..rows {
            for j in 0..cols {
                let value =
                    from.get(rows_at + i).and_then(|r| r.get(cols_at + j)).copied().unwrap_or([f64::NAN; 2]);
                memory.set_element(spec.dtype, (i * cols + j) as u64, &ty.bytes(value));
            }
        }
        memory
    };
    let shared_rows = system.b_placements().rows == Placement::Sharded;
    let shared_cols = system.b_placements().cols == Placement::Sharded;
    // The first row and column of B at a place.
    let corner = |place: u64, spec: &OperandSpec| {
        let at = grid.coordinate(place);
        let row = if shared_rows { at.row * spec.shape[0] } else { 0 };
        let col = if shared_cols { at.col * spec.shape[1] } else { 0 };
        (row as usize, col as usize)
    };
    let mut memories = Vec::new();
    for rank in 0..grid.size() {
        let at = grid.coordinate(rank);
        let [sa, sb] = plan.inputs() else { panic!() };
        let a = fill(sa, a, at.row as usize * sa.shape[0] as usize, at.col as usize * sa.shape[1] as usize);
        let (row, col) = corner(rank, sb);
        let b = fill(sb, b, row, col);
        let outputs: Vec<Memory> = plan.outputs().iter().map(size).collect();
        memories.push((vec![a, b], outputs));
    }
    let operands = memories
        .iter()
        .map(|(inputs, outputs)| {
            let inputs: Vec<_> = inputs.iter().map(Memory::buffer).collect();
            let outputs = plan
                .outputs()
                .iter()
                .zip(outputs)
                .map(|(spec, memory)| spec.alias.map_or_else(|| memory.buffer(), |input| inputs[input]))
                .collect();
            RankOperands { inputs, outputs }
        })
        .collect();
    let given: Vec<Vec<u8>> = memories.iter().map(|(inputs, _)| inputs[0].bytes().to_vec()).collect();
    simulate::run(plan, operands).unwrap();
    if system.request().keep_a {
        assert!(
            memories.iter().zip(&given).all(|((inputs, _), given)| inputs[0].bytes() == given),
            "A changed"
        );
    }

    let mut x: Dense = vec![vec![[f64::NAN; 2]; k]; n];
    let mut statuses = Vec::new();
    for (rank, (_, outputs)) in (0..).zip(&memories) {
        let position = |name| plan.outputs().iter().position(|spec| spec.name == name);
        let find = |name| position(name).unwrap();
        let spec = &plan.outputs()[find("x")];
        let (first_row, first_col) = corner(rank, spec);
        let width = spec.shape[1] as usize;
        for i in 0..spec.shape[0] as usize {
            for j in 0..width {
                if let Some(place) = x.get_mut(first_row + i).and_then(|row| row.get_mut(first_col + j)) {
                    let value = ty.value(outputs[find("x")].element(spec.dtype, (i * width + j) as u64));
                    let bits = |z: Complex| z.map(f64::to_bits);
                    // A column of zeros and one of NaN aside, what was there is the untouched NaN.
                    assert!(
                        place[0].is_nan() || bits(*place) == bits(value),
                        "places of the mesh differ in x"
                    );
                    *place = value;
                }
            }
        }
        let real = if ty.is_double() { Type::F64 } else { Type::F32 };
        let status = i32::from_ne_bytes(outputs[find("status")].bytes().try_into().unwrap());
        let log_det = position("log_det").map_or(f64::NAN, |at| real.value(outputs[at].bytes())[0]);
        statuses.push((status, log_det.to_bits()));
    }
    assert!(statuses.windows(2).all(|w| w[0] == w[1]), "ranks disagree: {statuses:?}");
    Solved { x, log_det: f64::from_bits(statuses[0].1), status: statuses[0].0 }
}

/// A request; `b` is the placement of B's rows and of its columns.
fn request(ty: Type, n: usize, k: usize, grid: [u64; 2], tile: u64, b: [&str; 2], triangle: &str) -> String {
    format!(
        r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"{}","n":{n},"nrhs":{k},"grid":[{},{}],"tile":{tile},
            "b":{{"rows":"{}","cols":"{}"}},"triangle":{triangle},"log_det":true,"keep_a":{}}}"#,
        ty.name(),
        grid[0],
        grid[1],
        b[0],
        b[1],
        b == ROWS_SHARDED
    )
}

const REPLICATED: [&str; 2] = ["replicated", "replicated"];
const ROWS_SHARDED: [&str; 2] = ["sharded", "replicated"];
const BOTH_SHARDED: [&str; 2] = ["sharded", "sharded"];

/// Right-hand sides whose values tell their place.
fn right_hand_sides(ty: Type, n: usize, k: usize) -> Dense {
    let imaginary = if ty.is_complex() { 0.25 } else { 0.0 };
    (0..n).map(|i| (0..k).map(|j| ty.rounded([(i * k + j + 1) as f64, imaginary])).collect()).collect()
}

/// ln |det| of a matrix that needs no pivoting, by elimination in f64 on a dense copy.
fn log_det(a: &Dense) -> f64 {
    let mut a = a.clone();
    let mut sum = 0.0;
    for p in 0..a.len() {
        let pivot = a[p][p];
        let size = pivot[0].hypot(pivot[1]);
        sum += size.ln();
        let row = a[p].clone();
        for below in a.iter_mut().skip(p + 1) {
            let factor = times(below[p], conj(pivot)).map(|part| part / size / size);
            for (x, &y) in below.iter_mut().zip(&row).skip(p) {
                let t = times(factor, y);
                *x = [x[0] - t[0], x[1] - t[1]];
            }
        }
    }
    sum
}

fn norm1(m: &Dense) -> f64 {
    let cols = m.first().map_or(0, Vec::len);
    // f64::max would drop a NaN
    (0..cols)
        .map(|j| m.iter().map(|row| row[j][0].hypot(row[j][1])).sum())
        .fold(0.0, |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

/// ‖B − A·X‖₁ over ‖A‖₁·‖X‖₁, which must be at most √n·ε, and over n times that, at most 25 ε.
fn assert_solves(ty: Type, a: &Dense, x: &Dense, b: &Dense, what: &str) {
    let n = a.len();
    let residual: Dense = (0..n)
        .map(|i| {
            (0..b[i].len())
                .map(|j| {
                    (0..n).fold(b[i][j], |r, k| {
                        let t = times(a[i][k], x[k][j]);
                        [r[0] - t[0], r[1] - t[1]]
                    })
                })
                .collect()
        })
        .collect();
    let relative = norm1(&residual) / (norm1(a) * norm1(x));
    let bound = ((n as f64).sqrt() * ty.epsilon()).min(25.0 * ty.epsilon() * n as f64);
    assert!(relative <= bound, "{what}: residual {relative:e} above {bound:e}");
}

/// Solves by every candidate and checks x and ln det; gives the candidates' names.
fn check_solves(ty: Type, grid: [u64; 2], n: usize, k: usize, tile: u64, b: [&str; 2]) -> Vec<String> {
    let a = positive_definite(ty, n);
    let rhs = right_hand_sides(ty, n, k);
    let exact = log_det(&a);
    let bound = 10.0 * ty.epsilon() * (n as f64 + exact.abs());
    let mut names = Vec::new();
    for (triangle, is_hidden) in [
        ("null", (|_, _| false) as fn(usize, usize) -> bool),
        ("\"lower\"", |i, j| i < j),
        ("\"upper\"", |i, j| i > j),
    ] {
        let shown = |i: usize, j: usize| if is_hidden(i, j) { [f64::NAN; 2] } else { a[i][j] };
        let given: Dense = (0..n).map(|i| (0..n).map(|j| shown(i, j)).collect()).collect();
        for (name, plan) in candidates(&request(ty, n, k, grid, tile, b, triangle)) {
            let what = format!("{ty:?} {grid:?} n={n} k={k} T={tile} b {b:?} triangle {triangle} {name}");
            let solved = solve(ty, &plan, &given, &rhs, grid);
            assert_eq!(solved.status, 0, "{what}");
            if k > 0 {
                assert_solves(ty, &a, &solved.x, &rhs, &what);
            }
            let difference = (solved.log_det - exact).abs();
            assert!(difference <= bound, "{what}: ln det {} is not {exact}", solved.log_det);
            if triangle == "null" {
                names.push(name);
            }
        }
    }
    names
}

#[test]
fn solves_on_all_grids_and_types() {
    let to_four = (1..=4).flat_map(|rows| (1..=4).map(move |cols| [rows, cols]));
    let grids: Vec<[u64; 2]> = to_four.chain([[1, 8], [8, 1], [2, 8], [8, 2]]).collect();
    for (at, &grid) in grids.iter().enumerate() {
        for (turn, ty) in [Type::F32, Type::F64, Type::C64, Type::C128].into_iter().enumerate() {
            // Whole tiles in every shard, ragged tiles, shards that end in padding.
            let whole = (grid[0] * grid[1] * 2) as usize;
            for (n, tile) in [(whole.max(12), 2), (21, 4), (37, 5), (5, 8), (1, 4)] {
                // Widths and placements in turn: each meets every grid with some type.
                let k = [1, 3, 0, 11][(at + turn) % 4];
                let b = [REPLICATED, ROWS_SHARDED, BOTH_SHARDED][(at + turn + n) % 3];
                check_solves(ty, grid, n, k, tile, b);
            }
        }
    }
}

/// Solves by LU and every candidate; gives the candidates' names.
fn check_lu_solves(ty: Type, grid: [u64; 2], n: usize, k: usize, tile: u64, b: [&str; 2]) -> Vec<String> {
    // Dominated by what is no diagonal: rows have to be interchanged.
    let dominant = positive_definite(ty, n);
    let exact = log_det(&dominant);
    let a: Dense = (0..n).map(|i| dominant[(i + n / 2 + 1) % n].clone()).collect();
    let rhs = right_hand_sides(ty, n, k);
    let text = request(ty, n, k, grid, tile, b, "null").replace("\"cholesky\"", "\"lu\"");
    // Without a determinant, rows and columns may be read in different orders.
    for (name, plan) in candidates(&text.replace("\"log_det\":true", "\"log_det\":false")) {
        let what = format!("LU {ty:?} {grid:?} n={n} k={k} T={tile} b {b:?} {name}, no determinant");
        let solved = solve(ty, &plan, &a, &rhs, grid);
        assert_eq!(solved.status, 0, "{what}");
        if k > 0 {
            assert_solves(ty, &a, &solved.x, &rhs, &what);
        }
    }
    let solve = |(name, plan): (String, Plan)| {
        let what = format!("LU {ty:?} {grid:?} n={n} k={k} T={tile} b {b:?} {name}");
        let solved = solve(ty, &plan, &a, &rhs, grid);
        assert_eq!(solved.status, 0, "{what}");
        if k > 0 {
            assert_solves(ty, &a, &solved.x, &rhs, &what);
        }
        let bound = 10.0 * ty.epsilon() * (n as f64 + exact.abs());
        assert!((solved.log_det - exact).abs() <= bound, "{what}: ln |det| {}, not {exact}", solved.log_det);
        name
    };
    candidates(&text).into_iter().map(solve).collect()
}

#[test]
fn lu_solves_on_all_grids_and_types() {
    let to_four = (1..=4).flat_map(|rows| (1..=4).map(move |cols| [rows, cols]));
    let grids: Vec<[u64; 2]> = to_four.chain([[1, 8], [8, 1], [2, 8], [8, 2]]).collect();
    for (at, &grid) in grids.iter().enumerate() {
        for (turn, ty) in [Type::F32, Type::F64, Type::C64, Type::C128].into_iter().enumerate() {
            let whole = (grid[0] * grid[1] * 2) as usize;
            for (n, tile) in [(whole.max(12), 2), (21, 4), (5, 8)] {
                let k = [1, 3, 0, 11][(at + turn) % 4];
                let b = [REPLICATED, ROWS_SHARDED, BOTH_SHARDED][(at + turn + n) % 3];
                let names = check_lu_solves(ty, grid, n, k, tile, b);
                assert!(names.iter().all(|name| !name.contains("transposed")), "{names:?}");
            }
        }
    }
}

/// Triangular solves by every candidate; what is not to be read, which may be the diagonal, is NaN.
fn check_triangular_solves(
    ty: Type,
    grid: [u64; 2],
    n: usize,
    tile: u64,
    [lower, unit, transposed]: [bool; 3],
) {
    let dominant = positive_definite(ty, n);
    let scale = 1.0 / dominant.iter().flatten().map(|z| z[0].hypot(z[1])).fold(0.0, f64::max);
    let element = |i: usize, j: usize| match (i == j, (i > j) == lower) {
        (true, _) if unit => [1.0, 0.0],
        (true, _) => ty.rounded([2.0, 0.0]),
        (false, true) => ty.rounded(dominant[i][j].map(|part| part * scale)),
        (false, false) => [0.0; 2],
    };
    let is_hidden = |i: usize, j: usize| if i == j { unit } else { (i > j) != lower };
    let given: Dense = (0..n)
        .map(|i| (0..n).map(|j| if is_hidden(i, j) { [f64::NAN; 2] } else { element(i, j) }).collect())
        .collect();
    let entered = |i, j| if transposed { element(j, i) } else { element(i, j) };
    let a: Dense = (0..n).map(|i| (0..n).map(|j| entered(i, j)).collect()).collect();
    let rhs = right_hand_sides(ty, n, 2);
    let triangle = if lower { "\"lower\"" } else { "\"upper\"" };
    let op = if transposed { "transpose" } else { "no_transpose" };
    let text = request(ty, n, 2, grid, tile, ROWS_SHARDED, triangle)
        .replace("\"log_det\":true", &format!(r#""op":"{op}","unit_diagonal":{unit}"#))
        .replace("\"cholesky\"", "\"triangular\"");
    for (name, plan) in candidates(&text) {
        let what = format!("{ty:?} {grid:?} n={n} T={tile} {triangle} {op} unit {unit} {name}");
        let solved = solve(ty, &plan, &given, &rhs, grid);
        assert_eq!(solved.status, 0, "{what}");
        assert_solves(ty, &a, &solved.x, &rhs, &what);
    }
}

#[test]
fn triangular_solves_on_all_grids() {
    let to_four = (1..=4).flat_map(|rows| (1..=4).map(move |cols| [rows, cols]));
    for (at, grid) in to_four.chain([[1, 8], [8, 1]]).enumerate() {
        // Tiles that end with the shards, within them, and beyond them.
        for (n, tile) in [(6, 4), (8, 3), (12, 3), (12, 8), (24, 5)] {
            for forms in 0..8 {
                let ty = [Type::F32, Type::F64, Type::C64, Type::C128][(at + n + forms) % 4];
                check_triangular_solves(ty, grid, n, tile, [1, 2, 4].map(|bit| forms & bit != 0));
            }
        }
    }
}

#[test]
fn lu_moves_nothing_of_the_matrix_where_a_reading_is_free() {
    for grid in [[1, 2], [2, 1], [1, 8], [2, 2], [2, 4], [8, 2]] {
        let text = request(Type::F64, 64, 1, grid, 4, REPLICATED, "null").replace("\"cholesky\"", "\"lu\"");
        let plan = Plan::from_json(&text).unwrap();
        let Plan::System(system) = &plan else { unreachable!("a solve was asked for") };
        assert_eq!(system.candidate().to_string(), "reading", "{grid:?}");
        assert_eq!(system.a().sent_in_all(false), 0, "{grid:?}");
    }
    // Rows and columns in different orders, so that X moves, but hardly more than B would.
    for grid in [[2, 3], [3, 2], [3, 4]] {
        let text = request(Type::F64, 96, 1, grid, 4, ROWS_SHARDED, "null").replace("\"cholesky\"", "\"lu\"");
        let text = text.replace("\"log_det\":true", "\"log_det\":false");
        let plan = Plan::from_json(&text).unwrap();
        let Plan::System(system) = &plan else { unreachable!("a solve was asked for") };
        assert_eq!(system.candidate().to_string(), "reading", "{grid:?}");
        assert_eq!(system.a().sent_in_all(false), 0, "{grid:?}");
        assert!(system.x().unwrap().sent_in_all(true) > 0, "{grid:?}");
    }
}

/// What a method cannot do is said when it is asked for.
#[test]
fn parts_of_a_solution_that_there_are_none_of() {
    for (changes, why) in [
        (&[("\"cholesky\"", "\"lu\""), ("\"solve\"", "\"factor\"")][..], "only a Cholesky factor"),
        (&[("\"cholesky\"", "\"triangular\"")], "needs its triangle named"),
        (&[("\"cholesky\"", "\"triangular\""), ("\"solve\"", "\"invert\"")], "is only solved with"),
        (&[("\"cholesky\"", "\"lu\""), ("null", "\"lower\"")], "LU reads all of a"),
        (&[("\"solve\"", "\"apply\"")], "a determinant comes only with a factorisation"),
        (&[("\"log_det\":true", "\"op\":\"transpose\"")], "may enter transposed"),
        (&[("\"log_det\":true", "\"unit_diagonal\":true")], "diagonal of ones"),
    ] {
        let text = request(Type::F64, 8, 1, [1, 2], 4, REPLICATED, "null");
        let text = changes.iter().fold(text, |text, (from, to)| text.replace(from, to));
        let error = Plan::from_json(&text).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn every_placement_and_width_by_every_candidate() {
    for (grid, n, tile) in
        [([2, 2], 16, 4), ([2, 4], 32, 4), ([4, 1], 24, 3), ([2, 3], 24, 4), ([1, 3], 17, 4)]
    {
        for b in [REPLICATED, ROWS_SHARDED, BOTH_SHARDED] {
            for k in [0, 1, 3, 9] {
                for ty in [Type::F64, Type::C64] {
                    let names = check_solves(ty, grid, n, k, tile, b);
                    let all = ["stages", "reading", "stages, transposed", "reading, transposed"];
                    let mut expected: Vec<String> =
                        all[..if n == 17 { 2 } else { 4 }].iter().map(|&name| name.to_owned()).collect();
                    // Requests keep A only where rows of B are sharded.
                    if grid == [4, 1] && b == ROWS_SHARDED {
                        expected.extend(all.map(|name| format!("{name}, on a nearly square grid")));
                    }
                    assert_eq!(names, expected, "{grid:?}");
                }
            }
        }
    }
}

#[test]
fn the_cheapest_candidate_is_taken() {
    let chosen = |grid, n, tile, b, triangle, change: (&str, &str)| {
        let text = request(Type::F64, n, 1, grid, tile, b, triangle).replace(change.0, change.1);
        name(&Plan::from_json(&text).unwrap())
    };
    let donated = ("\"keep_a\":true", "\"keep_a\":false");
    // Large enough for bytes and operations to count, not rounds alone.
    for (grid, to_give, to_keep) in [
        ([2, 2], "reading, transposed", "reading"),
        // The solver is quicker on a grid that has no more columns than rows.
        ([2, 1], "reading", "reading"),
        ([1, 2], "reading, transposed", "reading, transposed"),
        ([2, 4], "reading, transposed", "reading, transposed"),
        ([1, 8], "reading, transposed", "reading, transposed"),
    ] {
        assert_eq!(chosen(grid, 65536, 1024, REPLICATED, "null", donated), to_give, "{grid:?}");
        // A that lives on is copied once in any case, and a copy may as well convert.
        assert_eq!(chosen(grid, 65536, 1024, ROWS_SHARDED, "null", ("", "")), to_keep, "{grid:?}");
        let promised = chosen(grid, 65536, 1024, REPLICATED, "\"lower\"", donated);
        assert!(promised.starts_with("stages"), "{grid:?} {promised}");
    }
    // With many devices along one axis, a nearly square grid is worth the way there, if there is memory for it.
    for (grid, near) in [([1, 4], false), ([8, 1], false), ([1, 8], false), ([64, 1], true)] {
        let kept = chosen(grid, 65536, 1024, ROWS_SHARDED, "null", ("", ""));
        assert_eq!(kept.ends_with("on a nearly square grid"), near, "{grid:?} {kept}");
        let given = chosen(grid, 65536, 1024, ROWS_SHARDED, "null", donated);
        assert!(!given.contains("nearly"), "{grid:?} {given}");
    }
    // Tiles with more padding than elements are not worth the operations.
    assert_eq!(chosen([2, 2], 8200, 4096, ROWS_SHARDED, "null", ("", "")), "stages");
    let stages = ("\"keep_a\"", "\"layout\":\"stages\",\"keep_a\"");
    assert!(chosen([2, 2], 65536, 1024, ROWS_SHARDED, "null", stages).starts_with("stages"));
}

/// Two devices along one axis: the solver is quickest on a grid of one column, and takes A as it stands or
/// by one pass.
#[test]
fn the_lower_triangle_is_factored_where_that_is_cheaper() {
    for (task, promised, view) in [
        ("factor", "lower", "stages"),
        ("factor", "upper", "stages, transposed"),
        ("solve", "lower", "stages"),
    ] {
        for grid in ["[1,1]", "[1,2]", "[2,1]", "[2,2]"] {
            let sides = if task == "solve" { r#","nrhs":1"# } else { "" };
            let text = format!(
                r#"{{"routine":"system","method":"cholesky","task":"{task}","dtype":"f64","n":16384,"grid":{grid},
                    "tile":null,"triangle":"{promised}","layout":"stages"{sides}}}"#
            );
            let plan = Plan::new(&Request::from_json(&text).unwrap()).unwrap();
            assert_eq!(name(&plan), view, "{text}");
        }
    }
}

#[test]
fn ways_on_two_devices() {
    for (grid, keep_a, expected) in [
        ([1, 2], false, "reading, transposed"),
        ([1, 2], true, "reading, transposed"),
        ([2, 1], false, "reading"),
        ([2, 1], true, "reading"),
    ] {
        for n in [16384_u64, 32768, 65536, 100_000] {
            let plan = Plan::from_json(&format!(
                r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":{n},"nrhs":1,"grid":[{},{}],"tile":null,
                    "b":{{"rows":"sharded","cols":"replicated"}},"triangle":null,"log_det":false,
                    "keep_a":{keep_a}}}"#,
                grid[0], grid[1]
            ))
            .unwrap();
            let Plan::System(system) = &plan else { unreachable!("a Cholesky solve was asked for") };
            assert_eq!(system.candidate().to_string(), expected, "{}", system.explain());
            assert_eq!(system.a().forward_traffic(0).sent, 0);
        }
    }
}

#[test]
fn the_explanation_lists_all_candidates() {
    let text = request(Type::F64, 40, 1, [2, 2], 7, ROWS_SHARDED, "\"lower\"");
    let Plan::System(system) = Plan::from_json(&text).unwrap() else {
        unreachable!("a Cholesky solve was asked for")
    };
    let explanation = system.explain();
    for part in [
        "→ stages: ",
        "reading: not possible, it needs both triangles",
        "stages, transposed: not possible, the tile does not divide the shards",
        "reading, transposed: not possible",
    ] {
        assert!(explanation.contains(part), "{part:?} is not in\n{explanation}");
    }
}

#[test]
fn a_reading_that_is_not_possible_is_refused() {
    let with_layout = |text: String| text.replace("\"keep_a\"", "\"layout\":\"reading\",\"keep_a\"");
    for (grid, n, triangle, why) in [
        ([2, 2], 40, "\"lower\"", "it needs both triangles"),
        ([2, 3], 40, "null", "neither side of the grid divides the other"),
    ] {
        let text = with_layout(request(Type::F64, n, 1, grid, 7, REPLICATED, triangle));
        let error = Plan::from_json(&text).unwrap_err();
        assert_eq!(error.kind(), meshsolve::ErrorKind::InvalidArgument);
        for part in [why, "layout \"reading\"", "\"stages\""] {
            assert!(error.to_string().contains(part), "{part:?} is not in {error}");
        }
    }
    let plain = with_layout(request(Type::F64, 40, 1, [2, 4], 7, REPLICATED, "null"));
    assert_eq!(name(&Plan::from_json(&plain).unwrap()), "reading");
}

#[test]
fn the_log_determinant_of_a_diagonal_is_the_sum_of_logarithms() {
    let n = 23;
    let a: Dense =
        (0..n).map(|i| (0..n).map(|j| [if i == j { (i + 1) as f64 } else { 0.0 }, 0.0]).collect()).collect();
    let b = vec![vec![[1.0, 0.0]]; n];
    let exact: f64 = (1..=n).map(|i| (i as f64).ln()).sum();
    for grid in [[1, 1], [2, 2], [3, 2], [2, 4]] {
        for (name, plan) in candidates(&request(Type::F64, n, 1, grid, 4, ROWS_SHARDED, "null")) {
            let solved = solve(Type::F64, &plan, &a, &b, grid);
            let bound = 10.0 * f64::EPSILON * (n as f64 + exact);
            let difference = (solved.log_det - exact).abs();
            assert!(difference <= bound, "{grid:?} {name}: {} is not {exact}", solved.log_det);
        }
    }
}

#[test]
fn failures_are_statuses_and_nan_on_every_rank() {
    let (n, tile) = (24, 3);
    for grid in [[1, 1], [2, 2], [4, 1], [2, 4], [2, 3]] {
        for place in [0, tile, tile + 1, 2 * tile + 1, n - 1] {
            for (value, status) in
                [(-1.0, i32::try_from(place + 1).unwrap()), (f64::INFINITY, -1), (f64::NAN, -1)]
            {
                let mut a: Dense =
                    (0..n).map(|i| (0..n).map(|j| [if i == j { 2.0 } else { 0.0 }, 0.0]).collect()).collect();
                a[place][place][0] = value;
                let b = vec![vec![[1.0, 0.0]; 2]; n];
                for ty in [Type::F64, Type::C128] {
                    let text = request(ty, n, 2, grid, tile as u64, REPLICATED, "null");
                    let ways = candidates(&text);
                    assert!(ways.len() == 4 || grid == [2, 3], "{grid:?}");
                    for (name, plan) in ways {
                        // The row is the caller's, whatever the solver's order.
                        let solved = solve(ty, &plan, &a, &b, grid);
                        assert_eq!(solved.status, status, "{grid:?} {name}: {value} at {place}");
                        assert!(solved.log_det.is_nan());
                        let failed = solved.x.iter().flatten().all(|x| x[0].is_nan());
                        assert!(failed, "{grid:?} {name}: {value} at {place}");
                    }
                }
            }
        }
    }
}

#[test]
fn stages_tell_the_leading_minor_and_readings_a_row() {
    // The leading minor of order 2 is negative, by elements outside the diagonal.
    let n = 8;
    let mut a: Dense =
        (0..n).map(|i| (0..n).map(|j| [if i == j { 2.0 } else { 0.0 }, 0.0]).collect()).collect();
    (a[0][1], a[1][0]) = ([3.0, 0.0], [3.0, 0.0]);
    let b = vec![vec![[1.0, 0.0]]; n];
    // In tiles of 1 over 2 × 2 a reading takes the rows in the order 0, 4, 1, 5, …
    for (name, plan) in candidates(&request(Type::F64, n, 1, [2, 2], 1, REPLICATED, "null")) {
        assert_eq!(solve(Type::F64, &plan, &a, &b, [2, 2]).status, 2, "{name}");
    }
    // With rows 0 and 5 instead the order matters: leading minor 6, and row 5 comes fourth.
    ((a[0][1], a[1][0]), (a[0][5], a[5][0])) = (([0.0; 2], [0.0; 2]), ([3.0, 0.0], [3.0, 0.0]));
    (a[2][3], a[3][2]) = ([3.0, 0.0], [3.0, 0.0]);
    for (name, plan) in candidates(&request(Type::F64, n, 1, [2, 2], 1, REPLICATED, "null")) {
        let expected = if name.starts_with("stages") { 4 } else { 6 };
        assert_eq!(solve(Type::F64, &plan, &a, &b, [2, 2]).status, expected, "{name}");
    }
}

#[test]
fn a_bad_request_says_what_is_wrong() {
    let good = request(Type::F64, 8, 1, [2, 2], 4, ROWS_SHARDED, "null");
    for (from, to, expected) in [
        ("\"tile\":4", "\"tile\":0", "the tile is 0; it must be from 1"),
        ("\"grid\":[2,2]", "\"grid\":[0,2]", "process rows is 0"),
        ("\"dtype\":\"f64\"", "\"dtype\":\"i32\"", "it must be f32, f64, c64 or c128"),
        ("\"dtype\":\"f64\"", "\"dtype\":\"f16\"", "unknown variant `f16`"),
        ("\"keep_a\"", "\"layout\":\"fast\",\"keep_a\"", "unknown variant `fast`"),
        ("\"n\":8", "\"n\":8,\"m\":9", "unknown field `m`"),
        ("\"system\"", "\"potrf\"", "unknown variant `potrf`"),
    ] {
        let error = Plan::from_json(&good.replace(from, to)).unwrap_err();
        assert_eq!(error.kind(), meshsolve::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_grid_order_tile_and_width(
        rows in 1_u64..6, cols in 1_u64..6, n in 1_usize..36, k in 0_usize..9, tile in 1_u64..14,
        kind in 0_usize..4, placement in 0_usize..3,
    ) {
        let ty = [Type::F32, Type::F64, Type::C64, Type::C128][kind];
        let b = [REPLICATED, ROWS_SHARDED, BOTH_SHARDED][placement];
        check_solves(ty, [rows, cols], n, k, tile, b);
        check_lu_solves(ty, [rows, cols], n, k, tile, b);
    }
}
