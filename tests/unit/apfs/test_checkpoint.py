from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.checkpoint import open_checkpoint, read_descriptor_area, superblocks
from layoutscope.filesystems.apfs.container import newest_xid
from layoutscope.filesystems.apfs.source import Store
from layoutscope.findings import FindingLog
from layoutscope.image import MemorySource
from tests.unit.apfs.toys import BLOCK, store_of

SUPERBLOCK, MAP, FSTREE = 1, 12, 14
EPHEMERAL = 0x80000000
LARGE = 4096


def block(kind: int, xid: int) -> bytes:
    """Return an object of one block: its header and zeros."""
    return with_checksum(struct.pack("<QQQII", 0, 1, xid, kind | EPHEMERAL, 0).ljust(BLOCK, b"\0"))


@pytest.fixture
def ring():
    """Return a ring of a superblock, a younger one that is damaged, a map, an object of another type, and zeros."""
    blocks = [block(SUPERBLOCK, 5), block(SUPERBLOCK, 6)[:-1] + b"\1", block(MAP, 5), block(FSTREE, 5), bytes(BLOCK)]
    store = store_of(dict(enumerate(blocks)))
    return read_descriptor_area(store.blocks, np.arange(5, dtype=np.uint64))


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


def large(kind: int, xid: int) -> bytes:
    """Return a block of 4 KiB: its header, the magic of superblocks, a map's flag that it is the last one, zeros."""
    body = struct.pack("<4sI", b"NXSB", LARGE) if kind == SUPERBLOCK else struct.pack("<II", 1, 0)
    return with_checksum((struct.pack("<QQQII", 0, 1, xid, kind | EPHEMERAL, 0) + body).ljust(LARGE, b"\0"))


def ring_of(*xids: int, ahead: int = 1, first: int = 0):
    """Return a store whose ring holds, for each transaction, some maps and its superblock, from a row on."""
    blocks = [each for xid in xids for each in (*[large(MAP, xid)] * ahead, large(SUPERBLOCK, xid))]
    turned = blocks[-first:] + blocks[:-first]
    source = MemorySource(b"".join(turned))
    store = Store.over(Blocks((source,), (0,), LARGE), FindingLog())
    return store, read_descriptor_area(store.blocks, np.arange(len(turned), dtype=np.uint64))


def test_superblocks_come_newest_first():
    """Whatever their order in the ring is: transactions 7, 9 and 8 are in blocks 1, 3 and 5."""
    store, area = ring_of(7, 9, 8)
    assert [(paddr, parsed.hdr.xid) for paddr, parsed in superblocks(store, area)] == [(3, 9), (5, 8), (1, 7)]


def test_maps_are_the_blocks_before_their_superblock():
    """A checkpoint of three blocks is two maps and its superblock; it may go on at the start of the ring."""
    store, area = ring_of(8, 9, ahead=2, first=1)
    (nine, _), (eight, _) = superblocks(store, area)
    assert (nine, eight) == (0, 3)
    about = SimpleNamespace(hdr=SimpleNamespace(xid=9), xp_desc_index=4, num_desc_used=3)
    found, wrong = open_checkpoint(store, area, nine, about)
    assert (found.map_paddrs, wrong) == ((4, 5), ())


@pytest.mark.parametrize("count", [0, 7])
def test_a_checkpoint_is_no_longer_than_its_ring(count):
    """The ring has six blocks, and a checkpoint has at least its superblock."""
    store, area = ring_of(8, 9, ahead=2)
    about = SimpleNamespace(hdr=SimpleNamespace(xid=9), xp_desc_index=3, num_desc_used=count)
    found, (wrong,) = open_checkpoint(store, area, 5, about)
    assert found.map_paddrs == ()
    assert (wrong.image_offset, wrong.reason) == (5 * LARGE, "impossible length in the descriptor ring")
