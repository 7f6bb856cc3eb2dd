"""The native library as Python sees it: version, plans, refusals."""

import json

import meshsolve
import pytest
from meshsolve import _native

REQUEST = {
    "routine": "system",
    "method": "cholesky",
    "task": "solve",
    "dtype": "f64",
    "n": 1000,
    "nrhs": 3,
    "grid": [2, 2],
    "tile": 256,
    "b": {"rows": "sharded", "cols": "replicated"},
    "triangle": None,
    "log_det": True,
}


def plan(**changes):
    return _native.plan(json.dumps({**REQUEST, **changes}))


@pytest.mark.smoke
def test_library_and_package_are_of_one_version():
    assert _native.version() == meshsolve.__version__


@pytest.mark.smoke
def test_plan():
    answer = plan()
    assert (answer.routine, answer.tile, answer.ranks) == ("system", 256, 4)
    assert [(operand.name, operand.shape) for operand in answer.inputs] == [
        ("a", (500, 500)),
        ("b", (500, 3)),
    ]
    outputs = {output.name: output for output in answer.outputs}
    assert list(outputs) == ["work", "b_work", "x", "log_det", "status"]
    assert outputs["work"].shape == (512, 512)
    assert outputs["work"].alias is None
    assert outputs["x"].shape == (500, 3)
    assert (outputs["log_det"].dtype, outputs["log_det"].shape) == ("float64", (1,))
    assert (outputs["status"].dtype, outputs["status"].shape) == ("int32", (1,))
    assert "log_det" not in [output.name for output in plan(log_det=False).outputs]


@pytest.mark.parametrize(("dtype", "real"), [("f32", "float32"), ("c64", "float32"), ("c128", "float64")])
def test_log_det_is_real(dtype, real):
    outputs = {output.name: output for output in plan(dtype=dtype).outputs}
    assert outputs["log_det"].dtype == real
    assert outputs["x"].dtype == {"f32": "float32", "c64": "complex64", "c128": "complex128"}[dtype]


def test_scratch_stays_below_three_slabs():
    answer = plan(n=4096, tile=128)
    assert answer.scratch_bytes <= 3 * 128 * 2048 * 8


def test_workspace_is_estimated_and_explained():
    # The factor takes a slab, two of the four tiles for each process row, and a tile.
    answer = plan()
    slab = 8 * 256 * (512 + 256)
    assert slab <= answer.workspace_bytes <= 1.1 * slab
    assert not answer.workspace_is_exact
    assert f"workspace about {answer.workspace_bytes / 1e3:.1f} kB (estimated)" in answer.explain()
    moving = {"routine": "redistribute", "dtype": "f64", "m": 100, "n": 80, "grid": [2, 2], "tile": 10}
    moved = _native.plan(json.dumps({**moving, "direction": "forward", "keep_a": True}))
    assert (moved.workspace_bytes, "workspace" in moved.explain()) == (0, False)


def test_plans_of_far_larger_matrices_than_this_machine_holds():
    answer = plan(n=46341, tile=256)
    assert answer.inputs[0].shape == (23171, 23171)
    assert plan(n=1_500_000, tile=1024, grid=[8, 8]).inputs[0].shape == (187500, 187500)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"routine": "magic"}, "magic"),
        ({"dtype": "f16"}, "f16"),
        ({"n": -1}, "-1"),
        ({"grid": [0, 2]}, "process rows is 0"),
        ({"tile": 0}, "tile"),
        ({"triangle": "both"}, "both"),
        ({"unknown": 1}, "unknown"),
        ({"b": {"rows": "somewhere", "cols": "replicated"}}, "somewhere"),
    ],
    ids=str,
)
def test_refused_requests(changes, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        plan(**changes)


def test_text_that_is_no_request():
    with pytest.raises(ValueError, match="request"):
        _native.plan("{")
