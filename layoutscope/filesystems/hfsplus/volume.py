"""The volume header, its copy, and the geometry that they define.

TN1150, "Volume Header". The input is a source and the start of the volume. All addresses inside the reader are
``volume_offset``, bytes from the start of the volume; :class:`Volume` converts them to ``image_offset``.
"""

from __future__ import annotations

import hashlib
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError, LayoutscopeError
from layoutscope.filesystems.content import SECTOR_BYTES
from layoutscope.findings import FindingLog
from layoutscope.image import Source, Window
from layoutscope.image.source import overlaps
from layoutscope.structs import grammar
from layoutscope.structs.arrays import ordinals, owners
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import (
    HEADER_NODE,
    HFSPLUS_VOLUME_VOLUME_START,
    JOURNAL_INFO_BLOCK,
    VOLUME_END,
    VOLUME_HEADER,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.grammar import HfsplusVolume


HEADER_OFFSET: Final = HFSPLUS_VOLUME_VOLUME_START.volume_header.offset
HEADER_BYTES: Final = VOLUME_HEADER.width
END_BYTES: Final = VOLUME_END.width

MAX_BLOCK_BYTES: Final = 1024**2
"""Largest allocation block size of HFS+."""
_LONGEST_KEY: Final = grammar.HfsplusBtree.KeyLengthLimit
_LONGEST_KEYS: Final = {
    "catalog": int(_LONGEST_KEY.catalog),
    "extents": int(_LONGEST_KEY.extents_overflow),
    "attributes": int(_LONGEST_KEY.attributes),
}
"""Longest key by tree: with small blocks, a shifted start could otherwise match the header of another tree."""
_NUM_HEADER_RECORDS: Final = 3
"""Records of a header node: header, user data and map (TN1150, Header Nodes)."""
CONFIRMING: Final = "the header nodes of its trees"

_KIND: Final = HEADER_NODE.descriptor
_LIMITS: Final = grammar.HfsplusBtree.NodeSizeLimit

_UUID_NAMESPACE: Final = uuid.UUID("b3e20f39-f292-11d6-97a4-00306543ecac")

ATTRIBUTE_NAMES: Final = {
    "is_hardware_locked": "hardware-locked",
    "is_unmounted": "unmounted",
    "has_spared_blocks": "spared-blocks",
    "is_no_cache_required": "no-cache-required",
    "is_boot_inconsistent": "boot-inconsistent",
    "is_cnid_reused": "cnids-reused",
    "is_journaled": "journaled",
    "is_software_locked": "software-locked",
    "is_content_protected": "content-protected",
    "is_unused_node_fix": "unused-nodes-zeroed",
}
"""Flags of the volume header, and their names in reports."""


class Volume(Struct, frozen=True):
    """A volume: its bytes and its geometry."""

    source: Source  # only the volume, with addresses that start at 0
    image_offset: int  # start of the volume, in bytes from the start of the image
    header: HfsplusVolume.VolumeHeader  # the volume header, or its copy if the header is damaged
    # `volume_offset` of the last 1024 bytes, which hold the alternate volume header; None if it was not found
    end_offset: int | None
    log: FindingLog  # findings by address in the volume, added by every part of the reader
    is_inferred: bool = False  # whether no header was in its place, so that a sweep had to find everything
    is_by_copy: bool = False  # whether the copy replaces an unusable header

    @property
    def block_size_bytes(self) -> int:
        """Size of an allocation block."""
        return int(self.header.len_block)

    @property
    def size_bytes(self) -> int:
        """Bytes from the first block to the end of the volume."""
        blocks = int(self.header.num_blocks) * self.block_size_bytes
        return max(blocks, self.end_offset + END_BYTES) if self.end_offset is not None else blocks

    @property
    def is_hfsx(self) -> bool:
        """Whether the volume has the signature of HFSX."""
        return self.header.signature == grammar.HfsplusVolume.Signature.hfsx

    def header_field(self, name: str) -> FindingLog:
        """Bind the log to a field of the volume header."""
        return self.log.at("volume header", HEADER_OFFSET + VOLUME_HEADER.offset_of(name)).within(name)

    def is_readable(self, volume_offsets: I64, lengths_bytes: I64) -> Mask:
        """Return, for each range, whether it is completely on the image and readable."""
        start, length = volume_offsets, lengths_bytes
        inside: Mask = (start >= 0) & (length >= 0) & (start <= self.source.size_bytes - length)
        return inside & ~overlaps(self.source.unread_ranges(), start, length)


def open_volume(source: Source, image_offset: int, space_bytes: int | None = None) -> Volume:
    """Read the volume header, or the alternate one if it is damaged, and compare both."""
    window = Window(source, image_offset, source.size_bytes - image_offset)
    log = FindingLog(base=window.origin)
    try:
        header = read_header(window, HEADER_OFFSET, "volume header")
    except FormatError as error:
        end, alternate = find_alternate(window, None, space_bytes)
        if alternate is None:
            raise shift_error(error, window.origin) from error
        volume = Volume(window, window.origin, alternate, end, log, is_by_copy=True)
        volume.log.survive(error, code="volume-header-invalid")
        return volume
    end, alternate = find_alternate(window, header)
    if alternate is None and not confirming(window, [0], header)[0]:
        copy_end, copy = find_alternate(window, None, space_bytes)
        if copy is not None and confirming(window, [0], copy)[0]:
            volume = Volume(window, window.origin, copy, copy_end, log, is_by_copy=True)
            message = "the header's trees are not where its blocks would have them, and those of its copy are"
            expected, found = (
                f"{int(each.num_blocks):,} blocks of {int(each.len_block):,} bytes" for each in (copy, header)
            )
            volume.header_field("len_block").add(
                "volume-header-invalid", "error", message, expected=expected, found=found
            )
            return volume
    volume = Volume(window, window.origin, header, end, log)
    _compare(volume, alternate)
    return volume


def alternate_header(volume: Volume) -> HfsplusVolume.VolumeHeader | None:
    """Read the copy of the volume header again, to replace damaged header fields; return None if there is none."""
    if volume.end_offset is None:
        return None
    try:
        return read_header(volume.source, volume.end_offset, "alternate volume header")
    except FormatError:
        return None


def reread_header(volume: Volume, source: Source) -> Volume:
    """Return the volume over another source, for example after a journal replay."""
    header = header_at(source, 0)
    # A damaged header stays damaged unless a transaction rewrites it, so its copy remains in use.
    if header is None or (volume.is_by_copy and not confirming(source, [0], header)[0]):
        header = volume.header
    return Volume(source, volume.image_offset, header, volume.end_offset, volume.log, is_by_copy=volume.is_by_copy)


def read_header(
    source: Source,
    volume_offset: int,  # start of the header or its copy, in bytes from the start of the source
    structure: str,
) -> HfsplusVolume.VolumeHeader:
    """Read and check one volume header."""
    data = read_at(source, volume_offset, HEADER_BYTES, structure)
    header = grammar.parse(grammar.HfsplusVolume.VolumeHeader, data, structure=structure, image_offset=volume_offset)
    smallest = int(grammar.HfsplusVolume.BlockSizeLimit.minimum)
    if header.len_block < smallest or header.len_block & (header.len_block - 1):
        raise FormatError(
            "impossible allocation block size",
            structure=structure,
            image_offset=volume_offset + VOLUME_HEADER.len_block.offset,
            expected=f"a power of two of at least {smallest}",
            found=str(header.len_block),
        )
    if not header.num_blocks:
        raise FormatError(
            "a volume without blocks",
            structure=structure,
            image_offset=volume_offset + VOLUME_HEADER.num_blocks.offset,
            expected="at least 1",
            found="0",
        )
    return header


def report_version(volume: Volume) -> None:
    """Report an unpublished version in the volume header."""
    version = int(volume.header.version)
    if version not in [int(item) for item in grammar.HfsplusVolume.Version]:
        label = "HFSX" if volume.is_hfsx else "HFS+"
        message = f"version {version} of {label} is not known to layoutscope: files may be missing"
        volume.header_field("version").add("version-unknown", "error", message, expected="4 or 5", found=version)


def report_change(volume: Volume) -> None:
    """Read the volume header again: a driver that mounts the volume during the read raises its write count."""
    now = header_at(volume.source, 0)
    if now is not None and not volume.is_by_copy and volume.header.write_count != now.write_count:
        message = "the volume was written to while it was read; what was read is of no single state"
        expected, found = int(volume.header.write_count), int(now.write_count)
        volume.header_field("write_count").add("changed-while-read", "warning", message, expected=expected, found=found)


def read_at(
    source: Source,
    volume_offset: int,  # volume_offset, length_bytes: location, in bytes from the start of the source
    length_bytes: int,
    structure: str,
) -> bytes:
    """Read a structure."""
    try:
        return source.read(volume_offset, length_bytes)
    except FormatError as error:
        raise shift_error(error, -source.origin, structure) from error


def shift_error(
    error: FormatError,
    distance_bytes: int,
    structure: str = "",  # replaces the structure of the error; empty to keep it
) -> FormatError:
    """Return the same error at another address; sources use image addresses, grammars use addresses of their buffer."""
    return type(error)(
        error.reason,
        structure=structure or error.structure,
        image_offset=None if error.image_offset is None else error.image_offset + distance_bytes,
        expected=error.expected,
        found=error.found,
    )


def find_alternate(
    window: Source, header: HfsplusVolume.VolumeHeader | None, space_bytes: int | None = None
) -> tuple[int | None, HfsplusVolume.VolumeHeader | None]:
    """Look for the copy 1024 bytes before the end of the volume."""
    for end in _end_candidates(window, header, space_bytes):
        try:
            alternate = read_header(window, end, "alternate volume header")
        except LayoutscopeError:
            continue
        if header is None or alternate.len_block == header.len_block:
            return end, alternate
    return None, None


def _end_candidates(
    window: Source, header: HfsplusVolume.VolumeHeader | None, space_bytes: int | None
) -> Iterator[int]:
    """Yield possible starts of the last 1024 bytes of the volume.

    The volume ends with its partition, up to one allocation block after its last whole block. The source may continue
    after the volume, so every sector in that block is a candidate.
    """
    if header is None:
        # A copy after the partition belongs to another volume, or to one with another start.
        yield min(window.size_bytes, window.size_bytes if space_bytes is None else space_bytes) - END_BYTES
        return
    blocks_end = int(header.num_blocks) * int(header.len_block)
    if blocks_end <= window.size_bytes <= blocks_end + header.len_block:
        yield window.size_bytes - END_BYTES
    for slack in range(0, int(header.len_block) + 1, 512):
        if END_BYTES <= blocks_end + slack <= window.size_bytes:
            yield blocks_end + slack - END_BYTES


def starts_by_copy(place: int, copy: HfsplusVolume.VolumeHeader) -> range:
    """List the possible starts of a volume whose header copy is at an offset, the likeliest first."""
    if not SECTOR_BYTES <= copy.len_block <= MAX_BLOCK_BYTES:
        return range(0)
    spare = place + END_BYTES - copy.num_blocks * copy.len_block
    first = max(spare - copy.len_block + SECTOR_BYTES, spare % SECTOR_BYTES)
    return range(spare, first - 1, -SECTOR_BYTES)


def start_by_copy(source: Source, place: int, copy: HfsplusVolume.VolumeHeader) -> tuple[int | None, bool]:
    """Return the start of the volume of a header copy (None if nothing confirms one), and whether it has a header."""
    starts = starts_by_copy(place, copy)
    for start in starts:
        header = header_at(source, start)
        if header is not None and (header.len_block, header.num_blocks) == (copy.len_block, copy.num_blocks):
            return start, True
    return most_confirmed(source, starts, copy), False


def header_at(source: Source, start: int) -> HfsplusVolume.VolumeHeader | None:
    """Return the header of a volume that would start at a byte; None if there is none."""
    try:
        return read_header(source, start + HEADER_OFFSET, "volume header")
    except FormatError:
        return None


def most_confirmed(
    source: Source,
    starts: Sequence[int],  # assumed starts, a sector apart, in bytes
    header: HfsplusVolume.VolumeHeader,
) -> int | None:
    """Return the first assumed start with the most structures where a header places them; None without any."""
    votes = confirming(source, starts, header)
    return starts[int(votes.argmax())] if votes.any() else None


def confirming(source: Source, starts: Sequence[int], header: HfsplusVolume.VolumeHeader) -> I64:
    """Count, for each assumed start, the structures that are where a header places them."""
    votes = np.zeros(len(starts), np.int64)
    for tree, longest_key in _LONGEST_KEYS.items():
        fork = getattr(header, f"{tree}_file")
        if fork.num_blocks:
            is_header = partial(_is_header_node, longest_key=longest_key)
            votes += _are(is_header, source, starts, fork.extents[0].start_block * header.len_block)
    if header.is_journaled:
        votes += _are(_is_journal_info, source, starts, header.journal_info_block * header.len_block)
    return votes


def _are(is_one: Callable[[U8, I64], Mask], source: Source, starts: Sequence[int], distance: int) -> Mask:
    """Return, for each assumed start, whether there is a structure at a distance from it."""
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
    result: Mask = is_kind & (height == 0) & (count == _NUM_HEADER_RECORDS) & is_size & (longest == longest_key)
    return result


def _is_journal_info(data: U8, places: I64) -> Mask:
    fields = (JOURNAL_INFO_BLOCK.flags, JOURNAL_INFO_BLOCK.ofs_journal, JOURNAL_INFO_BLOCK.len_journal)
    found = decode_columns(JOURNAL_INFO_BLOCK, data, places, fields)
    inside = int(grammar.HfsplusJournal.JournalInfoFlag.in_file_system)
    result: Mask = (found["flags"] == inside) & (found["ofs_journal"] > 0) & (found["len_journal"] > 0)
    return result


_COPIED_FIELDS: Final = (
    "signature",
    "version",
    "len_block",
    "num_blocks",
    "allocation_file",
    "extents_file",
    "catalog_file",
    "attributes_file",
    "startup_file",
)
"""Fields that are equal in an up-to-date copy; counts, dates and hints may differ."""


def _compare(volume: Volume, alternate: HfsplusVolume.VolumeHeader | None) -> None:
    if alternate is None:
        at = int(volume.header.num_blocks) * volume.block_size_bytes - END_BYTES
        is_inside = 0 <= at <= volume.source.size_bytes - END_BYTES
        message = "there is no copy of the volume header at the end of the volume"
        if is_inside and not volume.is_readable(np.array([at]), np.array([HEADER_BYTES]))[0]:
            message = "the copy of the volume header could not be read"
        log = volume.log.at("alternate volume header", at if is_inside else None)
        log.add("alternate-header-missing", "warning", message)
        return
    first = {field.path: field.value for field in grammar.field_values(volume.header, 0)}
    fields = {field.path: field for field in grammar.field_values(alternate, volume.end_offset or 0)}
    second = {path: field.value for path, field in fields.items()}
    # The clump size of a fork is a hint.
    differing = [
        path
        for path in first
        if path.startswith(_COPIED_FIELDS) and not path.endswith("_clump") and first[path] != second[path]
    ]
    if differing:
        volume.log.at("alternate volume header", fields[differing[0]].image_offset).add(
            "alternate-header-differs",
            "warning",
            f"the copy of the volume header differs in {', '.join(differing)}",
            expected=first[differing[0]],
            found=second[differing[0]],
        )


def volume_uuid(header: HfsplusVolume.VolumeHeader) -> str:
    """Return a volume's UUID as macOS shows it, from the last two words of the Finder info; empty if they are zero."""
    identifier = b"".join(int(word).to_bytes(4, "big") for word in header.finder_info[6:8])
    if not any(identifier):
        return ""
    # Apple's sources call this namespace kFSUUIDNamespaceSHA1, but hash with MD5.
    digest = hashlib.md5(_UUID_NAMESPACE.bytes + identifier, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3)).upper()


def attribute_names(header: HfsplusVolume.VolumeHeader) -> tuple[str, ...]:
    """Return the names of the attribute bits set in the volume header."""
    return tuple(name for instance, name in ATTRIBUTE_NAMES.items() if getattr(header, instance))


_GRAIN_BYTES = 512
"""Blocks of a journal are whole sectors, so later writes replace earlier ones in units of the smallest sector."""


class Overlay(Window):
    """A source with some ranges replaced."""

    read_pieces = Source.read_pieces
    holes = Source.holes

    def __init__(self, source: Source, image_offsets: I64, lengths_bytes: I64, data_starts: I64, data: U8) -> None:
        super().__init__(source, 0, source.size_bytes)
        # Cut writes into grains, and keep the last write of each: ascending offsets, and contents, shape (n, 512).
        counts = lengths_bytes // _GRAIN_BYTES
        write, number = owners(counts), ordinals(counts)
        place = image_offsets[write] + number * _GRAIN_BYTES
        self._starts, newest = np.unique(place[::-1], return_index=True)
        chosen = len(place) - 1 - newest
        begin = data_starts[write[chosen]] + number[chosen] * _GRAIN_BYTES
        self._data = data[begin[:, None] + np.arange(_GRAIN_BYTES)]

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        length_bytes = len(target)
        target[:] = self.source.read(image_offset, length_bytes)
        buffer = np.frombuffer(target, np.uint8)
        first = int(np.searchsorted(self._starts, image_offset - _GRAIN_BYTES, side="right"))
        last = int(np.searchsorted(self._starts, image_offset + length_bytes, side="left"))
        for grain in range(first, last):
            at = int(self._starts[grain]) - image_offset
            start, stop = max(at, 0), min(at + _GRAIN_BYTES, length_bytes)
            buffer[start:stop] = self._data[grain, start - at : stop - at]
