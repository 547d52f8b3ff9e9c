"""Files and free space: layout score, fragments, the sizes of holes.

Input: extents and free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.arrays.lookup import dense_codes, first_places, is_ascending
from layoutscope.arrays.ragged import is_head as is_head_of
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.definition import Definition, Metric
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

LAYOUT_SCORE = Definition(
    "file-layout-score",
    "Layout score of files",
    unit="share",
    denominator="blocks of files, but first ones",
    text="Share of file blocks that lie right behind the block before them: 1 is no fragmentation.",
    citation="Smith & Seltzer, SIGMETRICS 1997 (aggregate layout score)",
)
FRAGMENTS = Definition(
    "fragments-per-file",
    "Fragments per file",
    unit="fragments",
    denominator="forks with blocks, mean",
    text="Contiguous pieces of a fork; parts count the forks by pieces.",
    citation="Sears & van Ingen, CIDR 2007",
)
FREE_EXTENTS = Definition(
    "free-extents",
    "Free extents",
    unit="extents",
    denominator="runs of free blocks",
    text="Into how many pieces the free space falls; parts are free bytes by size of the piece, in powers of two.",
    citation="e2freefrag(8), histogram of free extents",
)
FREE_LARGEST = Definition(
    "free-largest-share",
    "Largest free extent",
    unit="share",
    denominator="free bytes",
    text="Share of the free space in its largest piece.",
    citation="e2freefrag(8)",
)


FIRST_USER_ID: Final = 16
"""File systems keep the ids below 16 for themselves: TN1150, "Catalog Node IDs"; the reference's MIN_USER_INO_NUM."""


def file_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Measure the static layout score and the fragments of all forks."""
    forks = fork_fragments(user_extents(layout), layout.facts.block_size_bytes)
    # A fork of one block has no block behind another, and no part in the score (Smith & Seltzer).
    pairs = int((forks.blocks - 1).sum())
    breaks = int((forks.fragments - 1).sum())
    yield Metric(LAYOUT_SCORE, 1 - breaks / pairs if pairs else None, "files")
    mean = float(forks.fragments.mean()) if len(forks.fragments) else None
    yield Metric(FRAGMENTS, mean, "files", _counts(forks.fragments))


def user_extents(layout: VolumeLayout) -> Table:
    """Extents of files; those of special files, with ids of the file system's own, may stand in the same table."""
    extents = layout.columns("extents")
    return extents.take(extents["file_id"].data >= FIRST_USER_ID)


class Forks(NamedTuple):
    """Forks of files, an element each."""

    file_id: NDArray[np.uint64]  # their files
    # blocks, fragments: blocks, and contiguous pieces
    blocks: NDArray[np.int64]
    fragments: NDArray[np.int64]


def fork_fragments(extents: Table, block_size_bytes: int) -> Forks:
    """Count the blocks and the contiguous pieces of each fork; holes count for nothing."""
    held = _by_fork(extents.take(extents["image_offset"].is_known))
    start, length = held["image_offset"].data, held["length_bytes"].data
    is_head = is_head_of(held["file_id"].data, held["fork"].data)
    first, is_apart = np.flatnonzero(is_head), is_head
    is_apart[1:] |= start[1:] != start[:-1] + length[:-1]
    if not len(first):
        return Forks(held["file_id"].data, length, length)
    if len(first) == len(length):
        size_bytes, fragments = length.astype(np.int64, copy=False), np.ones(len(length), np.int64)
    else:
        size_bytes, fragments = (np.add.reduceat(values, first, dtype=np.int64) for values in (length, is_apart))
    return Forks(held["file_id"].data[first], -(-size_bytes // block_size_bytes), fragments)


def _by_fork(extents: Table) -> Table:
    """Extents of each fork together and in the fork's order; readers give them so, unless the volume is damaged."""
    file_id, forks, logical = (extents[name].data for name in ("file_id", "fork", "logical_offset"))
    is_head = is_head_of(file_id, forks)
    if not (~is_head[1:] & (logical[1:] <= logical[:-1])).any():
        goes_on = file_id[1:] == file_id[:-1]
        # In the order of files and forks, each fork has one run.
        if is_ascending(file_id) and not (goes_on & (forks[1:] < forks[:-1])).any():
            return extents
        (file_code,), bound = dense_codes(file_id[is_head])
        count = int(forks.max(initial=0)) + 1
        if len(first_places(file_code * count + forks[is_head], bound * count)) == len(file_code):
            return extents
    return extents.take(np.lexsort((logical, forks, file_id)))


def _counts(fragments: NDArray[np.int64]) -> tuple[tuple[str, float], ...]:
    bounds = np.array([1, 2, 3, 5, 9, 17, 65])
    labels = ("1", "2", "3-4", "5-8", "9-16", "17-64", "65+")
    counts = np.add.reduceat(np.bincount(np.minimum(fragments, bounds[-1]), minlength=bounds[-1] + 1), bounds)
    return tuple((label, float(count)) for label, count in zip(labels, counts, strict=True) if count)


def free_metrics(layout: VolumeLayout) -> Iterator[Metric]:
    """Count and sizes of the free extents."""
    length = layout.columns("free")["length_bytes"].data
    elsewhere = filesystem_of(layout).traits.has_containers and layout.facts.volume is not None
    note = "free space belongs to the container" if elsewhere else ""
    yield Metric(
        FREE_EXTENTS,
        None if elsewhere else float(len(length)),
        "free space",
        power_of_two_histogram(length, length),
        note,
    )
    yield Metric(FREE_LARGEST, float(length.max() / length.sum()) if length.sum() else None, "free space")


def power_of_two_histogram(
    sizes: NDArray[np.int64],  # in bytes; those below 1 fall into the bin `0`
    weights: NDArray[np.int64] | None = None,
) -> tuple[tuple[str, float], ...]:
    """Sum weights by the power of two at or below each size.

    Lower bound of the bin and its sum; empty bins are left out.
    """
    # Doubles hold sizes up to 8 PiB exactly; only beyond could one be rounded up to the next power.
    place = np.zeros(len(sizes), np.int64)
    positive = sizes > 0
    place[positive] = np.frexp(sizes[positive].astype(np.float64))[1]
    counts, sums = np.bincount(place), np.bincount(place, weights)
    return tuple(
        ("0" if power == 0 else format_bytes(2.0 ** (power - 1)), float(sums[power]))
        for power in np.flatnonzero(counts).tolist()
    )
