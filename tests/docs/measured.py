"""Tables of what was measured, from saved results: evidence, ranges, forecasts, remedies, speed."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.docs.markdown import percent, table
from tests.validation import forecasts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TESTS = Path(__file__).resolve().parents[1]
DRIVES = {"cheetah15k5": "Cheetah 15K.5", "cheetah9lp": "Cheetah 9LP"}
ATLAS = "Atlas 10K V"
SYSTEMS = {"hfsplus": "HFS+", "apfs": "APFS"}
ARTICLE = "aging-2019"
INSIDE = {True: "yes", False: "no"}


def results(name: str, folder: str = "validation/results") -> Any:
    """Read saved results."""
    return json.loads((TESTS / folder / f"{name}.json").read_text(encoding="utf-8"))


# Reads and times, compared with recordings and a simulator


SHARES = "blocks predicted | blocks predicted but not read | pairs of consecutive reads predicted"


def _recorded(rows: list[dict[str, Any]]) -> tuple[int, int, int, tuple[str, ...]]:
    """Return the number of recordings, of requests, of those that are as predicted, and the worst shares."""
    worst = min(row["block_share"] for row in rows), max(row["extra_share"] for row in rows)
    shares = tuple(f"{share:.2%}" for share in (*worst, min(row["pair_share"] for row in rows)))
    requests, same = (sum(row[name] for row in rows) for name in ("requests", "same_requests"))
    return len(rows), requests, same, shares


def _grouped(rows: Iterable[Any], key: Any) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def traces() -> str:
    """Return the predicted share of the recorded reads by order: the worst trace of each."""
    rows = []
    for (system, kind), some in _grouped(
        results("witnesses")["traces"], lambda row: (row["image"].partition("-")[0], row["kind"])
    ).items():
        count, requests, same, shares = _recorded(some)
        rows.append((SYSTEMS[system], kind, count, f"{requests:,}", f"{same:,}", *shares))
    rows.sort(key=lambda row: [*SYSTEMS.values()].index(row[0]))
    return table(f"file system | workload | recordings | requests | predicted exactly | {SHARES}", rows)


def programs() -> str:
    """Return the predicted share of the recorded reads by program, misses first."""
    rows = []
    for (system, kind), some in _grouped(
        results("programs"), lambda row: (row["volume"].partition("-")[0], row["program"].partition(" ")[0])
    ).items():
        count, requests, same, shares = _recorded(some)
        missed = ", ".join(sorted({name for row in some for name in row["missed"]}))
        left_out = f"{requests - same:,}" + (f" ({missed})" if requests > same else "")
        program = "rm -rf" if kind == "rm" else kind
        rows.append((requests - same, (SYSTEMS[system], program, count, f"{requests:,}", left_out, *shares)))
    rows.sort(key=lambda item: -item[0])
    head = f"file system | program | recordings | requests | not predicted | {SHARES}"
    return table(head, [row for _, row in rows])


def disksim() -> str:
    """Return DiskSim's figures and ours by workload and drive, buffer on."""
    every = results("witnesses")["disksim"]
    shown = {(row["drive"], row["workload"]): row for row in every if row["buffer"] == "on"}
    rows = []
    for workload in dict.fromkeys(workload for _, workload in shown):
        cells = [workload]
        for drive in DRIVES:
            theirs, ours = (shown[drive, workload][who] for who in ("disksim", "ours"))
            split = ", ".join(f"{theirs[key]:.2f}/{ours[key]:.2f}" for key in ("seek_ms", "latency_ms", "xfer_ms"))
            seconds = f"{theirs['service_s']:.2f}/{ours['service_s']:.2f}"
            cells += [seconds, f"{shown[drive, workload]['ratio']:.4f}", split]
        rows.append(cells)
    columns = " | ".join(f"{name}, s | ratio | seek, rotation, transfer, ms per read" for name in DRIVES.values())
    off = percent(max(abs(row["ratio"] - 1) for row in every if row["buffer"] == "off"), 3)
    total = f"With the buffer off the {len(every) // 2} totals differ by at most {off}."
    return f"{table(f'reads (DiskSim / layoutscope) | {columns}', rows)}\n\n{total}"


def agreement() -> str:
    """Return for each drive and setting how many of DiskSim's runs agree, those with the fewest first."""
    settings = {
        "off": "buffer off", "own": "buffer as extracted", "join": "buffer on, reads wait for the look-ahead",
        "bus": "buffer as extracted, and the bus",
    }  # fmt: skip
    rows = [
        (
            {**DRIVES, "atlas10k5": ATLAS}[row["drive"]], settings[row["setting"]], row["runs"], row["close"],
            percent(row["largest"], 2), f"{row['workload']}, {row['think_us']} us between reads",
        )
        for row in sorted(results("witnesses")["agreement"], key=lambda row: row["close"] / row["runs"])
    ]  # fmt: skip
    return table("drive | setting | runs | within 0.2 % | largest difference | of which reads", rows)


def knowledge() -> str:
    """Return the errors if less is known about a drive, the largest first."""
    names = {**DRIVES, "atlas10k5": ATLAS}
    rows = [
        (
            row["known"], " and ".join(names[drive] for drive in row["drives"]), row["runs"],
            percent(row["largest"], 1), percent(row["rms"], 1),
        )
        for row in sorted(results("witnesses")["knowledge"], key=lambda row: -row["largest"])
    ]  # fmt: skip
    return table("known about the drive | drives | listings | largest error | root mean square", rows)


def calibration() -> str:
    """Return how far drives that were measured are off, the worst first; of two walks of a kind the worse one."""
    walks = {
        "apfs-200000": "APFS, 200,000 files", "apfs-20000-": "APFS, 20,000 files",
        "hfsplus-200000": "HFS+, 200,000 files", "hfsplus-20000-": "HFS+, 20,000 files",
    }  # fmt: skip
    rows = []
    for row in sorted(results("calibration"), key=lambda row: -max(abs(error) for error in row["walks"].values())):
        parts = [[error for name, error in row["walks"].items() if name.startswith(start)] for start in walks]
        clock = f"late by {row['jitter_us']} us" if row["jitter_us"] else "exact"
        cells = (f"`{row['drive']}`", clock, f"{row['reads']:,}", f"{row['seconds']:.0f}", percent(row["curve"], 1))
        rows.append((*cells, *(percent(max(part, key=abs), 1, "+") for part in parts)))
    return table(f"drive | clock | reads | s | seek curve, rms | {' | '.join(walks.values())}", rows)


# Times, compared with public measurements and an article


def reference() -> str:
    """Return how many reference measurements are met, by how much the worst is missed, then all, the worst first."""
    measured = results("reference")["rows"]
    hits = [row for row in measured if "met" in row["verdict"]]
    fitted = [row for row in measured if "fitted" in row["made_on"]]
    worst = max(measured, key=lambda row: _factor(row["verdict"]))
    rows = []
    for row in sorted(measured, key=lambda row: -_factor(row["verdict"])):
        low, high = row["predicted_low"], row["predicted_high"]
        spread = f" ({low:.0f} to {high:.0f})" if low != high else ""
        predicted = f"{row['predicted']:.{1 if row['predicted'] >= 10 else 2}f}{spread} {row['unit']}"
        verdict = "within the range" if row["verdict"] == "met" else f"off by {_factor(row['verdict']):.2f} x"
        made_on = "; ".join(filter(None, (row["made_on"], row["remark"])))
        rows.append((verdict, row["work"], row["filesystem"], row["measured"], predicted, made_on))
    return (
        f"{len(hits)} of {len(measured)} measurements are predicted within their range. {len(fitted)} of these were "
        f"used to fit the profile. The worst prediction is off by a factor of {_factor(worst['verdict']):.1f} "
        f"({worst['work']}, {worst['filesystem']}).\n\n"
    ) + table("result | work | file system | measured | predicted | predicted on", rows)


def _factor(verdict: str) -> float:
    """Return the factor by which a prediction is off, in either direction."""
    ratio = 1.0 if verdict == "met" else float(verdict.partition(" ")[0])
    return max(ratio, 1 / ratio)


def ager() -> str:
    """Return real images and plans next to each other."""
    every = results("ager")["rows"]
    rows = [
        (
            image,
            *(f"{_short(row['real'])} / {_short(row['plan'])}{'' if row['agrees'] else ' (missed)'}" for row in own),
        )
        for image, own in groupby(every, key=lambda row: row["image"])
    ]
    return table(" | ".join(["image / plan", *dict.fromkeys(row["measure"] for row in every)]), rows)


def _short(value: float) -> str:
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4f}" if value < 1 else f"{value:.1f}"  # saved with four digits


# All comparisons


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


def compared() -> str:
    """Return the comparisons, the misses first."""
    rows = [(item.outcome, item.what, item.reference, item.result) for item in comparisons()]
    return table("outcome | prediction | compared with | result", rows)


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


def in_short() -> str:
    """Return what a reader of the README has to know, the misses first: four lines."""
    found = {item.what: item for item in comparisons()}
    disks = found["Times on hard disks"]
    return "\n".join(
        f"- **{found[what].outcome.capitalize()}**: {line.format(found[what], disks=disks)}"
        for what, line in IN_SHORT.items()
    )


def comparisons() -> list[Comparison]:
    """List everything that predictions were compared with: what was never checked first, then what was missed."""
    kinds = (
        ("Times on hard disks", "public measurements that set nothing", "disk"),
        ("Times on SSDs or with cached metadata", "public measurements, each left out of its own fit", "flash"),
        ("The same with ranges as wide as the others vary", "the same", "flash_by_spread"),
    )
    every = [
        Comparison("Time of a listing", "a real disk", "no measurement yet", 0, 0),
        Comparison("Reads of macOS", "recordings on a Mac", "no recording yet", 0, 0),
        *_of_article(),
    ]
    for what, reference, kind in kinds:
        found = results("intervals")["coverage"][kind]
        result = (
            f"{found['hits']} of {found['experiments']} experiments are within 90 % ranges, whose ends are a factor of "
            f"{found['width']:.1f} apart; medians are off by a factor of {found['error']:.1f}, at most "
            f"{found['worst']:.1f}"
        )
        every.append(Comparison(what, reference, result, found["hits"], found["experiments"]))
    every += [*_of_simulator(), *_of_recordings()]
    return sorted(every, key=lambda item: OUTCOMES.index(item.outcome))


def _of_article() -> Iterator[Comparison]:
    """Compare with the article, time by time."""
    for row in results("intervals")["rows"]:
        if row["experiment"] == ARTICLE:
            measured, inside = (
                f"{low:,.3g} to {high:,.3g}" if low != high else f"{low:,.3g}"
                for low, high in ((row["low"], row["high"]), (row["p5"], row["p95"]))
            )
            result = f"{row['p50']:,.3g} {row['unit']} ({inside}), a factor of {row['width']:.1f} wide"
            what, reference = f"{row['filesystem']}: {row['work']}", f"the article, {measured} {row['unit']}"
            yield Comparison(what, reference, result, int(row["is_hit"]), 1)


def _of_simulator() -> Iterator[Comparison]:
    """Compare with DiskSim, by what is known about the drive."""
    witnesses, left_out = results("witnesses"), results("intervals")["drives"]
    runs, close = (sum(row[name] for row in witnesses["agreement"]) for name in ("runs", "close"))
    exact = sum(row["runs"] for row in witnesses["agreement"] if row["close"] == row["runs"])
    reference = "the simulator DiskSim"
    result = (
        f"{close} of {runs} runs are within 0.2 %, including all {exact} runs without a "
        f"bus and without the look-ahead of the {ATLAS}"
    )
    yield Comparison("Time of a drive, every sector known", reference, result, close, runs)
    worst = {tuple(row["drives"]): percent(row["largest"]) for row in witnesses["knowledge"]}
    for known, words in (("zones", "zones known"), ("datasheet", "from its data sheet")):
        own = [row["is_hit"] for row in left_out if row["known"] == known]
        result = f"{sum(own)} of {len(own)} listings are within the 90 % ranges that the other drives give"
        if known == "datasheet":  # the last rows of what knowing less costs
            result += f"; off by up to {worst[tuple(DRIVES)]}, and {worst['atlas10k5',]} on the {ATLAS}"
        yield Comparison(f"Time of a drive, {words}", reference, result, sum(own), len(own))


def _of_recordings() -> Iterator[Comparison]:
    """Compare with reads recorded below Linux's drivers."""
    for what, rows in (
        ("listings and copies", results("witnesses")["traces"]),
        ("other programs", results("programs")),
    ):
        _, requests, same, _ = _recorded(rows)
        missed = f"all but {requests - same} of {requests:,}" if same < requests else f"all {requests:,}"
        result = f"{missed} requests have the predicted offset, length and order"
        yield Comparison(f"Reads of {what} on Linux", "recordings below its drivers", result, same, requests)


# Ranges


def _experiments(*, is_flash: bool) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield the tests on flash and warm caches, or the others, with their first cells: those outside come first."""
    rows = [row for row in results("intervals")["rows"] if "is_hit" in row and ("counts" in row) == is_flash]
    for row in sorted(rows, key=lambda row: row["is_hit"]):
        unit = "s" if is_flash else row["unit"]
        place = (row["experiment"], row["work"], row["filesystem"], f"{_ends(row['low'], row['high'])} {unit}")
        yield row, ("yes" if row["is_hit"] else "**no**", *place)


def _ends(*ends: float) -> str:
    return " to ".join(f"{end:.3g}" if end < 1000 else f"{end:,.0f}" for end in dict.fromkeys(ends))


def coverage() -> str:
    """Return how many experiments meet their ranges, how wide these are, and how far off their middles."""
    found = results("intervals")
    kinds = (
        ("hard disks, and whole files", "disk", "the priors, which these experiments did not set"),
        ("SSDs and cached metadata", "flash", "costs fitted to the other experiments, ranges as wide as the priors"),
        ("SSDs and cached metadata", "flash_by_spread", "the same costs, ranges as wide as the other experiments vary"),
    )
    rows = []
    for words, key, by in kinds:
        hits = found["coverage"][key]
        share = f"{hits['hits']} of {hits['experiments']} ({percent(hits['low'])} to {percent(hits['high'])})"
        figures = (f"{hits[name]:.1f}" for name in ("width", "error", "worst"))
        rows.append((words, by, share, f"{hits['row_hits']} of {hits['rows']}", *figures))
    return table(
        "work | predicted by | experiments inside | times inside | high / low | median error | worst error", rows
    ) + (
        f"\n\nErrors are the factors by which medians are off. There are {found['draws']} simulations on "
        f"{found['volumes']} drawn volumes. The priors are those of {found['written']}, SHA-256 `{found['priors']}`."
    )


def costs() -> str:
    """Return the costs that are fitted to all experiments, and those that predictions use."""
    from layoutscope.drive import load_profile
    from layoutscope.walk.host import MACOS, property_values

    fitted, host = results("intervals")["costs"], property_values(MACOS)
    read = host["apfs.node_us"] + load_profile("apple-ap0256j-2017").numbers("latency_us")[0]
    rows = [
        ("entry of a listing with attributes, us", host["apfs.list_us"] + host["apfs.bulk_entry_us"], "bulk_us"),
        ("look-up answered by the name cache, us", host["apfs.stat_us"], "stat_us"),
        ("random read of an Apple SSD, with the work of the computer, us", read, "read_us"),
        ("factor that several threads save", MACOS.processors / host["apfs.contention"], "gain"),
    ]
    rows = [(name, f"{used:.3g}", f"{fitted[key]:.3g}") for name, used, key in rows]
    return table("cost on a Mac of 2017 | used | fitted to all", rows)


def flash() -> str:
    """Return the rows of flash and warm caches, each by the costs of the other experiments."""
    rows = [
        (*cells, f"{row['p50']:.3g}", _ends(row["p5"], row["p95"]), f"{row['width']:.1f}", f"{row['off']:.2f}")
        for row, cells in _experiments(is_flash=True)
    ]
    head = "inside | experiment | work | file system | measured | median, s | 90 % range, s | high / low | error"
    return table(head, rows)


def disks() -> str:
    """Return the rows of hard disks and of whole files."""
    groups = {"host": "computer", "offset": "half of the drive"}
    rows = []
    for row, cells in _experiments(is_flash=False):
        shares = (f"{groups.get(name, name)} {percent(one)}" for name, one in row["shares"].items() if one >= 0.1)
        figures = (f"{row['width']:.1f}", f"{row['width_of_layout']:.1f}", f"{row['off']:.2f}", ", ".join(shares))
        rows.append((*cells, _ends(row["p50"]), _ends(row["p5"], row["p95"]), *figures))
    return table(
        "inside | experiment | work | file system | measured | median | 90 % range | high / low"
        " | high / low of one layout | error | main unknowns",
        rows,
    )


def apart() -> str:
    """Return the measurements that test nothing, and why."""
    rows = [
        (row["experiment"], row["work"], row["in_sample"], "in-sample")
        if row.get("in_sample")
        else (row["experiment"], row["work"], row["not_predicted"], "not predicted")
        for row in results("intervals")["rows"]
        if "is_hit" not in row
    ]
    return table("experiment | work | reason | ", rows)


def halves() -> str:
    """Return the seed's enumeration on both halves of its case, and their difference."""
    rows = [
        (
            SYSTEMS[row["filesystem"]], row["cycle"], f"{row['outer_s']:.0f}", f"{row['inner_s']:.0f}",
            percent(row["inner_over_outer"] - 1, 0, "+"),
        )
        for row in results("intervals")["halves"]
    ]  # fmt: skip
    return table("file system | cycle | outer half, s | inner half, s | difference", rows)


def drives() -> str:
    """Return how many walks on each of DiskSim's drives are within the ranges of the other two, the misses first."""
    every, lines = results("intervals")["drives"], []
    for (drive, known, buffer), group in groupby(every, key=lambda row: (row["drive"], row["known"], row["buffer"])):
        own = list(group)
        width = sorted(row["p95"] / row["p5"] for row in own)[len(own) // 2]
        known_of = {"zones": "zones", "datasheet": "data sheet"}[known]
        lines.append((_share(own), drive, known_of, buffer, f"{_inside(own)} of {len(own)}", f"{width:.2f}"))
    atlas = [row for row in every if row["drive"] == "atlas10k5"]
    zones, others = [row for row in atlas if row["known"] == "zones"], [row for row in every if row not in atlas]
    in_words = [f"{_inside(rows)} of {len(rows)}" for rows in (atlas, zones, others)]
    rows = [line[1:] for line in sorted(lines, key=lambda line: line[0])]
    return (
        f"On the Atlas, {in_words[0]} listings are inside, and {in_words[1]} if its zones are known. On both "
        f"Cheetahs, {in_words[2]} are. Two drives are too few to predict the error on a third one: ranges from the "
        "Cheetahs are too narrow for the Atlas, and ranges from the Atlas too wide for them.\n\n"
    ) + table("drive | known about it | buffer | listings inside | high / low", rows)


def _inside(rows: list[dict[str, Any]]) -> int:
    return sum(row["is_hit"] for row in rows)


def _share(rows: list[dict[str, Any]]) -> float:
    return _inside(rows) / len(rows)


# Forecasts


def forecast_in_short() -> str:
    """Describe how many held-out volumes are in their range, and how far off the worst is."""
    parts = []
    for system, name in SYSTEMS.items():
        rows = [row for row in _forecasts(system) if row["metric"] == forecasts.SECONDS and row["held"]]
        worst = percent(max(abs(row["off"]) for row in rows))
        inside = sum(row["inside"] for row in rows)
        parts.append(f"{worst} on {name}, where {inside} of {len(rows)} were in their ranges")
    return f"Forecast seconds of volumes held out were off by at most {', and '.join(parts)}."


def _forecasts(*systems: str) -> list[dict[str, Any]]:
    """Return the forecasts of some file systems, with their errors and with ranges that include the model's error."""
    rows = [row for row in results("forecast") if row["filesystem"] in systems]
    errors = json.loads(forecasts.ERRORS.read_text("utf-8"))
    for row in rows:
        share = errors.get(row["filesystem"], {}).get(forecasts.error_name(row), 0.0)
        row["wide"] = (row["low"] - share * abs(row["low"]), row["high"] + share * abs(row["high"]))
        row["in_draws"] = row["low"] <= row["real"] <= row["high"]
        row["inside"] = row["wide"][0] <= row["real"] <= row["wide"][1]
        row["off"] = row["value"] / row["real"] - 1 if row["real"] else None
        row["held"] = (row["folder"], row["files"]) != forecasts.FITTED
    return rows


def forecast_seconds() -> str:
    """Return the predicted times, what is missed first."""
    rows = [row for row in _forecasts(*SYSTEMS) if row["metric"] == forecasts.SECONDS]
    rows.sort(key=lambda row: (row["inside"], -abs(row["off"] or 0)))
    lines = [
        (
            f"{row['filesystem']} {row['folder']} {row['files']:,}", row["cycle"],
            *(f"{value:.4g}" for value in (row["real"], row["value"], *row["wide"])),
            f"{row['off']:+.1%}", INSIDE[row["inside"]],
        )
        for row in rows
    ]  # fmt: skip
    return table("volume | cycle | real, s | forecast, s | low | high | off | inside", lines)


def forecast_numbers(system: str) -> str:
    """Return the errors of the numbers of layouts, the worst first; a star is outside of the range."""
    rows = [row for row in _forecasts(system) if row["metric"] != forecasts.SECONDS]
    place = lambda row: (row["folder"], row["files"], row["cycle"])  # noqa: E731
    columns = sorted({place(row) for row in rows})
    error = lambda row: float(not row["inside"]) if row["off"] is None else abs(row["off"])  # noqa: E731
    lines = []
    for name, own in _grouped(rows, lambda row: f"{row['title']} ({row['subject']})").items():
        cells = {place(row): _cell(row) for row in own}
        lines.append((max(map(error, own)), (name, *(cells.get(column, "-") for column in columns))))
    lines.sort(key=lambda line: -line[0])
    head = (f"{folder} {files:,} c{cycle:02d}" for folder, files, cycle in columns)
    return table(" | ".join(["number", *head]), [line for _, line in lines])


def _cell(row: dict[str, Any]) -> str:
    off = f"{row['off']:+.0%}" if row["off"] is not None else f"{row['value']:.3g} for 0" if row["value"] else "0"
    return off + ("" if row["inside"] else " \\*")


def forecast_coverage() -> str:
    """Return the hits, for volumes that were held out and those that were not."""
    rows = []
    for system in ("apfs", "hfsplus"):
        for held, words in ((True, "held out"), (False, "looked at")):
            own = [row for row in _forecasts(system) if row["held"] == held]
            rows.append((system, words, len(own), *(sum(row[name] for row in own) for name in ("in_draws", "inside"))))
    return table("file system | volumes | numbers | in the draws | with the model's error", rows)


# Remedies with real drivers


EXACT, NOTHING_S, MANY = 0.999, 1e-4, 0.1
"""Share from which reads agree; seconds that do not count; difference of a new volume that is named as a miss."""


def is_exact(row: dict[str, Any]) -> bool:
    """Whether the reads agree to 99.9 %."""
    return row["blocks"] >= EXACT and row["extra"] <= 1 - EXACT and row["pairs"] >= EXACT


def is_inside(found: dict[str, Any]) -> bool:
    """Whether the measured saving is within the range."""
    return found["low_s"] - NOTHING_S <= found["saved_s"] <= found["high_s"] + NOTHING_S


def remedies() -> str:
    """Return the remedies that real drivers did, what was missed first."""
    every = results("remedies")
    same, new = ([row for row in every if (row["of"] == "the volume") is whole] for whole in (True, False))
    differences = [abs(row["predicted_reads"] / row["reads"] - 1) for row in new]
    times = sorted(
        ((row, found) for row in every for found in row["times"]),
        key=lambda item: (is_inside(item[1]), item[1]["drive"], item[0]["filesystem"], item[0]["files"]),
    )
    summary = (
        f"{len(same)} times the same volume was read otherwise: {sum(map(is_exact, same))} times as predicted, to "
        f"99.9 % of blocks and pairs. {len(new)} times a volume was remade: {sum(map(is_exact, new))} times a walk of "
        f"it reads what is predicted of it, and {sum(one > MANY for one in differences)} times the plan had said over "
        f"a tenth more or fewer reads ({max(differences):.1%} at most). Of {len(times)} savings, "
        f"{sum(is_inside(found) for _, found in times)} are within their intervals."
    )
    place = lambda row: (row["remedy"], SYSTEMS[row["filesystem"]], f"{row['files']:,}")  # noqa: E731
    reads = [
        (*place(row), f"{row['reads']:,}", f"{row['predicted_reads']:,}", row["of"], *_shares(row))
        for row in sorted(every, key=is_exact)
    ]
    drives = {"cheetah15k5": "Cheetah 15K.5", "generic-5400-2.5": "2.5-inch disk"}
    savings = [
        (
            INSIDE[is_inside(found)], *place(row), drives[found["drive"]],
            *(f"{found[name]:.2f}" for name in ("before_s", "after_s", "predicted_s", "saved_s")),
            f"{found['predicted_saved_s']:.2f} ({found['low_s']:.2f} to {found['high_s']:.2f})",
        )
        for row, found in times
    ]  # fmt: skip
    done = sorted({row["remedy"]: row["does"] for row in reversed(every)}.items())
    head = "inside | remedy | file system | files | drive | before, s | after, s | said | saved, s | said (90 %)"
    return "\n\n".join([
        summary,
        "## Savings", table(head, savings),
        "## Reads", table("remedy | file system | files | reads | said | of | blocks | extra | pairs", reads),
        "## What was done", "\n".join(f"- `{name}`: {text}" for name, text in done),
    ])  # fmt: skip


def _shares(row: dict[str, Any]) -> Iterator[str]:
    return (f"{row[name]:.2%}" for name in ("blocks", "extra", "pairs"))


# Speed


def speed() -> str:
    """Return what ``tests/bench/scan_speed.py`` measured: least times of several rounds, and ratios to the peers."""
    rows = []
    for image in results("results", "bench")["images"]:
        used = {name: times["user"] + times["system"] for name, times in image["seconds"].items()}
        for name, times in image["seconds"].items():
            seconds = (f"{times[key]:.2f} s" for key in ("wall", "user", "system"))
            peak = f"{times['peak_mib']:,.0f} MiB" if "peak_mib" in times else ""
            to_peer = f"{used[name] / used['fls -r']:.3f}" if "fls -r" in used else ""
            to_floor = f"{used[name] / used['floor']:.1f}" if "floor" in used else ""
            rows.append((f"{image['image']}, {image['entries']:,} entries", name, *seconds, peak, to_peer, to_floor))
    return table("image | program | wall | user | system | peak | CPU of `fls -r` | CPU of the floor", rows)


def reads() -> str:
    """Return what ``tests/bench/own_reads.py`` measured: requests, bytes and seconds of each verb."""
    rows = [
        (
            image, verb, f"{row['reads']:,}", f"{row['bytes'] / 2**20:,.0f}", f"{row['seconds']:.3g}",
            f"{row['seconds'] / found['two sweeps']['seconds']:.2f}",
        )
        for image, found in results("reads", "bench")["images"].items()
        for verb, row in found.items()
    ]  # fmt: skip
    return table("image | verb | requests | MiB | seconds | of two sweeps", rows)
