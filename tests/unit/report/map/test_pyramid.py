"""Cells of the map: every byte has one class, and no share is estimated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from layoutscope.api.scan import scan
from layoutscope.filesystems.traits import TreeTraits
from layoutscope.findings import Finding
from layoutscope.report.map.pyramid import (
    DAMAGED,
    FILE_DATA,
    FREE_SPACE,
    REGION,
    UNCLAIMED,
    Segments,
    damage_without_node,
    from_layouts,
    held_by,
    partition,
    pyramid,
    tree_class,
    used_span,
)
from layoutscope.report.map.scans import disks
from layoutscope.tables import findings_table

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"
CLASSES = (tree_class(TreeTraits("fs", "file-system B-tree")), REGION, DAMAGED, FILE_DATA, UNCLAIMED, FREE_SPACE)
FS, OTHER, BAD, DATA, UNKNOWN, FREE = range(6)


def shared(*rows: tuple[int, int, int], size: int = 400, block: int = 100, start: int = 0):
    """Divide a range among stretches of first byte, length and class."""
    first, length, code = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    owner = np.zeros(len(first), np.int64)
    return partition(Segments(first + start, length, code.astype(np.uint8), owner, CLASSES), start, size, block)


def test_each_byte_is_of_one_class():
    """A node in its tree's file is of the tree, a damaged one is damaged, and the file has the rest."""
    shares = shared((0, 400, DATA), (100, 100, FS), (100, 50, BAD), start=4096)
    assert [share.runs.tolist() for share in shares] == [
        [[150, 50]],
        [],
        [[100, 50]],
        [[0, 100], [200, 200]],
        [],
        [],
    ]
    # Block 0 has a header of 50 bytes, block 1 nothing known; the rest is free.
    shares = shared((0, 50, OTHER), (200, 200, FREE))
    assert {share.item.key: share.size_bytes for share in shares if share.size_bytes} == {
        "region": 100,
        "unclaimed": 100,
        "free": 200,
    }
    # An extent that a fault places past the end of the volume does not extend the range.
    shares = shared((300, 1000, DATA), (0, 300, FREE))
    assert sum(share.size_bytes for share in shares) == 400


def test_cells_count_by_hand():
    """Cells of 8 units: 3 in the first, two full ones, 5 and 1 in the next."""
    shares = shared((5, 24, DATA), (31, 1, DATA), (0, 5, FREE), (29, 2, FREE), size=32, block=8)
    first, count, held = pyramid(shares, 8)[2][DATA]
    assert first.tolist() == [0, 1, 3]
    assert count.tolist() == [1, 2, 1]
    assert held.tolist() == [3, 8, 6]
    # For any budget, the cells of each class add up to its bytes, and cells are power-of-two numbers of blocks.
    rows = [(at * 12288, 4096, DATA if at % 2 else FS) for at in range(1000)]
    shares = shared(*rows, size=12288 * 1000, block=4096)
    for budget in (10, 100, 1000):
        unit_bytes, cell_bytes, cells = pyramid(shares, 4096, budget)
        assert sum(len(first) for first, _, _ in cells) <= budget
        assert (cell_bytes // 4096).bit_count() == 1
        for code in (FS, DATA):
            held = int((cells[code][1] * cells[code][2]).sum()) * unit_bytes
            assert held == shares[code].size_bytes == 500 * 4096


def test_bytes_between_edges_are_arithmetic():
    """Four cells of 100 bytes: 50 of tree in the first, data in the middle of the rest, 25 free at the end."""
    shares = shared((0, 50, FS), (150, 150, DATA), (375, 25, FREE), block=1)
    held = held_by(shares, np.arange(0, 401, 100))
    assert held[FS].tolist() == [50, 0, 0, 0]
    assert held[DATA].tolist() == [0, 50, 100, 0]
    assert held[FREE].tolist() == [0, 0, 0, 25]
    assert held[UNKNOWN].tolist() == [50, 50, 0, 75]
    # A header copy at the far end does not stretch the first view.
    shares = shared((0, 10**6, DATA), (10**6, 10**9, FREE), (10**9 + 10**6, 512, OTHER), size=10**9 + 10**6 + 512)
    assert used_span(shares) == 10**6


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_nothing_is_unknown_where_everything_was_read(name):
    """On a sound volume, the tables cover every byte, and no cell may be unknown."""
    (disk,) = disks([scan(FIXTURES / f"{name}-scattered.img.zst")])
    shares = partition(from_layouts(disk.layouts), disk.image_offset, disk.size_bytes, disk.block_size_bytes)
    assert disk.coverage == 1
    assert sum(share.size_bytes for share in shares) == disk.size_bytes
    assert {share.item.key: share.size_bytes for share in shares}["unclaimed"] == 0


def test_an_address_that_a_finding_names_is_damaged_where_no_node_is_known():
    """Only its block is drawn as damaged; a known node, or a fact about it, adds nothing."""
    (disk,) = disks([scan(FIXTURES / "apfs-scattered.img.zst", drives=())])
    own = disk.layouts[-1]
    block, node = own.facts.block_size_bytes, int(own.nodes["image_offset"][0])
    free = int(own.free["image_offset"][0]) if own.free.height else 200 * 2**20
    data = int(own.extents["image_offset"][0])
    found = [
        Finding("checksum-mismatch", "error", "space manager", data, "checksum differs"),
        Finding("node-invalid", "error", "fs tree", free, "not a node"),
        Finding("checksum-mismatch", "error", "fs tree", node, "checksum differs"),
        Finding("block-claimed-twice", "error", "files", data + 64 * block, "claimed twice"),
    ]
    hurt = own.changed(findings=findings_table(found))
    assert [item.image_offset for item in damage_without_node(hurt)] == [data, free]
    layouts = [*disk.layouts[:-1], hurt]
    shares = partition(from_layouts(layouts), disk.image_offset, disk.size_bytes, disk.block_size_bytes)
    (damaged,) = (share.runs.tolist() for share in shares if share.item.key == DAMAGED.key)
    assert damaged == sorted([at - disk.image_offset, block] for at in (data, free))
