"""Recognition of HFS+ and HFSX: by the volume header, by its copy, or inside a volume of classic HFS.

TN1150, "Volume Header" and "HFS Wrapper".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.content import (
    MAX_HITS,
    SECTOR_BYTES,
    Content,
    MapRegion,
    parse_at,
    sectors_with,
    stored_pieces,
)
from layoutscope.filesystems.hfsplus.volume import (
    CONFIRMING,
    MAX_BLOCK_BYTES,
    confirming,
    find_alternate,
    header_at,
    most_confirmed,
    read_header,
    start_by_copy,
)
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.structs import grammar, records
from layoutscope.structs.bulk import decode_columns

if TYPE_CHECKING:
    from layoutscope.structs.arrays import U8


WRAPPER_HEADER_OFFSET: Final = records.HFS_WRAPPER_VOLUME_START.header.offset
"""Offset of the volume header of HFS, HFS+ and HFSX, and distance of its copy from the end."""
_SIGNATURES: Final = grammar.HfsWrapper.Signature
_READ: Final = (_SIGNATURES.hfs_plus, _SIGNATURES.hfsx)
_NEAR_BYTES: Final = 1024**2
"""Distance up to which a header is searched for if the copy does not determine the start."""
_SIZES: Final = (records.VOLUME_HEADER.len_block, records.VOLUME_HEADER.num_blocks)


def _magic(signature: grammar.HfsWrapper.Signature) -> bytes:
    return int(signature).to_bytes(records.VOLUME_HEADER.version.offset, "big")


def probe(stretch: Window, *, thorough: bool = False) -> Content | None:
    """Recognise HFS+, HFSX, a wrapper that contains either, and classic HFS, which is not read."""
    signature = _hfs_signature(stretch, WRAPPER_HEADER_OFFSET)
    if signature == "hfs":
        return _wrapper(stretch)
    if signature is not None:
        return Content("hfsplus", _hfs_label(signature), 0, stretch.size_bytes)
    # Formatting for another file system leaves the end unchanged, so the copy there can outlive its volume.
    return _find_by_alternate_header(stretch) if thorough else None


def _hfs_signature(stretch: Window, volume_offset: int) -> str | None:
    header = parse_at(stretch, records.VOLUME_SIGNATURE, volume_offset)
    return None if header is None else str(header.signature.name)


def _hfs_label(signature: str) -> str:
    return "HFSX" if signature == "hfsx" else "HFS+"


def _find_by_alternate_header(stretch: Window) -> Content | None:
    """Find a volume by the copy before its end, if its header is lost or its start is further on in the stretch."""
    place = stretch.size_bytes - WRAPPER_HEADER_OFFSET
    signature = _hfs_signature(stretch, place) if place > WRAPPER_HEADER_OFFSET else None
    if signature in (None, "hfs"):
        return None
    try:
        copy = read_header(stretch, place, "alternate volume header")
    except FormatError:
        return _describe_located_volume(
            stretch, 0, place, str(signature), _report_lost_header(stretch, 0, place, is_start_known=False)
        )
    size = copy.num_blocks * copy.len_block
    spare = place + WRAPPER_HEADER_OFFSET - size
    start, has_header = start_by_copy(stretch, place, copy)
    if start is None:
        # The copy's block count may be wrong. Its trees may still be there, or another header's volume may end here.
        start = most_confirmed(stretch, range(0, min(_NEAR_BYTES, place), SECTOR_BYTES), copy)
        if start is not None:
            has_header = header_at(stretch, start) is not None
        elif (other := _find_by_near_header(stretch)) is not None:
            return other
        elif 0 <= spare < SECTOR_BYTES:
            start = spare  # a volume that fills its space has only one possible start
    # Unless the copy leaves more than a block before the volume, the volume is assumed to start with the stretch.
    at = start if start is not None else spare if spare >= copy.len_block else 0
    # A volume longer than the stretch cannot start with it, even if the partition map says so.
    sides = (f"{size:,} bytes, as its copy says", f"{stretch.size_bytes:,}") if spare < 0 else ("", "")
    findings = (
        () if has_header else _report_lost_header(stretch, at, place, is_start_known=start is not None, sides=sides)
    )
    return _describe_located_volume(stretch, at, place, str(signature), findings)


def _find_by_near_header(stretch: Window) -> Content | None:
    """Find a volume whose header is near the start of a stretch and whose end is the end of the stretch."""
    pieces = stored_pieces(stretch, 0, _NEAR_BYTES)
    found = (item for offset, data in pieces for item in find_in(stretch, data, offset) if not item.findings)
    return next((item for item in found if item.volume_offset + item.size_bytes == stretch.size_bytes), None)


def _describe_located_volume(
    stretch: Window, start: int, place: int, signature: str, findings: tuple[Finding, ...]
) -> Content:
    """Describe a volume that starts at a byte of a stretch and ends with its header's copy at a given offset."""
    size = place + WRAPPER_HEADER_OFFSET - start
    layers = (f"byte {stretch.origin + start}",) if start else ()
    return Content("hfsplus", _hfs_label(signature), start, size, layers, (), findings)


def _report_lost_header(
    stretch: Window, start: int, place: int, *, is_start_known: bool, sides: tuple[str, str] = ("", "")
) -> tuple[Finding, ...]:
    """Report a volume that is known only from the copy of its header."""
    at = stretch.origin + start
    message = f"no volume header; its copy stands at byte {stretch.origin + place:,}"
    lost = Finding("volume-header-lost", "error", "volume header", at + WRAPPER_HEADER_OFFSET, message)
    return (lost,) if is_start_known else (lost, _uncertain(at, *sides))


def _uncertain(image_offset: int, expected: str = "", found: str = "") -> Finding:
    message = f"addresses are uncertain: where the volume starts is inferred, and it lacks {CONFIRMING} there"
    return Finding("start-uncertain", "error", "volume", image_offset, message, expected, found)


def find_in(stretch: Window, data: U8, offset: int) -> list[Content]:
    """Find volumes by headers, copies of headers and wrappers in a piece of a stretch."""
    found: list[Content] = []
    wrappers = sectors_with(data, offset, 0, _magic(_SIGNATURES.hfs))
    headers = [place for item in _READ for place in sectors_with(data, offset, 0, _magic(item))]
    sizes = decode_columns(records.VOLUME_HEADER, data, np.array(headers, np.int64) - offset, _SIZES)
    block, count = sizes["len_block"].astype(np.int64), sizes["num_blocks"]
    is_sane = (count > 0) & (block >= SECTOR_BYTES) & (block <= MAX_BLOCK_BYTES) & (block & (block - 1) == 0)
    likely = [place for place, is_one in zip(headers, is_sane.tolist(), strict=True) if is_one]
    for place in sorted([*wrappers, *likely])[:MAX_HITS]:
        if not any(item.volume_offset <= place < item.volume_offset + item.size_bytes for item in found):
            found += _probe_header(stretch, place)
    return sorted(found, key=lambda content: bool(content.findings))


def _probe_header(stretch: Window, place: int) -> list[Content]:
    """Return the volume whose header, header copy or enclosing master directory block is at an offset."""
    start = place - WRAPPER_HEADER_OFFSET
    if _hfs_signature(stretch, place) == "hfs":
        wrapper = _wrapper(Window(stretch, start, stretch.size_bytes - start)) if start >= 0 else None
        if wrapper is None or wrapper.kind != "hfsplus" or wrapper.findings:
            return []
        return [wrapper._replace(volume_offset=start + wrapper.volume_offset)]
    try:
        header = read_header(stretch, place, "volume header")
    except FormatError:
        return []
    signature, size = header.signature.name, header.num_blocks * header.len_block
    end = find_alternate(Window(stretch, start, stretch.size_bytes - start), header)[0] if start >= 0 else None
    # A copy at the right distance confirms the start as reliably as the trees.
    if end is not None or (start >= 0 and confirming(stretch, [start], header)[0]):
        last = start + size - WRAPPER_HEADER_OFFSET if end is None else start + end
        return [_describe_located_volume(stretch, start, last, signature, ())]
    by_copy, has_header = start_by_copy(stretch, place, header)
    if by_copy is not None and confirming(stretch, [by_copy], header)[0]:
        findings = () if has_header else _report_lost_header(stretch, by_copy, place, is_start_known=True)
        return [_describe_located_volume(stretch, by_copy, place, signature, findings)]
    # A signature without a plausible volume size after it is a coincidence.
    if start < 0 or not isinstance(header.version, grammar.HfsplusVolume.Version) or start + size > stretch.size_bytes:
        return []
    return [
        _describe_located_volume(
            stretch, start, start + size - WRAPPER_HEADER_OFFSET, signature, (_uncertain(stretch.origin + start),)
        )
    ]


def _wrapper(stretch: Window) -> Content:
    """Look in a classic HFS volume for an embedded HFS+ volume (TN1150, HFS Wrapper)."""
    block = parse_at(stretch, records.MASTER_DIRECTORY_BLOCK, WRAPPER_HEADER_OFFSET)
    kinds = grammar.HfsWrapper.Signature
    if block is None or block.embedded_signature not in (kinds.hfs_plus, kinds.hfsx):
        return Content("hfs", "HFS", 0, stretch.size_bytes)
    # drEmbedExtent counts the wrapper's allocation blocks from its block 0. drAlBlSt gives the location of that block
    # in sectors of 512 bytes, whatever the device's sector size (TN1150, HFS Master Directory Block).
    start, size = block.ofs_embedded_volume, block.len_embedded_volume
    inside = Window(stretch, start, size) if start < stretch.size_bytes else Window(stretch, 0, 0)
    signature = _hfs_signature(inside, WRAPPER_HEADER_OFFSET)
    findings: tuple[Finding, ...] = ()
    if signature in (None, "hfs"):
        place = stretch.origin + start + WRAPPER_HEADER_OFFSET
        findings = (
            Finding("volume-header-lost", "error", "volume header", place, "no volume header in the HFS wrapper"),
        )
    length = records.MASTER_DIRECTORY_BLOCK.width
    return Content(
        "hfsplus",
        _hfs_label(signature or ""),
        start,
        min(size, max(0, stretch.size_bytes - start)),
        ("HFS wrapper",),
        (MapRegion("hfs-wrapper", stretch.origin + WRAPPER_HEADER_OFFSET, length, "master directory block"),),
        findings,
    )
