"""Screens as text: those of the pages, for cog, and the first screens of ten images.

``python -m tests.docs.screens`` writes ``tests/docs/screens`` again.

Images that the writers of this project make are there in every run. Those of real drivers and of macOS are shown where
``../shared`` is, and their texts stay as they are elsewhere.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from fixtures.apfs import scenarios, writer
from fixtures.apfs.large import LargePlan, write_large
from fixtures.apfs.plan import VolumePlan
from layoutscope import read_layouts, scan
from layoutscope.cli import app
from layoutscope.report.text.console import make_console
from layoutscope.report.text.scan import print_scan
from layoutscope.zstd import zstd
from tests.conftest import ROOT, cache_dir, shared_dir

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).with_name("screens")
COMMITTED = ROOT / "fixtures" / "images"


def output(words: str, first: int = 0, last: int | None = None) -> str:
    """Return what a command prints at 80 columns, or some of its lines."""
    with contextlib.chdir(_desk()):
        done = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(app, words.split())
    # 3 is an answer, too: read, and something was wrong.
    if done.exit_code not in (0, 3):
        raise RuntimeError(done.stderr)
    return _screen(f"layoutscope {words}", done.stdout, slice(first, last))


def shell(words: str) -> str:
    """Return what a program prints of the files that commands before it wrote."""
    return _screen(words, subprocess.run(words.split(), cwd=_desk(), capture_output=True, text=True, check=True).stdout)


def _screen(title: str, text: str, lines: slice = slice(None)) -> str:
    shown = [line.rstrip() for line in text.rstrip().splitlines()][lines]
    return "\n".join(["```text", f"$ {title}", *shown, "```"])


@cache
def _desk() -> str:
    """Make the folder in which commands run, beside the committed images; what one writes is there for the next."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    Path(folder, "fixtures").symlink_to(ROOT / "fixtures")
    return folder


def screen(path: Path) -> str:
    """Return what ``scan`` prints of an image."""
    file = io.StringIO()
    with contextlib.chdir(path.parent):  # commands on the screen name the image as it was given
        print_scan(scan(path.name), make_console(file, width=80))
    return file.getvalue()


def _write_damaged(path: Path) -> None:
    data = bytearray(zstd.decompress((COMMITTED / "apfs-scattered.img.zst").read_bytes()))
    path.write_bytes(data)
    nodes = next(item for item in read_layouts(path) if item.entries.height).nodes
    for start in nodes.filter(tree="fs", level=0, state="live")["image_offset"].to_list()[100:700:100]:
        data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)


def _write_three(path: Path) -> None:
    volumes = [VolumePlan(name, scenarios.many(number)) for name, number in (("Data", 90), ("Photos", 40), ("Old", 9))]
    writer.write(scenarios.container(*volumes, block_count=2 * 131072), path)


def _write_fusion(path: Path) -> None:
    writer.write(scenarios.SCENARIOS["fusion"], path, path.with_name("second.img"))


MADE: dict[str, Callable[[Path], object]] = {
    "fine": lambda path: path.write_bytes(zstd.decompress((COMMITTED / "hfsplus-scattered.img.zst").read_bytes())),
    "locked": lambda path: writer.write(scenarios.container(scenarios.ENCRYPTED), path),
    "damaged": _write_damaged,
    "fusion-half": _write_fusion,
    "three-volumes": _write_three,
    "tiny": lambda path: writer.write(scenarios.container(VolumePlan("Notes", scenarios.many(9))), path),
    "million-files": lambda path: write_large(LargePlan(1_000_000, 3, 1), path),
}
"""Images that are written for the screen, by the names of the screens."""

REFERENCE = {
    "aged": "aged/apfs-20000-c20.img",
    "fresh": "aged/apfs-20000-c00.img",
    "macos": "apple/plaso_spotlight10.13.raw",
}
"""Images that real drivers and macOS wrote."""


def made(name: str, folder: Path) -> str:
    """Write the image of a screen, and return what ``scan`` prints of it."""
    path = folder / f"{name}.img"
    MADE[name](path)
    return screen(path)


def main(names: list[str]) -> None:
    """Write the texts of the screens that are named, or all that can be made here."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or [*MADE, *REFERENCE]:
        if name in MADE:
            folder = Path(tempfile.mkdtemp())
            text = made(name, folder)
            shutil.rmtree(folder)
        elif shared_dir() is not None and (cache_dir() / REFERENCE[name]).exists():
            text = screen(cache_dir() / REFERENCE[name])
        else:
            continue
        (FOLDER / f"{name}.txt").write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
