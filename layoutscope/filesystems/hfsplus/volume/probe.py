"""How HFS+ and HFSX are told: by the volume header, by its copy, or inside a volume of classic HFS.

TN1150, "Volume Header" and "HFS Wrapper".
"""

from __future__ import annotations

from typing import Final

from layoutscope.filesystems.recognition import Content, MapRegion, parse_at
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import HFS_WRAPPER_VOLUME_START, MASTER_DIRECTORY_BLOCK, VOLUME_HEADER, VOLUME_SIGNATURE

HEADER_OFFSET: Final = HFS_WRAPPER_VOLUME_START.header.offset
"""Where the volume header of HFS, HFS+ and HFSX stands, and how far from the end its copy starts."""
MOST_BLOCK_BYTES: Final = 1024**2
"""Of allocation blocks, beyond which a size is taken to be none."""


def probe(stretch: Window, *, thorough: bool = False) -> Content | None:
    """Tell HFS+, HFSX, a wrapper with either in it, and classic HFS, which is only named."""
    signature = _hfs_signature(stretch, HEADER_OFFSET)
    if signature == "hfs":
        return _wrapper(stretch)
    if signature is not None:
        return Content("hfsplus", _hfs_label(signature), 0, stretch.size_bytes)
    # Formatting for something else leaves the end as it was: there the copy outlives its volume.
    return _by_alternate_header(stretch) if thorough else None


def _hfs_signature(stretch: Window, volume_offset: int) -> str | None:
    header = parse_at(stretch, VOLUME_SIGNATURE, volume_offset)
    return None if header is None else str(header.signature.name)


def _hfs_label(signature: str) -> str:
    return "HFSX" if signature == "hfsx" else "HFS+"


def _by_alternate_header(stretch: Window) -> Content | None:
    """Find a volume by the copy before its end: one whose header is lost, or that begins further on in the stretch."""
    place = stretch.size_bytes - HEADER_OFFSET
    signature = _hfs_signature(stretch, place) if place > HEADER_OFFSET else None
    if signature in (None, "hfs"):
        return None
    start, findings = _start_by_copy(stretch, place), tuple[Finding, ...]()
    at = stretch.origin + start
    if _hfs_signature(stretch, start + HEADER_OFFSET) in (None, "hfs"):
        message = f"no volume header; its copy stands at byte {stretch.origin + place:,}"
        findings = (Finding("volume-header-lost", "error", "volume header", at + HEADER_OFFSET, message),)
    layers = (f"byte {at}",) if start else ()
    return Content(
        "hfsplus", _hfs_label(str(signature)), start, place + HEADER_OFFSET - start, layers, "", (), findings
    )


def _start_by_copy(stretch: Window, place: int) -> int:
    """Tell where the volume begins whose copy of the header stands at a place."""
    copy: grammar.HfsplusVolume.VolumeHeader | None = parse_at(stretch, VOLUME_HEADER, place)
    spare = 0 if copy is None else stretch.size_bytes - copy.num_blocks * copy.len_block
    if copy is None or not 0 < copy.len_block <= min(MOST_BLOCK_BYTES, spare):
        return 0
    # The partition ends less than a block behind the last whole one, so that the start is known to so many bytes. On a
    # disk whose map is lost there is more before it than that.
    starts = range(spare, spare - copy.len_block, -512)
    return next((at for at in starts if _hfs_signature(stretch, at + HEADER_OFFSET) not in (None, "hfs")), spare)


def _wrapper(stretch: Window) -> Content:
    """Look into a classic HFS volume for one of HFS+ that is embedded in it (TN1150, HFS Wrapper)."""
    block = parse_at(stretch, MASTER_DIRECTORY_BLOCK, HEADER_OFFSET)
    classic = Content("hfs", "HFS", 0, stretch.size_bytes)
    if block is None:
        return classic
    name = block.volume_name[: block.len_volume_name].decode("mac_roman", errors="replace")
    if block.embedded_signature not in (grammar.HfsWrapper.Signature.hfs_plus, grammar.HfsWrapper.Signature.hfsx):
        return classic._replace(name=name)
    # drEmbedExtent counts the wrapper's allocation blocks from its block 0, which drAlBlSt places in sectors of 512
    # bytes whatever the device's are (TN1150, HFS Master Directory Block).
    return _embedded(stretch, block.ofs_embedded_volume, block.len_embedded_volume, name)


def _embedded(stretch: Window, start: int, size: int, name: str) -> Content:
    inside = Window(stretch, start, size) if start < stretch.size_bytes else Window(stretch, 0, 0)
    signature = _hfs_signature(inside, HEADER_OFFSET)
    findings: tuple[Finding, ...] = ()
    if signature in (None, "hfs"):
        place = stretch.origin + start + HEADER_OFFSET
        findings = (
            Finding("volume-header-lost", "error", "volume header", place, "no volume header in the HFS wrapper"),
        )
    length = MASTER_DIRECTORY_BLOCK.width
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
