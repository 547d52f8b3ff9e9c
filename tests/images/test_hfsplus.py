"""Real HFS+ and HFSX volumes, compared with independent data."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures.hfsplus.plan import File, Folder, Fork, Journal, Partitioning, Tree, VolumePlan, Wrapper
from fixtures.hfsplus.scenarios import SCENARIOS, folders
from fixtures.hfsplus.writer import write
from layoutscope.image import MemorySource, RawFile, Window
from layoutscope.metrics import measure
from layoutscope.tables.schema import FLAG_COMPRESSED, FLAG_HARD_LINK
from tests.agreement import node_differences
from tests.hfsplus import read_layout
from tests.layouts import file_id

DRIVER = ["hfsplus-4k", "hfsplus-b512-n4096", "hfsx-cs", "hfsplus-frag", "hfsplus-journaled-pop", "hfsplus-empty-plain"]
AGED = ["hfsplus-20000-c00", "hfsplus-20000-c20"]
APPLE = [
    "hfsinspect_hfsj",
    "slate_20121008",
    "plaso_spotlight10.13",
    "goapfsv2_hfs-basic",
    "hdimac_hfsx_j",
    "hfsinspect_MBR",
]
SLOW = {"hfsplus-frag", *AGED}
FIRST_USER_CNID = 16


@cache
def layout_of(path, start=0, size=None):
    source = RawFile(path)
    return read_layout(Window(source, start, size or source.size_bytes - start))


def image_name(name):
    return f"{'aged' if name in AGED else 'driver'}/{name}.img"


def apple_volume(shared, name):
    """Return the facts of an Apple volume, and the offset of its partition."""
    facts = json.loads((shared / "images/apple/FACTS.json").read_text())
    layout = next(item["layout"] for item in facts if item["id"] == name)
    volume = next(item for item in layout["vols"] if item["fs"].startswith("HFS"))
    size = next(part[1] for part in layout["parts"] if int(part[0], 0) == volume["off"])
    return volume, size


def extents_in_blocks(layout, number):
    mine = layout.extents.filter(file_id=number)
    block = layout.facts.block_size_bytes
    return [[start // block, length // block] for start, length in mine["image_offset", "length_bytes"].rows()]


@pytest.mark.parametrize("name", DRIVER + AGED)
def test_volume_equals_its_truth(name, reference_image, truth):
    """Special files, free space, trees, leaf order and metrics of leaves equal the results of an independent walker."""
    expected = json.loads(truth(f"{name}.img.gt.json"))
    layout = layout_of(reference_image(image_name(name)))
    assert layout.findings.is_empty()
    assert layout.facts.block_size_bytes == expected["blocksize"]
    assert layout.facts.size_bytes == expected["total_blocks"] * expected["blocksize"]
    assert layout.free["length_bytes"].sum() == expected["free_blocks"] * expected["blocksize"]
    for number, key in ((6, "allocation"), (3, "extents"), (4, "catalog"), (8, "attributes")):
        assert extents_in_blocks(layout, number) == expected[key]["extents"]
    is_folder = layout.entries["kind"] == "directory"
    assert (is_folder.sum(), (~is_folder).sum()) == (expected["folders"] + 1, expected["files"])
    for tree, key in (("extents-overflow", "extents"), ("catalog", "catalog"), ("attributes", "attributes")):
        check_tree(layout, tree, expected[key])
    leaf = expected["catalog"]["leaf"]
    if (steps := leaf["nodes"] - 1) > 0:
        # For that walker an 8 KiB leaf in two pieces ends 8 KiB after its start, for metrics where its last piece ends.
        metrics = {metric.name: metric.value for metric in measure(layout) if metric.subject == "catalog"}
        more = metrics["next-leaf-adjacent"] * steps - leaf["physically_adjacent_next"]
        assert -1e-6 < more < layout.node_fragments["node_row"].n_unique() + 1e-6
        assert metrics["backward-steps"] == pytest.approx(leaf["backward_jumps"] / steps)
        assert metrics["leaf-fill"] == pytest.approx(leaf["fill"], abs=0.005)


def check_tree(layout, tree, expected):
    declared = next(facts for facts in layout.facts.trees if facts.tree == tree)
    header = expected["btree"]
    assert (declared.height, declared.root_node_id, declared.num_leaf_records) == tuple(
        header[k] for k in ("depth", "root", "leafrecs")
    )
    nodes = layout.nodes.filter(pl.col("tree") == tree)
    assert len(nodes) == header["total"]
    assert (nodes["kind"] == "free").sum() == header["free"]
    leaves = nodes.filter(pl.col("kind") == "leaf").sort("key_rank")
    assert len(leaves) == expected["leaf"]["nodes"]
    assert leaves["num_records"].sum() == expected["leaf"]["records"]
    if len(leaves):
        assert leaves["node_id"][0] == header["first"]
        assert leaves["node_id"][-1] == header["last"]
    ends = leaves["image_offset"] + leaves["size_bytes"]
    following = leaves["image_offset"][1:]
    assert (following == ends[:-1]).sum() == expected["leaf"]["physically_adjacent_next"]
    assert (following < leaves["image_offset"][:-1]).sum() == expected["leaf"]["backward_jumps"]


def test_fragmented_files_equal_filefrag(reference_image, truth):
    """Every extent of the six fragmented files is where the driver reports it, including overflow extents."""
    layout = layout_of(reference_image("driver/hfsplus-frag.img"))
    rows = [line.split("\t") for line in truth("hfsplus-frag.filefrag.tsv.zst").decode().splitlines()]
    paths = {row[0] for row in rows}
    assert len(paths) == 6
    for path in paths:
        expected = [tuple(map(int, row[1:])) for row in rows if row[0] == path]
        number = file_id(layout, *path.split("/"))
        mine = layout.extents.filter((pl.col("file_id") == number) & (pl.col("fork") == "data"))
        found = mine["logical_offset", "image_offset", "length_bytes"].rows()
        size = layout.entries.filter(pl.col("file_id") == number)["size_bytes"].item()
        assert cut_at(found, size) == cut_at(expected, size)


def cut_at(extents, size):
    """Truncate extents at the end of the file's last block, because later blocks are not mapped."""
    end = -(-size // 4096) * 4096
    return [(at, where, min(length, end - at)) for at, where, length in extents if at < end]


@pytest.mark.parametrize("name", APPLE)
def test_apple_volume_has_its_facts(name, shared, reference_image):
    """Counts of files, folders, links, forks, attributes and leaves equal the published facts."""
    facts, size = apple_volume(shared, name)
    layout = layout_of(reference_image(f"apple/{name}.raw"), start=facts["off"], size=size)
    entries = layout.entries
    is_folder = entries["kind"] == "directory"
    assert layout.facts.image_offset == facts["off"]
    assert layout.facts.variant == facts["fs"]
    assert (~is_folder).sum() == facts["cat_files"]
    assert is_folder.sum() == facts["cat_dirs"]
    assert (entries["flags"] & FLAG_HARD_LINK != 0).sum() == facts["hardlinks"]
    assert (entries["flags"] & FLAG_COMPRESSED != 0).sum() == facts["compressed"]
    assert (entries["kind"] == "symlink").sum() == facts["symlinks"]
    assert layout.extents.filter(pl.col("fork") == "resource")["file_id"].n_unique() == facts["rsrcforks"]
    several = (
        layout.extents.filter((pl.col("fork") == "data") & (pl.col("file_id") >= FIRST_USER_CNID))
        .group_by("file_id")
        .len()
    )
    assert (several["len"] > 1).sum() == facts["multiext"]
    leaves = layout.nodes.filter(pl.col("kind") == "leaf")
    assert (leaves["tree"] == "catalog").sum() == facts["leafnodes"]
    assert leaves.filter(pl.col("tree") == "attributes")["num_records"].sum() == facts["xattr_recs"]
    assert layout.free["length_bytes"].sum() == facts["free"] * facts["bs"]
    expected = {"journal-replayed"} if name == "hfsinspect_hfsj" else set()
    assert set(layout.findings["code"]) == expected


@pytest.mark.parametrize("name", ["hfsplus-200000-c00", "hfsplus-200000-c20"])
def test_node_table_equals_the_traced_volumes(name, reference_image, truth):
    """Every live node of a 1 TiB volume is where an independent parser found it, in the same leaf order."""
    layout = layout_of(reference_image(f"aged/{name}.img"))
    rows = [
        line.split("\t") for line in truth(f"{name}.nodes.tsv.zst").decode().splitlines() if not line.startswith("#")
    ]
    names = {"catalog": "catalog", "extents": "extents-overflow", "attributes": "attributes"}
    expected = {
        (names[tree], int(number), int(offset), int(length), kind, int(rank) if kind == "leaf" else None)
        for offset, length, tree, kind, _height, number, rank in rows
        if tree in names and number != "-" and kind in ("leaf", "index", "header")
    }
    nodes = layout.nodes.filter(pl.col("kind").is_in(["leaf", "index", "header"])).with_columns(
        rank=pl.when(pl.col("kind") == "leaf").then(pl.col("key_rank"))
    )
    found = set(nodes["tree", "node_id", "image_offset", "size_bytes", "kind", "rank"].rows())
    assert len(expected) > 18_000
    assert {row[:5] for row in found} == {row[:5] for row in expected}
    in_chain = [
        row[1]
        for row in sorted((row for row in expected if row[4] == "leaf" and row[0] == "catalog"), key=lambda row: row[5])
    ]
    leaves = nodes.filter((pl.col("kind") == "leaf") & (pl.col("tree") == "catalog")).sort("rank")
    assert leaves["node_id"].to_list() == in_chain


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in (*DRIVER, *AGED, *APPLE)]
)
def test_grammars_agree(name, shared, reference_image):
    """Bulk decoding and the grammars read the same records of every node, also of volumes that macOS wrote."""
    if name in APPLE:
        facts, size = apple_volume(shared, name)
        path = reference_image(f"apple/{name}.raw")
        layout = layout_of(path, start=facts["off"], size=size)
    else:
        path = reference_image(image_name(name))
        layout = layout_of(path)
    # Addresses in a layout are those of the image, so nodes are looked up there.
    assert node_differences(RawFile(path), [layout]) == []


def test_nodes_that_straddle_extents_are_joined(reference_image):
    """Each node in several pieces adds up to its size and starts with a descriptor of its kind."""
    path = reference_image("aged/hfsplus-20000-c20.img")
    layout = layout_of(path)
    pieces = layout.node_fragments.group_by("node_row", maintain_order=True).agg(
        pl.col("length_bytes").sum(), pl.col("image_offset").first()
    )
    nodes = layout.nodes[pieces["node_row"].to_list()]
    assert len(pieces) == 8
    assert (pieces["length_bytes"] == nodes["size_bytes"]).all()
    assert (pieces["image_offset"] == nodes["image_offset"]).all()


def test_metadata_is_read_once(reference_image):
    """Reading takes hardly more bytes than the size of the metadata."""
    source = RawFile(reference_image("aged/hfsplus-20000-c20.img"))
    layout = read_layout(source)
    assert source.counter.bytes < 1.1 * layout.facts.metadata_known_bytes
    assert layout.coverage == 1


def test_pending_transactions_can_be_left_alone(reference_image):
    """Without replay the journal's contents are reported and the blocks are shown as stored."""
    path = reference_image("apple/hfsinspect_hfsj.raw")
    layout = read_layout(RawFile(path), options={"no_journal": True})
    assert layout.findings["code"].to_list() == ["journal-pending"]
    # 227328 - 202240 by the journal header's end and start
    assert "25,088 bytes" in layout.findings["message"].item()
    assert layout.regions.filter(pl.col("type") == "journal")["image_offset", "length_bytes"].rows() == [
        (12288, 524288)
    ]


def test_no_metadata_overlaps(reference_image):
    """Nodes, regions, free space and extents of files do not overlap on a sound volume."""
    layout = layout_of(reference_image("aged/hfsplus-20000-c20.img"))
    whole = layout.nodes.filter(~pl.col("row").is_in(layout.node_fragments["node_row"].to_list()))
    parts = [
        whole.select(at="image_offset", n="size_bytes"),
        layout.node_fragments.select(at="image_offset", n="length_bytes"),
        layout.regions.select(at="image_offset", n="length_bytes"),
        layout.free.select(at="image_offset", n="length_bytes"),
        layout.extents.filter(pl.col("file_id") >= FIRST_USER_CNID).select(at="image_offset", n="length_bytes"),
    ]
    pieces = pl.concat(parts).sort("at")
    ends = (pieces["at"] + pieces["n"]).to_numpy()
    # The alternate volume header is in a block of its own that the allocation file marks as used.
    assert (pieces["at"].to_numpy()[1:] >= ends[:-1]).all()
    assert int(np.sum(pieces["n"].to_numpy())) <= layout.facts.size_bytes


# Effects of dates on HFS+: whether a file of link type is a link, and the epoch of a record.


FLAGS, CREATED, MODIFIED, SPECIAL, FINDER_TYPE = 2, 12, 16, 44, 48
"""Offsets in the record of a file (TN1150, HFSPlusCatalogFile)."""
EPOCH = 2_082_844_800
EXPANDED = 0x1000
PLAN = VolumePlan(
    root=(
        File("victim", Fork(10)),
        File("other", Fork(20)),
        Folder("links", (File("one", links_to="i"), File("two", links_to="i"))),
    ),
    inodes=(File("i", Fork(900)),),
    catalog=Tree(4096),
)


class Image:
    """An image whose catalog records are changed by file name."""

    def __init__(self, path):
        self.path = path
        self.data = bytearray(path.read_bytes())

    def record(self, name):
        """Return the start of a file's record, after its key."""
        key = struct.pack(">H", len(name)) + name.encode("utf-16-be")
        at = self.data.find(key)
        while self.data[at + len(key) : at + len(key) + 2] != b"\0\2":
            at = self.data.find(key, at + 1)
        return at + len(key)

    def put(self, name, offset, form, *values):
        """Write fields of a file's record."""
        at = self.record(name) + offset
        struct.pack_into(form, self.data, at, *values)

    def get(self, name, offset):
        """Read a number of four bytes."""
        return struct.unpack_from(">I", self.data, self.record(name) + offset)[0]

    def scan(self):
        """Scan the image in its present state."""
        self.path.write_bytes(self.data)
        return layoutscope.scan(self.path, drives=())


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    write(PLAN, path)
    return Image(path)


def rows(result):
    return {row["name"]: row for row in result.volumes[0].layout.entries.iter_rows(named=True)}


def codes(result):
    return {(finding.code, finding.level) for finding in result.volumes[0].findings}


def make_link(image, special, created):
    image.put("victim", FINDER_TYPE, ">4s4s", b"hlnk", b"hfs+")
    image.put("victim", SPECIAL, ">I", special)
    image.put("victim", CREATED, ">I", created)


@pytest.mark.parametrize("special", [0, 1])
def test_file_of_a_links_type_with_another_date_is_a_file(image, special):
    """A user set that type: a driver shows the file itself, nothing is broken; fsck_hfs corrects the date."""
    before = rows(image.scan())
    number = image.get("one", SPECIAL)
    make_link(image, special * number, image.get("one", CREATED) + 1000)
    result = image.scan()
    assert rows(result)["victim"]["file_id"] == before["victim"]["file_id"]
    assert rows(result)["victim"]["size_bytes"] == before["victim"]["size_bytes"]
    assert codes(result) == {("hard-link-plain", "info")}
    assert result.exit_code == 0
    found = layoutscope.check(image.path).volumes[0].findings
    assert {(finding.code, finding.level) for finding in found} == {("link-invalid", "warning")}


def test_file_of_a_links_type_and_date_is_a_link(image):
    """Its creation date is that of the private directory, so it links to the inode in its record."""
    inode = rows(image.scan())["one"]["file_id"]
    make_link(image, image.get("one", SPECIAL), image.get("one", CREATED))
    assert rows(image.scan())["victim"]["file_id"] == inode


def test_link_of_that_date_to_nowhere_is_broken(image):
    """A link whose inode is lost is damage."""
    make_link(image, 999_999, image.get("one", CREATED))
    result = image.scan()
    assert ("hard-link-broken", "error") in codes(result)
    assert result.exit_code == 3


@pytest.mark.parametrize(("field", "new"), [(CREATED, 0), (FINDER_TYPE, int.from_bytes(b"text", "big"))])
def test_link_that_is_none_any_more_is_missed_by_its_inode(image, field, new):
    """It shows as a file, as in a driver; the inode counts a link more than exists, and that is damage."""
    whole = rows(image.scan())
    image.put("two", field, ">I", new)
    result = image.scan()
    assert rows(result)["two"]["file_id"] != whole["two"]["file_id"]
    assert ("link-count-differs", "error") in codes(result)
    assert result.exit_code == 3
    assert result.coverage is None
    assert "link-count-differs" in {finding.code for finding in layoutscope.check(image.path).volumes[0].findings}


def test_inode_of_fewer_links_than_lead_to_it_loses_none(image):
    """A check reports it; a scan shows all entries, and is complete."""
    image.put(f"iNode{image.get('one', SPECIAL)}", SPECIAL, ">I", 1)
    result = image.scan()
    assert result.exit_code == 0
    assert result.coverage == 1
    assert layoutscope.check(image.path).exit_code == 3


def test_dates_beyond_2040_count_from_1970(image):
    """A flag in the record says so; the others count from 1904."""
    day = int(datetime(2050, 1, 1, tzinfo=UTC).timestamp())
    flags = struct.unpack_from(">H", image.data, image.record("other") + FLAGS)[0]
    image.put("other", FLAGS, ">H", flags | EXPANDED)
    image.put("other", CREATED, ">II", day, day + 60)
    image.put("victim", CREATED, ">I", day - 2 * EPOCH & 0xFFFFFFFF)
    found = rows(image.scan())
    assert found["other"]["create_time"] == datetime(2050, 1, 1, tzinfo=UTC)
    assert found["other"]["modify_time"] == datetime(2050, 1, 1, 0, 1, tzinfo=UTC)
    assert found["victim"]["create_time"].year < 2041


def test_size_that_no_file_can_have_is_unknown(image):
    """Such a size, including a negative one, is damage, and is shown as unknown."""
    image.put("other", 88, ">Q", 2**63 + 5)
    result = image.scan()
    assert rows(result)["other"]["size_bytes"] is None
    assert result.exit_code == 3


# Rare features that TN1150 allows, each in an image of its own.


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
