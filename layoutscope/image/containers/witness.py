"""Expert Witness images (E01, S01), read in place, with all segments in the folder of the first one.

A table gives the offsets of the chunks in its segment. A chunk is stored plain, with a checksum, or as a zlib stream,
which includes one. Chunks are numbered through all segments, so chunks after a missing segment are counted from the
end. Chunks that are missing or have a wrong checksum count as never read.
"""

from __future__ import annotations

import re
import zlib
from contextlib import ExitStack
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import ChecksumError, FormatError, ImageError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import StoredSource, decode_table, make_pieces, read_structure
from layoutscope.image.raw import RawFile
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, Mask, runs_of, subtract, total
from layoutscope.structs.records import CHUNK_ENTRY, SECTION, SEGMENT_HEADER, TABLE_SECTION
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import ExpertWitness


SEGMENT_NAME: Final = re.compile(r"\.([ELS]x?)01$", re.IGNORECASE)
MAX_DISK_BYTES: Final = 64 * 1024**4
MAX_CHUNK_BYTES: Final = 16 * 1024**2
"""Chunks have 32 KiB in most images, and 16 MiB in the largest that programs offer."""

CHECKSUM_BYTES: Final = 4
SMALL_VOLUME_BYTES: Final = 94
"""Length of the fields of a volume section in the format of SMART."""

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
    # After 99, letters count, including the last letter of the kind: FAA follows EZZ, and EyAA follows ExZZ.
    firsts = (
        letters[letters.index(kind) :] if len(kind) == 1 else "".join(chr(ord(kind[-1]) + step) for step in range(3))
    )
    lettered = (kind[:-1] + "".join(each) for each in product(firsts, letters, letters))
    yield from (stem + suffix for suffix in chain(numbered, lettered))


def find_segments(path: Path) -> dict[int, Path]:
    """List the segments in the folder of the first one, by number from 1; some may be missing."""
    names = {item.name for item in path.parent.iterdir()}
    segments = {number: path.with_name(name) for number, name in enumerate(segment_names(path), 1) if name in names}
    return {1: path, **segments}


def open_witness(source: Source) -> Source:
    """Open the disk in an image, with all segments in the folder of the first."""
    first = _read_header(source)
    if first.segment_number != 1:
        raise ImageError(f"{source.name}: is segment {first.segment_number} of an {WHAT}. Open the first one.")
    path = Path(source.name)
    paths = find_segments(path) if isinstance(source, RawFile) and path.is_file() else {1: path}
    files = {1: source}
    with ExitStack() as stack:
        for number, segment_path in paths.items():
            if number > 1:
                files[number] = stack.enter_context(RawFile(segment_path, counter=source.counter))
        disk = _open_segments(files, dict(enumerate(segment_names(path), 1)))
        stack.pop_all()
    return disk


def _read_header(source: Source) -> ExpertWitness.SegmentHeader:
    return read_structure(grammar.ExpertWitness.SegmentHeader, source, 0, WHAT)


class Segment:
    """One file of an image: its chunks, the sizes of the disk in the first file, and whether another one follows."""

    def __init__(self, source: Source, place: int, chunk_bytes: int) -> None:
        """Read all sections; `place` is the index of the file among the open ones."""
        self._source, self._chunk_bytes = source, chunk_bytes
        self.volume: ExpertWitness.VolumeSection | None = None  # sizes
        self.is_small = False  # whether they are as SMART writes them
        self.last = ""  # name of its last section: `next` if another file follows, `done` in the last one
        self.problem = ""  # why its chain of sections ends early; empty if it does not
        self._parts: list[tuple[I64, I64, Mask]] = []
        # The last section of chunks for which no table was found yet.
        self._unlisted: tuple[int, int] | None = None
        at, following = 0, SEGMENT_HEADER.width
        while following > at:
            at = following
            name = Path(source.name).name
            if at + SECTION.width > source.size_bytes:
                self.problem = f"{name} ends at byte {source.size_bytes:,}, before its last section"
                break
            data = source.read(at, SECTION.width)
            section = grammar.parse(grammar.ExpertWitness.Section, data, structure="section", image_offset=at)
            if zlib.adler32(data[:-CHECKSUM_BYTES]) != section.checksum:
                self.problem = f"the section header at byte {at:,} of {name} is damaged"
                break
            self.last = section.kind.rstrip(b"\0").decode("ascii", "replace")
            start, stop = at + SECTION.width, min(at + section.len_section, source.size_bytes)
            if self.last in ("volume", "disk") and self.volume is None:
                self.volume = read_structure(grammar.ExpertWitness.VolumeSection, source, start, "volume section")
                self.is_small = section.len_section - SECTION.width == SMALL_VOLUME_BYTES
                self._chunk_bytes = self.volume.num_chunk_sectors * self.volume.len_sector
            elif self.last == "sectors":
                self._find_unlisted_chunks()
                self._unlisted = start, stop
            # The second table is a copy of the first one.
            elif self.last == "table" or (self.last == "table2" and self._unlisted is not None):
                self._read_table(start, stop)
            following = section.ofs_next
        self._find_unlisted_chunks()
        none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool)
        offset, length, packed = (np.concatenate(column) for column in zip(none, *self._parts, strict=True))
        count = np.arange(len(offset))
        # What it stores, numbered by chunks in the segment.
        self.chunks = make_pieces(count, length, offset, file=place, stored=length, codec=np.where(packed, 1, 2))

    def _read_table(self, start: int, stop: int) -> None:
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
        end = self._unlisted[1] if self._unlisted is not None else stop
        self._parts.append(_decode_entries(entries, table.ofs_base, end))
        self._unlisted = None

    def _find_unlisted_chunks(self) -> None:
        """Find chunks that no table lists, as in a truncated file, by their checksums."""
        if self._unlisted is None or not 0 < self._chunk_bytes <= MAX_CHUNK_BYTES:
            return
        at, stop = self._unlisted
        self._unlisted = None
        chunks = []
        max_chunk_bytes = self._chunk_bytes + self._chunk_bytes // 1000 + 64  # zlib's bound for incompressible data
        while at < stop:
            data = self._source.read(at, min(max_chunk_bytes, stop - at))
            length, packed = self._chunk_bytes + CHECKSUM_BYTES, False
            if not _check_chunk(data, (self._chunk_bytes,)):
                unpacked, length = _inflate(data, self._chunk_bytes)
                packed = True
                if not unpacked:
                    break
            chunks.append((at, length, packed))
            at += length
        rows = np.array([row[:2] for row in chunks], np.int64).reshape(-1, 2)
        self._parts.append((rows[:, 0], rows[:, 1], np.array([row[2] for row in chunks], bool)))


def _decode_entries(entries: bytes, base: int, end: int) -> tuple[I64, I64, Mask]:
    """Decode the entries of a table: offset and length of each chunk, and whether it is packed."""
    fields = (CHUNK_ENTRY.ofs_chunk, CHUNK_ENTRY.is_compressed, CHUNK_ENTRY.place)
    offset, packed, whole = decode_table(entries, 0, len(entries) // CHUNK_ENTRY.width, CHUNK_ENTRY, *fields)
    # After 2 GiB, the highest bit belongs to the offset, and no chunk is packed; a falling offset shows where.
    back = np.flatnonzero(np.diff(offset) < 0)
    if len(back):
        offset[back[0] + 1 :] = whole[back[0] + 1 :]
        packed[back[0] + 1 :] = 0
    offset += min(base, 2**62)
    return offset, np.diff(offset, append=end), packed > 0


def checksum_of(data: bytes) -> bytes:
    """Return the checksum as it is stored after the data."""
    return zlib.adler32(data).to_bytes(CHECKSUM_BYTES, "little")


def _inflate(data: bytes, max_bytes: int) -> tuple[bytes, int]:
    """Unpack a stream that ends with its checksum; return the data, empty if damaged, and the length of the stream."""
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, max_bytes)
        # All data may be unpacked before the checksum is read.
        rest = b"" if stream.eof else stream.decompress(stream.unconsumed_tail, 1)
    except zlib.error:
        return b"", 0
    return (unpacked, len(data) - len(stream.unused_data)) if stream.eof and not rest else (b"", 0)


def _open_segments(files: dict[int, Source], names: dict[int, str]) -> Source:
    """Open the disk in segments; chunks that are missing or damaged count as never read."""
    segments: dict[int, Segment] = {}
    problems: list[str] = []
    chunk = size = 0
    for place, (number, file) in enumerate(files.items()):
        try:
            if _read_header(file).segment_number != number:
                problems.append(f"{Path(file.name).name} is not segment {number} of the image")
                continue
        except FormatError:
            problems.append(f"{Path(file.name).name} is not a segment of the image")
            continue
        segments[number] = Segment(file, place, chunk)
        if number == 1:
            chunk, size = _read_sizes(segments[1], file.name)
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
    codecs = (lambda data, length: _refuse_empty(_inflate(data, chunk)[0][:length]),
              lambda data, length: _refuse_empty(_check_chunk(data, (chunk, length))[:length]))  # fmt: skip
    return StoredSource(list(files.values()), size, pieces, what=WHAT, codecs=codecs, unread=[lost],
                        findings=findings)  # fmt: skip


def _read_sizes(first: Segment, name: str) -> tuple[int, int]:
    """Return the sizes of a chunk and of the disk, in bytes."""
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


def _number_chunks(segments: dict[int, Segment], num_chunks: int) -> NDArray[np.void]:
    """Number chunks through all segments: from the start up to the first gap, from the end down to the last."""
    parts: list[NDArray[np.void]] = []
    num_before, next_from_end = 0, num_chunks
    for number in range(1, max(segments) + 1):
        if number not in segments:
            break
        parts.append(segments[number].chunks.copy())
        parts[-1]["start"] += num_before
        num_before += len(parts[-1])
        if segments[number].problem:
            break
    if segments[max(segments)].last == "done":
        for number_from_end in range(max(segments), len(parts), -1):
            if number_from_end not in segments or segments[number_from_end].problem:
                break
            parts.append(segments[number_from_end].chunks.copy())
            next_from_end -= len(parts[-1])
            parts[-1]["start"] += next_from_end
    joined = np.concatenate(parts)
    joined = joined[np.argsort(joined["start"], kind="stable")]
    joined = joined[(joined["start"] >= 0) & (joined["start"] < num_chunks)]
    # If both counts overlap, there are more chunks than the disk has, and it is unknown which are surplus.
    return joined[np.diff(joined["start"], prepend=-1) > 0]


def _check_chunk(data: bytes, sizes: tuple[int, ...]) -> bytes:
    """Return the start of the data if its checksum follows; the last chunk of a disk may be shorter."""
    fitting = (data[:size] for size in sizes if data[size : size + CHECKSUM_BYTES] == checksum_of(data[:size]))
    return next(fitting, b"")


def _refuse_empty(data: bytes) -> bytes:
    if not data:
        raise ChecksumError("does not have the checksum that is stored with it", structure=WHAT, image_offset=0)
    return data
