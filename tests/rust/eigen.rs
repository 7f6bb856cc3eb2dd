//! Hermitian eigenproblems on simulated ranks, held against plain loops over whole matrices.

use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{
    EigenPlan, EigenRequest, EigenTask, Layout, OperandSpec, Placement, Placements, Plan, Request,
};
use meshsolve::simulate::{self, RankOperands};
use meshsolve::solver::Triangle;
use meshsolve::{DType, ErrorKind};
use meshsolve_tests::Memory;
use meshsolve_tests::dense::{
    Complex, Dense, NAN, check_eigenpairs, check_eigenpairs_with_metric, decode, encode, epsilon,
};
use meshsolve_tests::shards::Shards;
use proptest::prelude::*;

const SHARED_ROWS: Placements = Placements { rows: Placement::Sharded, cols: Placement::Replicated };

fn request(task: EigenTask, dtype: DType, n: usize, grid: [u64; 2], tile: u64) -> EigenRequest {
    EigenRequest {
        task,
        dtype,
        n: n as u64,
        nrhs: 0,
        grid,
        tile: Some(tile),
        b: Placements::default(),
        triangle: None,
        metric: false,
        shift: false,
        keep_a: false,
        layout: Layout::Auto,
        view: None,
    }
}

fn name(plan: &EigenPlan) -> String {
    plan.candidate().to_string()
}

/// What may be passed in.
#[derive(Clone, Default)]
struct Given {
    a: Option<Dense>,
    metric: Option<Dense>,
    shift: f64,
    cutoff: f64,
    b: Option<Dense>,
}

struct Found {
    w: Vec<f64>,
    v: Option<Dense>,
    x: Option<Dense>,
    status: i32,
}

/// Runs a plan on all places of the mesh and puts the results together; all places must agree.
fn run(plan: &EigenPlan, given: &Given) -> Found {
    let EigenRequest { dtype, grid, n, nrhs, keep_a, .. } = *plan.request();
    let (n, nrhs) = (n as usize, nrhs as usize);
    let of_a = Shards::of(ProcessGrid::new(grid[0], grid[1]));
    let sharded = |placement| placement == Placement::Sharded;
    let placements = plan.b_placements();
    let of_b = Shards { rows: sharded(placements.rows), cols: sharded(placements.cols), ..of_a };
    let input = |place, spec: &OperandSpec| {
        let number = |value| {
            let mut memory = Memory::new(spec.bytes());
            memory.set_element(spec.dtype, 0, &encode(spec.dtype, (value, 0.0)));
            memory
        };
        match spec.name {
            "a" => of_a.cut(place, spec, given.a.as_ref().unwrap()),
            "metric" => of_a.cut(place, spec, given.metric.as_ref().unwrap()),
            "b" => of_b.cut(place, spec, given.b.as_ref().unwrap()),
            "shift" => number(given.shift),
            "cutoff" => number(given.cutoff),
            other => panic!("{other} is not known"),
        }
    };
    let places = 0..(grid[0] * grid[1]) as usize;
    let inputs: Vec<Vec<Memory>> =
        places.clone().map(|place| plan.inputs().iter().map(|spec| input(place, spec)).collect()).collect();
    let outputs: Vec<Vec<Memory>> =
        places.map(|_| plan.outputs().iter().map(|spec| Memory::new(spec.bytes())).collect()).collect();
    let before: Vec<Vec<u8>> = inputs.iter().flatten().map(|memory| memory.bytes().to_vec()).collect();
    let operands = (inputs.iter().zip(&outputs))
        .map(|(inputs, outputs)| {
            let inputs: Vec<_> = inputs.iter().map(Memory::buffer).collect();
            let outputs = (plan.outputs().iter().zip(outputs))
                .map(|(spec, memory)| spec.alias.map_or_else(|| memory.buffer(), |input| inputs[input]))
                .collect();
            RankOperands { inputs, outputs }
        })
        .collect();
    simulate::run(&Plan::Eigen(Box::new(plan.clone())), operands).unwrap();
    for (index, (now, before)) in inputs.iter().flatten().zip(&before).enumerate() {
        let may_change = index % plan.inputs().len() == 0 && !keep_a;
        assert!(may_change || now.bytes() == before, "{}: an input changed", name(plan));
    }

    let find = |name| plan.outputs().iter().position(|spec| spec.name == name);
    let all = |name| {
        let index = find(name)?;
        Some((&plan.outputs()[index], outputs.iter().map(move |outputs| &outputs[index])))
    };
    let same = |name| {
        let (spec, mut places) = all(name).unwrap();
        let first = places.next().unwrap();
        assert!(places.all(|other| other.bytes() == first.bytes()), "places differ in {name}");
        (spec, first)
    };
    let (spec, values) = same("w");
    let w = (0..n as u64).map(|k| decode(dtype.real(), values.element(spec.dtype, k)).0).collect();
    Found {
        w,
        v: all("v").map(|(spec, places)| of_a.join([n, n], spec, places)),
        x: all("x").map(|(spec, places)| of_b.join([n, nrhs], spec, places)),
        status: i32::from_ne_bytes(same("status").1.bytes().try_into().unwrap()),
    }
}

/// Whether `value` is a number that is at most `bound`, which NaN is not.
fn at_most(value: f64, bound: f64, what: &str) {
    assert!(value <= bound, "{what}: {value:e} above {bound:e}");
}

fn check_pairs(a: &Dense, metric: Option<&Dense>, w: &[f64], v: &Dense, dtype: DType, what: &str) {
    match metric {
        None => check_eigenpairs(a, w, v, dtype, what),
        Some(metric) => check_eigenpairs_with_metric(a, metric, w, v, dtype, what),
    };
}

fn identity(n: usize) -> Dense {
    Dense::diagonal(&vec![1.0; n])
}

/// The matrix with something else in one triangle.
fn with_triangle(a: &Dense, promised: Option<Triangle>, elsewhere: Complex) -> Dense {
    let hidden = |i: usize, j: usize| match promised {
        None => false,
        Some(Triangle::Lower) => i < j,
        Some(Triangle::Upper) => i > j,
    };
    Dense::from_fn(a.rows, a.cols, |i, j| if hidden(i, j) { elsewhere } else { a.at(i, j) })
}

/// Checks vectors and values of all candidates; gives the names of those of vectors and of values.
fn check_all(
    a: &Dense,
    dtype: DType,
    grid: [u64; 2],
    tile: u64,
    triangle: Option<Triangle>,
) -> [Vec<String>; 2] {
    let n = a.rows;
    let given = Given { a: Some(with_triangle(a, triangle, NAN)), ..Given::default() };
    let what = |plan: &EigenPlan| {
        format!("{dtype:?} {grid:?} n={n} T={tile} {triangle:?} {:?} {}", plan.request().task, name(plan))
    };
    let mut values = None;
    let names = [EigenTask::Vectors, EigenTask::Values].map(|task| {
        let request =
            EigenRequest { triangle, keep_a: n.is_multiple_of(2), ..request(task, dtype, n, grid, tile) };
        let plans = EigenPlan::candidates(&request);
        for plan in &plans {
            let found = run(plan, &given);
            assert_eq!(found.status, 0, "{}", what(plan));
            if let Some(v) = &found.v {
                check_pairs(a, None, &found.w, v, dtype, &what(plan));
            }
            let first: &Vec<f64> = values.get_or_insert_with(|| found.w.clone());
            for (one, other) in first.iter().zip(&found.w) {
                let bound = 10.0 * (n.max(16) as f64).sqrt() * epsilon(dtype) * a.one_norm();
                at_most((one - other).abs(), bound, &what(plan));
            }
        }
        plans.iter().map(name).collect::<Vec<_>>()
    });
    if triangle != Some(Triangle::Upper) {
        assert!(!names[0].is_empty(), "{dtype:?} {grid:?} n={n} T={tile} {triangle:?}");
    }
    names
}

#[test]
fn all_grids_and_types() {
    let to_four = (1..=3).flat_map(|rows| (1..=4).map(move |cols| [rows, cols]));
    for grid in to_four.chain([[4, 1], [4, 2], [4, 3], [1, 8], [8, 1], [2, 8], [8, 2]]) {
        let even = (2 * grid[0] * grid[1]) as usize;
        for dtype in DType::ALL {
            // Whole tiles in every shard, ragged tiles, shards that end in padding, fewer tiles than
            // processes.
            for (n, tile) in [(even.max(12), 2), (21, 4), (5, 8), (1, 3), (0, 2)] {
                check_all(&Dense::hermitian(n, dtype, 3), dtype, grid, tile, None);
            }
            for triangle in [Triangle::Lower, Triangle::Upper] {
                check_all(&Dense::hermitian(17, dtype, 3), dtype, grid, 4, Some(triangle));
            }
        }
    }
}

#[test]
fn readings_where_tiles_divide_the_shards() {
    for (grid, n, vectors) in [
        ([1, 1], 16, &["stages", "reading"][..]),
        ([1, 2], 16, &["stages", "reading"]),
        ([2, 1], 16, &["stages", "reading"]),
        ([2, 2], 16, &["stages", "reading"]),
        ([2, 4], 32, &["stages", "reading"]),
        ([4, 2], 32, &["stages", "reading"]),
        ([2, 3], 24, &["stages", "reading"]),
    ] {
        for dtype in [DType::F64, DType::C64] {
            let [of_vectors, of_values] = check_all(&Dense::hermitian(n, dtype, 3), dtype, grid, 4, None);
            assert_eq!(of_vectors, vectors, "{grid:?}");
            assert_eq!(of_values.len(), 4, "{grid:?} {of_values:?}");
        }
    }
    // Nothing of A changes devices for eigenvalues.
    for grid in [[1, 2], [2, 1], [2, 2], [2, 4], [8, 1]] {
        let plan = EigenPlan::new(&request(EigenTask::Values, DType::F64, 4096, grid, 256)).unwrap();
        assert_eq!(plan.a().sent_in_all(false), 0, "{}", plan.explain());
        let plan = EigenPlan::new(&request(EigenTask::Vectors, DType::F64, 4096, grid, 256)).unwrap();
        assert!(name(&plan).starts_with("reading"), "{}", plan.explain());
    }
}

#[test]
fn special_matrices() {
    let n = 24;
    let diagonal = |value: fn(usize) -> f64| Dense::diagonal(&(0..n).map(value).collect::<Vec<_>>());
    // One vector, its outer product: one value that is not zero.
    let outer = Dense::from_fn(n, n, |i, j| ((i + 1) as f64 * (j + 1) as f64 / 64.0, 0.0));
    // Wilkinson's matrix, with pairs of values that are close to each other.
    let wilkinson = Dense::from_fn(n, n, |i, j| match i.abs_diff(j) {
        0 => ((i as f64 - 11.5).abs(), 0.0),
        1 => (1.0, 0.0),
        _ => (0.0, 0.0),
    });
    let graded = Dense::from_fn(n, n, |i, j| (0.5_f64.powi((i + j) as i32), 0.0));
    for (kind, a) in [
        ("identity", identity(n)),
        ("zero", diagonal(|_| 0.0)),
        ("clustered", diagonal(|i| 1.0 + (i / 8) as f64 * 1e-9)),
        ("rank 1", outer),
        ("Wilkinson", wilkinson),
        ("graded", graded),
    ] {
        for grid in [[1, 2], [2, 2], [3, 2]] {
            for dtype in DType::ALL {
                let rounded = Dense::from_fn(n, n, |i, j| decode(dtype, &encode(dtype, a.at(i, j))));
                let names = check_all(&rounded, dtype, grid, 4, None);
                assert!(names[0].contains(&"reading".to_owned()), "{kind} {grid:?}");
            }
        }
    }
}

#[test]
fn a_shift_moves_the_values_and_no_vector() {
    for grid in [[1, 2], [2, 3]] {
        for n in [24, 13] {
            let a = Dense::hermitian(n, DType::C128, 3);
            let given = Given { a: Some(a.clone()), shift: 2.5, ..Given::default() };
            let wanted = request(EigenTask::Vectors, DType::C128, n, grid, 4);
            for plan in EigenPlan::candidates(&EigenRequest { shift: true, ..wanted }) {
                let found = run(&plan, &given);
                let w: Vec<f64> = found.w.iter().map(|value| value - 2.5).collect();
                check_pairs(&a, None, &w, found.v.as_ref().unwrap(), DType::C128, &name(&plan));
            }
        }
    }
}

#[test]
fn a_metric() {
    for (grid, n, tile) in
        [([1, 1], 9, 4), ([1, 2], 16, 4), ([2, 2], 21, 4), ([3, 2], 24, 2), ([2, 4], 32, 4)]
    {
        for dtype in DType::ALL {
            let (a, metric) = (Dense::hermitian(n, dtype, 3), Dense::definite(n, dtype));
            let rounded = |m: &Dense| Dense::from_fn(n, n, |i, j| decode(dtype, &encode(dtype, m.at(i, j))));
            let (a, metric) = (rounded(&a), rounded(&metric));
            for (task, triangle) in [
                (EigenTask::Vectors, None),
                (EigenTask::Vectors, Some(Triangle::Lower)),
                (EigenTask::Values, None),
                (EigenTask::Values, Some(Triangle::Upper)),
            ] {
                let shown = |m: &Dense| Some(with_triangle(m, triangle, NAN));
                let given = Given { a: shown(&a), metric: shown(&metric), ..Given::default() };
                let wanted = EigenRequest { metric: true, triangle, ..request(task, dtype, n, grid, tile) };
                let mut values: Option<Vec<f64>> = None;
                for plan in EigenPlan::candidates(&wanted) {
                    let what = format!("{dtype:?} {grid:?} n={n} {task:?} {triangle:?} {}", name(&plan));
                    let found = run(&plan, &given);
                    assert_eq!(found.status, 0, "{what}");
                    if let Some(v) = &found.v {
                        check_pairs(&a, Some(&metric), &found.w, v, dtype, &what);
                    }
                    let first = values.get_or_insert_with(|| found.w.clone());
                    for (one, other) in first.iter().zip(&found.w) {
                        at_most((one - other).abs(), 50.0 * epsilon(dtype), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_metric_that_is_not_definite_is_a_status() {
    let n = 24;
    for grid in [[1, 1], [2, 2], [2, 3]] {
        for place in [0, 4, 13, 23] {
            let mut metric = identity(n);
            metric.set(place, place, (-1.0, 0.0));
            let given = Given {
                a: Some(Dense::hermitian(n, DType::F64, 3)),
                metric: Some(metric),
                ..Given::default()
            };
            let wanted = request(EigenTask::Vectors, DType::F64, n, grid, 4);
            for plan in EigenPlan::candidates(&EigenRequest { metric: true, ..wanted }) {
                let found = run(&plan, &given);
                assert_eq!(found.status, i32::try_from(place + 1).unwrap(), "{grid:?} {}", name(&plan));
                assert_all_nan(&found);
            }
        }
    }
}

fn assert_all_nan(found: &Found) {
    assert!(found.w.iter().all(|value| value.is_nan()), "{:?}", found.w);
    for matrix in [&found.v, &found.x].into_iter().flatten() {
        assert!(matrix.values.iter().all(|value| value.0.is_nan()));
    }
}

#[test]
fn what_is_not_finite_is_a_status() {
    let n = 16;
    for grid in [[1, 1], [1, 2], [2, 2], [2, 3]] {
        for (value, at) in [(f64::NAN, (0, 0)), (f64::INFINITY, (9, 3)), (f64::NEG_INFINITY, (15, 15))] {
            for dtype in [DType::F32, DType::C128] {
                let mut a = Dense::hermitian(n, dtype, 3);
                a.set(at.0, at.1, (value, 0.0));
                let given = Given { a: Some(a), b: Some(identity(n)), ..Given::default() };
                for task in [EigenTask::Values, EigenTask::Vectors, EigenTask::Solve] {
                    let wanted = EigenRequest { nrhs: n as u64, ..request(task, dtype, n, grid, 4) };
                    for plan in EigenPlan::candidates(&wanted) {
                        let found = run(&plan, &given);
                        assert_eq!(found.status, -1, "{grid:?} {task:?} {}", name(&plan));
                        assert_all_nan(&found);
                    }
                }
            }
        }
    }
}

/// A = U·D·Uᴴ with the reflection U = I − 2·u·uᴴ: the pseudoinverse is U·D⁺·Uᴴ.
#[test]
fn solves_by_the_eigenvalues_that_count() {
    let placements = [
        Placements::default(),
        SHARED_ROWS,
        Placements { rows: Placement::Sharded, cols: Placement::Sharded },
    ];
    for (turn, grid) in [[1, 1], [1, 2], [2, 1], [2, 2], [2, 3], [4, 2]].into_iter().enumerate() {
        for dtype in DType::ALL {
            for (n, tile) in [(24, 3), (13, 4)] {
                let reflection = Dense::reflection(n, dtype);
                // A third of the values is negligible.
                let value = |k: usize| match k % 3 {
                    0 => 0.0,
                    1 => 1.0 + k as f64 / 8.0,
                    _ => -2.0 - k as f64 / 8.0,
                };
                let with = |f: &dyn Fn(usize) -> f64| {
                    let d: Vec<f64> = (0..n).map(f).collect();
                    reflection.times(&Dense::diagonal(&d)).times(&reflection)
                };
                let exact = with(&|k| if k % 3 == 0 { 0.0 } else { value(k).recip() });
                for (which, nrhs) in [1, 5, 0].into_iter().enumerate() {
                    let b = Dense::arbitrary(n, nrhs, dtype, 9);
                    let given =
                        Given { a: Some(with(&value)), b: Some(b.clone()), cutoff: 1e-3, ..Given::default() };
                    let wanted = EigenRequest {
                        nrhs: nrhs as u64,
                        b: placements[(turn + which) % 3],
                        ..request(EigenTask::Solve, dtype, n, grid, tile)
                    };
                    let expected = exact.times(&b);
                    let plans = EigenPlan::candidates(&wanted);
                    assert!(n == 13 || grid == [2, 3] || plans.len() > 1, "{grid:?}: readings are possible");
                    for plan in plans {
                        let found = run(&plan, &given);
                        let what = format!("{dtype:?} {grid:?} n={n} k={nrhs} {}", name(&plan));
                        assert_eq!(found.status, 0, "{what}");
                        let error = found.x.unwrap().minus(&expected).one_norm();
                        at_most(
                            error,
                            50.0 * (n as f64).sqrt() * epsilon(dtype) * b.one_norm().max(1.0),
                            &what,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_not_possible_is_refused() {
    let upper = r#"{"routine":"eigen","task":"vectors","dtype":"f64","n":8,"grid":[1,2],"tile":4,"triangle":"upper"}"#;
    for (from, to, why) in [
        ("", "", "from the lower triangle"),
        ("\"vectors\"", "\"solve\",\"metric\":true", "without a metric"),
        (
            "\"upper\"",
            "null,\"layout\":\"reading\",\"view\":\"transposed\"",
            "vectors would come back transposed",
        ),
        ("\"tile\":4", "\"tile\":0", "the tile is 0"),
    ] {
        let error = Plan::from_json(&upper.replace(from, to)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(why), "{error}");
    }
    let wanted = request(EigenTask::Values, DType::F64, 21, [2, 2], 4);
    let error = EigenPlan::new(&EigenRequest { layout: Layout::Reading, ..wanted }).unwrap_err();
    assert!(error.to_string().contains("the tile does not divide the shards"), "{error}");
    assert!(matches!(Request::from_json(&upper.replace("upper", "lower")), Ok(Request::Eigen(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_grid_order_and_tile(
        rows in 1_u64..5, cols in 1_u64..5, n in 0_usize..40, tile in 1_u64..14, kind in 0_usize..4,
        promised in 0_usize..3, has_metric: bool, shift in -2.0_f64..2.0,
    ) {
        let dtype = DType::ALL[kind];
        let triangle = [None, Some(Triangle::Lower), Some(Triangle::Upper)][promised];
        let (a, metric) = (Dense::hermitian(n, dtype, 5), Dense::definite(n, dtype));
        // As the element type has them.
        let rounded = |m: &Dense| Dense::from_fn(n, n, |i, j| decode(dtype, &encode(dtype, m.at(i, j))));
        let (a, metric) = (rounded(&a), rounded(&metric));
        let moved = a.minus(&Dense::diagonal(&vec![-shift; n]));
        let given = Given {
            a: Some(with_triangle(&a, triangle, NAN)),
            metric: Some(with_triangle(&metric, triangle, NAN)),
            shift,
            ..Given::default()
        };
        let mut values: Option<Vec<f64>> = None;
        for task in [EigenTask::Vectors, EigenTask::Values] {
            let wanted = request(task, dtype, n, [rows, cols], tile);
            let wanted = EigenRequest { triangle, metric: has_metric, shift: true, ..wanted };
            for plan in EigenPlan::candidates(&wanted) {
                let found = run(&plan, &given);
                let what = name(&plan);
                prop_assert_eq!(found.status, 0, "{}", what);
                if let Some(v) = &found.v {
                    check_pairs(&moved, has_metric.then_some(&metric), &found.w, v, dtype, &what);
                }
                let first = values.get_or_insert_with(|| found.w.clone());
                let largest = first.iter().fold(moved.one_norm(), |largest, value| largest.max(value.abs()));
                for (one, other) in first.iter().zip(&found.w) {
                    at_most((one - other).abs(), 10.0 * (n.max(16) as f64).sqrt() * epsilon(dtype) * largest, &what);
                }
            }
        }
    }
}
