"""What all solves with a square matrix share: checking, placing, asking for a plan, calling."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from . import _native, _sharding
from ._arguments import check_layout, check_operands, check_square, check_tile, check_triangle
from ._call import Call, made_ready, program
from ._errors import raise_for_status
from ._sharding import AnyMesh, Layout

MatrixSpecs = PartitionSpec | tuple[PartitionSpec | None, ...] | None

#: What a solve gives, by name: ``x``, ``factor``, ``pivots``, ``log_det``, ``phase``, ``status``.
Results = dict[str, jax.Array]


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
    """

    method: str
    task: str
    triangle: str | None = None
    op: str = "no_transpose"
    unit_diagonal: bool = False
    log_det: bool = False


@dataclass(frozen=True)
class Options:
    """How it is to be done; as in `meshsolve.potrs`, whose arguments these are.

    ``view`` is how the matrix is taken: None (the plan chooses), ``"plain"`` or ``"transposed"``.
    """

    tile: int | None = None
    mesh: AnyMesh | None = None
    matrix_specs: MatrixSpecs = None
    donate: bool = False
    layout: str = "auto"
    check: bool = False
    pad: bool = True
    view: str | None = None


def run(system: System, options: Options, a: Any, b: Any = None, shift: Any = None) -> Results:
    """Checks the arguments, and calls the solver on ``a`` and its right-hand sides.

    Raises:
        TypeError, ValueError, NotImplementedError, RuntimeError: see `meshsolve.potrs`.
        NotPositiveDefiniteError, SingularMatrixError, NonFiniteError: the solve failed and ``check`` is set;
            otherwise the status tells.
    """
    return run_problem(system, options, a, b, shift)[0]


def run_problem(
    system: System, options: Options, a: Any, b: Any = None, shift: Any = None
) -> tuple[Results, Problem]:
    """As `run`; also what was asked of the planner."""
    problem = _checked(system, options, a, b, shift)
    arrays = (array for array in (a, b, shift) if array is not None)
    traced = any(isinstance(array, jax.core.Tracer) for array in arrays)
    if options.check and traced:
        raise ValueError(
            "check=True needs values, and there are none while JAX traces (jit, vmap, scan, grad): "
            "use return_status=True and look at the status outside"
        )
    if not options.pad:
        _refuse_uneven(a, b, problem.placed)
    problem = problem.on_devices()
    # Inside jit only XLA knows whether the matrix lives on; it copies it if so.
    problem = replace(problem, keep_a=not (options.donate or traced))
    if options.check and system.method == "cholesky" and system.triangle is None and a.size:
        _verify_hermitian(a)
    donate = options.donate and not traced
    if a.shape[0] == 0:
        results = _nothing(system, a, b)
    elif b is not None and not b.size:
        # The matrix is looked at all the same.
        results = _call(problem.without_b(), donate) | {"x": jnp.zeros_like(b)}
    else:
        results = _call(problem, donate)
    if options.check:
        raise_for_status(int(results["status"]), system.method)
    return results, problem


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
    results = run(system, options, a, b, shift)
    returned = [results["x"]]
    if return_logdet:
        returned.append(results["log_det"])
    if return_status:
        returned.append(results["status"])
    return returned[0] if len(returned) == 1 else tuple(returned)


def plan(system: System, options: Options, a: Any, b: Any = None) -> _native.Plan:
    """The plan that `run` follows, without running it: of the arrays only what they are like is read."""
    problem = _checked(system, options, a, b, None)
    return _native.plan(replace(problem, keep_a=not options.donate).request())


@dataclass(frozen=True)
class Problem:
    """The checked arguments of a solve. ``factor`` are the parts of a prepared factor, for ``"apply"``."""

    system: System
    a: Any
    b: Any
    shift: Any
    dtype: str
    tile: int | None
    placed: Layout
    layout: str
    view: str | None = None
    keep_a: bool = True
    factor: tuple[Any, ...] = ()

    def on_devices(self) -> Problem:
        """The same on a mesh whose devices are known and have a solver."""
        return replace(self, placed=replace(self.placed, grid=made_ready(self.placed.grid)))

    def without_b(self) -> Problem:
        """The same for a matrix without right-hand sides; a triangular one gets one of zeros."""
        if self.system.method != "triangular":
            return replace(self, system=replace(self.system, task="determinant"), b=None)
        placed = replace(self.placed, b_spec=None, b_rows=False, b_columns=False)
        return replace(self, b=jnp.zeros(self.a.shape[:1], self.b.dtype), placed=placed)

    def request(self) -> str:
        """The question to the planner. Keys in a fixed order: the text is part of cache keys."""
        role = {True: "sharded", False: "replicated"}
        b, placed, system = self.b, self.placed, self.system
        return json.dumps(
            {
                "routine": "system",
                "method": system.method,
                "task": system.task,
                "dtype": self.dtype,
                "n": self.a.shape[0],
                "nrhs": 0 if b is None else b.shape[1] if b.ndim == 2 else 1,
                "grid": list(placed.grid.shape),
                "tile": self.tile,
                "b": {"rows": role[placed.b_rows], "cols": role[placed.b_columns]},
                "triangle": system.triangle,
                "op": system.op,
                "unit_diagonal": system.unit_diagonal,
                "log_det": system.log_det,
                "shift": self.shift is not None,
                "keep_a": self.keep_a,
                "layout": self.layout,
                "view": self.view,
            }
        )


def _checked(system: System, options: Options, a: Any, b: Any, shift: Any) -> Problem:
    operands = {"a": a, "b": b} if system.task == "solve" else {"a": a}
    _sharding.refuse_manual_axes(*operands.values())
    dtype = check_operands(a, b) if "b" in operands else check_square(a)
    check_triangle(system.triangle)
    return Problem(
        system=system,
        a=a,
        b=b,
        shift=None if shift is None else _scalar(shift, a.dtype),
        dtype=dtype,
        tile=check_tile(options.tile),
        placed=_sharding.resolve(operands, options.mesh, options.matrix_specs),
        layout=check_layout(options.layout, options.check),
        view=options.view,
    )


def _scalar(shift: Any, dtype: np.dtype) -> Any:
    if np.ndim(shift) != 0:
        raise ValueError(f"shift must be a scalar: got shape {np.shape(shift)}")
    if np.iscomplexobj(shift) and not np.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"shift must be real for a matrix of {dtype}: got {shift!r}")
    return jnp.asarray(shift, dtype)


def _call(problem: Problem, donate: bool) -> Results:
    a, b, placed = problem.a, problem.b, problem.placed
    mesh = placed.grid.mesh
    request = problem.request()
    plan = _native.plan(request)
    # A NumPy array cannot be given away: JAX may have taken its memory without a copy.
    donate = donate and isinstance(a, jax.Array) and a is not b
    takes_over = any(output.alias == 0 for output in plan.outputs)
    shares = zip(plan.inputs[0].shape, placed.grid.shape, strict=True)
    even = a.shape == tuple(share * count for share, count in shares)
    call = Call(
        request=request,
        grid=placed.grid,
        b_rows=plan.b_rows,
        b_columns=plan.b_columns,
        x_spec=_x_spec(a, b, placed),
        consume=donate and takes_over and even,
    )
    operands = problem.factor
    if not operands:
        operands = (_sharding.move(a, mesh, placed.grid.spec),)
        operands += () if problem.shift is None else (problem.shift,)
    if b is not None:
        b_spec = placed.b_spec if placed.b_spec is not None else PartitionSpec()
        operands = (*operands, _sharding.move(b, mesh, b_spec))
    results = program(call)(*operands)
    computed = next(iter(results.values()))
    if donate and not isinstance(computed, jax.core.Tracer) and not a.is_deleted():
        # Consumed means the same for the caller, whether or not the memory could be taken over.
        a.delete()
    elsewhere = getattr(b, "sharding", None)
    if isinstance(elsewhere, NamedSharding) and placed.b_spec is None and not isinstance(b, jax.core.Tracer):
        results["x"] = jax.device_put(results["x"], elsewhere)
    return results


def apply(problem: Problem) -> jax.Array:
    """Solves with the parts of a prepared factor."""
    if not problem.b.size:
        return jnp.zeros_like(problem.b)
    return _call(problem.on_devices(), donate=False)["x"]


def _x_spec(a: Any, b: Any, placed: Layout) -> PartitionSpec | None:
    if b is None:
        return _sharding.divisible(placed.grid.spec, a.shape, placed.grid.mesh)
    if placed.b_spec is None:
        return None
    return _sharding.divisible(placed.b_spec, b.shape, placed.grid.mesh)


def _nothing(system: System, a: Any, b: Any) -> Results:
    """The results for a matrix of order 0, whose determinant is 1."""
    real = jnp.finfo(a.dtype).dtype
    results = {"status": jnp.zeros((), jnp.int32)}
    if system.task in ("solve", "invert", "factor"):
        results["x"] = jnp.zeros_like(a if b is None else b)
    if system.task == "prepare":
        results["factor"] = jnp.zeros_like(a)
        if system.method == "lu":
            results["pivots"] = jnp.zeros((0,), jnp.int32)
    if system.log_det:
        results["log_det"] = jnp.zeros((), real)
        if system.method == "lu":
            results["phase"] = jnp.ones((), a.dtype)
    return results


def _refuse_uneven(a: Any, b: Any, placed: Layout) -> None:
    n = a.shape[0]
    rows, columns = placed.grid.shape
    k = b.shape[1] if b is not None and b.ndim == 2 else 1
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
