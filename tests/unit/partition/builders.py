"""Disks with partition maps, written from the specifications, not from the grammars."""

from __future__ import annotations

import uuid
import zlib

from construct import (
    Array,
    Bytes,
    Const,
    Int8ub,
    Int16ub,
    Int16ul,
    Int32ub,
    Int32ul,
    Int64ul,
    Padded,
    PaddedString,
    Struct,
)

from layoutscope.image import MemorySource
from layoutscope.partition import find_volumes

HFS = "48465300-0000-11AA-AA11-00306543ECAC"
APFS = "7C3457EF-0000-11AA-AA11-00306543ECAC"
CORE_STORAGE = "53746F72-6167-11AA-AA11-00306543ECAC"
LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

GPT_HEADER = Struct(
    "signature" / Const(b"EFI PART"),
    "revision" / Const(0x00010000, Int32ul),
    "header_size" / Int32ul,
    "header_crc" / Int32ul,
    "reserved" / Const(0, Int32ul),
    "my_lba" / Int64ul,
    "alternate_lba" / Int64ul,
    "first_usable" / Int64ul,
    "last_usable" / Int64ul,
    "disk_guid" / Bytes(16),
    "entries_lba" / Int64ul,
    "num_entries" / Int32ul,
    "entry_size" / Int32ul,
    "entries_crc" / Int32ul,
)
GPT_ENTRY = Struct(
    "type" / Bytes(16),
    "unique" / Bytes(16),
    "first" / Int64ul,
    "last" / Int64ul,
    "attributes" / Int64ul,
    "name" / PaddedString(72, "utf-16-le"),
)
MBR_ENTRY = Struct(
    "boot" / Int8ub, "chs1" / Bytes(3), "type" / Int8ub, "chs2" / Bytes(3), "first" / Int32ul, "count" / Int32ul
)
MBR = Struct("code" / Padded(446, Bytes(0)), "entries" / Array(4, MBR_ENTRY), "signature" / Const(0xAA55, Int16ul))
BLOCK0 = Struct("signature" / Const(b"ER"), "block_size" / Int16ub, "count" / Int32ub, "rest" / Padded(504, Bytes(0)))
APM_ENTRY = Struct(
    "signature" / Const(b"PM"),
    "pad" / Const(0, Int16ub),
    "map_count" / Int32ub,
    "start" / Int32ub,
    "count" / Int32ub,
    "name" / PaddedString(32, "ascii"),
    "type" / PaddedString(32, "ascii"),
    "data_start" / Int32ub,
    "data_count" / Int32ub,
    "status" / Int32ub,
)
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


def gpt_entry(kind: str, first: int, last: int, name: str = "") -> dict[str, object]:
    """Describe a partition by its type and sectors."""
    unique = uuid.uuid5(uuid.NAMESPACE_OID, f"{kind}{first}").bytes_le
    return {
        "type": uuid.UUID(kind).bytes_le,
        "unique": unique,
        "first": first,
        "last": last,
        "attributes": 0,
        "name": name,
    }


def gpt_disk(size_bytes: int, entries: list[dict[str, object]], sector: int = 512, entry_size: int = 128) -> Disk:
    """Write both copies of a GPT with 128 entries, without a protective MBR."""
    disk = Disk(size_bytes)
    last = size_bytes // sector - 1
    array = b"".join(GPT_ENTRY.build(entry).ljust(entry_size, b"\0") for entry in entries)
    array = array.ljust(128 * entry_size, b"\0")
    sectors = -(-len(array) // sector)
    for lba, other, entries_lba in ((1, last, 2), (last, 1, last - sectors)):
        disk.put(lba * sector, gpt_header(array, lba, other, entries_lba, entry_size))
        disk.put(entries_lba * sector, array)
    return disk


def gpt_header(array: bytes, lba: int, other: int, entries_lba: int, entry_size: int = 128) -> bytes:
    """Build a header with correct checksums."""
    fields = {
        "header_size": 92,
        "header_crc": 0,
        "my_lba": lba,
        "alternate_lba": other,
        "first_usable": 34,
        "last_usable": max(lba, other) - 34,
        "disk_guid": bytes(range(16)),
        "entries_lba": entries_lba,
        "num_entries": len(array) // entry_size,
        "entry_size": entry_size,
        "entries_crc": zlib.crc32(array),
    }
    return GPT_HEADER.build(fields | {"header_crc": zlib.crc32(GPT_HEADER.build(fields))})


def mbr(*entries: tuple[int, int, int]) -> bytes:
    """Build a boot record from up to four (type, first sector, count)."""
    slots = [*entries, *[(0, 0, 0)] * (4 - len(entries))]
    return MBR.build(
        {
            "code": b"",
            "entries": [
                {"boot": 0, "chs1": bytes(3), "type": kind, "chs2": bytes(3), "first": first, "count": count}
                for kind, first, count in slots
            ],
        }
    )


def apm(disk: Disk, entries: list[tuple[str, str, int, int]], block: int = 512, declared: int | None = None) -> Disk:
    """Write a partition map from (name, type, first block, count); `declared` is block 0's size, 0 for no block 0."""
    if declared != 0:
        disk.put(0, BLOCK0.build({"block_size": declared or block, "count": len(disk.data) // block, "rest": b""}))
    for number, (name, kind, start, count) in enumerate(entries, 1):
        fields = {"name": name, "type": kind, "start": start, "count": count, "map_count": len(entries)}
        disk.put(number * block, APM_ENTRY.build(fields | {"data_start": 0, "data_count": count, "status": 0x33}))
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
