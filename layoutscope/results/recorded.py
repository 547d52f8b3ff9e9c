"""Results of ``replay`` and ``validate``: a recording of a real disk, and the kit that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import field

from layoutscope.display import Displayed, Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.files import ADJACENT, order_metrics
from layoutscope.metrics.scatter import select_own_nodes
from layoutscope.results import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.drive.recordings import LineCounts, Place
    from layoutscope.results.scan import Prediction
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.score import Score


class PlacedDevice(Displayed, Struct, frozen=True):
    """A device of a recording, and the place of its blocks on the image."""

    place: Place  # unit and start
    reads: int  # number of its reads
    tried: int  # number of metadata reads used to place it; all reads if the recording does not mark metadata
    # number of these reads on nodes of the walked trees; for a device without metadata that shares the disk of
    # another one, on any part of the volume
    on_nodes: int
    is_alike: bool = False  # whether it was placed like another device of the same disk

    @property
    def share(self) -> float:
        """Share of the tested reads that are where they should be, 0 to 1."""
        return self.on_nodes / self.tried if self.tried else 0.0


class Recording(Displayed, Struct, frozen=True):
    """The use of the lines of a recording."""

    form: str  # format of the recording
    lines: LineCounts  # counts of its lines
    placed: tuple[PlacedDevice, ...]  # devices of the image
    used: int  # number of reads that are served and compared with the prediction
    foreign: tuple[tuple[str, int], ...]  # number of reads of other disks, by device
    # number of reads that another line repeats: CoreStorage logs the file system's read and that of the disk
    twice: int
    background: int  # number of CoreStorage's own reads
    others: tuple[tuple[str, int], ...]  # number of reads of the image's devices by other programs, by process
    processes: tuple[str, ...]  # processes whose reads are used; empty if the recording does not show them
    overlapping: int  # number of used reads that overlap another one in time
    is_timed: bool  # whether it records when reads were issued and completed
    problem: str = ""  # the likely error if too few metadata reads are on nodes; else empty
    is_tried: bool = False  # whether it was compared with an image

    @property
    def tried(self) -> int:
        """Number of metadata reads used to place the devices."""
        return sum(item.tried for item in self.placed if not item.is_alike)

    @property
    def on_nodes(self) -> int:
        """Number of these reads on nodes."""
        return sum(item.on_nodes for item in self.placed if not item.is_alike)

    @property
    def share(self) -> float:
        """Share of the metadata reads on nodes, 0 to 1."""
        return self.on_nodes / self.tried if self.tried else 0.0

    @property
    def foreign_reads(self) -> int:
        """Number of reads of other disks."""
        return sum(count for _, count in self.foreign)


class OutcomeTimes(Displayed, Struct, frozen=True):
    """Measured and predicted times of the reads with one outcome in a drive's buffer, in milliseconds."""

    outcome: str  # state of the buffer at these reads, by the model
    reads: int  # number of reads
    measured_ms: tuple[float, float]  # median and 90th percentile as measured
    predicted_ms: tuple[float, float]  # median and 90th percentile as predicted


class MeasuredTimes(Displayed, Struct, frozen=True):
    """The times of the reads of a recording, compared with those of a drive profile."""

    drive: str  # name of the profile
    outcomes: tuple[OutcomeTimes, ...]  # reads that do not overlap others, by the modelled state of the buffer
    measured_s: float  # measured busy time of the drive for all reads
    predicted_s: float  # predicted busy time

    @property
    def ratio(self) -> float | None:
        """Measured over predicted time: the correction factor for this drive."""
        return self.measured_s / self.predicted_s if self.predicted_s else None


class HostTimes(Displayed, Struct, frozen=True):
    """The time of the host between the reads, as measured and as modelled."""

    # time without a pending read, from the first read to the last
    measured_us: float
    model_us: float  # the same by the model of the host
    entries: int | None  # number of entries visited

    def each_us(self) -> tuple[float, float] | None:
        """Return both times per entry."""
        return (self.measured_us / self.entries, self.model_us / self.entries) if self.entries else None


TENTHS = np.linspace(0, 1, 11)


def leaf_policy(layout: VolumeLayout) -> LeafPolicy:
    """Summarise the leaves of the enumerated tree."""
    tree = filesystem_of(layout).traits.main_tree
    # Nodes of snapshots only were written for an earlier state.
    nodes = select_own_nodes(layout, tree)
    leaves = nodes.take(nodes["kind"].equals("leaf"))
    adjacent = next(metric.value for metric in order_metrics(layout, tree) if metric.definition is ADJACENT)
    if not leaves["xid"].is_known.any():
        return LeafPolicy(len(leaves), adjacent)
    xids = leaves["xid"].present().astype(np.int64)
    _, each = np.unique(xids, return_counts=True)
    middle, high = np.quantile(each, [0.5, 0.9])
    deciles = np.quantile(xids, TENTHS, method="lower")
    return LeafPolicy(
        len(leaves),
        adjacent,
        transactions=len(each),
        leaves_per_transaction=(float(middle), float(high), float(each.max())),
        xid_deciles=tuple(int(xid) for xid in deciles),
    )


class KitMachine(Displayed, Struct, frozen=True):
    """The Mac of a kit."""

    system: str  # version of macOS
    model: str  # model of the Mac
    drive: str  # name that the whole disk reports
    solid_state: bool | None  # whether it is flash, according to `diskutil`
    device: str  # device of the volume
    container: str  # disk of its container
    physical: str  # whole disk
    unit_bytes: int | None  # block size of the volume's device, according to `diskutil`
    disks: str = ""  # the user's description of the disk and its case
    filled: str = ""  # the user's description of how the volume was filled
    cache_sizes: Mapping[str, str] = field(default_factory=dict)  # memory, and limits of vnodes and buffers


class KitWalk(Displayed, Struct, frozen=True):
    """One recorded walk."""

    name: str  # ``find``, ``ls`` or ``bulk``, with ``-2`` for the second run
    order: str  # the order that it is compared with
    why_not: str = ""  # why it cannot be scored; empty if it is
    real_s: float | None = None  # wall time measured by `time`
    cpu_s: float | None = None  # processor time measured by `time`, user and system
    replay: ReplayResult | None = None  # its recording, compared with the prediction
    entries: int | None = None  # number of entries that it printed
    notes: tuple[str, ...] = ()  # differences between the recording and the kit

    @property
    def is_hit(self) -> bool | None:
        """Whether the wall time is in the predicted interval; None if either is missing."""
        if self.replay is None or not self.replay.expected or self.real_s is None:
            return None
        expected = self.replay.expected[0]
        return expected.seconds_low <= self.real_s <= expected.seconds_high


class LeafPolicy(Displayed, Struct, frozen=True):
    """How a volume was written, according to its leaves."""

    leaves: int  # number of leaves of the walked tree
    adjacent_share: float | None  # share of the leaves whose successor in key order starts where they end
    transactions: int = 0  # number of transactions that wrote them; 0 if the file system records none
    leaves_per_transaction: tuple[float, float, float] = (0.0, 0.0, 0.0)  # median, 90th percentile and maximum
    # transactions by tenths of the leaves, the oldest first: minimum, nine deciles, maximum
    xid_deciles: tuple[int, ...] = ()


class KitResult(Shown, Struct, frozen=True):
    """A kit, scored."""

    name: str  # name of the archive
    machine: KitMachine  # the Mac that it was made on
    profile: str  # drive profile of the predictions, and why it was chosen
    walks: tuple[KitWalk, ...]  # the recorded walks
    policy: LeafPolicy | None  # statistics of the leaves; None without a capture
    filesystem: str = ""  # file system of the volume, for people
    missing: tuple[tuple[str, str], ...] = ()  # steps of the script without a result, and why

    @property
    def scored(self) -> tuple[KitWalk, ...]:
        """The walks that can be compared with a prediction."""
        return tuple(walk for walk in self.walks if walk.replay is not None)


class ReplayResult(Shown, Struct, frozen=True):
    """A real trace on drives, compared with the prediction for its image."""

    trace: str  # name of the trace file
    reads: int  # number of its reads
    read_bytes: int  # bytes read
    times: tuple[Prediction, ...]  # service time of the trace on each drive
    expected: tuple[Prediction, ...] = ()  # the prediction for the image, on the same drives; empty without an image
    agreement: Score | None = None  # agreement of the predicted reads with the real ones
    # for a recording by blocks: their places on the image, and the lines that were used
    recording: Recording | None = None
    measured: tuple[MeasuredTimes, ...] = ()  # for a recording with times: comparison with each drive
    host: HostTimes | None = None  # for such a recording with an image: time between reads, compared with the model
    # the driver version of the prediction, if another one than the default agrees better with the trace, and the host
    # properties that select it
    driver: str = ""
