"""Expert Witness images (E01, S01), read in place, in as many segments as lie beside the first one.

A table names where the chunks of a disk are in its segment; a chunk is stored as it is, with a checksum, or as a stream
of zlib, which has one. Chunks are numbered through all segments, so that those behind a missing one are counted from
the end. What is missing, or has a wrong checksum, counts as never read.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.errors import FormatError, ImageError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import read_structure, refuse_expansion
from layoutscope.image.raw import RawFile
from layoutscope.image.source import FillingSource, ReadCounter, Source
from layoutscope.structs import grammar
from layoutscope.structs.arrays import runs_of, subtract, total, union
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import CHUNK_ENTRY, SECTION, SEGMENT_HEADER, TABLE_SECTION, VOLUME_SECTION
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.structs.grammar import ExpertWitness

    I64 = NDArray[np.int64]

SEGMENT_NAME: Final = re.compile(r"\.([ELS]x?)01$", re.IGNORECASE)
MAX_DISK_BYTES: Final = 64 * 1024**4
MAX_CHUNK_BYTES: Final = 16 * 1024**2
"""Chunks have 32 KiB in most images, and 16 MiB in the largest that programs offer."""

KEPT_BYTES: Final = 32 * 1024**2
CHECKSUM_BYTES: Final = 4
SMALL_VOLUME_BYTES: Final = 94
"""What a section has that tells the sizes as SMART does."""

QUOTED_SEGMENTS: Final = 4
WHAT: Final = "Expert Witness image"


def segment_names(path: Path) -> Iterator[str]:
    """Yield the names of the segments of an image by that of its first: E01 to E99, EAA to ZZZ."""
    match = SEGMENT_NAME.search(path.name)
    if match is None:
        yield path.name
        return
    stem, kind = path.name[: match.start(1)], match[1]
    letters = "abcdefghijklmnopqrstuvwxyz" if kind[-1].islower() and len(kind) == 1 else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    numbered = (f"{kind}{number:02}" for number in range(1, 100))
    # Behind 99 letters count, and the last of the kind's own goes on with them: EZZ is followed by FAA, ExZZ by EyAA.
    firsts = (
        letters[letters.index(kind) :] if len(kind) == 1 else "".join(chr(ord(kind[-1]) + step) for step in range(3))
    )
    lettered = (kind[:-1] + "".join(each) for each in product(firsts, letters, letters))
    yield from (stem + suffix for suffix in chain(numbered, lettered))


def find_segments(path: Path) -> dict[int, Path]:
    """List the segments of an image that lie beside its first, by their numbers from 1, which may leave some out."""
    names = {item.name for item in path.parent.iterdir()}
    found = {number: path.with_name(name) for number, name in enumerate(segment_names(path), 1) if name in names}
    return {1: path, **found}


def segments_of(path: Path) -> list[Path]:
    """List the segments of an image that lie beside its first, in their order."""
    return list(find_segments(path).values())


class Chunks(NamedTuple):
    """Chunks that are stored, in the order of the disk; all arrays have shape (n,)."""

    number: I64  # of the chunk on the disk, from 0; while a segment is read, in the segment
    segment: I64  # which of the files that are open holds it
    # offset, length: where in the file, with what follows it, in bytes
    offset: I64
    length: I64
    packed: NDArray[np.bool_]  # whether it is a stream of zlib


def open_witness(source: Source) -> Source:
    """Open the disk in an image, with all segments that lie beside the first."""
    first = _header(source)
    if first.segment_number != 1:
        raise ImageError(f"{source.name}: is segment {first.segment_number} of an {WHAT}; open the first one")
    path = Path(source.name)
    paths = find_segments(path) if isinstance(source, RawFile) and path.is_file() else {1: path}
    files = {1: source}
    try:
        files |= {number: RawFile(each) for number, each in paths.items() if number > 1}
        return WitnessSource(files, dict(enumerate(segment_names(path), 1)))
    except (ImageError, FormatError):
        for number, each in files.items():
            if number > 1:
                each.close()
        raise


def _header(source: Source) -> ExpertWitness.SegmentHeader:
    return read_structure(grammar.ExpertWitness.SegmentHeader, SEGMENT_HEADER, source, 0, WHAT)


class Segment:
    """What a file of an image says: sizes of the disk in the first one, its chunks, and why there may be more."""

    def __init__(self, source: Source, place: int, chunk_bytes: int) -> None:
        """Go through all sections; `place` is that of the file among those that are open."""
        self._source, self._chunk_bytes = source, chunk_bytes
        self.volume: ExpertWitness.VolumeSection | None = None  # sizes
        self.is_small = False  # whether they are as SMART writes them
        self.last = ""  # name of its last section: `next` if another file follows, `done` in the last one
        self.problem = ""  # why its chain of sections ends early; empty if it does not
        self._parts: list[tuple[I64, I64, NDArray[np.bool_]]] = []
        # The last section of chunks for which no table was found yet.
        self._waiting: tuple[int, int] | None = None
        at, following = 0, SEGMENT_HEADER.width
        while following > at:
            at = following
            section = self._section(at)
            if section is None:
                is_cut = at + SECTION.width > source.size_bytes
                name = Path(source.name).name
                self.problem = (
                    f"{name} ends at byte {source.size_bytes:,}, before its last section"
                    if is_cut
                    else f"the section header at byte {at:,} of {name} is damaged"
                )
                break
            self.last = section.kind.rstrip(b"\0").decode("ascii", "replace")
            self._take(self.last, at, section)
            following = section.ofs_next
        self._walk()
        none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool)
        offset, length, packed = (np.concatenate(column) for column in zip(none, *self._parts, strict=True))
        count = np.arange(len(offset))
        self.chunks = Chunks(count, np.full(len(offset), place), offset, length, packed)  # what it stores

    def _section(self, at: int) -> ExpertWitness.Section | None:
        """Read a section's header; None where there is none whose checksum is right."""
        if at + SECTION.width > self._source.size_bytes:
            return None
        data = self._source.read(at, SECTION.width)
        found = grammar.parse(grammar.ExpertWitness.Section, data, structure="section", image_offset=at)
        return found if zlib.adler32(data[:-CHECKSUM_BYTES]) == found.checksum else None

    def _take(self, kind: str, at: int, section: ExpertWitness.Section) -> None:
        start, stop = at + SECTION.width, min(at + section.len_section, self._source.size_bytes)
        if kind in ("volume", "disk") and self.volume is None:
            data = self._source.read(start, max(0, min(VOLUME_SECTION.width, self._source.size_bytes - start)))
            self.volume = grammar.parse(
                grammar.ExpertWitness.VolumeSection, data, structure="volume section", image_offset=start
            )
            self.is_small = section.len_section - SECTION.width == SMALL_VOLUME_BYTES
            self._chunk_bytes = self.volume.num_chunk_sectors * self.volume.len_sector
        elif kind == "sectors":
            self._walk()
            self._waiting = start, stop
        # The second table is a copy of the first one.
        elif kind == "table" or (kind == "table2" and self._waiting is not None):
            self._table(start, stop)

    def _table(self, start: int, stop: int) -> None:
        if stop - start < TABLE_SECTION.width:
            return
        data = self._source.read(start, TABLE_SECTION.width)
        table = grammar.parse(grammar.ExpertWitness.TableSection, data, structure="table", image_offset=start)
        first = start + TABLE_SECTION.width
        length = table.num_entries * CHUNK_ENTRY.width
        if zlib.adler32(data[:-CHECKSUM_BYTES]) != table.checksum or first + length > stop:
            return
        entries = self._source.read(first, length)
        if first + length + CHECKSUM_BYTES <= stop:
            stored = self._source.read(first + length, CHECKSUM_BYTES)
            if stored != checksum_of(entries):
                return
        # In old files the chunks follow their table in its own section.
        end = self._waiting[1] if self._waiting is not None else stop
        self._parts.append(_entries(entries, table.ofs_base, end))
        self._waiting = None

    def _walk(self) -> None:
        """Go through chunks that no table names, as of a file that was cut: each is told by its checksum."""
        if self._waiting is None or not 0 < self._chunk_bytes <= MAX_CHUNK_BYTES:
            return
        at, stop = self._waiting
        self._waiting = None
        found = []
        most = self._chunk_bytes + self._chunk_bytes // 1000 + 64  # zlib makes no more of what it cannot pack
        while at < stop:
            data = self._source.read(at, min(most, stop - at))
            length, packed = _chunk_at(data, self._chunk_bytes)
            if not length:
                break
            found.append((at, length, packed))
            at += length
        rows = np.array([row[:2] for row in found], np.int64).reshape(-1, 2)
        self._parts.append((rows[:, 0], rows[:, 1], np.array([row[2] for row in found], bool)))


def _entries(entries: bytes, base: int, end: int) -> tuple[I64, I64, NDArray[np.bool_]]:
    """Decode the entries of a table: place and length of each chunk, and whether it is packed."""
    buffer = np.frombuffer(entries, np.uint8)
    fields = (CHUNK_ENTRY.ofs_chunk, CHUNK_ENTRY.is_compressed, CHUNK_ENTRY.place)
    columns = decode_columns(CHUNK_ENTRY, buffer, np.arange(0, len(entries), CHUNK_ENTRY.width), fields)
    offset, packed, whole = (columns[field].astype(np.int64) for field in fields)
    # Behind 2 GiB the highest bit belongs to the place, and nothing is packed; the place says when by falling.
    back = np.flatnonzero(np.diff(offset) < 0)
    if len(back):
        offset[back[0] + 1 :] = whole[back[0] + 1 :]
        packed[back[0] + 1 :] = 0
    offset += min(base, 2**62)
    return offset, np.diff(offset, append=end), packed > 0


def checksum_of(data: bytes) -> bytes:
    """Return what follows data that are stored with a checksum."""
    return zlib.adler32(data).to_bytes(CHECKSUM_BYTES, "little")


def _chunk_at(data: bytes, chunk_bytes: int) -> tuple[int, bool]:
    """Return how long the chunk is that data begin with, and whether it is packed; 0 if there is none."""
    if data[chunk_bytes : chunk_bytes + CHECKSUM_BYTES] == checksum_of(data[:chunk_bytes]):
        return chunk_bytes + CHECKSUM_BYTES, False
    unpacked, used = _inflate(data, chunk_bytes)
    return used if unpacked else 0, True


def _inflate(data: bytes, most_bytes: int) -> tuple[bytes, int]:
    """Unpack a stream, whose checksum is at its end; nothing if it is damaged. How long it is comes with it."""
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, most_bytes)
        # All may be unpacked before the checksum was looked at.
        more = b"" if stream.eof else stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error:
        return b"", 0
    return (unpacked, len(data) - len(stream.unused_data)) if stream.eof and not more else (b"", 0)


class WitnessSource(FillingSource):
    """The disk in an image; chunks that are missing or damaged count as never read."""

    def __init__(self, files: dict[int, Source], names: dict[int, str]) -> None:
        self._files = list(files.values())
        self.around = self._files[0]
        self.name = self.around.name
        self.counter = ReadCounter()
        segments: dict[int, Segment] = {}
        problems: list[str] = []
        self._chunk_bytes = 0
        for place, (number, file) in enumerate(files.items()):
            try:
                if _header(file).segment_number != number:
                    problems.append(f"{Path(file.name).name} is not segment {number} of the image")
                    continue
            except FormatError:
                problems.append(f"{Path(file.name).name} is not a segment of the image")
                continue
            segments[number] = Segment(file, place, self._chunk_bytes)
            if number == 1:
                self._take_sizes(segments[1])
        last = max(segments)
        missing = [number for number in range(1, last) if number not in segments and number not in files]
        if segments[last].last == "next":
            missing.append(last + 1)
        if missing:
            quoted = ", ".join(names.get(number, str(number)) for number in missing[:QUOTED_SEGMENTS])
            more = f" and {len(missing) - QUOTED_SEGMENTS} more" if len(missing) > QUOTED_SEGMENTS else ""
            are = "segments are" if len(missing) > 1 else "segment is"
            problems.insert(0, f"{len(missing)} {are} missing: {quoted}{more}")
        problems += [segment.problem for segment in segments.values() if segment.problem]
        self._chunks = self._numbered(segments)
        stored = np.minimum(self._chunk_bytes, self.size_bytes - self._chunks.number * self._chunk_bytes)
        self._stored = runs_of(self._chunks.number * self._chunk_bytes, stored)
        self._lost = subtract(np.array([[0, self.size_bytes]]), self._stored)
        self._bad: I64 = np.empty((0, 2), np.int64)
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        lost = total(self._lost)
        if lost or problems:
            reasons = "; ".join(problems) or "its tables name fewer chunks than the disk has"
            message = f"{reasons}; {format_bytes(lost)} of the disk count as not read"
            self.own_findings = (Finding("image-incomplete", "error", WHAT, None, message),)
        self._incomplete = self.own_findings

    def _take_sizes(self, first: Segment) -> None:
        volume = first.volume
        if volume is None:
            raise ImageError(f"{self.name}: the {WHAT} does not tell the size of its disk")
        self._chunk_bytes = volume.num_chunk_sectors * volume.len_sector
        sectors = volume.num_sectors_short if first.is_small else volume.num_sectors
        self.size_bytes = sectors * volume.len_sector
        if not 0 < self._chunk_bytes <= MAX_CHUNK_BYTES or not 0 < self.size_bytes <= MAX_DISK_BYTES:
            raise FormatError(
                f"a disk of {self.size_bytes:,} bytes in chunks of {self._chunk_bytes:,} is impossible",
                structure="volume section", image_offset=SEGMENT_HEADER.width,
            )  # fmt: skip

    def _numbered(self, segments: dict[int, Segment]) -> Chunks:
        """Number chunks through all segments: before the first gap from the start, behind the last from the end."""
        whole = -(-self.size_bytes // self._chunk_bytes)
        parts: list[Chunks] = []
        behind = 0
        for number in range(1, max(segments) + 1):
            if number not in segments:
                break
            found = segments[number].chunks
            parts.append(found._replace(number=found.number + behind))
            behind += len(found.number)
            if segments[number].problem:
                break
        first = whole
        if segments[max(segments)].last == "done":
            for known in range(max(segments), len(parts), -1):
                if known not in segments or segments[known].problem:
                    break
                found = segments[known].chunks
                first -= len(found.number)
                parts.append(found._replace(number=found.number + first))
        joined = Chunks(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        order = np.argsort(joined.number, kind="stable")
        order = order[(joined.number[order] >= 0) & (joined.number[order] < whole)]
        # Where both counts meet there are more chunks than the disk has; which are too many nothing tells.
        kept = order[np.diff(joined.number[order], prepend=-1) > 0]
        return Chunks._make(column[kept] for column in joined)

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        done = 0
        while done < len(target):
            number, start = divmod(image_offset + done, self._chunk_bytes)
            length = min(len(target) - done, self._chunk_bytes - start)
            piece = self._chunk(number)[start : start + length]
            target[done : done + length] = piece.ljust(length, b"\0")
            done += length
        return done

    def _chunk(self, number: int) -> bytes:
        """Return a chunk; nothing of one that is not there or is damaged."""
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        row = int(np.searchsorted(self._chunks.number, number))
        data = b""
        if row < len(self._chunks.number) and self._chunks.number[row] == number:
            length = min(self._chunk_bytes, self.size_bytes - number * self._chunk_bytes)
            data = self._unpacked(row, length)
            if not data:
                self._remember(row, length)
        self._kept[number] = data
        while len(self._kept) > max(1, KEPT_BYTES // self._chunk_bytes):
            self._kept.popitem(last=False)
        return data

    def _unpacked(self, row: int, wanted: int) -> bytes:
        """Read a chunk and check it; nothing if it is damaged."""
        offset, length = int(self._chunks.offset[row]), int(self._chunks.length[row])
        file = self._files[int(self._chunks.segment[row])]
        length = min(length, 2 * self._chunk_bytes + CHECKSUM_BYTES)
        try:
            self.counter.reads += 1
            raw = file.read(offset, length)
        except FormatError:  # behind the end of the file, or in what a disk does not give
            return b""
        self.counter.bytes += length
        if self._chunks.packed[row]:
            data = _inflate(raw, self._chunk_bytes)[0]
            return data if len(data) >= wanted else b""
        # The last chunk of a disk may be shorter than the others.
        for size in dict.fromkeys((self._chunk_bytes, wanted)):
            if raw[size : size + CHECKSUM_BYTES] == checksum_of(raw[:size]):
                return raw[:size]
        return b""

    def _remember(self, row: int, length: int) -> None:
        """Count a chunk as never read, and report how many there are."""
        start = int(self._chunks.number[row]) * self._chunk_bytes
        self._bad = union([self._bad, np.array([[start, length]], np.int64)])
        file = self._files[int(self._chunks.segment[row])]
        message = (
            f"{format_bytes(total(self._bad))} of chunks that were read do not have the checksum that is stored with "
            f"them, and count as not read, such as that at byte {int(self._chunks.offset[row]):,} of "
            f"{Path(file.name).name}"
        )
        where = int(self._bad[0, 0])
        self.own_findings = (*self._incomplete, Finding("checksum-mismatch", "error", WHAT, where, message))

    def unread_ranges(self) -> I64:
        """Areas that are missing, or damaged as far as is known by now, shape (n, 2): offset and length in bytes."""
        return union([self._lost, self._bad]) if len(self._bad) else self._lost

    @cached_property
    def holes(self) -> I64:
        """Areas that are not stored, shape (n, 2): offset and length in bytes."""
        refuse_expansion(self.name, total(self._stored), sum(each.size_bytes for each in self._files))
        return self._lost

    def close(self) -> None:
        """Close all segments."""
        for each in self._files:
            each.close()
