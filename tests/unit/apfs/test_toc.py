from __future__ import annotations

import struct

import numpy as np

from layoutscope.filesystems.apfs.store.toc import Sizes, node_heads, slots
from layoutscope.ondisk.decoder import decoder_named
from tests.unit.apfs.toys import BLOCK, FIXED, HEAD, INFO, LEAF, mapping, node

SIZES = Sizes(BLOCK, 16, 16, 8)
VARYING = Sizes(BLOCK)


def locate(decoder, *nodes: bytes, sizes: Sizes = VARYING):
    """Return the records of nodes that follow each other, and which nodes are torn."""
    buffer = np.frombuffer(b"".join(nodes), np.uint8)
    starts, by = np.arange(len(nodes)) * BLOCK, decoder_named(decoder)
    return slots(by, buffer, starts, node_heads(by, buffer, starts), sizes)


def varying(*entries: tuple[int, int, int, int], num_records: int | None = None) -> bytes:
    """Lay out a leaf with entries (key start, key length, value start, value length) and nothing behind them."""
    table = b"".join(struct.pack("<HHHH", *entry) for entry in entries)
    count = len(entries) if num_records is None else num_records
    head = bytes(32) + struct.pack("<HHI", LEAF, 0, count) + struct.pack("<HH", 0, len(table)) + bytes(12)
    return (head + table).ljust(BLOCK, b"\0")


def test_keys_are_counted_upwards_and_values_downwards(decoder):
    """Two entries of 4 bytes: keys start at 56 + 8; values end at 512, or in a root at 512 - 40."""
    records = [mapping(1, 1, 1), mapping(2, 2, 2)]
    found, torn = locate(decoder, node(1, records), node(2, records, root=(2, 1)), sizes=SIZES)
    assert torn.tolist() == [False, False]
    assert found.node.tolist() == [0, 0, 1, 1]
    first = HEAD + 2 * 4
    assert found.key_start.tolist() == [first, first + 16, BLOCK + first, BLOCK + first + 16]
    end = 2 * BLOCK - INFO
    assert found.val_start.tolist() == [BLOCK - 16, BLOCK - 32, end - 16, end - 32]
    assert found.key_len.tolist() == found.val_len.tolist() == [16] * 4


def test_entries_may_say_their_lengths(decoder):
    """One entry of 8 bytes: the key starts 3 bytes into the keys, the value 10 bytes before the end."""
    found, _ = locate(decoder, varying((3, 5, 10, 7)))
    assert (found.key_start.tolist(), found.key_len.tolist()) == ([HEAD + 8 + 3], [5])
    assert (found.val_start.tolist(), found.val_len.tolist()) == ([BLOCK - 10], [7])


def test_a_ghost_has_a_key_and_no_value(decoder):
    """A value that starts at 0xffff does not exist."""
    found, torn = locate(decoder, varying((0, 4, 0xFFFF, 9)))
    assert (found.key_len.tolist(), found.val_len.tolist(), torn.tolist()) == ([4], [0], [False])


def test_an_entry_that_leaves_its_node_tears_that_node_alone(decoder):
    """A key of 500 bytes does not fit, nor does a value longer than what is left of it; the last node is whole."""
    found, torn = locate(decoder, varying((0, 500, 4, 4)), varying((0, 4, 4, 5)), varying((0, 4, 4, 4)))
    assert torn.tolist() == [True, True, False]
    assert found.node.tolist() == [2]


def test_more_records_than_the_table_holds(decoder):
    """Two records are counted where the table has room for one entry."""
    found, torn = locate(decoder, varying((0, 4, 4, 4), num_records=2))
    assert (len(found), torn.tolist()) == (0, [True])


def test_a_key_shorter_than_the_tree_says(decoder):
    """Keys of a tree whose information says 16 bytes cannot have 4."""
    assert locate(decoder, varying((0, 4, 4, 4)), sizes=SIZES)[1].tolist() == [True]


def test_a_node_of_the_other_kind_among_its_siblings(decoder):
    """Entries of fixed and of varying size in one batch: each node is read by its own flag."""
    assert FIXED & node(1, [])[32]
    found, _ = locate(decoder, node(1, [mapping(1, 1, 1)]), varying((0, 20, 4, 4)), sizes=SIZES)
    assert found.key_len.tolist() == [16, 20]
