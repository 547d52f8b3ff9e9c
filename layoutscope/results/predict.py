"""What ``predict``, ``replay`` and ``drives`` return: times on drives, and what they are spent on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.drive.uncertain import DRIVE, HOST, MODEL, OFFSET, START, VOLUME
from layoutscope.results import Shown
from layoutscope.units import NOTHING, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """The same workload with one thing changed."""

    name: str  # name of the what-if
    because: str  # what is different
    seconds: float  # what it would take
    # why it does not apply: an unlimited cache cannot be doubled, a volume without snapshots not lose them. An
    # empty string where it does.
    why_not: str = ""

    @property
    def is_applicable(self) -> bool:
        """Whether the change changes anything."""
        return not self.why_not


class DirectoryCost(Displayed, Struct, frozen=True):
    """What the enumeration of one directory costs."""

    directory_id: int  # CNID or inode number; 0 for reads that belong to none
    path: str  # its path
    reads: int  # reads that it caused
    seconds: float  # their service and host time


class DriveCase(Displayed, Struct, frozen=True):
    """A workload on one drive."""

    prediction: Prediction  # time and causes
    # the same nodes, contiguous in key order. Not a bound: work that goes by node numbers may take longer then.
    packed: Alternative | None
    what_ifs: tuple[Alternative, ...]  # what was asked for
    directories: tuple[DirectoryCost, ...]  # the most expensive ones, the worst first
    # the best of all layouts of the nodes that were tried, the layout as it is among them: as near to a bound as
    # is known, and none
    best: Alternative | None = None
    tried: int = 0  # how many these were
    drive_was_named: bool = False  # whether somebody said that it is this drive, and it is none of the usual ones
    is_measured: bool = False  # whether every figure of the drive was measured
    # the interval of a similar volume anywhere on the drive; None if it was not requested
    volume: Interval | None = None
    # seconds of the layout in the outer and in the inner half of the drive; empty where `volume` was not asked
    # for, it has no halves, or the volume does not fit
    halves_s: tuple[float, ...] = ()

    @property
    def gain(self) -> float | None:
        """Share of the time that packing would save, below 0 where it would take longer; None if it was not tried."""
        if self.packed is None or not self.prediction.seconds:
            return None
        return 1 - self.packed.seconds / self.prediction.seconds


class VolumeCase(Displayed, Struct, frozen=True):
    """A workload on one volume, on all drives."""

    volume: str  # the volume
    walk: WalkFacts  # the walk
    host_time: HostTime  # the host's time
    drives: tuple[DriveCase, ...]  # the workload on each drive
    # share of the known metadata that could be read; None where that is unknown. What was not read is not walked
    # either.
    coverage: float | None = 1.0
    num_errors: int = 0  # findings that are errors
    layout: VolumeLayout | None = None  # the tables that were walked
    # what a workload that changes the volume cannot but write, which is not in its times
    least_written: LeastWritten | None = None
    # paths of the list that are not on the volume: of these only what exists of the way is looked up
    missing_paths: tuple[str, ...] = ()


class OrderCase(Displayed, Struct, frozen=True):
    """One order on one volume."""

    order: str  # its name
    why_not: str = ""  # why it does not apply; an empty string where it does
    reads: int = 0  # reads; 0 where it does not apply
    read_bytes: int = 0  # their bytes; 0 where it does not apply
    entries: int | None = None  # entries that it goes through; None if that is not a number of entries of the volume
    times: tuple[Prediction, ...] = ()  # one per drive; none where it does not apply

    def seconds_per_1000(self, time: Prediction) -> float | None:
        """Return the time for 1,000 entries; None where it goes through no number of them."""
        return 1000 * time.seconds / self.entries if self.entries else None


class OrdersCase(Displayed, Struct, frozen=True):
    """All orders on one volume."""

    volume: str  # the volume
    host: str  # whose drivers and libraries do them
    orders: tuple[OrderCase, ...]  # the quickest on the first drive first, those that do not apply last
    coverage: float | None = 1.0  # share of the known metadata that could be read; None where that is unknown
    num_errors: int = 0  # findings that are errors
    missing_paths: tuple[str, ...] = ()  # paths of the list that are not on the volume


class PredictResult(Shown, Struct, frozen=True):
    """A workload on all volumes that were chosen, or all orders on them (``order="all"``): then `orders` alone."""

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
        """What each directory costs, all of them, the most expensive first; of each volume on each drive."""
        return self._frame("directories")

    @property
    def reads(self) -> pl.DataFrame:
        """Every read in order, with its times; of each volume on each drive."""
        return self._frame("reads")


class DriveFacts(Displayed, Struct, frozen=True):
    """A profile and what its simulation makes of simple reads."""

    profile: DriveProfile  # the numbers and their sources
    # median, 90th and 99th percentile of random reads of 4 KiB over the whole drive, one at a time
    random_ms: tuple[float, ...]
    sequential_mb_s: float  # rate of large sequential reads at the start of the drive, 10^6 bytes per second
    latencies_ms: NDArray[np.float64]  # the random reads themselves


NARROW: Final = 1.02
"""Below this ratio the ends are too close together to explain their difference."""

NAMED_SHARE: Final = 0.3
"""What contributes less than this share of the width is not named."""

MAX_SHARE: Final = 0.99
"""An input that contributes more than this is shown as the source of the whole width."""

PLACEMENT: Final = "placement"
"""Group of the unknowns in how the nodes of a volume were placed."""

WORDS: Final = {
    DRIVE: "which drive it is",
    MODEL: "what the model is off on such drives",
    OFFSET: "where on the drive the volume is",
    HOST: "how fast the computer is",
    START: "the angle at which the disk stands at the start",
    PLACEMENT: "how the nodes were placed",
}
"""Groups of inputs in the words of a sentence."""

PLACES: Final = {PLACEMENT: "where the nodes are", OFFSET: "where on the drive"}
"""What of a width is placement."""

HALVES: Final = ("outer", "inner")
"""Share of a drive."""


def width(case: DriveCase) -> tuple[str, ...]:
    """Give the range of a prediction, its main cause, and what would narrow it.

    Also for a similar volume, if requested, with the part of the placement.
    """
    told = [found for found in (case.prediction.interval, case.volume) if found is not None]
    return (*(sentence for found in told for sentence in _sentences(case, found)), *_places(case))


def _places(case: DriveCase) -> Iterator[str]:
    """Describe what part of a time comes from the places of the nodes, and what from the place on the drive."""
    if case.volume is not None:
        shares = dict(case.volume.shares)
        parts = [
            f"{words}, {share_words(shares.get(group, 0.0))}"
            for group, words in PLACES.items()
            if group == PLACEMENT or case.prediction.rotates
        ]
        yield f"placement, of the width of a volume like that: {'; '.join(parts)}"
    if len(case.halves_s) == len(HALVES):
        outer, inner = case.halves_s
        part = f"{inner / outer - 1:+.0%}" if outer else NOTHING
        yield (
            f"on the outer half of the drive this layout takes {format_seconds(outer)}, "
            f"on the inner half {format_seconds(inner)} ({part})"
        )


def share_words(share: float) -> str:
    """Return the words for a share of a width; all of it from where nothing else is worth a word."""
    return "all" if share > MAX_SHARE else f"{100 * share:.0f} %"


def _sentences(case: DriveCase, found: Interval) -> Iterator[str]:
    yield ends(found)
    group, share = found.shares[0] if found.shares else ("", 0.0)
    if found.ratio < NARROW or share < NAMED_SHARE:
        return
    helps = advice(group, case)
    yield f"{share_words(share)} of the width: {WORDS[group]}{'; ' + helps if helps else ''}"


def ends(found: Interval) -> str:
    """Give the ranges of half of the simulations and of nine in ten, and what they describe."""
    half = f"{format_seconds(found.quarter_s)} to {format_seconds(found.three_quarters_s)}"
    most = f"{format_seconds(found.low_s)} to {format_seconds(found.high_s)}"
    of = "a volume like that" if found.of == VOLUME else "this layout on a drive like that"
    return f"{of}: half of {found.draws} draws take {half}, 90 % of them {most}"


def advice(group: str, case: DriveCase) -> str:
    """Describe what would narrow a prediction whose width comes from a group of inputs; nothing where nothing would."""
    if group == DRIVE and not case.is_measured:
        measure = "measure it ('layoutscope drives --help' says how)"
        return measure if case.drive_was_named else f"name yours with --drive, or {measure}"
    return {
        OFFSET: "say it with --start-offset",
        HOST: "say what an entry and a node cost on yours with --host-property",
    }.get(group, "")


def bound(case: DriveCase) -> str:
    """Describe what the best of the layouts that were tried would take; nothing where only one was."""
    if case.best is None or case.tried < MIN_TRIED:
        return ""
    time = format_seconds(case.best.seconds)
    if time == format_seconds(case.prediction.seconds):
        return f"none of {case.tried} layouts of its nodes that were tried takes less"
    return f"the best of {case.tried} layouts of its nodes that were tried takes {time}: {case.best.because}"


MIN_TRIED: Final = 2
"""A single layout has no best one."""
