"""Contents of a stretch of bytes, and their recognition by structures at fixed offsets."""

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
"""The smallest unit in which partition maps place partitions."""
CHUNK_BYTES: Final = 4 * 1024**2
MAX_HITS: Final = 256
"""Maximum number of sectors per piece to examine: a sound disk has fewer matches, a hostile one any number."""


class MapRegion(Struct, frozen=True):
    """A structure outside of volumes, from a partition map or a wrapper, for display."""

    type: str  # its type, such as `gpt-header`, `mbr` or `apm`
    # image_offset, length_bytes: bytes from the start of the image
    image_offset: int
    length_bytes: int
    owner: str  # which copy or link, as text


class Content(NamedTuple):
    """A recognised content of a stretch of bytes."""

    kind: str  # name of a readable file system, slug of an unreadable one, or `unknown`
    label: str  # label for users
    # volume_offset, size_bytes: its start in the stretch, and its size, in bytes
    volume_offset: int
    size_bytes: int
    layers: tuple[str, ...] = ()  # the layers that wrap it
    regions: tuple[MapRegion, ...] = ()  # the wrapper's own structures
    findings: tuple[Finding, ...] = ()  # problems with its signature
    about: str = ""  # further facts about content that is not read, as text


def parse_at(
    stretch: Source,
    record_type: RecordType,
    volume_offset: int,  # its expected offset, in bytes from the start of the stretch
) -> Any | None:
    """Parse a structure; return None if the stretch ends before it, or if the bytes are not such a structure."""
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
    """Yield offset and bytes of the parts of a stretch that are stored and were read, in reads of whole sectors."""
    skipped = np.concatenate([source.holes, source.unread_ranges()])
    whole = arrays.runs_of(np.array([start]), np.array([min(stop, source.size_bytes) - start]))
    left = arrays.subtract(whole, arrays.runs_of(skipped[:, 0], skipped[:, 1]))
    for first, length in left.tolist():
        first_sector, end = -(-first // SECTOR_BYTES) * SECTOR_BYTES, first + length
        for at in range(first_sector, end, CHUNK_BYTES):
            yield at, np.frombuffer(source.read(at, min(CHUNK_BYTES, end - at)), np.uint8)


def stored_units(source: Source, size_bytes: int, unit_bytes: int) -> NDArray[np.int64]:
    """List the runs of units in the first bytes of a source that hold stored data, shape (n, 2): first and count.

    A sparse file may claim any size at no cost, so the work must depend on the stored data.
    """
    holes, num_units = source.holes, -(-size_bytes // unit_bytes)
    source.counter.hole_bytes += arrays.total(holes)
    skipped = np.concatenate([holes, source.unread_ranges()])
    stop = skipped.sum(axis=1)
    first = -(-skipped[:, 0] // unit_bytes)
    # The last unit ends with the data, which may end anywhere in it.
    last = np.where(stop >= size_bytes, num_units, stop // unit_bytes)
    return arrays.subtract(np.array([[0, num_units]]), arrays.runs_of(first, np.maximum(last - first, 0)))


def sectors_with(data: NDArray[np.uint8], offset: int, place: int, magic: bytes) -> list[int]:
    """List the starts, counted like `offset`, of the sectors of a piece that have given bytes at a given position."""
    sectors = data[: len(data) // SECTOR_BYTES * SECTOR_BYTES].reshape(-1, SECTOR_BYTES)
    are_equal = (sectors[:, place : place + len(magic)] == np.frombuffer(magic, np.uint8)).all(axis=1)
    return [offset + row * SECTOR_BYTES for row in are_equal.nonzero()[0].tolist()]
