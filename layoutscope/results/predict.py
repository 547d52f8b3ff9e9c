"""What ``predict``, ``replay`` and ``drives`` return: times on drives, and what they are spent on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.drive import DriveProfile
    from layoutscope.drive.uncertain import Interval
    from layoutscope.frames import pl
    from layoutscope.results.recorded import HostTimes, MeasuredTimes, Recording
    from layoutscope.results.scan import ImageFacts, Prediction, WalkFacts
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.host import HostTime
    from layoutscope.walk.programs import LeastWritten
    from layoutscope.walk.score import Score


class Alternative(Displayed, Struct, frozen=True):
    """The same workload with one thing changed.

    Attributes
    ----------
    name : str
        Name of the what-if.
    because : str
        What is different.
    seconds : float
        What it would take.
    why_not : str
        Why it does not apply: an unlimited cache cannot be doubled, a volume without snapshots not lose them. An empty
        string where it does.
    """

    name: str
    because: str
    seconds: float
    why_not: str = ""

    @property
    def is_applicable(self) -> bool:
        """Whether the change changes anything."""
        return not self.why_not


class DirectoryCost(Displayed, Struct, frozen=True):
    """What the enumeration of one directory costs.

    Attributes
    ----------
    directory_id : int
        CNID or inode number; 0 for reads that belong to none.
    path : str
        Its path.
    reads : int
        Reads that it caused.
    seconds : float
        Their service and host time.
    """

    directory_id: int
    path: str
    reads: int
    seconds: float


class DriveCase(Displayed, Struct, frozen=True):
    """A workload on one drive.

    Attributes
    ----------
    prediction : Prediction
        Time and causes.
    packed : Alternative or None
        The same nodes side by side in key order. No bound: work that goes by node numbers may take longer then.
    what_ifs : tuple of Alternative
        What was asked for.
    directories : tuple of DirectoryCost
        The most expensive ones, the worst first.
    best : Alternative or None
        The best of all layouts of the nodes that were tried, the layout as it is among them: as near to a bound as is
        known, and none.
    tried : int
        How many these were.
    drive_was_named : bool
        Whether somebody said that it is this drive, and it is none of the usual ones.
    is_measured : bool
        Whether every figure of the drive was measured.
    volume : Interval or None
        The interval of a volume like that, which lies anywhere on the drive; None where it was not asked for.
    halves_s : tuple of float
        Seconds of the layout in the outer and in the inner half of the drive; empty where `volume` was not asked for,
        it has no halves, or the volume does not fit.
    """

    prediction: Prediction
    packed: Alternative | None
    what_ifs: tuple[Alternative, ...]
    directories: tuple[DirectoryCost, ...]
    best: Alternative | None = None
    tried: int = 0
    drive_was_named: bool = False
    is_measured: bool = False
    volume: Interval | None = None
    halves_s: tuple[float, ...] = ()

    @property
    def gain(self) -> float | None:
        """Share of the time that packing would save, below 0 where it would take longer; None if it was not tried."""
        if self.packed is None or not self.prediction.seconds:
            return None
        return 1 - self.packed.seconds / self.prediction.seconds


class VolumeCase(Displayed, Struct, frozen=True):
    """A workload on one volume, on all drives.

    `coverage` is the share of the known metadata that could be read (None where that is unknown), `num_errors` counts
    the findings that are errors: what was not read is not walked either. `layout` has the tables that were walked.
    `least_written` is what a workload that changes the volume cannot but write, which is not in its times.
    `missing_paths` are those of its list that are not on the volume: of these only what exists of the way is looked up.
    """

    volume: str
    walk: WalkFacts
    host_time: HostTime
    drives: tuple[DriveCase, ...]
    coverage: float | None = 1.0
    num_errors: int = 0
    layout: VolumeLayout | None = None
    least_written: LeastWritten | None = None
    missing_paths: tuple[str, ...] = ()


class OrderCase(Displayed, Struct, frozen=True):
    """One order on one volume.

    Attributes
    ----------
    order : str
        Its name.
    why_not : str
        Why it does not apply; an empty string where it does.
    reads, read_bytes : int
        What it reads; 0 where it does not apply.
    entries : int or None
        Entries that it goes through; None where that is no number of entries of the volume.
    times : tuple of Prediction
        One a drive; none where it does not apply.
    """

    order: str
    why_not: str = ""
    reads: int = 0
    read_bytes: int = 0
    entries: int | None = None
    times: tuple[Prediction, ...] = ()

    def seconds_per_1000(self, time: Prediction) -> float | None:
        """Return the time for 1,000 entries; None where it goes through no number of them."""
        return 1000 * time.seconds / self.entries if self.entries else None


class OrdersCase(Displayed, Struct, frozen=True):
    """All orders on one volume.

    Attributes
    ----------
    volume : str
        The volume.
    host : str
        Whose drivers and libraries do them.
    orders : tuple of OrderCase
        The quickest on the first drive first, those that do not apply last.
    coverage, num_errors, missing_paths
        As of :class:`VolumeCase`.
    """

    volume: str
    host: str
    orders: tuple[OrderCase, ...]
    coverage: float | None = 1.0
    num_errors: int = 0
    missing_paths: tuple[str, ...] = ()


class PredictResult(Shown, Struct, frozen=True):
    """A workload on all volumes that were chosen, or all orders on them (``order="all"``): then `orders` alone."""

    frames: ClassVar = ("times", "directories", "reads")

    image: ImageFacts
    volumes: tuple[VolumeCase, ...]
    orders: tuple[OrdersCase, ...] = ()

    @property
    def times(self) -> pl.DataFrame:
        """The predicted times, a row a volume, order and drive."""
        return self._frame("times")

    @property
    def directories(self) -> pl.DataFrame:
        """What each directory costs, all of them, the most expensive first; of each volume on each drive."""
        return self._frame("directories")

    @property
    def reads(self) -> pl.DataFrame:
        """Every read in order, with its times; of each volume on each drive."""
        return self._frame("reads")


class ReplayResult(Shown, Struct, frozen=True):
    """A real trace on drives, beside the prediction for the image it was taken from.

    Attributes
    ----------
    trace : str
        Its file.
    reads, read_bytes : int
        What it reads.
    times : tuple of Prediction
        Service time of the trace on each drive.
    expected : tuple of Prediction
        The prediction for the image, on the same drives; empty without an image.
    agreement : Score or None
        How well the predicted reads meet the real ones.
    recording : Recording or None
        Of a recording by blocks: where these are on the image, and what was used of it.
    measured : tuple of MeasuredTimes
        Of a recording that tells times: these beside those of each drive.
    host : HostTimes or None
        Of such a one, with an image: the time between reads beside that of the model.
    driver : str
        The driver whose reads are predicted, where the trace meets another version better than the usual one, and the
        properties of the host that say so.
    """

    trace: str
    reads: int
    read_bytes: int
    times: tuple[Prediction, ...]
    expected: tuple[Prediction, ...] = ()
    agreement: Score | None = None
    recording: Recording | None = None
    measured: tuple[MeasuredTimes, ...] = ()
    host: HostTimes | None = None
    driver: str = ""


class DriveFacts(Displayed, Struct, frozen=True):
    """A profile and what its simulation makes of simple reads.

    Attributes
    ----------
    profile : DriveProfile
        The numbers and their sources.
    random_ms : tuple of float
        Median, 90th and 99th percentile of random reads of 4 KiB over the whole drive, one at a time.
    sequential_mb_s : float
        Rate of large sequential reads at the start of the drive, 10^6 bytes a second.
    latencies_ms : (n,) float64 array
        The random reads themselves.
    """

    profile: DriveProfile
    random_ms: tuple[float, ...]
    sequential_mb_s: float
    latencies_ms: NDArray[np.float64]
