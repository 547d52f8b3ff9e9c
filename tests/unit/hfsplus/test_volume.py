"""The volume header and its copy, of a volume of eight blocks of 4 KiB."""

from __future__ import annotations

import pytest

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.volume import open_volume
from layoutscope.image import MemorySource
from layoutscope.structs.records import VOLUME_HEADER

BLOCK, BLOCKS = 4096, 8
SIZE = BLOCK * BLOCKS
COPY = SIZE - 1024


def header(**changed: int) -> bytes:
    """Return a volume header with H+, version 4, a block size and a number of blocks."""
    fields = {"version": 4, "len_block": BLOCK, "num_blocks": BLOCKS, **changed}
    return b"H+" + VOLUME_HEADER.blank(fields)[2:]


def opened(*headers: tuple[int, bytes], size: int = SIZE):
    """Open a volume that has headers at given places."""
    data = bytearray(size)
    for place, raw in headers:
        data[place : place + len(raw)] = raw
    return open_volume(MemorySource(bytes(data)), 0)


def codes(volume) -> list[str]:
    return [finding.code for finding in volume.log.findings]


def test_copies_of_another_block_size():
    """The copy is 1,024 bytes before the end, and must be of the same volume."""
    # Header at 1,024, copy at 31,744, as in TN1150: the volume ends with the copy's kilobyte.
    volume = opened((1024, header()), (COPY, header()))
    assert (volume.end_offset, volume.size_bytes, codes(volume)) == (COPY, SIZE, [])
    # A copy left by an older volume with blocks of 512 is skipped; the copy one sector on is taken.
    older = header(len_block=512, num_blocks=8 * BLOCKS)
    volume = opened((1024, header()), (COPY, older), (COPY + 512, header()), size=SIZE + 2 * BLOCK)
    assert (volume.end_offset, codes(volume)) == (COPY + 512, [])
    # The volume then has no copy, which is a finding.
    volume = opened((1024, header()), (COPY, header(len_block=512, num_blocks=8 * BLOCKS)))
    assert volume.end_offset is None
    assert len(codes(volume)) == 1
    # The copy is in the last kilobyte of the source; the loss is reported at byte 1,024.
    volume = opened((COPY, header(num_files=5)))
    assert (int(volume.header.num_files), volume.end_offset) == (5, COPY)
    assert [(item.code, item.image_offset) for item in volume.log.findings] == [("volume-header-invalid", 1024)]


@pytest.mark.parametrize("slack", [512, 2048, BLOCK])
def test_the_copy_is_up_to_a_block_after_the_last_block(slack):
    """If a partition is not a whole number of blocks, the copy is in the rest."""
    volume = opened((1024, header()), (COPY + slack, header()), size=SIZE + slack)
    assert (volume.end_offset, volume.size_bytes) == (COPY + slack, SIZE + slack)


@pytest.mark.parametrize(
    ("changed", "place"),
    [({"len_block": 256}, 1024 + 40), ({"len_block": 3 * 512}, 1024 + 40), ({"num_blocks": 0}, 1024 + 44)],
)
def test_impossible_sizes_are_refused_at_their_place(changed, place):
    """Blocks are powers of two of at least 512 bytes (blockSize, byte 40); a volume has blocks (totalBlocks, 44)."""
    with pytest.raises(FormatError) as refused:
        opened((1024, header(**changed)))
    assert refused.value.image_offset == place
