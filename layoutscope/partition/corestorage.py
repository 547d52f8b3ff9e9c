"""CoreStorage physical volumes: their logical volumes, the offsets of these, and their encryption.

Apple does not document the format; this follows libyal's description of FileVault Drive Encryption. Names, sizes and
offsets of the logical volumes are encrypted with a key in the header: reading them takes AES, but no password.
"""

from __future__ import annotations

import re
import uuid
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.filesystems.content import parse_at
from layoutscope.findings import Finding
from layoutscope.image.crypto import decrypt_units
from layoutscope.structs import grammar, records
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.checksum import crc32c
from layoutscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.image.source import Source
    from layoutscope.structs.grammar import CoreStorage

    Blocks = list[tuple[int, int, bytes]]
    """Blocks of the metadata, the newest first: number of their object, type (0 if wiped) and bytes."""
    NewestBlocks = dict[int, tuple[int, bytes]]
    """Type and bytes of the newest block of each object."""

UNIT_BYTES: Final = 8192
"""Size of metadata blocks, and the unit of encryption."""

MAX_UNITS: Final = 8192
"""Twice as much metadata as volumes have in practice."""

MAX_LABEL_BYTES: Final = 1 << 20
MAX_TEXT_BYTES: Final = 1 << 24
"""Limit of the encryption metadata of volumes, which may include pictures of users."""

HEADER_BYTES: Final = 512
HEAD: Final = records.METADATA_BLOCK_HEAD
KINDS: Final = grammar.CoreStorage.BlockType
WIPED: Final = int(grammar.CoreStorage.ChecksumMark.wiped)
"""Mark in place of the checksum of a wiped block."""

WHAT: Final = "CoreStorage metadata"
NO_LIBRARY: Final = "name and size of its logical volume need the package cryptography (install layoutscope[crypto])"
UNREADABLE: Final = "its metadata cannot be read, so that name and size of its logical volume are unknown"


class LogicalVolume(Struct, frozen=True):
    """A logical volume, as the metadata describes it."""

    name: str  # may be empty
    size_bytes: int  # 0 if unknown
    family: bytes = b""  # UUID of its family, from which the second key of its blocks is derived; empty if unknown
    is_encrypted: bool | None = None  # whether its blocks are, as under FileVault 2; None if unknown
    keys: bytes = b""  # XML text with the wrapped keys; empty if they are elsewhere, or there are none
    volume_offset: int | None = None  # in the physical volume, in bytes; None if unknown or in several pieces
    reason: str = ""  # why it is not read; empty if it can be


class PhysicalVolume(Struct, frozen=True):
    """The facts about a physical volume that need no password."""

    group: str  # UUID of the logical volume group; empty if not set
    key: bytes = b""  # first key of its metadata
    own_id: bytes = b""  # its UUID, which is the second key
    group_name: str = ""  # empty if it cannot be read
    logical_volumes: tuple[LogicalVolume, ...] = ()
    is_encrypted: bool | None = None  # whether the logical volumes are; None if unknown
    reason: str = ""  # why the logical volumes are unknown; empty if they are known
    findings: tuple[Finding, ...] = ()

    @property
    def label(self) -> str:
        """Its kind and group, for messages."""
        name = "FileVault 2 on CoreStorage" if self.is_encrypted else "CoreStorage"
        return f"{name} of group {self.group}" if self.group else name

    @property
    def about(self) -> str:
        """Its logical volumes, in words."""
        states = {True: "encrypted", False: "not encrypted", None: "which may be encrypted"}
        volumes = [
            f"logical volume {item.name!r:.200} of {format_bytes(item.size_bytes)}, {states[item.is_encrypted]}"
            f"{f', {item.reason}' if item.reason else ''}"
            for item in self.logical_volumes[:8]
        ]
        group = [f"group {self.group_name!r:.200}"] if self.group_name else []
        lacking = self.is_encrypted and self.logical_volumes and not any(item.keys for item in self.logical_volumes)
        keys = ["its keys are not in it, but in EncryptedRoot.plist.wipekey on Recovery HD"] if lacking else []
        return "; ".join([*group, *(volumes or [self.reason]), *keys])


def read_physical_volume(stretch: Source, *, is_lost: bool = False) -> PhysicalVolume | None:
    """Read the metadata of a physical volume; None if none begins here."""
    parsed = _read_header(stretch, is_lost=is_lost)
    if parsed is None:
        return None
    header, findings = parsed
    group = uuid.UUID(bytes=bytes(header.logical_volume_group_id))
    volume = PhysicalVolume(
        str(group).upper() if group.int else "",
        bytes(header.key),
        bytes(header.physical_volume_id),
        reason=UNREADABLE,
        findings=findings,
    )
    try:
        copies = list(_read_labels(stretch, header))
        if not copies:
            return volume
        # The newest copy with an intact first block counts.
        *_, start, label = max(copies, key=lambda each: each[:2])
        text = _read_stretch(stretch, start + label.ofs_property_list, min(label.len_property_list, UNIT_BYTES))
        volume = replace(volume, group_name=get_value(text, "com.apple.corestorage.lvg.name", "string"))
        blocks, reports = _decrypt_metadata(stretch, header, start + label.ofs_descriptor)
    except FormatError:
        return volume
    except UnsupportedError:
        return replace(volume, reason=NO_LIBRARY)
    volumes = tuple(_read_logical_volumes(blocks, header.len_block, stretch.size_bytes))
    # The logical volumes of a group may be spread over several physical volumes.
    listed = re.search(rb"lvg\.physicalVolumes</key>\s*<array[^>]*>(.*?)</array>", text, re.DOTALL)
    count = len(re.findall(rb"<string|<reference", listed[1])) if listed else 1
    if count > 1 or label.physical_volume_number:
        members = format_count(max(count, label.physical_volume_number + 1), "physical volume")
        reason = f"which is spread over {members}, of which this is one"
        volumes = tuple(replace(item, volume_offset=None, reason=reason) for item in volumes)
    states = {item.is_encrypted for item in volumes}
    if not volumes:
        families = (_is_encrypted(data) for _, kind, data in blocks if kind == KINDS.logical_volume_family)
        states = {next((answer for answer in families if answer is not None), _has_encrypted_extents(blocks))}
    return replace(
        volume,
        logical_volumes=volumes,
        is_encrypted=True if True in states else None if None in states else False,
        reason="" if volumes else UNREADABLE,
        findings=(*findings, *reports),
    )


def _read_header(
    stretch: Source, *, is_lost: bool
) -> tuple[CoreStorage.PhysicalVolumeHeader, tuple[Finding, ...]] | None:
    """Parse the header, or its copy in the last sector if only the copy is intact."""
    header, computed = (None, 0) if is_lost else _parse_header(stretch, 0)
    if header is None and not is_lost:
        return None
    if header is not None and computed == header.checksum:
        return header, ()
    copy_at = stretch.size_bytes - HEADER_BYTES
    copy, computed_of_copy = _parse_header(stretch, copy_at) if copy_at > 0 else (None, 0)
    where = "physical volume header", stretch.origin
    if copy is not None and computed_of_copy == copy.checksum:
        message = "the header of the physical volume is damaged; its copy in the last sector is used"
        return copy, (Finding("structure-invalid", "warning", *where, message),)
    if header is None:
        return None
    message = "the header of the physical volume does not have its checksum, nor is there a copy that has"
    sides = f"{computed:#010x}", f"{header.checksum:#010x}"
    return header, (Finding("checksum-mismatch", "warning", *where, message, *sides),)


def _parse_header(stretch: Source, offset: int) -> tuple[CoreStorage.PhysicalVolumeHeader | None, int]:
    """Parse a header and compute its checksum; None if there is no header."""
    header: CoreStorage.PhysicalVolumeHeader | None = parse_at(stretch, records.PHYSICAL_VOLUME_HEADER, offset)
    if header is None or offset > stretch.size_bytes - HEADER_BYTES:
        return None, 0
    return header, _compute_checksum(stretch.read(offset, HEADER_BYTES))


def _compute_checksum(data: bytes) -> int:
    return int(crc32c(np.frombuffer(data, np.uint8).reshape(1, -1))[0])


def _read_labels(
    stretch: Source, header: CoreStorage.PhysicalVolumeHeader
) -> Iterator[tuple[bool, int, int, CoreStorage.DiskLabel]]:
    """Yield the copies of the disk label: whether the first block is intact, its transaction, its offset, itself."""
    # The header lists the blocks at which the four copies of the label start.
    for block in header.metadata_block:
        start = block * header.len_block
        try:
            data = _read_stretch(stretch, start, UNIT_BYTES)
        except FormatError:
            continue
        label = grammar.parse(grammar.CoreStorage.DiskLabel, data, structure="disk label", image_offset=start)
        if label.head.block_type == KINDS.disk_label and label.len_label <= MAX_LABEL_BYTES * 8:
            yield _compute_checksum(data) == label.head.checksum, label.head.transaction_id, start, label


def count_copies(stretch: Source) -> int:
    """Count the intact copies of header and disk label of a physical volume; 0 if its first sector is not intact."""
    header, computed = _parse_header(stretch, 0)
    if header is None or computed != header.checksum:
        return 0
    copy, computed = _parse_header(stretch, stretch.size_bytes - HEADER_BYTES)
    is_copied = copy is not None and computed == copy.checksum
    return 1 + is_copied + sum(is_whole for is_whole, *_ in _read_labels(stretch, header))


def _read_stretch(stretch: Source, offset: int, length: int) -> bytes:
    if not 0 <= offset <= stretch.size_bytes - length:
        raise FormatError("it is outside", structure=WHAT, image_offset=stretch.origin)
    return stretch.read(offset, length)


USED_BLOCK_TYPES: Final = (
    KINDS.logical_volume_family,
    KINDS.logical_volume,
    KINDS.continuation,
    KINDS.encrypted_extents,
    KINDS.logical_extents_index,
    KINDS.logical_extents,
    KINDS.base_extents,
)
"""Types of the blocks that are used."""


def _has_encrypted_extents(blocks: Blocks) -> bool | None:
    """Whether volumes are encrypted, if the only evidence is a block that encrypted ones have; None if unknown."""
    return True if any(kind == KINDS.encrypted_extents for _, kind, _ in blocks) else None


def _decrypt_metadata(
    stretch: Source, header: CoreStorage.PhysicalVolumeHeader, descriptor_at: int
) -> tuple[Blocks, list[Finding]]:
    """Read the blocks of the encrypted metadata; both copies are used if the first one is damaged."""
    data = _read_stretch(stretch, descriptor_at, records.VOLUME_GROUPS_DESCRIPTOR.width)
    # The descriptor is not encrypted; its blocks are, with keys that the header stores in plain text (libfvde,
    # documentation of the format).
    descriptor = grammar.parse(
        grammar.CoreStorage.VolumeGroupsDescriptor, data, structure="descriptor", image_offset=descriptor_at
    )
    count = min(descriptor.num_blocks * header.len_block // UNIT_BYTES, MAX_UNITS)
    fields = HEAD.object_id, HEAD.block_type, HEAD.transaction_id, HEAD.checksum, HEAD.version, HEAD.len_block
    found: list[tuple[int, int, int, bytes]] = []
    findings: list[Finding] = []
    num_copies = 0
    key = bytes(header.key) + bytes(header.physical_volume_id)
    for block in (descriptor.primary_block, descriptor.secondary_block):
        start = block * header.len_block
        try:
            stored = np.frombuffer(_read_stretch(stretch, start, count * UNIT_BYTES), np.uint8).reshape(-1, UNIT_BYTES)
        except FormatError:
            continue
        num_copies += 1
        # The identifier of the volume is the second key of XTS; units count from the start of the metadata. Those that
        # were never written are zeros, and stay so.
        units, numbers = stored.copy(), np.flatnonzero(stored.any(axis=1))
        plain = decrypt_units(key, stored[numbers].reshape(-1), numbers.astype(np.uint64))
        units[numbers] = plain.reshape(-1, UNIT_BYTES)
        head = decode_columns(HEAD, units.reshape(-1), np.arange(len(units)) * UNIT_BYTES, fields)
        # Anything but a block has another header.
        is_block = (head["version"] == 1) & (head["len_block"] == UNIT_BYTES)
        rows = np.flatnonzero(is_block & np.isin(head["block_type"], USED_BLOCK_TYPES))
        is_wiped = head["checksum"][rows] == WIPED
        is_whole = is_wiped | (crc32c(units[rows]) == head["checksum"][rows])
        whole, bad = rows[is_whole], rows[~is_whole]
        # A wiped block has no type, but it is newer than the block that it replaces.
        kinds = np.where(is_wiped, 0, head["block_type"][rows])[is_whole]
        columns = (head["transaction_id"][whole], head["object_id"][whole], kinds)
        found += zip(*(column.tolist() for column in columns), map(bytes, units[whole]), strict=True)
        if len(bad):
            message = f"{format_count(len(bad), 'block')} of this copy of the metadata without the right checksum"
            at = stretch.origin + start + int(bad[0]) * UNIT_BYTES
            findings.append(Finding("checksum-mismatch", "warning", WHAT, at, message))
        elif not len(whole):
            message = "this copy of the metadata holds no block about a logical volume"
            findings.append(Finding("structure-invalid", "warning", WHAT, stretch.origin + start, message))
        else:
            break
    if not num_copies:
        raise FormatError("no copy can be read", structure="encrypted metadata", image_offset=stretch.origin)
    # The later of two blocks of one transaction counts as newer.
    found = sorted(found, key=lambda block: block[0])[::-1]
    return [block[1:] for block in found], findings


def _read_logical_volumes(blocks: Blocks, block_bytes: int, space_bytes: int) -> list[LogicalVolume]:
    """List the logical volumes, each according to its newest block."""
    volumes: dict[str, LogicalVolume] = {}
    # Blocks are in order of age, the newest first.
    newest = {number: (kind, data) for number, kind, data in reversed(blocks)}
    has_encrypted_extents = _has_encrypted_extents(blocks)
    for data in (data for _, kind, data in blocks if kind == KINDS.logical_volume):
        block = grammar.parse(grammar.CoreStorage.LogicalVolume, data, structure="logical volume")
        properties = _decompress_text(data[block.ofs_text :][: block.len_piece], block.len_stored, block.len_text)
        name, identifier, family_name, size = (
            get_value(properties, f"com.apple.corestorage.lv.{word}", "integer" if word == "size" else "string")
            for word in ("name", "uuid", "familyUUID", "size")
        )
        if identifier in volumes or not (name or size):
            continue
        kind, family = newest.get(block.family_object_id, (0, b""))
        text = _read_family_text(newest, family) if kind == KINDS.logical_volume_family else b""
        is_encrypted = _is_encrypted(text)
        family_id = b""
        with suppress(ValueError):
            family_id = uuid.UUID(family_name).bytes
        size_bytes, keys = _parse_number(size), text if b"KEKWrappedVolumeKeyStruct" in text else b""
        status = re.search(rb"<key>ConversionStatus</key>\s*<string[^>]*>([^<]*)<", text)
        if status and status[1] in (b"Converting", b"Pending"):
            place: tuple[int | None, str] = None, "which is encrypted or decrypted in part, as that was going on"
        else:
            place = _locate_volume(newest, block, size_bytes, block_bytes, space_bytes)
        if is_encrypted is None:
            is_encrypted = has_encrypted_extents
        volumes[identifier] = LogicalVolume(name, size_bytes, family_id, is_encrypted, keys, *place)
    return list(volumes.values())


def _locate_volume(
    newest: NewestBlocks, volume: CoreStorage.LogicalVolume, size_bytes: int, block_bytes: int, space_bytes: int
) -> tuple[int | None, str]:
    """Return the offset of a logical volume in the physical one, or why it is unknown."""
    extents = newest.get(volume.extents_object_id)
    if extents is None:
        return None, "whose place is not recorded"
    kind, data = extents
    entries = _split_entries(data, records.LOGICAL_EXTENT.width)
    if kind != KINDS.logical_extents or not entries:
        return None, "which is in many pieces"
    base = 0
    if volume.base_object_id:
        base_kind, base_data = newest.get(volume.base_object_id, (0, b""))
        places = _split_entries(base_data, records.BASE_EXTENT.width) if base_kind == KINDS.base_extents else []
        if not places:
            return None, "without a record of where its blocks start"
        base = grammar.parse(grammar.CoreStorage.BaseExtent, places[0], structure="base extent").physical_block
    parsed = [grammar.parse(grammar.CoreStorage.LogicalExtent, entry, structure="logical extent") for entry in entries]
    parsed.sort(key=lambda each: each.logical_block)
    first, end = parsed[0], 0
    for entry in parsed:
        if entry.logical_block != end or entry.physical_block - first.physical_block != end:
            return None, f"which is in {format_count(len(parsed), 'piece')}"
        end += entry.num_blocks
    offset = (base + first.physical_block) * block_bytes
    if any(entry.physical_volume_number for entry in parsed) or offset >= space_bytes:
        return None, "which is outside of this physical volume"
    if end * block_bytes < size_bytes:
        return None, f"of which only {format_bytes(end * block_bytes)} have a place"
    return offset, ""


def _split_entries(block: bytes, width: int) -> list[bytes]:
    """Cut a block into its entries; none if its count exceeds the block."""
    head = grammar.parse(grammar.CoreStorage.ExtentsHead, block, structure="extents")
    if head.num_entries > (UNIT_BYTES - records.EXTENTS_HEAD.width) // width:
        return []
    return [block[records.EXTENTS_HEAD.width + number * width :][:width] for number in range(head.num_entries)]


def _read_family_text(newest: NewestBlocks, data: bytes) -> bytes:
    """Return the text of a family, which may be compressed and continue in other blocks."""
    head = grammar.parse(grammar.CoreStorage.LogicalVolumeFamily, data, structure="logical volume family")
    pieces = [data[head.ofs_text :][: head.len_piece]]
    following, visited = head.next_object_id, set[int]()
    while following and following not in visited:
        visited.add(following)
        kind, block = newest.get(following, (0, b""))
        if kind != KINDS.continuation:
            break
        continuation = grammar.parse(grammar.CoreStorage.Continuation, block, structure="text")
        pieces.append(block[records.CONTINUATION.width :][: continuation.len_piece])
        following = continuation.next_object_id
    return _decompress_text(b"".join(pieces), head.len_stored, head.len_text)


def _decompress_text(text: bytes, stored_bytes: int, text_bytes: int) -> bytes:
    """Decompress a text whose stored length differs; empty if that fails."""
    if stored_bytes == text_bytes:
        return text
    try:
        return zlib.decompressobj().decompress(text, MAX_TEXT_BYTES)
    except zlib.error:
        return b""


def _is_encrypted(text: bytes) -> bool | None:
    """Whether a family is encrypted, by its block algorithms or else its declared type; None if unknown."""
    methods = set(re.findall(rb"<key>BlockAlgorithm</key>\s*<string[^>]*>([^<]*)<", text))
    if methods:
        return bool(methods - {b"None"})
    kind = get_value(text, "com.apple.corestorage.lvf.encryption.type", "string")
    return kind != "None" if kind else None


def get_value(text: bytes, name: str, kind: str) -> str:
    """Return the value of a key in XML; empty without the key."""
    from html import unescape

    pattern = rb"<key>" + re.escape(name.encode()) + rb"</key>\s*<" + kind.encode() + rb"[^>]*>([^<]*)<"
    match = re.search(pattern, text)
    return unescape(match[1].decode(errors="replace")) if match else ""


def _parse_number(text: str) -> int:
    digits = re.fullmatch(r"(0x)?([0-9a-fA-F]{1,16})", text)
    return int(digits[2], 16 if digits[1] else 10) if digits and (digits[1] or text.isdecimal()) else 0
