"""Fletcher-64 compared with a word-by-word sum."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.structs.checksum import fletcher64


def by_hand(block: bytes) -> int:
    """The two running sums of the definition, one word at a time."""
    low = high = 0
    for start in range(8, len(block), 4):
        low = (low + int.from_bytes(block[start : start + 4], "little")) % (2**32 - 1)
        high = (high + low) % (2**32 - 1)
    check_low = (2**32 - 1) - (low + high) % (2**32 - 1)
    check_high = (2**32 - 1) - (low + check_low) % (2**32 - 1)
    return check_high << 32 | check_low


@pytest.mark.parametrize("size", [16, 4096, 8192, 65536])
def test_equals_the_definition(size):
    """Blocks of any size, also of all ones, sum as defined."""
    rng = np.random.default_rng(size)
    blocks = rng.integers(0, 256, (3, size), dtype=np.uint8)
    blocks[2] = 0xFF
    assert fletcher64(blocks).tolist() == [by_hand(row.tobytes()) for row in blocks]
