"""Locations of containers, their blocks and the objects that a sweep finds; structures are laid out by hand."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.container import (
    find_superblock,
    locate,
    parse_superblock,
    probe_near,
    search_superblock,
    superblock_places,
)
from layoutscope.filesystems.apfs.contents import balance, times_listed
from layoutscope.filesystems.apfs.fsrecords import is_text, to_text
from layoutscope.filesystems.apfs.nodes import DAMAGED, find_unusable, join, rows_of, take_nodes
from layoutscope.filesystems.apfs.spaceman import Region, inside, node_runs, type_name
from layoutscope.filesystems.apfs.sweep import sweep
from layoutscope.filesystems.apfs.volume import decode_stored_name, list_volumes, program
from layoutscope.findings import FindingLog
from layoutscope.image.failing import RescuedSource
from layoutscope.image.source import MemorySource, Window
from layoutscope.tables import TextColumn
from tests.unit.apfs.toys import BLOCK, mapping, node, store_of

LARGE = 4096
SUPERBLOCK, OMAP = 0x80000001, 0x4000000B
MARK = 2**62 // BLOCK


def superblock(xid: int = 5, *, index: int = 0, used: int = 2, ring: int = 8, count: int = 64, **changed: int) -> bytes:
    """Lay out a superblock of a container of 64 blocks: its ring is in blocks 1 to 8, its object map in block 20.

    Its checkpoint has `used` blocks of the ring from `index` on, of which the last is the superblock.
    """
    at = {"magic": 0x4253584E, "size": LARGE, "type": SUPERBLOCK, "omap": 20, "uuid": 7, "base": 1, **changed}
    data = bytearray(max(LARGE, at["size"]))
    data[8:32] = struct.pack("<QQII", 1, xid, at["type"], 0)
    data[32:48] = struct.pack("<IIQ", at["magic"], at["size"], count)
    data[72:88] = at["uuid"].to_bytes(16, "little")
    data[104:120] = struct.pack("<IIQ", ring, 8, at["base"])
    data[136:144] = struct.pack("<II", index, used)
    data[160:168] = struct.pack("<Q", at["omap"])
    return with_checksum(bytes(data))


def object_map(oid: int = 20, kind: int = OMAP) -> bytes:
    """Lay out the head of an object map."""
    return with_checksum(struct.pack("<QQQII", 0, oid, 5, kind, 0).ljust(LARGE, b"\0"))


def disk(size: int, *parts: tuple[int, bytes]) -> MemorySource:
    """Return zeros with given bytes at given offsets."""
    data = bytearray(size)
    for place, part in parts:
        data[place : place + len(part)] = part
    return MemorySource(bytes(data))


def find_volume_starts(source: MemorySource) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return start, size and missing parts of the containers whose superblocks are in a source."""
    data = np.frombuffer(source.read(0, source.size_bytes), np.uint8)
    return [tuple(item) for item in locate(source, superblock_places(data, 0))]


SIZE = 64 * LARGE


@pytest.mark.parametrize("start", [0, 512, 5 * LARGE])
def test_a_copy_in_block_0_and_one_in_the_ring(start):
    """A checkpoint of two blocks at index 0 has its superblock in the second block of the ring, block 2."""
    source = disk(start + SIZE, (start, superblock()), (start + 2 * LARGE, superblock()))
    assert find_volume_starts(source) == [(start, SIZE, ())]


@pytest.mark.parametrize(
    ("index", "used", "row"), [(0, 1, 0), (0, 2, 1), (3, 4, 6), (6, 2, 7), (7, 2, 0), (6, 4, 1), (7, 8, 6)]
)
def test_the_superblock_is_the_last_block_of_its_checkpoint(index, used, row):
    """The ring of eight blocks begins in block 1 and wraps; block 0 is lost, and the object map confirms the start."""
    copy = superblock(index=index, used=used)
    source = disk(512 + SIZE, (512 + (1 + row) * LARGE, copy), (512 + 20 * LARGE, object_map()))
    assert find_volume_starts(source) == [(512, SIZE, ())]


@pytest.mark.parametrize(
    "other",
    [
        object_map(oid=21),
        object_map(kind=0x4000000C),
        object_map()[:-1] + b"\1",  # its checksum is wrong
        superblock(),
        bytes(LARGE),
    ],
)
def test_what_confirms_nothing(other):
    """A lone copy is then taken for the one in the ring, and everything that would confirm it is missing."""
    source = disk(512 + SIZE, (512 + 2 * LARGE, superblock()), (512 + 20 * LARGE, other))
    at = f"{512:,}", f"{512 + 20 * LARGE:,}"
    missing = (f"superblock in block 0 at byte {at[0]}", f"object map at byte {at[1]}")
    assert find_volume_starts(source)[0] == (512, SIZE, missing)


def test_copies_that_confirm_each_other():
    """Copies are of one container and one transaction."""
    # Its identifier differs, or its transaction if it is in the ring; the copy in block 0 may be older.
    ring = (2 * LARGE, superblock())
    assert find_volume_starts(disk(SIZE, ring, (0, superblock(uuid=8))))[0][2] != ()
    assert find_volume_starts(disk(SIZE, ring, (0, superblock(4)))) == [(0, SIZE, ())]
    in_ring = find_volume_starts(disk(SIZE, (0, superblock(index=2)), (4 * LARGE, superblock(4, index=2))))
    assert in_ring == [(0, SIZE, ())]  # the older one in the ring is confirmed by block 0
    # The highest bit of the block count marks fragments; then only the object map confirms a copy, in its place.
    copy = superblock(ring=8 | 1 << 31)
    assert find_volume_starts(disk(SIZE, (0, copy), (20 * LARGE, object_map()))) == [(0, SIZE, ())]
    lone = find_volume_starts(disk(SIZE, (2 * LARGE, copy)))
    assert [item[0] for item in lone] == [2 * LARGE]
    assert find_volume_starts(disk(SIZE, (0, superblock(ring=0)), (20 * LARGE, object_map()))) == [(0, SIZE, ())]
    # Transactions 5 and 6: the container grew from 32 to 64 blocks.
    parts = (0, superblock(5, count=32)), (2 * LARGE, superblock(6)), (20 * LARGE, object_map())
    assert find_volume_starts(disk(SIZE, *parts)) == [(0, SIZE, ())]


def test_contiguous_containers_are_both_found():
    """The second begins where the first ends."""
    parts = [(at + place, superblock()) for at in (512, 512 + SIZE) for place in (0, 2 * LARGE)]
    assert find_volume_starts(disk(512 + 2 * SIZE, *parts)) == [(512, SIZE, ()), (512 + SIZE, SIZE, ())]
    # Its only copy begins where the other container ends, and its object map confirms it.
    parts = [(512, superblock()), (512 + 2 * LARGE, superblock())]
    lone = [(512 + SIZE, superblock(uuid=8)), (512 + SIZE + 20 * LARGE, object_map())]
    assert find_volume_starts(disk(512 + 2 * SIZE, *parts, *lone)) == [(512, SIZE, ()), (512 + SIZE, SIZE, ())]


@pytest.mark.parametrize(
    ("place", "start"),
    [(63 * LARGE, 61 * LARGE), (64 * LARGE, None), (64 * LARGE - 512, 62 * LARGE - 512), (2 * LARGE, 0)],
)
def test_superblocks_are_looked_for_near_the_start(place, start):
    """The first 64 blocks of 4 KiB of a stretch are searched; a container that begins with its stretch fills it."""
    source = disk(2 * SIZE, (place, superblock()), (place + 18 * LARGE, object_map()))
    found = probe_near(Window(source, 0, source.size_bytes))
    assert (found and found.volume_offset) == start
    if found:
        assert found.size_bytes == (min(SIZE, 2 * SIZE - start) if start else 2 * SIZE)
        assert (found.layers, found.findings) == ((f"byte {start}",) if start else (), ())


def test_starts_and_superblocks_that_are_lost():
    """Each gives a finding at its address."""
    source = disk(LARGE + SIZE, (LARGE + 512 + 2 * LARGE, superblock()))
    found = probe_near(Window(source, LARGE, SIZE))
    (finding,) = found.findings
    assert (finding.code, finding.level, finding.image_offset) == ("start-uncertain", "error", LARGE + 512)
    assert found.size_bytes == SIZE - 512
    log = FindingLog()
    found = find_superblock(disk(SIZE, (512, bytes(LARGE)), (512 + LARGE, superblock(9))), 512, log)
    assert int(found.hdr.xid) == 9
    assert [(item.code, item.level) for item in log.findings] == [("checkpoint-invalid", "warning")]
    assert log.findings[0].structure == "container superblock"
    source = RescuedSource(disk(SIZE, (LARGE, superblock(5)), (3 * LARGE, superblock(6))), np.array([[2 * LARGE, 512]]))
    assert int(search_superblock(source, 0).hdr.xid) == 6
    # The last of 8,192 bytes is changed.
    copy = superblock(size=8192)
    assert parse_superblock(disk(SIZE, (512, copy)), 512).len_block == 8192
    with pytest.raises(FormatError, match="checksum differs") as caught:
        parse_superblock(disk(SIZE, (512, copy[:-1] + b"\1")), 512)
    assert caught.value.image_offset == 512


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"size": LARGE + 512}, "block size is not a power of two"),
        ({"type": 0x80000002}, "object of another type"),
    ],
)
def test_superblocks_that_are_none(changed, reason):
    with pytest.raises(FormatError, match=reason):
        parse_superblock(disk(2 * SIZE, (512, superblock(**changed))), 512)


@pytest.mark.parametrize(
    ("blocks", "size", "expected"),
    [
        ({1: 5}, 520, 5),
        ({1: 5, 2: 7, 3: 6}, 520, 7),
        ({511: 5}, 520, 5),
        ({512: 5}, 520, None),
        ({0: 5}, 520, None),  # block 0 is not after itself
        ({}, 520, None),
        # The last whole block counts, but nothing after it.
        ({2: 5}, 3, 5),
        ({2: 5}, 3 - 1 / LARGE, None),
        ({2: 5}, 1, None),
        ({2: 5}, 100 / LARGE, None),
    ],
)
def test_superblocks_after_block_0_are_found(blocks, size, expected):
    """The newest superblock in 511 blocks of 4 KiB is taken."""
    parts = [(512 + number * LARGE, superblock(xid)) for number, xid in blocks.items()]
    source = MemorySource(disk(512 + 520 * LARGE, *parts).read(0, 512 + round(size * LARGE)))
    found = search_superblock(source, 512)
    assert (found and int(found.hdr.xid)) == expected


def fusion(**more) -> Blocks:
    """Return a set: ten blocks of ones at byte 100 of the first image, four of twos at byte 0 of the second."""
    return Blocks((MemorySource(b"\1" * 10 * BLOCK), MemorySource(b"\2" * 4 * BLOCK)), (100, 0), BLOCK, **more)


def numbers(*values: int):
    return np.array(values, np.uint64)


def test_an_address_is_a_device_and_a_byte():
    device, position = fusion().split(numbers(0, 9, MARK - 1, MARK, MARK + 3))
    assert device.tolist() == [0, 0, 0, 1, 1]
    assert position.tolist() == [0, 9 * BLOCK, (MARK - 1) * BLOCK, 0, 3 * BLOCK]
    assert fusion().split(numbers(0, 9))[1].tolist() == [0, 9 * BLOCK]
    assert [values.tolist() for values in fusion().split(numbers(MARK))] == [[1], [0]]
    assert [values.tolist() for values in fusion().split(numbers(MARK - 1))] == [[0], [(MARK - 1) * BLOCK]]
    assert fusion().split(numbers())[1].tolist() == []
    # The plain part is at most byte 2**62.
    assert fusion().split(numbers(2**64 - 1))[1].tolist() == [2**62 // BLOCK * BLOCK]
    assert fusion().place(-1) == (100, 0)
    assert fusion().place(2**70) == fusion().place(2**64 - 1) == (2**62 // BLOCK * BLOCK, 1)
    # The first device has ten blocks although the container says twelve; the second device has four.
    blocks = fusion(num_claimed=12)
    paddrs = numbers(9, 10, 11, 12, MARK + 3, MARK + 4)
    assert blocks.present(paddrs, BLOCK).tolist() == [True, False, False, False, True, False]
    assert blocks.claimed(paddrs, BLOCK).tolist() == [True, True, True, False, True, True]
    assert blocks.claimed(numbers(10, 11), 2 * BLOCK).tolist() == [True, False]
    assert blocks.readable(paddrs, BLOCK).tolist() == [True, False, False, False, True, False]


def test_nothing_is_read_from_a_missing_device_or_after_the_end():
    """Neither a missing image nor what is after the end is read."""
    # None of its blocks is present or claimed, and an error says that the image was not given.
    for sources, offsets in (
        ((MemorySource(bytes(10 * BLOCK)),), (0,)),
        ((MemorySource(bytes(10 * BLOCK)), None), (0, 0)),
    ):
        blocks = Blocks(sources, offsets, BLOCK, num_claimed=20)
        paddrs = numbers(9, MARK + 3)
        assert blocks.present(paddrs, BLOCK).tolist() == [True, False]
        assert blocks.claimed(paddrs, BLOCK).tolist() == [True, False]
        assert blocks.readable(paddrs, BLOCK).tolist() == [True, False]
        assert blocks.image_offset(paddrs).tolist() == [9 * BLOCK, 3 * BLOCK]
        assert blocks.read(numbers(9), BLOCK).tolist() == [[0] * BLOCK]
        assert blocks.read(paddrs, BLOCK)[0].tolist() == [0] * BLOCK
    with pytest.raises(FormatError, match="whose image was not given") as caught:
        Blocks((MemorySource(bytes(BLOCK)),), (0,), BLOCK).read_object(MARK + 3)
    assert caught.value.device == 1
    # Block 0 may be unread, and a block after the end is outside.
    source = RescuedSource(MemorySource(bytes(BLOCK)), np.array([[0, BLOCK]]))
    with pytest.raises(FormatError, match="could not be read"):
        Blocks((source,), (0,), BLOCK).read_object(0)
    # The image of the second device may be present or missing.
    for others in ((), (None,), (MemorySource(bytes(BLOCK)),)):
        blocks = Blocks((MemorySource(bytes(BLOCK)), *others), (0,) * (1 + len(others)), BLOCK)
        with pytest.raises(FormatError, match="address outside") as caught:
            blocks.read_object(1)
        assert caught.value.device == 0


def test_unread_ranges_belong_to_their_device():
    """Sectors 2 and 3 of the first image and 1 of the second were never read."""
    data = b"".join(bytes([number]) * BLOCK for number in range(10))
    first = RescuedSource(MemorySource(data), np.array([[2 * BLOCK, 2 * BLOCK]]))
    second = RescuedSource(MemorySource(bytes(10 * BLOCK)), np.array([[BLOCK, BLOCK]]))
    blocks = Blocks((first, second), (0, 0), BLOCK)
    paddrs = numbers(1, 2, 3, 4, MARK, MARK + 1, MARK + 2)
    assert blocks.readable(paddrs, BLOCK).tolist() == [True, False, False, True, True, False, True]
    assert blocks.readable(numbers(0, 1, 4), 2 * BLOCK).tolist() == [True, False, True]
    for paddr, size, words in (
        (2, BLOCK, "could not be read"),
        (10, BLOCK, "address outside"),
        (-1, BLOCK, "address outside"),
        (9, 2 * BLOCK, "address outside"),
    ):
        with pytest.raises(FormatError, match=words) as caught:
            blocks.read_object(paddr, size)
        assert caught.value.image_offset == max(paddr, 0) * BLOCK
    assert blocks.read_object(8, 2 * BLOCK) == data[8 * BLOCK :]
    for paddr, device in ((3, 0), (MARK + 1, 1)):
        with pytest.raises(FormatError) as caught, fusion().concerning(paddr):
            raise FormatError("some", structure="thing", image_offset=0)
        assert caught.value.device == device


def test_dirty_runs_are_newest_on_the_main_device():
    """Marked blocks 2 to 4 are cached from block 7 on, and block 6 is cached in block 5."""
    dirty = np.stack([numbers(MARK + 2, MARK + 6), numbers(MARK + 5, MARK + 7), numbers(7, 5)])
    newest = fusion(dirty=dirty).newest
    asked = numbers(MARK + 1, MARK + 2, MARK + 4, MARK + 5, MARK + 6, MARK + 7, 3)
    assert newest(asked).tolist() == [MARK + 1, 7, 9, MARK + 5, 5, MARK + 7, 3]
    assert newest(numbers()).tolist() == []
    assert fusion().newest(numbers(MARK + 2)).tolist() == [MARK + 2]
    rows = fusion(dirty=dirty).read(numbers(MARK + 1, MARK + 2), BLOCK)
    assert rows[:, 0].tolist() == [2, 1]
    assert fusion(dirty=dirty).place(MARK + 2) == (100 + 7 * BLOCK, 0)


def swept(blocks: dict[int, bytes], **more):
    """Return number, transaction, level, record count and size of the nodes that a sweep finds, by address."""
    store = store_of(blocks)
    found = sweep(store.blocks, **more)
    columns = (found.paddr, found.oid, found.xid, found.level, found.num_records, found.size_bytes)
    return [*zip(*(column.tolist() for column in columns), strict=True)]


def test_a_sweep_finds_sound_nodes_at_their_blocks():
    leaf = node(9, [mapping(1, 1, 1), mapping(2, 2, 2)], xid=4)
    index = node(8, [mapping(1, 1, 1)], level=3, xid=5)
    blocks = {0: bytes(BLOCK), 2: leaf, 3: leaf[:-1] + b"\1", 5: index}
    assert swept(blocks) == [(2, 9, 4, 0, 2, BLOCK), (5, 8, 5, 3, 1, BLOCK)]
    assert swept(blocks, within=np.array([[0, 2], [3, 2]])) == []
    assert [item[0] for item in swept(blocks, within=np.array([[2, 1], [5, 9]]))] == [2, 5]
    # Number 9 has transactions 4 and 6, number 7 has 5: at transaction 5 those of 4 and 5 are kept.
    store = store_of({1: node(9, [], xid=6), 2: node(9, [], xid=4), 3: node(7, [], xid=5)})
    found = sweep(store.blocks)
    for xid, expected in ((3, []), (4, [2]), (5, [3, 2]), (6, [3, 1])):
        assert found.newest(xid).paddr.tolist() == expected
    assert len(found.nodes("omap")) == 3
    assert len(found.nodes("fs")) == 0
    leaf = node(9, [], xid=4)
    sources = MemorySource(bytes(2 * BLOCK)), MemorySource(bytes(BLOCK) + leaf)
    blocks = Blocks(sources, (0, 0), BLOCK)
    assert sweep(blocks).paddr.tolist() == [MARK + 1]
    assert sweep(blocks, np.array([[MARK + 1, 1]])).paddr.tolist() == [MARK + 1]
    assert sweep(blocks, np.array([[0, 2]])).paddr.tolist() == []
    # A sector within the second of three nodes was never read.
    data = b"".join(node(number, [], xid=4) for number in (1, 2, 3))
    source = RescuedSource(MemorySource(data), np.array([[BLOCK + 10, 20]]))
    assert sweep(Blocks((source,), (0,), BLOCK)).paddr.tolist() == [0, 2]
    data = b"".join(node(number, [], xid=4) for number in range(1, 7))
    source = RescuedSource(MemorySource(data), np.array([[BLOCK, 3 * BLOCK]]))
    assert sweep(Blocks((source,), (0,), BLOCK)).paddr.tolist() == [0, 4, 5]


@pytest.mark.parametrize(("level", "xid", "is_found"), [(15, 4, True), (16, 4, False), (0, 1, True), (0, 0, False)])
def test_a_node_of_more_than_sixteen_levels_or_of_no_transaction_is_none(level, xid, is_found):
    assert bool(swept({1: node(9, [mapping(1, 1, 1)], level=level, xid=xid)})) == is_found


@pytest.mark.parametrize(("size", "is_found"), [(1024, True), (4096, True), (65_536, True), (131_072, False)])
def test_nodes_may_have_several_blocks(size, is_found):
    """A node has up to 64 KiB; blocks after its first one have no header of their own."""
    head = node(9, [mapping(1, 1, 1)], xid=4)
    whole = with_checksum((head + b"\5" * size)[:size])
    store = store_of({3 + number: whole[number * BLOCK : (number + 1) * BLOCK] for number in range(size // BLOCK)})
    found = sweep(store.blocks)
    assert (found.paddr.tolist(), found.size_bytes.tolist()) == (([3], [size]) if is_found else ([], []))


def test_regions_at_the_bounds_of_a_device():
    """A device has at most 2**44 blocks; addresses of the second device count from its mark."""
    store = store_of({0: bytes(BLOCK)})
    regions = [
        Region("last", "", 2**44 - 1),
        Region("empty", "", 5, 0),
        Region("after", "", 2**44),
        Region("long", "", 2**44 - 1, 2),
        Region("marked", "", MARK + 2**44 - 1),
        Region("far", "", MARK + 2**44),
        Region("first", "", 0),
        Region("before", "", -1),
        Region("first marked", "", MARK),
    ]
    assert [item.type for item in inside(regions, store)] == ["last", "marked", "first", "first marked"]
    assert [(item.code, item.structure) for item in store.log.findings] == [
        ("structure-invalid", name) for name in ("empty", "after", "long", "far", "before")
    ]


def test_types_and_volumes_are_named_and_empty_slots_left_out():
    """Texts end at their first zero byte."""
    assert (type_name(0x0B), type_name(0x1234)) == ("omap", "type 0x1234")
    container = SimpleNamespace(superblock=SimpleNamespace(fs_oid=[7, 0, 9, 0]))
    assert list_volumes(container) == [(0, 7), (2, 9)]
    assert decode_stored_name(SimpleNamespace(volname=b"Data\0rest")) == "Data"
    assert program(SimpleNamespace(id=b"newfs\0x")) == "newfs"


def rows(**columns):
    return rows_of("fs", {name: np.array(values) for name, values in columns.items()})


def test_rows_of_nodes_have_ranks_parents_and_runs_of_blocks():
    """Runs, ranks, lost nodes and parents."""
    nodes = rows(paddr=[3, 10], size_bytes=[BLOCK, 4 * BLOCK])
    assert node_runs([nodes, rows_of("omap")], BLOCK).tolist() == [[3, 1], [10, 4]]
    # The tree has a root, two nodes of level 1 and three leaves.
    parts = [rows(level=[2]), rows(level=[1, 1]), rows(level=[0]), rows(level=[0, 0])]
    assert join("fs", parts).key_rank.tolist() == [0, 0, 1, 0, 1, 2]
    assert join("fs", parts).leaves.tolist() == [3, 4, 5]
    assert rows(level=[1]).parent.tolist() == [-1]
    assert rows(level=[1]).paddr.tolist() == [0]
    nodes = rows(
        node_id=[1, 2, 3, 4], condition=[0, DAMAGED, DAMAGED, 0], num_records=[5, 0, 3, 0], parent=[-1, 0, 0, 0]
    )
    (lost,) = find_unusable(nodes)
    assert (lost.node_id.tolist(), lost.parent.tolist()) == ([2], [-1])
    assert find_unusable(rows(node_id=[1], condition=[0], num_records=[0])) == []
    nodes = rows(node_id=[1, 2, 3, 4], parent=[-1, 0, 1, 0])
    assert take_nodes(nodes, np.array([0, 2, 3])).parent.tolist() == [-1, -1, 0]
    # Directory 2 has three entries, 5 has one and 9 has none; 7 is not asked for.
    parents = numbers(2, 2, 2, 5, 7)
    assert times_listed(numbers(2, 5, 9), parents).tolist() == [3, 1, 0]
    assert times_listed(numbers(2), numbers()).tolist() == [0]


@pytest.mark.parametrize(("count", "findings"), [(100, 100), (103, 101)])
def test_a_hundred_disputed_runs_are_told(count, findings):
    """The runs are single blocks that are claimed and free; the runs after the first hundred are only counted."""
    single = np.array([[2 * number, 1] for number in range(count)])
    log = FindingLog()
    found = balance(np.array([[0, 1000]]), np.array([[0, 1000]]), [single], log)
    assert found["claimed but free blocks"][:, 1].sum() == count
    assert len(log.findings) == findings


def test_names_end_where_others_begin():
    """The second name begins inside a character, so neither is valid text.

    Bytes that are not UTF-8 appear as replacement characters; other bytes are unchanged.
    """
    whole = TextColumn(np.frombuffer("a\u00e9b".encode(), np.uint8), np.array([1, 2, 1]))
    assert is_text(whole)
    assert whole.raw() == [b"a", "\u00e9".encode(), b"b"]
    assert whole.equal_to("\u00e9".encode()).tolist() == [False, True, False]
    assert whole.take(np.array([True, False, True])).raw() == [b"a", b"b"]
    torn = TextColumn(whole.data, np.array([2, 1, 1]))
    assert (is_text(torn), to_text(torn).to_list()) == (False, ["a\ufffd", "\ufffd", "b"])
    assert torn.raw() == [b"a\xc3", b"\xa9", b"b"]
    assert len(to_text(TextColumn(whole.data[:0], np.zeros(0, np.int64)))) == 0
    assert is_text(TextColumn(np.array([0x7F], np.uint8), np.array([1])))
    assert not is_text(TextColumn(np.array([0x80], np.uint8), np.array([1])))
    assert not is_text(TextColumn(np.array([0xC3], np.uint8), np.array([1])))
