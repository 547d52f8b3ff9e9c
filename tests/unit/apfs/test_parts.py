"""Parts of a container other than volumes: moves, cached runs, a driver, pools and the checkpoint areas.

Trees have one node of 512 bytes; keys and values are written after the Apple File System Reference.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.btree import read_nodes
from layoutscope.filesystems.apfs.contents import _mark_pending_blocks, read_evictions, read_jumpstart
from layoutscope.filesystems.apfs.fusion import _decode_cached_runs, middle_tree
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.spaceman import Region, _internal_pool
from tests.unit.apfs.toys import BLOCK, INFO, PHYSICAL, record_root, store_of

MIDDLE_TREE = 0x15
MARK = 2**62 // BLOCK


def container_of(blocks: dict[int, bytes], **superblock):
    """Return a container of 100 blocks on its main device."""
    store = store_of(blocks)
    usual = {"blocked_out": run(), "evict_mapping_tree_oid": 0, "fusion_mt_oid": 0, "efi_jumpstart": 0}
    return SimpleNamespace(
        store=store, blocks=store.blocks, log=store.log, xid=7, device_blocks=(100, 50),
        superblock=SimpleNamespace(**usual | superblock),
    )  # fmt: skip


def run(start: int = 0, count: int = 0):
    return SimpleNamespace(start_paddr=start, num_blocks=count)


def eviction_node(*rows: tuple[int, int, int]) -> bytes:
    """Lay out a tree of moves: source, destination and number of blocks."""
    return record_root(2, 0, [(struct.pack("<Q", first), struct.pack("<qQ", to, count)) for first, to, count in rows])


@pytest.mark.parametrize(
    ("move", "is_sound"),
    [
        ((90, 10, 10), True),  # to the last block of the container
        ((90, 10, 11), False),
        ((50, 90, 10), True),
        ((50, 91, 10), False),
        ((50, -1, 1), False),
        ((50, 0, 1), True),
        ((0, 0, 100), True),
        ((0, 0, 2**63), False),
    ],
)
def test_blocks_that_move_stay_in_the_container(move, is_sound):
    """The second move has 3 blocks. An invalid move is reported at its value, the last of the node before 40 bytes.

    Values grow from there to the node's start: the first one takes the last 16 bytes.
    """
    container = container_of({2: eviction_node(move, (95, 20, 3))}, evict_mapping_tree_oid=2)
    (nodes,), details = read_evictions(container)
    assert nodes.paddr.tolist() == [2]
    assert details == {"blocks to be moved": 3 + move[2] * is_sound}
    at = 3 * BLOCK - INFO - 16
    assert [(item.code, item.image_offset) for item in container.log.findings] == (
        [] if is_sound else [("record-invalid", at)]
    )


def test_a_container_that_does_not_shrink_has_no_moves():
    assert read_evictions(container_of({0: bytes(BLOCK)})) == ([], {})
    found = read_evictions(container_of({0: bytes(BLOCK)}, blocked_out=run(1000, 2000)))
    assert found == ([], {"blocked-out blocks": "2,000 from block 1,000"})


def middle_node(*rows: tuple[int, int, int, int]) -> bytes:
    """Lay out a middle tree: address on the second device, address in the cache, blocks, flags."""
    return record_root(
        2,
        MIDDLE_TREE,
        [(struct.pack("<q", target), struct.pack("<qII", paddr, count, flags)) for target, paddr, count, flags in rows],
    )


@pytest.mark.parametrize(
    ("row", "is_sound"),
    [
        ((MARK, 0, 100, 1), True),
        ((MARK, 1, 100, 1), False),
        ((MARK, -1, 1, 1), False),
        ((MARK, 99, 1, 1), True),
        ((MARK, 100, 1, 1), False),
        ((MARK - 1, 5, 1, 1), False),
    ],
)
def test_runs_are_cached_on_the_main_device(row, is_sound):
    """The main device has 100 blocks; addresses of the second device have the mark."""
    container = container_of({2: middle_node(row)}, fusion_mt_oid=2)
    nodes, dirty, details = middle_tree(container)
    assert len(nodes) == 1
    assert details == {"cached blocks": row[2] * is_sound, "dirty cached blocks": row[2] * is_sound}
    assert dirty.shape == (3, is_sound)
    assert [item.code for item in container.log.findings] == ["record-invalid"] * (not is_sound)


def test_runs_that_are_dirty_are_newest_in_the_cache():
    """The second of three runs is clean; the third begins inside the first and cuts it off there."""
    rows = [(MARK + 10, 20, 5, 1), (MARK + 11, 30, 2, 0), (MARK + 13, 40, 4, 3)]
    container = container_of({2: middle_node(*rows)}, fusion_mt_oid=2)
    _, dirty, details = middle_tree(container)
    assert details == {"cached blocks": 11, "dirty cached blocks": 9}
    asked = np.array([MARK + place for place in (9, 10, 12, 13, 16, 17)], np.uint64)
    assert replace(container.blocks, dirty=dirty).newest(asked).tolist() == [MARK + 9, 20, 22, 40, 43, MARK + 17]
    _, leaves = read_nodes(TreeSource(container.store, "fusion-middle", 2, 7))
    ((_, _, num_blocks, is_dirty),) = [_decode_cached_runs(container, batch) for batch in leaves]
    assert is_dirty.tolist() == [True, False, True]
    assert num_blocks.tolist() == [5, 2, 4]
    nodes, dirty, details = middle_tree(container_of({0: bytes(BLOCK)}))
    assert (nodes, dirty.shape, details) == ([], (3, 0), {})


def jumpstart(length: int, *extents: tuple[int, int], oid: int = 3) -> bytes:
    """Lay out the driver's record: its length, and runs of blocks."""
    head = struct.pack("<QQQII", 0, oid, 7, 0x14 | PHYSICAL, 0)
    head += b"JSDR" + struct.pack("<III", 1, length, len(extents)) + bytes(128)
    return with_checksum((head + b"".join(struct.pack("<qQ", *each) for each in extents)).ljust(BLOCK, b"\0"))


@pytest.mark.parametrize(("length", "is_told"), [(5 * BLOCK, False), (5 * BLOCK + 1, True), (0, False)])
def test_a_driver_is_no_longer_than_its_extents(length, is_told):
    """Five blocks are in two runs; the length is at byte 40, after the header, the magic and a version."""
    container = container_of({3: jumpstart(length, (10, 2), (20, 3))}, efi_jumpstart=3)
    assert [(item.type, item.paddr, item.num_blocks) for item in read_jumpstart(container)] == [
        ("efi-jumpstart", 3, 1),
        ("efi-driver", 10, 2),
        ("efi-driver", 20, 3),
    ]
    assert [(item.code, item.image_offset) for item in container.log.findings] == [
        ("structure-invalid", 3 * BLOCK + 40)
    ] * is_told


def test_a_driver_whose_record_is_damaged_is_told():
    container = container_of({3: jumpstart(BLOCK, (10, 2), oid=4)}, efi_jumpstart=3)
    assert [item.type for item in read_jumpstart(container)] == ["efi-jumpstart"]
    assert [item.image_offset for item in container.log.findings] == [3 * BLOCK]
    assert read_jumpstart(container_of({0: bytes(BLOCK)})) == []


def places(regions: list[Region]) -> list[tuple[str, int, int]]:
    return [(item.type, item.paddr, item.num_blocks) for item in regions]


def test_waiting_blocks_are_shown_once():
    """A waiting block that holds a node is shown as that node; the rest of the pool holds nothing."""
    # Blocks 15 and 16 of the pool (10 to 19) wait to be freed; 31, one of the waiting blocks 30 to 32, has a node.
    regions = [Region("internal-pool", "space manager", 10, 10), Region("spaceman-cib", "main device", 31)]
    space = SimpleNamespace(pending=[Region("pending-free", "pool", 15, 2), Region("pending-free", "main", 30, 3)])
    # The pool itself holds no current data.
    assert places(_mark_pending_blocks(regions, space)) == [
        *[("spaceman-cib", 31, 1), ("internal-pool", 10, 5), ("internal-pool", 17, 3)],
        *[("pending-free", 15, 2), ("pending-free", 30, 1), ("pending-free", 32, 1)],
    ]
    # The space manager uses 12 and 13 of blocks 10 to 14; the pool has no blocks after the end of every device.
    header = SimpleNamespace(ip_base=10, num_ip_blocks=5, ip_bm_base=30, num_ip_bm_blocks=2)
    own = [Region("spaceman-cib", "main device", 12, 2), Region("spaceman-bitmap", "main device", 40)]
    assert places(_internal_pool(header, own)) == [
        ("internal-pool-bitmap", 30, 2),
        ("internal-pool", 10, 2),
        ("internal-pool", 14, 1),
    ]
    header.num_ip_blocks = 2**64 - 1
    assert places(_internal_pool(header, []))[1:] == [("internal-pool", 10, 2**44)]
