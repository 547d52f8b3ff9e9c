"""CoreStorage physical volumes: which logical volumes they are part of, and whether these are encrypted.

libyal's description of FileVault Drive Encryption; Apple has none. Names and sizes of the logical volumes are encrypted
with a key that stands in the header: AES is needed to read them, a password is not.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import DISK_LABEL, METADATA_BLOCK_HEAD, VOLUME_GROUPS_DESCRIPTOR
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.image.source import Window
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.ondisk.grammar import CoreStorage

UNIT_BYTES: Final = 8192
"""Size of metadata blocks, and of what is encrypted together."""

MOST_UNITS: Final = 8192
"""Twice as much metadata as volumes have."""

MOST_LABEL_BYTES: Final = 1 << 20
HEAD: Final = METADATA_BLOCK_HEAD
NO_LIBRARY: Final = "name and size of its logical volume need the package cryptography (install layoutscope[crypto])"
UNREADABLE: Final = "its metadata cannot be read, so that name and size of its logical volume are unknown"


@frozen
class PhysicalVolume:
    """What a physical volume tells without a password.

    Attributes
    ----------
    group : str
        UUID of the logical volume group; empty where it is not set.
    group_name : str
        Its name; empty where it cannot be read.
    logical_volumes : tuple of (str, int)
        Name and size in bytes of each.
    is_encrypted : bool or None
        Whether they are, as under FileVault 2; None where nothing tells.
    reason : str
        Why the logical volumes are not known; empty where they are.
    """

    group: str
    group_name: str = ""
    logical_volumes: tuple[tuple[str, int], ...] = ()
    is_encrypted: bool | None = None
    reason: str = ""

    @property
    def label(self) -> str:
        """What to call it."""
        name = "FileVault 2 on CoreStorage" if self.is_encrypted else "CoreStorage"
        return f"{name} of group {self.group}" if self.group else name

    @property
    def about(self) -> str:
        """What else is known, in words."""
        state = {True: "encrypted", False: "not encrypted", None: "which may be encrypted"}[self.is_encrypted]
        volumes = [
            f"logical volume {name!r:.200} of {format_bytes(size)}, {state}" for name, size in self.logical_volumes[:8]
        ]
        group = [f"group {self.group_name!r:.200}"] if self.group_name else []
        return "; ".join([*group, *(volumes or [self.reason])])


def read_physical_volume(stretch: Window, header: CoreStorage.PhysicalVolumeHeader, decoder: Decoder) -> PhysicalVolume:
    """Read what is known of the logical volumes.

    Parameters
    ----------
    stretch : Window
        The physical volume.
    header : CoreStorage.PhysicalVolumeHeader
        Its header.
    decoder : Decoder
        What decodes the heads of its metadata blocks.
    """
    group = uuid.UUID(bytes=bytes(header.logical_volume_group_id))
    found = PhysicalVolume(str(group).upper() if group.int else "", reason=UNREADABLE)
    try:
        start, label = _disk_label(stretch, header)
        text = _read(stretch, start + label.ofs_property_list, min(label.len_property_list, UNIT_BYTES))
        name = _value(text, "com.apple.corestorage.lvg.name", "string")
        found = PhysicalVolume(found.group, name, reason=UNREADABLE)
        units = _decrypted(stretch, header, start + label.ofs_descriptor)
    except (FormatError, ValueError):
        # AES-XTS refuses two equal keys.
        return found
    except ImportError:
        return PhysicalVolume(found.group, found.group_name, reason=NO_LIBRARY)
    return _described(found, units, decoder)


def _disk_label(stretch: Window, header: CoreStorage.PhysicalVolumeHeader) -> tuple[int, CoreStorage.DiskLabel]:
    """Find a copy of the disk label: where it starts, and its first block.

    Raises
    ------
    FormatError
        If there is none.
    """
    size = DISK_LABEL.width
    # The header names the blocks at which the four copies of the label start.
    for block in header.metadata_block:
        start = block * header.len_block
        try:
            data = _read(stretch, start, size)
        except FormatError:
            continue
        label = grammar.parse(grammar.CoreStorage.DiskLabel, data, structure="disk label", image_offset=start)
        if (
            label.head.block_type == grammar.CoreStorage.BlockType.disk_label
            and label.len_label <= MOST_LABEL_BYTES * 8
        ):
            return start, label
    raise FormatError("no copy of it can be read", structure="disk label", image_offset=stretch.origin)


def _read(stretch: Window, offset: int, length: int) -> bytes:
    if not 0 <= offset <= stretch.size_bytes - length:
        raise FormatError("it lies outside", structure="CoreStorage metadata", image_offset=stretch.origin)
    return stretch.read(offset, length)


def _decrypted(stretch: Window, header: CoreStorage.PhysicalVolumeHeader, descriptor_at: int) -> NDArray[np.uint8]:
    """Read the encrypted metadata, of the copy that can be read, unit by unit.

    Raises
    ------
    ImportError
        If the package is missing that decrypts them.
    FormatError
        If no copy can be read.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    data = _read(stretch, descriptor_at, VOLUME_GROUPS_DESCRIPTOR.width)
    # The descriptor lies in the clear; what it leads to is encrypted with keys that stand beside it, in the header.
    # That hides nothing; it is how the format is (libfvde, documentation of the format).
    descriptor = grammar.parse(
        grammar.CoreStorage.VolumeGroupsDescriptor, data, structure="descriptor", image_offset=descriptor_at
    )
    count = min(descriptor.num_blocks * header.len_block // UNIT_BYTES, MOST_UNITS)
    for block in (descriptor.primary_block, descriptor.secondary_block):
        try:
            stored = np.frombuffer(_read(stretch, block * header.len_block, count * UNIT_BYTES), np.uint8)
        except FormatError:
            continue
        units = stored.reshape(-1, UNIT_BYTES).copy()
        key = algorithms.AES(bytes(header.key) + bytes(header.physical_volume_id))
        for number in np.flatnonzero(units.any(axis=1)).tolist():
            # The identifier of the volume is the second key of XTS; units count from the start of the metadata.
            worker = Cipher(key, modes.XTS(number.to_bytes(16, "little"))).decryptor()
            units[number] = np.frombuffer(worker.update(units[number].tobytes()) + worker.finalize(), np.uint8)
        return units
    raise FormatError("no copy can be read", structure="encrypted metadata", image_offset=stretch.origin)


def _described(found: PhysicalVolume, units: NDArray[np.uint8], decoder: Decoder) -> PhysicalVolume:
    """Take from the metadata what they say, the newest block of each volume first."""
    kinds = grammar.CoreStorage.BlockType
    starts = np.arange(len(units)) * UNIT_BYTES
    fields = (HEAD.version, HEAD.len_block, HEAD.block_type, HEAD.transaction_id)
    head = decoder.columns(HEAD, units.reshape(-1), starts, fields)
    # Units that were never written are zeros, which were left as they are; what is no block has another head.
    is_block = (head["version"] == 1) & (head["len_block"] == UNIT_BYTES)
    kind, order = np.where(is_block, head["block_type"], 0), np.argsort(head["transaction_id"], kind="stable")[::-1]
    volumes: dict[str, tuple[str, int]] = {}
    for row in (row for row in order.tolist() if kind[row] == kinds.logical_volume):
        text = units[row].tobytes()
        name, size = (_value(text, f"com.apple.corestorage.lv.{word}", kind_) for word, kind_ in _VOLUME_VALUES)
        if name or size:
            volumes.setdefault(_value(text, "com.apple.corestorage.lv.uuid", "string"), (name, _number(size)))
    families = [row for row in order.tolist() if kind[row] == kinds.logical_volume_family]
    is_encrypted = _is_encrypted(units[family].tobytes() for family in families)
    if (kind == kinds.encrypted_extents).any():
        is_encrypted = True
    reason = "" if volumes else UNREADABLE
    return PhysicalVolume(found.group, found.group_name, tuple(volumes.values()), is_encrypted, reason)


_VOLUME_VALUES: Final = (("name", "string"), ("size", "integer"))


def _is_encrypted(texts: Iterator[bytes]) -> bool | None:
    """Tell by the ways in which keys are wrapped; the newest text that names some decides."""
    for text in texts:
        methods = set(re.findall(rb"<key>BlockAlgorithm</key><string[^>]*>([^<]*)<", text))
        if methods:
            return bool(methods - {b"None"})
        if _value(text, "com.apple.corestorage.lvf.encryption.type", "string") == "None":
            return False
    return None


def _value(text: bytes, name: str, kind: str) -> str:
    """Return what follows a key in XML; empty where it is not there."""
    from html import unescape

    wanted = rb"<key>" + re.escape(name.encode()) + rb"</key>\s*<" + kind.encode() + rb"[^>]*>([^<]*)<"
    found = re.search(wanted, text)
    return unescape(found[1].decode(errors="replace")) if found else ""


def _number(text: str) -> int:
    digits = re.fullmatch(r"(0x)?([0-9a-fA-F]{1,16})", text)
    return int(digits[2], 16 if digits[1] else 10) if digits and (digits[1] or text.isdecimal()) else 0
