"""What lies in a stretch of bytes: a file system that is read, or something that is only named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from layoutscope.errors import UnreadError
from layoutscope.filesystems.recognition import Content, parse_at
from layoutscope.filesystems.registry import filesystems
from layoutscope.findings import from_error
from layoutscope.image.source import Window
from layoutscope.ondisk import grammar, records
from layoutscope.partition.corestorage import read_physical_volume

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.findings import Finding
    from layoutscope.image.source import Source
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import RecordType

CORE_STORAGE: Final = "CoreStorage"
FILEVAULT: Final = "FileVault 2 on CoreStorage"
"""The layers that a logical volume lies in."""

START_BYTES: Final = 2048
"""The sectors by which most contents are told."""


class _Foreign(NamedTuple):
    """How a file system is told that is not read: its structure, where that stands, and the kind and label it gives."""

    record_type: RecordType
    volume_offset: int
    name: Callable[[Any], tuple[str, str] | None]


def recognise(
    source: Source, image_offset: int, size_bytes: int, decoder: Decoder, *, thorough: bool = True
) -> Content:
    """Tell by its content what lies at a place."""
    stretch = Window(source, image_offset, size_bytes)
    content = _readable(stretch) or _core_storage(stretch, decoder) or _foreign(stretch)
    if content is not None and not content.findings:
        return content  # whatever lies around what tells it is needed by nobody
    if content is None and thorough:
        content = _readable(stretch, thorough=True) or _core_storage(stretch, decoder, is_lost=True)
    content = content or _unknown(stretch)
    return content._replace(findings=_unread_start(stretch) + content.findings)


def _unread_start(stretch: Window) -> tuple[Finding, ...]:
    """Report that the sectors were never read by which most contents are told."""
    try:
        stretch.read(0, min(START_BYTES, stretch.size_bytes))
    except UnreadError as error:
        return (from_error(error, code="unread-area"),)
    return ()


def _unknown(stretch: Window) -> Content:
    return Content("unknown", "unknown", 0, stretch.size_bytes)


def _readable(stretch: Window, *, thorough: bool = False) -> Content | None:
    """Ask every file system that is read."""
    return next(filter(None, (item.probe(stretch, thorough=thorough) for item in filesystems())), None)


def _core_storage(stretch: Window, decoder: Decoder, *, is_lost: bool = False) -> Content | None:
    """Find the volume in a physical volume of CoreStorage, which lies there as in a partition; or name what is there.

    What is encrypted looks like nothing; where it was unlocked, the source gives it in the clear.
    """
    found = read_physical_volume(stretch, decoder, is_lost=is_lost)
    if found is None:
        return None
    placed = [(item, item.volume_offset) for item in found.logical_volumes if item.volume_offset is not None]
    for item, offset in placed:
        inside = Window(stretch, offset, item.size_bytes)
        content = _readable(inside) or _readable(inside, thorough=True)
        if content is not None:
            around = FILEVAULT if item.is_encrypted else CORE_STORAGE
            layers = (around, f"logical volume {item.name!r:.200}", *content.layers)
            return content._replace(
                volume_offset=offset + content.volume_offset,
                layers=layers,
                name=content.name or item.name,
                findings=(*found.findings, *content.findings),
            )
    kind = "filevault" if found.is_encrypted else "corestorage"
    return Content(kind, found.label, 0, stretch.size_bytes, about=found.about, findings=found.findings)


def _foreign(stretch: Window) -> Content | None:
    for candidate in _FOREIGN:
        found = parse_at(stretch, candidate.record_type, candidate.volume_offset)
        named = None if found is None else candidate.name(found)
        if named is not None:
            return Content(named[0], named[1], 0, stretch.size_bytes)
    return None


def _ext(superblock: grammar.Foreign.ExtSuperblock) -> tuple[str, str]:
    if superblock.has_extents:
        return "ext4", "ext4"
    return ("ext3", "ext3") if superblock.has_journal else ("ext2", "ext2")


_OEM_NAMES: Final = {b"NTFS": "NTFS", b"EXFAT": "exFAT", b"-FVE-FS-": "BitLocker", b"ReFS": "ReFS"}


def _boot_sector(sector: grammar.Foreign.BootSector) -> tuple[str, str] | None:
    """Name what the boot sector says; a master boot record says nothing here."""
    # FAT has the name of what formatted it there (MSDOS5.0), and its type in a text further on, which stands later in
    # FAT32, whose parameters are more.
    name = _OEM_NAMES.get(sector.oem_name.rstrip(b" \0"))
    if name is None and sector.fat32_type.startswith(b"FAT32"):
        name = "FAT32"
    if name is None and sector.fat_type.startswith(b"FAT"):
        name = sector.fat_type.rstrip(b" \0").decode("ascii", errors="replace")
    return None if name is None else (name.lower(), name)


_FOREIGN: Final = (
    _Foreign(records.LUKS_HEADER, 0, lambda _: ("luks", "LUKS")),
    _Foreign(records.XFS_SUPERBLOCK, 0, lambda _: ("xfs", "XFS")),
    _Foreign(records.SQUASHFS_SUPERBLOCK, 0, lambda _: ("squashfs", "squashfs")),
    _Foreign(records.LVM_LABEL, records.LVM_START.label.offset, lambda _: ("lvm", "Linux LVM")),
    # ext leaves the first 1,024 bytes alone: a boot sector of what was there before may have survived.
    _Foreign(records.EXT_SUPERBLOCK, records.EXT_START.superblock.offset, _ext),
    _Foreign(records.BOOT_SECTOR, 0, _boot_sector),
    _Foreign(records.BTRFS_SUPERBLOCK, records.BTRFS_START.superblock.offset, lambda _: ("btrfs", "btrfs")),
    _Foreign(records.ISO9660_DESCRIPTOR, records.ISO9660_START.descriptor.offset, lambda _: ("iso9660", "ISO 9660")),
)
