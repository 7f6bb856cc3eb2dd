"""Spectral clustering of handwritten digits, by eigenvectors of a matrix sharded over simulated devices.

Sorts the pictures of the set that ships inside scikit-learn into ten groups without being told the digits:
joins each picture with its nearest ones, takes the eigenvectors of the ten largest eigenvalues of the
normalised adjacency matrix D^-1/2 A D^-1/2, sharded 2 x 2 over four CPU devices, as coordinates, and seeks
clusters of these. Prints sharding, plan, time per phase, residual, agreement with a dense solve, and how well
the groups are the digits. Exits with an error if one of these is not as good as it should be.

    python examples/spectral_clustering_digits.py
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
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

GRID = (2, 2)
GROUPS = 10
NEIGHBOURS = 10
MIN_RAND_INDEX = 0.7


def normalised_adjacency(x: jax.Array) -> jax.Array:
    """D^-1/2 A D^-1/2; A joins two pictures by 1/2 for each that has the other among its nearest."""
    squares = (x**2).sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * x @ x.T
    distances = (distances + distances.T) / 2  # rounding leaves the two triangles apart in the last digit
    # Each picture is the nearest one to itself.
    reach = jnp.sort(distances, axis=1)[:, NEIGHBOURS]
    joined = ((distances <= reach[:, None]) + (distances <= reach[None, :]).astype(x.dtype)) / 2
    scale = 1 / jnp.sqrt(joined.sum(1))
    return joined * (scale[:, None] * scale[None, :])


def clusters(vectors: np.ndarray) -> np.ndarray:
    """The group of each picture, from its row of the eigenvectors."""
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return KMeans(GROUPS, n_init=10, random_state=0).fit_predict(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tile", type=int, default=None, help="edge of the solver's tiles (default: chosen)")
    parser.add_argument("--pictures", type=int, default=1200, help="number of pictures, even")
    options = parser.parse_args()
    n = options.pictures
    if n % GRID[0] or n % GRID[1]:
        parser.error(f"--pictures must be a multiple of {GRID[0]} and {GRID[1]} to be sharded: got {n}")

    jax.config.update("jax_enable_x64", True)  # this program's own choice
    mesh = Mesh(np.array(jax.devices()[: GRID[0] * GRID[1]]).reshape(GRID), ("rows", "columns"))
    by_blocks = NamedSharding(mesh, PartitionSpec("rows", "columns"))
    pictures, digits = load_digits(return_X_y=True)
    pictures, digits = pictures[:n] / 16, digits[:n]

    def largest(a: jax.Array) -> tuple[jax.Array, jax.Array]:
        # One more than there are groups, to see how far the others are.
        return meshsolve.linalg.eigh(a, subset_by_index=(n - GROUPS - 1, n), tile=options.tile)

    print(f"{n} pictures, each joined with its {NEIGHBOURS} nearest; float64\n\ntime per phase")
    build = jax.jit(normalised_adjacency, out_shardings=by_blocks)
    matrix = timed("adjacency matrix, built sharded", build, pictures)
    plan = timed("plan", lambda: meshsolve.plan(matrix, T_A=options.tile, task="eigh"))
    timed("eigenvectors, first call (compiles)", largest, matrix)
    w, v = timed("eigenvectors", largest, matrix)
    a, w, v = np.asarray(matrix), np.asarray(w), np.asarray(v)
    dense_w, dense_v = timed("dense eigenvectors by SciPy, one device", scipy.linalg.eigh, a)
    groups = timed("groups", clusters, v[:, 1:])

    print("\nsharding")
    print_sharding("adjacency matrix", matrix)
    print(f"\nplan\n{plan.explain().rstrip()}\n\nresults")
    rand_index = adjusted_rand_score(digits, groups)
    print(f"       largest eigenvalues: {' '.join(f'{value:.10f}' for value in w[:0:-1])}")
    passed = [
        *compare(a, w, v, dense_w, dense_v),
        verdict(
            "groups, adjusted Rand index with the digits",
            f"{rand_index:.4f}, needed at least {MIN_RAND_INDEX}",
            rand_index >= MIN_RAND_INDEX,
        ),
    ]
    return 0 if all(passed) else 1


def compare(
    a: np.ndarray, w: np.ndarray, v: np.ndarray, dense_w: np.ndarray, dense_v: np.ndarray
) -> list[bool]:
    """Holds the largest eigenvalues and their vectors against a dense solve; all in double precision."""
    n, k = v.shape
    rounding = np.sqrt(n) * np.finfo(np.float64).eps
    norm = np.linalg.norm(a, 1)
    residual = np.linalg.norm(a @ v - v * w, 1) / norm
    off = np.abs(v.T @ v - np.eye(k)).max()
    # The space of the vectors but the first is as certain as its eigenvalues are apart from all others.
    ours, dense = v[:, 1:], dense_v[:, 1 - k :]
    tilted = np.linalg.norm(ours - dense @ (dense.T @ ours), 2)
    return [
        bounded("residual |A V - V W| / |A|", residual, 10 * rounding),
        bounded("largest |I - V^T V|", off, 5 * rounding),
        bounded(
            "eigenvalues, difference from the dense ones",
            np.abs(w - dense_w[-k:]).max(),
            10 * rounding * norm,
        ),
        bounded("sine of the angle to dense eigenvectors", tilted, 10 * rounding * norm / (w[1] - w[0])),
    ]


if __name__ == "__main__":
    sys.exit(main())
