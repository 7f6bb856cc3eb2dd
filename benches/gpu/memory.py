"""Device memory of a donated Cholesky solve beyond A and b: the measured peak beside the plan's.

    python benches/gpu/memory.py --n 100000                                # one process, all GPUs
    python benches/gpu/memory.py --n 100000 --rank 0 --nprocs 2 --port 12345 & \\
    python benches/gpu/memory.py --n 100000 --rank 1 --nprocs 2 --port 12345

One solve in a process of its own, because JAX's record of the peak is never reset. The plan counts what it
passes to the solver and its own scratch; what is above is the solver's workspace. The same matrix is built
again afterwards to check the solution, then solved `--repeats` times for the time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import jax
import meshsolve
from jax.sharding import NamedSharding, PartitionSpec
from solve import DTYPES, SPEC, check, make_mesh, system


def main() -> int:
    arguments = parse()
    jax.config.update("jax_enable_x64", True)
    if arguments.nprocs > 1:
        jax.distributed.initialize(
            f"127.0.0.1:{arguments.port}", arguments.nprocs, arguments.rank, local_device_ids=[arguments.rank]
        )
    if jax.default_backend() == "cpu":
        print("skipped: JAX finds no GPU here")
        return 77
    n, mesh = arguments.n, make_mesh(arguments.grid)
    shardings = NamedSharding(mesh, SPEC), NamedSharding(mesh, PartitionSpec())
    device = jax.local_devices()[0]

    def build() -> tuple[jax.Array, jax.Array]:
        return jax.block_until_ready(system("potrs", n, DTYPES[arguments.dtype], *shardings))

    a, b = build()
    plan = meshsolve.plan(a, b, arguments.tile, donate=True)
    before = device.memory_stats()
    x = meshsolve.potrs(a, b, arguments.tile, donate=True).block_until_ready()
    after = device.memory_stats()
    planned = plan.bytes_per_device - sum(operand.nbytes for operand in plan.inputs)
    if arguments.rank == 0:
        print(plan.explain())
        held, peak = before["bytes_in_use"], after["peak_bytes_in_use"]
        for what, bytes_held in (
            ("A and b", held),
            ("peak before the solve", before["peak_bytes_in_use"]),
            ("peak with the solve", peak),
            ("beyond A and b", peak - held),
            ("the plan's results and scratch", planned),
        ):
            print(f"{what:<32}{bytes_held / 1e9:10.4f} GB", flush=True)
    a, b = build()
    check(a, x, b)
    seconds = []
    for _ in range(arguments.repeats):
        start = time.perf_counter()
        meshsolve.potrs(a, b, arguments.tile, donate=True).block_until_ready()
        seconds.append(time.perf_counter() - start)
        a, b = build()
    if arguments.rank == 0:
        print(f"solution right; median of {len(seconds)} solves: {statistics.median(seconds):.4f} s")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--dtype", choices=DTYPES, default="f64")
    parser.add_argument("--tile", type=int)
    parser.add_argument("--grid", help="process rows x process columns; default: 1 x all devices")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rank", type=int, default=0, help="number of this process")
    parser.add_argument("--nprocs", type=int, default=1, help="number of processes, one per GPU")
    parser.add_argument("--port", type=int, default=12345, help="port at which the processes meet")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
