"""Partition maps: GPT, MBR, APM and the HFS wrapper, with corrected GPT checksums."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from fixtures.corestorage import PhysicalVolumePlan, physical_volume
from fixtures.hfsplus.plan import Partitioning, Tree, VolumePlan, Wrapper
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, Change, base_of, changed_pages

if TYPE_CHECKING:
    from pathlib import Path

_MAP_BYTES = 40 * 512
_SMALL = {
    "block_size": 512, "total_blocks": 300, "root": folders(1, 3, 100), "attributes": None,
    "catalog": Tree(512), "extents_overflow": Tree(512),
}  # fmt: skip
PLANS = {
    "gpt": VolumePlan(partitioning=Partitioning("gpt"), **_SMALL),
    "mbr": VolumePlan(partitioning=Partitioning("mbr", start_bytes=63 * 512), **_SMALL),
    "apm": VolumePlan(partitioning=Partitioning("apm"), **_SMALL),
    "apm-2048": VolumePlan(partitioning=Partitioning("apm", sector_size=2048), **_SMALL),
    "wrapped": VolumePlan(wrapper=Wrapper(512, 20, 10, 3), **_SMALL),
}


def partitions_bases() -> tuple[Base, ...]:
    """Write the sound images."""
    plain = tuple(_base(name, bytes(render(plan)[0].to_bytearray())) for name, plan in PLANS.items())
    return (*plain, _with_core_storage())


def _with_core_storage() -> Base:
    """Write a disk with a Core Storage partition, which is only named; its header and labels are mutated."""
    disk = bytearray(render(PLANS["mbr"])[0].to_bytearray())
    disk += bytes(-len(disk) % 4096)
    start, volume = len(disk), physical_volume(PhysicalVolumePlan(has_bitmap=True), 1 << 18)
    entry = bytes((0, 0, 2, 0, 0xAC, 0, 2, 0)) + (start // 512).to_bytes(4, "little")
    disk[462:478] = entry + (len(volume) // 512).to_bytes(4, "little")
    disk += volume
    used = [at for at in range(start, len(disk) - 8, 4) if any(disk[at - at % 64 :][:64])]
    spots = tuple((at, width) for at in used for width in (4, 8))
    ranges = tuple((at, 512) for at in range(start, len(disk), 512) if any(disk[at : at + 512]))
    return base_of("mbr-corestorage", bytes(disk), spots=spots, ranges=ranges)


def _base(name: str, data: bytes) -> Base:
    head, tail = min(_MAP_BYTES, len(data)), max(0, len(data) - _MAP_BYTES)
    used = [at for at in (*range(0, head, 4), *range(tail, len(data) - 4, 4)) if any(data[at - at % 128 :][:128])]
    ranges = tuple((at, 512) for at in range(0, head, 512)) + tuple((at, 512) for at in range(tail, len(data), 512))
    repair = _repaired if name == "gpt" else None
    return base_of(name, data, spots=tuple((at, 4) for at in used), ranges=ranges, repair=repair)


def _repaired(base: Base, changes: tuple[Change, ...]) -> list[Change]:
    """Correct the checksums of both GPT headers (UEFI: entries at byte 88, header at byte 16)."""
    data = bytearray(base.whole())
    for page, content in changed_pages(base, changes).items():
        data[page * 4096 : (page + 1) * 4096] = content[: len(data) - page * 4096]
    repaired = []
    for at in (512, base.size_bytes - 512):
        header = data[at : at + 92]
        if header[:8] != b"EFI PART":
            continue
        first = 512 * int.from_bytes(header[72:80], "little")
        length = int.from_bytes(header[80:84], "little") * int.from_bytes(header[84:88], "little")
        header[88:92] = zlib.crc32(data[first : first + min(length, 1 << 20)]).to_bytes(4, "little")
        header[16:20] = bytes(4)
        header[16:20] = zlib.crc32(header).to_bytes(4, "little")
        repaired += [Change(at + 16, 4, bytes(header[16:20])), Change(at + 88, 4, bytes(header[88:92]))]
    return repaired


def run_partitions(path: Path, base: Base) -> int:  # noqa: ARG001
    """Find and choose volumes, and scan them."""
    from layoutscope import scan

    return scan(path, drives=()).exit_code
