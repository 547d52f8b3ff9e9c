"""Encrypted disk images, read in place with their password.

PBKDF2 with HMAC-SHA-1 makes a key of the password, which unwraps by 3DES the two of the image: one of AES for its
chunks, and one of HMAC-SHA-1, which makes the initial vector of each chunk of its number. Version 2 (``encrcdsa``)
has a header with any number of keys; version 1 (``cdsaencr``) has a trailer, and wraps the keys twice, as CMS does
(RFC 2630, 12.6). In a sparse bundle the header is the file ``token``, and each band has chunks of its own.
"""

from __future__ import annotations

import hashlib
import hmac
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError, LockedError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.crypto import load_ciphers
from layoutscope.image.source import FillingSource, Source
from layoutscope.structs import grammar
from layoutscope.structs.records import (
    ENCRYPTED_IMAGE_HEADER,
    FORMER_TRAILER,
    KEY_LIST,
    KEY_PLACE,
    PASSWORD_KEY,
)

if TYPE_CHECKING:
    from layoutscope.structs.grammar import EncryptedImage

    Keys = tuple[bytes, bytes]
    """What decrypts the chunks of an image, and what makes their initial vectors."""

WHAT: Final = "encrypted disk image"
MAX_ROUNDS: Final = 10_000_000
"""Rounds of PBKDF2: macOS measures how many take a part of a second, some hundred thousand."""

MAX_KEYS: Final = 64
MAX_CHUNK_BYTES: Final = 1 << 20
MAX_WRAPPED_BYTES: Final = 1 << 12
WRAP_KEY_BYTES: Final = 24
HMAC_KEY_BYTES: Final = 20
IV_BYTES: Final = 16
DES_BYTES: Final = 8
"""Bytes of a block of 3DES."""

KEY_MARK: Final = b"CKIE\0"
"""What follows the keys that are unwrapped (not documented; in all images seen)."""

CMS_VECTOR: Final = bytes.fromhex("4adda22c79e82105")
"""The initial vector of the outer wrapping of version 1 (RFC 2630, 12.6.1)."""

CMS_BYTES: Final = 4
"""Before a key that version 1 unwraps."""


def open_encrypted(source: Source, header: EncryptedImage.Header, password: str) -> Source:
    """Open the image in an encrypted one; what the file lacks of it counts as never read."""
    return _open_chunks(source, header.ofs_data, source.size_bytes, header, unlock_keys(source, header, password))


def open_former(source: Source, trailer: EncryptedImage.FormerTrailer, password: str) -> Source:
    """Open the image in an encrypted one of version 1, as :func:`open_encrypted`."""
    end = source.size_bytes - FORMER_TRAILER.width
    key_bits = former_key_bits(trailer)
    _refuse_sizes(trailer, key_bits, end)
    wrapped = [
        (trailer.wrapped_key, trailer.len_wrapped_key),
        (trailer.wrapped_hmac_key, trailer.len_wrapped_hmac_key),
    ]
    if not 0 < trailer.len_salt <= len(trailer.salt) or any(
        not DES_BYTES < length <= len(data) or length % DES_BYTES for data, length in wrapped
    ):
        raise FormatError("the sizes of a wrapped key are impossible", structure=WHAT, image_offset=end)
    _refuse_rounds(trailer.num_rounds, end)
    secret = _wrapping_key(password, trailer.salt[: trailer.len_salt], trailer.num_rounds)
    key, vector_key = (_unwrap_version_1(secret, data[:length]) for data, length in wrapped)
    if key is None or vector_key is None or len(key) * 8 != key_bits or len(vector_key) != HMAC_KEY_BYTES:
        raise LockedError(f"{source.name}: the password does not open the encrypted disk image")
    return _open_chunks(source, 0, end, trailer, (key, vector_key))


def former_key_bits(trailer: EncryptedImage.FormerTrailer) -> int:
    """Length of the key of an image of version 1, by that of what is wrapped: it adds 24 bytes."""
    return 8 * (trailer.len_wrapped_key - 3 * DES_BYTES)


def unlock_keys(source: Source, header: EncryptedImage.Header, password: str) -> Keys:
    """Unlock the keys of an image by the file that begins with its header, as :func:`open_encrypted`."""
    _refuse_sizes(header, header.key_bits, 0)
    keys = _password_keys(source)
    if not keys:
        raise UnsupportedError(
            f"{source.name}: no password opens the encrypted disk image, only a certificate", code="encrypted-image"
        )
    key_bytes = header.key_bits // 8
    found = next(filter(None, (_unwrap_keys(source, at, key, password, key_bytes) for at, key in keys)), None)
    if found is None:
        raise LockedError(f"{source.name}: the password does not open the encrypted disk image")
    return found


def _refuse_sizes(
    described: EncryptedImage.Header | EncryptedImage.FormerTrailer, key_bits: int, image_offset: int
) -> None:
    size, chunk = described.len_data, described.len_block
    if not 0 < chunk <= MAX_CHUNK_BYTES or chunk % IV_BYTES or key_bits not in (128, 256) or size > 2**62:
        raise FormatError(
            f"{size:,} bytes in chunks of {chunk:,} with keys of {key_bits} bits are impossible",
            structure=WHAT, image_offset=image_offset,
        )  # fmt: skip


def _refuse_rounds(rounds: int, image_offset: int) -> None:
    if not 0 < rounds <= MAX_ROUNDS:
        raise FormatError(f"its key takes {rounds:,} rounds of PBKDF2", structure=WHAT, image_offset=image_offset)


def _open_chunks(
    source: Source, start: int, stop: int, described: EncryptedImage.Header | EncryptedImage.FormerTrailer, keys: Keys
) -> Source:
    """Open the image whose chunks are between two places of a file."""
    return DecryptedSource(source, start, stop, described.len_block, described.len_data, keys)


def _password_keys(source: Source) -> list[tuple[int, EncryptedImage.PasswordKey]]:
    """List the keys that passwords open, with where what is wrapped begins."""
    found = []
    start = ENCRYPTED_IMAGE_HEADER.width
    head = source.read(start, KEY_LIST.width)
    listed = grammar.parse(grammar.EncryptedImage.KeyList, head, structure=WHAT, image_offset=start)
    for number in range(min(listed.num_keys, MAX_KEYS)):
        at = start + KEY_LIST.width + number * KEY_PLACE.width
        place = grammar.parse(
            grammar.EncryptedImage.KeyPlace, source.read(at, KEY_PLACE.width), structure=WHAT, image_offset=at
        )
        if place.kind != grammar.EncryptedImage.KeyKind.password:
            continue
        data = source.read(place.ofs_key, PASSWORD_KEY.width)
        key = grammar.parse(grammar.EncryptedImage.PasswordKey, data, structure=WHAT, image_offset=place.ofs_key)
        sizes_fit = 0 < key.len_salt <= len(key.salt) and DES_BYTES <= key.len_wrap_iv <= len(key.wrap_iv)
        if not sizes_fit or not 0 < key.len_wrapped <= MAX_WRAPPED_BYTES or key.len_wrapped % DES_BYTES:
            raise FormatError("the sizes of a wrapped key are impossible", structure=WHAT, image_offset=place.ofs_key)
        _refuse_rounds(key.num_rounds, place.ofs_key)
        found.append((place.ofs_key + PASSWORD_KEY.width, key))
    return found


def _unwrap_keys(
    source: Source, at: int, key: EncryptedImage.PasswordKey, password: str, key_bytes: int
) -> Keys | None:
    """Unwrap the keys of the image; None if the password is another one."""
    wrapped = source.read(at, key.len_wrapped)
    plain = _strip_padding(unwrap(password, key.salt[: key.len_salt], key.num_rounds, key.wrap_iv[:DES_BYTES], wrapped))
    wanted = key_bytes + HMAC_KEY_BYTES
    if plain is None or len(plain) < wanted or plain[wanted:] not in (b"", KEY_MARK):
        return None
    return plain[:key_bytes], plain[key_bytes:wanted]


def _unwrap_version_1(secret: bytes, wrapped: bytes) -> bytes | None:
    """Unwrap a key of version 1: decrypted, turned round, and decrypted with its first bytes as the vector."""
    outer = _strip_padding(_decrypt_cbc(secret, CMS_VECTOR, wrapped))
    if outer is None or len(outer) <= DES_BYTES or len(outer) % DES_BYTES:
        return None
    turned = outer[::-1]
    inner = _strip_padding(_decrypt_cbc(secret, turned[:DES_BYTES], turned[DES_BYTES:]))
    return None if inner is None else inner[CMS_BYTES:]


def _strip_padding(plain: bytes) -> bytes | None:
    """Cut off the padding (PKCS 7); None if it is none."""
    padding = plain[-1]
    is_padded = 0 < padding <= DES_BYTES and plain.endswith(bytes([padding]) * padding)
    return plain[: len(plain) - padding] if is_padded else None


def unwrap(password: str, salt: bytes, rounds: int, iv: bytes, wrapped: bytes) -> bytes:
    """Decrypt what a password wraps, with its padding."""
    return _decrypt_cbc(_wrapping_key(password, salt, rounds), iv, wrapped)


def _wrapping_key(password: str, salt: bytes, rounds: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha1", password.encode(), salt, rounds, WRAP_KEY_BYTES)


def _decrypt_cbc(secret: bytes, iv: bytes, wrapped: bytes) -> bytes:
    ciphers, algorithms, modes = load_ciphers()
    try:
        former: Any = import_module("cryptography.hazmat.decrepit.ciphers.algorithms")
    except ImportError:  # older versions have 3DES among the others
        former = algorithms
    worker = ciphers.Cipher(former.TripleDES(secret), modes.CBC(iv)).decryptor()
    plain: bytes = worker.update(wrapped) + worker.finalize()
    return plain


class DecryptedSource(FillingSource):
    """What encrypted chunks between two places of a file hold; what it lacks of them counts as never read."""

    def __init__(self, source: Source, start: int, stop: int, chunk_bytes: int, size_bytes: int, keys: Keys) -> None:
        self._set_around(source, size_bytes)
        stored = max(0, stop - start) // chunk_bytes * chunk_bytes
        if stored < size_bytes:
            self._unread = np.array([[stored, size_bytes - stored]])
            end, left = source.size_bytes, size_bytes - stored
            message = f"the file ends at byte {end:,}; {left:,} bytes that it should hold are missing"
            self.own_findings = (Finding("image-incomplete", "error", WHAT, end, message),)
        self._first, self._chunk_bytes = start, chunk_bytes
        self._cipher_key, self._vector_key = keys

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        size, stop = self._chunk_bytes, image_offset + len(target)
        ciphers, algorithms, modes = load_ciphers()
        for number in range(image_offset // size, -(-stop // size)):
            start = number * size
            low, high = max(start, image_offset), min(start + size, stop)
            place = self._first + start
            if place + size > self._source.size_bytes:  # what is missing counts as never read
                target[low - image_offset : high - image_offset] = bytes(high - low)
                continue
            vector = hmac.digest(self._vector_key, number.to_bytes(4, "big"), "sha1")[:IV_BYTES]
            worker = ciphers.Cipher(algorithms.AES(self._cipher_key), modes.CBC(vector)).decryptor()
            plain = worker.update(self._source.read(place, size))
            target[low - image_offset : high - image_offset] = plain[low - start : high - start]
        return len(target)
