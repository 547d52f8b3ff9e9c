"""Disks whose blocks are stored in any order in a file, according to a table, read in place."""

from __future__ import annotations

import lzma
import zlib
from bisect import bisect_left, insort
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from layoutscope.errors import ChecksumError, FormatError, ImageError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.raw import RawFile
from layoutscope.image.source import PieceSource, Source
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, Mask, runs_of, total, union
from layoutscope.structs.bulk import decode_columns
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.image.source import ReadCounter
    from layoutscope.structs.grammar import T
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    Codec: TypeAlias = Callable[[bytes, int], bytes]
    """Unpacks the stored bytes of a piece; the second argument is its length on the disk."""

MAX_DISK_BYTES: Final = 2**60
MAX_TABLE_BYTES: Final = 1 << 28

MAX_UNPACKED_A_BYTE: Final = 4096
"""Limit of unpacked bytes per stored byte: deflate reaches 1,032, more than the other codecs here."""

MAX_PIECE_BYTES: Final = 64 * 1024**2
"""Unpacked length of one piece: hdiutil packs 1 MiB at most, other programs up to 16 MiB."""

KEPT_BYTES: Final = MAX_PIECE_BYTES
"""Size of the cache of unpacked pieces, so several passes unpack a piece only once; the last piece always stays."""

PIECE: Final = np.dtype(
    [
        # on the disk, in bytes
        ("start", np.int64),
        ("length", np.int64),
        # the number of its file, its offset there, and its stored length, which counts for packed pieces only
        ("file", np.int64),
        ("place", np.int64),
        ("stored", np.int64),
        # 0 for a piece that is stored as it is, else the number of its codec from 1
        ("codec", np.int64),
    ]
)


def make_pieces(start: I64, length: I64, place: I64, **others: Any) -> NDArray[np.void]:
    """Make pieces of a disk from columns of :data:`PIECE`; omitted columns are 0."""
    pieces = np.zeros(len(start), PIECE)
    for name, column in {"start": start, "length": length, "place": place, **others}.items():
        pieces[name] = column
    return pieces


class StoredSource(PieceSource):
    """A disk in pieces of files, some of them packed; pieces that prove damaged count as never read."""

    def __init__(
        self,
        files: Sequence[Source],
        size_bytes: int,
        pieces: NDArray[np.void],  # of :data:`PIECE`, in the order of the disk, without overlap
        *,
        what: str,
        codecs: Sequence[Codec] = (),
        unread: Sequence[I64] = (),  # lost ranges of the disk: offset and length in bytes
        findings: Sequence[Finding] = (),
    ) -> None:
        self._set_around(files[0], size_bytes)
        self._files, self._pieces, self._codecs, self._what = files, pieces, codecs, what
        self._starts, self._ends = pieces["start"], pieces["start"] + pieces["length"]
        # Ranges that are stored as they are in unread ranges of the files are unread, too.
        lost = list(unread)
        for number, file in enumerate(files):
            plain = pieces[(pieces["file"] == number) & (pieces["codec"] == 0)]
            place, length = plain["place"], plain["length"]
            for low, size in file.unread_ranges().tolist():
                first, last = np.maximum(place, low), np.minimum(place + length, low + size)
                is_unread = last > first
                lost.append(runs_of((plain["start"] + first - place)[is_unread], (last - first)[is_unread]))
        self._unread = union([self._unread, *lost])
        self._bad: I64 = np.empty((0, 2), np.int64)
        self._reason = ""
        self._cache: dict[int, bytes] = {}
        self._numbers, self._cached_bytes = list[int](), 0  # of the pieces that are kept, ascending
        self._first_findings = self.own_findings = tuple(findings)

    def _read_piece(self, number: int, offset: int, target: memoryview) -> None:
        start, length, file, place, _, codec = self._pieces[number].tolist()
        if not codec:
            self._files[file].read_into(place + offset, target)
            return
        if number not in self._cache:
            try:
                self._cache[number] = self._unpack(number)
            except FormatError as error:
                # A damaged piece is empty, and counts as never read.
                self._cache[number] = b""
                self._bad = union([self._bad, np.array([[start, length]], np.int64)])
                where = f"such as that at byte {place:,} of {Path(self._files[file].name).name}"
                self._reason = self._reason or f"{where}, which {error.reason}"
                lost = format_bytes(total(self._bad))
                message = f"{lost} of pieces that were read count as not read, {self._reason}"
                code = "checksum-mismatch" if isinstance(error, ChecksumError) else "container-invalid"
                damage = Finding(code, "error", self._what, int(self._bad[0, 0]), message)
                self.own_findings = (*self._first_findings, damage)
            self._cached_bytes += len(self._cache[number])
            insort(self._numbers, number)
            while len(self._cache) > 1 and self._cached_bytes > KEPT_BYTES:
                # Passes go up the disk, so the piece before this one is needed last, then the one at the end.
                evicted = self._numbers.pop(bisect_left(self._numbers, number) - 1)
                self._cached_bytes -= len(self._cache.pop(evicted))
        target[:] = self._cache[number][offset : offset + len(target)].ljust(len(target), b"\0")

    def _unpack(self, number: int) -> bytes:
        _, length, file, place, stored, codec = self._pieces[number].tolist()
        if length > MAX_PIECE_BYTES or stored > 2 * MAX_PIECE_BYTES:
            raise FormatError("is larger than any that is compressed", structure=self._what, image_offset=place)
        try:
            data: bytes = self._codecs[codec - 1](self._files[file].read(place, stored), length)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, ImageError) as error:
            why = error if isinstance(error, ImageError) else "its data are damaged"
            raise FormatError(f"cannot be decompressed: {why}", structure=self._what, image_offset=place) from error
        if len(data) != length:
            reason = f"has {len(data):,} bytes when decompressed and should have {length:,}"
            raise FormatError(reason, structure=self._what, image_offset=place)
        return data

    def unread_ranges(self) -> I64:
        """Areas that are missing or were found damaged so far, shape (n, 2): offset and length in bytes."""
        return union([self._unread, self._bad]) if len(self._bad) else self._unread

    @property
    def holes(self) -> I64:
        """Areas that are not stored, shape (n, 2): offset and length in bytes."""
        stored, file_bytes = int(self._pieces["length"].sum()), sum(each.size_bytes for each in self._files)
        # No codec packs a disk this densely.
        if stored > MAX_UNPACKED_A_BYTE * file_bytes:
            claim = f"{format_bytes(stored)} in {format_bytes(file_bytes)}"
            raise ImageError(f"{self.name}: claims to store {claim}, which is not gone through")
        return super().holes

    def close(self) -> None:
        """Close all files."""
        for each in self._files:
            each.close()


def open_placed(
    source: Source,
    what: str,
    size_bytes: int,
    unit_bytes: int,
    numbers: I64,  # numbers, offsets: which blocks of the disk are stored, in any order, and where in the file
    offsets: I64,
    *,
    stored: I64 | None = None,  # stored length of packed blocks, 0 for others; None if no block is packed
    codecs: Sequence[Codec] = (),  # the codec that unpacks them
    first_offset: int = 0,
    unread: Sequence[I64] = (),  # ranges of the disk with unknown contents: offset and length in bytes
    findings: Sequence[Finding] = (),
) -> Source:
    """Open a disk by the places of its blocks; blocks after the end of the file count as never read."""
    reports, lost = list(findings), list(unread)
    starts = numbers * unit_bytes
    packed = np.zeros(len(numbers), np.int64) if stored is None else stored
    pieces = make_pieces(starts, np.minimum(unit_bytes, size_bytes - starts), offsets, stored=packed, codec=packed > 0)
    # If two entries name one block of the file, or one block of the disk, one is wrong, and it is unknown which.
    doubtful = is_repeated(numbers) | is_repeated(offsets) | (offsets < first_offset)
    if doubtful.any():
        reports.append(Finding(
            "container-invalid", "error", what, int(offsets[doubtful].min()),
            f"its table names {int(doubtful.sum()):,} blocks where no block can be, or twice; they count as not read, "
            f"the first at byte {int(starts[doubtful].min()):,} of the disk",
        ))  # fmt: skip
        lost.append(runs_of(pieces["start"][doubtful], pieces["length"][doubtful]))
    pieces = pieces[~doubtful]
    pieces = pieces[np.argsort(pieces["start"], kind="stable")]
    needed = np.where(pieces["codec"] > 0, pieces["stored"], pieces["length"])
    available = np.clip(source.size_bytes - pieces["place"], 0, needed)
    cut = available < needed
    if cut.any():
        whole = pieces["length"].copy()
        pieces["length"] = np.where(pieces["codec"] > 0, np.where(cut, 0, whole), available)
        missing = whole - pieces["length"]
        reports.append(Finding(
            "image-incomplete", "error", what, source.size_bytes,
            f"the file ends at byte {source.size_bytes:,}; {missing.sum():,} bytes that it should hold are missing",
            f"an end at byte {int((pieces['place'] + needed)[cut].max()):,}", f"{source.size_bytes:,}",
        ))  # fmt: skip
        lost.append(runs_of((pieces["start"] + pieces["length"])[cut], missing[cut]))
    pieces = pieces[pieces["length"] > 0]
    if len(pieces):
        # Blocks that are contiguous both on the disk and in the file are joined.
        before, after = pieces[:-1], pieces[1:]
        follows = (before["codec"] == 0) & (after["codec"] == 0)
        for name in ("start", "place"):
            follows &= after[name] == before[name] + before["length"]
        first = np.flatnonzero(np.concatenate([[True], ~follows]))
        length = np.add.reduceat(pieces["length"], first)
        pieces = pieces[first]
        pieces["length"] = length
    return StoredSource([source], size_bytes, pieces, what=what, codecs=codecs, unread=lost, findings=reports)


def open_piece(source: Source, what: str, offset: int, length: int) -> Source:
    """Open the disk in one piece of a file; missing bytes count as never read."""
    one = np.zeros(1, np.int64)
    return open_placed(source, what, length, length, one, one + offset)


def open_part(path: Path, counter: ReadCounter, open_with: Callable[[Source], Source]) -> Source:
    """Open the disk in one of the files of an image; the file is closed if that fails."""
    with ExitStack() as stack:
        disk = open_with(stack.enter_context(RawFile(path, counter=counter)))
        stack.pop_all()
    return disk


def is_repeated(values: I64) -> Mask:
    """Whether a number occurs more than once."""
    _, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    repeated: Mask = times[inverse] > 1
    return repeated


def read_structure(kind: type[T], source: Source, at: int, structure: str) -> T:
    """Parse a structure of a file, which may end within it."""
    data = source.read(at, min(grammar.width_of(kind), max(0, source.size_bytes - at)))
    return grammar.parse(kind, data, structure=structure, image_offset=at)


def read_table(source: Source, what: str, at: int, count: int, record: RecordType, *fields: RecordColumn) -> list[I64]:
    """Read fields of a table."""
    length = count * record.width
    end = min(source.size_bytes, at + MAX_TABLE_BYTES)
    refuse_overrun("the table of blocks is not within the file", what, at, end, at + length)
    return decode_table(source.read(at, length), 0, count, record, *fields)


def decode_table(data: bytes, at: int, count: int, record: RecordType, *fields: RecordColumn) -> list[I64]:
    """Decode fields of a table; numbers are capped at 2**62, which exceeds any file or disk."""
    starts = at + np.arange(count) * record.width
    columns = decode_columns(record, np.frombuffer(data, np.uint8), starts, fields)
    return [np.minimum(columns[field].astype(np.uint64), np.uint64(2**62)).astype(np.int64) for field in fields]


def refuse_overrun(reason: str, structure: str, image_offset: int, end: int, stop: int) -> None:
    """Refuse a structure if what it describes stops after the end of a file or disk."""
    if stop > end:
        raise FormatError(
            reason, structure=structure, image_offset=image_offset,
            expected=f"an end at or before byte {end:,}", found=f"{stop:,}",
        )  # fmt: skip


def make_refusal(name: str, reason: str, advice: str = "") -> UnsupportedError:
    """Make the error for a kind of container that is not read."""
    return UnsupportedError(f"{name}: {reason}", code="container", advice=advice)


def refuse_sizes(what: str, size_bytes: int, unit_bytes: int) -> None:
    """Refuse impossible sizes of a disk or its blocks."""
    if not 0 < unit_bytes <= MAX_DISK_BYTES or not 0 < size_bytes <= MAX_DISK_BYTES:
        raise FormatError(
            f"a disk of {size_bytes:,} bytes in blocks of {unit_bytes:,} is impossible", structure=what, image_offset=0
        )
