"""Disks of QEMU, VMware, Virtual PC and Hyper-V (qcow2, vmdk, vhd, vhdx), read in place."""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID

import numpy as np

from layoutscope.errors import FormatError, ImageError
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import (
    MAX_TABLE_BYTES,
    is_repeated,
    make_refusal,
    open_part,
    open_piece,
    open_placed,
    read_structure,
    read_table,
    refuse_sizes,
)
from layoutscope.image.source import SECTOR_BYTES, JoinedSource, MemorySource, Source, open_all, trailer_of
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, runs_of, starts_of
from layoutscope.structs.records import QCOW_REFERENCE, VHD_REFERENCE, VHDX_REFERENCE, VMDK_GRAIN, VMDK_REFERENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.structs.recordtypes import RecordColumn, RecordType


QEMU: Final = "qemu-img convert -O raw IMAGE RAW"
ADVICE: Final = f"convert it with: {QEMU}"


def _refuse_differences(source: Source, what: str, other: str = "another disk") -> NoReturn:
    raise make_refusal(source.name, f"the {what} holds the differences to {other} alone", f"join them with: {QEMU}")


def _refuse_short_table(what: str, num_entries: int, num_needed: int) -> None:
    if num_entries < num_needed:
        raise FormatError("its first table is shorter than the disk", structure=what, image_offset=0,
                          expected=f"{num_needed:,} entries or more", found=f"{num_entries:,}")  # fmt: skip


def _read_second_tables(
    source: Source,
    what: str,
    places: I64,  # offsets of the tables in the file, in bytes, in the order of the disk; 0 if there is none
    count: int,  # entries of a table
    record: RecordType,
    fields: Sequence[RecordColumn],
    unit_bytes: int,
    size_bytes: int,
) -> tuple[list[I64], dict[str, Any]]:
    """Read the tables of a directory: block numbers with their fields, and the ranges and findings of lost tables."""
    used, length = np.flatnonzero(places), count * record.width
    lost = is_repeated(places[used])
    if len(used) * length > source.size_bytes:
        raise FormatError("its tables are longer than the file", structure=what, image_offset=0)
    parts = [[np.empty(0, np.int64)] * (1 + len(fields))]
    for row in np.flatnonzero(~lost):
        try:
            columns = read_table(source, what, int(places[used[row]]), count, record, *fields)
        except FormatError:
            lost[row] = True
            continue
        numbers = used[row] * count + np.arange(count)
        is_used = np.logical_or.reduce(columns) & (numbers * unit_bytes < size_bytes)
        parts.append([column[is_used] for column in (numbers, *columns)])
    columns_of_blocks = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not lost.any():
        return columns_of_blocks, {}
    starts = used[lost] * count * unit_bytes
    is_cut = bool((places[used] > source.size_bytes - length).any())
    message = (
        f"{int(lost.sum()):,} tables of its blocks are named twice, or cannot be read from the file, which ends at "
        f"byte {source.size_bytes:,}; what they describe counts as not read"
    )
    finding = Finding("image-incomplete" if is_cut else "container-invalid", "error", what,
                   source.size_bytes if is_cut else int(places[used][lost].min()), message)  # fmt: skip
    return columns_of_blocks, {
        "unread": [runs_of(starts, np.minimum(count * unit_bytes, size_bytes - starts))], "findings": [finding],
    }  # fmt: skip


def open_qcow(source: Source) -> Source:
    """Open the disk in a QEMU image."""
    what = "qcow2 image"
    header = read_structure(grammar.SparseDisks.QcowHeader, source, 0, what)
    if header.version not in (2, 3):
        raise make_refusal(source.name, f"the {what} is of version {header.version:,}, and 2 and 3 are known", ADVICE)
    if header.ofs_backing_file_name:
        _refuse_differences(source, what)
    if header.crypt_method:
        raise make_refusal(source.name, f"the {what} is encrypted", ADVICE)
    if header.version > 2 and header.unknown_features:
        reason = f"the {what} has features that are not known ({header.unknown_features:#x})"
        raise make_refusal(source.name, reason, ADVICE)
    unit, size = 1 << min(header.cluster_bits, 63), header.len_disk
    count = unit // QCOW_REFERENCE.width
    refuse_sizes(what, size, unit * count)
    tables = -(-size // (unit * count))
    _refuse_short_table(what, header.num_tables, tables)
    (places,) = read_table(source, what, header.ofs_tables, tables, QCOW_REFERENCE, QCOW_REFERENCE.ofs_target)
    fields = (
        QCOW_REFERENCE.unmarked, QCOW_REFERENCE.ofs_target, QCOW_REFERENCE.is_compressed, QCOW_REFERENCE.reads_as_zeros,
    )  # fmt: skip
    (numbers, entry, place, packed, zero), losses = _read_second_tables(
        source, what, places, count, QCOW_REFERENCE, fields, unit, size
    )
    # In compressed entries and before version 3, the lowest bit belongs to the offset.
    is_packed = packed > 0
    is_stored = is_packed | (entry & ~np.int64(1) > 0) & (zero == 0)
    numbers, entry, place, is_packed = numbers[is_stored], entry[is_stored], place[is_stored], is_packed[is_stored]
    place_bits = 70 - header.cluster_bits
    packed_place = entry & ((1 << place_bits) - 1)
    # Reserved bits, or an offset where no cluster begins, are damage.
    is_odd = entry & ~((0x00FF_FFFF_FFFF_FE00 & -unit) | 1) != 0
    offsets = np.where(is_packed, packed_place, np.where(is_odd, 0, place))
    end = (packed_place // SECTOR_BYTES + (entry >> place_bits) + 1) * SECTOR_BYTES
    # The file may end within the last sector of the last cluster.
    stored = np.minimum(end, np.maximum(source.size_bytes, packed_place + 1)) - packed_place

    def inflate(data: bytes, length: int) -> bytes:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, length)

    return open_placed(
        source, what, size, unit, numbers, offsets, first_offset=unit,
        stored=np.where(is_packed, stored, 0), codecs=[inflate], **losses,
    )  # fmt: skip


NOT_STORED: Final = 0xFFFF_FFFF
"""Entry of a VHD's block table without a block."""


def open_vhd(source: Source) -> Source:
    """Open a dynamic disk of Virtual PC."""
    what, kinds = "Virtual PC disk", grammar.SparseDisks.VhdKind
    footer = read_structure(grammar.SparseDisks.VhdFooter, source, 0, what)
    if footer.kind == kinds.differencing:
        _refuse_differences(source, what)
    header = read_structure(grammar.SparseDisks.VhdDynamicHeader, source, footer.ofs_next, what)
    size, unit = footer.len_disk, header.len_block
    refuse_sizes(what, size, unit)
    count = -(-size // unit)
    _refuse_short_table(what, header.num_blocks, count)
    (sectors,) = read_table(source, what, header.ofs_table, count, VHD_REFERENCE, VHD_REFERENCE.sector)
    used = np.flatnonzero(sectors != NOT_STORED)
    # A bitmap with a bit per sector, padded to whole sectors, precedes each block.
    bits = -(-unit // SECTOR_BYTES)
    offsets = (sectors[used] + -(-bits // (8 * SECTOR_BYTES))) * SECTOR_BYTES
    findings = []
    is_cut = int(offsets.max(initial=0)) + unit > source.size_bytes
    if not is_cut and not trailer_of(source).startswith(b"conectix"):
        message = "the file has no footer at its end; the copy that begins it is used"
        findings.append(Finding("container-invalid", "warning", what, source.size_bytes, message))
    return open_placed(source, what, size, unit, used, offsets, first_offset=SECTOR_BYTES, findings=findings)


REGION_TABLES: Final = (192 << 10, 256 << 10)
CHUNK_SECTORS: Final = 1 << 23
"""Sectors whose blocks come before an entry for their bitmap in the table of a VHDX ([MS-VHDX] 2.5)."""

MAX_NAMED: Final = 2047
"""Capacity of the tables of regions and items ([MS-VHDX] 2.2.3.1 and 2.6.1.1)."""

BLOCK_TABLE_GUID: Final = UUID("2dc27766-f623-4200-9d64-115e9bfd4a08")
METADATA_GUID: Final = UUID("8b7ca206-4790-4b9a-b8fe-575f050f886e")
FILE_PARAMETERS_GUID: Final = UUID("caa16737-fa36-4d43-b3b6-33f0aa44e76b")
DISK_SIZE_GUID: Final = UUID("2fa54224-cd1b-4876-b211-5dbed83bf4b8")
SECTOR_SIZE_GUID: Final = UUID("8141bf1d-a96f-4709-ba47-f233a8faab5f")
"""GUIDs of the regions and items of a VHDX ([MS-VHDX] 2.2.3.2 and 2.6.1.2)."""


def open_vhdx(source: Source) -> Source:
    """Open a dynamic disk of Hyper-V, or one that stores all of its blocks."""
    what, kinds = "Hyper-V disk", grammar.SparseDisks
    regions: Any = kinds.VhdxRegions, kinds.VhdxRegion, [METADATA_GUID, BLOCK_TABLE_GUID]
    try:
        metadata, table = _read_named_table(source, what, REGION_TABLES[0], *regions)
    except FormatError:
        metadata, table = _read_named_table(source, what, REGION_TABLES[1], *regions)
    items = [FILE_PARAMETERS_GUID, DISK_SIZE_GUID, SECTOR_SIZE_GUID]
    named = _read_named_table(source, what, metadata.ofs_region, kinds.VhdxMetadata, kinds.VhdxMetadataEntry, items)
    places = [metadata.ofs_region + item.ofs_item for item in named]
    facts = read_structure(kinds.VhdxFileParameters, source, places[0], what)
    size = read_structure(kinds.VhdxDiskSize, source, places[1], what).len_disk
    sector = read_structure(kinds.VhdxSectorSize, source, places[2], what).len_sector
    unit = facts.len_block
    refuse_sizes(what, size, unit)
    if facts.has_parent:
        _refuse_differences(source, what)
    blocks_per_bitmap = CHUNK_SECTORS * sector // unit
    refuse_sizes(what, size, blocks_per_bitmap)
    blocks = -(-size // unit)
    numbers = np.arange(blocks)
    entries = blocks + (blocks - 1) // blocks_per_bitmap
    fields = VHDX_REFERENCE.state, VHDX_REFERENCE.ofs_block
    state, offsets = read_table(source, what, table.ofs_region, entries, VHDX_REFERENCE, *fields)
    own = numbers + numbers // blocks_per_bitmap
    used = np.isin(state[own], [int(kinds.VhdxState.present), int(kinds.VhdxState.partial)])
    return open_placed(source, what, size, unit, numbers[used], offsets[own][used], first_offset=REGION_TABLES[0])


def _read_named_table(source: Source, what: str, at: int, head: Any, entry: Any, names: Sequence[UUID]) -> list[Any]:
    """Read the entries with given GUIDs from a table with a header."""
    count = read_structure(head, source, at, what).num_entries
    first, width = at + grammar.width_of(head), grammar.width_of(entry)
    entries = [read_structure(entry, source, first + row * width, what) for row in range(min(count, MAX_NAMED))]
    by_guid = {UUID(bytes_le=each.guid): each for each in entries}
    if not by_guid.keys() >= {*names}:
        raise FormatError("a table names too little of what the disk needs", structure=what, image_offset=at)
    return [by_guid[name] for name in names]


VMDK: Final = "VMware disk (vmdk)"
DESCRIPTION: Final = b"# Disk DescriptorFile"
VMDK_VERSIONS: Final = (1, 2, 3)
AT_END: Final = 2**64 - 1
"""Sector of the directory in the header of a VMDK that was written as a stream."""

FOOTER_FROM_END: Final = 1024
"""Distance of the second header of such a file from its end; an end marker follows it."""

MAX_EXTENTS: Final = 4096

EXTENT: Final = re.compile(
    r'^\s*(?:RW|RDONLY|NOACCESS)\s+(\d{1,15})\s+(\w+)(?:\s+"([^"]*)"(?:\s+(\d{1,15}))?)?', re.MULTILINE
)
"""A line of a description: how many sectors, what kind, and for most a file and the sector where they begin in it."""


def open_vmdk(source: Source) -> Source:
    """Open a disk of VMware that is in one file."""
    header = _read_vmdk_header(source)
    at, length = header.descriptor_sector * SECTOR_BYTES, header.num_descriptor_sectors * SECTOR_BYTES
    text = source.read(at, length) if at and 0 < length <= min(source.size_bytes - at, MAX_TABLE_BYTES) else b""
    # Some programs reserve room for a description in each file.
    if not text.startswith(DESCRIPTION):
        advice = "open the .vmdk file beside it that names it"
        raise make_refusal(source.name, f"is one of the files of a {VMDK}", advice)
    _refuse_parent(source, text)
    return _open_extent(source, header)


def open_description(source: Source) -> Source:
    """Open the disk of a VMware descriptor; its extents are looked up by name in the same folder."""
    extents = list_extents(source)
    sizes = [size for size, *_ in extents]
    refuse_sizes(VMDK, sum(sizes), SECTOR_BYTES)
    parts = open_all(_open_named(source, *extent) for extent in extents)
    source.close()
    disk = JoinedSource(parts, starts_of(np.array(sizes, np.int64)))
    disk.name, disk.counter = source.name, source.counter
    return disk


def _open_named(source: Source, size: int, kind: str, path: Path, offset: int) -> Source:
    """Open an extent with the length that its description gives."""
    if kind == "ZERO":
        none = np.empty(0, np.int64)
        return open_placed(MemorySource(b"", source.name), VMDK, size, size, none, none)
    if kind not in ("FLAT", "VMFS", "SPARSE"):
        raise make_refusal(source.name, f"the {VMDK} has an extent of the kind {kind}", ADVICE)

    def open_extent(file: Source) -> Source:
        part = _open_extent(file, _read_vmdk_header(file)) if kind == "SPARSE" else file
        return part if part.size_bytes == size and not offset else open_piece(part, VMDK, offset, size)

    return open_part(path, source.counter, open_extent)


def list_extents(source: Source) -> list[tuple[int, str, Path, int]]:
    """List the extents of a description: size, kind, file, and offset in the file, in bytes.

    Folders in file names are dropped: the files are expected next to the description.
    """
    text = source.read(0, min(source.size_bytes, MAX_TABLE_BYTES))
    _refuse_parent(source, text)
    extents = EXTENT.findall(text.decode("utf-8", "surrogateescape"))
    if not 0 < len(extents) <= MAX_EXTENTS:
        claim = f"claims more than {MAX_EXTENTS:,} extents" if extents else "names no extents"
        raise ImageError(f"{source.name}: the description of a {VMDK} {claim}")
    folder = Path(source.name).parent
    return [
        (int(sectors) * SECTOR_BYTES, kind, folder / Path(name.replace("\\", "/")).name,
         int(offset or 0) * SECTOR_BYTES)
        for sectors, kind, name, offset in extents
    ]  # fmt: skip


def _refuse_parent(source: Source, text: bytes) -> None:
    """Refuse a disk whose description names a parent disk."""
    if re.search(rb"^\s*parentCID\s*=\s*(?!f{8}\b)[0-9a-f]", text, re.MULTILINE | re.IGNORECASE):
        name = re.search(rb'^\s*parentFileNameHint\s*=\s*"([^"]*)"', text, re.MULTILINE)
        _refuse_differences(source, VMDK, f"{name[1].decode('utf-8', 'replace')!r:.200}" if name else "another disk")


def _read_vmdk_header(source: Source) -> grammar.SparseDisks.VmdkHeader:
    header = read_structure(grammar.SparseDisks.VmdkHeader, source, 0, VMDK)
    # The tables of an unknown version may have another meaning.
    if header.version not in VMDK_VERSIONS:
        raise make_refusal(source.name, f"is a {VMDK} of version {header.version:,}, and 1 to 3 are known", ADVICE)
    return header


def _open_extent(source: Source, header: grammar.SparseDisks.VmdkHeader) -> Source:
    """Open a sparse extent, which stores grains."""
    kind, fields = grammar.SparseDisks.VmdkHeader, (VMDK_REFERENCE.sector,)
    if header.directory_sector == AT_END:
        header = read_structure(kind, source, max(0, source.size_bytes - FOOTER_FROM_END), VMDK)
    size, unit = header.num_sectors * SECTOR_BYTES, header.num_grain_sectors * SECTOR_BYTES
    count = header.num_references
    refuse_sizes(VMDK, size, unit * count)
    tables = -(-size // (unit * count))
    (places,) = read_table(source, VMDK, header.directory_sector * SECTOR_BYTES, tables, VMDK_REFERENCE, *fields)
    places *= SECTOR_BYTES
    (numbers, sectors), losses = _read_second_tables(source, VMDK, places, count, VMDK_REFERENCE, fields, unit, size)
    # A grain in sector 1 is all zeros.
    numbers, offsets = numbers[sectors > 1], sectors[sectors > 1] * SECTOR_BYTES
    stored = None
    if header.is_compressed:
        # A grain begins with its length; here it is enough that it ends before the next grain.
        ends = np.append(np.unique(offsets), source.size_bytes)
        stored = ends[np.searchsorted(ends, offsets, side="right").clip(max=len(ends) - 1)] - offsets
        stored = stored.clip(1, VMDK_GRAIN.width + 2 * unit)
    differing = _find_differing_table(source, header, places) if header.has_copy_of_tables else None
    if differing is not None:
        message = f"a table of {Path(source.name).name} and its copy differ; which is right is not known"
        finding = Finding("container-invalid", "error", VMDK, differing, message)
        losses["findings"] = [*losses.get("findings", ()), finding]

    def inflate(data: bytes, length: int) -> bytes:
        head = grammar.parse(grammar.SparseDisks.VmdkGrain, data[: VMDK_GRAIN.width], structure=VMDK)
        return zlib.decompressobj().decompress(data[VMDK_GRAIN.width :][: head.len_data], length)

    return open_placed(
        source, VMDK, size, unit, numbers, offsets, first_offset=SECTOR_BYTES, stored=stored, codecs=[inflate],
        **losses,
    )  # fmt: skip


def _find_differing_table(source: Source, header: grammar.SparseDisks.VmdkHeader, places: I64) -> int | None:
    """Find the first table that differs from its copy, and return its place in the file."""
    at = header.second_directory_sector * SECTOR_BYTES
    with suppress(FormatError):
        (copies,) = read_table(source, VMDK, at, len(places), VMDK_REFERENCE, VMDK_REFERENCE.sector)
        for pair in np.stack([places, copies * SECTOR_BYTES], axis=1).tolist():
            tables = [
                read_table(source, VMDK, each, header.num_references, VMDK_REFERENCE, VMDK_REFERENCE.sector)[0]
                for each in pair
                if each
            ]
            if len(tables) == 1 or not np.array_equal(tables[:1], tables[1:]):
                return int(pair[0] or pair[1])
    return None
