"""A sharded matrix in the 2-D block-cyclic distribution of ScaLAPACK, and back."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, overload

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from . import _native, _sharding
from ._arguments import check_matrix, check_partition, check_tile
from ._call import REPLICATED, compiled, made_ready, native_call, spread
from ._sharding import AnyMesh, Grid, partition, place


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["local"],
    meta_fields=["shape", "tile", "mesh", "partition"],
)
@dataclass(frozen=True)
class BlockCyclic:
    """A matrix in the 2-D block-cyclic distribution, source process (0, 0), as ScaLAPACK has it.

    The matrix is cut into square tiles; tile (i, j) belongs to process (i mod Pr, j mod Pc) of the grid.
    Process (r, c) is the device at (r, c) of the mesh, and ``local[r, c]`` is its buffer. That is
    column-major: ``local[r, c, j, i]`` is row i and column j of the local matrix, so
    ``local[r, c].T[:rows, :columns]`` with ``rows, columns = numroc(r, c)`` is the local matrix. Elements
    beyond that mean nothing.

    A pytree of which ``local`` is the only leaf; it may enter and leave jitted functions.

    Attributes:
        local: (Pr, Pc, Lc, Lr) array, sharded over its first two axes: each device holds its own buffer.
        shape: rows and columns (m, n) of the whole matrix.
        tile: edge of the square tiles.
        mesh: the mesh of the devices.
        partition: how the matrix lay on the mesh: the process rows are the mesh axes that shared out its
            rows, the process columns those that shared out its columns.
    """

    local: jax.Array
    shape: tuple[int, int]
    tile: int
    mesh: AnyMesh
    partition: PartitionSpec

    @property
    def grid(self) -> tuple[int, int]:
        """Number of process rows and of process columns (Pr, Pc)."""
        axes = _sharding.axes_of(self.partition, 2, self.mesh, "the matrix")
        return Grid(self.mesh, *axes).shape

    @property
    def leading_dimension(self) -> int:
        """Distance in elements of two columns of a local buffer: Lr, at least 1."""
        return max(1, self._buffers().rows)

    def numroc(self, r: int, c: int) -> tuple[int, int]:
        """Number of rows and of columns that process (r, c) owns.

        Raises:
            IndexError: the grid has no such process.
        """
        rows, columns = self.grid
        if not (0 <= r < rows and 0 <= c < columns):
            raise IndexError(f"no process ({r}, {c}) in a grid of {rows} x {columns} processes")
        buffers = self._buffers()
        return buffers.owned_rows[r], buffers.owned_columns[c]

    def _buffers(self) -> _native.LocalBuffers:
        dtype = check_matrix(jax.ShapeDtypeStruct(self.shape, self.local.dtype))
        return _native.plan(_request("reverse", dtype, self.shape, self.grid, self.tile, keep=True)).local


@overload
def redistribute(
    a: BlockCyclic,
) -> jax.Array: ...


@overload
def redistribute(
    a: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: PartitionSpec | None = None,
) -> BlockCyclic: ...


def redistribute(
    a: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: PartitionSpec | None = None,
) -> Any:
    """Brings a sharded matrix into the 2-D block-cyclic distribution, or a `BlockCyclic` matrix back.

    For use with another library in the style of ScaLAPACK, or to look at what a solver sees under
    ``layout="stages"``. Elements only move: every bit of them comes back, NaN included. Works under jit
    and vmap, on CPU devices and on GPUs (there over NCCL, without cuSOLVERMp); it has no derivative.

    Where the mesh does not divide a size, the matrix is padded with zeros inside, and comes back replicated
    along the dimensions that JAX cannot share out evenly.

    Args:
        a: (m, n) matrix; float32, float64, complex64 or complex128. Or a `BlockCyclic` matrix, alone: it
            knows the rest.
        T_A: edge of the square tiles. None takes one that suits a square matrix of the smaller of both
            sizes.
        mesh: the mesh of the process grid; see `meshsolve.potrs`.
        matrix_specs: ``PartitionSpec`` of ``a``; see `meshsolve.potrs`. The mesh axes of the rows make the
            process rows, those of the columns the process columns; groups of devices along other axes do
            the same side by side.

    Returns:
        A `BlockCyclic` matrix; or the (m, n) array in the partition that it came from.

    Raises:
        TypeError, ValueError: arguments that do not fit; the message says what was got and what is needed.
        NotImplementedError: CPU devices of other processes, or a call from inside a shard_map.
        RuntimeError: on GPUs, NCCL is missing or too old, or a device could not take part; the same on every
            device.
    """
    if isinstance(a, BlockCyclic):
        if not (T_A is None and mesh is None and matrix_specs is None):
            raise TypeError("a BlockCyclic matrix knows its tile, mesh and partition: got others of them too")
        return _back(a)
    _sharding.refuse_manual_axes(a)
    dtype = check_matrix(a)
    _sharding.refuse_deleted({"a": a})
    tile = check_tile(T_A)
    check_partition(matrix_specs)
    grid = made_ready(_sharding.find_grid({"a": a}, mesh, matrix_specs))
    # Inside jit only XLA knows whether the matrix lives on; it copies it if so.
    keep = not isinstance(a, jax.core.Tracer)
    request = _request("forward", dtype, a.shape, grid.shape, tile, keep)
    if a.size or not keep:
        local = _program(_to_block_cyclic, request, grid, a.shape)(_sharding.move(a, grid.mesh, grid.spec))
    else:
        buffers = _native.plan(request).local
        local = jnp.zeros((*grid.shape, buffers.columns, buffers.rows), a.dtype)
    # XLA forgets where an empty array lies.
    local = _sharding.move(local, grid.mesh, _local_spec(grid))
    return BlockCyclic(local, tuple(a.shape), _native.plan(request).tile, grid.mesh, grid.spec)


def _back(cyclic: BlockCyclic) -> jax.Array:
    local, mesh = cyclic.local, cyclic.mesh
    # One made by hand may have other integers.
    cyclic = replace(cyclic, shape=tuple(map(int, cyclic.shape)), tile=int(cyclic.tile))
    _sharding.refuse_manual_axes(local)
    _sharding.refuse_deleted({"cyclic.local": local})
    known = _sharding.known_sharding(local)
    if known is not None and not isinstance(mesh, Mesh):
        # Made under jit, where JAX told the axes only.
        mesh = known[0]
    grid = made_ready(_sharding.find_grid({"cyclic.local": local}, mesh, cyclic.partition))
    dtype = check_matrix(jax.ShapeDtypeStruct(cyclic.shape, local.dtype))
    keep = not isinstance(local, jax.core.Tracer)
    request = _request("reverse", dtype, cyclic.shape, grid.shape, cyclic.tile, keep)
    buffers = _native.plan(request).local
    needed = (*grid.shape, buffers.columns, buffers.rows)
    if local.shape != needed:
        raise ValueError(
            f"the local buffers do not fit the matrix: got an array of shape {local.shape}, needed {needed} "
            f"for {cyclic.shape[0]} x {cyclic.shape[1]} elements in tiles of {cyclic.tile}"
        )
    if keep and 0 in cyclic.shape:
        return _sharding.move(jnp.zeros(cyclic.shape, local.dtype), grid.mesh, grid.spec)
    on_mesh = _sharding.move(local, grid.mesh, _local_spec(grid))
    a = _program(_from_block_cyclic, request, grid, cyclic.shape)(on_mesh)
    return _sharding.move(a, grid.mesh, grid.spec)


def _request(
    direction: str, dtype: str, shape: tuple[int, int], grid: tuple[int, int], tile: int | None, keep: bool
) -> str:
    """The question to the planner. Keys in a fixed order: the text is part of cache keys."""
    return json.dumps(
        {
            "routine": "redistribute",
            "dtype": dtype,
            "m": shape[0],
            "n": shape[1],
            "grid": list(grid),
            "tile": tile,
            "direction": direction,
            "keep_a": keep,
        }
    )


@functools.lru_cache(maxsize=512)
def _program(
    way: Callable[..., jax.Array], request: str, grid: Grid, shape: tuple[int, int]
) -> Callable[[jax.Array], jax.Array]:
    """The jitted function of one way of this call."""
    return compiled(grid, functools.partial(way, request, grid, shape))


def _to_block_cyclic(request: str, grid: Grid, shape: tuple[int, int], a: jax.Array) -> jax.Array:
    """Traced: (m, n) matrix to (Pr, Pc, Lc, Lr) local buffers."""
    plan = _native.plan(request)
    buffer = (plan.local.columns, plan.local.rows)
    if 0 in shape:
        return place(jnp.zeros((*grid.shape, *buffer), a.dtype), grid.mesh, _local_spec(grid))

    def on_device(shard: jax.Array) -> jax.Array:
        return native_call(request, grid, shard)["cyclic"].reshape(1, 1, *buffer)

    a = spread(a, plan.inputs[0].shape, grid.shape, grid, grid.spec)
    return jax.shard_map(
        on_device, mesh=grid.mesh, in_specs=grid.spec, out_specs=_local_spec(grid), check_vma=False
    )(a)


def _from_block_cyclic(request: str, grid: Grid, shape: tuple[int, int], local: jax.Array) -> jax.Array:
    """Traced: (Pr, Pc, Lc, Lr) local buffers to (m, n) matrix."""
    even = _sharding.divisible(grid.spec, shape, grid.mesh)
    if 0 in shape:
        return place(jnp.zeros(shape, local.dtype), grid.mesh, even)

    def on_device(buffer: jax.Array) -> jax.Array:
        return native_call(request, grid, buffer.reshape(_native.plan(request).inputs[0].shape))["a"]

    a = jax.shard_map(
        on_device, mesh=grid.mesh, in_specs=_local_spec(grid), out_specs=grid.spec, check_vma=False
    )(place(local, grid.mesh, _local_spec(grid)))
    if a.shape != shape:
        a = place(jax.lax.slice(place(a, grid.mesh, REPLICATED), (0, 0), shape), grid.mesh, even)
    return a


def _local_spec(grid: Grid) -> PartitionSpec:
    """How the local buffers lie on the mesh: each on its own device."""
    return partition(grid.rows, grid.columns)
