"""FileVault 2: from a password to the plain text of CoreStorage logical volumes.

This follows libyal's description of FileVault Drive Encryption. A key derived from the password unwraps a key that
unwraps the key of the volume. The wrapped keys are in the metadata of CoreStorage or, for a startup volume, in an
encrypted file on another partition, Recovery HD. Keys of APFS are in :mod:`layoutscope.filesystems.apfs.keybag`.
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
"""Limit of the PBKDF2 rounds of all keys of a volume; macOS uses some 100,000 per key."""

MAX_KEY_FILE_BYTES: Final = 1 << 24
"""The file includes pictures of users; AES-XTS ends at 16 MiB."""


def unlock_volumes(
    source: Source,
    candidates: Sequence[VolumeCandidate],
    password: str,
    *,
    partition: int | None = None,
) -> UnlockedSource | None:
    """Unlock the encrypted volumes with a password; None if there are none that a password could open."""
    unlocked: list[tuple[int, int, bytes]] = []
    num_tested = 0
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
            text = volume.keys or next(_read_key_files(source, candidates, physical), b"")
            key = next(_unwrap_volume_keys(text, password, candidate.image_offset), None)
            num_tested += bool(text)
            if key is not None:
                start = candidate.image_offset + volume.volume_offset
                size = min(volume.size_bytes, source.size_bytes - start)
                # The second XTS key is derived from this one and the family of the volume.
                second = hashlib.sha256(key + volume.family).digest()[:KEY_BYTES]
                unlocked.append((start, size, key + second))
    # The password may be meant for a volume itself rather than for the layers around it.
    takes_password = any(
        option.kind == "secret"
        for candidate in candidates
        if candidate.is_readable
        for option in filesystem(candidate.kind).traits.options
    )
    if num_tested and not unlocked and not takes_password:
        raise LockedError(f"{source.name}: the password does not open the volume that FileVault 2 encrypts")
    return UnlockedSource(source, unlocked) if unlocked else None


def _unwrap_volume_keys(text: bytes, password: str, image_offset: int) -> Iterator[bytes]:
    """Unwrap the volume keys that a password opens."""
    kinds: tuple[tuple[Any, str], ...] = (
        (grammar.CoreStorage.PassphraseWrappedKey, "PassphraseWrappedKEKStruct"),
        (grammar.CoreStorage.WrappedVolumeKey, "KEKWrappedVolumeKeyStruct"),
    )
    users, wrapped = (
        [
            grammar.parse(kind, data[: grammar.width_of(kind)], structure=WHAT, image_offset=image_offset)
            for data in _find_data(text, name)
        ]
        for kind, name in kinds
    )
    rounds = sum(user.num_rounds for user in users)
    if not all(user.num_rounds for user in users) or rounds > MAX_ROUNDS:
        raise FormatError(
            f"the keys of FileVault 2 take {rounds:,} rounds of PBKDF2", structure=WHAT, image_offset=image_offset
        )
    for user in users:
        unwrapped = unwrap_key(password_key(password, user.salt, user.num_rounds, KEY_BYTES), user.key)
        if unwrapped is not None:
            yield from filter(None, (unwrap_key(unwrapped, item.key) for item in wrapped))


def _find_data(text: bytes, name: str) -> Iterator[bytes]:
    """Yield the data of a key in XML; keys without data wrap nothing."""
    for match in re.finditer(rb"<key>" + name.encode() + rb"</key>\s*<data[^>]*>([^<]*)<", text):
        try:
            data = binascii.a2b_base64(match[1])
        except binascii.Error:
            continue
        if data:
            yield data


def _read_key_files(source: Source, candidates: Sequence[VolumeCandidate], physical: PhysicalVolume) -> Iterator[bytes]:
    """Yield the texts of the key files on other partitions, smallest first, that belong to a physical volume."""
    for candidate in sorted(candidates, key=lambda item: item.size_bytes):
        if not candidate.is_readable or filesystem(candidate.kind).traits.has_containers:
            continue
        place = VolumeRequest(source, candidate.image_offset, candidate.size_bytes, candidate.stack)
        try:
            (layout,) = filesystem(candidate.kind).read(place)
        except LayoutscopeError:
            continue  # faults of that volume are reported when it is read itself
        texts = (_decrypt_key_file(data, physical) for data in _read_contents(source, layout))
        yield from (text for text in texts if text is not None)


def _read_contents(source: Source, layout: VolumeLayout) -> Iterator[bytes]:
    """Yield the contents of each key file."""
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


def _decrypt_key_file(data: bytes, physical: PhysicalVolume) -> bytes | None:
    """Decrypt a key file, which is one unit; None if it belongs to another volume."""
    ciphers, algorithms, modes = load_ciphers()
    # libyal's description gives two different first keys, in two places; the second key is zeros.
    for key in (physical.key, physical.own_id):
        try:
            worker = ciphers.Cipher(algorithms.AES(key + bytes(KEY_BYTES)), modes.XTS(bytes(16))).decryptor()
            text: bytes = worker.update(data) + worker.finalize()
        except ValueError:
            continue  # AES-XTS refuses two equal keys, and less than one block of 16 bytes
        if b"<plist" in text or b"CryptoUsers" in text:
            return text
    return None
