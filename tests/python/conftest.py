"""Simulated devices for every test; set before JAX is imported anywhere."""

import os

# Without optimisation: what surrounds our calls is small, so compiling it takes the time, not running it.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_force_host_platform_device_count=8",
        "--xla_backend_optimization_level=0",
    ]
).strip()
# XLA's CPU client runs each device's share on one pool of threads, which must not run dry.
os.environ.setdefault("NPROC", "64")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# NumPy's threads would wait for each other beside those of pytest's other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import pytest

jax.config.update("jax_enable_x64", True)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "smoke: a small selection for other versions of JAX, under a minute")


@pytest.fixture(autouse=True, scope="module")
def _drop_compiled_programs():
    """Keeps the memory of the suite flat: each module compiles hundreds of programs."""
    yield
    jax.clear_caches()
