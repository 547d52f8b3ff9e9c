"""Encrypted disk images, read in place with their password.

PBKDF2 with HMAC-SHA-1 derives a 3DES key from the password. It unwraps the two keys of the image: an AES key for its
chunks, and an HMAC-SHA-1 key that derives the initial vector of each chunk from its number. Version 2 (``encrcdsa``)
has a header with any number of keys; version 1 (``cdsaencr``) has a trailer, and wraps the keys twice, as CMS does
(RFC 2630, 12.6). In a sparse bundle, the header is the file ``token``, and the chunks count within each band.
"""

from __future__ import annotations

import hmac
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError, LockedError, UnsupportedError
from layoutscope.findings import Finding
from layoutscope.image.crypto import load_ciphers, password_key
from layoutscope.image.source import Source, trailer_of
from layoutscope.structs import grammar, records
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from layoutscope.structs.grammar import EncryptedImage

    Keys = tuple[bytes, bytes]
    """The key of the chunks of an image, and the key of their initial vectors."""

WHAT: Final = "encrypted disk image"
_DECRYPT: Final = "decrypt it on a Mac with: hdiutil convert IMAGE -format UDTO -o RAW"
PASSWORD_ADVICE: Final = f"open it with its password (--password - asks for it), or {_DECRYPT}"
MAX_ROUNDS: Final = 10_000_000
"""Rounds of PBKDF2: macOS chooses some 100,000, which take a fraction of a second."""

MAX_KEYS: Final = 64
MAX_CHUNK_BYTES: Final = 1 << 20
MAX_WRAPPED_BYTES: Final = 1 << 12
WRAP_KEY_BYTES: Final = 24
HMAC_KEY_BYTES: Final = 20
IV_BYTES: Final = 16
DES_BLOCK_BYTES: Final = 8
"""Bytes of a block of 3DES."""

KEY_SUFFIX: Final = b"CKIE\0"
"""The bytes after the unwrapped keys (not documented; present in all images seen)."""

CMS_VECTOR: Final = bytes.fromhex("4adda22c79e82105")
"""The initial vector of the outer wrapping of version 1 (RFC 2630, 12.6.1)."""

CMS_PREFIX_BYTES: Final = 4
"""Length of the prefix of an unwrapped key of version 1."""


def open_if_encrypted(source: Source, password: str | None) -> Source:
    """Open an encrypted image with its password; return the source itself if it is not encrypted."""
    end = source.size_bytes - records.FORMER_TRAILER.width
    try:
        header = header_of(source.read(0, min(records.ENCRYPTED_IMAGE_HEADER.width, source.size_bytes)))
        if header is None:
            if end < 0 or not trailer_of(source).endswith(b"cdsaencr"):
                return source
            trailer = source.parse(grammar.EncryptedImage.FormerTrailer, end, "encrypted image")
    except FormatError:
        return source
    if header is not None:
        keys = unlock_keys(source, header, password, "disk image", header.len_data)
        return DecryptedSource(source, header.ofs_data, source.size_bytes, header.len_block, header.len_data, keys)
    return _open_former(source, trailer, password)


def _open_former(source: Source, trailer: EncryptedImage.FormerTrailer, password: str | None) -> Source:
    """Open an encrypted image of version 1."""
    end = source.size_bytes - records.FORMER_TRAILER.width
    # The wrapping adds 24 bytes to the key.
    key_bits = 8 * (trailer.len_wrapped_key - 3 * DES_BLOCK_BYTES)
    if password is None:
        raise _make_refusal(source, "disk image before Mac OS X 10.5", trailer.len_data, key_bits)
    _refuse_sizes(trailer, key_bits, end)
    wrapped = [
        (trailer.wrapped_key, trailer.len_wrapped_key),
        (trailer.wrapped_hmac_key, trailer.len_wrapped_hmac_key),
    ]
    if not 0 < trailer.len_salt <= len(trailer.salt) or any(
        not DES_BLOCK_BYTES < length <= len(data) or length % DES_BLOCK_BYTES for data, length in wrapped
    ):
        raise FormatError("the sizes of a wrapped key are impossible", structure=WHAT, image_offset=end)
    _refuse_rounds(trailer.num_rounds, end)
    secret = password_key(password, trailer.salt[: trailer.len_salt], trailer.num_rounds, WRAP_KEY_BYTES, "sha1")
    unwrapped = []
    for data, length in wrapped:
        # The key was wrapped, reversed, and wrapped again; its first bytes are then the vector of the inner wrapping.
        outer = (_strip_padding(decrypt_cbc(secret, CMS_VECTOR, data[:length])) or b"")[::-1]
        vector, rest = outer[:DES_BLOCK_BYTES], outer[DES_BLOCK_BYTES:]
        inner = _strip_padding(decrypt_cbc(secret, vector, rest)) if rest and not len(rest) % DES_BLOCK_BYTES else None
        unwrapped.append((inner or b"")[CMS_PREFIX_BYTES:])
    key, vector_key = unwrapped
    if len(key) * 8 != key_bits or len(vector_key) != HMAC_KEY_BYTES:
        raise LockedError(f"{source.name}: the password does not open the encrypted disk image")
    return DecryptedSource(source, 0, end, trailer.len_block, trailer.len_data, (key, vector_key))


def header_of(data: bytes) -> EncryptedImage.Header | None:
    """Parse the header of an encrypted image; None if there is none."""
    try:
        head = data[: records.ENCRYPTED_IMAGE_HEADER.width]
        return grammar.parse(grammar.EncryptedImage.Header, head, structure="encrypted image")
    except FormatError:
        return None


def _make_refusal(source: Source, kind: str, size_bytes: int, key_bits: int) -> UnsupportedError:
    size = f"{format_bytes(size_bytes)} (AES-{key_bits})"
    message = f"{source.name}: is an encrypted {kind} of {size}, as FileVault 1 makes of homes"
    return UnsupportedError(message, code="encrypted-image", advice=PASSWORD_ADVICE)


def unlock_keys(
    source: Source, header: EncryptedImage.Header, password: str | None, kind: str, size_bytes: int
) -> Keys:
    """Unlock the keys of an image, or refuse it without a password; `source` is the file that has its header."""
    if password is None:
        raise _make_refusal(source, kind, size_bytes, header.key_bits)
    _refuse_sizes(header, header.key_bits, 0)
    keys = _read_password_keys(source)
    if not keys:
        raise UnsupportedError(
            f"{source.name}: no password opens the encrypted disk image, only a certificate", code="encrypted-image"
        )
    key_bytes = header.key_bits // 8
    both_bytes = key_bytes + HMAC_KEY_BYTES
    for offset, key in keys:
        wrapped = source.read(offset, key.len_wrapped)
        secret = password_key(password, key.salt[: key.len_salt], key.num_rounds, WRAP_KEY_BYTES, "sha1")
        plain = _strip_padding(decrypt_cbc(secret, key.wrap_iv[:DES_BLOCK_BYTES], wrapped))
        if plain is not None and len(plain) >= both_bytes and plain[both_bytes:] in (b"", KEY_SUFFIX):
            return plain[:key_bytes], plain[key_bytes:both_bytes]
    raise LockedError(f"{source.name}: the password does not open the encrypted disk image")


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


def _read_password_keys(source: Source) -> list[tuple[int, EncryptedImage.PasswordKey]]:
    """List the keys that passwords open, with the offsets of their wrapped data."""
    keys = []
    start = records.ENCRYPTED_IMAGE_HEADER.width
    listed = source.parse(grammar.EncryptedImage.KeyList, start, WHAT)
    for number in range(min(listed.num_keys, MAX_KEYS)):
        at = start + records.KEY_LIST.width + number * records.KEY_PLACE.width
        place = source.parse(grammar.EncryptedImage.KeyPlace, at, WHAT)
        if place.kind != grammar.EncryptedImage.KeyKind.password:
            continue
        key = source.parse(grammar.EncryptedImage.PasswordKey, place.ofs_key, WHAT)
        sizes_fit = 0 < key.len_salt <= len(key.salt) and DES_BLOCK_BYTES <= key.len_wrap_iv <= len(key.wrap_iv)
        if not sizes_fit or not 0 < key.len_wrapped <= MAX_WRAPPED_BYTES or key.len_wrapped % DES_BLOCK_BYTES:
            raise FormatError("the sizes of a wrapped key are impossible", structure=WHAT, image_offset=place.ofs_key)
        _refuse_rounds(key.num_rounds, place.ofs_key)
        keys.append((place.ofs_key + records.PASSWORD_KEY.width, key))
    return keys


def _strip_padding(plain: bytes) -> bytes | None:
    """Strip the padding (PKCS 7); None if it is invalid."""
    padding = plain[-1]
    is_padded = 0 < padding <= DES_BLOCK_BYTES and plain.endswith(bytes([padding]) * padding)
    return plain[: len(plain) - padding] if is_padded else None


def decrypt_cbc(secret: bytes, iv: bytes, wrapped: bytes) -> bytes:
    """Decrypt a wrapped key with 3DES, including its padding."""
    ciphers, algorithms, modes = load_ciphers()
    try:
        former: Any = import_module("cryptography.hazmat.decrepit.ciphers.algorithms")
    except ImportError:  # older versions have 3DES among the others
        former = algorithms
    worker = ciphers.Cipher(former.TripleDES(secret), modes.CBC(iv)).decryptor()
    plain: bytes = worker.update(wrapped) + worker.finalize()
    return plain


class DecryptedSource(Source):
    """The plain text of the encrypted chunks in a range of a file; missing chunks count as never read."""

    def __init__(self, source: Source, start: int, stop: int, chunk_bytes: int, size_bytes: int, keys: Keys) -> None:
        self._set_around(source, size_bytes)
        stored = max(0, stop - start) // chunk_bytes * chunk_bytes
        if stored < size_bytes:
            self._unread = np.array([[stored, size_bytes - stored]])
            end, missing = source.size_bytes, size_bytes - stored
            message = f"the file ends at byte {end:,}; {missing:,} bytes that it should hold are missing"
            self.own_findings = (Finding("image-incomplete", "error", WHAT, end, message),)
        self._first, self._chunk_bytes = start, chunk_bytes
        self._cipher_key, self._vector_key = keys

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        size, stop = self._chunk_bytes, image_offset + len(target)
        ciphers, algorithms, modes = load_ciphers()
        for number in range(image_offset // size, -(-stop // size)):
            start = number * size
            low, high = max(start, image_offset), min(start + size, stop)
            place = self._first + start
            if place + size > self.source.size_bytes:  # counts as never read
                target[low - image_offset : high - image_offset] = bytes(high - low)
                continue
            vector = hmac.digest(self._vector_key, number.to_bytes(4, "big"), "sha1")[:IV_BYTES]
            worker = ciphers.Cipher(algorithms.AES(self._cipher_key), modes.CBC(vector)).decryptor()
            plain = worker.update(self.source.read(place, size))
            target[low - image_offset : high - image_offset] = plain[low - start : high - start]
