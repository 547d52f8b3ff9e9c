"""Rare features that TN1150 allows, each in an image of its own."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import layoutscope
from fixtures.hfsplus.plan import File, Folder, Fork, Journal, Partitioning, Tree, VolumePlan, Wrapper
from fixtures.hfsplus.scenarios import SCENARIOS, folders
from fixtures.hfsplus.writer import write
from layoutscope.image import MemorySource
from tests.hfsplus import read_layout

FEW = (File("a", Fork(5000)), Folder("d", (File("b", Fork(70_000)),)))
SECTOR = 512


@pytest.fixture
def scanned(tmp_path):
    """Write a plan, and scan it."""

    def scan(plan, **options):
        path = tmp_path / "volume.img"
        write(plan, path)
        return layoutscope.scan(path, drives=(), **options)

    return scan


def only(result):
    """Return the layout of the only volume of a scan without damage."""
    (volume,) = result.volumes
    assert result.exit_code == 0
    assert [item for item in (*result.findings, *volume.findings) if item.level != "info"] == []
    return volume.layout


def names_in(layout, parent=2):
    return set(layout.entries.filter(layout.entries["parent_id"] == parent)["name"])


def node_sizes(layout):
    return {tree.tree: tree.node_size_bytes for tree in layout.facts.trees}


@pytest.mark.parametrize("block_size", [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536])
def test_allocation_blocks_of_every_size(scanned, block_size):
    """A power of two from 512 bytes; a file of 5,000 bytes takes as many blocks as needed."""
    layout = only(scanned(VolumePlan(block_size=block_size, total_blocks=4096, root=FEW)))
    assert layout.facts.block_size_bytes == block_size
    (file_id,) = layout.entries.filter(name="a")["file_id"]
    length = layout.extents.filter(file_id=file_id)["length_bytes"].sum()
    assert length == -(-5000 // block_size) * block_size


@pytest.mark.parametrize("node_size", [512, 1024, 2048, 4096, 8192, 16384, 32768])
def test_nodes_of_every_size(scanned, node_size):
    """A power of two from 512 bytes to 32 KiB, in each tree separately."""
    trees = Tree(node_size), Tree(node_size), Tree(max(node_size, 4096))
    plan = VolumePlan(root=FEW, catalog=trees[0], extents_overflow=trees[1], attributes=trees[2], total_blocks=4096)
    layout = only(scanned(plan))
    assert node_sizes(layout) | {"catalog": node_size, "extents-overflow": node_size} == node_sizes(layout)
    assert set(layout.nodes.filter(tree="catalog")["size_bytes"]) == {node_size}
    assert names_in(layout) == {"a", "d"}


def test_names_with_nul_and_with_both_separators(scanned):
    """TN1150, Unicode Subtleties: names may hold any character; a slash on the disk is shown as a colon."""
    layout = only(scanned(VolumePlan(root=tuple(File(name, Fork(1)) for name in ("a\0b", "x/y", "z")))))
    shown = dict(layout.entries.filter(parent_id=2).select("name", "name_raw").rows())
    assert shown == {name: raw.encode("utf-16-be") for name, raw in (("a\0b", "a\0b"), ("x:y", "x/y"), ("z", "z"))}


@pytest.mark.parametrize(("hfsx", "case_sensitive"), [(False, False), (True, False), (True, True)])
def test_case_counts_where_the_catalog_says_so(scanned, hfsx, case_sensitive):
    """TN1150, HFSX: the signature alone does not decide; case-sensitive names may differ only in case."""
    root = (File("B", Fork(1)), File("a", Fork(1)), *((File("A", Fork(1)),) if case_sensitive else ()))
    layout = only(scanned(VolumePlan(root=root, hfsx=hfsx, case_sensitive=case_sensitive)))
    assert layout.facts.case_sensitive is case_sensitive
    assert layout.facts.variant == ("HFSX" if hfsx else "HFS+")
    order = layout.entries.filter(parent_id=2).sort("entry_rank")["name"].to_list()
    assert order == (["A", "B", "a"] if case_sensitive else ["a", "B"])


def test_the_startup_file_is_metadata_in_its_place(scanned):
    """TN1150, Startup File: no tree and no catalog record, its extents are in the volume header."""
    layout = only(scanned(SCENARIOS["startup-file"]))
    rows = layout.regions.filter(pl.col("type").cast(pl.String) == "startup-file")
    pieces = SCENARIOS["startup-file"].startup.pieces
    assert rows.height == pieces
    assert rows["length_bytes"].sum() == -(-50_000 // 4096) * 4096
    assert "startup" not in node_sizes(layout)


def test_map_nodes_go_on_where_the_header_has_no_room(scanned):
    """A header of 512 bytes maps 2,048 nodes, each map node 3,936 more: 9,000 nodes need two of them."""
    layout = only(scanned(SCENARIOS["map-nodes"]))
    maps = layout.nodes.filter(tree="catalog", kind="map")
    assert layout.nodes.filter(tree="catalog").height == 9000
    assert 2048 + 3936 < 9000 <= 2048 + 2 * 3936
    assert maps.height == 2


def test_hot_files_are_a_tree_of_their_own(scanned):
    """TN1150, Hot Files: a B-tree in a catalog file, which counts every file with data."""
    layout = only(scanned(SCENARIOS["hot-files"]))
    assert layout.nodes.filter(tree="hot-files", kind="leaf").height > 0
    assert ".hotfiles.btree" in names_in(layout)


def test_a_journal_on_another_device_is_said(scanned):
    """TN1150, Journal: pending transactions are not on this image; the volume is read as stored."""
    result = scanned(VolumePlan(root=FEW, journal=Journal(external=True)))
    codes = [item.code for item in result.volumes[0].findings]
    assert codes == ["journal-external"]
    assert names_in(result.volumes[0].layout) >= {"a", "d"}


def test_a_wrapper_inside_an_apple_partition_map(scanned):
    """TN1150, HFS Wrapper: the wrapper's embedded extent gives the volume's place, counted from the partition."""
    wrapper = Wrapper(512, 20, 40, 3)
    plain = only(scanned(VolumePlan(root=FEW)))
    layout = only(scanned(VolumePlan(root=FEW, wrapper=wrapper, partitioning=Partitioning("apm"))))
    assert names_in(layout) == names_in(plain)
    assert layout.facts.image_offset > 0
    assert any("APM" in name for name in layout.facts.stack)
    assert any("wrapper" in name.lower() for name in layout.facts.stack)


@pytest.mark.parametrize("scheme", ["gpt", "apm"])
def test_sectors_of_4096_bytes(scanned, scheme):
    """On such a disk the partition map counts in sectors of 4 KiB, and the volume header stays at byte 1,024."""
    layout = only(scanned(VolumePlan(root=FEW, partitioning=Partitioning(scheme, sector_size=4096))))
    assert layout.facts.image_offset % 4096 == 0
    header = layout.regions.filter(pl.col("type").cast(pl.String) == "volume-header")["image_offset"].min()
    assert header // SECTOR * SECTOR == layout.facts.image_offset + 1024


def test_bad_blocks_belong_to_a_file_that_no_folder_lists(scanned):
    """TN1150, Bad Block File: CNID 5, only in the overflow tree."""
    layout = only(scanned(SCENARIOS["bad-blocks"]))
    found = layout.extents.filter(file_id=5).select("image_offset", "length_bytes").rows()
    assert found == [(300 * 4096, 2 * 4096), (900 * 4096, 4096)]
    assert layout.entries.filter(file_id=5).height == 0


def test_threads_of_files_may_be_missing_and_those_of_folders_not():
    """Linux's iNode files have none; a folder without one is damage (TN1150, Catalog Thread Records)."""
    from fixtures.hfsplus.writer import render

    canvas, _ = render(replace(SCENARIOS["old-hard-links"]))
    layout = read_layout(MemorySource(bytes(canvas.to_bytearray())))
    without = layout.entries.filter(layout.entries["thread_node_row"].is_null())
    assert without.height > 0
    assert set(without["kind"]) == {"file"}
    assert layout.findings.filter(layout.findings["level"] == "error").height == 0


def test_an_empty_volume_and_one_of_many_folders(scanned):
    """Both have the root folder, empty or with forty folders."""
    assert names_in(only(scanned(VolumePlan()))) == set()
    assert len(names_in(only(scanned(VolumePlan(root=folders(40, 1)))))) == 40
