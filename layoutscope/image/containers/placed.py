"""Disks whose blocks a file holds in any order: what a table of blocks comes to, read in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.intervals import runs_of, subtract
from layoutscope.findings import Finding
from layoutscope.image.ddrescue import RescuedSource
from layoutscope.image.source import FillingSource, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


def open_placed(
    source: Source,
    what: str,
    size_bytes: int,
    unit_bytes: int,
    numbers: I64,  # numbers, offsets: which blocks of the disk are stored, in any order, and where in the file
    offsets: I64,
    *,
    first_offset: int = 0,
    unread: I64 | None = None,  # ranges of the disk of which nothing is known: offset and length in bytes
    findings: Sequence[Finding] = (),
) -> Source:
    """Open a disk by the places of its blocks; what lies behind the end of the file counts as never read."""
    told = list(findings)
    # Two names for one block of the file, or two places of one block of the disk: one is wrong, and nothing tells
    # which.
    doubtful = _is_repeated(numbers) | _is_repeated(offsets) | (offsets < first_offset)
    lost = [] if unread is None else [unread]
    if doubtful.any():
        first = int(numbers[doubtful].min()) * unit_bytes
        told.append(Finding(
            "container-invalid", "error", what, int(offsets[doubtful].min()),
            f"its table names {int(doubtful.sum()):,} blocks where no block can be, or twice; they count as not read, "
            f"the first at byte {first:,} of the disk",
        ))  # fmt: skip
        lost.append(_ranges(numbers[doubtful], unit_bytes, size_bytes))
    numbers, offsets = numbers[~doubtful], offsets[~doubtful]
    order = np.argsort(numbers, kind="stable")
    numbers, offsets = numbers[order], offsets[order]
    wanted = np.minimum(unit_bytes, size_bytes - numbers * unit_bytes)
    stored = np.clip(source.size_bytes - offsets, 0, wanted)
    cut = stored < wanted
    if cut.any():
        missing = int((wanted - stored).sum())
        told.append(Finding(
            "image-incomplete", "error", what, source.size_bytes,
            f"the file ends at byte {source.size_bytes:,}; {missing:,} bytes that it should hold are missing",
            f"an end at byte {int((offsets + wanted)[cut].max()):,}", f"{source.size_bytes:,}",
        ))  # fmt: skip
        starts = numbers * unit_bytes + stored
        lost.append(runs_of(starts[cut], (wanted - stored)[cut]))
    disk = PlacedSource(source, size_bytes, _joined(numbers * unit_bytes, stored, offsets))
    disk.own_findings = tuple(told)
    lost.append(disk.below_unread())
    ranges = runs_of(*np.concatenate(lost).T)
    return RescuedSource(disk, ranges) if len(ranges) else disk


def _is_repeated(values: I64) -> NDArray[np.bool_]:
    """Whether a number occurs more than once."""
    _, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    repeated: NDArray[np.bool_] = times[inverse] > 1
    return repeated


def _ranges(numbers: I64, unit_bytes: int, size_bytes: int) -> I64:
    starts = numbers * unit_bytes
    return runs_of(starts, np.minimum(unit_bytes, size_bytes - starts))


def _joined(start: I64, length: I64, offset: I64) -> I64:
    """Join blocks that follow one another on the disk and in the file; shape (n, 3): start, length, place in the file.

    Only whole blocks are followed by another one.
    """
    kept = length > 0
    start, length, offset = start[kept], length[kept], offset[kept]
    follows = (start[1:] == start[:-1] + length[:-1]) & (offset[1:] == offset[:-1] + length[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~follows])[: len(start)])
    lengths = np.add.reduceat(length, first) if len(first) else length
    return np.stack([start[first], lengths, offset[first]], axis=1)


class PlacedSource(FillingSource):
    """The disk; what is not stored reads as zeros."""

    def __init__(self, source: Source, size_bytes: int, runs: I64) -> None:
        self._source = self.around = source
        self._runs = runs
        self.name = source.name
        self.size_bytes = size_bytes
        self.counter = source.counter

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        stop = image_offset + len(target)
        starts = self._runs[:, 0]
        first = int(np.searchsorted(starts + self._runs[:, 1], image_offset, side="right"))
        last = int(np.searchsorted(starts, stop))
        done = image_offset
        for start, length, place in self._runs[first:last].tolist():
            low, high = max(start, image_offset), min(start + length, stop)
            target[done - image_offset : low - image_offset] = bytes(low - done)
            self._source.read_into(place + low - start, target[low - image_offset : high - image_offset])
            self.counter.hole_bytes += low - done
            done = high
        target[done - image_offset :] = bytes(stop - done)
        self.counter.hole_bytes += stop - done
        return len(target)

    def below_unread(self) -> I64:
        """Ranges of the disk that lie where the file was never read, shape (n, 2)."""
        start, length, place = self._runs.T
        parts = [np.empty((0, 2), np.int64)]
        for low, size in self._source.unread_ranges().tolist():
            first, last = np.maximum(place, low), np.minimum(place + length, low + size)
            hit = last > first
            parts.append(np.stack([start + first - place, last - first], axis=1)[hit])
        return np.concatenate(parts)

    @property
    def holes(self) -> I64:
        """Areas that the file does not store, shape (n, 2): offset and length in bytes."""
        return subtract(np.array([[0, self.size_bytes]]), runs_of(self._runs[:, 0], self._runs[:, 1]))

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def open_joined(sources: Sequence[Source]) -> Source:
    """Open several sources, one behind the other, as one disk that has the name of the first."""
    whole = JoinedSource(sources)
    unread = np.concatenate([
        each.unread_ranges() + np.array([start, 0]) for each, start in zip(sources, whole.starts, strict=True)
    ])  # fmt: skip
    return RescuedSource(whole, unread) if len(unread) else whole


class JoinedSource(FillingSource):
    """Several sources, one behind the other, as one disk."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self._ends = np.cumsum([each.size_bytes for each in sources])
        self.starts = self._ends - [each.size_bytes for each in sources]
        self.name = sources[0].name
        self.size_bytes = int(self._ends[-1])
        self.counter = sources[0].counter

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the files of the parts."""
        return tuple(item for each in self._sources for item in each.findings)

    @property
    def holes(self) -> I64:
        """Areas that the parts do not store, shape (n, 2): offset and length in bytes."""
        return np.concatenate([
            each.holes + np.array([start, 0]) for each, start in zip(self._sources, self.starts, strict=True)
        ])  # fmt: skip

    def close(self) -> None:
        """Close all parts."""
        for each in self._sources:
            each.close()

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        done, number = 0, int(np.searchsorted(self._ends, image_offset, side="right"))
        while done < len(target):
            part = self._sources[number]
            start = image_offset + done - int(self.starts[number])
            length = min(len(target) - done, part.size_bytes - start)
            part.read_into(start, target[done : done + length])
            done += length
            number += 1
        return done
