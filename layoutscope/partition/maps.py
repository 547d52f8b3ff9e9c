"""Partition maps, and the results of a search for volumes.

- GUID Partition Table (UEFI Specification 2.10, chapter 5): two copies, each with a checksum over its header and one
  over its entries; the backup is used if the primary is damaged. No field gives the sector size: the place of the
  header, LBA 1, reveals it.
- Apple Partition Map (Inside Macintosh: Devices, chapter 3): one entry per block, from block 1 on; each entry gives the
  number of entries. The driver descriptor in block 0 gives the block size, but CDs may say 2048 there and have a map in
  blocks of 512.
- Master Boot Record with its chain of extended records (UEFI, chapter 5.2): it has no checksum, so it is accepted only
  if its entries make sense. Type 0xEE guards a GPT.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final
from zlib import crc32  # with the polynomial of UEFI's (GPT Header)

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import ChecksumError, FormatError, UnreadError
from layoutscope.filesystems.content import MapRegion, parse_at
from layoutscope.filesystems.registry import filesystem_names, find_promised
from layoutscope.findings import FindingLog
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import APM_PARTITION_ENTRY, BOOT_RECORD, DRIVER_DESCRIPTOR_MAP, GPT_HEADER
from layoutscope.structs.records import GPT_PARTITION_ENTRY as ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.traits import Scheme
    from layoutscope.findings import Finding
    from layoutscope.image.source import Source


class Partition(Struct, frozen=True):
    """One entry of a partition map."""

    scheme: str  # `GPT`, `APM` or `MBR`
    number: int  # as the system of the scheme counts: `disk2s3` is 3
    image_offset: int
    size_bytes: int  # as the map says; it may exceed the image
    name: str  # empty in an MBR
    type_name: str  # its declared type in words
    declared: str = ""  # the kind of volume that the type promises, empty if none


class PartitionTable(Struct, frozen=True):
    """A partition map: its partitions, its own regions, and its findings."""

    scheme: str
    partitions: tuple[Partition, ...]
    regions: tuple[MapRegion, ...]
    findings: tuple[Finding, ...] = ()


class VolumeCandidate(Struct, frozen=True):
    """The start of a volume, of a container of volumes, or of a content that is not supported."""

    kind: str  # name of a supported file system, the slug of another one, or `unknown`
    label: str  # the same for people
    image_offset: int
    size_bytes: int  # of its space, cut at the end of the image
    stack: tuple[str, ...]  # the layers from the image down, such as `("GPT", "partition 2", "NTFS")`
    partition: int | None = None  # number of its partition; None for a bare volume
    about: str = ""  # further facts about an unsupported content, in words
    is_promised: bool = False  # whether the type of its partition is the only evidence

    @property
    def is_readable(self) -> bool:
        """Whether its file system is supported."""
        return self.kind in filesystem_names()


class VolumeSearch(Struct, frozen=True):
    """The results of a search for volumes on an image."""

    candidates: tuple[VolumeCandidate, ...]  # in the order of their maps, including unreadable ones
    partitions: tuple[Partition, ...]  # all entries of all maps that hold space
    regions: tuple[MapRegion, ...]  # the maps themselves
    findings: tuple[Finding, ...]
    schemes: tuple[str, ...]  # kinds of the maps; several on hybrid disks
    searched: str = ""  # the areas searched for volumes that no map lists, in words; empty if none were

    @property
    def readable(self) -> tuple[VolumeCandidate, ...]:
        """The candidates with a supported file system."""
        return tuple(candidate for candidate in self.candidates if candidate.is_readable)


# GUID Partition Table

_GPT_FIELDS: Final = (ENTRY.type_guid, ENTRY.starting_lba, ENTRY.ending_lba, ENTRY.partition_name)
SECTOR_SIZES: Final = (512, 4096)
MAX_ENTRIES_BYTES: Final = 4 * 1024**2
MAX_PARTITIONS: Final = 1024
MAX_ADDRESS: Final = 2**63 - 1
"""Sectors have 64-bit numbers, so byte addresses may need more bits; tables hold 63 bits."""


def read_gpt(source: Source) -> PartitionTable | None:
    """Read the table with a primary header in LBA 1, or its backup if the primary is damaged; None if there is none."""
    for sector_size in _list_sector_sizes(source):
        try:
            primary, header, entries, problem = _load_copy(source, sector_size, sector_size, "primary")
        except UnreadError as error:
            table = _use_backup(source, sector_size, error)
            if table.partitions:
                return table
            continue
        except FormatError as error:
            # Without the signature, which is the first field, there is no header, not even a damaged one.
            if error.image_offset == sector_size:
                continue
            return _use_backup(source, sector_size, error)
        place = header.alternate_lba * sector_size
        if problem is not None:
            return _use_backup(source, sector_size, problem, primary, place)
        log = FindingLog()
        regions = primary.regions + _compare_with_backup(source, entries, place, sector_size, log)
        return replace(primary, regions=regions, findings=(*log.findings, *primary.findings))
    return None


def read_backup_gpt(source: Source) -> PartitionTable | None:
    """Read the backup in the last sector, for disks whose start is lost; None if it is missing or damaged."""
    for sector_size in _list_sector_sizes(source):
        error = FormatError("is absent", structure="GPT header", image_offset=sector_size)
        table = _use_backup(source, sector_size, error)
        if table.partitions:
            return table
    return None


def _list_sector_sizes(source: Source) -> list[int]:
    """List the likely sector sizes, the device's own first."""
    # The header is in sector 1 (UEFI, 5.3.2), so its byte offset is the sector size, which an image file does not
    # record: in an image of a 4Kn disk, the header is at byte 4,096.
    fitting = [size for size in SECTOR_SIZES if source.size_bytes >= 2 * size]
    return sorted(fitting, key=lambda size: (size != source.sector_size_bytes, size))


def _load_copy(
    source: Source, image_offset: int, sector_size: int, owner: str
) -> tuple[PartitionTable, grammar.Gpt.Header, bytes, FormatError | None]:
    """Read and check one copy; return it with its header and its entries as stored, and their problem."""
    data = source.read(image_offset, sector_size)
    header = grammar.parse(grammar.Gpt.Header, data, structure="GPT header", image_offset=image_offset)
    entries = _read_entries(source, header, image_offset, sector_size)
    place, field = GPT_HEADER.header_crc32.offset, GPT_HEADER.reserved.offset
    # The checksum covers the header, as long as it says, with the checksum field set to zero.
    covered = data[:place] + bytes(field - place) + data[field : header.len_header]
    entries_at = header.entries_lba * sector_size
    checksums = (
        ("GPT header", image_offset, header.header_crc32, crc32(covered)),
        ("GPT entries", entries_at, header.entries_crc32, crc32(entries)),
    )
    problems = (
        ChecksumError("the checksum is wrong", structure=structure, image_offset=at, expected=f"{computed:#010x}",
                      found=f"{stored:#010x}")
        for structure, at, stored, computed in checksums
        if stored != computed
    )  # fmt: skip
    regions = (
        MapRegion("gpt-header", image_offset, sector_size, owner),
        MapRegion("gpt-entries", entries_at, len(entries), owner),
    )
    log = FindingLog()
    partitions = tuple(_list_gpt_partitions(source, header, entries, sector_size, log))
    return PartitionTable("GPT", partitions, regions, tuple(log.findings)), header, entries, next(problems, None)


def _list_gpt_partitions(
    source: Source, header: grammar.Gpt.Header, entries: bytes, sector_size: int, log: FindingLog
) -> Iterator[Partition]:
    """Yield the partitions of one copy, and report entries that are left out."""
    base, end = header.entries_lba * sector_size, source.size_bytes
    # The header gives the distance of the entries: 128 bytes, or more in a later version of the table (UEFI, 5.3.2).
    # Used entries, whose type is not all zeros, may follow unused ones.
    raw = np.frombuffer(entries, np.uint8)
    places = np.arange(header.num_entries, dtype=np.int64) * header.len_entry
    positions = places[[any(guid.tobytes()) for guid in decode_column(ENTRY, raw, places, ENTRY.type_guid)]]
    if len(positions) > MAX_PARTITIONS:
        message = f"{len(positions)} partitions; the first {MAX_PARTITIONS} are looked at"
        log.at("GPT entries", base).add("partition-limit", "error", message)
    positions = positions[:MAX_PARTITIONS]
    columns = decode_columns(ENTRY, raw, positions, _GPT_FIELDS)
    for position, guid, first, last, name in zip(
        positions.tolist(), *(columns[field] for field in _GPT_FIELDS), strict=True
    ):
        number = position // header.len_entry + 1
        # The last sector belongs to the partition: an entry of one sector names it twice.
        start, stop = int(first) * sector_size, (int(last) + 1) * sector_size
        # The name has 36 units of UTF-16, little-endian, padded with zeros (UEFI, 5.3.3).
        text = name.tobytes().decode("utf-16-le", errors="replace").split("\0", 1)[0]
        place, type_guid = log.at(f"GPT entry {number}", base + position), str(uuid.UUID(bytes_le=guid.tobytes()))
        expected = f"a range before byte {end:,}"
        yield from _make_partition(source, place, "gpt", number, (start, stop), text, type_guid, expected)


def _make_partition(
    source: Source,
    log: FindingLog,  # at the entry
    scheme: Scheme,
    number: int,
    span: tuple[int, int],  # first byte, and the byte after its last
    name: str,
    declared_type: str,
    expected: str = "",
) -> Iterator[Partition]:
    """Yield the partition of an entry, or report that it is not within the image."""
    start, stop = span
    if not start < stop or start >= source.size_bytes:
        message = f"partition {number} is not within the image"
        log.add("partition-outside", "error", message, expected=expected, found=f"{start:,} to {stop:,}")
        return
    promised = find_promised(scheme, declared_type)
    if promised is None:
        type_name, declared = _TYPES.get(declared_type, (declared_type, ""))
    else:
        type_name, declared = promised.traits.gpt_types.get(declared_type, declared_type), promised.name
    yield Partition(scheme.upper(), number, start, min(stop, MAX_ADDRESS) - start, name, type_name, declared)


def _read_entries(source: Source, header: grammar.Gpt.Header, image_offset: int, sector_size: int) -> bytes:
    length = header.num_entries * header.len_entry
    # The entries start where the header says: usually right after it, but later in a shrunk table or one that leaves
    # room for a boot loader.
    start = header.entries_lba * sector_size
    limits = (
        (GPT_HEADER.num_entries, "is too large", length, "at most {:,} bytes", MAX_ENTRIES_BYTES),
        (GPT_HEADER.entries_lba, "leaves the image", start + length, "an end before byte {:,}", source.size_bytes),
    )
    for field, reason, value, expected, limit in limits:
        if value > limit:
            raise FormatError(
                f"the array of entries {reason}", structure="GPT header", image_offset=image_offset + field.offset,
                expected=expected.format(limit), found=f"{value:,}",
            )  # fmt: skip
    return source.read(start, length)


def _compare_with_backup(
    source: Source,
    entries: bytes,  # entries of the sound primary
    place: int,  # where the primary says that the backup is
    sector_size: int,
    log: FindingLog,
) -> tuple[MapRegion, ...]:
    """Report problems of the backup of a sound primary, and return the regions of the backup."""
    end = source.size_bytes
    if place + sector_size > end:
        field = log.at("GPT header", sector_size + GPT_HEADER.alternate_lba.offset)
        message, expected = "the backup is past the end of the image", f"a place before byte {end:,}"
        field.add("gpt-backup-missing", "warning", message, expected=expected, found=f"{place:,}")
        return ()
    try:
        backup, _, copied, problem = _load_copy(source, place, sector_size, "backup")
    except FormatError as error:
        log.survive(error, code="gpt-backup-damaged", level="warning")
        return ()
    if problem is not None:
        log.survive(problem, code="gpt-backup-damaged", level="warning")
    # Tools that write only one copy leave two sound tables. Like firmware, this uses the primary unless it is damaged
    # (UEFI, 5.3.2).
    elif copied != entries:
        message = "both copies of the table are sound, but their entries differ; the primary is used"
        log.at("GPT entries", backup.regions[1].image_offset).add("gpt-copies-differ", "warning", message)
    return backup.regions


def _use_backup(
    source: Source,
    sector_size: int,
    damage: FormatError,
    primary: PartitionTable | None = None,
    alternate: int | None = None,  # where the primary says that the backup is, as on a disk copied to a larger one
) -> PartitionTable:
    """Use the backup in the last sector, or the damaged primary if the backup is damaged, too."""
    log = FindingLog()
    places = [(source.size_bytes // sector_size - 1) * sector_size]
    if alternate is not None:
        places.append(alternate)
    for place in places:
        try:
            backup, *_, problem = _load_copy(source, place, sector_size, "backup")
        except FormatError:
            continue
        if problem is None:
            message, place_of_damage = f"{damage.reason}; the backup is used", log.at_error(damage)
            place_of_damage.add("gpt-primary-damaged", "warning", message, expected=damage.expected, found=damage.found)
            regions = backup.regions + (() if primary is None else primary.regions)
            return replace(backup, regions=regions, findings=(*log.findings, *backup.findings))
    log.survive(damage, code="gpt-primary-damaged")
    if primary is None:
        primary = PartitionTable("GPT", (), (MapRegion("gpt-header", sector_size, sector_size, "primary"),))
    return replace(primary, findings=(*log.findings, *primary.findings))


_TYPES: Final[dict[str, tuple[str, str]]] = {
    "Apple_CoreStorage": ("Apple_CoreStorage", "corestorage"),
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
"""Names of partition types that no readable file system has, and the kinds of volumes that they promise."""


# Apple Partition Map

BLOCK_SIZES: Final = (512, 2048, 1024, 4096)
MAX_APM_ENTRIES: Final = 256
NO_VOLUME: Final = ("Apple_partition_map", "Apple_Free", "Apple_Void", "Apple_Scratch", "Apple_Extra", "Apple_Patches")
"""Types without a volume: the map itself and unused space; types of drivers begin with Apple_Driver."""


def list_apm_block_sizes(source: Source) -> list[int]:
    """List the block sizes with a partition map in block 1, that of the driver descriptor first."""
    # Maps of compact discs count in blocks of 2,048 bytes, and hybrid discs have one map per block size, all of which
    # describe the same partitions. The size in the driver descriptor is that of the disk itself.
    declared = _read_block_size(source)
    sizes = sorted({*BLOCK_SIZES, declared} - {0}, key=lambda size: (size != declared, BLOCK_SIZES.index(size)))
    return [size for size in sizes if parse_at(source, APM_PARTITION_ENTRY, size) is not None]


def _read_block_size(source: Source) -> int:
    """Return the block size of the driver descriptor; 0 if it is missing or invalid."""
    block0: grammar.Apm.DriverDescriptorMap | None = parse_at(source, DRIVER_DESCRIPTOR_MAP, 0)
    return block0.len_block if block0 is not None and block0.len_block in BLOCK_SIZES else 0


def read_apm(
    source: Source,
    block_size: int,  # in bytes, one of `list_apm_block_sizes`
) -> list[PartitionTable]:
    """Read the map in blocks of a given size."""
    log = FindingLog()
    # Each entry repeats the number of entries (pmMapBlkCnt, Inside Macintosh: Devices, Partition Map); the first entry
    # usually describes the map itself.
    num_entries = source.parse(grammar.Apm.PartitionEntry, block_size, "partition map entry").num_map_entries
    if not 0 < num_entries <= MAX_APM_ENTRIES:
        message = f"the map claims {num_entries:,} entries; at most {MAX_APM_ENTRIES} are looked at"
        log.at("partition map entry", block_size).add("partition-limit", "error", message)
    count = min(num_entries, MAX_APM_ENTRIES)
    length = min(max(1, count) * block_size, source.size_bytes - block_size)
    regions: tuple[MapRegion, ...] = (MapRegion("apm", block_size, length, "partition map"),)
    if _read_block_size(source):
        regions = (MapRegion("apm", 0, min(block_size, 512), "driver descriptor map"), *regions)
    whole, inner = list[Partition](), list[Partition]()
    for number in range(1, count + 1):
        try:
            entry = source.parse(grammar.Apm.PartitionEntry, number * block_size, "partition map entry")
        except FormatError as error:
            # The rest of the map may be intact, but its number of entries cannot be trusted.
            log.survive(error, code="partition-chain")
            break
        place = log.at("partition map entry", number * block_size)
        # The data of a partition may begin after its first block (pmLgDataStart).
        skipped = entry.data_start_block
        if skipped and skipped >= entry.num_blocks:
            message = f"the data of partition {number} begin after its end; its first block is used instead"
            sides = f"less than {entry.num_blocks:,} blocks", f"{skipped:,}"
            place.add("partition-content", "warning", message, expected=sides[0], found=sides[1])
            skipped = 0
        names = _decode_text(entry.partition_name), _decode_text(entry.partition_type)
        stop = (entry.start_block + entry.num_blocks) * block_size
        for partitions, first, reports in ((whole, 0, place), (inner, skipped, place.branch())):
            span = (entry.start_block + first) * block_size, stop
            if entry.num_blocks:
                partitions.extend(_make_partition(source, reports, "apm", number, span, *names))
    table = PartitionTable("APM", tuple(whole), regions, tuple(log.findings))
    return [table] if inner == whole else [table, replace(table, partitions=tuple(inner))]


def _decode_text(raw: bytes) -> str:
    # 32 bytes, with a zero after a shorter text; the format is older than Unicode.
    return raw.split(b"\0", 1)[0].decode("mac_roman", errors="replace")


# Master Boot Record

MAX_LOGICAL: Final = 128
_EXTENDED: Final = ("extended", "extended_lba", "extended_linux")


def read_mbr(
    source: Source,
    sector_size: int,  # the unit of its addresses, in bytes
) -> PartitionTable | None:
    """Read the master boot record and its extended records; None if there is none."""
    try:
        record = source.parse(grammar.Mbr.BootRecord, 0, "boot record")
    except FormatError:
        return None
    # The signature 55 AA ends boot sectors of all kinds. A boot indicator is 00 or 80, where FAT and NTFS have code.
    if not all(isinstance(entry.boot_indicator, grammar.Mbr.BootIndicator) for entry in record.partitions):
        return None
    used = [entry for entry in record.partitions if _name_mbr_type(entry) != "empty" and entry.num_sectors]
    if not any(entry.starting_lba * sector_size < source.size_bytes for entry in used):
        return None
    partitions: list[Partition] = []
    regions = [MapRegion("mbr", 0, BOOT_RECORD.width, "master")]
    log = FindingLog()

    def add(number: int, base_lba: int, entry: grammar.Mbr.PartitionRecord) -> None:
        start, place = (base_lba + entry.starting_lba) * sector_size, log.at("boot record", base_lba * sector_size)
        span = start, start + entry.num_sectors * sector_size
        partitions.extend(_make_partition(source, place, "mbr", number, span, "", _name_mbr_type(entry)))

    for number, entry in enumerate(record.partitions, 1):
        if _name_mbr_type(entry) not in ("empty", *_EXTENDED):
            add(number, 0, entry)
    for number, entry in enumerate(record.partitions, 1):
        if _name_mbr_type(entry) in _EXTENDED:
            start, end = entry.starting_lba * sector_size, (entry.starting_lba + entry.num_sectors) * sector_size
            if start < source.size_bytes < end:
                message = (
                    f"extended partition {number} ends at {end:,}, the image at {source.size_bytes:,}: the image is "
                    "cut off"
                )
                log.at("MBR partition", start).add("partition-truncated", "warning", message)
            for lba, logical in _follow_extended_records(source, sector_size, entry.starting_lba, regions, log):
                # Logical partitions are numbered from 5 on, even if primary entries are unused.
                add(5 + sum(partition.number >= 5 for partition in partitions), lba, logical)
    return PartitionTable("MBR", tuple(partitions), tuple(regions), tuple(log.findings))


def _follow_extended_records(
    source: Source, sector_size: int, first_lba: int, regions: list[MapRegion], log: FindingLog
) -> Iterator[tuple[int, grammar.Mbr.PartitionRecord]]:
    """Follow the extended records; yield the sector of each, and the entry of its logical partition."""
    visited: set[int] = set()
    lba: int | None = first_lba
    while lba is not None:
        place = lba * sector_size
        if lba in visited or len(visited) >= MAX_LOGICAL:
            message = "the chain of extended records returns to one of its links, or never ends"
            log.at("boot record", place).add("partition-chain", "error", message)
            return
        visited.add(lba)
        try:
            record = source.parse(grammar.Mbr.BootRecord, place, "boot record")
        except FormatError as error:
            log.survive(error, code="partition-chain")
            return
        regions.append(MapRegion("mbr", place, BOOT_RECORD.width, "extended"))
        following = None
        # An extended record uses two of its four entries: a partition, which counts sectors from this record, and the
        # next record, which counts from the first record of the chain.
        for entry in record.partitions[:2]:
            if _name_mbr_type(entry) in _EXTENDED:
                following = first_lba + entry.starting_lba
            elif _name_mbr_type(entry) != "empty":
                yield lba, entry
        lba = following


def _name_mbr_type(entry: grammar.Mbr.PartitionRecord) -> str:
    kind = entry.partition_type
    return kind.name if isinstance(kind, grammar.Mbr.PartitionType) else f"{UNNAMED}{kind:#04x}"


UNNAMED: Final = "type "
"""Start of the name of a partition type that is known only by its number."""
