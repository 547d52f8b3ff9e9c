from __future__ import annotations

import numpy as np

from layoutscope.filesystems.apfs.nodes import join
from layoutscope.filesystems.apfs.omap import ObjectMap, view_at


def make_map(rows: list[tuple[int, int, int, bool]]) -> ObjectMap:
    """Make a map of (oid, xid, paddr, deleted) in one leaf."""
    oid, xid, paddr, deleted = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    flags = np.zeros(count, bool)
    return ObjectMap(
        join("omap", []),
        oid.astype(np.uint64),
        xid.astype(np.uint64),
        paddr.astype(np.uint64),
        np.full(count, 4096),
        deleted.astype(bool),
        flags,
        flags,
        np.arange(count),
    )


ROWS = [
    (5, 1, 100, False),
    (5, 4, 101, False),
    (5, 9, 102, False),
    (7, 4, 200, False),
    (8, 2, 300, False),
    (8, 6, 0, True),
]


def test_a_view_takes_the_youngest_version_up_to_its_transaction():
    """Object 5 was written in 1, 4 and 9; transaction 5 sees the version of 4."""
    omap = make_map(ROWS)
    found = view_at(omap, 5).find(np.array([5, 7, 8], np.uint64))
    assert omap.paddr[found].tolist() == [101, 200, 300]
    assert omap.xid[found].tolist() == [4, 4, 2]
    assert omap.leaf[found].tolist() == [1, 3, 4]
    assert found.tolist() == [1, 3, 4]
    # Object 7 appears in 4, object 8 is deleted in 6, object 6 never existed.
    omap = make_map(ROWS)
    assert view_at(omap, 3).find(np.array([7, 8], np.uint64)).tolist() == [-1, 4]
    assert view_at(omap, 6).find(np.array([6, 7, 8], np.uint64)).tolist() == [-1, 3, -1]
    # Before the first transaction every object is missing.
    assert view_at(make_map(ROWS), 0).find(np.array([5], np.uint64)).tolist() == [-1]
