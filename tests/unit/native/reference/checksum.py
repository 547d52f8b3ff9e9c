"""Checksums and hashes of many names, one by one: the oracles of the kernels' tests."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.apfs.namehashes import MASK
from layoutscope.structs.checksum import crc32c_of_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.tables import TextColumn

_MODULUS: Final = 2**32 - 1


def plain_fletcher64(blocks: NDArray[np.uint8]) -> list[int]:
    """Compute `fletcher64` from its definition.

    The stored values are not the sums, but the values that make the sums over the whole object, checksum last, zero.
    """
    found = []
    for words in blocks.view("<u4")[:, 2:].tolist():
        low, high = sum(words) % _MODULUS, sum(accumulate(words)) % _MODULUS
        check_low = _MODULUS - (low + high) % _MODULUS
        found.append((_MODULUS - (low + check_low) % _MODULUS) << 32 | check_low)
    return found


def hash_plain_names(names: TextColumn, *, folded: bool) -> tuple[list[int], list[bool]]:
    """Hash names that are pure ASCII: Apple hashes 32-bit characters, not the record's UTF-8 bytes."""
    hashes, known = [], []
    for raw in names.raw():
        known.append(len(raw) > 0 and raw.isascii())
        characters = np.frombuffer(raw.lower() if folded else raw, np.uint8).astype(np.uint32)
        hashes.append(int(crc32c_of_words(characters[None])[0]) & MASK if known[-1] else 0)
    return hashes, known
