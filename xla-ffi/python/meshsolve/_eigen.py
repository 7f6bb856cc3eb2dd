"""Hermitian eigenproblems of sharded matrices, and what is solved by them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _problem
from ._arguments import check_lower, check_operands, check_scalar, check_subset, check_triangle
from ._call import REPLICATED
from ._errors import NotPositiveDefiniteError
from ._problem import MatrixSpecs, Options, Results
from ._sharding import AnyMesh, Grid, context_of, divisible, partition, place


@dataclass(frozen=True)
class Eigenproblem:
    """What is asked for: A·v = λ·v, A·v = λ·M·v, or A·X = B by the eigenvalues that are not negligible.

    Attributes:
        task: ``"values"``, ``"vectors"`` (values and vectors) or ``"solve"``.
        triangle: which one is promised; None for both.
        metric: whether there is a matrix M.
        entry: how the matrices enter the call; see `meshsolve._call.Call`.
    """

    task: str
    triangle: str | None = None
    metric: bool = False
    entry: str | None = None

    hermitian = True
    #: A positive status tells of the metric.
    failure = NotPositiveDefiniteError

    @property
    def ordered(self) -> bool:
        """Whether a positive status tells an order that the stages alone keep."""
        return self.metric

    def fields(self) -> dict[str, Any]:
        """What the request to the planner says of it besides task and triangle."""
        return {"routine": "eigen", "metric": self.metric}

    def without_b(self) -> Eigenproblem:
        """The eigenvalues alone."""
        return replace(self, task="values")

    def nothing(self, a: Any, b: Any) -> Results:
        """The results for a matrix of order 0."""
        results = {"w": jnp.zeros((0,), jnp.finfo(a.dtype).dtype), "status": jnp.zeros((), jnp.int32)}
        if self.task == "vectors":
            results["v"] = jnp.zeros_like(a)
        if self.task == "solve":
            results["x"] = jnp.zeros_like(b)
        return results


def eigenproblem(
    task: str, triangle: str | None, *, metric: bool = False, symmetrize: bool = False
) -> Eigenproblem:
    """The eigenproblem of a matrix of which a triangle is promised, or which is to be made Hermitian."""
    check_triangle(triangle)
    if symmetrize:
        if triangle is not None:
            raise ValueError(
                f"symmetrize_input=True reads both triangles: got the promise of the {triangle} one alone"
            )
        return Eigenproblem(task, None, metric, entry="hermitian_part")
    if triangle == "upper":
        # Solvers read the lower one.
        return Eigenproblem(task, "lower", metric, entry="adjoint")
    return Eigenproblem(task, triangle, metric)


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the eigenvectors that belong to them as columns."""

    eigenvalues: jax.Array
    eigenvectors: jax.Array


def syevd(
    a: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    *,
    return_eigenvectors: bool = True,
    return_status: bool = False,
    donate: bool = False,
    triangle: str | None = None,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a sharded Hermitian matrix: ``a @ v = v * w``.

    Works under jit, vmap (one matrix after another) and scan; it has no derivative yet.
    `meshsolve.linalg.eigh` is the same under JAX's name, and also solves ``a @ v = b @ v * w``.

    Args:
        a: (n, n) matrix; float32, float64, complex64 or complex128. Imaginary parts on its diagonal are taken
            for zero (``check`` finds them).
        T_A, mesh, matrix_specs, donate, layout, pad: as for `meshsolve.potrs`.
        return_eigenvectors: whether the vectors are wanted; the values alone take less time.
        return_status: also return the status; see `describe_status`.
        triangle: None, the default, says that **both triangles are valid**; ``"lower"`` or ``"upper"``
            promises that one only, and the other one may hold anything. Solvers read the lower triangle:
            with a promised upper one, XLA first transposes the matrix, which moves it between the devices.
        check: wait for the result and raise an exception on failure; with ``triangle=None`` also verify by a
            random projection that ``a`` is Hermitian. Outside jit only.
        shift: a real scalar λ: the eigenvalues of ``a + λ·I`` are meant, without a copy for it. It may be
            traced.

    Returns:
        ``(w, v)``, or ``w`` where no vectors are wanted, and the scalar status (int32) after them if asked
        for. ``w``: (n,) real, ascending, replicated. ``v``: (n, n), orthonormal, in the sharding of ``a``
        (replicated along dimensions that the mesh does not divide); column k belongs to ``w[k]``. If the
        solve failed, all are NaN on every device and the status is not 0.

    Raises:
        TypeError, ValueError, NotImplementedError, RuntimeError: as for `meshsolve.potrs`.
        NonFiniteError, ConvergenceError: the solve failed and ``check`` is true.
    """
    asked = eigenproblem("vectors" if return_eigenvectors else "values", triangle)
    options = Options(T_A, mesh, matrix_specs, donate, layout, check, pad)
    results = _problem.run(asked, options, a, shift=shift)
    wanted = ["w"] + ["v"] * return_eigenvectors + ["status"] * return_status
    returned = tuple(results[name] for name in wanted)
    return returned[0] if len(returned) == 1 else returned


def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool | None = None,
    symmetrize_input: bool = False,
    subset_by_index: tuple[int, int] | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> EighResult:
    """Eigenvalues and eigenvectors of a Hermitian matrix: ``a @ v = v * w``, or ``a @ v = b @ v * w``.

    Args:
        a: the matrix.
        b: a Hermitian positive definite matrix of the same shape and dtype, as SciPy has it; it is brought
            into the partition of ``a``. None stands for the identity.
        lower: None, the default, says that **both triangles are valid**, of ``b`` too; True or False promises
            the lower or the upper one only. Solvers read the lower triangle: with the upper one, XLA first
            transposes the matrices, which moves them between the devices.
        symmetrize_input: take ``(a + a.conj().T) / 2``, and the same of ``b``, as ``jax.numpy.linalg.eigh``
            does by default. That costs a transposition over all devices, so that here the default is False.
        subset_by_index: (first, end): return only those values and their vectors, as ``jax.lax.linalg.eigh``
            does, ``end`` not included. All of them are computed.
        tile, mesh, matrix_specs, donate, layout, check, pad: see `meshsolve.linalg`. With ``b``, ``check``
            tells the order of its leading minor that is not positive definite, so that the layout is
            ``"stages"``.
        shift: a real scalar λ; ``a + λ·I`` is meant.

    Returns:
        ``(eigenvalues, eigenvectors)``: (n,) real, ascending, replicated; and (n, n) in the sharding of
        ``a``, with ``v.conj().T @ v = I``, or ``v.conj().T @ b @ v = I``. All NaN if ``b`` is not positive
        definite or an entry is not finite.
    """
    subset = check_subset(subset_by_index, a)
    asked = eigenproblem("vectors", check_lower(lower), metric=b is not None, symmetrize=symmetrize_input)
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    results, problem = _problem.run_problem(asked, options, a, shift=shift, metric=b)
    if subset != (0, a.shape[0]):
        results = _selected(results, problem.placed.grid, subset)
    return EighResult(results["w"], results["v"])


def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool | None = None,
    symmetrize_input: bool = False,
    subset_by_index: tuple[int, int] | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> jax.Array:
    """Eigenvalues of a Hermitian matrix: ``w`` of ``a @ v = v * w``, or of ``a @ v = b @ v * w``.

    Args:
        a: the matrix.
        b, lower, symmetrize_input, subset_by_index, tile, mesh, matrix_specs, donate, layout, check, pad,
            shift: as for `eigh`.

    Returns:
        (n,) real, ascending, replicated; all NaN if ``b`` is not positive definite or an entry is not finite.
    """
    subset = check_subset(subset_by_index, a)
    asked = eigenproblem("values", check_lower(lower), metric=b is not None, symmetrize=symmetrize_input)
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    results, problem = _problem.run_problem(asked, options, a, shift=shift, metric=b)
    if subset != (0, a.shape[0]):
        results = _selected(results, problem.placed.grid, subset)
    return results["w"]


def pinvh_solve(
    a: Any,
    b: Any,
    rcond: Any = None,
    *,
    lower: bool | None = None,
    tile: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    donate: bool = False,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> jax.Array:
    """``pinv(a) @ b`` for a Hermitian matrix: of all x with the least ``|a @ x - b|`` the shortest one.

    The pseudo-inverse is applied by eigenvalues and eigenvectors, which stay where the solver has them; none
    is formed.

    Args:
        a: the matrix, of any rank.
        b: right-hand side, (n,) or (n, k), of the same dtype; placed as for `meshsolve.potrs`.
        rcond: eigenvalues of ``a`` whose absolute value is at most ``rcond`` times the largest one are taken
            for zero. A finite real scalar, which may be traced; by default ``10 · n · ε``, as in
            ``jax.numpy.linalg.pinv``.
        lower: as for `eigh`.
        tile, mesh, matrix_specs, donate, layout, check, pad: see `meshsolve.linalg`.
        shift: a real scalar λ; ``a + λ·I`` is meant.

    Returns:
        ``x`` with the shape and the sharding of ``b``; NaN on every device if ``rcond`` or an entry of ``a``
        is not finite.
    """
    check_operands(a, b)
    asked = eigenproblem("solve", check_lower(lower))
    options = Options(tile, mesh, matrix_specs, donate, layout, check, pad)
    return _problem.run(asked, options, a, b, shift, cutoff=_cutoff(rcond, a))["x"]


def _cutoff(rcond: Any, a: Any) -> Any:
    if rcond is None:
        return 10 * a.shape[0] * float(jnp.finfo(a.dtype).eps)
    check_scalar("rcond", rcond)
    known = not isinstance(rcond, jax.Array) and np.ndim(rcond) == 0 and not np.iscomplexobj(rcond)
    # Written so that NaN is refused.
    if known and not 0 <= rcond < np.inf:
        raise ValueError(f"rcond must be finite and not negative: got {rcond!r}")
    return rcond


def _selected(results: Results, grid: Grid, subset: tuple[int, int]) -> Results:
    """Some of the values, and of the vectors if there are any, shared out as all of them are."""
    with context_of(grid.mesh):
        return _cut(results, grid, subset)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _cut(results: Results, grid: Grid, subset: tuple[int, int]) -> Results:
    first, end = subset
    selected = {"w": place(results["w"][first:end], grid.mesh, REPLICATED)}
    if "v" in results:
        # JAX shares out even parts only, so that columns are cut where every device holds whole rows.
        whole_rows = divisible(partition(grid.rows + grid.columns), results["v"].shape, grid.mesh)
        v = place(results["v"], grid.mesh, whole_rows)[:, first:end]
        selected["v"] = place(v, grid.mesh, divisible(grid.spec, v.shape, grid.mesh))
    return selected
