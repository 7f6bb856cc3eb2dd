"""LU: solves, factors, determinants and inverses of general matrices, on every grid in every dtype."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
import pytest
from helpers import (
    DTYPES,
    GRIDS,
    P,
    all_nan,
    arbitrary,
    check_inverse,
    check_sharding,
    check_slogdet,
    check_solution,
    dtype_id,
    grid_id,
    make_mesh,
    put,
    right_hand_side,
    shared_out,
)
from meshsolve import SingularMatrixError, linalg

N = 48  # every grid divides it
DIVIDING, RAGGED, LARGER = 2, 5, 64

all_grids = pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)


@all_dtypes
@all_grids
def test_solve(grid, dtype):
    mesh = make_mesh(*grid)
    a = arbitrary(N, dtype)
    sharded = put(a, mesh, "x", "y")
    tiles = ((DIVIDING, "auto"), (DIVIDING, "stages"), (RAGGED, "auto"), (LARGER, "auto"))
    placements = ((N, ("x", "y")), (1, ("x",)), (None, ()))
    for (tile, layout), (k, spec) in shared_out(itertools.product(tiles, placements), dtype):
        b = right_hand_side(N, k, dtype)
        x, status = meshsolve.lu_solve(sharded, put(b, mesh, *spec), tile, layout=layout, return_status=True)
        assert int(status) == 0
        check_solution(a, x, b)
        check_sharding(x, mesh, *spec)


@all_dtypes
@all_grids
def test_a_factor_solves_with_the_matrix_and_its_transposes(grid, dtype):
    mesh = make_mesh(*grid)
    a = arbitrary(N, dtype)
    sharded = put(a, mesh, "x", "y")
    cases = ((DIVIDING, 3, ("x",)), (RAGGED, None, ()), (LARGER, N, ("x", "y")), (DIVIDING, 1, ()))
    for tile, k, spec in shared_out(cases, dtype):
        factor = linalg.lu_factor(sharded, tile=tile)
        assert (factor.shape, factor.dtype, int(factor.status)) == ((N, N), dtype, 0)
        b = right_hand_side(N, k, dtype)
        for trans, matrix in ((0, a), ("T", a.T), (2, a.conj().T)):
            x = linalg.lu_solve(factor, put(b, mesh, *spec), trans)
            check_solution(matrix, x, b)
            check_sharding(x, mesh, *spec)


@all_dtypes
@all_grids
def test_determinant(grid, dtype):
    mesh = make_mesh(*grid)
    a = arbitrary(N, dtype)
    for tile in shared_out((DIVIDING, RAGGED, LARGER), dtype):
        check_slogdet(a, *linalg.slogdet(put(a, mesh, "x", "y"), tile=tile))


@all_dtypes
@all_grids
def test_inverse(grid, dtype):
    mesh = make_mesh(*grid)
    a = arbitrary(N, dtype)
    cases = ((DIVIDING, False), (DIVIDING, True), (RAGGED, False), (LARGER, False))
    for tile, donate in shared_out(cases, dtype):
        x = linalg.inv(put(a, mesh, "x", "y"), tile=tile, donate=donate)
        check_inverse(a, x)
        check_sharding(x, mesh, "x", "y")


@pytest.mark.smoke
@all_dtypes
def test_smoke(dtype):
    for grid in ((1, 1), (2, 2), (2, 3)):
        mesh = make_mesh(*grid)
        a, b = arbitrary(N, dtype), right_hand_side(N, 3, dtype)
        sharded, rhs = put(a, mesh, "x", "y"), put(b, mesh, "x")
        check_solution(a, linalg.solve(sharded, rhs), b)
        factor = jax.jit(partial(linalg.lu_factor, mesh=mesh))(sharded)
        check_solution(a.T, jax.jit(partial(linalg.lu_solve, trans=1))(factor, rhs), b)
        check_slogdet(a, *linalg.slogdet(sharded))
        check_inverse(a, linalg.inv(sharded))


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=dtype_id)
def test_under_jit(dtype):
    mesh = make_mesh(2, 2)
    a, b = arbitrary(N, dtype), right_hand_side(N, 3, dtype)

    @jax.jit
    def everything(a, b):
        where = {"mesh": mesh, "matrix_specs": P("x", "y"), "tile": 8}
        factor = linalg.lu_factor(a, **where)
        return (
            linalg.lu_solve(factor, b),
            linalg.lu_solve(factor, b, 2),
            linalg.slogdet(a, **where),
            linalg.inv(a, **where),
            factor,
        )

    x, adjoint, slogdet, inverse, factor = everything(put(a, mesh, "x", "y"), put(b, mesh, "x"))
    check_solution(a, x, b)
    check_solution(a.conj().T, adjoint, b)
    check_slogdet(a, *slogdet)
    check_inverse(a, inverse)
    # The factor survives jit, and serves outside.
    check_solution(a, linalg.lu_solve(factor, put(b, mesh)), b)


@all_grids
def test_pivoting_matters(grid):
    mesh = make_mesh(*grid)
    n = 24
    rng = np.random.default_rng(1)
    badly_scaled = rng.standard_normal((n, n)) * 10.0 ** rng.integers(-12, 12, (n, 1))
    no_diagonal = np.roll(np.eye(n), 1, axis=0) + 1e-14 * rng.standard_normal((n, n))
    for a in (badly_scaled, no_diagonal):
        b = a @ np.ones(n)
        for tile in (3, 5):
            x = meshsolve.lu_solve(put(a, mesh, "x", "y"), put(b, mesh), tile)
            # Row by row |b − a·x| ≤ 50·n·ε·|a|·|x|: small rows, too, though they bear the others' errors.
            error = np.abs(b - a @ np.asarray(x)) / (np.abs(a) @ np.abs(x))
            assert error.max() <= 50 * n * np.finfo(np.float64).eps


@pytest.mark.parametrize("layout", ["stages", "reading"])
def test_graded_and_rank_deficient(layout):
    mesh = make_mesh(2, 2)
    n = 32
    scale = 2.0 ** -np.arange(n)
    graded = arbitrary(n, np.float64) * scale
    b = right_hand_side(n, 2, np.float64)
    x, status = meshsolve.lu_solve(
        put(graded, mesh, "x", "y"), put(b, mesh), 4, layout=layout, return_status=True
    )
    assert int(status) == 0
    residual = np.abs(b - graded @ np.asarray(x)) / (np.abs(graded) @ np.abs(x) + np.abs(b))
    assert residual.max() <= n * np.finfo(np.float64).eps

    # Of rank 1 in numbers that leave exact zeros.
    power = 2.0 ** (np.arange(n) % 5)
    x, status = meshsolve.lu_solve(
        put(np.outer(power, power), mesh, "x", "y"), put(b, mesh), 4, layout=layout, return_status=True
    )
    assert int(status) > 0
    assert all_nan(x)


@all_dtypes
@pytest.mark.parametrize("column", [0, 4, 23])
def test_singular(column, dtype):
    mesh = make_mesh(2, 2)
    a, b = arbitrary(24, dtype), right_hand_side(24, 2, dtype)
    a[:, column] = 0
    sharded, rhs = put(a, mesh, "x", "y"), put(b, mesh)
    for tile in (3, 5):
        x, status = meshsolve.lu_solve(sharded, rhs, tile, layout="stages", return_status=True)
        assert int(status) == column + 1
        assert all_nan(x)
        x, status = meshsolve.lu_solve(sharded, rhs, tile, return_status=True)
        # A reading counts in another order, and tells the caller's row.
        assert int(status) == column + 1
        assert all_nan(x)
        sign, logabsdet = linalg.slogdet(sharded, tile=tile)
        assert (complex(sign), float(logabsdet)) == (0, -np.inf)
        assert complex(linalg.det(sharded, tile=tile)) == 0
        assert all_nan(linalg.inv(sharded, tile=tile))
        factor = linalg.lu_factor(sharded, tile=tile)
        assert int(factor.status) == column + 1
        for trans in (0, 1, 2):
            assert all_nan(linalg.lu_solve(factor, rhs, trans))
        with pytest.raises(SingularMatrixError) as caught:
            meshsolve.lu_solve(sharded, rhs, tile, check=True)
        assert caught.value.row == column + 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite(value):
    mesh = make_mesh(2, 2)
    a, b = arbitrary(24, np.float64), right_hand_side(24, 2, np.float64)
    a[20, 3] = value
    sharded, rhs = put(a, mesh, "x", "y"), put(b, mesh)
    x, status = meshsolve.lu_solve(sharded, rhs, return_status=True)
    assert int(status) == -1
    assert all_nan(x)
    assert all(map(all_nan, linalg.slogdet(sharded)))
    assert all_nan(linalg.inv(sharded))
    factor = linalg.lu_factor(sharded)
    assert int(factor.status) == -1
    assert all_nan(linalg.lu_solve(factor, rhs))
    with pytest.raises(meshsolve.NonFiniteError):
        linalg.solve(sharded, rhs, check=True)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 13])
def test_small_and_uneven(n):
    mesh = make_mesh(2, 2)
    a = arbitrary(n, np.complex128)
    for k in (None, 0, 1, n):
        b = right_hand_side(n, k, np.complex128)
        x = meshsolve.lu_solve(a, b, 4, mesh=mesh)
        assert x.shape == b.shape
        if b.size:
            check_solution(a, x, b)
            factor = linalg.lu_factor(a, tile=4, mesh=mesh)
            check_solution(a.conj().T, linalg.lu_solve(factor, b, 2), b)
    sign, logabsdet = linalg.slogdet(a, tile=4, mesh=mesh)
    if n:
        check_slogdet(a, sign, logabsdet)
        check_inverse(a, linalg.inv(a, tile=4, mesh=mesh))
    else:
        assert (complex(sign), float(logabsdet)) == (1, 0)
        assert linalg.inv(a, mesh=mesh).shape == (0, 0)


@all_grids
def test_shift(grid):
    mesh = make_mesh(*grid)
    for dtype, shift in ((np.float32, 3.5), (np.complex128, 2 - 1j)):
        a, b = arbitrary(N, dtype), right_hand_side(N, 2, dtype)
        shifted = (a + shift * np.eye(N)).astype(dtype)
        for tile in (DIVIDING, RAGGED):
            x = linalg.solve(put(a, mesh, "x", "y"), put(b, mesh, "x"), tile=tile, shift=shift)
            check_solution(shifted, x, b)
    traced = jax.jit(lambda a, shift: linalg.det(a, mesh=mesh, shift=shift))(put(a, mesh, "x", "y"), shift)
    np.testing.assert_allclose(complex(traced), np.linalg.det(shifted), rtol=1e-10)


def test_determinants_of_permutations():
    mesh = make_mesh(2, 2)
    rng = np.random.default_rng(3)
    for tile in (2, 5):
        for _ in range(6):
            a = np.eye(16)[rng.permutation(16)]
            sign, logabsdet = linalg.slogdet(put(a, mesh, "x", "y"), tile=tile)
            assert (float(sign), float(logabsdet)) == (np.linalg.det(a), 0)


def test_arguments():
    mesh = make_mesh(2, 2)
    a, b = put(arbitrary(8, np.float64), mesh, "x", "y"), put(right_hand_side(8, 1, np.float64), mesh)
    with pytest.raises(ValueError, match="LU reads all of a"):
        linalg.solve(a, b, triangle="lower")
    with pytest.raises(ValueError, match="trans must be"):
        linalg.lu_solve(linalg.lu_factor(a), b, 3)
    with pytest.raises(TypeError, match="cho_factor returned: got one by lu"):
        linalg.cho_solve(linalg.lu_factor(a), b)
    with pytest.raises(TypeError, match="lu_factor returned: got tuple"):
        linalg.lu_solve((a, b), b)
    with pytest.raises(ValueError, match="as many rows"):
        linalg.lu_solve(linalg.lu_factor(a), b[:4])
    with pytest.raises(TypeError, match="shift must be real"):
        linalg.solve(a, b, shift=1j)
    with pytest.raises(ValueError, match="shift must be a scalar"):
        linalg.solve(a, b, shift=jnp.ones(8))


def test_plan():
    mesh = make_mesh(2, 2)
    a, b = put(arbitrary(N, np.float64), mesh, "x", "y"), put(right_hand_side(N, 1, np.float64), mesh)
    plan = meshsolve.plan(a, b, DIVIDING, assume_a="gen")
    assert plan.explain().startswith(f"LU solve, float64, n = {N}")
    assert (plan.tile, plan.layout) == (DIVIDING, "reading")


def test_vmap():
    mesh = make_mesh(2, 2)
    stack = np.stack([arbitrary(12, np.float64, seed) for seed in range(3)])
    b = right_hand_side(12, 2, np.float64)
    solve = jax.jit(jax.vmap(lambda a: meshsolve.lu_solve(a, b, 3, mesh, P("x", "y"))))
    for a, x in zip(stack, solve(stack), strict=True):
        check_solution(a, x, b)
