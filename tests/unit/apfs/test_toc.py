from __future__ import annotations

import struct

import numpy as np
import pytest

from layoutscope.filesystems.apfs.nodes import node_heads, slots
from tests.unit.apfs.toys import BLOCK, FIXED, HEAD, INFO, LEAF, child, mapping, node

SIZES = 16, 16, 8


def locate(*nodes: bytes, sizes: tuple[int, int, int] = (0, 0, 8)):
    """Return the records of contiguous nodes, and which nodes are torn."""
    return located(*nodes, sizes=sizes)[:2]


def located(*nodes: bytes, sizes: tuple[int, int, int] = (0, 0, 8)):
    """Return everything that the tables of contiguous nodes lead to."""
    buffer = np.frombuffer(b"".join(nodes), np.uint8)
    starts = np.arange(len(nodes)) * BLOCK
    return slots(buffer, node_heads(buffer, starts), BLOCK, sizes)


def varying(*entries: tuple[int, int, int, int], num_records: int | None = None) -> bytes:
    """Lay out a leaf with entries (key start, key length, value start, value length) and no keys or values."""
    table = b"".join(struct.pack("<HHHH", *entry) for entry in entries)
    count = len(entries) if num_records is None else num_records
    head = bytes(32) + struct.pack("<HHI", LEAF, 0, count) + struct.pack("<HH", 0, len(table)) + bytes(12)
    return (head + table).ljust(BLOCK, b"\0")


def test_keys_are_counted_upwards_and_values_downwards():
    """Two entries of 4 bytes: keys start at 56 + 8; values end at 512, or in a root at 512 - 40."""
    records = [mapping(1, 1, 1), mapping(2, 2, 2)]
    found, torn = locate(node(1, records), node(2, records, root=(2, 1)), sizes=SIZES)
    assert torn.tolist() == [False, False]
    assert found.node.tolist() == [0, 0, 1, 1]
    first = HEAD + 2 * 4
    assert found.key_start.tolist() == [first, first + 16, BLOCK + first, BLOCK + first + 16]
    end = 2 * BLOCK - INFO
    assert found.val_start.tolist() == [BLOCK - 16, BLOCK - 32, end - 16, end - 32]
    assert found.key_len.tolist() == found.val_len.tolist() == [16] * 4


def test_entries_may_say_their_lengths():
    """One entry of 8 bytes: the key starts 3 bytes into the keys, the value 10 bytes before the end."""
    found, _ = locate(varying((3, 5, 10, 7)))
    assert (found.key_start.tolist(), found.key_len.tolist()) == ([HEAD + 8 + 3], [5])
    assert (found.val_start.tolist(), found.val_len.tolist()) == ([BLOCK - 10], [7])


def test_a_ghost_has_a_key_and_no_value():
    """A value that starts at 0xffff does not exist."""
    found, torn = locate(varying((0, 4, 0xFFFF, 9)))
    assert (found.key_len.tolist(), found.val_len.tolist(), torn.tolist()) == ([4], [0], [False])


def test_an_entry_that_leaves_its_node_tears_that_node_alone():
    """A key of 500 bytes does not fit, nor does a value longer than the space left; the last node is whole."""
    found, torn = locate(varying((0, 500, 4, 4)), varying((0, 4, 4, 5)), varying((0, 4, 4, 4)))
    assert torn.tolist() == [True, True, False]
    assert found.node.tolist() == [2]


def test_a_record_that_leaves_a_leaf_leaves_the_others():
    """The second of three keys has 500 bytes; its entry is 8 bytes into the table of the second node."""
    whole = varying((0, 4, 4, 4))
    found, torn, strays = located(whole, varying((0, 4, 4, 4), (4, 500, 8, 4), (8, 4, 12, 4)))
    assert torn.tolist() == [False, False]
    assert found.node.tolist() == [0, 1, 1]
    assert found.val_start.tolist() == [BLOCK - 4, 2 * BLOCK - 4, 2 * BLOCK - 12]
    assert [column.tolist() for column in strays] == [[1], [1], [BLOCK + HEAD + 8]]


@pytest.mark.parametrize("count", [3, 4])
def test_a_leaf_most_of_whose_records_lie_outside_is_torn(count):
    """With two of three or two of four records outside, the table is corrupt and no entry can be trusted."""
    wrong, right = (0, 500, 4, 4), (0, 4, 4, 4)
    found, torn, strays = located(varying(wrong, wrong, *[right] * (count - 2)))
    assert (torn.tolist(), len(found), len(strays[0])) == ([True], 0, 0)


def test_a_record_that_leaves_an_index_node_tears_it():
    """A subtree that no record names is searched for if the whole node is lost."""
    records = [child(number, 1, number) for number in (1, 2, 3)]
    torn = bytearray(node(1, records, level=1))
    # The second record's entry, 2 bytes for the key and 2 for the value, points beyond the node.
    torn[HEAD + 4 : HEAD + 6] = struct.pack("<H", BLOCK)
    found, is_torn = locate(bytes(torn), node(1, records, level=1), sizes=SIZES)
    assert is_torn.tolist() == [True, False]
    assert found.node.tolist() == [1, 1, 1]


def test_more_records_than_the_table_holds():
    """Two records are counted, but the table has room for one entry."""
    found, torn = locate(varying((0, 4, 4, 4), num_records=2))
    assert (len(found), torn.tolist()) == (0, [True])


def test_a_key_shorter_than_the_tree_says():
    """Keys of a tree whose information says 16 bytes cannot have 4."""
    assert locate(varying((0, 4, 4, 4)), sizes=SIZES)[1].tolist() == [True]


def test_values_of_index_nodes_have_the_length_of_a_number():
    """A value is eight bytes, whatever the leaves have; with the hash of a sealed volume it is 40."""
    index = node(1, [child(1, 1, 1)], level=1)
    assert locate(index, sizes=SIZES)[0].val_len.tolist() == [8]
    assert locate(index, sizes=(16, 16, 40))[1].tolist() == [True]


def test_a_node_of_the_other_kind_among_its_siblings():
    """Entries of fixed and of varying size in one batch: each node is read by its own flag."""
    assert FIXED & node(1, [])[32]
    found, _ = locate(node(1, [mapping(1, 1, 1)]), varying((0, 20, 4, 4)), sizes=SIZES)
    assert found.key_len.tolist() == [16, 20]
