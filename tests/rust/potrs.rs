//! The Cholesky solve on simulated ranks: residuals by plain loops on dense copies.

use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{OperandSpec, Plan};
use meshsolve::simulate::{self, RankOperands};
use meshsolve_tests::Memory;

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

/// Runs a request on all ranks and puts x together; every rank must agree on status and log det.
fn solve(ty: Type, request: &str, a: &Dense, b: &Dense, grid: [u64; 2]) -> Solved {
    let plan = Plan::from_json(request).unwrap();
    let grid = ProcessGrid::new(grid[0], grid[1]);
    let (n, k) = (a.len(), b.first().map_or(0, Vec::len));
    let size = |spec: &OperandSpec| Memory::new(spec.bytes());
    let fill = |spec: &OperandSpec, from: &Dense, rows_at: usize, cols_at: usize| {
        let mut memory = size(spec);
        let (rows, cols) = (spec.shape[0] as usize, spec.shape[1] as usize);
        for i in 0..rows {
            for j in 0..cols {
                let value =
                    from.get(rows_at + i).and_then(|r| r.get(cols_at + j)).copied().unwrap_or([0.0; 2]);
                memory.set_element(spec.dtype, (i * cols + j) as u64, &ty.bytes(value));
            }
        }
        memory
    };
    let replicated = request.contains("\"rows\":\"replicated\"");
    let mut memories = Vec::new();
    for rank in 0..grid.size() {
        let at = grid.coordinate(rank);
        let [sa, sb] = plan.inputs() else { panic!() };
        let a = fill(sa, a, at.row as usize * sa.shape[0] as usize, at.col as usize * sa.shape[1] as usize);
        let first = if replicated { 0 } else { at.row as usize * sb.shape[0] as usize };
        let b = fill(sb, b, first, 0);
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
    simulate::run(&plan, operands).unwrap();
    if request.contains("\"keep_a\":true") {
        assert!(
            memories.iter().zip(&given).all(|((inputs, _), given)| inputs[0].bytes() == given),
            "A changed"
        );
    }

    let mut x: Dense = vec![vec![[f64::NAN; 2]; k]; n];
    let mut statuses = Vec::new();
    for (rank, (_, outputs)) in (0..).zip(&memories) {
        let spec = &plan.outputs()[2];
        let first = if replicated { 0 } else { grid.coordinate(rank).row as usize * spec.shape[0] as usize };
        for i in 0..spec.shape[0] as usize {
            for j in 0..k {
                if let Some(row) = x.get_mut(first + i) {
                    row[j] = ty.value(outputs[2].element(spec.dtype, (i * k + j) as u64));
                }
            }
        }
        let real = if ty.is_double() { Type::F64 } else { Type::F32 };
        let status = i32::from_ne_bytes(outputs[4].bytes().try_into().unwrap());
        statuses.push((status, real.value(outputs[3].bytes())[0].to_bits()));
    }
    assert!(statuses.windows(2).all(|w| w[0] == w[1]), "ranks disagree: {statuses:?}");
    Solved { x, log_det: f64::from_bits(statuses[0].1), status: statuses[0].0 }
}

fn request(ty: Type, n: usize, k: usize, grid: [u64; 2], tile: u64, rows: &str, triangle: &str) -> String {
    format!(
        r#"{{"routine":"potrs","dtype":"{}","n":{n},"nrhs":{k},"grid":[{},{}],"tile":{tile},
            "b":{{"rows":"{rows}","cols":"replicated"}},"triangle":{triangle},"log_det":true,"keep_a":{}}}"#,
        ty.name(),
        grid[0],
        grid[1],
        rows == "sharded"
    )
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

#[test]
fn solves_on_all_grids_and_types() {
    for ty in [Type::F32, Type::F64, Type::C64, Type::C128] {
        for (grid, n, k, tile) in [
            ([1, 1], 20, 2, 7),
            ([1, 2], 24, 1, 4),
            ([2, 1], 39, 3, 10),
            ([2, 2], 40, 5, 7),
            ([2, 3], 30, 1, 5),
            ([3, 2], 41, 4, 64),
            ([2, 4], 16, 9, 2),
            ([8, 1], 21, 2, 3),
            ([2, 2], 1, 1, 4),
        ] {
            let a = positive_definite(ty, n);
            let b: Dense = (0..n)
                .map(|i| {
                    (0..k)
                        .map(|j| {
                            ty.rounded([(i * k + j + 1) as f64, if ty.is_complex() { 0.25 } else { 0.0 }])
                        })
                        .collect()
                })
                .collect();
            for rows in ["sharded", "replicated"] {
                for (triangle, hidden) in
                    [("null", None), ("\"lower\"", Some(false)), ("\"upper\"", Some(true))]
                {
                    let is_hidden = |i: usize, j: usize| match hidden {
                        None => false,
                        Some(below) => {
                            if below {
                                i > j
                            } else {
                                i < j
                            }
                        }
                    };
                    let shown = |i: usize, j: usize| if is_hidden(i, j) { [f64::NAN; 2] } else { a[i][j] };
                    let given: Dense = (0..n).map(|i| (0..n).map(|j| shown(i, j)).collect()).collect();
                    let what = format!("{ty:?} {grid:?} n={n} k={k} T={tile} b {rows} triangle {triangle}");
                    let solved = solve(ty, &request(ty, n, k, grid, tile, rows, triangle), &given, &b, grid);
                    assert_eq!(solved.status, 0, "{what}");
                    assert_solves(ty, &a, &solved.x, &b, &what);
                    assert!(solved.log_det.is_finite(), "{what}");
                }
            }
        }
    }
}

#[test]
fn the_log_determinant_of_a_diagonal_is_the_sum_of_logarithms() {
    let n = 23;
    let a: Dense =
        (0..n).map(|i| (0..n).map(|j| [if i == j { (i + 1) as f64 } else { 0.0 }, 0.0]).collect()).collect();
    let b = vec![vec![[1.0, 0.0]]; n];
    let exact: f64 = (1..=n).map(|i| (i as f64).ln()).sum();
    for grid in [[1, 1], [2, 2], [3, 2]] {
        let solved = solve(Type::F64, &request(Type::F64, n, 1, grid, 4, "sharded", "null"), &a, &b, grid);
        let bound = 10.0 * f64::EPSILON * (n as f64 + exact);
        assert!((solved.log_det - exact).abs() <= bound, "{grid:?}: {} is not {exact}", solved.log_det);
    }
}

#[test]
fn failures_are_statuses_and_nan_on_every_rank() {
    let n = 12;
    let tile = 3;
    for grid in [[1, 1], [2, 2], [3, 1]] {
        for place in [0, tile, tile + 1, n - 1] {
            for (value, status) in
                [(-1.0, i32::try_from(place + 1).unwrap()), (f64::INFINITY, -1), (f64::NAN, -1)]
            {
                let mut a: Dense =
                    (0..n).map(|i| (0..n).map(|j| [if i == j { 2.0 } else { 0.0 }, 0.0]).collect()).collect();
                a[place][place][0] = value;
                let b = vec![vec![[1.0, 0.0]; 2]; n];
                let text = request(Type::F64, n, 2, grid, tile as u64, "replicated", "null");
                let solved = solve(Type::F64, &text, &a, &b, grid);
                assert_eq!(solved.status, status, "{grid:?}: {value} at {place}");
                assert!(solved.log_det.is_nan());
                assert!(solved.x.iter().flatten().all(|x| x[0].is_nan()), "{grid:?}: {value} at {place}");
            }
        }
    }
}

#[test]
fn a_bad_request_says_what_is_wrong() {
    let good = request(Type::F64, 8, 1, [2, 2], 4, "sharded", "null");
    for (from, to, expected) in [
        ("\"tile\":4", "\"tile\":0", "the tile is 0; it must be from 1"),
        ("\"grid\":[2,2]", "\"grid\":[0,2]", "process rows is 0"),
        ("\"dtype\":\"f64\"", "\"dtype\":\"i32\"", "it must be f32, f64, c64 or c128"),
        ("\"dtype\":\"f64\"", "\"dtype\":\"f16\"", "unknown variant `f16`"),
        ("\"n\":8", "\"n\":8,\"m\":9", "unknown field `m`"),
        ("potrs", "potrf", "unknown variant `potrf`"),
    ] {
        let error = Plan::from_json(&good.replace(from, to)).unwrap_err();
        assert_eq!(error.kind(), meshsolve::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(expected), "{error}");
    }
}
