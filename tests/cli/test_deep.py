"""Folders that are nested 2,000 deep or contain themselves: output stays proportional to the entries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fixtures.hfsplus.large import LargePlan, write_large
from tests.peak import run_measured

ROOT = Path(__file__).parents[2]
FOLDERS, FILES = 2_000, 18_000
ENTRIES = 1 + FOLDERS + FILES
ROW_BYTES = 2_000
"""More than a mean row: of paths whose parts have 9 bytes those at most 454 deep, a quarter, are whole and have 2,043
bytes in the mean, others 1,000; byte runs and times beside them take less than 700."""

MEMORY_BYTES = 100 << 20
"""Allowed memory beyond that of a command without paths; the paths of all entries would take 180 MB."""

VERBS = {
    **{name: ("export", "{image}", "--format", name, "-o", "{out}") for name in
       ("bodyfile", "dfxml", "perfetto", "folded")},
    **{f"directories as {name}": ("export", "{image}", "--table", "directories", "--format", name, "-o", "{out}")
       for name in ("csv", "parquet")},
    "plan": ("plan", "{image}", "--emit-order", "{out}", "-0", "--format", "json"),
    "map": ("map", "{image}", "--all-paths", "-o", "{out}.html"),
    "predict": ("predict", "{image}", "--ncdu", "{out}", "--json"),
    "archive": ("predict", "{image}", "--order", "archive", "--json"),
}  # fmt: skip

OF_A_RING = ("bodyfile", "folded", "directories as csv", "plan")
"""No listing reaches a ring, so other commands write the output of an empty volume."""


def measured(words, folder):
    """Return the exit code, the bytes written anywhere, and the peak memory of a run in bytes."""
    report = f"{folder}.peak"
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        child, peak = run_measured(
            [sys.executable, "-m", "layoutscope", *map(str, words)], report, stdout=out, stderr=err, cwd=ROOT
        )
    written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return child.returncode, written, peak


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="memory is counted by getrusage")
@pytest.mark.parametrize(("shape", "verbs"), [("chain", VERBS), ("ring", OF_A_RING)])
def test_outputs_are_in_proportion(tmp_path, shape, verbs):
    """Bytes and memory of every command that writes paths, on a chain and on a ring."""
    image = tmp_path / "deep.img"
    write_large(LargePlan(FILES, shape=shape, shuffled=0.0), image)
    (tmp_path / "base").mkdir()
    code, _, base = measured(("export", image, "--table", "nodes", "--format", "parquet"), tmp_path / "base")
    assert code in (0, 3)
    wrong = []
    for name in verbs:
        words = VERBS[name]
        folder = tmp_path / name
        folder.mkdir()
        code, written, memory = measured([word.format(image=image, out=folder / "out") for word in words], folder)
        if code not in (0, 3) or written > ROW_BYTES * ENTRIES or memory > base + MEMORY_BYTES:
            wrong.append((name, code, written, memory - base, (folder / "stderr").read_text()[-300:]))
    assert wrong == []


def test_lists_leave_out_what_is_too_deep(run, tmp_path):
    """File names add 9 bytes, with a suffix 13: 453 folders hold files whose paths fit, 9 files each."""
    path = tmp_path / "chain.img"
    write_large(LargePlan(9 * 500, shape="chain", shuffled=0.0), path)
    result = run("plan", path, "--emit-order", tmp_path / "list")
    assert result.exit_code == 0
    names = (tmp_path / "list").read_text().splitlines()
    fitting = (4094 - 13) // 9
    assert len(names) == 9 * fitting
    assert max(map(len, names)) == 1 + 9 * fitting + 13
    left = f"{9 * (500 - fitting):,} files are left out of the list: their paths have more than 4,094 bytes"
    assert left in result.stderr
    assert "…/<" in result.stderr
