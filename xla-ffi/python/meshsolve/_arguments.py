"""Checks of what users hand in. Each message says what was got and what is needed."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

#: Element types of the solvers, by the names that the native library uses.
SOLVER_DTYPES = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "c64",
    np.dtype(np.complex128): "c128",
}


#: Order of the largest matrix that a plan takes.
_LARGEST_TILE = 1 << 28


def check_operands(a: Any, b: Any) -> str:
    """Checks shapes and dtypes of a square system and returns the native name of its dtype.

    Raises:
        TypeError: not arrays, not one of the four dtypes, not the same dtype, or doubles with x64 off.
        ValueError: shapes that do not fit.
    """
    for name, array in (("a", a), ("b", b)):
        _check_array(name, array)
    _check_same_dtype(a, b)
    _check_is_square(a)
    check_right_hand_sides(b, a.shape[0])
    return SOLVER_DTYPES[np.dtype(a.dtype)]


def check_square(a: Any) -> str:
    """Checks shape and dtype of a square matrix and returns the native name of its dtype.

    Raises:
        TypeError: not an array, not one of the four dtypes, or doubles with x64 off.
        ValueError: not square.
    """
    _check_array("a", a)
    _check_is_square(a)
    return SOLVER_DTYPES[np.dtype(a.dtype)]


def check_metric(a: Any, b: Any) -> None:
    """Checks the second matrix of a generalised eigenproblem.

    Raises:
        TypeError: not an array, or not of the dtype of ``a``.
        ValueError: not of the shape of ``a``.
    """
    _check_array("b", b)
    _check_same_dtype(a, b)
    if b.shape != a.shape:
        raise ValueError(f"b must be a matrix of the shape of a: got {b.shape}, needed {a.shape}")


def check_subset(subset: Any, a: Any) -> tuple[int, int]:
    """Checks which eigenvalues of ``a`` are wanted: (first, end), ``end`` not included; None for all.

    Raises:
        TypeError, ValueError: as `check_square`; not a pair of integers; not 0 ≤ first ≤ end ≤ n.
    """
    check_square(a)
    n = a.shape[0]
    if subset is None:
        return 0, n
    try:
        first, end = map(operator.index, subset)
    except (TypeError, ValueError):
        raise TypeError(f"subset_by_index must be a pair of integers: got {subset!r}") from None
    if not 0 <= first <= end <= n:
        raise ValueError(
            f"subset_by_index is out of range: got {(first, end)}, needed 0 ≤ first ≤ end ≤ {n}; "
            "end is not included"
        )
    return first, end


def check_right_hand_sides(b: Any, n: int) -> None:
    """Checks the shape of right-hand sides for a matrix of order ``n``.

    Raises:
        ValueError: neither (n,) nor (n, k).
    """
    if b.ndim not in (1, 2):
        raise ValueError(f"b must be a vector or a matrix: got shape {b.shape}, needed ({n},) or ({n}, k)")
    if b.shape[0] != n:
        raise ValueError(
            f"b must have as many rows as a: got shape {b.shape} with a of shape {(n, n)}, "
            f"needed ({n},) or ({n}, k)"
        )


def check_factors(a: Any, b: Any) -> str:
    """Checks shapes and dtypes of the factors of a product and returns the native name of their dtype.

    Raises:
        TypeError: not arrays, not one of the four dtypes, not the same dtype, or doubles with x64 off.
        ValueError: shapes that do not fit.
    """
    dtype = check_matrix(a)
    _check_array("b", b)
    _check_same_dtype(a, b)
    k = a.shape[1]
    if b.ndim not in (1, 2) or b.shape[0] != k:
        raise ValueError(
            f"b must have as many rows as a has columns: got shape {b.shape} with a of shape {a.shape}, "
            f"needed ({k},) or ({k}, n); use jax.vmap for a batch of matrices"
        )
    return dtype


def check_matrix(a: Any) -> str:
    """Checks shape and dtype of a matrix and returns the native name of its dtype.

    Raises:
        TypeError: not an array, not one of the four dtypes, or doubles with x64 off.
        ValueError: not two dimensions.
    """
    _check_array("a", a)
    if a.ndim != 2:
        raise ValueError(
            f"a must be a matrix: got shape {a.shape}, needed (m, n); use jax.vmap for a batch of matrices"
        )
    return SOLVER_DTYPES[np.dtype(a.dtype)]


def check_scalar(name: str, value: Any) -> None:
    """Checks a scalar argument.

    Raises:
        TypeError: not a number.
        ValueError: not a scalar.
    """
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    if not jnp.issubdtype(dtype, jnp.number):
        raise TypeError(f"{name} must be a number: got {value!r} of type {type(value).__name__}")
    if np.ndim(value) != 0:
        raise ValueError(f"{name} must be a scalar: got shape {np.shape(value)}")


def check_tile(tile: Any) -> int | None:
    """Checks the edge of a tile; None leaves the choice to the plan.

    Raises:
        TypeError: not an integer.
        ValueError: not positive.
    """
    if tile is None:
        return None
    try:
        if isinstance(tile, bool | np.bool_):
            raise TypeError
        edge = operator.index(tile)
    except TypeError:
        raise TypeError(
            f"the tile must be an integer: got {tile!r} of type {type(tile).__name__}; None chooses one"
        ) from None
    if edge <= 0:
        raise ValueError(f"the tile must be positive: got {edge}; None chooses one")
    # A larger one than the largest matrix is not different from it.
    return min(edge, _LARGEST_TILE)


def check_partition(spec: Any) -> None:
    """Checks the partition of a matrix where only one can be given.

    Raises:
        TypeError: neither None nor a PartitionSpec.
    """
    if not (spec is None or isinstance(spec, PartitionSpec)):
        raise TypeError(f"matrix_specs must be the PartitionSpec of a: got {spec!r}")


def check_triangle(triangle: Any) -> str | None:
    """Checks which triangle of ``a`` the caller promises.

    Raises:
        ValueError: neither None nor "lower" nor "upper".
    """
    if triangle not in (None, "lower", "upper"):
        raise ValueError(f'triangle must be None (both are valid), "lower" or "upper": got {triangle!r}')
    return triangle


def check_lower(lower: Any) -> str | None:
    """Checks which triangle of a Hermitian matrix the caller promises, and returns its name.

    Raises:
        TypeError: neither None nor a bool.
    """
    if not (lower is None or isinstance(lower, bool | np.bool_)):
        raise TypeError(
            f"lower must be None (both triangles are valid), True or False: got {lower!r} of type "
            f"{type(lower).__name__}"
        )
    return None if lower is None else "lower" if lower else "upper"


def check_assume_a(assume_a: Any) -> str:
    """Checks what is known of a matrix and returns the native name of the method that solves with it.

    Raises:
        ValueError: neither "gen" nor "pos".
    """
    methods = {"gen": "lu", "pos": "cholesky"}
    if not isinstance(assume_a, str) or assume_a not in methods:
        raise ValueError(
            f"assume_a is not supported: got {assume_a!r}, needed one of {list(methods)} "
            '("gen": any matrix; "pos": Hermitian positive definite)'
        )
    return methods[assume_a]


def check_layout(layout: Any, check: bool) -> str:
    """Checks by which layout the solver may work, and settles what ``check`` needs.

    Raises:
        ValueError: neither "auto" nor "stages" nor "reading", or a reading that is to promise an order.
    """
    if layout not in ("auto", "stages", "reading"):
        raise ValueError(f'layout must be "auto", "stages" or "reading": got {layout!r}')
    if not check:
        return layout
    if layout == "reading":
        raise ValueError(
            "check=True tells at which row the solver stopped in the order of a, which a reading does not: "
            'got layout="reading"; use layout="auto", or return_status=True instead of check'
        )
    return "stages"


def _check_same_dtype(a: Any, b: Any) -> None:
    if a.dtype != b.dtype:
        raise TypeError(
            f"a and b must have the same dtype: got {a.dtype} and {b.dtype}; convert one with .astype"
        )


def _check_is_square(a: Any) -> None:
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(
            f"a must be a square matrix: got shape {a.shape}, needed (n, n); "
            "use jax.vmap for a batch of matrices"
        )


def _check_array(name: str, array: Any) -> None:
    if not (hasattr(array, "shape") and hasattr(array, "dtype") and hasattr(array, "ndim")):
        raise TypeError(
            f"{name} must be an array: got {type(array).__name__}; convert it with jax.numpy.asarray"
        )
    if array.dtype not in SOLVER_DTYPES:
        supported = ", ".join(str(dtype) for dtype in SOLVER_DTYPES)
        raise TypeError(
            f"the dtype of {name} is not supported: got {array.dtype}, needed one of {supported}; "
            "convert it with .astype"
        )
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise TypeError(
            f"{name} is {array.dtype}, but 64-bit types are off in JAX, which would round it to "
            f"{jax.dtypes.canonicalize_dtype(array.dtype)} in silence. Turn them on with "
            'jax.config.update("jax_enable_x64", True) at the start of the program, or convert with .astype'
        )
