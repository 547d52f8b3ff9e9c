"""What lies in a stretch of bytes: HFS+, APFS, the classic wrapper around HFS+, or something that is only named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from layoutscope.errors import FormatError, UnreadError
from layoutscope.findings import Finding, from_error
from layoutscope.image.source import Window
from layoutscope.ondisk import bulk, grammar
from layoutscope.partition.corestorage import read_physical_volume
from layoutscope.partition.tables import MapRegion

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.image.source import Source

HEADER_OFFSET: Final = bulk.offset("hfs_wrapper.volume_start", "header")
"""Where the volume header of HFS, HFS+ and HFSX stands, and how far from the end its copy starts."""


class Content(NamedTuple):
    """What was found: kind, label, where it starts in the stretch, its size, what it is in, and what else is known."""

    kind: str
    label: str
    volume_offset: int
    size_bytes: int
    layers: tuple[str, ...] = ()
    name: str = ""
    regions: tuple[MapRegion, ...] = ()
    findings: tuple[Finding, ...] = ()
    about: str = ""


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
    content = _hfs_or_apfs(stretch) or _core_storage(stretch) or _foreign(stretch) or _unknown(stretch)
    return content._replace(findings=_unread_start(stretch) + content.findings)


def _unread_start(stretch: Window) -> tuple[Finding, ...]:
    """Report that the sectors were never read by which most contents are told."""
    try:
        stretch.read(0, min(2 * HEADER_OFFSET, stretch.size_bytes))
    except UnreadError as error:
        return (from_error(error, code="unread-area"),)
    return ()


def _unknown(stretch: Window) -> Content:
    return Content("unknown", "unknown", 0, stretch.size_bytes)


def _hfs_or_apfs(stretch: Window) -> Content | None:
    if _parse(stretch, grammar.Foreign.ApfsContainer, "foreign.apfs_container", 0) is not None:
        return Content("apfs", "APFS", 0, stretch.size_bytes)
    signature = _hfs_signature(stretch, HEADER_OFFSET)
    if signature == "hfs":
        return _wrapper(stretch)
    if signature is not None:
        return Content("hfsplus", _hfs_label(signature), 0, stretch.size_bytes)
    return _by_alternate_header(stretch)


def _hfs_signature(stretch: Window, volume_offset: int) -> str | None:
    header = _parse(stretch, grammar.HfsWrapper.VolumeSignature, "hfs_wrapper.volume_signature", volume_offset)
    return None if header is None else str(header.signature.name)


def _hfs_label(signature: str) -> str:
    return "HFSX" if signature == "hfsx" else "HFS+"


def _by_alternate_header(stretch: Window) -> Content | None:
    """Find a volume whose header is lost by the copy before its end."""
    place = stretch.size_bytes - HEADER_OFFSET
    signature = _hfs_signature(stretch, place) if place > HEADER_OFFSET else None
    if signature in (None, "hfs"):
        return None
    finding = Finding(
        "volume-header-lost",
        "error",
        "volume header",
        stretch.origin + HEADER_OFFSET,
        f"no volume header; its copy stands at byte {stretch.origin + place:,}",
    )
    return Content("hfsplus", _hfs_label(str(signature)), 0, stretch.size_bytes, findings=(finding,))


def _wrapper(stretch: Window) -> Content:
    """Look into a classic HFS volume for one of HFS+ that is embedded in it (TN1150, HFS Wrapper)."""
    block = _parse(
        stretch, grammar.HfsWrapper.MasterDirectoryBlock, "hfs_wrapper.master_directory_block", HEADER_OFFSET
    )
    classic = Content("hfs", "HFS", 0, stretch.size_bytes)
    if block is None:
        return classic
    name = block.volume_name[: block.len_volume_name].decode("mac_roman", errors="replace")
    if block.embedded_signature not in (grammar.HfsWrapper.Signature.hfs_plus, grammar.HfsWrapper.Signature.hfsx):
        return classic._replace(name=name)
    return _embedded(stretch, block.embedded_volume_offset, block.embedded_size_bytes, name)


def _embedded(stretch: Window, start: int, size: int, name: str) -> Content:
    inside = Window(stretch, start, size) if start < stretch.size_bytes else Window(stretch, 0, 0)
    signature = _hfs_signature(inside, HEADER_OFFSET)
    findings: tuple[Finding, ...] = ()
    if signature in (None, "hfs"):
        place = stretch.origin + start + HEADER_OFFSET
        findings = (
            Finding("volume-header-lost", "error", "volume header", place, "no volume header in the HFS wrapper"),
        )
    length = bulk.size("hfs_wrapper.master_directory_block")
    return Content(
        "hfsplus",
        _hfs_label(signature or ""),
        start,
        min(size, max(0, stretch.size_bytes - start)),
        ("HFS wrapper",),
        name,
        (MapRegion("hfs-wrapper", stretch.origin + HEADER_OFFSET, length, "master directory block"),),
        findings,
    )


def _parse(stretch: Window, cls: type[Any], type_name: str, volume_offset: int) -> Any | None:
    """Parse a structure if it is there."""
    length = bulk.size(type_name)
    if not 0 <= volume_offset <= stretch.size_bytes - length:
        return None
    try:
        data = stretch.read(volume_offset, length)
        return grammar.parse(cls, data, structure=type_name, image_offset=stretch.origin + volume_offset)
    except FormatError:
        return None


def _core_storage(stretch: Window) -> Content | None:
    header = _parse(stretch, grammar.CoreStorage.PhysicalVolumeHeader, "core_storage.physical_volume_header", 0)
    if header is None:
        return None
    found = read_physical_volume(stretch, header)
    kind = "filevault" if found.is_encrypted else "corestorage"
    return Content(kind, found.label, 0, stretch.size_bytes, about=found.about)


def _foreign(stretch: Window) -> Content | None:
    for candidate in _foreign_types():
        found = _parse(stretch, candidate.cls, f"foreign.{candidate.type_id}", candidate.structure_offset)
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
