"""HFS+ volumes: scan and check of small images with every structure."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from fixtures.hfsplus.plan import File, Folder, Fork, Journal, Tree, VolumePlan, Xattr
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, base_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fixtures.hfsplus.expected import ExpectedLayout
    from layoutscope.findings import Finding
    from layoutscope.image import Source
    from layoutscope.partition import VolumeCandidate

_LINKS = (
    Folder("links", (File("one", links_to="i"), File("two", links_to="i"))),
    Folder("outer", (File("folder link", links_to="d"),)),
)
_INODES = (File("i", Fork(900)), Folder("d", (File("inside", Fork(3)),)))
_STREWN = (
    File("strewn", Fork(6000, pieces=11), Fork(3000, pieces=3)),
    File("tagged", Fork(10), xattrs=(Xattr("user.a", b"1"), Xattr("user.b", fork=Fork(6000, pieces=10)))),
)
_SMALL = {"block_size": 512, "total_blocks": 400, "extents_overflow": Tree(512), "attributes": Tree(1024)}

PLANS = {
    "everything": VolumePlan(
        case_sensitive=True, root=(*folders(2, 4, 600), *_LINKS, *_STREWN), inodes=_INODES,
        catalog=Tree(1024, spare_nodes=3, pieces=3, shuffled=0.4, fill=0.5), **_SMALL,
    ),
    "deep": VolumePlan(
        root=folders(3, 9, 100), catalog=Tree(512, spare_nodes=9, pieces=9, shuffled=1.0, fill=0.4), **_SMALL,
    ),
    "straddling": VolumePlan(
        root=(*folders(2, 9, 100), *_STREWN),
        catalog=Tree(2048, pieces=5, pieces_of_whole_nodes=False, shuffled=0.5), **_SMALL,
    ),
    "journal": VolumePlan(
        root=(*folders(2, 6, 100), Folder("new")), journal=Journal(size_bytes=16384, before=folders(2, 6, 100)),
        catalog=Tree(1024), is_unmounted=False, **_SMALL,
    ),
    "hot": VolumePlan(root=folders(3, 6, 100), hot_files=Tree(512), catalog=Tree(1024), **_SMALL),
}  # fmt: skip


def hfsplus_bases() -> tuple[Base, ...]:
    """Write the sound images."""
    return tuple(image_base(name, plan) for name, plan in PLANS.items())


def image_base(name: str, plan: VolumePlan) -> Base:
    """Write a plan, and locate the fields that steer a reader."""
    canvas, expected = render(plan)
    data = bytes(canvas.to_bytearray())
    ranges = [(region.image_offset, min(region.length_bytes, 4096)) for region in expected.regions]
    ranges += [(node.image_offset, node.size_bytes) for node in expected.nodes]
    kept = tuple((at, min(length, len(data) - at)) for at, length in ranges if at < len(data))
    return base_of(name, data, spots=tuple(_spots(data, expected)), ranges=kept)


def _spots(data: bytes, expected: ExpectedLayout) -> list[tuple[int, int]]:
    """List fields of the volume header, header records, descriptors, offset tables, keys and payloads."""
    header = expected.volume_offset + 1024
    spots = [(header + at, 4) for at in range(0, 112, 4)] * 2
    spots += [(header + at, width) for fork in range(5) for at, width in _fork(112 + 80 * fork)]
    for region in expected.regions:
        if region.type.startswith("journal"):
            spots += [(region.image_offset + at, 4) for at in range(0, 128, 4)]
            spots += [(region.image_offset + 512 + at, 4) for at in range(0, 128, 4)]
    for node in expected.nodes:
        if node.kind == "free":
            continue
        at = node.image_offset
        spots += [(at, 4), (at + 4, 4), (at + 8, 1), (at + 9, 1), (at + 10, 2)]
        if node.kind == "header":
            spots += [(at + 14 + place, width) for place, width in _HEADER_RECORD] * 4
            spots += [(at + 14 + 106 + 128, 8)]
            continue
        for rank, start in enumerate(node.record_offsets):
            spots += [
                (at + node.size_bytes - 2 * (rank + 1), 2),
                (at + start, 2),
                (at + start + 2, 4),
                (at + start + 6, 2),
            ]
            payload = at + start + 2 + int.from_bytes(data[at + start : at + start + 2], "big")
            spots += [(payload, 2), (payload, 4), (payload + 8, 4), (payload + 4, 4)]
            spots += [(payload + place, width) for place, width in (*_fork(88), *_fork(168))][:: 3 if rank % 4 else 1]
    return [(at, width) for at, width in spots if at + width <= len(data)]


def _fork(at: int) -> list[tuple[int, int]]:
    return [(at, 8), (at + 8, 4), (at + 12, 4), *((at + 16 + 4 * place, 4) for place in range(6))]


_HEADER_RECORD = (
    (0, 2), (2, 4), (6, 4), (10, 4), (14, 4), (18, 2), (20, 2), (22, 4), (26, 4), (36, 1), (37, 1), (38, 4),
)  # fmt: skip
"""TN1150, BTHeaderRec: offsets of its fields after the descriptor, and their widths."""


def run_hfsplus(path: Path, base: Base) -> int:  # noqa: ARG001
    """Check every image with a sweep, and scan every fourth one; return the worse exit code."""
    from layoutscope import scan
    from layoutscope.errors import ImageError
    from layoutscope.image import open_image
    from layoutscope.partition import choose, find_volumes
    from tests.hfsplus import check_volume

    with open_image(path) as source:
        try:
            wanted = choose(source, find_volumes(source))
        except ImageError:
            # If both headers are lost, only a sweep reads the rest.
            return 3 if check_volume(source, sweep=True) else 0
        found = [item for volume in wanted for item in _check(check_volume, source, volume)]
        checked = 3 if any(item.level != "info" for item in found) else 0
    if zlib.crc32(path.read_bytes()) % 4:
        return checked
    return max(checked, scan(path, drives=()).exit_code)


def _check(check: Callable[..., list[Finding]], source: Source, volume: VolumeCandidate) -> list[Finding]:
    return check(source, image_offset=volume.image_offset, sweep=True) if volume.kind == "hfsplus" else []
