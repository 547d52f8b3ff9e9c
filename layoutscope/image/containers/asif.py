"""Apple sparse images of macOS 26 (ASIF, magic ``shdw``), read in place.

A directory names tables, a table names the chunks of the disk that are stored. All tables are read when the image is
opened, so that references that contradict each other are known: what they cover counts as never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import is_repeated, read_structure
from layoutscope.image.failing import RescuedSource
from layoutscope.image.source import FillingSource, Source
from layoutscope.structs import grammar
from layoutscope.structs.arrays import runs_of, subtract, total
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import ASIF_HEADER, DIRECTORY_ENTRY, REFERENCE, SEQUENCE
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.structs.grammar import Asif

    I64 = NDArray[np.int64]

VERSION: Final = 1
UNIT_BYTES: Final = 512
"""Sectors are multiples of it."""

MAX_DISK_BYTES: Final = 2**60
MAX_DIRECTORY_BYTES: Final = 1 << 26
MAX_TABLE_BYTES: Final = 1 << 28
"""Tables for 31 TiB of disk, in chunks of 1 MiB."""

SECTORS_PER_BYTE: Final = 4
"""A bitmap has two bits for each sector, the first sector's lowest."""


class Geometry(NamedTuple):
    """What the sizes of chunk and sector make of the tables."""

    # len_chunk, len_sector: in bytes
    len_chunk: int
    len_sector: int
    references: int  # data chunks of a group; one reference to a bitmap follows theirs
    groups: int  # groups of a table

    @property
    def chunks_per_table(self) -> int:
        """Chunks of the disk that a table covers."""
        return self.references * self.groups

    @property
    def len_table(self) -> int:
        """Bytes of a table; it may end before its chunk does."""
        return self.groups * (self.references + 1) * REFERENCE.width


class StoredChunks(Struct, frozen=True):
    """Chunks of the disk that are stored, in their order; all arrays have shape (n,)."""

    number: I64  # of the chunk on the disk
    stored: I64  # of the chunk in the file
    bitmap: I64  # of the chunk in the file that says which sectors were written; 0 where all were

    def take(self, chosen: NDArray[np.bool_]) -> StoredChunks:
        """Return some of them."""
        return StoredChunks(self.number[chosen], self.stored[chosen], self.bitmap[chosen])


def open_asif(source: Source) -> Source:
    """Open the disk inside of an ASIF image."""
    header = read_structure(grammar.Asif.Header, ASIF_HEADER, source, 0, "ASIF header")
    if header.version != VERSION or header.num_segments:
        raise UnsupportedError(
            f"{source.name}: is an ASIF image of version {header.version} in {header.num_segments} segments",
            code="container", advice="convert it on a Mac with: diskutil image create from IMAGE RAW",
        )  # fmt: skip
    geometry = _geometry(header)
    size_bytes = header.num_sectors * header.len_sector
    tables = _tables(source, header, geometry)
    stored, bad = _list_stored_chunks(source, tables, geometry)
    disk = AsifSource(source, stored, geometry, size_bytes)
    unread = _covered_ranges(bad, geometry.len_chunk, size_bytes)
    if not len(unread):
        return disk
    message = (
        f"its tables name chunks twice, or where the file, which ends at byte {source.size_bytes:,}, has none; "
        f"{format_bytes(total(unread))} of the disk count as not read, the first at byte {int(unread[0, 0]):,} of it"
    )
    disk.own_findings = (Finding("container-invalid", "error", "ASIF image", None, message),)
    return RescuedSource(disk, unread)


def _geometry(header: Asif.Header) -> Geometry:
    """Derive sizes as the format does, from the two that the header gives."""
    chunk, sector = header.len_chunk, header.len_sector
    is_sound = sector and sector % UNIT_BYTES == 0 and chunk and chunk % sector == 0
    # The bitmap of a group fills one chunk: two bits a sector, so four sectors a byte, each in a chunk of the group.
    references = SECTORS_PER_BYTE * sector
    groups = chunk // ((references + 1) * REFERENCE.width)
    if not is_sound or not groups:
        raise _contradiction(f"chunks of {chunk:,} bytes with sectors of {sector:,} are impossible")
    if not 0 < header.num_sectors <= header.max_sectors <= MAX_DISK_BYTES // sector:
        raise _contradiction(f"{header.num_sectors:,} sectors of at most {header.max_sectors:,} are impossible")
    return Geometry(chunk, sector, references, groups)


def _contradiction(message: str, image_offset: int = 0) -> FormatError:
    return FormatError(message, structure="ASIF header", image_offset=image_offset)


def _tables(source: Source, header: Asif.Header, geometry: Geometry) -> I64:
    """Chunk numbers of the tables that cover the disk, 0 where one is absent, shape (n,)."""
    chunks = -(-header.num_sectors * geometry.len_sector // geometry.len_chunk)
    count = -(-chunks // geometry.chunks_per_table)
    length = SEQUENCE.width + count * DIRECTORY_ENTRY.width
    if length > MAX_DIRECTORY_BYTES:
        raise _contradiction(f"a directory of {count:,} tables is impossible")
    places = {header.ofs_first_directory, header.ofs_second_directory}
    inside = [place for place in places if len(data := _peek(source, place, length)) == length and any(data)]
    if not inside:
        raise _contradiction("no directory lies in the file", header.ofs_first_directory)
    # A writer changes the directory that does not count, and then gives it the higher number.
    place = max(inside, key=lambda place: _sequence(source, place))
    buffer = np.frombuffer(_peek(source, place, length), np.uint8)
    starts = SEQUENCE.width + DIRECTORY_ENTRY.width * np.arange(count)
    # A number beyond the file stays beyond it as a signed one.
    numbers = decode_column(DIRECTORY_ENTRY, buffer, starts, DIRECTORY_ENTRY.chunk)
    tables: I64 = np.minimum(numbers, np.uint64(2**62)).astype(np.int64)
    return tables


def _sequence(source: Source, place: int) -> int:
    data = source.read(place, SEQUENCE.width)
    head = grammar.parse(grammar.Asif.Sequence, data, structure="ASIF directory", image_offset=place)
    return int(head.number)


def _peek(source: Source, at: int, length: int) -> bytes:
    return source.read(at, length) if at + length <= source.size_bytes else b""


def _list_stored_chunks(source: Source, tables: I64, geometry: Geometry) -> tuple[StoredChunks, I64]:
    """Read the tables; return the chunks that are stored, and runs of chunks of which nothing can be told."""
    used = np.flatnonzero(tables)
    if len(used) * geometry.len_table > MAX_TABLE_BYTES:
        raise UnsupportedError(f"{source.name}: has more tables than any ASIF image", code="container")
    is_sound = ~is_repeated(tables[used])
    is_sound &= tables[used] <= (source.size_bytes - geometry.len_table) // geometry.len_chunk
    places = [(int(table), int(tables[table])) for table in used[is_sound]]
    parts = [_read_table(source, table, chunk, geometry) for table, chunk in places]
    none = np.empty(0, np.int64)
    found = StoredChunks(
        *(np.concatenate([none, *(getattr(part[0], name) for part in parts)]) for name in StoredChunks.__match_args__)
    )
    is_lost = _is_lost(found, tables[used], geometry, source.size_bytes)
    lost = used[~is_sound] * geometry.chunks_per_table
    doubtful = np.concatenate([*(part[1] for part in parts), found.number[is_lost]])
    return found.take(~is_lost), np.concatenate([
        np.stack([lost, np.full(len(lost), geometry.chunks_per_table)], axis=1),
        np.stack([doubtful, np.ones_like(doubtful)], axis=1),
    ])  # fmt: skip


def _is_lost(found: StoredChunks, tables: I64, geometry: Geometry, size_bytes: int) -> NDArray[np.bool_]:
    """Whether a chunk cannot be where its reference says: outside of the file, or where something else is."""
    chunks_of_file = size_bytes // geometry.len_chunk
    # Two names for one chunk of the file: one of them is wrong, and nothing tells which.
    pairs = np.unique(np.stack([found.number // geometry.references, found.bitmap], axis=1), axis=0)
    claims = np.concatenate([found.stored, pairs[:, 1], tables])
    shared = np.unique(claims[is_repeated(claims)])
    is_lost = np.isin(found.stored, shared) | ((found.bitmap > 0) & np.isin(found.bitmap, shared))
    is_lost |= found.bitmap >= np.where(found.bitmap > 0, chunks_of_file, 1)
    # What a whole chunk lacks at the end of a file that was cut off is lost; of a partial one the bitmap decides.
    return is_lost | (found.stored >= np.where(found.bitmap > 0, chunks_of_file + 1, chunks_of_file))


def _read_table(source: Source, table: int, chunk: int, geometry: Geometry) -> tuple[StoredChunks, I64]:
    """Decode the references of a table."""
    buffer = np.frombuffer(source.read(chunk * geometry.len_chunk, geometry.len_table), np.uint8)
    is_set = buffer.reshape(geometry.groups, -1, REFERENCE.width).any(axis=2)
    group, place = np.nonzero(is_set)
    starts = (group * (geometry.references + 1) + place) * REFERENCE.width
    rows = decode_columns(REFERENCE, buffer, starts, (REFERENCE.status, REFERENCE.chunk))
    status, stored = rows[REFERENCE.status].astype(np.int64), rows[REFERENCE.chunk].astype(np.int64)
    is_bitmap = place == geometry.references
    bitmaps = np.zeros(geometry.groups, np.int64)
    bitmaps[group[is_bitmap]] = stored[is_bitmap]
    number = table * geometry.chunks_per_table + group * geometry.references + place
    kinds = grammar.Asif.Status
    is_partial, is_stored = status == int(kinds.partial), np.isin(status, [int(kinds.whole), int(kinds.partial)])
    bitmap = np.where(is_partial, bitmaps[group], 0)
    # A chunk that is not stored has the number 0, which is the header's; a partial one needs a bitmap.
    is_sound = (is_stored == (stored > 0)) & (~is_partial | (bitmap > 0))
    wanted = ~is_bitmap & is_stored & is_sound
    return StoredChunks(number[wanted], stored[wanted], bitmap[wanted]), number[~is_bitmap & ~is_sound]


def _covered_ranges(chunks: I64, len_chunk: int, size_bytes: int) -> I64:
    """Ranges of the disk that runs of chunks cover, shape (n, 2): offset and length in bytes."""
    starts, stops = chunks[:, 0] * len_chunk, np.minimum(chunks.sum(axis=1) * len_chunk, size_bytes)
    return runs_of(starts, stops - starts)


class AsifSource(FillingSource):
    """The disk inside of an ASIF image; chunks and sectors that were never written read as zeros."""

    def __init__(self, source: Source, chunks: StoredChunks, geometry: Geometry, size_bytes: int) -> None:
        self._set_around(source, size_bytes)
        self._chunks = chunks
        self._geometry = geometry
        self.sector_size_bytes = geometry.len_sector

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        target[:] = bytes(len(target))
        stop, size = image_offset + len(target), self._geometry.len_chunk
        first, last = np.searchsorted(self._chunks.number, [image_offset // size, -(-stop // size)]).tolist()
        for row in range(first, last):
            start = int(self._chunks.number[row]) * size
            low, high = max(start, image_offset), min(start + size, stop)
            self._read_chunk(row, low - start, target[low - image_offset : high - image_offset])
        return len(target)

    def _read_chunk(self, row: int, offset: int, target: memoryview) -> None:
        """Read a part of a chunk, of a partial one the sectors that were written."""
        at = int(self._chunks.stored[row]) * self._geometry.len_chunk + offset
        if not self._chunks.bitmap[row]:
            self._source.read_into(at, target)
            return
        for start, length in self._written(row, offset, len(target)).tolist():
            self._source.read_into(at + start - offset, target[start - offset : start - offset + length])

    def _written(self, row: int, offset: int, length: int) -> I64:
        """Parts of a range of a chunk that were written, shape (n, 2): offset in the chunk and length in bytes."""
        geometry = self._geometry
        first, last = offset // geometry.len_sector, -(-(offset + length) // geometry.len_sector)
        before = int(self._chunks.number[row]) % geometry.references * (geometry.len_chunk // geometry.len_sector)
        low, high = (before + first) // SECTORS_PER_BYTE, -(-(before + last) // SECTORS_PER_BYTE)
        at = int(self._chunks.bitmap[row]) * geometry.len_chunk + low
        packed = np.frombuffer(self._source.read(at, high - low), np.uint8)
        states = (packed[:, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3).ravel()
        states = states[before + first - low * SECTORS_PER_BYTE :][: last - first]
        if (states > 1).any():
            raise FormatError("a sector is in a state that nobody has seen", structure="ASIF bitmap", image_offset=at)
        starts = np.maximum((first + np.flatnonzero(states)) * geometry.len_sector, offset)
        stops = np.minimum((first + np.flatnonzero(states) + 1) * geometry.len_sector, offset + length)
        return runs_of(starts, stops - starts)

    @property
    def holes(self) -> I64:
        """Chunks that are not stored, shape (n, 2): offset and length in bytes."""
        runs = np.stack([self._chunks.number, np.ones_like(self._chunks.number)], axis=1)
        stored = _covered_ranges(runs, self._geometry.len_chunk, self.size_bytes)
        return subtract(np.array([[0, self.size_bytes]]), stored)
