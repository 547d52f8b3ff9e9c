"""Descriptors and records of nodes of 64 bytes, written byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.nodes import INDEX, LEAF, decode_nodes, locate_records, record_bounds

NODE_BYTES = 64


def node(kind, body, offsets, *, count=None):
    """Make a node: links 7 and 3, height 1 or 2, its body after the descriptor, its offset table from the end."""
    descriptor = (
        bytes.fromhex("00000007 00000003")  # forward and backward link
        + bytes([kind % 256, 1 if kind == LEAF else 2])
        + (len(offsets) - 1 if count is None else count).to_bytes(2, "big")
        + bytes(2)  # reserved
    )
    table = b"".join(offset.to_bytes(2, "big") for offset in reversed(offsets))
    return (descriptor + body).ljust(NODE_BYTES - len(table), b"\0") + table


def decoded(*nodes):
    buffer = np.frombuffer(b"".join(nodes), np.uint8)
    return decode_nodes(buffer, NODE_BYTES, np.arange(len(nodes)) + 40)


LEAF_BODY = bytes.fromhex(
    "0006 010203040506 AABBCCDD"  # at 14: a key of 6 bytes, 4 bytes of data
    "0005 0102030405 00 EEFF"  # at 26: a key of 5 bytes and its padding, 2 bytes of data
)
WHOLE = node(LEAF, LEAF_BODY, [14, 26, 36])


def test_descriptors_and_keys_are_read():
    """Data starts at an even offset after the key, in each node of a batch."""
    # Links, kind, height and count of node 40 are in its first bytes.
    nodes = decoded(WHOLE)
    found = [getattr(nodes, name).item() for name in ("number", "f_link", "b_link", "kind", "height", "num_records")]
    assert found == [40, 7, 3, LEAF, 1, 2]
    # Keys at 14 and 26; data at 14 + 2 + 6 = 22 and, as 26 + 2 + 5 = 33 is odd, at 34; free space from 36.
    records = locate_records(decoded(WHOLE), None)
    places = zip(records.key.tolist(), records.data.tolist(), records.stop.tolist(), strict=True)
    assert list(places) == [(14, 22, 26), (26, 34, 36)]
    assert (records.free_offset.tolist(), records.damaged.tolist()) == ([36], [False])
    # Offsets count from the start of the buffer: 64 more in the second node.
    records = locate_records(decoded(WHOLE, WHOLE), None)
    assert records.node.tolist() == [0, 0, 1, 1]
    assert records.slot.tolist() == [0, 1, 0, 1]
    assert records.key.tolist() == [14, 26, 78, 90]


@pytest.mark.parametrize(
    "offsets",
    [[14, 27, 36], [14, 12, 36], [14, 60, 36]],
    ids=["odd", "inside the descriptor", "inside the table"],
)
def test_offsets_that_cannot_be_take_their_records_with_them(offsets):
    """Both records next to an impossible offset are dropped, and the node is damaged."""
    records = locate_records(decoded(node(LEAF, LEAF_BODY, offsets)), None)
    assert 26 not in records.key.tolist()
    assert records.damaged.tolist() == [True]


def test_nodes_without_room_or_keys():
    """Counts beyond the room, other kinds, and keys of fixed length."""
    # 64 - 14 bytes hold at most 24 records and the end of the last one; 500 is impossible.
    records = locate_records(decoded(node(LEAF, LEAF_BODY, [14, 26, 36], count=500)), None)
    assert records.damaged.tolist() == [True]
    # A map node is skipped.
    records = locate_records(decoded(node(2, LEAF_BODY, [14, 26, 36])), None)
    assert (records.key.tolist(), records.damaged.tolist()) == ([], [False])
    # A leaf without records has only the offset of its free space, at 62; a map node is not examined.
    found = record_bounds(decoded(node(LEAF, b"", [14]), node(2, LEAF_BODY, [14, 26, 36]), WHOLE))
    assert found.counts.tolist() == [0, 0, 2]
    assert (found.limit[0], found.limit[2], found.is_overfull.tolist()) == (62, 58, [False] * 3)
    assert (found.node.tolist(), found.first.tolist()) == ([2, 2], [14, 26])
    # A key of length 2 still takes 6 bytes, so the pointer is at 14 + 2 + 6 = 22.
    body = bytes.fromhex("0002 0102 00000000 00000009")
    nodes = decoded(node(INDEX, body, [14, 26]))
    assert locate_records(nodes, 6).data.tolist() == [22]
    assert locate_records(nodes, None).data.tolist() == [18]


@pytest.mark.parametrize(
    ("offsets", "free", "is_damaged"),
    [
        ([14, 26, 58], 58, False),  # full: the table of three offsets begins at 58
        ([14, 26, 60], -1, True),
        ([14, 26, 26], 26, True),  # no room for the length of a key
        ([14, 26, 36], 36, False),
    ],
)
def test_a_node_may_be_full(offsets, free, is_damaged):
    """The last record ends exactly where the table begins."""
    records = locate_records(decoded(node(LEAF, LEAF_BODY, offsets)), None)
    assert (records.free_offset.tolist(), records.damaged.tolist()) == ([free], [is_damaged])
    assert records.stop.tolist() == [26, *[offsets[2]] * (not is_damaged)]


@pytest.mark.parametrize(("offset", "free"), [(14, 14), (13, -1), (62, 62), (63, -1), (0, -1)])
def test_a_node_without_records_is_free_behind_its_descriptor(offset, free):
    """One offset of two bytes is at its end, so bytes 14 to 62 are free."""
    records = locate_records(decoded(node(LEAF, b"", [offset])), None)
    assert (records.free_offset.tolist(), records.damaged.tolist(), records.key.tolist()) == ([free], [False], [])


@pytest.mark.parametrize(("least", "keys"), [(8, [14, 26]), (9, [])])
def test_keys_have_a_least_length(least, keys):
    """Both take 8 bytes including their length, the second one with its padding."""
    records = locate_records(decoded(WHOLE), None, least)
    assert (records.key.tolist(), records.damaged.tolist()) == (keys, [not keys])


@pytest.mark.parametrize(("stop", "is_sound"), [(26, True), (24, False)])
def test_a_pointer_has_four_bytes_behind_its_key(stop, is_sound):
    """The key at 14 takes 8 bytes, and the pointer is from 22 to 26."""
    body = bytes.fromhex("0006 010203040506 00000009")
    records = locate_records(decoded(node(INDEX, body, [14, stop])), None)
    assert (records.data.tolist(), records.damaged.tolist()) == ([22] * is_sound, [not is_sound])


@pytest.mark.parametrize(
    ("offsets", "stops", "is_sound"),
    [
        ([14, 26, 58], [26, 58], [True, True]),  # the table of three offsets begins at 58
        ([14, 26, 60], [26, 60], [True, False]),
        ([12, 26, 36], [26, 36], [False, True]),  # inside the descriptor
        ([14, 27, 36], [27, 36], [True, False]),  # odd
        ([14, 16, 17], [16, 17], [True, False]),  # the minimum is two bytes, the length of a key
        ([26, 14, 36], [14, 36], [False, True]),
    ],
)
def test_bounds_of_records(offsets, stops, is_sound):
    """The second of two nodes is read; a record ends where the next begins, relative to its own node."""
    found = record_bounds(decoded(WHOLE, node(LEAF, LEAF_BODY, offsets)))
    own = found.node == 1
    assert found.slot.tolist() == [0, 1, 0, 1]
    assert (found.first[own].tolist(), found.stop[own].tolist()) == (offsets[:2], stops)
    assert (found.is_sound[~own].tolist(), found.is_sound[own].tolist()) == ([True, True], is_sound)


@pytest.mark.parametrize(("count", "is_overfull"), [(24, False), (25, True)])
def test_offsets_of_records_have_room(count, is_overfull):
    """64 - 14 bytes hold 25 offsets of two bytes, one of them for the free space: 24 records."""
    found = record_bounds(decoded(node(LEAF, b"", [14], count=count)))
    assert (found.counts.tolist(), found.limit.tolist(), found.is_overfull.tolist()) == ([24], [14], [is_overfull])
