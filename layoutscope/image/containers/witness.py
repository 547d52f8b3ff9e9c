"""Expert Witness images (E01, S01), read in place, with all segments in the folder of the first one.

A table names where the chunks of a disk are in its segment; a chunk is stored as it is, with a checksum, or as a stream
of zlib, which has one. Chunks are numbered through all segments, so that those behind a missing one are counted from
the end. What is missing, or has a wrong checksum, counts as never read.
"""

from __future__ import annotations

import re
import zlib
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import ChecksumError, FormatError, ImageError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import StoredSource, make_pieces, read_structure
from layoutscope.image.raw import RawFile
from layoutscope.structs import grammar
from layoutscope.structs.arrays import runs_of, subtract, total
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import CHUNK_ENTRY, SECTION, SEGMENT_HEADER, TABLE_SECTION, VOLUME_SECTION
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import ExpertWitness

    I64 = NDArray[np.int64]

SEGMENT_NAME: Final = re.compile(r"\.([ELS]x?)01$", re.IGNORECASE)
MAX_DISK_BYTES: Final = 64 * 1024**4
MAX_CHUNK_BYTES: Final = 16 * 1024**2
"""Chunks have 32 KiB in most images, and 16 MiB in the largest that programs offer."""

CHECKSUM_BYTES: Final = 4
SMALL_VOLUME_BYTES: Final = 94
"""The fields of a section that gives the sizes as SMART does."""

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
    """List the segments in the folder of an image's first, by their numbers from 1; some may be missing."""
    names = {item.name for item in path.parent.iterdir()}
    found = {number: path.with_name(name) for number, name in enumerate(segment_names(path), 1) if name in names}
    return {1: path, **found}


def segments_of(path: Path) -> list[Path]:
    """List the segments in the folder of an image's first, in their order."""
    return list(find_segments(path).values())


def open_witness(source: Source) -> Source:
    """Open the disk in an image, with all segments in the folder of the first."""
    first = _header(source)
    if first.segment_number != 1:
        raise ImageError(f"{source.name}: is segment {first.segment_number} of an {WHAT}. Open the first one.")
    path = Path(source.name)
    paths = find_segments(path) if isinstance(source, RawFile) and path.is_file() else {1: path}
    files = {1: source}
    try:
        for number, beside in paths.items():
            if number > 1:
                files[number] = RawFile(beside)
                files[number].counter = source.counter
        return _open_segments(files, dict(enumerate(segment_names(path), 1)))
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
        # What it stores, numbered by chunks in the segment.
        self.chunks = make_pieces(count, length, offset, file=place, stored=length, codec=np.where(packed, 1, 2))

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
        """Go through chunks that no table names, as in a truncated file: each is recognised by its checksum."""
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
    if _checked(data, (chunk_bytes,)):
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


def _open_segments(files: dict[int, Source], names: dict[int, str]) -> Source:
    """Open the disk in segments; chunks that are missing or damaged count as never read."""
    segments: dict[int, Segment] = {}
    problems: list[str] = []
    chunk = size = 0
    for place, (number, file) in enumerate(files.items()):
        try:
            if _header(file).segment_number != number:
                problems.append(f"{Path(file.name).name} is not segment {number} of the image")
                continue
        except FormatError:
            problems.append(f"{Path(file.name).name} is not a segment of the image")
            continue
        segments[number] = Segment(file, place, chunk)
        if number == 1:
            chunk, size = _sizes(segments[1], file.name)
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
    pieces = _number_chunks(segments, -(-size // chunk))
    pieces["start"] *= chunk
    pieces["length"] = np.minimum(chunk, size - pieces["start"])
    pieces["stored"] = np.minimum(pieces["stored"], 2 * chunk + CHECKSUM_BYTES)
    lost = subtract(np.array([[0, size]]), runs_of(pieces["start"], pieces["length"]))
    findings = []
    if len(lost) or problems:
        reasons = "; ".join(problems) or "its tables name fewer chunks than the disk has"
        message = f"{reasons}; {format_bytes(total(lost))} of the disk count as not read"
        findings.append(Finding("image-incomplete", "error", WHAT, None, message))
    codecs = (lambda data, length: _refuse_none(_inflate(data, chunk)[0][:length]),
              lambda data, length: _refuse_none(_checked(data, (chunk, length))[:length]))  # fmt: skip
    return StoredSource(list(files.values()), size, pieces, what=WHAT, codecs=codecs, unread=[lost],
                        findings=findings)  # fmt: skip


def _sizes(first: Segment, name: str) -> tuple[int, int]:
    """Sizes of a chunk and of the disk, in bytes."""
    volume = first.volume
    if volume is None:
        raise ImageError(f"{name}: the {WHAT} does not give the size of its disk")
    chunk = volume.num_chunk_sectors * volume.len_sector
    size = (volume.num_sectors_short if first.is_small else volume.num_sectors) * volume.len_sector
    if not 0 < chunk <= MAX_CHUNK_BYTES or not 0 < size <= MAX_DISK_BYTES:
        raise FormatError(
            f"a disk of {size:,} bytes in chunks of {chunk:,} is impossible",
            structure="volume section", image_offset=SEGMENT_HEADER.width,
        )  # fmt: skip
    return chunk, size


def _number_chunks(segments: dict[int, Segment], whole: int) -> NDArray[np.void]:
    """Number chunks through all segments: before the first gap from the start, behind the last from the end."""
    parts: list[NDArray[np.void]] = []
    behind, first = 0, whole
    for number in range(1, max(segments) + 1):
        if number not in segments:
            break
        parts.append(segments[number].chunks.copy())
        parts[-1]["start"] += behind
        behind += len(parts[-1])
        if segments[number].problem:
            break
    if segments[max(segments)].last == "done":
        for known in range(max(segments), len(parts), -1):
            if known not in segments or segments[known].problem:
                break
            parts.append(segments[known].chunks.copy())
            first -= len(parts[-1])
            parts[-1]["start"] += first
    joined = np.concatenate(parts)
    joined = joined[np.argsort(joined["start"], kind="stable")]
    joined = joined[(joined["start"] >= 0) & (joined["start"] < whole)]
    # Where both counts meet there are more chunks than the disk has; it is unknown which are too many.
    return joined[np.diff(joined["start"], prepend=-1) > 0]


def _checked(data: bytes, sizes: tuple[int, ...]) -> bytes:
    """Return what data begin with that is followed by its checksum; the last chunk of a disk may be shorter."""
    fitting = (data[:size] for size in sizes if data[size : size + CHECKSUM_BYTES] == checksum_of(data[:size]))
    return next(fitting, b"")


def _refuse_none(data: bytes) -> bytes:
    if not data:
        raise ChecksumError("does not have the checksum that is stored with it", structure=WHAT, image_offset=0)
    return data
