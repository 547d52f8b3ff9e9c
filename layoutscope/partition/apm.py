"""Apple Partition Map.

Inside Macintosh: Devices, chapter 3. One block an entry, from block 1 on; each entry knows how many there are. The
driver descriptor in block 0 tells the block size, but CDs may say 2048 there and have a map in blocks of 512.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.recognition import MapRegion, parse_at
from layoutscope.filesystems.registry import promised_by
from layoutscope.findings import FindingLog
from layoutscope.partition.tables import Partition, PartitionTable
from layoutscope.structs import grammar
from layoutscope.structs.records import APM_PARTITION_ENTRY, DRIVER_DESCRIPTOR_MAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.image.source import Source

BLOCK_SIZES: Final = (512, 2048, 1024, 4096)
MAX_ENTRIES: Final = 256
NO_VOLUME: Final = ("Apple_partition_map", "Apple_Free", "Apple_Void", "Apple_Scratch", "Apple_Extra", "Apple_Patches")
"""Types that hold no volume: the map itself and space that nobody uses; drivers are named Apple_Driver and so on."""


def block_sizes(source: Source) -> list[int]:
    """List the block sizes for which a partition map stands in block 1, the one of the driver descriptor first."""
    # Maps of compact discs count in blocks of 2,048 bytes, and hybrid discs have one map for each size of block, each
    # of which says where the same partitions lie. The driver descriptor's size is that of the disk itself.
    declared = _read_block_size(source)
    sizes = sorted({*BLOCK_SIZES, declared} - {0}, key=lambda size: (size != declared, BLOCK_SIZES.index(size)))
    return [size for size in sizes if parse_at(source, APM_PARTITION_ENTRY, size) is not None]


def _read_block_size(source: Source) -> int:
    """Return the block size of the driver descriptor, 0 if there is none or it makes no sense."""
    block0: grammar.Apm.DriverDescriptorMap | None = parse_at(source, DRIVER_DESCRIPTOR_MAP, 0)
    return block0.len_block if block0 is not None and block0.len_block in BLOCK_SIZES else 0


def _entry(source: Source, number: int, block_size: int) -> grammar.Apm.PartitionEntry:
    place = number * block_size
    data = source.read(place, APM_PARTITION_ENTRY.width)
    return grammar.parse(grammar.Apm.PartitionEntry, data, structure="partition map entry", image_offset=place)


def read_apm(
    source: Source,
    block_size: int,  # in bytes, one of `block_sizes`
) -> list[PartitionTable]:
    """Read the map in blocks of a given size."""
    log = FindingLog()
    # Every entry repeats how many there are (pmMapBlkCnt, Inside Macintosh: Devices, Partition Map); the first one is
    # mostly that of the map itself.
    num_entries = _entry(source, 1, block_size).num_map_entries
    if not 0 < num_entries <= MAX_ENTRIES:
        message = f"the map claims {num_entries:,} entries; at most {MAX_ENTRIES} are looked at"
        log.at("partition map entry", block_size).add("partition-limit", "error", message)
    count = min(num_entries, MAX_ENTRIES)
    regions = _regions(source, block_size, max(1, count))
    whole = PartitionTable("APM", tuple(_partitions(source, block_size, count, log)), regions, tuple(log.findings))
    inner = tuple(_partitions(source, block_size, count, FindingLog(), is_inner=True))
    return [whole] if inner == whole.partitions else [whole, replace(whole, partitions=inner)]


def _regions(source: Source, block_size: int, count: int) -> tuple[MapRegion, ...]:
    length = min(count * block_size, source.size_bytes - block_size)
    regions = (MapRegion("apm", block_size, length, "partition map"),)
    if _read_block_size(source):
        return (MapRegion("apm", 0, min(block_size, 512), "driver descriptor map"), *regions)
    return regions


def _partitions(
    source: Source, block_size: int, count: int, log: FindingLog, *, is_inner: bool = False
) -> Iterator[Partition]:
    for number in range(1, count + 1):
        try:
            entry = _entry(source, number, block_size)
        except FormatError as error:
            # The rest of a map whose entry is broken may still be there, but its count cannot be trusted.
            log.survive(error, code="partition-chain")
            return
        # The data of a partition may begin behind its first block (pmLgDataStart).
        skipped = entry.data_start_block
        if skipped and skipped >= entry.num_blocks:
            message = f"the data of partition {number} begin behind its end; it is taken to begin with its first block"
            place = log.at("partition map entry", number * block_size)
            sides = f"less than {entry.num_blocks:,} blocks", f"{skipped:,}"
            place.add("partition-content", "warning", message, expected=sides[0], found=sides[1])
            skipped = 0
        before = skipped if is_inner else 0
        start, size = (entry.start_block + before) * block_size, (entry.num_blocks - before) * block_size
        type_name = _text(entry.partition_type)
        if size and start < source.size_bytes:
            yield Partition(
                "APM", number, start, size, _text(entry.partition_name), type_name, _promised_kind(type_name)
            )
        elif size:
            found = f"{start:,} to {start + size:,}"
            message = f"partition {number} does not lie in the image"
            log.at("partition map entry", number * block_size).add("partition-outside", "error", message, found=found)


def _promised_kind(type_name: str) -> str:
    """Name the kind of volume that a type promises."""
    promised = promised_by("apm", type_name)
    if promised is not None:
        return promised.name
    return "corestorage" if type_name == "Apple_CoreStorage" else ""


def _text(raw: bytes) -> str:
    # 32 bytes, with a zero behind the text if it is shorter; older than Unicode.
    return raw.split(b"\0", 1)[0].decode("mac_roman", errors="replace")
