"""The commands of the README, the tutorial and the how-tos run as they are written.

Each page has a new folder and a new home, with the files that its commands name: ``disk.img`` is a copy of a committed
image, and so on. Commands that need a disk, a Mac or an administrator are listed in `NOT_HERE` with the reason.
``.ci/run`` runs all tests as an ordinary user in a fresh copy, and the command of the README that installs.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import layoutscope
from fixtures.apfs import scenarios, writer
from fixtures.apfs.plan import VolumePlan
from fixtures.wrappers import expert_witness
from layoutscope.cli import app
from layoutscope.drive import load_profile
from layoutscope.drive.profile import profile_text
from layoutscope.zstd import zstd
from tests.docs.imports import ROOT
from tests.sparse import write_sparse

if TYPE_CHECKING:
    from pathlib import Path

PAGES = (
    *("README", "docs/tutorial", "docs/image-a-mac-disk", "docs/list-a-disk", "docs/remedies", "docs/compare-two"),
    *("docs/images", "docs/damaged-disks", "docs/encrypted-and-fusion", "docs/drives", "docs/workloads"),
    *("docs/forecast", "docs/fleets", "docs/exports", "docs/forensics"),
)
BLOCK = re.compile(r"^ *```(sh|text|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)

NOT_HERE = {
    r"\bpip install\b": "installs from an index; .ci/run does it as an ordinary user, in a clone",
    r"^\. \.venv/bin/activate$": "its environment is made by the command before",
    r"/dev/|/Volumes/": "needs a disk",
    r"^(?:sudo )?(?:diskutil|hdiutil|dtrace|mount|umount)\b": "a program of a system, for an administrator",
    r"^io:::start|^args\[0\]": "lines of a program for dtrace",
    r"--password -$": "asks at a terminal; tests/cli/test_encrypted.py answers",
    r"layoutscope-kit-DATE": "needs an archive from a Mac; tests/cli/test_kit.py makes one",
    r"^layoutscope forecast may": "needs captures of three months; tests/cli/test_forecast.py makes such states",
    r"^sh warm\.sh$": "lists a whole system; tests/cli/test_kit.py runs it on a small folder",
}
"""Commands that are not run, by a pattern, each with its reason."""

PACKED = ROOT / "fixtures" / "images" / "apfs-scattered.img.zst"


def commands(page: str) -> list[str]:
    """Return the command lines of a page, without comments and prompts; those of screens begin with a dollar."""
    text = (ROOT / f"{page}.md").read_text("utf-8").partition("<!-- Everything below")[0]
    lines = [
        (kind, line.strip())
        for kind, block in BLOCK.findall(text)
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and (kind == "sh" or line.strip().startswith("$ "))
    ]
    return [re.sub(r"\s+#\s.*$", "", line.removeprefix("$ ")) for _, line in lines]


def reason_of(line: str) -> str:
    """Return why a command is not run here, or nothing."""
    module = re.match(r"python -m (\w+)", line)
    if module and find_spec(module[1]) is None:
        return f"{module[1]} is not installed"
    return next((reason for pattern, reason in NOT_HERE.items() if re.search(pattern, line)), "")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Return a folder with the files that commands of most pages name."""
    folder = tmp_path_factory.mktemp("files")
    disk = zstd.decompress(PACKED.read_bytes())
    write_sparse(folder / "disk.img", io.BytesIO(disk))
    for name in ("before.img", "after.img"):
        (folder / name).hardlink_to(folder / "disk.img")
    (folder / "disk.map").write_text(f"# Mapfile\n0x0 +\n0x0 {len(disk):#x} +\n")
    (folder / "disk.E01").write_bytes(expert_witness(disk)[0])
    (folder / "mine.toml").write_text(profile_text(load_profile("generic-7200")))
    found = layoutscope.scan(PACKED, drives=())
    for name in ("disk", "jan", "jul"):
        found.save(folder / f"{name}.lscope")
    return folder


def prepare(page: str, files: Path, folder: Path) -> None:
    """Put the files that the commands of a page name into a folder."""
    shutil.copytree(files, folder, copy_function=os.link)
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    (folder / "docs").symlink_to(ROOT / "docs")
    if page in ("docs/encrypted-and-fusion", "docs/compare-two"):
        (folder / "disk.img").unlink()
    if page == "docs/encrypted-and-fusion":
        writer.write(scenarios.container(scenarios.ENCRYPTED), folder / "disk.img")
        (folder / "secret.txt").write_text(f"{scenarios.PASSWORD}\n")
        writer.write(scenarios.SCENARIOS["fusion"], folder / "main.img", folder / "tier2.img")
    elif page == "docs/compare-two":
        two = (VolumePlan("HFS", scenarios.many(40)), VolumePlan("Data", scenarios.many(60)))
        writer.write(scenarios.container(*two, block_count=2 * 131072), folder / "disk.img")


PLAIN = re.compile(r"layoutscope [^|&;<>*?$`~]*")
"""A command that needs no shell; it runs in this process."""


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page, files, tmp_path, monkeypatch):
    """Each ends with 0, or with 3 if the disk is damaged or locked; none is a usage error."""
    lines = [line for line in commands(page) if not reason_of(line)]
    if not lines:
        pytest.skip("all of its commands need a disk or a Mac")
    home, programs, folder = (tmp_path / name for name in ("home", "bin", "work"))
    for each in (home, programs):
        each.mkdir()
    prepare(page, files, folder)
    for name, text in (
        ("layoutscope", f'exec {sys.executable} -m layoutscope "$@"'),
        ("sudo", 'exec "$@"'),
        ("python", f'exec {sys.executable} "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {
        "HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1", "LAYOUTSCOPE_CACHE": str(home / "cache"),
    }  # fmt: skip
    monkeypatch.chdir(folder)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    failed = {}
    for line in lines:
        if PLAIN.fullmatch(line):
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            ended = done.exit_code, done.stderr
        else:
            typed = line.replace("LAYOUTSCOPE_PASSWORD=…", f"LAYOUTSCOPE_PASSWORD={shlex.quote(scenarios.PASSWORD)}")
            done = subprocess.run(["sh", "-c", typed], capture_output=True, text=True, check=False)
            ended = done.returncode, done.stderr
        if ended[0] not in (0, 3):
            failed[line] = (ended[0], ended[1][-400:])
    assert failed == {}


def test_few_commands_are_left_out():
    """At least half of them run here, and each reason has a command."""
    lines = [line for page in PAGES for line in commands(page)]
    left = [line for line in lines if any(re.search(pattern, line) for pattern in NOT_HERE)]
    assert 2 * len(left) <= len(lines)
    assert all(any(re.search(pattern, line) for line in left) for pattern in NOT_HERE)
