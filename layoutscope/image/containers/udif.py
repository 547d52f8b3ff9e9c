"""Apple disk images (UDIF, ``.dmg``), read in place.

The property list of the image holds block maps; in the oldest images, a resource fork does. A block map assigns runs of
sectors to pieces of the file.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError, ImageError, UnsupportedError, install_command
from layoutscope.findings import Finding
from layoutscope.image.containers.placed import StoredSource, decode_table, make_pieces, refuse_overrun
from layoutscope.image.source import SECTOR_BYTES, TRAILER_BYTES, peek, trailer_of
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import I64, runs_of, subtract, total
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import T, Udif

MAX_PLIST_BYTES: Final = 256 * 1024**2
WHAT: Final = "disk image piece"
FAR: Final = 2**62
"""Beyond the end of any file or disk; the sum of two such offsets does not overflow."""

MAX_SEARCHED_BYTES: Final = 16 * 1024**2
"""Length of the search before the trailer for a property list that is not where the trailer says."""

LIST_START: Final = b"<?xml"
LIST_END: Final = b"</plist>"

LZFSE_PLAIN_HEADER_BYTES: Final = 772


MAGIC: Final = b"koly"
TRAILER_START: Final = MAGIC + (4).to_bytes(4, "big") + TRAILER_BYTES.to_bytes(4, "big")
"""Start of the trailer of an Apple disk image: magic, version and its length."""

SEARCH_BYTES: Final = 64 * 1024

DISK_MAGICS: Final = (
    (510, b"\x55\xaa"),
    (0, b"ER"),
    (512, b"PM"),
    (512, b"EFI PART"),
    (32, b"NXSB"),
    (1024, b"H+"),
    (1024, b"HX"),
    (1024, b"BD"),
)
"""Signatures at the starts of disks and volumes."""


def udif_trailer_at(source: Source) -> int | None:
    """Find the trailer of an Apple disk image: at the end, at the start, or in the last 64 KiB.

    Copies that were padded to whole blocks, or joined with a fork of another file, have bytes after the trailer. A file
    that begins like a disk is treated as a disk, because the last file on a disk may be a disk image.
    """
    if trailer_of(source).startswith(MAGIC):
        return source.size_bytes - TRAILER_BYTES
    head = peek(source)
    if head.startswith(TRAILER_START):
        return 0
    if any(head.startswith(magic, offset) for offset, magic in DISK_MAGICS):
        return None
    start = max(0, source.size_bytes - SEARCH_BYTES)
    found = peek(source, start, source.size_bytes - start).rfind(TRAILER_START)
    return start + found if 0 <= found <= source.size_bytes - start - TRAILER_BYTES else None


def open_udif(source: Source, trailer_at: int | None = None) -> Source:
    """Open the disk in a disk image; without `trailer_at`, its trailer is searched for."""
    # A writer knows all offsets only at the end, so the header is in the last 512 bytes of the file ("koly"). Images
    # that are written as a stream begin with it.
    trailer_offset = udif_trailer_at(source) if trailer_at is None else trailer_at
    at = source.size_bytes - records.TRAILER.width if trailer_offset is None else trailer_offset
    trailer = source.parse(grammar.Udif.Trailer, at, "disk image trailer")
    if trailer.num_segments > 1:
        raise UnsupportedError(
            f"{source.name}: is a disk image in {trailer.num_segments} segments", code="dmg-segments",
            advice="join them on a Mac with: hdiutil convert IMAGE -format UDTO -o RAW",
        )  # fmt: skip
    if trailer.len_disk > FAR:
        raise FormatError(
            f"a disk of {trailer.num_sectors:,} sectors is impossible", structure="disk image trailer",
            image_offset=at + records.TRAILER.num_sectors.offset,
        )  # fmt: skip
    base, maps, findings = _read_block_maps(source, trailer, at)
    # Pieces count from the start of the data fork: if it exceeds the file, so do they.
    stop, end = base + trailer.ofs_data_fork + trailer.len_data_fork, at or source.size_bytes
    refuse_overrun("the data fork is longer than the file", "disk image trailer", at, end, stop)
    heads = [
        grammar.parse(grammar.Udif.BlockMap, data, structure="disk image block map", image_offset=trailer.ofs_plist)
        for data in maps
    ]
    start, ends, storage, offset, length = _list_pieces(heads, maps, trailer, at, base)
    size = ends - start
    # Sectors that a block map covers may have no piece.
    starts = np.array([head.start_sector for head in heads], np.int64)
    limits = (trailer.num_sectors - starts).tolist()
    counts = np.array([min(head.num_sectors, limit) for head, limit in zip(heads, limits, strict=True)], np.int64)
    missing = subtract(runs_of(starts * SECTOR_BYTES, counts * SECTOR_BYTES), runs_of(start, size))
    if len(missing):
        message = (
            f"its block maps name no piece for {format_bytes(total(missing))} of what they cover, which reads as "
            f"zeros, the first at byte {int(missing[0, 0]):,} of the disk"
        )
        findings += (Finding("container-invalid", "warning", "disk image block map", at, message),)
    kinds = grammar.Udif.Storage
    # Ignored pieces were free when the image was made: they are not stored, and a restored disk reads zeros there.
    is_stored = ~np.isin(storage, [int(kinds.zeros), int(kinds.ignored)])
    is_short = (storage == int(kinds.plain)) & (length < size)
    is_lost = is_stored & (is_short | (offset > source.size_bytes - length))
    outside = runs_of(start[is_lost], size[is_lost])
    if len(outside):
        message = (
            f"its block maps name pieces after the end of the file at byte {source.size_bytes:,}, or uncompressed ones "
            f"that are shorter than their data; {format_bytes(total(outside))} of the disk count as not read"
        )
        findings += (Finding("container-invalid", "error", WHAT, int(outside[0, 0]), message),)
    is_readable = is_stored & ~is_lost
    kinds_stored, codec = np.unique(storage[is_readable], return_inverse=True)
    pieces = make_pieces(
        start[is_readable], size[is_readable], offset[is_readable], stored=length[is_readable],
        codec=np.where(storage[is_readable] == int(kinds.plain), 0, codec + 1),
    )  # fmt: skip
    codecs = [_get_codec(kind) for kind in kinds_stored.tolist()]
    return StoredSource([source], trailer.len_disk, pieces, what=WHAT, codecs=codecs, unread=[outside],
                        findings=findings)  # fmt: skip


def _list_pieces(
    heads: list[Udif.BlockMap], maps: list[bytes], trailer: Udif.Trailer, trailer_at: int, base: int
) -> list[I64]:
    """List the pieces in the order of the disk: start, end, kind of storage, stored offset and stored length."""
    parts = [_decode_map(head, data, trailer, trailer_at, base) for head, data in zip(heads, maps, strict=True)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0, np.int64)] * 5
    order = np.argsort(columns[0], kind="stable")
    columns = [column[order] for column in columns]
    start, stop, *_ = columns
    if (stop[:-1] > start[1:]).any():
        raise FormatError("pieces overlap", structure="disk image block map", image_offset=trailer.ofs_plist)
    last = int(stop.max(initial=0))
    refuse_overrun("pieces leave the disk", "disk image block map", trailer.ofs_plist, trailer.len_disk, last)
    return columns


def _read_block_maps(
    source: Source, trailer: Udif.Trailer, trailer_at: int
) -> tuple[int, list[bytes], tuple[Finding, ...]]:
    """Read the block maps of the property list, which may be elsewhere than the trailer says.

    Returns the start of the disk image, from which its offsets count, the maps, and the findings.
    """
    length, start = trailer.len_plist, trailer.ofs_plist
    too_long = FormatError(
        "the property list is longer than the file", structure="disk image trailer", image_offset=trailer_at
    )
    if length > MAX_PLIST_BYTES:
        raise too_long
    try:
        if length > source.size_bytes:
            raise too_long
        return 0, _parse_maps(source.read(start, length), start), ()
    except FormatError as error:
        located = _find_list(source, trailer, trailer_at)
        if located is None and trailer.len_resource_fork:
            return 0, _read_resource_maps(source, trailer), ()
        if located is None and not length:
            raise FormatError(
                "names neither a property list nor a resource fork, which would list the pieces of the disk",
                structure="disk image trailer", image_offset=trailer_at,
            ) from error  # fmt: skip
        if located is None:
            raise
        where, text = located
        try:
            maps = _parse_maps(text, where)
        except FormatError:
            raise error from None
    # An image with something before it is sound in itself: its list follows the data fork, as the trailer says.
    if where > start == trailer.ofs_data_fork + trailer.len_data_fork:
        return where - start, maps, ()
    finding = Finding(
        "container-invalid", "warning", "disk image trailer", trailer_at,
        "the property list is not where the trailer says", f"{where:,} (where one was found)", f"{start:,}",
    )  # fmt: skip
    return 0, maps, (finding,)


def _find_list(source: Source, trailer: Udif.Trailer, trailer_at: int) -> tuple[int, bytes] | None:
    """Search for a property list between the data fork and the trailer, then in the whole file."""
    end = trailer_at or source.size_bytes
    fork = min(trailer.ofs_data_fork + trailer.len_data_fork, end)
    for start in dict.fromkeys((fork, 0)):
        first = max(start, end - MAX_SEARCHED_BYTES)
        text = source.read(first, end - first)
        stop = text.rfind(LIST_END)
        begin = text.rfind(LIST_START, 0, stop) if stop >= 0 else -1
        if begin >= 0:
            return first + begin, text[begin : stop + len(LIST_END)]
    return None


def _read_resource_maps(source: Source, trailer: Udif.Trailer) -> list[bytes]:
    """Read the block maps from a resource fork, where images had them before the property list."""
    start, length = trailer.ofs_resource_fork, trailer.len_resource_fork
    what = "disk image resource fork"
    if length > MAX_PLIST_BYTES:
        raise FormatError("is longer than any that was made", structure=what, image_offset=start)
    fork = source.read(start, length)

    def parse_part(kind: type[T], at: int) -> T:
        return grammar.parse(kind, fork[at : at + 64], structure=what, image_offset=start + at)

    header = parse_part(grammar.Udif.ResourceHeader, 0)
    listed = header.ofs_map + parse_part(grammar.Udif.ResourceMap, header.ofs_map).ofs_types
    # Counts are one too low, so 65,535 means none.
    num_types = (parse_part(grammar.Udif.ResourceTypeList, listed).last_type + 1) % 0x10000
    first = listed + records.RESOURCE_TYPE_LIST.width
    width = records.RESOURCE_TYPE.width
    kinds = (parse_part(grammar.Udif.ResourceType, first + number * width) for number in range(num_types))
    block_map_type = next((kind for kind in kinds if kind.kind == b"blkx"), None)
    maps: list[bytes] = []
    if block_map_type is None:
        raise FormatError("has no block map", structure=what, image_offset=start)
    for number in range(block_map_type.last_resource + 1):
        at = listed + block_map_type.ofs_references + number * records.RESOURCE_REFERENCE.width
        place = header.ofs_data + parse_part(grammar.Udif.ResourceReference, at).ofs_resource
        size = parse_part(grammar.Udif.ResourceData, place).len_resource
        data_at = place + records.RESOURCE_DATA.width
        if data_at + size > length or sum(map(len, maps)) + size > length:
            raise FormatError("a block map leaves the fork, or overlaps another one", structure=what,
                              image_offset=start + place)  # fmt: skip
        maps.append(fork[data_at : data_at + size])
    return maps


def _parse_maps(text: bytes, where: int) -> list[bytes]:
    """Return the block maps in a property list."""
    import plistlib
    from xml.parsers.expat import ExpatError

    try:
        entries = plistlib.loads(text, fmt=plistlib.FMT_XML)["resource-fork"]["blkx"]
        maps = [entry["Data"] for entry in entries]
    except (ExpatError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(
            "is none that names block maps", structure="disk image property list", image_offset=where
        ) from error
    # `bytes` would take a number for a length.
    if not all(isinstance(each, bytes) for each in maps):
        raise FormatError("a block map is not data", structure="disk image property list", image_offset=where)
    return maps


def _decode_map(head: Udif.BlockMap, data: bytes, trailer: Udif.Trailer, trailer_at: int, base: int) -> tuple[I64, ...]:
    """Decode one block map into columns of pieces that hold sectors."""
    where = trailer.ofs_plist
    entry, first = records.PIECE, records.BLOCK_MAP.width
    if head.num_entries > (len(data) - first) // entry.width:
        raise FormatError("has more entries than room", structure="disk image block map", image_offset=where)
    fields = (entry.storage, entry.start_sector, entry.num_sectors, entry.ofs_stored, entry.len_stored)
    columns = decode_table(data, first, head.num_entries, entry, *fields)
    kinds = grammar.Udif.Storage
    # The last entry is a terminator without sectors, and there may be comments between the others.
    holds = ~np.isin(columns[0], [int(kinds.comment), int(kinds.terminator)]) & (columns[2] > 0)
    storage, sector, count, offset, length = (column[holds] for column in columns)
    limit = trailer.num_sectors
    if head.start_sector > limit or (sector > limit).any() or (count > limit).any():
        raise FormatError("pieces leave the disk", structure="disk image block map", image_offset=where)
    # Sectors count from the first one of their block map, offsets from the start of the data fork.
    base += trailer.ofs_data_fork + head.ofs_data
    if base >= FAR or (offset >= FAR).any() or (length >= FAR).any():
        raise FormatError("pieces leave the file", structure="disk image block map", image_offset=trailer_at)
    start = (sector + head.start_sector) * SECTOR_BYTES
    return start, start + count * SECTOR_BYTES, storage, offset + base, length


def _get_codec(storage: int) -> Callable[[bytes, int], bytes]:
    def refuse(*_: object) -> bytes:
        raise ImageError(f"unknown way of storage {storage:#x}")

    kinds = grammar.Udif.Storage
    known: dict[int, Callable[[bytes, int], bytes]] = {
        kinds.zlib: lambda data, limit: zlib.decompressobj().decompress(data, limit),
        kinds.bzip2: lambda data, limit: bz2.BZ2Decompressor().decompress(data, limit),
        kinds.lzma: lambda data, limit: lzma.LZMADecompressor(memlimit=2**28).decompress(data, limit),
        kinds.adc: adc,
        kinds.lzfse: _decompress_lzfse,
    }
    return known.get(storage, refuse)


def _decompress_lzfse(data: bytes, limit: int) -> bytes:
    try:
        import lzfse
    except ImportError as error:
        raise UnsupportedError(
            "the disk image is compressed with LZFSE", code="lzfse", advice=install_command("containers")
        ) from error
    # The library decompresses everything at once, so the lengths that the blocks claim are added up before.
    if lzfse_length(data) > limit:
        raise ImageError(f"becomes longer than {limit:,} bytes")
    result: bytes = lzfse.decompress(data)
    return result


def lzfse_length(data: bytes) -> int:
    """Add up the decompressed lengths that the blocks of an LZFSE stream claim, without decompressing them.

    Each begins with four letters and its length decompressed; its own length is in its header, whose form depends on
    the letters (``ksy/lzfse.ksy``).
    """
    kinds, total, at = grammar.Lzfse.BlockKind, 0, 0
    while at + records.BLOCK_HEAD.width <= len(data):
        head = grammar.parse(grammar.Lzfse.BlockHead, data[at:], structure="LZFSE block", image_offset=at)
        if head.kind == kinds.plain:
            size = records.BLOCK_HEAD.len_payload.offset + head.len_raw
        elif head.kind == kinds.lzvn:
            size = records.BLOCK_HEAD.width + head.len_payload
        elif head.kind == kinds.lzfse_plain:
            size = LZFSE_PLAIN_HEADER_BYTES + head.len_payload
        elif head.kind == kinds.lzfse_packed and at + records.PACKED_HEAD.width <= len(data):
            packed = grammar.parse(grammar.Lzfse.PackedHead, data[at:], structure="LZFSE block", image_offset=at)
            # The header, and two payloads with 20-bit lengths.
            size = (packed.own & 0xFFFFFFFF) + (packed.literals >> 20 & 0xFFFFF) + (packed.matches >> 40 & 0xFFFFF)
        else:
            break
        total += head.len_raw
        at += max(size, records.BLOCK_HEAD.width)
    return total


def adc(data: bytes, limit: int) -> bytes:
    """Decompress at most `limit` bytes of Apple Data Compression, which images of the classic Mac OS use.

    A stream of literal runs and of copies from what came before, with two- and three-byte codes (libyal).
    """
    out = bytearray()
    at = 0
    while at < len(data) and len(out) < limit:
        code = data[at]
        if code & 0x80:
            length = (code & 0x7F) + 1
            out += data[at + 1 : at + 1 + length]
            at += 1 + length
            continue
        width = 3 if code & 0x40 else 2
        if at + width > len(data):
            raise ImageError("an ADC stream is cut off")
        if width == 3:
            length, distance = (code & 0x3F) + 4, (data[at + 1] << 8 | data[at + 2]) + 1
        else:
            length, distance = ((code & 0x3C) >> 2) + 3, ((code & 0x03) << 8 | data[at + 1]) + 1
        if distance > len(out):
            raise ImageError("an ADC stream refers to bytes before its start")
        start = len(out) - distance
        # A copy that overlaps itself repeats its pattern.
        pattern = bytes(out[start : start + length])
        out += (pattern * (length // distance + 1))[:length]
        at += width
    return bytes(out[:limit])
