"""Encrypted disk images (version 2, ``encrcdsa``), read in place with their password.

PBKDF2 with HMAC-SHA-1 makes a key of the password, which unwraps by 3DES the two of the image: one of AES for its
chunks, and one of HMAC-SHA-1, which makes the initial vector of each chunk of its number.
"""

from __future__ import annotations

import hashlib
import hmac
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError, LockedError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.ddrescue import RescuedSource
from layoutscope.image.source import FillingSource, Source
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import ENCRYPTED_IMAGE_HEADER, KEY_LIST, KEY_PLACE, PASSWORD_KEY

if TYPE_CHECKING:
    from layoutscope.ondisk.grammar import EncryptedImage

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
"""Of a block of 3DES."""

KEY_MARK: Final = b"CKIE\0"
"""What follows the keys that are unwrapped (not documented; in all images seen)."""


def open_encrypted(source: Source, header: EncryptedImage.Header, password: str) -> Source:
    """Open the image in an encrypted one; what the file lacks of it counts as never read.

    Raises
    ------
    LockedError
        If the password opens none of its keys.
    UnsupportedError
        If the package ``cryptography`` is missing, or no password opens it.
    FormatError
        If the header contradicts the format.
    """
    size, chunk = header.len_data, header.len_block
    if not 0 < chunk <= MAX_CHUNK_BYTES or chunk % IV_BYTES or header.key_bits not in (128, 256) or size > 2**62:
        raise FormatError(
            f"{size:,} bytes in chunks of {chunk:,} with keys of {header.key_bits} bits are impossible",
            structure=WHAT, image_offset=0,
        )  # fmt: skip
    keys = _password_keys(source)
    if not keys:
        raise UnsupportedError(
            f"{source.name}: no password opens the encrypted disk image, only a certificate", code="encrypted-image"
        )
    key_bytes = header.key_bits // 8
    found = next(filter(None, (_unwrapped(source, at, key, password, key_bytes) for at, key in keys)), None)
    if found is None:
        raise LockedError(f"{source.name}: the password does not open the encrypted disk image")
    disk = DecryptedSource(source, header, *found)
    stored = max(0, source.size_bytes - header.ofs_data) // chunk * chunk
    if stored >= size:
        return disk
    disk.own_findings = (
        Finding(
            "image-incomplete", "error", WHAT, source.size_bytes,
            f"the file ends at byte {source.size_bytes:,}; {size - stored:,} bytes that it should hold are missing",
        ),
    )  # fmt: skip
    return RescuedSource(disk, np.array([[stored, size - stored]], np.int64))


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
        if not 0 < key.num_rounds <= MAX_ROUNDS:
            raise FormatError(
                f"its key takes {key.num_rounds:,} rounds of PBKDF2", structure=WHAT, image_offset=place.ofs_key
            )
        found.append((place.ofs_key + PASSWORD_KEY.width, key))
    return found


def _unwrapped(
    source: Source, at: int, key: EncryptedImage.PasswordKey, password: str, key_bytes: int
) -> tuple[bytes, bytes] | None:
    """Unwrap the keys of the image: of AES and of HMAC; None if the password is another one."""
    wrapped = source.read(at, key.len_wrapped)
    plain = unwrap(password, key.salt[: key.len_salt], key.num_rounds, key.wrap_iv[:DES_BYTES], wrapped)
    wanted = key_bytes + HMAC_KEY_BYTES
    padding = plain[-1]
    is_padded = 0 < padding <= DES_BYTES and plain.endswith(bytes([padding]) * padding)
    if not is_padded or plain[wanted : len(plain) - padding] not in (b"", KEY_MARK) or len(plain) - padding < wanted:
        return None
    return plain[:key_bytes], plain[key_bytes:wanted]


def unwrap(password: str, salt: bytes, rounds: int, iv: bytes, wrapped: bytes) -> bytes:
    """Decrypt what a password wraps, with its padding."""
    ciphers, modes, triple_des, _ = _library()
    key = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, rounds, WRAP_KEY_BYTES)
    worker = ciphers.Cipher(triple_des(key), modes.CBC(iv)).decryptor()
    plain: bytes = worker.update(wrapped) + worker.finalize()
    return plain


def _library() -> tuple[Any, Any, Any, Any]:
    """Import the optional package: ciphers, modes, 3DES and AES."""
    try:
        from cryptography.hazmat.primitives import ciphers
        from cryptography.hazmat.primitives.ciphers import algorithms, modes
    except ImportError as error:
        raise UnsupportedError(
            "unlocking needs the package cryptography", code="crypto-missing", advice="install layoutscope[crypto]"
        ) from error
    try:
        former: Any = import_module("cryptography.hazmat.decrepit.ciphers.algorithms")
    except ImportError:  # older versions have 3DES among the others
        former = algorithms
    return ciphers, modes, former.TripleDES, algorithms.AES


class DecryptedSource(FillingSource):
    """The image in an encrypted one.

    Parameters
    ----------
    source : Source
        The file; closed with this.
    header : EncryptedImage.Header
        Its header.
    key, hmac_key : bytes
        The keys of its chunks and of their initial vectors.
    """

    def __init__(self, source: Source, header: EncryptedImage.Header, key: bytes, hmac_key: bytes) -> None:
        self._source = self.around = source
        self._first, self._chunk_bytes = header.ofs_data, header.len_block
        self._key, self._hmac_key = key, hmac_key
        self.name = source.name
        self.size_bytes = header.len_data
        self.counter = source.counter

    def _fetch_into(self, image_offset: int, target: memoryview) -> int:
        size, stop = self._chunk_bytes, image_offset + len(target)
        ciphers, modes, _, aes = _library()
        for number in range(image_offset // size, -(-stop // size)):
            start = number * size
            low, high = max(start, image_offset), min(start + size, stop)
            place = self._first + start
            if place + size > self._source.size_bytes:  # what is missing counts as never read
                target[low - image_offset : high - image_offset] = bytes(high - low)
                continue
            vector = hmac.digest(self._hmac_key, number.to_bytes(4, "big"), "sha1")[:IV_BYTES]
            worker = ciphers.Cipher(aes(self._key), modes.CBC(vector)).decryptor()
            plain = worker.update(self._source.read(place, size))
            target[low - image_offset : high - image_offset] = plain[low - start : high - start]
        return len(target)

    def close(self) -> None:
        """Close the file."""
        self._source.close()
