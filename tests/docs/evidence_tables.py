"""Tables of docs/evidence.md, from the saved results of ``python -m tests.validation.evidence``."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from readme_tables import table

RESULTS = Path(__file__).resolve().parents[1] / "validation" / "results"
DRIVES = {"cheetah15k5": "Cheetah 15K.5", "cheetah9lp": "Cheetah 9LP"}
ATLAS = "Atlas 10K V"
SYSTEMS = {"hfsplus": "HFS+", "apfs": "APFS"}


def results(name: str) -> dict[str, Any]:
    """Read saved results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def claim() -> None:
    """Print the claim by the witnesses alone, with the buffers off too, then why it is so."""
    witnesses = results("witnesses")
    rows = {(row["drive"], row["buffer"], row["files"][-3:]): row for row in witnesses["claim"]}
    why = {(row["files"][-3:], row["case"]): f"{row['seconds']:.0f} s" for row in witnesses["why"]}
    fresh, aged, fresh_off, aged_off = (
        " and ".join(f"{rows[drive, buffer, age]['disksim']:.1f}" for drive in DRIVES)
        for buffer in ("on", "off")
        for age in ("c00", "c20")
    )
    ours = ", ".join(f"{rows[drive, 'on', age]['ours']:.1f}" for age in ("c00", "c20") for drive in DRIVES)
    hfs, apfs = (
        rows["cheetah15k5", "off", "c20"][key] / rows["cheetah15k5", "on", "c20"][key]
        for key in ("hfsplus_s", "apfs_s")
    )
    print(  # noqa: T201
        f"Walking the same 200,000 files takes {fresh} times as long on APFS as on HFS+ when the volume is fresh, and "
        f"{aged} times after 20 cycles of replacing 5 % of them ({' and '.join(DRIVES.values())}, their buffers on). "
        f"With the buffers off it takes {fresh_off} times as long when fresh, {aged_off} times after the cycles: "
        "HFS+'s reads, one right behind the other, then wait a turn each. These are figures of witnesses alone: reads "
        "recorded below real drivers, times by DiskSim 4.0 for two drives that are known to the sector. Ours, with "
        f"the buffers on, are {ours}.\n\n"
        "By our model the reason is the distance of the nodes while the volume is fresh, and later their order more "
        f"than their distance. On the first drive the fresh walk takes {why['c00', 'apfs']}, without the data between "
        f"the nodes (what-if `clumped-like-hfs`) {why['c00', 'clumped-like-hfs']}, with the same nodes side by side in "
        f"key order (`packed`) {why['c00', 'packed']}; the aged one {why['c20', 'apfs']}, "
        f"{why['c20', 'clumped-like-hfs']} and {why['c20', 'packed']}. Its look-ahead serves only what comes in order: "
        f"it makes the aged walk of HFS+ {hfs:.0f} times quicker, that of APFS {apfs:.2f} times."
    )


def traces() -> None:
    """Print order by order how much of the recorded reads is predicted: the worst trace of each."""
    rows = []
    for system, label in SYSTEMS.items():
        own = [row for row in results("witnesses")["traces"] if row["image"].startswith(system)]
        for kind in dict.fromkeys(row["kind"] for row in own):
            some = [row for row in own if row["kind"] == kind]
            rows.append(
                (
                    label,
                    kind,
                    str(len(some)),
                    f"{sum(row['requests'] for row in some):,}",
                    f"{sum(row['same_requests'] for row in some):,}",
                    f"{min(row['block_share'] for row in some):.2%}",
                    f"{max(row['extra_share'] for row in some):.2%}",
                    f"{min(row['pair_share'] for row in some):.2%}",
                )
            )
    head = ("file system", "order", "traces", "requests", "same place, offset, length", "blocks", "extra", "pairs")
    table(head, rows)


def programs() -> None:
    """Print program by program how much of what it really read is predicted, what is missed first."""
    found = results("programs")
    kinds = [row["program"].partition(" ")[0] for row in found]
    groups = {}
    for kind, row in zip(kinds, found, strict=True):
        groups.setdefault((row["volume"].partition("-")[0], kind), []).append(row)
    rows = []
    for (system, kind), some in groups.items():
        missed = sorted({name for row in some for name in row["missed"]})
        left_out = sum(row["requests"] - row["same_requests"] for row in some)
        rows.append(
            (
                left_out,
                (
                    SYSTEMS[system],
                    "rm -rf" if kind == "rm" else kind,
                    str(len(some)),
                    f"{sum(row['requests'] for row in some):,}",
                    f"{left_out:,}" + (f" ({', '.join(missed)})" if missed else ""),
                    f"{min(row['block_share'] for row in some):.2%}",
                    f"{max(row['extra_share'] for row in some):.2%}",
                    f"{min(row['pair_share'] for row in some):.2%}",
                ),
            )
        )
    rows.sort(key=lambda item: -item[0])
    head = ("file system", "program", "traces", "requests", "not predicted", "blocks", "extra", "pairs")
    table(head, [row for _, row in rows])


def disksim() -> None:
    """Print workload by workload, drive by drive, DiskSim's figures and ours, buffer on."""
    every = results("witnesses")["disksim"]
    shown = {(row["drive"], row["workload"]): row for row in every if row["buffer"] == "on"}
    rows = []
    for workload in dict.fromkeys(workload for _, workload in shown):
        cells = [workload]
        for drive in DRIVES:
            row = shown[drive, workload]
            theirs, ours = row["disksim"], row["ours"]
            split = ", ".join(f"{theirs[key]:.2f}/{ours[key]:.2f}" for key in ("seek_ms", "latency_ms", "xfer_ms"))
            cells += [f"{theirs['service_s']:.2f}/{ours['service_s']:.2f}", f"{row['ratio']:.4f}", split]
        rows.append(tuple(cells))
    columns = [
        column for name in DRIVES.values() for column in (f"{name}, s", "ratio", "seek, rotation, transfer, ms a read")
    ]
    table(("reads (DiskSim/ours)", *columns), rows)
    off = max(abs(row["ratio"] - 1) for row in every if row["buffer"] == "off")
    print()  # noqa: T201
    print(f"With the buffer off the {len(every) // 2} totals differ by {off:.3%} at most.")  # noqa: T201


def knowledge() -> None:
    """Print what knowing less of a drive costs, the drive on which it costs most first."""
    rows = [
        (
            row["known"],
            " and ".join((*DRIVES.values(), ATLAS)[(*DRIVES, "atlas10k5").index(drive)] for drive in row["drives"]),
            str(row["runs"]),
            f"{row['largest']:.1%}",
            f"{row['rms']:.1%}",
        )
        for row in sorted(results("witnesses")["knowledge"], key=lambda row: -row["largest"])
    ]
    table(("known of the drive", "on", "walks", "largest error", "root mean square"), rows)


def reference() -> None:
    """Print how many reference measurements are met and by how much the worst is missed, then all of them."""
    told = results("reference")["rows"]
    met, fitted = (
        [row for row in told if word in row[key]] for key, word in (("verdict", "met"), ("made_on", "fitted"))
    )
    worst = max(told, key=lambda row: _factor(row["verdict"]))
    print(  # noqa: T201
        f"{len(met)} of {len(told)} rows are met, {len(fitted)} of them by a profile that was fitted to them; the "
        f"worst is off by a factor of {_factor(worst['verdict']):.1f} ({worst['work']}, {worst['filesystem']}).\n"
    )
    rows = []
    for row in results("reference")["rows"]:
        digits = 1 if row["predicted"] >= 10 else 2
        spread = ""
        if row["predicted_low"] != row["predicted_high"]:
            spread = f" ({row['predicted_low']:.0f} to {row['predicted_high']:.0f})"
        predicted = f"{row['predicted']:.{digits}f}{spread} {row['unit']}"
        made_on = "; ".join(filter(None, (row["made_on"], row["remark"])))
        rows.append((row["work"], row["filesystem"], row["measured"], predicted, row["verdict"], made_on))
    table(("work", "file system", "measured", "predicted", "off by", "predicted on"), rows)


def article() -> None:
    """Print the article's experiment under each assumption, and which of its times refute it."""
    known = ("20 to 27", "20 to 27", "about 80", "not told", "about 300", "300 to 380")
    rows = [("**measured**", "", "", "", "", "all", *known, "")]
    kept: list[float] = []
    for row in results("article")["stories"]:
        medians = [median for _, median, _ in row["apfs"]]
        ranges = [
            f"{median:.0f} ({low:.0f} to {high:.0f})" for low, median, high in (*row["hfsplus"][::2], *row["apfs"])
        ]
        if row["snapshots"] == KEEP_ALL:
            kept, told = medians, _refuted(row["missed"])
        else:
            is_slower = all(one >= other for one, other in zip(medians, kept, strict=True))
            told = "slower than with all kept, as measured" if is_slower else "not slower than with all kept"
        rows.append(
            (
                {"hash": "by hash, as APFS lists", "alphabetical": "by name"}[row["creation"]],
                "under a temporary name" if row["temporary_names"] else "deleted first",
                row["case"],
                {"track": "yes", "none": "no"}[row["on_arrival"]],
                f"{row['merge_share']:.2g}",
                {KEEP_ALL: "all", 0: "none"}.get(row["snapshots"], f"the last {row['snapshots']}"),
                *ranges,
                told,
            )
        )
    ages = ("HFS+ fresh, s", "10 cycles", "APFS fresh, s", "5 cycles", "10 cycles", "20 cycles")
    heads = ("files created", "replaced", "case", "on arrival", "leaves merge at", "snapshots kept", *ages)
    table((*heads, "refuted by"), rows)


KEEP_ALL = 20


def _refuted(missed: dict[str, float]) -> str:
    found = (f"{SYSTEMS[key.split()[0]]} {key.split()[1]}: {factor:.2g} x" for key, factor in missed.items())
    return "; ".join(found) or "nothing"


def ager() -> None:
    """Print real image and plan side by side."""
    every = results("ager")["rows"]
    rows = []
    for image, group in groupby(every, key=lambda row: row["image"]):
        cells = [f"{_short(row['real'])} / {_short(row['plan'])}{'' if row['agrees'] else ' (off)'}" for row in group]
        rows.append((image, *cells))
    table(("real / plan", *dict.fromkeys(row["measure"] for row in every)), rows)


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    if value == int(value):
        return f"{value:.0f}"
    # Saved with four digits: to round to three would round twice.
    return f"{value:.4f}" if value < 1 else f"{value:.1f}"


def compared() -> None:
    """Print what was compared with what, the misses first."""
    table(("predicted", "compared with", "result"), _comparisons())


def in_short() -> None:
    """Print what of it a reader of the README has to know, as a list."""
    for what, reference, result in _comparisons():
        if what in SHOWN_FIRST:
            print(f"- **{what}**, compared with {reference}: {result}.")  # noqa: T201
    print("- [All, misses first](docs/evidence.md)")  # noqa: T201


SHOWN_FIRST = ("Time of a walk", "Listings, flash or cached", "Time of a drive", "Which reads, Linux")


def _comparisons() -> list[tuple[str, str, str]]:
    witnesses, programs, intervals = results("witnesses"), results("programs"), results("intervals")
    asked, fresh = (sum(row["requests"] for row in rows) for rows in (witnesses["traces"], programs))
    missed = asked - sum(row["same_requests"] for row in witnesses["traces"])
    left_out = fresh - sum(row["same_requests"] for row in programs)
    worst = max(abs(row["ratio"] - 1) for row in witnesses["disksim"])
    sector, sheet = witnesses["knowledge"][:2], witnesses["knowledge"][-2:]
    told, fitted = intervals["coverage"], intervals["costs"]
    disk, flash, spread = (told[name] for name in ("disk", "flash", "flash_by_spread"))
    costs = (
        f"{fitted['bulk_us']:.1f} us an entry of a listing, {fitted['stat_us']:.0f} us a look-up, "
        f"{fitted['read_us']:.0f} us a random read of an Apple SSD, threads save a factor of {fitted['gain']:.1f}"
    )
    walks = (
        f"two drives known to the sector within {worst:.1%}, a third {sector[1]['largest']:.0%}; by data sheets alone "
        f"{sheet[0]['largest']:.0%}, the third {sheet[1]['largest']:.0%}"
    )
    reads = (
        f"of {asked:,} requests all {f'but {missed} ' if missed else ''}with offset, length and order; of {fresh:,} of "
        f"other programs all but {left_out}"
    )
    return [
        ("Time of a walk", "a real disk", "never done"),
        ("Which reads, macOS", "traces below Apple's drivers", "never done: from public source, of APFS assumed"),
        ("Listings, hard disks", "public times that set nothing", _inside(disk)),
        ("Listings, flash or cached", "public times, each left out of its fit", _inside(flash)),
        ("The same, as wide as the others spread", "the same", _inside(spread)),
        ("Costs of a Mac of 2017", "the same times, which set them", costs),
        ("Time of a drive", "the simulator DiskSim", walks),
        ("Which reads, Linux", "traces below its drivers", reads),
    ]


def _inside(told: dict[str, Any]) -> str:
    return (
        f"{told['hits']} of {told['experiments']} experiments within 90 % ranges, high / low {told['width']:.1f}; the "
        f"median is off by a factor of {told['error']:.1f}, at most {told['worst']:.1f}"
    )


def _factor(verdict: str) -> float:
    """How far a prediction is off, either way, as a factor."""
    if verdict == "met":
        return 1.0
    ratio = float(verdict.partition(" ")[0])
    return max(ratio, 1 / ratio)


def calibration() -> None:
    """Print how far drives that were measured are off, the one that is worst first."""
    rows = []
    for row in sorted(results("calibration"), key=lambda row: -max(abs(error) for error in row["walks"].values())):
        walks = row["walks"]
        parts = [[walks[name] for name in walks if name.startswith(start)] for start in CALIBRATED]
        worst = [f"{max(part, key=abs):+.1%}" for part in parts]
        clock = f"late by {row['jitter_us']} us" if row["jitter_us"] else "exact"
        rows.append(
            (f"`{row['drive']}`", clock, f"{row['reads']:,}", f"{row['seconds']:.0f}", f"{row['curve']:.1%}", *worst)
        )
    heads = ("drive", "clock", "reads", "s", "seek curve, rms", *CALIBRATED.values())
    table(heads, rows)


CALIBRATED = {
    "apfs-200000": "APFS, 200,000 files",
    "apfs-20000-": "APFS, 20,000 files",
    "hfsplus-200000": "HFS+, 200,000 files",
    "hfsplus-20000-": "HFS+, 20,000 files",
}
"""Walks by how their names begin, and what they are of; of the two of each the worse one is shown."""
