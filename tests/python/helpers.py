"""Matrices, meshes and checks that all tests share. The oracle is NumPy on dense copies."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

P = PartitionSpec
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
GRIDS = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (2, 4), (8, 1)]


def shared_out(cases, dtype) -> list:
    """Every second case: so each one meets every grid with two of the four dtypes, in half the time."""
    turn = [np.dtype(each) for each in DTYPES].index(np.dtype(dtype)) % 2
    return list(cases)[turn::2]


def grid_id(grid: tuple[int, int]) -> str:
    return f"{grid[0]}x{grid[1]}"


def dtype_id(dtype) -> str:
    return np.dtype(dtype).name


AUTO = (AxisType.Auto, AxisType.Auto)
EXPLICIT = (AxisType.Explicit, AxisType.Explicit)
MIXED = (AxisType.Explicit, AxisType.Auto)


def make_mesh(rows: int, columns: int, *, order: str = "C", axis_types=AUTO) -> Mesh:
    """A mesh ("x", "y") of the first devices, counted along rows (order "C") or along columns ("F")."""
    devices = np.array(jax.devices()[: rows * columns]).reshape((rows, columns), order=order)
    return Mesh(devices, ("x", "y"), axis_types=axis_types)


def put(array, mesh: Mesh, *spec) -> jax.Array:
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


def positive_definite(n: int, dtype, seed: int = 0) -> np.ndarray:
    """X Xᴴ + n I with Gaussian X, exactly Hermitian in this dtype."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n))
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal((n, n))
    a = (x @ x.conj().T + n * np.eye(n)).astype(dtype)
    return (a + a.conj().T) / np.dtype(dtype).type(2)


def arbitrary(n: int, dtype, seed: int = 0) -> np.ndarray:
    """Gaussian, and so far from singular and in need of pivoting."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, n))
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * rng.standard_normal((n, n))
    return a.astype(dtype)


def hermitian(n: int, dtype, seed: int = 0) -> np.ndarray:
    """Gaussian, exactly Hermitian in this dtype."""
    a = arbitrary(n, dtype, seed)
    return (a + a.conj().T) / np.dtype(dtype).type(2)


def positive_definite_stack(count: int, n: int, dtype) -> np.ndarray:
    """(count, n, n): different matrices of this kind."""
    return np.stack([positive_definite(n, dtype, seed) for seed in range(count)])


def right_hand_side(n: int, k: int | None, dtype) -> np.ndarray:
    """1 … n·k in order, so that each value tells its place; (n,) if ``k`` is None."""
    b = np.arange(1, n * (1 if k is None else k) + 1).reshape((n,) if k is None else (n, k))
    if np.issubdtype(dtype, np.complexfloating):
        return (b * (1 + 0.25j)).astype(dtype)
    return b.astype(dtype)


def check_solution(a, x, b) -> None:
    """Fails unless ``x`` solves ``a @ x = b`` to the accuracy of its dtype, by both of two bounds.

    The first, ‖b − a x‖₁ / (n ‖a‖₁ ‖x‖₁) ≤ 25 ε, is what a backward stable solver promises; the second,
    ‖b − a x‖₁ / (‖a‖₁ ‖x‖₁) ≤ √n ε, is narrow enough to see one wrong tile of x in single precision.
    """
    a, x, b = np.asarray(a), np.asarray(x), np.asarray(b)
    assert x.dtype == b.dtype
    assert x.shape == b.shape
    n = a.shape[0]
    epsilon = np.finfo(x.dtype).eps
    wide = np.promote_types(x.dtype, np.float64)
    a, x, b = (v.astype(wide).reshape(n, -1) for v in (a, x, b))
    ratio = _one_norm(b - a @ x) / (_one_norm(a) * _one_norm(x))
    # Comparisons with NaN are false, so these reject it.
    assert ratio / n <= 25 * epsilon, (
        f"‖b − a x‖₁ / (n ‖a‖₁ ‖x‖₁) = {ratio / n / epsilon:.3g} ε, needed ≤ 25 ε"
    )
    assert ratio <= np.sqrt(n) * epsilon, (
        f"‖b − a x‖₁ / (‖a‖₁ ‖x‖₁) = {ratio / epsilon:.3g} ε, needed ≤ √n ε = {np.sqrt(n):.3g} ε"
    )


def check_inverse(a, x) -> None:
    """Fails unless ``x`` is a right inverse of ``a`` to the accuracy of its dtype, as in `check_solution`."""
    check_solution(a, x, np.eye(len(a), dtype=np.asarray(a).dtype))


def check_slogdet(a, sign, logabsdet) -> None:
    """Fails unless both are NumPy's: |Δ| ≤ 10 ε (n + |log|det||) of the logarithm, 10 ε n of the sign."""
    sign, logabsdet = np.asarray(sign), np.asarray(logabsdet)
    assert sign.dtype == a.dtype
    assert logabsdet.dtype == np.finfo(a.dtype).dtype
    assert sign.shape == logabsdet.shape == ()
    expected_sign, expected = np.linalg.slogdet(a.astype(np.promote_types(a.dtype, np.float64)))
    epsilon, n = np.finfo(a.dtype).eps, a.shape[0]
    assert abs(sign - expected_sign) <= 10 * epsilon * n
    if not np.issubdtype(a.dtype, np.complexfloating):
        assert abs(sign) == 1
    difference = abs(float(logabsdet) - expected)
    # Near a singular matrix the determinant is as uncertain as the solution of a system.
    bound = 10 * epsilon * (n + abs(expected)) * max(1, np.linalg.cond(a) / n)
    assert difference <= bound, f"log|det|: got {float(logabsdet)}, needed {expected} ± {bound:.3g}"


def check_log_det(a, log_det) -> None:
    """Fails unless ``log_det`` is that of NumPy's slogdet: |Δ| ≤ 10 ε (n + |log det|)."""
    a, log_det = np.asarray(a), np.asarray(log_det)
    real = np.finfo(a.dtype).dtype
    assert log_det.dtype == real
    assert log_det.shape == ()
    sign, expected = np.linalg.slogdet(a.astype(np.promote_types(a.dtype, np.float64)))
    assert abs(sign - 1) < 1e-6
    difference = abs(float(log_det) - expected)
    bound = 10 * np.finfo(real).eps * (a.shape[0] + abs(expected))
    assert difference <= bound, f"log det: got {float(log_det)}, needed {expected} ± {bound:.3g}"


def check_eigenvalues(a, w, metric=None) -> None:
    """Fails unless ``w`` are the eigenvalues of Hermitian ``a``: ascending, |Δ| ≤ 10 √n ε ‖a‖₁ from NumPy's.

    With a metric B they are those of L⁻¹ a L⁻ᴴ with B = L Lᴴ, computed in double precision, and the bound is
    wider by the condition number of B, as that of the factors is.
    """
    a, w = np.asarray(a), np.asarray(w)
    n, epsilon = len(a), np.finfo(a.dtype).eps
    assert w.dtype == np.finfo(a.dtype).dtype
    assert w.shape == (n,)
    if n == 0:
        return
    wide, condition = a.astype(np.promote_types(a.dtype, np.float64)), 1
    if metric is not None:
        inverse = np.linalg.inv(np.linalg.cholesky(metric.astype(wide.dtype)))
        wide, condition = inverse @ wide @ inverse.conj().T, np.linalg.cond(metric)
    expected = np.linalg.eigvalsh((wide + wide.conj().T) / 2)
    bound = 10 * np.sqrt(n) * epsilon * _one_norm(wide) * condition
    # Comparisons with NaN are false, so these reject it.
    assert (np.diff(w) >= 0).all(), "the eigenvalues are not ascending, as needed"
    difference = np.abs(w - expected).max()
    assert difference <= bound, f"eigenvalues: got a difference of {difference:.3g}, needed ≤ {bound:.3g}"


def check_eigenpairs(a, w, v, metric=None) -> None:
    """Fails unless ``a @ v = v * w`` and ``v`` is unitary, to the accuracy of the dtype.

    Of the residual by two bounds, ‖a v − v w‖₁ ≤ 50 n ε ‖a‖₁ and ≤ 10 √n ε ‖a‖₁; of the vectors too,
    ‖I − vᴴ v‖₁ ≤ 50 n ε, and |I − vᴴ v| ≤ 5 √n ε element by element. The second ones are narrow enough to see
    one wrong tile in single precision.

    With a metric B, ``a @ v = B @ v * w`` and vᴴ B v = I are measured by what is multiplied,
    (‖a‖₁ + |w|max ‖B‖₁) ‖v‖₁, and by the condition number of B.
    """
    check_eigenvalues(a, w, metric)
    a, w, v = np.asarray(a), np.asarray(w), np.asarray(v)
    assert v.dtype == a.dtype
    assert v.shape == a.shape
    n, epsilon = len(a), np.finfo(a.dtype).eps
    if n == 0:
        return
    wide = np.promote_types(a.dtype, np.float64)
    a, v = a.astype(wide), v.astype(wide)
    b = np.eye(n) if metric is None else metric.astype(wide)
    residual, scale, condition = _one_norm(a @ v - b @ v * w), _one_norm(a), 1
    if metric is not None:
        scale = (scale + np.abs(w).max() * _one_norm(b)) * _one_norm(v)
        condition = np.linalg.cond(b)
    off = np.eye(n) - v.conj().T @ b @ v
    for what, value, bound in (
        ("‖a v − v w‖₁", residual, min(50 * n, 10 * np.sqrt(n)) * scale),
        ("‖I − vᴴ v‖₁", _one_norm(off), 50 * n * condition),
        ("|I − vᴴ v|", np.abs(off).max(), 5 * np.sqrt(n) * condition),
    ):
        # A comparison with NaN is false. A zero matrix has to have no residual at all.
        assert value <= bound * epsilon, f"{what} = {value / epsilon:.3g} ε, needed ≤ {bound:.3g} ε"


def check_sharding(x: jax.Array, mesh: Mesh, *spec) -> None:
    """Fails unless ``x`` lies on the mesh in this partition."""
    wanted = NamedSharding(mesh, P(*spec))
    assert x.sharding.is_equivalent_to(wanted, x.ndim), f"got {x.sharding}, needed {wanted}"


def on_every_device(array: jax.Array) -> list[np.ndarray]:
    """What each device holds, whatever JAX believes to be equal among them."""
    return [np.asarray(shard.data) for shard in array.addressable_shards]


def all_nan(array: jax.Array) -> bool:
    return all(bool(np.isnan(part).all()) for part in on_every_device(array))


def use_mesh(mesh: Mesh):
    """``with use_mesh(mesh):`` by the name it has in this version of JAX."""
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else jax.sharding.use_mesh(mesh)


def _one_norm(matrix: np.ndarray) -> float:
    return np.abs(matrix).sum(axis=0).max()
