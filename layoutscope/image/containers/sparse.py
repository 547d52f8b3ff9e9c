"""Disks in tables of blocks, read in place: Apple sparse images (``.sparseimage``), Parallels and VirtualBox disks."""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope import inputs
from layoutscope.errors import FormatError, ImageError, reason_of
from layoutscope.findings import Finding, FindingLog
from layoutscope.image.containers.encrypted import DecryptedSource, header_of, unlock_keys
from layoutscope.image.containers.placed import (
    MAX_DISK_BYTES,
    make_refusal,
    open_part,
    open_piece,
    open_placed,
    read_structure,
    read_table,
    refuse_sizes,
)
from layoutscope.image.raw import RawFile
from layoutscope.image.source import (
    SECTOR_BYTES,
    JoinedSource,
    MemorySource,
    PieceSource,
    ReadCounter,
    Source,
    open_all,
)
from layoutscope.image.split import band_number
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, runs_of, starts_of, subtract, union
from layoutscope.structs.records import (
    PARALLELS_ENTRY,
    PARALLELS_HEADER,
    SPARSE_IMAGE_BAND,
    SPARSE_IMAGE_HEADER,
    SPARSE_IMAGE_INDEX,
    VDI_ENTRY,
    VDI_HEADER,
)
from layoutscope.units import format_list

if TYPE_CHECKING:
    from collections.abc import Iterable

    from layoutscope.findings import Level
    from layoutscope.image.containers.encrypted import Keys

MAX_DESCRIPTION_BYTES: Final = 1 << 20

TABLE_BYTES: Final = 4096
"""Length of a table of a sparse image with its header."""

MIN_VDI_FREE: Final = 0xFFFF_FFFE
"""Higher numbers in the table of a VirtualBox disk mean that the block is not stored."""

PARALLELS: Final = b"WithoutFreeSpace", b"WithouFreSpacExt"
DESCRIPTION: Final = "DiskDescriptor.xml"
_PRL: Final = "join its states on a Mac with: prl_disk_tool merge --hdd IMAGE"


def open_sparse_image(source: Source) -> Source:
    """Open the disk in an Apple sparse image."""
    what = "sparse image"
    header = read_structure(grammar.SparseDisks.SparseImageHeader, source, 0, what)
    long = header.num_sectors_long
    sectors = long if long & 0xFFFF_FFFF == header.num_sectors else header.num_sectors
    size, unit = sectors * SECTOR_BYTES, header.num_band_sectors * SECTOR_BYTES
    refuse_sizes(what, size, unit)
    numbers, offsets, findings = [], [], []
    at, following, width = 0, header.ofs_next_index, SPARSE_IMAGE_HEADER.width
    visited = {0}
    unread = []
    while True:
        count = (TABLE_BYTES - width) // SPARSE_IMAGE_BAND.width
        (names,) = read_table(source, what, at + width, count, SPARSE_IMAGE_BAND, SPARSE_IMAGE_BAND.number)
        used = np.flatnonzero(names)
        numbers.append(names[used] - 1)
        # The bands of a table follow it, in its order.
        offsets.append(at + TABLE_BYTES + used * unit)
        if not following:
            break
        at, width = following, SPARSE_IMAGE_INDEX.width
        is_cut, reason = at > source.size_bytes - TABLE_BYTES, ""
        if at in visited:
            reason = "the tables of bands lead in a loop"
        elif is_cut:
            reason = "a table of bands is not within the file"
        else:
            try:
                kind = grammar.SparseDisks.SparseImageIndex
                following = read_structure(kind, source, at, what).ofs_next_index
            except FormatError as error:
                reason = error.reason
        if reason:
            message = f"{reason}; bands that no table before it names count as not read"
            code = "image-incomplete" if is_cut else "container-invalid"
            findings.append(Finding(code, "error", what, at, message))
            unread.append(np.array([[0, size]], np.int64))
            break
        visited.add(at)
    number, offset = np.concatenate(numbers), np.concatenate(offsets)
    inside = number * unit < size
    if not inside.all():
        findings.append(Finding(
            "container-invalid", "warning", what, int(offset[~inside][0]),
            f"{int((~inside).sum()):,} bands are after the end of the disk",
        ))  # fmt: skip
    number, offset = number[inside], offset[inside]
    starts = number * unit
    unread = [subtract(runs, runs_of(starts, np.minimum(unit, size - starts))) for runs in unread]
    return open_placed(source, what, size, unit, number, offset, unread=unread, findings=findings)


def open_parallels(source: Source) -> Source:
    """Open the disk in a Parallels disk file."""
    what = "Parallels disk"
    header = read_structure(grammar.SparseDisks.ParallelsHeader, source, 0, what)
    # With the newer magic entries count blocks, which are as long as a track.
    is_short = header.variant == PARALLELS[0]
    sectors = header.num_sectors_short if is_short else header.num_sectors
    size, unit = sectors * SECTOR_BYTES, header.num_block_sectors * SECTOR_BYTES
    refuse_sizes(what, size, unit)
    blocks = -(-size // unit)
    count = min(blocks, header.num_entries)
    (places,) = read_table(source, what, PARALLELS_HEADER.width, count, PARALLELS_ENTRY, PARALLELS_ENTRY.place)
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
    header = read_structure(grammar.SparseDisks.VdiHeader, source, 0, what)
    if header.version >> 16 != 1 or header.kind not in (kinds.dynamic, kinds.fixed):
        reason = "holds the differences to another disk" if header.version >> 16 == 1 else "has a header of version 0"
        advice = "convert it with: VBoxManage clonemedium disk IMAGE RAW --format RAW"
        raise make_refusal(source.name, f"the VirtualBox disk (vdi) {reason}", advice)
    size, unit = header.len_disk, header.len_block
    refuse_sizes(what, size, unit)
    count = min(header.num_blocks, -(-size // unit))
    (blocks,) = read_table(source, what, header.ofs_table, count, VDI_ENTRY, VDI_ENTRY.block)
    used = np.flatnonzero(blocks < MIN_VDI_FREE)
    extra = header.len_block_extra
    offsets = header.ofs_data + blocks[used] * (unit + extra) + extra
    return open_placed(source, what, size, unit, used, offsets, first_offset=VDI_HEADER.width)


def is_parallels_folder(path: Path) -> bool:
    """Whether a folder is a Parallels disk: a description, and the files that it names."""
    return (path / DESCRIPTION).is_file()


def open_parallels_folder(path: Path) -> Source:
    """Open the disk that a folder's description describes."""
    inputs.note(path)
    try:
        with inputs.open_file(path / DESCRIPTION) as file:
            text = file.read(MAX_DESCRIPTION_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ImageError(f"{path / DESCRIPTION}: {reason_of(error)}") from error
    if re.search(r"<Encryption>\s*<Engine>\s*\{?(?!0{8}-)[0-9A-Fa-f]", text):
        raise make_refusal(str(path), "the Parallels disk is encrypted", _PRL)
    storages = sorted(re.findall(r"<Storage>(.*?)</Storage>", text, re.DOTALL), key=_parse_sectors)
    files = [re.findall(r"<File>\s*([^<]*?)\s*</File>", storage) for storage in storages]
    if not storages or not all(files):
        raise ImageError(f"{path}: its {DESCRIPTION} names no file of the disk")
    if any(len(each) > 1 for each in files):
        states = max(map(len, files))
        raise make_refusal(str(path), f"the Parallels disk has {states} states over one another (snapshots)", _PRL)
    spans = list(map(_parse_sectors, storages))
    if any(before[1] != after[0] for before, after in zip([(0, 0), *spans], spans, strict=False)):
        raise ImageError(f"{path}: the files that its {DESCRIPTION} names do not follow one another from sector 0 on")
    lengths = np.array([(last - first) * SECTOR_BYTES for first, last in spans], np.int64)
    counter = ReadCounter()
    opened = open_all(
        _open_storage(path, name, length, counter, is_last=span == spans[-1])
        for span, (name,), length in zip(spans, files, lengths.tolist(), strict=True)
    )
    return JoinedSource(opened, starts_of(lengths)) if len(opened) > 1 else opened[0]


def _open_storage(path: Path, name: str, length: int, counter: ReadCounter, *, is_last: bool) -> Source:
    """Open a file of a Parallels folder with the length that the description gives it."""
    from xml.sax.saxutils import unescape  # which loads all that opens addresses

    def open_storage(file: Source) -> Source:
        part = open_parallels(file) if file.read(0, min(16, file.size_bytes)) in PARALLELS else file
        if part.size_bytes == length or (is_last and part.size_bytes > length):
            return part
        placed = open_piece(part, f"Parallels disk, {name}", 0, length)
        if part.size_bytes > length:
            message = f"{name} is longer than its part of the disk; the rest is left out"
            sides = f"{length:,} bytes", f"{part.size_bytes:,}"
            placed.own_findings = (Finding("container-invalid", "warning", DESCRIPTION, None, message, *sides),)
        return placed

    return open_part(path / Path(unescape(name).replace("\\", "/")).name, counter, open_storage)


def _parse_sectors(storage: str) -> tuple[int, int]:
    """Return the first sector of a storage, and the sector after its last."""
    first, last = (re.search(rf"<{name}>\s*(\d{{1,15}})\s*</{name}>", storage) for name in ("Start", "End"))
    return (int(first[1]), int(last[1])) if first and last and int(first[1]) < int(last[1]) else (0, 0)


MAX_PLIST_BYTES: Final = 1024**2
# By default, a macOS process may have 256 files open.
KEPT_BANDS: Final = 64

LISTS: Final = "Info.plist", "Info.bckup"
QUOTED_NAMES: Final = 6
CODE: Final = "container-invalid"
WHAT: Final = "sparse bundle"


def is_bundle(path: Path) -> bool:
    """Whether a path is a sparse bundle, whatever its name."""
    bands = path / "bands"
    if not bands.is_dir():
        return False
    known = any((path / name).is_file() for name in (*LISTS, "token"))
    return known or any(band_number(item.name) is not None for item in bands.iterdir())


class SparseBundle(PieceSource):
    """The disk in a sparse bundle; contradictory bands count as never read."""

    def __init__(self, path: Path, password: str | None = None) -> None:
        inputs.note(path)
        log = FindingLog().at(WHAT)
        self.name = str(path)
        self.size_bytes, self._band_bytes = _read_sizes(path, log)
        self.counter = ReadCounter()
        self._bands = path / "bands"
        self._open: OrderedDict[int, Source] = OrderedDict()
        # the keys and the length of the chunks of encrypted bands, which count from the start of their band
        self._decryption: tuple[Keys, int] | None = None
        token = b""
        with suppress(OSError), inputs.open_file(path / "token") as file:
            token = file.read(MAX_PLIST_BYTES)
        header = header_of(token)
        if header is not None:
            keys = unlock_keys(MemorySource(token, str(path)), header, password, "sparse bundle", self.size_bytes)
            self._decryption = keys, header.len_block
        # the names of each band
        self._stored: dict[int, list[str]] = {}
        others: list[str] = []
        for name in sorted(inputs.list_folder(self._bands)):
            number = band_number(name)
            self._stored.setdefault(number, []).append(name) if number is not None else others.append(name)
        if others:
            # Hidden files of file managers hold no part of a disk.
            level: Level = "info" if all(name.startswith(".") for name in others) else "warning"
            log.add(CODE, level, f"bands/ holds what is not a band: {_quote_names(others)}")
        lost = self._find_bad_bands(log)
        self._unread = union([self._ranges(lost)])
        self._numbers = self._select_inside(self._stored.keys() - lost)
        self._starts, lengths = self._ranges(self._numbers).T
        self._ends = self._starts + lengths
        self.own_findings = tuple(log.findings)

    def _find_bad_bands(self, log: FindingLog) -> set[int]:
        """Compare the bands with their size, and return those whose state is unknown."""
        lengths = dict.fromkeys(self._stored, 0)
        for number, names in self._stored.items():
            for name in names:
                with suppress(OSError):  # opening a band that cannot be reached raises the reason
                    lengths[number] = max(lengths[number], (self._bands / name).stat().st_size)
        longest, last = max(lengths.values(), default=0), max(lengths, default=0)
        size = self._band_bytes
        while size < longest:
            size *= 2
        # A band size above that of the property list is accepted if the bands then cover the disk exactly.
        if size > self._band_bytes and last == -(-self.size_bytes // size) - 1:
            log.add(
                CODE, "warning", "the bands are longer than the property list says; they are read by their own length",
                expected=f"a band size of {size:,}", found=f"{self._band_bytes:,}",
            )  # fmt: skip
            self._band_bytes = size
        wrong = {
            "bands are longer than a band": [number for number in lengths if lengths[number] > self._band_bytes],
            "bands have two files": [number for number, names in self._stored.items() if len(names) > 1],
        }
        for what, numbers in wrong.items():
            if numbers:
                names = [name for number in numbers for name in self._stored[number]]
                log.add(CODE, "error", f"{what}, and are not read: {_quote_names(names)}")
        beyond = [names[0] for number, names in self._stored.items() if number * self._band_bytes >= self.size_bytes]
        if beyond:
            log.add(CODE, "warning", f"bands are after the end of the disk: {_quote_names(beyond)}")
        return {number for numbers in wrong.values() for number in numbers}

    def _select_inside(self, bands: Iterable[int]) -> list[int]:
        return sorted(number for number in bands if number * self._band_bytes < self.size_bytes)

    def _ranges(self, bands: Iterable[int]) -> I64:
        """Ranges of the disk that bands cover, shape (n, 2): offset and length in bytes."""
        starts = np.array(self._select_inside(bands), np.int64) * self._band_bytes
        return np.stack([starts, np.minimum(self._band_bytes, self.size_bytes - starts)], axis=1)

    def _read_piece(self, number: int, offset: int, target: memoryview) -> None:
        band = self._open_band(self._numbers[number])
        stored = max(0, min(len(target), band.size_bytes - offset))
        if stored:
            band.read_into(offset, target[:stored])
        self._fill_hole(target[stored:])

    def _open_band(self, number: int) -> Source:
        """Return an open band; the most recent ones stay open."""
        if number not in self._open:
            if len(self._open) >= KEPT_BANDS:
                self._open.popitem(last=False)[1].close()
            file = RawFile(self._bands / self._stored[number][0], counter=self.counter)
            self._open[number] = file
            if self._decryption is not None:
                keys, chunk = self._decryption
                size = file.size_bytes
                self._open[number] = DecryptedSource(file, 0, size, chunk, size // chunk * chunk, keys)
        self._open.move_to_end(number)
        return self._open[number]

    def close(self) -> None:
        """Close the bands that are open."""
        for band in self._open.values():
            band.close()
        self._open.clear()


def _quote_names(names: list[str]) -> str:
    return format_list([*map(repr, names)], limit=QUOTED_NAMES)


def _read_sizes(path: Path, log: FindingLog) -> tuple[int, int]:
    """Return the sizes of the disk and of its bands, in bytes, from one of the property lists."""
    import plistlib
    from xml.parsers.expat import ExpatError

    reasons = []
    for name in LISTS:
        try:
            with inputs.open_file(path / name) as file:
                facts: Any = plistlib.loads(file.read(MAX_PLIST_BYTES))
            size, band = facts["size"], facts["band-size"]
        except FileNotFoundError:
            reasons.append(f"{name} is missing")
            continue
        except (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
                ExpatError, plistlib.InvalidFileException):  # fmt: skip
            reasons.append(f"{name} is not that of a sparse bundle")
            continue
        if not isinstance(size, int) or not isinstance(band, int) or not (0 < band <= size + band <= MAX_DISK_BYTES):
            reasons.append(f"{name} gives impossible sizes")
            continue
        if reasons:
            log.add(CODE, "warning", f"its {reasons[0]}; {name} is used in its place")
        return size, band
    raise ImageError(f"{path}: its {reasons[0]}")
