"""Results of ``predict`` and ``drives``: times on drives, and their causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.drive.uncertain import DRIVE, HOST, MODEL, OFFSET, START, VOLUME
from layoutscope.results import Shown
from layoutscope.units import NOTHING, format_seconds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.drive import DriveProfile
    from layoutscope.drive.uncertain import Interval
    from layoutscope.frames import pl
    from layoutscope.results.scan import ImageFacts, Prediction, WalkFacts
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.host import HostTime
    from layoutscope.walk.programs import LeastWritten


class Alternative(Displayed, Struct, frozen=True):
    """The same workload with one change."""

    name: str  # name of the what-if
    because: str  # description of the change
    seconds: float  # predicted time with the change
    # why it does not apply: for example, an unlimited cache cannot be doubled; empty if it does
    why_not: str = ""

    @property
    def is_applicable(self) -> bool:
        """Whether the change has an effect."""
        return not self.why_not


class DirectoryCost(Displayed, Struct, frozen=True):
    """The cost of the enumeration of one directory."""

    directory_id: int  # CNID or inode number; 0 for reads without a directory
    path: str  # path of the directory
    reads: int  # number of reads that it caused
    seconds: float  # their service and host time


class DriveCase(Displayed, Struct, frozen=True):
    """A workload on one drive."""

    prediction: Prediction  # time and causes
    # the same nodes, contiguous in key order; not a bound, because workloads in node order may take longer then
    packed: Alternative | None
    what_ifs: tuple[Alternative, ...]  # the requested changes
    directories: tuple[DirectoryCost, ...]  # the most expensive directories, the worst first
    # the best layout of the nodes among those evaluated, including the present one; an estimate of a bound
    best: Alternative | None = None
    tried: int = 0  # number of layouts evaluated
    drive_was_named: bool = False  # whether the user named this drive, and it is not a built-in profile
    is_measured: bool = False  # whether all parameters of the drive were measured
    # the interval of a similar volume anywhere on the drive; None if it was not requested
    volume: Interval | None = None
    # seconds of the layout in the outer and in the inner half of the drive; empty if `volume` was not requested, the
    # drive has no halves, or the volume does not fit
    halves_s: tuple[float, ...] = ()

    @property
    def gain(self) -> float | None:
        """Share of the time that packing would save, negative if it takes longer; None if it was not evaluated."""
        if self.packed is None or not self.prediction.seconds:
            return None
        return 1 - self.packed.seconds / self.prediction.seconds


class VolumeCase(Displayed, Struct, frozen=True):
    """A workload on one volume, on all drives."""

    volume: str  # name of the volume
    walk: WalkFacts  # its reads
    host_time: HostTime  # time of the computer
    drives: tuple[DriveCase, ...]  # the workload on each drive
    # share of the known metadata that could be read; None if unknown. Unread metadata is not walked.
    coverage: float | None = 1.0
    num_errors: int = 0  # number of findings that are errors
    layout: VolumeLayout | None = None  # the tables that were walked
    # the least that a workload that changes the volume must write, which its times do not include
    least_written: LeastWritten | None = None
    # paths of the list that are not on the volume; only their existing parents are looked up
    missing_paths: tuple[str, ...] = ()


class OrderCase(Displayed, Struct, frozen=True):
    """One order on one volume."""

    order: str  # name of the order
    why_not: str = ""  # why it does not apply; empty if it does
    reads: int = 0  # number of reads; 0 if it does not apply
    read_bytes: int = 0  # bytes read; 0 if it does not apply
    entries: int | None = None  # number of entries that it visits; None if it does not visit entries of the volume
    times: tuple[Prediction, ...] = ()  # one per drive; empty if it does not apply

    def seconds_per_1000(self, time: Prediction) -> float | None:
        """Return the time per 1,000 entries; None without a number of entries."""
        return 1000 * time.seconds / self.entries if self.entries else None


class OrdersCase(Displayed, Struct, frozen=True):
    """All orders on one volume."""

    volume: str  # name of the volume
    host: str  # host profile
    orders: tuple[OrderCase, ...]  # the fastest on the first drive first, those that do not apply last
    coverage: float | None = 1.0  # share of the known metadata that could be read; None if unknown
    num_errors: int = 0  # number of findings that are errors
    missing_paths: tuple[str, ...] = ()  # paths of the list that are not on the volume


class PredictResult(Shown, Struct, frozen=True):
    """A workload on the chosen volumes; for all orders (``order="all"``), only `orders` is set."""

    frames: ClassVar = ("times", "directories", "reads")

    image: ImageFacts
    volumes: tuple[VolumeCase, ...]
    orders: tuple[OrdersCase, ...] = ()

    @property
    def times(self) -> pl.DataFrame:
        """The predicted times, one row per volume, order and drive."""
        return self._frame("times")

    @property
    def directories(self) -> pl.DataFrame:
        """The costs of all directories, the most expensive first, for each volume and drive."""
        return self._frame("directories")

    @property
    def reads(self) -> pl.DataFrame:
        """The reads in order, with their times, for each volume and drive."""
        return self._frame("reads")


class DriveFacts(Displayed, Struct, frozen=True):
    """A drive profile, and the simulation of simple reads on it."""

    profile: DriveProfile  # the parameters and their sources
    # median, 90th and 99th percentile of random reads of 4 KiB over the whole drive, one at a time
    random_ms: tuple[float, ...]
    sequential_mb_s: float  # rate of large sequential reads at the start of the drive, in 10^6 bytes per second
    latencies_ms: NDArray[np.float64]  # latencies of the random reads


NARROW: Final = 1.02
"""If the ratio of the ends is smaller, their difference is not explained."""

NAMED_SHARE: Final = 0.3
"""Inputs that contribute a smaller share of the width are not named."""

MAX_SHARE: Final = 0.99
"""An input that contributes a larger share is shown as the source of the whole width."""

PLACEMENT: Final = "placement"
"""Group of the unknowns of node placement."""

WORDS: Final = {
    DRIVE: "which drive it is",
    MODEL: "the error of the model on such drives",
    OFFSET: "where on the drive the volume is",
    HOST: "how fast the computer is",
    START: "the angle of the disk at the start",
    PLACEMENT: "how the nodes were placed",
}
"""Groups of inputs in words."""

PLACES: Final = {PLACEMENT: "where the nodes are", OFFSET: "where on the drive"}
"""The groups of inputs that are placement, in words."""

HALVES: Final = ("outer", "inner")
"""Share of a drive."""


def width(case: DriveCase) -> tuple[str, ...]:
    """Describe the range of a prediction, its main cause, and what would narrow it.

    If requested, the same follows for a similar volume, with the share of the placement.
    """
    sentences = []
    for interval in (case.prediction.interval, case.volume):
        if interval is None:
            continue
        sentences.append(ends(interval))
        group, share = interval.shares[0] if interval.shares else ("", 0.0)
        if interval.ratio >= NARROW and share >= NAMED_SHARE:
            hint = advice(group, case)
            sentences.append(f"{share_words(share)} of the uncertainty: {WORDS[group]}{'; ' + hint if hint else ''}")
    if case.volume is not None:
        shares = dict(case.volume.shares)
        parts = [
            f"{words}, {share_words(shares.get(group, 0.0))}"
            for group, words in PLACES.items()
            if group == PLACEMENT or case.prediction.rotates
        ]
        sentences.append(f"placement, of the uncertainty of similar volumes: {'; '.join(parts)}")
    if len(case.halves_s) == len(HALVES):
        outer, inner = case.halves_s
        part = f"{inner / outer - 1:+.0%}" if outer else NOTHING
        sentences.append(
            f"on the outer half of the drive this layout takes {format_seconds(outer)}, "
            f"on the inner half {format_seconds(inner)} ({part})"
        )
    return tuple(sentences)


def share_words(share: float) -> str:
    """Format a share of a width; a share close to 1 is shown as all."""
    return "all" if share > MAX_SHARE else f"{100 * share:.0f} %"


def ends(interval: Interval) -> str:
    """Describe the ranges of half of the simulations and of nine in ten."""
    half = f"{format_seconds(interval.quarter_s)} to {format_seconds(interval.three_quarters_s)}"
    wide = f"{format_seconds(interval.low_s)} to {format_seconds(interval.high_s)}"
    subject = "similar volumes" if interval.of == VOLUME else "same layout, other drives of this type"
    return f"{subject}: half of {interval.draws} simulations take {half}, 90 % of them {wide}"


def advice(group: str, case: DriveCase) -> str:
    """Describe how to narrow a prediction whose width comes from a group of inputs; empty if that is not possible."""
    if group == DRIVE and not case.is_measured:
        measure = "measure it ('layoutscope drives --help' says how)"
        return measure if case.drive_was_named else f"name yours with --drive, or {measure}"
    return {
        OFFSET: "say it with --start-offset",
        HOST: "say what an entry and a node cost on yours with --host-property",
    }.get(group, "")


def bound(case: DriveCase) -> str:
    """Describe the time of the best evaluated layout; empty if there is only one."""
    if case.best is None or case.tried < MIN_TRIED:
        return ""
    time = format_seconds(case.best.seconds)
    if time == format_seconds(case.prediction.seconds):
        return f"none of {case.tried} layouts of its nodes that were tried takes less"
    return f"the best of {case.tried} layouts of its nodes that were tried takes {time}: {case.best.because}"


MIN_TRIED: Final = 2
"""Least number of layouts for which the best one is reported."""
