"""The Cholesky solve on every grid, in every dtype, from every placement of b."""

from functools import partial

import jax
import meshsolve
import numpy as np
import pytest
from helpers import (
    DTYPES,
    GRIDS,
    P,
    check_log_det,
    check_sharding,
    check_solution,
    dtype_id,
    grid_id,
    make_mesh,
    positive_definite,
    put,
    right_hand_side,
)
from jax.sharding import NamedSharding

N = 48  # every grid divides it, so a can arrive sharded on each
DIVIDING, RAGGED, LARGER = 2, 5, 64  # of the shard, not of the shard, than the matrix
K = 12

all_grids = pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)


@all_dtypes
@all_grids
def test_eager(grid, dtype):
    mesh = make_mesh(*grid)
    a = positive_definite(N, dtype)
    sharded_a = put(a, mesh, "x", "y")
    placements = [(K, ()), (K, ("x",)), (K, ("x", "y")), (None, ()), (None, ("x",))]
    for tile in (DIVIDING, RAGGED, LARGER):
        for k, spec in placements:
            b = right_hand_side(N, k, dtype)
            x = meshsolve.potrs(sharded_a, put(b, mesh, *spec), tile)
            check_solution(a, x, b)
            check_sharding(x, mesh, *spec)


@all_dtypes
@all_grids
def test_under_jit(grid, dtype):
    mesh = make_mesh(*grid)
    a, b = positive_definite(N, dtype), right_hand_side(N, K, dtype)
    sharded_a = put(a, mesh, "x", "y")
    for tile, spec in ((None, ()), (DIVIDING, ("x",)), (RAGGED, ("x", "y")), (LARGER, ("x", "y"))):
        solve = jax.jit(
            partial(
                meshsolve.potrs,
                T_A=tile,
                mesh=mesh,
                matrix_specs=(P("x", "y"), P(*spec)),
                return_logdet=True,
                return_status=True,
            )
        )
        x, log_det, status = solve(sharded_a, put(b, mesh, *spec))
        check_solution(a, x, b)
        check_sharding(x, mesh, *spec)
        check_log_det(a, log_det)
        assert int(status) == 0


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=dtype_id)
@all_grids
def test_promised_triangle_alone_is_read(grid, dtype):
    mesh = make_mesh(*grid)
    a, b = positive_definite(N, dtype), right_hand_side(N, 3, dtype)
    for triangle, keep in (("lower", np.tril), ("upper", np.triu)):
        half = np.where(keep(np.ones((N, N), bool)), a, np.nan)
        for tile in (DIVIDING, RAGGED, LARGER):
            x, log_det = meshsolve.potrs(
                put(half, mesh, "x", "y"), put(b, mesh), tile, triangle=triangle, return_logdet=True
            )
            check_solution(a, x, b)
            check_log_det(a, log_det)


@pytest.mark.smoke
@all_dtypes
def test_smoke(dtype):
    for grid in ((1, 1), (2, 2), (2, 3)):
        mesh = make_mesh(*grid)
        a, b = positive_definite(N, dtype), right_hand_side(N, K, dtype)
        x, log_det, status = meshsolve.potrs(
            put(a, mesh, "x", "y"), put(b, mesh, "x"), RAGGED, return_logdet=True, return_status=True
        )
        check_solution(a, x, b)
        check_sharding(x, mesh, "x")
        check_log_det(a, log_det)
        assert int(status) == 0


@pytest.mark.smoke
def test_linalg_solve_is_the_same_solve():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    sharded_a, sharded_b = put(a, mesh, "x", "y"), put(b, mesh, "x")
    x = meshsolve.linalg.solve(sharded_a, sharded_b, assume_a="pos", tile=8)
    check_solution(a, x, b)
    np.testing.assert_array_equal(np.asarray(x), np.asarray(meshsolve.potrs(sharded_a, sharded_b, 8)))


def test_results_asked_for_come_in_order():
    mesh = make_mesh(1, 2)
    a, b = put(positive_definite(8, np.float64), mesh, "x", "y"), put(right_hand_side(8, 1, np.float64), mesh)
    x = meshsolve.potrs(a, b)
    assert x.shape == (8, 1)
    _, log_det = meshsolve.potrs(a, b, return_logdet=True)
    assert log_det.dtype == np.float64
    _, status = meshsolve.potrs(a, b, return_status=True)
    assert status.dtype == np.int32
    results = meshsolve.potrs(a, b, return_logdet=True, return_status=True)
    assert [r.dtype for r in results] == [np.float64, np.float64, np.int32]


def test_plan_tells_tile_memory_and_layout():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    plan = meshsolve.plan(put(a, mesh, "x", "y"), put(b, mesh), DIVIDING, donate=True)
    assert (plan.tile, plan.ranks) == (DIVIDING, 4)
    shard_bytes = (N // 2) ** 2 * 8
    assert plan.inputs[0].nbytes == shard_bytes
    work = next(output for output in plan.outputs if output.name == "work")
    assert work.alias == 0  # the tile divides the shard, so no second matrix
    kept = meshsolve.plan(put(a, mesh, "x", "y"), put(b, mesh), DIVIDING)
    assert [output.alias for output in kept.outputs if output.name == "work"] == [None]
    assert plan.bytes_per_device >= shard_bytes + plan.scratch_bytes
    assert plan.workspace_bytes > 0
    assert "workspace about" in plan.explain()
    assert f"n = {N}" in plan.explain()
    assert f"tile {DIVIDING}" in plan.explain()

    ragged = meshsolve.plan(put(a, mesh, "x", "y"), put(b, mesh), RAGGED)
    work = next(output for output in ragged.outputs if output.name == "work")
    assert work.alias is None
    assert work.shape == (25, 25)  # 24 rows rounded up to whole tiles of 5
    assert isinstance(meshsolve.plan(put(a, mesh, "x", "y"), put(b, mesh)).tile, int)


def test_suggested_tile_is_the_one_that_calls_take():
    for grid, n, solves, eigenproblems in (((1, 2), 8192, 2048, 256), ((2, 2), 6000, 1500, 250)):
        mesh = make_mesh(*grid)
        a = jax.ShapeDtypeStruct((n, n), np.float32, sharding=NamedSharding(mesh, P("x", "y")))
        b = jax.ShapeDtypeStruct((n,), np.float32, sharding=NamedSharding(mesh, P("x")))
        assert meshsolve.suggest_tile(a) == meshsolve.plan(a, b).tile == solves
        assert meshsolve.suggest_tile(a, task="eigh") == meshsolve.plan(a, task="eigh").tile == eigenproblems
    with pytest.raises(ValueError, match='"solve" or "eigh": got \'svd\''):
        meshsolve.suggest_tile(a, task="svd")
