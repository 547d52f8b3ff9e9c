"""Fusion sets: a container on a solid-state and a hard disk, of which one image may be missing.

Apple File System Reference, Fusion. The main device holds the checkpoints; the second one holds a copy of the
superblock and data, addressed with a mark. The middle tree maps what of it is cached on the main device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import Container, Half, find_superblock
from layoutscope.filesystems.apfs.container.regions import Region

if TYPE_CHECKING:
    from layoutscope.findings import FindingLog
    from layoutscope.ondisk.grammar import ApfsContainer


def main_first(first: Half, second: Half | None, log: FindingLog) -> tuple[Half, Half | None]:
    """Put the main device of a set first, whichever image was named first.

    Parameters
    ----------
    first, second : (Source, int)
        The images and where the container starts in them; the second may be missing.
    log : FindingLog
        Is told what is wrong with the superblocks.

    Raises
    ------
    FormatError
        If the images are not the two halves of one set.
    """
    if second is None:
        return first, None
    one, two = (find_superblock(*place, log) for place in (first, second))
    if not one.is_fusion or _set_of(one) != _set_of(two) or one.is_fusion_main == two.is_fusion_main:
        raise FormatError(
            "the two images are not the halves of one Fusion set",
            structure="container superblock",
            image_offset=first[1],
        )
    return (first, second) if one.is_fusion_main else (second, first)


def _set_of(superblock: ApfsContainer.NxSuperblock) -> bytes:
    """Return what the identifiers of both devices share."""
    *shared, last = bytes(superblock.fusion_uuid)
    # One bit tells the devices apart.
    return bytes([*shared, last & ~1])


def report_missing(container: Container) -> None:
    """Say that the second device is missing."""
    if container.superblock.is_fusion and len(container.blocks.sources) < 2:
        message = "the second device's image was not given; what lies on it is not read"
        container.log.at("container superblock", 0).add("fusion-half", "error", message)


def second_regions(container: Container) -> list[Region]:
    """Return what lies at a fixed place on the second device."""
    if not container.superblock.is_fusion:
        return []
    return [Region("container-superblock", "copy on the second device", container.blocks.tier2_mark)]
