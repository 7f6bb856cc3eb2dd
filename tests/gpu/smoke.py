"""Solves on real GPUs, checked against what is not our code. One line per case, a summary last.

    python tests/gpu/smoke.py                      # one process, all GPUs
    python tests/gpu/smoke.py 0 2 12345 & \\
    python tests/gpu/smoke.py 1 2 12345            # one process per GPU: rank, processes, port

With several processes, process 0 prints every case and the others only those that failed for them. With
``--share-gpu`` all of them use the first GPU, so that one is enough for any grid.
The exit code is 0 if no case failed, 77 if there is no GPU (a skip). ``--cpu N`` runs the same cases on
N simulated devices, to try this file itself.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from meshsolve import _gpus, _problem, _system, linalg

#: Exit code where there is nothing to test.
NO_GPU = 77

DTYPES = ("float32", "float64", "complex64", "complex128")
#: Distance over which the entries of the large matrices fall off.
LENGTH = 10.0

Case = tuple[str, Callable[[], None]]


# ---- matrices ----


def positive_definite(n: int, dtype: str) -> np.ndarray:
    """X Xᴴ + n I with Gaussian X, exactly Hermitian, the same in every process."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal((n, n))
    a = (x @ x.conj().T + n * np.eye(n)).astype(dtype)
    return (a + a.conj().T) / np.dtype(dtype).type(2)


def hermitian(n: int, dtype: str) -> np.ndarray:
    """Gaussian, exactly Hermitian, the same in every process."""
    a = arbitrary(n, dtype)
    return (a + a.conj().T) / np.dtype(dtype).type(2)


def rank_deficient(n: int, dtype: str) -> np.ndarray:
    """Hermitian, a third of its eigenvalues from 1 to 2 of either sign, the others zero but for rounding."""
    q, _ = np.linalg.qr(arbitrary(n, np.promote_types(dtype, np.float64)))
    rank = -(-n // 3)
    values = np.linspace(1, 2, rank) * (-1) ** np.arange(rank)
    a = (q[:, :rank] * values) @ q[:, :rank].conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


def arbitrary(n: int, dtype: str) -> np.ndarray:
    """Gaussian, the same in every process."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, n))
    return (x + 1j * rng.standard_normal((n, n)) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def counting(n: int, k: int | None, dtype: str) -> np.ndarray:
    """1 … n·k in order, so that each value tells its place; (n,) if ``k`` is None."""
    b = np.arange(1, n * (1 if k is None else k) + 1).reshape((n,) if k is None else (n, k))
    return (b * (1 + 0.25j)).astype(dtype) if np.dtype(dtype).kind == "c" else b.astype(dtype)


def kernel_matrix(n: int, dtype: str, mesh: Mesh, spec: P) -> jax.Array:
    """exp(−|i−j| / LENGTH) + I, times the phase exp(0.3 (i−j) √−1) if complex, made where it lies."""

    def build(length: jax.Array) -> jax.Array:
        i = jnp.arange(n, dtype=length.dtype)
        distance = i[:, None] - i
        a = jnp.exp(-jnp.abs(distance) / length) + jnp.where(distance == 0, 1, 0)
        return (a * jnp.exp(0.3j * distance) if np.dtype(dtype).kind == "c" else a).astype(dtype)

    # The length is an argument so that the compiler cannot compute the matrix beforehand.
    real = np.finfo(dtype).dtype.type
    return jax.jit(build, out_shardings=NamedSharding(mesh, spec))(real(LENGTH))


def kernel_log_det(n: int) -> float:
    """log det of `kernel_matrix` by a Kalman filter: the matrix is the covariance of an autoregression plus
    white noise, so its determinant is the product of the variances of the predictions."""
    rho2 = math.exp(-2 / LENGTH)
    variance, terms = 1.0, []
    for _ in range(n):
        predicted = variance + 1
        terms.append(math.log(predicted))
        variance = rho2 * variance / predicted + 1 - rho2
    # Almost all terms are equal, so a plain sum would round the same way each time.
    return math.fsum(terms)


# ---- meshes ----


def mesh_of(devices: list[jax.Device], rows: int, columns: int, kind: AxisType = AxisType.Auto) -> Mesh:
    grid = np.array(devices[: rows * columns]).reshape(rows, columns)
    return Mesh(grid, ("rows", "columns"), axis_types=(kind, kind))


def meshes() -> dict[str, Mesh]:
    """Every grid of all devices, and one device of this process alone."""
    devices = jax.devices()
    found = {"1x1": mesh_of(jax.local_devices(), 1, 1)}
    for rows in range(1, len(devices) + 1):
        if len(devices) % rows == 0:
            columns = len(devices) // rows
            found[f"{rows}x{columns}"] = mesh_of(devices, rows, columns)
    return found


def put(array: np.ndarray, mesh: Mesh, *spec: str | None) -> jax.Array:
    """The array on the mesh in this partition, replicated along what JAX cannot share out evenly."""
    sizes = [1 if axis is None else mesh.shape[axis] for axis in spec]
    even = [axis if n % size == 0 else None for axis, size, n in zip(spec, sizes, array.shape, strict=False)]
    return jax.make_array_from_callback(
        array.shape, NamedSharding(mesh, P(*even)), lambda index: array[index]
    )


# ---- checks ----


@jax.jit
def residual(a: jax.Array, x: jax.Array, b: jax.Array) -> jax.Array:
    """‖b − a x‖₁ / (‖a‖₁ ‖x‖₁), in double precision."""
    wide = jnp.promote_types(a.dtype, jnp.float64)
    a, x, b = a.astype(wide), x.astype(wide).reshape(a.shape[0], -1), b.astype(wide).reshape(a.shape[0], -1)
    return one_norm(b - jnp.matmul(a, x, precision="highest")) / (one_norm(a) * one_norm(x))


def check_solution(a: jax.Array, x: jax.Array, b: jax.Array) -> None:
    """Both bounds: that of a backward stable solver, and one that sees a wrong tile in single precision."""
    assert x.shape == b.shape and x.dtype == b.dtype, f"got {x.shape} {x.dtype}, needed {b.shape} {b.dtype}"
    n, epsilon = a.shape[0], float(jnp.finfo(x.dtype).eps)
    ratio = float(residual(a, x, b))
    # Comparisons with NaN are false, so these reject it.
    assert ratio / n <= 25 * epsilon, f"residual / n = {ratio / n / epsilon:.3g} ε, needed ≤ 25 ε"
    assert ratio <= n**0.5 * epsilon, f"residual = {ratio / epsilon:.3g} ε, needed ≤ √n ε = {n**0.5:.3g} ε"


def check_log_det(expected: float, log_det: jax.Array, n: int) -> None:
    got = float(log_det)
    bound = 10 * float(jnp.finfo(log_det.dtype).eps) * (n + abs(expected))
    assert abs(got - expected) <= bound, f"log det: got {got}, needed {expected} ± {bound:.3g}"


def check_sharding(x: jax.Array, mesh: Mesh, *spec: str | None) -> None:
    wanted = NamedSharding(mesh, P(*spec))
    assert x.sharding.is_equivalent_to(wanted, x.ndim), f"got {x.sharding}, needed {wanted}"


def on_devices(array: jax.Array) -> list[np.ndarray]:
    """What each device of this process holds, whatever JAX believes to be equal among them."""
    return [np.asarray(shard.data) for shard in array.addressable_shards]


def check_failed(x: jax.Array, log_det: jax.Array, status: jax.Array, expected: int) -> None:
    for name, array in (("x", x), ("log det", log_det)):
        assert all(np.isnan(part).all() for part in on_devices(array)), f"{name} is not all NaN"
    got = {int(part) for part in on_devices(status)}
    assert got == {expected}, f"status: got {got}, needed {expected} on every device"


def check_eigenvalues(dense: np.ndarray, w: jax.Array, metric: np.ndarray | None = None) -> None:
    """Ascending, the same everywhere, |Δ| ≤ 10 √n ε ‖a‖₁ from NumPy's; with a metric wider by cond(b)."""
    n, epsilon = len(dense), float(jnp.finfo(dense.dtype).eps)
    assert w.shape == (n,) and w.dtype == np.finfo(dense.dtype).dtype, f"got {w.shape} {w.dtype}"
    wide, condition = dense.astype(np.promote_types(dense.dtype, np.float64)), 1.0
    if metric is not None:
        inverse = np.linalg.inv(np.linalg.cholesky(metric.astype(wide.dtype)))
        wide, condition = inverse @ wide @ inverse.conj().T, np.linalg.cond(metric)
    expected = np.linalg.eigvalsh(wide)
    bound = 10 * n**0.5 * epsilon * float(np.linalg.norm(wide, 1)) * condition
    parts = on_devices(w)
    assert all((part == parts[0]).all() for part in parts), "the devices have other values, or NaN"
    assert (np.diff(parts[0]) >= 0).all(), "the values are not ascending"
    error = np.abs(parts[0] - expected).max()
    assert error <= bound, f"values: got an error of {error:.3g}, needed ≤ {bound:.3g}"


def check_eigenpairs(a: jax.Array, w: jax.Array, v: jax.Array, metric: jax.Array | None = None) -> None:
    """Residual and orthogonality by narrow bounds, in double precision; wider by cond(b) with a metric."""
    assert v.shape == a.shape and v.dtype == a.dtype, f"got {v.shape} {v.dtype}, needed {a.shape} {a.dtype}"
    n, epsilon, condition = a.shape[0], float(jnp.finfo(a.dtype).eps), 1.0
    if metric is None:
        errors = eigen_errors(a, w, v)
    else:
        errors = generalised_errors(a, w, v, metric)
        condition = float(np.linalg.cond(positive_definite(n, str(a.dtype))))
    for what, error, bound in (
        ("residual", errors[0], min(50 * n, 10 * n**0.5)),
        ("‖I − vᴴ v‖₁", errors[1], 50 * n * condition),
        ("|I − vᴴ v|", errors[2], 5 * n**0.5 * condition),
    ):
        # A comparison with NaN is false.
        assert float(error) <= bound * epsilon, (
            f"{what} = {float(error) / epsilon:.3g} ε, needed ≤ {bound:.3g} ε"
        )


@jax.jit
def eigen_errors(a: jax.Array, w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """‖a v − v w‖₁ / ‖a‖₁, ‖I − vᴴ v‖₁ and the largest |I − vᴴ v|, in double precision."""
    wide = jnp.promote_types(a.dtype, jnp.float64)
    a, v = a.astype(wide), v.astype(wide)
    off = jnp.eye(len(a)) - jnp.matmul(v.conj().T, v, precision="highest")
    residual = jnp.matmul(a, v, precision="highest") - v * w
    return one_norm(residual) / one_norm(a), one_norm(off), jnp.abs(off).max()


@jax.jit
def generalised_errors(
    a: jax.Array, w: jax.Array, v: jax.Array, metric: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """‖a v − b v w‖₁ / ((‖a‖₁ + |w|max ‖b‖₁) ‖v‖₁), ‖I − vᴴ b v‖₁ and the largest |I − vᴴ b v|."""
    wide = jnp.promote_types(a.dtype, jnp.float64)
    a, v, b = a.astype(wide), v.astype(wide), metric.astype(wide)
    bv = jnp.matmul(b, v, precision="highest")
    off = jnp.eye(len(a)) - jnp.matmul(v.conj().T, bv, precision="highest")
    residual = jnp.matmul(a, v, precision="highest") - bv * w
    size = (one_norm(a) + jnp.abs(w).max() * one_norm(b)) * one_norm(v)
    return one_norm(residual) / size, one_norm(off), jnp.abs(off).max()


def one_norm(matrix: jax.Array) -> jax.Array:
    return jnp.abs(matrix).sum(axis=0).max()


def check_pseudoinverse(dense: np.ndarray, x: jax.Array, b: np.ndarray) -> None:
    """‖Δ‖₁ ≤ 10 √n ε ‖a‖ ‖pinv(a)‖² ‖b‖₁ from NumPy's pinv in double precision."""
    assert x.shape == b.shape and x.dtype == b.dtype, f"got {x.shape} {x.dtype}, needed {b.shape} {b.dtype}"
    n, epsilon = len(dense), float(jnp.finfo(dense.dtype).eps)
    wide = dense.astype(np.promote_types(dense.dtype, np.float64))
    inverse = np.linalg.pinv(wide, rcond=10 * n * epsilon, hermitian=True)
    expected, size = inverse @ b, np.linalg.norm(inverse, 2)
    bound = 10 * n**0.5 * epsilon * np.linalg.norm(wide, 2) * size**2 * np.abs(b).sum(axis=0).max()
    for part in on_devices(x):
        error = np.abs(part - expected).sum(axis=0).max()
        # A comparison with NaN is false.
        assert error <= bound, f"got an error of {error:.3g}, needed ≤ {bound:.3g}"


def check_product(a: jax.Array, b: jax.Array, c: jax.Array) -> None:
    """|c − a b| ≤ (k + 1) ε |a| |b|, element by element."""
    assert c.shape == (a.shape[0], *b.shape[1:]) and c.dtype == a.dtype, f"got {c.shape} {c.dtype}"
    ratio = float(product_error(a, b, c)) / float(jnp.finfo(c.dtype).eps)
    # A comparison with NaN is false.
    assert ratio <= a.shape[1] + 1, f"got an error of {ratio:.3g} ε, needed ≤ (k + 1) ε"


@jax.jit
def product_error(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """The largest |c − a b| / (|a| |b|) of all elements, in double precision."""
    wide = jnp.promote_types(a.dtype, jnp.float64)
    a, b, c = a.astype(wide), b.astype(wide), c.astype(wide)
    magnitude = jnp.matmul(jnp.abs(a), jnp.abs(b), precision="highest")
    return (jnp.abs(c - jnp.matmul(a, b, precision="highest")) / magnitude).max()


# ---- cases ----


def small(mesh: Mesh, n: int, dtype: str, tile: int | None) -> None:
    a, b = positive_definite(n, dtype), counting(n, 3, dtype)
    on_mesh, b_on_mesh = put(a, mesh, "rows", "columns"), put(b, mesh)
    x, log_det, status = meshsolve.potrs(
        on_mesh, b_on_mesh, tile, mesh, P("rows", "columns"), return_logdet=True, return_status=True
    )
    assert int(status) == 0, f"status {int(status)}"
    check_solution(on_mesh, x, b_on_mesh)
    sign, expected = np.linalg.slogdet(a.astype(np.promote_types(dtype, np.float64)))
    assert abs(sign - 1) < 1e-6
    check_log_det(expected, log_det, n)


def check_slogdet(dense: np.ndarray, sign: jax.Array, log_det: jax.Array) -> None:
    expected_sign, expected = np.linalg.slogdet(dense.astype(np.promote_types(dense.dtype, np.float64)))
    error = abs(complex(sign) - complex(expected_sign))
    bound = 10 * float(jnp.finfo(dense.dtype).eps) * len(dense)
    assert error <= bound, f"sign: got {complex(sign)}, needed {expected_sign} ± {bound:.3g}"
    # Near a singular matrix the determinant is as uncertain as the solution of a system.
    bound *= (1 + abs(expected) / len(dense)) * max(1, np.linalg.cond(dense) / len(dense))
    assert abs(float(log_det) - expected) <= bound, f"log det: got {float(log_det)}, needed {expected}"


def general(mesh: Mesh, n: int, dtype: str, tile: int | None) -> None:
    """All that LU does, for a matrix that needs pivoting."""
    dense, right = arbitrary(n, dtype), counting(n, 3, dtype)
    a, b = put(dense, mesh, "rows", "columns"), put(right, mesh)
    where = {"mesh": mesh, "matrix_specs": P("rows", "columns")}
    x, status = meshsolve.lu_solve(a, b, tile, **where, return_status=True)
    assert int(status) == 0, f"status {int(status)}"
    check_solution(a, x, b)
    factor = linalg.lu_factor(a, tile=tile, **where)
    check_solution(a, linalg.lu_solve(factor, b), b)
    for trans, matrix in ((1, dense.T), (2, dense.conj().T)):
        check_solution(put(matrix, mesh, "rows", "columns"), linalg.lu_solve(factor, b, trans), b)
    check_slogdet(dense, *linalg.slogdet(a, tile=tile, **where))
    identity = put(np.eye(n, dtype=dtype), mesh, "rows", "columns")
    check_solution(a, linalg.inv(a, tile=tile, **where), identity)


def cholesky_family(mesh: Mesh, n: int, dtype: str, tile: int | None) -> None:
    """The Cholesky factor in order, triangular solves with it, reusable factors, the inverse."""
    dense, right = positive_definite(n, dtype), counting(n, 3, dtype)
    a, b = put(dense, mesh, "rows", "columns"), put(right, mesh)
    where = {"mesh": mesh, "matrix_specs": P("rows", "columns"), "tile": tile}
    for upper in (False, True):
        factor = linalg.cholesky(a, upper=upper, **where)
        # b = U x, and then U.conj().T U x = U.conj().T b, or the same with L.
        x = linalg.solve_triangular(factor, b, lower=not upper, **where)
        check_solution(factor, x, b)
        x = linalg.solve_triangular(factor, x, 2, lower=not upper, **where)
        outside = jnp.tril(factor, -1) if upper else jnp.triu(factor, 1)
        assert float(jnp.abs(outside).max()) == 0, "not zero beside the factor"
        if not upper:
            check_solution(a, x, b)
    factor = linalg.cho_factor(a, **where)
    for _ in range(2):
        check_solution(a, linalg.cho_solve(factor, b), b)
    identity = put(np.eye(n, dtype=dtype), mesh, "rows", "columns")
    check_solution(a, linalg.inv(a, assume_a="pos", **where), identity)
    shifted = put(dense + 3 * np.eye(n, dtype=dtype), mesh, "rows", "columns")
    check_solution(shifted, meshsolve.potrs(a, b, tile, shift=3.0), b)


def singular(mesh: Mesh, dtype: str) -> None:
    n, tile = 40, 8
    for column in (0, tile, tile + 1, n - 1):
        dense = arbitrary(n, dtype)
        dense[:, column] = 0
        a, b = put(dense, mesh, "rows", "columns"), put(counting(n, 2, dtype), mesh)
        x, status = meshsolve.lu_solve(a, b, tile, return_status=True)
        sign, log_det = linalg.slogdet(a, tile=tile)
        assert (complex(sign), float(log_det)) == (0, -np.inf), f"got {sign} and {log_det}"
        check_failed(x, linalg.inv(a, tile=tile), status, column + 1)


def large_general(mesh: Mesh, n: int, dtype: str) -> None:
    """Made on the devices; the residual by XLA."""
    real = np.finfo(dtype).dtype

    def build(seed: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.key(seed), 2)
        parts = [jax.random.normal(key, (n, n), real) for key in keys]
        return (parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]).astype(dtype)

    a = jax.jit(build, out_shardings=NamedSharding(mesh, P("rows", "columns")))(n)
    b = put(counting(n, 1, dtype), mesh)
    x, status = meshsolve.lu_solve(a, b, return_status=True)
    assert int(status) == 0, f"status {int(status)}"
    check_solution(a, x, b)


def large(mesh: Mesh, n: int, dtype: str) -> None:
    a = kernel_matrix(n, dtype, mesh, P("rows", "columns"))
    b = put(counting(n, 1, dtype), mesh)
    x, log_det, status = meshsolve.potrs(a, b, return_logdet=True, return_status=True)
    assert int(status) == 0, f"status {int(status)}"
    check_solution(a, x, b)
    check_log_det(kernel_log_det(n), log_det, n)


def eigen(mesh: Mesh, n: int, dtype: str, tile: int | None) -> None:
    """Values and vectors by every layout that the plan has, with and without a metric; solves by them."""
    dense, positive, deficient = hermitian(n, dtype), positive_definite(n, dtype), rank_deficient(n, dtype)
    a, metric = (put(each, mesh, "rows", "columns") for each in (dense, positive))
    where = {"mesh": mesh, "matrix_specs": P("rows", "columns")}
    for layout in ("auto", "stages"):
        w, v, status = meshsolve.syevd(a, tile, **where, layout=layout, return_status=True)
        assert int(status) == 0, f"status {int(status)}"
        check_eigenvalues(dense, w)
        check_eigenpairs(a, w, v)
        assert v.sharding.is_equivalent_to(a.sharding, 2), f"got {v.sharding}, needed {a.sharding}"
    check_eigenvalues(dense, linalg.eigvalsh(a, tile=tile, **where))
    shifted = put(dense - 3 * np.eye(n, dtype=dtype), mesh, "rows", "columns")
    check_eigenpairs(shifted, *linalg.eigh(a, tile=tile, shift=-3.0, **where))
    w, v = linalg.eigh(a, metric, tile=tile, **where)
    check_eigenvalues(dense, w, positive)
    check_eigenpairs(a, w, v, metric)
    for k, spec in ((3, ()), (None, ()), (4 * mesh.shape["columns"], ("rows", "columns"))):
        right = counting(n, k, dtype)
        low = put(deficient, mesh, "rows", "columns")
        x = linalg.pinvh_solve(low, put(right, mesh, *spec), tile=tile, **where)
        whole = jax.device_put(x, NamedSharding(mesh, P()))
        check_pseudoinverse(deficient, whole, right)


def tiny_eigen(mesh: Mesh, n: int) -> None:
    for dtype, tile in (("float32", 1), ("complex128", 2), ("float64", 64)):
        dense = hermitian(n, dtype)
        a, b = put(dense, mesh), counting(n, 2, dtype)
        w, v, status = meshsolve.syevd(a, tile, mesh, P("rows", "columns"), return_status=True)
        assert int(status) == 0 and v.shape == (n, n), f"status {int(status)}, shape {v.shape}"
        x = linalg.pinvh_solve(a, b, tile=tile, mesh=mesh, matrix_specs=P("rows", "columns"))
        assert x.shape == b.shape, f"shape {x.shape}"
        if n:
            check_eigenvalues(dense, w)
            check_eigenpairs(a, w, v)
            check_pseudoinverse(dense, x, b)


def large_eigen(mesh: Mesh, n: int, dtype: str) -> None:
    """Residual and orthogonality by XLA; the values alone against those with vectors."""
    a = kernel_matrix(n, dtype, mesh, P("rows", "columns"))
    w, v, status = meshsolve.syevd(a, return_status=True)
    assert int(status) == 0, f"status {int(status)}"
    check_eigenpairs(a, w, v)
    alone = meshsolve.syevd(a, return_eigenvectors=False)
    error, bound = float(jnp.abs(w - alone).max()), 10 * n**0.5 * float(jnp.finfo(dtype).eps * w.max())
    assert error <= bound, f"values alone: got a difference of {error:.3g}, needed ≤ {bound:.3g}"


def eigen_triangles(mesh: Mesh) -> None:
    """The triangle that is not promised holds NaN."""
    full, positive = hermitian(200, "complex128"), positive_definite(200, "complex128")
    a, metric = (put(each, mesh, "rows", "columns") for each in (full, positive))
    for triangle, keep in (("lower", np.tril), ("upper", np.triu)):
        kept = keep(np.ones_like(full, dtype=bool))
        half, half_metric = (
            put(np.where(kept, each, np.nan), mesh, "rows", "columns") for each in (full, positive)
        )
        check_eigenpairs(a, *meshsolve.syevd(half, 25, triangle=triangle))
        check_eigenvalues(full, linalg.eigvalsh(half, lower=triangle == "lower", tile=32))
        check_eigenpairs(a, *linalg.eigh(half, half_metric, lower=triangle == "lower", tile=25), metric)


def imaginary_diagonal(mesh: Mesh) -> None:
    """What a Hermitian matrix cannot have there is taken for zero, by every solver."""
    for dtype in ("complex64", "complex128"):
        imaginary = 1j * np.diag(np.linspace(1, 7, 200)).astype(dtype)
        full, positive = hermitian(200, dtype), positive_definite(200, dtype)
        a, metric, given, given_metric = (
            put(each, mesh, "rows", "columns")
            for each in (full, positive, full + imaginary, positive + imaginary)
        )
        check_eigenpairs(a, *meshsolve.syevd(given, 25))
        check_eigenpairs(a, *linalg.eigh(given, given_metric, tile=32), metric)
        b = put(counting(200, 2, dtype), mesh)
        check_solution(metric, meshsolve.potrs(given_metric, b, 25), b)
        diagonal = jnp.diagonal(
            jax.device_put(linalg.cholesky(given_metric, tile=25), NamedSharding(mesh, P()))
        )
        assert (np.asarray(diagonal.addressable_data(0)).imag == 0).all(), "the factor's diagonal is not real"


def eigen_under_jit(mesh: Mesh) -> None:
    dense = hermitian(500, "float64")
    a = put(dense, mesh, "rows", "columns")

    @jax.jit
    def run(a: jax.Array) -> tuple[jax.Array, jax.Array]:
        w, v = linalg.eigh(2 * a, mesh=mesh, matrix_specs=P("rows", "columns"))
        return w / 2, v

    check_eigenpairs(a, *run(a))
    given = put(dense, mesh, "rows", "columns")
    check_eigenpairs(a, *linalg.eigh(given, donate=True))
    assert given.is_deleted()
    w, v = linalg.eigh(a, subset_by_index=(100, 150))
    assert w.shape == (50,) and v.shape == (500, 50), f"got {w.shape} and {v.shape}"


def eigen_failures(mesh: Mesh) -> None:
    n, tile = 64, 16
    for value in (np.nan, np.inf):
        for row, column in ((0, 0), (n - 1, 3), (3, n - 1)):
            dense = hermitian(n, "complex64")
            dense[row, column] = dense[column, row] = value
            a = put(dense, mesh, "rows", "columns")
            w, v, status = meshsolve.syevd(a, tile, return_status=True)
            check_failed(v, w, status, -1)
            x = linalg.pinvh_solve(a, counting(n, 2, "complex64"), tile=tile)
            check_failed(x, linalg.eigvalsh(a, tile=tile), status, -1)
    a = put(hermitian(n, "float64"), mesh, "rows", "columns")
    for row in (0, tile, tile + 1, n - 1):
        metric = positive_definite(n, "float64")
        metric[row, row] = -1
        metric = put(metric, mesh, "rows", "columns")
        assert all(
            np.isnan(part).all() for each in linalg.eigh(a, metric, tile=tile) for part in on_devices(each)
        )
        try:
            linalg.eigh(a, metric, tile=tile, check=True)
        except meshsolve.NotPositiveDefiniteError as error:
            assert error.order == row + 1, f"order {error.order}"
        else:
            raise AssertionError("no exception")


def under_jit(mesh: Mesh) -> None:
    a, b = positive_definite(1000, "float64"), counting(1000, 2, "float64")
    a, b = put(a, mesh, "rows", "columns"), put(b, mesh)

    @jax.jit
    def run(a: jax.Array, b: jax.Array) -> jax.Array:
        return 2 * meshsolve.linalg.solve(a + 0, b, assume_a="pos", mesh=mesh)

    check_solution(a, run(a, b) / 2, b)


def under_jit_with_set_mesh(mesh: Mesh) -> None:
    """The mesh is known by its axes only while JAX traces."""
    kind = AxisType.Explicit
    mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=(kind, kind))
    a, b = positive_definite(256, "float64"), counting(256, 2, "float64")
    a, b = put(a, mesh, "rows", "columns"), put(b, mesh)
    with jax.set_mesh(mesh):
        check_solution(a, jax.jit(meshsolve.potrs)(a, b), b)


def redistribution(mesh: Mesh, m: int, n: int, dtype: str, tile: int | None) -> None:
    """To the block-cyclic distribution and back, bit for bit, against tiles sliced with NumPy."""
    dense = counting(m, n, dtype)
    a = put(dense, mesh, "rows", "columns")
    there_and_back = jax.jit(
        lambda a: meshsolve.redistribute(
            meshsolve.redistribute(jnp.flip(a), tile, mesh, P("rows", "columns"))
        )
    )
    for _ in range(2):
        cyclic = meshsolve.redistribute(a, tile, mesh, P("rows", "columns"))
        for shard in cyclic.local.addressable_shards:
            r, c = (int(index.start or 0) for index in shard.index[:2])
            rows, columns = cyclic.numroc(r, c)
            own_rows = np.arange(m) // cyclic.tile % cyclic.grid[0] == r
            own_columns = np.arange(n) // cyclic.tile % cyclic.grid[1] == c
            local = np.asarray(shard.data)[0, 0].T[:rows, :columns]
            assert np.array_equal(local, dense[own_rows][:, own_columns]), (
                f"process ({r}, {c}) has other tiles"
            )
        for back, expected in (
            (meshsolve.redistribute(cyclic), dense),
            (there_and_back(a), dense[::-1, ::-1]),
            (a, dense),
        ):
            same = all(
                (part == expected[s.index]).all()
                for part, s in zip(on_devices(back), back.addressable_shards, strict=True)
            )
            assert same, "not every element came back"


def product(mesh: Mesh, sizes: tuple[int, int, int], dtype: str, tile: int | None) -> None:
    """Eagerly and under jit, by every layout that the plan has."""
    m, k, n = sizes
    # No element is like its neighbours; about as many are negative as positive.
    a, b = (np.sin(counting(*shape, "float64")) for shape in ((m, k), (k, n)))
    if np.dtype(dtype).kind == "c":
        a, b = a * (1 + 0.5j), b * (0.25 - 1j)
    a, b = put(a.astype(dtype), mesh, "rows", "columns"), put(b.astype(dtype), mesh, "rows", "columns")
    for layout in ("auto", "stages"):
        run = partial(
            meshsolve.linalg.matmul, tile=tile, mesh=mesh, matrix_specs=P("rows", "columns"), layout=layout
        )
        for matmul in (run, jax.jit(run)):
            for _ in range(2):
                check_product(a, b, matmul(a, b))


def peer_table(devices: int) -> Iterator[Case]:
    """The case table of the system that users come from, on all devices: sizes of at least 512."""
    both = ("rows", "columns")
    for name, grid, turned, tile, k, a_spec, b_spec in (
        ("row major, no padding", (1, devices), False, 64, devices, both, both),
        ("column major, padding", (1, devices), True, 96, max(2, devices), both, both),
        ("column grid, padding", (devices, 1), False, 96, 1, both, both),
        ("column grid, no padding", (devices, 1), False, 64, 1, both, ("rows",)),
        ("skinny right-hand side", (1, devices), False, 64, 1, both, ("rows",)),
        ("vector, replicated", (1, devices), False, 64, None, both, ()),
        ("single column, replicated", (1, devices), False, 64, 1, both, ()),
        ("single axis, rows", (devices,), False, 64, 1, ("rows",), ("rows",)),
        ("single axis, columns", (devices,), False, 64, 1, (None, "rows"), ()),
    ):
        for kind in (AxisType.Auto, AxisType.Explicit):
            order = np.array(jax.devices()).reshape(grid, order="F" if turned else "C")
            mesh = Mesh(order, both[: len(grid)], axis_types=(kind,) * len(grid))
            for dtype in DTYPES:
                case = partial(of_peer_table, mesh, dtype, tile, k, a_spec, b_spec)
                yield f"peer table: {name}, {kind.name} {dtype}", case


def of_peer_table(
    mesh: Mesh, dtype: str, tile: int, k: int | None, a_spec: tuple[str | None, ...], b_spec: tuple[str, ...]
) -> None:
    n = -(-512 // mesh.size) * mesh.size
    b = put(counting(n, k, dtype), mesh, *b_spec)
    for solve, dense in (
        (meshsolve.potrs, positive_definite(n, dtype)),
        (meshsolve.lu_solve, arbitrary(n, dtype) + 2 * n * np.eye(n, dtype=dtype)),
    ):
        a = put(dense, mesh, *a_spec)
        x, status = solve(a, b, tile, mesh, (P(*a_spec), P(*b_spec)), return_status=True)
        assert int(status) == 0, f"status {int(status)}"
        check_sharding(x, mesh, *b_spec)
        # With Explicit axes XLA multiplies only what is told how to lie.
        check_solution(*(jax.device_put(each, NamedSharding(auto(mesh), P())) for each in (a, x, b)))


def auto(mesh: Mesh) -> Mesh:
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def right_hand_sides(mesh: Mesh) -> None:
    n, columns = 240, 2 * mesh.shape["columns"]
    a = put(positive_definite(n, "float64"), mesh, "rows", "columns")
    for k, spec in ((columns, ()), (columns, ("rows",)), (columns, ("rows", "columns")), (None, ()), (1, ())):
        b = put(counting(n, k, "float64"), mesh, *spec)
        x = meshsolve.potrs(a, b, 32)
        check_solution(a, x, b)
        check_sharding(x, mesh, *spec)


def triangles(mesh: Mesh) -> None:
    """The triangle that is not promised holds NaN."""
    full = positive_definite(200, "complex128")
    b = put(counting(200, 2, "complex128"), mesh)
    for triangle, keep in (("lower", np.tril), ("upper", np.triu)):
        kept = keep(np.ones_like(full, dtype=bool))
        a = put(np.where(kept, full, np.nan), mesh, "rows", "columns")
        x = meshsolve.potrs(a, b, 25, triangle=triangle)
        check_solution(put(full, mesh, "rows", "columns"), x, b)


def not_positive_definite(mesh: Mesh, dtype: str) -> None:
    n, tile = 40, 8
    for position in (0, tile, tile + 1, n - 1):
        a = 2 * np.eye(n, dtype=dtype)
        a[position, position] = -1
        results = meshsolve.potrs(
            put(a, mesh, "rows", "columns"),
            counting(n, 2, dtype),
            tile,
            return_logdet=True,
            return_status=True,
        )
        check_failed(*results, position + 1)


def zero_pivot_in_the_last_tile(mesh: Mesh) -> None:
    n = 40
    a = 2 * np.eye(n)
    a[-1, -1] = 0
    a, b = put(a, mesh, "rows", "columns"), put(counting(n, 1, "float64"), mesh)
    run = partial(meshsolve.potrs, T_A=8, mesh=mesh, return_logdet=True, return_status=True)
    for solve in (run, jax.jit(run)):
        check_failed(*solve(a, b), n)


def non_finite(mesh: Mesh, value: float) -> None:
    n = 64
    for row, column in ((0, 0), (n - 1, 3), (3, n - 1), (n - 1, n - 1)):
        a = positive_definite(n, "float32")
        a[row, column] = a[column, row] = value
        results = meshsolve.potrs(
            put(a, mesh, "rows", "columns"),
            counting(n, 1, "float32"),
            16,
            return_logdet=True,
            return_status=True,
        )
        check_failed(*results, -1)


def exception_with_check(mesh: Mesh) -> None:
    a = put(np.diag([1.0, 1, -1, 1]), mesh, "rows", "columns")
    try:
        meshsolve.potrs(a, np.ones(4), 1, check=True)
    except meshsolve.NotPositiveDefiniteError as error:
        assert error.order == 3, f"order {error.order}"
    else:
        raise AssertionError("no exception")


def donation(mesh: Mesh) -> None:
    n, tile = 512, 64
    dense = positive_definite(n, "float64")
    a, b = put(dense, mesh, "rows", "columns"), put(counting(n, 2, "float64"), mesh)
    kept = meshsolve.potrs(a, b, tile)
    assert not a.is_deleted()
    assert all(
        (part == dense[shard.index]).all()
        for part, shard in zip(on_devices(a), a.addressable_shards, strict=True)
    )
    given = meshsolve.potrs(a, b, tile, donate=True)
    assert a.is_deleted()
    for x in (kept, given):
        check_solution(put(dense, mesh, "rows", "columns"), x, b)


def workspace_is_exact_after_a_run(mesh: Mesh) -> None:
    """The estimate before is near what the library asks for, and the plan knows that afterwards."""
    on_gpus = jax.default_backend() != "cpu"
    # An order and a tile that workspace was recorded for.
    n, tile = 8192 if on_gpus else 256, 256 if on_gpus else 64
    a = kernel_matrix(n, "float32", mesh, P("rows", "columns"))
    b = put(counting(n, 1, "float32"), mesh)
    for solve, structure in ((meshsolve.potrs, "pos"), (meshsolve.lu_solve, "gen")):
        plan = partial(meshsolve.plan, a, b, tile, assume_a=structure)
        before = plan()
        assert not before.workspace_is_exact
        solve(a, b, tile).block_until_ready()
        after = plan()
        assert after.workspace_is_exact == on_gpus
        estimate, asked = before.workspace_bytes, after.workspace_bytes
        assert abs(estimate - asked) <= 0.1 * asked, f"estimated {estimate}, the library asked for {asked}"


def alternating_grids(mesh: Mesh) -> None:
    other = mesh_of(list(mesh.devices.flat), *reversed(mesh.devices.shape))
    dense, right = positive_definite(200, "float64"), counting(200, 2, "float64")
    systems = [(put(dense, each, "rows", "columns"), put(right, each)) for each in (mesh, other)]
    for _ in range(5):
        for a, b in systems:
            check_solution(a, meshsolve.potrs(a, b, 32), b)


def nearly_square_grid(mesh: Mesh) -> None:
    if min(mesh.devices.shape) > 1 or mesh.size < 4:
        return
    tile = 16
    n = 4 * tile * mesh.size
    a = put(positive_definite(n, "float64"), mesh, "rows", "columns")
    b = put(counting(n, 3, "float64"), mesh)
    for method in ("cholesky", "lu"):
        system = _system.System(method, "solve", near_square=True)
        check_solution(a, _problem.run(system, _problem.Options(tile), a, b)["x"], b)


def permuted_devices(mesh: Mesh) -> None:
    turned = Mesh(mesh.devices[::-1, ::-1], mesh.axis_names, axis_types=mesh.axis_types)
    a = put(positive_definite(200, "float64"), turned, "rows", "columns")
    b = put(counting(200, 2, "float64"), turned, "rows")
    check_solution(a, meshsolve.potrs(a, b, 32), b)


def groups_side_by_side(mesh: Mesh) -> None:
    """Mesh axes that the partition does not name: every group of devices solves for itself."""
    a = put(positive_definite(120, "float64"), mesh, "rows")
    b = put(counting(120, 2, "float64"), mesh)
    x = meshsolve.potrs(a, b, 16, mesh, P("rows"))
    check_solution(a, x, b)
    parts = on_devices(x)
    assert all((part == parts[0]).all() for part in parts), "the groups differ"


def vmapped(mesh: Mesh) -> None:
    dense = np.stack([positive_definite(64, "float64"), positive_definite(64, "float64") + np.eye(64)])
    right = np.stack([counting(64, 2, "float64"), counting(64, 2, "float64")[::-1]])
    a = jax.make_array_from_callback(dense.shape, NamedSharding(mesh, P()), lambda index: dense[index])
    b = jax.make_array_from_callback(right.shape, NamedSharding(mesh, P()), lambda index: right[index])
    x = jax.vmap(lambda a, b: meshsolve.potrs(a, b, 16, mesh, P("rows", "columns")))(a, b)
    for number in range(2):
        check_solution(a[number], x[number], b[number])


def scan_beside_psum(mesh: Mesh) -> None:
    """100 steps of inverse iteration, each beside a collective of XLA's own."""
    n, steps = 96, 100
    dense, right = positive_definite(n, "float64"), counting(n, None, "float64")
    a, b = put(dense, mesh, "rows", "columns"), put(right, mesh)

    def sum_of_one(one: jax.Array) -> jax.Array:
        return jax.lax.psum(one, mesh.axis_names)

    count_devices = jax.shard_map(sum_of_one, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)

    @jax.jit
    def run(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], None]:
            vector, total = carry
            x = meshsolve.potrs(a, vector, 16, mesh, P("rows", "columns"))
            return (x / jnp.abs(x).max(), total + count_devices(jnp.ones(()))), None

        return jax.lax.scan(step, (b, jnp.zeros(())), length=steps)[0]

    vector, total = run(a, b)
    expected = right
    inverse = np.linalg.inv(dense)
    for _ in range(steps):
        expected = inverse @ expected
        expected = expected / np.abs(expected).max()
    assert float(total) == steps * mesh.size, f"psum: got {float(total)}, needed {steps * mesh.size}"
    for part in on_devices(vector):
        error = np.abs(part - expected).max()
        assert error <= 1e-9, f"got an error of {error:.3g}, needed ≤ 1e-9"


def nothing_is_made_anew(mesh: Mesh) -> None:
    a = put(positive_definite(256, "float64"), mesh, "rows", "columns")
    b = put(counting(256, 2, "float64"), mesh)
    solve = jax.jit(partial(meshsolve.potrs, T_A=32, mesh=mesh))

    def run() -> None:
        pairs = meshsolve.syevd(a, 32), linalg.eigh(a, a, tile=32)
        jax.block_until_ready((meshsolve.potrs(a, b, 32), solve(a, b), linalg.pinvh_solve(a, b), pairs))

    for _ in range(2):
        run()
    before = _gpus.counters()
    for _ in range(10):
        run()
    after = _gpus.counters()
    assert after == before, f"got {after}, needed {before}"


def memory_stays_flat(mesh: Mesh) -> None:
    a = put(positive_definite(256, "float64"), mesh, "rows", "columns")
    b = put(counting(256, 2, "float64"), mesh)
    devices = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]

    def in_use() -> list[int]:
        return [(device.memory_stats() or {}).get("bytes_in_use", 0) for device in devices]

    def run() -> None:
        jax.block_until_ready((meshsolve.potrs(a, b, 32), linalg.eigvalsh(a, tile=32)))

    for _ in range(3):
        run()
    before = in_use()
    for _ in range(100):
        run()
    after = in_use()
    assert after == before, f"bytes in use on each device: got {after}, needed {before}"


def cases(sizes: list[int]) -> Iterator[Case]:
    """Every case; the solves of these further sizes come last."""
    for grid, mesh in meshes().items():
        for dtype in DTYPES:
            for n, tile in ((39, 7), (40, 7), (1000, None), (1000, 200)):
                name = f"{grid} {dtype} n={n} T={tile or 'default'}"
                yield f"solve {name}", partial(small, mesh, n, dtype, tile)
            yield f"solve {grid} {dtype} n=4096", partial(large, mesh, 4096, dtype)
            for n, tile in ((39, 7), (64, 16), (1000, None)):
                name = f"{grid} {dtype} n={n} T={tile or 'default'}"
                yield f"LU {name}", partial(general, mesh, n, dtype, tile)
                yield f"Cholesky family {name}", partial(cholesky_family, mesh, n, dtype, tile)
                yield f"eigen {name}", partial(eigen, mesh, n, dtype, tile)
            yield f"large eigen {grid} {dtype} n=2048", partial(large_eigen, mesh, 2048, dtype)
            yield f"LU {grid} {dtype} n=4096", partial(large_general, mesh, 4096, dtype)
            yield f"singular {grid} {dtype}", partial(singular, mesh, dtype)
            yield f"not positive definite {grid} {dtype}", partial(not_positive_definite, mesh, dtype)
            for m, n, tile in (
                (64, 64, 4),
                (2048, 1024, 256),
                (1024, 2048, None),
                (999, 1201, 100),
                (5, 3, 8),
            ):
                name = f"{grid} {dtype} {m}x{n} T={tile or 'default'}"
                yield f"redistribution {name}", partial(redistribution, mesh, m, n, dtype, tile)
            for sizes, tile in (
                ((512, 1024, 2048), None),
                ((512, 1024, 2048), 64),
                ((320, 4096, 192), None),
                ((999, 801, 401), 100),
                ((5, 3, 2), 2),
                ((1000, 600, 1), None),
            ):
                name = f"{grid} {dtype} {'x'.join(map(str, sizes))} T={tile or 'default'}"
                yield f"product {name}", partial(product, mesh, sizes, dtype, tile)
        for n in range(5):
            yield f"tiny eigen {grid} n={n}", partial(tiny_eigen, mesh, n)
        yield f"zero pivot in the last tile {grid}", partial(zero_pivot_in_the_last_tile, mesh)
        yield f"NaN in the matrix {grid}", partial(non_finite, mesh, np.nan)
        yield f"Inf in the matrix {grid}", partial(non_finite, mesh, np.inf)
        for case in (
            under_jit,
            under_jit_with_set_mesh,
            right_hand_sides,
            triangles,
            eigen_triangles,
            imaginary_diagonal,
            eigen_under_jit,
            eigen_failures,
            exception_with_check,
            donation,
            workspace_is_exact_after_a_run,
            alternating_grids,
            permuted_devices,
            nearly_square_grid,
            groups_side_by_side,
            vmapped,
            scan_beside_psum,
            nothing_is_made_anew,
            memory_stays_flat,
        ):
            yield f"{case.__name__.replace('_', ' ')} {grid}", partial(case, mesh)
    yield from peer_table(len(jax.devices()))
    for grid, mesh in meshes().items():
        for n in sizes:
            for dtype in DTYPES:
                if mesh.size > 1:
                    yield f"solve {grid} {dtype} n={n}", partial(large, mesh, n, dtype)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rank", type=int, nargs="?", default=0, help="number of this process")
    parser.add_argument("processes", type=int, nargs="?", default=1, help="number of processes, one per GPU")
    parser.add_argument("port", type=int, nargs="?", default=12345, help="port at which the processes meet")
    parser.add_argument("--share-gpu", action="store_true", help="all processes on the first GPU")
    parser.add_argument("--large", action="store_true", help="also n up to 16384")
    parser.add_argument("--huge", action="store_true", help="also n = 32768")
    parser.add_argument("--only", default="", help="only cases in whose name this pattern occurs")
    parser.add_argument("--cpu", type=int, metavar="N", help="N simulated devices in place of GPUs")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    jax.config.update("jax_enable_x64", True)
    if arguments.cpu:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", arguments.cpu)
        # XLA's pool of threads, read when JAX makes its client.
        os.environ.setdefault("NPROC", "64")
    gpu = arguments.rank
    if arguments.share_gpu:
        gpu = 0
        # NCCL lets processes share a GPU if each claims to be on a machine of its own.
        os.environ |= {"NCCL_HOSTID": f"process-{arguments.rank}", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    if arguments.processes > 1:
        address = f"127.0.0.1:{arguments.port}"
        jax.distributed.initialize(address, arguments.processes, arguments.rank, local_device_ids=[gpu])
    if jax.default_backend() == "cpu" and not arguments.cpu:
        print("skipped: JAX finds no GPU here")
        return NO_GPU
    sizes = [8192, 16384] * arguments.large + [32768] * arguments.huge
    passed = failed = 0
    for name, case in cases(sizes):
        if not re.search(arguments.only, name):
            continue
        start = time.perf_counter()
        try:
            case()
        except Exception as error:
            failed += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            said = "\n        ".join(f"{type(error).__name__} at {where}: {error}".splitlines())
            print(f"FAIL  {name} [process {arguments.rank}]: {said}", flush=True)
        else:
            passed += 1
            if arguments.rank == 0:
                print(f"ok    {name} ({time.perf_counter() - start:.2f} s)", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
