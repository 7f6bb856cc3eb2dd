"""Times a solve, or an eigenproblem, on GPUs side by side with others: a table, and lines of CSV.

    python benches/gpu/solve.py --sizes 8192 16384 --one-gpu             # one process, all GPUs
    python benches/gpu/solve.py --rank 0 --nprocs 2 --port 12345 --peer & \\
    python benches/gpu/solve.py --rank 1 --nprocs 2 --port 12345 --peer   # one process per GPU

All contenders solve the same system with one right-hand side, nothing donated, in turns: exp(−10·|i−j|/n) + I
by Cholesky factors (``--routine potrs``), a Gaussian matrix by LU factors (``--routine lu_solve``). Such
matrices are full, and so are their factors in any order of the rows: a GPU is faster on zeros. With
``--routine syevd`` they find the eigenvalues of the Hermitian part of a Gaussian matrix, and the eigenvectors
unless ``--values`` says not to.
A figure is the median of at least 10 solves, of 3 where a solve takes more than a second, after two to warm
up. Each contender that has tiles is taken with every tile asked for. Process 0 prints and writes.

cuSOLVERMp may refuse a second handle in a process, and meshsolve keeps its own; if the peer fails for that,
let programs take turns, which put their times together in one file:

    for turn in 1 2 3; do ... --raw times.jsonl; ... --raw times.jsonl --peer --no-ours; done
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
from jax.experimental import multihost_utils
from jax.scipy.linalg import cho_factor, cho_solve
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from meshsolve import _gpus

DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
SPEC = PartitionSpec("rows", "columns")
HEADER = (
    "date,hardware,versions,commit,bench,case,dtype,m,n,tile,grid,processes,value,unit,reference,"
    "reference_value,ratio\n"
)
ONE_GPU = "jax-1gpu"
ROUTINES = ("potrs", "lu_solve", "syevd")
#: Arrays of the size of the matrix that JAX's own solver holds at a time on its GPU.
ONE_GPU_COPIES = {"potrs": 4, "lu_solve": 4, "syevd": 6}

#: What solves: from a and b to x, or from a to eigenvalues, or to these and eigenvectors.
Solve = Callable[..., Any]


@dataclass
class Contender:
    """One way to solve.

    Attributes:
        name: who solves: ``meshsolve``, or the name of a reference.
        case: ``jit`` or ``eager``.
        tile: edge of the tiles; None if there are none.
        solve: what it does; None if it was measured by another program.
        seconds: what was measured.
        failure: why it cannot take part, if so.
    """

    name: str
    case: str
    tile: int | None
    solve: Solve | None
    seconds: list[float] = field(default_factory=list)
    failure: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


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
    mesh = make_mesh(arguments.grid)
    lines = []
    for n in arguments.sizes:
        contenders = measure(n, mesh, arguments)
        if arguments.rank == 0:
            if arguments.raw:
                contenders = with_earlier_times(n, contenders, arguments)
            print_table(n, contenders)
            lines += csv_lines(n, contenders, arguments)
    if arguments.csv and arguments.rank == 0:
        write_csv(arguments.csv, lines)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--routine", choices=ROUTINES, default="potrs")
    parser.add_argument("--values", action="store_true", help="of syevd the eigenvalues alone")
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192, 16384, 32768])
    parser.add_argument("--tiles", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--dtype", choices=DTYPES, default="f64")
    parser.add_argument("--grid", help="process rows x process columns; default: 1 x all devices")
    parser.add_argument("--rank", type=int, default=0, help="number of this process")
    parser.add_argument("--nprocs", type=int, default=1, help="number of processes, one per GPU")
    parser.add_argument("--port", type=int, default=12345, help="port at which the processes meet")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="append the results to this file")
    parser.add_argument(
        "--raw", type=Path, metavar="FILE", help="append the times to this file, take in its own"
    )
    parser.add_argument("--commit", help="name of the commit in the CSV; default: git's")
    parser.add_argument("--peer", action="store_true", help="also JAXMg, if installed; needs --nprocs")
    parser.add_argument("--no-ours", action="store_true", help="without meshsolve")
    parser.add_argument("--one-gpu", action="store_true", help="also JAX's own solver on one GPU, if it fits")
    parser.add_argument("--allow-cpu", action="store_true", help="run without GPUs, to try this file itself")
    return parser.parse_args()


def make_mesh(grid: str | None) -> Mesh:
    devices = jax.devices()
    rows, columns = map(int, grid.split("x")) if grid else (1, len(devices))
    if rows * columns != len(devices):
        raise SystemExit(f"--grid {grid} needs {rows * columns} devices; JAX has {len(devices)}")
    # The peer wants Auto axes and the devices in order.
    return Mesh(np.array(devices).reshape(rows, columns), SPEC, axis_types=(AxisType.Auto,) * 2)


# ---- the contenders ----


def measure(n: int, mesh: Mesh, arguments: argparse.Namespace) -> list[Contender]:
    """Every contender with its times for this size, those that failed included."""
    dtype = DTYPES[arguments.dtype]
    on_mesh = NamedSharding(mesh, SPEC), NamedSharding(mesh, PartitionSpec())
    given = problem(arguments.routine, n, dtype, *on_mesh)
    contenders = [] if arguments.no_ours else ours(given, mesh, arguments)
    if arguments.peer:
        contenders += peers(mesh, arguments)
    run(contenders, given, agree_among_processes)
    del given
    if arguments.one_gpu:
        # By itself: the other processes have no part in it, and memory is short beside the others.
        contenders += one_gpu(n, dtype, arguments)
    return contenders


def problem(routine: str, n: int, dtype: type, *shardings: jax.sharding.Sharding) -> tuple[jax.Array, ...]:
    """What the routine is given, made where it lies: a and b, or a alone."""
    if routine != "syevd":
        return system(routine, n, dtype, *shardings)

    def build(seed: jax.Array) -> jax.Array:
        a = jax.random.normal(jax.random.key(seed), (n, n), np.finfo(dtype).dtype)
        return ((a + a.T) / 2).astype(dtype)

    return (jax.jit(build, out_shardings=shardings[0])(n),)


def system(
    routine: str, n: int, dtype: type, a_sharding: jax.sharding.Sharding, b_sharding: jax.sharding.Sharding
) -> tuple[jax.Array, jax.Array]:
    """The matrix and a right-hand side (n, 1), made where they lie."""
    real = np.finfo(dtype).dtype.type

    def build(length: jax.Array) -> tuple[jax.Array, jax.Array]:
        i = jnp.arange(n, dtype=real)
        if routine == "potrs":
            distance = jnp.abs(i[:, None] - i)
            a = jnp.exp(-distance / length) + jnp.where(distance == 0, 1, 0)
        else:
            a = jax.random.normal(jax.random.key(n), (n, n), real)
        return a.astype(dtype), (i[:, None] + 1).astype(dtype)

    # The length is an argument so that the compiler cannot compute the matrix beforehand.
    return jax.jit(build, out_shardings=(a_sharding, b_sharding))(real(n / 10))


def ours(given: tuple[jax.Array, ...], mesh: Mesh, arguments: argparse.Namespace) -> list[Contender]:
    task = "solve" if arguments.routine != "syevd" else "eigvalsh" if arguments.values else "eigh"
    chosen = meshsolve.plan(*given, task=task).tile
    found = []
    for tile in (None, *arguments.tiles):
        if tile == chosen:
            continue
        solve = partial(
            getattr(meshsolve, arguments.routine), T_A=tile, mesh=mesh, matrix_specs=SPEC, **wanted(arguments)
        )
        label = chosen if tile is None else tile
        found.append(Contender("meshsolve", "jit", label, jax.jit(solve)))
        found.append(Contender("meshsolve", "eager", label, solve))
    return found


def wanted(arguments: argparse.Namespace) -> dict[str, bool]:
    """The option of syevd that has the same name everywhere but in JAX."""
    return {"return_eigenvectors": not arguments.values} if arguments.routine == "syevd" else {}


def peers(mesh: Mesh, arguments: argparse.Namespace) -> list[Contender]:
    if arguments.nprocs != mesh.size:
        print("JAXMg is left out: it needs one process per GPU (--nprocs)")
        return []
    if importlib.util.find_spec("jaxmg") is None:
        print("JAXMg is left out: it is not installed")
        return []
    import jaxmg

    name = f"jaxmg-{metadata.version('jaxmg')}"
    found = []
    for tile in arguments.tiles:
        solve = partial(
            getattr(jaxmg, arguments.routine),
            T_A=tile,
            mesh=mesh,
            matrix_specs=SPEC,
            donate=False,
            **wanted(arguments),
        )
        found.append(Contender(name, "jit", tile, jax.jit(solve)))
        found.append(Contender(name, "eager", tile, solve))
    return found


def one_gpu(n: int, dtype: type, arguments: argparse.Namespace) -> list[Contender]:
    """JAX's own solver on the first GPU of process 0, while the others wait."""
    device = jax.local_devices()[0]
    free = (device.memory_stats() or {}).get("bytes_limit", 0)
    needed = ONE_GPU_COPIES[arguments.routine] * n * n * np.dtype(dtype).itemsize
    contenders = []
    if jax.process_index() == 0 and (needed <= free or device.platform == "cpu"):
        here = jax.sharding.SingleDeviceSharding(device)
        solves = {
            "potrs": lambda a, b: cho_solve(cho_factor(a, lower=True), b),
            "lu_solve": jnp.linalg.solve,
            "syevd": jnp.linalg.eigvalsh if arguments.values else jnp.linalg.eigh,
        }
        contenders = [Contender(ONE_GPU, "jit", None, jax.jit(solves[arguments.routine]))]
        run(contenders, problem(arguments.routine, n, dtype, here, here), agree=lambda value: value)
    elif jax.process_index() == 0:
        print(f"n = {n} is left out on one GPU: it needs about {needed / 1e9:.0f} GB")
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"one GPU {n}")
    return contenders


# ---- measuring ----


def agree_among_processes(value: float) -> float:
    """The value that process 0 has: all must do the same number of solves."""
    if jax.process_count() == 1:
        return value
    return float(multihost_utils.broadcast_one_to_all(np.float64(value)))


def run(contenders: list[Contender], given: tuple[jax.Array, ...], agree: Callable[[float], float]) -> None:
    """Checks and warms up each contender, then lets them solve in turns."""
    rounds = {}
    for number, contender in enumerate(contenders):
        try:
            check_result(given, contender.solve(*given))
            rounds[number] = 3 if agree(timed(contender, given)) > 1 else 10
        except Exception as error:
            contender.failure = f"{type(error).__name__}: {error}"
    for turn in range(max(rounds.values(), default=0)):
        for number, contender in enumerate(contenders):
            if turn < rounds.get(number, 0):
                contender.seconds.append(timed(contender, given))


def timed(contender: Contender, given: tuple[jax.Array, ...]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(contender.solve(*given))
    return time.perf_counter() - start


@jax.jit
def residual(a: jax.Array, x: jax.Array, b: jax.Array) -> jax.Array:
    """‖b − a x‖₁ / (‖a‖₁ ‖x‖₁)."""
    return one_norm(b - jnp.matmul(a, x, precision="highest")) / (one_norm(a) * one_norm(x))


def check(a: jax.Array, x: jax.Array, b: jax.Array) -> None:
    """A wrong answer has no time."""
    bound = 10 * a.shape[0] ** 0.5 * float(jnp.finfo(a.dtype).eps)
    got = float(residual(a, x, b))
    assert got <= bound, f"residual {got:.2e}, needed ≤ {bound:.2e}"


def check_result(given: tuple[jax.Array, ...], result: Any) -> None:
    """The same for any routine."""
    if len(given) == 2:
        check(given[0], result, given[1])
    elif isinstance(result, tuple):
        check_eigenpairs(*given, *result)
    else:
        check_eigenvalues(*given, result)


def check_eigenpairs(a: jax.Array, w: jax.Array, v: jax.Array) -> None:
    """By the residual and by how far the vectors are from orthonormal."""
    bound = 10 * a.shape[0] ** 0.5 * float(jnp.finfo(a.dtype).eps)
    got, off = map(float, eigen_errors(a, w, v))
    assert got <= bound, f"residual {got:.2e}, needed ≤ {bound:.2e}"
    assert off <= bound, f"|I − vᴴ v| = {off:.2e}, needed ≤ {bound:.2e}"


@jax.jit
def eigen_errors(a: jax.Array, w: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """‖a v − v w‖₁ / ‖a‖₁, and the largest |I − vᴴ v|."""
    off = jnp.eye(len(a), dtype=a.dtype) - jnp.matmul(v.conj().T, v, precision="highest")
    return one_norm(jnp.matmul(a, v, precision="highest") - v * w) / one_norm(a), jnp.abs(off).max()


def check_eigenvalues(a: jax.Array, w: jax.Array) -> None:
    """By what is known of them all together: their order, their sum, and the sum of their squares."""
    bound = 10 * a.shape[0] ** 0.5 * float(jnp.finfo(a.dtype).eps)
    trace, squares, ascending = eigenvalue_errors(a, w)
    assert bool(ascending), "the eigenvalues are not in order"
    assert float(trace) <= bound, f"sum of the eigenvalues: off by {float(trace):.2e}, needed ≤ {bound:.2e}"
    assert float(squares) <= bound, f"sum of their squares: off by {float(squares):.2e}, needed ≤ {bound:.2e}"


@jax.jit
def eigenvalue_errors(a: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """How far the sum is from the trace, over n ‖w‖∞, that of the squares from ‖a‖F², relative; the order."""
    squares = (jnp.abs(a) ** 2).sum()
    off = jnp.abs(w.sum() - jnp.trace(a)) / (len(w) * jnp.abs(w).max())
    return off, jnp.abs((w**2).sum() - squares) / squares, (jnp.diff(w) >= 0).all()


def one_norm(matrix: jax.Array) -> jax.Array:
    return jnp.abs(matrix).sum(axis=0).max()


# ---- reporting ----


def with_earlier_times(n: int, contenders: list[Contender], arguments: argparse.Namespace) -> list[Contender]:
    """Adds what was measured to the file of times, and takes in what it holds of the same problem."""
    measured = [bench_name(arguments), n, arguments.dtype, grid_name(arguments), arguments.nprocs]
    arguments.raw.parent.mkdir(parents=True, exist_ok=True)
    arguments.raw.touch()
    known = {(contender.name, contender.case, contender.tile): contender for contender in contenders}
    fresh = [[measured, *key, contender.seconds] for key, contender in known.items() if contender.seconds]
    for line in arguments.raw.read_text().splitlines():
        of, name, case, tile, seconds = json.loads(line)
        if of == measured:
            contender = known.setdefault((name, case, tile), Contender(name, case, tile, None))
            contender.seconds = seconds + contender.seconds
    with arguments.raw.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in fresh)
    return list(known.values())


def bench_name(arguments: argparse.Namespace) -> str:
    """The routine, as the results name it."""
    return ("eigvalsh" if arguments.values else "eigh") if arguments.routine == "syevd" else arguments.routine


def grid_name(arguments: argparse.Namespace) -> str:
    return arguments.grid or f"1x{jax.device_count()}"


def best(contenders: list[Contender], name: str, case: str | None = None) -> Contender | None:
    """The fastest one of this name."""
    found = [c for c in contenders if c.name == name and c.seconds and case in (None, c.case)]
    return min(found, key=lambda contender: contender.median, default=None)


def references(contenders: list[Contender], case: str) -> list[Contender]:
    """The fastest one of each reference, in the same case where it has that."""
    names = dict.fromkeys(contender.name for contender in contenders if contender.name != "meshsolve")
    found = [best(contenders, name, case) or best(contenders, name) for name in names]
    return [contender for contender in found if contender is not None]


def print_table(n: int, contenders: list[Contender]) -> None:
    print(f"\nn = {n}")
    print(f"{'solver':<14}{'case':<7}{'tile':>6}{'median s':>11}{'min s':>10}{'solves':>8}")
    for contender in contenders:
        start = f"{contender.name:<14}{contender.case:<7}{contender.tile or '':>6}"
        if contender.failure is not None:
            print(f"{start}  failed: {contender.failure[:300]}")
        if contender.seconds:
            fastest = min(contender.seconds)
            print(f"{start}{contender.median:>11.5f}{fastest:>10.5f}{len(contender.seconds):>8}")
    for case in ("jit", "eager"):
        mine = best(contenders, "meshsolve", case)
        for reference in references(contenders, case) if mine else ():
            print(
                f"best, {case}: meshsolve {mine.median:.5f} s (tile {mine.tile}); {reference.name} "
                f"{reference.case} {reference.median:.5f} s (tile {reference.tile or 'none'}): "
                f"{reference.median / mine.median:.2f} times as long"
            )
    sys.stdout.flush()


def csv_lines(n: int, contenders: list[Contender], arguments: argparse.Namespace) -> list[list[str]]:
    start = row_start(arguments, bench_name(arguments))
    grid = grid_name(arguments)
    processes = "1p" if arguments.nprocs == 1 else "np"
    lines = []
    for mine in contenders:
        if mine.name != "meshsolve" or not mine.seconds:
            continue
        row = [
            *start,
            mine.case,
            arguments.dtype,
            n,
            n,
            mine.tile,
            grid,
            processes,
            f"{mine.median:.6g}",
            "s",
        ]
        against = [
            [other.name, f"{other.median:.6g}", f"{mine.median / other.median:.4g}"]
            for other in references(contenders, mine.case)
        ]
        lines += [[str(cell) for cell in row + end] for end in against or [["", "", ""]]]
    return lines


def row_start(arguments: argparse.Namespace, bench: str) -> list[str]:
    """The first cells of a line of CSV."""
    return [
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        versions(),
        arguments.commit or current_commit(),
        bench,
    ]


def versions() -> str:
    known = [f"meshsolve {meshsolve.__version__}", f"jax {jax.__version__}"]
    if jax.default_backend() != "cpu":
        known += [f"{library['name']} {library['version'] or '?'}" for library in _gpus.libraries()]
    return "; ".join(known)


def current_commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()


def write_csv(path: Path, lines: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists() or path.stat().st_size == 0
    with path.open("a", newline="") as file:
        if is_new:
            file.write(HEADER)
        csv.writer(file, lineterminator="\n").writerows(lines)


if __name__ == "__main__":
    sys.exit(main())
