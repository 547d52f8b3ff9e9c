"""Writes ``docs/reference/remedies-proven.md``, remedies with real drivers, from ``results/remedies.json``.

``python -m tests.docs.proven``; a test keeps it fresh.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "remedies-proven.md"
RESULTS = ROOT / "tests" / "validation" / "results" / "remedies.json"
EXACT = 0.999
SYSTEMS = {"hfsplus": "HFS+", "apfs": "APFS"}
DRIVES = {"cheetah15k5": "Cheetah 15K.5", "generic-5400-2.5": "2.5-inch disk"}

HEAD = """# Remedies, done for real

Predictions of `layoutscope plan`, compared with remedies that real drivers did: Linux's hfsplus and
linux-apfs-rw aged volumes of {sizes} files for ten cycles, in each of which 5 % were replaced. Each remedy was
done on them, and what the work then read of the cold disk was recorded, request by request. Where those drivers
are available, `python -m tests.validation.remedies` does all of it again; `python -m tests.docs.proven` writes this
page.

A plan sees the aged volume alone. *Blocks*, *extra* and *pairs* say how much of the recorded reads it predicted,
as in [evidence](../evidence.md); of copies they say so of the walk of the volume that the driver made, because which
block a new node gets is predicted by the order of all that is written, not to the very block. How wide the intervals
of copies are was taken from volumes of 10,000 files and of another seed, not from these. Savings are those of the
recorded reads before and after, served by the drive models, with the computer's time between reads that is
predicted; the Cheetah is known to the sector, and DiskSim and the model agree on recorded walks on it within
0.2 %. *Inside* is whether the saved time is within the interval that the plan prints.
"""


def rows() -> list[dict[str, Any]]:
    """Read what was measured."""
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text("utf-8"))
    return found


def is_exact(row: dict[str, Any]) -> bool:
    """Whether the reads agree to 99.9 %."""
    return row["blocks"] >= EXACT and row["extra"] <= 1 - EXACT and row["pairs"] >= EXACT


def is_inside(found: dict[str, Any]) -> bool:
    """Whether the measured saving is within the range; a tenth of a millisecond does not count."""
    return found["low_s"] - NOTHING_S <= found["saved_s"] <= found["high_s"] + NOTHING_S


NOTHING_S = 1e-4
MANY = 0.1
"""New volumes that need so many more or fewer reads than predicted are named as misses."""


def page() -> str:
    """Write the page."""
    every = rows()
    sizes = " and ".join(f"{size:,}" for size in sorted({row["files"] for row in every}))
    times = [(row, found) for row in every for found in row["times"]]
    misses = [_time_line(row, found) for row, found in times if not is_inside(found)]
    inexact = [_reads_line(row) for row in every if not is_exact(row)]
    same = [row for row in every if row["of"] == "the volume"]
    new = [row for row in every if row["of"] != "the volume"]
    off = [_reads_line(row) for row in new if abs(row["predicted_reads"] / row["reads"] - 1) > MANY]
    exact, walked = sum(map(is_exact, same)), sum(map(is_exact, new))
    introduction = (
        f"{len(same)} times the same volume was read otherwise: {exact} times as predicted, to 99.9 % of blocks and "
        f"pairs. {len(new)} times a volume was remade: {walked} times a walk of it reads what is predicted of it, "
        f"and {len(off)} times the plan had said over a tenth more or fewer reads ({_furthest(new):.1%} at most). "
        f"Of {len(times)} savings, "
        f"{len(times) - len(misses)} are within their intervals."
    )
    parts = [
        HEAD.format(sizes=sizes),
        fill(introduction, 110) + "\n",
        "## Missed\n",
        _table(TIME_HEAD, misses) if misses else "No saving is outside of its interval.\n",
        _table(READS_HEAD, inexact) if inexact else "No reads were predicted to less than 99.9 %.\n",
        "New volumes whose walk has over a tenth more or fewer reads than predicted:\n",
        _table(READS_HEAD, off) if off else "None.\n",
        "## Reads\n",
        _table(READS_HEAD, [_reads_line(row) for row in every]),
        "## Savings\n",
        _table(TIME_HEAD, [_time_line(row, found) for row, found in sorted(times, key=_by_place)]),
        "## What was done\n",
        "".join(f"- `{name}`: {text}\n" for name, text in _done(every)),
    ]
    return "\n".join(parts)


def _furthest(new: list[dict[str, Any]]) -> float:
    """Return by which share of the reads of a new volume the plan was off at most."""
    return max(abs(row["predicted_reads"] / row["reads"] - 1) for row in new)


def _by_place(item: tuple[dict[str, Any], dict[str, Any]]) -> tuple[str, str, int]:
    row, found = item
    return (found["drive"], row["filesystem"], row["files"])


def _done(every: list[dict[str, Any]]) -> list[tuple[str, str]]:
    ordered = sorted((row["remedy"], row["does"]) for row in every)
    return [name for name, _ in groupby(ordered)]


READS_HEAD = ("remedy", "file system", "files", "reads", "said", "of", "blocks", "extra", "pairs")
TIME_HEAD = (
    "remedy",
    "file system",
    "files",
    "drive",
    "before, s",
    "after, s",
    "said",
    "saved, s",
    "said (90 %)",
    "inside",
)


def _reads_line(row: dict[str, Any]) -> tuple[str, ...]:
    shares = tuple(f"{row[name]:.2%}" for name in ("blocks", "extra", "pairs"))
    place = (row["remedy"], SYSTEMS[row["filesystem"]], f"{row['files']:,}")
    return (*place, f"{row['reads']:,}", f"{row['predicted_reads']:,}", row["of"], *shares)


def _time_line(row: dict[str, Any], found: dict[str, Any]) -> tuple[str, ...]:
    place = (row["remedy"], SYSTEMS[row["filesystem"]], f"{row['files']:,}", DRIVES[found["drive"]])
    took = tuple(f"{found[name]:.2f}" for name in ("before_s", "after_s", "predicted_s", "saved_s"))
    predicted = f"{found['predicted_saved_s']:.2f} ({found['low_s']:.2f} to {found['high_s']:.2f})"
    return (*place, *took, predicted, "yes" if is_inside(found) else "no")


def _table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    table = [head, ("---",) * len(head), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in table)


def main() -> None:
    """Write it."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
