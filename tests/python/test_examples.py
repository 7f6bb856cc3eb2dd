"""The example of eigenvectors, whose figures are computed anew with NumPy and scikit-learn."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES = 400


def run(example: str, *options: str) -> str:
    """What an example prints; it sees to its devices by itself."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, str(EXAMPLES / example), *options]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_spectral_clustering():
    cluster = pytest.importorskip("sklearn.cluster")
    datasets, metrics = (pytest.importorskip(f"sklearn.{name}") for name in ("datasets", "metrics"))
    printed = run("spectral_clustering_digits.py", "--pictures", str(PICTURES))
    assert "FAIL" not in printed

    pictures, digits = (array[:PICTURES] for array in datasets.load_digits(return_X_y=True))
    # Squares of whole numbers: exact, and so are ties among the nearest.
    distances = metrics.pairwise_distances(pictures, metric="sqeuclidean")
    near = distances <= np.partition(distances, 10, axis=1)[:, [10]]
    graph = (near.astype(float) + near.T) / 2
    degree = graph.sum(1)
    expected = np.linalg.eigvalsh(graph / np.sqrt(np.outer(degree, degree)))[:-11:-1]
    values = re.search(r"largest eigenvalues: (.*)", printed)[1].split()
    np.testing.assert_allclose(np.array(values, float), expected, rtol=0, atol=1e-9)

    clustering = cluster.SpectralClustering(10, affinity="precomputed", n_init=10, random_state=0)
    reference = metrics.adjusted_rand_score(digits, clustering.fit_predict(graph))
    rand_index = float(re.search(r"adjusted Rand index with the digits +([0-9.]+)", printed)[1])
    # The groups differ in few pictures: scikit-learn scales the coordinates in another way.
    assert abs(rand_index - reference) <= 0.05
