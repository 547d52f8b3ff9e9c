"""Records of APFS nodes and the leading numbers of their keys, found in C and in numpy."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.filesystems.apfs.nodes import LOCATE_SLOTS, node_heads, slots
from layoutscope.filesystems.apfs.source import LEADING_NUMBERS, low_keys
from layoutscope.structs.records import BTREE_INFO, FREE_QUEUE_KEY, J_KEY, OMAP_KEY
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, spoil
from tests.unit.native.reference.toc import decoded_order, plain_slots

SIZE = 160
ROOT, LEAF, FIXED = 1, 2, 4


@st.composite
def nodes(draw) -> bytes:
    """Return a node of 160 bytes with a table of contents: most entries are inside, some are ghosts or invalid."""
    flags = draw(st.sampled_from([LEAF, LEAF | FIXED, 0, FIXED, ROOT | LEAF | FIXED, ROOT]))
    width = 2 if flags & FIXED else 4
    place = st.one_of(st.integers(0, 24), st.sampled_from([0xFFFF, 30, 80]))
    some = draw(st.integers(0, 5))
    entries = draw(st.lists(st.lists(place, min_size=width, max_size=width), min_size=some, max_size=some))
    if not flags & FIXED and draw(st.booleans()):
        entries = [[key, 4, max(value, size), size] for key, _, value, size in entries]
    table = b"".join(struct.pack(f"<{width}H", *entry) for entry in entries)
    count = draw(st.one_of(st.just(some), st.sampled_from([0, 3, 2**32 - 1])))
    offset, length = draw(st.one_of(st.just((0, len(table))), st.sampled_from([(8, 8), (0, 400), (60000, 8)])))
    head = bytes(32) + struct.pack("<HHI", flags, 0, count) + struct.pack("<HH", offset, length) + bytes(12)
    return (head + table).ljust(SIZE, b"\0")


SIZES = st.sampled_from([(0, 0, 8), (4, 4, 8), (16, 8, 8), (2**32 - 1, 2**32 - 1, 8)])


@EXAMPLES
@given(parts=st.lists(nodes(), max_size=4), sizes=SIZES)
def test_the_same_records_are_found(parts, sizes):
    """Locations, lengths, torn nodes and records outside their nodes are equal."""
    buffer = np.frombuffer(b"".join(parts), np.uint8)
    starts = np.arange(len(parts), dtype=np.int64) * SIZE
    head = node_heads(buffer, starts)
    one, torn, strays = slots(buffer, head, SIZE, sizes)
    other, other_torn, other_strays = plain_slots(buffer, starts, head, SIZE, sizes)
    assert torn.tolist() == other_torn
    for name in one.__struct_fields__:
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    assert [each.tolist() for each in strays] == other_strays


@EXAMPLES
@given(data=st.data(), parts=st.lists(nodes(), max_size=3))
def test_any_numbers_leave_everything_else_alone(data, parts):
    """For sizes, flags, counts and places of any value, nothing is written outside the results."""
    count = len(parts)
    flags = np.array([data.draw(st.integers(0, 8)) for _ in parts], np.uint8)
    table = [np.array([data.draw(st.one_of(st.integers(0, 60), EVIL)) for _ in parts], np.int64) for _ in range(3)]
    found = [np.zeros(20, np.int64), np.zeros(20, np.int64), np.zeros(20, np.int32)]
    arrays = [np.frombuffer(b"".join(parts), np.uint8), flags, *table, *found, *found[1:], np.zeros(count, np.uint8)]
    arrays += [*(np.zeros(20, np.int64) for _ in range(3)), np.zeros(1, np.int64)]
    fenced = Fenced(*spoil(data.draw, arrays))
    buffer, *others = fenced.copies
    usual = ([SIZE], [BTREE_INFO.width], [0, 4], [4], [8])
    numbers = [data.draw(st.one_of(st.sampled_from(some), EVIL)) for some in usual]
    LOCATE_SLOTS.attempt(buffer, *numbers, *others)
    assert fenced.hold()
    assert fenced.unchanged(0, 1, 2, 3, 4)


@EXAMPLES
@given(data=st.binary(min_size=24, max_size=120), places=st.lists(st.integers(0, 96), max_size=9))
@pytest.mark.parametrize(
    ("key_type", "field"), [(J_KEY, None), (OMAP_KEY, OMAP_KEY.oid), (FREE_QUEUE_KEY, FREE_QUEUE_KEY.xid)]
)
def test_the_same_numbers_lead_the_keys(key_type, field, data, places):
    """The order is by object and type in file-system trees, by the first field elsewhere."""
    buffer = np.frombuffer(data, np.uint8)
    starts = np.array([place for place in places if place + key_type.width <= len(data)], np.int64)
    source = SimpleNamespace(key_type=key_type, tree="some")
    assert low_keys(source, buffer, starts).tolist() == decoded_order(key_type, field, buffer, starts).tolist()


@EXAMPLES
@given(data=st.data(), raw=st.binary(max_size=60))
def test_keys_outside_are_refused(data, raw):
    """No read is outside the buffer, and no write outside the result."""
    places = np.array(data.draw(st.lists(st.one_of(st.integers(0, 52), EVIL), max_size=8)), np.int64)
    fenced = Fenced(*spoil(data.draw, [np.frombuffer(raw, np.uint8), places, np.zeros(len(places), np.int64)]))
    buffer, keys, numbers = fenced.copies
    sizes = [data.draw(st.one_of(st.sampled_from(some), EVIL)) for some in ([8, 16], [0, 8], [0, 4, 63])]
    found = LEADING_NUMBERS.attempt(buffer, *sizes, keys, numbers)
    assert fenced.hold()
    assert fenced.unchanged(0, 1)
    if found is not None:
        assert all(0 <= place <= len(buffer) - sizes[0] for place in keys.tolist())
