"""The space manager of containers of a few blocks, laid out by hand after the Apple File System Reference."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.checkpoint import Checkpoint, Ephemeral
from layoutscope.filesystems.apfs.spaceman import device_blocks, read_space
from tests.unit.apfs.toys import BLOCK, record_root, store_of

OID, XID, FIXED, FREE_QUEUE = 1024, 7, 344, 9
SPACEMAN, CIB, CIB2, CAB, BITMAP, BITMAP2, QUEUE = 1, 2, 3, 4, 5, 6, 7
LAST = 19


def device(num_blocks: int, num_free: int, *, num_cibs: int = 1, num_cabs: int = 0) -> bytes:
    """Return a device's part: blocks, chunks, chunk-info blocks, address blocks, free blocks, the addresses."""
    return struct.pack("<QQIIQIIQ", num_blocks, -(-num_blocks // 8), num_cibs, num_cabs, num_free, FIXED, 0, 0)


def queue(num_blocks: int = 0, tree_oid: int = 0) -> bytes:
    """Return a free queue: its number of blocks, and its tree."""
    return struct.pack("<QQQHHIQ", num_blocks, tree_oid, 0, 0, 0, 0, 0)


def spaceman(main: bytes, *addresses: int, second: bytes = bytes(48), pool: bytes = queue()) -> bytes:
    """Return a space manager of chunks of 8 blocks; its internal pool is blocks 16 to 18, its ring block 19."""
    head = bytes(32) + struct.pack("<IIII", BLOCK, 8, 8, 8) + main + second
    head += struct.pack("<IIQIIqq", 0, 16, 3, 1, 1, 19, 16) + bytes(16) + pool + queue() + queue() + bytes(24)
    return (head + struct.pack(f"<{len(addresses)}Q", *addresses)).ljust(BLOCK, b"\0")


def chunks(*entries: tuple[int, int, int, int], count: int | None = None) -> bytes:
    """Return a chunk-info block of entries (first block, blocks, free blocks, bitmap)."""
    found = b"".join(struct.pack("<QQIIQ", XID, *entry) for entry in entries)
    return (bytes(32) + struct.pack("<II", 0, len(entries) if count is None else count) + found).ljust(BLOCK, b"\0")


USED = chunks((0, 8, 3, BITMAP), (8, 8, 8, 0), (16, 4, 0, BITMAP2))
"""Chunks with a bitmap, without one, and with no free block."""
FIRST_FIVE = {BITMAP: b"\x1f".ljust(BLOCK, b"\0"), BITMAP2: b"\xff".ljust(BLOCK, b"\0")}


@pytest.fixture
def read():
    """Return a function that reads a space manager from given blocks, which are all that the container has."""

    def run(blocks: dict[int, bytes], *, is_fusion: bool = False, xid: int = XID):
        store = store_of({**blocks, LAST: bytes(BLOCK)})
        superblock = SimpleNamespace(spaceman_oid=OID, is_fusion=is_fusion, num_blocks=20)
        objects = {OID: Ephemeral(OID, 5, 0, 0, SPACEMAN, BLOCK), 30: Ephemeral(30, 2, 9, 0, QUEUE, BLOCK)}
        checkpoint = Checkpoint(xid, 0, superblock, (), objects)
        return store, checkpoint

    return run


def runs(space) -> list[list[int]]:
    """Return free runs: first block and number of blocks."""
    return space.free.tolist()


def test_clear_bits_are_free_blocks_and_chunks_without_bitmap_are_free(read):
    """Bits 0 to 4 of 8 are set, so 5, 6, 7 are free; the next 8 blocks have no bitmap; the last chunk is full."""
    store, checkpoint = read({SPACEMAN: spaceman(device(20, 11), CIB), CIB: USED, **FIRST_FIVE})
    space = read_space(store, checkpoint)
    assert runs(space) == [[5, 11]]
    assert store.log.findings == []
    # Chunk information, both bitmaps, the ring of the pool's bitmap, and the pool without the blocks in it.
    store, checkpoint = read({SPACEMAN: spaceman(device(20, 11), CIB), CIB: USED, **FIRST_FIVE})
    found = {(item.type, item.paddr, item.num_blocks) for item in read_space(store, checkpoint).regions}
    assert found == {
        ("spaceman-cib", CIB, 1),
        ("spaceman-bitmap", BITMAP, 1),
        ("spaceman-bitmap", BITMAP2, 1),
        ("internal-pool-bitmap", 19, 1),
        ("internal-pool", 16, 3),
    }
    # The last chunk has 4 blocks; the remaining bits of its bitmap are clear but stand for no blocks.
    entries = chunks((0, 8, 3, BITMAP), (8, 8, 8, 0), (16, 4, 1, BITMAP2))
    blocks = {SPACEMAN: spaceman(device(20, 12), CIB), CIB: entries, **FIRST_FIVE, BITMAP2: b"\x07".ljust(BLOCK, b"\0")}
    store, checkpoint = read(blocks)
    assert runs(read_space(store, checkpoint)) == [[5, 11], [19, 1]]


def test_chunks_and_queues_are_found_from_the_space_manager(read):
    """Address blocks lead to chunks, and free queues to extents. A missing space manager gives nothing."""
    # The space manager names the address block of a device, which names two chunk-info blocks.
    cab = (bytes(32) + struct.pack("<IIQQ", 0, 2, CIB, CIB2)).ljust(BLOCK, b"\0")
    first, second = chunks((0, 8, 3, BITMAP), (8, 8, 8, 0)), chunks((16, 4, 0, BITMAP2))
    main = device(20, 11, num_cibs=2, num_cabs=1)
    store, checkpoint = read({SPACEMAN: spaceman(main, CAB), CAB: cab, CIB: first, CIB2: second, **FIRST_FIVE})
    space = read_space(store, checkpoint)
    assert runs(space) == [[5, 11]]
    assert [item.paddr for item in space.regions if item.type == "spaceman-cab"] == [CAB]
    # Two entries (transaction, block): one of 4 blocks, one without a value.
    entries = [(struct.pack("<QQ", 6, 8), struct.pack("<Q", 4)), (struct.pack("<QQ", 6, 14), b"")]
    tree = bytearray(record_root(30, FREE_QUEUE, entries))
    # Entries of four numbers follow the head of 56 bytes; a value that starts at 0xFFFF does not exist.
    tree[56 + 8 + 4 : 56 + 8 + 6] = b"\xff\xff"
    found = {QUEUE: with_checksum(bytes(tree)), CIB: USED, **FIRST_FIVE}
    blocks = {SPACEMAN: spaceman(device(20, 11), CIB, pool=queue(5, 30)), **found}
    store, checkpoint = read(blocks)
    space = read_space(store, checkpoint)
    waiting = [(item.paddr, item.num_blocks) for item in space.pending]
    assert (waiting, space.queued) == ([(8, 4), (14, 1)], {0: 5})
    # The superblock names an object that the checkpoint does not hold.
    store, checkpoint = read({SPACEMAN: spaceman(device(20, 11), CIB)})
    checkpoint.ephemerals.pop(OID)
    with pytest.raises(FormatError, match="does not hold it"):
        read_space(store, checkpoint)


def test_counts_that_differ_from_the_bitmap_are_told(read):
    """The chunk says 2 free blocks and the device 9; the bitmap has 3, and a chunk without a bitmap has 8."""
    wrong = chunks((0, 8, 2, BITMAP), (8, 8, 8, 0), (16, 4, 0, BITMAP2))
    store, checkpoint = read({SPACEMAN: spaceman(device(20, 9), CIB), CIB: wrong, **FIRST_FIVE})
    assert runs(read_space(store, checkpoint)) == [[5, 11]]
    told = [(item.structure, item.image_offset, item.expected, item.found) for item in store.log.findings]
    assert told == [
        ("bitmap of the chunk at block 0, main device", BITMAP * BLOCK, "2", "3"),
        ("space manager", None, "9", "11"),
    ]
    # The remaining bitmaps alone give no count.
    chunk = chunks((0, 8, 3, 1 << 40), (8, 8, 8, 0), (16, 4, 0, BITMAP2))
    store, checkpoint = read({SPACEMAN: spaceman(device(20, 11), CIB), CIB: chunk, **FIRST_FIVE})
    assert not read_space(store, checkpoint).is_free_known
    assert "the bitmap cannot be read" in {item.message for item in store.log.findings}


@pytest.mark.parametrize("mark", [0, 0x4000000000000000 // BLOCK])
def test_chunks_of_the_second_device_bear_its_mark(read, mark):
    """Addresses counted from the device's own start, or with the mark of the second device, are the same blocks."""
    second = chunks((mark, 8, 8, 0))
    manager = spaceman(device(20, 11), CIB, CIB2, second=struct.pack("<QQIIQIIQ", 8, 1, 1, 0, 8, FIXED + 8, 0, 0))
    store, checkpoint = read({SPACEMAN: manager, CIB: USED, CIB2: second, **FIRST_FIVE}, is_fusion=True)
    assert runs(read_space(store, checkpoint)) == [[5, 11], [0x4000000000000000 // BLOCK, 8]]
    assert device_blocks(store, checkpoint) == (20, 8)


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ({SPACEMAN: spaceman(device(20, 11, num_cibs=99), CIB), CIB: USED}, "more addresses than fit"),
        ({SPACEMAN: spaceman(device(20, 11), 4000), CIB: USED}, "address outside the container"),
        ({SPACEMAN: spaceman(device(20, 11), CIB), CIB: chunks(count=99)}, "more chunks than fit"),
    ],
)
def test_what_leaves_its_block_ends_the_reading(read, blocks, reason):
    """Counts and addresses of a hostile image are bounded by the object, the image and the block."""
    with pytest.raises(FormatError, match=reason):
        read_space(*read(blocks))


@pytest.mark.parametrize(
    ("bitmap", "num_free", "is_known"), [(b"\x1f", 11, True), (b"\x00", 11, False), (b"\x1f", 12, False)]
)
def test_free_space_is_unknown_where_counts_differ(read, bitmap, num_free, is_known):
    """A bitmap has no checksum, so its loss shows only in the counts of its chunk and of the device."""
    blocks = {
        SPACEMAN: spaceman(device(20, num_free), CIB),
        CIB: USED,
        **FIRST_FIVE,
        BITMAP: bitmap.ljust(BLOCK, b"\0"),
    }
    store, checkpoint = read(blocks)
    assert read_space(store, checkpoint).is_free_known == is_known
    assert bool(store.log.findings) != is_known


@pytest.mark.parametrize(("num_blocks", "expected"), [(12, (12, 8)), (20, (20, 0)), (21, (20, 0))])
def test_blocks_of_a_set_whose_space_manager_is_lost(num_blocks, expected):
    """The second device has those of the 20 blocks that do not fit into the image of the first."""
    store = store_of({num_blocks - 1: bytes(BLOCK)})
    superblock = SimpleNamespace(spaceman_oid=OID, is_fusion=True, num_blocks=20)
    assert device_blocks(store, Checkpoint(XID, 0, superblock, (), {})) == expected
    superblock.is_fusion = False
    assert device_blocks(store, Checkpoint(XID, 0, superblock, (), {})) == (20,)
