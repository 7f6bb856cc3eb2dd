"""Cholesky solve of a sharded Hermitian positive definite system."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from . import _gpus, _native, _sharding
from ._arguments import check_layout, check_operands, check_tile, check_triangle
from ._call import Call, Solution, solver
from ._errors import SOLVED, raise_for_status
from ._sharding import AnyMesh, Layout

MatrixSpecs = PartitionSpec | tuple[PartitionSpec | None, ...] | None


def potrs(
    a: Any,
    b: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    *,
    return_logdet: bool = False,
    return_status: bool = False,
    donate: bool = False,
    triangle: str | None = None,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
) -> Any:
    """Solves ``a @ x = b`` by Cholesky factorisation, ``a`` Hermitian positive definite and sharded.

    Promise about triangles: with ``triangle=None``, the default, the matrix is Hermitian and **both
    triangles are valid**. ``"lower"`` or ``"upper"`` promises that triangle only; the other one is never
    read and may hold anything.

    The solver wants tiles dealt out to the devices in turn. Either tiles move to where it wants them
    (``layout="stages"``), or it is told of the rows and columns in an order under which the shards already
    lie so (``"reading"``): then nothing of ``a`` changes devices. A reading needs both triangles, and a mesh
    of which one side divides the other, or a tile that divides the shards. The default, ``"auto"``, takes
    the cheaper way; `plan` shows what each would cost.

    Works under jit, vmap (one system after another) and scan; it has no derivative yet.

    Args:
        a: (n, n) matrix; float32, float64, complex64 or complex128.
        b: right-hand side, (n,) or (n, k), of the same dtype. It may be replicated, shared out by rows as
            ``a`` is, or shared out by rows and columns as ``a`` is; from any other partition XLA moves it
            to the nearest of these and ``x`` back.
        T_A: edge of the square tiles in which the solver sees the matrix; None lets the plan choose.
        mesh: the mesh to solve on; GPUs may be of several processes. Default: that of ``a``, then that of
            ``b``, then the one of ``jax.set_mesh``. Under jit on GPUs it has to be given or set, because JAX
            does not tell a traced array's devices. Axes which the partition of ``a`` does not name do the
            same solve side by side.
        matrix_specs: ``PartitionSpec`` of ``a``, or a pair for ``a`` and ``b``. Default: that of the arrays
            where JAX tells it (concrete arrays; under jit, meshes with Explicit axes), else the first mesh
            axis for rows and the second one for columns. A replicated ``a`` with ``mesh=`` is spread
            likewise; ``PartitionSpec()`` has each device solve on its own. A ``b`` of unknown partition is
            taken as replicated.
        return_logdet: also return ``log(det(a))``.
        return_status: also return the status; see `describe_status`.
        donate: let the solver work in the memory of ``a``, which is deleted afterwards. Outside jit only;
            inside, XLA reuses the memory of intermediate values by itself.
        triangle: None, ``"lower"`` or ``"upper"``; see above.
        layout: ``"auto"``, ``"stages"`` or ``"reading"``; see above. It decides what a positive status says:
            under the stages k is the order of the first leading minor that is not positive definite; under
            a reading it is the row of ``a``, counted from 1, at which the factorisation of the reordered
            matrix stopped. Only the stages promise the former.
        check: wait for the result and raise an exception on failure, which tells the order of the leading
            minor, so that the layout is ``"stages"``; with ``triangle=None`` also verify by a random
            projection that ``a`` is Hermitian. Outside jit only.
        pad: whether sizes that the grid does not divide are padded, with ``x`` returned replicated along
            the dimensions that JAX cannot share out evenly. False makes such sizes an error.

    Returns:
        ``x``, or a tuple of ``x`` and, in this order, those asked for of the scalar log determinant (real)
        and the scalar status (int32). ``x`` has the shape and the sharding of ``b``. If the solve
        failed, ``x`` and the log determinant are NaN on every device and the status is not 0.

    Raises:
        TypeError, ValueError: arguments that do not fit; the message says what was got and what is needed.
        NotImplementedError: CPU devices of other processes, or a call from inside a shard_map.
        RuntimeError: on GPUs, NVIDIA's libraries are missing or too old, or a device could not take part;
            the same on every device. ``python -m meshsolve.doctor`` looks for the cause.
        NotPositiveDefiniteError, NonFiniteError: the solve failed and ``check`` is true.
    """
    _sharding.refuse_manual_axes(a, b)
    dtype = check_operands(a, b)
    tile = check_tile(T_A)
    triangle = check_triangle(triangle)
    layout = check_layout(layout, check)
    traced = isinstance(a, jax.core.Tracer) or isinstance(b, jax.core.Tracer)
    if check and traced:
        raise ValueError(
            "check=True needs values, and there are none while JAX traces (jit, vmap, scan, grad): "
            "use return_status=True and look at the status outside"
        )
    placed = _sharding.resolve(a, b, mesh, matrix_specs)
    if not pad:
        _refuse_uneven(a, b, placed)
    placed = replace(placed, grid=_sharding.with_devices(placed.grid))
    _sharding.refuse_unserved_devices(placed.grid.mesh, _native.register_handlers())
    if placed.grid.on_gpus:
        _gpus.make_ready(placed.grid)

    only_x = not (return_logdet or return_status or check)
    if a.shape[0] == 0 or (b.size == 0 and only_x):
        solution = _empty_solution(b)
    else:
        if check and triangle is None:
            _verify_hermitian(a)
        rhs = b
        if not b.size:
            # The matrix is to be factored all the same: done with one right-hand side of zeros.
            rhs = jnp.zeros(a.shape[:1], b.dtype)
            placed = Layout(placed.grid, b_spec=None, b_rows=False, b_columns=False)
        # Inside jit only XLA knows whether the matrix lives on; it copies it if so.
        keep_a = not (donate or traced)
        problem = _Problem(a, rhs, dtype, tile, triangle, return_logdet, placed, keep_a, layout)
        solution = _solve(problem, donate and not traced)
        if not b.size:
            solution = solution._replace(x=_empty_solution(b).x)

    if check:
        status = int(solution.status)
        if status != SOLVED:
            raise_for_status(status)
    results = [solution.x]
    if return_logdet:
        results.append(solution.log_det)
    if return_status:
        results.append(solution.status)
    return results[0] if len(results) == 1 else tuple(results)


def plan(
    a: Any,
    b: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    *,
    return_logdet: bool = False,
    donate: bool = False,
    triangle: str | None = None,
    layout: str = "auto",
) -> _native.Plan:
    """The plan that `potrs` follows for these arguments, without running it.

    Args:
        a, b: arrays, or `jax.ShapeDtypeStruct` with a sharding: only shape, dtype and sharding are read.
        T_A, mesh, matrix_specs, return_logdet, donate, triangle, layout: as for `potrs`.

    Returns:
        The plan: its tile, its layout, its memory per device in bytes, and ``explain()``, which lists all
        ways that were considered with their costs.
    """
    dtype = check_operands(a, b)
    placed = _sharding.resolve(a, b, mesh, matrix_specs)
    triangle, layout = check_triangle(triangle), check_layout(layout, check=False)
    problem = _Problem(a, b, dtype, check_tile(T_A), triangle, return_logdet, placed, not donate, layout)
    return _native.plan(problem.request())


@dataclass(frozen=True)
class _Problem:
    """The checked arguments of a solve."""

    a: Any
    b: Any
    dtype: str
    tile: int | None
    triangle: str | None
    log_det: bool
    placed: Layout
    keep_a: bool
    layout: str = "auto"

    def request(self) -> str:
        """The question to the planner. Keys in a fixed order: the text is part of cache keys."""
        role = {True: "sharded", False: "replicated"}
        return json.dumps(
            {
                "routine": "system", "method": "cholesky", "task": "solve",
                "dtype": self.dtype,
                "n": self.a.shape[0],
                "nrhs": self.b.shape[1] if self.b.ndim == 2 else 1,
                "grid": list(self.placed.grid.shape),
                "tile": self.tile,
                "b": {"rows": role[self.placed.b_rows], "cols": role[self.placed.b_columns]},
                "triangle": self.triangle,
                "log_det": self.log_det,
                "keep_a": self.keep_a,
                "layout": self.layout,
            }
        )


def _solve(problem: _Problem, donate: bool) -> Solution:
    a, b, placed = problem.a, problem.b, problem.placed
    mesh = placed.grid.mesh
    request = problem.request()
    plan = _native.plan(request)
    # A NumPy array cannot be given away: JAX may have taken its memory without a copy.
    donate = donate and isinstance(a, jax.Array) and a is not b
    on_mesh = _sharding.move(a, mesh, placed.grid.spec)
    takes_over = any(output.name == "work" and output.alias == 0 for output in plan.outputs)
    shares = zip(plan.inputs[0].shape, placed.grid.shape, strict=True)
    even = a.shape == tuple(share * count for share, count in shares)
    b_spec = placed.b_spec if placed.b_spec is not None else PartitionSpec()
    call = Call(
        request=request,
        layout=replace(placed, b_rows=plan.b_rows, b_columns=plan.b_columns),
        x_spec=_x_spec(b, placed),
        consume=donate and takes_over and even,
    )
    solution = solver(call)(on_mesh, _sharding.move(b, mesh, b_spec))
    if donate and not isinstance(solution.x, jax.core.Tracer) and not a.is_deleted():
        # Consumed means the same for the caller, whether or not the memory could be taken over.
        a.delete()
    elsewhere = getattr(b, "sharding", None)
    if isinstance(elsewhere, NamedSharding) and placed.b_spec is None and not isinstance(b, jax.core.Tracer):
        solution = solution._replace(x=jax.device_put(solution.x, elsewhere))
    return solution


def _x_spec(b: Any, placed: Layout) -> PartitionSpec | None:
    if placed.b_spec is None:
        return None
    return _sharding.divisible(placed.b_spec, b.shape, placed.grid.mesh)


def _empty_solution(b: Any) -> Solution:
    real = jnp.finfo(b.dtype).dtype
    return Solution(jnp.zeros_like(b), jnp.zeros((), real), jnp.zeros((), jnp.int32))


def _refuse_uneven(a: Any, b: Any, placed: Layout) -> None:
    n = a.shape[0]
    rows, columns = placed.grid.shape
    k = b.shape[1] if b.ndim == 2 else 1
    if n % rows or n % columns or (placed.b_columns and k % columns):
        raise ValueError(
            f"the {rows} x {columns} grid does not divide the sizes: got n = {n} with {k} right-hand sides, "
            "needed multiples of the grid. Use pad=True to have them padded"
        )


def _verify_hermitian(a: Any) -> None:
    """Raises ValueError unless ``a`` agrees with its adjoint, to half of the digits, on a random vector."""
    vector = np.random.default_rng(0).standard_normal(a.shape[0])
    off, scale = _asymmetry(a, vector.astype(jnp.finfo(a.dtype).dtype))
    # Written so that NaN passes: the solve itself reports non-finite entries.
    if float(off) > float(scale) * float(jnp.finfo(a.dtype).eps) ** 0.5:
        raise ValueError(
            "a is not Hermitian: a and its adjoint differ along a random vector by "
            f"{float(off):.3g}, at a scale of {float(scale):.3g}. If only one triangle is valid, say so "
            'with triangle="lower" or triangle="upper"'
        )


@jax.jit
def _asymmetry(a: jax.Array, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    forward, adjoint = a @ vector, a.conj().T @ vector
    return jnp.max(jnp.abs(forward - adjoint)), jnp.max(jnp.abs(forward)) + jnp.max(jnp.abs(adjoint))
