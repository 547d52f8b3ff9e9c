"""What a map is made of: plain data that the api fills and the page draws."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout


@frozen
class MapWalk:
    """One predicted walk on one drive."""

    # order, drive: workload and profile
    order: str
    drive: str
    trace: AccessTrace  # its reads
    service_s: NDArray[np.float64]  # service time of each read, in seconds, host time not included
    causes_s: Mapping[str, float]  # seconds by cause: seek, rotation, transfer, overhead, host
    best_s: float | None = None  # time with the best remedy that needs no other drive; None where none helps
    best: str = ""  # that remedy, in a few words
    interval_s: tuple[float, float] | None = None  # low and high end of the prediction
    entries: int = 0  # files and directories that it lists
    volume: int = 0  # place of the volume that it goes through among its disk's layouts
    name: str = ""  # what tells that volume from others of its disk; empty where there is one

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return sum(self.causes_s.values())

    @property
    def read_seconds(self) -> NDArray[np.float64]:
        """What each read takes with the host's work before it, (n_reads,); the last one with what follows, too."""
        found: NDArray[np.float64] = self.service_s + self.trace.think_us * 1e-6
        found[-1:] += self.trace.after_us * 1e-6
        return found


@frozen
class MapFact:
    """One table of facts: a title, column heads, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@frozen
class MapDisk:
    """One image on the page."""

    # title, subtitle: name of the image or volume, and its layer stack
    title: str
    subtitle: str
    layouts: list[VolumeLayout]  # all views that share the disk, the container's own among them
    # image_offset, size_bytes: the range that is drawn
    image_offset: int
    size_bytes: int
    block_size_bytes: int  # smallest cell
    walks: list[MapWalk] = field(default_factory=list)  # predictions, the first one is shown first
    facts: list[MapFact] = field(default_factory=list)  # tables of the text report
    story: tuple[str, ...] = ()  # sentences that say what the disk shows, the most important first
    kind: str = ""  # variant of its file system, as sentences name it
    coverage: float | None = 1.0  # share of the known metadata that was read; None where that is unknown
    warnings: tuple[str, ...] = ()  # sentences that must be read before any number: what is locked, damaged, missing
    # checkpoints and snapshots with their transactions, where the file system has them
    states: list[tuple[str, int]] = field(default_factory=list)
    device: int = 0  # which image of a set it is; 0 for all others
    # what tells its volumes apart, by the places of their layouts; empty where there is one
    called: Mapping[int, str] = field(default_factory=dict)
    # so many of the last layouts are an earlier state of the disk, which the others are set against
    num_earlier: int = 0


def first_walks(disk: MapDisk) -> list[MapWalk]:
    """Return the walk of each volume of a disk that is shown first: in one order, on one drive."""
    return [walk for walk in disk.walks if (walk.order, walk.drive) == (disk.walks[0].order, disk.walks[0].drive)]


def images_of(disks: Sequence[MapDisk]) -> list[MapDisk]:
    """Return the disks without the further devices of sets: what is told once of each volume is told of these."""
    return [disk for disk in disks if not disk.device]
