from __future__ import annotations

import struct

import numpy as np
import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.container.checkpoint import read_descriptor_area
from layoutscope.filesystems.apfs.container.container import newest_xid
from layoutscope.ondisk.decoder import decoder_named
from tests.unit.apfs.toys import BLOCK, store_of

SUPERBLOCK, MAP, FSTREE = 1, 12, 14
EPHEMERAL = 0x80000000


def block(kind: int, xid: int) -> bytes:
    """Return an object of one block: its header and zeros."""
    return with_checksum(struct.pack("<QQQII", 0, 1, xid, kind | EPHEMERAL, 0).ljust(BLOCK, b"\0"))


@pytest.fixture
def ring(decoder):
    """Return a ring of a superblock, a younger one that is damaged, a map, an object of another type, and zeros."""
    blocks = [block(SUPERBLOCK, 5), block(SUPERBLOCK, 6)[:-1] + b"\1", block(MAP, 5), block(FSTREE, 5), bytes(BLOCK)]
    store = store_of(dict(enumerate(blocks)))
    return read_descriptor_area(store.blocks, decoder_named(decoder), np.arange(5, dtype=np.uint64))


def test_a_block_claims_a_type_and_is_of_it_if_it_is_sound(ring):
    """Types are told apart from how an object is stored; only a sound block is of the type that it claims."""
    assert ring.claimed.tolist() == [SUPERBLOCK, SUPERBLOCK, MAP, FSTREE, 0]
    assert ring.kind.tolist() == [SUPERBLOCK, 0, MAP, FSTREE, 0]


def test_contents_of_superblocks_and_maps_are_kept(ring):
    """Rows 0 and 2 alone: a ring may be claimed to be far larger than they are."""
    assert sorted(ring.blocks) == [0, 2]


def test_the_newest_transaction_is_that_of_a_sound_superblock(ring):
    """The younger superblock is damaged."""
    assert newest_xid(ring) == 5
