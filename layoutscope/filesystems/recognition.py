"""What a stretch of bytes holds, and how a structure at a fixed place identifies it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.structs import arrays, grammar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.findings import Finding
    from layoutscope.image.source import Source
    from layoutscope.structs.recordtypes import RecordType

SECTOR_BYTES: Final = 512
"""The smallest unit in which maps place partitions."""
CHUNK_BYTES: Final = 4 * 1024**2
MAX_HITS: Final = 256
"""Sectors of a piece that are looked at more closely: a sound disk has fewer, a hostile one any number."""


class MapRegion(Struct, frozen=True):
    """A structure around volumes, of a partition map or a wrapper, so that pictures can show it."""

    type: str  # what it is, such as `gpt-header`, `mbr` or `apm`
    # image_offset, length_bytes: bytes from the start of the image
    image_offset: int
    length_bytes: int
    owner: str  # which copy or link, in words


class Content(NamedTuple):
    """What was found in a stretch of bytes."""

    kind: str  # name of a file system that is read, the slug of one that is not, or `unknown`
    label: str  # the same for people
    # volume_offset, size_bytes: where it starts in the stretch, and its size, in bytes
    volume_offset: int
    size_bytes: int
    layers: tuple[str, ...] = ()  # what it is wrapped in
    name: str = ""  # of the wrapper
    regions: tuple[MapRegion, ...] = ()  # the wrapper's own structures
    findings: tuple[Finding, ...] = ()  # what is wrong with its signature
    about: str = ""  # what else is known of something that is not read, in words


def parse_at(
    stretch: Source,
    record_type: RecordType,
    volume_offset: int,  # where it would stand, in bytes from the start of the stretch
) -> Any | None:
    """Parse a structure if it is there.

    None where the stretch ends before, or the bytes are not such a structure.
    """
    length = record_type.width
    if not 0 <= volume_offset <= stretch.size_bytes - length:
        return None
    try:
        data = stretch.read(volume_offset, length)
        at = stretch.origin + volume_offset
        return grammar.parse(grammar.parser(record_type), data, structure=record_type.type_name, image_offset=at)
    except FormatError:
        return None


def stored_pieces(source: Source, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield offset and bytes of what is stored of a stretch, in large reads of whole sectors.

    Holes of sparse files and areas that were never read are passed over.
    """
    skipped = np.concatenate([source.holes, source.unread_ranges()])
    whole = arrays.runs_of(np.array([start]), np.array([min(stop, source.size_bytes) - start]))
    left = arrays.subtract(whole, arrays.runs_of(skipped[:, 0], skipped[:, 1]))
    for first, length in left.tolist():
        first_sector, end = -(-first // SECTOR_BYTES) * SECTOR_BYTES, first + length
        for at in range(first_sector, end, CHUNK_BYTES):
            yield at, np.frombuffer(source.read(at, min(CHUNK_BYTES, end - at)), np.uint8)


def sectors_with(data: NDArray[np.uint8], offset: int, place: int, magic: bytes) -> list[int]:
    """List the sectors of a piece that have some bytes at a place.

    Where the sectors start, counted like `offset`.
    """
    sectors = data[: len(data) // SECTOR_BYTES * SECTOR_BYTES].reshape(-1, SECTOR_BYTES)
    are_equal = (sectors[:, place : place + len(magic)] == np.frombuffer(magic, np.uint8)).all(axis=1)
    return [offset + row * SECTOR_BYTES for row in are_equal.nonzero()[0].tolist()]
