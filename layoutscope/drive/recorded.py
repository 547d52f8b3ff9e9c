"""Recordings of somebody's disk: reads by a device's own block numbers, before it is known where on an image they are.

What block numbers count, and from where, no such recording tells (:mod:`layoutscope.analysis.placing` finds it out); a
:class:`Place` says it for one device, and :meth:`Recorded.trace` makes of its reads what drives serve.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.display import Displayed
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HIGHEST_BLOCK: Final = 1 << 54
"""A block number beyond it is none of a disk: in blocks of 512 bytes it lies behind 8 EiB."""

LONGEST_READ: Final = 1 << 40

FILE_SYSTEM, CHUNK, BELOW = 0, 1, 2
"""Who asked for a read: a file system; CoreStorage, on behalf of one; CoreStorage for itself."""


@frozen
class LineCounts(Displayed):
    """What became of the lines of a recording."""

    reads: int = 0  # reads of disks, those of CoreStorage among them
    # writes, failed: writes; reads that ended in an error or brought nothing
    writes: int = 0
    failed: int = 0
    other: int = 0  # lines of calls, titles and notes, which no disk has served
    unparsed: int = 0  # lines that begin as a read of a disk, and do not go on as one
    first_unparsed: int = 0  # the number of the first of them, from 1; 0 where there is none
    lost: int = 0  # lines in which the recorder says that it lost events


@frozen
class Read:
    """One read as a line of a recording tells it; times in microseconds of the recorder's clock, NaN where not told."""

    block: int
    length_bytes: int
    device: str
    process: str
    is_metadata: bool = False
    layer: int = FILE_SYSTEM
    issued_us: float = float("nan")
    done_us: float = float("nan")


@frozen
class Place(Displayed):
    """Where on an image the blocks of a recorded device are."""

    device: str  # its name in the recording
    unit_bytes: int  # what a block number counts
    # where block 0 lies, in bytes from the start of the image; negative where the image begins behind it
    image_offset: int = 0
    image_device: int = 0  # image of a Fusion set, 0 otherwise


@frozen
class Recorded(Displayed):
    """Reads in the order in which they were issued; all arrays have shape (n_reads,)."""

    # form, host: the format, and the host whose tool writes it
    form: str
    host: str
    unit_bytes: int | None  # what block numbers count where the format fixes it
    # block, length_bytes: first block, and length in bytes
    block: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    # device, process: indexes into `devices` and `processes`
    device: NDArray[np.uint32]
    process: NDArray[np.uint32]
    is_metadata: NDArray[np.bool_]  # whether the recording calls it a read of metadata
    layer: NDArray[np.uint8]  # who asked for it: `FILE_SYSTEM`, `CHUNK` or `BELOW`
    # issued_us, done_us: when it was asked for and complete, in microseconds; NaN where that is not told
    issued_us: NDArray[np.float64]
    done_us: NDArray[np.float64]
    # devices, processes: names
    devices: tuple[str, ...]
    processes: tuple[str, ...]
    lines: LineCounts  # what became of the lines

    def __len__(self) -> int:
        return len(self.block)

    def __getitem__(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Recorded:
        """Select reads."""
        arrays = ("block", "length_bytes", "device", "process", "is_metadata", "layer", "issued_us", "done_us")
        return replace(self, **{name: getattr(self, name)[rows] for name in arrays})

    def of_devices(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the reads of some devices, named with or without their folder."""
        wanted = {name.removeprefix("/dev/") for name in names}
        found: NDArray[np.bool_] = np.isin(
            self.device, [code for code, name in enumerate(self.devices) if name in wanted]
        )
        return found

    def of_processes(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the reads of some processes."""
        found: NDArray[np.bool_] = np.isin(
            self.process, [code for code, name in enumerate(self.processes) if name in set(names)]
        )
        return found

    def offsets(self, places: Sequence[Place]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]:
        """Return where the reads are on an image, on which image of a set, and which of them have a place."""
        offset, image, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.uint8), np.zeros(len(self), bool)
        for place in places:
            rows = self.of_devices([place.device])
            offset[rows] = self.block[rows] * place.unit_bytes + place.image_offset
            image[rows], known[rows] = place.image_device, True
        return offset, image, known & (offset >= 0)

    def trace(self, places: Sequence[Place]) -> AccessTrace:
        """Make a trace of the reads that have a place; think times follow where completions are told."""
        offset, image, known = self.offsets(places)
        there = self[known]
        trace = AccessTrace.from_reads(offset[known], there.length_bytes)
        trace.device[:] = image[known]
        trace.think_us[:] = there.gaps_us()
        return trace

    @property
    def is_timed(self) -> bool:
        """Whether it tells of each read when it was asked for and when it was complete."""
        return len(self) > 0 and bool(np.isfinite(self.issued_us).all() and np.isfinite(self.done_us).all())

    def gaps_us(self) -> NDArray[np.float64]:
        """Return the time before each read in which no other was under way; zeros where times are not told."""
        if not self.is_timed:
            return np.zeros(len(self))
        idle = self.issued_us[1:] - np.maximum.accumulate(self.done_us)[:-1]
        return np.concatenate([[0.0], np.maximum(idle, 0.0)])

    def busy_us(self) -> float:
        """Return the time in which at least one read was under way."""
        if not self.is_timed:
            return 0.0
        return float(self.done_us.max() - self.issued_us[0] - self.gaps_us().sum())

    def overlaps(self) -> NDArray[np.bool_]:
        """Mark reads that were under way together with another one, whose time is not theirs alone."""
        if not self.is_timed or len(self) == 0:
            return np.zeros(len(self), bool)
        late = self.issued_us[1:] < np.maximum.accumulate(self.done_us)[:-1]
        # Of several that are late for one long read, that one is marked by the first of them.
        shared = np.zeros(len(self), bool)
        shared[1:] |= late
        shared[:-1] |= late
        return shared


def recording(reads: Sequence[Read], lines: LineCounts, *, form: str, host: str, unit_bytes: int | None) -> Recorded:
    """Put reads together in the order in which they were issued."""
    issued = np.array([read.issued_us for read in reads], np.float64)
    order = np.argsort(issued, kind="stable")
    devices, device = np.unique([read.device for read in reads] or np.zeros(0, str), return_inverse=True)
    processes, process = np.unique([read.process for read in reads] or np.zeros(0, str), return_inverse=True)
    told = Recorded(
        form=form,
        host=host,
        unit_bytes=unit_bytes,
        block=np.array([read.block for read in reads], np.int64),
        length_bytes=np.array([read.length_bytes for read in reads], np.int64),
        device=device.astype(np.uint32),
        process=process.astype(np.uint32),
        is_metadata=np.array([read.is_metadata for read in reads], bool),
        layer=np.array([read.layer for read in reads], np.uint8),
        issued_us=issued,
        done_us=np.array([read.done_us for read in reads], np.float64),
        devices=tuple(str(name) for name in devices),
        processes=tuple(str(name) for name in processes),
        lines=lines,
    )
    return told[order]
