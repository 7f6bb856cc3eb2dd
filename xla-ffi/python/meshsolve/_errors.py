"""Exceptions, and the meaning of the status word that a solve returns."""

from __future__ import annotations

import numpy as np

SOLVED = 0
NON_FINITE = -1
NOT_CONVERGED = -2


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """The matrix of a Cholesky solve, or ``b`` of a generalised eigenproblem, is not positive definite.

    Attributes:
        order: order of the first leading minor that is not positive definite, counted from 1.
    """

    def __init__(self, order: int):
        super().__init__(
            f"the leading minor of order {order} is not positive definite, so there is no Cholesky "
            "factorisation"
        )
        self.order = order

    def __reduce__(self) -> tuple:
        return type(self), (self.order,)


class SingularMatrixError(np.linalg.LinAlgError):
    """The matrix of a solve has a pivot that is exactly zero.

    Attributes:
        row: row of the matrix, counted from 1, at which that showed.
    """

    def __init__(self, row: int):
        super().__init__(f"the matrix is singular: the pivot in row {row} is zero")
        self.row = row

    def __reduce__(self) -> tuple:
        return type(self), (self.row,)


class NonFiniteError(np.linalg.LinAlgError):
    """The matrix has NaN or infinite entries."""

    def __init__(self) -> None:
        super().__init__(describe_status(NON_FINITE))

    def __reduce__(self) -> tuple:
        return type(self), ()


class ConvergenceError(np.linalg.LinAlgError):
    """The iteration for eigenvalues did not converge, or overflowed."""

    def __init__(self) -> None:
        super().__init__(describe_status(NOT_CONVERGED))

    def __reduce__(self) -> tuple:
        return type(self), ()


def describe_status(status: int) -> str:
    """Says in words what the status of a solve means.

    A positive status k is where the solver stopped: a row of the matrix, counted from 1. With
    ``layout="stages"``, and with ``check=True``, the leading minor of order k is the first one that is not
    positive definite, or the k-th pivot is the first one that is zero. A reading takes the rows and columns
    in another order, in which row k came up then. Of a generalised eigenproblem, the matrix is ``b``.

    Args:
        status: the scalar returned by ``return_status=True`` (an int, or an integer array of one element).

    Raises:
        ValueError: no solve returns this number.
    """
    code = int(np.asarray(status).item())
    if code == SOLVED:
        return "solved"
    if code == NON_FINITE:
        return "the matrix has non-finite entries (NaN or Inf); the results are NaN"
    if code == NOT_CONVERGED:
        return "the iteration for eigenvalues did not converge, or overflowed; the results are NaN"
    if code > 0:
        return (
            "the matrix is not positive definite, or singular where it need not be: the solver stopped "
            f'at row {code}, counted from 1 (with layout="stages" the leading minor of order {code} is the '
            "first one that is not positive definite, or singular); the results are NaN"
        )
    raise ValueError(f"unknown status: got {code}, needed 0, -1, -2 or a positive number")


def raise_for_status(status: int, failure: type[Exception]) -> None:
    """Raises the exception that belongs to a status other than 0; ``failure`` to a positive one."""
    if status == NON_FINITE:
        raise NonFiniteError
    if status == NOT_CONVERGED:
        raise ConvergenceError
    if status != SOLVED:
        raise failure(status)
