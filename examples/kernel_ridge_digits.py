"""Kernel ridge regression on handwritten digits, its kernel matrix sharded over simulated devices.

Learns to tell the ten digits of the set that ships inside scikit-learn: solves (K + λ I) W = Y, where K is
the RBF kernel matrix of the training pictures, sharded 2 x 2 over four CPU devices, and Y holds one column
per digit. Prints sharding, plan, time per phase, residual, accuracy on pictures held out, and agreement with
a dense solve. Exits with an error if one of these is not as good as it should be.

    python examples/kernel_ridge_digits.py
"""

from __future__ import annotations

import argparse
import os
import sys

# Both are read when JAX starts its CPU client, so they are set before the import.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4".strip()
)
os.environ.setdefault("NPROC", "64")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
import scipy.linalg
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from report import bounded, print_sharding, timed, verdict
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

GRID = (2, 2)
RIDGE = 1e-2
MIN_ACCURACY = 0.97


def rbf_kernel(left: jax.Array, right: jax.Array, gamma: float) -> jax.Array:
    """exp(-gamma |l - r|²) for all pairs of rows."""
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    return jnp.exp(-gamma * jnp.maximum(squares, 0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile", type=int, default=None, help="edge of the solver's tiles (default: chosen)")
    parser.add_argument("--train", type=int, default=1400, help="number of training pictures, even")
    options = parser.parse_args()
    if options.train % GRID[0] or options.train % GRID[1]:
        parser.error(
            f"--train must be a multiple of {GRID[0]} and {GRID[1]} to be sharded: got {options.train}"
        )

    jax.config.update("jax_enable_x64", True)  # this program's own choice
    mesh = Mesh(np.array(jax.devices()[: GRID[0] * GRID[1]]).reshape(GRID), ("rows", "columns"))
    by_blocks = NamedSharding(mesh, PartitionSpec("rows", "columns"))
    by_rows = NamedSharding(mesh, PartitionSpec("rows"))

    pictures, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        pictures / 16, digits, train_size=options.train, random_state=0, stratify=digits
    )
    gamma = 1 / (train_x.shape[1] * train_x.var())
    targets = jax.device_put(np.eye(10)[train_y], by_rows)

    def ridge_matrix(x: jax.Array) -> jax.Array:
        kernel = rbf_kernel(x, x, gamma) + RIDGE * jnp.eye(len(x))
        return (kernel + kernel.T) / 2  # rounding leaves the two triangles apart in the last digit

    def solve(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return meshsolve.potrs(a, b, options.tile, return_logdet=True, return_status=True)

    def solve_densely(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return scipy.linalg.cho_solve(scipy.linalg.cho_factor(a, lower=True), b)

    print(f"{len(train_x)} pictures to learn from, {len(test_x)} held out; float64\n\ntime per phase")
    matrix = timed("kernel matrix, built sharded", jax.jit(ridge_matrix, out_shardings=by_blocks), train_x)
    plan = timed("plan", lambda: meshsolve.plan(matrix, targets, options.tile, return_logdet=True))
    timed("Cholesky solve, first call (compiles)", solve, matrix, targets)
    weights, log_det, status = timed("Cholesky solve", solve, matrix, targets)
    predict = jax.jit(lambda x, w: rbf_kernel(x, train_x, gamma) @ w)
    scores = timed("prediction of the pictures held out", predict, test_x, weights)
    a, b = np.asarray(matrix), np.asarray(targets)
    dense = timed("dense solve by SciPy, one device", solve_densely, a, b)

    print("\nsharding")
    print_sharding("kernel matrix", matrix)
    print_sharding("right-hand sides", targets)
    print_sharding("solution", weights)
    print(f"\nplan\n{plan.explain().rstrip()}\n\nresults")
    accuracy = float((np.asarray(scores).argmax(1) == test_y).mean())
    passed = [
        verdict("status of the solve", meshsolve.describe_status(status), int(status) == 0),
        *compare(a, np.asarray(weights), b, float(log_det), dense),
        verdict(
            "accuracy on pictures held out",
            f"{accuracy:.4f}, needed at least {MIN_ACCURACY}",
            accuracy >= MIN_ACCURACY,
        ),
    ]
    return 0 if all(passed) else 1


def compare(a: np.ndarray, x: np.ndarray, b: np.ndarray, log_det: float, dense_x: np.ndarray) -> list[bool]:
    """Holds the solution and the log determinant against a dense solve; all in double precision."""
    n, epsilon = len(a), np.finfo(np.float64).eps
    residual = np.linalg.norm(b - a @ x, 1) / (np.linalg.norm(a, 1) * np.linalg.norm(x, 1))
    difference = np.linalg.norm(x - dense_x, 1) / np.linalg.norm(dense_x, 1)
    log_det_difference = abs(log_det - np.linalg.slogdet(a)[1])
    # No eigenvalue is below the ridge. Two backward stable solutions may differ by the condition number
    # times the rounding of each.
    condition = np.linalg.norm(a, 2) / RIDGE
    return [
        bounded("residual |Y - K W| / (|K| |W|)", residual, np.sqrt(n) * epsilon),
        bounded("difference from the dense solve, relative", difference, condition * epsilon),
        bounded("log det, difference from slogdet", log_det_difference, 10 * epsilon * (n + abs(log_det))),
    ]


if __name__ == "__main__":
    sys.exit(main())
