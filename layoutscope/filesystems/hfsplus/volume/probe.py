"""How HFS+ and HFSX are told: by the volume header, by its copy, or inside a volume of classic HFS.

TN1150, "Volume Header" and "HFS Wrapper".
"""

from __future__ import annotations

from typing import Final

from layoutscope.filesystems.recognition import Content, MapRegion, parse_at
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import HFS_WRAPPER_VOLUME_START, MASTER_DIRECTORY_BLOCK, VOLUME_SIGNATURE

HEADER_OFFSET: Final = HFS_WRAPPER_VOLUME_START.header.offset
"""Where the volume header of HFS, HFS+ and HFSX stands, and how far from the end its copy starts."""


def probe(stretch: Window) -> Content | None:
    """Tell HFS+, HFSX, a wrapper with either in it, and classic HFS, which is only named."""
    signature = _hfs_signature(stretch, HEADER_OFFSET)
    if signature == "hfs":
        return _wrapper(stretch)
    if signature is not None:
        return Content("hfsplus", _hfs_label(signature), 0, stretch.size_bytes)
    return _by_alternate_header(stretch)


def _hfs_signature(stretch: Window, volume_offset: int) -> str | None:
    header = parse_at(stretch, VOLUME_SIGNATURE, volume_offset)
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
