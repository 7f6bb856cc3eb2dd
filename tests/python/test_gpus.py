"""What goes to the native library for GPUs, seen on a CPU: the simulated devices are declared to be GPUs."""

import json
import sys
from types import SimpleNamespace

import jax
import meshsolve
import numpy as np
import pytest
from helpers import (
    AUTO,
    EXPLICIT,
    P,
    check_solution,
    make_mesh,
    positive_definite,
    put,
    right_hand_side,
    use_mesh,
)
from jax.sharding import Mesh
from meshsolve import _gpus, _native, _sharding
from meshsolve._sharding import Grid

N = 24
UNIQUE_ID = [(7 * place) % 256 for place in range(128)]


@pytest.fixture
def gpus(monkeypatch):
    """Every device counts as a GPU. The handlers stay those for CPUs, which know the attributes too."""
    monkeypatch.setattr(_sharding, "platform_of", lambda mesh: "CUDA")


@pytest.fixture
def messages(monkeypatch):
    """What is said to the library, which answers with counters or a unique id."""
    said = []

    def runtime(message):
        said.append(message)
        return json.dumps({"id": UNIQUE_ID} if message == "new_unique_id" else {})

    monkeypatch.setattr(_native, "runtime", runtime)
    monkeypatch.setattr(_gpus, "_known_client", None)
    monkeypatch.setattr(_gpus, "_generation", 0)
    monkeypatch.setattr(_gpus, "_with_unique_id", set())
    return said


# ---- places of the devices ----


@pytest.mark.parametrize(
    ("shape", "rows", "columns"),
    [
        ((2, 2, 2), ("x",), ("y",)),
        ((2, 2, 2), ("z",), ("x",)),
        ((2, 2, 2), ("z", "x"), ("y",)),
        ((2, 2, 2), (), ("y", "x", "z")),
        ((1, 2, 4), ("y",), ("z",)),
        ((4, 1, 2), ("z",), ("x",)),
        ((2, 2, 2), (), ()),
    ],
    ids=str,
)
def test_places_are_what_jax_says_to_each_device(shape, rows, columns):
    permutation = np.random.default_rng(0).permutation(8)
    mesh = Mesh(np.array(jax.devices())[permutation].reshape(shape), ("x", "y", "z"))
    grid = Grid(mesh, rows, columns)
    ranks = grid.shape[0] * grid.shape[1]

    def index(axes):
        return jax.lax.axis_index(axes) if axes else 0

    def place():
        rank = index(rows) * grid.shape[1] + index(columns)
        return (index(grid.others) * ranks + rank + jax.numpy.zeros((1, 1, 1), int)).reshape(1, 1, 1)

    told = jax.shard_map(place, mesh=mesh, in_specs=(), out_specs=P("x", "y", "z"), check_vma=False)()
    on_device = {shard.device.id: int(shard.data.item()) for shard in told.addressable_shards}
    assert dict(zip(grid.device_ids.tolist(), grid.places.tolist(), strict=True)) == on_device
    assert grid.device_ids.dtype == grid.places.dtype == np.int64


# ---- attributes of a call ----


@pytest.mark.parametrize("x64", [True, False])
def test_calls_name_their_devices(gpus, x64):
    devices = np.array(jax.devices()[:4])[::-1].reshape(2, 2)
    mesh = Mesh(devices, ("x", "y"), axis_types=AUTO)
    a, b = positive_definite(N, np.float32), right_hand_side(N, 3, np.float32)
    jax.config.update("jax_enable_x64", x64)
    try:
        sharded = put(a, mesh, "y", "x")
        x = meshsolve.potrs(sharded, b, 4)
        text = jax.jit(lambda a, b: meshsolve.potrs(a, b, 4, mesh, P("y", "x"))).lower(sharded, b).as_text()
    finally:
        jax.config.update("jax_enable_x64", True)
    check_solution(a, x, b)
    assert "device_ids = dense<[3, 2, 1, 0]> : tensor<4xi64>" in text
    # Rows along y, columns along x.
    assert "places = dense<[0, 2, 1, 3]> : tensor<4xi64>" in text


def test_calls_on_cpus_name_none():
    mesh = make_mesh(2, 2)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    solve = jax.jit(lambda a, b: meshsolve.potrs(a, b, mesh=mesh))
    text = solve.lower(put(a, mesh, "x", "y"), b).as_text()
    assert "request" in text
    assert "device_ids" not in text


# ---- meshes that do not tell their devices ----


def test_abstract_mesh_takes_its_devices_from_the_context(gpus):
    mesh = make_mesh(2, 2, axis_types=EXPLICIT)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    with use_mesh(mesh):
        solve = jax.jit(lambda a, b: meshsolve.potrs(a, b, 4))
        sharded = put(a, mesh, "x", "y"), put(b, mesh, "x")
        assert "device_ids" in solve.lower(*sharded).as_text()
        check_solution(a, solve(*sharded), b)


def test_abstract_mesh_without_devices(gpus, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    mesh = make_mesh(2, 2, axis_types=EXPLICIT)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    sharded = put(a, mesh, "x", "y"), put(b, mesh, "x")
    with pytest.raises(ValueError, match=r"which GPUs the mesh is made of.*'x', 2.*Pass mesh="):
        jax.jit(meshsolve.potrs)(*sharded)
    check_solution(a, jax.jit(lambda a, b: meshsolve.potrs(a, b, mesh=mesh))(*sharded), b)


# ---- processes ----


def fake_grid(client, processes):
    """A 1 x n grid of GPUs, one in each process."""
    devices = np.array(
        [
            SimpleNamespace(id=10 + process, process_index=process, platform="gpu", client=client)
            for process in range(processes)
        ]
    )
    mesh = SimpleNamespace(devices=devices.reshape(1, -1), axis_names=("x", "y"))
    return Grid(mesh, ("x",), ("y",))


class FakeClient:
    def __init__(self, process):
        self.process = process

    def local_devices(self):
        return [SimpleNamespace(local_hardware_id=3, id=10 + self.process)]


class FakeStore:
    """A key-value store; a key that nobody set counts as waited for in vain."""

    def __init__(self):
        self.values = {}

    def key_value_set(self, key, value):
        assert key not in self.values
        self.values[key] = value

    def blocking_key_value_get(self, key, timeout_in_ms):
        if key not in self.values:
            raise RuntimeError("DEADLINE_EXCEEDED")
        return self.values[key]


def as_process(monkeypatch, number):
    """Starts afresh as this process."""
    monkeypatch.setattr(jax, "process_index", lambda: number)
    monkeypatch.setattr(_gpus, "_known_client", None)
    monkeypatch.setattr(_gpus, "_generation", 0)
    monkeypatch.setattr(_gpus, "_with_unique_id", set())
    return FakeClient(number)


def test_gpus_of_several_processes_are_accepted(monkeypatch, gpus):
    monkeypatch.setattr(jax, "process_index", lambda: 7)
    a, b = positive_definite(N, np.float64), right_hand_side(N, 3, np.float64)
    check_solution(a, meshsolve.potrs(put(a, make_mesh(1, 2), "x", "y"), b, 4), b)


def test_local_devices_are_told_once_for_each_client(monkeypatch, messages):
    first, second = FakeClient(0), FakeClient(1)
    for client in (first, first, second):
        _gpus.make_ready(fake_grid(client, 1))
    told = [message["set_local_devices"] for message in messages if "set_local_devices" in message]
    assert told == [[[3, 10]], [[3, 11]]]
    assert not any("unique_id" in str(message) for message in messages)


def test_all_processes_register_the_same_unique_id(monkeypatch, messages):
    monkeypatch.setenv("MESHSOLVE_COMM", "own")
    store = FakeStore()
    monkeypatch.setattr(_gpus, "_key_value_store", lambda: store)
    for process in range(3):
        client = as_process(monkeypatch, process)
        for _ in range(2):
            _gpus.make_ready(fake_grid(client, 3))
    assert messages.count("new_unique_id") == 1
    registered = [message for message in messages if "register_unique_id" in message]
    expected = {"register_unique_id": {"device_ids": (10, 11, 12), "id": UNIQUE_ID}}
    assert registered == [expected] * 3


def test_a_new_client_gets_a_new_unique_id(monkeypatch, messages):
    monkeypatch.setenv("MESHSOLVE_COMM", "own")
    store = FakeStore()
    monkeypatch.setattr(_gpus, "_key_value_store", lambda: store)
    monkeypatch.setattr(jax, "process_index", lambda: 0)
    clients = [FakeClient(0), FakeClient(0)]
    for client in clients:
        _gpus.make_ready(fake_grid(client, 2))
    assert messages.count("new_unique_id") == 2
    assert len(store.values) == 2


def test_a_failure_to_make_the_unique_id_is_the_same_error_everywhere(monkeypatch, messages):
    monkeypatch.setenv("MESHSOLVE_COMM", "own")
    store = FakeStore()
    monkeypatch.setattr(_gpus, "_key_value_store", lambda: store)
    answer = _native.runtime
    failure = json.dumps({"error": {"kind": "failed_precondition", "message": "no NCCL here"}})
    monkeypatch.setattr(
        _native, "runtime", lambda message: failure if message == "new_unique_id" else answer(message)
    )
    for process in range(2):
        client = as_process(monkeypatch, process)
        with pytest.raises(RuntimeError, match="^no NCCL here$"):
            _gpus.make_ready(fake_grid(client, 2))


def test_the_process_that_makes_the_unique_id_does_not_come(monkeypatch, messages):
    monkeypatch.setenv("MESHSOLVE_COMM", "own")
    monkeypatch.setattr(_gpus, "_key_value_store", FakeStore)
    client = as_process(monkeypatch, 1)
    with pytest.raises(RuntimeError, match=r"process 1 waited 120 s for process 0.*same program"):
        _gpus.make_ready(fake_grid(client, 2))


def test_no_store_to_share_a_unique_id(monkeypatch, messages):
    monkeypatch.setenv("MESHSOLVE_COMM", "own")
    client = as_process(monkeypatch, 0)
    with pytest.raises(RuntimeError, match=r"no key-value store.*jax\.distributed\.initialize"):
        _gpus.make_ready(fake_grid(client, 2))


@pytest.mark.parametrize(
    ("version", "wish", "asked"),
    [((0, 11, 2), None, 0), ((0, 12, 0), None, 0), ((0, 11, 1), None, 1), ((0, 11, 2), "own", 1)],
    ids=str,
)
def test_the_communicator_of_xla_needs_no_unique_id(monkeypatch, messages, version, wish, asked):
    monkeypatch.delenv("MESHSOLVE_COMM", raising=False)
    if wish:
        monkeypatch.setenv("MESHSOLVE_COMM", wish)
    monkeypatch.setattr(jax, "__version_info__", version)
    monkeypatch.setattr(_gpus, "_key_value_store", FakeStore)
    _gpus.make_ready(fake_grid(as_process(monkeypatch, 0), 2))
    assert messages.count("new_unique_id") == asked


# ---- the library itself ----


def test_library_folders(tmp_path, monkeypatch):
    for name in ("first", "without", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "nvidia").mkdir()
    (tmp_path / "second" / "nvidia").mkdir()
    entries = [str(tmp_path / name) for name in ("second", "without", "first", "second")]
    monkeypatch.setattr(sys, "path", entries)
    assert _gpus.library_folders() == [str(tmp_path / "second"), str(tmp_path / "first")]


@pytest.mark.smoke
def test_the_library_understands_the_messages():
    _gpus.set_library_folders()
    assert _native.checked(_native.runtime({"set_local_devices": [[0, 0], [1, 7]]})) == {}
    known = {"register_unique_id": {"device_ids": [0, 7], "id": UNIQUE_ID}}
    assert _native.checked(_native.runtime(known)) == {}
    counters = _gpus.counters()
    assert {"modules", "handles", "grids", "descriptors"} <= set(counters)
    assert all(count == 0 for count in counters.values())
    with pytest.raises(ValueError, match="no message"):
        _native.checked(_native.runtime("sing"))


def test_missing_libraries_are_named_with_their_package(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(RuntimeError, match="pip install"):
        _gpus.libraries()
