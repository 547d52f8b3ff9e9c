"""The drive model against a published simulator: DiskSim 4.0, three drives, synthetic and recorded workloads."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.zstd import zstd
from tests.unit.drive.lesser import LESS

if TYPE_CHECKING:
    from pathlib import Path

CHEETAHS = ("cheetah15k5", "cheetah9lp")
ATLAS = "atlas10k5"
"""A drive whose look-ahead overruns its buffer; the effect of incomplete profiles was not tested on it."""
BUFFER_ON = {CHEETAHS[0]: "join", CHEETAHS[1]: "join", ATLAS: "own"}
"""DiskSim's setting with the buffer on; the Atlas has no other."""
THINK_US = 100
"""Think time of the runs that tables show, in µs; at 0 some results depend on ties."""
CLOSE = 0.002
"""Runs agree if their times differ by at most this share."""
OUR_CACHE = {(drive, "off"): "off" for drive in (*CHEETAHS, "atlas10k5")} | {
    (drive, setting): "no-join" for drive in CHEETAHS for setting in ("own", "bus")
}
"""DiskSim's settings in our terms; its `join` is the default of our profiles."""
BUS_MS = {"cheetah9lp": 0.105, "atlas10k5": 0.005}
"""Extracted time of a sector on the bus, used in the setting `bus`."""
SPLIT = ("seek_ms", "latency_ms", "xfer_ms")
HITS = ("whole_hit", "part_hit")


@dataclass(frozen=True)
class Row:
    """One workload on one drive: the results of DiskSim and of our model."""

    drive: str
    setting: str
    workload: str
    theirs: dict[str, float]
    ours: dict[str, float]

    @property
    def ratio(self) -> float:
        """Our service time divided by DiskSim's."""
        return self.ours["service_s"] / self.theirs["service_s"]

    @property
    def is_walk(self) -> bool:
        """Whether the reads are those of a recorded directory walk."""
        return self.workload.endswith("-stat")


class Witness:
    """DiskSim's results and the reads that it was given."""

    def __init__(self, shared: Path) -> None:
        """Load them from the folder of reference images."""
        self.images = shared / "images"
        table = (self.images / "disksim" / "results.tsv").read_text()
        self.results = list(csv.DictReader(io.StringIO(table), delimiter="\t"))

    def trace(self, drive: str, workload: str, think_us: int = THINK_US) -> AccessTrace:
        """Return the reads of a workload; the first one is issued at time 0."""
        names = (f"disksim/lists/{drive}.{workload}", f"disksim/lists/{workload}", f"traces/{workload}")
        paths = (self.images / f"{name}.trace.zst" for name in names)
        packed = next(path for path in paths if path.exists()).read_bytes()
        raw = zstd.decompress(packed)
        pairs = np.frombuffer(raw, np.dtype(np.uint64).newbyteorder("<")).astype(np.int64).reshape(-1, 2)
        reads = AccessTrace.from_reads(pairs[:, 0], pairs[:, 1], think_us=think_us)
        reads.think_us[0] = 0
        return reads

    def rows(self, drive: str, setting: str, *, geometry: str = "map", think_us: int = THINK_US) -> list[Row]:
        """Run every workload of a drive in a setting; for a data sheet the buffer is the profile's default."""
        profile = LESS[geometry](load_profile(drive))
        cache = OUR_CACHE.get((drive, setting), "own")
        if setting == "bus":
            profile = profile.with_figures(interface_mb_s=512 / BUS_MS[drive] / 1000)
        return [
            Row(drive, setting, result["workload"], _numbers(result), self._ours(profile, result, cache))
            for result in self.results
            if (result["drive"], result["setting"], result["think_us"]) == (drive, setting, str(think_us))
        ]

    def _ours(self, profile, result: dict[str, str], cache: str) -> dict[str, float]:
        reads = self.trace(result["drive"], result["workload"], int(result["think_us"]))
        return service(reads, profile.with_cache(cache)).summary()

    def every_row(self) -> list[Row]:
        """Run everything that DiskSim ran."""
        drives = dict.fromkeys((result["drive"], result["setting"]) for result in self.results)
        return [
            row
            for drive, setting in drives
            for think in (0, THINK_US)
            for row in self.rows(drive, setting, think_us=think)
        ]

    def walk_errors(self, geometry: str, drives: tuple[str, ...] = CHEETAHS) -> dict[tuple[str, str], list[float]]:
        """Return the errors of the directory workloads as shares, by drive and by the setting of the buffer."""
        return {
            (drive, setting): [row.ratio - 1 for row in self.rows(drive, setting, geometry=geometry) if row.is_walk]
            for drive in drives
            for setting in ("off", BUFFER_ON[drive])
        }


def _numbers(result: dict[str, str]) -> dict[str, float]:
    return {key: float(value) for key, value in result.items() if key not in ("drive", "setting", "workload")}
