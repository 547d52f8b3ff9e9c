from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from layoutscope.filesystems.hfsplus.contents import extend_fork
from layoutscope.filesystems.hfsplus.forks import Fork, flatten


def eight(*values):
    return np.array([*values, *[0] * (8 - len(values))], np.uint32)


def test_extents_become_rows_with_their_place_in_the_fork():
    """A record that starts at block 20 has extents of 3 and 2 blocks, at 20 and 23; the next starts at 40."""
    starts, counts = np.stack([eight(100, 200), eight(300)]), np.stack([eight(3, 2), eight(7)])
    rows = flatten(starts, counts, np.array([20, 40]))
    assert {name: values.tolist() for name, values in rows.items()} == {
        "record": [0, 0, 1],
        "fork_block": [20, 23, 40],
        "start_block": [100, 200, 300],
        "block_count": [3, 2, 7],
    }


RECORDS = {
    "node": np.array([5, 6, 6]),
    "key.file_id": np.array([4, 4, 4]),
    "key.fork_type": np.array([0, 0, 255]),
    "key.start_block": np.array([30, 12, 12]),
    "data.extents.start_block": np.stack([eight(900), eight(700, 800), eight(1)]),
    "data.extents.num_blocks": np.stack([eight(5), eight(10, 8), eight(1)]),
}
OVERFLOW = SimpleNamespace(records=RECORDS)
"""Two records of file 4 in the wrong order, and one of its other fork."""


def test_a_fork_goes_on_in_the_order_of_its_blocks():
    """The header has 12 blocks; 10 + 8 follow from block 12, 5 from block 30; the other fork is left out."""
    fork = Fork(1 << 20, np.array([50]), np.array([12]), np.array([-1]))
    found = extend_fork(fork, OVERFLOW, 4, 0)
    assert found.start_blocks.tolist() == [50, 700, 800, 900]
    assert found.block_counts.tolist() == [12, 10, 8, 5]
    assert found.record_nodes.tolist() == [-1, 6, 6, 5]


def test_other_files_have_no_overflow():
    """File 6 has no record, so its fork is unchanged."""
    fork = Fork(1 << 20, np.array([50]), np.array([12]), np.array([-1]))
    assert extend_fork(fork, OVERFLOW, 6, 0) is fork
    assert extend_fork(fork, None, 4, 0) is fork
