"""Factors that stay where the solver wants them, for any number of solves."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from . import _native, _problem, _sharding
from ._arguments import SOLVER_DTYPES, check_layout, check_operands
from ._problem import Options, Problem
from ._sharding import AnyMesh
from ._system import System


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["local", "pivots", "status"],
    meta_fields=["method", "n", "tile", "layout", "view", "triangle", "mesh", "partition"],
)
@dataclass(frozen=True)
class Factor:
    """A factored matrix, as `meshsolve.linalg.cho_factor` and `meshsolve.linalg.lu_factor` give it.

    It is for `meshsolve.linalg.cho_solve` and `meshsolve.linalg.lu_solve`; its elements lie as the solver
    wants them, on the devices of the matrix, and mean nothing elsewhere. A pytree, which may enter and leave
    jitted functions.

    Attributes:
        local: the solver's buffers, one on each device, as one sharded array.
        pivots: for LU the row interchanges, sharded; otherwise None.
        status: scalar int32; 0, or why there is no factor (see `meshsolve.describe_status`). Then all
            solutions are NaN.
        method: ``"cholesky"`` or ``"lu"``.
        n: order of the matrix.
        tile: edge of the square tiles.
        layout, view: how the solver sees the matrix.
        triangle: the triangle that was promised; None for both.
        mesh: the mesh of the devices.
        partition: how the matrix lay on the mesh.
    """

    local: jax.Array
    pivots: jax.Array | None
    status: jax.Array
    method: str
    n: int
    tile: int
    layout: str
    view: str
    triangle: str | None
    mesh: AnyMesh
    partition: PartitionSpec

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the factored matrix."""
        return self.n, self.n

    @property
    def dtype(self) -> np.dtype:
        """Element type of the factored matrix."""
        return self.local.dtype


def prepare(method: str, options: Options, a: Any, shift: Any = None, triangle: str | None = None) -> Factor:
    """Factors a matrix."""
    system = System(method, "prepare", triangle=triangle)
    results, problem = _problem.run_problem(system, options, a, shift=shift)
    plan = _native.plan(problem.request())
    layout, _, view = plan.layout.partition(", ")
    return Factor(
        local=results["factor"],
        pivots=results.get("pivots"),
        status=results["status"],
        method=method,
        n=a.shape[0],
        tile=plan.tile,
        layout=layout,
        view=view or "plain",
        triangle=triangle,
        mesh=problem.placed.grid.mesh,
        partition=problem.placed.grid.spec,
    )


def apply(factor: Factor, b: Any, method: str, op: str = "no_transpose") -> jax.Array:
    """Solves with a factor.

    Raises:
        TypeError: no factor of this method.
        ValueError: ``b`` does not fit.
    """
    if not isinstance(factor, Factor) or factor.method != method:
        made_by = {"cholesky": "cho_factor", "lu": "lu_factor"}[method]
        got = f"one by {factor.method}" if isinstance(factor, Factor) else type(factor).__name__
        raise TypeError(f"the factor must be what meshsolve.linalg.{made_by} returned: got {got}")
    a = jax.ShapeDtypeStruct(factor.shape, factor.dtype)
    check_operands(a, b)
    _sharding.refuse_manual_axes(b)
    mesh, known = factor.mesh, _sharding.known_sharding(factor.local)
    if known is not None and not isinstance(mesh, Mesh):
        # Made under jit, where JAX told the axes only.
        mesh = known[0]
    parts = {"factor": factor.local, "pivots": factor.pivots, "status": factor.status, "b": b}
    problem = Problem(
        asked=System(method, "apply", triangle=factor.triangle, op=op),
        operands={name: part for name, part in parts.items() if part is not None},
        a=a,
        dtype=SOLVER_DTYPES[np.dtype(factor.dtype)],
        tile=factor.tile,
        placed=_sharding.resolve({"a": a, "b": b}, mesh, (factor.partition, None)),
        layout=check_layout(factor.layout, check=False),
        view=factor.view,
    )
    return _problem.apply(problem)
