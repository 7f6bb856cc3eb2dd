"""Looks whether this machine can solve, and says what to do where it cannot: ``python -m meshsolve.doctor``.

The exit code is 0 if all is well, else 1.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import _gpus, _native
from ._potrs import potrs
from ._sharding import GPU_PLATFORM, platform_of

_PACKAGES = ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda12-plugin", "meshsolve", "numpy")
_LIBRARY_PACKAGES = "nvidia-nccl-cu13 nvidia-cublasmp-cu13 nvidia-cusolvermp-cu13"
_SOLVE_SIZE = 256


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: what was looked at.
        text: what was found; may be of several lines.
        remedy: what to do about it; None if all is well.
    """

    topic: str
    text: str
    remedy: str | None = None

    def __str__(self) -> str:
        mark = "ok  " if self.remedy is None else "FAIL"
        lines = [f"{mark}  {self.topic}: " + self.text.replace("\n", "\n        ")]
        if self.remedy is not None:
            lines.append(f"        remedy: {self.remedy}")
        return "\n".join(lines)


def examine() -> Iterator[Finding]:
    """Looks at one thing after the other; what needs a thing that failed is left out."""
    yield _versions()
    library = _native_library()
    yield library
    devices, finding = _devices()
    yield finding
    if not devices or library.remedy is not None:
        return
    handlers = _handlers()
    yield handlers
    if handlers.remedy is not None:
        return
    on_gpus = platform_of(Mesh(np.array(devices), ("x",))) == GPU_PLATFORM
    if on_gpus:
        absent = _missing_libraries()
        if absent is not None:
            yield absent
            return
        if len(devices) > 1:
            yield _peer_access([device.local_hardware_id for device in devices])
    yield _solve(devices)
    if on_gpus:
        # After the solve: cuSOLVERMp tells its version only then.
        yield _libraries()


def main() -> int:
    """Prints every finding and returns the exit code."""
    failures = 0
    for finding in examine():
        failures += finding.remedy is not None
        sys.stdout.write(f"{finding}\n")
        sys.stdout.flush()
    sys.stdout.write("all is well\n" if not failures else f"failures: {failures}\n")
    return min(failures, 1)


def _versions() -> Finding:
    known = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            known.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return Finding("versions", ", ".join(known))


def _native_library() -> Finding:
    try:
        library = _native.library()
    except (ImportError, OSError, AttributeError) as error:
        return Finding("native library", str(error), "install meshsolve again: pip install ./xla-ffi")
    return Finding("native library", f"{library._name}, version {_native.version()}")


def _devices() -> tuple[list[jax.Device], Finding]:
    """The devices to solve on, and what is to be said of them."""
    try:
        devices = jax.local_devices()
    except RuntimeError as error:
        return [], Finding(
            "devices",
            f"JAX finds none: {error}",
            "look whether nvidia-smi works, and install the GPU plugin of JAX for its driver: "
            'pip install "jax[cuda13]"; or set JAX_PLATFORMS=cpu to do without GPUs',
        )
    kinds = sorted({f"{device.device_kind} ({device.platform})" for device in devices})
    text = f"{len(devices)} x {', '.join(kinds)}"
    if devices[0].platform != "cpu":
        return devices, Finding("devices", text)
    present = _gpus_of_driver()
    if present and "cpu" not in os.environ.get("JAX_PLATFORMS", "").split(","):
        return devices, Finding(
            "devices",
            f"{text}, but the NVIDIA driver knows {present} GPU(s) that JAX does not use",
            'install the GPU plugin of JAX: pip install "jax[cuda13]" (driver 580 or later)',
        )
    return devices, Finding("devices", f"{text}: CPU only, no GPU is looked at")


def _handlers() -> Finding:
    try:
        platforms = _native.register_handlers()
    except (RuntimeError, ValueError, TypeError) as error:
        return Finding(
            "handlers",
            f"JAX does not take them: {error}",
            "use JAX 0.6.1 or later, or the meshsolve that fits this JAX",
        )
    return Finding("handlers", f"registered for {', '.join(sorted(platforms))}")


def _missing_libraries() -> Finding | None:
    try:
        _gpus.libraries()
    except (RuntimeError, ValueError) as error:
        folders = ", ".join(_gpus.library_folders()) or "none on sys.path"
        return Finding(
            "libraries",
            f"{error}\nfolders with packages of NVIDIA: {folders}",
            f"pip install --upgrade {_LIBRARY_PACKAGES}",
        )
    return None


def _libraries() -> Finding:
    lines = [
        f"{library['name']} {library['version'] or '(version unknown)'}: {library['path']}"
        for library in _gpus.libraries()
    ]
    return Finding("libraries", "\n".join(lines))


def _peer_access(ordinals: list[int]) -> Finding:
    """Whether each GPU reaches the memory of each other one. Where not, all works, through the host."""
    pairs = [(a, b) for a in ordinals for b in ordinals if a != b]
    without = [pair for pair in pairs if not _can_access_peer(*pair)]
    if not without:
        return Finding("peer access", f"between all of the GPUs {ordinals}")
    return Finding("peer access", f"not from, to: {without}. Solves work, but data goes through the host")


def _solve(devices: list[jax.Device]) -> Finding:
    """One small system on all devices, as far as they divide its size."""
    count = max(count for count in range(1, len(devices) + 1) if _SOLVE_SIZE % count == 0)
    mesh = Mesh(np.array(devices[:count]).reshape(1, count), ("rows", "columns"))
    distance = np.abs(np.arange(_SOLVE_SIZE)[:, None] - np.arange(_SOLVE_SIZE))
    a = (np.exp(-distance / 10) + np.eye(_SOLVE_SIZE)).astype(np.float32)
    b = np.arange(1, _SOLVE_SIZE + 1, dtype=np.float32)
    topic = f"solve of n = {_SOLVE_SIZE}, float32, on a 1 x {count} grid"
    try:
        on_mesh = jax.device_put(a, NamedSharding(mesh, PartitionSpec("rows", "columns")))
        x, status = potrs(on_mesh, b, return_status=True)
        x, status = np.asarray(x, np.float64), int(status)
    except (RuntimeError, ValueError, MemoryError, NotImplementedError) as error:
        return Finding(
            topic,
            str(error),
            f"if NCCL is at fault, NCCL_DEBUG=INFO says more, and {_gpus.COMMUNICATOR_VARIABLE}=own does "
            "without the communicator of XLA; else report this output",
        )
    one_norm = np.abs(a).sum(axis=0).max()
    residual = np.abs(b - a.astype(np.float64) @ x).sum() / (one_norm * np.abs(x).sum())
    # Written so that NaN fails.
    if status == 0 and residual <= np.sqrt(_SOLVE_SIZE) * np.finfo(np.float32).eps:
        return Finding(topic, f"residual {residual:.1e}")
    return Finding(topic, f"wrong: status {status}, residual {residual:.1e}", "report this output")


def _driver() -> ctypes.CDLL | None:
    """The NVIDIA driver, if there is one that works."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def _gpus_of_driver() -> int:
    driver, count = _driver(), ctypes.c_int()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def _can_access_peer(ordinal: int, peer: int) -> bool:
    driver = _driver()
    if driver is None:
        return False
    devices = [ctypes.c_int(), ctypes.c_int()]
    for device, number in zip(devices, (ordinal, peer), strict=True):
        if driver.cuDeviceGet(ctypes.byref(device), number) != 0:
            return False
    answer = ctypes.c_int()
    return driver.cuDeviceCanAccessPeer(ctypes.byref(answer), *devices) == 0 and answer.value != 0


if __name__ == "__main__":
    sys.exit(main())
