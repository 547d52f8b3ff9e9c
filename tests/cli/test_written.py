"""Written files: their format, protection of terminals, and the message about them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from layoutscope.units import format_bytes
from tests.cli.conftest import ROOT

WRITING = {
    "export --table nodes -o OUT.csv": r"[\d,]+ rows",
    "export --table extents -o OUT.parquet": r"[\d,]+ rows",
    "trace -o OUT.csv": r"[\d,]+ reads",
    "map -o OUT.html": "",
    "scan --map OUT.html": "",
    "scan --save OUT.lscope": r"[\d,]+ entries",
    "extract -o OUT.img.zst": r".*of metadata of 256 MiB",
    "predict --ncdu OUT.json": "",
    "series IMAGE --plot OUT.html": "",
}


@pytest.mark.parametrize("words", WRITING)
def test_what_was_written_is_said(run, image, tmp_path, words):
    """Each command that writes reports the path, the number of rows if there are any, and the bytes."""
    typed = words.replace("IMAGE", str(image)).replace("OUT", str(tmp_path / "out"))
    name, *rest = typed.split()
    result = run(name, image, *rest)
    assert result.exit_code == 0
    (path,) = tmp_path.iterdir()
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    holds = f"{WRITING[words]}, " if WRITING[words] else ""
    told = [line for line in result.stderr.splitlines() if "wrote" in line]
    assert len(told) == 1
    assert re.fullmatch(f"layoutscope: wrote {re.escape(str(path))}: {holds}{re.escape(format_bytes(size))}", told[0])


def test_drives_say_what_they_write(run, tmp_path):
    """Including profiles and plots of drives."""
    plot, profile = tmp_path / "drives.html", tmp_path / "mine.toml"
    assert f"wrote {plot}" in run("drives", "sata-ssd", "--plot", plot).stderr
    assert f"wrote {profile}" in run("drives", "fit", "mine", "--random-ms", "12", "-o", profile).stderr


def test_nothing_is_said_where_nothing_was_written(run, image, tmp_path):
    """A refusal, standard output, and --quiet print no message."""
    assert run("export", image, "--table", "nodes").stderr == ""
    assert run("export", image, "--table", "nodes", "-o", tmp_path / "a.csv", "--quiet").stderr == ""
    assert "wrote" not in run("export", image, "--table", "nodes", "-o", tmp_path / "a.csv").stderr


@pytest.mark.parametrize(
    ("words", "name", "beginning"),
    [
        ("export --table nodes", "a.parquet", b"PAR1"),
        ("export --table nodes", "a.PQ", b"PAR1"),
        ("export --table nodes", "a.jsonl", b"{"),
        ("export --table nodes", "a.csv", b"row,"),
        ("export --table nodes", "a", b"row,"),
        ("trace", "a.csv", b"device,image_offset,"),
        ("trace", "a.fio", b"fio version 3"),
        ("trace", "a.iolog", b"fio version 3"),
    ],
)
def test_formats_follow_the_ending(run, image, tmp_path, words, name, beginning):
    """The file name selects the format."""
    verb, *rest = words.split()
    assert run(verb, image, *rest, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(beginning)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("export --table nodes --format csv", "a.parquet"),
        ("export --table nodes --format parquet", "a.csv"),
        ("export --table nodes", "a.html"),
        ("trace --format fio", "a.csv"),
        ("trace", "a.parquet"),
        ("map", "a.png"),
        ("map", "a.csv"),
    ],
)
def test_a_contradiction_is_an_error(run, image, tmp_path, words, name):
    """The file name and the requested format must agree; otherwise nothing is written."""
    verb, *rest = words.split()
    result = run(verb, image, *rest, "-o", tmp_path / name)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "ends in ." in result.stderr
    assert not list(tmp_path.iterdir())


def test_parquet_is_not_written_to_a_terminal(image):
    """It is written to a pipe, but not to a terminal."""
    pty = pytest.importorskip("pty", reason="there are no terminals here")
    command = [sys.executable, "-m", "layoutscope", "export", str(image), "--table", "free", "--format", "parquet"]
    piped = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert piped.stdout.startswith(b"PAR1")
    main, other = pty.openpty()
    shown = subprocess.run(command, stdout=other, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(other)
    os.close(main)
    assert (shown.returncode, shown.stderr.count("\n")) == (2, 1)
    assert "this is a terminal" in shown.stderr
