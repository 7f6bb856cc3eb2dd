"""Cholesky solve of a sharded Hermitian positive definite system."""

from __future__ import annotations

from typing import Any

from ._problem import MatrixSpecs, Options
from ._sharding import AnyMesh
from ._system import System, solved


def potrs(
    a: Any,
    b: Any,
    T_A: int | None = None,
    mesh: AnyMesh | None = None,
    matrix_specs: MatrixSpecs = None,
    *,
    return_logdet: bool = False,
    return_status: bool = False,
    donate: bool = False,
    triangle: str | None = None,
    layout: str = "auto",
    check: bool = False,
    pad: bool = True,
    shift: Any = None,
) -> Any:
    """Solves ``a @ x = b`` by Cholesky factorisation, ``a`` Hermitian positive definite and sharded.

    Promise about triangles: with ``triangle=None``, the default, the matrix is Hermitian and **both
    triangles are valid**. ``"lower"`` or ``"upper"`` promises that triangle only; the other one is never
    read and may hold anything.

    The solver wants tiles dealt out to the devices in turn. Either tiles move to where it wants them
    (``layout="stages"``), or it is told of the rows and columns in an order under which the shards already
    lie so (``"reading"``): then nothing of ``a`` changes devices. A reading needs both triangles, and a mesh
    of which one side divides the other, or a tile that divides the shards. The default, ``"auto"``, takes
    the cheaper way; `meshsolve.plan` shows what each would cost.

    Works under jit, vmap (one system after another) and scan; it has no derivative yet.

    Args:
        a: (n, n) matrix; float32, float64, complex64 or complex128. Imaginary parts on its diagonal are taken
            for zero (``check`` finds them).
        b: right-hand side, (n,) or (n, k), of the same dtype. It may be replicated, shared out by rows as
            ``a`` is, or shared out by rows and columns as ``a`` is; from any other partition XLA moves it
            to the nearest of these and ``x`` back.
        T_A: edge of the square tiles in which the solver sees the matrix; None lets the plan choose.
        mesh: the mesh to solve on; GPUs may be of several processes. Default: that of ``a``, then that of
            ``b``, then the one of ``jax.set_mesh``. Under jit on GPUs it has to be given or set, because JAX
            does not tell a traced array's devices. Axes which the partition of ``a`` does not name do the
            same solve side by side.
        matrix_specs: ``PartitionSpec`` of ``a``, or a pair for ``a`` and ``b``. Default: that of the arrays
            where JAX tells it (concrete arrays; under jit, meshes with Explicit axes), else the first mesh
            axis for rows and the second one for columns. A replicated ``a`` with ``mesh=`` is spread
            likewise; ``PartitionSpec()`` has each device solve on its own. A ``b`` of unknown partition is
            taken as replicated.
        return_logdet: also return ``log(det(a))``.
        return_status: also return the status; see `describe_status`.
        donate: let the solver work in the memory of ``a``, which is deleted afterwards. Inside jit nothing is
            deleted: there it says that memory counts for more than the time of a pass over ``a``, and XLA
            gives away the memory of intermediate values, or copies what lives on. A matrix of more than
            4 GiB on each device is always treated so inside jit.
        triangle: None, ``"lower"`` or ``"upper"``; see above.
        layout: ``"auto"``, ``"stages"`` or ``"reading"``; see above. It decides what a positive status says:
            under the stages k is the order of the first leading minor that is not positive definite; under
            a reading it is the row of ``a``, counted from 1, at which the factorisation of the reordered
            matrix stopped. Only the stages promise the former.
        check: wait for the result and raise an exception on failure, which tells the order of the leading
            minor, so that the layout is ``"stages"``; with ``triangle=None`` also verify by a random
            projection that ``a`` is Hermitian. Outside jit only.
        pad: whether sizes that the grid does not divide are padded, with ``x`` returned replicated along
            the dimensions that JAX cannot share out evenly. False makes such sizes an error.
        shift: a real scalar λ: ``a + λ·I`` is solved with, without a copy for it. It may be traced.

    Returns:
        ``x``, or a tuple of ``x`` and, in this order, those asked for of the scalar log determinant (real)
        and the scalar status (int32). ``x`` has the shape and the sharding of ``b``. If the solve
        failed, ``x`` and the log determinant are NaN on every device and the status is not 0.

    Raises:
        TypeError, ValueError: arguments that do not fit; the message says what was got and what is needed.
        NotImplementedError: CPU devices of other processes, or a call from inside a shard_map.
        RuntimeError: on GPUs, NVIDIA's libraries are missing or too old, or a device could not take part;
            the same on every device. ``python -m meshsolve.doctor`` looks for the cause.
        NotPositiveDefiniteError, NonFiniteError: the solve failed and ``check`` is true.
    """
    system = System("cholesky", "solve", triangle=triangle, log_det=return_logdet)
    options = Options(T_A, mesh, matrix_specs, donate, layout, check, pad)
    return solved(system, options, a, b, shift, return_logdet=return_logdet, return_status=return_status)
