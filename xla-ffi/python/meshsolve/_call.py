"""The compiled program around one native call: pad, enter shard_map, call, slice.

One jitted function is kept for each distinct `Call`; JAX keeps its executables by shape and sharding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from . import _native
from ._sharding import Grid, Layout, place

REPLICATED = PartitionSpec()


@dataclass(frozen=True)
class Call:
    """All that is static about a solve.

    Attributes:
        request: what was asked of the planner, as JSON; it goes with the call as an attribute.
        layout: where the operands lie during the call.
        x_spec: partition wanted for ``x``; None leaves it as the solver gives it.
        consume: whether ``a`` is donated, so that the solver works in its memory.
    """

    request: str
    layout: Layout
    x_spec: PartitionSpec | None
    consume: bool = False


class Solution(NamedTuple):
    """Results of a solve: ``x``, scalar ``log_det`` or None, scalar ``status``."""

    x: jax.Array
    log_det: jax.Array | None
    status: jax.Array


@functools.lru_cache(maxsize=512)
def solver(call: Call) -> Callable[[jax.Array, jax.Array], Solution]:
    """The jitted function of ``a`` (n, n) and ``b`` (n,) or (n, k) for this call."""
    program = functools.partial(_solve, call)
    if not call.consume:
        return jax.jit(lambda a, b: program(a, b)[0])
    consuming = jax.jit(program, donate_argnums=0)
    return lambda a, b: consuming(a, b)[0]


def _solve(call: Call, a: jax.Array, b: jax.Array) -> tuple[Solution, jax.Array | None]:
    """Traced: the solution, and the work array that takes over the memory of ``a`` if that is consumed."""
    grid, layout = call.layout.grid, call.layout
    n = a.shape[0]
    rows, columns = grid.shape
    a_share, b_share = (operand.shape for operand in _native.plan(call.request).inputs)
    b_matrix = b if b.ndim == 2 else jnp.expand_dims(b, 1)
    k = b_matrix.shape[1]

    a = spread(a, a_share, (rows, columns), grid, grid.spec)
    b_matrix = spread(
        b_matrix,
        b_share,
        (rows if layout.b_rows else 1, columns if layout.b_columns else 1),
        grid,
        layout.solver_b_spec,
    )
    outputs = jax.shard_map(
        functools.partial(_native_call, call, grid),
        mesh=grid.mesh,
        in_specs=(grid.spec, layout.solver_b_spec),
        out_specs=_out_specs(call),
        check_vma=False,
    )(a, b_matrix)

    x = outputs["x"]
    if x.shape != (n, k):
        x = jax.lax.slice(place(x, grid.mesh, REPLICATED), (0, 0), (n, k))
    if b.ndim == 1:
        x = jnp.squeeze(x, 1)
    if call.x_spec is not None:
        x = place(x, grid.mesh, call.x_spec)
    log_det = jnp.squeeze(outputs["log_det"], 0) if "log_det" in outputs else None
    return Solution(x, log_det, jnp.squeeze(outputs["status"], 0)), outputs.get("work")


def _out_specs(call: Call) -> dict[str, PartitionSpec]:
    specs = {"x": call.layout.solver_b_spec, "status": REPLICATED}
    if any(output.name == "log_det" for output in _native.plan(call.request).outputs):
        specs["log_det"] = REPLICATED
    if call.consume:
        specs["work"] = call.layout.grid.spec
    return specs


def spread(
    array: jax.Array, share: tuple[int, ...], parts: tuple[int, int], grid: Grid, spec: PartitionSpec
) -> jax.Array:
    """Puts a matrix in the solver's partition, padded with zeros until every device holds its share."""
    padding = [(0, count * each - size) for size, each, count in zip(array.shape, share, parts, strict=True)]
    if any(after for _, after in padding):
        # An uneven array cannot be partitioned, and padding a partitioned one would move it twice.
        array = jnp.pad(place(array, grid.mesh, REPLICATED), padding)
    return place(array, grid.mesh, spec)


def _native_call(call: Call, grid: Grid, a: jax.Array, b: jax.Array) -> dict[str, jax.Array]:
    """On one device, inside shard_map: the results of the native call that leave it."""
    results = native_call(call.request, grid, a, b)
    return {name: results[name] for name in _out_specs(call)}


def native_call(request: str, grid: Grid, *operands: jax.Array) -> dict[str, jax.Array]:
    """On one device, inside shard_map: the native call on its shards; results by their names in the plan."""
    plan = _native.plan(request)
    rank = _linear_index(grid.rows) * grid.shape[1] + _linear_index(grid.columns)
    attributes = {"request": request}
    if grid.on_gpus:
        attributes |= {"device_ids": grid.device_ids, "places": grid.places}
    identity = jnp.stack([rank, _linear_index(grid.others)]).astype(jnp.int32)
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
