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

    from layoutscope.drive.recorded import LineCounts, Place
    from layoutscope.results.predict import ReplayResult
    from layoutscope.tables import VolumeLayout


class Wanted(Struct, frozen=True):
    """What somebody says of a recording; None and empty where it is to be found out.

    Attributes
    ----------
    unit_bytes : int or None
        What a block number counts.
    at : int or None
        Where block 0 lies, in bytes from the start of the image.
    devices, processes : tuple of str
        Whose reads count.
    """

    unit_bytes: int | None = None
    at: int | None = None
    devices: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()


class PlacedDevice(Displayed, Struct, frozen=True):
    """A device of a recording, and where its blocks are on the image.

    Attributes
    ----------
    place : Place
        Unit and start.
    reads : int
        Its reads.
    tried : int
        Those of metadata, by which it was placed; all where the recording tells none apart.
    on_nodes : int
        Those of them that lie on nodes of the trees that are walked; of a device without any metadata that shares the
        disk of another one, on anything of the volume.
    is_alike : bool
        Whether it was placed as another device of the same disk.
    """

    place: Place
    reads: int
    tried: int
    on_nodes: int
    is_alike: bool = False

    @property
    def share(self) -> float:
        """Share of the reads tried that lie where they should, 0 to 1."""
        return self.on_nodes / self.tried if self.tried else 0.0


class Recording(Displayed, Struct, frozen=True):
    """What became of a recording.

    Attributes
    ----------
    form : str
        Its format.
    lines : LineCounts
        What became of its lines.
    placed : tuple of PlacedDevice
        Devices of the image.
    used : int
        Reads that are served and held against the prediction.
    foreign : tuple of (str, int)
        Reads of other disks, by device.
    twice : int
        Reads that another line tells, too: CoreStorage has one for the file system's read and one for that of the disk.
    background : int
        Reads of CoreStorage for itself.
    others : tuple of (str, int)
        Reads of the image's devices by other programs, by process.
    processes : tuple of str
        Whose reads are used; empty where the recording does not tell.
    overlapping : int
        Of those used: under way together with another one.
    is_timed : bool
        Whether it tells when reads were asked for and complete.
    problem : str
        What must be wrong, where too few reads of metadata lie on nodes; else an empty string.
    is_tried : bool
        Whether there was an image to try it on.
    """

    form: str
    lines: LineCounts
    placed: tuple[PlacedDevice, ...]
    used: int
    foreign: tuple[tuple[str, int], ...]
    twice: int
    background: int
    others: tuple[tuple[str, int], ...]
    processes: tuple[str, ...]
    overlapping: int
    is_timed: bool
    problem: str = ""
    is_tried: bool = False

    @property
    def tried(self) -> int:
        """Reads of metadata by which devices were placed."""
        return sum(item.tried for item in self.placed if not item.is_alike)

    @property
    def on_nodes(self) -> int:
        """Those of them that lie on nodes."""
        return sum(item.on_nodes for item in self.placed if not item.is_alike)

    @property
    def share(self) -> float:
        """Share of the reads of metadata that lie on nodes, 0 to 1."""
        return self.on_nodes / self.tried if self.tried else 0.0

    @property
    def foreign_reads(self) -> int:
        """Reads of other disks."""
        return sum(count for _, count in self.foreign)


class OutcomeTimes(Displayed, Struct, frozen=True):
    """Reads of one outcome in a drive's buffer, as measured and as predicted, in milliseconds.

    Attributes
    ----------
    outcome : str
        What the model says that the buffer had of them.
    reads : int
        How many.
    measured_ms, predicted_ms : (float, float)
        Median and 90th percentile.
    """

    outcome: str
    reads: int
    measured_ms: tuple[float, float]
    predicted_ms: tuple[float, float]


class MeasuredTimes(Displayed, Struct, frozen=True):
    """The times of a recording's reads beside those of a profile.

    Attributes
    ----------
    drive : str
        The profile.
    outcomes : tuple of OutcomeTimes
        Reads that were under way alone, by what the model says of the buffer.
    measured_s, predicted_s : float
        Time in which the drive was at work on all reads.
    """

    drive: str
    outcomes: tuple[OutcomeTimes, ...]
    measured_s: float
    predicted_s: float

    @property
    def ratio(self) -> float | None:
        """Measured over predicted: what this drive's times are to be multiplied by."""
        return self.measured_s / self.predicted_s if self.predicted_s else None


class HostTimes(Displayed, Struct, frozen=True):
    """What the host took between the reads, and what the model of the host says.

    Attributes
    ----------
    measured_us, model_us : float
        Time between reads in which no read was under way; without what came before the first and after the last.
    entries : int or None
        Entries that were gone through.
    """

    measured_us: float
    model_us: float
    entries: int | None

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
    """What a kit says of its Mac.

    Attributes
    ----------
    system, model : str
        Version of macOS, and of the Mac.
    drive : str
        What the whole disk calls itself.
    solid_state : bool or None
        Whether it is flash, as `diskutil` says.
    device, container, physical : str
        The volume's device, the disk that its container makes, and the whole disk.
    unit_bytes : int or None
        The block of the volume's device, as `diskutil` says.
    cache_sizes : mapping of str to str
        Memory, and how many vnodes and buffers there may be.
    """

    system: str
    model: str
    drive: str
    solid_state: bool | None
    device: str
    container: str
    physical: str
    unit_bytes: int | None
    cache_sizes: Mapping[str, str] = field(default_factory=dict)


class KitWalk(Displayed, Struct, frozen=True):
    """One recorded walk.

    Attributes
    ----------
    name : str
        As the kit calls it: ``find``, ``ls`` or ``bulk``.
    order : str
        The order that it is held against.
    why_not : str
        Why it cannot be scored; an empty string where it is.
    real_s, cpu_s : float or None
        What `time` measured: on the clock, and of the processor (user and system).
    replay : ReplayResult or None
        Its recording beside the prediction.
    entries : int or None
        Entries that it printed.
    notes : tuple of str
        What the recording says otherwise than the kit.
    """

    name: str
    order: str
    why_not: str = ""
    real_s: float | None = None
    cpu_s: float | None = None
    replay: ReplayResult | None = None
    entries: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_hit(self) -> bool | None:
        """Whether the time on the clock lies in the predicted interval; None where there is not both."""
        if self.replay is None or not self.replay.expected or self.real_s is None:
            return None
        expected = self.replay.expected[0]
        return expected.seconds_low <= self.real_s <= expected.seconds_high


class LeafPolicy(Displayed, Struct, frozen=True):
    """How a volume came to lie as it does, as far as its leaves tell.

    Attributes
    ----------
    leaves : int
        Leaves of the tree that is walked.
    adjacent_share : float or None
        Share of them whose successor in key order starts where they end.
    transactions : int
        Different transactions that wrote them; 0 where the file system notes none.
    leaves_per_transaction : (float, float, float)
        Median, 90th percentile and maximum.
    xid_deciles : tuple of int
        Transactions by tenths of the leaves, the oldest first: minimum, nine deciles, maximum.
    """

    leaves: int
    adjacent_share: float | None
    transactions: int = 0
    leaves_per_transaction: tuple[float, float, float] = (0.0, 0.0, 0.0)
    xid_deciles: tuple[int, ...] = ()


class KitResult(Shown, Struct, frozen=True):
    """A kit, scored.

    Attributes
    ----------
    name : str
        Its archive.
    machine : KitMachine
        What it was made on.
    profile : str
        The drive that is predicted for, and why that one.
    walks : tuple of KitWalk
        The recorded walks.
    policy : LeafPolicy or None
        What the leaves tell; None without a capture.
    filesystem : str
        Of the volume, as people say.
    missing : tuple of (str, str)
        Steps of the script that made nothing, and why.
    """

    name: str
    machine: KitMachine
    profile: str
    walks: tuple[KitWalk, ...]
    policy: LeafPolicy | None
    filesystem: str = ""
    missing: tuple[tuple[str, str], ...] = ()

    @property
    def scored(self) -> tuple[KitWalk, ...]:
        """The walks that could be held against a prediction."""
        return tuple(walk for walk in self.walks if walk.replay is not None)
