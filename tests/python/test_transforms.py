"""The solve inside jax.vmap, jax.lax.scan and among other collectives."""

import jax
import jax.numpy as jnp
import meshsolve
import numpy as np
import pytest
from helpers import (
    EXPLICIT,
    P,
    check_log_det,
    check_solution,
    make_mesh,
    positive_definite_stack,
    put,
    right_hand_side,
)
from jax.sharding import NamedSharding
from meshsolve import linalg

N, TILE = 16, 5


@pytest.mark.smoke
def test_vmap_over_both():
    mesh = make_mesh(2, 2)
    stack = positive_definite_stack(3, N, np.float64)
    b = np.stack([right_hand_side(N, 2, np.float64) * (i + 1) for i in range(3)])

    def solve(a, b):
        return meshsolve.potrs(a, b, TILE, mesh=mesh, return_logdet=True)

    for run in (jax.vmap(solve), jax.jit(jax.vmap(solve))):
        x, log_det = run(stack, b)
        for i in range(3):
            check_solution(stack[i], x[i], b[i])
            check_log_det(stack[i], log_det[i])


def test_vmap_over_right_hand_sides():
    mesh = make_mesh(1, 2)
    a = positive_definite_stack(1, N, np.float64)[0]
    b = np.stack([right_hand_side(N, None, np.float64) * (i + 1) for i in range(3)])
    x = jax.vmap(lambda b: meshsolve.potrs(a, b, TILE, mesh=mesh))(b)
    for i in range(3):
        check_solution(a, x[i], b[i])


def test_scan_beside_a_psum():
    """A hundred solves in one program, each beside a sum over the devices, and no growth in memory."""
    mesh = make_mesh(2, 2)
    a = positive_definite_stack(1, N, np.float64)[0]
    b = right_hand_side(N, 2, np.float64)
    total = jax.shard_map(
        lambda v: jax.lax.psum(v.sum(), ("x", "y")), mesh=mesh, in_specs=P("x", "y"), out_specs=P()
    )

    @jax.jit
    def run(a, b):
        def step(carry, shift):
            shifted = a + shift * jnp.eye(N)
            x = meshsolve.potrs(shifted, b, TILE, mesh=mesh, matrix_specs=(P("x", "y"), P("x")))
            return carry + total(x), x

        return jax.lax.scan(step, 0.0, jnp.arange(100.0))

    sharded_a, sharded_b = put(a, mesh, "x", "y"), put(b, mesh, "x")
    carry, xs = jax.block_until_ready(run(sharded_a, sharded_b))
    for i in range(0, 100, 9):
        check_solution(a + i * np.eye(N), xs[i], b)
    np.testing.assert_allclose(float(carry), np.asarray(xs).sum(), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(sharded_a), a)

    live = len(jax.live_arrays())
    for _ in range(3):
        jax.block_until_ready(run(sharded_a, sharded_b))
    assert len(jax.live_arrays()) == live


def test_two_solves_in_one_program():
    mesh = make_mesh(2, 2)
    first, second = positive_definite_stack(2, N, np.float64)
    b = right_hand_side(N, 1, np.float64)

    @jax.jit
    def run(first, second, b):
        x = meshsolve.potrs(first, b, TILE, mesh=mesh)
        return x, meshsolve.potrs(second, x, TILE, mesh=mesh)

    x, y = run(first, second, b)
    check_solution(first, x, b)
    check_solution(second, y, x)


def test_many_solves_in_flight():
    mesh = make_mesh(2, 2)
    a = positive_definite_stack(1, N, np.float64)[0]
    sharded_a = put(a, mesh, "x", "y")
    rhs = [right_hand_side(N, 1, np.float64) + i for i in range(20)]
    solutions = [meshsolve.potrs(sharded_a, put(b, mesh, "x"), TILE) for b in rhs]
    for x, b in zip(solutions, rhs, strict=True):
        check_solution(a, x, b)


def test_checkpoint():
    """A solve is pure, so that jax.checkpoint takes it."""
    mesh = make_mesh(1, 2)
    a = positive_definite_stack(1, N, np.float64)[0]
    b = right_hand_side(N, 1, np.float64)
    x = jax.jit(jax.checkpoint(lambda a, b: meshsolve.potrs(a, b, TILE, mesh=mesh)))(a, b)
    check_solution(a, x, b)


@pytest.mark.parametrize("call", [lambda a: linalg.solve(a, jnp.ones(8)), linalg.eigvalsh])
def test_a_batch_over_an_explicit_axis(call):
    mesh = make_mesh(2, 2, axis_types=EXPLICIT)
    dense = positive_definite_stack(4, 8, np.float64)
    stack = jax.device_put(dense, NamedSharding(mesh, P("x", "y")))
    try:
        results = jax.vmap(call)(stack)
    except NotImplementedError as error:
        assert "Replicate the batch" in str(error)
        return
    # Older versions of JAX gather it.
    expected = (
        np.linalg.eigvalsh(dense) if call is linalg.eigvalsh else np.linalg.solve(dense, np.ones((8, 1)))
    )
    np.testing.assert_allclose(results, expected.reshape(4, 8), rtol=1e-10)
