"""AES-XTS over many units at once, and the unwrapping of keys.

What encrypted volumes and logical volumes of CoreStorage share: units of 512 bytes, each with its number for a
tweak; RFC 3394 wraps keys, PBKDF2 turns passwords into them. The package ``cryptography`` (the extra ``crypto``) does
AES; it is imported when a key is used.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT_BYTES: Final = 512
AES_BLOCK_BYTES: Final = 16
_WORD: Final = np.dtype(np.uint64).newbyteorder("<")
_FEEDBACK: Final = np.uint64(0x87)


def decrypt_units(key: bytes, data: NDArray[np.uint8], numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Decrypt units with AES-XTS."""
    half = len(key) // 2
    mask = _masks(key[half:], numbers).reshape(-1)
    plain = np.frombuffer(_aes(key[:half], (data.view(_WORD) ^ mask).tobytes(), encrypt=False), _WORD) ^ mask
    return plain.view(np.uint8)


def _masks(key: bytes, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the masks of all AES blocks of all units, (n_units, 64) little-endian words."""
    plain = np.zeros((len(numbers), 2), _WORD)
    plain[:, 0] = numbers
    low, high = np.frombuffer(_aes(key, plain.tobytes(), encrypt=True), _WORD).reshape(-1, 2).T.astype(np.uint64)
    count = UNIT_BYTES // AES_BLOCK_BYTES
    out = np.empty((len(numbers), count, 2), _WORD)
    for number in range(count):
        out[:, number, 0], out[:, number, 1] = low, high
        # The next mask is this one times x in GF(2**128).
        carry, over = low >> np.uint64(63), high >> np.uint64(63)
        low, high = (low << np.uint64(1)) ^ (over * _FEEDBACK), (high << np.uint64(1)) | carry
    return out.reshape(len(numbers), -1)


def _aes(key: bytes, data: bytes, *, encrypt: bool) -> bytes:
    """Run AES over independent blocks of 16 bytes."""
    algorithms, ciphers, modes, _ = _library()
    cipher = ciphers.Cipher(algorithms.AES(key), modes.ECB())
    worker = cipher.encryptor() if encrypt else cipher.decryptor()
    result: bytes = worker.update(data) + worker.finalize()
    return result


def _library() -> tuple[Any, Any, Any, Any]:
    """Import the optional package: algorithms, ciphers, modes, and the wrapping of keys."""
    try:
        from cryptography.hazmat.primitives import ciphers, keywrap
        from cryptography.hazmat.primitives.ciphers import algorithms, modes
    except ImportError as error:
        raise UnsupportedError(
            "unlocking needs the package cryptography", code="crypto-missing", advice="install layoutscope[crypto]"
        ) from error
    return algorithms, ciphers, modes, keywrap


def unwrap_key(wrapping_key: bytes, wrapped: bytes) -> bytes | None:
    """Unwrap a key (RFC 3394); None if the wrapping key is not the right one."""
    *_, keywrap = _library()
    try:
        key: bytes = keywrap.aes_key_unwrap(wrapping_key, wrapped)
    except (keywrap.InvalidUnwrap, ValueError):
        return None
    return key


def password_key(password: str, salt: bytes, iterations: int, length_bytes: int) -> bytes:
    """Turn a password into a key: PBKDF2 with HMAC-SHA-256."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations, length_bytes)
