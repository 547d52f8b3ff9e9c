"""Tables of docs/intervals.md, from the saved results of ``python -m tests.validation.intervals``."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from evidence_tables import percent, results
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


def _tests(*, is_flash: bool) -> list[dict[str, Any]]:
    """Return the tests on flash and warm caches, or the others: those outside of their interval first."""
    rows = [row for row in _found()["rows"] if "is_hit" in row and ("counts" in row) == is_flash]
    return sorted(rows, key=lambda row: row["is_hit"])


def _range(row: dict[str, Any], low: str, high: str) -> str:
    ends = (row[low],) if row[low] == row[high] else (row[low], row[high])
    return " to ".join(f"{end:.3g}" if end < 1000 else f"{end:,.0f}" for end in ends)


def coverage() -> None:
    """Print how many experiments meet their interval, how wide the intervals are, and how far off their middles."""
    found = _found()
    kinds = (
        ("hard disks, and whole files", "disk", "the priors, which these experiments did not set"),
        ("SSDs and cached metadata", "flash", "costs fitted to the other experiments, ranges as wide as the priors"),
        ("SSDs and cached metadata", "flash_by_spread", "the same costs, ranges as wide as the other experiments vary"),
    )
    lines = []
    for words, key, by in kinds:
        hits = found["coverage"][key]
        share = f"{hits['hits']} of {hits['experiments']} ({percent(hits['low'])} to {percent(hits['high'])})"
        figures = tuple(f"{hits[name]:.1f}" for name in ("width", "error", "worst"))
        lines.append((words, by, share, f"{hits['row_hits']} of {hits['rows']}", *figures))
    heads = ("work", "predicted by", "experiments inside", "times inside", "high / low", "median error", "worst error")
    table(heads, lines)
    print(  # noqa: T201
        f"\nErrors are the factors by which medians are off. There are {found['draws']} simulations on "
        f"{found['volumes']} drawn volumes. The priors are those of {found['written']}, SHA-256 `{found['priors']}`."
    )


def costs() -> None:
    """Print the costs that are fitted to all experiments beside those that predictions use."""
    from layoutscope.drive import load_profile
    from layoutscope.walk.host import MACOS, property_values

    fitted, host = _found()["costs"], property_values(MACOS)
    entry, stat = host["apfs.list_us"] + host["apfs.bulk_entry_us"], host["apfs.stat_us"]
    read = host["apfs.node_us"] + load_profile("apple-ap0256j-2017").numbers("latency_us")[0]
    gain = MACOS.processors / host["apfs.contention"]
    rows = [
        ("entry of a listing with attributes, us", entry, fitted["bulk_us"]),
        ("look-up answered by the name cache, us", stat, fitted["stat_us"]),
        ("random read of an Apple SSD, with the work of the computer, us", read, fitted["read_us"]),
        ("factor that several threads save", gain, fitted["gain"]),
    ]
    table(("cost on a Mac of 2017", "used", "fitted to all"), [(name, f"{a:.3g}", f"{b:.3g}") for name, a, b in rows])


def flash() -> None:
    """Print the rows of flash and warm caches, each by the costs of the other experiments; those outside first."""
    lines = [
        (
            "yes" if row["is_hit"] else "**no**", row["experiment"], row["work"], row["filesystem"],
            f"{_range(row, 'low', 'high')} s", f"{row['p50']:.3g}", _range(row, "p5", "p95"), f"{row['width']:.1f}",
            f"{row['off']:.2f}",
        )
        for row in _tests(is_flash=True)
    ]  # fmt: skip
    heads = (
        "inside",
        "experiment",
        "work",
        "file system",
        "measured",
        "median, s",
        "90 % range, s",
        "high / low",
        "error",
    )
    table(heads, lines)


def disks() -> None:
    """Print the rows of hard disks and of whole files, those outside first."""
    lines = []
    for row in _tests(is_flash=False):
        shares = [f"{GROUPS[group]} {percent(share)}" for group, share in row["shares"].items() if share >= 0.1]
        lines.append((
            "yes" if row["is_hit"] else "**no**", row["experiment"], row["work"], row["filesystem"],
            f"{_range(row, 'low', 'high')} {row['unit']}", _range(row, "p50", "p50"),
            _range(row, "p5", "p95"), f"{row['width']:.1f}", f"{row['width_of_layout']:.1f}", f"{row['off']:.2f}",
            ", ".join(shares),
        ))  # fmt: skip
    heads = (
        "inside", "experiment", "work", "file system", "measured", "median", "90 % range", "high / low",
        "high / low of one layout", "error", "main unknowns",
    )  # fmt: skip
    table(heads, lines)


def apart() -> None:
    """Print the measurements that test nothing, and why."""
    lines = [
        (row["experiment"], row["work"], row.get("in_sample") or row["not_predicted"],
         "in-sample" if "in_sample" in row else "not predicted")
        for row in _found()["rows"]
        if "is_hit" not in row
    ]  # fmt: skip
    table(("experiment", "work", "reason", ""), lines)


def halves() -> None:
    """Print the seed's enumeration on both halves of its case, and what part of it is that."""
    lines = [
        (
            {"hfsplus": "HFS+", "apfs": "APFS"}[row["filesystem"]], str(row["cycle"]), f"{row['outer_s']:.0f}",
            f"{row['inner_s']:.0f}", f"{row['inner_over_outer'] - 1:+.0%}".replace("%", " %"),
        )
        for row in _found()["halves"]
    ]  # fmt: skip
    table(("file system", "cycle", "outer half, s", "inner half, s", "difference"), lines)


def drives() -> None:
    """Print how many walks on each of DiskSim's drives are within the ranges of the other two, the misses first."""
    rows = _found()["drives"]
    key = ("drive", "known", "buffer")
    lines = []
    for place, group in groupby(rows, key=lambda row: tuple(row[name] for name in key)):
        own = list(group)
        hits, width = sum(row["is_hit"] for row in own), sorted(row["p95"] / row["p5"] for row in own)[len(own) // 2]
        lines.append((hits / len(own), (place[0], KNOWN[place[1]], place[2], f"{hits} of {len(own)}", f"{width:.2f}")))
    lines.sort(key=lambda line: line[0])
    print(f"{_missed(rows)}\n")  # noqa: T201
    table(("drive", "known about it", "buffer", "listings inside", "high / low"), [line for _, line in lines])


def _missed(rows: list[dict[str, Any]]) -> str:
    """Say how many walks are inside, drive by drive, and where fewest are: on a drive whose zones are known."""
    share = lambda own: f"{sum(row['is_hit'] for row in own)} of {len(own)}"  # noqa: E731
    atlas = [row for row in rows if row["drive"] == "atlas10k5"]
    zones, others = [row for row in atlas if row["known"] == "zones"], [row for row in rows if row not in atlas]
    return (
        f"On the Atlas, {share(atlas)} listings are inside, and {share(zones)} if its zones are known. On both "
        f"Cheetahs, {share(others)} are. Two drives are too few to predict the error on a third one: ranges from the "
        "Cheetahs are too narrow for the Atlas, and ranges from the Atlas too wide for them."
    )
