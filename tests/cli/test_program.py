"""The program itself: explain and cache, an executable without Python, and an installation without extras."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys

import pytest

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import memory
from layoutscope.api.explain import glossary_text
from layoutscope.errors import install_command
from layoutscope.filesystems.registry import finding_codes
from layoutscope.image.cache import SEAL
from layoutscope.metrics import DEFINITIONS
from layoutscope.remedies.case import OTHER, all_words
from layoutscope.results.check import ADVICE, what_to_do
from tests.cases import for_each
from tests.cli.conftest import IMAGES, ROOT

PACKED = ROOT / "fixtures" / "images" / "hfsplus-scattered.img.zst"


@for_each("name", DEFINITIONS)
def test_each_metric_is_explained_with_its_source(run, name):
    """Definition, unit, denominator and source are those of the metric."""
    text, item = run("explain", name).stdout, DEFINITIONS[name]
    assert all(part in text for part in (item.title, item.text, item.unit, item.denominator, item.citation))


def test_each_finding_is_explained_with_what_to_do(run):
    """Every code has a meaning and advice; no advice is unused."""
    for code in ("node-invalid", "free-count-differs", "journal-external"):
        text = run("explain", code).stdout
        assert finding_codes()[code] in text
        assert f"What to do: {what_to_do(code)}" in text
    assert {what_to_do(code) for code in finding_codes()} == set(ADVICE.values())


@pytest.mark.parametrize(
    ("code", "said", "not_said"),
    [
        ("volume-locked", "--password", "--sweep"),
        ("volume-hardware-locked", "on the Mac it belongs to", "--password"),
        ("unread-area", "ddrescue", "fsck"),
        ("free-count-differs", "fsck", "--sweep"),
        ("node-invalid", "--sweep", "--password"),
        ("journal-replayed", "Nothing is wrong", "--sweep"),
        ("changed-while-read", "Unmount", "--sweep"),
        ("fusion-half", "--second", "--sweep"),
        ("stale-nodes", "nothing to do", "--sweep"),
        ("gpt-copies-differ", "--volume-at", "--password"),
    ],
)
def test_the_advice_is_that_of_the_code(code, said, not_said):
    """Each kind of finding has its own advice, and not that of another kind."""
    assert said in what_to_do(code)
    assert not_said not in what_to_do(code)


def test_every_word_of_the_glossary_is_explained(run):
    """Each row of docs/glossary.md is found by its terms, with links as page names and the terms to avoid."""
    rows = [line.strip("|").split("|") for line in glossary_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 40
    for words, idea, _ in rows[::5]:
        for word in words.replace("`", "").split(","):
            text = run("explain", word.strip()).stdout
            assert all(part in text for part in re.split(r"\[[^]]*\]|\(|\)", idea.strip()[1:]))
            assert "](" not in text
    assert "(docs/intervals.md)." in run("explain", "quick interval").stdout
    assert "Not called here: cluster." in run("explain", "CLUMP").stdout


def test_explain_alone_lists_all_and_a_misspelt_word_is_suggested(run):
    """The list has every kind of term, and words that help and screens mention are found under their names."""
    text = run("explain").stdout
    kinds = ("word", "metric", "finding", "refusal", "order", "remedy", "drive", "what-if", "table")
    assert all(f"{kind}:\n" in text for kind in kinds)
    result = run("explain", "clmp")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'clump'?" in result.stderr
    words = ("fts", "outer-zone", "extents", "core-storage", "TABLE", "what-if", "list-from-disk", "generic-7200")
    for word in (*words, "names-only", "rewritten-in-key-order", "on-apfs", "on-hfsplus"):
        told = run("explain", word).stdout
        assert told.startswith(f"{word} (")
        about = all_words().get(OTHER if word == "on-apfs" else word)
        assert about is None or all(about[key] in told for key in ("risk", "helps", "unless"))
        assert "{label}" not in told


def test_words_on_screens_are_explained_as_they_stand_there(run):
    """Parts of times, titles of metrics, plurals, terms with blanks for hyphens, and parts of such names."""
    parts = [name for name, _ in layoutscope.scan(PACKED, drives="generic-7200").volume.predictions[0].causes_s]
    assert {"seek", "rotation", "transfer"} <= set(parts)
    screen = [item.title for item in DEFINITIONS.values()] + ["reads", "leaves", "snapshots", "walk", "span", "strokes"]
    for word in (*parts, *screen):
        assert layoutscope.explain(word), word
    assert run("explain", "Inversions").stdout.startswith("key-order-inversions (metric)")
    assert run("explain", "head travel").stdout.startswith("head-travel (metric)")
    assert len(re.findall(r"-layout-score \(metric\)", run("explain", "layout score").stdout)) > 1
    assert run("explain", "score layout").exit_code == 2


def test_a_word_that_is_not_used_here_leads_to_the_one_that_is(run):
    """Others say workload, with an addition in brackets; a term with its own entry is not redirected."""
    assert run("explain", "workload").stdout.startswith("order (word)")
    assert [line for line in run("explain", "page").stdout.splitlines() if line.endswith("(word)")] == [
        "APFS block (word)",
        "node (word)",
    ]
    assert "node (word)" not in run("explain", "level").stdout
    assert run("explain", "given").exit_code == 2


def test_the_cache_is_used_shown_and_cleared(run, tmp_path, monkeypatch):
    """An image is decompressed once; the cache lists it with its size, and removes it on request."""
    folder = tmp_path / "kept"
    monkeypatch.setenv("LAYOUTSCOPE_CACHE", str(folder))
    assert "0 images" in run("cache").stdout
    first = run("scan", PACKED).stdout
    (kept,) = folder.glob("*.raw")
    seal = kept.with_suffix(SEAL)
    before = seal.stat().st_mtime_ns
    assert run("scan", PACKED).stdout == first
    assert seal.stat().st_mtime_ns > before
    assert "hfsplus-scattered.img.zst: " in run("cache").stdout
    shown = json.loads(run("cache", "show", "--json").stdout)
    assert [item["size_bytes"] for item in shown["images"]] == [kept.stat().st_size]
    assert "1 image removed" in run("cache", "clear").stdout
    assert [path.name for path in folder.iterdir()] == ["CACHEDIR.TAG"]


def test_evidence_is_no_cache(run, tmp_path, monkeypatch):
    """Folders with an image named by its MD5, and bundles, are refused, even from the environment; nothing changes."""
    (tmp_path / "case12-9dd4e461268c8034f5c8564e155c67a6.raw").write_bytes(b"evidence")
    packed = tmp_path / "disk.img.zst"
    packed.write_bytes(PACKED.read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words in (("cache", "clear"), ("cache", "show"), ("scan", packed)):
        result = run(*words, "--cache-dir", tmp_path)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
        assert "which is not of a cache" in result.stderr
        assert "--cache-dir" in result.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    bundle = tmp_path / "a.sparsebundle"
    (bundle / "bands").mkdir(parents=True)
    write(SCENARIOS["hard-links"], tmp_path / "disk.img")
    monkeypatch.setenv("LAYOUTSCOPE_CACHE", str(bundle / "kept"))
    assert run("scan", tmp_path / "disk.img").exit_code == 0
    result = run("scan", PACKED)
    assert (result.exit_code, "is inside of" in result.stderr) == (2, True), result.stderr
    assert [path.name for path in bundle.iterdir()] == ["bands"]


def test_without_a_cache_nothing_is_kept(run, tmp_path, monkeypatch):
    """--no-cache leaves no image; a folder that cannot be created is not needed."""
    monkeypatch.setenv("LAYOUTSCOPE_CACHE", str(tmp_path / "kept"))
    assert run("scan", PACKED, "--no-cache").exit_code == 0
    assert not (tmp_path / "kept").exists()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAYOUTSCOPE_CACHE", str(tmp_path / "file" / "below"))
    assert run("scan", PACKED).exit_code == 0
    monkeypatch.setenv("LAYOUTSCOPE_CACHE", "")
    assert "The cache is off" in run("cache").stdout


_ALLOCATING = """
import resource, sys
import numpy as np
from layoutscope.cli.running import keep_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(2**21) for _ in range(4)]
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep":
    keep_freed_memory()
print(min(pages() for _ in range(4)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be told so")
def test_arrays_that_are_let_go_make_room_for_the_next_ones():
    """New 64 MB arrays take pages from the system each time, unless the process was set to keep them."""
    pages = {
        how: int(subprocess.run([sys.executable, "-c", _ALLOCATING, how], check=True, capture_output=True).stdout)
        for how in ("keep", "usual")
    }
    assert pages["keep"] < pages["usual"] // 10


# In an executable without Python, a process that the program starts from itself runs the intended part.
#
# ``nox -s binary`` builds and tests the executable itself.


STAND_IN = """#!{python}
import sys
sys.path.insert(0, {root!r})
sys.frozen, sys.executable = True, {name!r}
from layoutscope.__main__ import main
main()
"""


@pytest.fixture
def executable(tmp_path):
    """Return a program that behaves like an executable without Python: it has none of Python's options."""
    path = tmp_path / "layoutscope"
    path.write_text(STAND_IN.format(python=sys.executable, root=str(ROOT), name=str(path)))
    path.chmod(0o755)

    def call(*words):
        return subprocess.run([path, *map(str, words)], capture_output=True, text=True, check=False, timeout=120)

    return call


def test_a_batch_is_read_by_processes_of_the_executable(executable, tmp_path):
    """Workers run the same executable, and every source is complete."""
    pytest.importorskip("polars", reason="the extra 'frames' is not installed")
    ended = executable("batch", IMAGES / "*-scattered.img.zst", "-o", tmp_path / "batch", "--jobs", 1)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2" in ended.stdout


def test_with_python_a_part_is_what_python_is_told(run, executable):
    """An installation starts parts with ``python -m``; the executable runs modules of the package alone."""
    assert memory.make_command("layoutscope.x", "-m", "layoutscope.x") == [sys.executable, "-m", "layoutscope.x"]
    assert memory.get_requested_module() is None
    ended = run(memory.OWN_PART, "layoutscope.fleet.worker")
    assert (ended.exit_code, "no such option" in ended.stderr.lower()) == (2, True)
    ended = executable(memory.OWN_PART, "this")
    assert (ended.returncode, "Zen" in ended.stdout) == (2, False)


def test_everything_that_is_started_goes_the_same_way():
    """``sys.executable`` would not start Python here: two places use it, neither of them in the executable."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "layoutscope").rglob("*.py")
        if "sys.executable" in path.read_text("utf-8")
    }
    # Compiling is for checkouts; Dask is not in the executable.
    assert found == {"layoutscope/memory.py", "layoutscope/structs/build.py", "layoutscope/fleet/engines.py"}


# An installation without extras has no polars: what works, and which errors name the extra.


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("polars", "nanoarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""Takes away access to either package."""
COMMANDS = """
import json
from typer.testing import CliRunner
from layoutscope.cli import app
ended = [CliRunner().invoke(app, words) for words in json.load(sys.stdin)]
print(json.dumps([(each.exit_code, each.stdout, each.stderr) for each in ended]))
"""
"""Runs command lines after each other in one process."""


@pytest.fixture
def plain(tmp_path):
    """Return a function that runs command lines in their own folder, without polars: exit codes and both outputs."""

    def call(*lines: list[str]) -> list[list]:
        environment = {"PYTHONPATH": str(ROOT), "LAYOUTSCOPE_CACHE": ""}
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT + COMMANDS], input=json.dumps(lines), capture_output=True, text=True,
            check=True, timeout=300, cwd=tmp_path, env=environment,
        )  # fmt: skip
        return json.loads(done.stdout)

    return call


VERBS = [
    (("scan", "{hfs}", "--details", "--map", "map.html"), "map.html"),
    (("scan", "{apfs}", "--json", "--no-names"), ""),
    (("map", "{hfs}", "{apfs}", "-o", "both.html"), "both.html"),
    (("map", "{apfs}", "{apfs}", "--difference", "-o", "difference.html"), "difference.html"),
    (("inspect", "{apfs}", "--at", "4096"), ""),
    (("inspect", "{hfs}", "--path", "/Users"), ""),
    (("inspect", "{hfs}", "--node", "catalog:3"), ""),
    (("check", "{apfs}", "--no-names"), ""),
    (("check", "{hfs}", "--format", "csv"), ""),
    (("predict", "{apfs}", "--ncdu", "costs.json"), "costs.json"),
    (("predict", "{hfs}", "--order", "all", "--drive", "generic-7200"), ""),
    (("predict", "{apfs}", "--what-if", "no-snapshots", "--order", "names"), ""),
    (("predict", "{hfs}", "--order", "git-status", "--host", "macos"), ""),
    (("compare", "{apfs}", "{apfs}", "--nodes", "nodes.csv"), ""),
    (("compare", "{hfs}", "{apfs}"), ""),
    (("series", "{hfs}", "{apfs}", "--by", "time", "--plot", "series.html"), "series.html"),
    (("trace", "{apfs}", "-o", "walk.csv"), "walk.csv"),
    (("replay", "walk.csv", "--against", "{apfs}"), ""),
    (("export", "{apfs}", "--table", "all", "-o", "tables"), "tables/reads.csv"),
    (("export", "{hfs}", "--table", "entries", "-o", "entries.jsonl"), "entries.jsonl"),
    (("export", "{hfs}", "-o", "files.body"), "files.body"),
    (("export", "{apfs}", "-o", "files.dfxml"), "files.dfxml"),
    (("extract", "{apfs}", "-o", "metadata.img"), "metadata.img"),
    (("plan", "{apfs}", "--format", "csv"), ""),
    (("plan", "{hfs}", "--emit-order", "order.txt", "--emit-script", "copy.sh"), "order.txt"),
    (("checkpoints", "{apfs}"), ""),
    (("verify", "{hfs}"), ""),
    (("drives", "generic-7200"), ""),
    (("explain", "clump"), ""),
    (("--version",), ""),
]


@pytest.mark.full
@pytest.mark.images
def test_verbs_need_no_frames(plain, image, apfs_image, tmp_path):
    """Commands end as usual and write their output; ``replay`` reads that of ``trace``."""
    lines = [[word.format(hfs=image, apfs=apfs_image) for word in words] for words, _ in VERBS]
    ended = dict(zip(map(" ".join, lines), plain(*lines), strict=True))
    assert {line: (code, said) for line, (code, _, said) in ended.items() if code or "Traceback" in said} == {}
    written = [name for _, name in VERBS if name]
    assert [name for name in written if not (tmp_path / name).stat().st_size] == []
    silent = [line for line, (_, shown, _) in ended.items() if not shown]
    assert len(silent) <= len(written)


@pytest.mark.images
def test_what_is_parquet_names_the_extra(plain, image, tmp_path):
    """Captures and Parquet end with 1 and one line that names the install command; nothing is left."""
    capture = tmp_path / "there.lscope"
    layoutscope.scan(image, drives=()).save(capture)
    lines = (
        ["scan", str(image), "--save", "disk.lscope"],
        ["export", str(image), "--table", "nodes", "-o", "nodes.parquet"],
        ["scan", str(capture)],
    )
    for line, (code, _, said) in zip(lines, plain(*lines), strict=True):
        assert (code, said.count("\n")) == (1, 1), line
        assert said.endswith(f"{install_command('frames')}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["there.lscope"]


def test_frames_of_the_library_name_the_extra():
    """Requesting a table as a frame raises the package's own error, which says what to install."""
    lines = WITHOUT + (
        "from layoutscope.errors import UnsupportedError\n"
        "from layoutscope.tables import build_table\n"
        "try:\n    build_table('free', {}).frame\n"
        "except UnsupportedError as error:\n    print(error.code, error.advice)\n"
    )
    command = [sys.executable, "-c", lines]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    assert found.stdout == f"frames-missing {install_command('frames')}\n"
