"""Where the operands lie: mesh, process grid, and which mesh axes share out which dimension.

The mesh and the partition of ``a`` come from the first of these that says something: the arguments of
the call, the array's own sharding (under jit JAX tells it only for meshes with Explicit axes), the
mesh set by ``jax.set_mesh``. Where a mesh is known but no partition, the first mesh axis shares out
the rows and the second one, if there is one, the columns.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

try:
    from jax.sharding import reshard
except ImportError:  # before jax 0.7
    from jax.experimental.shard import reshard

Axes = tuple[str, ...]
AnyMesh = Mesh | AbstractMesh

#: JAX's name for a kind of devices in `jax.ffi.register_ffi_target`, by the name that the devices have.
_PLATFORMS = {"cpu": "cpu", "gpu": "CUDA", "cuda": "CUDA"}
GPU_PLATFORM = "CUDA"


@dataclass(frozen=True)
class Grid:
    """The process grid of a solve, taken from a mesh.

    Attributes:
        mesh: the mesh that holds the grid.
        rows: mesh axes over which the rows of the matrix are shared out.
        columns: mesh axes over which its columns are shared out.
    """

    mesh: AnyMesh
    rows: Axes
    columns: Axes

    @property
    def shape(self) -> tuple[int, int]:
        """Number of process rows and of process columns."""
        return self.size(self.rows), self.size(self.columns)

    @property
    def others(self) -> Axes:
        """Mesh axes outside the grid: along these the same solve is done by each group of devices."""
        used = self.rows + self.columns
        return tuple(name for name in self.mesh.axis_names if name not in used)

    @property
    def spec(self) -> PartitionSpec:
        """How the matrix lies on the mesh."""
        return partition(self.rows, self.columns)

    @property
    def on_gpus(self) -> bool:
        """Whether the devices are GPUs; False if the mesh does not tell its devices."""
        return isinstance(self.mesh, Mesh) and platform_of(self.mesh) == GPU_PLATFORM

    @property
    def device_ids(self) -> np.ndarray:
        """(devices,) int64: the global ids of the devices, in the order of the mesh."""
        return np.array([device.id for device in self.mesh.devices.flat], np.int64)

    @property
    def places(self) -> np.ndarray:
        """(devices,) int64: for each device in the order of the mesh, group · ranks of a grid + rank."""
        names = self.mesh.axis_names
        by_place = self.others + self.rows + self.columns
        numbered = np.arange(self.mesh.size).reshape([self.mesh.shape[name] for name in by_place])
        return numbered.transpose([by_place.index(name) for name in names]).ravel()

    def size(self, axes: Axes) -> int:
        """Number of devices along these axes together."""
        return math.prod(self.mesh.shape[name] for name in axes)


@dataclass(frozen=True)
class Layout:
    """Where both operands of a solve lie.

    Attributes:
        grid: mesh and partition of ``a``.
        b_spec: partition of ``b`` on the same mesh; None if it is not known.
        b_rows: whether the solver takes the rows of ``b`` shared out as those of ``a``.
        b_columns: whether it takes the columns of ``b`` shared out as those of ``a``.
    """

    grid: Grid
    b_spec: PartitionSpec | None
    b_rows: bool
    b_columns: bool


def partition(*dimensions: Axes) -> PartitionSpec:
    """The PartitionSpec with these mesh axes for each dimension."""
    return PartitionSpec(*(axes[0] if len(axes) == 1 else (axes or None) for axes in dimensions))


def axes_of(spec: PartitionSpec, ndim: int, mesh: AnyMesh, name: str) -> tuple[Axes, ...]:
    """The mesh axes of each dimension of a partition.

    Raises:
        ValueError: the partition does not fit the mesh or the number of dimensions.
    """
    if len(spec) > ndim:
        raise ValueError(
            f"the partition of {name} has too many dimensions: got {spec}, needed at most {ndim}"
        )
    dimensions: list[Axes] = []
    for entry in spec:
        if entry is PartitionSpec.UNCONSTRAINED:
            raise ValueError(
                f"the partition of {name} leaves a dimension open: got {spec}; name its mesh axes or use None"
            )
        dimensions.append(() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry))
    used = [axis for axes in dimensions for axis in axes]
    for axis in used:
        if axis not in mesh.axis_names:
            raise ValueError(
                f"unknown mesh axis in the partition of {name}: got {axis!r} in {spec}, "
                f"the mesh has {tuple(mesh.axis_names)}"
            )
        if used.count(axis) > 1:
            raise ValueError(f"the partition of {name} uses mesh axis {axis!r} twice: got {spec}")
    return tuple(dimensions) + ((),) * (ndim - len(dimensions))


def resolve(operands: dict[str, Any], mesh: AnyMesh | None, matrix_specs: Any) -> Layout:
    """Finds mesh and partitions of the operands.

    Args:
        operands: arrays (concrete or traced) or `jax.ShapeDtypeStruct` by name: the matrix ``"a"`` first, and
            ``"b"`` if there is one.
        mesh: the mesh to use, or None to find one.
        matrix_specs: partition of ``a``, a pair of partitions of ``a`` and ``b``, or None to find them.

    Raises:
        ValueError: no mesh is to be found, or it does not fit the partitions or the arrays.
    """
    a_given, b_given = _split_specs(matrix_specs)
    grid = find_grid(operands, mesh, a_given)
    b = operands.get("b")
    if b is None:
        return Layout(grid, b_spec=None, b_rows=False, b_columns=False)
    b_spec = b_given if b_given is not None else spec_on(b, grid.mesh)
    b_axes: tuple[Axes, ...] = ((), ())
    if b_spec is not None:
        b_axes = (*axes_of(b_spec, b.ndim, grid.mesh, "b"), ())
    return Layout(
        grid=grid,
        b_spec=b_spec,
        b_rows=bool(grid.rows) and b_axes[0] == grid.rows,
        b_columns=bool(grid.columns) and b_axes[1] == grid.columns,
    )


def find_grid(operands: dict[str, Any], mesh: AnyMesh | None, a_spec: PartitionSpec | None) -> Grid:
    """Finds the mesh of all operands, by name, and the partition of the first one, the matrix.

    Raises:
        ValueError: no mesh is to be found, or it does not fit the partition or the arrays.
    """
    a, mesh_is_given = next(iter(operands.values())), mesh is not None
    if mesh is None:
        mesh = next(filter(None, map(_mesh_of, operands.values())), None) or _current_mesh()
    if mesh is None:
        raise ValueError(
            "no mesh to be found: a carries no NamedSharding and no mesh is set. Pass mesh= (and "
            "matrix_specs=), put a on a mesh with jax.device_put, or call jax.set_mesh"
        )
    if not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh: got {type(mesh).__name__}")
    if not mesh.axis_names:
        raise ValueError("the mesh has no axes: needed at least one, even if of size 1")
    for name, array in operands.items():
        if isinstance(array, jax.core.Tracer):
            mesh = _with_axis_types_of(_mesh_of(array), mesh)
        _refuse_other_devices(name, array, mesh)

    if a_spec is None:
        own = spec_on(a, mesh)
        # A replicated array says nothing about the grid that a mesh given with it asks for.
        if own is not None and (any(own) or not mesh_is_given):
            a_spec = own
    if a_spec is None:
        a_spec = PartitionSpec(*mesh.axis_names[:2])
    return Grid(mesh, *axes_of(a_spec, 2, mesh, "a"))


def known_sharding(array: Any) -> tuple[AnyMesh, PartitionSpec | None] | None:
    """Mesh of an array and its partition (None if the trace does not tell); None if it is on no mesh."""
    if isinstance(array, jax.core.Tracer):
        sharding = jax.typeof(array).sharding
        if sharding.mesh.empty:
            return None
        return sharding.mesh, sharding.spec if _axes_of_type(sharding.mesh, AxisType.Explicit) else None
    sharding = getattr(array, "sharding", None)
    return (sharding.mesh, sharding.spec) if isinstance(sharding, NamedSharding) else None


def spec_on(array: Any, mesh: AnyMesh) -> PartitionSpec | None:
    """Partition of an array if it is known and on this mesh."""
    known = known_sharding(array)
    if known is None:
        return None
    # A trace knows the axes of a mesh, not its devices.
    concrete = isinstance(known[0], Mesh) and isinstance(mesh, Mesh)
    same = known[0] == mesh if concrete else known[0].shape_tuple == mesh.shape_tuple
    return known[1] if same else None


def place(array: jax.Array, mesh: AnyMesh, spec: PartitionSpec) -> jax.Array:
    """Inside a trace: asks for this partition, in the way that the types of the mesh axes need."""
    explicit = _axes_of_type(mesh, AxisType.Explicit)
    if explicit:
        array = reshard(array, NamedSharding(mesh, _restrict(spec, explicit)))
    automatic = _axes_of_type(mesh, AxisType.Auto)
    if automatic:
        array = jax.lax.with_sharding_constraint(array, NamedSharding(mesh, _restrict(spec, automatic)))
    return array


def move(array: Any, mesh: AnyMesh, spec: PartitionSpec) -> Any:
    """Outside a trace: puts an array on the mesh in this partition, as far as its shape allows."""
    if isinstance(array, jax.core.Tracer) or not isinstance(mesh, Mesh):
        return array
    wanted = NamedSharding(mesh, divisible(spec, array.shape, mesh))
    have = getattr(array, "sharding", None)
    if isinstance(have, NamedSharding) and have.mesh == mesh and have.is_equivalent_to(wanted, array.ndim):
        return array
    return jax.device_put(array, wanted)


def context_of(mesh: AnyMesh | None) -> contextlib.AbstractContextManager:
    """A context in which JAX takes a program on this mesh, even if another one is set by jax.set_mesh.

    Inside a trace, where none can be set, it changes nothing.
    """
    current = jax.sharding.get_abstract_mesh()
    if not isinstance(mesh, Mesh) or current is None or current.empty or _mesh_in_context() == mesh:
        return contextlib.nullcontext()
    set_mesh = getattr(jax, "set_mesh", None) or getattr(jax.sharding, "use_mesh", None)
    if set_mesh is None or is_tracing():
        return contextlib.nullcontext()
    return set_mesh(mesh)


def context_of_array(array: Any) -> contextlib.AbstractContextManager:
    """As `context_of`, on the mesh of an array."""
    return context_of(_mesh_of(array))


def is_tracing() -> bool:
    """Whether what is computed here becomes part of a trace, even without a traced operand."""
    with jax.transfer_guard("allow"):
        return isinstance(jnp.zeros(()), jax.core.Tracer)


def move_scalar(value: Any, mesh: AnyMesh) -> Any:
    """Outside a trace: a scalar on every device of the mesh."""
    if isinstance(value, jax.core.Tracer) or not isinstance(mesh, Mesh):
        return value
    everywhere = NamedSharding(mesh, PartitionSpec())
    if everywhere.is_fully_addressable or getattr(value, "committed", False):
        return move(value, mesh, PartitionSpec())
    # Several processes would first compare a value that JAX is to put on all their devices; but it takes an
    # array along that nobody has put anywhere.
    if isinstance(value, jax.Array):
        return value
    return jax.make_array_from_callback((), everywhere, lambda _: value)


def divisible(spec: PartitionSpec, shape: tuple[int, ...], mesh: AnyMesh) -> PartitionSpec:
    """The part of a partition that JAX can give to an array of this shape: even shards only."""
    dimensions = axes_of(spec, len(shape), mesh, "an array")
    sizes = [math.prod(mesh.shape[axis] for axis in axes) for axes in dimensions]
    return partition(
        *(axes if n % size == 0 else () for axes, size, n in zip(dimensions, sizes, shape, strict=True))
    )


def refuse_manual_axes(*arrays: Any) -> None:
    """Raises NotImplementedError inside a shard_map, where an array is only one device's shard."""
    meshes = [jax.sharding.get_abstract_mesh(), *(_mesh_of(array) for array in arrays)]
    for mesh in meshes:
        if mesh is not None and not mesh.empty and _axes_of_type(mesh, AxisType.Manual):
            raise NotImplementedError(
                "a solve inside shard_map is not supported: mesh axes "
                f"{sorted(_axes_of_type(mesh, AxisType.Manual))} are manual here. Call it outside, on the "
                "whole sharded array (under jit if you like); it enters shard_map by itself"
            )


def refuse_deleted(arrays: dict[str, Any]) -> None:
    """Raises RuntimeError for an array that was given away, whose memory JAX may hand to a program again."""
    for name, array in arrays.items():
        if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer) and array.is_deleted():
            raise RuntimeError(
                f"{name} has been deleted: by an earlier call with donate=True, or by {name}.delete()"
            )


def platform_of(mesh: Mesh) -> str:
    """The platform of the devices of a mesh, as handlers are registered for it: ``"cpu"``, ``"CUDA"``, …"""
    name = mesh.devices.flat[0].platform
    return _PLATFORMS.get(name, name)


def refuse_unserved_devices(mesh: AnyMesh, platforms: Iterable[str]) -> None:
    """Raises NotImplementedError for devices without handlers, and for CPU devices of several processes."""
    devices = _with_known_devices(mesh)
    if devices is None:
        return
    mesh, platform = devices, platform_of(devices)
    if platform not in platforms:
        raise NotImplementedError(
            f"no solver for devices of platform {mesh.devices.flat[0].platform!r}: "
            f"this build serves {sorted(platforms)}"
        )
    foreign = sorted({d.process_index for d in mesh.devices.flat} - {jax.process_index()})
    if foreign and platform != GPU_PLATFORM:
        raise NotImplementedError(
            "a mesh of CPU devices over several processes is not supported: got devices of processes "
            f"{foreign} in process {jax.process_index()}; needed a mesh of jax.local_devices(), or GPUs"
        )


def with_devices(grid: Grid) -> Grid:
    """The same grid on a mesh that tells its devices, where they may be GPUs: calls on GPUs name them.

    Raises:
        ValueError: under jit, on GPUs, JAX does not tell the devices.
    """
    mesh = grid.mesh
    known = _with_known_devices(mesh)
    if known is not None:
        # On CPUs a program may stay open for other devices.
        on_gpus = platform_of(known) == GPU_PLATFORM
        return replace(grid, mesh=known) if on_gpus else grid
    if _PLATFORMS.get(jax.default_backend()) == GPU_PLATFORM:
        raise ValueError(
            "which GPUs the mesh is made of is not known here: under jit, JAX tells only the axes "
            f"{mesh.shape_tuple} of the arrays. Pass mesh= (the jax.sharding.Mesh of the arrays), or set it "
            "with jax.set_mesh around the call of the jitted function"
        )
    return grid


def _split_specs(matrix_specs: Any) -> tuple[PartitionSpec | None, PartitionSpec | None]:
    # PartitionSpec is a tuple in some versions of JAX, so it has to be looked for first.
    if matrix_specs is None or isinstance(matrix_specs, PartitionSpec):
        return matrix_specs, None
    if isinstance(matrix_specs, tuple | list) and len(matrix_specs) in (1, 2):
        pair = (*matrix_specs, None)[:2]
        if all(spec is None or isinstance(spec, PartitionSpec) for spec in pair):
            return pair
    raise TypeError(
        "matrix_specs must be the PartitionSpec of a, or a pair of PartitionSpecs of a and b: "
        f"got {matrix_specs!r}"
    )


def _mesh_of(array: Any) -> AnyMesh | None:
    known = known_sharding(array)
    return known[0] if known is not None else None


def _current_mesh() -> AnyMesh | None:
    """The mesh of jax.set_mesh, concrete where this version of JAX tells it."""
    if hasattr(jax.sharding, "get_mesh"):
        try:
            mesh = jax.sharding.get_mesh()
        except ValueError:  # not to be asked inside jit
            mesh = None
        if mesh is not None and not mesh.empty:
            return mesh
    mesh = jax.sharding.get_abstract_mesh()
    return None if mesh is None or mesh.empty else mesh


def _with_known_devices(mesh: AnyMesh) -> Mesh | None:
    """The same mesh with its devices: those of the mesh of jax.set_mesh if it is of the same axes."""
    if isinstance(mesh, Mesh):
        return mesh
    known = _mesh_in_context()
    if known is None or known.shape_tuple != mesh.shape_tuple:
        return None
    return Mesh(known.devices, known.axis_names, axis_types=mesh.axis_types)


def _mesh_in_context() -> Mesh | None:
    """The concrete mesh of jax.set_mesh, under jit too, where this version of JAX still knows it there."""
    mesh = _current_mesh()
    if isinstance(mesh, Mesh):
        return mesh
    try:
        # jax.sharding.get_mesh refuses to be asked under jit. A program is compiled for one mesh all the
        # same: JAX raises an error when a jitted function meets another one.
        from jax._src.mesh import get_concrete_mesh
    except ImportError:
        return None
    mesh = get_concrete_mesh()
    return mesh if isinstance(mesh, Mesh) and not mesh.empty else None


def _with_axis_types_of(traced: AnyMesh | None, mesh: AnyMesh) -> AnyMesh:
    """The same mesh with the axis types that a trace works with, if that is on the same axes."""
    if traced is None or traced.shape_tuple != mesh.shape_tuple or traced.axis_types == mesh.axis_types:
        return mesh
    return (
        Mesh(mesh.devices, mesh.axis_names, axis_types=traced.axis_types)
        if isinstance(mesh, Mesh)
        else traced
    )


def _axes_of_type(mesh: AnyMesh, kind: AxisType) -> frozenset[str]:
    return frozenset(
        name for name, each in zip(mesh.axis_names, mesh.axis_types, strict=True) if each == kind
    )


def _restrict(spec: PartitionSpec, axes: frozenset[str]) -> PartitionSpec:
    dimensions = (
        () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in spec
    )
    return partition(*(tuple(axis for axis in dimension if axis in axes) for dimension in dimensions))


def _refuse_other_devices(name: str, array: Any, mesh: AnyMesh) -> None:
    """A sharded array is never carried to other devices in silence."""
    sharding = getattr(array, "sharding", None)
    if isinstance(array, jax.core.Tracer) or not isinstance(sharding, NamedSharding):
        return
    if not isinstance(mesh, Mesh) or len(sharding.device_set) == 1:
        return
    devices = set(np.ravel(mesh.devices))
    if sharding.device_set != devices:
        raise ValueError(
            f"{name} is not on the devices of the mesh: got an array on {len(sharding.device_set)} devices "
            f"and a mesh of {len(devices)} devices. Pass mesh={name}.sharding.mesh, or move {name} with "
            "jax.device_put"
        )
