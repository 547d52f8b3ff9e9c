"""Attribute records: values stored in the tree, forks with extents, and headers of compressed files."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.hfsplus.attributes import (
    COMPRESSION_ATTRIBUTE,
    DECMPFS,
    FORK,
    INLINE,
    KEY,
    AttributeLeaves,
    collect_attributes,
)
from tests.unit.hfsplus.written import decoded, named, node

HEADER = DECMPFS.blank({"compression_magic": int.from_bytes(b"cmpf", "big"), "len_uncompressed": 9000})
INLINE_RECORD = INLINE.blank({"record_type": 0x10, "len_attribute": len(HEADER)})
FORK_RECORD = FORK.blank(
    {
        "record_type": 0x20,
        "the_fork.len_logical": 50_000,
        "the_fork.extents.start_block": [70],
        "the_fork.extents.num_blocks": [8],
    }
)


def collected(*records):
    leaves = AttributeLeaves()
    found, bad = decoded(leaves.decode, node(list(records)), tree="attributes")
    return collect_attributes(SimpleNamespace(records=found), leaves, 100), bad


def test_rows_follow_the_leaves_and_sizes_the_headers():
    # The little-endian header has fpmc for cmpf, then 9,000 bytes; only the attribute with that name has one.
    attributes, _ = collected(
        named(KEY, COMPRESSION_ATTRIBUTE, INLINE_RECORD + HEADER, file_id=17),
        named(KEY, "com.apple.decmpfX", INLINE_RECORD + HEADER, file_id=18),
        named(KEY, COMPRESSION_ATTRIBUTE, INLINE_RECORD + bytes(16), file_id=19),
    )
    assert attributes.file_id.tolist() == [17, 18, 19]
    assert attributes.compressed_id.tolist() == [17]
    assert attributes.uncompressed_size.tolist() == [9000]
    # The leaf is node 1 of a tree that starts at row 100; a file without attributes has no row.
    attributes, _ = collected(named(KEY, "x", INLINE_RECORD + HEADER, file_id=17))
    rows = attributes.rows_of(np.array([17, 18]), np.array([False, False]))
    assert rows[0] == 101
    assert rows[1] > 10**9


@pytest.mark.parametrize(
    "record",
    [named(KEY, "x", b"\0\0\0\x77" + bytes(90), file_id=5), named(KEY, "x", FORK_RECORD[:40], file_id=5)],
    ids=["of no known type", "too short"],
)
def test_what_is_no_record_is_left_out(record):
    """Its leaf is marked as bad, and the next record is read."""
    attributes, bad = collected(record, named(KEY, "y", INLINE_RECORD, file_id=6))
    assert bad.tolist() == [1]
    assert attributes.file_id.tolist() == [6]
