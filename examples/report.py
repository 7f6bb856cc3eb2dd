"""What the examples print: times, shardings, and figures that have to be good enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax


def timed(phase: str, function: Callable[..., Any], *args: Any) -> Any:
    """Runs one phase to its end and prints how long it took, compilation included."""
    start = time.perf_counter()
    result = jax.block_until_ready(function(*args))
    print(f"  {phase:<42} {time.perf_counter() - start:8.3f} s")
    return result


def print_sharding(name: str, array: jax.Array) -> None:
    """Prints which device holds which rows and columns."""
    print(f"  {name} {array.shape}, {array.sharding.spec}")
    for shard in array.addressable_shards:
        rows, columns = (part.indices(size) for part, size in zip(shard.index, array.shape, strict=True))
        print(f"    device {shard.device.id}: rows {rows[0]}:{rows[1]}, columns {columns[0]}:{columns[1]}")


def bounded(what: str, value: float, bound: float) -> bool:
    """Prints a figure that must not exceed a bound; NaN exceeds every bound."""
    return verdict(what, f"{value:.3g}, needed at most {bound:.3g}", bool(value <= bound))


def verdict(what: str, figure: str, passed: bool) -> bool:
    """Prints one line of the results and hands the verdict on."""
    print(f"  {'ok  ' if passed else 'FAIL'} {what:<44} {figure}")
    return passed
