"""Master Boot Record, with its chain of extended records.

UEFI Specification 2.10, chapter 5.2. The record has no checksum, so it counts as one only where its entries make
sense. Type 0xEE guards a GPT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.errors import FormatError
from layoutscope.filesystems.recognition import MapRegion
from layoutscope.filesystems.registry import promised_by
from layoutscope.findings import Finding, from_error
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import BOOT_RECORD
from layoutscope.partition.tables import Partition, PartitionTable

if TYPE_CHECKING:
    from layoutscope.image.source import Source

MAX_LOGICAL: Final = 128
_EXTENDED: Final = ("extended", "extended_lba", "extended_linux")


def read_mbr(
    source: Source,
    sector_size: int,  # the unit of its addresses, in bytes
) -> PartitionTable | None:
    """Read the master boot record and the records that it leads to; None if there is none."""
    try:
        record = _record(source, 0)
    except FormatError:
        return None
    if not _is_sane(record, source, sector_size):
        return None
    reader = _Reader(source, sector_size)
    reader.master(record)
    return PartitionTable("MBR", tuple(reader.partitions), tuple(reader.regions), tuple(reader.findings))


def _record(source: Source, image_offset: int) -> grammar.Mbr.BootRecord:
    data = source.read(image_offset, BOOT_RECORD.width)
    return grammar.parse(grammar.Mbr.BootRecord, data, structure="boot record", image_offset=image_offset)


def _is_sane(record: grammar.Mbr.BootRecord, source: Source, sector_size: int) -> bool:
    """Tell a partition table from boot code, as it stands in the boot sectors of FAT and NTFS."""
    # The signature 55 AA ends boot sectors of every kind. A boot indicator is 00 or 80, where FAT and NTFS have code.
    used = [entry for entry in record.partitions if _type_name(entry) != "empty" and entry.num_sectors]
    return all(isinstance(entry.boot_indicator, grammar.Mbr.BootIndicator) for entry in record.partitions) and any(
        entry.starting_lba * sector_size < source.size_bytes for entry in used
    )


def _type_name(entry: grammar.Mbr.PartitionRecord) -> str:
    kind = entry.partition_type
    return kind.name if isinstance(kind, grammar.Mbr.PartitionType) else f"{_UNNAMED}{kind:#04x}"


_UNNAMED: Final = "type "


def is_unnamed(type_name: str) -> bool:
    """Tell whether a partition is of a type that is known by its number alone."""
    return type_name.startswith(_UNNAMED)


class _Reader:
    """Collects the partitions of all records of a disk."""

    def __init__(self, source: Source, sector_size: int) -> None:
        self._source = source
        self._sector_size = sector_size
        self.partitions: list[Partition] = []
        self.regions: list[MapRegion] = []
        self.findings: list[Finding] = []

    def master(self, record: grammar.Mbr.BootRecord) -> None:
        """Take the primary partitions, then the logical ones."""
        self._region(0, "master")
        for number, entry in enumerate(record.partitions, 1):
            if _type_name(entry) != "empty" and _type_name(entry) not in _EXTENDED:
                self._add(number, 0, entry, 0)
        for entry in record.partitions:
            if _type_name(entry) in _EXTENDED:
                self._chain(entry.starting_lba)

    def _chain(self, first_lba: int) -> None:
        """Follow the extended records; each holds one logical partition and the next link."""
        visited: set[int] = set()
        lba: int | None = first_lba
        while lba is not None:
            if lba in visited or len(visited) >= MAX_LOGICAL:
                return self._loop(lba)
            visited.add(lba)
            lba = self._link(first_lba, lba)
        return None

    def _link(self, first_lba: int, lba: int) -> int | None:
        """Take the logical partition of one extended record; the sector of the next, or None."""
        place = lba * self._sector_size
        try:
            record = _record(self._source, place)
        except FormatError as error:
            self.findings.append(from_error(error, code="partition-chain"))
            return None
        self._region(place, "extended")
        following = None
        # An extended record uses two of its four entries: a partition, whose sectors count from this record, and the
        # next record, whose sector counts from the first one of the chain.
        for entry in record.partitions[:2]:
            if _type_name(entry) in _EXTENDED:
                following = first_lba + entry.starting_lba
            elif _type_name(entry) != "empty":
                # Logical partitions are numbered from 5 on, even where primary entries are unused.
                self._add(5 + self._num_logical(), lba, entry, place)
        return following

    def _num_logical(self) -> int:
        return sum(partition.number >= 5 for partition in self.partitions)

    def _add(self, number: int, base_lba: int, entry: grammar.Mbr.PartitionRecord, record_offset: int) -> None:
        start = (base_lba + entry.starting_lba) * self._sector_size
        size = entry.num_sectors * self._sector_size
        if not size or start >= self._source.size_bytes:
            message = f"partition {number} does not lie in the image"
            found = f"{start:,} to {start + size:,}"
            self.findings.append(
                Finding("partition-outside", "error", "boot record", record_offset, message, found=found)
            )
            return
        kind = _type_name(entry)
        promised = promised_by("mbr", kind)
        declared = "" if promised is None else promised.name
        self.partitions.append(Partition("MBR", number, start, size, "", kind, declared))

    def _region(self, image_offset: int, owner: str) -> None:
        self.regions.append(MapRegion("mbr", image_offset, BOOT_RECORD.width, owner))

    def _loop(self, lba: int) -> None:
        message = "the chain of extended records returns to one of its links, or never ends"
        self.findings.append(Finding("partition-chain", "error", "boot record", lba * self._sector_size, message))
