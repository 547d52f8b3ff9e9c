"""Compile the C core and record the version when the package is built; a build without a compiler fails."""

from __future__ import annotations

import importlib
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

VERSION_FILE = "layoutscope/_version.py"
VERSION_TEXT = '''"""The version, as the build found it in git's tags; hatch_build.py wrote it."""

__version__ = "{version}"
'''
ZIG_SYSTEMS = {"linux", "darwin", "win32"}
ZIG_MACHINES = {"x86_64", "amd64", "aarch64", "arm64"}
"""Where the compiler in the package ``ziglang`` is known to install; elsewhere asking for it would fail the build."""


class NativeHook(BuildHookInterface[Any]):
    """Build with the compiler that is there, else with one that is asked for only then."""

    def dependencies(self) -> list[str]:
        """Ask for a compiler where none works."""
        has_zig = sys.platform in ZIG_SYSTEMS and platform.machine().lower() in ZIG_MACHINES
        return ["ziglang>=0.13"] if has_zig and not native_build(self.root).compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the version, and the library to a wheel; for an editable install they are put into the checkout."""
        build = native_build(self.root)
        self.scratch = Path(tempfile.mkdtemp())
        written = Path(self.root, VERSION_FILE) if version == "editable" else self.scratch / "version.py"
        written.write_text(VERSION_TEXT.format(version=self.metadata.version), encoding="utf-8")
        if version != "editable":
            build_data["force_include"][str(written)] = VERSION_FILE
        library = build.LIBRARY if version == "editable" else self.scratch / build.LIBRARY.name
        if self.target_name != "wheel":
            return
        try:
            build.build(library)
        except FileNotFoundError as error:
            self.app.abort(str(error))
        except subprocess.CalledProcessError as error:
            self.app.abort(f"the C core cannot be built: {error.cmd[0]} ended with {error.returncode}\n{error.stderr}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel_platform()}"
        if version != "editable":
            build_data["force_include"][str(library)] = build.LIBRARY.relative_to(self.root).as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what the wheel has a copy of."""
        shutil.rmtree(self.scratch)


def native_build(root: str) -> Any:
    """Return the module that compiles, from this source."""
    sys.path.insert(0, root)
    return importlib.import_module("layoutscope.structs.build")


def wheel_platform() -> str:
    """Return the platform of this machine; what is built here is promised to no others."""
    return next(
        tag.platform for tag in sys_tags() if "manylinux" not in tag.platform and "musllinux" not in tag.platform
    )
