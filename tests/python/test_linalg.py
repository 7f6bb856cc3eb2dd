"""The Cholesky family and triangular solves under JAX's names, on every grid in every dtype."""

from functools import partial

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
import pytest
from helpers import (
    AUTO,
    DTYPES,
    EXPLICIT,
    GRIDS,
    P,
    all_nan,
    arbitrary,
    check_inverse,
    check_log_det,
    check_sharding,
    check_solution,
    dtype_id,
    grid_id,
    make_mesh,
    positive_definite,
    put,
    right_hand_side,
    shared_out,
)
from meshsolve import linalg

N = 48
DIVIDING, RAGGED, LARGER = 2, 5, 64

all_grids = pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)


def check_factor(a, factor, upper: bool) -> None:
    """|a − L·Lᴴ| ≤ n·ε·|L|·|Lᴴ| element by element, exact zeros beside L, a positive diagonal."""
    factor = np.asarray(factor)
    assert factor.dtype == a.dtype
    lower = factor.conj().T if upper else factor
    np.testing.assert_array_equal(np.triu(lower, 1), 0)
    assert (np.diag(lower).real > 0).all() and (np.diag(lower).imag == 0).all()
    wide = lower.astype(np.promote_types(a.dtype, np.float64))
    bound = len(a) * np.finfo(a.dtype).eps * (np.abs(wide) @ np.abs(wide).T)
    assert (np.abs(a - wide @ wide.conj().T) <= bound).all()


@all_dtypes
@all_grids
def test_cholesky(grid, dtype):
    mesh = make_mesh(*grid)
    a = positive_definite(N, dtype)
    # Each tile and each triangle with every dtype, but not every pair.
    cases = [
        (DIVIDING, False),
        (DIVIDING, True),
        (RAGGED, True),
        (RAGGED, False),
        (LARGER, False),
        (LARGER, True),
    ]
    for tile, upper in shared_out(cases, dtype):
        # The other triangle is not read.
        half = np.where(np.triu(np.ones((N, N), bool)) if upper else np.tri(N, dtype=bool), a, np.nan)
        factor = linalg.cholesky(put(half, mesh, "x", "y"), upper=upper, tile=tile)
        check_factor(a, factor, upper)
        check_sharding(factor, mesh, "x", "y")


def test_cholesky_donated_and_under_jit():
    mesh = make_mesh(2, 2)
    a = positive_definite(N, np.complex64)
    for tile in (8, 5):
        donated = put(a, mesh, "x", "y")
        check_factor(a, linalg.cholesky(donated, tile=tile, donate=True), upper=False)
        assert donated.is_deleted()
        factor = jax.jit(partial(linalg.cholesky, tile=tile, mesh=mesh))(put(a, mesh, "x", "y"))
        check_factor(a, factor, upper=False)


@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT], ids=["auto", "explicit"])
def test_cholesky_of_a_matrix_to_be_symmetrized(axis_types):
    for grid in ((2, 2), (2, 3)):
        mesh = make_mesh(*grid, axis_types=axis_types)
        a = positive_definite(N, np.complex128)
        off = a + 1j * np.triu(np.ones((N, N)), 1) + 1j * np.tri(N, N, -1)
        factor = linalg.cholesky(put(off, mesh, "x", "y"), symmetrize_input=True)
        check_factor(a, factor, upper=False)
        check_sharding(factor, mesh, "x", "y")


@all_dtypes
@all_grids
def test_factor_and_solve(grid, dtype):
    mesh = make_mesh(*grid)
    a = positive_definite(N, dtype)
    sharded = put(a, mesh, "x", "y")
    cases = [
        (DIVIDING, "auto", 3, ("x",)),
        (DIVIDING, "stages", None, ()),
        (RAGGED, "auto", N, ("x", "y")),
        (LARGER, "auto", 1, ()),
    ]
    for tile, layout, k, spec in shared_out(cases, dtype):
        factor = linalg.cho_factor(sharded, tile=tile, layout=layout)
        b = right_hand_side(N, k, dtype)
        for _ in range(2):
            x = linalg.cho_solve(factor, put(b, mesh, *spec))
            check_solution(a, x, b)
            check_sharding(x, mesh, *spec)


def test_factor_of_a_promised_triangle():
    mesh = make_mesh(2, 3)
    a, b = positive_definite(N, np.complex128), right_hand_side(N, 2, np.complex128)
    for triangle, keep in (("lower", np.tril), ("upper", np.triu)):
        half = np.where(keep(np.ones((N, N), bool)), a, np.nan)
        factor = linalg.cho_factor(put(half, mesh, "x", "y"), triangle=triangle, tile=4)
        check_solution(a, linalg.cho_solve(factor, put(b, mesh)), b)


@all_dtypes
@all_grids
def test_inverse_and_determinant(grid, dtype):
    mesh = make_mesh(*grid)
    a = positive_definite(N, dtype)
    sharded = put(a, mesh, "x", "y")
    for tile in shared_out((DIVIDING, RAGGED, LARGER), dtype):
        x = linalg.inv(sharded, assume_a="pos", tile=tile)
        check_inverse(a, x)
        check_sharding(x, mesh, "x", "y")
        sign, log_det = linalg.slogdet(sharded, assume_a="pos", tile=tile)
        assert (complex(sign), sign.dtype) == (1, dtype)
        check_log_det(a, log_det)


def triangular(n: int, dtype, lower: bool, unit: bool) -> np.ndarray:
    """A triangular matrix far from singular, with NaN wherever nothing may be read."""
    a = arbitrary(n, dtype) / (2 * n) + 2 * np.eye(n, dtype=dtype)
    a = np.where(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, np.nan)
    if unit:
        np.fill_diagonal(a, np.nan)
    return a.astype(dtype)


@pytest.mark.parametrize("grid", [(1, 1), (1, 2), (2, 1)], ids=grid_id)
def test_more_right_hand_sides_than_are_solved_for_at_a_time(grid):
    n, k = 560, 1200
    mesh = make_mesh(*grid)
    a, b = arbitrary(n, np.float64), right_hand_side(n, k, np.float64)
    on_mesh = put(a, mesh, "x", "y")
    check_solution(a, linalg.solve(on_mesh, put(b, mesh, "x", "y"), tile=n), b)
    check_inverse(a, linalg.inv(on_mesh, tile=n))
    check_solution(a.T, linalg.lu_solve(linalg.lu_factor(on_mesh, tile=n), put(b, mesh, "x"), trans=1), b)
    a = positive_definite(n, np.float64)
    on_mesh = put(a, mesh, "x", "y")
    check_solution(a, linalg.solve(on_mesh, put(b, mesh, "x", "y"), assume_a="pos", tile=n), b)
    for factor in linalg.cho_factor(on_mesh, tile=100), linalg.cho_factor(on_mesh, triangle="upper"):
        check_solution(a, linalg.cho_solve(factor, put(b, mesh)), b)


@pytest.mark.parametrize(("grid", "dtype"), [((1, 1), np.float32), ((2, 1), np.complex128)])
def test_more_rows_than_are_solved_for_at_a_time(grid, dtype):
    """So that triangular solves take several blocks and inverses several stripes, which begin elsewhere."""
    n, tile, mesh = 2300, 96, make_mesh(*grid)
    for a, assume_a in (arbitrary(n, dtype), "gen"), (positive_definite(n, dtype), "pos"):
        check_inverse(a, linalg.inv(put(a, mesh, "x", "y"), assume_a=assume_a, tile=tile))


@all_dtypes
@all_grids
def test_solve_triangular(grid, dtype):
    mesh = make_mesh(*grid)
    cases = [
        (DIVIDING, True, False, 0, 3, ("x",)),
        (DIVIDING, False, False, "C", N, ("x", "y")),
        (DIVIDING, True, True, 2, None, ()),
        (RAGGED, False, True, 0, 1, ()),
        (RAGGED, True, False, 1, 5, ("x",)),
        (LARGER, False, False, "T", None, ("x",)),
    ]
    for tile, lower, unit, trans, k, spec in shared_out(cases, dtype):
        a, b = triangular(N, dtype, lower, unit), right_hand_side(N, k, dtype)
        x = linalg.solve_triangular(
            put(a, mesh, "x", "y"), put(b, mesh, *spec), trans, lower, unit, tile=tile
        )
        full = np.nan_to_num(a)
        if unit:
            np.fill_diagonal(full, 1)
        matrix = {0: full, 1: full.T, "T": full.T, 2: full.conj().T, "C": full.conj().T}[trans]
        check_solution(matrix, x, b)
        check_sharding(x, mesh, *spec)


@pytest.mark.smoke
@all_dtypes
def test_smoke(dtype):
    for grid in ((1, 1), (2, 2), (2, 3)):
        mesh = make_mesh(*grid)
        a, b = positive_definite(N, dtype), right_hand_side(N, 3, dtype)
        sharded, rhs = put(a, mesh, "x", "y"), put(b, mesh, "x")
        factor = linalg.cholesky(sharded)
        check_factor(a, factor, upper=False)
        y = linalg.solve_triangular(factor, rhs, lower=True)
        check_solution(np.asarray(factor), y, b)
        check_solution(a, linalg.cho_solve(linalg.cho_factor(sharded), rhs), b)
        check_inverse(a, linalg.inv(sharded, assume_a="pos"))


def test_a_triangular_matrix_that_is_singular_or_not_finite():
    mesh = make_mesh(2, 2)
    b = put(right_hand_side(24, 2, np.float64), mesh)
    a = triangular(24, np.float64, lower=True, unit=False)
    a[9, 9] = 0
    assert all_nan(linalg.solve_triangular(put(a, mesh, "x", "y"), b, lower=True, tile=5))
    with pytest.raises(meshsolve.SingularMatrixError, match="pivot in row 10 is zero"):
        linalg.solve_triangular(put(a, mesh, "x", "y"), b, lower=True, check=True)
    a[9, 9] = np.inf
    with pytest.raises(meshsolve.NonFiniteError):
        linalg.solve_triangular(put(a, mesh, "x", "y"), b, lower=True, check=True)


def test_a_matrix_that_is_not_positive_definite():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(24, np.float64), right_hand_side(24, 2, np.float64)
    a[17, 17] = -1
    sharded, rhs = put(a, mesh, "x", "y"), put(b, mesh)
    assert all_nan(linalg.cholesky(sharded, tile=4))
    assert all_nan(linalg.inv(sharded, assume_a="pos"))
    assert all(map(all_nan, linalg.slogdet(sharded, assume_a="pos")))
    factor = linalg.cho_factor(sharded)
    assert int(factor.status) > 0
    assert all_nan(linalg.cho_solve(factor, rhs))
    for solve in (linalg.cholesky, linalg.cho_factor):
        with pytest.raises(meshsolve.NotPositiveDefiniteError) as caught:
            solve(sharded, check=True)
        assert caught.value.order == 18


@all_grids
def test_shift(grid):
    mesh = make_mesh(*grid)
    for dtype in (np.float64, np.complex64):
        a, b = positive_definite(N, dtype), right_hand_side(N, 2, dtype)
        shifted = (a + 7.25 * np.eye(N)).astype(dtype)
        sharded, rhs = put(a, mesh, "x", "y"), put(b, mesh, "x")
        for tile in (DIVIDING, RAGGED):
            x, log_det = meshsolve.potrs(sharded, rhs, tile, return_logdet=True, shift=7.25)
            check_solution(shifted, x, b)
            check_log_det(shifted, log_det)
            check_factor(shifted, linalg.cholesky(sharded, tile=tile, shift=7.25), upper=False)
            check_factor(shifted, linalg.cholesky(sharded, tile=tile, shift=jnp.bfloat16(7.25)), upper=False)
            factor = linalg.cho_factor(sharded, tile=tile, shift=7.25)
            check_solution(shifted, linalg.cho_solve(factor, rhs), b)


@pytest.mark.parametrize("solve", [meshsolve.potrs, meshsolve.lu_solve])
@pytest.mark.parametrize("shift", [np.nan, np.inf])
def test_a_shift_that_is_not_finite(solve, shift):
    mesh = make_mesh(2, 2)
    a, b = put(positive_definite(N, np.float64), mesh, "x", "y"), put(right_hand_side(N, 1, np.float64), mesh)
    x, status = solve(a, b, return_status=True, shift=shift)
    assert int(status) == -1
    assert all_nan(x)


@pytest.mark.parametrize("solve", [meshsolve.potrs, meshsolve.lu_solve])
def test_a_shift_to_numbers_that_are_too_large(solve):
    """The one in the solver's last tile, so that a solver would end well."""
    mesh = make_mesh(2, 2)
    a = np.eye(N, dtype=np.float32)
    a[-1, -1] = 3e38
    x, status = solve(
        put(a, mesh, "x", "y"), put(np.ones(N, np.float32), mesh), return_status=True, shift=3e38
    )
    assert int(status) == -1
    assert all_nan(x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 13])
def test_small_and_uneven(n):
    mesh = make_mesh(2, 2)
    a = positive_definite(n, np.float32)
    b = right_hand_side(n, 2, np.float32)
    factor = linalg.cholesky(a, mesh=mesh, tile=4)
    assert factor.shape == (n, n)
    if n:
        check_factor(a, factor, upper=False)
        check_solution(a, linalg.cho_solve(linalg.cho_factor(a, mesh=mesh, tile=4), b), b)
        check_inverse(a, linalg.inv(a, assume_a="pos", mesh=mesh, tile=4))
        lower = np.tril(a)
        check_solution(lower, linalg.solve_triangular(lower, b, lower=True, mesh=mesh, tile=4), b)
    empty = right_hand_side(n, 0, np.float32)
    assert linalg.cho_solve(linalg.cho_factor(a, mesh=mesh), empty).shape == (n, 0)
    assert linalg.solve_triangular(np.tril(a), empty, lower=True, mesh=mesh).shape == (n, 0)


def test_factors_have_the_options_of_the_solves():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    donated = put(a, mesh, "x", "y")
    factor = linalg.cho_factor(donated, tile=8, donate=True)
    assert donated.is_deleted()
    check_solution(a, linalg.cho_solve(factor, put(b, mesh, "x", None)), b)
    with pytest.raises(ValueError, match="does not divide the sizes"):
        linalg.cho_factor(a[:13, :13], mesh=mesh, pad=False)
    with pytest.raises(ValueError, match="diagonal of ones"):
        linalg.solve_triangular(put(a, mesh, "x", "y"), b, unit_diagonal=True, shift=1.0)
    jitted = jax.jit(lambda a, b: linalg.cho_solve(linalg.cho_factor(a, mesh=mesh), b))
    check_solution(a, jitted(put(a, mesh, "x", "y"), put(b, mesh)), b)
    spec = P("x", "y")
    stack = np.stack([positive_definite(8, np.float64, seed) for seed in range(3)])
    factors = jax.jit(jax.vmap(partial(linalg.cholesky, mesh=mesh, matrix_specs=spec, tile=2)))(stack)
    for matrix, factor in zip(stack, factors, strict=True):
        check_factor(matrix, factor, upper=False)
