"""The case table of the system that users come from: sizes of at least 512, tiles of 64 and 96.

Only the mesh forms differ from test_potrs.py, so that each case runs in the dtypes in turn.
"""

import jax
import meshsolve
import numpy as np
import pytest
from helpers import (
    DTYPES,
    P,
    arbitrary,
    check_eigenpairs,
    check_eigenvalues,
    check_sharding,
    check_solution,
    hermitian,
    positive_definite,
    put,
    right_hand_side,
)
from jax.sharding import AxisType, Mesh

ALIGNED, PADDED = 64, 96
DEVICES = [1, 2, 3, 4, 6, 8]


def near_square(devices: int) -> tuple[int, int]:
    rows = max(r for r in range(1, int(devices**0.5) + 1) if devices % r == 0)
    return rows, devices // rows


def table(devices: int):
    """(name, grid, device order, tile, k, partition of a, partition of b) for this many devices."""
    rows, columns = near_square(devices)
    both = ("x", "y")
    yield "row_major_no_padding", (1, devices), "C", ALIGNED, max(1, devices), both, both
    yield "column_major_padding", (rows, columns), "F", PADDED, max(2, columns), both, both
    yield "column_grid_padding", (devices, 1), "C", PADDED, 1, both, both
    yield "column_grid_no_padding", (devices, 1), "C", ALIGNED, 1, both, ("x",)
    yield "skinny_rhs", (1, devices), "C", ALIGNED, 1, both, ("x",)
    yield "vector_rhs_replicated", (1, devices), "C", ALIGNED, None, both, ()
    yield "single_column_rhs_replicated", (1, devices), "C", ALIGNED, 1, both, ()
    yield "single_axis_row_vector", (devices,), "C", ALIGNED, 1, ("x",), ("x",)
    yield "single_axis_column_rhs", (devices,), "C", ALIGNED, 1, (None, "x"), ()


def far_from_singular(n: int, dtype) -> np.ndarray:
    """Gaussian + 2 n I."""
    return (arbitrary(n, dtype) + 2 * n * np.eye(n)).astype(dtype)


CASES = [(devices, case) for devices in DEVICES for case in table(devices)]


SOLVES = {"potrs": (meshsolve.potrs, positive_definite), "lu_solve": (meshsolve.lu_solve, far_from_singular)}


def placed(devices: int, case) -> tuple[Mesh, type, int]:
    """The mesh of a case, its dtype and its order."""
    _, grid, order, *_ = case
    number = CASES.index((devices, case))
    axis_type = AxisType.Explicit if number % 2 else AxisType.Auto
    names = ("x", "y")[: len(grid)]
    devices_in_order = np.array(jax.devices()[:devices]).reshape(grid, order=order)
    mesh = Mesh(devices_in_order, names, axis_types=(axis_type,) * len(grid))
    return mesh, DTYPES[number % len(DTYPES)], -(-512 // devices) * devices


@pytest.mark.parametrize("routine", SOLVES)
@pytest.mark.parametrize(("devices", "case"), CASES, ids=[f"{case[0]}-{devices}" for devices, case in CASES])
def test_case(devices, case, routine):
    *_, tile, k, a_spec, b_spec = case
    mesh, dtype, n = placed(devices, case)
    solve, matrix = SOLVES[routine]
    a, b = matrix(n, dtype), right_hand_side(n, k, dtype)
    x, status = solve(
        put(a, mesh, *a_spec), put(b, mesh, *b_spec), tile, mesh, (P(*a_spec), P(*b_spec)), return_status=True
    )
    assert int(status) == 0
    check_solution(a, x, b)
    check_sharding(x, mesh, *b_spec)


#: Those that differ in mesh, tile or partition of the matrix.
EIGEN_CASES = [
    (devices, case)
    for devices, case in CASES
    if (devices == 4 and not case[0].startswith(("skinny", "vector", "single_column")))
    or (devices == 6 and case[0] in ("column_major_padding", "single_axis_column_rhs"))
]


@pytest.mark.parametrize(
    ("devices", "case"), EIGEN_CASES, ids=[f"{case[0]}-{devices}" for devices, case in EIGEN_CASES]
)
def test_eigen_case(devices, case):
    *_, tile, _, a_spec, _ = case
    mesh, dtype, n = placed(devices, case)
    a = hermitian(n, dtype)
    sharded = put(a, mesh, *a_spec)
    w, v, status = meshsolve.syevd(sharded, tile, mesh, P(*a_spec), return_status=True)
    assert int(status) == 0
    check_eigenpairs(a, w, v)
    check_sharding(v, mesh, *a_spec)
    check_eigenvalues(a, meshsolve.syevd(sharded, tile, mesh, P(*a_spec), return_eigenvectors=False))
