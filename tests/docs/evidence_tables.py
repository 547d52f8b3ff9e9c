"""Tables of docs/evidence.md, from the saved results of ``python -m tests.validation.evidence``."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from readme_tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).resolve().parents[1] / "validation" / "results"
DRIVES = {"cheetah15k5": "Cheetah 15K.5", "cheetah9lp": "Cheetah 9LP"}
ATLAS = "Atlas 10K V"
SYSTEMS = {"hfsplus": "HFS+", "apfs": "APFS"}


def results(name: str) -> dict[str, Any]:
    """Read saved results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def percent(share: float, digits: int = 0) -> str:
    """Write a share as the pages do."""
    return f"{share:.{digits}%}".replace("%", " %")


def claim() -> None:
    """Print the claim by recorded reads and the simulator alone, with the buffers off too, then why it is so."""
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
        f"Listing the same 200,000 files takes {fresh} times as long on APFS as on HFS+ if the volume is fresh. After "
        f"20 cycles that each replace 5 % of the files, it takes {aged} times as long. These figures do not depend on "
        "layoutscope: the reads were recorded below Linux drivers, and DiskSim computed the times for two drives "
        f"({' and '.join(DRIVES.values())}) with their buffers on. The times of layoutscope give {ours}. With the "
        f"buffers off the factors are {fresh_off} if fresh and {aged_off} after the cycles, because each contiguous "
        "read of HFS+ then waits for a turn of the disk.\n\n"
        "According to layoutscope, fresh APFS volumes are slower because of the distance between their nodes, and aged "
        f"ones mostly because of their order. On the first drive the listing of the fresh volume takes "
        f"{why['c00', 'apfs']}. With no data between the nodes (what-if `clumped-like-hfs`) it takes "
        f"{why['c00', 'clumped-like-hfs']}, and with the nodes contiguous and in key order (`packed`) "
        f"{why['c00', 'packed']}. The listing of the aged volume takes {why['c20', 'apfs']}, "
        f"{why['c20', 'clumped-like-hfs']} and {why['c20', 'packed']}. The buffer of that drive makes the listing of "
        f"aged HFS+ {hfs:.0f} times faster and that of aged APFS {apfs:.2f} times, because its look-ahead only serves "
        "reads that come in order."
    )


SHARES = ("blocks predicted", "blocks predicted but not read", "pairs of consecutive reads predicted")
"""Heads of the shares of a recording."""


def traces() -> None:
    """Print the predicted share of the recorded reads by order: the worst trace of each."""
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
    head = ("file system", "workload", "recordings", "requests", "predicted exactly", *SHARES)
    table(head, rows)


def programs() -> None:
    """Print the predicted share of the recorded reads by program, misses first."""
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
    head = ("file system", "program", "recordings", "requests", "not predicted", *SHARES)
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
        column
        for name in DRIVES.values()
        for column in (f"{name}, s", "ratio", "seek, rotation, transfer, ms per read")
    ]
    table(("reads (DiskSim / layoutscope)", *columns), rows)
    off = max(abs(row["ratio"] - 1) for row in every if row["buffer"] == "off")
    print()  # noqa: T201
    print(f"With the buffer off the {len(every) // 2} totals differ by at most {percent(off, 3)}.")  # noqa: T201


def agreement() -> None:
    """Print for each drive and setting how many of DiskSim's runs agree, those with the fewest first."""
    rows = sorted(results("witnesses")["agreement"], key=lambda row: row["close"] / row["runs"])
    table(
        ("drive", "setting", "runs", "within 0.2 %", "largest difference", "of which reads"),
        [
            (
                {**DRIVES, "atlas10k5": ATLAS}[row["drive"]],
                BUFFERS[row["setting"]],
                str(row["runs"]),
                str(row["close"]),
                percent(row["largest"], 2),
                f"{row['workload']}, {row['think_us']} us between reads",
            )
            for row in rows
        ],
    )


BUFFERS = {
    "off": "buffer off",
    "own": "buffer as extracted",
    "join": "buffer on, reads wait for the look-ahead",
    "bus": "buffer as extracted, and the bus",
}
"""Settings of DiskSim in words."""


def knowledge() -> None:
    """Print the errors if less is known about a drive, the largest first."""
    rows = [
        (
            row["known"],
            " and ".join((*DRIVES.values(), ATLAS)[(*DRIVES, "atlas10k5").index(drive)] for drive in row["drives"]),
            str(row["runs"]),
            percent(row["largest"], 1),
            percent(row["rms"], 1),
        )
        for row in sorted(results("witnesses")["knowledge"], key=lambda row: -row["largest"])
    ]
    table(("known about the drive", "drives", "listings", "largest error", "root mean square"), rows)


def reference() -> None:
    """Print how many reference measurements are met and by how much the worst is missed, then all, the worst first."""
    measured = results("reference")["rows"]
    hits, fitted = (
        [row for row in measured if word in row[key]] for key, word in (("verdict", "met"), ("made_on", "fitted"))
    )
    worst = max(measured, key=lambda row: _factor(row["verdict"]))
    print(  # noqa: T201
        f"{len(hits)} of {len(measured)} measurements are predicted within their range. {len(fitted)} of these were "
        f"used to fit the profile. The worst prediction is off by a factor of {_factor(worst['verdict']):.1f} "
        f"({worst['work']}, {worst['filesystem']}).\n"
    )
    rows = []
    for row in sorted(measured, key=lambda row: -_factor(row["verdict"])):
        digits = 1 if row["predicted"] >= 10 else 2
        spread = ""
        if row["predicted_low"] != row["predicted_high"]:
            spread = f" ({row['predicted_low']:.0f} to {row['predicted_high']:.0f})"
        predicted = f"{row['predicted']:.{digits}f}{spread} {row['unit']}"
        made_on = "; ".join(filter(None, (row["made_on"], row["remark"])))
        verdict = "within the range" if row["verdict"] == "met" else f"off by {_factor(row['verdict']):.2f} x"
        rows.append((verdict, row["work"], row["filesystem"], row["measured"], predicted, made_on))
    table(("result", "work", "file system", "measured", "predicted", "predicted on"), rows)


def article() -> None:
    """Print the article's experiment under each set of assumptions: those that most of its times refute come first."""
    known = ("20 to 27", "20 to 27", "about 80", "not published", "about 300", "300 to 380")
    stories = results("article")["stories"]
    kept = {_case(row): [median for _, median, _ in row["apfs"]] for row in stories if row["snapshots"] == KEEP_ALL}
    rows = []
    for row in sorted(stories, key=lambda row: (row["snapshots"] != KEEP_ALL, -len(row["missed"]))):
        ranges = [
            f"{median:.0f} ({low:.0f} to {high:.0f})" for low, median, high in (*row["hfsplus"][::2], *row["apfs"])
        ]
        if row["snapshots"] == KEEP_ALL:
            result = _refuted(row["missed"])
        else:
            medians = (median for _, median, _ in row["apfs"])
            is_slower = all(one >= other for one, other in zip(medians, kept[_case(row)], strict=True))
            result = (
                "slower than with all snapshots, as measured" if is_slower else "not slower than with all snapshots"
            )
        rows.append(
            (
                result,
                {"hash": "by hash, as APFS lists", "alphabetical": "by name"}[row["creation"]],
                "under a temporary name" if row["temporary_names"] else "after deletion",
                row["case"],
                {"track": "yes", "none": "no"}[row["on_arrival"]],
                f"{row['merge_share']:.2g}",
                {KEEP_ALL: "all", 0: "none"}.get(row["snapshots"], f"the last {row['snapshots']}"),
                *ranges,
            )
        )
    rows.append(("**measured**", "", "", "", "", "", "all", *known))
    ages = ("HFS+ fresh, s", "10 cycles", "APFS fresh, s", "5 cycles", "10 cycles", "20 cycles")
    heads = ("created", "replaced", "case", "on-arrival read-ahead", "leaves merge at", "snapshots kept", *ages)
    table(("result", *heads), rows)


def _case(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the common part of two rows that differ only in the snapshots."""
    return tuple(row[name] for name in ("creation", "case", "on_arrival", "merge_share", "temporary_names"))


KEEP_ALL = 20


def _refuted(missed: dict[str, float]) -> str:
    """Return the times that refute a set of assumptions, with the factors by which the medians are off."""
    found = []
    for name, group in groupby(missed, key=lambda key: key.split()[0]):
        keys = list(group)
        ages, factors = ", ".join(key.split()[1] for key in keys), sorted(missed[key] for key in keys)
        ends = dict.fromkeys(f"{factor:.2g}" for factor in (factors[0], factors[-1]))
        found.append(f"{SYSTEMS[name]} after {ages} cycles ({' to '.join(ends)} x)")
    return f"refuted by {' and '.join(found)}" if found else "not refuted"


def ager() -> None:
    """Print real image and plan next to each other."""
    every = results("ager")["rows"]
    rows = []
    for image, group in groupby(every, key=lambda row: row["image"]):
        cells = [
            f"{_short(row['real'])} / {_short(row['plan'])}{'' if row['agrees'] else ' (missed)'}" for row in group
        ]
        rows.append((image, *cells))
    table(("image / plan", *dict.fromkeys(row["measure"] for row in every)), rows)


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    if value == int(value):
        return f"{value:.0f}"
    # Saved with four digits: to round to three would round twice.
    return f"{value:.4f}" if value < 1 else f"{value:.1f}"


NOT_CHECKED, MISSED, PARTLY, AGREES = "not checked", "missed", "partly met", "agrees"
OUTCOMES = (NOT_CHECKED, MISSED, PARTLY, AGREES)
"""What came of a comparison, in the order in which the page shows them."""

AIM = 0.85
"""A smaller share of cases that agree is a miss."""


class Comparison(NamedTuple):
    """A prediction, its reference, and the outcome."""

    what: str
    reference: str
    result: str
    hits: int  # cases that agree
    cases: int  # all cases; 0 where nothing was compared

    @property
    def outcome(self) -> str:
        """The outcome in a word."""
        if not self.cases:
            return NOT_CHECKED
        share = self.hits / self.cases
        return AGREES if share == 1 else PARTLY if share >= AIM else MISSED


def compared() -> None:
    """Print the comparisons, the misses first."""
    head = ("outcome", "prediction", "compared with", "result")
    table(head, [(item.outcome, item.what, item.reference, item.result) for item in comparisons()])


def in_short() -> None:
    """Print what a reader of the README has to know, the misses first: four lines."""
    found = {item.what: item for item in comparisons()}
    for what, line in IN_SHORT.items():
        text = line.format(found[what], disks=found["Times on hard disks"])
        print(f"- **{found[what].outcome.capitalize()}**: {text}")  # noqa: T201


IN_SHORT = {
    "Time of a listing": "the time of a listing on {0.reference}. There is {0.result}.",
    "Times on SSDs or with cached metadata": (
        "public times. The 90 % ranges include {0.hits} of {0.cases} experiments on SSDs or with cached metadata, and "
        "{disks.hits} of {disks.cases} on hard disks."
    ),
    "Time of a drive, every sector known": (
        "times of drives in {0.reference}. {0.hits} of {0.cases} runs are within 0.2 %."
    ),
    "Reads of listings and copies on Linux": (
        "recorded reads of listings and copies on Linux. {0.hits:,} of {0.cases:,} are as predicted."
    ),
}
"""What the README says about some comparisons, in an order in which misses come first."""


def comparisons() -> list[Comparison]:
    """List everything that predictions were compared with: what was never checked first, then what was missed."""
    coverage = results("intervals")["coverage"]
    every = [
        Comparison("Time of a listing", "a real disk", "no measurement yet", 0, 0),
        Comparison("Reads of macOS", "recordings on a Mac", "no recording yet", 0, 0),
        *_of_article(),
        _inside("Times on hard disks", "public measurements that set nothing", coverage["disk"]),
        _inside(
            "Times on SSDs or with cached metadata", "public measurements, each left out of its own fit",
            coverage["flash"],
        ),
        _inside("The same with ranges as wide as the others vary", "the same", coverage["flash_by_spread"]),
        *_of_simulator(),
        *_of_recordings(),
    ]  # fmt: skip
    return sorted(every, key=lambda item: OUTCOMES.index(item.outcome))


def _inside(what: str, reference: str, found: dict[str, Any]) -> Comparison:
    result = (
        f"{found['hits']} of {found['experiments']} experiments are within 90 % ranges, whose ends are a factor of "
        f"{found['width']:.1f} apart; medians are off by a factor of {found['error']:.1f}, at most {found['worst']:.1f}"
    )
    return Comparison(what, reference, result, found["hits"], found["experiments"])


def _of_article() -> Iterator[Comparison]:
    """Compare with the article, time by time."""
    for row in results("intervals")["rows"]:
        if row["experiment"] == ARTICLE:
            unit = row["unit"]
            measured, inside = (
                f"{low:,.3g} to {high:,.3g}" if low != high else f"{low:,.3g}"
                for low, high in ((row["low"], row["high"]), (row["p5"], row["p95"]))
            )
            result = f"{row['p50']:,.3g} {unit} ({inside}), a factor of {row['width']:.1f} wide"
            yield Comparison(
                f"{row['filesystem']}: {row['work']}", f"the article, {measured} {unit}", result, int(row["is_hit"]), 1
            )


ARTICLE = "aging-2019"


def _of_simulator() -> Iterator[Comparison]:
    """Compare with DiskSim, by what is known about the drive."""
    witnesses, left_out = results("witnesses"), results("intervals")["drives"]
    runs, close = (sum(row[name] for row in witnesses["agreement"]) for name in ("runs", "close"))
    exact = [row for row in witnesses["agreement"] if row["close"] == row["runs"]]
    reference = "the simulator DiskSim"
    result = (
        f"{close} of {runs} runs are within 0.2 %, including all {sum(row['runs'] for row in exact)} runs without a "
        f"bus and without the look-ahead of the {ATLAS}"
    )
    yield Comparison("Time of a drive, every sector known", reference, result, close, runs)
    worst = {tuple(row["drives"]): row["largest"] for row in witnesses["knowledge"]}
    for known, words in (("zones", "zones known"), ("datasheet", "from its data sheet")):
        rows = [row for row in left_out if row["known"] == known]
        hits = sum(row["is_hit"] for row in rows)
        result = f"{hits} of {len(rows)} listings are within the 90 % ranges that the other drives give"
        if known == "datasheet":  # the last rows of what knowing less costs
            result += (
                f"; off by up to {percent(worst[tuple(DRIVES)])}, and {percent(worst['atlas10k5',])} on the {ATLAS}"
            )
        yield Comparison(f"Time of a drive, {words}", reference, result, hits, len(rows))


def _of_recordings() -> Iterator[Comparison]:
    """Compare with reads recorded below Linux's drivers."""
    for what, rows in (
        ("Reads of listings and copies on Linux", results("witnesses")["traces"]),
        ("Reads of other programs on Linux", results("programs")),
    ):
        requests, same = (sum(row[name] for row in rows) for name in ("requests", "same_requests"))
        missed = f"all but {requests - same} of {requests:,}" if same < requests else f"all {requests:,}"
        result = f"{missed} requests have the predicted offset, length and order"
        yield Comparison(what, "recordings below its drivers", result, same, requests)


def _factor(verdict: str) -> float:
    """The factor by which a prediction is off, in either direction."""
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
        worst = [f"{max(part, key=abs):+.1%}".replace("%", " %") for part in parts]
        clock = f"late by {row['jitter_us']} us" if row["jitter_us"] else "exact"
        rows.append(
            (f"`{row['drive']}`", clock, f"{row['reads']:,}", f"{row['seconds']:.0f}", percent(row["curve"], 1), *worst)
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
