"""AES-XTS over many blocks at once, and the unwrapping of keys.

Apple File System Reference, Encryption. Metadata are encrypted in units of 512 bytes; a unit's number is its block's
address times the units in a block. RFC 3394 wraps keys, PBKDF2 turns passwords into them. The package ``cryptography``
(the extra ``crypto``) does AES; it is imported when a key is used.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import UnsupportedError
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT_BYTES: Final = 512
AES_BLOCK_BYTES: Final = 16
_WORD: Final = np.dtype(np.uint64).newbyteorder("<")
_FEEDBACK: Final = np.uint64(0x87)


@frozen
class Cipher:
    """Decrypts objects with a volume's key.

    Attributes
    ----------
    key : bytes
        Both halves of the XTS key: of the data, then of the units' numbers.
    block_size : int
        Of the container, in bytes.
    """

    key: bytes
    block_size: int

    def decrypt_objects(
        self, objects: NDArray[np.uint8], paddrs: NDArray[np.uint64], chosen: NDArray[np.bool_]
    ) -> NDArray[np.uint8]:
        """Decrypt some of many objects.

        Parameters
        ----------
        objects : (n, size_bytes) uint8 array
            As stored.
        paddrs : (n,) uint64 array
            Their first blocks.
        chosen : (n,) bool array
            Which of them are encrypted.
        """
        plain = objects.copy()
        rows = np.flatnonzero(chosen)
        plain[rows] = decrypt_blocks(self.key, objects[rows], paddrs[rows], self.block_size)
        return plain


def decrypt_blocks(
    key: bytes, blocks: NDArray[np.uint8], paddrs: NDArray[np.uint64], block_size: int
) -> NDArray[np.uint8]:
    """Decrypt objects with AES-XTS.

    Parameters
    ----------
    key : bytes
        32 bytes: two keys of AES-128.
    blocks : (n, size_bytes) uint8 array
        As stored.
    paddrs : (n,) uint64 array
        Their first blocks.
    block_size : int
        Of the container.

    Returns
    -------
    (n, size_bytes) uint8 array
    """
    rows, size = blocks.shape
    units = size // UNIT_BYTES
    # Each unit of 512 bytes has its number on the device for a tweak, whatever the container's block size.
    first = paddrs * np.uint64(block_size // UNIT_BYTES)
    numbers = (first[:, None] + np.arange(units, dtype=np.uint64)).reshape(-1)
    half = len(key) // 2
    mask = _masks(key[half:], numbers)
    data = np.ascontiguousarray(blocks).reshape(-1).view(_WORD) ^ mask.reshape(-1)
    plain = np.frombuffer(_aes(key[:half], data.tobytes(), encrypt=False), _WORD) ^ mask.reshape(-1)
    return plain.view(np.uint8).reshape(rows, size)


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
    """Turn a password into a key: PBKDF2 with HMAC-SHA-256.

    Parameters
    ----------
    password : str
        Password or recovery key, hashed as UTF-8.
    salt : bytes
        From the key record.
    iterations : int
        From the key record; 1 or more.
    length_bytes : int
        How long the key is.

    Returns
    -------
    bytes
        The key that unwraps the record's own.
    """
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations, length_bytes)


def is_authentic(prefix: bytes, salt: bytes, body: bytes, expected: bytes) -> bool:
    """Check the HMAC of a key record, whose key is a hash of a fixed prefix and the record's salt.

    Parameters
    ----------
    prefix : bytes
        The six bytes that are the same in every record.
    salt : bytes
        From the record; not that of PBKDF2.
    body : bytes
        What is authenticated: the inner record as a whole DER value, with its tag and length.
    expected : bytes
        The HMAC that is stored, of SHA-256.

    Returns
    -------
    bool
        Whether the computed one is the same.
    """
    key = hashlib.sha256(prefix + salt).digest()
    return hmac.compare_digest(hmac.new(key, body, hashlib.sha256).digest(), expected)
