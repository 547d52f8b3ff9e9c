"""What is said of a recording of a real disk: where its blocks are, what was used of it, and its times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.display import Displayed, Struct

if TYPE_CHECKING:
    from layoutscope.drive.recordings import LineCounts, Place


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
