"""Tables of docs/intervals.md, from the saved results of ``python -m tests.validation.intervals``."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from evidence_tables import off, results, whole
from readme_tables import table

GROUPS = {
    "drive": "drive",
    "host": "computer",
    "placement": "placement",
    "offset": "half of the drive",
    "start": "start",
    "model": "model",
}
KNOWN = {"zones": "zones", "datasheet": "data sheet"}
BUFFERS = {"off": "off", "on": "on"}


def _found() -> dict[str, Any]:
    return results("intervals")


def _tests() -> list[dict[str, Any]]:
    """Return the rows that are tests: those outside of their interval first."""
    return sorted((row for row in _found()["rows"] if "is_hit" in row), key=lambda row: row["is_hit"])


def _range(row: dict[str, Any], low: str, high: str) -> str:
    ends = (row[low],) if row[low] == row[high] else (row[low], row[high])
    return " to ".join(f"{end:.3g}" if end < 1000 else f"{end:,.0f}" for end in ends)


def coverage() -> None:
    """Print how many experiments meet their interval, and how wide the intervals are."""
    found, told = _found(), _found()["coverage"]
    print(  # noqa: T201
        f"**{told['hits']} of {told['experiments']} experiments** meet their 90 % interval in every row "
        f"({told['row_hits']} of {told['rows']} rows, of which {len(whole(found['rows']))} lie within it from end to "
        f"end: a range that was measured counts where it meets the interval); so few trials say that "
        f"the true share is between {told['low']:.0%} and {told['high']:.0%}. The intervals are wide: the upper "
        f"end is {told['width_of_volume']:.1f} times the lower one "
        f"for a volume like that (median over the experiments; the aim is 6) and {told['width_of_layout']:.1f} times "
        f"for one layout on a drive like that (the aim is 3). {_middles()} Priors of {found['written']}, SHA-256 "
        f"`{found['priors']}`; {found['draws']} draws on {found['volumes']} drawn volumes."
    )


def _middles() -> str:
    rows = sorted(_tests(), key=off)
    worst = rows[-1]
    return (
        f"The middle of the draws, taken by itself, is off by a factor of {off(rows[len(rows) // 2]):.1f} (median of "
        f"the rows) and of {off(worst):.1f} at most (`{worst['experiment']}`: {worst['p50']:.3g} s for "
        f"{worst['low']:.3g} s)."
    )


def tests() -> None:
    """Print the measurements that are tests, those outside first."""
    lines = []
    for row in _tests():
        shares = [f"{GROUPS[group]} {share:.0%}" for group, share in row["shares"].items() if share >= 0.1]
        lines.append((
            "yes" if row["is_hit"] else "**no**", row["experiment"], row["work"], row["filesystem"],
            f"{_range(row, 'low', 'high')} {row['unit']}", _range(row, "p5", "p95"), _range(row, "p25", "p75"),
            f"{row['width']:.1f}", f"{row['width_of_layout']:.1f}", ", ".join(shares),
        ))  # fmt: skip
    heads = (
        "inside", "experiment", "work", "file system", "measured", "90 %", "50 %", "high / low", "of one layout",
        "what contributes",
    )  # fmt: skip
    table(heads, lines)


def apart() -> None:
    """Print the measurements that are no tests, and why."""
    lines = [
        (row["experiment"], row["work"], row.get("in_sample") or row["not_predicted"],
         "in-sample" if "in_sample" in row else "not predicted")
        for row in _found()["rows"]
        if "is_hit" not in row
    ]  # fmt: skip
    table(("experiment", "work", "why it is no test", ""), lines)


def halves() -> None:
    """Print the seed's enumeration on both halves of its case, and what part of it is that."""
    lines = [
        (
            {"hfsplus": "HFS+", "apfs": "APFS"}[row["filesystem"]], str(row["cycle"]), f"{row['outer_s']:.0f}",
            f"{row['inner_s']:.0f}", f"{row['inner_over_outer'] - 1:+.0%}",
        )
        for row in _found()["halves"]
    ]  # fmt: skip
    table(("file system", "cycle", "outer half, s", "inner half, s", "inner against outer"), lines)


def drives() -> None:
    """Print how many walks on each of DiskSim's drives lie within what the other two say, the misses first."""
    rows = _found()["drives"]
    key = ("drive", "known", "buffer")
    lines = []
    for place, group in groupby(rows, key=lambda row: tuple(row[name] for name in key)):
        own = list(group)
        hits, width = sum(row["is_hit"] for row in own), sorted(row["p95"] / row["p5"] for row in own)[len(own) // 2]
        lines.append((hits / len(own), (place[0], KNOWN[place[1]], place[2], f"{hits} of {len(own)}", f"{width:.2f}")))
    lines.sort(key=lambda line: line[0])
    print(f"{_missed(rows)}\n")  # noqa: T201
    table(("drive", "known of it", "buffer", "walks inside", "high / low"), [line for _, line in lines])


def _missed(rows: list[dict[str, Any]]) -> str:
    """Say how many walks lie inside, drive by drive, and where least: of a drive whose zones are known."""
    share = lambda own: f"{sum(row['is_hit'] for row in own)} of {len(own)}"  # noqa: E731
    atlas = [row for row in rows if row["drive"] == "atlas10k5"]
    zones, others = [row for row in atlas if row["known"] == "zones"], [row for row in rows if row not in atlas]
    return (
        f"Of the walks on the Atlas {share(atlas)} lie inside, of those with its zones known {share(zones)}; on both "
        f"Cheetahs {share(others)}. Two drives are too few to say how far a third one is off: what the Cheetahs tell "
        "is too narrow for the Atlas, and what the Atlas tells too wide for them."
    )
