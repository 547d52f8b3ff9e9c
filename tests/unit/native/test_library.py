from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest

from layoutscope.arrays.lookup import COMBINE_RUNS, FIRST_PLACES, JOIN_RUNS
from layoutscope.arrays.ragged import COPY_PIECES
from layoutscope.drive.hdd import CLOSED_LOOP, QUEUED_LOOP
from layoutscope.image.raw import READ_PIECES
from layoutscope.native import Kernel
from layoutscope.native.build import build, compiler
from layoutscope.native.library import SOURCES
from layoutscope.ondisk.checksum import FLETCHER64
from layoutscope.ondisk.leaves import DECODE_LEAVES
from layoutscope.walk.cache import LRU_MISSES, READ_ONCE
from tests.cli.conftest import ROOT

SAY = "from layoutscope.native import core; print(core())"
TRY = "from layoutscope.native import Kernel; print(Kernel('closed_loop', '')())"


def said(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    around = {**os.environ, "LAYOUTSCOPE_PURE": "", **environment}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=around
    )
    return result.stdout.strip()


@pytest.mark.parametrize(("environment", "reason"), [
    ({"LAYOUTSCOPE_PURE": "1"}, "LAYOUTSCOPE_PURE is set"),
    ({"LAYOUTSCOPE_KERNELS": "/nowhere/kernels.so"}, "no library was built"),
    ({"LAYOUTSCOPE_KERNELS": __file__}, "the library cannot be loaded"),
])  # fmt: skip
def test_without_a_library_everything_runs_in_python(environment, reason):
    """The reason is told, and kernels do nothing."""
    assert said(SAY, **environment).startswith(f"plain Python ({reason}")
    assert said(TRY, **environment) == "None"


def test_a_library_of_other_sources_is_not_taken(tmp_path, monkeypatch):
    """After a change in C the old library stays unused until it is built again."""
    if not compiler():
        pytest.skip("no C compiler")
    shutil.copytree(SOURCES, tmp_path / "source")
    with (tmp_path / "source" / "hdd.c").open("a") as file:
        file.write("/* changed */\n")
    for module in ("build", "library"):
        monkeypatch.setattr(f"layoutscope.native.{module}.SOURCES", tmp_path / "source")
    build(tmp_path / "kernels.so")
    told = said(SAY, LAYOUTSCOPE_KERNELS=str(tmp_path / "kernels.so"))
    assert told == "plain Python (the library was built from other sources)"


KERNELS = (
    CLOSED_LOOP, QUEUED_LOOP, LRU_MISSES, READ_ONCE, READ_PIECES, FLETCHER64, DECODE_LEAVES,
    FIRST_PLACES, JOIN_RUNS, COMBINE_RUNS, COPY_PIECES,
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_takes_what_its_prototype_says(kernel):
    """Letters in Python are types in C, one by one."""
    text = "".join(path.read_text() for path in SOURCES.glob("*.c"))
    _, _, rest = text.partition(f"KERNEL int64_t {kernel.name}(")
    types = [argument.split()[0] for argument in rest.partition(")")[0].split(",")]
    letters = {"Words": "l", "Numbers": "i", "Bytes": "b", "Columns": "c", "int64_t": "n"}
    assert [letters[each] for each in types] == list(kernel.takes.lower())


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("array", [
    np.zeros(4, np.int32), np.zeros(4, np.float64), np.zeros(8, np.int64)[::2], np.zeros(4, ">i8"),
])  # fmt: skip
def test_only_buffers_of_the_declared_type_are_handed_over(array):
    """A kernel sees contiguous numbers of this machine, or nothing."""
    with pytest.raises(TypeError, match="contiguous int64"):
        Kernel("closed_loop", "l")(array)


@pytest.mark.usefixtures("native")
def test_a_kernel_writes_into_nothing_that_is_read_only():
    """Not even by mistake."""
    array = np.zeros(4, np.int64)
    array.flags.writeable = False
    with pytest.raises(TypeError, match="writes"):
        Kernel("closed_loop", "L")(array)


def test_kernels_that_are_none_of_these_are_told_with_what_builds_them(tmp_path):
    """A library of other sources, or without a function, is passed over in a line on standard error.

    Results are those of Python. Nothing is said of a library that is right, none that was built, or one that nobody
    asked for.
    """
    if not compiler():
        pytest.skip("no C compiler")
    copy, image = tmp_path / "copy", ROOT / "fixtures" / "images" / "hfsplus-scattered.img.zst"
    shutil.copytree(ROOT / "layoutscope", copy / "layoutscope", ignore=shutil.ignore_patterns("node_modules", "*.so"))
    library, source = copy / "layoutscope/native/kernels.so", copy / "layoutscope/native/source/merge.c"

    def run(*words: str):
        around = {**os.environ, "LAYOUTSCOPE_PURE": "", "PYTHONPATH": str(copy)}
        around.pop("LAYOUTSCOPE_KERNELS", None)  # those that are watched while they are tested
        command = [sys.executable, "-m", "layoutscope", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=copy, env=around)

    without = run("scan", str(image), "--json")
    assert without.stderr == ""
    build_in = [sys.executable, "-m", "layoutscope.native.build"]
    subprocess.run(build_in, check=True, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)})
    assert run("scan", str(image), "--json").stderr == ""
    source.write_text(source.read_text() + "/* changed */\n")
    changed = run("scan", str(image), "--json")
    told = "plain Python, which is slower, ran in their place; build them with python -m layoutscope.native.build\n"
    assert changed.stderr == f"layoutscope: the compiled kernels are older than their C sources: {told}"
    assert run("scan", str(image), "--quiet").stderr == ""
    assert run("cache").stderr == ""
    stub = copy / "stub.c"
    define = f'const char *sources(void) {{ return "{digest_of(source.parent)}"; }}\n'
    stub.write_text(define)
    subprocess.run([*compiler(), "-shared", "-fPIC", "-o", str(library), str(stub)], check=True)
    lacking = run("scan", str(image), "--json")
    assert lacking.stderr.startswith("layoutscope: the compiled kernels lack ")
    assert lacking.stderr.endswith(told)
    assert lacking.stdout == changed.stdout == without.stdout
    stub.write_text("int nothing;\n")
    subprocess.run([*compiler(), "-shared", "-fPIC", "-o", str(library), str(stub)], check=True)
    assert run("scan", str(image), "--json").stderr == changed.stderr


def digest_of(folder):
    """Return what a library of these sources carries."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.[ch]")))
    return f"{zlib.crc32(data):08x}"
