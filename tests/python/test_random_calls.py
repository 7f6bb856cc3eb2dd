"""Functions with arguments drawn at random: mesh, devices, partition, size, tile, dtype, way of calling."""

from functools import partial

import jax
import numpy as np
import pytest
from helpers import (
    DTYPES,
    GRIDS,
    P,
    arbitrary,
    check_eigenpairs,
    check_eigenvalues,
    check_inverse,
    check_slogdet,
    check_solution,
    hermitian,
    positive_definite,
)
from jax.sharding import Mesh, NamedSharding
from meshsolve import linalg

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

MATRIX_SPECS = [P("x", "y"), P("x"), P(None, "y"), P("y", "x"), P(("x", "y")), P()]
SIDE_SPECS = [P("x", "y"), P("x"), P()]

random = hypothesis.settings(max_examples=40, derandomize=True, deadline=None, database=None)


@st.composite
def meshes(draw) -> Mesh:
    rows, columns = draw(st.sampled_from(GRIDS))
    devices = draw(st.permutations(jax.devices()))[: rows * columns]
    return Mesh(np.array(devices).reshape(rows, columns), ("x", "y"))


@st.composite
def calls(draw):
    """Order and dtype of a matrix, and how functions are called on arrays."""
    mesh, n = draw(meshes()), draw(st.integers(1, 60))
    matrix_spec, side_spec = draw(st.sampled_from(MATRIX_SPECS)), draw(st.sampled_from(SIDE_SPECS))

    def put(array: np.ndarray) -> jax.Array:
        square = array.ndim == 2 and array.shape[0] == array.shape[1]
        spec = matrix_spec if square else P(*side_spec[: array.ndim])
        try:
            return jax.device_put(array, NamedSharding(mesh, spec))
        except ValueError:  # not shared out evenly
            return jax.device_put(array, NamedSharding(mesh, P()))

    def call(function, *arrays, **options):
        function = partial(function, tile=tile, mesh=mesh, **options)
        return (jax.jit(function) if under_jit else function)(*map(put, arrays))

    tile = draw(st.none() | st.integers(1, 20))
    under_jit = draw(st.booleans())
    return n, draw(st.sampled_from(DTYPES)), call


def promised(a: np.ndarray, triangle: str | None) -> np.ndarray:
    """The matrix with NaN in the triangle that is not promised."""
    hidden = {None: np.zeros_like, "lower": lambda a: np.triu(a, 1), "upper": lambda a: np.tril(a, -1)}
    return np.where(hidden[triangle](np.ones(a.shape)) == 1, np.nan, a).astype(a.dtype)


triangles = st.sampled_from([None, "lower", "upper"])
widths = st.none() | st.integers(1, 6)


def right_hand_sides(n: int, k: int | None, dtype) -> np.ndarray:
    b = arbitrary(n * (k or 1), dtype, seed=2)[0]
    return b[:n] if k is None else b.reshape(n, k)


@random
@hypothesis.given(calls(), widths, triangles)
def test_positive_definite(drawn, k, triangle):
    n, dtype, call = drawn
    a, b = positive_definite(n, dtype), right_hand_sides(n, k, dtype)
    shown = promised(a, triangle)
    check_solution(a, call(linalg.solve, shown, b, assume_a="pos", triangle=triangle), b)
    check_inverse(a, call(linalg.inv, shown, assume_a="pos", triangle=triangle))
    check_slogdet(a, *call(linalg.slogdet, shown, assume_a="pos", triangle=triangle))


@random
@hypothesis.given(calls(), widths, st.sampled_from([0, 1, 2]))
def test_arbitrary(drawn, k, trans):
    n, dtype, call = drawn
    a, b = arbitrary(n, dtype), right_hand_sides(n, k, dtype)
    check_solution(a, call(linalg.solve, a, b), b)
    factor = call(linalg.lu_factor, a)
    check_solution([a, a.T, a.conj().T][trans], linalg.lu_solve(factor, b, trans), b)
    check_slogdet(a, *call(linalg.slogdet, a))


@random
@hypothesis.given(calls(), triangles, st.booleans())
def test_hermitian(drawn, triangle, with_metric):
    n, dtype, call = drawn
    a, metric = hermitian(n, dtype), positive_definite(n, dtype) if with_metric else None
    shown = [promised(matrix, triangle) for matrix in (a, metric) if matrix is not None]
    lower = {None: None, "lower": True, "upper": False}[triangle]
    check_eigenpairs(a, *call(linalg.eigh, *shown, lower=lower), metric)
    check_eigenvalues(a, call(linalg.eigvalsh, *shown, lower=lower), metric)
