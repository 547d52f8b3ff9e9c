"""A result is clean only if every rule was applied to all data: images where "clean" would be wrong."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope.checks.apfs import registry as apfs_registry
from layoutscope.checks.hfsplus import registry
from layoutscope.filesystems.apfs import reader
from layoutscope.filesystems.hfsplus import contents, layout
from layoutscope.zstd import zstd
from tests.unit.partition.builders import HFS, gpt_disk, gpt_entry

BLOCK, MIB = 4096, 1 << 20
IMAGES = Path(__file__).parents[2] / "fixtures" / "images"


def test_every_rule_says_what_it_needs():
    """Every check has its requirements, and every requirement belongs to a check."""
    assert {name for name, check in registry.CHECKS.items() if not check.needs} <= {
        *("unmounted", "special-sizes", "allocation-size")
    }
    assert set(apfs_registry.VOLUME_CHECKS) >= set(apfs_registry.STATE_CHECKS)
    needs = {need for check in apfs_registry.CONTAINER_CHECKS.values() for need in check.needs}
    assert needs == {"space", "claims"}


@pytest.fixture
def volume(tmp_path):
    """Return the path of a sound volume, and the addresses of its leaves."""
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(render(SCENARIOS["attributes"])[0].to_bytearray()))
    nodes = layoutscope.read_layouts(path)[0].nodes
    leaves = {tree: nodes.filter(tree=tree, level=0)["image_offset"].to_list() for tree in ("catalog", "attributes")}
    result = layoutscope.check(path)
    assert (result.is_clean, result.volumes[0].skipped) == (True, ())
    assert result.volumes[0].num_rules == len(registry.CHECKS)
    return path, leaves


def bad_area(path, start, length):
    """Return a ddrescue map with one bad area."""
    size = path.stat().st_size
    target = path.with_suffix(".map")
    rows = [(0, start, "+"), (start, length, "-"), (start + length, size - start - length, "+")]
    target.write_text("0x0 +\n" + "".join(f"{at:#x} {many:#x} {state}\n" for at, many, state in rows))
    return target


def skipped(result):
    return {item.rule for volume in result.volumes for item in volume.skipped}


def test_one_unread_node_switches_off_what_needs_it_alone(volume):
    """A leaf of the attributes is in a bad sector: rules about the catalog were applied, those of attributes not."""
    path, leaves = volume
    result = layoutscope.check(path, ddrescue_map=bad_area(path, leaves["attributes"][0], 512))
    assert not result.is_clean
    told = skipped(result)
    assert {"attribute-values", "attribute-owners", "attribute-flags", "allocation", "keys"} <= told
    assert not told & {"threads", "valence", "ids", "fork-sizes", "link-counts", "unmounted"}
    reasons = result.volumes[0].reasons()
    assert list(reasons) == ["1 node of the attributes B-tree cannot be read"]
    codes = {item.code for item in result.every() if item.level != "info"}
    assert not codes & {"thread-differs", "valence-differs"}


def test_a_rule_about_one_tree_still_finds_what_is_wrong_there(volume):
    """Next to the unread attribute leaf, a folder count in the catalog is changed: it is found at its byte."""
    path, leaves = volume
    data = bytearray(path.read_bytes())
    # TN1150, "Volume Header": the file count is at byte 32, followed by the folder count.
    (folders,) = struct.unpack_from(">I", data, 1024 + 36)
    struct.pack_into(">I", data, 1024 + 36, folders + 1)
    path.write_bytes(data)
    result = layoutscope.check(path, ddrescue_map=bad_area(path, leaves["attributes"][0], 512))
    assert ("file-count-differs", 1024 + 36) in {(item.code, item.image_offset) for item in result.every()}


def test_a_damaged_header_node_is_a_reason(volume):
    """The node size of the attributes tree is 0: its leaves are found, but its header is not checked."""
    path, _ = volume
    data = bytearray(path.read_bytes())
    nodes = layoutscope.read_layouts(path)[0].nodes
    (head,) = nodes.filter(tree="attributes", node_id=0)["image_offset"].to_list()
    data[head + 32 : head + 34] = bytes(2)
    path.write_bytes(data)
    result = layoutscope.check(path)
    assert not result.is_clean
    assert {"tree-headers", "header-nodes", "map-nodes"} <= skipped(result)
    assert not skipped(result) & {"threads", "attribute-owners"}


def test_a_locked_volume_is_not_clean(victims):
    """Without the password no tree record is read, so record rules are listed; with it all are applied."""
    path, _ = victims["encrypted"]
    locked = layoutscope.check(path)
    assert (locked.is_clean, locked.exit_code) == (False, 3)
    assert {"entries", "links", "streams"} <= skipped(locked)
    assert "the volume is locked" in {item.reason for item in locked.volumes[-1].skipped}
    told = {item.reason for item in locked.volumes[0].skipped}
    assert told == {"of one of its volumes: the volume is locked"}
    assert not {item.rule for item in locked.volumes[-1].skipped} & {"superblocks", "map-heads", "snapshots"}
    assert {item.code for item in locked.every() if item.level != "info"} == {"volume-locked"}


def damaged(path, target, start):
    """Change a byte of an object, which invalidates its checksum."""
    data = bytearray(path.read_bytes())
    data[start + 40] ^= 0xFF
    target.write_bytes(data)
    return target


def test_an_unread_tree_of_snapshots_switches_off_what_needs_it(victims, tmp_path):
    """The root of the snapshot metadata is damaged: entries and links are still compared, snapshots are not."""
    path, _ = victims["snapshots"]
    layout = layoutscope.read_layouts(path)[-1]
    at = layout.nodes.filter(tree="snapmeta")["image_offset"].to_list()[0]
    data = bytearray(path.read_bytes())
    data[at : at + BLOCK] = bytes(BLOCK)
    target = tmp_path / "disk.img"
    target.write_bytes(data)
    result = layoutscope.check(target)
    assert not result.is_clean
    told = {item.rule for item in result.volumes[-1].skipped}
    assert {"snapshots", "snapshot-records", "references"} <= told
    assert not told & {"entries", "links", "streams", "directories", "map-heads"}


@pytest.mark.parametrize(
    ("at", "size"),
    [(32, 4), (36, 4), (0x68, 4), (0x70, 8), (0, BLOCK)],
    ids=["magic", "block size", "blocks", "base", "all"],
)
def test_damage_to_block_0_does_not_end_the_check(victims, tmp_path, at, size):
    """The ring is intact, so everything is read and every rule applied; only block 0 has findings."""
    data = bytearray(victims["victim"][0].read_bytes())
    data[at : at + size] = b"\xff" * size
    target = tmp_path / "disk.img"
    target.write_bytes(data)
    result = layoutscope.check(target)
    told = [item for item in result.every() if item.level != "info"]
    assert told
    assert all(item.image_offset is not None and item.image_offset < BLOCK for item in told)
    assert [(volume.coverage, volume.skipped) for volume in result.volumes] == [(1.0, ())] * 2
    assert not result.is_clean


def test_a_capture_has_no_records_to_check(victims, tmp_path):
    """The scan's findings are shown, and no rule was applied to anything, so it is not called clean."""
    layoutscope.scan(victims["victim"][0], drives=()).save(tmp_path / "capture")
    result = layoutscope.check(tmp_path / "capture")
    assert (result.is_clean, skipped(result)) == (False, {"all rules"})


@pytest.mark.full
@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_check_reads_once_and_finds_what_it_finds_in_an_open_image(tmp_path, monkeypatch, filesystem, is_damaged):
    """For an image that is already open, tables are reused and only the rest is read for the check."""
    stored = zstd.decompress((IMAGES / f"{filesystem}-scattered.img.zst").read_bytes())
    path = tmp_path / "disk.img"
    path.write_bytes(stored)
    if is_damaged:
        main = {"hfsplus": "catalog", "apfs": "fs"}[filesystem]
        leaves = layoutscope.read_layouts(path)[-1].nodes.filter(tree=main, level=0)["image_offset"].to_list()
        with path.open("r+b") as file:
            file.seek(leaves[3] + 100)
            file.write(bytes(range(200)))
    module, name = {"hfsplus": (contents, "open_contents"), "apfs": (reader, "read_container")}[filesystem]
    opened, real = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given: opened.append(1) or real(*given))
    monkeypatch.setattr(layout, "open_contents", contents.open_contents)
    monkeypatch.setattr(apfs_registry, "read_container", reader.read_container)
    found = layoutscope.check(path)
    assert len(opened) == 1
    with layoutscope.open(path) as image:
        assert layoutscope.check(image).volumes == found.volumes
    assert len(opened) == 3
    assert found.is_clean != is_damaged


POOL = "bitmap of the internal pool"


@pytest.fixture
def container(tmp_path):
    """Return the path of a sound container, and the address of its pool's current bitmap."""
    path = tmp_path / "disk.img"
    path.write_bytes(zstd.decompress((IMAGES / "apfs-scattered.img.zst").read_bytes()))
    regions = layoutscope.read_layouts(path)[0].regions
    ring = regions.filter(type="internal-pool-bitmap")["image_offset"].to_list()[0]
    assert layoutscope.check(path).is_clean
    return path, ring + 3 * BLOCK


@pytest.mark.full
@pytest.mark.parametrize("change", [1, 64, 8], ids=["a used block", "a waiting block", "a free block"])
def test_bitmap_of_the_internal_pool_says_what_is_in_use(container, change):
    """A used bitmap that is marked free would be overwritten next; apfsck reports a bad ip allocation bitmap."""
    path, bitmap = container
    image = bytearray(path.read_bytes())
    # Three blocks hold chunks and bitmap, three are free, three wait in the free queue.
    assert int.from_bytes(image[bitmap : bitmap + BLOCK], "little") == 0b111_000_111
    image[bitmap] ^= change
    path.write_bytes(image)
    result = layoutscope.check(path)
    assert [(item.structure, item.image_offset) for item in result.every()] == [(POOL, bitmap)]
    assert not result.is_clean


def test_bitmap_of_the_internal_pool_that_was_not_read_is_told(container):
    """The bitmap is in a bad sector, so nothing was compared with it and the container is not clean."""
    path, bitmap = container
    result = layoutscope.check(path, ddrescue_map=bad_area(path, bitmap, BLOCK))
    assert [(item.structure, item.message) for item in result.every()] == [(POOL, "it cannot be read")]
    assert not result.is_clean


@pytest.mark.parametrize(("short", "codes"), [(0, []), (1, ["partition-content"])])
def test_a_volume_that_is_longer_than_its_partition_is_told(volume, tmp_path, short, codes):
    """Both copies of the map end the partition a sector before the volume: a mount would read less than we do."""
    data = volume[0].read_bytes()
    sectors = len(data) // 512
    disk = gpt_disk(len(data) + 2 * MIB, [gpt_entry(HFS, 2048, 2048 + sectors - 1 - short)]).put(MIB, data)
    path = tmp_path / "parted.img"
    path.write_bytes(bytes(disk.data))
    result = layoutscope.check(path)
    assert [item.code for item in result.every()] == codes
    assert [item.image_offset for item in result.every()] == [MIB] * len(codes)


def test_an_image_that_ends_within_a_used_block_is_cut_off(container):
    """A converted volume may end within its last block if that block is free: first it is, then it is not."""
    path, _ = container
    size = path.stat().st_size
    os.truncate(path, size - 1)
    assert layoutscope.check(path).is_clean
    # The last bit of the last chunk's bitmap is the last block.
    regions = layoutscope.read_layouts(path)[0].regions
    bitmap = regions.filter(type="spaceman-bitmap")["image_offset"].to_list()[-1]
    with path.open("r+b") as file:
        file.seek(bitmap + (size // BLOCK - 1) % (8 * BLOCK) // 8)
        used = file.read(1)[0] | 0x80
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([used]))
    assert "truncated" in {item.code for item in layoutscope.check(path).every()}


def test_superblock_that_was_not_read_is_named(container):
    """Block 0 is in a bad sector: the finding names the structure, not the length of the read."""
    path, _ = container
    (found,) = layoutscope.check(path, ddrescue_map=bad_area(path, 0, BLOCK)).volumes[0].findings
    assert (found.code, found.structure, found.image_offset) == ("checkpoint-invalid", "container superblock", 0)
