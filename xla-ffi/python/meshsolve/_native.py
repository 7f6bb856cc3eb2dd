"""The native library: finding it, talking to it, handing its handlers to JAX.

All layout arithmetic lives in the library. Python sends it a request as JSON and gets a plan as JSON.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

LIBRARY_NAME = "libmeshsolve_xla_ffi.so"
TARGET = "meshsolve"

DTYPES = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
    "i32": np.dtype(np.int32),
}

_EXCEPTIONS: dict[str, type[Exception]] = {
    "invalid_argument": ValueError,
    "unsupported": NotImplementedError,
    "resource_exhausted": MemoryError,
}


class _Handler(ctypes.Structure):
    _fields_ = [
        ("target", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("stage", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Operand:
    """One buffer of a call, as each device holds it.

    Attributes:
        name: what the buffer is, for example ``"a"``, ``"work"`` or ``"x"``.
        dtype: element type.
        shape: shape on one device.
        alias: for an output, the index of the input whose memory it takes over; None if it has its own.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    alias: int | None = None

    @property
    def nbytes(self) -> int:
        """Size on one device in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class LocalBuffers:
    """The local buffers of a block-cyclic matrix: column-major, of the same size on every process.

    Attributes:
        rows, columns: rows and columns of each buffer.
        owned_rows: rows that the processes of each process row own.
        owned_columns: columns that the processes of each process column own.
    """

    rows: int
    columns: int
    owned_rows: tuple[int, ...]
    owned_columns: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """What a call will do, decided before it runs.

    Attributes:
        routine: name of the routine.
        tile: edge of the square tiles in which the solver sees the matrix; of a product, the tile along k.
        ranks: number of devices in one process grid.
        layout: how the solver's order comes about: ``"stages"`` or ``"reading"``, and ``", transposed"``
            where the matrix is taken as its transpose; ``", on a nearly square grid"`` where it comes to one
            first.
        b_rows, b_columns: whether the rows and the columns of the right-hand side have to be shared out as
            those of the matrix; otherwise every device needs all of them. False without right-hand side.
        local: the local buffers of a redistribution; None for other routines.
        inputs: what each device hands in, in order.
        outputs: what each device gets back, in order, work arrays included.
        scratch_bytes: temporary memory on each device.
        workspace_bytes: on GPUs, what the solver's library needs on each device beside that: an estimate
            until the plan has run in this process.
        workspace_is_exact: whether it is what the library asked for.
        explanation: what `explain` returns.
    """

    routine: str
    tile: int
    ranks: int
    layout: str
    b_rows: bool
    b_columns: bool
    local: LocalBuffers | None
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    scratch_bytes: int
    workspace_bytes: int
    workspace_is_exact: bool
    explanation: str

    @property
    def bytes_per_device(self) -> int:
        """Memory on one device but `workspace_bytes`: inputs, outputs of their own, scratch."""
        own_outputs = sum(output.nbytes for output in self.outputs if output.alias is None)
        return sum(operand.nbytes for operand in self.inputs) + own_outputs + self.scratch_bytes

    def explain(self) -> str:
        """The plan in words and figures, over several lines."""
        return self.explanation


@functools.cache
def library() -> ctypes.CDLL:
    """Loads the native library on first use.

    Raises:
        ImportError: it is not there, or was built for another version of this package.
    """
    path = Path(__file__).parent / LIBRARY_NAME
    if not path.exists():
        raise ImportError(
            f"the native library of meshsolve is missing: needed {path}. Install the package with pip "
            "(pip install ./xla-ffi from a checkout), which builds it with cargo"
        )
    lib = ctypes.CDLL(str(path))
    lib.meshsolve_version.argtypes = []
    lib.meshsolve_version.restype = ctypes.c_char_p
    lib.meshsolve_plan.argtypes = [ctypes.c_char_p]
    # Not c_char_p: ctypes would copy the text and lose the pointer that has to be freed.
    lib.meshsolve_plan.restype = ctypes.c_void_p
    lib.meshsolve_runtime.argtypes = [ctypes.c_char_p]
    lib.meshsolve_runtime.restype = ctypes.c_void_p
    lib.meshsolve_free.argtypes = [ctypes.c_void_p]
    lib.meshsolve_free.restype = None
    lib.meshsolve_handlers.argtypes = [ctypes.POINTER(ctypes.c_size_t)]
    lib.meshsolve_handlers.restype = ctypes.POINTER(_Handler)

    needed = metadata.version("meshsolve")
    got = lib.meshsolve_version().decode()
    if got != needed:
        raise ImportError(
            f"{path} is of another version than the package: got {got}, needed {needed}. "
            "Install the package again with pip, which rebuilds the library"
        )
    return lib


def version() -> str:
    """Version of the native library."""
    return library().meshsolve_version().decode()


@functools.lru_cache(maxsize=1024)
def plan(request: str) -> Plan:
    """As `current_plan`, asked once: for all but the workspace, which is an estimate at first."""
    return current_plan(request)


def current_plan(request: str) -> Plan:
    """Asks the library for a plan.

    Args:
        request: the request as JSON. The same text must go with the call as its attribute.

    Raises:
        ValueError, NotImplementedError, MemoryError, RuntimeError: the library refuses the request, by kind.
    """
    fields = checked(_ask("meshsolve_plan", request))["plan"]
    b, local = fields.get("b", {}), fields.get("local")
    return Plan(
        routine=fields["routine"],
        tile=fields["tile"],
        ranks=fields["ranks"],
        layout=fields["layout"],
        b_rows=b.get("rows") == "sharded",
        b_columns=b.get("cols") == "sharded",
        local=local and _local_buffers(local),
        inputs=tuple(_operand(entry) for entry in fields["inputs"]),
        outputs=tuple(_operand(entry) for entry in fields["outputs"]),
        scratch_bytes=fields["scratch_bytes"],
        workspace_bytes=fields["workspace_bytes"],
        workspace_is_exact=fields["workspace_is_exact"],
        explanation=fields["explain"],
    )


def runtime(message: Any) -> str:
    """Tells the library something about this process, or asks it something.

    Args:
        message: what the library's module ``runtime`` lists, as JSON takes it.

    Returns:
        The reply as JSON text, for `checked`.
    """
    return _ask("meshsolve_runtime", json.dumps(message))


def checked(reply: str) -> dict[str, Any]:
    """The fields of a reply.

    Raises:
        ValueError, NotImplementedError, MemoryError, RuntimeError: the reply is an error, by kind.
    """
    fields = json.loads(reply)
    if "error" in fields:
        error = fields["error"]
        raise _EXCEPTIONS.get(error["kind"], RuntimeError)(error["message"])
    return fields


def _ask(function: str, text: str) -> str:
    lib = library()
    pointer = getattr(lib, function)(text.encode())
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        lib.meshsolve_free(pointer)


def _operand(entry: dict[str, Any]) -> Operand:
    return Operand(entry["name"], DTYPES[entry["dtype"]], tuple(entry["shape"]), entry.get("alias"))


def _local_buffers(entry: dict[str, Any]) -> LocalBuffers:
    return LocalBuffers(entry["rows"], entry["cols"], tuple(entry["owned_rows"]), tuple(entry["owned_cols"]))


@functools.cache
def register_handlers() -> frozenset[str]:
    """Hands every handler of the library to JAX, once.

    Only on first use: a handler that JAX's runtime refuses would otherwise break the import of this package.

    Returns:
        The platforms that have handlers, in JAX's spelling (``"cpu"``, ``"CUDA"``).
    """
    count = ctypes.c_size_t()
    table = library().meshsolve_handlers(ctypes.byref(count))
    stages: dict[tuple[str, str], dict[str, object]] = {}
    for handler in table[: count.value]:
        key = (handler.target.decode(), handler.platform.decode())
        capsule = jax.ffi.pycapsule(ctypes.cast(handler.function, ctypes.CFUNCTYPE(None)))
        stages.setdefault(key, {})[handler.stage.decode()] = capsule
    for (target, platform), bundle in stages.items():
        jax.ffi.register_ffi_target(target, bundle, platform=platform)
    return frozenset(platform for _, platform in stages)
