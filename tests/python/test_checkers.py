"""The checkers themselves: each accepts a right answer and rejects a swapped tile, a zeroed one and NaN."""

import numpy as np
import pytest
import scipy.linalg
from helpers import (
    DTYPES,
    check_eigenpairs,
    check_eigenvalues,
    check_log_det,
    check_solution,
    dtype_id,
    hermitian,
    positive_definite,
    right_hand_side,
)

N, TILE = 256, 16


def reference_solution(a, b, dtype):
    wide = np.promote_types(dtype, np.float64)
    return np.linalg.solve(a.astype(wide), b.astype(wide)).astype(dtype)


def swap_tiles(x):
    x[:TILE], x[TILE : 2 * TILE] = x[TILE : 2 * TILE].copy(), x[:TILE].copy()


def zero_tile(x):
    x[-TILE:] = 0


def one_nan(x):
    x[len(x) // 2, 0] = np.nan


SPOILERS = (swap_tiles, zero_tile, one_nan)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_solution_checker(dtype):
    a, b = positive_definite(N, dtype), right_hand_side(N, 3, dtype)
    x = reference_solution(a, b, dtype)
    check_solution(a, x, b)
    for spoil in SPOILERS:
        spoiled = x.copy()
        spoil(spoiled)
        with pytest.raises(AssertionError, match="needed"):
            check_solution(a, spoiled, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_solution_checker_wants_shape_and_dtype(dtype):
    a, b = positive_definite(8, dtype), right_hand_side(8, 1, dtype)
    x = reference_solution(a, b, dtype)
    with pytest.raises(AssertionError):
        check_solution(a, x[:, 0], b)
    with pytest.raises(AssertionError):
        check_solution(a, x.astype(np.complex64 if dtype != np.complex64 else np.complex128), b)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_log_det_checker(dtype):
    a = positive_definite(N, dtype)
    real = np.finfo(dtype).dtype
    _, expected = np.linalg.slogdet(a.astype(np.promote_types(dtype, np.float64)))
    check_log_det(a, np.asarray(expected, real))
    one_entry_short = expected - np.log(N)
    for wrong in (one_entry_short, -expected, 0.0, np.nan):
        with pytest.raises(AssertionError, match="log det"):
            check_log_det(a, np.asarray(wrong, real))


@pytest.mark.parametrize("metric", [False, True], ids=["standard", "metric"])
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_eigen_checkers(dtype, metric):
    n = N // 2
    a, b = hermitian(n, dtype), positive_definite(n, dtype) if metric else None
    wide = np.promote_types(dtype, np.float64)
    # SciPy's default driver is not as careful about orthogonality.
    exact, vectors = (
        scipy.linalg.eigh(a.astype(wide), b.astype(wide), driver="gvd")
        if metric
        else scipy.linalg.eigh(a.astype(wide), driver="evd")
    )
    w, v = exact.astype(np.finfo(dtype).dtype), vectors.astype(dtype)
    check_eigenpairs(a, w, v, b)
    for spoil in SPOILERS:
        spoiled = w.copy()
        spoil(spoiled[:, None] if spoil is one_nan else spoiled)
        with pytest.raises(AssertionError, match="needed"):
            check_eigenvalues(a, spoiled, b)
        with pytest.raises(AssertionError, match="needed"):
            check_eigenpairs(a, spoiled, v, b)
        # Tiles of rows, and of columns.
        for turn in (np.asarray, np.transpose):
            spoiled = v.copy()
            spoil(turn(spoiled))
            with pytest.raises(AssertionError, match="needed"):
                check_eigenpairs(a, w, spoiled, b)
    with pytest.raises(AssertionError):
        check_eigenpairs(a, w, v[:, :-1], b)
    with pytest.raises(AssertionError):
        check_eigenvalues(a, w.astype(np.float64 if w.dtype == np.float32 else np.float32), b)
