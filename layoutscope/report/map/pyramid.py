"""What each cell of a disk holds, exactly, at the finest cells that a page can carry.

Every byte of the range is of one class. A class is kept as runs of cells that hold equally many of its bytes, so that a
terabyte of free space is one run, and the cells of a wider level are sums of two narrower ones: no share is estimated
at any zoom. The page adds the wider levels itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.intervals import intersect, runs_of, subtract, total, union
from layoutscope.frozen import frozen
from layoutscope.report.map.segments import DAMAGED, FREE, LOCKED, METADATA, REGION, UNCLAIMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.segments import MapClass, Segments

    Runs = NDArray[np.int64]

RUN_BUDGET: Final = 600_000
"""Runs that a page carries for one disk; past it the finest cells are wider than a block."""

USED_SHARE: Final = 0.998
"""Share of the used bytes that the first view shows; copies of headers at the far end of a disk are left out."""

_BAD: Final = frozenset({DAMAGED.key, LOCKED.key})


@frozen
class Share:
    """One class on a disk: (n, 2) first bytes, from the start of the range, and lengths; disjoint and ascending."""

    item: MapClass
    runs: Runs

    @property
    def size_bytes(self) -> int:
        """How much of the disk is of this class, in bytes."""
        return total(self.runs)


@frozen
class Cells:
    """Cells that hold any of one class, as runs of equal ones in ascending order; all arrays have shape (n,)."""

    # first, count: first cell of each run, and how many cells it has
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    held: NDArray[np.int64]  # units of the class in each of its cells

    def __len__(self) -> int:
        return len(self.first)


@frozen
class Pyramid:
    """The finest level."""

    # unit_bytes, cell_bytes: what is counted, and the width of a cell: a whole number of units, and a power of two of
    # blocks
    unit_bytes: int
    cell_bytes: int
    cells: tuple[Cells, ...]  # one for each class, in the order of the shares


def partition(
    segments: Segments,
    image_offset: int,  # image_offset, size_bytes: the range, in bytes of the image
    size_bytes: int,
    block_bytes: int,  # allocation block of the file system, in bytes
) -> tuple[Share, ...]:
    """Give each byte of a range to one class.

    What is told of twice belongs to the first that claims it: damaged and locked nodes, then the classes in the order
    of the legend, so that a node counts as its tree's and not as data of the file that holds the tree.
    """
    left = np.array([[0, size_bytes]], np.int64)
    runs: dict[str, Runs] = {}
    for code in sorted(range(len(segments.classes)), key=lambda code: segments.classes[code].key not in _BAD):
        own = segments.class_id == code
        claimed = runs_of(segments.start[own] - image_offset, segments.length[own])
        runs[segments.classes[code].key] = intersect(claimed, left)
        left = subtract(left, claimed)
    # A block that holds a header or its copy, of 512 bytes, holds nothing else: its rest is metadata, too.
    begun = _whole_blocks([runs[item.key] for item in segments.classes if item.group == METADATA], block_bytes)
    runs[REGION.key] = union([runs[REGION.key], intersect(left, begun)])
    runs[UNCLAIMED.key] = union([runs[UNCLAIMED.key], subtract(left, begun)])
    return tuple(Share(item, runs[item.key]) for item in segments.classes)


def _whole_blocks(sets: Sequence[Runs], block_bytes: int) -> Runs:
    runs = union(sets)
    first, end = runs[:, 0] // block_bytes, -(-runs.sum(axis=1) // block_bytes)
    return runs_of(first * block_bytes, (end - first) * block_bytes)


def pyramid(
    shares: Sequence[Share],
    block_bytes: int,  # width of the narrowest cells, in bytes
    budget: int = RUN_BUDGET,
) -> Pyramid:
    """Count what the cells hold, in the narrowest ones for which the budget is enough."""
    unit = _unit(shares, block_bytes)
    kept = [share.runs // unit if share.item.group != FREE else np.empty((0, 2), np.int64) for share in shares]
    width = block_bytes // unit
    cells = tuple(_cells(runs, width) for runs in kept)
    while sum(map(len, cells)) > budget:
        width *= 2
        cells = tuple(_cells(runs, width) for runs in kept)
    return Pyramid(unit, width * unit, cells)


def _unit(shares: Sequence[Share], block_bytes: int) -> int:
    """Return the largest power of two that divides the block and every edge."""
    # What all have in common is the lowest bit that is set in any of them.
    bits = block_bytes
    for share in shares:
        bits |= int(np.bitwise_or.reduce(share.runs, axis=None)) if len(share.runs) else 0
    return bits & -bits


def _cells(runs: Runs, width: int) -> Cells:
    """Count the units of disjoint runs in cells of a width: full cells as runs, the ends of runs one by one."""
    start, end = runs[:, 0], runs.sum(axis=1)
    first, last = -(-start // width), end // width
    within = first > last  # begins and ends in the same cell, and fills it nowhere
    head, tail = (start % width > 0) & ~within, (end % width > 0) & ~within
    cell = np.concatenate([start[within] // width, start[head] // width, last[tail]])
    held = np.concatenate([(end - start)[within], width - start[head] % width, end[tail] % width])
    full = (last > first) & ~within
    return _joined(*_summed(cell, held), first[full], (last - first)[full], width)


def _summed(cell: NDArray[np.int64], held: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add what lies in the same cell."""
    order = np.argsort(cell, kind="stable")
    cell, held = cell[order], held[order]
    heads = np.flatnonzero(np.diff(cell, prepend=-1))
    return cell[heads], np.add.reduceat(held, heads) if len(heads) else held


def _joined(
    cell: NDArray[np.int64], held: NDArray[np.int64], first: NDArray[np.int64], count: NDArray[np.int64], width: int
) -> Cells:
    """Put single cells and full runs together; neighbours that hold equally much are one run."""
    starts = np.concatenate([cell, first])
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    counts = np.concatenate([np.ones_like(cell), count])[order]
    values = np.concatenate([held, np.full(len(first), width)])[order]
    fresh = (starts[1:] != (starts + counts)[:-1]) | (values[1:] != values[:-1])
    heads = np.flatnonzero(np.concatenate([np.ones(min(1, len(starts)), bool), fresh]))
    return Cells(starts[heads], np.add.reduceat(counts, heads) if len(heads) else counts, values[heads])


def held_by(
    shares: Sequence[Share],
    edges: NDArray[np.int64],  # ascending bytes from the start of the range
) -> NDArray[np.int64]:
    """Count the bytes of each class between edges."""
    return np.stack([np.diff(_below(share.runs, edges)) for share in shares])


def _below(runs: Runs, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the bytes of a class below each edge."""
    sums = np.concatenate([[0], np.cumsum(runs[:, 1])])
    place = np.searchsorted(runs[:, 0], edges, side="right")
    inside = np.maximum(0, runs[place - 1].sum(axis=1) - edges) if len(runs) else 0
    return sums[place] - np.where(place > 0, inside, 0)


def used_span(shares: Sequence[Share]) -> int:
    """Return how many bytes from the start of the range hold nearly all that is in use."""
    runs = union([share.runs for share in shares if share.item.group != FREE])
    if not len(runs):
        return 0
    held = np.cumsum(runs[:, 1])
    last = int(np.searchsorted(held, held[-1] * USED_SHARE))
    return int(runs[last].sum())
