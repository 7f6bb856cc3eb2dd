"""Plans to look at before anything runs."""

from __future__ import annotations

from typing import Any

from . import _native, _problem
from ._arguments import check_assume_a
from ._eigen import Eigenproblem, eigenproblem
from ._problem import MatrixSpecs, Options
from ._sharding import AnyMesh
from ._system import System

_EIGENPROBLEMS = {"eigh": "vectors", "eigvalsh": "values", "pinvh_solve": "solve"}


def plan(
    a: Any,
    b: Any = None,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    *,
    task: str = "solve",
    return_logdet: bool = False,
    donate: bool = False,
    triangle: str | None = None,
    layout: str = "auto",
    assume_a: str = "pos",
) -> _native.Plan:
    """The plan that a function follows for these arguments, without running it.

    Args:
        a, b: arrays, or `jax.ShapeDtypeStruct` with a sharding: only shape, dtype and sharding are read.
            ``b`` is what the function calls so: right-hand sides, or the second matrix of an eigenproblem.
        T_A, mesh, matrix_specs, return_logdet, donate, triangle, layout: as for `meshsolve.potrs`.
        task: the function of `meshsolve.linalg`: ``"solve"``, ``"eigh"`` (or `meshsolve.syevd`),
            ``"eigvalsh"`` or ``"pinvh_solve"``.
        assume_a: for ``"solve"``, as in `meshsolve.linalg.solve`: ``"pos"`` for `meshsolve.potrs`, ``"gen"``
            for `meshsolve.lu_solve`.

    Returns:
        The plan: its tile, its layout, its memory per device in bytes, and ``explain()``, which lists all
        ways that were considered with their costs.

    Raises:
        ValueError: another task, or arguments that do not fit; see `meshsolve.potrs`.
    """
    options = Options(T_A, mesh, matrix_specs, donate, layout)
    if task in ("solve", "pinvh_solve") and b is None:
        raise ValueError(f"task={task!r} needs b: right-hand sides, or a jax.ShapeDtypeStruct like them")
    if task == "solve":
        system = System(check_assume_a(assume_a), "solve", triangle=triangle, log_det=return_logdet)
        return _problem.plan(system, options, a, b)
    if task not in _EIGENPROBLEMS:
        raise ValueError(f"task must be one of {['solve', *_EIGENPROBLEMS]}: got {task!r}")
    if return_logdet:
        raise ValueError(f'return_logdet=True is for task="solve": got task={task!r}')
    if task == "pinvh_solve":
        return _problem.plan(eigenproblem("solve", triangle), options, a, b)
    asked = eigenproblem(_EIGENPROBLEMS[task], triangle, metric=b is not None)
    return _problem.plan(asked, options, a, metric=b)


def suggest_tile(
    a: Any, mesh: AnyMesh | None = None, matrix_specs: MatrixSpecs = None, *, task: str = "solve"
) -> int:
    """The edge of the tiles that a call takes where none is named.

    A divisor of the shards where there is a suitable one, so that nothing has to be padded: 256 to 2048 for
    solves, 128 to 256 for eigenproblems, which large tiles slow down.

    Args:
        a: the matrix, or a `jax.ShapeDtypeStruct` with a sharding: only shape, dtype and sharding are read.
        mesh, matrix_specs: as for `meshsolve.potrs`.
        task: ``"solve"``, which stands for factors, determinants and inverses, too, or ``"eigh"``, which
            stands for all eigenproblems.

    Raises:
        ValueError: another task, or arguments that do not fit.
    """
    asked: System | Eigenproblem
    if task == "solve":
        asked = System("cholesky", "determinant", log_det=True)
    elif task == "eigh":
        asked = eigenproblem("values", None)
    else:
        raise ValueError(f'task must be "solve" or "eigh": got {task!r}')
    return _problem.plan(asked, Options(None, mesh, matrix_specs), a).tile
