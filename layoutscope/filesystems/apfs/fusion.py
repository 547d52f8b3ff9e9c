"""Fusion sets: a container on a solid-state and a hard disk, of which one image may be missing.

Apple File System Reference, Fusion. The main device holds the checkpoints; the second one holds a copy of the
superblock and data, addressed with a mark. The middle tree maps what of it is cached on the main device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.container import Container, find_superblock, uuid_text
from layoutscope.filesystems.apfs.facts import container_features
from layoutscope.filesystems.apfs.regions import Region, regions_table
from layoutscope.filesystems.apfs.stale import with_stale
from layoutscope.filesystems.apfs.sweep import sweep
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.tables import VolumeFacts, VolumeLayout, build_table, findings_table

if TYPE_CHECKING:
    from layoutscope.image.source import Source

Place = tuple["Source", int]


def main_first(first: Place, second: Place | None, findings: list[Finding]) -> tuple[Place, Place | None]:
    """Put the main device of a set first, whichever image was named first.

    Parameters
    ----------
    first, second : (Source, int)
        The images and where the container starts in them; the second may be missing.
    findings : list of Finding
        Collects what is wrong with the superblocks.

    Raises
    ------
    FormatError
        If the images are not the two halves of one set.
    """
    if second is None:
        return first, None
    one, two = (find_superblock(*place, findings) for place in (first, second))
    if not one.is_fusion or _set_of(one) != _set_of(two) or one.is_fusion_main == two.is_fusion_main:
        raise FormatError(
            "the two images are not the halves of one Fusion set",
            structure="container superblock",
            image_offset=first[1],
        )
    return (first, second) if one.is_fusion_main else (second, first)


def _set_of(superblock: Any) -> bytes:
    """Return what the identifiers of both devices share."""
    # One bit tells the devices apart.
    return bytes(superblock.fusion_uuid)[1:]


def report_missing(container: Container, findings: list[Finding]) -> None:
    """Say that the second device is missing."""
    if container.superblock.is_fusion and len(container.blocks.sources) < 2:
        message = "the second device's image was not given; what lies on it is not read"
        findings.append(Finding("fusion-half", "warning", "container superblock", container.blocks.at(0), message))


def second_regions(container: Container) -> list[Region]:
    """Return what lies at a fixed place on the second device."""
    if not container.superblock.is_fusion:
        return []
    return [Region("container-superblock", "copy on the second device", container.blocks.tier2_mark)]


def second_half(
    source: Source, image_offset: int, stack: tuple[str, ...], findings: list[Finding], *, sweeps: bool = False
) -> VolumeLayout | None:
    """Make a layout of what can be told from the second device alone; None if the image is no such device.

    That is what its copy of the superblock says, and, if it is swept, the nodes that lie on it.

    Parameters
    ----------
    source : Source
        The image.
    image_offset : int
        Where the container starts, in bytes.
    stack : tuple of str
        Layers around the container.
    findings : list of Finding
        What was already found.
    sweeps : bool
        Whether every block is looked at. Which of the nodes are current, only the main device knows.
    """
    try:
        superblock = find_superblock(source, image_offset, findings)
    except FormatError:
        return None
    if not superblock.is_fusion or superblock.is_fusion_main:
        return None
    message = "this is the second device of a Fusion set; its main device, which holds all checkpoints, was not given"
    findings.append(Finding("fusion-half", "error", "container superblock", image_offset, message))
    size = source.size_bytes - image_offset
    blocks = Blocks((Window(source, image_offset, size),), (image_offset,), superblock.block_size)
    empty = {name: build_table(name, {}) for name in ("nodes", "node_fragments", "extents", "entries", "free")}
    own = regions_table([Region("container-superblock", "copy in block 0", 0)], blocks, None)
    facts = _half_facts(superblock, image_offset, size, stack)
    layout = VolumeLayout(facts=facts, regions=own, findings=findings_table(findings), **empty)
    return with_stale(blocks, sweep(blocks), layout, [])[0] if sweeps else layout


def _half_facts(superblock: Any, image_offset: int, size_bytes: int, stack: tuple[str, ...]) -> VolumeFacts:
    """Describe the second device by its copy of the superblock."""
    return VolumeFacts(
        filesystem="apfs",
        variant="APFS container",
        volume=None,
        name="",
        uuid=uuid_text(bytes(superblock.uuid)),
        stack=stack,
        image_offset=image_offset,
        size_bytes=size_bytes,
        block_size_bytes=superblock.block_size,
        case_sensitive=False,
        stamp=superblock.hdr.xid,
        num_files=0,
        num_directories=0,
        features=container_features(superblock),
        details={
            "fusion device": "second",
            "fusion set": uuid_text(bytes(superblock.fusion_uuid)),
            "volumes": sum(bool(oid) for oid in superblock.fs_oid),
            "most volumes": superblock.max_file_systems,
            "blocks of the main device": superblock.block_count,
            "next oid": superblock.next_oid,
        },
    )
