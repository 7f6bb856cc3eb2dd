"""To the 2-D block-cyclic distribution and back, bit for bit against tiles sliced with NumPy."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
import pytest
from helpers import (
    AUTO,
    DTYPES,
    EXPLICIT,
    P,
    check_sharding,
    dtype_id,
    grid_id,
    make_mesh,
    on_every_device,
    put,
    use_mesh,
)
from jax.sharding import AxisType, Mesh

GRIDS = [(1, 8), (2, 4), (4, 2), (8, 1), (2, 2), (1, 3)]


def counting(m: int, n: int, dtype) -> np.ndarray:
    """1 … m·n in order, so that each value tells its place; every seventh is NaN."""
    a = np.arange(1, m * n + 1).reshape(m, n).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        a = a - 1j * a
    a.flat[::7] = np.nan
    return a


def local_matrix(a: np.ndarray, grid: tuple[int, int], tile: int, r: int, c: int) -> np.ndarray:
    """What process (r, c) owns: the elements of its tile rows and tile columns, in their order."""
    rows = [i for i in range(a.shape[0]) if i // tile % grid[0] == r]
    columns = [j for j in range(a.shape[1]) if j // tile % grid[1] == c]
    return a[np.ix_(rows, columns)]


def check_cyclic(cyclic: meshsolve.BlockCyclic, a: np.ndarray, mesh: Mesh) -> None:
    """Every process holds its tiles, on its device, column by column."""
    grid = mesh.devices.shape
    local = np.asarray(cyclic.local)
    assert cyclic.grid == grid
    assert cyclic.shape == a.shape
    leading_dimension = cyclic.leading_dimension
    assert leading_dimension == max(1, local.shape[3])
    check_sharding(cyclic.local, mesh, *mesh.axis_names)
    for shard in cyclic.local.addressable_shards:
        (r,), (c,) = np.nonzero(mesh.devices == shard.device)
        buffer = np.asarray(shard.data).ravel()
        rows, columns = cyclic.numroc(int(r), int(c))
        expected = local_matrix(a, grid, cyclic.tile, r, c)
        assert expected.shape == (rows, columns)
        places = np.add.outer(np.arange(rows), leading_dimension * np.arange(columns))
        np.testing.assert_array_equal(as_words(buffer[places]), as_words(expected))
        np.testing.assert_array_equal(local[r, c].T[:rows, :columns], expected)


def as_words(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view("u4")


def check_same(got: jax.Array, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_array_equal(as_words(np.asarray(got)), as_words(expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
@pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
def test_there_and_back(grid, dtype):
    mesh = make_mesh(*grid)
    # Even shards: square, tall, wide. Tiles that divide the shards, and one that does not.
    for (m, n), tile in [((24, 24), 3), ((48, 24), None), ((24, 48), 5)]:
        a = counting(m, n, dtype)
        on_mesh = put(a, mesh, "x", "y")
        cyclic = meshsolve.redistribute(on_mesh, tile)
        assert tile is None or cyclic.tile == tile
        check_cyclic(cyclic, a, mesh)
        back = meshsolve.redistribute(cyclic)
        check_same(back, a)
        check_sharding(back, mesh, "x", "y")
        # Nothing was used up.
        check_same(on_mesh, a)
        check_cyclic(cyclic, a, mesh)


@pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
def test_under_jit_memory_is_taken_over(grid):
    """Intermediate values may be worked on where they stand."""
    mesh = make_mesh(*grid)
    for (m, n), tile in [((24, 24), 3), ((48, 24), 1), ((37, 22), 4)]:
        a = counting(m, n, np.float64)

        @jax.jit
        def there(a, mesh=mesh, tile=tile):
            return meshsolve.redistribute(2 * a, tile, mesh, P("x", "y"))

        @jax.jit
        def there_and_back(a, mesh=mesh, tile=tile):
            return meshsolve.redistribute(meshsolve.redistribute(2 * a, tile, mesh, P("x", "y")))

        @jax.jit
        def both(a, mesh=mesh, tile=tile):
            cyclic = meshsolve.redistribute(a, tile, mesh, P("x", "y"))
            return cyclic, meshsolve.redistribute(cyclic), a + 0

        given = put(a, mesh, "x", "y") if m % grid[0] == n % grid[1] == 0 else jnp.asarray(a)
        cyclic = there(given)
        assert isinstance(cyclic, meshsolve.BlockCyclic)
        check_cyclic(cyclic, 2 * a, mesh)
        check_same(jax.jit(meshsolve.redistribute)(cyclic), 2 * a)
        check_same(there_and_back(given), 2 * a)
        # Both the matrix and its tiles live on here.
        cyclic, back, kept = both(given)
        check_cyclic(cyclic, a, mesh)
        check_same(back, a)
        check_same(kept, a)


@pytest.mark.parametrize("grid", GRIDS, ids=grid_id)
@pytest.mark.parametrize("size", [(37, 22), (1, 13), (2, 2), (24, 25)], ids=str)
def test_uneven_sizes(grid, size):
    mesh = make_mesh(*grid)
    a = counting(*size, np.complex64)
    # Also one that is longer than the shards, or than the matrix.
    for tile in (1, 8):
        cyclic = meshsolve.redistribute(a, tile, mesh)
        check_cyclic(cyclic, a, mesh)
        back = meshsolve.redistribute(cyclic)
        check_same(back, a)
        even = [name if n % p == 0 else None for name, n, p in zip(("x", "y"), size, grid, strict=True)]
        check_sharding(back, mesh, *even)


@pytest.mark.parametrize("size", [(0, 8), (8, 0), (0, 0)], ids=str)
def test_empty(size):
    mesh = make_mesh(2, 4)
    a = np.zeros(size)
    cyclic = meshsolve.redistribute(put(a, mesh, "x", "y"), 2)
    assert cyclic.local.size == 0
    check_cyclic(cyclic, a, mesh)
    check_same(meshsolve.redistribute(cyclic), a)


def test_axes_of_a_mesh():
    """Rows and columns over any axes; groups along the others do the same."""
    devices = np.array(jax.devices()).reshape(2, 2, 2)
    mesh = Mesh(devices, ("p", "q", "r"), axis_types=(AxisType.Auto,) * 3)
    a = counting(16, 24, np.float32)
    for spec, grid in [
        ((("r", "p"), "q"), (4, 2)),
        ((None, "p"), (1, 2)),
        (("q", "p"), (2, 2)),
        ((("p", "q", "r"),), (8, 1)),
        ((), (1, 1)),
    ]:
        cyclic = meshsolve.redistribute(put(a, mesh, *spec), 3)
        assert cyclic.grid == grid
        local = np.asarray(cyclic.local)
        for r, c in np.ndindex(grid):
            rows, columns = cyclic.numroc(r, c)
            np.testing.assert_array_equal(local[r, c].T[:rows, :columns], local_matrix(a, grid, 3, r, c))
        for shard in cyclic.local.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), local[shard.index])
        back = meshsolve.redistribute(cyclic)
        check_same(back, a)
        check_sharding(back, mesh, *spec)
        assert all(part.dtype == a.dtype for part in on_every_device(back))


@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT], ids=["auto", "explicit"])
def test_the_mesh_that_is_set(axis_types):
    mesh = make_mesh(2, 4, axis_types=axis_types)
    a = counting(24, 16, np.float64)
    on_mesh = put(a, mesh, "x", "y")
    with use_mesh(mesh):
        cyclic = jax.jit(lambda a: meshsolve.redistribute(a, 3))(on_mesh)
        check_cyclic(cyclic, a, mesh)
        check_same(jax.jit(meshsolve.redistribute)(cyclic), a)
    back = meshsolve.redistribute(cyclic)
    check_same(back, a)
    check_sharding(back, mesh, "x", "y")


def test_vmap():
    mesh = make_mesh(2, 2)
    stack = np.stack([counting(8, 12, np.float64), 1000 + counting(8, 12, np.float64)])
    local = jax.vmap(lambda a: meshsolve.redistribute(a, 2, mesh, P("x", "y")).local)(stack)
    for a, each in zip(stack, local, strict=True):
        check_cyclic(meshsolve.BlockCyclic(put(each, mesh, "x", "y"), (8, 12), 2, mesh, P("x", "y")), a, mesh)
    back = jax.vmap(
        lambda a: meshsolve.redistribute(meshsolve.redistribute(a, 2, mesh, P("x", "y"))), out_axes=0
    )(stack)
    check_same(back, stack)


def test_a_pytree_with_one_leaf():
    mesh = make_mesh(2, 2)
    a = counting(8, 8, np.float64)
    cyclic = meshsolve.redistribute(put(a, mesh, "x", "y"), 2)
    assert [leaf is cyclic.local for leaf in jax.tree.leaves(cyclic)] == [True]
    check_cyclic(jax.jit(lambda cyclic: jax.tree.map(lambda leaf: 2 * leaf, cyclic))(cyclic), 2 * a, mesh)
    with pytest.raises(dataclasses.FrozenInstanceError):
        cyclic.tile = 3


@pytest.mark.smoke
def test_a_local_buffer_element_by_element():
    """What another library would do: take a local buffer by its leading dimension."""
    mesh = make_mesh(2, 2)
    a = np.arange(36.0).reshape(6, 6)
    cyclic = meshsolve.redistribute(put(a, mesh, "x", "y"), 2)
    # Rows 2, 3 and columns 0, 1, 4, 5.
    assert cyclic.numroc(1, 0) == (2, 4)
    assert cyclic.leading_dimension == 4
    buffer = np.asarray(cyclic.local[1, 0]).ravel()
    np.testing.assert_array_equal(buffer[[0, 1, 4, 5, 8, 9, 12, 13]], [12, 18, 13, 19, 16, 22, 17, 23])


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("a", "options", "error", "message"),
    [
        (np.zeros(8), {}, ValueError, r"a must be a matrix: got shape \(8,\), needed \(m, n\)"),
        (np.zeros((2, 8, 8)), {}, ValueError, r"a must be a matrix: got shape \(2, 8, 8\).*jax\.vmap"),
        (np.zeros((8, 8), np.int32), {}, TypeError, "a is not supported: got int32, needed one of float32"),
        ([[1.0]], {}, TypeError, "a must be an array: got list"),
        (np.zeros((8, 8)), {"T_A": 0}, ValueError, "tile must be positive: got 0"),
        (np.zeros((8, 8)), {"T_A": 2.5}, TypeError, "tile must be an integer: got 2.5"),
        (np.zeros((8, 8)), {"mesh": None}, ValueError, "no mesh to be found"),
        (np.zeros((8, 8)), {"matrix_specs": P("z")}, ValueError, "unknown mesh axis .*got 'z'"),
        (np.zeros((8, 8)), {"matrix_specs": (P("x"), P())}, TypeError, "matrix_specs must be the Partition"),
    ],
)
def test_errors(a, options, error, message):
    with pytest.raises(error, match=message):
        meshsolve.redistribute(a, **{"mesh": make_mesh(2, 2), **options})


def test_errors_on_the_way_back():
    mesh = make_mesh(2, 2)
    cyclic = meshsolve.redistribute(put(np.zeros((8, 12)), mesh, "x", "y"), 2)
    with pytest.raises(TypeError, match="knows its tile, mesh and partition"):
        meshsolve.redistribute(cyclic, 2)
    wrong = dataclasses.replace(cyclic, tile=3)
    message = re.escape("got an array of shape (2, 2, 6, 4), needed (2, 2, 6, 6) for 8 x 12 elements")
    with pytest.raises(ValueError, match=message):
        meshsolve.redistribute(wrong)
    with pytest.raises(IndexError, match=r"no process \(2, 0\) in a grid of 2 x 2 processes"):
        cyclic.numroc(2, 0)
    with pytest.raises(IndexError, match=r"no process \(0, -1\)"):
        cyclic.numroc(0, -1)
