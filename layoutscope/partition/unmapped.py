"""Volumes that no partition map names: found by their own structures, with the map entry that would name them.

Without a map nothing says where a volume starts. The start of the disk is searched sector by sector in large reads.
Then follow single places where partitions usually start, and the end of the disk, where a copy of a header may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.recognition import SECTOR_BYTES, stored_pieces
from layoutscope.filesystems.registry import filesystem, filesystems
from layoutscope.findings import Finding
from layoutscope.frozen import frozen
from layoutscope.image.source import Window
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.recognition import Content
    from layoutscope.image.source import Source

MIB: Final = 1024**2
THOROUGH_BYTES: Final = 64 * MIB
"""From the start, searched sector by sector."""
LAST_STEP: Final = 512 * MIB
"""Up to here each whole MiB is looked at: partitions are aligned to it."""
AFTER_EFI: Final = 409_640
"""Sector where the first volume of most Macs starts, behind an EFI system partition of 200 MiB."""
PLACE_BYTES: Final = 4096
"""Read at a single place: both a superblock and a volume header are in it."""
END_BYTES: Final = MIB
EVERYTHING: Final = "every sector of the image"


@frozen
class Unmapped:
    """What a search found where no map names anything."""

    contents: tuple[Content, ...]  # volumes, by their offset in the image
    words: str  # what was searched


def search_unmapped(
    source: Source,
    taken: I64,  # set of stretches that hold something else: offset and length in bytes
    *,
    whole: bool,
) -> Unmapped:
    """Search a disk for volumes."""
    places, words = (_left(source.size_bytes, taken), EVERYTHING) if whole else _bounded(source.size_bytes)
    disk = Window(source, 0, source.size_bytes)
    sure: list[Content] = []
    unsure: list[Content] = []
    for start, length in places:
        for content in found_in(
            disk,
            start,
            length,
            intervals.union([taken, stretches((item.volume_offset, item.size_bytes) for item in sure)]),
        ):
            if not any(_overlap(content, other) for other in sure):
                (unsure if is_doubtful(content) else sure).append(content)
    # What nothing confirms may be left over from anything; it is read where there is nothing better.
    found = sure or unsure[:1]
    return Unmapped(tuple(sorted(found, key=lambda item: item.volume_offset)), words)


def is_doubtful(content: Content) -> bool:
    """Whether nothing confirms where a volume starts."""
    return any(item.code == "start-uncertain" for item in content.findings)


def _left(size_bytes: int, taken: I64) -> list[tuple[int, int]]:
    """List the stretches that hold nothing known, from the sector in which each begins."""
    left = intervals.subtract(np.array([[0, size_bytes]]), taken)
    starts = left[:, 0] // SECTOR_BYTES * SECTOR_BYTES
    return list(zip(starts.tolist(), (left.sum(axis=1) - starts).tolist(), strict=True))


def _bounded(size_bytes: int) -> tuple[list[tuple[int, int]], str]:
    """List the stretches that are searched unless all of the disk is, and describe them."""
    steps = {AFTER_EFI * SECTOR_BYTES, *range(THOROUGH_BYTES, LAST_STEP + 1, MIB)}
    single = [place for place in sorted(steps) if place < size_bytes - END_BYTES]
    places = [(0, THOROUGH_BYTES), *((place, PLACE_BYTES) for place in single)]
    if size_bytes <= THOROUGH_BYTES:
        return places, EVERYTHING
    # The last sectors belong to the map, in whose units the volume ends.
    end = max(THOROUGH_BYTES, size_bytes // SECTOR_BYTES * SECTOR_BYTES - END_BYTES)
    first, last = format_bytes(THOROUGH_BYTES), format_bytes(END_BYTES)
    likely = f", {len(single):,} likely places" if single else ""
    return [*places, (end, END_BYTES)], f"the first {first}{likely} and the last {last}"


def found_in(
    disk: Window,
    start: int,  # start, length: what is searched, sector by sector, in bytes
    length: int,
    taken: I64 | None = None,  # set of stretches that hold something else: offset and length in bytes
) -> Iterator[Content]:
    """Yield what begins like a volume in a stretch of a disk, outside of what is taken."""
    taken = stretches(()) if taken is None else taken
    for offset, data in stored_pieces(disk, start, start + length):
        for item in filesystems():
            for content in item.find_in(disk, data, offset):
                inside = intervals.intersect(taken, stretches([(content.volume_offset, 1)]))
                if not len(inside):
                    yield content


def stretches(places: Iterable[tuple[int, int]]) -> I64:
    """Make a set of stretches of offsets and lengths."""
    table = np.array([*places], np.int64).reshape(-1, 2)
    return intervals.runs_of(table[:, 0], table[:, 1])


def _overlap(first: Content, second: Content) -> bool:
    return (
        first.volume_offset < second.volume_offset + second.size_bytes
        and second.volume_offset < first.volume_offset + first.size_bytes
    )


def missing_entry(
    source: Source,
    content: Content,
    scheme: str,  # the kind of map that the disk has, or a `GPT` where it has none
    *,
    has_map: bool,
) -> Finding:
    """Report a volume that no map names, with the entry that would."""
    at, size = content.volume_offset, content.size_bytes
    message = (
        f"{content.label} of {format_bytes(size)} begins here, where no partition is; {_entry(source, content, scheme)}"
    )
    return Finding("volume-unpartitioned", "warning" if has_map else "info", "partition map", at, message)


def _entry(source: Source, content: Content, scheme: str) -> str:
    if content.regions:
        return f"it is inside an {content.layers[-1]}, to which a map entry would lead"
    at, size = content.volume_offset, content.size_bytes
    unit = source.sector_size_bytes
    if at % unit or size % unit:
        unit = SECTOR_BYTES
    if at % unit:
        return "a map could not name it, as it does not begin with a sector"
    types = filesystem(content.kind).traits.partition_types
    known = {"GPT": [name.upper() for name in types.gpt], "APM": list(types.apm), "MBR": ["AF"]}[scheme]
    first, count = at // unit, -(-size // unit)
    return (
        f"the {scheme} entry for it: type {known[0]}, first sector {first:,}, {count:,} sectors of {unit:,} bytes "
        f"(last sector {first + count - 1:,})"
    )
