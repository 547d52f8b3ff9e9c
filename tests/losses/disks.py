"""Sound disks in every supported map and container, whose files hold data that identify their location.

`python -m tests.losses.containers` changes them. Each sector of file data begins with a digest of the volume, the file
and the sector's number in the file, so an address is right if the expected digest is there.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import plistlib
import re
import shutil
import struct
import subprocess
import tempfile
import uuid
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fixtures.apfs.plan import ContainerPlan
from fixtures.apfs.plan import VolumePlan as ApfsPlan
from fixtures.apfs.scenarios import many
from fixtures.apfs.writer import write as write_apfs
from fixtures.asif import Plan, asif
from fixtures.corestorage import PhysicalVolumePlan, physical_volume
from fixtures.hfsplus.plan import Tree, VolumePlan, Wrapper
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from fixtures.partitions import APFS_TYPE, HFS_PLUS_TYPE, apm_driver, apm_entry, gpt_entry, gpt_header, mbr_sector
from fixtures.wrappers import (
    apple_single,
    disc,
    disk_copy,
    encrypted,
    expert_witness,
    im4p,
    mac_binary,
    parallels,
    parallels_description,
    sparse_image,
    vdi,
)
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.options import ReadOptions
from layoutscope.structs import records
from layoutscope.structs.recordtypes import Field, RecordType
from layoutscope.zstd import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from layoutscope.api.reading import Opened
    from layoutscope.tables.layout import VolumeLayout

    Files = dict[str, bytearray]

SECTOR: Final = 512
MARK_BYTES: Final = 16
PASSWORD: Final = "fixture"  # noqa: S105
SMALL: Final = {
    "block_size": 512, "total_blocks": 300, "root": folders(2, 4, 3000), "attributes": None,
    "catalog": Tree(512), "extents_overflow": Tree(512),
}  # fmt: skip

Row = tuple[str, int, int, str | None]
"""An entry: the volume's name, the directory, the file number and the name."""


class Number(NamedTuple):
    """A field: its name, file, offset, width and byte order; text has no byte order."""

    name: str
    file: str
    at: int
    width: int
    order: str


class Part(NamedTuple):
    """A structure: its kind, file, offset, length and fields."""

    kind: str
    file: str
    at: int
    length: int
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Base:
    """A sound disk in its files."""

    name: str  # for the figures
    files: dict[str, bytes]  # the files that are changed, by name
    parts: tuple[Part, ...]  # structures of these
    disk: bytes  # the disk inside
    path: str = "disk.img"  # the file or folder that is opened
    mend: Callable[[Files], None] = lambda _: None  # corrects the checksums of changed files
    pack: Callable[[Files], Files] = lambda files: files  # makes the files to write from the changed ones
    options: dict[str, Any] = field(default_factory=dict)  # options for reading the image
    peer: str = ""  # what `qemu-img` calls the format, where it reads it
    is_map: bool = False  # whether the changed structures are in the disk, not in its container


class Known(NamedTuple):
    """What a sound disk holds: its entries, the volumes' names, and where they begin and end."""

    rows: Counter[Row]
    volumes: tuple[str, ...]
    spaces: tuple[tuple[int, int], ...]


def mark(volume: str, file: int, fork: str, sector: int) -> bytes:
    """Return the digest that a sector of a file begins with."""
    return hashlib.sha256(f"{volume}/{file}/{fork}/{sector}".encode()).digest()[:MARK_BYTES]


def rows_of(image: Opened) -> Counter[Row]:
    """Count the entries of all volumes."""
    rows: Counter[Row] = Counter()
    for layout in image.layouts:
        table = layout.columns("entries")
        columns = [table.listed(name) for name in ("parent_id", "file_id", "name")]
        rows.update((layout.facts.name, *row) for row in zip(*columns, strict=True))
    return rows


def places(layout: VolumeLayout) -> Iterator[tuple[int, str, int, int, int]]:
    """Yield the extents of a volume's files: file, fork, place in the fork, address and length in bytes."""
    table = layout.columns("extents")
    names = ("file_id", "fork", "logical_offset", "image_offset", "length_bytes")
    for file, fork, logical, at, length in zip(*(table.listed(name) for name in names), strict=True):
        if file >= FIRST_FILE and fork in ("data", "resource") and at is not None:
            yield file, fork, logical, at, length


FIRST_FILE: Final = 16
"""Smaller numbers are files of the volume itself."""


def painted(volume: bytes) -> bytes:
    """Fill the files of a volume with data that identify their location."""
    data = bytearray(volume)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "disk.img")
        path.write_bytes(volume)
        with open_volumes(path, make_request(ReadOptions())) as image:
            for layout in image.layouts:
                for file, fork, logical, at, length in places(layout):
                    for step in range(0, length, SECTOR):
                        name = mark(layout.facts.name, file, fork, (logical + step) // SECTOR)
                        data[at + step : at + step + MARK_BYTES] = name
    return bytes(data)


def hfs_plus(name: str, **more: Any) -> bytes:
    """Write a small volume."""
    return painted(bytes(render(VolumePlan(name=name, **(SMALL | more)))[0].to_bytearray()))


def apfs(name: str) -> bytes:
    """Write a small container with one volume."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "disk.img")
        write_apfs(ContainerPlan((ApfsPlan(name, many(12)),), block_count=256), path)
        return painted(path.read_bytes())


def numbers_of(record: RecordType, file: str, at: int) -> Iterator[Number]:
    """Yield the fields of a structure as its grammar defines them."""
    for name in record._members:
        member = getattr(record, name)
        if isinstance(member, RecordType):
            count, step = (member._counts or (1,))[-1], (member._strides or (0,))[-1]
            for turn in range(count):
                yield from numbers_of(member, file, at + turn * step)
        elif isinstance(member, Field) and member.scalar.kind in "uiSV" and member.width <= 32:
            order = {"<": "little", ">": "big", "=": "little", "|": "little"}[member.scalar.byteorder]
            yield Number(name, file, at + member.offset, member.scalar.itemsize, order)


def part(record: RecordType, at: int, file: str = "disk.img", kind: str = "") -> Part:
    """Describe a structure of a grammar."""
    return Part(kind or record.type_name, file, at, record.width, tuple(numbers_of(record, file, at)))


def entries(record: RecordType, at: int, count: int, file: str = "disk.img", step: int = 0) -> list[Part]:
    """Describe the entries of a table."""
    return [part(record, at + turn * (step or record.width), file) for turn in range(count)]


def words(kind: str, at: int, widths: str, file: str = "disk.img") -> Part:
    """Describe a structure in `struct` notation."""
    order = "big" if widths[0] == ">" else "little"
    found, place = [], at
    for letter in re.findall(r"\d*[a-zA-Z]", widths):
        width = struct.calcsize(f">{letter}")
        found.append(Number(f"{kind} at {place - at}", file, place, width, order))
        place += width
    return Part(kind, file, at, place - at, tuple(found))


# Maps


class Placed(NamedTuple):
    """Contiguous volumes: the disk up to their end, and the first and last sector of each."""

    disk: bytearray
    sectors: list[tuple[int, int]]


def placed(volumes: Iterable[bytes], first: int, sector: int, align: int = 4096) -> Placed:
    """Put volumes into a disk, with one free unit of `align` bytes between them."""
    disk, sectors = bytearray(first), []
    for volume in volumes:
        at = len(disk)
        disk += volume
        disk += bytes(-len(disk) % sector)
        sectors.append((at // sector, len(disk) // sector - 1))
        disk += bytes(-len(disk) % align + align)
    return Placed(disk, sectors)


def gpt(volumes: list[tuple[bytes, uuid.UUID]], sector: int = 512, *, hybrid: bool = False) -> bytes:
    """Write a disk with a GUID partition table and its backup; each volume comes with its partition type."""
    count = 16
    array_bytes = -(-count * 128 // sector) * sector
    disk, sectors = placed((volume for volume, _ in volumes), -(-(2 * sector + array_bytes) // 4096) * 4096, sector)
    array = b"".join(
        gpt_entry(kind, uuid.UUID(int=turn + 1), *sectors[turn], "p") for turn, (_, kind) in enumerate(volumes)
    ).ljust(count * 128, b"\0")
    disk += array.ljust(array_bytes, b"\0") + bytes(sector)
    last = len(disk) // sector - 1
    back = last - array_bytes // sector
    usable = 2 + array_bytes // sector, back - 1
    for lba, other, table in ((1, last, 2), (last, 1, back)):
        disk[lba * sector : lba * sector + 92] = gpt_header(
            array, (lba, other, table), usable, disk_id=uuid.UUID(int=99)
        )
        disk[table * sector : table * sector + len(array)] = array
    rows = [(0xEE, 1, sectors[0][0] - 1 if hybrid else last)]
    rows += [(0xAF, first, end - first + 1) for first, end in sectors[:3]] if hybrid else []
    disk[:512] = mbr_sector(*rows)
    return bytes(disk)


def mend_gpt(files: Files, sector: int = 512) -> None:
    """Correct the checksums of both headers, and of the entries that they point to (UEFI 5.3.2)."""
    disk = files["disk.img"]
    for at in (sector, len(disk) - sector):
        if disk[at : at + 8] != b"EFI PART":
            continue
        table, count, size = struct.unpack_from("<QII", disk, at + 72)
        length = struct.unpack_from("<I", disk, at + 12)[0]
        if count * size <= 1 << 22 and table * sector + count * size <= len(disk):
            crc = zlib.crc32(disk[table * sector : table * sector + count * size])
            struct.pack_into("<I", disk, at + 88, crc)
        struct.pack_into("<I", disk, at + 16, 0)
        struct.pack_into("<I", disk, at + 16, zlib.crc32(disk[at : at + min(length, sector)]))


def apm(volumes: list[tuple[bytes, bytes]], block: int = 512) -> bytes:
    """Write a disk with an Apple partition map."""
    first = max(16 * block, 8192)
    disk, sectors = placed((volume for volume, _ in volumes), first, block)
    rows = [(1, first // block - 1, b"Apple", b"Apple_partition_map")]
    rows += [(low, high - low + 1, b"p", kind) for (low, high), (_, kind) in zip(sectors, volumes, strict=True)]
    rows.append((sectors[-1][1] + 1, len(disk) // block - sectors[-1][1] - 1, b"", b"Apple_Free"))
    disk[:8] = apm_driver(block, len(disk) // block)
    for rank, (start, count, name, kind) in enumerate(rows, 1):
        row = apm_entry(name, kind, start, count, len(rows))
        disk[rank * block : rank * block + len(row)] = row
    return bytes(disk)


def mbr(volumes: list[bytes], first: int = 63 * 512) -> bytes:
    """Write a disk with a boot record."""
    disk, sectors = placed(volumes, first, 512, 512)
    disk[:512] = mbr_sector(*((0xAF, low, high - low + 1) for low, high in sectors))
    return bytes(disk)


def mbr_extended(volumes: list[bytes]) -> tuple[bytes, list[int]]:
    """Write a disk with a primary partition and logical ones; return the disk and the addresses of their records."""
    first, *others = volumes
    disk = bytearray(63 * 512) + first + bytes(-len(first) % 512)
    rows = [(0xAF, 63, len(disk) // 512 - 63)]
    chain, links = len(disk) // 512, []
    for volume in others:
        links.append(len(disk) // 512)
        disk += bytes(512) + volume + bytes(-len(volume) % 512)
    for turn, at in enumerate(links):
        end = links[turn + 1] if turn + 1 < len(links) else len(disk) // 512
        inner = [(0xAF, 1, end - at - 1)]
        if turn + 1 < len(links):
            inner.append((5, end - chain, len(disk) // 512 - end))
        disk[at * 512 : at * 512 + 512] = mbr_sector(*inner)
    rows.append((5, chain, len(disk) // 512 - chain))
    disk[:512] = mbr_sector(*rows)
    return bytes(disk), [at * 512 for at in links]


def map_bases() -> list[Base]:
    """Write disks with every map, and disks whose volumes no map lists."""
    first, second, third = hfs_plus("First"), hfs_plus("Second", hfsx=True), apfs("Third")
    typed = [(first, HFS_PLUS_TYPE), (third, APFS_TYPE), (second, HFS_PLUS_TYPE)]
    named = [(first, b"Apple_HFS"), (third, b"Apple_APFS"), (second, b"Apple_HFSX")]
    record = lambda at: part(records.BOOT_RECORD, at, kind="mbr")  # noqa: E731
    mbr_parts = lambda at: [record(at), *entries(records.PARTITION_RECORD, at + 446, 4)]  # noqa: E731
    found = []
    for sector in (512, 4096):
        disk = gpt(typed, sector)
        heads = [part(records.GPT_HEADER, at) for at in (sector, len(disk) - sector)]
        tables = [struct.unpack_from("<Q", disk, head.at + 72)[0] * sector for head in heads]
        rows = [row for table in tables for row in entries(records.GPT_PARTITION_ENTRY, table, 4)]
        mend = lambda files, sector=sector: mend_gpt(files, sector)  # noqa: E731
        found.append(_map(f"gpt-{sector}", disk, [*heads * 4, *rows, *mbr_parts(0)], mend))
    disk = gpt(typed, hybrid=True)
    found.append(
        _map(
            "hybrid",
            disk,
            [*mbr_parts(0), part(records.GPT_HEADER, 512), *entries(records.GPT_PARTITION_ENTRY, 1024, 4)],
            mend_gpt,
        )
    )
    lost = bytearray(gpt(typed))
    lost[512 : 512 + 4 * 1024] = bytes(4 * 1024)
    found.append(_map("gpt-backup", bytes(lost), [part(records.GPT_HEADER, len(lost) - 512), *mbr_parts(0)], mend_gpt))
    lost[-8192:] = bytes(8192)
    found.append(_map("protective", bytes(lost), [*mbr_parts(0), *_volume_parts(lost)]))
    disk = mbr([first, third, second])
    found.append(_map("mbr", disk, mbr_parts(0)))
    disk, links = mbr_extended([first, third, second])
    found.append(_map("mbr-extended", disk, [*mbr_parts(0), *(each for at in links for each in mbr_parts(at))]))
    for block in (512, 2048):
        disk = apm(named, block)
        rows = entries(records.APM_PARTITION_ENTRY, block, 5, step=block)
        found.append(_map(f"apm-{block}", disk, [part(records.DRIVER_DESCRIPTOR_MAP, 0), *rows]))
    wrapped = bytes(render(VolumePlan(name="First", wrapper=Wrapper(512, 20, 10, 3), **SMALL))[0].to_bytearray())
    wrapped = painted(wrapped)
    found.append(_map("hfs-wrapper", wrapped, [
        part(records.MASTER_DIRECTORY_BLOCK, 1024), part(records.MASTER_DIRECTORY_BLOCK, len(wrapped) - 1024),
    ]))  # fmt: skip
    for name, volume, at in (
        ("bare-hfs", first, 0), ("bare-hfs-3584", first, 3584),
        ("bare-apfs", third, 0), ("bare-apfs-20480", third, 20480),
    ):  # fmt: skip
        disk = bytes(at) + volume
        found.append(_map(name, disk, _volume_parts(disk)))
    # A Core Storage partition is only named.
    start = 63 + -(-len(first) // 512)
    locked = bytes(physical_volume(PhysicalVolumePlan(has_bitmap=True), 1 << 18))
    rows = (0xAF, 63, start - 63), (0xAC, start, len(locked) // 512)
    disk = mbr_sector(*rows) + bytes(62 * 512) + first + bytes(-len(first) % 512) + locked
    used = [at for at in range(start * 512, len(disk), 64) if any(disk[at : at + 64])]
    found.append(_map("core-storage", disk, [*mbr_parts(0), *(words("label", at, "<IIQQIIQQIIQ") for at in used)]))
    two = bytes(5120) + first + bytes(-len(first) % 4096 + 4096) + third
    found.append(_map("bare-two", two, _volume_parts(two)))
    return found


def _volume_parts(disk: bytes) -> list[Part]:
    """Describe the volume header fields that give a volume's location and length."""
    found = []
    for at in range(0, len(disk) - 511, 512):
        if disk[at : at + 4] in (b"H+\0\4", b"HX\0\5"):
            found.append(words("volume header", at, ">2sHIIIIIIIIIII"))
        if disk[at + 32 : at + 36] == b"NXSB":
            found.append(words("superblock", at, "<QQQII4sIQQQQ"))
    return found


def mend_apfs(files: Files) -> None:
    """Correct the checksum of each superblock."""
    from fixtures.apfs.checksum import with_checksum

    disk = files["disk.img"]
    for at in range(0, len(disk) - 4095, 512):
        if disk[at + 32 : at + 36] == b"NXSB":
            disk[at : at + 4096] = with_checksum(bytes(disk[at : at + 4096]))


def _map(name: str, disk: bytes, parts: list[Part], mend: Callable[[Files], None] = mend_apfs) -> Base:
    return Base(name, {"disk.img": disk}, tuple(parts), disk, mend=mend, is_map=True)


# Containers


def container_bases(*, with_apfs: bool = True) -> list[Base]:
    """Write the small disk of HFS+, and one with APFS, in every container format."""
    two = mbr([hfs_plus("First"), hfs_plus("Second", hfsx=True)])
    two += bytes(-len(two) % 4096)
    disks = [(two, ""), *([(apfs("Third"), "-apfs")] if with_apfs else [])]
    # Numbers of mutants count in this order, and the figures of the campaign name its seed.
    found = [base for make in (_images, _foreign) for disk, more in disks for base in make(disk, more)]
    return [each for each in found if each.parts]


def _images(disk: bytes, more: str = "") -> Iterator[Base]:
    one = lambda name, data, parts, **other: Base(name + more, {"disk.img": data}, tuple(parts), disk, **other)  # noqa: E731
    yield _dmg(f"dmg{more}", disk)
    yield _dmg(f"dmg-first{more}", disk, trailer_first=True)
    data = sparse_image(disk, 8192, reverse=True)
    yield one("sparse-image", data, [part(records.SPARSE_IMAGE_HEADER, 0), *entries(records.SPARSE_IMAGE_BAND, 64, 24)])
    longer = disk + b"\x01" * 600_064
    data = sparse_image(longer, 512)
    at = 4096 + 1008 * 512
    parts = [part(records.SPARSE_IMAGE_HEADER, 0), *[part(records.SPARSE_IMAGE_INDEX, at)] * 3]
    parts += [*entries(records.SPARSE_IMAGE_BAND, 64, 9), *entries(records.SPARSE_IMAGE_BAND, at + 56, 9)]
    yield replace(one("sparse-image-tables", data, parts), disk=longer)
    for name, short in (("parallels", False), ("parallels-short", True)):
        data = parallels(disk, 8192, short=short)
        yield one(
            name, data, [part(records.PARALLELS_HEADER, 0), *entries(records.PARALLELS_ENTRY, 64, 24)], peer="parallels"
        )
    data = vdi(disk, 8192)
    yield one("vdi", data, [part(records.VDI_HEADER, 0), *entries(records.VDI_ENTRY, 512, 24)], peer="vdi")
    for name, options in (
        ("e01", {"per_table": 3}), ("e01-plain", {"packed": False, "small": True}), ("e01-old", {"with_base": False}),
    ):  # fmt: skip
        data = expert_witness(disk, **options)[0]  # type: ignore[arg-type]
        parts = _sections("disk.E01", data)
        yield Base(name + more, {"disk.E01": data}, tuple(parts), disk, path="disk.E01", mend=mend_witness)
    segments = {f"disk.E{turn:02}": data for turn, data in enumerate(expert_witness(disk, per_segment=3), 1)}
    parts = [each for name, data in segments.items() for each in _sections(name, data)]
    yield Base(f"e01-set{more}", segments, tuple(parts), disk, path="disk.E01", mend=mend_witness)
    yield one("mac-binary", mac_binary(disk), [part(records.MAC_BINARY, 0)], mend=mend_mac_binary)
    yield one(
        "apple-single", apple_single(disk), [part(records.APPLE_SINGLE, 0), *entries(records.APPLE_SINGLE_ENTRY, 26, 2)]
    )
    yield one("disk-copy", disk_copy(disk), [part(records.DISK_COPY, 0)])
    data = im4p(disk)
    yield one(
        "im4p",
        data,
        [Part("der", "disk.img", 0, 48, tuple(Number("byte", "disk.img", at, 1, "big") for at in range(40)))],
    )
    for name, options in (("disc", {}), ("disc-mode2", {"mode": 2}), ("disc-subchannels", {"subchannels": True})):
        data = disc(disk, **options)  # type: ignore[arg-type]
        stride = 2448 if name == "disc-subchannels" else 2352
        parts = entries(records.COMPACT_DISC_SECTOR, 0, 4, step=stride)
        if name != "disc-mode2":  # the data depend on the mode
            parts = [each._replace(length=16, numbers=each.numbers[:3]) for each in parts]
        yield one(name, data, parts)
    cue = b'FILE "disc.bin" BINARY\n  TRACK 01 MODE1/2352\n    INDEX 01 00:00:00\n'
    yield Base(
        f"cue{more}", {"disk.cue": cue, "disc.bin": disc(disk)}, (_text("disk.cue", cue),), disk, path="disk.cue"
    )
    third = -(-len(disk) // 1536) * 512
    pieces = {f"disk.00{turn + 1}": disk[turn * third : (turn + 1) * third] for turn in range(2)}
    pieces["disk.003"] = disk[2 * third :]
    parts = [Part("piece", name, 0, len(data), ()) for name, data in pieces.items()]
    yield Base(f"split{more}", pieces, tuple(parts), disk, path="disk.001")
    yield from _compressed(disk, more)
    data = encrypted(disk, PASSWORD)
    parts = [part(records.ENCRYPTED_IMAGE_HEADER, 0), part(records.KEY_LIST, 72), part(records.KEY_PLACE, 76)]
    parts.append(part(records.PASSWORD_KEY, 4096))
    yield one("encrypted", data, parts, options={"password": PASSWORD})
    for name, plan in (("asif", Plan(disk, partial=frozenset(range(0, 99, 3)))), ("asif-plain", Plan(disk))):
        data = asif(plan)
        rows = [at for at in range(512, len(data) - 7, 8)
                if 0 < int.from_bytes(data[at : at + 8], "big") & (2**62 - 1) < len(data) // 32768]  # fmt: skip
        parts = [*[part(records.ASIF_HEADER, 0)] * 2, part(records.SEQUENCE, 512), part(records.SEQUENCE, 1024)]
        yield one(name, data, [*parts, *(words("reference", at, ">Q") for at in rows[:40])])
    yield _bundle(f"bundle{more}", disk)
    yield _bundle(f"bundle-binary{more}", disk, plistlib.FMT_BINARY)
    yield _folder(f"parallels-folder{more}", disk)
    yield one("nested", gzip.compress(sparse_image(disk, 8192), mtime=0), [words("gzip", 0, "<HBBIBB")])
    yield one("mac-binary-dmg", mac_binary(next(iter(_dmg("dmg", disk).pack(_dmg_files(disk)).values()))),
              [part(records.MAC_BINARY, 0)], mend=mend_mac_binary)  # fmt: skip


def _compressed(disk: bytes, more: str) -> Iterator[Base]:
    half = len(disk) // 1024 * 512
    ways: dict[str, Callable[[bytes], bytes]] = {
        "gzip": lambda data: gzip.compress(data, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress,
        "zstd": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    }  # fmt: skip
    for name, way in ways.items():
        pieces = [way(disk[:half]), way(disk[half:])]
        starts = [0, len(pieces[0])]
        parts = [words(name, at, "<BBBBIBBHII") for at in starts]
        parts += [words(f"{name} end", end - 24, "<IIIIII") for end in (starts[1], starts[1] + len(pieces[1]))]
        yield Base(name + more, {"disk.img": b"".join(pieces)}, tuple(parts), disk)


def _text(file: str, data: bytes) -> Part:
    """Describe the numbers in a text."""
    return Part("text", file, 0, len(data), (Number("number", file, 0, len(data), "text"),))


def _sections(file: str, data: bytes) -> list[Part]:
    """Describe the sections of a segment."""
    found = [part(records.SEGMENT_HEADER, 0, file)]
    at = 13
    while at + 76 <= len(data):
        kind = data[at : at + 16].rstrip(b"\0")
        found.append(part(records.SECTION, at, file))
        if kind == b"volume":
            found += [part(records.VOLUME_SECTION, at + 76, file)] * 4
        if kind in (b"table", b"table2"):
            found.append(part(records.TABLE_SECTION, at + 76, file))
            count = struct.unpack_from("<I", data, at + 76)[0]
            found += [words("chunk entry", at + 100 + 4 * turn, "<I", file) for turn in range(min(count, 6))]
        following = struct.unpack_from("<Q", data, at + 16)[0]
        if following <= at:
            break
        at = following
    return found


def mend_witness(files: Files) -> None:
    """Correct the checksums of all sections of the chain."""
    for data in files.values():
        at = 13
        while at + 76 <= len(data):
            struct.pack_into("<I", data, at + 72, zlib.adler32(data[at : at + 72]))
            kind = bytes(data[at : at + 16]).rstrip(b"\0")
            following, length = struct.unpack_from("<QQ", data, at + 16)
            if kind == b"volume" and 84 < length < len(data) - at:
                struct.pack_into("<I", data, at + length - 4, zlib.adler32(data[at + 76 : at + length - 4]))
            if kind in (b"table", b"table2") and at + 100 <= len(data):
                struct.pack_into("<I", data, at + 96, zlib.adler32(data[at + 76 : at + 96]))
                end = at + 100 + 4 * struct.unpack_from("<I", data, at + 76)[0]
                if end + 4 <= len(data):
                    struct.pack_into("<I", data, end, zlib.adler32(data[at + 100 : end]))
            if following <= at:
                break
            at = following


def mend_mac_binary(files: Files) -> None:
    """Correct the checksum of the header."""
    from binascii import crc_hqx

    data = files["disk.img"]
    if len(data) >= 128:
        struct.pack_into(">H", data, 124, crc_hqx(bytes(data[:124]), 0))


def _dmg_files(disk: bytes) -> Files:
    """Write the pieces of a disk image (data, block maps and trailer), each as a file."""
    ways = [(0, None), (1, bytes), (0x80000004, _adc), (0x80000005, zlib.compress), (0x80000006, bz2.compress)]
    ways.append((0x80000008, lzma.compress))
    body, maps, piece = b"", [], 24 * 512
    half = len(disk) // 2 // piece * piece
    for low, high in ((0, half), (half, len(disk))):
        rows, first = [], low // 512
        for turn, at in enumerate(range(low, high, piece)):
            data = disk[at : min(at + piece, high)]
            kind, way = ways[0] if not any(data) else ways[1 + turn % (len(ways) - 1)]
            stored = way(data) if way else b""
            rows.append((kind, 0, at // 512 - first, len(data) // 512, len(body), len(stored)))
            body += stored
        rows.append((0xFFFFFFFF, 0, (high - low) // 512, 0, len(body), 0))
        head = struct.pack(">4sIQQQII24x", b"mish", 1, first, (high - low) // 512, 0, 1, 1)
        table = b"".join(struct.pack(">IIQQQQ", *row) for row in rows)
        maps.append(head + struct.pack(">II128x", 2, 32) + struct.pack(">I", len(rows)) + table)
    trailer = struct.pack(">4sIIIQQQQQII16x", b"koly", 4, 512, 1, 0, 0, len(body), 0, 0, 1, 1)
    trailer += struct.pack(">II128x", 2, 32) + struct.pack(">QQ120x", len(body), 0)
    trailer += struct.pack(">II128x", 2, 32) + struct.pack(">IQ12x", 1, len(disk) // 512)
    return {
        "body": bytearray(body),
        "map 0": bytearray(maps[0]),
        "map 1": bytearray(maps[1]),
        "koly": bytearray(trailer),
    }


def _adc(data: bytes) -> bytes:
    """Store bytes as Apple's data compression does where nothing repeats: up to 128 after a byte with their number."""
    pieces = (data[at : at + 128] for at in range(0, len(data), 128))
    return b"".join(bytes([0x80 | len(piece) - 1]) + piece for piece in pieces)


def _plist(files: Files) -> bytes:
    maps = [{"ID": str(turn), "Data": bytes(files[f"map {turn}"])} for turn in range(2) if f"map {turn}" in files]
    return plistlib.dumps({"resource-fork": {"blkx": maps}})


def _dmg(name: str, disk: bytes, *, trailer_first: bool = False) -> Base:
    files = _dmg_files(disk)
    shift = 512 if trailer_first else 0
    struct.pack_into(">QQ", files["koly"], 216, len(files["body"]) + shift, len(_plist(files)))
    struct.pack_into(">Q", files["koly"], 24, shift)

    def pack(changed: Files) -> Files:
        body, koly = changed.get("body", b""), changed.get("koly", b"")
        text = _plist(changed)
        return {"disk.img": bytearray(koly + body + text if trailer_first else body + text + koly)}

    parts = [part(records.TRAILER, 0, "koly")] * 6
    for turn in range(2):
        file = f"map {turn}"
        count = (len(files[file]) - 204) // 40
        parts += [part(records.BLOCK_MAP, 0, file)] * 3 + entries(records.PIECE, 204, count, file)
    return Base(name, {key: bytes(data) for key, data in files.items()}, tuple(parts), disk, pack=pack, peer="dmg")


def _bundle(name: str, disk: bytes, form: plistlib.PlistFormat = plistlib.FMT_XML) -> Base:
    band = 32768
    facts = {"band-size": band, "size": len(disk), "diskimage-bundle-type": "com.apple.diskimage.sparsebundle"}
    text = plistlib.dumps(facts, fmt=form)
    root = "disk.sparsebundle"
    files = {f"{root}/Info.plist": text, f"{root}/Info.bckup": text, f"{root}/token": b""}
    bands = {f"{root}/bands/{at // band:x}": disk[at : at + band] for at in range(0, len(disk), band)}
    files |= {key: data for key, data in bands.items() if any(data)}
    file = f"{root}/Info.plist"
    parts = [_text(file, text)] * 6 + [_text(f"{root}/Info.bckup", text)]
    if form == plistlib.FMT_BINARY:
        parts = [words("binary property list", 0, f"<{len(text) * 'B'}", file)] * 6
    parts += [Part("band", key, 0, len(data), ()) for key, data in bands.items() if any(data)]
    return Base(name, files, tuple(parts), disk, path=root)


def _folder(name: str, disk: bytes) -> Base:
    half = len(disk) // 8192 * 4096
    text = parallels_description([(0, half // 512, ["a.hds"]), (half // 512, len(disk) // 512, ["b.hds"])]).encode()
    files = {
        "disk.hdd/DiskDescriptor.xml": text,
        "disk.hdd/a.hds": parallels(disk[:half], 4096),
        "disk.hdd/b.hds": disk[half:],
    }
    parts = [_text("disk.hdd/DiskDescriptor.xml", text)] * 4
    parts += [
        part(records.PARALLELS_HEADER, 0, "disk.hdd/a.hds"),
        *entries(records.PARALLELS_ENTRY, 64, 9, "disk.hdd/a.hds"),
    ]
    parts.append(Part("piece", "disk.hdd/b.hds", 0, len(files["disk.hdd/b.hds"]), ()))
    return Base(name, files, tuple(parts), disk, path="disk.hdd")


QEMU: Final = {
    "qcow2": ("qcow2", "cluster_size=4096"), "vhdx": ("vhdx", ""), "vhd": ("vpc", "force_size=on"),
    "vhd-fixed": ("vpc", "subformat=fixed,force_size=on"), "vmdk": ("vmdk", ""),
    "vmdk-stream": ("vmdk", "subformat=streamOptimized"), "vmdk-split": ("vmdk", "subformat=twoGbMaxExtentSparse"),
    "vmdk-flat": ("vmdk", "subformat=monolithicFlat"), "vdi-qemu": ("vdi", ""),
}  # fmt: skip


def _foreign(disk: bytes, more: str = "") -> Iterator[Base]:
    """Write containers with other programs; yield none where they are missing."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        raw.write_bytes(disk)
        for name, (form, options) in QEMU.items() if shutil.which("qemu-img") else ():
            target = Path(folder, name)
            target.mkdir()
            command = ["qemu-img", "convert", "-f", "raw", "-O", form, *(["-o", options] if options else [])]
            subprocess.run([*command, raw, target / "disk.img"], check=True, capture_output=True)
            files = {path.name: path.read_bytes() for path in sorted(target.iterdir())}
            parts = [each for file, data in files.items() for each in _foreign_parts(form, file, data)]
            yield Base(name + more, files, tuple(parts), disk, peer="" if "fixed" in name else form)
        if shutil.which("ewfacquire"):
            command = ["ewfacquire", "-u", "-q", "-c", "fast", "-S", "1MiB", "-t", Path(folder, "disk"), raw]
            subprocess.run(command, check=True, capture_output=True)
            files = {path.name: path.read_bytes() for path in sorted(Path(folder).glob("disk.E*"))}
            parts = [each for file, data in files.items() for each in _sections(file, data)]
            yield Base(f"e01-ewfacquire{more}", files, tuple(parts), disk, path="disk.E01", mend=mend_witness)


def _foreign_parts(form: str, file: str, data: bytes) -> list[Part]:
    """Describe headers and tables of containers, found through their own pointers."""
    if data.startswith(b"# Disk DescriptorFile"):
        return [_text(file, data)] * 3
    if form == "qcow2":
        first = struct.unpack_from(">Q", data, 40)[0]
        second = struct.unpack_from(">Q", data, first)[0] & (2**56 - 512)
        parts = [part(records.QCOW_HEADER, 0, file)] * 3 + [words("qcow more", 48, ">QIIQQQQII", file)]
        return parts + [
            words("reference", at, ">Q", file) for table in (first, second) for at in range(table, table + 64, 8)
        ]
    if form == "vpc":
        parts = [part(records.VHD_FOOTER, len(data) - 512, file)]
        if data.startswith(b"conectix"):
            table = struct.unpack_from(">Q", data, 528)[0]
            parts += [part(records.VHD_FOOTER, 0, file), part(records.VHD_DYNAMIC_HEADER, 512, file)]
            parts += [words("reference", table + 4 * turn, ">I", file) for turn in range(3)]
        return parts
    if form == "vmdk" and data.startswith(b"KDMV"):
        at = 0 if struct.unpack_from("<Q", data, 56)[0] != 2**64 - 1 else len(data) - 1024
        table = struct.unpack_from("<Q", data, at + 56)[0] * 512
        second = struct.unpack_from("<I", data, table)[0] * 512
        parts = [part(records.VMDK_HEADER, each, file) for each in {0, at}] * 3
        parts += [
            words("reference", table, "<I", file),
            *(words("reference", second + 4 * turn, "<I", file) for turn in range(8)),
        ]
        descriptor, length = struct.unpack_from("<QQ", data, 28)
        return parts + (
            [
                Part(
                    "text",
                    file,
                    descriptor * 512,
                    length * 512,
                    (Number("number", file, descriptor * 512, length * 512, "text"),),
                )
            ]
            if descriptor
            else []
        )
    if form == "vdi":
        at = struct.unpack_from("<I", data, 340)[0]
        return [part(records.VDI_HEADER, 0, file), *entries(records.VDI_ENTRY, at, 2, file)]
    if form == "vhdx":
        found = [words("vhdx header", at, "<4sIQ16s16s16sHHIQ", file) for at in (64 << 10, 128 << 10)]
        for at in (192 << 10, 256 << 10):
            found.append(part(records.VHDX_REGIONS, at, file))
            found += entries(records.VHDX_REGION, at + 16, 2, file)
        at = data.find(b"metadata")
        found.append(part(records.VHDX_METADATA, at, file))
        found += entries(records.VHDX_METADATA_ENTRY, at + 32, 5, file)
        found.append(words("vhdx items", at + 65536, "<IIQQQII", file))
        return found
    return [Part("piece", file, 0, len(data), ())]


def known_of(base: Base, folder: Path) -> Known:
    """Read a sound disk."""
    write(base.pack({name: bytearray(data) for name, data in base.files.items()}), folder)
    with open_volumes(folder / base.path, make_request(ReadOptions(**base.options))) as image:
        facts = [layout.facts for layout in image.layouts]
        spaces = tuple((each.image_offset, each.image_offset + each.size_bytes) for each in facts)
        return Known(rows_of(image), tuple(sorted({each.name for each in facts} - {""})), spaces)


def write(files: Files, folder: Path) -> None:
    """Write files into a folder in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def bases() -> list[Base]:
    """Write all sound disks; each map comes three times, to balance the many containers."""
    return [*3 * map_bases(), *container_bases()]
