"""FileVault 2: from a password to the plain text of logical volumes of CoreStorage.

libyal's description of FileVault Drive Encryption. Keys made of passwords wrap keys, which wrap the one of the volume.
The wrapped ones are in the metadata of CoreStorage, or, for a volume that a Mac starts from, in an encrypted file on
another partition, Recovery HD.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError, LayoutscopeError, LockedError
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem
from layoutscope.image.crypto import UnlockedSource, load_ciphers, password_key, unwrap_key
from layoutscope.image.source import Window
from layoutscope.partition.corestorage import read_physical_volume
from layoutscope.structs import grammar
from layoutscope.structs.records import PASSPHRASE_WRAPPED_KEY, WRAPPED_VOLUME_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.image.source import Source
    from layoutscope.partition.corestorage import PhysicalVolume
    from layoutscope.partition.maps import VolumeCandidate
    from layoutscope.tables import VolumeLayout

WHAT: Final = "FileVault 2 key"
KEY_FILE: Final = "EncryptedRoot.plist.wipekey"
KEY_BYTES: Final = 16
MAX_ROUNDS: Final = 10_000_000
"""Rounds of PBKDF2 that all keys of a volume may ask for together; macOS asks for some 100,000 of each."""

MAX_KEY_FILE_BYTES: Final = 1 << 24
"""Pictures of users are in it; AES-XTS ends at 16 MiB."""


def unlock_volumes(
    source: Source,
    candidates: Sequence[VolumeCandidate],
    password: str,
    *,
    partition: int | None = None,
) -> UnlockedSource | None:
    """Open what is encrypted with a password; None where nothing is that a password could open."""
    found: list[tuple[int, int, bytes]] = []
    tried = 0
    for candidate in candidates:
        if candidate.kind not in ("filevault", "corestorage") or partition not in (None, candidate.partition):
            continue
        stretch = Window(source, candidate.image_offset, candidate.size_bytes)
        physical = read_physical_volume(stretch) or read_physical_volume(stretch, is_lost=True)
        if physical is None:
            continue
        for volume in physical.logical_volumes:
            if volume.volume_offset is None or volume.is_encrypted is False:
                continue
            text = volume.keys or next(_key_files(source, candidates, physical), b"")
            key = next(_volume_keys(text, password, candidate.image_offset), None)
            tried += bool(text)
            if key is not None:
                start = candidate.image_offset + volume.volume_offset
                size = min(volume.size_bytes, source.size_bytes - start)
                # The other key is made of this one and of what the volume belongs to.
                second = hashlib.sha256(key + volume.family).digest()[:KEY_BYTES]
                found.append((start, size, key + second))
    if tried and not found and not any(map(_takes_secret, candidates)):
        raise LockedError(f"{source.name}: the password does not open the volume that FileVault 2 encrypts")
    return UnlockedSource(source, found) if found else None


def _takes_secret(candidate: VolumeCandidate) -> bool:
    """Whether a password may be meant for a volume itself, not for the layers around it."""
    return candidate.is_readable and any(
        option.kind == "secret" for option in filesystem(candidate.kind).traits.options
    )


def _volume_keys(text: bytes, password: str, image_offset: int) -> Iterator[bytes]:
    """Unwrap the keys of the volume that a password opens."""
    kinds: tuple[tuple[Any, Any, str], ...] = (
        (grammar.CoreStorage.PassphraseWrappedKey, PASSPHRASE_WRAPPED_KEY, "PassphraseWrappedKEKStruct"),
        (grammar.CoreStorage.WrappedVolumeKey, WRAPPED_VOLUME_KEY, "KEKWrappedVolumeKeyStruct"),
    )
    users, wrapped = (
        [
            grammar.parse(parser, data[: record.width], structure=WHAT, image_offset=image_offset)
            for data in _list_data_of_key(text, name)
        ]
        for parser, record, name in kinds
    )
    rounds = sum(user.num_rounds for user in users)
    if not all(user.num_rounds for user in users) or rounds > MAX_ROUNDS:
        raise FormatError(
            f"the keys of FileVault 2 take {rounds:,} rounds of PBKDF2", structure=WHAT, image_offset=image_offset
        )
    for user in users:
        opened = unwrap_key(password_key(password, user.salt, user.num_rounds, KEY_BYTES), user.key)
        if opened is not None:
            yield from filter(None, (unwrap_key(opened, item.key) for item in wrapped))


def _list_data_of_key(text: bytes, name: str) -> Iterator[bytes]:
    """Yield the data after a key in XML; keys that wrap nothing have none."""
    for found in re.finditer(rb"<key>" + name.encode() + rb"</key>\s*<data[^>]*>([^<]*)<", text):
        try:
            data = binascii.a2b_base64(found[1])
        except binascii.Error:
            continue
        if data:
            yield data


def _key_files(source: Source, candidates: Sequence[VolumeCandidate], physical: PhysicalVolume) -> Iterator[bytes]:
    """Yield the texts of the files of keys on other partitions, small ones first, that belong to a physical volume."""
    for candidate in sorted(candidates, key=lambda item: item.size_bytes):
        if not candidate.is_readable or filesystem(candidate.kind).traits.has_containers:
            continue
        place = VolumeRequest(source, candidate.image_offset, candidate.size_bytes, candidate.stack)
        try:
            (layout,) = filesystem(candidate.kind).read(place)
        except LayoutscopeError:
            continue  # faults of that volume are reported when it is read itself
        for data in _contents(source, layout):
            text = _key_text(data, physical)
            if text is not None:
                yield text


def _contents(source: Source, layout: VolumeLayout) -> Iterator[bytes]:
    """Yield the contents of each file of keys."""
    entries, extents = layout.columns("entries"), layout.columns("extents")
    names = entries.listed("name")
    for row in (row for row, name in enumerate(names) if name == KEY_FILE):
        file_id, size = (int(entries[name].data[row]) for name in ("file_id", "size_bytes"))
        own = np.flatnonzero(extents["file_id"].data == file_id)
        forks = extents.listed("fork")
        own = own[[forks[number] == "data" for number in own.tolist()]]
        starts, lengths = extents["image_offset"].data[own], extents["length_bytes"].data[own]
        if size <= MAX_KEY_FILE_BYTES and int(lengths.sum()) <= MAX_KEY_FILE_BYTES * 2:
            yield b"".join(source.read(*each) for each in zip(starts.tolist(), lengths.tolist(), strict=True))[:size]


def _key_text(data: bytes, physical: PhysicalVolume) -> bytes | None:
    """Decrypt a file of keys, which is one unit; None where another volume's key encrypts it."""
    ciphers, algorithms, modes = load_ciphers()
    # The description names two keys for it, in two places, beside a second one of zeros.
    for key in (physical.key, physical.own_id):
        try:
            worker = ciphers.Cipher(algorithms.AES(key + bytes(KEY_BYTES)), modes.XTS(bytes(16))).decryptor()
            text: bytes = worker.update(data) + worker.finalize()
        except ValueError:
            continue  # AES-XTS refuses two equal keys, and less than one block of 16 bytes
        if b"<plist" in text or b"CryptoUsers" in text:
            return text
    return None
