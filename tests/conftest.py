"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from layoutscope.zstd import zstd

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parent.parent

# Tests and the processes that they start neither read nor write the user's cache.
os.environ["LAYOUTSCOPE_CACHE"] = ""
os.environ.pop("LAYOUTSCOPE_PASSWORD", None)
# Output is as if no terminal were attached. pytest-xdist gives its processes a terminal size, and CI services may force
# colors.
for told in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(told, None)

# Examples are the same in each run and have no deadline, because the machine may be busy; LAYOUTSCOPE_FUZZ asks for new
# ones.
settings.register_profile(
    "layoutscope",
    deadline=None,
    derandomize=os.environ.get("LAYOUTSCOPE_FUZZ", "1") == "1",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("layoutscope")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the collected tests out of garbage collections: there are thousands, and they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def shared_dir() -> Path | None:
    """Return the folder with the reference images, or None where it is absent."""
    folder = Path(os.environ.get("LAYOUTSCOPE_SHARED", ROOT.parent / "shared"))
    return folder if (folder / "images" / "README.md").exists() else None


def cache_dir() -> Path:
    """Return the folder of decompressed images, which is outside the checkout."""
    default = Path.home() / ".cache" / "layoutscope-tests"
    return Path(os.environ.get("LAYOUTSCOPE_TEST_CACHE", default))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of reference images; skips where it is absent."""
    folder = shared_dir()
    if folder is None:
        pytest.skip("the reference images (../shared) are absent")
    return folder


def find_reference(name: str) -> Path | None:
    """Return a file of the reference set, such as ``aged/hfsplus-20000-c20.img.zst``, or None where it is absent.

    A part of the set is in fixtures/images; ``python -m tests.fetch`` brings the rest to the cache.
    """
    beside = shared_dir()
    folders = [ROOT / "fixtures" / "images", cache_dir() / "reference", *([beside / "images"] if beside else [])]
    return next((folder / name for folder in folders if (folder / name).exists()), None)


@pytest.fixture(scope="session")
def reference_file():
    """Return a function that finds a file of the reference set as it is stored; skips where it is absent."""

    def get(*names: str) -> Path:
        path = next(filter(None, map(find_reference, names)), None)
        if path is None:
            pytest.skip(f"{names[0]} is not among the references of the checkout: python -m tests.fetch --help")
        return path

    return get


@pytest.fixture(scope="session")
def reference_image(reference_file):
    """Return a function that maps a name such as ``aged/hfsplus-20000-c20.img`` to a raw image on disk."""

    def get(name: str) -> Path:
        target = cache_dir() / name
        if not target.exists():
            _decompress(reference_file(f"{name}.zst", f"{name}.tar.zst"), target)
        return target

    return get


def _decompress(packed: Path, target: Path) -> None:
    """Decompress an image to a sparse file; large images are stored as sparse tars."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Several runs may share the cache, so a file gets its final name only when it is complete.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        part = Path(folder, target.name)
        if packed.name.endswith(".tar.zst"):
            if shutil.which("zstd") is None:
                pytest.skip("zstd is not installed")
            subprocess.run(["tar", "--zstd", "-xSf", packed, "-C", folder], check=True)
        else:
            options = {zstd.DecompressionParameter.window_log_max: 31}
            with zstd.open(packed, options=options) as source, part.open("wb") as file:
                while block := source.read(1 << 20):
                    if block == bytes(len(block)):  # stays a hole
                        file.seek(len(block), os.SEEK_CUR)
                    else:
                        file.write(block)
                file.truncate()
        part.replace(target)


@pytest.fixture(scope="session")
def truth(reference_file):
    """Return a function that maps a file name under truth/ or traces/ to its decompressed bytes."""

    def get(name: str) -> bytes:
        folders = ("truth", "traces", "disksim", "disksim/lists")
        data = reference_file(*(f"{folder}/{name}" for folder in folders)).read_bytes()
        return zstd.decompress(data) if name.endswith(".zst") else data

    return get


@pytest.fixture
def marks(tmp_path):
    """Return a function that writes a file as the tool does; skips where the file system cannot store its marks."""
    from layoutscope import ownfiles

    def written(path: Path, text: str = "a,b\n") -> Path:
        with ownfiles.new_file(path, {}) as file:
            file.write(text.encode())
        return path

    probe = written(tmp_path / "probe")
    has_marks = ownfiles.is_own(probe)
    probe.unlink()
    if not has_marks:
        pytest.skip("the file system of temporary files keeps no extended attributes")
    return written


@pytest.fixture(scope="session")
def victims(tmp_path_factory):
    """Write the APFS containers that faults are planted in; return the image and layout of each by name."""
    from fixtures.apfs.victims import VICTIMS
    from fixtures.apfs.writer import write

    folder = tmp_path_factory.mktemp("victims")
    return {name: (folder / name, write(plan, folder / name)) for name, plan in VICTIMS.items()}


def program(name: str) -> str:
    """Return the path of a peer program; skips where it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.fixture(scope="session")
def peer():
    """Return a function that finds a peer program or skips."""
    return program
