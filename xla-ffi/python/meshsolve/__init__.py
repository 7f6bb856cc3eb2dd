"""Distributed dense linear algebra for sharded JAX arrays."""

from importlib import metadata

from . import linalg
from ._errors import NonFiniteError, NotPositiveDefiniteError, describe_status
from ._native import Operand, Plan
from ._potrs import plan, potrs
from ._redistribute import BlockCyclic, redistribute

__version__ = metadata.version("meshsolve")

__all__ = [
    "BlockCyclic",
    "NonFiniteError",
    "NotPositiveDefiniteError",
    "Operand",
    "Plan",
    "describe_status",
    "linalg",
    "plan",
    "potrs",
    "redistribute",
]
