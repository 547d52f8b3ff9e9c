"""Published measurements against ranges that were not fitted to them: ``results/intervals.json``.

``python -m tests.validation.intervals FOLDER`` predicts every row of ``measurements.toml``. Workloads on hard disks are
predicted by draws of drive, host and placement, with the workloads that `tests.validation.placements` stores in FOLDER;
no prior is fitted to any of them. Priors for flash and warm caches were set with these times in view, so each such row
is predicted by costs that `tests.validation.costs` fits to the other experiments. Experiments, not rows, are left out
and counted.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from functools import lru_cache
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from fixtures.fileset import FileSet, populate
from layoutscope.access.driver import Costs
from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile
from layoutscope.drive.simulation import Part, draw_seconds
from layoutscope.drive.uncertain import FILE as PRIORS
from layoutscope.drive.uncertain import (
    UNSAID,
    VOLUME,
    Host,
    Interval,
    drawn,
    interval_of,
    median_draw,
    num_draws,
    priors,
    uncertain,
)
from layoutscope.results.predict import PLACEMENT
from layoutscope.walk import Work, host_profile, trace
from layoutscope.walk.host import MACOS as MACOS_HOST
from layoutscope.walk.host import property_values, set_properties
from tests.unit.drive.lesser import LESS
from tests.validation import costs
from tests.validation.disksim import CHEETAHS, Witness
from tests.validation.placements import SCALE, VOLUMES, draws, has_temporary_names, kept, volume
from tests.validation.plans import aging
from tests.validation.reference import ENCLOSURE, HALF_BYTES, save

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile
    from layoutscope.tables import VolumeLayout

    F64 = NDArray[np.float64]

FILE: Final = Path(__file__).with_name("measurements.toml")
MACOS: Final = Host("macos")
PLANNED_FILES: Final = 60_000
"""Files of the plans for rows on flash, where the time is proportional to the entries."""
DRAWS: Final = np.arange(num_draws())
AIM_SHARE, AIM_WIDTH = 0.85, 4.0
"""Targets for experiments on flash and warm caches: the share inside the range, and the ratio of its upper to its lower
end."""


class Predicted(NamedTuple):
    """Seconds (or a ratio) of each draw, the drawn inputs, and the same for each volume separately."""

    values: F64
    columns: dict[str, tuple[str, NDArray[Any]]]
    layouts: list[F64]


def rows() -> list[dict[str, Any]]:
    """Return the measurements."""
    found: list[dict[str, Any]] = tomllib.loads(FILE.read_text("utf-8"))["row"]
    return found


def volume_of(volumes: int = VOLUMES) -> NDArray[np.int64]:
    """Return the volume that each draw uses."""
    return DRAWS % volumes


def halves() -> NDArray[np.bool_]:
    """Draw whether APFS is on the outer half of the enclosure."""
    return np.asarray(drawn("placement.half", {"span": [0.0, 1.0]}) < 0.5)


def placement_columns() -> dict[str, tuple[str, NDArray[Any]]]:
    """Return the drawn inputs of the volumes, draw by draw."""
    names = ("creation", "replacement", "transaction_files", "fill", "allocator")
    return {name: (PLACEMENT, draws()[name][volume_of()]) for name in names}


@lru_cache(maxsize=16)
def enumerated(folder: Path, filesystem: str, cycle: int) -> Predicted:
    """Predict the seed's enumeration at an age: each volume on every drawn enclosure, on the drawn half."""
    profile = load_profile(ENCLOSURE)
    unknown = uncertain(profile, MACOS)
    is_outer = halves() if filesystem == "apfs" else ~halves()
    layouts = []
    for number in range(VOLUMES):
        reads = kept(folder, filesystem, number, cycle)
        seconds = np.zeros(num_draws())
        for start, chosen in ((0, DRAWS[is_outer]), (HALF_BYTES, DRAWS[~is_outer])):
            seconds[chosen] = draw_seconds(
                Part(reads, profile, start_offset_bytes=start), unknown, numbers=chosen
            ).seconds
        layouts.append(seconds * SCALE)
    columns = {**unknown.columns(), **placement_columns(), "half": ("offset", is_outer)}
    return Predicted(np.stack(layouts)[volume_of(), DRAWS], columns, layouts)


def ratio(folder: Path, cycle: int) -> Predicted:
    """Predict APFS over HFS+ on the same drawn enclosure; HFS+ at the stored age."""
    apfs, hfs = enumerated(folder, "apfs", cycle), enumerated(folder, "hfsplus", min(cycle, 10))
    layouts = [one / other for one, other in zip(apfs.layouts, hfs.layouts, strict=True)]
    return Predicted(apfs.values / hfs.values, apfs.columns, layouts)


def counted(asked: dict[str, Any]) -> list[list[float]]:
    """Count the operations of a workload on flash for `tests.validation.costs`, on each of some drawn plans.

    A name that is listed without attributes counts as a fraction of an entry, which the host's costs give.
    """
    system, threads = asked["walk"], asked.get("threads", 1)
    known = property_values(MACOS_HOST)
    of_entry = {name: known[f"{system}.{name}"] for name in ("list_us", "bulk_entry_us")}
    listed = {name: cost / sum(of_entry.values()) for name, cost in of_entry.items()}
    free = {name: 0.0 for name in Costs.__struct_fields__ if name.endswith("_us")} | {"contention": 1.0}
    found = []
    for number in range(VOLUMES // 2):
        layout, files = _plan(system, number, asked.get("folder_files", 0), aged=asked.get("aged", False))
        entries, calls, work = len(populate(files)) - 1, [], Work(warm=asked.get("warm", False))
        for paid in (listed, {"stat_us": 1.0}):
            host = set_properties(
                host_profile("macos", threads=threads), {f"{system}.{k}": v for k, v in (free | paid).items()}
            )
            reads = trace(layout, order=asked["order"], host=host, work=work)
            calls.append(reads.host_us)
        calls[1] += asked.get("lookups", 0) * entries
        follows = np.count_nonzero(reads.image_offset[1:] == (reads.image_offset + reads.length_bytes)[:-1])
        counts = np.array([*calls, len(reads) - follows, follows])
        found.append((counts * asked["entries"] / entries).tolist())
    return found


@lru_cache(maxsize=64)
def _plan(filesystem: str, number: int, folder_files: int, *, aged: bool) -> tuple[VolumeLayout, FileSet]:
    """Return a drawn plan and its files, with the published or a drawn number of files per folder."""
    each = folder_files or round(float(draws()["files_per_directory"][number]))
    files, placement = volume(filesystem, number, FileSet(files=PLANNED_FILES, files_per_directory=each))
    cycles = int(draws()["age"][number]) if aged else 0
    return next(aging(files, placement, (cycles,), has_temporary_names=has_temporary_names(number))), files


def stand_in(name: str) -> DriveProfile:
    """Return a profile for a drive of which only the class is published; everything else is assumed."""
    profile = load_profile(name)
    figures = {key: replace(figure, kind="assumed") for key, figure in profile.figures.items()}
    return replace(profile, figures=figures)


def copied(asked: dict[str, Any]) -> Predicted:
    """Predict the reading half of a copy: APFS over HFS+ on the same drawn disk, at any place of the volumes."""
    profile = load_profile("generic-7200")
    unknown = uncertain(profile, MACOS, knows_offset=False)
    files = FileSet(files=asked["copy"], smallest_bytes=asked["smallest_bytes"], largest_bytes=asked["largest_bytes"])
    layouts = []
    for number in range(VOLUMES // 2):
        seconds = {}
        for filesystem in ("apfs", "hfsplus"):
            made, placement = volume(filesystem, number, files)
            layout = next(aging(made, placement, (0,)))
            seconds[filesystem] = draw_seconds(
                Part(trace(layout, order="copy", host="macos"), profile), unknown
            ).seconds
        layouts.append(seconds["apfs"] / seconds["hfsplus"])
    volumes = volume_of(len(layouts))
    return Predicted(np.stack(layouts)[volumes, DRAWS], unknown.columns(), layouts)


def read_through(asked: dict[str, Any]) -> Predicted:
    """Predict sequential reading of whole files with the request size of macOS."""
    profile = stand_in(asked["drive"])
    unknown = uncertain(profile, MACOS)
    size = host_profile("macos").read_ahead_bytes
    each = asked["bytes"] // asked["files"] // size
    count = min(asked["files"], 2000)
    # Files are spread over the whole drive; each is read from its first byte to its last.
    starts = np.sort(np.random.default_rng(5).permutation(asked["files"])[:count]) * (each * size)
    offset = (starts[:, None] + np.arange(each) * size).ravel()
    reads = AccessTrace.from_reads(offset, np.full(len(offset), size, np.int64))
    values = draw_seconds(Part(reads, profile), unknown).seconds * asked["files"] / count
    return Predicted(values, unknown.columns(), [values])


def predicted(folder: Path, asked: dict[str, Any]) -> Predicted:
    """Predict a row from the priors."""
    if "plan" in asked:
        own = asked["plan"]
        return ratio(folder, asked["cycle"]) if own == "ratio" else enumerated(folder, own, asked["cycle"])
    return copied(asked) if "copy" in asked else read_through(asked)


def told(folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Predict a row and add the measured values; for flash, count the operations that costs will be fitted to."""
    plain = {key: row[key] for key in ("experiment", "name", "work", "filesystem", "low", "high", "unit", "url")}
    why = {key: row[key] for key in ("in_sample", "not_predicted") if key in row}
    if why:
        return plain | why
    asked = row["predict"]
    if "walk" in asked:
        machine = asked.get("machine", 0.0)
        return plain | {"counts": counted(asked), "threads": asked.get("threads", 1), "machine": machine}
    made = predicted(folder, asked)
    widths = [interval_of(values, {}).ratio for values in made.layouts]
    return judged(plain, interval_of(made.values, made.columns, VOLUME)) | {"width_of_layout": float(np.median(widths))}


def judged(row: dict[str, Any], found: Interval) -> dict[str, Any]:
    """Combine a range with a row, and add the factor by which its median is off: 1 within the measured range."""
    return row | {
        "p5": found.low_s, "p25": found.quarter_s, "p50": found.median_s, "p75": found.three_quarters_s,
        "p95": found.high_s, "is_hit": is_hit(row, found), "width": found.ratio, "shares": dict(found.shares),
        "off": max(row["low"] / found.median_s, found.median_s / row["high"], 1.0),
    }  # fmt: skip


def leave_out(found: list[dict[str, Any]], *, by_spread: bool = False) -> list[dict[str, Any]]:
    """Predict flash rows by costs fitted to the other experiments, with the width of the priors or of their spread."""
    flash = [row for row in found if "counts" in row]
    return [
        judged(row, interval_of(costs.predict(row, cost, spread if by_spread else 0.0), {}, VOLUME))
        | {"costs": cost.tolist(), "spread": spread}
        for row, (cost, spread) in zip(flash, costs.left_out(flash), strict=True)
    ]


def is_hit(row: dict[str, Any], found: Interval) -> bool:
    """Whether a measured range and the 90 % range overlap."""
    return bool(found.low_s <= row["high"] and found.high_s >= row["low"])


def coverage(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the experiments whose rows are all within their ranges, and return the ranges' widths and errors."""
    tests = [row for row in found if "is_hit" in row]
    experiments = [[row for row in tests if row["experiment"] == name] for name in names(tests)]
    hits = sum(all(row["is_hit"] for row in rows) for rows in experiments)
    low, high = binomial(hits, len(experiments))
    errors = [row["off"] for row in tests]
    return {
        "experiments": len(experiments), "hits": hits, "low": low, "high": high, "rows": len(tests),
        "row_hits": sum(row["is_hit"] for row in tests), "error": float(np.median(errors)), "worst": max(errors),
        "width": float(np.median([np.median([row["width"] for row in rows]) for rows in experiments])),
    }  # fmt: skip


def by_kind(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the coverage for flash and warm caches (predicted by costs) and for hard disks (predicted by priors)."""
    return {
        "flash": coverage(leave_out(found)),
        "flash_by_spread": coverage(leave_out(found, by_spread=True)),
        "disk": coverage([row for row in found if "counts" not in row]),
    }


def names(found: list[dict[str, Any]]) -> list[str]:
    """Return the experiments, each once."""
    return list(dict.fromkeys(row["experiment"] for row in found))


def binomial(hits: int, tries: int) -> tuple[float, float]:
    """Return the 90 % range of a share (Clopper-Pearson): at its ends, so many or so few hits have probability 5 %.

    Examples
    --------
    >>> [round(end, 3) for end in binomial(9, 10)]
    [0.606, 0.995]
    """

    def at_most(count: int, share: float) -> float:
        return sum(comb(tries, k) * share**k * (1 - share) ** (tries - k) for k in range(count + 1))

    def where(holds: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    below = 0.0 if hits == 0 else where(lambda share: 1 - at_most(hits - 1, share) < 0.05)
    above = 1.0 if hits == tries else where(lambda share: at_most(hits, share) > 0.05)
    return below, above


def placed(folder: Path) -> list[dict[str, Any]]:
    """Predict the seed's enumeration with each file system on each half, to isolate the effect of placement."""
    profile = load_profile(ENCLOSURE)
    unknown = uncertain(profile, MACOS)
    found = []
    for filesystem, cycle in (("hfsplus", 10), ("apfs", 0), ("apfs", 20)):
        reads = kept(folder, filesystem, 0, cycle)
        outer, inner = (
            draw_seconds(Part(reads, profile, start_offset_bytes=start), unknown).seconds * SCALE
            for start in (0, HALF_BYTES)
        )
        outer_s, inner_s, part = (float(values[median_draw(values)]) for values in (outer, inner, inner / outer))
        found.append({
            "filesystem": filesystem, "cycle": cycle, "outer_s": outer_s, "inner_s": inner_s, "inner_over_outer": part,
        })  # fmt: skip
    return found


def left_out(witness: Witness) -> list[dict[str, Any]]:
    """Predict workloads on each of DiskSim's drives from the errors of the other two, by zones or data sheet."""
    found = []
    for drive in (*CHEETAHS, "atlas10k5"):
        for geometry in ("zones", "datasheet"):
            for setting in ("off", "join" if drive in CHEETAHS else "own"):
                found += walks_left_out(witness, drive, geometry, setting)
    return found


def walks_left_out(witness: Witness, drive: str, geometry: str, setting: str) -> list[dict[str, Any]]:
    """Predict workloads on one of DiskSim's drives, buffer off or on, without using that drive's own errors."""
    profile = LESS[geometry](load_profile(drive)).with_cache("off" if setting == "off" else "own")
    unknown = uncertain(profile, UNSAID, left_out=drive)
    found = []
    for result in witness.results:
        of_this = (result["drive"], result["setting"], result["think_us"]) == (drive, setting, "100")
        if of_this and result["workload"].endswith("-stat"):
            reads = witness.trace(drive, result["workload"])
            low, high = np.quantile(draw_seconds(Part(reads, profile), unknown).seconds, (0.05, 0.95)).tolist()
            total = float(result["total_s"])
            found.append({
                "drive": drive, "known": geometry, "buffer": "off" if setting == "off" else "on",
                "workload": result["workload"], "disksim": total, "p5": low, "p95": high,
                "is_hit": low <= total <= high,
            })  # fmt: skip
    return found


def fingerprint() -> str:
    """Return the hash of the file of priors: the first twelve digits of its SHA-256."""
    return hashlib.sha256(PRIORS.read_bytes()).hexdigest()[:12]


def collect(folder: Path, witness: Witness | None) -> dict[str, Any]:
    """Predict everything."""
    found = [told(folder, row) for row in rows()]
    left = {row["name"]: row for row in leave_out(found)}
    cost, spread = costs.fit(list(left.values()))
    return {
        "priors": fingerprint(),
        "written": str(priors()["written"]),
        "draws": num_draws(),
        "volumes": VOLUMES,
        "rows": [left.get(row["name"], row) for row in found],
        "coverage": by_kind(found),
        "costs": dict(zip(costs.COSTS, cost.tolist(), strict=True)) | {"spread": spread},
        "halves": placed(folder),
        "drives": [] if witness is None else left_out(witness),
    }


def main() -> None:
    """Predict and save."""
    from tests.conftest import shared_dir

    shared = shared_dir()
    save("intervals", collect(Path(sys.argv[1]), None if shared is None else Witness(shared)))


if __name__ == "__main__":
    main()
