"""Files that hold a disk image in one piece, or in sectors with other data between them.

MacBinary, AppleSingle and Disk Copy 4.2 put a header before the image, and IM4P (in an IPSW) a DER sequence. Raw CD
images have 2,048 bytes of data in each sector of 2,352, and a list of tracks next to them.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError, ImageError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import make_refusal, open_piece, open_placed
from layoutscope.image.raw import RawFile
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import runs_of
from layoutscope.structs.bulk import decode_columns
from layoutscope.units import format_count

if TYPE_CHECKING:
    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import T

WHAT_CD: Final = "CD image"
CD_BYTES: Final = 2048
"""Bytes of data in a sector of a CD."""

SECTOR_STRIDES: Final = 2352, 2448
"""Length of a raw sector without and with the subchannels."""

CD_SYNC: Final = b"\0" + b"\xff" * 10 + b"\0"
MAC_BINARY_CRC_BYTES: Final = 124
MAX_CUE_BYTES: Final = 65536
MAX_APPLE_SINGLE_ENTRIES: Final = 64
FRAMES_A_SECOND: Final = 75
MAX_CD_SECTORS: Final = 100 * 60 * FRAMES_A_SECOND
"""Minutes have two digits in sector headers."""

SECTORS_PER_READ: Final = 2048

SEQUENCE, OCTETS, TEXT = 0x30, 0x04, 0x16
"""Tags of DER (ITU-T X.690, 8)."""

COMPRESSED: Final = {b"bvx": "LZFSE", b"complzss": "LZSS"}
_BCHUNK: Final = "bchunk IMAGE.bin IMAGE.cue RAW"
_IM4P_ADVICE: Final = "unpack it with: pyimg4 im4p extract -i IMAGE -o RAW"


def open_wrapped(source: Source, head: bytes) -> Source | None:
    """Open the disk in a wrapper, recognised by the first bytes of the file; None if there is no wrapper."""
    what = "MacBinary file"
    binary = _parse_head(grammar.FileWrappers.MacBinary, head, what)
    if binary is not None and binary.len_data and crc_hqx(head[:MAC_BINARY_CRC_BYTES], 0) == binary.checksum:
        return open_piece(source, what, records.MAC_BINARY.width, binary.len_data)
    what = "Disk Copy 4.2 image"
    copy = _parse_head(grammar.FileWrappers.DiskCopy, head, what)
    if copy is not None and copy.len_data and not copy.len_data % 512:
        # Two bytes are weak evidence: the file must have the length that it claims, apart from padding.
        padding = source.size_bytes - records.DISK_COPY.width - copy.len_data - copy.len_tags
        if 0 <= padding < 512:
            return open_piece(source, what, records.DISK_COPY.width, copy.len_data)
    return _open_im4p(source, head)


def open_apple_single(source: Source) -> Source:
    """Open the data fork in an AppleSingle file."""
    what, head = "AppleSingle file", source.read(0, min(source.size_bytes, 4096))
    header = _parse_head(grammar.FileWrappers.AppleSingle, head, what)
    for number in range(min(header.num_entries, MAX_APPLE_SINGLE_ENTRIES) if header is not None else 0):
        at = records.APPLE_SINGLE.width + number * records.APPLE_SINGLE_ENTRY.width
        entry = _parse_head(grammar.FileWrappers.AppleSingleEntry, head[at:], what)
        if entry is not None and entry.kind == grammar.FileWrappers.EntryKind.data_fork and entry.len_part:
            return open_piece(source, what, entry.ofs_part, entry.len_part)
    raise make_refusal(source.name, "the AppleSingle file has no data fork", "copy the file once more, with its data")


def _parse_head(kind: type[T], head: bytes, what: str) -> T | None:
    try:
        return grammar.parse(kind, head, structure=what)
    except FormatError:
        return None


def _open_im4p(source: Source, head: bytes) -> Source | None:
    at = 0

    def enter(tag: int) -> int | None:
        """Enter the next element of DER if it has this tag, and return the length of its contents."""
        nonlocal at
        first = head[at + 1 : at + 2]
        if head[at : at + 1] != bytes([tag]) or not first:
            return None
        more = first[0] & 0x7F if first[0] & 0x80 else 0
        length = head[at + 2 : at + 2 + more]
        if more > 8 or len(length) < more:
            return None
        at += 2 + more
        return int.from_bytes(length, "big") if more else first[0]

    if enter(SEQUENCE) is None:
        return None
    texts = []
    for _ in range(3):
        size = enter(TEXT)
        if size is None:
            return None
        texts.append(head[at : at + size])
        at += size
    length = enter(OCTETS)
    if texts[0] != b"IM4P" or not length:
        return None
    payload = "the payload of an IM4P file"
    for magic, method in COMPRESSED.items():
        if head.startswith(magic, at):
            raise make_refusal(source.name, f"{payload} is compressed ({method})", _IM4P_ADVICE)
    # The wrapped key of an encrypted payload follows it.
    if at + length < source.size_bytes and source.read(at + length, 1) == bytes([OCTETS]):
        raise UnsupportedError(f"{source.name}: {payload} is encrypted", code="encrypted-image", advice=_IM4P_ADVICE)
    return open_piece(source, "IM4P file", at, length)


def open_disc(source: Source) -> Source:
    """Open a raw CD image that begins with a data sector."""
    head = source.read(0, min(source.size_bytes, 2 * SECTOR_STRIDES[-1]))
    sector = grammar.parse(grammar.FileWrappers.CompactDiscSector, head, structure="CD sector")
    stride = next((each for each in SECTOR_STRIDES if head.startswith(CD_SYNC, each)), SECTOR_STRIDES[0])
    if sector.mode not in (1, 2) or (sector.mode == 2 and sector.is_second_form):
        reason = f"has raw CD sectors of mode {sector.mode}, which hold no data of this form"
        raise make_refusal(source.name, reason, f"convert them with: {_BCHUNK}")
    before = records.COMPACT_DISC_SECTOR.file_number.offset if sector.mode == 1 else 24
    return _open_sectors(source, 0, source.size_bytes, stride, before, sector.mode)


def _open_sectors(source: Source, start: int, stop: int, stride: int, before: int, mode: int) -> Source:
    """Open the data of the sectors in a range of a file; `mode` is 0 for sectors without headers."""
    count = -(-(stop - start) // stride)
    if count > MAX_CD_SECTORS:
        raise ImageError(f"{source.name}: has {count:,} raw sectors of a CD, which has at most {MAX_CD_SECTORS:,}")
    # Sectors without a sync pattern, or with another mode or form, are wrong.
    found = [np.empty(0, np.int64)]
    fields = records.COMPACT_DISC_SECTOR.mode, records.COMPACT_DISC_SECTOR.is_second_form
    for first in range(start, stop, SECTORS_PER_READ * stride) if mode else ():
        # The last sector may be incomplete.
        data = bytearray(SECTORS_PER_READ * stride)
        length = min(len(data), stop - first)
        source.read_into(first, memoryview(data)[:length])
        buffer = np.frombuffer(data, np.uint8)
        starts = np.arange(0, length, stride)
        marks = buffer.reshape(-1, stride)[: len(starts), : len(CD_SYNC)]
        heads = decode_columns(records.COMPACT_DISC_SECTOR, buffer, starts, fields)
        is_wrong = (marks != np.frombuffer(CD_SYNC, np.uint8)).any(axis=1) | (heads[fields[0]] != mode)
        # The second form has more data instead of error correction.
        is_wrong |= heads[fields[1]].astype(bool) & (mode == 2)
        found.append(np.flatnonzero(is_wrong) + (first - start) // stride)
    wrong = np.concatenate(found)
    right = np.setdiff1d(np.arange(count, dtype=np.int64), wrong)
    # Without a track list, other tracks may end the file.
    is_behind = wrong == np.arange(count - len(wrong), count)
    findings = []
    if not is_behind.all():
        message = f"{format_count(int((~is_behind).sum()), 'sector')} without the mark of mode {mode}; not read"
        findings.append(Finding("container-invalid", "error", WHAT_CD, start + int(wrong[0]) * stride, message))
    if is_behind.any():
        message = f"{format_count(int(is_behind.sum()), 'sector')} at the end of another track, or damaged; not read"
        at = start + int(wrong[is_behind][0]) * stride
        findings.append(Finding("container-invalid", "warning", WHAT_CD, at, message))
    return open_placed(
        source, WHAT_CD, count * CD_BYTES, CD_BYTES, right, start + right * stride + before,
        unread=[runs_of(wrong * CD_BYTES, np.full(len(wrong), CD_BYTES))], findings=findings,
    )  # fmt: skip


_FILE: Final = re.compile(r'^\s*FILE\s+(?:"([^"]+)"|(\S+))\s+(\w+)', re.IGNORECASE)
_TRACK: Final = re.compile(r"^\s*TRACK\s+\d+\s+(\S+)", re.IGNORECASE)
_INDEX: Final = re.compile(r"^\s*INDEX\s+(\d+)\s+(\d+):(\d+):(\d+)", re.IGNORECASE)
_MODES: Final = {
    "MODE1/2048": (2048, 0, 0),
    "MODE1/2352": (2352, 16, 1),
    "MODE2/2336": (2336, 8, 0),
    "MODE2/2352": (2352, 24, 2),
}
"""Length of a sector, length of its part before the data, and its mode if the sector has a header."""


def is_cue(head: bytes) -> bool:
    """Whether a text is a cue sheet, the list of the tracks of a CD image."""
    lines = head.decode("latin-1").splitlines()
    return any(map(_FILE.match, lines)) and any(map(_TRACK.match, lines))


def data_track(source: Source) -> tuple[Path, int, int | None, int, int, int]:
    """Find the first data track of a cue sheet; its file is in the same folder.

    Returns the file, its first and last frame, the length of its sectors, the bytes before the data of each, and their
    mode.
    """
    text = source.read(0, min(source.size_bytes, MAX_CUE_BYTES)).decode("utf-8", "replace")
    file, mode = "", ""
    begin: int | None = None
    end: int | None = None
    for line in text.splitlines():
        if named := _FILE.match(line):
            if mode:
                break
            file = named[1] or named[2]
        elif track := _TRACK.match(line):
            if mode:
                continue
            mode = track[1].upper() if track[1].upper() in _MODES else ""
        elif index := _INDEX.match(line):
            place = (int(index[2]) * 60 + int(index[3])) * FRAMES_A_SECOND + int(index[4])
            if mode and begin is None and int(index[1]) == 1:
                begin = place
            elif begin is not None and place > begin:
                end = place
                break
    if not mode or not file or begin is None:
        reason = "names no track with data in a form that is read"
        raise make_refusal(source.name, reason, f"convert it with: {_BCHUNK}")
    return Path(source.name).parent / Path(file.replace("\\", "/")).name, begin, end, *_MODES[mode]


def open_cue(source: Source) -> Source:
    """Open the first data track of a cue sheet."""
    path, begin, end, stride, before, mode = data_track(source)
    data = RawFile(path)
    start = begin * stride
    stop = data.size_bytes if end is None else min(end * stride, data.size_bytes)
    if start >= stop:
        data.close()
        raise ImageError(f"{source.name}: its track begins at byte {start:,} of {path.name}, which has {stop:,}")
    source.close()
    if stride == CD_BYTES:
        return open_piece(data, WHAT_CD, start, stop - start)
    return _open_sectors(data, start, stop, stride, before, mode)
