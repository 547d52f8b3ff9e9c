"""The journal by its bytes: its location, which of its lists count, and what each of them writes.

TN1150, "Journal", in both byte orders. The volume has 64 blocks of 4 KiB; the journal info block is block 2, and the
journal, a header of 512 bytes and a buffer of 15,872, is in blocks 4 to 7. Block lists have 512 bytes: 16 for their
header and 31 entries of 16, and the first of these is not a block.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.journal import find_journal, replay_journal, report_pending, unroll_ring
from layoutscope.filesystems.hfsplus.volume import open_volume
from layoutscope.image import MemorySource
from layoutscope.structs.records import VOLUME_HEADER

BLOCK, BLOCKS = 4096, 64
SIZE = BLOCK * BLOCKS
INFO_AT, AT, LENGTH = 2 * BLOCK, 4 * BLOCK, 4 * BLOCK
FIRST, LIST = 512, 512
JOURNALED, UNMOUNTED = 1 << 13, 1 << 8


def checksum(data: bytes) -> int:
    """The 32-bit checksum as defined in TN1150."""
    total = 0
    for byte in data:
        total = (total << 8 ^ total + byte) & 0xFFFFFFFF
    return ~total & 0xFFFFFFFF


def block_list(
    blocks=(), sequence=0, order=">", *, flags=0, count=None, used=None, spoil=False, sizes=None, sums=None
) -> bytes:
    """Return a block list from pairs of a target sector and its bytes."""
    sizes = sizes or [len(data) for _, data in blocks]
    sums = sums or [checksum(data) for _, data in blocks]
    count = len(blocks) + 1 if count is None else count
    used = LIST + sum(sizes) if used is None else used
    infos = struct.pack(order + "qII", 0, 0, sequence)
    for (sector, _), size, told in zip(blocks, sizes, sums, strict=True):
        infos += struct.pack(order + "qII", sector, size, told)
    head = struct.pack(order + "HHIII", 31, count, used, 0, flags)
    told = checksum((head + infos)[:32]) ^ spoil
    head = struct.pack(order + "HHIII", 31, count, used, told, flags)
    return (head + infos).ljust(LIST, b"\0") + b"".join(data for _, data in blocks)


def journal_header(start: int, end: int, order=">", length=LENGTH, first=FIRST) -> bytes:
    """Return a header whose checksum covers its first 44 bytes, with the checksum field as zero."""
    values = [0x4A4E4C78, 0x12345678, start, end, length, LIST, 0, first]
    values[6] = checksum(struct.pack(order + "IIQQQIII", *values))
    return struct.pack(order + "IIQQQIIII", *values, 0)


def disk(
    lists: bytes = b"", *, start=FIRST, end=None, order=">", flags=1, at=AT, length=LENGTH, attributes=0, **head
) -> bytearray:
    """Return a journaled volume whose buffer has some lists from a given offset, wrapping after its header."""
    data = bytearray(SIZE)
    fields = {
        "version": 4,
        "len_block": BLOCK,
        "num_blocks": BLOCKS,
        "attributes": JOURNALED | attributes,
        "journal_info_block": 2,
    }
    header = b"H+" + VOLUME_HEADER.blank(fields)[2:]
    for place in (1024, SIZE - 1024):
        data[place : place + len(header)] = header
    data[INFO_AT : INFO_AT + 180] = struct.pack(">I32xQQ128x", flags, at, length)
    end = FIRST + (start - FIRST + len(lists)) % (LENGTH - FIRST) if end is None else end
    data[AT : AT + 48] = journal_header(start, end, order, **head)
    for number, byte in enumerate(lists):
        data[AT + FIRST + (start - FIRST + number) % (LENGTH - FIRST)] = byte
    return data


def opened(data: bytearray):
    """Return the volume and its journal."""
    volume = open_volume(MemorySource(bytes(data)), 0)
    return volume, find_journal(volume)


def replayed(data: bytearray):
    """Return the first bytes of sectors 200 to 203 after a replay, and the findings."""
    volume, journal = opened(data)
    overlay = replay_journal(volume, journal)
    source = volume.source if overlay is None else overlay
    values = [source.read(sector * 512, 512) for sector in range(200, 204)]
    assert all(value == value[:1] * 512 for value in values)
    found = [(item.code, item.level, item.image_offset) for item in volume.log.findings]
    return [value[0] for value in values], found


def sectors(*values: int) -> list[tuple[int, bytes]]:
    """Return a block of one sector for each value, from sector 200 on."""
    return [(200 + number, bytes([value]) * 512) for number, value in enumerate(values)]


REPLAYED = ("journal-replayed", "info", AT)


@pytest.mark.parametrize("order", [">", "<"])
def test_lists_are_applied_in_their_order(order):
    """The second list rewrites sector 201, and a block of two sectors after it."""
    second = block_list([(201, b"\5" * 512), (202, b"\6" * 1024)], 4, order)
    lists = block_list(sectors(1, 2), 3, order) + second
    assert replayed(disk(lists, order=order)) == ([1, 5, 6, 6], [REPLAYED])


def test_what_was_applied_is_counted():
    volume, journal = opened(disk(block_list(sectors(1, 2), 3) + block_list(sectors(4), 4)))
    assert (journal.info_offset, journal.journal_offset, journal.size_bytes) == (INFO_AT, AT, LENGTH)
    assert journal.num_pending_bytes == 2 * LIST + 3 * 512
    replay_journal(volume, journal)
    assert volume.log.findings[0].message == "2 block lists with 3 blocks were applied in memory"
    report_pending(volume, journal)
    assert volume.log.findings[1].message.startswith("2,560 bytes of transactions")


@pytest.mark.parametrize("back", [16, 512, 700, 1024])
def test_a_ring_goes_on_behind_its_header(back):
    """One list begins the given number of bytes before the end of the buffer, and another follows it."""
    lists = block_list(sectors(1, 2), 3) + block_list([(202, b"\7" * 512)], 4)
    data = disk(lists, start=LENGTH - back)
    assert opened(data)[1].num_pending_bytes == len(lists)
    assert replayed(data) == ([1, 2, 7, 0], [REPLAYED])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(512, 512, 0), (512, 513, 1), (513, 512, 15_871), (16_383, 512, 1), (16_383, 513, 2), (512, 16_384, 15_872)],
)
def test_how_much_is_pending(start, end, expected):
    """The buffer has 15,872 bytes; data that reaches its end wraps to byte 512."""
    assert opened(disk(start=start, end=end))[1].num_pending_bytes == expected


def test_the_buffer_is_unrolled_from_the_oldest_transaction():
    volume, journal = opened(disk(bytes(range(1, 101)), start=LENGTH - 30))
    data = unroll_ring(volume, journal, journal.header)
    assert data[:100].tolist() == [*range(1, 101)]
    assert (len(data), int(np.count_nonzero(data))) == (LENGTH - FIRST, 100)


@pytest.mark.parametrize(("start", "end"), [(512, 600), (16_383, 600), (600, 512), (600, 16_384)])
def test_where_transactions_may_begin_and_end(start, end):
    """They begin after the header and before the end of the journal; findings are at the journal's header."""
    for plus in (0, -1 if 512 in (start, end) else 1):
        data = disk()
        data[AT : AT + 48] = journal_header(*(each + plus * (each != 600) for each in (start, end)))
        assert (("journal-invalid", "error", AT) in replayed(data)[1]) == (plus != 0)


@pytest.mark.parametrize(("length", "is_sound"), [(LENGTH, True), (LENGTH + 1, False)])
def test_a_ring_is_no_longer_than_the_journal(length, is_sound):
    data = disk(block_list(sectors(1), 3), length=LENGTH)
    data[AT : AT + 48] = journal_header(512, 512 + LIST + 512, length=length)
    assert replayed(data)[0][0] == is_sound


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((5, 5), [1, 2, 0, 0]),  # continues the same transaction
        ((5, 6), [1, 2, 0, 0]),  # continues with the next one
        ((5, 6, 7), [1, 2, 3, 0]),
        ((5, 6, 8), [1, 2, 0, 0]),
        ((5, 7), [1, 0, 0, 0]),
        ((5, 4), [1, 0, 0, 0]),
        ((0, 0), [1, 0, 0, 0]),  # old journals have no numbers
        ((0, 1), [1, 0, 0, 0]),
    ],
)
def test_lists_behind_the_end_count_as_long_as_their_numbers_go_on(numbers, expected):
    """The header's end is that of the first list; data after the last valid list is not reported."""
    each = [block_list([(200 + place, bytes([place + 1]) * 512)], number) for place, number in enumerate(numbers)]
    assert replayed(disk(b"".join(each), end=FIRST + len(each[0]))) == (expected, [REPLAYED])


def test_blocks_that_are_not_written():
    """A block that was freed later stays."""
    # Its number is -1; the blocks around it are written.
    blocks = [(200, b"\1" * 512), (-1, b"\2" * 512), (202, b"\3" * 512)]
    assert replayed(disk(block_list(blocks, 3)))[0] == [1, 0, 3, 0]
    volume, journal = opened(disk(block_list([(0, b"\1" * 512)], 3)))
    assert replay_journal(volume, journal).read(0, 513) == b"\1" * 512 + b"\0"


@pytest.mark.parametrize(
    ("second", "plus"),
    [
        (block_list(sectors(9), 4, spoil=True), 8),  # the checksum, byte 8 of the list
        (block_list(sectors(9), 4, count=0), 2),  # the number of blocks, byte 2
        (block_list(sectors(9), 4, count=32), 2),
        (block_list(sectors(9), 4, used=LIST - 1), 2),
        (block_list(sectors(9), 4, used=LENGTH - FIRST - 1024 + 1), 2),
        (block_list(sectors(9), 4, used=LIST + 511), 0),  # less than its blocks need
        (block_list(sectors(9), 4, flags=1, sums=[7]), 0),  # the checksum of a block
    ],
)
@pytest.mark.parametrize("start", [FIRST, LENGTH - 100])
def test_a_damaged_list_ends_the_replay_at_its_address(second, plus, start):
    """The first list takes 1,024 bytes; if the ring wraps, the second is that far after the header."""
    first = block_list(sectors(1), 3)
    place = FIRST + (start - FIRST + 1024) % (LENGTH - FIRST)
    found = replayed(disk(first + second, start=start))
    assert found == ([1, 0, 0, 0], [("journal-invalid", "error", AT + place + plus), REPLAYED])


@pytest.mark.parametrize(
    "second",
    [
        block_list([], 4),  # no block: one entry
        block_list([(203, b"")] * 30, 4),  # room for 31 entries
        block_list(sectors(1), 4, used=LIST + 600),
        block_list(sectors(1), 4, flags=1),
        block_list(sectors(1), 4, flags=2, sums=[7]),  # no block checksums
        block_list([(200, b"\1" * 512), (201, b"\0" * 1024)], 4, flags=1),
        block_list(sectors(1), 4, used=LENGTH - FIRST - 1024),
    ],
)
def test_lists_at_their_bounds_are_sound(second):
    lists = block_list(sectors(1), 3) + second
    assert replayed(disk(lists, end=FIRST + len(lists) - 1)) == ([1, 0, 0, 0], [REPLAYED])


def test_a_list_that_ends_early_is_told():
    """The ring has room for 31 lists without blocks; 31 of 512 bytes fill it."""
    lists = block_list([], 3) * 30 + bytes(1)
    assert replayed(disk(lists))[1] == [("journal-invalid", "error", AT + FIRST + 30 * LIST + 2)]


@pytest.mark.parametrize(
    ("at", "length", "field"),
    [
        (SIZE - LENGTH, LENGTH, None),
        (SIZE - LENGTH, LENGTH + 1, 44),
        (SIZE - 48, 48, None),
        (SIZE - 47, 48, 36),
        (AT, 47, 44),
    ],
)
def test_where_a_journal_may_lie(at, length, field):
    """It must end within the volume and have a header: offset at byte 36 of the info block, size at 44."""
    data = disk(at=at, length=length)
    data[at : at + 48] = journal_header(512, 512)[: SIZE - at]
    volume, journal = opened(data)
    invalid = [item.image_offset for item in volume.log.findings if item.code == "journal-invalid"]
    assert invalid == ([] if field is None else [INFO_AT + field])
    assert (journal.header is None) == (field is not None)


@pytest.mark.parametrize(
    ("flags", "pending", "attributes", "codes"),
    [
        (1, True, 0, []),
        (9, True, 0, ["journal-invalid"]),  # a bit without meaning
        (3, False, 0, ["journal-invalid"]),  # here and elsewhere
        (0, False, 0, ["journal-invalid"]),  # neither
        (2, False, 0, ["journal-external"]),
        (2, True, 0, ["journal-invalid"]),  # flagged as elsewhere, but it is here
        (5, True, UNMOUNTED, ["journal-invalid"]),  # flagged as empty, but it is not
        (5, False, UNMOUNTED, []),
        (5, False, 0, ["journal-invalid"]),  # flagged as empty, but the volume was not unmounted
    ],
)
def test_flags_that_contradict_each_other(flags, pending, attributes, codes):
    """In the file system is 1, on another device is 2, to be initialised is 4."""
    volume, journal = opened(disk(block_list(sectors(1), 3) * pending, flags=flags, attributes=attributes))
    assert [(item.code, item.image_offset) for item in volume.log.findings] == [(code, INFO_AT) for code in codes]
    assert (journal.journal_offset, journal.size_bytes) == ((AT, LENGTH) if flags & 1 else (0, 0))
    assert (journal.header is not None) == (flags & 5 == 1)


@pytest.mark.parametrize(("start", "plus"), [(512, 36), (16_384, 36), (511, 8), (16_385, 8)])
def test_a_wrong_checksum_is_told_at_what_is_impossible(start, plus):
    """The finding is at the checksum, byte 36 of the header, or at the start, byte 8, if that is outside the ring."""
    data = disk()
    data[AT : AT + 48] = journal_header(start, 600)
    data[AT + 36] ^= 1
    volume, journal = opened(data)
    assert [(item.code, item.image_offset) for item in volume.log.findings] == [("journal-invalid", AT + plus)]
    assert journal.header is None
    assert journal.num_pending_bytes == 0


@pytest.mark.parametrize(
    ("name", "words"), [(b"8C1F", "not read: 8C1F"), (b"", "not read: signature 00000007 00000000 00000000")]
)
def test_an_external_journal_is_named(name, words):
    """It is named by its identifier, a text at byte 52 of the info block, or else by the words at byte 4."""
    levels = [opened(disk(flags=2, attributes=each))[0].log.findings[0].level for each in (UNMOUNTED, 0)]
    assert levels == ["warning", "error"]
    data = disk(flags=2)
    data[INFO_AT + 4 : INFO_AT + 8] = (7).to_bytes(4, "big")
    data[INFO_AT + 52 : INFO_AT + 52 + len(name)] = name
    (finding,) = opened(data)[0].log.findings
    assert words in finding.message
