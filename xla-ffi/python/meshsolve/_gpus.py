"""What the native library has to know about this process before it solves on GPUs."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import jax

from . import _native
from ._sharding import Grid

#: The environment variable that asks for communicators of our own (``own``) in place of XLA's.
COMMUNICATOR_VARIABLE = "MESHSOLVE_COMM"

#: The first version of JAX whose GPU plugin lends its communicators.
_LENDING_JAX = (0, 11, 2)

#: How long a process waits for the one that makes the unique id, in milliseconds.
_PATIENCE_MS = 120_000

_lock = threading.Lock()
_known_client: weakref.ref[Any] | None = None
_generation = 0
_with_unique_id: set[tuple[int, ...]] = set()


def make_ready(grid: Grid) -> None:
    """Tells the library all that it needs for calls on this grid. Cheap from the second time on.

    Where the mesh spans several processes each of them has to come here, as each has to run the program.

    Raises:
        RuntimeError: the processes could not agree on a communicator of our own.
    """
    with _lock:
        _introduce(grid.mesh.devices.flat[0].client)
        several = len({device.process_index for device in grid.mesh.devices.flat}) > 1
        if several and not _xla_lends_communicators():
            _share_unique_id(grid)


def counters() -> dict[str, int]:
    """How many handles, grids, communicators and the like the library made so far in this process."""
    return _native.checked(_native.runtime("counters"))


def libraries() -> list[dict[str, str | None]]:
    """NVIDIA's libraries by ``name``, ``path`` and ``version`` (None if not known), loaded now if need be.

    Raises:
        RuntimeError: one is missing or too old; the message names the pip package.
    """
    set_library_folders()
    return _native.checked(_native.runtime("libraries"))["libraries"]


def set_library_folders() -> None:
    """Tells the library where pip has put NVIDIA's libraries."""
    _native.checked(_native.runtime({"set_library_folders": library_folders()}))


def library_folders() -> list[str]:
    """The entries of ``sys.path`` that hold packages of NVIDIA, in their order."""
    folders = (Path(entry or ".").resolve() for entry in sys.path)
    return list(dict.fromkeys(str(folder) for folder in folders if (folder / "nvidia").is_dir()))


def _introduce(client: Any) -> None:
    """Tells the library which devices this process drives, again whenever JAX has a new client for them."""
    global _known_client, _generation
    if _known_client is not None and _known_client() is client:
        return
    set_library_folders()
    devices = [[device.local_hardware_id, device.id] for device in client.local_devices()]
    _native.checked(_native.runtime({"set_local_devices": devices}))
    _known_client = weakref.ref(client)
    _generation += 1
    _with_unique_id.clear()


def _xla_lends_communicators() -> bool:
    return os.environ.get(COMMUNICATOR_VARIABLE) != "own" and jax.__version_info__ >= _LENDING_JAX


def _share_unique_id(grid: Grid) -> None:
    """Registers one unique id for these devices in all processes: that of the first device makes it."""
    device_ids = tuple(int(number) for number in grid.device_ids)
    if device_ids in _with_unique_id:
        return
    store = _key_value_store()
    key = f"meshsolve/unique_id/{_generation}/{','.join(map(str, device_ids))}"
    if grid.mesh.devices.flat[0].process_index == jax.process_index():
        # A failure is published as well, so that all processes raise the same error.
        reply = _native.runtime("new_unique_id")
        store.key_value_set(key, reply)
    else:
        try:
            reply = store.blocking_key_value_get(key, _PATIENCE_MS)
        except RuntimeError as error:
            raise RuntimeError(
                f"process {jax.process_index()} waited {_PATIENCE_MS // 1000} s for process "
                f"{grid.mesh.devices.flat[0].process_index} to prepare a communicator among the devices "
                f"{device_ids}: every process of the mesh has to run the same program. In full: {error}"
            ) from error
    unique_id = _native.checked(reply)["id"]
    _native.checked(_native.runtime({"register_unique_id": {"device_ids": device_ids, "id": unique_id}}))
    _with_unique_id.add(device_ids)


def _key_value_store() -> Any:
    """The store that all processes of a JAX program share."""
    try:
        # JAX has no public name for it.
        from jax._src.distributed import global_state

        store = global_state.client
    except (ImportError, AttributeError):
        store = None
    if not (hasattr(store, "key_value_set") and hasattr(store, "blocking_key_value_get")):
        raise RuntimeError(
            "meshsolve needs a communicator of its own here, but cannot reach the other processes: JAX "
            f"{jax.__version__} offers no key-value store. Call jax.distributed.initialize first; or use JAX "
            f"{'.'.join(map(str, _LENDING_JAX))} or later without {COMMUNICATOR_VARIABLE}=own: XLA lends "
            "its communicator there"
        )
    return store
