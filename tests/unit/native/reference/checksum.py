"""Checksums and hashes of many names in numpy: the oracles of the kernels' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.apfs.names import MASK
from layoutscope.structs.arrays import distinct
from layoutscope.structs.checksum import crc32c_of_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.tables import TextColumn

_MODULUS: Final = 2**32 - 1
_CHUNK_WORDS: Final = 1024
_BATCH_ROWS: Final = 64


def plain_fletcher64(blocks: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Compute `fletcher64`; the twin of ``structs/source/checksum.c``."""
    words = blocks.view("<u4")[:, 2:]  # words as the format defines them
    low = np.zeros(len(blocks), np.uint64)
    high = np.zeros(len(blocks), np.uint64)
    for start in range(0, words.shape[1], _CHUNK_WORDS):
        chunk = words[:, start : start + _CHUNK_WORDS]
        plain, weighted = _sums(chunk)
        high = (high + low * np.uint64(chunk.shape[1]) + weighted) % _MODULUS
        low = (low + plain) % _MODULUS
    # The stored values are not the sums, but the values that make the sums over the whole object, checksum last,
    # zero: so a reader can sum up everything and compare with zero.
    check_low = _MODULUS - (low + high) % _MODULUS
    check_high = _MODULUS - (low + check_low) % _MODULUS
    return (check_high << np.uint64(32)) | check_low


def _sums(words: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Plain and descending-weighted row sums, exact in doubles: 1024 words of 32 bits stay below 2**53."""
    width = words.shape[1]
    weights = np.stack([np.ones(width), np.arange(width, 0, -1)], axis=1)
    sums = np.empty((len(words), 2))
    doubles = np.empty((_BATCH_ROWS, width))
    for start in range(0, len(words), _BATCH_ROWS):
        batch = words[start : start + _BATCH_ROWS]
        doubles[: len(batch)] = batch
        np.matmul(doubles[: len(batch)], weights, out=sums[start : start + len(batch)])
    return sums[:, 0].astype(np.uint64), sums[:, 1].astype(np.uint64)


def hash_plain_names(names: TextColumn, *, folded: bool) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Hash names that are pure ASCII; the twin of the kernel, with the results of :func:`hash_names`."""
    hashes, known = (
        np.zeros(len(names), np.uint32),
        np.array([len(raw) > 0 and raw.isascii() for raw in names.raw()], bool),
    )
    lower = np.arange(128, dtype=np.uint32)
    if folded:
        lower[ord("A") : ord("Z") + 1] += 32
    # Names of one length are hashed together, as rows of characters.
    for size in distinct(names.length[known]).tolist():
        rows = np.flatnonzero(known & (names.length == size))
        characters = lower[names.data[names.pieces()[1][rows][:, None] + np.arange(size)]]
        # Apple hashes 32-bit characters, not the record's UTF-8 bytes.
        hashes[rows] = crc32c_of_words(characters) & np.uint32(MASK)
    return hashes, known
