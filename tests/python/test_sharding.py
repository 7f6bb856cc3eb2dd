"""Where the mesh and the partitions come from, and in which sharding x goes back."""

import jax
import meshsolve
import numpy as np
import pytest
from helpers import (
    AUTO,
    EXPLICIT,
    MIXED,
    P,
    arbitrary,
    check_sharding,
    check_solution,
    make_mesh,
    positive_definite,
    put,
    right_hand_side,
    use_mesh,
)
from jax.sharding import Mesh, NamedSharding
from meshsolve import linalg

N, K, TILE = 24, 8, 5
A = positive_definite(N, np.float64)
B = right_hand_side(N, K, np.float64)

all_axis_types = pytest.mark.parametrize(
    "axis_types", [AUTO, EXPLICIT, MIXED], ids=["auto", "explicit", "mixed"]
)


def one_axis_mesh(size: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:size]), ("x",))


def ranks(*args, **options) -> int:
    """Number of devices in the process grid that these arguments lead to."""
    return meshsolve.plan(*args, **options).ranks


ONE_AXIS_FORMS = [((), 1), (("x",), 4), (("x", None), 4), ((None, "x"), 4)]
TWO_AXIS_FORMS = [
    ((), 1),
    (("x",), 2),
    ((None, "y"), 3),
    (("x", "y"), 6),
    (("y", "x"), 6),
    ((("x", "y"), None), 6),
    ((("y", "x"), None), 6),
    ((None, ("x", "y")), 6),
]


@pytest.mark.parametrize(
    ("mesh", "form", "size"),
    [
        *((one_axis_mesh(4), form, size) for form, size in ONE_AXIS_FORMS),
        *((make_mesh(2, 3), form, size) for form, size in TWO_AXIS_FORMS),
    ],
    ids=str,
)
def test_spec_forms(mesh, form, size):
    sharded_a = put(A, mesh, *form)
    assert ranks(sharded_a, B, TILE) == size
    for spec in ((), (form[0],) if form else ()):
        x = meshsolve.potrs(sharded_a, put(B, mesh, *spec), TILE)
        check_solution(A, x, B)
        check_sharding(x, mesh, *spec)
    # The same form given as an argument, with arrays that say nothing.
    check_solution(A, meshsolve.potrs(A, B, TILE, mesh, P(*form)), B)


def test_permuted_devices():
    shuffled = np.random.default_rng(3).permutation(jax.devices()[:6]).reshape(2, 3)
    mesh = Mesh(shuffled, ("x", "y"))
    for spec in ((), ("x",), ("x", "y")):
        b = B[:, :6]
        x = meshsolve.potrs(put(A, mesh, "x", "y"), put(b, mesh, *spec), TILE)
        check_solution(A, x, b)
        check_sharding(x, mesh, *spec)


def test_extra_mesh_axis():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("batch", "x", "y"))
    sharded_a = put(A, mesh, "x", "y")
    assert ranks(sharded_a, B) == 4
    for spec in ((), ("x", "y"), ("batch",)):
        x, log_det = meshsolve.potrs(sharded_a, put(B, mesh, *spec), TILE, return_logdet=True)
        check_solution(A, x, B)
        check_sharding(x, mesh, *spec)
        assert len(log_det.addressable_shards) == 8


@pytest.mark.parametrize(
    "spec", [("y",), ("y", "x"), (None, ("x", "y")), (("x", "y"),), (None, "x")], ids=str
)
def test_b_in_a_partition_that_the_solver_does_not_take(spec):
    mesh = make_mesh(2, 2)
    for tile in (4, TILE):
        x = meshsolve.potrs(put(A, mesh, "x", "y"), put(B, mesh, *spec), tile)
        check_solution(A, x, B)
        check_sharding(x, mesh, *spec)


def test_defaults_from_a_mesh_alone():
    assert ranks(A, B, mesh=make_mesh(2, 3)) == 6
    one_axis = meshsolve.plan(A, B, mesh=one_axis_mesh(4))
    assert one_axis.inputs[0].shape == (N // 4, N)  # rows are shared out
    three_axes = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("x", "y", "z"))
    assert ranks(A, B, mesh=three_axes) == 4


def test_arguments_come_before_the_sharding_of_the_array():
    mesh = make_mesh(2, 2)
    sharded_a = put(A, mesh, "x", "y")
    plan = meshsolve.plan(sharded_a, B, matrix_specs=P("y"))
    assert plan.inputs[0].shape == (N // 2, N)
    check_solution(A, meshsolve.potrs(sharded_a, B, TILE, matrix_specs=P("y")), B)
    # A replicated array solves on each device alone, unless a mesh is given to spread it over.
    assert ranks(put(A, mesh), B) == 1
    assert ranks(put(A, mesh), B, mesh=mesh) == 4


def test_another_mesh_of_the_same_devices():
    mesh, line = make_mesh(2, 2), one_axis_mesh(4)
    b = put(B, mesh, "x")
    x = meshsolve.potrs(put(A, mesh, "x", "y"), b, TILE, mesh=line)
    check_solution(A, x, B)
    check_sharding(x, mesh, "x")  # that of b


def test_shape_dtype_struct_is_enough_for_a_plan():
    mesh = make_mesh(2, 2)
    a = put(A, mesh, "x", "y")
    promised = jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding)
    assert meshsolve.plan(promised, B, TILE) == meshsolve.plan(a, B, TILE)


@pytest.mark.smoke
@all_axis_types
def test_axis_types(axis_types):
    mesh = make_mesh(2, 2, axis_types=axis_types)
    sharded_a = put(A, mesh, "x", "y")
    for spec in ((), ("x",), ("x", "y"), ("y",)):
        x = meshsolve.potrs(sharded_a, put(B, mesh, *spec), TILE)
        check_solution(A, x, B)
        check_sharding(x, mesh, *spec)
    # 21 rows, which neither kind of mesh can shard evenly
    a, b = positive_definite(21, np.float64), right_hand_side(21, 3, np.float64)
    check_solution(a, meshsolve.potrs(a, b, TILE, mesh=mesh), b)


@all_axis_types
def test_axis_types_under_jit(axis_types):
    mesh = make_mesh(2, 2, axis_types=axis_types)
    sharded_a = put(A, mesh, "x", "y")
    for spec in ((), ("x",), ("x", "y"), ("y",)):
        b = put(B, mesh, *spec)
        x = jax.jit(lambda a, b: meshsolve.potrs(2 * a, b, TILE))(sharded_a, b)
        check_solution(2 * A, x, B)
        if axis_types == EXPLICIT:  # only these tell the trace how b lies
            check_sharding(x, mesh, *spec)
        # A mesh given with it need not have the same axis types.
        x = jax.jit(lambda a, b: meshsolve.potrs(2 * a, b, TILE, make_mesh(2, 2)))(sharded_a, b)
        check_solution(2 * A, x, B)
        if axis_types == EXPLICIT:
            check_sharding(x, mesh, *spec)


@pytest.mark.smoke
@all_axis_types
def test_mesh_of_the_context(axis_types):
    mesh = make_mesh(2, 2, axis_types=axis_types)
    with use_mesh(mesh):
        assert ranks(A, B) == 4
        check_solution(A, meshsolve.potrs(A, B, TILE), B)
        # Under jit the context has an abstract mesh only.
        check_solution(A, jax.jit(lambda a, b: meshsolve.potrs(a, b, TILE))(A, B), B)
        check_solution(
            A, jax.jit(lambda: meshsolve.potrs(jax.numpy.asarray(A), jax.numpy.asarray(B), TILE))(), B
        )


def test_arrays_that_are_constants_of_a_trace():
    mesh = make_mesh(2, 2)
    sharded_a, sharded_b = put(A, mesh, "x", "y"), put(B, mesh, "x")
    x = jax.jit(lambda factor: meshsolve.potrs(sharded_a, factor * sharded_b, TILE))(3.0)
    check_solution(A, x, 3 * B)


@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT])
@pytest.mark.parametrize("spec", [("x", "y"), ("y", "x"), ("x", None), (None, "y"), (None, None)])
def test_checks_on_every_kind_of_mesh(axis_types, spec):
    mesh = make_mesh(2, 2, axis_types=axis_types)
    a, b = positive_definite(16, np.complex128), right_hand_side(16, 2, np.complex128)
    on_mesh = put(a, mesh, *spec)
    check_solution(a, meshsolve.potrs(on_mesh, b, check=True), b)
    linalg.eigvalsh(on_mesh, check=True)
    a[0, 1] += 1
    with pytest.raises(ValueError, match="not Hermitian"):
        meshsolve.potrs(put(a, mesh, *spec), b, check=True)


@pytest.mark.parametrize("set_types", [AUTO, EXPLICIT])
@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT])
def test_another_mesh_than_that_of_the_context(axis_types, set_types):
    line = Mesh(np.array(jax.devices()[:4]), ("line",), axis_types=axis_types[:1])
    a, b = arbitrary(24, np.float64), right_hand_side(24, 2, np.float64)
    with use_mesh(make_mesh(2, 2, axis_types=set_types)):
        check_solution(a, linalg.solve(a, b, mesh=line), b)
        on_line = jax.device_put(a, NamedSharding(line, P("line")))
        check_solution(a, linalg.solve(on_line, b), b)
        np.testing.assert_allclose(linalg.matmul(on_line, on_line), a @ a, atol=1e-12)
        np.testing.assert_array_equal(meshsolve.redistribute(meshsolve.redistribute(on_line)), a)
        np.testing.assert_allclose(linalg.det(on_line), np.linalg.det(a), rtol=1e-10)
        symmetric = jax.device_put(a + a.T, NamedSharding(line, P("line")))
        values = linalg.eigvalsh(symmetric, subset_by_index=(2, 7))
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a + a.T)[2:7], atol=1e-12)


@pytest.mark.parametrize("axis_types", [AUTO, EXPLICIT])
def test_other_devices_than_those_of_the_context(axis_types):
    mesh = make_mesh(1, 2, axis_types=axis_types)
    elsewhere = Mesh(mesh.devices[:, ::-1], mesh.axis_names, axis_types=axis_types)
    others = Mesh(np.array(jax.devices()[2:4]).reshape(1, 2), mesh.axis_names, axis_types=axis_types)
    on_mesh = put(A, mesh, "x", "y")
    for context in (elsewhere, others):
        with use_mesh(context):
            check_solution(A, linalg.solve(on_mesh, B, assume_a="pos", check=True), B)
            np.testing.assert_allclose(linalg.slogdet(on_mesh, assume_a="pos")[0], 1)


@pytest.mark.parametrize("shape", [(4, 0), (0, 0)])
def test_an_empty_matrix_on_explicit_axes(shape):
    mesh = make_mesh(2, 2, axis_types=EXPLICIT)
    a = put(np.zeros(shape), mesh, "x", "y")
    back = meshsolve.redistribute(meshsolve.redistribute(a))
    assert back.shape == shape and back.dtype == a.dtype


def test_x_where_axes_of_both_types_share_out_a_dimension():
    mesh = make_mesh(2, 2, axis_types=(AUTO[0], EXPLICIT[0]))
    a = arbitrary(24, np.float64)
    for k, spec in ((None, (("x", "y"),)), (3, (("x", "y"), None))):
        b = right_hand_side(24, k, np.float64)
        try:
            on_mesh = put(b, mesh, *spec)
        except ValueError:
            pytest.skip("this version of JAX refuses such arrays")
        x = linalg.solve(put(a, mesh, "x", "y"), on_mesh)
        check_solution(a, x, b)
        check_sharding(x, mesh, *spec)


def test_a_shift_on_another_device():
    a, b = positive_definite(24, np.float64), right_hand_side(24, 2, np.float64)
    shift = jax.device_put(2.0, jax.devices()[5])
    x = meshsolve.potrs(put(a, make_mesh(2, 2), "x", "y"), b, shift=shift)
    check_solution(a + 2 * np.eye(24), x, b)


def test_nothing_is_transferred_in_silence():
    mesh = make_mesh(2, 2)
    a, b = put(A, mesh, "x", "y"), put(B, mesh, "x", None)
    calls = (
        lambda: linalg.solve(a, b, shift=2.0),
        lambda: linalg.solve(a, b, assume_a="pos", check=True),
        lambda: meshsolve.potrs(a, b, shift=jax.device_put(1.0, jax.devices()[3])),
        lambda: linalg.slogdet(a, assume_a="pos"),
        lambda: linalg.lu_solve(linalg.lu_factor(a), b, 1),
        lambda: linalg.inv(a, assume_a="pos"),
        lambda: linalg.eigh(a, subset_by_index=(2, 5), check=True),
        lambda: linalg.pinvh_solve(a, b),
        lambda: linalg.matmul(a, b),
        lambda: meshsolve.redistribute(meshsolve.redistribute(a)),
    )
    for call in calls:
        with jax.transfer_guard("disallow"):
            jax.block_until_ready(call())
