"""The product of two sharded matrices."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from . import _sharding
from ._arguments import check_factors, check_layout, check_partition, check_tile
from ._call import Call, made_ready, program
from ._sharding import AnyMesh, partition


def matmul(
    a: Any,
    b: Any,
    *,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: PartitionSpec | None = None,
    layout: str = "auto",
) -> jax.Array:
    """The product ``a @ b`` of two matrices that are sharded over one mesh, as the result is.

    Works under jit and vmap (one product after another); it has no derivative yet. Neither operand is used
    up. Where the mesh divides the sizes evenly, the solver mostly takes ``a`` and ``b`` as they stand (a
    reading, see `meshsolve.potrs`), and so needs hardly any memory beside them and the result.

    Args:
        a: (m, k) matrix; float32, float64, complex64 or complex128.
        b: (k, n) matrix, or a vector (k,), of the same dtype. If it is not in the partition of ``a``, it is
            brought into it.
        tile: edge of the square tiles in which the solver works. None takes one for each of m, n and k.
        mesh: the mesh that holds the operands; see `meshsolve.potrs`.
        matrix_specs: ``PartitionSpec`` of ``a``, and so of ``b`` and the result; see `meshsolve.potrs`.
        layout: ``"auto"``, ``"stages"`` or ``"reading"``; see `meshsolve.potrs`.

    Returns:
        (m, n) matrix in the partition of ``a``, or (m,) vector shared out as the rows of ``a``; replicated
        along dimensions that the mesh does not divide. NaN and infinities are multiplied as they are.

    Raises:
        TypeError, ValueError: arguments that do not fit; the message says what was got and what is needed.
        NotImplementedError: CPU devices of other processes, or a call from inside a shard_map.
        RuntimeError: on GPUs, a library is missing or too old, or a device could not take part; the same on
            every device.
    """
    _sharding.refuse_manual_axes(a, b)
    dtype = check_factors(a, b)
    _sharding.refuse_deleted({"a": a, "b": b})
    tile, layout = check_tile(tile), check_layout(layout, check=False)
    check_partition(matrix_specs)
    grid = made_ready(_sharding.find_grid({"a": a, "b": b}, mesh, matrix_specs))
    (m, k), n = a.shape, b.shape[1] if b.ndim == 2 else 1

    def as_matrix_or_rows(ndim: int) -> PartitionSpec:
        return grid.spec if ndim == 2 else partition(grid.rows)

    shape = (m, *b.shape[1:])
    c_spec = _sharding.divisible(as_matrix_or_rows(b.ndim), shape, grid.mesh)
    if 0 in (m, n, k):
        return _sharding.move(jnp.zeros(shape, a.dtype), grid.mesh, c_spec)
    # Keys in a fixed order: the text is part of cache keys.
    request = json.dumps(
        {
            "routine": "product",
            "dtype": dtype,
            "m": m,
            "n": n,
            "k": k,
            "grid": list(grid.shape),
            "tile": tile,
            "layout": layout,
        }
    )
    call = Call(request, grid, b_rows=True, b_columns=True, x_spec=c_spec)
    on_mesh = [_sharding.move(array, grid.mesh, as_matrix_or_rows(array.ndim)) for array in (a, b)]
    return program(call)(*on_mesh)["c"]
