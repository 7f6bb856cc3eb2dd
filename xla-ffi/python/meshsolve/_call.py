"""The compiled program around one native call: pad, enter shard_map, call, slice.

One jitted function is kept for each distinct `Call`; JAX keeps its executables by shape and sharding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from . import _gpus, _native, _sharding
from ._sharding import Grid, partition, place

REPLICATED = PartitionSpec()

#: Results of one element.
_SCALARS = ("log_det", "phase", "status")
#: What every device has whole: these, scalars that are passed in, and eigenvalues.
_EVERYWHERE = (*_SCALARS, "shift", "cutoff", "w")
#: Operands that lie as the matrix does.
_MATRICES = ("a", "metric")
#: Buffers that only the call itself needs.
_WORK = ("work", "a_work", "b_work", "c_work", "metric_work", "v_work", "x_work", "y_work")


@dataclass(frozen=True)
class Call:
    """All that is static about a call for a system, an eigenproblem or a product.

    Attributes:
        request: what was asked of the planner, as JSON; it goes with the call as an attribute.
        grid: mesh and partition of the matrix ``a``.
        b_rows, b_columns: whether rows and columns of ``b`` are shared out as those of the matrix during the
            call.
        x_spec: partition wanted for ``x``, ``v`` or ``c``; None leaves it as the solver gives it.
        entry: how the matrix and the metric enter: None as they are, ``"adjoint"`` as their adjoints,
            ``"hermitian_part"`` as (A + Aᴴ) / 2.
        consume: whether the matrix is donated, so that the solver works in its memory.
    """

    request: str
    grid: Grid
    b_rows: bool = False
    b_columns: bool = False
    x_spec: PartitionSpec | None = None
    entry: str | None = None
    consume: bool = False

    def spec(self, name: str) -> PartitionSpec:
        """How an operand or a result of this name in the plan lies on the mesh during the call."""
        rows, columns = self.grid.rows, self.grid.columns
        if name in _EVERYWHERE:
            return REPLICATED
        if name == "pivots":
            return partition(rows + columns)
        if name == "b" or (name == "x" and self.has_b):
            return partition(rows if self.b_rows else (), columns if self.b_columns else ())
        return self.grid.spec

    @property
    def has_b(self) -> bool:
        """Whether there are right-hand sides."""
        return any(operand.name == "b" for operand in _native.plan(self.request).inputs)


@functools.lru_cache(maxsize=512)
def program(call: Call) -> Callable[..., dict[str, jax.Array]]:
    """The jitted function of the plan's inputs, whole arrays in their order, for this call.

    It gives the plan's outputs by their names, without work buffers: ``x`` in the shape of ``b``, or of the
    matrix where there is no ``b``; ``v`` in the shape of the matrix; ``c`` in that of the product; scalars
    without dimensions.
    """
    if not call.consume:
        return compiled(call.grid, lambda *operands: _run(call, *operands)[0])
    consuming = compiled(call.grid, functools.partial(_run, call), donate_argnums=0)
    return lambda *operands: consuming(*operands)[0]


def compiled(grid: Grid, function: Callable, **options: Any) -> Callable:
    """The jitted function, called where JAX takes a program on the mesh of this grid."""
    jitted = jax.jit(function, **options)

    def call(*operands: jax.Array) -> Any:
        with _sharding.context_of(grid.mesh):
            return jitted(*operands)

    return call


def _run(call: Call, *operands: jax.Array) -> tuple[dict[str, jax.Array], jax.Array | None]:
    """Traced: the results, and the buffer that takes over the memory of the matrix if that is consumed."""
    grid, plan = call.grid, _native.plan(call.request)
    taken_over = next((output.name for output in plan.outputs if output.alias == 0), None)
    wanted = [output.name for output in plan.outputs if output.name not in _WORK]
    leaving = [*wanted, taken_over] if call.consume and taken_over not in wanted else wanted

    def on_device(*shards: jax.Array) -> dict[str, jax.Array]:
        results = native_call(call.request, grid, *shards)
        return {name: results[name] for name in leaving}

    outputs = jax.shard_map(
        on_device,
        mesh=grid.mesh,
        in_specs=tuple(call.spec(operand.name) for operand in plan.inputs),
        out_specs={name: call.spec(name) for name in leaving},
        check_vma=False,
    )(*(_lay_out(call, operand, array) for operand, array in zip(plan.inputs, operands, strict=True)))

    results = {name: outputs[name] for name in wanted}
    for name in _SCALARS:
        if name in results:
            results[name] = jnp.squeeze(results[name], 0)
    if "x" in results:
        results["x"] = _whole(call, results["x"], operands[-1 if call.has_b else 0].shape)
    if "v" in results:
        results["v"] = _whole(call, results["v"], operands[0].shape)
    if "w" in results:
        # cuSOLVERMp 0.9.1 may leave values that differ by rounding errors only out of order.
        results["w"] = jax.lax.cummax(results["w"])
    if "c" in results:
        a, b = operands
        results["c"] = _whole(call, results["c"], (a.shape[0], *b.shape[1:]))
    return results, outputs[taken_over] if call.consume else None


def _lay_out(call: Call, operand: _native.Operand, array: jax.Array) -> jax.Array:
    """Traced: an operand as the call takes it."""
    rows, columns = call.grid.shape
    spec = call.spec(operand.name)
    if operand.name in _MATRICES:
        return spread(_entering(call, array), operand.shape, (rows, columns), call.grid, spec)
    if operand.name == "b":
        matrix = array if array.ndim == 2 else jnp.expand_dims(array, 1)
        parts = (rows if call.b_rows else 1, columns if call.b_columns else 1)
        return spread(matrix, operand.shape, parts, call.grid, spec)
    if operand.name in ("shift", "cutoff", "status"):
        array = jnp.reshape(array, (1,))
    return place(array, call.grid.mesh, spec)


def _entering(call: Call, matrix: jax.Array) -> jax.Array:
    """Traced: a matrix in the form in which it enters."""
    if call.entry is None:
        return matrix
    spec = _sharding.divisible(call.grid.spec, matrix.shape, call.grid.mesh)
    adjoint = place(matrix.conj().T, call.grid.mesh, spec)
    return adjoint if call.entry == "adjoint" else (place(matrix, call.grid.mesh, spec) + adjoint) / 2


def _whole(call: Call, x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Traced: a result without padding, in this shape and in the partition that is wanted."""
    mesh = call.grid.mesh
    rows, columns = (*shape, 1)[:2]
    if x.shape != (rows, columns):
        x = jax.lax.slice(place(x, mesh, REPLICATED), (0, 0), (rows, columns))
    if len(shape) == 1:
        x = jnp.squeeze(x, 1)
    return x if call.x_spec is None else place(x, mesh, call.x_spec)


def spread(
    array: jax.Array, share: tuple[int, ...], parts: tuple[int, int], grid: Grid, spec: PartitionSpec
) -> jax.Array:
    """Puts a matrix in the solver's partition, padded with zeros until every device holds its share."""
    padding = [(0, count * each - size) for size, each, count in zip(array.shape, share, parts, strict=True)]
    if any(after for _, after in padding):
        # An uneven array cannot be partitioned, and padding a partitioned one would move it twice.
        array = jnp.pad(place(array, grid.mesh, REPLICATED), padding)
    return place(array, grid.mesh, spec)


def made_ready(grid: Grid) -> Grid:
    """The same on a mesh whose devices are known and served by the native library."""
    grid = _sharding.with_devices(grid)
    _sharding.refuse_unserved_devices(grid.mesh, _native.register_handlers())
    if grid.on_gpus:
        _gpus.make_ready(grid)
    return grid


def native_call(request: str, grid: Grid, *operands: jax.Array) -> dict[str, jax.Array]:
    """On one device, inside shard_map: the native call on its shards; results by their names in the plan."""
    plan = _native.plan(request)
    try:
        rank = _linear_index(grid.rows) * grid.shape[1] + _linear_index(grid.columns)
        group = _linear_index(grid.others)
    except NameError as error:
        # Under vmap JAX takes an Explicit axis over which the batch is sharded out of the mesh.
        raise NotImplementedError(
            f"a batch that is sharded over an Explicit mesh axis is not supported under vmap: {error}. "
            "Replicate the batch, or make its mesh axis an Auto one"
        ) from None
    attributes = {"request": request}
    if grid.on_gpus:
        attributes |= {"device_ids": grid.device_ids, "places": grid.places}
    identity = jnp.stack([rank, group]).astype(jnp.int32)
    results = jax.ffi.ffi_call(
        _native.TARGET,
        [jax.ShapeDtypeStruct(output.shape, output.dtype) for output in plan.outputs],
        # Operand 0 is the identity of the device; the plan counts its inputs from the next one.
        input_output_aliases={
            output.alias + 1: index for index, output in enumerate(plan.outputs) if output.alias is not None
        },
        vmap_method="sequential",
    )(identity, *operands, **attributes)
    return {output.name: result for output, result in zip(plan.outputs, results, strict=True)}


def _linear_index(axes: tuple[str, ...]) -> jax.Array:
    """Index of this device along these mesh axes together, the first axis varying slowest."""
    return jax.lax.axis_index(axes) if axes else jnp.int32(0)
