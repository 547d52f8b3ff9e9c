"""Disks whose blocks a file holds in any order: what a table of blocks comes to, read in place."""

from __future__ import annotations

import lzma
import zlib
from bisect import bisect_left, insort
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np

from layoutscope.errors import ChecksumError, FormatError, ImageError
from layoutscope.findings import Finding
from layoutscope.image.source import PieceSource, Source
from layoutscope.structs import grammar
from layoutscope.structs.arrays import runs_of, total, union
from layoutscope.structs.bulk import decode_columns
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.grammar import Struct
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    I64 = NDArray[np.int64]
    Codec: TypeAlias = Callable[[bytes, int], bytes]
    """From what is stored of a piece and the bytes that it has on the disk to these bytes."""

    T = TypeVar("T", bound=Struct)

SECTOR_BYTES: Final = 512
MAX_DISK_BYTES: Final = 2**60
MAX_TABLE_BYTES: Final = 1 << 28

MAX_UNPACKED_A_BYTE: Final = 4096
"""What a byte of a file may stand for: deflate makes 1,032 of one, and nothing here packs better."""

MAX_PIECE_BYTES: Final = 64 * 1024**2
"""What one piece that is packed becomes: hdiutil makes 1 MiB at most, other programs up to 16 MiB."""

KEPT_BYTES: Final = MAX_PIECE_BYTES
"""Limit of unpacked pieces; the last one stays, however long it is. Pieces that several passes touch are unpacked once
as far as there is room for them."""

PIECE: Final = np.dtype(
    [
        # on the disk, in bytes
        ("start", np.int64),
        ("length", np.int64),
        # which file holds it, where, and in how many bytes; these count only of what a codec unpacks
        ("file", np.int64),
        ("place", np.int64),
        ("stored", np.int64),
        # 0 for a piece that is stored as it is, else the number of its codec from 1
        ("codec", np.int64),
    ]
)


def make_pieces(start: I64, length: I64, place: I64, **others: Any) -> NDArray[np.void]:
    """Make pieces of a disk from columns of :data:`PIECE`; those that are left out are 0."""
    pieces = np.zeros(len(start), PIECE)
    for name, column in {"start": start, "length": length, "place": place, **others}.items():
        pieces[name] = column
    return pieces


class StoredSource(PieceSource):
    """The disk in pieces of files, some of them packed; those that prove damaged count as never read."""

    def __init__(
        self,
        files: Sequence[Source],
        size_bytes: int,
        pieces: NDArray[np.void],  # of :data:`PIECE`, in the order of the disk, without overlap
        *,
        what: str,
        codecs: Sequence[Codec] = (),
        unread: Sequence[I64] = (),  # ranges of the disk that are known to be lost: offset and length in bytes
        findings: Sequence[Finding] = (),
    ) -> None:
        self._set_around(files[0], size_bytes)
        self._files, self._pieces, self._codecs, self._what = files, pieces, codecs, what
        self._starts, self._ends = pieces["start"], pieces["start"] + pieces["length"]
        self._unread = union([self._unread, *unread, *self._below_unread()])
        self._bad: I64 = np.empty((0, 2), np.int64)
        self._reason = ""
        self._kept: dict[int, bytes] = {}
        self._numbers, self._kept_bytes = list[int](), 0  # of the pieces that are kept, ascending
        self._known = self.own_findings = tuple(findings)

    def _below_unread(self) -> list[I64]:
        """Ranges of the disk that are stored as they are where a file was never read."""
        found = []
        for number, file in enumerate(self._files):
            plain = self._pieces[(self._pieces["file"] == number) & (self._pieces["codec"] == 0)]
            place, length = plain["place"], plain["length"]
            for low, size in file.unread_ranges().tolist():
                first, last = np.maximum(place, low), np.minimum(place + length, low + size)
                hit = last > first
                found.append(runs_of((plain["start"] + first - place)[hit], (last - first)[hit]))
        return found

    def _read_piece(self, number: int, offset: int, target: memoryview) -> None:
        _, _, file, place, _, codec = self._pieces[number].tolist()
        if not codec:
            self._files[file].read_into(place + offset, target)
            return
        data = self._unpacked(number)[offset : offset + len(target)]
        target[:] = data.ljust(len(target), b"\0")

    def _unpacked(self, number: int) -> bytes:
        """Return a piece that is packed; nothing of one that is damaged."""
        if number not in self._kept:
            try:
                self._kept[number] = self._unpack(number)
            except FormatError as error:
                self._kept[number] = b""
                self._remember(number, error)
            self._kept_bytes += len(self._kept[number])
            insort(self._numbers, number)
            while len(self._kept) > 1 and self._kept_bytes > KEPT_BYTES:
                # Passes go up the disk: the piece before this one is wanted last, and after it the one at the end.
                gone = self._numbers.pop(bisect_left(self._numbers, number) - 1)
                self._kept_bytes -= len(self._kept.pop(gone))
        return self._kept[number]

    def _unpack(self, number: int) -> bytes:
        _, length, file, place, stored, codec = self._pieces[number].tolist()
        if length > MAX_PIECE_BYTES or stored > 2 * MAX_PIECE_BYTES:
            raise FormatError("is larger than any that is compressed", structure=self._what, image_offset=place)
        try:
            data: bytes = self._codecs[codec - 1](self._files[file].read(place, stored), length)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
            reason = "cannot be decompressed: its data are damaged"
            raise FormatError(reason, structure=self._what, image_offset=place) from error
        except ImageError as error:
            reason = f"cannot be decompressed: {error}"
            raise FormatError(reason, structure=self._what, image_offset=place) from error
        if len(data) != length:
            reason = f"has {len(data):,} bytes when decompressed and should have {length:,}"
            raise FormatError(reason, structure=self._what, image_offset=place)
        return data

    def _remember(self, number: int, error: FormatError) -> None:
        """Count a piece as never read, and say why of the first one."""
        start, length, file, place, *_ = self._pieces[number].tolist()
        self._bad = union([self._bad, np.array([[start, length]], np.int64)])
        where = f"such as that at byte {place:,} of {Path(self._files[file].name).name}"
        self._reason = self._reason or f"{where}, which {error.reason}"
        message = f"{format_bytes(total(self._bad))} of pieces that were read count as not read, {self._reason}"
        code = "checksum-mismatch" if isinstance(error, ChecksumError) else "container-invalid"
        self.own_findings = (*self._known, Finding(code, "error", self._what, int(self._bad[0, 0]), message))

    def unread_ranges(self) -> I64:
        """Areas that are missing, or damaged as far as is known by now, shape (n, 2): offset and length in bytes."""
        return union([self._unread, self._bad]) if len(self._bad) else self._unread

    @property
    def holes(self) -> I64:
        """Areas of which nothing is stored, shape (n, 2): offset and length in bytes."""
        stored, held = int(self._pieces["length"].sum()), sum(each.size_bytes for each in self._files)
        # However a file is packed, it holds no more.
        if stored > MAX_UNPACKED_A_BYTE * held:
            claim = f"{format_bytes(stored)} in {format_bytes(held)}"
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
    stored: I64 | None = None,  # bytes that blocks take which are packed, 0 of others; none is packed without it
    codecs: Sequence[Codec] = (),  # the one that unpacks them
    first_offset: int = 0,
    unread: Sequence[I64] = (),  # ranges of the disk of which nothing is known: offset and length in bytes
    findings: Sequence[Finding] = (),
) -> Source:
    """Open a disk by the places of its blocks; blocks after the end of the file count as never read."""
    told, lost = list(findings), list(unread)
    starts = numbers * unit_bytes
    packed = np.zeros(len(numbers), np.int64) if stored is None else stored
    pieces = make_pieces(starts, np.minimum(unit_bytes, size_bytes - starts), offsets, stored=packed, codec=packed > 0)
    # Two names for one block of the file, or two places of one block of the disk: one is wrong, and it is unknown
    # which.
    doubtful = is_repeated(numbers) | is_repeated(offsets) | (offsets < first_offset)
    if doubtful.any():
        told.append(Finding(
            "container-invalid", "error", what, int(offsets[doubtful].min()),
            f"its table names {int(doubtful.sum()):,} blocks where no block can be, or twice; they count as not read, "
            f"the first at byte {int(starts[doubtful].min()):,} of the disk",
        ))  # fmt: skip
        lost.append(runs_of(pieces["start"][doubtful], pieces["length"][doubtful]))
    pieces = pieces[~doubtful]
    pieces = pieces[np.argsort(pieces["start"], kind="stable")]
    wanted = np.where(pieces["codec"] > 0, pieces["stored"], pieces["length"])
    there = np.clip(source.size_bytes - pieces["place"], 0, wanted)
    cut = there < wanted
    if cut.any():
        whole = pieces["length"].copy()
        pieces["length"] = np.where(pieces["codec"] > 0, np.where(cut, 0, whole), there)
        left = whole - pieces["length"]
        told.append(Finding(
            "image-incomplete", "error", what, source.size_bytes,
            f"the file ends at byte {source.size_bytes:,}; {int(left.sum()):,} bytes that it should hold are missing",
            f"an end at byte {int((pieces['place'] + wanted)[cut].max()):,}", f"{source.size_bytes:,}",
        ))  # fmt: skip
        lost.append(runs_of((pieces["start"] + pieces["length"])[cut], left[cut]))
    return StoredSource(
        [source], size_bytes, _join_blocks(pieces), what=what, codecs=codecs,
        unread=lost, findings=told,
    )  # fmt: skip


def is_repeated(values: I64) -> NDArray[np.bool_]:
    """Whether a number occurs more than once."""
    _, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    repeated: NDArray[np.bool_] = times[inverse] > 1
    return repeated


def _join_blocks(pieces: NDArray[np.void]) -> NDArray[np.void]:
    """Join blocks that follow one another on the disk and in the file; only whole ones are followed by another one."""
    pieces = pieces[pieces["length"] > 0]
    if not len(pieces):
        return pieces
    before, after = pieces[:-1], pieces[1:]
    follows = (before["codec"] == 0) & (after["codec"] == 0)
    for name in ("start", "place"):
        follows &= after[name] == before[name] + before["length"]
    first = np.flatnonzero(np.concatenate([[True], ~follows]))
    joined = pieces[first]
    joined["length"] = np.add.reduceat(pieces["length"], first)
    return joined


def read_structure(kind: type[T], record: RecordType, source: Source, at: int, structure: str = "") -> T:
    """Parse a structure of a file, which may end in it."""
    data = source.read(at, min(record.width, max(0, source.size_bytes - at)))
    return grammar.parse(kind, data, structure=structure or record.type_name, image_offset=at)


def read_table(
    source: Source, at: int, count: int, record: RecordType, fields: Sequence[RecordColumn], what: str
) -> list[I64]:
    """Read fields of a table; numbers beyond 62 bits, which no file or disk has, are as large as those."""
    length = count * record.width
    if length > MAX_TABLE_BYTES or not 0 <= at <= source.size_bytes - length:
        raise FormatError(
            "the table of blocks is not within the file", structure=what, image_offset=at,
            expected=f"an end at or before byte {min(source.size_bytes, at + MAX_TABLE_BYTES):,}",
            found=f"{at + length:,}",
        )  # fmt: skip
    buffer = np.frombuffer(source.read(at, length), np.uint8)
    columns = decode_columns(record, buffer, np.arange(count) * record.width, tuple(fields))
    return [np.minimum(columns[field].astype(np.uint64), np.uint64(2**62)).astype(np.int64) for field in fields]


def refuse_sizes(what: str, size_bytes: int, unit_bytes: int) -> None:
    """Refuse a disk, or blocks of it, of lengths that none has."""
    if not 0 < unit_bytes <= MAX_DISK_BYTES or not 0 < size_bytes <= MAX_DISK_BYTES:
        raise FormatError(
            f"a disk of {size_bytes:,} bytes in blocks of {unit_bytes:,} is impossible", structure=what, image_offset=0
        )
