"""Square systems: what may be asked of them, and what the top-level solves return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from . import _problem
from ._errors import NotPositiveDefiniteError, SingularMatrixError
from ._problem import Options, Results


@dataclass(frozen=True)
class System:
    """What is asked for: op(A)·X = B, or a part of its solution.

    Attributes:
        method: ``"cholesky"``, ``"lu"`` or ``"triangular"``.
        task: ``"solve"``, ``"prepare"``, ``"apply"``, ``"determinant"``, ``"invert"`` or ``"factor"``.
        triangle: which one is promised, or meant; None for both.
        op: ``"no_transpose"``, ``"transpose"`` or ``"conjugate_transpose"``.
        unit_diagonal: whether a triangular matrix has ones on its diagonal.
        log_det: whether the determinant's logarithm (and the phase, of LU) is wanted.
        entry: how the matrix enters the call; see `meshsolve._call.Call`.
        near_square: whether a matrix on a mesh of one axis is brought to a nearly square one; None leaves
            that to the plan.
    """

    method: str
    task: str
    triangle: str | None = None
    op: str = "no_transpose"
    unit_diagonal: bool = False
    log_det: bool = False
    entry: str | None = None
    near_square: bool | None = None

    #: A positive status is the order of a leading minor, or the number of a pivot.
    ordered = True

    @property
    def hermitian(self) -> bool:
        """Whether the matrix has to be Hermitian."""
        return self.method == "cholesky"

    @property
    def failure(self) -> type[Exception]:
        """The exception that belongs to a positive status."""
        return NotPositiveDefiniteError if self.method == "cholesky" else SingularMatrixError

    def fields(self) -> dict[str, Any]:
        """What the request to the planner says of it besides task and triangle."""
        return {
            "routine": "system",
            "method": self.method,
            "op": self.op,
            "unit_diagonal": self.unit_diagonal,
            "log_det": self.log_det,
            "near_square": self.near_square,
        }

    def without_b(self) -> System:
        """The determinant alone; a triangular system, of which there is none, as it is."""
        return self if self.method == "triangular" else replace(self, task="determinant")

    def nothing(self, a: Any, b: Any) -> Results:
        """The results for a matrix of order 0, whose determinant is 1."""
        results = {"status": jnp.zeros((), jnp.int32)}
        if self.task in ("solve", "invert", "factor"):
            results["x"] = jnp.zeros_like(a if b is None else b)
        if self.task == "prepare":
            results["factor"] = jnp.zeros_like(a)
            if self.method == "lu":
                results["pivots"] = jnp.zeros((0,), jnp.int32)
        if self.log_det:
            results["log_det"] = jnp.zeros((), jnp.finfo(a.dtype).dtype)
            if self.method == "lu":
                results["phase"] = jnp.ones((), a.dtype)
        return results


def solved(
    system: System,
    options: Options,
    a: Any,
    b: Any,
    shift: Any = None,
    *,
    return_logdet: bool = False,
    return_status: bool = False,
) -> Any:
    """What a top-level solve returns: ``x``, or a tuple of it and what else is asked for."""
    results = _problem.run(system, options, a, b, shift)
    returned = [results["x"]]
    if return_logdet:
        returned.append(results["log_det"])
    if return_status:
        returned.append(results["status"])
    return returned[0] if len(returned) == 1 else tuple(returned)
