//! The redistribution as a routine of its own: planned, run on simulated ranks, and compared bit for bit
//! with tiles that are dealt out one by one.

use meshsolve::DType;
use meshsolve::layout::Coordinate;
use meshsolve::plan::{Direction, Plan, RedistributePlan, RedistributeRequest, Request};
use meshsolve::simulate::{self, RankOperands};
use meshsolve_tests::{Memory, deal, encoded};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    grid: [u64; 2],
    extent: [u64; 2],
    tile: u64,
}

const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];

impl Case {
    fn plan(&self, direction: Direction, keep_a: bool) -> Plan {
        let request = format!(
            r#"{{"routine":"redistribute","dtype":"{}","m":{},"n":{},"grid":[{},{}],"tile":{},
                "direction":"{}","keep_a":{keep_a}}}"#,
            format!("{:?}", self.dtype).to_lowercase(),
            self.extent[0],
            self.extent[1],
            self.grid[0],
            self.grid[1],
            self.tile,
            if direction == Direction::Forward { "forward" } else { "reverse" }
        );
        Plan::from_json(&request).unwrap()
    }

    fn places(&self) -> impl Iterator<Item = Coordinate> + use<> {
        let [rows, cols] = self.grid;
        (0..rows).flat_map(move |row| (0..cols).map(move |col| Coordinate { row, col }))
    }

    /// Places in the shard of a device, with the bytes of the real elements there.
    fn shard_elements(&self, at: Coordinate) -> Vec<(u64, Vec<u8>)> {
        let [rows, cols] = [0, 1].map(|axis| self.extent[axis].div_ceil(self.grid[axis]));
        (0..rows)
            .flat_map(|i| (0..cols).map(move |j| (i, j)))
            .filter_map(|(i, j)| {
                let (gi, gj) = (at.row * rows + i, at.col * cols + j);
                let real = gi < self.extent[0] && gj < self.extent[1];
                real.then(|| (i * cols + j, encoded(self.dtype, gi, gj)))
            })
            .collect()
    }

    fn shards(&self, bytes: u64) -> Vec<Memory> {
        self.places()
            .map(|at| {
                let mut memory = Memory::new(bytes);
                for (place, value) in self.shard_elements(at) {
                    memory.set_element(self.dtype, place, &value);
                }
                memory
            })
            .collect()
    }

    /// Fails unless every element of the matrix stands where dealing tiles out puts it.
    fn check_cyclic(&self, plan: &RedistributePlan, local: &[Memory]) {
        let buffers = plan.local_buffers();
        let rows = deal(self.extent[0], self.tile, self.grid[0]);
        let cols = deal(self.extent[1], self.tile, self.grid[1]);
        for (gi, &(r, i)) in (0..).zip(&rows) {
            for (gj, &(c, j)) in (0..).zip(&cols) {
                let owner = usize::try_from(r * self.grid[1] + c).unwrap();
                let found = local[owner].element(self.dtype, i + j * buffers.rows);
                assert!(
                    found == encoded(self.dtype, gi, gj),
                    "{self:?}: element ({gi}, {gj}) is not at ({i}, {j}) of process ({r}, {c})"
                );
            }
        }
        for (axis, owned) in [(rows, &buffers.owned_rows), (cols, &buffers.owned_cols)] {
            let counted = (0..)
                .zip(owned)
                .all(|(p, &count)| count == axis.iter().filter(|(owner, _)| *owner == p).count() as u64);
            assert!(counted, "{self:?}: {owned:?}");
        }
    }

    fn check_shards(&self, shards: &[Memory]) {
        for (at, memory) in self.places().zip(shards) {
            for (place, value) in self.shard_elements(at) {
                assert!(
                    memory.element(self.dtype, place) == value,
                    "{self:?}: {at:?} did not get back what it gave"
                );
            }
        }
    }
}

fn of(plan: &Plan) -> &RedistributePlan {
    let Plan::Redistribute(plan) = plan else { unreachable!("a redistribution was asked for") };
    plan
}

/// What a plan's last output holds on every rank. Outputs that are aliases have memory of their own
/// unless they are to be `shared`.
fn run(plan: &Plan, input: &[Memory], shared: bool) -> Vec<Memory> {
    let memory: Vec<Vec<Memory>> = (input.iter())
        .map(|_| plan.outputs().iter().map(|spec| Memory::new(spec.bytes())).collect())
        .collect();
    let operands: Vec<RankOperands> = (input.iter().zip(&memory))
        .map(|(input, memory)| RankOperands {
            inputs: vec![input.buffer()],
            outputs: (plan.outputs().iter().zip(memory))
                .map(|(spec, own)| if shared && spec.alias == Some(0) { input } else { own }.buffer())
                .collect(),
        })
        .collect();
    simulate::run(plan, operands.clone()).unwrap();
    (operands.iter())
        .map(|operands| {
            let last = operands.outputs.last().unwrap();
            let mut result = Memory::new(last.bytes());
            // SAFETY: the ranks are done, and `input` and `memory` are still there.
            result.bytes_mut().copy_from_slice(unsafe { last.as_slice() });
            result
        })
        .collect()
}

fn check(case: Case) {
    for (keep_a, shared) in [(true, false), (false, false), (false, true)] {
        let forward = case.plan(Direction::Forward, keep_a);
        let given = case.shards(forward.inputs()[0].bytes());
        let cyclic = run(&forward, &given, shared);
        case.check_cyclic(of(&forward), &cyclic);

        let reverse = case.plan(Direction::Reverse, keep_a);
        let before: Vec<Vec<u8>> = cyclic.iter().map(|memory| memory.bytes().to_vec()).collect();
        let back = run(&reverse, &cyclic, shared);
        case.check_shards(&back);
        if keep_a {
            case.check_shards(&given);
            assert!(cyclic.iter().zip(&before).all(|(now, before)| now.bytes() == before), "{case:?}");
        }
    }
}

#[test]
fn every_grid_to_four_by_four() {
    for (pr, pc) in (1..=4).flat_map(|pr| (1..=4).map(move |pc| (pr, pc))).chain([(1, 8), (8, 1), (2, 4)]) {
        let both = pr * pc;
        // Whole tiles in square and in other shards, ragged, tall, wide, smaller than the tile, fewer
        // elements than processes, empty.
        for (m, n, tile) in [
            (both * 6, both * 6, 3),
            (both * 4, both * 8, 4),
            (13, 17, 3),
            (41, 6, 5),
            (2, 37, 4),
            (3, 5, 8),
            (2, 1, 1),
            (0, 3, 2),
            (4, 0, 3),
        ] {
            for dtype in TYPES {
                check(Case { dtype, grid: [pr, pc], extent: [m, n], tile });
            }
        }
    }
}

#[test]
fn memory_is_taken_over_only_where_it_may_be() {
    let whole = Case { dtype: DType::F64, grid: [2, 3], extent: [16, 36], tile: 4 };
    let ragged = Case { tile: 5, ..whole };
    let outputs = |case: &Case, direction: Direction, keep_a: bool| -> Vec<(&'static str, Vec<u64>, bool)> {
        let plan = case.plan(direction, keep_a);
        plan.outputs().iter().map(|o| (o.name, o.shape.clone(), o.alias.is_some())).collect()
    };
    let (forward, reverse) = (Direction::Forward, Direction::Reverse);
    assert_eq!(outputs(&whole, forward, true), [("cyclic", vec![12, 8], false)]);
    assert_eq!(outputs(&whole, forward, false), [("cyclic", vec![8, 12], true)]);
    assert_eq!(outputs(&ragged, forward, false), [("cyclic", vec![15, 10], false)]);
    let with_work = |aliased| [("work", vec![12, 8], aliased), ("a", vec![8, 12], false)];
    assert_eq!(outputs(&whole, reverse, true), with_work(false));
    assert_eq!(outputs(&whole, reverse, false), [("a", vec![8, 12], true)]);
    let with_work = |aliased| [("work", vec![15, 10], aliased), ("a", vec![8, 12], false)];
    assert_eq!(outputs(&ragged, reverse, true), with_work(false));
    assert_eq!(outputs(&ragged, reverse, false), with_work(true));
}

#[test]
fn a_tile_is_chosen_by_the_smaller_extent() {
    let plan = |m, n| {
        RedistributePlan::new(&RedistributeRequest {
            dtype: DType::F32,
            m,
            n,
            grid: [2, 2],
            tile: None,
            direction: Direction::Forward,
            keep_a: true,
        })
    };
    assert_eq!(plan(65536, 65536).tile(), 2048);
    assert_eq!((plan(65536, 400).tile(), plan(400, 65536).tile()), (200, 200));
    assert!(plan(65536, 1).tile() > 1, "single rows are no tiles");
    assert!(plan(0, 0).tile() > 0);
    let text = plan(65536, 400).explain();
    assert!(
        text.starts_with("Redistribution to the block-cyclic distribution, float32, 65536 × 400"),
        "{text}"
    );
}

#[test]
fn requests_that_are_refused() {
    let good =
        r#"{"routine":"redistribute","dtype":"f64","m":4,"n":6,"grid":[2,2],"tile":2,"direction":"forward"}"#;
    assert!(Request::from_json(good).is_ok());
    for (from, to, part) in [
        (r#""tile":2"#, r#""tile":0"#, "the tile is 0; it must be from 1"),
        (r#""m":4"#, r#""m":4000000000"#, "the number of rows of a is 4000000000"),
        (r#""n":6"#, r#""n":4000000000"#, "the number of columns of a is 4000000000"),
        ("[2,2]", "[2,0]", "the number of process columns is 0"),
        ("f64", "i32", "the element type is I32"),
        ("forward", "sideways", "sideways"),
        (r#""m":4,"#, "", "missing field `m`"),
        (r#""m":4"#, r#""m":4,"k":1"#, "unknown field `k`"),
    ] {
        let error = Request::from_json(&good.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(part), "{part:?} is not in {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn there_and_back_on_random_grids(
        grid in [1u64..=4, 1u64..=4],
        extent in [0u64..60, 0u64..60],
        tile in 1u64..20,
        dtype in prop::sample::select(TYPES.to_vec()),
    ) {
        check(Case { dtype, grid, extent, tile });
    }

    #[test]
    fn there_and_back_in_whole_tiles(
        grid in [1u64..=4, 1u64..=4],
        tiles in [1u64..=4, 1u64..=4],
        tile in 1u64..9,
        dtype in prop::sample::select(TYPES.to_vec()),
    ) {
        let extent = [grid[0] * tiles[0] * tile, grid[1] * tiles[1] * tile];
        check(Case { dtype, grid, extent, tile });
    }
}
