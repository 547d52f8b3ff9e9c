"""Start of a volume from the copy of its header, and forks from their extents; arithmetic of TN1150."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.contents import extend_fork
from layoutscope.filesystems.hfsplus.forks import (
    Fork,
    inline_fork,
    join_pieces,
    locate,
    read_free_runs,
    read_parts,
)
from layoutscope.filesystems.hfsplus.probe import find_in, probe
from layoutscope.filesystems.hfsplus.volume import (
    Overlay,
    attribute_names,
    confirming,
    header_at,
    open_volume,
    read_header,
    report_change,
    reread_header,
    start_by_copy,
    starts_by_copy,
    volume_uuid,
)
from layoutscope.image import MemorySource
from layoutscope.image.failing import RescuedSource
from layoutscope.image.source import Window
from layoutscope.structs.records import VOLUME_HEADER
from tests.cases import for_each
from tests.unit.partition.builders import wrapper

BLOCK, BLOCKS = 4096, 64
SIZE = BLOCK * BLOCKS


def raw_header(*, tree_block: int = 0, journal_block: int = 0, **fields: int) -> bytes:
    """Return a volume header; given blocks, its catalog begins there, or its journal info block is there."""
    values = {"version": 4, "len_block": BLOCK, "num_blocks": BLOCKS, **fields}
    if journal_block:
        values |= {"attributes": 1 << 13, "journal_info_block": journal_block}
    data = bytearray(b"H+" + VOLUME_HEADER.blank(values)[2:])
    if tree_block:
        # The fork of the catalog file: size, clump, blocks, and the first extent (TN1150, HFSPlusForkData).
        data[272:296] = struct.pack(">QIIII", 2 * BLOCK, 0, 2, tree_block, 2)
    return bytes(data)


def header(**fields: int):
    """Return a parsed volume header."""
    return read_header(MemorySource(raw_header(**fields)), 0, "volume header")


def disk(size: int, *parts: tuple[int, bytes]) -> MemorySource:
    """Return zeros with given bytes at given offsets."""
    data = bytearray(size)
    for place, part in parts:
        data[place : place + len(part)] = part
    return MemorySource(bytes(data))


def header_node(kind: int = 1, height: int = 0, count: int = 3, size: int = 4096, longest: int = 516) -> bytes:
    """Return a header node: its descriptor, and from byte 32 the node size and the length of the longest key."""
    return struct.pack(">IIBBHH18xHH", 0, 0, kind, height, count, 0, size, longest).ljust(512, b"\0")


@for_each(
    "place, expected",
    [
        (SIZE - 1024, [0]),
        (SIZE - 1024 + 512, [512, 0]),
        (SIZE - 1024 + 3584, [*range(3584, -1, -512)]),
        (SIZE - 1024 + 4096, [*range(4096, 0, -512)]),
        (SIZE - 1024 + 100, [100]),
        (SIZE - 1024 - 512, []),
    ],
)
def test_starts_that_a_copy_allows(place, expected):
    """The copy is 1,024 bytes before the end, which is less than one 4,096-byte block after the 64 blocks.

    There are as many starts as sectors per block; none if a block has more than a MiB.
    """
    assert [*starts_by_copy(place, header())] == expected
    for block, count in ((512, 1), (1024**2, 2048), (2 * 1024**2, 0)):
        assert len(starts_by_copy(11 * block - 1024, header(len_block=block, num_blocks=10))) == count


@for_each(
    "copy, parts, expected",
    [
        *((header(), [(start + 1024, raw_header())], (start, True)) for start in (0, 512, 1024, 3584)),
        # A header of another volume confirms nothing.
        *(
            (header(), [(1024 + 512, raw_header(**changed))], (None, False))
            for changed in ({"len_block": 2048}, {"num_blocks": BLOCKS - 1})
        ),
        # The header node of a tree is where the first extent of the catalog begins, in block 10.
        *(
            (header(tree_block=10), [(start + 10 * BLOCK, header_node())], (start, False))
            for start in (0, 512, 2048, 3584)
        ),
    ],
)
def test_a_copy_of_the_header_confirms_its_start(copy, parts, expected):
    source = disk(SIZE + 3584, *parts)
    assert start_by_copy(source, SIZE + 3584 - 1024, copy) == expected
    assert not expected[1] or header_at(source, expected[0] + 512) is None


@pytest.mark.parametrize("spare", [0, 511, 512, 3072])
def test_a_copy_does_not_confirm_its_own_counts(spare):
    """With blocks of one sector the counts allow one place; a count off by one would give another place."""
    copy = header(len_block=512, num_blocks=100)
    place = spare + 100 * 512 - 1024
    assert len(starts_by_copy(place, copy)) == 1
    assert start_by_copy(disk(place + 1024), place, copy) == (None, False)
    assert start_by_copy(disk(SIZE), SIZE - 1536, header()) == (None, False)


def test_the_start_with_most_votes_is_taken():
    """A journal info block and a tree outvote a tree alone."""
    info = struct.pack(">I32xQQ", 1, 5 * BLOCK, BLOCK)
    known = header(tree_block=10, journal_block=20)
    parts = (512 + 10 * BLOCK, header_node()), (1024 + 10 * BLOCK, header_node()), (1024 + 20 * BLOCK, info)
    source = disk(SIZE + 3584, *parts)
    starts = [0, 512, 1024, 1536]
    assert confirming(source, starts, known).tolist() == [0, 1, 2, 0]
    assert confirming(source, starts[::-1], known).tolist() == [0, 2, 1, 0]
    assert confirming(source, [1024], known).tolist() == [2]
    assert confirming(source, [], known).tolist() == []
    assert start_by_copy(source, SIZE + 3584 - 1024, known) == (1024, False)


@for_each(
    "expected, known, place, data, size",
    [
        # A header node has kind 1, height 0, three records, a power of two from 512 to 32,768 as size.
        *((1, {"tree_block": 10}, 10, header_node(size=size), SIZE) for size in (512, 32_768)),
        *((0, {"tree_block": 10}, 10, header_node(size=size), SIZE) for size in (256, 3 * 512)),
        *((0, {"tree_block": 10}, 10, header_node(kind=kind), SIZE) for kind in (0, 2)),
        *((0, {"tree_block": 10}, 10, header_node(count=count), SIZE) for count in (2, 4)),
        (0, {"tree_block": 10}, 10, header_node(height=1), SIZE),
        (0, {"tree_block": 10}, 10, header_node(longest=10), SIZE),  # of the extents-overflow file
        # A source that ends with the node's sector has it; one that ends before does not.
        (1, {"tree_block": 10}, 10, header_node(), 10 * BLOCK + 512),
        (0, {"tree_block": 10}, 10, b"", 10 * BLOCK),
        # A journal info block is in the file system, with a valid place and length.
        (1, {"journal_block": 20}, 20, struct.pack(">I32xQQ", 1, 1, 1), SIZE),
        *(
            (0, {"journal_block": 20}, 20, struct.pack(">I32xQQ", *values), SIZE)
            for values in ((2, 1, 1), (3, 1, 1), (1, 0, 1), (1, 1, 0))
        ),
    ],
)
def test_header_nodes_and_journal_blocks_confirm_a_start(expected, known, place, data, size):
    assert confirming(disk(size, (place * BLOCK, data)), [0], header(**known)).tolist() == [expected]


def find_volume_starts(source: MemorySource, offset: int = 0):
    """Return kind, start, size and finding codes of each volume that a search finds."""
    window = Window(source, 0, source.size_bytes)
    data = np.frombuffer(source.read(offset, source.size_bytes - offset), np.uint8)
    return [
        (item.label, item.volume_offset, item.size_bytes, [each.code for each in item.findings])
        for item in find_in(window, data, offset)
    ]


@pytest.mark.parametrize(
    ("block", "spare"), [(512, 0), (1024, 0), (BLOCK, 0), (BLOCK, 512), (BLOCK, BLOCK), (1 << 20, 0)]
)
def test_a_header_with_its_copy_is_a_volume(block, spare):
    """Up to a block can be between the last block and the end of the volume."""
    at, raw, size = 8192, raw_header(len_block=block, num_blocks=4), 4 * block + spare
    source = disk(at + size + 8192, (at + 1024, raw), (at + size - 1024, raw))
    assert find_volume_starts(source) == [("HFS+", at, size, [])]


def test_volumes_of_a_stretch():
    """Headers and copies with their trees are volumes."""
    parts = (512 + 1024, raw_header(tree_block=10)), (512 + 10 * BLOCK, header_node())
    assert find_volume_starts(disk(512 + SIZE + BLOCK, *parts)) == [("HFS+", 512, SIZE, [])]
    # The finding about the header is at byte 1,024 of the volume.
    source = disk(
        1024 + SIZE + BLOCK, (1024 + SIZE - 1024, raw_header(tree_block=10)), (1024 + 10 * BLOCK, header_node())
    )
    assert find_volume_starts(source) == [("HFS+", 1024, SIZE, ["volume-header-lost"])]
    (found,) = find_in(
        Window(source, 0, source.size_bytes), np.frombuffer(source.read(0, source.size_bytes), np.uint8), 0
    )
    assert found.findings[0].image_offset == 2048
    assert found.layers == ("byte 1024",)
    assert f"byte {SIZE:,}" in found.findings[0].message
    parts = (8192 + 1024, raw_header()), (8192 + SIZE - 1024, raw_header())
    assert find_volume_starts(disk(8192 + SIZE, *parts), offset=4096) == [("HFS+", 8192, SIZE, [])]


def test_headers_without_a_copy():
    """A header gives no volume at all if the volume does not fit, by a byte at the start of the source."""
    for size, start, codes in ((512 + SIZE, 512, ["start-uncertain"]), (SIZE, 0, ["start-uncertain"])):
        assert find_volume_starts(disk(size, (start + 1024, raw_header()))) == [("HFS+", start, SIZE, codes)]
    for size, start in ((SIZE, 512), (SIZE - 1, 0)):
        assert find_volume_starts(disk(size, (start + 1024, raw_header()))) == []
    # Impossible headers are chance hits.
    for fields in ({"num_blocks": 0}, {"len_block": 256}, {"len_block": 3 * 512}, {"len_block": 1 << 21}):
        assert find_volume_starts(disk(SIZE, (1024, raw_header(**fields)))) == []


def probed(source: MemorySource, *, thorough: bool = True):
    """Return start, size and finding codes of the volume found in a whole source."""
    found = probe(Window(source, 0, source.size_bytes), thorough=thorough)
    return found and (found.kind, found.volume_offset, found.size_bytes, [item.code for item in found.findings])


def test_copies_without_a_header():
    """A copy alone gives the start to within a block."""
    # The start is inferred to within a block; nothing confirms it if the source is longer than the volume.
    assert probed(disk(SIZE, (SIZE - 1024, raw_header()))) == ("hfsplus", 0, SIZE, ["volume-header-lost"])
    assert probed(disk(SIZE, (SIZE - 1024, raw_header())), thorough=False) is None
    for spare, start in ((512, 0), (BLOCK - 512, 0), (BLOCK, BLOCK), (5 * BLOCK, 5 * BLOCK)):
        source = disk(SIZE + spare, (SIZE + spare - 1024, raw_header()))
        told = ("hfsplus", start, SIZE + spare - start, ["volume-header-lost", "start-uncertain"])
        assert probed(source) == told
    # 2,048 bytes have the header without a copy; 2,560 have both.
    assert probed(disk(2560, (1536, raw_header(num_blocks=0)))) == (
        "hfsplus", 0, 2560, ["volume-header-lost", "start-uncertain"],
    )  # fmt: skip
    assert probed(disk(2048)) is None
    # 1,024 bytes are just the copy; fewer have none.
    raw = raw_header()
    source = disk(SIZE, (0, raw))
    assert open_volume(source, 0, 1024).end_offset == 0
    with pytest.raises(FormatError):
        open_volume(source, 0, 1023)


@pytest.mark.parametrize("count", [-8, -1, 1, 8])
def test_a_tree_confirms_the_start_of_a_stretch_where_a_copy_has_a_wrong_count(count):
    """The count alone would place the start some blocks later, or before the stretch."""
    copy = raw_header(num_blocks=BLOCKS + count, tree_block=10)
    for parts, told in (
        ((), ["volume-header-lost", "start-uncertain"]),
        (((10 * BLOCK, header_node()),), ["volume-header-lost"]),
    ):
        start = -count * BLOCK if not parts and count < 0 else 0
        found = probed(disk(SIZE, (SIZE - 1024, copy), *parts))
        assert found == ("hfsplus", start, SIZE - start, told)


@pytest.mark.parametrize("count", [BLOCKS - 9, BLOCKS + 1, BLOCKS + 3])
@pytest.mark.parametrize("before", [512, 3 * BLOCK, 1024**2 - 1536])
def test_a_header_near_the_start_is_believed_against_the_count_of_the_copy(before, count):
    """With three blocks before the volume and three more in its count, the copy's volume would fill the stretch."""
    copy, header = (before + SIZE - 1024, raw_header(num_blocks=count)), (before + 1024, raw_header())
    assert probed(disk(before + SIZE, header, copy)) == ("hfsplus", before, SIZE, [])
    # The volume of an image in a file ends before the stretch does.
    inner = (before + 1024, raw_header(num_blocks=20)), (before + 20 * BLOCK - 1024, raw_header(num_blocks=20))
    assert probed(disk(before + SIZE, *inner, copy))[3][0] == "volume-header-lost"


@pytest.mark.parametrize("count", [20, BLOCKS + 9])
@pytest.mark.parametrize("before", [BLOCK, 3 * BLOCK, 1024**2 - BLOCK])
def test_trees_tell_the_start_where_header_and_copy_have_wrong_counts(before, count):
    """By the copy's count, the volume would fill the stretch from byte 0."""
    copy = before + SIZE - 1024, raw_header(num_blocks=before // BLOCK + BLOCKS, tree_block=10)
    header, tree = (before + 1024, raw_header(num_blocks=count)), (before + 10 * BLOCK, header_node())
    assert probed(disk(before + SIZE, copy, tree, header)) == ("hfsplus", before, SIZE, [])
    assert probed(disk(before + SIZE, copy, tree)) == ("hfsplus", before, SIZE, ["volume-header-lost"])


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1 << 20, 100 * 4096),
        (20 * 512 + 3 * 4096 + 5000, 5000),
        (20 * 512 + 3 * 4096, 0),
        (20 * 512, 0),
    ],
)
def test_an_embedded_volume_is_cut_at_the_end(size, expected):
    """It begins after 20 sectors and three blocks of 4,096, and has a hundred of these.

    The part of the master directory block that leads to it has 130 bytes.
    """
    found = probe(Window(disk(size, (1024, wrapper("Wrapped", 4096, 20, 3, 100))), 0, size))
    assert (found.volume_offset, found.size_bytes) == (20 * 512 + 3 * 4096, expected)
    (region,) = found.regions
    assert (region.image_offset, region.length_bytes) == (1024, 130)


@pytest.mark.parametrize("wrong", [{"len_block": 2048}, {"len_block": 8192}, {"tree_block": 11, "num_blocks": 9}])
def test_a_copy_takes_the_place_of_a_header_that_its_trees_deny(wrong):
    """The catalog begins in block 10 of 4,096 bytes; nothing confirms the header, whose counts differ."""
    copy, tree = raw_header(tree_block=10), (10 * BLOCK, header_node())
    source = disk(2 * SIZE, (1024, raw_header(**({"tree_block": 10} | wrong))), (SIZE - 1024, copy), tree)
    volume = open_volume(source, 0, SIZE)
    assert (volume.block_size_bytes, volume.size_bytes) == (BLOCK, SIZE)
    (finding,) = volume.log.findings
    assert (finding.code, finding.level, finding.image_offset) == ("volume-header-invalid", "error", 1024 + 40)
    assert finding.expected == "64 blocks of 4,096 bytes"
    # The header is unchanged if no transaction writes it, and it is no change of the volume.
    assert reread_header(volume, volume.source).block_size_bytes == BLOCK
    written = disk(SIZE, (1024, raw_header(tree_block=10, num_files=7)), tree)
    assert int(reread_header(volume, written).header.num_files) == 7
    report_change(volume)
    assert len(volume.log.findings) == 1


def test_headers_that_are_believed():
    """Confirmed headers win against copies, and sound ones after a replay."""
    # The copy belongs to another volume, whose tree exists as well.
    trees = (10 * BLOCK, header_node()), (20 * BLOCK, header_node())
    parts = (1024, raw_header(tree_block=10, num_blocks=50)), (SIZE - 1024, raw_header(tree_block=20))
    volume = open_volume(disk(SIZE, *parts, *trees), 0)
    assert int(volume.header.num_blocks) == 50
    assert [item.code for item in volume.log.findings] == ["alternate-header-missing"]
    # A header that a transaction wrote replaces the old one; a damaged one does not.
    volume = open_volume(disk(SIZE, (1024, raw_header(num_files=3)), (SIZE - 1024, raw_header())), 0)
    again = disk(SIZE, (1024, raw_header(num_files=4)))
    assert int(reread_header(volume, again).header.num_files) == 4
    assert int(reread_header(volume, disk(SIZE)).header.num_files) == 3


def test_a_volume_that_changed_is_told_at_its_write_count():
    """The write count is byte 68 of the header, which is at 1,024."""
    data = bytearray(disk(SIZE, (1024, raw_header(write_count=7)), (SIZE - 1024, raw_header())).read(0, SIZE))
    volume = open_volume(MemorySource(memoryview(data)), 0)
    report_change(volume)
    assert volume.log.findings == []
    data[1024 + 68 : 1024 + 72] = (8).to_bytes(4, "big")
    report_change(reread_header(volume, MemorySource(bytes(data))))
    assert volume.log.findings == []
    report_change(replace(volume, source=MemorySource(bytes(data))))
    (finding,) = volume.log.findings
    assert (finding.code, finding.image_offset, finding.expected, finding.found) == (
        "changed-while-read",
        1092,
        "7",
        "8",
    )


def test_a_copy_that_differs_or_is_missing_is_reported():
    """The finding is where the copy is, or should be."""
    # Block counts, byte 44, and version, byte 2, must agree; file counts and clump sizes may differ.
    for changed, place in (({"version": 5}, 2), ({"num_blocks": BLOCKS - 1}, 44), ({"num_files": 9}, None)):
        volume = open_volume(disk(SIZE, (1024, raw_header()), (SIZE - 1024, raw_header(**changed))), 0)
        told = [(item.code, item.image_offset) for item in volume.log.findings]
        assert told == ([] if place is None else [("alternate-header-differs", SIZE - 1024 + place)])
    source = RescuedSource(disk(SIZE, (1024, raw_header())), np.array([[SIZE - 512, 512]]))
    volume = open_volume(source, 0)
    assert [(item.code, item.image_offset) for item in volume.log.findings] == [
        ("alternate-header-missing", SIZE - 1024)
    ]
    starts, lengths = np.array([SIZE - 1024, SIZE - 512, -1, SIZE, SIZE]), np.array([512, 1, 1, 0, 1])
    assert volume.is_readable(starts, lengths).tolist() == [True, False, False, True, False]
    # It would begin at 261,120; an image one byte shorter than the volume has no place for it.
    for size, place in ((SIZE, SIZE - 1024), (SIZE - 1, None)):
        (finding,) = open_volume(disk(size, (1024, raw_header())), 0).log.findings
        assert (finding.code, finding.image_offset) == ("alternate-header-missing", place)


@pytest.mark.parametrize(("space", "found"), [(SIZE, True), (SIZE + 512, False), (2 * SIZE, False)])
def test_a_copy_before_the_end_of_a_partition(space, found):
    """Without a header, the partition's size locates the copy, even if the image continues after the partition."""
    source = disk(2 * SIZE, (SIZE - 1024, raw_header()))
    if found:
        assert open_volume(source, 0, space).end_offset == SIZE - 1024
    else:
        with pytest.raises(FormatError) as refused:
            open_volume(Window(source, 512, SIZE * 2 - 512), 0, space - 512)
        assert refused.value.image_offset == 512 + 1024


@pytest.mark.parametrize("space", [SIZE - 512, SIZE, 2 * SIZE - 512])
def test_a_copy_behind_a_partition_is_not_its_own(space):
    """The volume in the image's last sectors has its own copy there, which does not belong to one at byte 0."""
    source = disk(2 * SIZE, (SIZE + 1024, raw_header()), (2 * SIZE - 1024, raw_header()))
    with pytest.raises(FormatError):
        open_volume(source, 0, space)
    assert open_volume(source, SIZE, SIZE).end_offset == SIZE - 1024


def test_bits_and_identifier_of_a_header():
    """Bits 8 and 13 are set; the identifier is the last two of eight words, bytes 104 to 111."""
    assert attribute_names(header(attributes=1 << 13 | 1 << 8)) == ("unmounted", "journaled")
    data = bytearray(raw_header())
    assert volume_uuid(read_header(MemorySource(bytes(data)), 0, "")) == ""
    data[103] = 1
    assert volume_uuid(read_header(MemorySource(bytes(data)), 0, "")) == ""
    data[104:112] = bytes(range(8))
    # Apple's name space and these eight bytes, hashed with MD5 as version 3 (RFC 4122, 4.3).
    import hashlib
    import uuid

    space = uuid.UUID("b3e20f39-f292-11d6-97a4-00306543ecac")
    digest = hashlib.md5(space.bytes + bytes(range(8)), usedforsecurity=False).digest()
    told = volume_uuid(read_header(MemorySource(bytes(data)), 0, ""))
    assert told == str(uuid.UUID(bytes=digest, version=3)).upper()


def fork(*extents: tuple[int, int], size: int | None = None) -> Fork:
    """Return a fork in the volume header with the given extents."""
    starts, counts = (np.array(values, np.int64) for values in zip(*extents, strict=True))
    return Fork(int(counts.sum()) * BLOCK if size is None else size, starts, counts, np.full(len(extents), -1))


GEOMETRY = SimpleNamespace(block_size_bytes=BLOCK)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ((0, BLOCK), [(10 * BLOCK, BLOCK)]),
        ((0, 2 * BLOCK), [(10 * BLOCK, 2 * BLOCK)]),
        ((0, 2 * BLOCK + 1), [(10 * BLOCK, 2 * BLOCK), (30 * BLOCK, 1)]),
        ((2 * BLOCK, BLOCK), [(30 * BLOCK, BLOCK)]),
        ((2 * BLOCK - 1, BLOCK + 2), [(12 * BLOCK - 1, 1), (30 * BLOCK, BLOCK), (20 * BLOCK, 1)]),
        ((5 * BLOCK, BLOCK), [(22 * BLOCK, BLOCK)]),
        ((5 * BLOCK, BLOCK + 1), []),  # it would end after the last extent
        ((6 * BLOCK, 1), []),
    ],
)
def test_parts_of_a_fork_are_cut_at_its_extents(part, expected):
    """The fork has two blocks at 10, one at 30, and three at 20."""
    pieces = locate(GEOMETRY, fork((10, 2), (30, 1), (20, 3)), np.array([part[0]]), np.array([part[1]]))
    assert [*zip(pieces.volume_offset.tolist(), pieces.length_bytes.tolist(), strict=True)] == expected
    assert pieces.part.tolist() == [0] * len(expected)


def test_forks_are_compared_and_extended():
    first = fork((10, 2), (30, 1))
    assert first.num_blocks == 3
    assert first.is_same(fork((10, 2), (30, 1)))
    for other in (fork((10, 2), (31, 1)), fork((10, 2), (30, 2), size=3 * BLOCK), fork((10, 2), (30, 1), size=1)):
        assert not first.is_same(other)
    records = {
        "node": np.array([7]),
        "key.file_id": np.array([4]),
        "key.fork_type": np.array([0]),
        "key.start_block": np.array([3]),
        "data.extents.start_block": np.array([[50]]),
        "data.extents.num_blocks": np.array([[4]]),
    }
    longer = extend_fork(first, SimpleNamespace(records=records), 4, 0)
    assert (longer.start_blocks.tolist(), longer.block_counts.tolist()) == ([10, 30, 50], [2, 1, 4])
    assert (longer.record_nodes.tolist(), longer.logical_size_bytes) == ([-1, -1, 7], 3 * BLOCK)
    raw = bytearray(raw_header())
    raw[272:312] = struct.pack(">QIIIIIIII", 9000, 0, 3, 10, 2, 99, 0, 30, 1)
    found = inline_fork(read_header(MemorySource(bytes(raw)), 0, "").catalog_file)
    assert (found.start_blocks.tolist(), found.block_counts.tolist()) == ([10, 30], [2, 1])
    assert (found.logical_size_bytes, found.record_nodes.tolist()) == (9000, [-1, -1])
    whole = fork((10, 2), (12, 1), (20, 1), (21, 1))
    pieces = locate(GEOMETRY, whole, np.array([0]), np.array([5 * BLOCK]))
    assert [values.tolist() for values in join_pieces(pieces)] == [[10 * BLOCK, 20 * BLOCK], [3 * BLOCK, 2 * BLOCK]]


@pytest.mark.parametrize(
    ("bits", "blocks", "expected"),
    [
        (b"\x00", 8, [(0, 8)]),
        (b"\x7f\xfe", 16, [(0, 1), (15, 1)]),
        (b"\xf0\x0f", 16, [(4, 8)]),
        (b"\xff\x00", 12, [(8, 4)]),  # bits after the last block are ignored
        (b"\xff\xff", 9, []),
        (b"\xff", 16, []),  # blocks after the last bit count as used
    ],
)
def test_free_blocks_are_bits_that_are_not_set(bits, blocks, expected):
    """The first block is the highest bit; the bitmap is in block 5."""
    raw = raw_header(num_blocks=blocks, num_free_blocks=sum(count for _, count in expected))
    volume = open_volume(disk(SIZE, (1024, raw), (5 * BLOCK, bits)), 0)
    before = len(volume.log.findings)
    starts, counts = read_free_runs(volume, fork((5, 1), size=len(bits)))
    assert [*zip(starts.tolist(), counts.tolist(), strict=True)] == expected
    assert volume.log.findings[before:] == []


def test_counts_and_forks_that_contradict_the_volume():
    """Both give findings at their addresses."""
    # The finding is at byte 48 of the header.
    volume = open_volume(disk(SIZE, (1024, raw_header(num_free_blocks=3)), (5 * BLOCK, b"\x0f".ljust(8, b"\xff"))), 0)
    read_free_runs(volume, fork((5, 1), size=8))
    told = [(item.image_offset, item.expected, item.found) for item in volume.log.findings if "free" in item.code]
    assert told == [(1024 + 48, "4", "3")]
    volume = open_volume(Window(disk(512 + SIZE, (512 + 1024, raw_header())), 512, SIZE), 0)
    with pytest.raises(FormatError) as refused:
        read_parts(volume, locate(volume, fork((BLOCKS, 1)), np.array([0]), np.array([BLOCK])))
    assert refused.value.image_offset == SIZE
    assert len(read_parts(volume, locate(volume, fork((BLOCKS - 1, 1)), np.array([0]), np.array([BLOCK])))) == BLOCK


def test_bitmaps_are_read_as_far_as_they_exist():
    """A bitmap of an inferred volume has no count to compare with."""
    # An inferred volume has no bitmap if its fork has no blocks, and no free count to compare with.
    volume = open_volume(disk(SIZE, (1024, raw_header(num_blocks=8)), (5 * BLOCK, b"\x0f")), 0)
    none = np.empty(0, np.int64)
    told = len(volume.log.findings)
    inferred = replace(volume, is_inferred=True)
    assert [values.tolist() for values in read_free_runs(inferred, Fork(0, none, none, none))] == [[], []]
    assert [values.tolist() for values in read_free_runs(inferred, fork((5, 1), size=1))] == [[0], [4]]
    assert len(volume.log.findings) == told
    read_free_runs(volume, Fork(0, none, none, none))
    assert [item.code for item in volume.log.findings[told:]] == []
    read_free_runs(volume, fork((5, 1), size=1))
    assert [item.code for item in volume.log.findings[told:]] == ["free-count-differs"]
    # Outside the image, the address is sufficient; for unread sectors, the structure is named.
    source = RescuedSource(disk(SIZE, (1024, raw_header())), np.array([[5 * BLOCK, 512]]))
    volume = open_volume(source, 0)
    read_free_runs(volume, fork((5, 1), size=8))
    read_free_runs(volume, fork((BLOCKS, 1), size=8))
    found = [item for item in volume.log.findings if item.code == "allocation-file-unreadable"]
    assert [item.image_offset for item in found] == [5 * BLOCK, SIZE]
    assert found[0].structure == "allocation file"
    assert found[1].structure != "allocation file"


def test_a_replayed_sector_covers_its_own_bytes():
    """Reads that end before the sector or begin after it do not see it."""
    data = np.full(512, 7, np.uint8)
    overlay = Overlay(MemorySource(bytes(2048)), np.array([512]), np.array([512]), np.array([0]), data)
    for start, length, expected in ((0, 512, 0), (1024, 512, 0), (0, 513, 1), (1023, 2, 1), (512, 512, 512)):
        assert overlay.read(start, length).count(7) == expected


@pytest.mark.parametrize("size", [1024, 2048])
def test_the_smallest_place_of_a_copy(size):
    """A volume of two or four sectors has its copy in the last two, even if these are its first two."""
    raw = raw_header(len_block=512, num_blocks=size // 512)
    source = disk(8192, (1024, raw), (size - 1024, raw))
    volume = open_volume(source, 0)
    assert (volume.end_offset, volume.size_bytes) == (size - 1024, size)
    alone = open_volume(Window(disk(8192, (512 + 1024, raw)), 512, 4096), 0)
    missing = [item.image_offset for item in alone.log.findings if item.code == "alternate-header-missing"]
    assert missing == ([512] if size == 1024 else [])
