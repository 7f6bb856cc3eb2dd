"""Linear algebra of sharded arrays, by the names of ``jax.numpy.linalg`` and ``jax.scipy.linalg``."""

from __future__ import annotations

from typing import Any

from ._potrs import MatrixSpecs, potrs
from ._sharding import AnyMesh

__all__ = ["solve"]

_SUPPORTED = ("pos",)


def solve(
    a: Any,
    b: Any,
    *,
    assume_a: str,
    triangle: str | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
) -> Any:
    """Solves ``a @ x = b`` for a sharded matrix ``a``.

    Promise about triangles: with ``triangle=None``, the default, the matrix is Hermitian and **both
    triangles are valid**; ``"lower"`` or ``"upper"`` promises that one only.

    Args:
        a: (n, n) matrix; float32, float64, complex64 or complex128.
        b: right-hand side, (n,) or (n, k), of the same dtype.
        assume_a: what is known of ``a``: ``"pos"`` (Hermitian positive definite), the only kind so far. To be
            said in every call: a later default for general matrices then changes no program in silence.
        tile: edge of the solver's tiles; None lets the plan choose.
        triangle, mesh, matrix_specs, donate, layout, check, pad: as for `meshsolve.potrs`.

    Returns:
        ``x`` with the shape and the sharding of ``b``; NaN on every device if ``a`` is not positive definite.

    Raises:
        ValueError: another kind of matrix is asked for, or arguments do not fit; see `meshsolve.potrs`.
    """
    if assume_a not in _SUPPORTED:
        raise ValueError(
            f"assume_a is not supported: got {assume_a!r}, needed one of {list(_SUPPORTED)} "
            '("pos": Hermitian positive definite)'
        )
    return potrs(
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
    )
