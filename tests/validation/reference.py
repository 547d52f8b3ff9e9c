"""Predictions for the reference measurements: published times row by row, next to those of layoutscope.

``python -m tests.validation.evidence reference`` writes ``results/reference.json``, from which docs/evidence.md is
made. No images of the measured volumes exist, so the predictions use plans of volumes, ``macos-hfsplus`` and ``macos-
apfs``, and are labelled so. For the ratio only, one prediction uses real images of 200,000 files made by the Linux
drivers. The article's times are those of `tests.validation.article`. Every parameter is in a drive profile, a host
profile or a plan, with its reason, and was fixed before anything was compared. Misses are shown.

Measurements: "An analysis of APFS enumeration performance on rotational hard drives" (2019); rdar://32934061, "APFS
performance lags HFS+ for common development operations such as Chrome" (2017); "The Speed of APFS: Just How Fast Is
It?" (2017); "APFS and HFS+ benchmarks on 2017 MacBook Pro with macOS High Sierra" (2017).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from fixtures.fileset import FileSet, populate
from layoutscope.drive import load_profile, service
from layoutscope.walk import AccessTrace, Work, host_profile, host_time, trace
from tests.validation.plans import MACOS_APFS, MACOS_HFSPLUS, Placement, aging

if TYPE_CHECKING:
    from fixtures.fileset import Population
    from layoutscope.tables import VolumeLayout
    from tests.validation.traces import Traces

RESULTS: Final = Path(__file__).with_name("results")
ENCLOSURE: Final = "wd-mybook-duo-2tb"
HALF_BYTES: Final = 1000 * 10**9
"""The two file systems were on different halves of the drive; which on which is not published, so both are
predicted."""
PLACEMENTS: Final[dict[str, Placement]] = {"hfsplus": MACOS_HFSPLUS, "apfs": MACOS_APFS}
GIT_THREADS: Final = 20
"""Threads of git's preload-index: one per 500 files, at most 20 (preload-index.c)."""
GIT_FILES: Final = 250_000
"""Files of the repository that ``git status`` checks, by that report: "over 250,000"; all repositories have more."""
GIT_REMARK: Final = "processor time of the host set from this report"
NAMES_REMARK: Final = "more names than the name cache holds; were all kept,"
BUILD_FILES: Final = 100_000
"""Paths that a null build checks. Assumed: the report has 29,471 build steps and 40,000 built files, plus sources and
headers."""
BUILD_WARM_S: Final = 2.0
"""Time of the null build with everything cached, by the report, on both file systems: ninja's own work, given here."""
COPY_SET: Final = FileSet(files=160_000, smallest_bytes=8 * 1024, largest_bytes=80 * 1024 * 1024)
"""Files of the copied folders: 160,000, 12 GB."""


@dataclass(frozen=True)
class Row:
    """One measurement and its prediction."""

    work: str  # what was done
    filesystem: str  # ``HFS+`` or ``APFS``, or their ratio
    measured: str  # as it was published
    # low, high: the same as a range
    low: float
    high: float
    # predicted, predicted_low, predicted_high: the prediction and its interval
    predicted: float
    predicted_low: float
    predicted_high: float
    unit: str  # ``s``, ``x`` or ``MB/s``
    made_on: str  # plan or image, and drive
    remark: str = ""  # what the prediction leaves out

    @property
    def verdict(self) -> str:
        """Error relative to the measured range: ``met`` inside, else the factor."""
        if self.predicted_high >= self.low and self.predicted_low <= self.high:
            return "met"
        nearest = self.low if self.predicted < self.low else self.high
        return f"{self.predicted / nearest:.2f} x"


def image_rows(images: Traces) -> list[Row]:
    """Return the rows of the ratio on real images: a fifth of the files, the Linux drivers."""
    profile, rows = load_profile(ENCLOSURE), []
    for age, state, text, low, high in (("fresh", "c00", "3 to 4", 3, 4), ("20 cycles", "c20", "15 to 20", 15, 20)):
        seconds = []
        for system in ("hfsplus", "apfs"):
            reads = trace(images.layout(f"{system}-200000-{state}"), order="fts", host="linux")
            seconds.append(service(reads, profile).seconds)
        ratio = seconds[1] / seconds[0]
        rows.append(
            Row(
                f"enumerate 1,000,000 files, {age}", "APFS / HFS+", text, low, high, ratio, ratio, ratio, "x",
                "real images of 200,000 files", "Linux drivers: nodes of 4 KiB a request, emptier trees",
            )
        )  # fmt: skip
    return rows


def git_rows() -> list[Row]:
    """Return rows of ``git status``: lstat of all index paths by 20 threads, then a listing of every directory."""
    measured = {
        "hfsplus": ((4.311, 1.174), (3.810, 0.684)),
        "apfs": ((7.654, 1.428), (7.797, 0.726)),
    }
    paths = index_paths(populate(FileSet(files=GIT_FILES)))
    rows = []
    for system, ((cold, warm), (cold_cached, warm_cached)) in measured.items():
        layout = next(aging(FileSet(files=GIT_FILES), PLACEMENTS[system], (0,)))
        listed = trace(layout, order="names", host="macos", work=Work(warm=True)).host_us / 1e6
        cold_s = _looked_up_s(layout, paths)
        warm_s = _looked_up_s(layout, paths, warm=True)
        kept_s = _looked_up_s(layout, paths, warm=True, name_cache_entries=None)
        for work, text, predicted, remark in (
            ("git status, cold", cold, cold_s + listed, GIT_REMARK),
            ("git status, warm", warm, warm_s + listed, f"{NAMES_REMARK} {kept_s + listed:.2f} s"),
            ("git status, untracked cache, cold", cold_cached, cold_s, GIT_REMARK),
            ("git status, untracked cache, warm", warm_cached, warm_s, f"{NAMES_REMARK} {kept_s:.2f} s"),
        ):
            label = {"hfsplus": "HFS+", "apfs": "APFS"}[system]
            same = (predicted, predicted, predicted)
            rows.append(Row(work, label, f"{text}", text, text, *same, "s", "plan, SM0512L", remark))
    return rows


def _looked_up_s(layout: VolumeLayout, paths: list[str], *, warm: bool = False, **properties: object) -> float:
    """Return the seconds of an lstat of each path by several threads.

    The threads read concurrently and share the host's work; the slower of the two decides.
    """
    host = host_profile("macos", threads=GIT_THREADS, **properties)
    reads = trace(layout, order="paths", host=host, work=Work(paths=paths, warm=warm))
    drive = service(reads, load_profile("apple-sm0512l-2016"), queue_depth=GIT_THREADS)
    return max(host_time(reads.host_us, host).wall_s, drive.service_s)


def index_paths(population: Population) -> list[str]:
    """Return the paths of all files in the order of git's index, which sorts by bytes."""
    names = [name.decode() for name in population.name.tolist()]
    parents = population.parent.tolist()
    folder = [""] * len(names)
    for number in np.flatnonzero(population.is_directory).tolist()[1:]:
        folder[number] = f"{folder[parents[number]]}{names[number]}/"
    return sorted(folder[parents[number]] + names[number] for number in population.files.tolist())


def build_rows() -> list[Row]:
    """Return rows of the null build: one thread looks at every file; ninja's own work is given."""
    rows = []
    paths = index_paths(populate(FileSet(files=BUILD_FILES)))
    for system, label, measured in (("hfsplus", "HFS+", 6.014), ("apfs", "APFS", 8.193)):
        layout = next(aging(FileSet(files=BUILD_FILES), PLACEMENTS[system], (0,)))
        reads = trace(layout, order="paths", host="macos", work=Work(paths=paths))
        seconds = BUILD_WARM_S + service(reads, load_profile("apple-sm0512l-2016")).seconds
        rows.append(
            Row(
                "null build, cold", label, f"{measured}", measured, measured, seconds, seconds, seconds, "s",
                "plan, SM0512L", "reads of build files not modelled",
            )
        )  # fmt: skip
    return rows


def copy_rows() -> list[Row]:
    """Return the row of copying 160,000 files: only the reading half."""
    seconds = {}
    for system, placement in PLACEMENTS.items():
        layout = next(aging(COPY_SET, placement, (0,)))
        seconds[system] = service(trace(layout, order="copy", host="macos"), load_profile("generic-7200")).seconds
    ratio = seconds["apfs"] / seconds["hfsplus"]
    return [
        Row(
            "copy 160,000 files, 12 GB", "APFS / HFS+", "almost 2", 1.8, 2, ratio, ratio, ratio, "x",
            "plan, generic-7200", "the reads alone; writing is not modelled",
        )
    ]  # fmt: skip


def device_rows() -> list[Row]:
    """Return rows of the raw device; they are fitted, so they only confirm that the profile matches its source."""
    profile, rows = load_profile("apple-ap0256j-2017"), []
    for size, text, measured in ((4096, "4 KiB", 66.7), (1 << 20, "1 MiB", 1349.0)):
        offsets = np.arange(1000, dtype=np.int64) * size
        reads = AccessTrace.from_reads(offsets, np.full(1000, size, np.int64))
        rate = 1000 * size / service(reads, profile).service_s / 1e6
        made_on = "AP0256J (fitted to this)"
        rows.append(
            Row(f"read {text} after {text}", "raw", f"{measured:,}", measured * 0.99, measured * 1.01, rate, rate, rate,
                "MB/s", made_on)
        )  # fmt: skip
    return rows


def collect(images: Traces | None) -> dict[str, object]:
    """Predict everything; without reference images the rows that need them are left out."""
    rows = [] if images is None else image_rows(images)
    rows += [*git_rows(), *build_rows(), *copy_rows(), *device_rows()]
    return {"rows": [asdict(row) | {"verdict": row.verdict} for row in rows]}


def rounded(value: object) -> object:
    """Round numbers to four digits, so the file changes only where results do."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def save(name: str, results: dict[str, object]) -> None:
    """Write results to the files that the tables of docs/evidence.md are made from."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(rounded(results), indent=1) + "\n")


def load(name: str) -> dict[str, object]:
    """Read results back."""
    found: dict[str, object] = json.loads((RESULTS / f"{name}.json").read_text())
    return found
