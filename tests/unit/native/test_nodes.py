"""Records of B-tree nodes, located in C and in numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.filesystems.hfsplus.nodes import INDEX, LEAF, LOCATE_RECORDS, MAP, decode_nodes, locate_records
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, spoil
from tests.unit.native.reference.nodes import plain_locate

SIZE = 96


@st.composite
def nodes(draw) -> bytes:
    """Return a node of 96 bytes: a descriptor, records of any bytes, and offsets that mostly ascend."""
    kind = draw(st.sampled_from([LEAF, INDEX, MAP, 3]))
    count = draw(st.one_of(st.integers(0, 6), st.sampled_from([41, 500, 65535])))
    offsets = [14, *draw(st.lists(st.one_of(st.integers(14, SIZE), st.sampled_from([0, 65535])), max_size=6))]
    offsets = draw(st.sampled_from([sorted(offsets), offsets]))
    body = draw(st.lists(st.sampled_from([0, 1, 2, 6, 255]), min_size=SIZE - 14, max_size=SIZE - 14))
    table = b"".join(offset.to_bytes(2, "big") for offset in reversed(offsets))
    descriptor = bytes(8) + bytes([kind % 256, 1]) + count.to_bytes(2, "big") + bytes(2)
    return (descriptor + bytes(body))[: SIZE - len(table)] + table


@EXAMPLES
@given(parts=st.lists(nodes(), max_size=4), fixed=st.sampled_from([None, 0, 3, 8, 65535]), least=st.integers(0, 9))
def test_the_same_records_are_found(parts, fixed, least):
    """Locations, start of the free space and damaged nodes are equal."""
    buffer = np.frombuffer(b"".join(parts), np.uint8)
    read = decode_nodes(buffer, SIZE, np.arange(len(parts), dtype=np.int64))
    one, other = (locate(read, fixed, least) for locate in (locate_records, plain_locate))
    for name in one.__struct_fields__[1:]:
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


@EXAMPLES
@given(data=st.data(), parts=st.lists(nodes(), max_size=3))
def test_any_numbers_leave_everything_else_alone(data, parts):
    """For sizes, kinds and counts of any value, nothing is written outside the results."""
    count = len(parts)
    kinds = np.array([data.draw(st.integers(0, 3)) for _ in parts], np.uint8)
    counts = np.array([data.draw(EVIL) for _ in parts], np.int64)
    places = [np.zeros(20, np.int64) for _ in range(5)]
    arrays = [np.frombuffer(b"".join(parts), np.uint8), kinds, counts, *places]
    arrays += [np.zeros(count, np.int64), np.zeros(count, np.uint8)]
    fenced = Fenced(*spoil(data.draw, arrays))
    buffer, *others = fenced.copies
    numbers = [data.draw(st.one_of(st.sampled_from(usual), EVIL)) for usual in ([SIZE], [14], [4], [-1, 6], [0, 6])]
    LOCATE_RECORDS.attempt(buffer, *numbers, *others)
    assert fenced.hold()
    assert fenced.unchanged(0, 1, 2)
