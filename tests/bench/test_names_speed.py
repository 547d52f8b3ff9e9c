"""Scans of names that are not ASCII and of hard links, beside the same files without; times are printed (with -s)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fixtures import large

FILES = 200_000
"""A million take five times as long to write."""

MOST = 1.5


def processor_s(path) -> float:
    """Return the user time of a scan, whose pages are in memory."""
    command = [sys.executable, "-m", "layoutscope", "scan", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    usage = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    return usage.ru_utime


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filesystem", "option"), [("apfs", "--japanese"), ("apfs", "--links"), ("hfsplus", "--japanese")]
)
def test_what_is_not_plain_takes_about_as_long(tmp_path, filesystem, option):
    """The least of three turns, after one that is not counted."""
    paths = tmp_path / "plain.img", tmp_path / "other.img"
    for path, words in zip(paths, ((), (option,)), strict=True):
        assert large.main(["--filesystem", filesystem, "--files", str(FILES), *words, "-o", str(path)]) == 0
    turns = [[processor_s(path) for path in paths] for _ in range(4)][1:]
    plain, other = (min(turn[k] for turn in turns) for k in range(2))
    print(f"{filesystem}: plain {plain:.2f} s, {option} {other:.2f} s, {other / plain:.2f} times")  # noqa: T201
    assert other < MOST * plain
