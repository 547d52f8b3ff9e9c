"""How HFS+ and HFSX are told: by the volume header, by its copy, or inside a volume of classic HFS.

TN1150, "Volume Header" and "HFS Wrapper".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.volume import END_BYTES, HEADER_OFFSET, find_alternate, read_header
from layoutscope.filesystems.recognition import MAX_HITS, SECTOR_BYTES, Content, MapRegion, parse_at, sectors_with
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.structs import grammar
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import (
    HEADER_NODE,
    HFS_WRAPPER_VOLUME_START,
    JOURNAL_INFO_BLOCK,
    MASTER_DIRECTORY_BLOCK,
    VOLUME_HEADER,
    VOLUME_SIGNATURE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from layoutscope.image.source import Source
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.grammar import HfsplusVolume


MAX_BLOCK_BYTES: Final = 1024**2
"""Of allocation blocks; a larger size is none of HFS+."""
_LONGEST_KEY: Final = grammar.HfsplusBtree.KeyLengthLimit
TREES: Final = {
    "catalog": int(_LONGEST_KEY.catalog),
    "extents": int(_LONGEST_KEY.extents_overflow),
    "attributes": int(_LONGEST_KEY.attributes),
}
"""Trees by the length of their longest key: with small blocks, a shifted start would meet the header of another one."""
NUM_HEADER_RECORDS: Final = 3
"""Header, user data and map (TN1150, Header Nodes)."""
CONFIRMING: Final = "the header nodes of its trees"

_KIND: Final = HEADER_NODE.descriptor
_LIMITS: Final = grammar.HfsplusBtree.NodeSizeLimit


def starts_by_copy(place: int, copy: HfsplusVolume.VolumeHeader) -> range:
    """List where a volume may start whose copy of the header is at a place, the likeliest first."""
    if not SECTOR_BYTES <= copy.len_block <= MAX_BLOCK_BYTES:
        return range(0)
    spare = place + END_BYTES - copy.num_blocks * copy.len_block
    first = max(spare - copy.len_block + SECTOR_BYTES, spare % SECTOR_BYTES)
    return range(spare, first - 1, -SECTOR_BYTES)


def start_by_copy(source: Source, place: int, copy: HfsplusVolume.VolumeHeader) -> tuple[int | None, bool]:
    """Tell where the volume starts whose copy of the header is at a place, and whether its header is there.

    None if nothing confirms any of the sectors where it may start.
    """
    starts = starts_by_copy(place, copy)
    for start in starts:
        header = header_at(source, start)
        if header is not None and _has_same_blocks(header, copy):
            return start, True
    votes = confirming(source, starts, copy)
    best = int(votes.argmax()) if len(votes) else 0
    if len(votes) and votes[best]:
        return starts[best], False
    # A volume that fills what it is in has one place only.
    return (starts[0] if len(starts) == 1 else None), False


def header_at(source: Source, start: int) -> HfsplusVolume.VolumeHeader | None:
    """Return the header of a volume that would start at a byte; None if there is none."""
    try:
        return read_header(source, start + HEADER_OFFSET, "volume header")
    except FormatError:
        return None


def _has_same_blocks(first: HfsplusVolume.VolumeHeader, second: HfsplusVolume.VolumeHeader) -> bool:
    return bool(first.len_block == second.len_block and first.num_blocks == second.num_blocks)


def confirming(
    source: Source,
    starts: Sequence[int],  # assumed starts, a sector apart, in bytes
    header: HfsplusVolume.VolumeHeader,
) -> I64:
    """Count, for each assumed start, the structures that are where a header has them."""
    votes = np.zeros(len(starts), np.int64)
    for tree, longest_key in TREES.items():
        fork = getattr(header, f"{tree}_file")
        if fork.num_blocks:
            is_header = partial(_is_header_node, longest_key=longest_key)
            votes += _are(is_header, source, starts, fork.extents[0].start_block * header.len_block)
    if header.is_journaled:
        votes += _are(_is_journal_info, source, starts, header.journal_info_block * header.len_block)
    return votes


def _are(is_one: Callable[[U8, I64], Mask], source: Source, starts: Sequence[int], distance: int) -> Mask:
    """Say for each assumed start whether a structure is at a distance from it."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    low, high = min(starts) + distance, max(starts) + distance
    found = np.zeros((high - low) // SECTOR_BYTES + 1, np.bool_)
    length = min(high + SECTOR_BYTES, source.size_bytes) - low
    try:
        data = np.frombuffer(source.read(low, max(length, 0)), np.uint8)
    except FormatError:
        data = np.empty(0, np.uint8)
    places = np.arange(len(data) // SECTOR_BYTES, dtype=np.int64) * SECTOR_BYTES
    if len(places):
        found[: len(places)] = is_one(data, places)
    result: Mask = found if starts[0] == min(starts) else found[::-1]
    return result


def _is_header_node(data: U8, places: I64, longest_key: int) -> Mask:
    fields = (_KIND.kind, _KIND.height, _KIND.num_records, HEADER_NODE.header.len_node, HEADER_NODE.header.len_key_max)
    found = decode_columns(HEADER_NODE, data, places, fields)
    kind, height, count, size, longest = (found[name].astype(np.int64) for name in found)
    is_size = (size >= int(_LIMITS.minimum)) & (size <= int(_LIMITS.maximum)) & (size & (size - 1) == 0)
    is_kind = kind == int(grammar.HfsplusBtree.NodeKind.header)
    result: Mask = is_kind & (height == 0) & (count == NUM_HEADER_RECORDS) & is_size & (longest == longest_key)
    return result


def _is_journal_info(data: U8, places: I64) -> Mask:
    fields = (JOURNAL_INFO_BLOCK.flags, JOURNAL_INFO_BLOCK.ofs_journal, JOURNAL_INFO_BLOCK.len_journal)
    found = decode_columns(JOURNAL_INFO_BLOCK, data, places, fields)
    inside = int(grammar.HfsplusJournal.JournalInfoFlag.in_file_system)
    result: Mask = (found["flags"] == inside) & (found["ofs_journal"] > 0) & (found["len_journal"] > 0)
    return result


WRAPPER_HEADER_OFFSET: Final = HFS_WRAPPER_VOLUME_START.header.offset
"""Where the volume header of HFS, HFS+ and HFSX stands, and how far from the end its copy starts."""
_SIGNATURES: Final = grammar.HfsWrapper.Signature
_READ: Final = (_SIGNATURES.hfs_plus, _SIGNATURES.hfsx)
_SIZES: Final = (VOLUME_HEADER.len_block, VOLUME_HEADER.num_blocks)


def _magic(signature: grammar.HfsWrapper.Signature) -> bytes:
    return int(signature).to_bytes(VOLUME_HEADER.version.offset, "big")


def probe(stretch: Window, *, thorough: bool = False) -> Content | None:
    """Tell HFS+, HFSX, a wrapper with either in it, and classic HFS, which is only named."""
    signature = _hfs_signature(stretch, WRAPPER_HEADER_OFFSET)
    if signature == "hfs":
        return _wrapper(stretch)
    if signature is not None:
        return Content("hfsplus", _hfs_label(signature), 0, stretch.size_bytes)
    # Formatting for something else leaves the end as it was: there the copy outlives its volume.
    return _find_by_alternate_header(stretch) if thorough else None


def _hfs_signature(stretch: Window, volume_offset: int) -> str | None:
    header = parse_at(stretch, VOLUME_SIGNATURE, volume_offset)
    return None if header is None else str(header.signature.name)


def _hfs_label(signature: str) -> str:
    return "HFSX" if signature == "hfsx" else "HFS+"


def _find_by_alternate_header(stretch: Window) -> Content | None:
    """Find a volume by the copy before its end: one whose header is lost, or that begins further on in the stretch."""
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
    start, has_header = start_by_copy(stretch, place, copy)
    # Unless the copy says that there is more than a block before the volume, it is taken to begin with the stretch.
    size = copy.num_blocks * copy.len_block
    spare = place + WRAPPER_HEADER_OFFSET - size
    at = start if start is not None else spare if spare >= copy.len_block else 0
    # A volume that is longer than the stretch does not begin with it, whatever names that place.
    sides = (f"{size:,} bytes, as its copy says", f"{stretch.size_bytes:,}") if spare < 0 else ("", "")
    findings = (
        () if has_header else _report_lost_header(stretch, at, place, is_start_known=start is not None, sides=sides)
    )
    return _describe_located_volume(stretch, at, place, str(signature), findings)


def _describe_located_volume(
    stretch: Window, start: int, place: int, signature: str, findings: tuple[Finding, ...]
) -> Content:
    """Describe a volume that starts at a byte of a stretch and ends with the copy of its header at a place."""
    size = place + WRAPPER_HEADER_OFFSET - start
    layers = (f"byte {stretch.origin + start}",) if start else ()
    return Content("hfsplus", _hfs_label(signature), start, size, layers, "", (), findings)


def _report_lost_header(
    stretch: Window, start: int, place: int, *, is_start_known: bool, sides: tuple[str, str] = ("", "")
) -> tuple[Finding, ...]:
    """Report a volume that is known by the copy of its header alone."""
    at = stretch.origin + start
    message = f"no volume header; its copy stands at byte {stretch.origin + place:,}"
    lost = Finding("volume-header-lost", "error", "volume header", at + WRAPPER_HEADER_OFFSET, message)
    return (lost,) if is_start_known else (lost, _uncertain(at, *sides))


def _uncertain(image_offset: int, expected: str = "", found: str = "") -> Finding:
    message = f"addresses are uncertain: where the volume starts is inferred, and it lacks {CONFIRMING} there"
    return Finding("start-uncertain", "error", "volume", image_offset, message, expected, found)


def find_in(stretch: Window, data: U8, offset: int) -> list[Content]:
    """Find volumes by the headers, copies of headers and wrappers in a piece of a stretch."""
    found: list[Content] = []
    wrappers = sectors_with(data, offset, 0, _magic(_SIGNATURES.hfs))
    headers = [place for item in _READ for place in sectors_with(data, offset, 0, _magic(item))]
    sizes = decode_columns(VOLUME_HEADER, data, np.array(headers, np.int64) - offset, _SIZES)
    block, count = sizes["len_block"].astype(np.int64), sizes["num_blocks"]
    is_sane = (count > 0) & (block >= SECTOR_BYTES) & (block <= MAX_BLOCK_BYTES) & (block & (block - 1) == 0)
    likely = [place for place, is_one in zip(headers, is_sane.tolist(), strict=True) if is_one]
    for place in sorted([*wrappers, *likely])[:MAX_HITS]:
        if not any(item.volume_offset <= place < item.volume_offset + item.size_bytes for item in found):
            found += _probe_header(stretch, place)
    return sorted(found, key=lambda content: bool(content.findings))


def _probe_header(stretch: Window, place: int) -> list[Content]:
    """Say what volume has its header, its copy, or the master directory block around it, at a place."""
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
    # A copy at the right distance confirms the start as well as the trees do.
    if end is not None or (start >= 0 and confirming(stretch, [start], header)[0]):
        last = start + size - WRAPPER_HEADER_OFFSET if end is None else start + end
        return [_describe_located_volume(stretch, start, last, signature, ())]
    by_copy, has_header = start_by_copy(stretch, place, header)
    if by_copy is not None and confirming(stretch, [by_copy], header)[0]:
        findings = () if has_header else _report_lost_header(stretch, by_copy, place, is_start_known=True)
        return [_describe_located_volume(stretch, by_copy, place, signature, findings)]
    # Whatever has the letters and no volume of a sensible size behind them is a chance hit.
    if start < 0 or not isinstance(header.version, grammar.HfsplusVolume.Version) or start + size > stretch.size_bytes:
        return []
    return [
        _describe_located_volume(
            stretch, start, start + size - WRAPPER_HEADER_OFFSET, signature, (_uncertain(stretch.origin + start),)
        )
    ]


def _wrapper(stretch: Window) -> Content:
    """Look into a classic HFS volume for one of HFS+ that is embedded in it (TN1150, HFS Wrapper)."""
    block = parse_at(stretch, MASTER_DIRECTORY_BLOCK, WRAPPER_HEADER_OFFSET)
    classic = Content("hfs", "HFS", 0, stretch.size_bytes)
    if block is None:
        return classic
    name = block.volume_name[: block.len_volume_name].decode("mac_roman", errors="replace")
    if block.embedded_signature not in (grammar.HfsWrapper.Signature.hfs_plus, grammar.HfsWrapper.Signature.hfsx):
        return classic._replace(name=name)
    # drEmbedExtent counts the wrapper's allocation blocks from its block 0, which drAlBlSt places in sectors of 512
    # bytes whatever the device's are (TN1150, HFS Master Directory Block).
    return _describe_embedded(stretch, block.ofs_embedded_volume, block.len_embedded_volume, name)


def _describe_embedded(stretch: Window, start: int, size: int, name: str) -> Content:
    inside = Window(stretch, start, size) if start < stretch.size_bytes else Window(stretch, 0, 0)
    signature = _hfs_signature(inside, WRAPPER_HEADER_OFFSET)
    findings: tuple[Finding, ...] = ()
    if signature in (None, "hfs"):
        place = stretch.origin + start + WRAPPER_HEADER_OFFSET
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
        (MapRegion("hfs-wrapper", stretch.origin + WRAPPER_HEADER_OFFSET, length, "master directory block"),),
        findings,
    )
