"""The ways to the solver's order: stages that move tiles, and readings that move nothing."""

import itertools
from functools import partial

import jax
import meshsolve
import numpy as np
import pytest
from helpers import (
    DTYPES,
    P,
    all_nan,
    check_eigenpairs,
    check_eigenvalues,
    check_log_det,
    check_sharding,
    check_solution,
    dtype_id,
    grid_id,
    hermitian,
    make_mesh,
    on_every_device,
    positive_definite,
    put,
    right_hand_side,
)
from jax.sharding import Mesh
from meshsolve import _problem, _system

LAYOUTS = ("stages", "reading", "auto")


def line_mesh(size: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:size]), ("x",))


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
@pytest.mark.parametrize("size", [4, 8])
def test_one_axis(size, dtype):
    mesh = line_mesh(size)
    n, k = size * 12, 5
    a, b = positive_definite(n, dtype), right_hand_side(n, k, dtype)
    # 4 and 12 divide the shard of 12 rows, 5 does not.
    for a_spec, b_spec, tile in itertools.product([("x",), (None, "x")], [(), ("x",)], [None, 4, 5]):
        sharded_a, sharded_b = put(a, mesh, *a_spec), put(b, mesh, *b_spec)
        for layout in LAYOUTS:
            x, log_det, status = meshsolve.potrs(
                sharded_a, sharded_b, tile, layout=layout, return_logdet=True, return_status=True
            )
            check_solution(a, x, b)
            check_sharding(x, mesh, *b_spec)
            check_log_det(a, log_det)
            assert int(status) == 0
        np.testing.assert_array_equal(np.asarray(sharded_a), a)


@pytest.mark.parametrize("method", ["cholesky", "lu"])
@pytest.mark.parametrize("size", [4, 6, 8])
def test_one_axis_becomes_a_nearly_square_grid(size, method):
    mesh = line_mesh(size)
    n, tile = size * 8, 4
    for dtype, spec in zip(DTYPES, itertools.cycle([("x",), (None, "x")])):
        a, b = positive_definite(n, dtype), right_hand_side(n, size, dtype)
        sharded_a, sharded_b = put(a, mesh, *spec), put(b, mesh, *spec)
        for layout in LAYOUTS:
            system = _system.System(method, "solve", near_square=True)
            options = _problem.Options(tile, mesh, (P(*spec), P(*spec)), layout=layout)
            plan = _problem.plan(system, options, sharded_a, sharded_b)
            assert plan.layout.endswith("on a nearly square grid")
            solve = partial(_problem.run, system, options)
            results = solve(sharded_a, sharded_b)
            check_solution(a, results["x"], b)
            check_sharding(results["x"], mesh, *spec)
            assert int(results["status"]) == 0
            check_solution(a, jax.jit(solve)(sharded_a, sharded_b)["x"], b)
            np.testing.assert_array_equal(np.asarray(sharded_a), a)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128], ids=dtype_id)
@pytest.mark.parametrize("grid", [(1, 4), (2, 2), (2, 4), (4, 2)], ids=grid_id)
def test_eigenvectors(grid, dtype):
    mesh = make_mesh(*grid)
    a = hermitian(64, dtype)
    sharded = put(a, mesh, "x", "y")
    for tile, layout in itertools.product([4, 5, None], LAYOUTS):
        if layout == "reading" and tile == 5:
            # What would have to be padded has no reading, for padding has eigenvalues of its own.
            with pytest.raises(ValueError, match="the tile does not divide the shards"):
                meshsolve.plan(sharded, T_A=tile, task="eigh", layout=layout)
            continue
        w, v = meshsolve.syevd(sharded, tile, layout=layout)
        check_eigenpairs(a, w, v)
        check_sharding(v, mesh, "x", "y")
        check_eigenvalues(a, meshsolve.syevd(sharded, tile, layout=layout, return_eigenvectors=False))


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=dtype_id)
@pytest.mark.parametrize("grid", [(2, 2), (2, 4), (4, 2), (2, 3)], ids=grid_id)
def test_transposed_under_jit(grid, dtype):
    """Under jit the matrix may be worked on where it stands, so that it is taken as its transpose."""
    mesh = make_mesh(*grid)
    n, tile = 192, 8
    a, b = positive_definite(n, dtype), right_hand_side(n, 12, dtype)
    sharded_a = put(a, mesh, "x", "y")
    for spec, layout in (((), "reading"), (("x",), "stages"), (("x", "y"), "stages")):
        sharded_b = put(b, mesh, *spec)
        plan = meshsolve.plan(sharded_a, sharded_b, tile, donate=True, layout=layout)
        assert plan.layout == f"{layout}, transposed"
        # The plan wants b replicated, wherever it lies.
        assert not (plan.b_rows or plan.b_columns)
        solve = jax.jit(
            lambda a, b, spec=spec, layout=layout: meshsolve.potrs(
                2 * a, b, tile, mesh, (P("x", "y"), P(*spec)), return_logdet=True, layout=layout
            )
        )
        x, log_det = solve(sharded_a, sharded_b)
        check_solution(2 * a, x, b)
        check_sharding(x, mesh, *spec)
        check_log_det(2 * a, log_det)
        given = put(a, mesh, "x", "y")
        x = meshsolve.potrs(given, sharded_b, tile, donate=True, layout=layout)
        check_solution(a, x, b)
        check_sharding(x, mesh, *spec)
        assert given.is_deleted()


@pytest.mark.parametrize("n", [37, 38, 40])
@pytest.mark.parametrize("grid", [(2, 4), (4, 2), (1, 8)], ids=grid_id)
def test_shards_are_padded_as_the_plan_says(grid, n):
    mesh = make_mesh(*grid)
    a, b = positive_definite(n, np.float64), right_hand_side(n, 3, np.float64)
    for tile, layout in itertools.product((None, 3, 5), LAYOUTS):
        x, log_det = meshsolve.potrs(a, b, tile, mesh, layout=layout, return_logdet=True)
        check_solution(a, x, b)
        check_log_det(a, log_det)
        like_a = (P("x", "y"), P("x"))
        check_solution(a, meshsolve.potrs(a, b, tile, mesh, like_a, layout=layout), b)
    if n == 37 and grid == (2, 4):
        # 10 rows in each of 4 fine shards, and so 20 in each of 2 coarse ones.
        assert meshsolve.plan(a, b, 5, mesh, layout="reading").inputs[0].shape == (20, 10)


def test_a_plan_takes_the_layout_asked_for():
    mesh = make_mesh(2, 2)
    a, b = put(positive_definite(32, np.float64), mesh, "x", "y"), right_hand_side(32, 1, np.float64)
    assert meshsolve.plan(a, b, 4, layout="stages").layout.startswith("stages")
    assert meshsolve.plan(a, b, 4, layout="reading").layout.startswith("reading")
    assert meshsolve.plan(a, b, 4, triangle="lower").layout.startswith("stages")
    assert meshsolve.plan(a, T_A=4, task="eigh", layout="stages").layout == "stages"
    assert meshsolve.plan(a, T_A=4, task="eigh").layout == "reading"
    # Without vectors, and where the matrix may be worked on as it stands, it is taken as its transpose.
    assert meshsolve.plan(a, T_A=4, task="eigvalsh", donate=True).layout == "reading, transposed"
    explanation = meshsolve.plan(a, b, 4, triangle="lower").explain()
    assert "reading: not possible, it needs both triangles" in explanation


def test_layouts_that_are_refused():
    mesh = make_mesh(2, 2)
    a, b = put(positive_definite(32, np.float64), mesh, "x", "y"), right_hand_side(32, 1, np.float64)
    with pytest.raises(ValueError, match=r"layout must be .*got 'fast'"):
        meshsolve.potrs(a, b, layout="fast")
    with pytest.raises(ValueError, match=r"check=True .*layout=\"reading\""):
        meshsolve.potrs(a, b, layout="reading", check=True)
    with pytest.raises(ValueError, match=r"2 × 2 .*it needs both triangles"):
        meshsolve.potrs(a, b, 4, layout="reading", triangle="upper")
    x = meshsolve.linalg.solve(a, b, assume_a="pos", layout="reading", tile=4)
    check_solution(np.asarray(a), x, b)


@pytest.mark.parametrize("grid", [(1, 4), (2, 2), (2, 4)], ids=grid_id)
def test_the_status_under_a_reading_is_a_row_of_the_callers(grid):
    mesh = make_mesh(*grid)
    n = 24
    b = right_hand_side(n, 2, np.complex128)
    for row in (0, 5, 13, n - 1):
        # Only this row is at fault, in whatever order the rows come.
        a = positive_definite(n, np.complex128)
        a[row, row] = -1
        for layout in LAYOUTS:
            x, status = meshsolve.potrs(a, b, 2, mesh, layout=layout, return_status=True)
            assert all_nan(x)
            assert {int(part) for part in on_every_device(status)} == {row + 1}, (layout, row)
        with pytest.raises(meshsolve.NotPositiveDefiniteError) as caught:
            meshsolve.potrs(a, b, 2, mesh, check=True)
        assert caught.value.order == row + 1
