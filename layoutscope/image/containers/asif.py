"""Apple sparse images of macOS 26 (ASIF, magic ``shdw``), read in place.

A directory lists tables, and a table lists the stored chunks of the disk. All tables are read when the image is opened.
References that contradict each other are thus found, and the chunks that they cover count as never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import (
    MAX_DISK_BYTES,
    StoredSource,
    is_repeated,
    make_pieces,
    make_refusal,
    read_structure,
    read_table,
)
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, runs_of, total
from layoutscope.structs.records import DIRECTORY_ENTRY, REFERENCE, SEQUENCE
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import Asif


VERSION: Final = 1
UNIT_BYTES: Final = 512
"""Sectors are multiples of this size."""

MAX_DIRECTORY_BYTES: Final = 1 << 26
MAX_TABLE_BYTES: Final = 1 << 28
"""Tables for 31 TiB of disk, in chunks of 1 MiB."""

SECTORS_PER_BYTE: Final = 4
"""A bitmap has two bits for each sector, the first sector's lowest."""


def open_asif(source: Source) -> Source:
    """Open the disk inside of an ASIF image."""
    header = read_structure(grammar.Asif.Header, source, 0, "ASIF header")
    if header.version != VERSION or header.num_segments:
        reason = f"is an ASIF image of version {header.version} in {header.num_segments} segments"
        raise make_refusal(source.name, reason, "convert it on a Mac with: diskutil image create from IMAGE RAW")
    return AsifSource(source, header)


class AsifSource(StoredSource):
    """The disk inside of an ASIF image; chunks and sectors that were never written read as zeros."""

    def __init__(self, source: Source, header: Asif.Header) -> None:
        self._file, self._header = source, header
        chunk, sector = header.len_chunk, header.len_sector
        # The bitmap of a group fills one chunk: two bits a sector, so four sectors a byte, each in a chunk of the
        # group. One reference to it follows those to the data chunks of the group.
        self._references = SECTORS_PER_BYTE * sector
        self._groups = chunk // ((self._references + 1) * REFERENCE.width)  # of a table
        if not sector or sector % UNIT_BYTES or not chunk or chunk % sector or not self._groups:
            raise _make_header_error(f"chunks of {chunk:,} bytes with sectors of {sector:,} are impossible")
        if not 0 < header.num_sectors <= header.max_sectors <= MAX_DISK_BYTES // sector:
            raise _make_header_error(f"{header.num_sectors:,} sectors of at most {header.max_sectors:,} are impossible")
        self._len_chunk, self.sector_size_bytes = chunk, sector
        self._chunks_per_table = self._references * self._groups
        size_bytes = header.num_sectors * sector
        number, stored, bitmap, bad = self._list_chunks(self._read_directory(-(-size_bytes // chunk)))
        self._bitmap = bitmap
        starts = bad[:, 0] * chunk
        unread = runs_of(starts, np.minimum(bad.sum(axis=1) * chunk, size_bytes) - starts)
        findings = []
        if len(unread):
            message = (
                f"its tables name chunks twice, or where the file, which ends at byte {source.size_bytes:,}, has none; "
                f"{format_bytes(total(unread))} of the disk count as not read, the first at byte {int(unread[0, 0]):,} "
                "of it"
            )
            findings.append(Finding("container-invalid", "error", "ASIF image", None, message))
        starts = number * chunk
        pieces = make_pieces(starts, np.minimum(chunk, size_bytes - starts), stored * chunk)
        super().__init__([source], size_bytes, pieces, what="ASIF image", unread=[unread], findings=findings)

    def _read_directory(self, chunks: int) -> I64:
        """Chunk numbers of the tables that cover the disk, 0 where one is absent, shape (n,)."""
        source, header = self._file, self._header
        count = -(-chunks // self._chunks_per_table)
        length = SEQUENCE.width + count * DIRECTORY_ENTRY.width
        if length > MAX_DIRECTORY_BYTES:
            raise _make_header_error(f"a directory of {count:,} tables is impossible")
        places = [
            place
            for place in (header.ofs_first_directory, header.ofs_second_directory)
            if place + length <= source.size_bytes and any(source.read(place, length))
        ]
        if not places:
            raise _make_header_error("the file has no directory", header.ofs_first_directory)
        # A writer changes the directory that is not in use, and then gives it the higher number.
        kind, what = grammar.Asif.Sequence, "asif.sequence"
        place = max(places, key=lambda place: read_structure(kind, source, place, what).number)
        at = place + SEQUENCE.width
        return read_table(source, "ASIF directory", at, count, DIRECTORY_ENTRY, DIRECTORY_ENTRY.chunk)[0]

    def _list_chunks(self, tables: I64) -> tuple[I64, I64, I64, I64]:
        """Read the tables: the stored chunks, and the runs of chunks whose state is unknown.

        Returns for each chunk its number on the disk, its number in the file, and the number of its bitmap in the file,
        which marks the sectors that were written; 0 if all were.
        """
        source, used = self._file, np.flatnonzero(tables)
        length = self._groups * (self._references + 1) * REFERENCE.width  # a table may end before its chunk does
        if len(used) * length > MAX_TABLE_BYTES:
            raise make_refusal(source.name, "has more tables than any ASIF image")
        is_sound = ~is_repeated(tables[used])
        is_sound &= tables[used] <= (source.size_bytes - length) // self._len_chunk
        places = [(int(table), int(tables[table])) for table in used[is_sound]]
        parts = [[np.empty(0, np.int64)] * 4, *(self._read_table(*place) for place in places)]
        number, stored, bitmap, doubtful = (np.concatenate(column) for column in zip(*parts, strict=True))
        # A chunk is lost if it is outside the file, or shares its place: one of two references is wrong, and it is
        # unknown which.
        chunks_of_file = source.size_bytes // self._len_chunk
        pairs = np.unique(np.stack([number // self._references, bitmap], axis=1), axis=0)
        claims = np.concatenate([stored, pairs[:, 1], tables[used]])
        shared = np.unique(claims[is_repeated(claims)])
        is_lost = np.isin(stored, shared) | ((bitmap > 0) & np.isin(bitmap, shared))
        is_lost |= bitmap >= np.where(bitmap > 0, chunks_of_file, 1)
        # A whole chunk that exceeds the end of a truncated file is lost; for a partial chunk, the bitmap decides.
        is_lost |= stored >= np.where(bitmap > 0, chunks_of_file + 1, chunks_of_file)
        lost = used[~is_sound] * self._chunks_per_table
        doubtful = np.concatenate([doubtful, number[is_lost]])
        bad = np.concatenate([
            np.stack([lost, np.full(len(lost), self._chunks_per_table)], axis=1),
            np.stack([doubtful, np.ones_like(doubtful)], axis=1),
        ])  # fmt: skip
        # A chunk after the end of the disk holds metadata.
        is_on_disk = ~is_lost & (number * self._len_chunk < self._header.num_sectors * self.sector_size_bytes)
        return number[is_on_disk], stored[is_on_disk], bitmap[is_on_disk], bad

    def _read_table(self, table: int, chunk: int) -> tuple[I64, I64, I64, I64]:
        """Decode the references of a table."""
        count = self._groups * (self._references + 1)
        fields = REFERENCE.status, REFERENCE.chunk
        status, stored = read_table(self._file, "ASIF table", chunk * self._len_chunk, count, REFERENCE, *fields)
        group, place = np.divmod(np.arange(count), self._references + 1)
        is_bitmap = place == self._references
        bitmaps = stored[is_bitmap]
        number = table * self._chunks_per_table + group * self._references + place
        kinds = grammar.Asif.Status
        is_partial, is_stored = status == int(kinds.partial), np.isin(status, [int(kinds.whole), int(kinds.partial)])
        bitmap = np.where(is_partial, bitmaps[group], 0)
        # A chunk that is not stored has the number 0, which is the header's; a partial one needs a bitmap.
        is_sound = (is_stored == (stored > 0)) & (~is_partial | (bitmap > 0))
        is_valid = ~is_bitmap & is_stored & is_sound
        return number[is_valid], stored[is_valid], bitmap[is_valid], number[~is_bitmap & ~is_sound]

    def _read_piece(self, number: int, offset: int, target: memoryview) -> None:
        """Read a part of a chunk; in a partial chunk, only the sectors that were written are read."""
        bitmap = int(self._bitmap[number])
        if not bitmap:
            super()._read_piece(number, offset, target)
            return
        sector, size, end = self.sector_size_bytes, self._len_chunk, offset + len(target)
        first, last = offset // sector, -(-end // sector)
        before = int(self._starts[number]) // size % self._references * (size // sector)
        low, high = (before + first) // SECTORS_PER_BYTE, -(-(before + last) // SECTORS_PER_BYTE)
        at = bitmap * size + low
        packed = np.frombuffer(self._file.read(at, high - low), np.uint8)
        states = (packed[:, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3).ravel()
        states = states[before + first - low * SECTORS_PER_BYTE :][: last - first]
        if (states > 1).any():
            raise FormatError("a sector is in a state that nobody has seen", structure="ASIF bitmap", image_offset=at)
        starts = np.maximum((first + np.flatnonzero(states)) * sector, offset)
        stops = np.minimum((first + np.flatnonzero(states) + 1) * sector, end)
        target[:] = bytes(len(target))
        for start, length in runs_of(starts, stops - starts).tolist():
            super()._read_piece(number, start, target[start - offset : start - offset + length])


def _make_header_error(message: str, image_offset: int = 0) -> FormatError:
    return FormatError(message, structure="ASIF header", image_offset=image_offset)
