"""Who may touch the caller's arrays: nobody, unless they are donated."""

import functools

import jax
import meshsolve
import numpy as np
import pytest
from helpers import P, check_solution, make_mesh, positive_definite, put, right_hand_side
from meshsolve import _call, _native, _problem, _sharding, _system, linalg

N = 48
A = positive_definite(N, np.float64)
B = right_hand_side(N, 3, np.float64)
ALIASED, UNALIASED = 8, 5  # tiles that divide the shard of 24, and do not

tiles = pytest.mark.parametrize("tile", [ALIASED, UNALIASED], ids=["divides", "ragged"])


def pointers(array: jax.Array) -> set[int]:
    return {shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards}


@pytest.mark.smoke
@tiles
def test_inputs_stay_intact(tile):
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh, "x")
    for run in (meshsolve.potrs, jax.jit(meshsolve.potrs, static_argnums=2)):
        check_solution(A, run(a, b, tile), B)
        np.testing.assert_array_equal(np.asarray(a), A)
        np.testing.assert_array_equal(np.asarray(b), B)


@pytest.mark.smoke
@tiles
def test_donated_matrix_is_consumed(tile):
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh, "x")
    x, log_det = meshsolve.potrs(a, b, tile, donate=True, return_logdet=True)
    check_solution(A, x, B)
    assert log_det.shape == ()
    assert a.is_deleted()
    np.testing.assert_array_equal(np.asarray(b), B)


def test_donated_matrix_on_another_device_or_uneven():
    mesh = make_mesh(2, 2)
    a = jax.device_put(A)
    check_solution(A, meshsolve.potrs(a, B, ALIASED, mesh=mesh, donate=True), B)
    assert a.is_deleted()
    uneven, b = positive_definite(21, np.float64), right_hand_side(21, 1, np.float64)
    a = put(uneven, mesh)
    check_solution(uneven, meshsolve.potrs(a, b, ALIASED, mesh=mesh, donate=True), b)
    assert a.is_deleted()


@tiles
def test_donated_numpy_array_stays_intact(tile):
    a = A.copy()
    check_solution(A, meshsolve.potrs(a, B, tile, mesh=make_mesh(2, 2), donate=True), B)
    np.testing.assert_array_equal(a, A)


@pytest.mark.parametrize("donate", [False, True])
def test_same_array_as_both_operands(donate):
    mesh = make_mesh(2, 2)
    a = put(A, mesh, "x", "y")
    for _ in range(2):  # it must survive the first time
        check_solution(A, meshsolve.potrs(a, a, ALIASED, donate=donate), A)
    np.testing.assert_array_equal(np.asarray(a), A)
    check_solution(A, jax.jit(lambda a: meshsolve.potrs(a, a, ALIASED))(a), A)


@tiles
def test_donated_to_the_users_jit(tile):
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh)
    solve = jax.jit(lambda a, b: (meshsolve.potrs(a, b, tile), 2 * a), donate_argnums=0)
    x, twice = solve(a, b)
    check_solution(A, x, B)
    np.testing.assert_array_equal(np.asarray(twice), 2 * A)


@pytest.mark.parametrize(
    ("donate", "large", "shares"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_memory_that_a_traced_matrix_takes(monkeypatch, donate, large, shares):
    if large:
        monkeypatch.setattr(_problem, "_LARGE", 0)
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh, "x")
    solve = jax.jit(lambda a, b: meshsolve.potrs(a, b, ALIASED, mesh, (P("x", "y"), P("x")), donate=donate))
    assert ("output_operand_alias" in solve.lower(a, b).as_text()) == shares
    check_solution(A, solve(a, b), B)
    np.testing.assert_array_equal(np.asarray(a), A)


def test_donation_frees_the_matrix():
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh)
    live_before = sum(array.nbytes for array in jax.live_arrays())
    x = meshsolve.potrs(a, b, ALIASED, donate=True).block_until_ready()
    live_after = sum(array.nbytes for array in jax.live_arrays())
    assert live_after == live_before - A.nbytes + x.nbytes


def test_the_solver_works_in_the_memory_of_a_donated_matrix():
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh)
    before = pointers(a)
    layout = _sharding.resolve({"a": a, "b": b}, None, None)
    system = _system.System("cholesky", "solve")
    operands = {"a": a, "b": b}
    problem = _problem.Problem(system, operands, a, "f64", ALIASED, layout, "auto", keep_a=False)
    plan = _native.plan(problem.request())
    call = _call.Call(problem.request(), layout.grid, plan.b_rows, plan.b_columns, P(), consume=True)
    results, work = jax.jit(functools.partial(_call._run, call), donate_argnums=0)(a, b)
    check_solution(A, results["x"], B)
    assert pointers(work) == before


@pytest.mark.parametrize(
    "call",
    [
        functools.partial(linalg.inv, donate=True, tile=4),
        functools.partial(linalg.inv, donate=True, assume_a="pos", check=True),
        functools.partial(linalg.eigh, check=True),
        linalg.cholesky,
        lambda gone: linalg.solve(np.eye(24), gone, mesh=make_mesh(2, 2)),
        lambda gone: linalg.eigh(put(np.eye(24), make_mesh(2, 2)), gone),
        lambda gone: linalg.cho_solve(linalg.cho_factor(put(np.eye(24), make_mesh(2, 2))), gone),
        lambda gone: linalg.matmul(gone, gone),
        meshsolve.redistribute,
    ],
)
def test_an_array_that_was_given_away_before(call):
    """JAX 0.10 gives its memory to a program again, which crashes."""
    gone = put(positive_definite(24, np.float64), make_mesh(2, 2), "x", "y")
    linalg.cholesky(gone, donate=True, tile=4)
    assert gone.is_deleted()
    with pytest.raises(RuntimeError, match="has been deleted"):
        call(gone)
