"""Disks whose blocks a file holds in any order: what a table of blocks comes to, read in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import numpy as np

from layoutscope.errors import FormatError, ImageError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.failing import RescuedSource
from layoutscope.image.source import FillingSource, JoinedSource, Source
from layoutscope.structs import grammar
from layoutscope.structs.arrays import runs_of, starts_of, subtract
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import (
    QCOW_HEADER,
    QCOW_REFERENCE,
    VHD_DYNAMIC_HEADER,
    VHD_FOOTER,
    VHD_REFERENCE,
    VHDX_DISK_SIZE,
    VHDX_FILE_PARAMETERS,
    VHDX_METADATA,
    VHDX_METADATA_ENTRY,
    VHDX_REFERENCE,
    VHDX_REGION,
    VHDX_REGIONS,
    VHDX_SECTOR_SIZE,
    VMDK_HEADER,
    VMDK_REFERENCE,
)
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.grammar import Struct
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    I64 = NDArray[np.int64]
    Tables = tuple[I64, int, NDArray[np.uint64]]
    T = TypeVar("T", bound=Struct)


def open_placed(
    source: Source,
    what: str,
    size_bytes: int,
    unit_bytes: int,
    numbers: I64,  # numbers, offsets: which blocks of the disk are stored, in any order, and where in the file
    offsets: I64,
    *,
    first_offset: int = 0,
    unread: I64 | None = None,  # ranges of the disk of which nothing is known: offset and length in bytes
    findings: Sequence[Finding] = (),
) -> Source:
    """Open a disk by the places of its blocks; what lies behind the end of the file counts as never read."""
    told = list(findings)
    # Two names for one block of the file, or two places of one block of the disk: one is wrong, and nothing tells
    # which.
    doubtful = is_repeated(numbers) | is_repeated(offsets) | (offsets < first_offset)
    lost = [] if unread is None else [unread]
    if doubtful.any():
        first = int(numbers[doubtful].min()) * unit_bytes
        told.append(Finding(
            "container-invalid", "error", what, int(offsets[doubtful].min()),
            f"its table names {int(doubtful.sum()):,} blocks where no block can be, or twice; they count as not read, "
            f"the first at byte {first:,} of the disk",
        ))  # fmt: skip
        lost.append(_ranges(numbers[doubtful], unit_bytes, size_bytes))
    numbers, offsets = numbers[~doubtful], offsets[~doubtful]
    order = np.argsort(numbers, kind="stable")
    numbers, offsets = numbers[order], offsets[order]
    wanted = np.minimum(unit_bytes, size_bytes - numbers * unit_bytes)
    stored = np.clip(source.size_bytes - offsets, 0, wanted)
    cut = stored < wanted
    if cut.any():
        missing = int((wanted - stored).sum())
        told.append(Finding(
            "image-incomplete", "error", what, source.size_bytes,
            f"the file ends at byte {source.size_bytes:,}; {missing:,} bytes that it should hold are missing",
            f"an end at byte {int((offsets + wanted)[cut].max()):,}", f"{source.size_bytes:,}",
        ))  # fmt: skip
        starts = numbers * unit_bytes + stored
        lost.append(runs_of(starts[cut], (wanted - stored)[cut]))
    disk = PlacedSource(source, size_bytes, _join_blocks(numbers * unit_bytes, stored, offsets))
    disk.own_findings = tuple(told)
    lost.append(disk.below_unread())
    ranges = runs_of(*np.concatenate(lost).T)
    return RescuedSource(disk, ranges) if len(ranges) else disk


def is_repeated(values: I64) -> NDArray[np.bool_]:
    """Whether a number occurs more than once."""
    _, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    repeated: NDArray[np.bool_] = times[inverse] > 1
    return repeated


def _ranges(numbers: I64, unit_bytes: int, size_bytes: int) -> I64:
    starts = numbers * unit_bytes
    return runs_of(starts, np.minimum(unit_bytes, size_bytes - starts))


def _join_blocks(start: I64, length: I64, offset: I64) -> I64:
    """Join blocks that follow one another on the disk and in the file; shape (n, 3): start, length, place in the file.

    Only whole blocks are followed by another one.
    """
    kept = length > 0
    start, length, offset = start[kept], length[kept], offset[kept]
    follows = (start[1:] == start[:-1] + length[:-1]) & (offset[1:] == offset[:-1] + length[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~follows])[: len(start)])
    lengths = np.add.reduceat(length, first) if len(first) else length
    return np.stack([start[first], lengths, offset[first]], axis=1)


class PlacedSource(FillingSource):
    """The disk; what is not stored reads as zeros."""

    def __init__(self, source: Source, size_bytes: int, runs: I64) -> None:
        self._set_around(source, size_bytes)
        self._runs = runs

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        stop = image_offset + len(target)
        starts = self._runs[:, 0]
        first = int(np.searchsorted(starts + self._runs[:, 1], image_offset, side="right"))
        last = int(np.searchsorted(starts, stop))
        done = image_offset
        for start, length, place in self._runs[first:last].tolist():
            low, high = max(start, image_offset), min(start + length, stop)
            target[done - image_offset : low - image_offset] = bytes(low - done)
            self._source.read_into(place + low - start, target[low - image_offset : high - image_offset])
            self.counter.hole_bytes += low - done
            done = high
        target[done - image_offset :] = bytes(stop - done)
        self.counter.hole_bytes += stop - done
        return len(target)

    def below_unread(self) -> I64:
        """Ranges of the disk that lie where the file was never read, shape (n, 2)."""
        start, length, place = self._runs.T
        parts = [np.empty((0, 2), np.int64)]
        for low, size in self._source.unread_ranges().tolist():
            first, last = np.maximum(place, low), np.minimum(place + length, low + size)
            hit = last > first
            parts.append(np.stack([start + first - place, last - first], axis=1)[hit])
        return np.concatenate(parts)

    @property
    def holes(self) -> I64:
        """Areas that the file does not store, shape (n, 2): offset and length in bytes."""
        return subtract(np.array([[0, self.size_bytes]]), runs_of(self._runs[:, 0], self._runs[:, 1]))


def open_joined(sources: Sequence[Source]) -> Source:
    """Open several sources, one after the other, as one disk that has the name of the first."""
    starts = starts_of(np.array([each.size_bytes for each in sources], np.int64))
    unread = np.concatenate([
        each.unread_ranges() + np.array([start, 0]) for each, start in zip(sources, starts, strict=True)
    ])  # fmt: skip
    whole = JoinedSource(sources, starts)
    return RescuedSource(whole, unread) if len(unread) else whole


SECTOR_BYTES: Final = 512
DESCRIPTION: Final = b"# Disk DescriptorFile"
MAX_UNPACKED_A_BYTE: Final = 4096
"""What a byte of a file may stand for: deflate makes 1,032 of one, and nothing here packs better."""

MAX_TABLE_BYTES: Final = 1 << 28
"""Tables are read up to this length; what longer ones say is not looked at."""

NOT_STORED: Final = 0xFFFF_FFFF
"""An entry of a VHD's table of blocks that names none."""

AT_END: Final = 2**64 - 1
"""The place of a VMDK's directory in the header of a file that was written as a stream."""

FOOTER_FROM_END: Final = 1024
"""Where such a file has its header once more, before the marker that ends it."""

_PLACE: Final = np.uint64(0x00FF_FFFF_FFFF_FE00)
"""Bits of a reference of a QCOW that name a place (``qcow_reference`` in ``ksy/sparse_disks.ksy``)."""

REGION_TABLES: Final = (192 << 10, 256 << 10)
CHUNK_SECTORS: Final = 1 << 23
"""Sectors whose blocks come before an entry for their bitmap in the table of a VHDX ([MS-VHDX] 2.5)."""

MAX_NAMED: Final = 2047
"""Tables of regions and of items have room for no more entries ([MS-VHDX] 2.2.3.1 and 2.6.1.1)."""

BAT: Final = UUID("2dc27766-f623-4200-9d64-115e9bfd4a08")
METADATA: Final = UUID("8b7ca206-4790-4b9a-b8fe-575f050f886e")
FILE_PARAMETERS: Final = UUID("caa16737-fa36-4d43-b3b6-33f0aa44e76b")
DISK_SIZE: Final = UUID("2fa54224-cd1b-4876-b211-5dbed83bf4b8")
SECTOR_SIZE: Final = UUID("8141bf1d-a96f-4709-ba47-f233a8faab5f")
"""What a VHDX calls its regions and items ([MS-VHDX] 2.2.3.2 and 2.6.1.2)."""


class UnknownError(Exception):
    """What is stored cannot be told."""


def stored_runs(sources: Sequence[Source], size_bytes: int) -> I64:
    """Return which parts of a disk its container stores.

    Offset and length in bytes, in address order; all of the disk where it cannot be told.
    """
    everything = np.array([[0, size_bytes]], np.int64)
    try:
        magic = sources[0].read(0, min(len(DESCRIPTION), sources[0].size_bytes))
        runs, length = _join_stretches(sources[1:]) if magic == DESCRIPTION else _read_tables(sources[0])[:2]
    except (UnknownError, FormatError, KeyError):
        return everything
    # A container that means another disk than its library is none that is understood here.
    if not size_bytes <= length <= size_bytes + SECTOR_BYTES:
        return everything
    start, stop = np.minimum(runs[:, 0], size_bytes), np.minimum(runs.sum(axis=1), size_bytes)
    return runs_of(start, stop - start)


def refuse_expansion(name: str, stored_bytes: int, file_bytes: int) -> None:
    """Refuse to go through more of a disk than its file can hold, however it is packed."""
    if stored_bytes > MAX_UNPACKED_A_BYTE * file_bytes:
        raise ImageError(
            f"{name}: claims to store {format_bytes(stored_bytes)} in {format_bytes(file_bytes)}, "
            "which is not gone through"
        )


def _join_stretches(sources: Sequence[Source]) -> tuple[I64, int]:
    """Join the extents of a description, one after the other; flat ones are the disk as it is."""
    parts, length = [np.empty((0, 2), np.int64)], 0
    for source in sources:
        try:
            runs, size, _ = _read_tables(source)
        except UnknownError:
            size = source.size_bytes
            runs = subtract(np.array([[0, size]], np.int64), source.holes)
        parts.append(runs + np.array([length, 0]))
        length += size
    return np.concatenate(parts), length


def _read_tables(source: Source) -> Tables:
    """Read the tables of a file: the runs that it stores, the length of its disk, and where its blocks begin in it."""
    magic = source.read(0, min(8, source.size_bytes))
    for start, reader in _READERS.items():
        if magic.startswith(start):
            return reader(source)
    raise UnknownError


def read_structure(kind: type[T], record: RecordType, source: Source, at: int, structure: str = "") -> T:
    """Parse a structure of a file, which may end in it."""
    data = source.read(at, min(record.width, max(0, source.size_bytes - at)))
    return grammar.parse(kind, data, structure=structure or record.type_name, image_offset=at)


def _table(
    source: Source, at: int, count: int, record: RecordType, *fields: RecordColumn
) -> dict[str, NDArray[np.uint64]]:
    """Decode a table of references; one that does not lie in the file says nothing."""
    if count * record.width > MAX_TABLE_BYTES or not 0 <= at <= source.size_bytes - count * record.width:
        raise UnknownError
    buffer = np.frombuffer(source.read(at, count * record.width), np.uint8)
    columns = decode_columns(record, buffer, np.arange(count) * record.width, fields)
    return {name: column.astype(np.uint64) for name, column in columns.items()}


def _units(numbers: I64, unit_bytes: int, size_bytes: int) -> tuple[I64, int]:
    """Turn numbers of units of the disk into runs of bytes."""
    return runs_of(numbers * unit_bytes, np.full(len(numbers), unit_bytes)), size_bytes


def _count(size: int, unit: int) -> int:
    """How many units a disk has; nothing of these lengths is stored with units of none, or beyond 62 bits."""
    if not 0 < unit <= 2**40 or size > 2**62:
        raise UnknownError
    return -(-size // unit)


def _second_tables(
    source: Source, tables: NDArray[np.uint64], count: int, record: RecordType, is_stored: Callable[[int], I64]
) -> I64:
    """Number what the tables of a directory name, each of which is read once; two names for one say nothing."""
    used = np.flatnonzero(tables)
    if len(np.unique(tables[used])) < len(used) or len(used) * record.width * count > source.size_bytes:
        raise UnknownError
    parts = [is_stored(int(tables[row])) + int(row) * count for row in used]
    return np.concatenate([np.empty(0, np.int64), *parts])


def refuse_qcow(source: Source) -> None:
    """Refuse a qcow2 of which its library gives other bytes than are stored."""
    try:
        header, unit, first = _qcow_directory(source)
        packed = _qcow_clusters(source, unit, first, lambda _, packed, zeros: (packed > 0) & (zeros > 0))
        odd = _qcow_clusters(source, unit, first, lambda entry, packed, _: (packed == 0) & _is_odd(entry, unit))
    except (UnknownError, FormatError):
        return
    reasons = {
        "is encrypted": header.crypt_method,
        "has compressed clusters, which the library misreads": header.version > 2 and len(packed),
        "refers to clusters where none can be, or by bits that are reserved": len(odd),
    }
    for reason in (each for each, is_so in reasons.items() if is_so):
        advice = "convert it with: qemu-img convert -O raw IMAGE RAW"
        raise UnsupportedError(f"{source.name}: the qcow2 image {reason}", code="container", advice=advice)


def _is_odd(entry: NDArray[np.uint64], unit: int) -> NDArray[np.bool_]:
    """Whether a reference to a cluster has bits that it cannot have: all but its place and three marks."""
    meant = np.uint64(int(_PLACE) & -unit | 0xC000_0000_0000_0001)
    odd: NDArray[np.bool_] = (entry & ~meant) != 0
    return odd


def _qcow(source: Source) -> Tables:
    header, unit, first = _qcow_directory(source)
    places = [np.empty(0, np.uint64)]

    def is_stored(
        entry: NDArray[np.uint64], packed: NDArray[np.uint64], zeros: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        places.append((entry & _PLACE)[(packed == 0) & (zeros == 0)])
        # The lowest bit of what is compressed belongs to its place.
        stored: NDArray[np.bool_] = (packed > 0) | ((entry & _PLACE > 0) & (zeros == 0))
        return stored

    numbers = _qcow_clusters(source, unit, first, is_stored)
    return *_units(numbers, unit, header.len_disk), np.concatenate(places)


def _qcow_directory(source: Source) -> tuple[grammar.SparseDisks.QcowHeader, int, NDArray[np.uint64]]:
    header = read_structure(grammar.SparseDisks.QcowHeader, QCOW_HEADER, source, 0)
    # The first version has another header.
    if header.version not in (2, 3) or not 9 <= header.cluster_bits <= 21:
        raise UnknownError
    unit = 1 << header.cluster_bits
    wanted = min(header.num_tables, -(-_count(header.len_disk, unit) // (unit // QCOW_REFERENCE.width)))
    field = QCOW_REFERENCE.ofs_target
    return header, unit, _table(source, header.ofs_tables, wanted, QCOW_REFERENCE, field)[field]


def _qcow_clusters(
    source: Source, unit: int, first: NDArray[np.uint64], is_meant: Callable[..., NDArray[np.bool_]]
) -> I64:
    """Number the clusters that are meant by their reference, and whether they are compressed or zeros."""
    fields = (QCOW_REFERENCE.entry, QCOW_REFERENCE.is_compressed, QCOW_REFERENCE.reads_as_zeros)
    count = unit // QCOW_REFERENCE.width

    def chosen(at: int) -> I64:
        return np.flatnonzero(is_meant(*_table(source, at, count, QCOW_REFERENCE, *fields).values()))

    return _second_tables(source, first, count, QCOW_REFERENCE, chosen)


def last_block(source: Source) -> int:
    """Where the last block that a container's tables name begins in its file, in bytes; 0 if they do not tell."""
    try:
        *_, places = _read_tables(source)
    except (UnknownError, FormatError, KeyError):
        return 0
    return int(places.max(initial=0))


VMDK_VERSIONS: Final = (1, 2, 3)


def refuse_version(source: Source) -> None:
    """Refuse a file of a VMware disk in a version that nobody has described: its tables may mean something else."""
    try:
        header = read_structure(grammar.SparseDisks.VmdkHeader, VMDK_HEADER, source, 0)
    except FormatError:
        return
    if header.version not in VMDK_VERSIONS:
        raise UnsupportedError(
            f"{source.name}: is a VMware disk (vmdk) of version {header.version:,}, and 1 to 3 are known",
            code="container", advice="convert it with: qemu-img convert -O raw IMAGE RAW",
        )  # fmt: skip


def refuse_extent(source: Source) -> None:
    """Refuse a part of a VMware disk that is in several files: which, and in what order, its description says."""
    try:
        header = read_structure(grammar.SparseDisks.VmdkHeader, VMDK_HEADER, source, 0)
        text = source.read(header.descriptor_sector * SECTOR_BYTES, len(DESCRIPTION))
    except FormatError:
        return
    # Room for one is left in every file by some programs.
    if not header.descriptor_sector or text != DESCRIPTION:
        raise UnsupportedError(
            f"{source.name}: is one of the files of a VMware disk (vmdk)", code="container",
            advice="open the .vmdk file beside it that names it",
        )  # fmt: skip


def vhd_end(source: Source) -> int | None:
    """Where the last block of a dynamic VHD ends in its file, in bytes; None if its tables do not tell."""
    try:
        _, header, sectors = _vhd_table(source)
    except (UnknownError, FormatError):
        return None
    # A bit for each sector, in whole sectors, stands before a block.
    bits = -(-header.len_block // SECTOR_BYTES)
    length = -(-bits // (8 * SECTOR_BYTES)) * SECTOR_BYTES + header.len_block
    stored = sectors[sectors != NOT_STORED]
    return int(stored.max()) * SECTOR_BYTES + length if len(stored) else 0


def _vhd(source: Source) -> Tables:
    footer, header, sectors = _vhd_table(source)
    runs, size = _units(np.flatnonzero(sectors != NOT_STORED), header.len_block, footer.len_disk)
    return runs, size, sectors[:0]  # :func:`vhd_end` tells more


def _vhd_table(
    source: Source,
) -> tuple[grammar.SparseDisks.VhdFooter, grammar.SparseDisks.VhdDynamicHeader, NDArray[np.uint64]]:
    footer = read_structure(grammar.SparseDisks.VhdFooter, VHD_FOOTER, source, 0)
    header = read_structure(grammar.SparseDisks.VhdDynamicHeader, VHD_DYNAMIC_HEADER, source, footer.ofs_next)
    count = min(header.num_blocks, _count(footer.len_disk, header.len_block))
    sectors = _table(source, header.ofs_table, count, VHD_REFERENCE, VHD_REFERENCE.sector)[VHD_REFERENCE.sector]
    return footer, header, sectors


def _vhdx(source: Source) -> Tables:
    kinds = grammar.SparseDisks
    regions = _read_named_table(
        source, REGION_TABLES[0], (kinds.VhdxRegions, VHDX_REGIONS), (kinds.VhdxRegion, VHDX_REGION)
    )
    table, place = regions[BAT].ofs_region, regions[METADATA].ofs_region
    items = _read_named_table(
        source, place, (kinds.VhdxMetadata, VHDX_METADATA), (kinds.VhdxMetadataEntry, VHDX_METADATA_ENTRY)
    )

    def item(name: UUID, kind: type[T], record: RecordType) -> T:
        return read_structure(kind, record, source, place + items[name].ofs_item)

    block = item(FILE_PARAMETERS, kinds.VhdxFileParameters, VHDX_FILE_PARAMETERS).len_block
    size = item(DISK_SIZE, kinds.VhdxDiskSize, VHDX_DISK_SIZE).len_disk
    sector = item(SECTOR_SIZE, kinds.VhdxSectorSize, VHDX_SECTOR_SIZE).len_sector
    blocks = _count(size, block)
    between = CHUNK_SECTORS * sector // block
    if not between:
        raise UnknownError
    entries = blocks + (max(blocks, 1) - 1) // between
    fields = (VHDX_REFERENCE.state, VHDX_REFERENCE.ofs_block)
    state, place = _table(source, table, entries, VHDX_REFERENCE, *fields).values()
    is_stored = np.isin(state, [int(kinds.VhdxState.present), int(kinds.VhdxState.partial)])
    is_stored &= np.arange(entries) % (between + 1) != between
    stored = np.flatnonzero(is_stored)
    return *_units(stored - stored // (between + 1), block, size), place[is_stored]


def _read_named_table(
    source: Source, at: int, head: tuple[Any, RecordType], entry: tuple[Any, RecordType]
) -> dict[UUID, Any]:
    """Read a table of things that have names behind its head."""
    count = read_structure(*head, source, at).num_entries
    first, width = at + head[1].width, entry[1].width
    found = [read_structure(*entry, source, first + number * width) for number in range(min(count, MAX_NAMED))]
    return {UUID(bytes_le=each.guid): each for each in found}


def _vmdk_header(source: Source) -> grammar.SparseDisks.VmdkHeader:
    kind = grammar.SparseDisks.VmdkHeader
    header = read_structure(kind, VMDK_HEADER, source, 0)
    if header.directory_sector == AT_END:
        header = read_structure(kind, VMDK_HEADER, source, source.size_bytes - FOOTER_FROM_END)
    return header


def _vmdk_table(source: Source, sector: int, count: int) -> NDArray[np.uint64]:
    return _table(source, sector * SECTOR_BYTES, count, VMDK_REFERENCE, VMDK_REFERENCE.sector)[VMDK_REFERENCE.sector]


def find_differing_table(source: Source) -> int | None:
    """Find the first table of a VMware disk that differs from its copy: where it lies in the file."""
    try:
        header = _vmdk_header(source)
        if not header.has_copy_of_tables:
            return None
        count = header.num_references
        tables = _count(_count(header.num_sectors, header.num_grain_sectors), count)
        places = (header.directory_sector, header.second_directory_sector)
        for at, copy in zip(*(_vmdk_table(source, place, tables).tolist() for place in places), strict=True):
            pair = [_vmdk_table(source, each, count) for each in (at, copy) if each]
            if len(pair) == 1 or not np.array_equal(pair[:1], pair[1:]):
                return int(at or copy) * SECTOR_BYTES
    except (UnknownError, FormatError):
        pass
    return None


def _vmdk(source: Source) -> Tables:
    header = _vmdk_header(source)
    grain, count = header.num_grain_sectors, header.num_references
    first = _vmdk_table(source, header.directory_sector, _count(_count(header.num_sectors, grain), count))

    places = [np.empty(0, np.uint64)]

    def is_stored(sector: int) -> I64:
        # A grain in sector 1 is all zeros: there the description lies.
        sectors = _vmdk_table(source, sector, count)
        places.append(sectors)
        return np.flatnonzero(sectors > 1)

    numbers = _second_tables(source, first, count, VMDK_REFERENCE, is_stored)
    runs, size = _units(numbers, grain * SECTOR_BYTES, header.num_sectors * SECTOR_BYTES)
    return runs, size, np.concatenate(places) * SECTOR_BYTES


_READERS: Final[dict[bytes, Callable[[Source], Tables]]] = {
    b"QFI\xfb": _qcow,
    b"conectix": _vhd,
    b"vhdxfile": _vhdx,
    b"KDMV": _vmdk,
}
