"""LU solve of a sharded system."""

from __future__ import annotations

from typing import Any

from ._problem import MatrixSpecs, Options
from ._sharding import AnyMesh
from ._system import System, solved


def lu_solve(
    a: Any,
    b: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    *,
    return_status: bool = False,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> Any:
    """Solves ``a @ x = b`` by LU factorisation with partial pivoting, ``a`` square and sharded.

    Not to be mixed up with `meshsolve.linalg.lu_solve`, which solves with a factor that
    `meshsolve.linalg.lu_factor` made.

    Works under jit, vmap (one system after another) and scan; it has no derivative yet.

    Args:
        a: (n, n) matrix; float32, float64, complex64 or complex128.
        b: right-hand side, (n,) or (n, k), of the same dtype; placed as for `meshsolve.potrs`.
        T_A, mesh, matrix_specs, return_status, donate, layout, check, pad, shift: as for `meshsolve.potrs`.
            Here the shift of a complex matrix may be complex.
            Under the stages a positive status k says that the k-th pivot is the first one that is zero.

    Returns:
        ``x``, in the shape and sharding of ``b``, or a pair of ``x`` and the scalar status (int32). If the
        matrix is singular or not finite, ``x`` is NaN on every device and the status is not 0.

    Raises:
        TypeError, ValueError, NotImplementedError, RuntimeError: as for `meshsolve.potrs`.
        SingularMatrixError, NonFiniteError: the solve failed and ``check`` is true.
    """
    options = Options(T_A, mesh, matrix_specs, donate, layout, check, pad)
    return solved(System("lu", "solve"), options, a, b, shift, return_status=return_status)
