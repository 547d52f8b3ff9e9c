"""Objects by number and storage class, and the lists of the reaper and of a Fusion set's cache.

Blocks have 512 bytes; heads and entries are laid out after the Apple File System Reference.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container import report_missing_half
from layoutscope.filesystems.apfs.fusion import _read_list, _set_of, list_second_regions, order_halves
from layoutscope.filesystems.apfs.objects import Objects, _read_lists, read_reaper, report_unknown
from layoutscope.filesystems.apfs.omap import view_at
from layoutscope.findings import FindingLog
from layoutscope.image.source import MemorySource
from layoutscope.structs import grammar
from tests.cases import for_each
from tests.unit.apfs.test_places import superblock
from tests.unit.apfs.toys import BLOCK, object_map, store_of

REAPER, REAP_LIST, WBC_LIST = 0x11, 0x12, 0x17
VIRTUAL, EPHEMERAL, PHYSICAL = 0, 0x80000000, 0x40000000
NO_SLOT = 0xFFFFFFFF
MARK = 1000


def whole(oid: int, kind: int, body: bytes, *, storage: int = EPHEMERAL, xid: int = 7, blocks: int = 1) -> bytes:
    """Lay out an object with its checksum."""
    head = struct.pack("<QQQII", 0, oid, xid, kind | storage, 0)
    return with_checksum((head + body).ljust(blocks * BLOCK, b"\0"))


def container_of(blocks: dict[int, bytes], ephemerals: dict[int, tuple[int, int]], **more):
    """Return a container from its blocks and the objects in its checkpoint, with their sizes in blocks."""
    cut = {paddr + at: data[at * BLOCK :][:BLOCK] for paddr, data in blocks.items() for at in range(len(data) // BLOCK)}
    store = store_of(cut)
    kept = {
        oid: SimpleNamespace(oid=oid, paddr=paddr, size_bytes=size * BLOCK, type=REAPER)
        for oid, (paddr, size) in ephemerals.items()
    }
    return SimpleNamespace(
        blocks=SimpleNamespace(
            block_size=BLOCK, tier2_mark=MARK, at=store.blocks.at, concerning=store.blocks.concerning,
            read_object=store.blocks.read_object, sources=store.blocks.sources,
        ),
        log=store.log,
        view=view_at(object_map((50, 6, 3)), 7),
        checkpoint=SimpleNamespace(ephemerals=kept),
        **more,
    )  # fmt: skip


KIND = (grammar.ApfsObject.ObjPhys, REAPER, "thing")


def test_objects_are_in_their_places():
    """In the checkpoint, in the map, or at their own address."""
    # Number 9 has two blocks in the checkpoint, 50 is in the map, and 4 is at its own address.
    container = container_of({0: bytes(BLOCK)}, {9: (2, 2)})
    objects = Objects(container, container.view, container.log)
    assert objects.find(9) == (2, 2 * BLOCK, None)
    assert objects.find(50) == (3, BLOCK, 6)
    assert objects.find(4) == (4, BLOCK, None)
    # The regions of the checkpoint area show object 9.
    found = [objects.regions("thing", "owner", oid) for oid in (9, 50, 4)]
    assert [[item.paddr for item in regions] for regions in found] == [[], [3], [4]]
    # A list in the checkpoint is shown with the checkpoint.
    block = whole(4, WBC_LIST, struct.pack("<QQIIII", 1, 0, 0, 0, 1, 0), storage=PHYSICAL)
    container = container_of({4: block}, {}, superblock=SimpleNamespace(fusion_wbc=CACHE))
    ((region,), count) = _read_list(container, 4)
    assert (region.type, region.paddr, region.num_blocks, count) == ("fusion-wbc-list", 4, 1, 0)
    container = container_of({2: bytes(BLOCK)}, {9: (2, 1), 10: (3, 1)})
    container.checkpoint.ephemerals[10].type = 0x1234
    report_unknown(container)
    assert [(item.code, item.structure, item.image_offset) for item in container.log.findings] == [
        ("record-invalid", "ephemeral object 10", 3 * BLOCK)
    ]


@pytest.mark.parametrize(
    ("oid", "block", "reason", "sides"),
    [
        (9, whole(9, REAPER, b"", blocks=2), None, ()),
        (9, whole(8, REAPER, b"", blocks=2), "another object", ("0x9", "0x8")),
        (9, whole(9, REAP_LIST, b"", blocks=2), "object of another type", ("0x11", "0x12")),
        (9, whole(9, REAPER, b"", blocks=2)[:-1] + b"\1", "checksum differs", ()),
        (9, whole(9, REAPER, b"", xid=3, blocks=2), None, ()),  # no map gives its transaction
        (50, whole(50, REAPER, b"", storage=VIRTUAL, xid=6), None, ()),
        (50, whole(50, REAPER, b"", storage=VIRTUAL), "another version of the object", ("0x6", "0x7")),
        (4, whole(4, REAPER, b"", storage=PHYSICAL), None, ()),
    ],
)
def test_an_object_is_what_was_looked_for(oid, block, reason, sides):
    """The last byte of its second block is covered by the checksum as well."""
    place = {9: 2, 50: 3, 4: 4}[oid]
    container = container_of({place: block}, {9: (2, 2)})
    objects = Objects(container, container.view, container.log)
    if reason is None:
        parsed, where = objects.read(*KIND, oid)
        assert (int(parsed.oid), where) == (oid, place)
        return
    assert objects.try_read(*KIND, oid) is None
    (finding,) = container.log.findings
    assert (finding.image_offset, reason in finding.message) == (place * BLOCK, True)
    assert sides in ((), (finding.expected, finding.found))
    # Objects of no whole blocks are refused.
    for size in (0, -BLOCK, BLOCK // 2, 3 * BLOCK // 2):
        container.checkpoint.ephemerals[9].size_bytes = size
        with pytest.raises(FormatError, match="impossible size") as caught:
            objects.read(*KIND, 9)
        assert caught.value.image_offset == 2 * BLOCK


def reap_list(oid: int, entries, *, following: int = 0, first: int = 0, count: int | None = None) -> bytes:
    """Lay out a list of four slots; an entry has its next slot, its flags and its type."""
    slots = list(entries) + [(NO_SLOT, 0, 0)] * (4 - len(entries))
    body = struct.pack("<QIIIIII", following, 0, 4, len(entries) if count is None else count, first, 0, 0)
    body += b"".join(struct.pack("<IIIIQQQ", after, flags, kind, BLOCK, 0, 99, 7) for after, flags, kind in slots)
    return whole(oid, REAP_LIST, body)


OMAP, VALID = 0xB, 1
LIST_HEAD, LIST_ENTRY = 32 + 32, 40


@pytest.mark.parametrize(
    ("entries", "more", "count", "findings"),
    [
        ([(1, VALID, OMAP), (NO_SLOT, VALID, OMAP)], {}, 2, []),
        ([], {"first": NO_SLOT}, 0, []),
        ([(NO_SLOT, VALID, OMAP)], {"count": 2}, 1, [("count-differs", 48)]),
        ([(3, VALID, OMAP)], {"count": 2}, 2, [("record-invalid", LIST_HEAD + 3 * LIST_ENTRY)]),  # slot 3 is unused
        ([(4, VALID, OMAP)], {}, 1, [("structure-invalid", 52)]),  # there are slots 0 to 3
        ([(1, VALID, OMAP), (0, VALID, OMAP)], {}, 2, []),  # leads back to the first slot
        ([(1, VALID, 0x1234), (NO_SLOT, VALID, OMAP)], {}, 2, [("record-invalid", LIST_HEAD)]),
        ([(1, VALID, OMAP), (NO_SLOT, 0, OMAP)], {}, 2, [("record-invalid", LIST_HEAD + LIST_ENTRY)]),
    ],
)
def test_entries_of_a_reap_list_are_followed(entries, more, count, findings):
    """The head has 64 bytes: the number of entries at 48 to 51, the first slot at 52 to 55; an entry has 40 bytes."""
    container = container_of({2: reap_list(9, entries, **more)}, {9: (2, 1)})
    assert _read_lists(container, 9) == (count, 1)
    found = [(item.code, item.image_offset) for item in container.log.findings]
    assert found == [(code, 2 * BLOCK + plus) for code, plus in findings]


def test_reap_lists_are_followed_once_round():
    """List 9 leads to 10, and 10 leads back; an unreadable list is counted and ends the chain."""
    one, two = [(NO_SLOT, VALID, OMAP)], [(1, VALID, OMAP), (NO_SLOT, VALID, OMAP)]
    blocks = {2: reap_list(9, one, following=10), 3: reap_list(10, two, following=9)}
    assert _read_lists(container_of(blocks, {9: (2, 1), 10: (3, 1)}), 9) == (3, 2)
    assert _read_lists(container_of(blocks, {}), 0) == (0, 0)
    blocks[3] = blocks[3][:-1] + b"\1"
    assert _read_lists(container_of(blocks, {9: (2, 1), 10: (3, 1)}), 9) == (1, 2)
    # Findings are in the order of the chain: those about the entries of list 9, then those about list 10.
    blocks[2] = reap_list(9, one, following=10, count=2)
    container = container_of(blocks, {9: (2, 1), 10: (3, 1)})
    assert _read_lists(container, 9) == (1, 2)
    assert [item.structure for item in container.log.findings] == ["reap list 9", "reap list 10"]
    # Its number of lists is at byte 68: after the header, four 8-byte numbers and one 4-byte number.
    body = struct.pack("<QQQQII", 1, 0, 9, 9, 1, 2) + bytes(48)
    blocks = {2: reap_list(9, [(NO_SLOT, VALID, OMAP)]), 3: whole(8, REAPER, body)}
    container = container_of(blocks, {9: (2, 1), 8: (3, 1)}, superblock=SimpleNamespace(reaper_oid=8))
    assert read_reaper(container) == {"objects to be reaped": 1}
    (finding,) = container.log.findings
    assert (finding.code, finding.image_offset, finding.expected, finding.found) == (
        "count-differs",
        3 * BLOCK + 68,
        "1",
        "2",
    )
    container.superblock.reaper_oid = 0
    assert read_reaper(container) == {}


FS = 0xD


@for_each(
    "kind, flags, state, has_phase, wrong",
    [
        *((kind, 0, bytes([1]) + bytes(63), True, None) for kind in (OMAP, FS)),
        (OMAP, 16, bytes(64), False, None),
        # The state of another object is undocumented, and four bytes are too short for that of a volume.
        (0x1234, 0, bytes(64), False, ("record-invalid", "info")),
        (FS, 0, bytes(4), False, ("structure-invalid", "error")),
    ],
)
def test_how_far_the_reaping_of_an_object_has_come(kind, flags, state, has_phase, wrong):
    """A deleted object map and a volume have a phase; a snapshot that is cleaned up does not.

    Findings about the state are at byte 112, after the head.
    """
    body = struct.pack("<QQQQIIIIQQQII", 1, 0, 0, 0, 1, 0, kind, BLOCK, 0, 77, 7, flags, len(state)) + state
    container = container_of({3: whole(8, REAPER, body)}, {8: (3, 1)}, superblock=SimpleNamespace(reaper_oid=8))
    found = read_reaper(container)
    assert found["being reaped"].endswith(" 77")
    assert ("reaping phase" in found) == has_phase
    told = [(item.code, item.level) for item in container.log.findings if 0 <= item.image_offset - 3 * BLOCK - 112 < 4]
    assert len(told) == len(container.log.findings)
    assert told == [wrong] * (wrong is not None)


def cache_list(first: int, stop: int, room: int, entries) -> bytes:
    """Lay out a list of the write-back cache; an entry has its address, its address on the second device, a count."""
    body = struct.pack("<QQIIII", 1, 0, first, stop, room, 0)
    return whole(9, WBC_LIST, body + b"".join(struct.pack("<qqQ", *entry) for entry in entries))


CACHE = SimpleNamespace(start_paddr=100, num_blocks=50)
"""Blocks 100 to 149 are on the main device; blocks of the second device are numbered from 1,000 on."""


@for_each(
    "first, stop, room, entry, count, wrong",
    [
        *((0, 2, 18, entry, 10 + entry[2], None) for entry in ((100, 1000, 1), (100, 1000, 50), (149, 1000, 1))),
        # Entries that leave the cache or begin on the main device are reported at byte 64, after the head.
        *((0, 2, 18, (100, 1000, count), 10, ("record-invalid", 64)) for count in (51, 2**64 - 1)),
        *((0, 2, 18, entry, 10, ("record-invalid", 64)) for entry in ((99, 1000, 1), (149, 1000, 2), (120, 999, 1))),
        (0, 2, 18, (150, 1000, 1), 10, ("record-invalid", 64)),
        (1, 2, 18, (100, 1000, 1), 10, None),
        (2, 2, 18, (100, 1000, 1), 0, None),
        (0, 18, 18, (100, 1000, 1), 11, None),
        *((*list_, (100, 1000, 1), 0, ("structure-invalid", 48)) for list_ in ((2, 1, 18), (0, 3, 2), (0, 19, 19))),
    ],
)
def test_entries_of_the_cache_are_within_it_and_within_their_list(first, stop, room, entry, count, wrong):
    """A block of 512 bytes holds the 64-byte head and 18 entries of 24 bytes; the second one has ten blocks."""
    block = cache_list(first, stop, room, [entry, (110, 1005, 10), *[(100, 1000, 0)] * 16])
    container = container_of({2: block}, {9: (2, 1)}, superblock=SimpleNamespace(fusion_wbc=CACHE))
    assert _read_list(container, 9) == ([], count)
    found = [(item.code, item.image_offset - 2 * BLOCK) for item in container.log.findings]
    assert found == [wrong] * (wrong is not None)


FUSION_UUID_AT, FEATURES_AT, FUSION = 1280, 64, 0x100


def half(number: int, *, name: int = 7, is_fusion: bool = True) -> tuple[MemorySource, int]:
    """Return an image of a half of a set: the last bit of its identifier says which."""
    block = bytearray(superblock())
    block[FEATURES_AT : FEATURES_AT + 8] = (FUSION if is_fusion else 0).to_bytes(8, "little")
    identifier = bytes([name] * 15 + [0x40 | number])
    block[FUSION_UUID_AT : FUSION_UUID_AT + 16] = identifier
    return MemorySource(with_checksum(bytes(block)).ljust(1 << 16, b"\0")), 0


def test_the_main_device_comes_first():
    """The order of arguments does not matter; the meaning of the last identifier bit is defined by the format."""
    one, two = half(0), half(1)
    found = order_halves(one, two, FindingLog())
    assert order_halves(two, one, FindingLog()) == found
    assert {id(found[0]), id(found[1])} == {id(one), id(two)}
    assert order_halves(one, None, FindingLog()) == (one, None)
    # The last bit of the last byte.
    values = [bytes(15) + b"\x10", bytes(15) + b"\x11", bytes(15) + b"\x12"]
    first, second, third = (_set_of(SimpleNamespace(fusion_uuid=value)) for value in values)
    assert first == second == values[0]
    assert third == values[2]


@pytest.mark.parametrize(
    ("first", "second"),
    [(half(0), half(0)), (half(1), half(1)), (half(0), half(1, name=8)), (half(0, is_fusion=False), half(1))],
)
def test_halves_of_different_sets_are_refused(first, second):
    """The same half twice, another set, and no set are refused."""
    with pytest.raises(FormatError, match="not the halves of one Fusion set"):
        order_halves(first, second, FindingLog())


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("order", [1, -1])
def test_a_half_without_a_superblock_is_the_other_one(lost, order):
    """The readable half says which half it is; without a readable half or a set, the halves are unknown."""
    whole_half = half(1 - lost)
    empty = MemorySource(bytes(1 << 16)), 0
    both = half(0), half(1)
    expected = order_halves(*both, FindingLog())
    log = FindingLog(locate=lambda paddr: (paddr * 4096, 0))
    found = order_halves(*[whole_half, empty][::order], log)
    place = next(number for number, each in enumerate(found) if each is whole_half)
    assert expected[place][0].read(FUSION_UUID_AT, 16) == whole_half[0].read(FUSION_UUID_AT, 16)
    assert [(item.code, item.level) for item in log.findings] == [("checkpoint-invalid", "warning")]
    assert log.findings[0].device == 1 - place
    for other in (empty, half(0, is_fusion=False)):
        with pytest.raises(FormatError):
            order_halves(*[other, empty][::order], FindingLog())


@pytest.mark.parametrize(("is_fusion", "count", "is_told"), [(True, 1, True), (True, 2, False), (False, 1, False)])
def test_a_missing_half_is_told(is_fusion, count, is_told):
    container = container_of({0: bytes(BLOCK)}, {}, superblock=SimpleNamespace(is_fusion=is_fusion))
    container.blocks.sources = (None,) * count
    report_missing_half(container, container.superblock)
    assert [(item.code, item.level, item.image_offset) for item in container.log.findings] == [
        ("fusion-half", "error", 0)
    ] * is_told
    assert [(item.type, item.paddr) for item in list_second_regions(container)] == [
        ("container-superblock", MARK)
    ] * is_fusion
