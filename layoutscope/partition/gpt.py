"""GUID Partition Table.

UEFI Specification 2.10, chapter 5. Two copies, each with a checksum over its header and one over its entries; the
backup serves where the primary is damaged. Nothing names the sector size: the header in LBA 1 gives it away.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import ChecksumError, FormatError, UnreadError
from layoutscope.filesystems.recognition import MapRegion
from layoutscope.filesystems.registry import promised_by
from layoutscope.findings import FindingLog
from layoutscope.partition.tables import Partition, PartitionTable
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.checksum import crc32
from layoutscope.structs.records import GPT_HEADER
from layoutscope.structs.records import GPT_PARTITION_ENTRY as ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.image.source import Source

FIELDS: Final = (ENTRY.type_guid, ENTRY.starting_lba, ENTRY.ending_lba, ENTRY.partition_name)
SECTOR_SIZES: Final = (512, 4096)
MAX_ENTRIES_BYTES: Final = 4 * 1024**2
MAX_PARTITIONS: Final = 1024
MAX_ADDRESS: Final = 2**63 - 1
"""Sectors have 64-bit numbers, so that their byte addresses may need more; tables hold 63 bits."""


class _Copy(Struct, frozen=True):
    """One copy of the table: header and entries as they stand, and what is wrong with them."""

    header: grammar.Gpt.Header
    entries: bytes
    image_offset: int
    sector_size: int
    owner: str
    problem: FormatError | None

    @property
    def regions(self) -> tuple[MapRegion, ...]:
        entries = self.header.entries_lba * self.sector_size
        return (
            MapRegion("gpt-header", self.image_offset, self.sector_size, self.owner),
            MapRegion("gpt-entries", entries, len(self.entries), self.owner),
        )


class _Disk(NamedTuple):
    """What is read, and what decodes the entries."""

    source: Source


class _AbsentError(FormatError):
    """There is no header at that place, not even a damaged one."""


def read_gpt(source: Source) -> PartitionTable | None:
    """Read the table whose primary header stands in LBA 1; None if there is none.

    Damage of the primary leads to the backup, with a finding ``gpt-primary-damaged``.
    """
    disk = _Disk(source)
    for sector_size in _sector_sizes(source):
        try:
            primary = _load(disk, sector_size, sector_size, "primary")
        except _AbsentError:
            continue
        except UnreadError as error:
            table = _use_backup(disk, sector_size, error, None)
            if table.partitions:
                return table
            continue
        except FormatError as error:
            return _use_backup(disk, sector_size, error, None)
        if primary.problem is not None:
            return _use_backup(disk, sector_size, primary.problem, primary)
        return _compare_with_backup(disk, primary)
    return None


def read_backup_gpt(source: Source) -> PartitionTable | None:
    """Read the backup in the last sector, for disks whose start is lost; None if there is none that is whole."""
    disk = _Disk(source)
    for sector_size in _sector_sizes(source):
        error = FormatError("is absent", structure="GPT header", image_offset=sector_size)
        table = _use_backup(disk, sector_size, error, None)
        if table.partitions:
            return table
    return None


def _sector_sizes(source: Source) -> list[int]:
    """List the likely sector sizes, the device's own first."""
    # The header lies in sector 1 (UEFI, 5.3.2), so that its address in bytes tells the size of a sector, which an image
    # file does not know: an image of a 4Kn disk has it at byte 4,096.
    fitting = [size for size in SECTOR_SIZES if source.size_bytes >= 2 * size]
    return sorted(fitting, key=lambda size: (size != source.sector_size_bytes, size))


def _load(disk: _Disk, image_offset: int, sector_size: int, owner: str) -> _Copy:
    """Read one copy."""
    data = disk.source.read(image_offset, sector_size)
    try:
        header = grammar.parse(grammar.Gpt.Header, data, structure="GPT header", image_offset=image_offset)
    except FormatError as error:
        kind = _AbsentError if error.image_offset == image_offset else FormatError
        raise kind(
            error.reason,
            structure="GPT header",
            image_offset=error.image_offset,
            expected=error.expected,
            found=error.found,
        ) from error
    entries = _entries(disk.source, header, image_offset, sector_size)
    problem = _header_problem(header, data, image_offset) or _entries_problem(header, entries, sector_size)
    return _Copy(header, entries, image_offset, sector_size, owner, problem)


def _entries(source: Source, header: grammar.Gpt.Header, image_offset: int, sector_size: int) -> bytes:
    length = header.num_entries * header.len_entry
    if length > MAX_ENTRIES_BYTES:
        found = (f"at most {MAX_ENTRIES_BYTES:,} bytes", f"{length:,}")
        raise _bad_field("num_entries", image_offset, "the array of entries is too large", *found)
    # The entries lie wherever the header says: behind it as a rule, but a table that was made smaller or that leaves
    # room for a boot loader may start later.
    start = header.entries_lba * sector_size
    if start + length > source.size_bytes:
        found = (f"an end before byte {source.size_bytes:,}", f"{start + length:,}")
        raise _bad_field("entries_lba", image_offset, "the array of entries leaves the image", *found)
    return source.read(start, length)


def _bad_field(field: str, image_offset: int, message: str, expected: str, found: str) -> FormatError:
    place = image_offset + GPT_HEADER.offset_of(field)
    return FormatError(message, structure="GPT header", image_offset=place, expected=expected, found=found)


def _header_problem(header: grammar.Gpt.Header, data: bytes, image_offset: int) -> FormatError | None:
    place, field = GPT_HEADER.header_crc32.offset, GPT_HEADER.reserved.offset
    # The checksum covers the header with itself taken as zeros, and no more of the sector than the header says.
    covered = data[:place] + bytes(field - place) + data[field : header.len_header]
    return _compare("GPT header", image_offset, header.header_crc32, crc32(covered))


def _entries_problem(header: grammar.Gpt.Header, entries: bytes, sector_size: int) -> FormatError | None:
    return _compare("GPT entries", header.entries_lba * sector_size, header.entries_crc32, crc32(entries))


def _compare(structure: str, image_offset: int, stored: int, computed: int) -> ChecksumError | None:
    if stored == computed:
        return None
    return ChecksumError(
        "the checksum is wrong",
        structure=structure,
        image_offset=image_offset,
        expected=f"{computed:#010x}",
        found=f"{stored:#010x}",
    )


def _compare_with_backup(disk: _Disk, primary: _Copy) -> PartitionTable:
    """Use a sound primary, and say what is odd about the backup."""
    log = FindingLog()
    place, end = primary.header.alternate_lba * primary.sector_size, disk.source.size_bytes
    if place + primary.sector_size > end:
        field = log.at("GPT header", primary.image_offset + GPT_HEADER.alternate_lba.offset)
        message, expected = (
            "the backup lies past the end of the image",
            f"a place before byte {end:,}",
        )
        field.add("gpt-backup-missing", "warning", message, expected=expected, found=f"{place:,}")
        return _table(disk, primary, log)
    try:
        backup = _load(disk, place, primary.sector_size, "backup")
    except FormatError as error:
        log.survive(error, code="gpt-backup-damaged", level="warning")
        return _table(disk, primary, log)
    if backup.problem is not None:
        log.survive(backup.problem, code="gpt-backup-damaged", level="warning")
    # Tools that write one copy alone leave two sound tables. Firmware believes the primary unless it is damaged (UEFI,
    # 5.3.2), and so does this.
    elif backup.entries != primary.entries:
        message = "both copies of the table are sound, but their entries differ; the primary is used"
        log.at("GPT entries", backup.regions[1].image_offset).add("gpt-copies-differ", "warning", message)
    return _table(disk, primary, log, backup.regions)


def _use_backup(disk: _Disk, sector_size: int, damage: FormatError, primary: _Copy | None) -> PartitionTable:
    """Use the backup; without a sound one the damaged primary, so far as it goes."""
    log = FindingLog()
    backup = _find_backup(disk, sector_size, primary)
    if backup is not None:
        message, sides = f"{damage.reason}; the backup is used", {"expected": damage.expected, "found": damage.found}
        log.at(damage.structure, damage.image_offset).add("gpt-primary-damaged", "warning", message, **sides)
        return _table(disk, backup, log, primary.regions if primary is not None else ())
    log.survive(damage, code="gpt-primary-damaged")
    if primary is None:
        regions = (MapRegion("gpt-header", sector_size, sector_size, "primary"),)
        return PartitionTable("GPT", (), regions, tuple(log.findings))
    return _table(disk, primary, log)


def _find_backup(disk: _Disk, sector_size: int, primary: _Copy | None) -> _Copy | None:
    # The last sector is the backup's place; a disk that was copied to a larger one has it where the primary says.
    places = [disk.source.size_bytes // sector_size - 1]
    if primary is not None:
        places.append(primary.header.alternate_lba)
    for lba in places:
        try:
            backup = _load(disk, lba * sector_size, sector_size, "backup")
        except FormatError:
            continue
        if backup.problem is None:
            return backup
    return None


def _table(disk: _Disk, copy: _Copy, log: FindingLog, other_regions: tuple[MapRegion, ...] = ()) -> PartitionTable:
    partitions = tuple(_partitions(disk, copy, log))
    return PartitionTable("GPT", partitions, copy.regions + other_regions, tuple(log.findings))


def _partitions(disk: _Disk, copy: _Copy, log: FindingLog) -> Iterator[Partition]:
    base, end = copy.regions[1].image_offset, disk.source.size_bytes
    positions = _find_used_entries(copy)
    if len(positions) > MAX_PARTITIONS:
        message = f"{len(positions)} partitions; the first {MAX_PARTITIONS} are looked at"
        log.at("GPT entries", base).add("partition-limit", "error", message)
    positions = positions[:MAX_PARTITIONS]
    found = decode_columns(ENTRY, np.frombuffer(copy.entries, np.uint8), positions, FIELDS)
    for position, guid, first, last, name in zip(positions.tolist(), *(found[field] for field in FIELDS), strict=True):
        number, place = position // copy.header.len_entry + 1, base + position
        # The last sector belongs to the partition: an entry of one sector names it twice.
        start, stop = int(first) * copy.sector_size, (int(last) + 1) * copy.sector_size
        if not start < stop or start >= end:
            message = f"partition {number} does not lie in the image"
            expected, outside = f"a range before byte {end:,}", f"{start:,} to {stop:,}"
            log.at(f"GPT entry {number}", place).add(
                "partition-outside", "error", message, expected=expected, found=outside
            )
            continue
        type_name, declared = name_of(guid.tobytes())
        stop = min(stop, MAX_ADDRESS)
        yield Partition("GPT", number, start, stop - start, _name(name.tobytes()), type_name, declared)


def _find_used_entries(copy: _Copy) -> NDArray[np.int64]:
    """Return where the entries start, in bytes, whose type is not all zeros."""
    # Entries are at least 128 bytes apart, and further if a later version of the table needs it: the header's length
    # counts (UEFI, 5.3.2). One whose type is all zeros is unused, and used ones may follow it.
    positions = np.arange(copy.header.num_entries, dtype=np.int64) * copy.header.len_entry
    types = decode_column(ENTRY, np.frombuffer(copy.entries, np.uint8), positions, ENTRY.type_guid)
    return positions[[any(guid.tobytes()) for guid in types]]


def _name(raw: bytes) -> str:
    # 36 units of UTF-16, little-endian, filled up with zeros (UEFI, 5.3.3).
    return raw.decode("utf-16-le", errors="replace").split("\0", 1)[0]


_NAMES: Final[dict[str, tuple[str, str]]] = {
    "53746f72-6167-11aa-aa11-00306543ecac": ("Apple CoreStorage", "corestorage"),
    "426f6f74-0000-11aa-aa11-00306543ecac": ("Apple Boot", ""),
    "52414944-0000-11aa-aa11-00306543ecac": ("Apple RAID", ""),
    "52414944-5f4f-11aa-aa11-00306543ecac": ("Apple RAID, offline", ""),
    "4c616265-6c00-11aa-aa11-00306543ecac": ("Apple Label", ""),
    "55465300-0000-11aa-aa11-00306543ecac": ("Apple UFS", ""),
    "c12a7328-f81f-11d2-ba4b-00a0c93ec93b": ("EFI System", ""),
    "21686148-6449-6e6f-744e-656564454649": ("BIOS Boot", ""),
    "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7": ("Microsoft Basic Data", ""),
    "e3c9e316-0b5c-4db8-817d-f92df00215ae": ("Microsoft Reserved", ""),
    "de94bba4-06d1-4d40-a16a-bfd50179d6ac": ("Windows Recovery", ""),
    "0fc63daf-8483-4772-8e79-3d69d8477de4": ("Linux file system", ""),
    "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f": ("Linux swap", ""),
    "e6d6d379-f507-44c2-a23c-238f2a3df928": ("Linux LVM", ""),
}


def name_of(type_guid: bytes) -> tuple[str, str]:
    """Name a partition type.

    Its name, the GUID itself where it has none; the kind of volume that it promises, or an empty string.
    """
    text = str(uuid.UUID(bytes_le=type_guid))
    promised = promised_by("gpt", text)
    if promised is not None:
        return promised.traits.partition_types.gpt[text], promised.name
    return _NAMES.get(text, (text, ""))
