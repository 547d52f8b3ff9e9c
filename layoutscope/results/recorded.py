"""What ``replay`` and ``validate`` return of a recording of a real disk, and of the kit that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import field

from layoutscope.display import Displayed, Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.files import ADJACENT, order_metrics
from layoutscope.metrics.space import select_own_nodes
from layoutscope.results import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from layoutscope.drive.recordings import LineCounts, Place
    from layoutscope.results.scan import Prediction
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.score import Score


class Wanted(Struct, frozen=True):
    """Stated facts about a recording; None and empty ones are found out."""

    unit_bytes: int | None = None  # what a block number counts
    at: int | None = None  # position of block 0, in bytes from the start of the image
    devices: tuple[str, ...] = ()  # whose reads count
    processes: tuple[str, ...] = ()  # whose reads count


class PlacedDevice(Displayed, Struct, frozen=True):
    """A device of a recording, and where its blocks are on the image."""

    place: Place  # unit and start
    reads: int  # its reads
    tried: int  # those of metadata, by which it was placed; all if the recording does not mark them
    # those of them on nodes of the trees that are walked; of a device without any metadata that shares
    # the disk of another one, on anything of the volume
    on_nodes: int
    is_alike: bool = False  # whether it was placed as another device of the same disk

    @property
    def share(self) -> float:
        """Share of the reads tried that are where they should be, 0 to 1."""
        return self.on_nodes / self.tried if self.tried else 0.0


class Recording(Displayed, Struct, frozen=True):
    """What became of a recording."""

    form: str  # its format
    lines: LineCounts  # what became of its lines
    placed: tuple[PlacedDevice, ...]  # devices of the image
    used: int  # reads that are served and compared with the prediction
    foreign: tuple[tuple[str, int], ...]  # reads of other disks, by device
    # reads that another line also lists: CoreStorage has one for the file system's read and one for that of the
    # disk
    twice: int
    background: int  # reads of CoreStorage for itself
    others: tuple[tuple[str, int], ...]  # reads of the image's devices by other programs, by process
    processes: tuple[str, ...]  # whose reads are used; empty if the recording does not show it
    overlapping: int  # of those used: under way together with another one
    is_timed: bool  # whether it records when reads were issued and complete
    problem: str = ""  # what must be wrong, if too few reads of metadata are on nodes; else an empty string
    is_tried: bool = False  # whether there was an image to try it on

    @property
    def tried(self) -> int:
        """Reads of metadata by which devices were placed."""
        return sum(item.tried for item in self.placed if not item.is_alike)

    @property
    def on_nodes(self) -> int:
        """Those of them on nodes."""
        return sum(item.on_nodes for item in self.placed if not item.is_alike)

    @property
    def share(self) -> float:
        """Share of the reads of metadata on nodes, 0 to 1."""
        return self.on_nodes / self.tried if self.tried else 0.0

    @property
    def foreign_reads(self) -> int:
        """Reads of other disks."""
        return sum(count for _, count in self.foreign)


class OutcomeTimes(Displayed, Struct, frozen=True):
    """Reads of one outcome in a drive's buffer, as measured and as predicted, in milliseconds."""

    outcome: str  # what the model says that the buffer had of them
    reads: int  # how many
    measured_ms: tuple[float, float]  # median and 90th percentile as measured
    predicted_ms: tuple[float, float]  # median and 90th percentile as predicted


class MeasuredTimes(Displayed, Struct, frozen=True):
    """The times of a recording's reads beside those of a profile."""

    drive: str  # the profile
    outcomes: tuple[OutcomeTimes, ...]  # reads that were under way alone, by the model's state of the buffer
    measured_s: float  # time in which the drive was at work on all reads, as measured
    predicted_s: float  # the same as predicted

    @property
    def ratio(self) -> float | None:
        """Measured over predicted: what this drive's times are to be multiplied by."""
        return self.measured_s / self.predicted_s if self.predicted_s else None


class HostTimes(Displayed, Struct, frozen=True):
    """What the host took between the reads, and what the model of the host says."""

    # time between reads in which no read was under way; without what came before the first and after the last
    measured_us: float
    model_us: float  # the same by the model of the host
    entries: int | None  # entries that were gone through

    def each_us(self) -> tuple[float, float] | None:
        """Return both for one entry."""
        return (self.measured_us / self.entries, self.model_us / self.entries) if self.entries else None


TENTHS = np.linspace(0, 1, 11)


def leaf_policy(layout: VolumeLayout) -> LeafPolicy:
    """Sum up the leaves of the tree that enumerations walk."""
    tree = filesystem_of(layout).traits.main_tree
    # What snapshots alone hold was written for a state that is gone.
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
    """The facts of a kit about its Mac."""

    system: str  # version of macOS
    model: str  # model of the Mac
    drive: str  # what the whole disk calls itself
    solid_state: bool | None  # whether it is flash, as `diskutil` says
    device: str  # the volume's device
    container: str  # the disk that its container makes
    physical: str  # the whole disk
    unit_bytes: int | None  # the block of the volume's device, as `diskutil` says
    disks: str = ""  # the user's words about the disk and its case
    filled: str = ""  # the user's words about how the volume was filled
    cache_sizes: Mapping[str, str] = field(default_factory=dict)  # memory, and how many vnodes and buffers there may be


class KitWalk(Displayed, Struct, frozen=True):
    """One recorded walk."""

    name: str  # as the kit calls it: ``find``, ``ls`` or ``bulk``; with ``-2`` where it was done a second time
    order: str  # the order that it is compared with
    why_not: str = ""  # why it cannot be scored; an empty string where it is
    real_s: float | None = None  # what `time` measured on the clock
    cpu_s: float | None = None  # what it measured of the processor, user and system
    replay: ReplayResult | None = None  # its recording beside the prediction
    entries: int | None = None  # entries that it printed
    notes: tuple[str, ...] = ()  # what the recording says otherwise than the kit

    @property
    def is_hit(self) -> bool | None:
        """Whether the time on the clock is in the predicted interval; None if one of them is missing."""
        if self.replay is None or not self.replay.expected or self.real_s is None:
            return None
        expected = self.replay.expected[0]
        return expected.seconds_low <= self.real_s <= expected.seconds_high


class LeafPolicy(Displayed, Struct, frozen=True):
    """How a volume was written, as far as its leaves show."""

    leaves: int  # leaves of the tree that is walked
    adjacent_share: float | None  # share of them whose successor in key order starts where they end
    transactions: int = 0  # different transactions that wrote them; 0 where the file system notes none
    leaves_per_transaction: tuple[float, float, float] = (0.0, 0.0, 0.0)  # median, 90th percentile and maximum
    # transactions by tenths of the leaves, the oldest first: minimum, nine deciles, maximum
    xid_deciles: tuple[int, ...] = ()


class KitResult(Shown, Struct, frozen=True):
    """A kit, scored."""

    name: str  # its archive
    machine: KitMachine  # what it was made on
    profile: str  # the drive that is predicted for, and why that one
    walks: tuple[KitWalk, ...]  # the recorded walks
    policy: LeafPolicy | None  # figures of the leaves; None without a capture
    filesystem: str = ""  # of the volume, as people say
    missing: tuple[tuple[str, str], ...] = ()  # steps of the script that made nothing, and why

    @property
    def scored(self) -> tuple[KitWalk, ...]:
        """The walks that can be compared with a prediction."""
        return tuple(walk for walk in self.walks if walk.replay is not None)


class ReplayResult(Shown, Struct, frozen=True):
    """A real trace on drives, beside the prediction for the image it was taken from."""

    trace: str  # its file
    reads: int  # its reads
    read_bytes: int  # their bytes
    times: tuple[Prediction, ...]  # service time of the trace on each drive
    expected: tuple[Prediction, ...] = ()  # the prediction for the image, on the same drives; empty without an image
    agreement: Score | None = None  # how well the predicted reads meet the real ones
    # of a recording by blocks: where these are on the image, and what was used of it
    recording: Recording | None = None
    measured: tuple[MeasuredTimes, ...] = ()  # of a recording with times: these beside those of each drive
    host: HostTimes | None = None  # of such a one, with an image: the time between reads beside that of the model
    # the driver whose reads are predicted, where the trace meets another version better than the usual one, and
    # the properties of the host that say so
    driver: str = ""
