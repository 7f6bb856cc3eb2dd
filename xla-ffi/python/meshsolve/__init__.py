"""Distributed dense linear algebra for sharded JAX arrays."""

from importlib import metadata

from . import linalg
from ._eigen import syevd
from ._errors import (
    ConvergenceError,
    NonFiniteError,
    NotPositiveDefiniteError,
    SingularMatrixError,
    describe_status,
)
from ._factor import Factor
from ._lu import lu_solve
from ._native import Operand, Plan
from ._plan import plan, suggest_tile
from ._potrs import potrs
from ._redistribute import BlockCyclic, redistribute

__version__ = metadata.version("meshsolve")

__all__ = [
    "BlockCyclic",
    "ConvergenceError",
    "Factor",
    "NonFiniteError",
    "NotPositiveDefiniteError",
    "Operand",
    "Plan",
    "SingularMatrixError",
    "describe_status",
    "linalg",
    "lu_solve",
    "plan",
    "potrs",
    "redistribute",
    "suggest_tile",
    "syevd",
]
