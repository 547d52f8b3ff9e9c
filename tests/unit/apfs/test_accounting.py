from __future__ import annotations

import numpy as np

from layoutscope.filesystems.apfs.contents import balance
from layoutscope.filesystems.apfs.spaceman import Region, rest, to_runs
from layoutscope.findings import FindingLog
from tests.unit.apfs.toys import BLOCK

WHOLE = np.array([[0, 100]])


def test_blocks_are_free_claimed_unclaimed_or_disputed():
    """Of 100 blocks 10 to 29 are free; 0 to 14 and 40 to 49 are claimed: 10 to 14 are disputed, 30 to 39 unclaimed."""
    log = FindingLog(locate=lambda paddr: (paddr * BLOCK, 0))
    claims = [np.array([[0, 15]]), np.array([[40, 10], [42, 2]]), np.array([[50, 50]])]
    found = balance(WHOLE, np.array([[10, 20]]), claims, log)
    assert found["claimed but free blocks"].tolist() == [[10, 5]]
    assert found["unclaimed blocks"].tolist() == [[30, 10]]
    assert {name: int(each[:, 1].sum()) for name, each in found.items()} == {
        "blocks": 100,
        "used blocks": 80,
        "free blocks": 20,
        "claimed blocks": 75,
        "unclaimed blocks": 10,
        "claimed but free blocks": 5,
    }
    assert [(item.code, item.image_offset) for item in log.findings] == [("block-claimed-free", 10 * BLOCK)]
    # A claim that starts at block 90 has ten blocks within the container.
    found = balance(WHOLE, np.empty((0, 2), np.int64), [np.array([[90, 50]])], FindingLog())
    assert [found[f"{kind} blocks"].tolist() for kind in ("unclaimed", "claimed")] == [[[0, 90]], [[90, 10]]]
    # Blocks 3 and 4 of ten are taken.
    taken = to_runs([Region("node", "tree", 4), Region("node", "tree", 3)])
    regions = rest("pool", "space manager", np.array([[0, 10]]), taken)
    assert [(item.paddr, item.num_blocks) for item in regions] == [(0, 3), (5, 5)]
