"""Standard output and standard error: never an image, and ``-o -`` for printable results."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path

import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write

ROOT = Path(__file__).resolve().parents[2]
WAYS = {"appended": os.O_WRONLY | os.O_APPEND, "read and written": os.O_RDWR, "written from the start": os.O_WRONLY}
NAMES = {"stdout": "standard output", "stderr": "standard error"}


@pytest.fixture
def disks(tmp_path):
    """Return a folder with an image of each file system."""
    write(SCENARIOS["hard-links"], tmp_path / "H")
    write_apfs(APFS["basic"], tmp_path / "A")
    return tmp_path


def printed_into(place: Path, way: int, stream: str, *words: object, folder: Path, both=False):
    """Run a command with a file as one or both standard streams; return its result and whether the file changed."""
    before = place.read_bytes()
    descriptor = os.open(place, way)
    try:
        streams = dict.fromkeys(NAMES, subprocess.PIPE) | {stream: descriptor}
        result = subprocess.run(
            [sys.executable, "-m", "layoutscope", *map(str, words)], text=True, check=False, timeout=120, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, **(dict.fromkeys(NAMES, descriptor) if both else streams),
        )  # fmt: skip
    finally:
        os.close(descriptor)
    return result, place.read_bytes() == before


VERBS = [
    ("export", "H", "--table", "nodes"),
    ("scan", "H"),
    ("scan", "H", "--json", "--evidence", "report.txt"),
    ("map", "H", "-o", "-"),
    ("trace", "H"),
    ("kit",),
    ("--help",),
    ("scan", "absent"),
    ("export", "A", "--table", "nodes"),
]


@pytest.mark.parametrize(
    ("words", "way", "stream"),
    [(words, *pair) for words, pair in zip(VERBS, cycle(product(WAYS.values(), NAMES)), strict=False)],
)
def test_nothing_is_printed_into_a_disk(disks, words, way, stream):
    """Whether the disk is the input or not: one line on the safe stream, and exit code 2.

    The check precedes all commands, so each is tried with one way and stream, and each way with each stream.
    """
    place = disks / "H"
    result, is_unchanged = printed_into(place, way, stream, *words, folder=disks)
    assert is_unchanged
    assert result.returncode == 2
    said = result.stderr if stream == "stdout" else result.stdout
    assert said == f"layoutscope: {place}: holds a disk (HFS+), and {NAMES[stream]} leads there. Send it elsewhere.\n"
    assert not (disks / "report.txt").exists()


def test_nothing_is_printed_where_both_streams_lead_to_a_disk(disks):
    """Only the exit code reports it."""
    result, is_unchanged = printed_into(disks / "H", os.O_RDWR, "stdout", "scan", "H", folder=disks, both=True)
    assert (result.returncode, is_unchanged) == (2, True)


@pytest.mark.parametrize("stream", NAMES)
def test_nothing_is_printed_into_a_device_of_blocks(tmp_path, stream):
    """Whatever it holds; a file stands in for the device, because only root can create one."""
    code = "import stat\nstat.S_ISBLK = stat.S_ISREG\nfrom layoutscope.__main__ import main\nmain()"
    place = tmp_path / "device"
    streams = dict.fromkeys(NAMES, subprocess.PIPE)
    with place.open("wb") as file:
        result = subprocess.run(
            [sys.executable, "-c", code, "kit"], text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, **{**streams, stream: file},
        )  # fmt: skip
    said = result.stderr if stream == "stdout" else result.stdout
    assert (result.returncode, place.read_bytes()) == (2, b"")
    assert said == f"layoutscope: {place}: is a disk, and {NAMES[stream]} leads there. Send it elsewhere.\n"


@pytest.mark.full
@pytest.mark.parametrize("stream", NAMES)
def test_nothing_is_printed_into_what_is_read_whatever_it_holds(disks, stream):
    """Lists of paths, passwords, tables of captures and unrecognized images are inputs as well."""
    (disks / "list").write_text(f"{disks / 'A'}\n")
    (disks / "empty").write_bytes(bytes(1 << 20))
    cases = [
        ("list", ("predict", "H", "--order", "paths", "--paths", "list")),
        ("list", ("scan", "A", "--password-file", "list")),
        ("list", ("batch", "@list")),
        ("empty", ("scan", "empty")),
        ("empty", ("batch", "empty")),
        ("empty", ("batch", ".")),
        ("empty", ("export", "H", "--table", "nodes", "--ddrescue-map", "empty")),
    ]
    if find_spec("polars"):
        layoutscope.scan(disks / "H").save(disks / "c.lscope")
        cases += [("c.lscope/manifest.json", ("scan", "c.lscope")), ("c.lscope/0/nodes.parquet", ("batch", "c.lscope"))]
    if find_spec("duckdb"):
        layoutscope.batch(disks / "H", disks / "fleet", drives="generic-7200", workers=1)
        cases += [(f"fleet/{name}", ("query", "fleet", "SELECT 1")) for name in ("batch.json", "batch.lock")]
    for number, (name, words) in enumerate(cases):
        more = ("-o", f"fleet{number}") if words[0] == "batch" else ()
        result, is_unchanged = printed_into(disks / name, os.O_RDWR, stream, *words, *more, folder=disks)
        said = (result.stderr if stream == "stdout" else result.stdout) or ""
        assert is_unchanged, (name, words)
        assert result.returncode == 2, (name, words, said)
        assert said.count("\n") == 1, said
        what = f"is inside of {disks / 'c.lscope'}, which is a capture" if "c.lscope" in name else "is read as input"
        assert f"{what}, and {NAMES[stream]} leads there" in said


def test_nothing_is_printed_into_a_part_of_a_disk_or_a_capture(disks):
    """Such a file alone holds no disk, and it need not be an input of the command."""
    disk = (disks / "H").read_bytes()
    for number in range(3):
        (disks / f"disk.00{number + 1}").write_bytes(disk[number * (len(disk) // 3) :][: len(disk) // 3])
    for place, data in (("c.lscope/0/nodes.parquet", b""), ("x.sparsebundle/bands/1f", b""), ("run01", b"log\n")):
        (disks / place).parent.mkdir(parents=True, exist_ok=True)
        (disks / place).write_bytes(data or b"data")
    (disks / "run02").write_bytes(b"log\n")
    parts = {
        "disk.003": f"is a part of {disks / 'disk.001'}, a disk (HFS+)",
        "c.lscope/0/nodes.parquet": f"is inside of {disks / 'c.lscope'}, which is a capture",
        "x.sparsebundle/bands/1f": f"is inside of {disks / 'x.sparsebundle'}, which is an Apple sparse bundle",
    }
    for name, what in parts.items():
        result, is_unchanged = printed_into(disks / name, os.O_RDWR, "stdout", "check", "A", folder=disks)
        assert (result.returncode, is_unchanged) == (2, True), name
        assert (
            result.stderr
            == f"layoutscope: {disks / name}: {what}, and standard output leads there. Send it elsewhere.\n"
        )
    # Numbered logs are not parts.
    result, is_unchanged = printed_into(
        disks / "run02", os.O_WRONLY | os.O_APPEND, "stdout", "check", "A", folder=disks
    )
    assert (result.returncode, is_unchanged) == (0, False)


def test_other_files_are_printed_to_as_ever(disks):
    """A log with lines, a table in append mode, and both streams in one file."""
    log = disks / "log.txt"
    log.write_text("earlier\n")
    for stream in NAMES:
        result, _ = printed_into(log, os.O_WRONLY | os.O_APPEND, stream, "scan", "absent", folder=disks)
        assert result.returncode == 1
    assert log.read_text() == "earlier\nlayoutscope: absent: no such file\n"
    result, _ = printed_into(log, os.O_WRONLY | os.O_APPEND, "stdout", "scan", "H", folder=disks, both=True)
    assert result.returncode == 0
    assert "HFS+" in log.read_text()


STREAMED = [
    ("export", "H", "--table", "nodes"),
    ("export", "H", "--table", "nodes", "--format", "parquet"),
    ("export", "H", "--format", "bodyfile"),
    ("trace", "H"),
    ("trace", "H", "--format", "fio"),
    ("kit",),
    ("drives", "fit", "hitachi.json"),
    ("query", "H", "SELECT count(*) FROM nodes"),
]


@pytest.mark.full
def test_a_dash_is_standard_output(shell, disks):
    """Every command that prints without -o prints the same with -o -; the map is a page."""
    for words in STREAMED if find_spec("duckdb") else STREAMED[:-1]:
        named = [disks / word if (disks / word).is_file() else word for word in words]
        printed = [
            subprocess.run(
                [sys.executable, "-m", "layoutscope", *map(str, named), *more],
                capture_output=True, check=False, timeout=120, cwd=disks, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for more in ((), ("-o", "-"))
        ]  # fmt: skip
        assert [each.returncode for each in printed] == [printed[0].returncode] * 2
        assert printed[0].stdout == printed[1].stdout, words
        assert printed[0].stderr == printed[1].stderr, words
        assert printed[0].stdout or words[0] == "drives"
    page = shell("map", disks / "H", "-o", "-")
    assert page.returncode == 0
    assert page.stdout.startswith("<!DOCTYPE html>")
    assert page.stdout.rstrip().endswith("</html>")
    assert not (ROOT / "-").exists()
    assert not (disks / "-").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("extract", "H", "-o", "-"),
        ("batch", "H", "-o", "-"),
        ("report", ".", "-o", "-"),
        ("scan", "H", "--save", "-"),
        ("scan", "H", "--map", "-"),
        ("scan", "H", "--evidence", "-"),
        ("map", "H", "-o", "map.html", "--png", "-"),
        ("plan", "H", "--emit-order", "-"),
        ("compare", "H", "A", "--nodes", "-"),
    ],
    ids=" ".join,
)
def test_a_dash_is_no_name_of_a_file(disks, words):
    """Commands that cannot print refuse it, and no file is created."""
    before = sorted(disks.iterdir())
    result = subprocess.run(
        [sys.executable, "-m", "layoutscope", *words], capture_output=True, text=True, check=False, timeout=120,
        cwd=disks, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (2, "")
    assert "-: name a file" in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(disks.iterdir()) == before
