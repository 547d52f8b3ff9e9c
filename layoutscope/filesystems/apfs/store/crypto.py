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
    """Decrypts objects with a volume's key."""

    key: bytes  # both halves of the XTS key: of the data, then of the units' numbers
    block_size: int  # of the container, in bytes

    def decrypt_objects(
        self, objects: NDArray[np.uint8], paddrs: NDArray[np.uint64], chosen: NDArray[np.bool_]
    ) -> NDArray[np.uint8]:
        """Decrypt some of many objects."""
        plain = objects.copy()
        rows = np.flatnonzero(chosen)
        plain[rows] = decrypt_blocks(self.key, objects[rows], paddrs[rows], self.block_size)
        return plain


def decrypt_blocks(
    key: bytes, blocks: NDArray[np.uint8], paddrs: NDArray[np.uint64], block_size: int
) -> NDArray[np.uint8]:
    """Decrypt objects with AES-XTS."""
    rows, size = blocks.shape
    units = size // UNIT_BYTES
    # Each unit of 512 bytes has its number on the device for a tweak, whatever the container's block size.
    first = paddrs * np.uint64(block_size // UNIT_BYTES)
    numbers = (first[:, None] + np.arange(units, dtype=np.uint64)).reshape(-1)
    return decrypt_units(key, np.ascontiguousarray(blocks).reshape(-1), numbers).reshape(rows, size)


def is_authentic(prefix: bytes, salt: bytes, body: bytes, expected: bytes) -> bool:
    """Check the HMAC of a key record, whose key is a hash of a fixed prefix and the record's salt."""
    key = hashlib.sha256(prefix + salt).digest()
    return hmac.compare_digest(hmac.new(key, body, hashlib.sha256).digest(), expected)
