"""Disks with partition maps, written from the specifications, not from the grammars."""

from __future__ import annotations

import uuid

from construct import Bytes, Const, Int8ub, Int16ub, Int32ub, PaddedString, Struct

from fixtures import partitions
from layoutscope.image import MemorySource
from layoutscope.partition import find_volumes

HFS = "48465300-0000-11AA-AA11-00306543ECAC"
APFS = "7C3457EF-0000-11AA-AA11-00306543ECAC"
CORE_STORAGE = "53746F72-6167-11AA-AA11-00306543ECAC"
LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

mbr = partitions.mbr_sector

MDB = Struct(
    "signature" / Const(b"BD"),
    "dates" / Bytes(8),
    "attributes" / Int16ub,
    "root_files" / Int16ub,
    "bitmap" / Int16ub,
    "search" / Int16ub,
    "num_blocks" / Int16ub,
    "block_size" / Int32ub,
    "clump" / Int32ub,
    "first_sector" / Int16ub,
    "next_id" / Int32ub,
    "free" / Int16ub,
    "name_length" / Int8ub,
    "name" / PaddedString(27, "ascii"),
    "middle" / Bytes(60),
    "embedded_signature" / Bytes(2),
    "embedded_start" / Int16ub,
    "embedded_count" / Int16ub,
)


class Disk:
    """Bytes that are written at given offsets."""

    def __init__(self, size_bytes: int) -> None:
        self.data = bytearray(size_bytes)

    def put(self, place: int, data: bytes) -> Disk:
        """Write at an offset; a negative one counts from the end."""
        place %= len(self.data)
        self.data[place : place + len(data)] = data
        return self

    def flip(self, *places: int) -> Disk:
        """Invert the bits of some bytes."""
        for place in places:
            self.data[place] ^= 0xFF
        return self


def hfs_plus(disk: Disk, place: int, size: int, signature: bytes = b"H+") -> Disk:
    """Put the two headers of an HFS+ volume with 4 KiB blocks: only their first words and its size."""
    for header in (place + 1024, place + size - 1024):
        disk.put(header, signature + (b"\0\4" if signature == b"H+" else b"\0\5"))
        disk.put(header + 40, (4096).to_bytes(4, "big") + (size // 4096).to_bytes(4, "big"))
    return disk


def apfs(disk: Disk, place: int) -> Disk:
    """Put the magic of a container superblock."""
    return disk.put(place + 32, b"NXSB")


def gpt_entry(kind: str, first: int, last: int, name: str = "") -> bytes:
    """Return the entry of a partition by its type and sectors."""
    return partitions.gpt_entry(uuid.UUID(kind), uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}{first}"), first, last, name)


def gpt_disk(size_bytes: int, entries: list[bytes], sector: int = 512, entry_size: int = 128) -> Disk:
    """Write both copies of a GPT with 128 entries, without a protective MBR."""
    disk = Disk(size_bytes)
    last = size_bytes // sector - 1
    array = b"".join(entry.ljust(entry_size, b"\0") for entry in entries).ljust(128 * entry_size, b"\0")
    sectors = -(-len(array) // sector)
    for lba, other, entries_lba in ((1, last, 2), (last, 1, last - sectors)):
        disk.put(lba * sector, gpt_header(array, lba, other, entries_lba, entry_size))
        disk.put(entries_lba * sector, array)
    return disk


def gpt_header(array: bytes, lba: int, other: int, entries_lba: int, entry_size: int = 128) -> bytes:
    """Return a header with correct checksums."""
    return partitions.gpt_header(array, (lba, other, entries_lba), (34, max(lba, other) - 34), entry_size)


def apm(disk: Disk, entries: list[tuple[str, str, int, int]], block: int = 512, declared: int | None = None) -> Disk:
    """Write a partition map from (name, type, first block, count); `declared` is block 0's size, 0 for no block 0."""
    if declared != 0:
        disk.put(0, partitions.apm_driver(declared or block, len(disk.data) // block))
    for number, (name, kind, start, count) in enumerate(entries, 1):
        row = partitions.apm_entry(name.encode(), kind.encode(), start, count, len(entries))
        disk.put(number * block, row)
    return disk


def raid_header(level: str, members: list[str], own: str, name: str = "Data") -> bytes:
    """Write the last 4,096 bytes of an AppleRAID member, with the property list as the kernel writes it."""
    listed = "".join(f'<string ID="{3 + number}">{member}</string>' for number, member in enumerate(members))
    text = (
        f'<dict ID="0"><key>AppleRAID-LevelName</key><string ID="1">{level}</string><key>AppleRAID-Members</key>'
        f'<array ID="2">{listed}</array><key>AppleRAID-SetName</key><string ID="99">{name}</string></dict>'
    )
    head = b"AppleRAIDHeader\0" + b"SET".ljust(64, b"\0") + own.encode().ljust(64, b"\0") + bytes(8)
    return (head + text.encode()).ljust(4096, b"\0")


def former_raid_header(level: int, number: int, name: str = "Data") -> bytes:
    """Write the first 4,096 bytes of one of two AppleRAID members from before Mac OS X 10.4, counted from 0."""
    words = b"".join(word.to_bytes(4, "big") for word in (4096, 0x10000, 1, level))
    counts = b"".join(word.to_bytes(4, "big") for word in (2, number, 0x8000, 32))
    return (b"AppleRAIDHeader\0" + words + bytes(16) + name.encode().ljust(32, b"\0") + counts).ljust(4096, b"\0")


def wrapper(name: str, block_size: int, first_sector: int, start: int, count: int, embedded: bytes = b"H+") -> bytes:
    """Build the master directory block of a classic volume that wraps an embedded one."""
    return MDB.build(
        {
            "dates": bytes(8), "attributes": 0, "root_files": 5, "bitmap": 3, "search": 0, "num_blocks": 1000,
            "block_size": block_size, "clump": block_size, "first_sector": first_sector, "next_id": 20, "free": 0,
            "name_length": len(name), "name": name, "middle": bytes(60), "embedded_signature": embedded,
            "embedded_start": start, "embedded_count": count,
        }
    )  # fmt: skip


def search(disk: Disk):
    """Find the volumes of a disk."""
    return find_volumes(MemorySource(bytes(disk.data), "disk"))


def volumes(found) -> list[tuple[int, int]]:
    """Return start and size of the readable volumes."""
    return [(item.image_offset, item.size_bytes) for item in found.readable]


def findings_of(found) -> list[tuple[str, str, int | None]]:
    """Return code, level and address of the findings of a search, check or scan."""
    return [(item.code, item.level, item.image_offset) for item in found.findings]
