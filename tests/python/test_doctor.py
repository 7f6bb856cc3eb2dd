"""``python -m meshsolve.doctor`` on a machine without GPUs, and where something is wrong."""

import os
import subprocess
import sys

import numpy as np
import pytest
from meshsolve import _native, doctor


def run(capsys):
    code = doctor.main()
    return code, capsys.readouterr().out


@pytest.mark.smoke
def test_program():
    answer = subprocess.run(
        [sys.executable, "-m", "meshsolve.doctor"],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[-1] == "all is well"
    assert all(line.startswith("ok ") for line in lines[:-1])
    for part in ("versions: Python", "CPU only", "handlers: registered for CUDA, cpu", "residual"):
        assert part in answer.stdout


def test_missing_native_library(capsys, monkeypatch):
    def library():
        raise ImportError("the native library of meshsolve is missing")

    monkeypatch.setattr(_native, "library", library)
    code, text = run(capsys)
    assert code == 1
    assert "FAIL  native library: the native library of meshsolve is missing" in text
    assert "remedy: install meshsolve again" in text
    assert "solve of" not in text
    assert text.endswith("failures: 1\n")


def test_gpus_that_jax_does_not_use(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_gpus_of_driver", lambda: 2)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    code, text = run(capsys)
    assert code == 1
    assert "the NVIDIA driver knows 2 GPU(s) that JAX does not use" in text
    assert 'remedy: install the GPU plugin of JAX: pip install "jax[cuda13]"' in text

    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert run(capsys)[0] == 0


def test_no_devices(capsys, monkeypatch):
    def local_devices():
        raise RuntimeError("Unable to initialize backend 'cuda'")

    monkeypatch.setattr(doctor.jax, "local_devices", local_devices)
    code, text = run(capsys)
    assert code == 1
    assert "FAIL  devices: JAX finds none: Unable to initialize backend 'cuda'" in text
    assert "nvidia-smi" in text


def test_refused_handlers(capsys, monkeypatch):
    def register_handlers():
        raise RuntimeError("the handler's API version (0.5) is incompatible")

    monkeypatch.setattr(_native, "register_handlers", register_handlers)
    code, text = run(capsys)
    assert code == 1
    assert "FAIL  handlers: JAX does not take them" in text


@pytest.mark.parametrize("factor", [1.001, np.nan])
def test_wrong_solution(capsys, monkeypatch, factor):
    solve = doctor.potrs

    def wrong(*arguments, **options):
        x, status = solve(*arguments, **options)
        return x * factor, status

    monkeypatch.setattr(doctor, "potrs", wrong)
    code, text = run(capsys)
    assert code == 1
    assert "wrong: status 0" in text


def test_failing_solve(capsys, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("rank 1 of 2: device 1 does not come")

    monkeypatch.setattr(doctor, "potrs", fail)
    code, text = run(capsys)
    assert code == 1
    assert "rank 1 of 2: device 1 does not come" in text
    assert "MESHSOLVE_COMM=own" in text


def test_missing_libraries_on_gpus(capsys, monkeypatch):
    """The devices here count as GPUs; NVIDIA's libraries are not there."""
    monkeypatch.setattr(doctor, "platform_of", lambda mesh: "CUDA")
    monkeypatch.setattr(sys, "path", [])
    code, text = run(capsys)
    assert code == 1
    assert "FAIL  libraries" in text
    assert "folders with packages of NVIDIA: none on sys.path" in text
    assert "nvidia-cusolvermp-cu13" in text
    assert "solve of" not in text


def test_gpus_where_all_is_well(capsys, monkeypatch):
    """The devices here count as GPUs of which one pair has no direct link."""
    found = [
        {"name": "NCCL", "path": "/somewhere/libnccl.so.2", "version": "2.29.7"},
        {"name": "cuSOLVERMp", "path": "/somewhere/libcusolverMp.so.0", "version": None},
    ]
    monkeypatch.setattr(doctor, "platform_of", lambda mesh: "CUDA")
    monkeypatch.setattr(doctor._gpus, "libraries", lambda: found)
    monkeypatch.setattr(doctor, "_can_access_peer", lambda ordinal, peer: (ordinal, peer) != (3, 1))
    code, text = run(capsys)
    assert code == 0
    assert "peer access: not from, to: [(3, 1)]. Solves work" in text
    assert "NCCL 2.29.7: /somewhere/libnccl.so.2" in text
    assert "cuSOLVERMp (version unknown): /somewhere/libcusolverMp.so.0" in text
    assert "on a 1 x 8 grid: residual" in text
