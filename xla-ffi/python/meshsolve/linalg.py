"""Linear algebra of sharded arrays, by the names of ``jax.numpy.linalg`` and ``jax.scipy.linalg``.

All functions take a matrix, (n, n) of float32, float64, complex64 or complex128, sharded over a mesh; `eigh`
and `eigvalsh` may take a second one, and `matmul` takes two of any shape. For a batch use ``jax.vmap``, which
does one after another. They work eagerly and under ``jax.jit``. Keyword arguments mean the same in all
functions that have them (`matmul` has ``tile``, ``mesh``, ``matrix_specs`` and ``layout``):

- ``tile``, ``mesh``, ``matrix_specs``, ``layout``, ``pad``: as ``T_A`` and the rest of `meshsolve.potrs`.
- ``donate``: let the solver work in the memory of ``a``, which is deleted afterwards; inside jit see
  `meshsolve.potrs`.
- ``shift``: a scalar λ, real where the matrix is Hermitian; ``a + λ·I`` is meant, without a copy for it.
- ``check``: wait for the result and raise an exception on failure; outside jit only. Without it a failure is
  told by NaN in every result, as JAX does.

Where a matrix is Hermitian, ``triangle=None``, the default, says that **both triangles are valid**;
``"lower"`` or ``"upper"`` promises that one only, and the other one is never read. `eigh`, `eigvalsh` and
`pinvh_solve` take the same promise under JAX's name: ``lower=None``, True or False.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _factor, _problem
from ._arguments import check_assume_a
from ._eigen import eigh, eigvalsh, pinvh_solve
from ._factor import Factor
from ._lu import lu_solve as _lu_solve
from ._potrs import potrs as _potrs
from ._problem import MatrixSpecs, Options
from ._product import matmul
from ._sharding import AnyMesh, context_of_array
from ._system import System

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lu_factor",
    "lu_solve",
    "matmul",
    "pinvh_solve",
    "slogdet",
    "solve",
    "solve_triangular",
]

_TRANSPOSES = {
    0: "no_transpose",
    "N": "no_transpose",
    1: "transpose",
    "T": "transpose",
    2: "conjugate_transpose",
    "C": "conjugate_transpose",
}


class SlogdetResult(NamedTuple):
    """Sign (or phase) and logarithm of a determinant's absolute value."""

    sign: jax.Array
    logabsdet: jax.Array


def solve(
    a: Any,
    b: Any,
    *,
    assume_a: str = "gen",
    triangle: str | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> Any:
    """Solves ``a @ x = b``.

    Args:
        a: the matrix.
        b: right-hand side, (n,) or (n, k), of the same dtype.
        assume_a: what is known of ``a``: ``"gen"``, nothing (LU with partial pivoting), or ``"pos"``, that it
            is Hermitian positive definite (Cholesky).
        triangle: for ``"pos"``; see the module.
        tile, mesh, matrix_specs, donate, layout, check, pad, shift: see the module.

    Returns:
        ``x`` with the shape and the sharding of ``b``; NaN on every device if ``a`` is singular, or with
        ``"pos"`` not positive definite.

    Raises:
        ValueError: another kind of matrix is asked for, or arguments do not fit; see `meshsolve.potrs`.
    """
    if _method(assume_a, triangle) == "lu":
        return _lu_solve(
            a, b, tile, mesh, matrix_specs, donate=donate, layout=layout, check=check, pad=pad, shift=shift
        )
    return _potrs(
        a,
        b,
        tile,
        mesh,
        matrix_specs,
        triangle=triangle,
        donate=donate,
        layout=layout,
        check=check,
        pad=pad,
        shift=shift,
    )


def cholesky(
    a: Any,
    *,
    upper: bool = False,
    symmetrize_input: bool = False,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> jax.Array:
    """Cholesky factor of a Hermitian positive definite matrix: ``a = L @ L.conj().T``.

    The factor comes back in the order of ``a``, so that blocks of it may have to move between devices; for
    solves take `cho_factor`, which moves less.

    Args:
        a: the matrix, of which only the triangle of the factor is read.
        upper: return ``U`` with ``a = U.conj().T @ U`` instead.
        symmetrize_input: factor ``(a + a.conj().T) / 2``, as ``jax.numpy.linalg.cholesky`` does by default.
            That costs a transposition over all devices, so that here the default is False.
        tile, mesh, matrix_specs, donate, check, pad, shift: see the module.

    Returns:
        The factor, in the sharding of ``a``, with zeros in the other triangle; NaN on every device if there
        is none.
    """
    triangle = "upper" if upper else "lower"
    entry = "hermitian_part" if symmetrize_input else None
    system = System("cholesky", "factor", triangle, entry=entry)
    options = Options(tile, mesh, matrix_specs, donate, check=check, pad=pad)
    return _problem.run(system, options, a, shift=shift)["x"]


def cho_factor(
    a: Any,
    *,
    triangle: str | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> Factor:
    """Factors a Hermitian positive definite matrix for any number of `cho_solve`.

    Args:
        a: the matrix.
        triangle, tile, mesh, matrix_specs, donate, layout, check, pad, shift: see the module.

    Returns:
        The factor, an opaque pytree. Its ``status`` tells whether there is one.
    """
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    return _factor.prepare("cholesky", options, a, shift, triangle)


def cho_solve(factor: Factor, b: Any) -> jax.Array:
    """Solves ``a @ x = b`` with the factor that `cho_factor` made of ``a``.

    Args:
        factor: the factor.
        b: right-hand side, (n,) or (n, k), of the same dtype.

    Returns:
        ``x`` with the shape and the sharding of ``b``; NaN if there is no factor.
    """
    return _factor.apply(factor, b, "cholesky")


def lu_factor(
    a: Any,
    *,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> Factor:
    """Factors a square matrix, with partial pivoting, for any number of `lu_solve`.

    Args:
        a: the matrix.
        tile, mesh, matrix_specs, donate, layout, check, pad, shift: see the module.

    Returns:
        The factor, an opaque pytree. Its ``status`` tells whether the matrix is singular.
    """
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    return _factor.prepare("lu", options, a, shift)


def lu_solve(factor: Factor, b: Any, trans: int | str = 0) -> jax.Array:
    """Solves with the factor that `lu_factor` made of a matrix ``a``.

    Not to be mixed up with `meshsolve.lu_solve`, which takes the matrix itself.

    Args:
        factor: the factor.
        b: right-hand side, (n,) or (n, k), of the same dtype.
        trans: 0 or ``"N"`` for ``a @ x = b``, 1 or ``"T"`` for ``a.T @ x = b``, 2 or ``"C"`` for
            ``a.conj().T @ x = b``. In the latter two every device of a process column holds all rows of ``x``
            for a while.

    Returns:
        ``x`` with the shape and the sharding of ``b``; NaN if the matrix is singular.
    """
    return _factor.apply(factor, b, "lu", _transpose(trans))


def slogdet(
    a: Any,
    *,
    assume_a: str = "gen",
    triangle: str | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> SlogdetResult:
    """Sign and logarithm of the determinant.

    Args:
        a: the matrix.
        assume_a: as for `solve`.
        triangle: for ``"pos"``; see the module.
        tile, mesh, matrix_specs, donate, layout, check, pad, shift: see the module. ``check`` takes a
            singular matrix for a failure.

    Returns:
        ``(sign, logabsdet)`` of ``det(a) = sign · exp(logabsdet)``, scalars on every device: 0 and −∞ for a
        singular matrix; with ``"pos"`` both NaN for a matrix that is not positive definite.
    """
    method = _method(assume_a, triangle)
    system = System(method, "determinant", triangle=triangle, log_det=True)
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    results = _problem.run(system, options, a, shift=shift)
    log_det = results["log_det"]
    if method == "lu":
        return SlogdetResult(results["phase"], log_det)
    with context_of_array(log_det):
        return SlogdetResult(_sign_of_positive(log_det, np.dtype(a.dtype)), log_det)


@functools.partial(jax.jit, static_argnums=1)
def _sign_of_positive(log_det: jax.Array, dtype: np.dtype) -> jax.Array:
    """1, or NaN where the logarithm is."""
    return jnp.where(jnp.isnan(log_det), log_det, 1).astype(dtype)


def det(a: Any, **options: Any) -> jax.Array:
    """The determinant, a scalar on every device.

    Args:
        a: the matrix.
        **options: as for `slogdet`, to which to turn where the determinant may overflow.
    """
    sign, log_det = slogdet(a, **options)
    with context_of_array(sign):
        return sign * jnp.exp(log_det)


def inv(
    a: Any,
    *,
    assume_a: str = "gen",
    triangle: str | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> jax.Array:
    """The inverse, in the sharding of ``a``.

    Args:
        a: the matrix.
        assume_a: as for `solve`.
        triangle: for ``"pos"``; see the module.
        tile, mesh, matrix_specs, donate, layout, check, pad, shift: see the module.

    Returns:
        The inverse; NaN on every device if there is none.
    """
    system = System(_method(assume_a, triangle), "invert", triangle=triangle)
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    return _problem.run(system, options, a, shift=shift)["x"]


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    *,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> jax.Array:
    """Solves ``a @ x = b`` for a triangular matrix ``a``.

    Args:
        a: the matrix, of which only one triangle is read.
        b: right-hand side, (n,) or (n, k), of the same dtype.
        trans: as for `lu_solve`.
        lower: whether ``a`` is lower triangular; otherwise it is upper triangular.
        unit_diagonal: whether the diagonal is ones, whatever is stored there.
        tile, mesh, matrix_specs, donate, check, pad, shift: see the module.

    Returns:
        ``x`` with the shape and the sharding of ``b``; NaN on every device if a diagonal element is zero.
    """
    if unit_diagonal and shift is not None:
        raise ValueError("a diagonal of ones cannot be shifted: got unit_diagonal=True and a shift")
    triangle = "lower" if lower else "upper"
    system = System("triangular", "solve", triangle, _transpose(trans), bool(unit_diagonal))
    options = Options(tile, mesh, matrix_specs, donate, check=check, pad=pad)
    return _problem.run(system, options, a, b, shift)["x"]


def _method(assume_a: Any, triangle: Any) -> str:
    """The method for a matrix of this kind, of which a triangle may be promised."""
    method = check_assume_a(assume_a)
    if method == "lu" and triangle is not None:
        raise ValueError(f'triangle={triangle!r} is for assume_a="pos": LU reads all of a')
    return method


def _transpose(trans: Any) -> str:
    try:
        return _TRANSPOSES[trans]
    except (KeyError, TypeError):
        raise ValueError(f"trans must be 0, 1 or 2 (or 'N', 'T', 'C'): got {trans!r}") from None
