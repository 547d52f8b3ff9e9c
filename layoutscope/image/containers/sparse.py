"""Disks in tables of blocks, read in place: Apple sparse images (``.sparseimage``), Parallels and VirtualBox disks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from xml.sax.saxutils import unescape

import numpy as np

from layoutscope import inputs
from layoutscope.arrays.intervals import runs_of, subtract
from layoutscope.errors import FormatError, ImageError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import open_joined, open_placed
from layoutscope.image.raw import RawFile
from layoutscope.image.source import ReadCounter
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import BULK
from layoutscope.ondisk.records import (
    PARALLELS_ENTRY,
    PARALLELS_HEADER,
    SPARSE_IMAGE_BAND,
    SPARSE_IMAGE_HEADER,
    SPARSE_IMAGE_INDEX,
    VDI_ENTRY,
    VDI_HEADER,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.image.source import Source
    from layoutscope.ondisk.grammar import Struct
    from layoutscope.recordtypes import RecordColumn, RecordType

    I64 = NDArray[np.int64]
    T = TypeVar("T", bound=Struct)

SECTOR_BYTES: Final = 512
MAX_DISK_BYTES: Final = 2**60
MAX_TABLE_BYTES: Final = 1 << 28
MAX_DESCRIPTION_BYTES: Final = 1 << 20

TABLE_BYTES: Final = 4096
"""Length of a table of a sparse image with its header."""

MIN_VDI_FREE: Final = 0xFFFF_FFFE
"""Numbers from here on in the table of a VirtualBox disk name no block."""

PARALLELS: Final = b"WithoutFreeSpace", b"WithouFreSpacExt"
DESCRIPTION: Final = "DiskDescriptor.xml"
_PRL: Final = "join its states on a Mac with: prl_disk_tool merge --hdd IMAGE"


def _parse(kind: type[T], record: RecordType, source: Source, at: int, structure: str) -> T:
    data = source.read(at, min(record.width, max(0, source.size_bytes - at)))
    return grammar.parse(kind, data, structure=structure, image_offset=at)


def _column(source: Source, at: int, count: int, record: RecordType, field: RecordColumn, what: str) -> I64:
    """Read one field of a table."""
    length = count * record.width
    if length > MAX_TABLE_BYTES or at + length > source.size_bytes:
        raise FormatError(
            "the table of blocks does not lie in the file", structure=what, image_offset=at,
            expected=f"an end at or before byte {min(source.size_bytes, at + MAX_TABLE_BYTES):,}",
            found=f"{at + length:,}",
        )  # fmt: skip
    buffer = np.frombuffer(source.read(at, length), np.uint8)
    return BULK.columns(record, buffer, np.arange(count) * record.width, (field,))[field].astype(np.int64)


def _refuse_sizes(what: str, size_bytes: int, unit_bytes: int) -> None:
    if not unit_bytes or not 0 < size_bytes <= MAX_DISK_BYTES:
        raise FormatError(
            f"a disk of {size_bytes:,} bytes in blocks of {unit_bytes:,} is impossible", structure=what, image_offset=0
        )


def open_sparse_image(source: Source) -> Source:
    """Open the disk in an Apple sparse image."""
    what = "sparse image"
    header = _parse(grammar.SparseDisks.SparseImageHeader, SPARSE_IMAGE_HEADER, source, 0, what)
    long = header.num_sectors_long
    sectors = long if long & 0xFFFF_FFFF == header.num_sectors else header.num_sectors
    size, unit = sectors * SECTOR_BYTES, header.num_band_sectors * SECTOR_BYTES
    _refuse_sizes(what, size, unit)
    numbers, offsets, findings = [], [], []
    at, following, width = 0, header.ofs_next_index, SPARSE_IMAGE_HEADER.width
    visited = {0}
    unread = None
    while True:
        count = (TABLE_BYTES - width) // SPARSE_IMAGE_BAND.width
        names = _column(source, at + width, count, SPARSE_IMAGE_BAND, SPARSE_IMAGE_BAND.number, what)
        used = np.flatnonzero(names)
        numbers.append(names[used] - 1)
        # The bands of a table follow it, in its order.
        offsets.append(at + TABLE_BYTES + used * unit)
        if not following:
            break
        at, width = following, SPARSE_IMAGE_INDEX.width
        try:
            following = _following_table(source, at, visited)
        except FormatError as error:
            message = f"{error.reason}; bands that no table before it names count as not read"
            is_cut = at > source.size_bytes - TABLE_BYTES
            code = "image-incomplete" if is_cut else "container-invalid"
            findings.append(Finding(code, "error", what, at, message))
            unread = np.array([[0, size]], np.int64)
            break
        visited.add(at)
    number, offset = np.concatenate(numbers), np.concatenate(offsets)
    inside = number * unit < size
    if not inside.all():
        findings.append(Finding(
            "container-invalid", "warning", what, int(offset[~inside][0]),
            f"{int((~inside).sum()):,} bands lie behind the end of the disk",
        ))  # fmt: skip
    number, offset = number[inside], offset[inside]
    if unread is not None:
        starts = number * unit
        unread = subtract(unread, runs_of(starts, np.minimum(unit, size - starts)))
    return open_placed(source, what, size, unit, number, offset, unread=unread, findings=findings)


def _following_table(source: Source, at: int, visited: set[int]) -> int:
    """Where the table of bands behind a further one begins."""
    if at in visited:
        raise FormatError("the tables of bands lead in a loop", structure="sparse image", image_offset=at)
    if at + TABLE_BYTES > source.size_bytes:
        raise FormatError("a table of bands does not lie in the file", structure="sparse image", image_offset=at)
    kind = grammar.SparseDisks.SparseImageIndex
    return int(_parse(kind, SPARSE_IMAGE_INDEX, source, at, "sparse image").ofs_next_index)


def open_parallels(source: Source) -> Source:
    """Open the disk in a Parallels disk file."""
    what = "Parallels disk"
    header = _parse(grammar.SparseDisks.ParallelsHeader, PARALLELS_HEADER, source, 0, what)
    # With the newer magic entries count blocks, which are as long as a track.
    is_short = header.variant == PARALLELS[0]
    sectors = header.num_sectors_short if is_short else header.num_sectors
    size, unit = sectors * SECTOR_BYTES, header.num_block_sectors * SECTOR_BYTES
    _refuse_sizes(what, size, unit)
    blocks = -(-size // unit)
    count = min(blocks, header.num_entries)
    places = _column(source, PARALLELS_HEADER.width, count, PARALLELS_ENTRY, PARALLELS_ENTRY.place, what)
    used = np.flatnonzero(places)
    offsets = places[used] * (SECTOR_BYTES if is_short else unit)
    findings = []
    if header.in_use == grammar.SparseDisks.ParallelsState.in_use:
        message = "the disk was not closed by the program that wrote to it"
        findings.append(Finding("container-invalid", "warning", what, 0, message))
    if count < blocks:
        message = f"its table has {count:,} of {blocks:,} blocks; the others count as zeros"
        findings.append(Finding("container-invalid", "warning", what, 0, message))
    first = PARALLELS_HEADER.width + count * PARALLELS_ENTRY.width
    return open_placed(source, what, size, unit, used, offsets, first_offset=first, findings=findings)


def open_vdi(source: Source) -> Source:
    """Open the disk in a VirtualBox disk file."""
    what, kinds = "VirtualBox disk", grammar.SparseDisks.VdiKind
    header = _parse(grammar.SparseDisks.VdiHeader, VDI_HEADER, source, 0, what)
    if header.version >> 16 != 1 or header.kind not in (kinds.dynamic, kinds.fixed):
        reason = "holds the differences to another disk" if header.version >> 16 == 1 else "has a header of version 0"
        raise UnsupportedError(
            f"{source.name}: the VirtualBox disk (vdi) {reason}", code="container",
            advice="convert it with: VBoxManage clonemedium disk IMAGE RAW --format RAW",
        )  # fmt: skip
    size, unit = header.len_disk, header.len_block
    _refuse_sizes(what, size, unit)
    count = min(header.num_blocks, -(-size // unit))
    blocks = _column(source, header.ofs_table, count, VDI_ENTRY, VDI_ENTRY.block, what)
    used = np.flatnonzero(blocks < MIN_VDI_FREE)
    extra = header.len_block_extra
    offsets = header.ofs_data + blocks[used] * (unit + extra) + extra
    return open_placed(source, what, size, unit, used, offsets, first_offset=VDI_HEADER.width)


def is_parallels_folder(path: Path) -> bool:
    """Whether a folder is a Parallels disk: a description, and the files that it names."""
    return (path / DESCRIPTION).is_file()


def open_parallels_folder(path: Path) -> Source:
    """Open the disk that a folder's description tells of."""
    inputs.note(path)
    text = _description(path)
    if re.search(r"<Encryption>\s*<Engine>\s*\{?(?!0{8}-)[0-9A-Fa-f]", text):
        raise UnsupportedError(f"{path}: the Parallels disk is encrypted", code="container", advice=_PRL)
    storages = sorted(re.findall(r"<Storage>(.*?)</Storage>", text, re.DOTALL), key=_sectors_of)
    files = [re.findall(r"<File>\s*([^<]*?)\s*</File>", storage) for storage in storages]
    if not storages or not all(files):
        raise ImageError(f"{path}: its {DESCRIPTION} names no file of the disk")
    if any(len(each) > 1 for each in files):
        states = max(map(len, files))
        raise UnsupportedError(
            f"{path}: the Parallels disk has {states} states over one another (snapshots)", code="container",
            advice=_PRL,
        )  # fmt: skip
    spans = list(map(_sectors_of, storages))
    if any(before[1] != after[0] for before, after in zip([(0, 0), *spans], spans, strict=False)):
        raise ImageError(f"{path}: the files that its {DESCRIPTION} names do not follow one another from sector 0 on")
    counter = ReadCounter()
    opened: list[Source] = []
    try:
        for (first, last), name in zip(spans, (each[0] for each in files), strict=True):
            # Wherever it was made: files lie in the folder.
            file = RawFile(path / Path(unescape(name).replace("\\", "/")).name)
            file.counter = counter
            opened.append(file)
            if file.read(0, min(16, file.size_bytes)) in PARALLELS:
                opened[-1] = open_parallels(file)
            # What follows begins where the description says, whatever a file lacks of its part.
            length = (last - first) * SECTOR_BYTES
            if opened[-1].size_bytes < length or (opened[-1].size_bytes > length and (first, last) != spans[-1]):
                opened[-1] = _of_length(opened[-1], name, length)
    except (ImageError, FormatError):
        for each in opened:
            each.close()
        raise
    return open_joined(opened) if len(opened) > 1 else opened[0]


def _of_length(part: Source, name: str, length: int) -> Source:
    """Give a part of a disk the length that the description says; what it lacks counts as never read."""
    one = np.zeros(1, np.int64)
    placed = open_placed(part, f"Parallels disk, {name}", length, length, one, one)
    if part.size_bytes > length:
        message = f"{name} is longer than its part of the disk; what is behind that is left out"
        sides = f"{length:,} bytes", f"{part.size_bytes:,}"
        placed.own_findings = (Finding("container-invalid", "warning", DESCRIPTION, None, message, *sides),)
    return placed


def _sectors_of(storage: str) -> tuple[int, int]:
    """First sector of a storage, and the one behind its last."""
    first, last = (re.search(rf"<{name}>\s*(\d{{1,15}})\s*</{name}>", storage) for name in ("Start", "End"))
    return (int(first[1]), int(last[1])) if first and last and int(first[1]) < int(last[1]) else (0, 0)


def _description(path: Path) -> str:
    try:
        with inputs.open_file(path / DESCRIPTION) as file:
            return file.read(MAX_DESCRIPTION_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ImageError(f"{path / DESCRIPTION}: {(error.strerror or str(error)).lower()}") from error
