"""AES-XTS over many units at once, partly encrypted disks, and key unwrapping.

Encrypted volumes and logical volumes of CoreStorage share this: units of 512 bytes, each with its number as tweak.
RFC 3394 wraps keys, and PBKDF2 derives them from passwords. The package ``cryptography`` (the extra ``crypto``)
provides AES; it is imported when a key is used.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import UnsupportedError, install_command
from layoutscope.image.source import WrappedSource, clip
from layoutscope.structs.arrays import I64, U8, ordinals, runs_of, subtract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.image.source import Source


UNIT_BYTES: Final = 512
AES_BLOCK_BYTES: Final = 16
_WORD: Final = np.dtype(np.uint64).newbyteorder("<")
_FEEDBACK: Final = np.uint64(0x87)


def decrypt_units(key: bytes, data: U8, numbers: NDArray[np.uint64]) -> U8:
    """Decrypt units of one size with AES-XTS."""
    half = len(key) // 2
    blank = np.zeros((len(numbers), 2), _WORD)
    blank[:, 0] = numbers
    low, high = np.frombuffer(_aes(key[half:], blank.tobytes(), encrypt=True), _WORD).reshape(-1, 2).T.astype(np.uint64)
    count = len(data) // AES_BLOCK_BYTES // max(len(numbers), 1)
    # the masks of all AES blocks of all units
    masks = np.empty((len(numbers), count, 2), _WORD)
    for number in range(count):
        masks[:, number, 0], masks[:, number, 1] = low, high
        # The next mask is the current one times x in GF(2**128).
        carry, over = low >> np.uint64(63), high >> np.uint64(63)
        low, high = (low << np.uint64(1)) ^ (over * _FEEDBACK), (high << np.uint64(1)) | carry
    mask = masks.reshape(-1)
    plain = np.frombuffer(_aes(key[:half], (data.view(_WORD) ^ mask).tobytes(), encrypt=False), _WORD) ^ mask
    return plain.view(np.uint8)


def _aes(key: bytes, data: bytes, *, encrypt: bool) -> bytes:
    """Run AES over independent blocks of 16 bytes."""
    ciphers, algorithms, modes = load_ciphers()
    cipher = ciphers.Cipher(algorithms.AES(key), modes.ECB())
    worker = cipher.encryptor() if encrypt else cipher.decryptor()
    result: bytes = worker.update(data) + worker.finalize()
    return result


def load_ciphers() -> tuple[Any, Any, Any]:
    """Import the optional package; return its modules of ciphers, algorithms and modes."""
    try:
        from cryptography.hazmat.primitives import ciphers
        from cryptography.hazmat.primitives.ciphers import algorithms, modes
    except ImportError as error:
        raise UnsupportedError(
            "unlocking needs the package cryptography", code="crypto-missing", advice=install_command("crypto")
        ) from error
    return ciphers, algorithms, modes


def unwrap_key(wrapping_key: bytes, wrapped: bytes) -> bytes | None:
    """Unwrap a key (RFC 3394); None if the wrapping key is wrong."""
    load_ciphers()
    from cryptography.hazmat.primitives import keywrap

    try:
        key: bytes = keywrap.aes_key_unwrap(wrapping_key, wrapped)
    except (keywrap.InvalidUnwrap, ValueError):
        return None
    return key


def password_key(password: str, salt: bytes, iterations: int, length_bytes: int, digest: str = "sha256") -> bytes:
    """Derive a key from a password: PBKDF2 with HMAC."""
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations, length_bytes)


SMALL_BYTES: Final = 32 * 1024
"""Largest pieces that are decrypted together in a request for many."""

PIECES_AT_ONCE: Final = 64
"""Number of pieces that are decrypted together, which bounds the memory."""


class UnlockedSource(WrappedSource):
    """A disk whose encrypted stretches appear as plain text."""

    def __init__(
        self,
        source: Source,
        # start, size in bytes, and key (for data and for tweaks) of each: units of 512 bytes in AES-XTS, numbered from
        # 0; the size is cut to whole units
        stretches: Sequence[tuple[int, int, bytes]],
    ) -> None:
        super().__init__(source)
        self._stretches = [
            (start, start + size_bytes // UNIT_BYTES * UNIT_BYTES, key) for start, size_bytes, key in sorted(stretches)
        ]

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        stop = image_offset + len(target)
        self.source.read_into(image_offset, target)
        for start, end, key in self._stretches:
            low, high = max(start, image_offset), min(end, stop)
            if low < high:
                self._decrypt(start, low, high, key, target[low - image_offset : high - image_offset])

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces, each to its place in a buffer."""
        self.source.read_pieces(image_offsets, lengths_bytes, places, target)
        ends = image_offsets + lengths_bytes
        left = np.flatnonzero(lengths_bytes > 0)
        for start, end, key in self._stretches:
            meets = (image_offsets[left] < end) & (ends[left] > start)
            is_whole = (image_offsets[left] >= start) & (ends[left] <= end) & (lengths_bytes[left] <= SMALL_BYTES)
            is_whole &= ((image_offsets[left] - start) % UNIT_BYTES == 0) & (lengths_bytes[left] % UNIT_BYTES == 0)
            small = left[meets & is_whole] if not len(self.unread_ranges()) else left[:0]
            for part in np.array_split(small, -(-len(small) // PIECES_AT_ONCE) or 1):
                self._decrypt_many(start, key, image_offsets[part], lengths_bytes[part], places[part], target)
            # The others are read again one by one; pieces outside all stretches are plain already.
            others = left[meets & ~np.isin(left, small)]
            super().read_pieces(image_offsets[others], lengths_bytes[others], places[others], target)
            left = left[~meets]

    @staticmethod
    def _decrypt_many(
        start: int, key: bytes, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview
    ) -> None:
        """Replace many pieces of whole units with their plain text at once."""
        if not len(places):
            return
        out = np.frombuffer(target, np.uint8)
        counts = lengths_bytes // UNIT_BYTES
        within = ordinals(counts)
        numbers = np.repeat((image_offsets - start) // UNIT_BYTES, counts) + within
        first = np.repeat(places, counts) + within * UNIT_BYTES
        rows = first[:, None] + np.arange(UNIT_BYTES)
        out[rows] = decrypt_units(key, out[rows].reshape(-1), numbers.astype(np.uint64)).reshape(-1, UNIT_BYTES)

    def _decrypt(self, start: int, low: int, high: int, key: bytes, target: memoryview) -> None:
        """Replace the data read from one stretch with its plain text."""
        first, last = (low - start) // UNIT_BYTES, -((start - high) // UNIT_BYTES)
        begin, length = start + first * UNIT_BYTES, (last - first) * UNIT_BYTES
        if length == len(target):
            data = np.frombuffer(target, np.uint8)
        else:
            data = np.empty(length, np.uint8)
            self.source.read_into(begin, data.data)
        plain = decrypt_units(key, data, np.arange(first, last, dtype=np.uint64)).copy()
        # Areas that were never read are zeros, which are not ciphertext.
        for lost, size in clip(self.source.unread_ranges(), begin, length).tolist():
            plain[lost : lost + size] = 0
        target[:] = plain[low - begin : high - begin].data

    @property
    def holes(self) -> I64:
        """Areas that the image does not store and that are zeros, shape (n, 2): offset and length in bytes."""
        starts, ends = np.array([each[:2] for each in self._stretches], np.int64).reshape(-1, 2).T
        return subtract(self.source.holes, runs_of(starts, ends - starts))
