"""Traces of a transaction newer than the one that is read."""

from __future__ import annotations

import numpy as np

from layoutscope.filesystems.apfs.checkpoint import DescriptorArea, find_younger
from layoutscope.structs import grammar
from tests.cases import for_each

KINDS = grammar.ApfsObject.ObjectType
SUPERBLOCK, MAP = int(KINDS.nx_superblock), int(KINDS.checkpoint_map)
READ = 20
"""The transaction that is read."""


def ring(*blocks):
    """Make a ring of blocks ``(claimed type, whether sound, transaction)``."""
    claimed, sound, xid = (np.array(column) for column in zip(*blocks, strict=True))
    return DescriptorArea(
        np.arange(100, 100 + len(blocks)).astype(np.uint64),
        claimed.astype(np.int64),
        np.where(sound, claimed, 0).astype(np.int64),
        xid.astype(np.uint64),
        (claimed == 0) & (xid == 0),
        {},
    )


OLD = ((MAP, True, 19), (SUPERBLOCK, True, 19), (MAP, True, READ), (SUPERBLOCK, True, READ))


@for_each(
    "behind, copy_xid, found",
    [
        ((), READ, None),
        ((), READ - 1, None),
        ((), READ + 1, (21, 0)),
        (((MAP, True, 21), (SUPERBLOCK, True, 21)), READ, (21, 105)),
        (((MAP, True, 21), (SUPERBLOCK, False, 21)), READ, (21, 105)),
        (((MAP, True, 21), (0, False, 0)), READ, None),
        (((MAP, True, 21), (0, False, 0), (0, False, 0)), READ, None),
        (((MAP, True, 21), (0, False, 0), (MAP, True, 18)), READ, (21, 104)),
        (((MAP, True, 21), (0, False, 7)), READ, (21, 104)),
        (((MAP, True, 21), (SUPERBLOCK, True, 18)), READ, None),
        (((0, False, 0), (SUPERBLOCK, False, 18)), READ, None),
        (((14, False, 21),), READ, None),  # a damaged block claims to be a node
        (((0, False, 0), (SUPERBLOCK, False, 2**60)), READ, None),
        (((MAP, True, 21), (0, False, 0)), 22, (22, 0)),
        (((MAP, True, 18), (0, False, 7)), READ, None),  # an older map lost its superblock
        (((0, False, 0), (SUPERBLOCK, False, 26)), READ, (26, 105)),  # a ring of six holds at most six newer blocks
        (((0, False, 0), (SUPERBLOCK, False, 27)), READ, None),
        (((MAP, True, 20), (0, False, 7)), READ, None),
    ],
)
def test_what_was_committed_leaves_traces(behind, copy_xid, found):
    """A superblock, its copy, or a map with nothing sound after it is a trace; the remains of a crash are not."""
    area = ring(*OLD, *behind)
    younger = find_younger(area, READ, copy_xid)
    assert (None if younger is None else younger[:2]) == found


def test_the_last_transaction_of_all_may_be_damaged():
    """Transaction numbers have 64 bits, and a ring read at the last but one holds at most one more."""
    area = ring((SUPERBLOCK, True, 2**64 - 2), (SUPERBLOCK, False, 2**64 - 1))
    assert find_younger(area, 2**64 - 2, 0)[0] == 2**64 - 1
