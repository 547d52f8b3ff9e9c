from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from layoutscope.drive.hdd import CLOSED_LOOP, QUEUED_LOOP
from layoutscope.image.raw import READ_PIECES
from layoutscope.structs.arrays import COMBINE_RUNS, COPY_PIECES, FIRST_PLACES, JOIN_RUNS, first_places
from layoutscope.structs.build import compiler
from layoutscope.structs.checksum import FLETCHER64
from layoutscope.structs.leaves import DECODE_LEAVES
from layoutscope.structs.native import SOURCES, Kernel, RefusedError
from layoutscope.walk.cache import LRU_MISSES, READ_ONCE
from tests.cli.conftest import ROOT

SCAN = [sys.executable, "-m", "layoutscope", "scan", str(ROOT / "fixtures/images/hfsplus-scattered.img.zst"), "--json"]


def scanned(folder, **environment: str):
    """Scan an image in a new process, with the package from a given folder."""
    around = {**os.environ, "PYTHONPATH": str(folder), **environment}
    if not environment:
        around.pop("LAYOUTSCOPE_KERNELS", None)  # the files that are watched during tests
    return subprocess.run(SCAN, capture_output=True, text=True, check=False, cwd=folder, env=around)


@pytest.mark.parametrize(("library", "reason"), [
    ("/nowhere/kernels.so", "the C core is missing: /nowhere/kernels.so was not built. "),
    (__file__, "the C core cannot be loaded: "),
])  # fmt: skip
def test_without_a_core_one_line_says_what_builds_it(library, reason):
    """The command ends with status 1 and without a traceback; the library raises the same error."""
    result = scanned(ROOT, LAYOUTSCOPE_KERNELS=library)
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"layoutscope: {reason}")
    assert line.endswith(f"with python -m layoutscope.structs.build -o {library}")
    code = f"import layoutscope; layoutscope.scan({SCAN[-2]!r})"
    around = {**os.environ, "LAYOUTSCOPE_KERNELS": library}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, env=around
    )
    assert run.stderr.splitlines()[-1].startswith(f"layoutscope.structs.native.CoreError: {reason}")


@pytest.mark.full
def test_a_core_of_other_sources_is_refused(tmp_path):
    """After a change in C, or without a digest, nothing runs until the library is rebuilt."""
    if not compiler():
        pytest.skip("no C compiler")
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "layoutscope", copy / "layoutscope", ignore=shutil.ignore_patterns("node_modules", "*.so"))
    library, source = copy / "layoutscope/structs/kernels.so", copy / "layoutscope/structs/source/merge.c"
    build_in = [sys.executable, "-m", "layoutscope.structs.build"]
    assert "the C core is missing" in scanned(copy).stderr
    subprocess.run(build_in, check=True, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)})
    assert (scanned(copy).returncode, scanned(copy).stderr) == (0, "")
    source.write_text(source.read_text() + "/* changed */\n")
    told = f"layoutscope: the C core is older than its C sources: {library}. "
    assert scanned(copy).stderr == f"{told}Build it again with python -m layoutscope.structs.build\n"
    stub = copy / "stub.c"
    stub.write_text("int nothing;\n")
    subprocess.run([*compiler(), "-shared", "-fPIC", "-o", str(library), str(stub)], check=True)
    assert scanned(copy).stderr.startswith(told)


def test_a_compiler_that_makes_nothing_to_load_is_passed_over(tmp_path):
    """A failing compiler, or one with another output, is skipped; without any other, a line says what to install."""
    wrong = tmp_path / "cc"
    for does in ("exit 1", 'while [ "$1" != -o ]; do shift; done; echo none > "$2"'):
        wrong.write_text(f"#!/bin/sh\n{does}\n")
        wrong.chmod(0o755)
        around = {**os.environ, "PYTHONPATH": str(ROOT), "CC": str(wrong), "PATH": str(tmp_path)}
        words = [sys.executable, "-m", "layoutscope.structs.build", "-o", str(tmp_path / "kernels.so")]
        run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=around)
        if run.returncode == 0:
            pytest.skip("the package ziglang is installed, and takes the place of a compiler")
        assert run.stderr.startswith(
            "error: the C core cannot be built: no C compiler makes a library that this Python"
        )
        assert len(run.stderr.splitlines()) == 1
        assert not (tmp_path / "kernels.so").exists()


def test_what_a_kernel_refuses_is_an_error_of_one_line():
    """Numbers that lead out of a buffer give an error, not a result."""
    with pytest.raises(RefusedError, match="kernel first_places: numbers are outside"):
        first_places(np.array([5]), 3)


KERNELS = (
    CLOSED_LOOP, QUEUED_LOOP, LRU_MISSES, READ_ONCE, READ_PIECES, FLETCHER64, DECODE_LEAVES,
    FIRST_PLACES, JOIN_RUNS, COMBINE_RUNS, COPY_PIECES,
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_takes_what_its_prototype_says(kernel):
    """Letters in Python map to types in C, one by one."""
    text = "".join(path.read_text() for path in SOURCES.glob("*.c"))
    _, _, rest = text.partition(f"KERNEL int64_t {kernel.name}(")
    types = [argument.split()[0] for argument in rest.partition(")")[0].split(",")]
    letters = {"Words": "l", "Numbers": "i", "Bytes": "b", "Columns": "c", "int64_t": "n"}
    assert [letters[each] for each in types] == list(kernel.takes.lower())


@pytest.mark.parametrize("array", [
    np.zeros(4, np.int32), np.zeros(4, np.float64), np.zeros(8, np.int64)[::2], np.zeros(4, ">i8"),
])  # fmt: skip
def test_only_buffers_of_the_declared_type_are_handed_over(array):
    """A kernel accepts only contiguous numbers in native format."""
    with pytest.raises(TypeError, match="contiguous int64"):
        Kernel("closed_loop", "l")(array)


def test_a_kernel_writes_into_nothing_that_is_read_only():
    """A read-only buffer is refused as an output."""
    array = np.zeros(4, np.int64)
    array.flags.writeable = False
    with pytest.raises(TypeError, match="writes"):
        Kernel("closed_loop", "L")(array)
