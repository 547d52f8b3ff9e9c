"""What is encrypted in APFS: objects by the address of their first block, and key records with their checksums.

Apple File System Reference, Encryption. Metadata are encrypted in units of 512 bytes; a unit's number is its block's
address times the units in a block.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.frozen import frozen
from layoutscope.image.crypto import UNIT_BYTES, decrypt_units

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    return decrypt_units(key, np.ascontiguousarray(blocks).reshape(-1), numbers).reshape(rows, size)


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
