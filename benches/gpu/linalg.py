"""Times the routines beside the solves on GPUs: a table, and lines of CSV.

    python benches/gpu/linalg.py --n 16384                                # one process, all GPUs
    python benches/gpu/linalg.py --rank 0 --nprocs 2 & \\
    python benches/gpu/linalg.py --rank 1 --nprocs 2                      # one process per GPU

Besides each routine's time: that of JAX's own on one GPU (process 0), and of what a redistribution to the
block-cyclic distribution and back takes at the same tile, which is what `cholesky` moves; the other routines
move less, and of eigenproblems it is a small share. Of the reusable factors: 100 solves against one
factorisation. Medians of 5 calls under jit, after two to warm up; every result is checked.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import solve as bench
from jax.sharding import NamedSharding, PartitionSpec
from meshsolve import linalg, redistribute

REPEATS = 5


def main() -> int:
    arguments = parse()
    jax.config.update("jax_enable_x64", True)
    if arguments.nprocs > 1:
        jax.distributed.initialize(
            f"127.0.0.1:{arguments.port}", arguments.nprocs, arguments.rank, local_device_ids=[arguments.rank]
        )
    if jax.default_backend() == "cpu" and not arguments.allow_cpu:
        print("skipped: JAX finds no GPU here")
        return 77
    mesh, n, dtype = bench.make_mesh(arguments.grid), arguments.n, bench.DTYPES[arguments.dtype]
    where = {"mesh": mesh, "matrix_specs": bench.SPEC, "tile": arguments.tile}
    on_mesh = NamedSharding(mesh, bench.SPEC), NamedSharding(mesh, PartitionSpec())

    def report(name: str, case: str, seconds: float, reference: str = "", other: float | None = None) -> None:
        against = "" if other is None else f"; {reference} {other:.5f} s: ratio {seconds / other:.4g}"
        if arguments.rank == 0:
            print(f"{name:<18}{case:<10}{seconds:>10.5f} s{against}", flush=True)
        line = [
            *bench.row_start(arguments, name),
            *(case, arguments.dtype, n, n, arguments.tile or "", bench.grid_name(arguments)),
            *("1p" if arguments.nprocs == 1 else "np", f"{seconds:.6g}", "s", reference),
            *(["", ""] if other is None else [f"{other:.6g}", f"{seconds / other:.4g}"]),
        ]
        if arguments.csv and arguments.rank == 0:
            bench.write_csv(arguments.csv, [[str(cell) for cell in line]])

    for kind, assume_a in (("potrs", "pos"), ("lu_solve", "gen")):
        a, b = bench.system(kind, n, dtype, *on_mesh)
        one = one_gpu(kind, n, dtype) if arguments.rank == 0 else {}
        inverse = partial(linalg.inv, assume_a=assume_a, **where)
        factor, apply = {
            "potrs": (linalg.cho_factor, linalg.cho_solve),
            "lu_solve": (linalg.lu_factor, linalg.lu_solve),
        }[kind]
        check_identity(a, jax.jit(inverse)(a))
        seconds = timed(jax.jit(inverse), a)
        report("inv", assume_a, seconds, bench.ONE_GPU, one.get("inv"))
        if kind == "potrs":
            cholesky = jax.jit(partial(linalg.cholesky, **where))
            lower = cholesky(a)
            check(float(jnp.abs(lower @ lower.T - a).max()) <= 1e-11 * n, "L·Lᵀ is not a")
            del lower
            whole = timed(cholesky, a)
            report("cholesky", "jit", whole, bench.ONE_GPU, one.get("cholesky"))
            there_and_back = jax.jit(
                lambda a: redistribute(redistribute(a, arguments.tile, mesh, bench.SPEC))
            )
            moving = timed(there_and_back, a)
            report("redistribute", "both", moving, "cholesky", whole)
        factor = jax.jit(partial(factor, **where))
        apply = jax.jit(apply)
        kept = factor(a)
        bench.check(a, apply(kept, b), b)
        once = timed(factor, a)
        report(f"{kind}-factor", "jit", once)

        def hundred(b: jax.Array, kept=kept, apply=apply) -> jax.Array:
            for _ in range(100):
                x = apply(kept, b)
            return x

        report(f"{kind}-100", "reused", timed(hundred, b), f"{kind}-factor", once)
        del kept
    eigenproblems(mesh, n, dtype, where, on_mesh, report)
    product(n, dtype, where, on_mesh, report)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=16384)
    parser.add_argument("--tile", type=int)
    parser.add_argument("--dtype", choices=bench.DTYPES, default="f64")
    parser.add_argument("--grid", help="process rows x process columns; default: 1 x all devices")
    parser.add_argument("--rank", type=int, default=0, help="number of this process")
    parser.add_argument("--nprocs", type=int, default=1, help="number of processes, one per GPU")
    parser.add_argument("--port", type=int, default=12345, help="port at which the processes meet")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="append the results to this file")
    parser.add_argument("--commit", help="name of the commit in the CSV; default: git's")
    parser.add_argument("--allow-cpu", action="store_true", help="run without GPUs, to try this file itself")
    return parser.parse_args()


def eigenproblems(mesh, n: int, dtype: type, where: dict, shardings: tuple, report: Callable) -> None:
    """Values, vectors and a solve by them, and what moving the matrix there and back would take of that."""
    (a,) = bench.problem("syevd", n, dtype, *shardings)
    _, b = bench.system("potrs", n, dtype, *shardings)
    one = {}
    if jax.process_index() == 0:
        here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        alone = bench.problem("syevd", n, dtype, here)
        one = {name: timed(jax.jit(getattr(jnp.linalg, name)), *alone) for name in ("eigvalsh", "eigh")}
        del alone
    values = jax.jit(partial(linalg.eigvalsh, **where))
    bench.check_eigenvalues(a, values(a))
    report("eigvalsh", "jit", timed(values, a), bench.ONE_GPU, one.get("eigvalsh"))
    pairs = jax.jit(partial(linalg.eigh, **where))
    bench.check_eigenpairs(a, *pairs(a))
    whole = timed(pairs, a)
    report("eigh", "jit", whole, bench.ONE_GPU, one.get("eigh"))
    solve = jax.jit(partial(linalg.pinvh_solve, **where))
    # None of the eigenvalues is negligible at this cutoff.
    check_right_side(a, solve(a, b, 0.0), b)
    report("pinvh_solve", "jit", timed(solve, a, b, 0.0), "eigh", whole)
    there_and_back = jax.jit(lambda a: redistribute(redistribute(a, where["tile"], mesh, bench.SPEC)))
    report("redistribute", "both", timed(there_and_back, a), "eigh", whole)


def product(n: int, dtype: type, where: dict, shardings: tuple, report: Callable) -> None:
    """Ours beside XLA's own product of the same sharded matrices."""
    a, _ = bench.system("lu_solve", n, dtype, *shardings)
    multiply = jax.jit(partial(linalg.matmul, **where))
    by_xla = jax.jit(partial(jnp.matmul, precision="highest"), out_shardings=shardings[0])
    c, expected = multiply(a, a), by_xla(a, a)
    check(float(jnp.abs(c - expected).max()) <= 1e-11 * n, "the product is not XLA's")
    del c, expected
    report("matmul", "jit", timed(multiply, a, a), "xla", timed(by_xla, a, a))


def one_gpu(kind: str, n: int, dtype: type) -> dict[str, float]:
    here = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    a, _ = bench.system(kind, n, dtype, here, here)
    found = {"inv": timed(jax.jit(jnp.linalg.inv), a)}
    if kind == "potrs":
        found["cholesky"] = timed(jax.jit(jnp.linalg.cholesky), a)
    return found


def timed(function: Callable, *arrays: jax.Array) -> float:
    """The median of some calls."""
    seconds = []
    for turn in range(REPEATS + 2):
        start = time.perf_counter()
        jax.block_until_ready(function(*arrays))
        if turn >= 2:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def check_identity(a: jax.Array, inverse: jax.Array) -> None:
    n = a.shape[0]
    bench.check(a, inverse, jnp.eye(n, dtype=a.dtype))


def check_right_side(a: jax.Array, x: jax.Array, b: jax.Array) -> None:
    """As good as the eigenvalues: ‖b − a x‖₁ / (‖a‖₁ ‖x‖₁) ≤ 100 n ε."""
    n = a.shape[0]
    got = float(bench.residual(a, x, b))
    check(got <= 100 * n * float(jnp.finfo(a.dtype).eps), f"residual {got:.2e}")


def check(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"a wrong answer has no time: {what}")


if __name__ == "__main__":
    sys.exit(main())
