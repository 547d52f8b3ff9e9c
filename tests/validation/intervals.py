"""Published measurements against intervals that were not fitted to them: ``results/intervals.json``.

``python -m tests.validation.intervals FOLDER`` predicts every row of ``measurements.toml`` by draws of drive, host and
placement, with the walks that `tests.validation.placements` keeps in FOLDER. What is left out is an experiment, not a
row: no prior is fitted to any, and a row that set one is printed apart.
"""

from __future__ import annotations

import sys
import tomllib
from functools import lru_cache
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from fixtures.fileset import FileSet, populate
from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.drive.simulation import draw_seconds
from layoutscope.drive.uncertain import (
    HOST,
    UNSAID,
    VOLUME,
    Host,
    Interval,
    Uncertain,
    drawn,
    fingerprint,
    interval_of,
    num_draws,
    priors,
    uncertain,
)
from layoutscope.results.predict import PLACEMENT
from layoutscope.walk import Work, host_profile, trace
from tests.unit.drive.lesser import LESS
from tests.validation.disksim import CHEETAHS, Witness
from tests.validation.placements import VOLUMES, draws, kept, volume
from tests.validation.plans import aging
from tests.validation.reference import ENCLOSURE, HALF_BYTES, index_paths, save

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile

    F64 = NDArray[np.float64]

FILE: Final = Path(__file__).with_name("measurements.toml")
MACOS: Final = Host("macos")
PLANNED_FILES: Final = 100_000
"""Files of the plans for rows on flash, where the time goes with the entries."""
DRAWS: Final = np.arange(num_draws())
MUST_LAYOUT, MUST_VOLUME = 3.0, 6.0
"""What the medians of the widths must not exceed."""


class Predicted(NamedTuple):
    """Seconds (or a ratio) of each draw, what was drawn, and the same for each volume by itself."""

    values: F64
    columns: dict[str, tuple[str, NDArray[Any]]]
    layouts: list[F64]


def rows() -> list[dict[str, Any]]:
    """Return the measurements."""
    found: list[dict[str, Any]] = tomllib.loads(FILE.read_text("utf-8"))["row"]
    return found


def volume_of(volumes: int = VOLUMES) -> NDArray[np.int64]:
    """Return the volume that each draw is made on."""
    return DRAWS % volumes


def halves() -> NDArray[np.bool_]:
    """Draw whether APFS has the outer half of the case."""
    return np.asarray(drawn("placement.half", {"span": [0.0, 1.0]}) < 0.5)


def placement_columns() -> dict[str, tuple[str, NDArray[Any]]]:
    """Return what was drawn of the volumes, draw by draw."""
    names = ("creation", "transaction_files", "fill", "allocator")
    return {name: (PLACEMENT, draws()[name][volume_of()]) for name in names}


@lru_cache(maxsize=16)
def enumerated(folder: Path, filesystem: str, cycle: int) -> Predicted:
    """Predict the seed's enumeration at an age: each volume on every drawn case, on the half that was drawn."""
    profile = load_profile(ENCLOSURE)
    unknown = uncertain(profile, MACOS)
    is_outer = halves() if filesystem == "apfs" else ~halves()
    layouts = []
    for number in range(VOLUMES):
        reads = kept(folder, filesystem, number, cycle)
        seconds = np.zeros(num_draws())
        for start, chosen in ((0, DRAWS[is_outer]), (HALF_BYTES, DRAWS[~is_outer])):
            seconds[chosen] = draw_seconds(reads, profile, unknown, start_offset_bytes=start, numbers=chosen).seconds
        layouts.append(seconds)
    columns = {**unknown.columns(), **placement_columns(), "half": ("offset", is_outer)}
    return Predicted(np.stack(layouts)[volume_of(), DRAWS], columns, layouts)


def ratio(folder: Path, cycle: int) -> Predicted:
    """Predict APFS over HFS+ on the same drawn case; HFS+ at the age that was kept."""
    apfs, hfs = enumerated(folder, "apfs", cycle), enumerated(folder, "hfsplus", min(cycle, 10))
    layouts = [one / other for one, other in zip(apfs.layouts, hfs.layouts, strict=True)]
    return Predicted(apfs.values / hfs.values, apfs.columns, layouts)


def planned(asked: dict[str, Any]) -> Predicted:
    """Predict a walk on flash: drawn plans of fewer files, as many times over as there are entries."""
    profile, threads = stand_in(asked["drive"]), asked.get("threads", 1)
    host = host_profile("macos", threads=threads)
    computer = Host("macos", threads, host.processors, asked.get("machine", 0.0))
    unknown = uncertain(profile, computer)
    layouts = []
    for number, reads in enumerate(planned_walks(asked)):
        times = asked["entries"] / entries_of(asked, number)
        layouts.append(times * _side_by_side(reads, profile, unknown, host.parallel_threads))
    volumes = volume_of(len(layouts))
    # So few volumes cannot tell fill from age: how slow each of them is stands for all that was drawn of it.
    columns = {"volume": (PLACEMENT, np.array([float(np.median(times)) for times in layouts])[volumes])}
    return Predicted(np.stack(layouts)[volumes, DRAWS], {**unknown.columns(), **columns}, layouts)


def stand_in(name: str) -> DriveProfile:
    """Return a profile for a drive of which only the class is told: whatever it has is assumed of that drive."""
    profile = load_profile(name)
    figures = {key: replace(figure, kind="assumed") for key, figure in profile.figures.items()}
    return replace(profile, figures=figures)


def planned_files(asked: dict[str, Any], number: int) -> FileSet:
    """Return the files of a plan: as many in a folder as are told, or drawn."""
    files = asked.get("folder_files") or round(float(draws()["files_per_directory"][number]))
    return FileSet(files=PLANNED_FILES, files_per_directory=files)


def entries_of(asked: dict[str, Any], number: int) -> int:
    """Return the files and folders of a plan, without its root."""
    return len(populate(planned_files(asked, number))) - 1


def planned_walks(asked: dict[str, Any]) -> tuple[AccessTrace, ...]:
    """Walk the plans of a row; rows that ask for the same share them."""
    same = ("walk", "order", "threads", "folder_files", "aged")
    return _walks(tuple((key, asked[key]) for key in same if key in asked))


@lru_cache(maxsize=32)
def _walks(told: tuple[tuple[str, Any], ...]) -> tuple[AccessTrace, ...]:
    asked = dict(told)
    host = host_profile("macos", threads=asked.get("threads", 1))
    found = []
    for number in range(VOLUMES // 2):
        files, placement = volume(asked["walk"], number, planned_files(asked, number))
        cycles = int(draws()["age"][number]) if asked.get("aged") else 0
        layout = next(aging(files, placement, (cycles,)))
        work = Work(paths=index_paths(populate(files))) if asked["order"] == "paths" else Work()
        found.append(trace(layout, order=asked["order"], host=host, work=work))
    return tuple(found)


def _side_by_side(reads: AccessTrace, profile: Any, unknown: Uncertain, threads: int) -> F64:
    """Serve reads of one thread one by one; of several, the slower of drive and computer decides."""
    if threads == 1:
        return draw_seconds(reads, profile, unknown).seconds
    host_s = reads.host_us / 1e6 / threads * unknown.of(HOST)
    silent = replace(reads, think_us=np.zeros(len(reads)), after_us=0.0)
    queued = service(silent, profile, queue_depth=threads).service_s
    alone = service(silent, profile).service_s
    return np.asarray(np.maximum(host_s, draw_seconds(silent, profile, unknown).seconds * queued / alone))


def copied(asked: dict[str, Any]) -> Predicted:
    """Predict the reading half of a copy: APFS over HFS+ on the same drawn disk, wherever the volumes lie."""
    profile = load_profile("generic-7200")
    unknown = uncertain(profile, MACOS, knows_offset=False)
    files = FileSet(files=asked["copy"], smallest_bytes=asked["smallest_bytes"], largest_bytes=asked["largest_bytes"])
    layouts = []
    for number in range(VOLUMES // 2):
        seconds = {}
        for filesystem in ("apfs", "hfsplus"):
            made, placement = volume(filesystem, number, files)
            layout = next(aging(made, placement, (0,)))
            seconds[filesystem] = draw_seconds(trace(layout, order="copy", host="macos"), profile, unknown).seconds
        layouts.append(seconds["apfs"] / seconds["hfsplus"])
    volumes = volume_of(len(layouts))
    return Predicted(np.stack(layouts)[volumes, DRAWS], unknown.columns(), layouts)


def read_through(asked: dict[str, Any]) -> Predicted:
    """Predict the reading of whole files, one behind the other, at as many bytes a request as macOS asks for."""
    profile = stand_in(asked["drive"])
    unknown = uncertain(profile, MACOS)
    size = host_profile("macos").read_ahead_bytes
    each = asked["bytes"] // asked["files"] // size
    count = min(asked["files"], 2000)
    # Files lie all over the drive; each is read from its first byte to its last.
    starts = np.sort(np.random.default_rng(5).permutation(asked["files"])[:count]) * (each * size)
    offset = (starts[:, None] + np.arange(each) * size).ravel()
    reads = AccessTrace.from_reads(offset, np.full(len(offset), size, np.int64))
    values = draw_seconds(reads, profile, unknown).seconds * asked["files"] / count
    return Predicted(values, unknown.columns(), [values])


def predicted(folder: Path, row: dict[str, Any]) -> Predicted:
    """Predict a row."""
    asked = row["predict"]
    if "plan" in asked:
        own = asked["plan"]
        return ratio(folder, asked["cycle"]) if own == "ratio" else enumerated(folder, own, asked["cycle"])
    made: dict[str, Callable[[dict[str, Any]], Predicted]] = {"walk": planned, "copy": copied, "files": read_through}
    return next(made[key](asked) for key in made if key in asked)


def told(folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Predict a row and set it beside what was measured."""
    plain = {key: row[key] for key in ("experiment", "name", "work", "filesystem", "low", "high", "unit", "url")}
    why = {key: row[key] for key in ("in_sample", "not_predicted") if key in row}
    if why:
        return plain | why
    made = predicted(folder, row)
    whole = interval_of(made.values, made.columns, VOLUME)
    widths = [interval_of(values, {}).ratio for values in made.layouts]
    return plain | {
        "p5": whole.low_s, "p25": whole.quarter_s, "p50": whole.median_s, "p75": whole.three_quarters_s,
        "p95": whole.high_s, "is_hit": is_hit(row, whole), "width": whole.ratio,
        "width_of_layout": float(np.median(widths)), "shares": dict(whole.shares),
    }  # fmt: skip


def is_hit(row: dict[str, Any], found: Interval) -> bool:
    """Tell whether a measured range and the 90 % interval meet."""
    return bool(found.low_s <= row["high"] and found.high_s >= row["low"])


def coverage(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the experiments whose rows are all within their intervals, and how wide these are.

    Parameters
    ----------
    found : list of dict
        Rows as of :func:`told`.
    """
    tests = [row for row in found if "is_hit" in row]
    experiments = {name: [row for row in tests if row["experiment"] == name] for name in names(tests)}
    hits = sum(all(row["is_hit"] for row in rows) for rows in experiments.values())
    low, high = binomial(hits, len(experiments))
    return {
        "experiments": len(experiments), "hits": hits, "low": low, "high": high, "rows": len(tests),
        "row_hits": sum(row["is_hit"] for row in tests),
        "width_of_volume": middle_width(experiments, "width"),
        "width_of_layout": middle_width(experiments, "width_of_layout"),
    }  # fmt: skip


def middle_width(experiments: dict[str, list[dict[str, Any]]], key: str) -> float:
    """Return the median width over the experiments, each of which counts by the median of its rows."""
    return float(np.median([np.median([row[key] for row in rows]) for rows in experiments.values()]))


def names(found: list[dict[str, Any]]) -> list[str]:
    """Return the experiments, each once."""
    return list(dict.fromkeys(row["experiment"] for row in found))


def binomial(hits: int, tries: int) -> tuple[float, float]:
    """Return the 90 % interval of a share (Clopper and Pearson): what makes as many hits, or as few, 5 % likely.

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
    """Predict the seed's enumeration with each file system on each half: what of it is placement."""
    profile = load_profile(ENCLOSURE)
    unknown = uncertain(profile, MACOS)
    found = []
    for filesystem, cycle in (("hfsplus", 10), ("apfs", 0), ("apfs", 20)):
        reads = kept(folder, filesystem, 0, cycle)
        outer, inner = (
            draw_seconds(reads, profile, unknown, start_offset_bytes=start).seconds for start in (0, HALF_BYTES)
        )
        part = float(np.median(inner / outer))
        found.append({
            "filesystem": filesystem, "cycle": cycle, "outer_s": float(np.median(outer)),
            "inner_s": float(np.median(inner)), "inner_over_outer": part,
        })  # fmt: skip
    return found


def left_out(witness: Witness) -> list[dict[str, Any]]:
    """Predict walks on each of DiskSim's drives by what is said of the other two, knowing zones or the data sheet."""
    found = []
    for drive in (*CHEETAHS, "atlas10k5"):
        for geometry in ("zones", "datasheet"):
            for setting in ("off", "join" if drive in CHEETAHS else "own"):
                found += walks_left_out(witness, drive, geometry, setting)
    return found


def walks_left_out(witness: Witness, drive: str, geometry: str, setting: str) -> list[dict[str, Any]]:
    """Predict the walks on one of DiskSim's drives, buffer off or on, without that drive's own errors.

    Parameters
    ----------
    witness : Witness
        DiskSim's results.
    drive, geometry, setting : str
        The drive, what is known of it, and the buffer.
    """
    profile = LESS[geometry](load_profile(drive)).with_cache("off" if setting == "off" else "own")
    unknown = uncertain(profile, UNSAID, left_out=drive)
    found = []
    for result in witness.results:
        of_this = (result["drive"], result["setting"], result["think_us"]) == (drive, setting, "100")
        if of_this and result["workload"].endswith("-stat"):
            reads = witness.trace(drive, result["workload"])
            low, high = np.quantile(draw_seconds(reads, profile, unknown).seconds, (0.05, 0.95)).tolist()
            total = float(result["total_s"])
            found.append({
                "drive": drive, "known": geometry, "buffer": "off" if setting == "off" else "on",
                "workload": result["workload"], "disksim": total, "p5": low, "p95": high,
                "is_hit": low <= total <= high,
            })  # fmt: skip
    return found


def collect(folder: Path, witness: Witness | None) -> dict[str, Any]:
    """Predict everything."""
    found = [told(folder, row) for row in rows()]
    return {
        "priors": fingerprint(),
        "written": str(priors()["written"]),
        "draws": num_draws(),
        "volumes": VOLUMES,
        "rows": found,
        "coverage": coverage(found),
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
