"""The status of a solve in words and as exceptions."""

import meshsolve
import numpy as np
import pytest
from helpers import make_mesh, positive_definite, right_hand_side


@pytest.mark.smoke
def test_words():
    assert meshsolve.describe_status(0) == "solved"
    assert "stopped at row 5, counted from 1" in meshsolve.describe_status(5)
    assert "leading minor of order 5 is the first one" in meshsolve.describe_status(5)
    assert "leading minor of order 5 is not positive" in str(meshsolve.NotPositiveDefiniteError(5))
    assert "non-finite" in meshsolve.describe_status(-1)
    assert "order 3" in meshsolve.describe_status(np.array([3], np.int32))
    assert "did not converge" in meshsolve.describe_status(-2)
    assert str(meshsolve.ConvergenceError()) == meshsolve.describe_status(-2)
    with pytest.raises(ValueError, match="unknown status: got -3"):
        meshsolve.describe_status(-3)


def test_exceptions_are_linear_algebra_errors():
    assert issubclass(meshsolve.NotPositiveDefiniteError, np.linalg.LinAlgError)
    assert issubclass(meshsolve.NonFiniteError, np.linalg.LinAlgError)
    assert issubclass(meshsolve.ConvergenceError, np.linalg.LinAlgError)


def test_status_of_a_result_can_be_described():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(8, np.float64), right_hand_side(8, 1, np.float64)
    _, status = meshsolve.potrs(a, b, mesh=mesh, return_status=True)
    assert meshsolve.describe_status(status) == "solved"
    _, status = meshsolve.potrs(-a, b, mesh=mesh, return_status=True)
    assert "order 1 " in meshsolve.describe_status(status)
