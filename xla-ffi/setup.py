"""Builds the native library with cargo and puts it beside the Python files.

The wheel fits every Python 3: the library has a plain C interface, which Python reaches by ctypes.
"""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parent
CRATE = "meshsolve-xla-ffi"
LIBRARY = "libmeshsolve_xla_ffi.so"


def workspace_version() -> str:
    """The version of all crates, which the package shares."""
    manifest = tomllib.loads((WORKSPACE / "Cargo.toml").read_text())
    return manifest["workspace"]["package"]["version"]


def target_folder() -> Path:
    """Where cargo puts what it builds, CARGO_TARGET_DIR and cargo's own settings heeded."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    answer = subprocess.run(command, cwd=WORKSPACE, check=True, capture_output=True, text=True)
    return Path(json.loads(answer.stdout)["target_directory"])


class BuildWithLibrary(build_py):
    """build_py that also builds the library and adds it to the package."""

    def run(self) -> None:
        command = ["cargo", "build", "--release", "-p", CRATE]
        subprocess.run(command, cwd=WORKSPACE, check=True)
        super().run()
        package = Path("python" if self.editable_mode else self.build_lib).resolve() / "meshsolve"
        package.mkdir(parents=True, exist_ok=True)
        # Renamed into place: a library that a running program has mapped must not change under it.
        fresh = package / f"{LIBRARY}.new"
        shutil.copy2(target_folder() / "release" / LIBRARY, fresh)
        os.replace(fresh, package / LIBRARY)


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and any Python 3."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class DistributionWithLibrary(Distribution):
    """Tells setuptools that the package is bound to a platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    version=workspace_version(),
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=DistributionWithLibrary,
)
