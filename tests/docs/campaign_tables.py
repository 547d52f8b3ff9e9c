"""Counts of the fuzzing campaigns, added up from the table of ``docs/dev/threat-model.md``."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dev" / "threat-model.md"
HEAD = "| target | cases | exit 0 | exit 1 | exit 3 | failed | slowest | peak |"


def rows() -> list[dict[str, str]]:
    """Return the table of the campaigns, one row per target."""
    names = [cell.strip() for cell in HEAD.strip("| ").split("|")]
    below = PAGE.read_text(encoding="utf-8").split(HEAD)[1].strip().splitlines()[1:]
    lines = list(takewhile(lambda line: line.startswith("|"), below))
    return [dict(zip(names, [cell.strip() for cell in line.strip("| ").split("|")], strict=True)) for line in lines]


def in_short() -> None:
    """Print how many changed files were read in all, and how that ended."""
    targets = rows()
    count = {name: sum(int(row[name].replace(",", "")) for row in targets) for name in list(targets[0])[1:6]}
    slowest = max(float(row["slowest"].split()[0]) for row in targets)
    peak = max(int(row["peak"].split()[0]) for row in targets)
    print(  # noqa: T201
        f"In the longest campaign, {count['cases']:,} changed files of {len(targets)} kinds were read. "
        f"{count['exit 0']:,} gave a result, {count['exit 3']:,} one with damage reported, "
        f"{count['exit 1']:,} were refused in one line, and {count['failed']} failed and were fixed. "
        f"The slowest took {slowest} s, the most memory was {peak} MiB."
    )
