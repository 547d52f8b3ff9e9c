"""A volume with a physical file-system tree: its nodes are identified by address, without an object map."""

from __future__ import annotations

import pytest

import layoutscope
from fixtures.apfs import locate as at
from fixtures.apfs.plan import TreeShape, VolumePlan
from fixtures.apfs.scenarios import container, many
from fixtures.apfs.structures import objects as disk
from fixtures.apfs.structures.volume import FS_SUPERBLOCK
from fixtures.apfs.writer import write
from tests.losses.victim import rows_of

PHYSICAL = 0x40000000
STORAGE = 0xC0000000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a container whose tree has three levels; return its image and layout."""
    path = tmp_path_factory.mktemp("physical") / "disk.img"
    plan = container(VolumePlan("Physical", many(60), fs_shape=TreeShape(24, 8)), block_count=4096)
    return path, write(plan, path)


@pytest.fixture
def physical(written, tmp_path):
    """Identify every node of the tree by its address: in its header, its parent, and the volume's superblock."""
    path, expected = written
    data, size = bytearray(path.read_bytes()), expected.block_size
    nodes = [node for node in expected.live.nodes if node.tree == "fs"]
    place = {node.oid: node.paddr for node in nodes}
    for node in nodes:
        start = node.paddr * size
        at.put_field(data, start, disk.OBJECT_HEADER, "o_oid", lambda old: place[old])
        at.put_field(data, start, disk.OBJECT_HEADER, "o_type", lambda old: old & ~STORAGE | PHYSICAL)
        for record in at.records(data, start, size) if node.level else ():
            child = int.from_bytes(data[record.value : record.value + 8], "little")
            data[record.value : record.value + 8] = place[child].to_bytes(8, "little")
        at.fix_checksum(data, start, size)
    (superblock,) = [item.paddr * size for item in expected.live.regions if item.type == "volume-superblock"]
    fields = superblock + disk.OBJECT_HEADER_SIZE
    at.put_field(data, fields, FS_SUPERBLOCK, "apfs_root_tree_oid", lambda old: place[old])
    at.put_field(data, fields, FS_SUPERBLOCK, "apfs_root_tree_type", lambda old: old & ~STORAGE | PHYSICAL)
    at.fix_checksum(data, superblock, size)
    copy = tmp_path / "physical.img"
    copy.write_bytes(data)
    return copy


def test_physical_tree_is_read(written, physical):
    """Every entry is found, nothing is damaged, and no object map leaf is named as locator."""
    path, _ = written
    result = layoutscope.scan(physical, drives=())
    assert rows_of(result) == rows_of(layoutscope.scan(path, drives=()))
    assert not [item for volume in result.parts for item in volume.findings if item.level == "error"]
    nodes = result.parts[-1].layout.nodes.filter(tree="fs")
    assert len(nodes) > 3
    assert nodes["locator_row"].null_count() == len(nodes)
