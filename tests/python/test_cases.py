"""Inputs that broke systems of this kind: each must give the right value."""

import itertools

import jax
import meshsolve
import numpy as np
import pytest
from helpers import (
    DTYPES,
    P,
    all_nan,
    check_eigenpairs,
    check_log_det,
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
from scipy.linalg import lapack

SMALL_GRIDS = [(1, 1), (1, 2), (2, 1), (2, 2)]
small_grids = pytest.mark.parametrize("grid", SMALL_GRIDS, ids=grid_id)


@pytest.mark.parametrize("order", ["C", "F"], ids=["row-major", "column-major"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=dtype_id)
@small_grids
def test_ragged(grid, dtype, order):
    mesh = make_mesh(*grid, order=order)
    # 39 rows cannot be sharded evenly: they arrive as NumPy, on one device, or replicated.
    a, b = positive_definite(39, dtype), right_hand_side(39, 3, dtype)
    for give in (np.asarray, jax.device_put, lambda array: put(array, mesh)):
        x, log_det = meshsolve.potrs(give(a), give(b), 10, mesh=mesh, return_logdet=True)
        check_solution(a, x, b)
        check_log_det(a, log_det)
        assert x.sharding.is_fully_replicated
    a, b = positive_definite(40, dtype), right_hand_side(40, 3, dtype)
    x, log_det = meshsolve.potrs(put(a, mesh, "x", "y"), put(b, mesh, "x"), 7, return_logdet=True)
    check_solution(a, x, b)
    check_log_det(a, log_det)


@pytest.mark.parametrize("order", ["C", "F"], ids=["row-major", "column-major"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=dtype_id)
@small_grids
def test_ragged_eigenvectors(grid, dtype, order):
    mesh = make_mesh(*grid, order=order)
    a = hermitian(39, dtype)
    for give in (np.asarray, jax.device_put, lambda array: put(array, mesh)):
        w, v = meshsolve.syevd(give(a), 10, mesh=mesh)
        check_eigenpairs(a, w, v)
        assert v.sharding.is_fully_replicated
    a = hermitian(40, dtype)
    check_eigenpairs(a, *meshsolve.syevd(put(a, mesh, "x", "y"), 7))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=dtype_id)
@small_grids
def test_complex_eigenvectors(grid, dtype):
    """The values alone can be right where the vectors are conjugates."""
    mesh = make_mesh(*grid)
    a = hermitian(20, dtype)
    for layout in ("stages", "auto"):
        w, v = meshsolve.syevd(put(a, mesh, "x", "y"), 8, layout=layout)
        check_eigenpairs(a, w, v)


@pytest.mark.smoke
def test_ragged_smoke():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(39, np.float64), right_hand_side(39, 3, np.float64)
    check_solution(a, meshsolve.potrs(a, b, 10, mesh=mesh), b)


@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (1, 3), (8, 1)], ids=grid_id)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_tiny(n, grid):
    mesh = make_mesh(*grid)
    a, b = positive_definite(n, np.float64), right_hand_side(n, 2, np.float64)
    for tile in (1, 2, 64):
        x, log_det, status = meshsolve.potrs(a, b, tile, mesh=mesh, return_logdet=True, return_status=True)
        check_solution(a, x, b)
        check_log_det(a, log_det)
        assert int(status) == 0


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_empty(dtype):
    mesh = make_mesh(2, 2)
    nothing = np.zeros((0, 0), dtype)
    for b in (np.zeros((0, 3), dtype), np.zeros((0,), dtype)):
        x, log_det, status = meshsolve.potrs(
            nothing, b, mesh=mesh, return_logdet=True, return_status=True, check=True
        )
        assert (x.shape, x.dtype) == (b.shape, dtype)
        assert (float(log_det), log_det.dtype) == (0.0, np.finfo(dtype).dtype)
        assert int(status) == 0


def test_no_right_hand_sides():
    mesh = make_mesh(2, 2)
    a = positive_definite(8, np.float64)
    sharded_a, b = put(a, mesh, "x", "y"), put(np.zeros((8, 0)), mesh, "x", "y")
    x = meshsolve.potrs(sharded_a, b)
    assert x.shape == (8, 0)
    assert x.sharding.is_equivalent_to(b.sharding, 2)
    x, log_det, status = meshsolve.potrs(sharded_a, b, return_logdet=True, return_status=True)
    assert x.shape == (8, 0)
    check_log_det(a, log_det)
    assert int(status) == 0


def test_subsets_of_the_devices_in_turn():
    half, other = make_mesh(2, 2), Mesh(np.array(jax.devices()[4:]).reshape(1, 4), ("x", "y"))
    a, b = positive_definite(24, np.float64), right_hand_side(24, 2, np.float64)
    for _ in range(5):
        for mesh in (half, other):
            x = meshsolve.potrs(put(a, mesh, "x", "y"), put(b, mesh, "x"), 4)
            check_solution(a, x, b)
            w, v = meshsolve.syevd(put(a, mesh, "x", "y"), 4)
            check_eigenpairs(a, w, v)
            assert x.sharding.device_set == v.sharding.device_set == set(mesh.devices.flat)


def with_negative_pivot(n: int, index: int) -> np.ndarray:
    """Hermitian matrix whose Cholesky factorisation fails at this pivot, counted from 0, and not before."""
    rng = np.random.default_rng(index)
    lower = np.tril(rng.integers(-2, 3, (n, n)), -1) + np.eye(n)
    pivots = np.ones(n)
    pivots[index] = -1
    return lower @ np.diag(pivots) @ lower.T  # small integers: exact


NEGATIVE_DIAGONAL = np.array(positive_definite(6, np.complex128))
np.fill_diagonal(NEGATIVE_DIAGONAL, -np.arange(1, 7))

TILE = 4
NOT_POSITIVE_DEFINITE = {
    "arange": np.arange(9.0).reshape(3, 3),
    "complex-negative-diagonal": NEGATIVE_DIAGONAL,
    "pivot-at-tile": with_negative_pivot(12, TILE),
    "pivot-after-tile": with_negative_pivot(12, TILE + 1),
    "last-pivot": with_negative_pivot(12, 11),
    "zero-in-last-tile": np.diag([2.0] * 11 + [0.0]),
}


@pytest.mark.parametrize("name", NOT_POSITIVE_DEFINITE)
@pytest.mark.parametrize("grid", [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)], ids=grid_id)
def test_not_positive_definite(grid, name):
    mesh = make_mesh(*grid)
    a = NOT_POSITIVE_DEFINITE[name]
    n = a.shape[0]
    potrf = lapack.zpotrf if np.iscomplexobj(a) else lapack.dpotrf
    _, info = potrf(a, lower=True)
    assert info > 0
    b = right_hand_side(n, 2, a.dtype)

    def solve(a, b, layout):
        return meshsolve.potrs(a, b, TILE, mesh=mesh, return_logdet=True, return_status=True, layout=layout)

    for run in (solve, jax.jit(solve, static_argnums=2)):
        for layout in ("stages", "auto"):
            x, log_det, status = run(a, b, layout)
            assert x.shape == b.shape
            assert all_nan(x)
            assert all_nan(log_det)
            statuses = {int(part) for part in on_every_device(status)}
            # Only the stages promise the order of the leading minor.
            assert statuses == {info} if layout == "stages" else min(statuses) > 0
    with pytest.raises(meshsolve.NotPositiveDefiniteError, match=f"order {info}") as caught:
        meshsolve.potrs(a, b, TILE, mesh=mesh, check=True, triangle="lower")
    assert caught.value.order == info


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (1, 4)], ids=grid_id)
def test_non_finite(grid, bad):
    mesh = make_mesh(*grid)
    corner = positive_definite(3, np.float64)
    corner[0, 0] = bad
    one_shard = positive_definite(16, np.float64)
    one_shard[13, 14] = one_shard[14, 13] = bad
    for a in (corner, one_shard):
        b = right_hand_side(a.shape[0], 2, np.float64)
        x, log_det, status = meshsolve.potrs(a, b, TILE, mesh=mesh, return_logdet=True, return_status=True)
        assert all_nan(x)
        assert all_nan(log_det)
        assert {int(part) for part in on_every_device(status)} == {-1}
        with pytest.raises(meshsolve.NonFiniteError, match="non-finite"):
            meshsolve.potrs(a, b, TILE, mesh=mesh, check=True)


@pytest.mark.parametrize("grid", [(1, 2), (2, 1)], ids=grid_id)
def test_wide_right_hand_side(grid):
    mesh = make_mesh(*grid)
    a, b = positive_definite(1000, np.float64), right_hand_side(1000, 500, np.float64)
    for spec in ((), ("x", "y")):
        check_solution(a, meshsolve.potrs(put(a, mesh, "x", "y"), put(b, mesh, *spec), 200), b)


def test_widths_of_the_right_hand_side():
    tile = 8
    for grid, k in itertools.product([(1, 2), (2, 2)], [None, 1, 3, tile - 1, tile, tile + 1]):
        mesh = make_mesh(*grid)
        a, b = positive_definite(24, np.complex128), right_hand_side(24, k, np.complex128)
        check_solution(a, meshsolve.potrs(put(a, mesh, "x", "y"), put(b, mesh), tile), b)
        # Columns that the grid does not divide can still be asked to lie like those of a.
        like_a = P("x", "y") if k is not None else P("x")
        check_solution(a, meshsolve.potrs(a, b, tile, mesh, (P("x", "y"), like_a)), b)
