//! Forward and reverse redistribution on simulated ranks, bit for bit against an oracle that deals
//! tiles out one by one; bytes and scratch against the plan.

use meshsolve::device::{Buffer, CpuDevice, Scratch};
use meshsolve::layout::{Coordinate, ProcessGrid};
use meshsolve::plan::{Dimension, Layout, MatrixPlan, Placement, Plan, Request, View};
use meshsolve::routines::Rank;
use meshsolve::{DType, simulate};
use meshsolve_tests::watch::{Watch, WatchedCommunicator, WatchedDevice};
use meshsolve_tests::{Memory, UNTOUCHED, deal, encoded};
use proptest::prelude::*;
use std::sync::Mutex;

#[derive(Clone, Copy, Debug)]
struct Case {
    dtype: DType,
    grid: [u64; 2],
    extent: [u64; 2],
    tile: [u64; 2],
    placement: [Placement; 2],
    /// Whether slabs travel in parts.
    parts: bool,
}

impl Case {
    fn plan(&self) -> MatrixPlan {
        let dimension =
            |k: usize| Dimension::new(self.extent[k], self.tile[k], self.grid[k], self.placement[k]);
        let grid = ProcessGrid::new(self.grid[0], self.grid[1]);
        let unit_bytes = if self.parts { 1 } else { u64::MAX };
        MatrixPlan::with_units(self.dtype, grid, View::Plain, dimension(0), dimension(1), unit_bytes)
    }

    /// The global index behind element `l` of what process `proc` holds for the caller.
    fn caller_global(&self, axis: usize, proc: u64, l: u64) -> Option<u64> {
        let shard = self.extent[axis].div_ceil(self.grid[axis]);
        let g = match self.placement[axis] {
            Placement::Sharded => proc * shard + l,
            Placement::Replicated => l,
        };
        (g < self.extent[axis]).then_some(g)
    }

    /// What the caller passes in on a rank: real elements encode their place, padding is untouched.
    fn caller_memory(&self, plan: &MatrixPlan, at: Coordinate) -> Memory {
        let [rows, cols] = plan.caller_shape();
        let mut memory = Memory::new(rows * cols * self.dtype.size());
        for i in 0..rows {
            for j in 0..cols {
                if let (Some(gi), Some(gj)) =
                    (self.caller_global(0, at.row, i), self.caller_global(1, at.col, j))
                {
                    memory.set_element(self.dtype, i * cols + j, &encoded(self.dtype, gi, gj));
                }
            }
        }
        memory
    }
}

impl Case {
    /// After a way there and back in place: what padding holds is nobody's business.
    fn assert_real_elements(&self, plan: &MatrixPlan, at: Coordinate, memory: &Memory) {
        let expected = self.caller_memory(plan, at);
        let [rows, cols] = plan.caller_shape();
        for i in (0..rows).filter(|&i| self.caller_global(0, at.row, i).is_some()) {
            for j in (0..cols).filter(|&j| self.caller_global(1, at.col, j).is_some()) {
                let place = i * cols + j;
                let (found, given) = (memory.element(self.dtype, place), expected.element(self.dtype, place));
                assert!(found == given, "{self:?}: ({i}, {j}) of {at:?} did not come back in place");
            }
        }
    }
}

fn check(case: Case) {
    let plan = case.plan();
    let grid = plan.grid();
    let at: Vec<Coordinate> = (0..grid.size()).map(|r| grid.coordinate(r)).collect();
    let given: Vec<Memory> = at.iter().map(|&at| case.caller_memory(&plan, at)).collect();
    let [rows, cols] = plan.solver_shape();
    let fresh = |bytes: u64| -> Vec<Memory> { at.iter().map(|_| Memory::new(bytes)).collect() };
    let back = fresh(plan.caller_shape()[0] * plan.caller_shape()[1] * case.dtype.size());
    let solver = fresh(plan.solver_bytes());
    let buffers = |memory: &[Memory]| -> Vec<Buffer> { memory.iter().map(Memory::buffer).collect() };
    let (given_buffers, solver_buffers, back_buffers) = (buffers(&given), buffers(&solver), buffers(&back));

    let used = Mutex::new(0);
    let on_device = |work: &(dyn Fn(usize, &Rank<'_>) -> meshsolve::Result<()> + Sync), reverse: bool| {
        simulate::on_ranks(at.len(), |r, local| {
            let device = CpuDevice::new();
            let scratch = Scratch::new(&device, plan.scratch_bytes())?;
            let watch = Watch::new(scratch.buffer());
            let watched = WatchedDevice { device: &device, watch: watch.clone() };
            let communicator = WatchedCommunicator::new(local, watch.clone());
            let rank = Rank { device: &watched, communicator: &communicator, scratch: scratch.buffer() };
            work(r, &rank)?;
            watch.assert_finished();
            let mut used = used.lock().unwrap();
            *used = watch.used_scratch().max(*used);
            assert_eq!(device.peak_scratch_bytes(), plan.scratch_bytes(), "one allocation, as planned");
            let rank = r as u64;
            let planned = if reverse { plan.reverse_traffic(rank) } else { plan.forward_traffic(rank) };
            assert_eq!(local.traffic(), planned, "{case:?} rank {r}");
            Ok(())
        })
        .unwrap();
    };

    for reverse in [false, true] {
        let of = |rank| if reverse { plan.reverse_traffic(rank) } else { plan.forward_traffic(rank) };
        let sent: u64 = (0..grid.size()).map(|rank| of(rank).sent).sum();
        assert_eq!(plan.sent_in_all(reverse), sent, "{case:?}");
    }
    on_device(&|r, rank| rank.forward(&plan, given_buffers[r], solver_buffers[r]), false);
    check_solver(&case, &plan, &solver);
    on_device(&|r, rank| rank.reverse(&plan, solver_buffers[r], back_buffers[r]), true);
    for (r, (back, given)) in back.iter().zip(&given).enumerate() {
        assert!(back.bytes() == given.bytes(), "{case:?}: rank {r} did not get back what it gave");
    }

    if plan.in_place() {
        on_device(&|r, rank| rank.forward(&plan, given_buffers[r], given_buffers[r]), false);
        check_solver(&case, &plan, &given);
        on_device(&|r, rank| rank.reverse(&plan, given_buffers[r], given_buffers[r]), true);
        for (r, memory) in given.iter().enumerate() {
            case.assert_real_elements(&plan, at[r], memory);
        }
    }

    let used = used.into_inner().unwrap();
    // In place the conversion takes what it is given.
    assert!(
        used == plan.scratch_bytes() || plan.in_place() && used < plan.scratch_bytes(),
        "{case:?}: {used}"
    );

    // Never a second full matrix: one slab in flight each way and at most one held.
    let slab = (case.tile[1] * rows).max(case.tile[0] * cols) * case.dtype.size();
    assert!(plan.scratch_bytes() <= 3 * slab.max(1), "{case:?}: {} > 3 · {slab}", plan.scratch_bytes());
}

fn check_solver(case: &Case, plan: &MatrixPlan, solver: &[Memory]) {
    let [ld, _] = plan.solver_shape();
    let rows = deal(case.extent[0], case.tile[0], case.grid[0]);
    let cols = deal(case.extent[1], case.tile[1], case.grid[1]);
    for (gi, &(row, i)) in (0..).zip(&rows) {
        for (gj, &(col, j)) in (0..).zip(&cols) {
            let rank = usize::try_from(plan.grid().rank(Coordinate { row, col })).unwrap();
            let found = solver[rank].element(case.dtype, i + j * ld);
            assert!(
                found == encoded(case.dtype, gi, gj),
                "{case:?}: element ({gi}, {gj}) is not at ({i}, {j}) of {rank}"
            );
        }
    }
}

const SHARDED: [Placement; 2] = [Placement::Sharded, Placement::Sharded];

#[test]
fn every_grid_to_four_by_four() {
    for pr in 1..=4 {
        for pc in 1..=4 {
            let both = pr * pc;
            // dividing, ragged, smaller than the tile, fewer elements than processes, empty
            for (m, n, t) in
                [(both * 4, both * 8, 4), (13, 17, 3), (29, 23, 5), (3, 5, 8), (2, 1, 1), (0, 3, 2)]
            {
                for dtype in [DType::F32, DType::F64, DType::C128] {
                    for parts in [false, true] {
                        check(Case {
                            dtype,
                            grid: [pr, pc],
                            extent: [m, n],
                            tile: [t, t],
                            placement: SHARDED,
                            parts,
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn replicated_dimensions_are_picked_and_collected() {
    for grid in [[1, 1], [1, 3], [3, 1], [2, 2], [2, 3]] {
        for rows in [Placement::Sharded, Placement::Replicated] {
            for cols in [Placement::Sharded, Placement::Replicated] {
                for (m, n, t, u) in [(12, 6, 2, 3), (13, 1, 4, 1), (7, 5, 3, 2), (1, 1, 4, 4), (5, 0, 2, 1)] {
                    check(Case {
                        dtype: DType::C64,
                        grid,
                        extent: [m, n],
                        tile: [t, u],
                        placement: [rows, cols],
                        parts: false,
                    });
                }
            }
        }
    }
}

/// Found by chance: the padding of a last shard does not come back in place.
#[test]
fn in_place_with_a_shard_that_ends_in_padding() {
    check(Case {
        dtype: DType::C64,
        grid: [1, 3],
        extent: [7, 34],
        tile: [1, 1],
        placement: SHARDED,
        parts: false,
    });
}

/// Runs the way there on watched ranks and gives each one's operations, exchanges, and operations that
/// ran beside an exchange.
fn steps(plan: &MatrixPlan) -> Vec<(usize, usize, usize)> {
    let ranks = usize::try_from(plan.grid().size()).unwrap();
    let memory = |bytes| -> Vec<Memory> { (0..ranks).map(|_| Memory::new(bytes)).collect() };
    let [rows, cols] = plan.caller_shape();
    let (caller, solver) = (memory(rows * cols * plan.dtype().size()), memory(plan.solver_bytes()));
    let buffers = |memory: &[Memory]| -> Vec<Buffer> { memory.iter().map(Memory::buffer).collect() };
    let (caller, solver) = (buffers(&caller), buffers(&solver));
    let steps = Mutex::new(vec![(0, 0, 0); ranks]);
    simulate::on_ranks(ranks, |r, local| {
        let device = CpuDevice::new();
        let scratch = Scratch::new(&device, plan.scratch_bytes())?;
        let watch = Watch::new(scratch.buffer());
        let watched = WatchedDevice { device: &device, watch: watch.clone() };
        let communicator = WatchedCommunicator::new(local, watch.clone());
        let rank = Rank { device: &watched, communicator: &communicator, scratch: scratch.buffer() };
        rank.forward(plan, caller[r], solver[r])?;
        let (operations, exchanges) = watch.steps();
        steps.lock().unwrap()[r] = (operations, exchanges, watch.overlapped());
        Ok(())
    })
    .unwrap();
    steps.into_inner().unwrap()
}

#[test]
fn nothing_moves_where_each_device_holds_one_tile() {
    for (grid, extent) in [([2, 3], [12, 18]), ([1, 1], [12, 18]), ([2, 2], [12, 12]), ([1, 1], [36, 36])] {
        let case = Case { dtype: DType::F64, grid, extent, tile: [6, 6], placement: SHARDED, parts: true };
        let plan = case.plan();
        let square = extent[0] / grid[0] == extent[1] / grid[1];
        assert!(!square || plan.scratch_bytes() == 0);
        for (rank, steps) in (0..).zip(steps(&plan)) {
            assert_eq!(plan.forward_traffic(rank).sent, 0);
            assert_eq!(steps, (1, 0, 0), "nothing but the conversion");
        }
        check(case);
    }
}

/// Two processes and 16 tile columns on each: what stays moves at most once, and nearly all of that
/// beside the exchanges.
#[test]
fn local_copies_go_beside_the_exchanges() {
    let [rows, cols] = [[2, 1], [1, 2]].map(|grid| {
        let case = Case {
            dtype: DType::F64,
            grid,
            extent: [64, 64],
            tile: [2, 2],
            placement: SHARDED,
            parts: false,
        };
        steps(&case.plan())
    });
    for (operations, exchanges, overlapped) in cols {
        assert_eq!(exchanges, 8);
        // The conversion; seven tiles that stay and change their slot; a few that had to wait in scratch.
        assert!(operations <= 1 + 7 + 5, "{operations} operations");
        assert!(overlapped + 3 >= operations - 1, "{overlapped} of {operations} operations are hidden");
    }
    for (operations, exchanges, overlapped) in rows {
        assert_eq!(exchanges, 8);
        // Eight packed and eight unpacked, and two that had to be put aside.
        assert!(operations <= 1 + 7 + 16 + 2, "{operations} operations");
        assert!(overlapped + 3 >= operations - 1, "{overlapped} of {operations} operations are hidden");
    }
}

#[test]
fn untouched_memory_is_not_an_element() {
    for dtype in DType::ALL {
        assert_ne!(encoded(dtype, 7, 9), vec![UNTOUCHED; usize::try_from(dtype.size()).unwrap()]);
    }
}

/// A Hermitian matrix of order `n` on a mesh, by every candidate of a Cholesky solve.
#[derive(Clone, Copy, Debug)]
struct Square {
    dtype: DType,
    mesh: [u64; 2],
    n: u64,
    tile: u64,
}

/// For each place of a mesh, row by row, the role in the solver's grid, written out from the
/// definition: ρ and γ are the identity but on the finer side, where they undo
/// τ(q) = (q mod C)·m + q / C.
fn roles(mesh: [u64; 2], layout: Layout, view: View) -> Vec<u64> {
    let (fine, coarse) = (mesh[0].max(mesh[1]), mesh[0].min(mesh[1]));
    let tau = |q: u64| q % coarse * (fine / coarse) + q / coarse;
    let undone = |side: u64, f: u64| match layout {
        Layout::Reading if side == fine && fine.is_multiple_of(coarse) => {
            (0..fine).find(|&q| tau(q) == f).unwrap()
        }
        _ => f,
    };
    let places = (0..mesh[0]).flat_map(|i| (0..mesh[1]).map(move |j| (i, j)));
    places
        .map(|(i, j)| {
            let (rho, gamma) = (undone(mesh[0], i), undone(mesh[1], j));
            if view == View::Plain { rho * mesh[1] + gamma } else { gamma * mesh[0] + rho }
        })
        .collect()
}

/// The caller's indices in the order of the solver, `None` for padding: all in turn under the stages,
/// a tile of each shard in turn under a reading.
fn solvers_order(square: &Square, layout: Layout) -> Vec<Option<u64>> {
    let Square { mesh, n, tile, .. } = *square;
    if layout == Layout::Stages {
        return (0..n).map(Some).collect();
    }
    let (fine, coarse) = (mesh[0].max(mesh[1]), mesh[0].min(mesh[1]));
    let shard = n.div_ceil(fine);
    // Who follows whom: the first shard of every coarse process, then the second of each, …
    let groups = if fine.is_multiple_of(coarse) { coarse } else { 1 };
    let turns: Vec<u64> =
        (0..fine / groups).flat_map(|s| (0..groups).map(move |g| g * (fine / groups) + s)).collect();
    let mut order = Vec::new();
    for first in (0..shard).step_by(tile as usize) {
        for turn in &turns {
            order.extend(
                (first..first + tile)
                    .map(|within| Some(turn * shard + within).filter(|&g| within < shard && g < n)),
            );
        }
    }
    order
}

fn check_candidates(square: Square) -> usize {
    let Square { dtype, mesh, n, tile } = square;
    let request = format!(
        r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"{}","n":{n},"nrhs":1,"grid":[{},{}],"tile":{tile},
            "b":{{"rows":"replicated","cols":"replicated"}},"triangle":null,"log_det":false}}"#,
        format!("{dtype:?}").to_lowercase(),
        mesh[0],
        mesh[1]
    );
    let (fine, coarse) = (mesh[0].max(mesh[1]), mesh[0].min(mesh[1]));
    let mut readings = 0;
    for plan in Plan::candidates(&Request::from_json(&request).unwrap()) {
        let Plan::System(potrs) = &plan else { unreachable!("a Cholesky solve was asked for") };
        let (a, layout, view) = (potrs.a(), potrs.candidate().layout, potrs.candidate().view);
        assert_eq!(plan.roles(), roles(mesh, layout, view), "{square:?} {}", potrs.candidate());
        let order = solvers_order(&square, layout);
        let [rows, cols] = a.caller_shape();
        // Every place of the mesh fills its shard with elements that say where they belong.
        let mut given: Vec<Memory> =
            (0..plan.ranks()).map(|_| Memory::new(rows * cols * dtype.size())).collect();
        let real_elements: Vec<Vec<(u64, Vec<u8>)>> = {
            let mut by_role = vec![Vec::new(); given.len()];
            for (place, &role) in (0..).zip(plan.roles()) {
                for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
                    let (gi, gj) = (place / mesh[1] * rows + i, place % mesh[1] * cols + j);
                    if gi < n && gj < n {
                        by_role[usize::try_from(role).unwrap()].push((i * cols + j, encoded(dtype, gi, gj)));
                    }
                }
            }
            by_role
        };
        for (memory, elements) in given.iter_mut().zip(&real_elements) {
            elements.iter().for_each(|(at, value)| memory.set_element(dtype, *at, value));
        }
        // What padding holds after a way there and back is nobody's business.
        let check_back = |memories: &[Memory]| {
            for (r, (memory, elements)) in memories.iter().zip(&real_elements).enumerate() {
                let same = elements.iter().all(|(at, value)| memory.element(dtype, *at) == value);
                assert!(same, "{square:?} {}: rank {r} did not get back what it gave", potrs.candidate());
            }
        };
        let fresh: Vec<Memory> = given.iter().map(|_| Memory::new(a.solver_bytes())).collect();
        let buffers = |memory: &[Memory]| -> Vec<Buffer> { memory.iter().map(Memory::buffer).collect() };
        let run = |from: &[Memory], to: &[Memory], reverse: bool| {
            let (from, to) = (buffers(from), buffers(to));
            let ranks = from.len();
            simulate::on_ranks(ranks, |r, communicator| {
                let device = CpuDevice::new();
                let scratch = Scratch::new(&device, a.scratch_bytes())?;
                let rank = Rank { device: &device, communicator, scratch: scratch.buffer() };
                if reverse {
                    rank.reverse(a, from[r], to[r])?
                } else {
                    rank.forward(a, from[r], to[r])?
                }
                let planned = if reverse { a.reverse_traffic(r as u64) } else { a.forward_traffic(r as u64) };
                assert_eq!(communicator.traffic(), planned, "{square:?} {}", potrs.candidate());
                let busiest = a.busiest(reverse);
                assert!(planned.sent <= busiest.sent && planned.received <= busiest.received);
                if layout == Layout::Reading && fine.is_multiple_of(coarse) {
                    assert_eq!(
                        (planned.sent, planned.received),
                        (0, 0),
                        "{square:?}: a reading moves nothing"
                    );
                }
                Ok(())
            })
            .unwrap();
        };
        let check = |solver: &[Memory]| {
            let grid = a.grid();
            let owners: [Vec<(u64, u64)>; 2] =
                [grid.rows(), grid.cols()].map(|procs| deal(order.len() as u64, tile, procs));
            for (si, &gi) in order.iter().enumerate() {
                for (sj, &gj) in order.iter().enumerate() {
                    let (Some(gi), Some(gj)) = (gi, gj) else { continue };
                    let ((row, i), (col, j)) = (owners[0][si], owners[1][sj]);
                    let rank = usize::try_from(grid.rank(Coordinate { row, col })).unwrap();
                    // The transposed view shows A's transpose.
                    let (gi, gj) = if view == View::Plain { (gi, gj) } else { (gj, gi) };
                    assert!(
                        solver[rank].element(dtype, i + j * a.solver_shape()[0]) == encoded(dtype, gi, gj),
                        "{square:?} {}: element ({gi}, {gj}) is not at ({i}, {j}) of {rank}",
                        potrs.candidate()
                    );
                }
            }
        };
        run(&given, &fresh, false);
        check(&fresh);
        let back: Vec<Memory> = given.iter().map(|memory| Memory::new(memory.bytes().len() as u64)).collect();
        run(&fresh, &back, true);
        check_back(&back);
        if a.in_place() {
            run(&given, &given, false);
            check(&given);
            run(&given, &given, true);
            check_back(&given);
        }
        readings += usize::from(layout == Layout::Reading);
    }
    readings
}

#[test]
fn every_candidate_gives_the_solver_a_permutation_of_the_matrix() {
    let meshes = (1..=4).flat_map(|rows| (1..=4).map(move |cols| [rows, cols]));
    for mesh in meshes.chain([[1, 8], [8, 1], [2, 8], [8, 2], [6, 2]]) {
        let fine = mesh[0].max(mesh[1]);
        let both = mesh[0] * mesh[1];
        // Whole tiles in every shard, ragged tiles, uneven shards, smaller than the tile, and tiny.
        for (n, tile) in [(both * 6, 3), (both * 6, 4), (37, 5), (fine * 3 - 1, 3), (13, 7), (1, 2), (0, 2)] {
            for dtype in [DType::F32, DType::F64, DType::C64, DType::C128] {
                let readings = check_candidates(Square { dtype, mesh, n, tile });
                let divides = fine.is_multiple_of(mesh[0].min(mesh[1]));
                assert!(!divides || readings > 0, "no reading on {mesh:?} of {n} in tiles of {tile}");
                if n == both * 6 && tile == 3 {
                    assert_eq!(readings, 2, "plain and transposed on {mesh:?}");
                }
            }
        }
    }
}

#[test]
fn roles_of_the_grids_that_divide() {
    let roles = |rows: u64, cols: u64, layout: &str| -> Vec<Vec<u64>> {
        let request = format!(
            r#"{{"routine":"system","method":"cholesky","task":"solve","dtype":"f64","n":64,"nrhs":1,"grid":[{rows},{cols}],"tile":4,"layout":"{layout}",
                "b":{{"rows":"replicated","cols":"replicated"}},"triangle":null,"log_det":false}}"#
        );
        let plans = Plan::candidates(&Request::from_json(&request).unwrap());
        plans.iter().map(|plan| plan.roles().to_vec()).collect()
    };
    // Mesh columns 0, 1, 2, 3 are solver columns 0, 2, 1, 3.
    assert_eq!(roles(2, 4, "reading"), [[0, 2, 1, 3, 4, 6, 5, 7], [0, 4, 2, 6, 1, 5, 3, 7]]);
    // Mesh rows 0, 1, 2, 3 are solver rows 0, 2, 1, 3.
    assert_eq!(roles(4, 2, "reading"), [[0, 1, 4, 5, 2, 3, 6, 7], [0, 4, 2, 6, 1, 5, 3, 7]]);
    assert_eq!(roles(2, 2, "reading"), [[0, 1, 2, 3], [0, 2, 1, 3]]);
    assert_eq!(roles(1, 4, "reading"), [[0, 1, 2, 3], [0, 1, 2, 3]]);
    assert_eq!(roles(2, 4, "stages"), [[0, 1, 2, 3, 4, 5, 6, 7], [0, 2, 4, 6, 1, 3, 5, 7]]);
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![3 => Just(Placement::Sharded), 1 => Just(Placement::Replicated)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn forward_and_reverse_on_random_grids(
        grid in [1u64..=6, 1u64..=6],
        extent in [0u64..60, 0u64..60],
        tile in [1u64..12, 1u64..12],
        placement in [placement(), placement()],
        dtype in prop::sample::select(DType::ALL.to_vec()),
        parts: bool,
    ) {
        check(Case { dtype, grid, extent, tile, placement, parts });
    }

    #[test]
    fn in_place_where_the_tile_divides_the_shards(
        grid in [1u64..=6, 1u64..=6],
        tiles in [1u64..=5, 1u64..=5],
        tile in [1u64..9, 1u64..9],
        dtype in prop::sample::select(DType::ALL.to_vec()),
        parts: bool,
    ) {
        let extent = [grid[0] * tiles[0] * tile[0], grid[1] * tiles[1] * tile[1]];
        let case = Case { dtype, grid, extent, tile, placement: SHARDED, parts };
        prop_assert!(case.plan().in_place());
        check(case);
    }
}
