from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.checkpoint import (
    Ephemeral,
    _decode_map,
    _verify,
    open_checkpoint,
    read_descriptor_area,
    ring_paddrs,
    superblocks,
)
from layoutscope.filesystems.apfs.container import newest_xid
from layoutscope.filesystems.apfs.source import Store
from layoutscope.findings import FindingLog
from layoutscope.image import MemorySource
from tests.unit.apfs.toys import BLOCK, record_root, store_of

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


def test_blocks_of_a_ring(ring):
    """An object's type is independent of its storage class; only a sound block is of the type that it claims."""
    assert ring.claimed.tolist() == [SUPERBLOCK, SUPERBLOCK, MAP, FSTREE, 0]
    assert ring.kind.tolist() == [SUPERBLOCK, 0, MAP, FSTREE, 0]
    # Only rows 0 and 2 are kept, because a ring can claim to be far larger than these.
    assert sorted(ring.blocks) == [0, 2]
    # The newer superblock is damaged, so the older one counts.
    assert newest_xid(ring) == 5


def large(kind: int, xid: int) -> bytes:
    """Return a block of 4 KiB: its header, the magic of superblocks, a map's flag that it is the last one, zeros."""
    body = struct.pack("<4sI", b"NXSB", LARGE) if kind == SUPERBLOCK else struct.pack("<II", 1, 0)
    return with_checksum((struct.pack("<QQQII", 0, 1, xid, kind | EPHEMERAL, 0) + body).ljust(LARGE, b"\0"))


def ring_of(*xids: int, ahead: int = 1, first: int = 0):
    """Return a store whose ring holds some maps and the superblock of each transaction, starting at a given row."""
    blocks = [each for xid in xids for each in (*[large(MAP, xid)] * ahead, large(SUPERBLOCK, xid))]
    turned = blocks[-first:] + blocks[:-first]
    source = MemorySource(b"".join(turned))
    store = Store.over(Blocks((source,), (0,), LARGE), FindingLog())
    return store, read_descriptor_area(store.blocks, np.arange(len(turned), dtype=np.uint64))


def test_maps_are_the_blocks_before_their_superblock():
    """The order in the ring does not matter: transactions 7, 9 and 8 are in blocks 1, 3 and 5."""
    store, area = ring_of(7, 9, 8)
    assert [(paddr, parsed.hdr.xid) for paddr, parsed in superblocks(store, area)] == [(3, 9), (5, 8), (1, 7)]
    # A checkpoint of three blocks is two maps and its superblock; it may wrap to the start of the ring.
    store, area = ring_of(8, 9, ahead=2, first=1)
    (nine, _), (eight, _) = superblocks(store, area)
    assert (nine, eight) == (0, 3)
    about = SimpleNamespace(hdr=SimpleNamespace(xid=9), xp_desc_index=4, num_desc_used=3)
    found, wrong = open_checkpoint(store, area, nine, about)
    assert (found.map_paddrs, wrong) == ((4, 5), ())
    # Such a checkpoint has no maps and no ephemeral objects.
    store, area = ring_of(8, 9, ahead=2)
    about = SimpleNamespace(hdr=SimpleNamespace(xid=9), xp_desc_index=5, num_desc_used=1)
    found, wrong = open_checkpoint(store, area, 5, about)
    assert (found.map_paddrs, found.ephemerals, wrong) == ((), {}, ())


@pytest.mark.parametrize("count", [0, 7])
def test_a_checkpoint_is_no_longer_than_its_ring(count):
    """The ring has six blocks, and a checkpoint has at least its superblock."""
    store, area = ring_of(8, 9, ahead=2)
    about = SimpleNamespace(hdr=SimpleNamespace(xid=9), xp_desc_index=3, num_desc_used=count)
    found, (wrong,) = open_checkpoint(store, area, 5, about)
    assert found.map_paddrs == ()
    assert (wrong.image_offset, wrong.reason) == (5 * LARGE, "impossible length in the descriptor ring")


ROOM = (BLOCK - 40) // 40
"""A block of 512 bytes holds eleven 40-byte mappings after the header and 8 bytes; 32 bytes are left."""


@pytest.mark.parametrize("count", [0, 1, ROOM])
def test_mappings_say_where_ephemeral_objects_are(count):
    """A mapping has type, subtype, size, padding, and the numbers of the volume, the object and its block."""
    rows = [(0x80000000 | kind, 14, 1024, 0, 5, 100 + kind, 200 + kind) for kind in range(count)]
    data = bytes(32) + struct.pack("<II", 1, count) + b"".join(struct.pack("<IIIIQQQ", *row) for row in rows)
    found = _decode_map(np.frombuffer(data.ljust(BLOCK, b"\0"), np.uint8), 0)
    assert [(item.oid, item.paddr, item.size_bytes, item.fs_oid) for item in found] == [
        (100 + kind, 200 + kind, 1024, 5) for kind in range(count)
    ]


def test_mappings_fit_into_a_map():
    """A map can hold two mappings of 40 bytes after its 40-byte head."""
    assert len(_decode_map(np.frombuffer(bytes(36) + b"\2" + bytes(83), np.uint8), 0)) == 2
    data = bytes(32) + struct.pack("<II", 1, ROOM + 1)
    with pytest.raises(FormatError, match="more mappings than fit") as caught:
        _decode_map(np.frombuffer(data.ljust(BLOCK, b"\0"), np.uint8), 4096)
    assert caught.value.image_offset == 4096


@pytest.mark.parametrize(
    ("size", "oid", "spoil", "reason"),
    [
        (1024, 9, b"\0", None),
        (1024, 8, b"\0", "another object is there"),
        (1024, 9, b"\1", "checksum differs"),
        (0, 9, b"\0", "impossible size"),
        (1000, 9, b"\0", "impossible size"),
        (-512, 9, b"\0", "impossible size"),
        (1 << 40, 9, b"\0", "impossible size"),
        (512, 9, b"\0", "checksum differs"),  # it covers both blocks
        (1536, 9, b"\0", "outside"),
    ],
)
def test_an_ephemeral_object_is_verified(size, oid, spoil, reason):
    """The object is two blocks, the last two of four; the last byte of its second block counts."""
    whole = with_checksum(struct.pack("<QQQII", 0, 9, 7, 0x80000005, 0).ljust(1023, b"\0") + b"\0")[:-1] + spoil
    blocks = store_of({2: whole[:512], 3: whole[512:]}).blocks
    item = Ephemeral(oid, 5, 0, 0, 2, size)
    if reason is None:
        _verify(item, blocks)
        return
    with pytest.raises(FormatError, match=reason) as caught:
        _verify(item, blocks)
    assert caught.value.image_offset == 2 * BLOCK


def test_a_ring_is_one_run_or_has_a_tree_of_them():
    """Five blocks are one run from block 7, or a run of two from 20 and three of ten from 30, as listed in block 1."""
    runs = [(struct.pack("<Q", 0), struct.pack("<qQ", 20, 2)), (struct.pack("<Q", 2), struct.pack("<qQ", 30, 10))]
    store = store_of({1: record_root(1, 0, runs)})
    paddrs, trees = ring_paddrs(store, 7, 5, is_tree=False)
    assert (paddrs.tolist(), trees) == ([7, 8, 9, 10, 11], [])
    paddrs, (tree,) = ring_paddrs(store, 1, 5, is_tree=True)
    assert (paddrs.tolist(), tree.paddr.tolist()) == ([20, 21, 30, 31, 32], [1])
    # Addresses wrap, so blocks after the last address are in no container.
    store = store_of({0: bytes(BLOCK)})
    assert ring_paddrs(store, -1, 2, is_tree=False)[0].tolist() == [2**64 - 1, 0]


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_a_ring_is_not_impossibly_large(monkeypatch, more, is_refused):
    monkeypatch.setattr("layoutscope.filesystems.apfs.checkpoint.MAX_RING_BLOCKS", 4)
    store = store_of({0: bytes(BLOCK)})
    if not is_refused:
        assert len(ring_paddrs(store, 0, 4 + more, is_tree=False)[0]) == 4
        return
    with pytest.raises(FormatError, match="impossibly large") as caught:
        ring_paddrs(store, 0, 4 + more, is_tree=False)
    assert (caught.value.image_offset, caught.value.found) == (0, "5")
