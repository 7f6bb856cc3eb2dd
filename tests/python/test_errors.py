"""Bad input: each kind has a message of its own that says what was got, and nothing hangs."""

import pickle
from functools import partial

import jax
import meshsolve
import numpy as np
import pytest
from helpers import P, check_solution, make_mesh, positive_definite, put, right_hand_side
from jax.sharding import Mesh
from meshsolve import linalg

N = 8
A = positive_definite(N, np.float64)
B = right_hand_side(N, 2, np.float64)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return make_mesh(2, 2)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (A[:, :4], B, ValueError, r"square matrix: got shape \(8, 4\)"),
        (A[None], B, ValueError, r"square matrix: got shape \(1, 8, 8\).*jax\.vmap"),
        (A[0], B, ValueError, r"square matrix: got shape \(8,\)"),
        (A, B[:5], ValueError, r"as many rows as a: got shape \(5, 2\).*needed \(8,\) or \(8, k\)"),
        (A, B[:5, 0], ValueError, r"as many rows as a: got shape \(5,\)"),
        (A, B[None], ValueError, r"vector or a matrix: got shape \(1, 8, 2\)"),
        (A, B.astype(np.float32), TypeError, "same dtype: got float64 and float32"),
        (A.astype(np.complex128), B, TypeError, "same dtype: got complex128 and float64"),
        (
            A.astype(np.int32),
            B.astype(np.int32),
            TypeError,
            "a is not supported: got int32, needed one of float32",
        ),
        (A, B.astype(np.int64), TypeError, "b is not supported: got int64"),
        (A.astype(np.float16), B.astype(np.float16), TypeError, "got float16"),
        (A.astype(bool), B, TypeError, "got bool"),
        (A.tolist(), B, TypeError, "a must be an array: got list"),
        (A, None, TypeError, "b must be an array: got NoneType"),
    ],
)
def test_operands(mesh, a, b, error, message):
    with pytest.raises(error, match=message):
        meshsolve.potrs(a, b, mesh=mesh)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"T_A": 0}, ValueError, "tile must be positive: got 0"),
        ({"T_A": -3}, ValueError, "tile must be positive: got -3"),
        ({"T_A": 2.5}, TypeError, "tile must be an integer: got 2.5"),
        ({"T_A": True}, TypeError, "tile must be an integer: got True"),
        ({"T_A": "256"}, TypeError, "tile must be an integer: got '256'"),
        ({"triangle": "both"}, ValueError, "triangle must be None.*got 'both'"),
        (
            {"matrix_specs": P("z")},
            ValueError,
            r"unknown mesh axis .* of a: got 'z'.*the mesh has \('x', 'y'\)",
        ),
        ({"matrix_specs": (P("x"), P(None, "w"))}, ValueError, "unknown mesh axis .* of b: got 'w'"),
        ({"matrix_specs": P("x", "x")}, ValueError, "of a uses mesh axis 'x' twice"),
        ({"matrix_specs": P("x", "y", None)}, ValueError, "of a has too many dimensions"),
        ({"matrix_specs": P(P.UNCONSTRAINED)}, ValueError, "leaves a dimension open"),
        ({"matrix_specs": "x"}, TypeError, "matrix_specs must be .*got 'x'"),
        ({"mesh": "x"}, TypeError, "mesh must be a jax.sharding.Mesh: got str"),
    ],
)
def test_options(mesh, options, error, message):
    with pytest.raises(error, match=message):
        meshsolve.potrs(A, B, **{"mesh": mesh, **options})


def test_tiles_may_be_numpy_integers(mesh):
    assert meshsolve.plan(A, B, np.int64(2), mesh).tile == 2


@pytest.mark.smoke
def test_no_mesh():
    with pytest.raises(ValueError, match=r"no mesh to be found.*Pass mesh="):
        meshsolve.potrs(A, B)
    with pytest.raises(ValueError, match="no mesh to be found"):
        meshsolve.potrs(jax.device_put(A), jax.device_put(B))
    with pytest.raises(ValueError, match="no mesh to be found"):
        jax.jit(meshsolve.potrs)(A, B)


def test_mesh_of_wrong_size(mesh):
    with pytest.raises(ValueError, match="got an array on 4 devices and a mesh of 2"):
        meshsolve.potrs(put(A, mesh, "x", "y"), B, mesh=make_mesh(1, 2))
    with pytest.raises(ValueError, match="b is not on the devices of the mesh"):
        meshsolve.potrs(put(A, mesh, "x", "y"), put(B, make_mesh(2, 4)))
    other_half = Mesh(np.array(jax.devices()[4:]).reshape(2, 2), ("x", "y"))
    with pytest.raises(ValueError, match="got an array on 4 devices and a mesh of 4"):
        meshsolve.potrs(put(A, mesh, "x", "y"), B, mesh=other_half)


def test_uneven_sizes_without_padding(mesh):
    a, b = positive_definite(7, np.float64), right_hand_side(7, 2, np.float64)
    with pytest.raises(ValueError, match=r"2 x 2 grid does not divide.*n = 7.*pad=True"):
        meshsolve.potrs(a, b, mesh=mesh, pad=False)
    # Even sizes need no padding.
    assert meshsolve.potrs(A, B, mesh=mesh, pad=False).shape == B.shape


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_numpy_doubles_while_x64_is_off(mesh, dtype):
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(TypeError, match=r"64-bit types are off.*jax_enable_x64"):
            meshsolve.potrs(A.astype(dtype), B.astype(dtype), mesh=mesh)
        assert not jax.config.jax_enable_x64
        x = meshsolve.potrs(A.astype(np.float32), B.astype(np.float32), mesh=mesh)
        assert x.dtype == np.float32
        assert not jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", True)


@pytest.mark.smoke
def test_inside_shard_map(mesh):
    def body(a, b):
        return meshsolve.potrs(a, b)

    run = jax.shard_map(body, mesh=mesh, in_specs=(P("x", "y"), P()), out_specs=P())
    with pytest.raises(
        NotImplementedError, match=r"inside shard_map is not supported.*\['x', 'y'\] are manual"
    ):
        run(put(A, mesh, "x", "y"), put(B, mesh))


@pytest.mark.smoke
def test_check_under_jit(mesh):
    with pytest.raises(ValueError, match=r"check=True needs values.*return_status=True"):
        jax.jit(lambda a: meshsolve.potrs(a, B, mesh=mesh, check=True))(A)


@pytest.mark.smoke
def test_check_finds_a_matrix_that_is_not_hermitian(mesh):
    a = A.copy()
    a[0, 5] += 1
    with pytest.raises(ValueError, match=r"a is not Hermitian.*triangle="):
        meshsolve.potrs(a, B, mesh=mesh, check=True)
    assert meshsolve.potrs(a, B, mesh=mesh, check=True, triangle="lower").shape == B.shape
    assert meshsolve.potrs(A, B, mesh=mesh, check=True).shape == B.shape


def test_solve_of_other_kinds_of_matrix(mesh):
    for function in (
        lambda **options: meshsolve.linalg.solve(A, B, **options),
        partial(meshsolve.linalg.inv, A),
    ):
        with pytest.raises(ValueError, match=r"not supported: got 'sym', needed one of \['gen', 'pos'\]"):
            function(assume_a="sym", mesh=mesh)


def test_devices_of_other_processes(mesh, monkeypatch):
    monkeypatch.setattr(jax, "process_index", lambda: 7)
    with pytest.raises(
        NotImplementedError, match=r"CPU devices over several processes is not supported.*\[0\] in process 7"
    ):
        meshsolve.potrs(put(A, mesh, "x", "y"), B)


def test_devices_without_handlers(mesh, monkeypatch):
    monkeypatch.setattr(meshsolve._native, "register_handlers", lambda: frozenset({"CUDA"}))
    with pytest.raises(NotImplementedError, match=r"platform 'cpu': this build serves \['CUDA'\]"):
        meshsolve.potrs(put(A, mesh, "x", "y"), B)


@pytest.mark.parametrize("solve", [meshsolve.potrs, partial(linalg.solve, assume_a="pos")])
def test_a_complex_shift_of_a_hermitian_matrix(mesh, solve):
    a, b = positive_definite(8, np.complex64), right_hand_side(8, 1, np.complex64)
    with pytest.raises(TypeError, match="shift must be real"):
        solve(a, b, mesh=mesh, shift=1j)
    with pytest.raises(TypeError, match="shift must be real"):
        linalg.cholesky(a, mesh=mesh, shift=np.complex64(1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: linalg.inv(a, triangle="lower"), ValueError, 'for assume_a="pos"'),
        (lambda a: linalg.slogdet(a, triangle="upper"), ValueError, 'for assume_a="pos"'),
        (lambda a: linalg.solve(a, a, assume_a=["gen"]), ValueError, "assume_a is not supported"),
        (lambda a: linalg.solve_triangular(a, a, [1]), ValueError, "trans must be"),
        (lambda a: linalg.pinvh_solve(a, a, "x"), TypeError, "rcond must be a number"),
        (lambda a: linalg.pinvh_solve(a, a, np.inf), ValueError, "rcond must be finite"),
        (lambda a: linalg.solve(a, a, shift="1"), TypeError, "shift must be a number"),
        (lambda a: meshsolve.plan(a), ValueError, "needs b"),
    ],
)
def test_arguments_of_another_kind(mesh, call, error, message):
    with pytest.raises(error, match=message):
        call(put(positive_definite(8, np.float64), mesh, "x", "y"))


def test_check_under_jit_with_constants_only(mesh):
    a = put(positive_definite(8, np.float64), mesh, "x", "y")
    with pytest.raises(ValueError, match="check=True needs values"):
        jax.jit(lambda c: c * linalg.det(a, check=True))(1.0)


def test_exceptions_can_be_pickled():
    for error in (
        meshsolve.NonFiniteError(),
        meshsolve.ConvergenceError(),
        meshsolve.SingularMatrixError(3),
        meshsolve.NotPositiveDefiniteError(7),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


@pytest.mark.parametrize("tile", [10**6, 2**70])
def test_a_tile_larger_than_the_matrix(mesh, tile):
    a, b = positive_definite(24, np.float64), right_hand_side(24, 2, np.float64)
    on_mesh = put(a, mesh, "x", "y")
    check_solution(a, meshsolve.potrs(on_mesh, b, tile), b)
    cyclic = meshsolve.redistribute(on_mesh, tile)
    assert cyclic.local.size <= 4 * a.size
    np.testing.assert_array_equal(meshsolve.redistribute(cyclic), a)
