"""Checksums over arrays of blocks.

The only place outside the grammars that knows the byte order of words, because a checksum is defined over words.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.structs.arrays import U8

FLETCHER64: Final = Kernel("fletcher64", "bnL")


def fletcher64(blocks: U8) -> NDArray[np.uint64]:
    """Return Apple's Fletcher-64 of each object, over all bytes after its first eight."""
    # Apple File System Reference (2020-06-22), Objects, ``obj_phys_t``, o_cksum.
    whole = np.ascontiguousarray(blocks)
    sums = np.empty(len(whole), np.uint64)
    FLETCHER64(whole, whole.shape[1], sums.view(np.int64))
    return sums


def journal_checksums(blocks: U8) -> NDArray[np.uint32]:
    """Return the checksum of each block in a journal (TN1150, "Journal", calc_checksum)."""
    total = np.zeros(len(blocks), np.uint32)
    for column in np.ascontiguousarray(blocks.T):
        total = (total << np.uint32(8)) ^ (total + column)
    return ~total


CASTAGNOLI: Final = 0x82F63B78
"""CRC-32C (RFC 3720) polynomial with its bits reversed."""
CRC_START: Final = 0xFFFFFFFF


@cache
def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return registers after 32 zero bits, by the low and high half of the previous register; they combine by XOR."""
    parts = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(32):
        parts = (parts >> np.uint32(1)) ^ (parts & np.uint32(1)) * np.uint32(CASTAGNOLI)
    low, high = (np.bitwise_xor.outer(parts[byte + 1], parts[byte]).ravel() for byte in (0, 2))
    return low, high


def crc32c_of_words(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return CRC-32C without its final inversion, of rows of 32-bit words, low byte first.

    RFC 3720, B.4, gives ``8a9136aa`` for 32 bytes of zeros.

    >>> hex(~crc32c_of_words(np.zeros((1, 8), np.uint32))[0])
    '0x8a9136aa'
    """
    register = np.full(len(words), CRC_START, np.uint32)
    low, high = _tables()
    for column in words.T:
        # The register begins with ones and is not inverted at the end, unlike in other uses of CRC-32C.
        register ^= column
        register = low[register & np.uint32(0xFFFF)] ^ high[register >> np.uint32(16)]
    return register


def crc32c(blocks: U8) -> NDArray[np.uint32]:
    """Return the CRC-32C of each block as CoreStorage computes it: over all bytes after its first eight."""
    return crc32c_of_words(np.ascontiguousarray(blocks).view("<u4")[:, 2:])  # words as the format defines them
