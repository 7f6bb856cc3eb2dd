//! Products on simulated ranks, held against plain loops over whole matrices.

use meshsolve::layout::ProcessGrid;
use meshsolve::plan::{Layout, Plan, ProductPlan, ProductRequest, Request, View};
use meshsolve::simulate::{self, RankOperands};
use meshsolve::{DType, ErrorKind};
use meshsolve_tests::Memory;
use meshsolve_tests::dense::{Dense, NAN, epsilon};
use meshsolve_tests::shards::Shards;
use proptest::prelude::*;

/// m, n and k.
type Sizes = [usize; 3];

fn request(dtype: DType, [m, n, k]: Sizes, grid: [u64; 2], tile: Option<u64>) -> ProductRequest {
    let [m, n, k] = [m, n, k].map(|size| size as u64);
    ProductRequest { dtype, m, n, k, grid, tile, layout: Layout::Auto, view: None }
}

fn name(plan: &ProductPlan) -> String {
    plan.candidate().to_string()
}

/// Runs a plan on all places of the mesh and puts C together. What shards hold beyond A and B is NaN.
fn multiply(plan: &ProductPlan, a: &Dense, b: &Dense) -> Dense {
    let ProductRequest { grid, .. } = *plan.request();
    let shards = Shards::of(ProcessGrid::new(grid[0], grid[1]));
    let places = 0..(grid[0] * grid[1]) as usize;
    let inputs: Vec<[Memory; 2]> = (places.clone())
        .map(|place| [shards.cut(place, &plan.inputs()[0], a), shards.cut(place, &plan.inputs()[1], b)])
        .collect();
    let given: Vec<Vec<u8>> = inputs.iter().flatten().map(|memory| memory.bytes().to_vec()).collect();
    let outputs: Vec<Vec<Memory>> = (places.clone())
        .map(|_| plan.outputs().iter().map(|spec| Memory::new(spec.bytes())).collect())
        .collect();
    let operands = (inputs.iter().zip(&outputs))
        .map(|(inputs, outputs)| RankOperands {
            inputs: inputs.iter().map(Memory::buffer).collect(),
            outputs: outputs.iter().map(Memory::buffer).collect(),
        })
        .collect();
    simulate::run(&Plan::Product(Box::new(plan.clone())), operands).unwrap();
    let unchanged = inputs.iter().flatten().zip(&given).all(|(now, given)| now.bytes() == given);
    assert!(unchanged, "{}: A or B changed", name(plan));

    shards.join([a.rows, b.cols], &plan.outputs()[0], outputs.iter().map(|of| &of[0]))
}

/// Multiplies by every candidate and checks C: |C − A·B| ≤ (k + 1)·ε·|A|·|B|, element by element. Gives
/// the candidates' names.
fn check_products(request: &ProductRequest) -> Vec<String> {
    let [m, n, k] = [request.m, request.n, request.k].map(|size| size as usize);
    let a = Dense::arbitrary(m, k, request.dtype, 1);
    let b = Dense::arbitrary(k, n, request.dtype, 2);
    let (expected, magnitude) = (a.times(&b), a.magnitude().times(&b.magnitude()));
    let bound = (k + 1) as f64 * epsilon(request.dtype);
    let plans = ProductPlan::candidates(request);
    for plan in &plans {
        let distance = multiply(plan, &a, &b).distance(&expected, &magnitude);
        assert!(distance <= bound, "{request:?} {}: {distance:e} above {bound:e}", name(plan));
    }
    plans.iter().map(name).collect()
}

#[test]
fn multiplies_on_all_grids_and_types() {
    let to_four = (1..=3).flat_map(|rows| (1..=4).map(move |cols| [rows, cols]));
    for grid in to_four.chain([[4, 1], [4, 2], [4, 3], [1, 8], [8, 1], [2, 8], [8, 2]]) {
        let even = (2 * grid[0] * grid[1]) as usize;
        for dtype in DType::ALL {
            // Whole tiles in every shard, ragged tiles, shards that end in padding, fewer tiles than
            // processes.
            for (sizes, tile) in [
                ([even, 2 * even, even], 2),
                ([21, 13, 30], 4),
                ([9, 38, 17], 5),
                ([3, 5, 2], 8),
                ([1, 1, 1], 3),
            ] {
                let names = check_products(&request(dtype, sizes, grid, Some(tile)));
                assert_eq!(names[0], "stages", "{grid:?}");
            }
        }
    }
}

#[test]
fn a_tile_for_each_of_m_n_and_k() {
    for (grid, sizes) in [([2, 2], [40, 1100, 1200]), ([1, 2], [700, 20, 2100]), ([2, 3], [48, 60, 1536])] {
        for dtype in [DType::F64, DType::C64] {
            let names = check_products(&request(dtype, sizes, grid, None));
            assert!(names.contains(&"reading, transposed".to_owned()), "{grid:?} {names:?}");
        }
    }
    let plan = ProductPlan::new(&request(DType::F64, [40, 1100, 1200], [2, 2], None)).unwrap();
    // Aᵀ is k × m, Cᵀ is n × m.
    let tiles = [plan.c().cols().tile(), plan.c().rows().tile(), plan.a().rows().tile()];
    assert_eq!((name(&plan).as_str(), tiles), ("reading, transposed", [20, 275, 300]));
}

#[test]
fn extents_of_zero() {
    for grid in [[1, 1], [2, 2], [1, 3], [2, 3]] {
        for dtype in [DType::F32, DType::C128] {
            for sizes in [[0, 4, 6], [6, 0, 4], [0, 0, 0], [0, 5, 0], [6, 6, 0], [7, 5, 0]] {
                for tile in [None, Some(2)] {
                    // Where k is 0, every element has to be 0 exactly.
                    assert!(!check_products(&request(dtype, sizes, grid, tile)).is_empty());
                }
            }
        }
    }
}

#[test]
fn the_possible_candidates() {
    let names = |sizes, grid, tile| check_products(&request(DType::F64, sizes, grid, Some(tile)));
    let all = ["stages", "reading", "stages, transposed", "reading, transposed"];
    assert_eq!(names([8, 12, 16], [2, 2], 2), all);
    assert_eq!(names([12, 12, 24], [2, 3], 2), all, "one side of k is dealt");
    assert_eq!(names([8, 12, 16], [2, 2], 3), all[..2], "buffers grow");
    assert_eq!(names([8, 16, 15], [2, 2], 4), all[..3], "NaN beyond k stays out");
    assert_eq!(names([11, 7, 16], [2, 2], 2), all, "NaN beyond m and n is multiplied, to lie beyond C");
    assert_eq!(names([12, 12, 20], [2, 3], 2), all[..1], "no whole tiles to be dealt");
}

#[test]
fn a_layout_that_is_impossible_is_refused() {
    let impossible =
        ProductRequest { layout: Layout::Reading, ..request(DType::F64, [12; 3], [2, 3], Some(5)) };
    let error = ProductPlan::new(&impossible).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("on 2 × 3 processes there is none"), "{error}");
    let forced = ProductRequest { view: Some(View::Plain), ..request(DType::F64, [8; 3], [2, 2], None) };
    assert_eq!(ProductPlan::new(&forced).unwrap().candidate().view, View::Plain);
    for (text, expected) in [
        (r#"{"routine":"product","dtype":"f64","m":2,"n":2,"k":2,"grid":[0,1]}"#, "process rows is 0"),
        (r#"{"routine":"product","dtype":"i32","m":2,"n":2,"k":2,"grid":[1,1]}"#, "it must be f32, f64"),
        (r#"{"routine":"product","dtype":"f64","m":2,"n":2,"k":268435457,"grid":[1,1]}"#, "columns of a is"),
        (r#"{"routine":"product","dtype":"f64","m":2,"n":2,"grid":[1,1]}"#, "missing field `k`"),
    ] {
        let error = Request::from_json(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Where one side of the grid divides the other, a reading has nothing to send; the transposed view copies
/// at most one operand, whose tiles are put in another order.
#[test]
fn readings_send_nothing_and_need_little_memory() {
    for grid in [[1, 1], [1, 2], [2, 1], [1, 8], [8, 1], [2, 2], [3, 3], [2, 4], [8, 2], [3, 6]] {
        let shard = 8 * 4608 * 4608 / (grid[0] * grid[1]);
        let request = request(DType::F64, [4608; 3], grid, None);
        for plan in ProductPlan::candidates(&request) {
            let what = format!("{grid:?} {}", name(&plan));
            let sent = [plan.a().sent_in_all(false), plan.b().sent_in_all(false), plan.c().sent_in_all(true)];
            match (plan.candidate().layout, plan.candidate().view) {
                (Layout::Reading, View::Transposed) => {
                    let copied = if grid[0] == grid[1] { 0 } else { shard };
                    assert_eq!((sent, plan.temporary_bytes()), ([0; 3], copied), "{what}");
                    assert!(plan.explain().contains("as it stands, the transpose"), "{}", plan.explain());
                }
                (Layout::Reading, View::Plain) => {
                    // A and B are converted, and C where it stands, with two slabs of scratch.
                    assert_eq!(sent, [0; 3], "{what}");
                    assert!(plan.temporary_bytes() <= 3 * shard, "{what}");
                }
                (Layout::Auto | Layout::Stages, _) => {
                    assert_eq!(sent == [0; 3], grid == [1, 1], "{what}");
                }
            }
        }
        let chosen = ProductPlan::new(&request).unwrap();
        assert_eq!(chosen.candidate().view, View::Transposed, "{grid:?}");
        assert!(chosen.temporary_bytes() <= shard, "{grid:?}");
    }
}

/// An element that is not finite spoils its row or its column of C and nothing else, whatever the order.
#[test]
fn what_is_not_finite_is_multiplied() {
    for (grid, tile) in [([2, 2], 2), ([1, 4], 2), ([2, 3], 3), ([2, 2], 5)] {
        let (mut a, mut b) =
            (Dense::arbitrary(12, 18, DType::F64, 1), Dense::arbitrary(18, 12, DType::F64, 2));
        a.set(7, 17, NAN);
        b.set(16, 4, (f64::INFINITY, 0.0));
        for plan in ProductPlan::candidates(&request(DType::F64, [12, 12, 18], grid, Some(tile))) {
            let c = multiply(&plan, &a, &b);
            for i in 0..12 {
                for j in 0..12 {
                    let finite = c.at(i, j).0.is_finite();
                    assert_eq!(finite, i != 7 && j != 4, "{grid:?} {} at {i}, {j}", name(&plan));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Small integers, whose products and sums are exact in every type and order, so that C is exact.
    #[test]
    fn products_of_integers_are_exact(
        grid in prop_oneof![[1_u64..4, 1_u64..5], Just([1, 8]), Just([8, 1]), Just([2, 8]), Just([6, 2])],
        sizes in [0_usize..40, 0_usize..40, 0_usize..40],
        tile in prop_oneof![Just(None), (1_u64..12).prop_map(Some)],
        whole_tiles: bool, turn in 0_usize..4,
    ) {
        let dtype = DType::ALL[turn];
        // Shards that tiles divide are rare among arbitrary sizes.
        let unit = (grid[0] * grid[1] * tile.unwrap_or(1)) as usize;
        let sizes = if whole_tiles { sizes.map(|size| size.div_ceil(20) * unit.min(72)) } else { sizes };
        let [m, n, k] = sizes;
        let digit = |i: usize, j: usize| (f64::from((i * 7 + j * 3) as u32 % 17) - 8.0, 0.0);
        let (a, b) = (Dense::from_fn(m, k, digit), Dense::from_fn(k, n, |i, j| digit(j + 1, i)));
        let expected = a.times(&b);
        for plan in ProductPlan::candidates(&request(dtype, sizes, grid, tile)) {
            let name = name(&plan);
            prop_assert!(multiply(&plan, &a, &b) == expected, "{} {:?} {:?} {:?}", name, grid, sizes, tile);
        }
    }
}
