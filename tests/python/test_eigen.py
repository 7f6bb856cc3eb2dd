"""Hermitian eigenproblems and solves by them, on every grid in every dtype."""

import itertools
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
    shared_out,
)
from meshsolve import linalg

N = 48  # every grid divides it
DIVIDING, RAGGED, LARGER = 2, 5, 64
WAYS = ((DIVIDING, "auto"), (DIVIDING, "stages"), (RAGGED, "auto"), (LARGER, "auto"))

all_grids = pytest.mark.parametrize("grid", [*GRIDS, (1, 3), (3, 1)], ids=grid_id)
some_grids = pytest.mark.parametrize("grid", [(1, 1), (1, 2), (2, 2), (3, 2)], ids=grid_id)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)


# ---- matrices ----


def with_eigenvalues(values, dtype, seed: int = 0) -> np.ndarray:
    """Q Λ Qᴴ with a random unitary Q, exactly Hermitian in this dtype."""
    wide = np.promote_types(dtype, np.float64)
    q, _ = np.linalg.qr(arbitrary(len(values), wide, seed))
    a = (q * np.asarray(values, np.float64)) @ q.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


def wilkinson(n: int, dtype) -> np.ndarray:
    """Tridiagonal, |i − (n − 1) / 2| and ones: large eigenvalues in pairs that agree to many digits."""
    return (np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)).astype(dtype)


def rank_deficient(n: int, dtype, rank: int = 7) -> np.ndarray:
    """Of a few eigenvalues from 1 to 2 of either sign; the others are zero but for rounding."""
    values = np.zeros(n)
    values[:rank] = np.linspace(1, 2, rank) * (-1) ** np.arange(rank)
    return with_eigenvalues(values, dtype, seed=3)


def matrices(n: int, dtype):
    """Kinds that solvers find hard, each in its own way."""
    yield hermitian(n, dtype)
    yield np.eye(n, dtype=dtype)
    yield np.zeros((n, n), dtype)
    yield with_eigenvalues(np.repeat([-1, 1e-9, 1, 1 + 1e-9], n // 4), dtype)
    scale = 2.0 ** -np.arange(n)
    yield (scale[:, None] * hermitian(n, dtype) * scale).astype(dtype)
    yield wilkinson(n, dtype)
    yield rank_deficient(n, dtype)
    yield np.diag(np.arange(n)[::-1] - n / 3).astype(dtype)


# ---- values and vectors ----


@all_dtypes
@all_grids
def test_vectors(grid, dtype):
    mesh = make_mesh(*grid)
    for tile, layout in shared_out(WAYS, dtype):
        for a in matrices(N, dtype):
            w, v, status = meshsolve.syevd(put(a, mesh, "x", "y"), tile, layout=layout, return_status=True)
            assert int(status) == 0
            check_eigenpairs(a, w, v)
            check_sharding(v, mesh, "x", "y")
            check_sharding(w, mesh)


@all_dtypes
@all_grids
def test_values(grid, dtype):
    mesh = make_mesh(*grid)
    for tile, layout in shared_out(WAYS, np.dtype(dtype)):
        for a in matrices(N, dtype):
            w = linalg.eigvalsh(put(a, mesh, "x", "y"), tile=tile, layout=layout)
            check_eigenvalues(a, w)
            check_sharding(w, mesh)
            # The same on every device, whatever JAX believes.
            assert len({part.tobytes() for part in on_every_device(w)}) == 1


@pytest.mark.smoke
@all_dtypes
def test_smoke(dtype):
    for grid in ((1, 1), (2, 2), (2, 3)):
        mesh = make_mesh(*grid)
        a, b = hermitian(N, dtype), right_hand_side(N, 3, dtype)
        sharded = put(a, mesh, "x", "y")
        check_eigenpairs(a, *linalg.eigh(sharded))
        check_eigenvalues(a, jax.jit(partial(linalg.eigvalsh, mesh=mesh))(sharded))
        x = linalg.pinvh_solve(sharded, put(b, mesh, "x"))
        check_pseudoinverse(a, x, b)


@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (1, 3), (8, 1)], ids=grid_id)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_tiny(n, grid):
    mesh = make_mesh(*grid)
    for dtype, tile in ((np.float32, 1), (np.complex128, 2), (np.float64, 64)):
        a = hermitian(n, dtype)
        w, v, status = meshsolve.syevd(a, tile, mesh, return_status=True)
        check_eigenpairs(a, w, v)
        assert int(status) == 0
    a = hermitian(n, np.complex64)
    check_eigenvalues(a, meshsolve.syevd(a, 2, mesh, return_eigenvectors=False))
    metric = positive_definite(n, np.complex64)
    check_eigenpairs(a, *linalg.eigh(a, metric, tile=1, mesh=mesh), metric)
    b = right_hand_side(n, 2, np.complex64)
    x = linalg.pinvh_solve(a, b, tile=2, mesh=mesh)
    assert (x.shape, x.dtype) == (b.shape, b.dtype)
    if n:
        check_pseudoinverse(a, x, b)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64], ids=dtype_id)
@some_grids
def test_promised_triangle_alone_is_read(grid, dtype):
    mesh = make_mesh(*grid)
    a, metric = hermitian(N, dtype), positive_definite(N, dtype)
    for (triangle, keep), (tile, metric_too) in zip(
        (("lower", np.tril), ("upper", np.triu)) * 2,
        ((DIVIDING, True), (RAGGED, True), (RAGGED, False), (DIVIDING, False)),
        strict=True,
    ):
        kept = keep(np.ones((N, N), bool))
        half, half_metric = (put(np.where(kept, full, np.nan), mesh, "x", "y") for full in (a, metric))
        if metric_too:
            w, v = linalg.eigh(half, half_metric, lower=triangle == "lower", tile=tile)
            check_eigenpairs(a, w, v, metric)
        else:
            w, v = meshsolve.syevd(half, tile, triangle=triangle)
            check_eigenpairs(a, w, v)
            check_eigenvalues(a, meshsolve.syevd(half, tile, triangle=triangle, return_eigenvectors=False))
        check_sharding(v, mesh, "x", "y")


@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT], ids=["auto", "explicit"])
@pytest.mark.parametrize("grid", [(2, 2), (2, 3)], ids=grid_id)
def test_under_jit(grid, axis_types):
    mesh = make_mesh(*grid, axis_types=axis_types)
    dtype = np.complex128
    a, metric, b = hermitian(N, dtype), positive_definite(N, dtype), right_hand_side(N, 3, dtype)

    @jax.jit
    def everything(a, metric, b, rcond):
        where = {"mesh": mesh, "matrix_specs": P("x", "y"), "tile": 8}
        return (
            meshsolve.syevd(2 * a, 8, mesh, P("x", "y"), return_status=True),
            linalg.eigh(a, metric, **where),
            linalg.eigh(a, lower=False, **where),
            linalg.eigvalsh(a, **where),
            linalg.eigh(a, subset_by_index=(1, 25), **where),
            linalg.pinvh_solve(a, b, rcond, **where),
        )

    arguments = put(a, mesh, "x", "y"), put(metric, mesh, "x", "y"), put(b, mesh, "x")
    twice, general, upper, values, some, x = everything(*arguments, 1e-12)
    assert int(twice[2]) == 0
    check_eigenpairs(2 * a, *twice[:2])
    check_eigenpairs(a, *general, metric)
    check_eigenpairs(a, *upper)
    check_eigenvalues(a, values)
    np.testing.assert_allclose(np.asarray(some.eigenvalues), np.asarray(values)[1:25], rtol=1e-12)
    check_sharding(some.eigenvectors, mesh, "x", "y")
    check_pseudoinverse(a, x, b)
    np.testing.assert_array_equal(np.asarray(arguments[0]), a)


def test_vmap_and_scan():
    mesh = make_mesh(2, 2)
    where = {"mesh": mesh, "matrix_specs": P("x", "y"), "tile": 3}
    stack = np.stack([hermitian(12, np.complex64, seed) for seed in range(3)])
    for eigh in (jax.vmap(partial(linalg.eigh, **where)), jax.jit(jax.vmap(partial(linalg.eigh, **where)))):
        for a, w, v in zip(stack, *eigh(stack), strict=True):
            check_eigenpairs(a, w, v)

    @jax.jit
    def shifted_values(a, shifts):
        return jax.lax.scan(lambda _, shift: (None, linalg.eigvalsh(a, shift=shift, **where)), None, shifts)[
            1
        ]

    a = hermitian(12, np.float64)
    for shift, w in zip(range(4), shifted_values(put(a, mesh, "x", "y"), jnp.arange(4.0)), strict=True):
        check_eigenvalues(a + shift * np.eye(12), w)


@pytest.mark.parametrize("tile", [8, 5], ids=["divides", "ragged"])
def test_donation(tile):
    mesh = make_mesh(2, 2)
    a, metric = hermitian(N, np.float64), positive_definite(N, np.float64)
    for options in ({}, {"triangle": "upper"}, {"return_eigenvectors": False}):
        kept = put(a, mesh, "x", "y")
        meshsolve.syevd(kept, tile, **options)
        np.testing.assert_array_equal(np.asarray(kept), a)
        results = meshsolve.syevd(kept, tile, donate=True, **options)
        assert kept.is_deleted()
        check_eigenvalues(a, results if options.get("return_eigenvectors") is False else results[0])
    given, kept = put(a, mesh, "x", "y"), put(metric, mesh, "x", "y")
    check_eigenpairs(a, *linalg.eigh(given, kept, tile=tile, donate=True), metric)
    assert given.is_deleted()
    np.testing.assert_array_equal(np.asarray(kept), metric)
    # The same array as both matrices cannot be given away.
    w, _ = linalg.eigh(kept, kept, tile=tile, donate=True)
    np.testing.assert_allclose(np.asarray(w), 1, rtol=1e-12)
    assert not kept.is_deleted()
    solve = jax.jit(lambda a: (linalg.eigh(a, tile=tile, mesh=mesh), 2 * a), donate_argnums=0)
    pairs, twice = solve(put(a, mesh, "x", "y"))
    check_eigenpairs(a, *pairs)
    np.testing.assert_array_equal(np.asarray(twice), 2 * a)


@some_grids
def test_shift(grid):
    mesh = make_mesh(*grid)
    for dtype, tile in ((np.float32, DIVIDING), (np.complex128, RAGGED)):
        a, metric, b = hermitian(N, dtype), positive_definite(N, dtype), right_hand_side(N, 2, dtype)
        shifted = (a - 2.5 * np.eye(N)).astype(dtype)
        sharded = put(a, mesh, "x", "y")
        check_eigenpairs(shifted, *linalg.eigh(sharded, tile=tile, shift=-2.5))
        pairs = linalg.eigh(sharded, put(metric, mesh, "x", "y"), tile=tile, shift=-2.5)
        check_eigenpairs(shifted, *pairs, metric)
        check_pseudoinverse(shifted, linalg.pinvh_solve(sharded, put(b, mesh), tile=tile, shift=-2.5), b)


def test_symmetrized_input():
    for grid, axis_types in (((2, 3), AUTO), ((2, 2), EXPLICIT)):
        mesh = make_mesh(*grid, axis_types=axis_types)
        a = hermitian(N, np.complex128)
        off = arbitrary(N, np.complex128, seed=5)
        skew = off - off.conj().T
        sharded = put(a + skew, mesh, "x", "y")
        check_eigenpairs(a, *linalg.eigh(sharded, symmetrize_input=True, tile=8))
        check_eigenvalues(a, linalg.eigvalsh(sharded, symmetrize_input=True, tile=5, check=True))


def test_subset_by_index():
    for grid, dtype in (((2, 2), np.float32), ((1, 3), np.complex128)):
        mesh = make_mesh(*grid)
        a = hermitian(N, dtype)
        sharded = put(a, mesh, "x", "y")
        every = linalg.eigh(sharded, tile=4)
        for first, end in ((0, 6), (42, N), (5, 18), (7, 7), (0, N)):
            w, v = linalg.eigh(sharded, subset_by_index=(first, end), tile=4)
            np.testing.assert_array_equal(np.asarray(w), np.asarray(every.eigenvalues)[first:end])
            np.testing.assert_array_equal(np.asarray(v), np.asarray(every.eigenvectors)[:, first:end])
            even = "y" if (end - first) % mesh.shape["y"] == 0 else None
            if first < end:
                check_sharding(v, mesh, "x", even)
            check_sharding(w, mesh)
        w = linalg.eigvalsh(sharded, subset_by_index=(3, 5), tile=4)
        np.testing.assert_allclose(w, every.eigenvalues[3:5], rtol=1e-3 if dtype == np.float32 else 1e-12)
    # JAX cannot share out 13 rows evenly.
    w, v = linalg.eigh(a[:13, :13], subset_by_index=(11, 13), mesh=mesh, tile=4)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a[:13, :13])[11:], rtol=1e-12)
    assert v.shape == (13, 2)


# ---- generalised ----


@all_dtypes
@all_grids
def test_with_a_metric(grid, dtype):
    mesh = make_mesh(*grid)
    metric = positive_definite(N, dtype, seed=1)
    for tile, layout in shared_out(WAYS, dtype):
        for a in itertools.islice(matrices(N, dtype), 3):
            sharded = put(a, mesh, "x", "y"), put(metric, mesh, "x", "y")
            w, v = linalg.eigh(*sharded, tile=tile, layout=layout)
            check_eigenpairs(a, w, v, metric)
            check_sharding(v, mesh, "x", "y")
        check_eigenvalues(a, linalg.eigvalsh(*sharded, tile=tile, layout="auto"), metric)


def test_a_metric_from_elsewhere():
    mesh = make_mesh(2, 2)
    a, metric = hermitian(21, np.float64), positive_definite(21, np.float64)
    check_eigenpairs(a, *linalg.eigh(a, metric, mesh=mesh, tile=4), metric)
    a, metric = hermitian(N, np.float64), positive_definite(N, np.float64)
    for give in (np.asarray, jax.device_put, lambda array: put(array, mesh, "y", "x")):
        check_eigenpairs(a, *linalg.eigh(put(a, mesh, "x", "y"), give(metric)), metric)


@pytest.mark.parametrize("row", [0, 4, 23])
@some_grids
def test_metric_that_is_not_positive_definite(grid, row):
    mesh = make_mesh(*grid)
    a, metric = hermitian(24, np.complex128), positive_definite(24, np.complex128)
    metric[row, row] = -1
    for layout in ("auto", "stages"):
        # No status comes with the names of JAX.
        for result in (
            *linalg.eigh(a, metric, mesh=mesh, tile=3, layout=layout),
            linalg.eigvalsh(a, metric, mesh=mesh, tile=5, layout=layout),
        ):
            assert all_nan(result)
    with pytest.raises(meshsolve.NotPositiveDefiniteError, match=f"order {row + 1}") as caught:
        linalg.eigh(a, metric, mesh=mesh, tile=3, check=True)
    assert caught.value.order == row + 1


# ---- solves ----


def check_pseudoinverse(a, x, b, rcond=None) -> None:
    """Fails unless ``x`` is pinv(a) b, by NumPy in double precision: ‖Δ‖₁ ≤ 10 √n ε ‖a‖ ‖pinv(a)‖² ‖b‖₁."""
    n, epsilon = len(a), np.finfo(a.dtype).eps
    rcond = 10 * n * epsilon if rcond is None else rcond
    wide = np.promote_types(a.dtype, np.float64)
    inverse = np.linalg.pinv(a.astype(wide), rcond=rcond, hermitian=True)
    assert x.dtype == b.dtype
    assert x.shape == b.shape
    expected, x = ((inverse @ b.astype(wide)).reshape(n, -1), np.asarray(x).astype(wide).reshape(n, -1))
    difference = np.abs(x - expected).sum(axis=0).max()
    size, inverse_size = np.linalg.norm(a.astype(wide), 2), np.linalg.norm(inverse, 2)
    bound = 10 * np.sqrt(n) * epsilon * size * inverse_size**2 * np.abs(b).reshape(n, -1).sum(axis=0).max()
    # A comparison with NaN is false.
    assert difference <= bound, f"‖x − pinv(a) b‖₁ = {difference:.3g}, needed ≤ {bound:.3g}"


@all_dtypes
@all_grids
def test_pinvh_solve(grid, dtype):
    mesh = make_mesh(*grid)
    a = rank_deficient(N, dtype)
    sharded = put(a, mesh, "x", "y")
    placements = ((N, ("x", "y")), (1, ("x",)), (None, ()), (3, ()), (None, ("x",)))
    # Each way with two of the dtypes, each placement with two or with all.
    cases = zip(itertools.cycle(WAYS), (*placements, *placements[:2]), strict=False)
    for (tile, layout), (k, spec) in shared_out(cases, dtype):
        b = right_hand_side(N, k, dtype)
        x = linalg.pinvh_solve(sharded, put(b, mesh, *spec), tile=tile, layout=layout)
        check_pseudoinverse(a, x, b)
        check_sharding(x, mesh, *spec)


def test_cutoff_of_pinvh_solve():
    mesh = make_mesh(2, 2)
    values = np.concatenate([[4, -2, 1, 0.5], np.full(12, 1e-3), np.zeros(8)])
    a, b = with_eigenvalues(values, np.float64), right_hand_side(24, 2, np.float64)
    sharded = put(a, mesh, "x", "y")
    solve = jax.jit(partial(linalg.pinvh_solve, tile=4, mesh=mesh))
    for rcond in (0.6, 0.3, 0.2, 0.1, 1e-2, 1e-6, np.float64(1e-8)):
        check_pseudoinverse(a, linalg.pinvh_solve(sharded, b, rcond, tile=4), b, rcond)
        check_pseudoinverse(a, solve(sharded, b, rcond), b, rcond)
    # All is cut away, and nothing is there to be cut.
    np.testing.assert_array_equal(np.asarray(linalg.pinvh_solve(sharded, b, 2.0)), 0)
    nothing = put(np.zeros((24, 24)), mesh, "x", "y")
    np.testing.assert_array_equal(np.asarray(linalg.pinvh_solve(nothing, b)), 0)


def test_pinvh_solve_in_odd_cases():
    mesh = make_mesh(2, 2)
    a = rank_deficient(13, np.complex64)
    for k in (None, 0, 1, 5):
        b = right_hand_side(13, k, np.complex64)
        x = linalg.pinvh_solve(a, b, mesh=mesh, tile=4, check=True)
        assert x.shape == b.shape
        if b.size:
            check_pseudoinverse(a, x, b)
    full = rank_deficient(N, np.complex64)
    b = right_hand_side(N, 3, np.complex64)
    for lower, keep in ((True, np.tril), (False, np.triu)):
        half = np.where(keep(np.ones((N, N), bool)), full, np.nan)
        for tile in (8, 5):
            x = linalg.pinvh_solve(put(half, mesh, "x", "y"), put(b, mesh), tile=tile, lower=lower)
            check_pseudoinverse(full, x, b)
    given = put(full, mesh, "x", "y")
    check_pseudoinverse(full, linalg.pinvh_solve(given, put(b, mesh), tile=8, donate=True), b)
    assert given.is_deleted()


def test_the_checker_of_pinvh_solve():
    a, b = rank_deficient(64, np.float32), right_hand_side(64, 2, np.float32)
    x = (np.linalg.pinv(a.astype(np.float64), rcond=1e-4, hermitian=True) @ b).astype(np.float32)
    check_pseudoinverse(a, x, b)
    swapped, zeroed, one_nan = x.copy(), x.copy(), x.copy()
    swapped[:8], swapped[8:16] = x[8:16], x[:8]
    zeroed[-8:], one_nan[5, 1] = 0, np.nan
    for wrong in (swapped, zeroed, one_nan, np.linalg.solve(a, b)):
        with pytest.raises(AssertionError, match="needed"):
            check_pseudoinverse(a, wrong, b)


# ---- failures and arguments ----


@pytest.mark.parametrize("value", [np.nan, np.inf])
@some_grids
def test_non_finite(grid, value):
    mesh = make_mesh(*grid)
    corner = hermitian(3, np.float64)
    corner[0, 0] = value
    one_shard = hermitian(24, np.float64)
    one_shard[20, 13] = one_shard[13, 20] = value
    for a, run in itertools.product((corner, one_shard), (lambda f: f, jax.jit)):
        n = len(a)
        w, v, status = run(partial(meshsolve.syevd, T_A=4, mesh=mesh, return_status=True))(a)
        assert all_nan(w)
        assert all_nan(v)
        assert {int(part) for part in on_every_device(status)} == {-1}
        assert all_nan(run(partial(linalg.eigvalsh, tile=4, mesh=mesh))(a))
        assert all_nan(run(partial(linalg.pinvh_solve, mesh=mesh))(a, np.ones(n)))
        # In the metric, too.
        for result in run(partial(linalg.eigh, tile=4, mesh=mesh))(np.eye(n), a):
            assert all_nan(result)
    for call in (
        partial(meshsolve.syevd, one_shard),
        partial(linalg.eigh, np.eye(24), one_shard),
        partial(linalg.pinvh_solve, one_shard, np.ones((24, 0))),
    ):
        with pytest.raises(meshsolve.NonFiniteError, match="non-finite"):
            call(mesh=mesh, check=True)


@some_grids
def test_shift_that_is_not_finite(grid):
    mesh = make_mesh(*grid)
    a = hermitian(24, np.complex64)
    large = a + 3e38 * np.eye(24, dtype=np.complex64)
    for matrix, shift in ((a, np.nan), (a, -np.inf), (large, 3e38)):
        for triangle in (None, "lower"):
            w, v, status = meshsolve.syevd(
                matrix, 4, mesh, shift=shift, triangle=triangle, return_status=True
            )
            assert {int(part) for part in on_every_device(status)} == {-1}
            assert all_nan(w)
            assert all_nan(v)
        with pytest.raises(meshsolve.NonFiniteError):
            linalg.eigvalsh(matrix, tile=4, mesh=mesh, shift=shift, check=True)


def test_overflow():
    mesh = make_mesh(2, 2)
    for dtype, large in ((np.float64, 1e200), (np.complex64, 1e30)):
        a = (large * hermitian(24, dtype)).astype(dtype)
        metric = (np.eye(24) / large).astype(dtype)
        for result in (*linalg.eigh(a, metric, mesh=mesh), linalg.eigvalsh(a, metric, tile=5, mesh=mesh)):
            assert all_nan(result)
        with pytest.raises(meshsolve.ConvergenceError, match="overflowed"):
            linalg.eigvalsh(a, metric, mesh=mesh, check=True)
    # Large and small numbers alone are no matter.
    for scale in (1e300, 1e-300):
        a = scale * hermitian(24, np.float64)
        check_eigenpairs(a, *linalg.eigh(a, mesh=mesh))


def test_arguments():
    mesh = make_mesh(2, 2)
    dense = hermitian(8, np.float64)
    a, b = put(dense, mesh, "x", "y"), put(right_hand_side(8, 1, np.float64), mesh)
    for message, error, call in (
        (r"square matrix: got shape \(4, 8\)", ValueError, partial(linalg.eigh, a[:4])),
        ("a is not supported: got int32", TypeError, partial(linalg.eigvalsh, np.eye(8, dtype=np.int32))),
        (r"shape of a: got \(4, 4\), needed \(8, 8\)", ValueError, partial(linalg.eigh, a, dense[:4, :4])),
        ("same dtype: got float64 and float32", TypeError, partial(linalg.eigh, a, dense.astype(np.float32))),
        ("lower must be None", TypeError, partial(linalg.eigh, a, lower="L")),
        ("triangle must be None", ValueError, partial(meshsolve.syevd, a, triangle="L")),
        ("reads both triangles", ValueError, partial(linalg.eigh, a, lower=True, symmetrize_input=True)),
        ("pair of integers", TypeError, partial(linalg.eigh, a, subset_by_index=3)),
        (
            r"got \(3, 9\), needed 0 ≤ first ≤ end ≤ 8",
            ValueError,
            partial(linalg.eigvalsh, a, subset_by_index=(3, 9)),
        ),
        ("shift must be real", TypeError, partial(linalg.eigh, a.astype(complex), shift=1j)),
        ("rcond must be finite and not negative", ValueError, partial(linalg.pinvh_solve, a, b, -1e-3)),
        ("rcond must be real", TypeError, partial(linalg.pinvh_solve, a, b, 1j)),
        ("rcond must be a scalar", ValueError, partial(linalg.pinvh_solve, a, b, np.ones(3))),
        ("as many rows", ValueError, partial(linalg.pinvh_solve, a, b[:4])),
        ("a is not Hermitian", ValueError, partial(linalg.eigh, np.triu(dense), mesh=mesh, check=True)),
        ("b is not Hermitian", ValueError, partial(linalg.eigh, a, np.triu(dense), check=True)),
        ("does not divide the sizes", ValueError, partial(linalg.eigh, dense[:7, :7], mesh=mesh, pad=False)),
        ("task must be one of", ValueError, partial(meshsolve.plan, a, task="svd")),
        ("is for task=", ValueError, partial(meshsolve.plan, a, task="eigh", return_logdet=True)),
    ):
        with pytest.raises(error, match=message):
            call()


def test_plan():
    mesh = make_mesh(2, 2)
    a = put(hermitian(N, np.float64), mesh, "x", "y")
    b = put(right_hand_side(N, 1, np.float64), mesh)
    vectors = meshsolve.plan(a, T_A=DIVIDING, task="eigh")
    assert (vectors.routine, vectors.tile, vectors.ranks) == ("eigen", DIVIDING, 4)
    assert vectors.explain().startswith(f"Eigenvalues and eigenvectors, float64, n = {N}")
    assert vectors.workspace_bytes > 0
    shapes = {output.name: (output.shape, output.dtype) for output in vectors.outputs}
    assert shapes["w"] == ((N,), np.float64)
    assert shapes["v"] == ((N // 2, N // 2), np.float64)
    values = meshsolve.plan(a, task="eigvalsh", donate=True)
    assert "v" not in {output.name for output in values.outputs}
    assert values.bytes_per_device < vectors.bytes_per_device
    assert [operand.name for operand in meshsolve.plan(a, a, task="eigh").inputs] == ["a", "metric"]
    assert [operand.name for operand in meshsolve.plan(a, b, task="pinvh_solve").inputs] == [
        "a",
        "cutoff",
        "b",
    ]
    # It is the plan that the call follows.
    stages = meshsolve.plan(a, T_A=RAGGED, task="eigh", layout="stages", triangle="upper")
    assert stages.layout == "stages"
    assert stages.explain().count("lower triangle promised") == 1


@pytest.mark.parametrize("triangle", [None, "lower", "upper"])
@pytest.mark.parametrize("layout", ["auto", "stages"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_imaginary_parts_on_the_diagonal_are_zero(triangle, layout, dtype):
    mesh = make_mesh(2, 2)
    a, metric, b = hermitian(24, dtype), positive_definite(24, dtype), right_hand_side(24, 2, dtype)
    imaginary = 1j * np.diag(np.linspace(1, 7, 24)).astype(dtype)
    given, given_metric = (put(each + imaginary, mesh, "x", "y") for each in (a, metric))
    for tile in (5, 6):
        w, v = meshsolve.syevd(given, tile, triangle=triangle, layout=layout)
        check_eigenpairs(a, w, v)
        x, log_det = meshsolve.potrs(
            given_metric, b, tile, triangle=triangle, layout=layout, return_logdet=True
        )
        check_solution(metric, x, b)
        check_log_det(metric, log_det)
        lower = {None: None, "lower": True, "upper": False}[triangle]
        w, v = linalg.eigh(given, given_metric, lower=lower, tile=tile, layout=layout)
        check_eigenpairs(a, w, v, metric)


def test_a_cutoff_that_is_not_a_number():
    a = put(positive_definite(24, np.float64), make_mesh(2, 2), "x", "y")
    for cutoff in (np.nan, np.inf):
        assert all_nan(linalg.pinvh_solve(a, np.ones(24), jnp.float64(cutoff)))
        with pytest.raises(meshsolve.NonFiniteError):
            linalg.pinvh_solve(a, np.ones(24), jnp.float64(cutoff), check=True)
