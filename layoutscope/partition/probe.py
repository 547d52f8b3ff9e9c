"""What lies in a stretch of bytes: a file system that is read, or something that is only named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from layoutscope.errors import UnreadError
from layoutscope.filesystems.recognition import Content, parse_at
from layoutscope.filesystems.registry import filesystems
from layoutscope.findings import from_error
from layoutscope.image.source import Window
from layoutscope.ondisk import bulk, grammar
from layoutscope.partition.corestorage import read_physical_volume

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.findings import Finding
    from layoutscope.image.source import Source

START_BYTES: Final = 2048
"""The sectors by which most contents are told."""


class _Foreign(NamedTuple):
    """How a file system is told that is not read: a grammar type, where it stands, and the kind and label it gives."""

    cls: type[Any]
    type_id: str
    place: str
    name: Callable[[Any], tuple[str, str] | None]

    @property
    def structure_offset(self) -> int:
        start, _, field = self.place.partition(".")
        return bulk.offset(f"foreign.{start}", field) if field else 0


def probe(source: Source, image_offset: int, size_bytes: int) -> Content:
    """Tell by its content what lies at a place.

    Parameters
    ----------
    source : Source
        The image.
    image_offset, size_bytes : int
        The stretch: a partition, or the whole image.

    Returns
    -------
    Content
        Of kind ``unknown`` if nothing is recognised.
    """
    stretch = Window(source, image_offset, size_bytes)
    content = _readable(stretch) or _core_storage(stretch) or _foreign(stretch) or _unknown(stretch)
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


def _readable(stretch: Window) -> Content | None:
    """Ask every file system that is read."""
    return next(filter(None, (item.probe(stretch) for item in filesystems())), None)


def _core_storage(stretch: Window) -> Content | None:
    header = parse_at(stretch, grammar.CoreStorage.PhysicalVolumeHeader, "core_storage.physical_volume_header", 0)
    if header is None:
        return None
    found = read_physical_volume(stretch, header)
    kind = "filevault" if found.is_encrypted else "corestorage"
    return Content(kind, found.label, 0, stretch.size_bytes, about=found.about)


def _foreign(stretch: Window) -> Content | None:
    for candidate in _foreign_types():
        found = parse_at(stretch, candidate.cls, f"foreign.{candidate.type_id}", candidate.structure_offset)
        named = None if found is None else candidate.name(found)
        if named is not None:
            return Content(named[0], named[1], 0, stretch.size_bytes)
    return None


def _foreign_types() -> tuple[_Foreign, ...]:
    foreign = grammar.Foreign
    return (
        _Foreign(foreign.LuksHeader, "luks_header", "", lambda _: ("luks", "LUKS")),
        _Foreign(foreign.XfsSuperblock, "xfs_superblock", "", lambda _: ("xfs", "XFS")),
        _Foreign(foreign.SquashfsSuperblock, "squashfs_superblock", "", lambda _: ("squashfs", "squashfs")),
        _Foreign(foreign.LvmLabel, "lvm_label", "lvm_start.label", lambda _: ("lvm", "Linux LVM")),
        _Foreign(foreign.ExtSuperblock, "ext_superblock", "ext_start.superblock", _ext),
        _Foreign(foreign.BootSector, "boot_sector", "", _boot_sector),
        _Foreign(foreign.BtrfsSuperblock, "btrfs_superblock", "btrfs_start.superblock", lambda _: ("btrfs", "btrfs")),
        _Foreign(
            foreign.Iso9660Descriptor,
            "iso9660_descriptor",
            "iso9660_start.descriptor",
            lambda _: ("iso9660", "ISO 9660"),
        ),
    )


def _ext(superblock: grammar.Foreign.ExtSuperblock) -> tuple[str, str]:
    if superblock.has_extents:
        return "ext4", "ext4"
    return ("ext3", "ext3") if superblock.has_journal else ("ext2", "ext2")


_OEM_NAMES: Final = {b"NTFS": "NTFS", b"EXFAT": "exFAT", b"-FVE-FS-": "BitLocker", b"ReFS": "ReFS"}


def _boot_sector(sector: grammar.Foreign.BootSector) -> tuple[str, str] | None:
    """Name what the boot sector says; a master boot record says nothing here."""
    name = _OEM_NAMES.get(sector.oem_name.rstrip(b" \0"))
    if name is None and sector.fat32_type.startswith(b"FAT32"):
        name = "FAT32"
    if name is None and sector.fat_type.startswith(b"FAT"):
        name = sector.fat_type.rstrip(b" \0").decode("ascii", errors="replace")
    return None if name is None else (name.lower(), name)
