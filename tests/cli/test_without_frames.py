"""An installation without extras has no polars: what works, and which errors name the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from layoutscope.errors import install_command

ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("polars", "nanoarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from layoutscope.__main__ import main
main()
"""
"""Runs the command without access to either package."""


@pytest.fixture
def plain(tmp_path):
    """Return a function that runs a command line in its own folder, without polars."""

    def call(*words: object):
        command = [sys.executable, "-c", WITHOUT, *map(str, words)]
        environment = {"PYTHONPATH": str(ROOT), "LAYOUTSCOPE_CACHE": ""}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path, env=environment
        )

    return call


VERBS = [
    (("scan", "{hfs}", "--details", "--map", "map.html"), "map.html"),
    (("scan", "{apfs}", "--json", "--no-names"), ""),
    (("map", "{hfs}", "{apfs}", "-o", "map.html"), "map.html"),
    (("map", "{apfs}", "{apfs}", "--difference", "-o", "map.html"), "map.html"),
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
@pytest.mark.parametrize(("words", "written"), VERBS, ids=[" ".join(words) for words, _ in VERBS])
def test_verbs_need_no_frames(plain, image, apfs_image, tmp_path, words, written):
    """A command ends as usual and writes its output."""
    found = plain(*(word.format(hfs=image, apfs=apfs_image) for word in words))
    assert (found.returncode, found.stderr.count("Traceback")) == (0, 0), found.stderr
    assert (tmp_path / written).stat().st_size if written else found.stdout


@pytest.mark.images
def test_a_trace_in_csv_is_read_back(plain, apfs_image):
    """``replay`` reads the output of ``trace``: each block was predicted, in that order."""
    assert plain("trace", apfs_image, "-o", "walk.csv").returncode == 0
    found = plain("replay", "walk.csv", "--against", apfs_image)
    assert found.returncode == 0, found.stderr


@pytest.mark.images
@pytest.mark.parametrize(
    "words",
    [
        ("scan", "{hfs}", "--save", "disk.lscope"),
        ("export", "{hfs}", "--table", "nodes", "-o", "nodes.parquet"),
        ("scan", "{capture}"),
    ],
)
def test_what_is_parquet_names_the_extra(plain, shell, image, tmp_path, words):
    """Captures and Parquet end with 1 and one line that names the install command; nothing is left."""
    capture = tmp_path / "there.lscope"
    assert shell("scan", image, "--save", capture).returncode == 0
    found = plain(*(word.format(hfs=image, capture=capture) for word in words))
    assert found.returncode == 1
    assert found.stderr.endswith(f"{install_command('frames')}\n")
    assert found.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.lscope"]


def test_frames_of_the_library_name_the_extra():
    """Requesting a table as a frame raises the package's own error, which says what to install."""
    lines = WITHOUT.partition("from layoutscope")[0] + (
        "from layoutscope.errors import UnsupportedError\n"
        "from layoutscope.tables import build_table\n"
        "try:\n    build_table('free', {}).frame\n"
        "except UnsupportedError as error:\n    print(error.code, error.advice)\n"
    )
    command = [sys.executable, "-c", lines]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    assert found.stdout == f"frames-missing {install_command('frames')}\n"
