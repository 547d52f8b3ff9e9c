"""Impossible sizes of APFS files."""

from __future__ import annotations

import struct

import layoutscope
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import ContainerPlan, VolumePlan
from fixtures.apfs.scenarios import RICH
from fixtures.apfs.writer import write

BLOCK = 4096


def test_size_that_no_file_can_have_is_unknown(tmp_path):
    """Such a size, including a negative one, is damage, and is shown as unknown."""
    path = tmp_path / "disk.img"
    write(ContainerPlan((VolumePlan("Rich", RICH),), block_count=16384), path)
    whole = layoutscope.scan(path, drives=())
    rows = {row["name"]: row for row in whole.parts[-1].layout.entries.iter_rows(named=True)}
    size, node = rows["short"]["size_bytes"], rows["short"]["inode_node_row"]
    nodes = whole.parts[-1].layout.nodes
    (at,) = nodes.filter(nodes["row"] == node)["image_offset"]
    data = bytearray(path.read_bytes())
    block = bytes(data[at : at + BLOCK])
    # The stream's size is stored before its allocated size (j_dstream_t).
    found = struct.pack("<QQ", size, -(-size // BLOCK) * BLOCK)
    assert block.count(found) == 1
    changed = block.replace(found, struct.pack("<Q", 2**63 + 5) + found[8:])
    data[at : at + BLOCK] = with_checksum(changed)
    path.write_bytes(data)
    result = layoutscope.scan(path, drives=())
    rows = {row["name"]: row for row in result.parts[-1].layout.entries.iter_rows(named=True)}
    assert rows["short"]["size_bytes"] is None
    assert result.exit_code == 3
    assert all(row["size_bytes"] is None or row["size_bytes"] >= 0 for row in rows.values())
