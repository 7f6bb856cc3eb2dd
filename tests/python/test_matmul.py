"""Products of sharded matrices, on every grid in every dtype, against NumPy."""

from functools import partial

import jax
import numpy as np
import pytest
from helpers import (
    AUTO,
    DTYPES,
    EXPLICIT,
    GRIDS,
    MIXED,
    P,
    check_sharding,
    dtype_id,
    grid_id,
    make_mesh,
    put,
    use_mesh,
)
from jax.sharding import AxisType, Mesh
from meshsolve import linalg

M, K, N = 24, 48, 72
DIVIDING, RAGGED, LARGER = 3, 5, 64

all_grids = pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)


def factors(m: int, k: int, n: int | None, dtype, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian (m, k) and (k, n); the second one (k,) if ``n`` is None."""
    rng = np.random.default_rng(seed)

    def gaussian(*shape: int) -> np.ndarray:
        real = rng.standard_normal(shape)
        is_complex = np.issubdtype(dtype, np.complexfloating)
        return (real + 1j * rng.standard_normal(shape) if is_complex else real).astype(dtype)

    return gaussian(m, k), gaussian(k) if n is None else gaussian(k, n)


def check_product(a, b, c) -> None:
    """|c − a b| ≤ (k + 1) ε |a| |b|, element by element."""
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    assert c.dtype == a.dtype
    wide = np.promote_types(a.dtype, np.float64)
    expected = a.astype(wide) @ b.astype(wide)
    assert c.shape == expected.shape
    bound = (a.shape[1] + 1) * np.finfo(a.dtype).eps * (np.abs(a) @ np.abs(b))
    # A comparison with NaN is false.
    assert (np.abs(c - expected) <= bound).all()


@all_dtypes
@all_grids
def test_matmul(grid, dtype):
    mesh = make_mesh(*grid)
    a, b = factors(M, K, N, dtype)
    on_mesh = put(a, mesh, "x", "y"), put(b, mesh, "x", "y")
    for tile, layout in (
        (None, "auto"),
        (DIVIDING, "auto"),
        (DIVIDING, "stages"),
        (DIVIDING, "reading"),
        (RAGGED, "auto"),
        (LARGER, "auto"),
    ):
        if layout == "reading" and grid in ((2, 3), (3, 2)):
            tile = 4
        c = linalg.matmul(*on_mesh, tile=tile, layout=layout)
        check_product(a, b, c)
        check_sharding(c, mesh, "x", "y")
    for given, array in zip((a, b), on_mesh, strict=True):
        np.testing.assert_array_equal(given, np.asarray(array))


@pytest.mark.smoke
@all_dtypes
def test_smoke(dtype):
    for grid in ((1, 1), (2, 2), (2, 3)):
        mesh = make_mesh(*grid)
        a, b = factors(M, K, N, dtype)
        check_product(a, b, linalg.matmul(put(a, mesh, "x", "y"), put(b, mesh, "x", "y")))


@all_grids
def test_matrix_times_vector(grid):
    mesh = make_mesh(*grid)
    for dtype in (np.float32, np.complex128):
        a, b = factors(M, K, None, dtype)
        sharded = put(a, mesh, "x", "y")
        for vector in (b, put(b, mesh), put(b, mesh, "x")):
            for tile in (None, RAGGED):
                c = linalg.matmul(sharded, vector, tile=tile)
                check_product(a, b, c)
                check_sharding(c, mesh, "x")
        column = linalg.matmul(sharded, b[:, None])
        check_product(a, b[:, None], column)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 2, 1), (13, 7, 10), (12, 11, 8), (5, 8, 3)])
def test_sizes_that_the_mesh_does_not_divide(sizes):
    for grid in ((2, 2), (1, 4), (2, 3)):
        mesh = make_mesh(*grid)
        for dtype in (np.float32, np.complex128):
            a, b = factors(*sizes, dtype)
            for tile in (None, 2):
                c = linalg.matmul(a, b, mesh=mesh, tile=tile)
                check_product(a, b, c)
                even = ["x" if len(a) % grid[0] == 0 else None, "y" if b.shape[1] % grid[1] == 0 else None]
                check_sharding(c, mesh, *even)


@pytest.mark.parametrize("sizes", [(0, 4, 6), (4, 0, 6), (4, 6, 0), (0, 0, 0), (6, 0, None)])
def test_sizes_of_zero(sizes):
    mesh = make_mesh(2, 2)
    a, b = factors(*sizes, np.float64)
    for run in (linalg.matmul, jax.jit(partial(linalg.matmul, mesh=mesh))):
        c = run(put(a, mesh), put(b, mesh))
        assert c.dtype == a.dtype
        np.testing.assert_array_equal(np.asarray(c), a @ b)


def test_operands_in_other_places():
    mesh = make_mesh(2, 4)
    a, b = factors(M, K, N, np.float64)
    for a_spec in (("x", "y"), ("y", "x"), ("x",), (None, "y"), (("x", "y"),), (None, ("y", "x"))):
        sharded = put(a, mesh, *a_spec)
        for other in (b, jax.numpy.asarray(b), put(b, mesh), put(b, mesh, "y"), put(b, mesh, "x", "y")):
            c = linalg.matmul(sharded, other)
            check_product(a, b, c)
            check_sharding(c, mesh, *a_spec)
    c = linalg.matmul(a, put(b, mesh, "x"), matrix_specs=P("y", "x"))
    check_product(a, b, c)
    check_sharding(c, mesh, "y", "x")


def test_a_matrix_by_itself():
    for grid in ((2, 2), (1, 4), (4, 2)):
        mesh = make_mesh(*grid)
        a, _ = factors(K, K, 1, np.complex64)
        sharded = put(a, mesh, "x", "y")
        check_product(a, a, linalg.matmul(sharded, sharded))


@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT, MIXED], ids=["auto", "explicit", "mixed"])
def test_under_jit(axis_types):
    for grid in ((2, 2), (2, 4), (1, 3)):
        mesh = make_mesh(*grid, axis_types=axis_types)
        for sizes in ((M, K, N), (M, K, None)):
            a, b = factors(*sizes, np.float64)
            right = put(b, mesh, "x", "y") if b.ndim == 2 else put(b, mesh, "x")
            run = jax.jit(lambda a, b, mesh=mesh: 2 * linalg.matmul(a + 0, b, mesh=mesh))
            with use_mesh(mesh):
                check_product(a, b, run(put(a, mesh, "x", "y"), right) / 2)


def test_a_chain_of_products_in_one_program():
    mesh = make_mesh(2, 2)
    a, _ = factors(M, M, 1, np.float64)
    a /= np.abs(a).sum(axis=0).max()

    @jax.jit
    def tenth_power(a):
        def step(power, _):
            return linalg.matmul(a, power, mesh=mesh, tile=DIVIDING), None

        return jax.lax.scan(step, a, length=9)[0]

    expected = np.linalg.matrix_power(a, 10)
    np.testing.assert_allclose(tenth_power(put(a, mesh, "x", "y")), expected, rtol=0, atol=1e-15)


def test_vmap():
    mesh = make_mesh(2, 2)
    pairs = [factors(M, K, N, np.float32, seed) for seed in range(3)]
    a, b = (np.stack(each) for each in zip(*pairs, strict=True))
    product = partial(linalg.matmul, mesh=mesh, tile=RAGGED)
    for run in (jax.vmap(product), jax.jit(jax.vmap(product))):
        for each, c in zip(pairs, run(a, b), strict=True):
            check_product(*each, c)
    for right, c in zip(b, jax.vmap(partial(product, a[0]))(b), strict=True):
        check_product(a[0], right, c)


def test_groups_side_by_side():
    """Mesh axes that the partition does not name: every group of devices multiplies for itself."""
    devices = np.array(jax.devices()[:8]).reshape(2, 2, 2)
    mesh = Mesh(devices, ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)
    a, b = factors(M, K, N, np.float64)
    c = linalg.matmul(put(a, mesh, "z", "x"), put(b, mesh, "z", "x"))
    check_product(a, b, c)
    check_sharding(c, mesh, "z", "x")


def test_what_is_not_finite_is_multiplied():
    mesh = make_mesh(2, 2)
    a, b = factors(M, K, N, np.float64)
    a[5, 7], b[11, 3] = np.nan, np.inf
    for tile in (None, DIVIDING, RAGGED):
        c = np.asarray(linalg.matmul(put(a, mesh, "x", "y"), put(b, mesh, "x", "y"), tile=tile))
        np.testing.assert_array_equal(np.isfinite(c), np.isfinite(a @ b))


def test_what_does_not_fit_is_refused():
    mesh = make_mesh(2, 2)
    a, b = factors(M, K, N, np.float32)
    sharded = put(a, mesh, "x", "y")
    for arguments, options, kind, message in (
        ((sharded, b[1:]), {}, ValueError, r"got shape \(47, 72\) with a of shape \(24, 48\)"),
        ((sharded, b[None]), {}, ValueError, "use jax.vmap for a batch"),
        ((b[:, 0], b), {}, ValueError, r"a must be a matrix: got shape \(48,\)"),
        ((sharded, b.astype(np.complex64)), {}, TypeError, "the same dtype"),
        ((sharded, b.astype(np.int32)), {}, TypeError, "the dtype of b is not supported"),
        ((sharded, b.tolist()), {}, TypeError, "b must be an array"),
        ((sharded, b), {"tile": 0}, ValueError, "the tile must be positive"),
        ((sharded, b), {"layout": "fast"}, ValueError, "layout must be"),
        ((sharded, b), {"matrix_specs": (P("x"), P("x"))}, TypeError, "the PartitionSpec of a"),
        ((a, b), {}, ValueError, "no mesh to be found"),
        ((sharded, b), {"mesh": make_mesh(2, 4)}, ValueError, "not on the devices of the mesh"),
    ):
        with pytest.raises(kind, match=message):
            linalg.matmul(*arguments, **options)
    with pytest.raises(ValueError, match="on 2 × 3 processes there is none"):
        linalg.matmul(a, b, mesh=make_mesh(2, 3), layout="reading", tile=5)
