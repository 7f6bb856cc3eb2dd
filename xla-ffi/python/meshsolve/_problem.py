"""What all that is asked of a square matrix shares: checking, placing, asking for a plan, calling."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from . import _native, _sharding
from ._arguments import (
    check_layout,
    check_metric,
    check_operands,
    check_partition,
    check_scalar,
    check_square,
    check_tile,
    check_triangle,
)
from ._call import Call, made_ready, program
from ._errors import raise_for_status
from ._sharding import AnyMesh, Layout

#: Bytes on each device from which on a traced matrix is solved with where it stands.
_LARGE = 4 << 30

MatrixSpecs = PartitionSpec | tuple[PartitionSpec | None, ...] | None

#: What a call gives, by name: ``x``, ``factor``, ``pivots``, ``log_det``, ``phase``, ``w``, ``v``,
#: ``status``.
Results = dict[str, jax.Array]


class Asked(Protocol):
    """What is asked of a square matrix: a `System` or an `Eigenproblem`.

    Attributes:
        task: what is wanted; ``"solve"`` takes right-hand sides.
        triangle: which one is promised, or meant; None for both.
        entry: how the matrix enters the call; see `meshsolve._call.Call`.
        hermitian: whether it has to be Hermitian.
        ordered: whether a positive status tells an order that the stages alone keep.
        failure: the exception that belongs to a positive status.
    """

    task: str
    triangle: str | None
    entry: str | None

    @property
    def hermitian(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def failure(self) -> type[Exception]: ...

    def fields(self) -> dict[str, Any]:
        """What the request to the planner says of it besides task and triangle."""

    def without_b(self) -> Asked:
        """The same, as far as it can be asked without right-hand sides."""

    def nothing(self, a: Any, b: Any) -> Results:
        """The results for a matrix of order 0."""


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


def run(asked: Asked, options: Options, a: Any, b: Any = None, shift: Any = None, **others: Any) -> Results:
    """Checks the arguments, and calls the solver on ``a`` and its right-hand sides.

    Args:
        asked: what is wanted.
        options: how.
        a: the matrix.
        b: right-hand sides, where these are taken.
        shift: the scalar λ of A + λ·I, or None.
        others: ``metric``, the matrix of a generalised eigenproblem, and ``cutoff``, below which eigenvalues
            are taken for zero (a part of the largest one).

    Raises:
        TypeError, ValueError, NotImplementedError, RuntimeError: see `meshsolve.potrs`.
        NotPositiveDefiniteError, SingularMatrixError, NonFiniteError, ConvergenceError: the solve failed and
            ``check`` is set; otherwise the status tells.
    """
    return run_problem(asked, options, a, b, shift, **others)[0]


def run_problem(
    asked: Asked, options: Options, a: Any, b: Any = None, shift: Any = None, **others: Any
) -> tuple[Results, Problem]:
    """As `run`; also what was asked of the planner."""
    problem = _checked(asked, options, a, b, shift, **others)
    _sharding.refuse_deleted(problem.operands)
    traced = any(isinstance(array, jax.core.Tracer) for array in problem.operands.values())
    # Even with no traced operand a call inside jit is part of the trace.
    if options.check and (traced or _sharding.is_tracing()):
        raise ValueError(
            "check=True needs values, and there are none while JAX traces (jit, vmap, scan, grad): "
            "use return_status=True and look at the status outside"
        )
    if not options.pad:
        _refuse_uneven(a, b, problem.placed)
    problem = problem.on_devices()
    problem = problem.keeping_a(not options.donate and not (traced and problem.is_large))
    if options.check and asked.hermitian and asked.triangle is None and asked.entry is None and a.size:
        _verify_hermitian("a", a)
        if "metric" in problem.operands:
            _verify_hermitian("b", problem.operands["metric"])
    donate = options.donate and not traced
    if a.shape[0] == 0:
        results = asked.nothing(a, b)
    elif b is not None and not b.size:
        # The matrix is looked at all the same.
        results = _call(problem.without_b(), donate) | {"x": jnp.zeros_like(b)}
    else:
        results = _call(problem, donate)
    if options.check:
        raise_for_status(int(results["status"]), asked.failure)
    return results, problem


def plan(asked: Asked, options: Options, a: Any, b: Any = None, **others: Any) -> _native.Plan:
    """The plan that `run` follows, without running it: of the arrays only what they are like is read."""
    problem = _checked(asked, options, a, b, None, **others)
    return _native.current_plan(problem.keeping_a(not options.donate).request())


@dataclass(frozen=True)
class Problem:
    """The checked arguments of a call.

    Attributes:
        asked: what is wanted.
        operands: the arrays, by their names in the plan: the matrix ``"a"`` or the parts of its prepared
            factor, ``"b"``, ``"metric"``, and the scalars ``"shift"`` and ``"cutoff"``.
        a: the matrix, or what a factored one was like.
        dtype: the native name of its dtype.
        tile, placed, layout, view: how the solver is to take it.
        keep_a: whether the caller needs it afterwards.
    """

    asked: Asked
    operands: dict[str, Any]
    a: Any
    dtype: str
    tile: int | None
    placed: Layout
    layout: str
    view: str | None = None
    keep_a: bool = True

    @property
    def b(self) -> Any:
        """The right-hand sides, or None."""
        return self.operands.get("b")

    @property
    def is_large(self) -> bool:
        """Whether memory for another matrix counts for more than the time that it saves.

        Inside jit only XLA knows whether the matrix lives on. A solver that may work in its memory has XLA
        copy it if so, and then needs up to two more passes over it, where a single one brings it to memory
        of its own.
        """
        (rows, columns), (over_rows, over_columns) = self.a.shape, self.placed.grid.shape
        share = -(-rows // over_rows) * -(-columns // over_columns)
        return share * self.a.dtype.itemsize > _LARGE

    def on_devices(self) -> Problem:
        """The same on a mesh whose devices are known and have a solver."""
        return replace(self, placed=replace(self.placed, grid=made_ready(self.placed.grid)))

    def keeping_a(self, keep_a: bool) -> Problem:
        """The same, the caller's matrix being needed afterwards or not."""
        # What enters in another form is a copy, which nobody needs.
        return replace(self, keep_a=keep_a and self.asked.entry is None)

    def without_b(self) -> Problem:
        """The same for a matrix without right-hand sides; one that needs some gets one of zeros."""
        asked = self.asked.without_b()
        placed = replace(self.placed, b_spec=None, b_rows=False, b_columns=False)
        operands = {name: operand for name, operand in self.operands.items() if name != "b"}
        if asked.task == "solve":
            operands["b"] = jnp.zeros(self.a.shape[:1], self.a.dtype)
        return replace(self, asked=asked, operands=operands, placed=placed)

    def request(self) -> str:
        """The question to the planner. Keys in a fixed order: the text is part of cache keys."""
        role = {True: "sharded", False: "replicated"}
        b, placed = self.b, self.placed
        return json.dumps(
            {
                **self.asked.fields(),
                "task": self.asked.task,
                "dtype": self.dtype,
                "n": self.a.shape[0],
                "nrhs": 0 if b is None else b.shape[1] if b.ndim == 2 else 1,
                "grid": list(placed.grid.shape),
                "tile": self.tile,
                "b": {"rows": role[placed.b_rows], "cols": role[placed.b_columns]},
                "triangle": self.asked.triangle,
                "shift": "shift" in self.operands,
                "keep_a": self.keep_a,
                "layout": self.layout,
                "view": self.view,
            }
        )


def _checked(
    asked: Asked, options: Options, a: Any, b: Any, shift: Any, metric: Any = None, cutoff: Any = None
) -> Problem:
    arrays = {"a": a} | ({"b": b} if asked.task == "solve" else {})
    matrices = {"a": a} | ({} if metric is None else {"b": metric})
    _sharding.refuse_manual_axes(*arrays.values(), *matrices.values())
    dtype = check_operands(a, b) if "b" in arrays else check_square(a)
    check_triangle(asked.triangle)
    if metric is None:
        placed = _sharding.resolve(arrays, options.mesh, options.matrix_specs)
    else:
        check_metric(a, metric)
        check_partition(options.matrix_specs)
        grid = _sharding.find_grid(matrices, options.mesh, options.matrix_specs)
        placed = Layout(grid, b_spec=None, b_rows=False, b_columns=False)
    operands = {**arrays, "metric": metric}
    if shift is not None:
        if asked.hermitian and np.iscomplexobj(shift):
            raise TypeError(f"shift must be real, so that the matrix stays Hermitian: got {shift!r}")
        operands["shift"] = scalar("shift", shift, a.dtype)
    if cutoff is not None:
        operands["cutoff"] = scalar("rcond", cutoff, jnp.finfo(a.dtype).dtype)
    return Problem(
        asked=asked,
        operands={name: operand for name, operand in operands.items() if operand is not None},
        a=a,
        dtype=dtype,
        tile=check_tile(options.tile),
        placed=placed,
        layout=check_layout(options.layout, options.check and asked.ordered),
        view=options.view,
    )


def scalar(name: str, value: Any, dtype: np.dtype) -> Any:
    """A scalar argument as an array of this dtype.

    Raises:
        ValueError: not a scalar.
        TypeError: not a number, or complex where it has to be real.
    """
    check_scalar(name, value)
    if np.iscomplexobj(value) and not np.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"{name} must be real: got {value!r}, needed what {dtype} can hold")
    return value.astype(dtype) if isinstance(value, jax.Array) else np.asarray(value, dtype)


def _call(problem: Problem, donate: bool) -> Results:
    a, b, placed = problem.a, problem.b, problem.placed
    mesh = placed.grid.mesh
    request = problem.request()
    plan = _native.plan(request)
    # A NumPy array cannot be given away: JAX may have taken its memory without a copy.
    others = (operand for name, operand in problem.operands.items() if name != "a")
    donate = donate and isinstance(a, jax.Array) and not any(a is other for other in others)
    takes_over = any(output.alias == 0 for output in plan.outputs)
    shares = zip(plan.inputs[0].shape, placed.grid.shape, strict=True)
    even = a.shape == tuple(share * count for share, count in shares)
    call = Call(
        request=request,
        grid=placed.grid,
        b_rows=plan.b_rows,
        b_columns=plan.b_columns,
        x_spec=_x_spec(a, b, placed),
        entry=problem.asked.entry,
        consume=donate and takes_over and even and problem.asked.entry is None,
    )
    b_spec = placed.b_spec if placed.b_spec is not None else PartitionSpec()
    on_mesh = {"a": placed.grid.spec, "metric": placed.grid.spec, "b": b_spec}
    operands = {
        name: _sharding.move(operand, mesh, on_mesh[name]) if name in on_mesh else operand
        for name, operand in problem.operands.items()
    }
    for name in {"shift", "cutoff"} & set(operands):
        operands[name] = _sharding.move_scalar(operands[name], mesh)
    results = program(call)(*(operands[operand.name] for operand in plan.inputs))
    computed = next(iter(results.values()))
    if donate and not isinstance(computed, jax.core.Tracer) and not a.is_deleted():
        # Consumed means the same for the caller, whether or not the memory could be taken over.
        a.delete()
    elsewhere = getattr(b, "sharding", None)
    if isinstance(elsewhere, NamedSharding) and placed.b_spec is None and not isinstance(b, jax.core.Tracer):
        results["x"] = jax.device_put(results["x"], elsewhere)
    elif "x" in results and call.x_spec is not None:
        # Where mesh axes of both kinds share out one dimension, a trace cannot ask for that.
        results["x"] = _sharding.move(results["x"], mesh, call.x_spec)
    return results


def apply(problem: Problem) -> jax.Array:
    """Solves with the parts of a prepared factor."""
    _sharding.refuse_deleted(problem.operands)
    if not problem.b.size:
        return jnp.zeros_like(problem.b)
    return _call(problem.on_devices(), donate=False)["x"]


def _x_spec(a: Any, b: Any, placed: Layout) -> PartitionSpec | None:
    if b is None:
        return _sharding.divisible(placed.grid.spec, a.shape, placed.grid.mesh)
    if placed.b_spec is None:
        return None
    return _sharding.divisible(placed.b_spec, b.shape, placed.grid.mesh)


def _refuse_uneven(a: Any, b: Any, placed: Layout) -> None:
    n = a.shape[0]
    rows, columns = placed.grid.shape
    k = b.shape[1] if b is not None and b.ndim == 2 else 1
    if n % rows or n % columns or (placed.b_columns and k % columns):
        raise ValueError(
            f"the {rows} x {columns} grid does not divide the sizes: got n = {n} with {k} right-hand sides, "
            "needed multiples of the grid. Use pad=True to have them padded"
        )


def _verify_hermitian(name: str, a: Any) -> None:
    """Raises ValueError unless a matrix and its adjoint agree, to half of the digits, on a random vector."""
    vector = np.random.default_rng(0).standard_normal(a.shape[0]).astype(jnp.finfo(a.dtype).dtype)
    mesh = known[0] if (known := _sharding.known_sharding(a)) else None
    with _sharding.context_of(mesh):
        off, scale = _asymmetry(a, _sharding.move(vector, mesh, PartitionSpec()), mesh)
    # Written so that NaN passes: the solve itself reports non-finite entries.
    if float(off) > float(scale) * float(jnp.finfo(a.dtype).eps) ** 0.5:
        raise ValueError(
            f"{name} is not Hermitian: {name} and its adjoint differ along a random vector by "
            f"{float(off):.3g}, at a scale of {float(scale):.3g}. If only one triangle is valid, say which "
            "(triangle=, of eigh and eigvalsh lower=)"
        )


@functools.partial(jax.jit, static_argnums=2)
def _asymmetry(a: jax.Array, vector: jax.Array, mesh: AnyMesh | None) -> tuple[jax.Array, jax.Array]:
    forward, adjoint = a @ vector, a.conj().T @ vector
    if mesh is not None:
        # One lies as the rows do, the other as the columns.
        forward, adjoint = (_sharding.place(each, mesh, PartitionSpec()) for each in (forward, adjoint))
    return jnp.max(jnp.abs(forward - adjoint)), jnp.max(jnp.abs(forward)) + jnp.max(jnp.abs(adjoint))
