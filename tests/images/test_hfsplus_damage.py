"""Damaged HFS+ volumes: readable data are read, and each loss is reported with its address."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import polars as pl
import pytest

import layoutscope
from fixtures.hfsplus.journal import ORDERS, checksum
from fixtures.hfsplus.journal import render as render_hfsplus
from fixtures.hfsplus.plan import File, Journal, Tree, VolumePlan
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render, write
from layoutscope.errors import FormatError
from layoutscope.image import MemorySource, Window
from layoutscope.walk import trace
from tests.hfsplus import check_volume, read_layout, rendered
from tests.layouts import listing


def zeroed(data, *places):
    """Return an image with some places, each with start and length, filled with zeros."""
    data = bytearray(data)
    for start, length in places:
        data[start : start + length] = bytes(length)
    return bytes(data)


@cache
def whole(name):
    return read_layout(MemorySource(rendered(name)[0]))


def test_lost_volume_header_is_replaced_by_its_copy():
    """Without the header at byte 1024 the copy is used: the same nodes and entries, and one finding."""
    layout = read_layout(MemorySource(zeroed(rendered("populated")[0], (1024, 512))))
    assert layout.nodes.equals(whole("populated").nodes)
    assert layout.entries.equals(whole("populated").entries)
    assert ("volume-header-invalid", 1024) in layout.findings["code", "image_offset"].rows()


def without_first_transaction(data):
    """Make the journal start with its second transaction; only the first one writes the volume header."""
    order, at = ORDERS["little"], data.index(b"xLNJ")
    header = order.header.parse(data[at:])
    header.start += order.block_list.parse(data[at + header.start :]).bytes_used
    header.checksum = 0
    header.checksum = checksum(order.checksummed_header.build(header))
    built = order.header.build(header)
    return data[:at] + built + data[at + len(built) :]


@pytest.mark.parametrize("sweep", [False, True])
def test_copy_serves_where_the_journal_does_not_write_the_header(sweep):
    """Transactions of other blocks are still applied, and the lost header is reported."""
    data = zeroed(without_first_transaction(rendered("journal-pending-transactions")[0]), (1024, 512))
    layout = read_layout(MemorySource(data), sweep=sweep)
    assert {"volume-header-invalid", "journal-replayed"} <= set(layout.findings["code"])
    assert len(layout.entries) > 0


@pytest.mark.parametrize("start", [0, 512, 70_000])
def test_without_both_headers_there_is_no_volume(start):
    """The error gives the image address of the first header, wherever the volume starts."""
    source = MemorySource(bytes(start + 100_000))
    with pytest.raises(FormatError) as caught:
        read_layout(Window(source, start, 100_000))
    assert (caught.value.structure, caught.value.image_offset) == ("volume header", start + 1024)


def test_leaf_lost_to_its_index_is_found_through_the_chain():
    """An index node of zeros loses no entry as long as the leaves are still linked."""
    sound = whole("strewn-catalog")
    root = sound.nodes.filter(tree="catalog", kind="index").filter(pl.col("parent_row").is_null())
    place = root["image_offset"].item(), root["size_bytes"].item()
    layout = read_layout(MemorySource(zeroed(rendered("strewn-catalog")[0], place)))
    assert layout.entries["file_id"].to_list() == sound.entries["file_id"].to_list()
    assert "tree-unreachable" in layout.findings["code"].to_list()


def test_truncated_image_counts_what_it_lacks():
    """Nodes after the truncation are unreadable, coverage is below 1, and the rest is read."""
    sound = whole("strewn-catalog")
    leaves = sound.nodes.filter(tree="catalog", kind="leaf")["image_offset"]
    layout = read_layout(MemorySource(rendered("strewn-catalog")[0][: leaves.max()]))
    assert "node-unreadable" in layout.findings["code"].to_list()
    assert layout.coverage < sound.coverage == 1
    kept = layout.nodes.filter(tree="catalog", kind="leaf")["image_offset"]
    assert set(kept) == set(leaves) - {leaves.max()}
    assert 0 < len(layout.entries) < len(sound.entries)


def test_loop_among_leaves_ends():
    """A leaf whose link leads back to the first leaf is reported, and every entry is listed once."""
    data, sound = bytearray(rendered("populated")[0]), whole("populated")
    leaves = sound.nodes.filter(tree="catalog", kind="leaf").sort("key_rank")
    last, first = leaves["image_offset"][-1], leaves["node_id"][0]
    data[last : last + 4] = int(first).to_bytes(4, "big")
    layout = read_layout(MemorySource(bytes(data)))
    assert layout.entries.equals(sound.entries)
    assert ("leaf-chain-broken", last) in layout.findings["code", "image_offset"].rows()


@pytest.mark.parametrize("where", ["entry", "thread"])
def test_a_name_that_damage_changed_is_an_error_in_a_scan(where):
    """Each name is in an entry and in its thread; if one letter changes they differ, and nothing else does."""
    data = bytearray(rendered("populated")[0])
    row = whole("populated").entries.filter(kind="file").row(3, named=True)
    raw = row["name_raw"]
    # TN1150: in a key, the parent's CNID and the name's length precede the name; in a thread's data as well.
    before = row["parent_id"].to_bytes(4, "big") + (len(raw) // 2).to_bytes(2, "big")
    places = [found.start() for found in re.finditer(re.escape(before + raw), data)]
    entry, thread = sorted(places, key=lambda at: data[at - 4 : at] == b"\x00\x04\x00\x00")
    at = {"entry": entry, "thread": thread}[where] + len(before) + len(raw) - 1
    data[at] ^= 1
    layout = read_layout(MemorySource(bytes(data)))
    errors = layout.findings.filter(layout.findings["level"] == "error")
    assert "thread-differs" in errors["code"].to_list()
    assert f"the first has CNID {row['file_id']}" in errors.filter(errors["code"] == "thread-differs")["message"][0]
    assert layout.coverage is None


@pytest.mark.parametrize("count", [600, 3_000, 60_000])
def test_a_node_that_counts_more_records_than_it_has_room_for(count):
    """The offset table of the catalog's root would not fit into the node: its free space is unknown."""
    canvas, expected = render(SCENARIOS["victim"])
    data = bytearray(canvas.to_bytearray())
    root = expected.node("catalog", expected.trees["catalog"]["root_node"])
    # TN1150, Node Descriptor: the count is at byte 10.
    data[root.image_offset + 10 : root.image_offset + 12] = count.to_bytes(2, "big")
    # Free space directly after the descriptor, wherever the table is assumed to begin.
    data[root.image_offset + 14 : root.image_offset + 2048] = bytes([0, 14]) * 1017
    nodes = read_layout(MemorySource(bytes(data))).nodes
    row = nodes.filter(tree="catalog", node_id=root.node_number).to_dicts()[0]
    assert (row["num_records"], row["free_bytes"]) == (count, None)


# Two HFS+ leaves with the same keys, both written by the journal, which shows the one that belongs to the tree.


NAMES = ("keep", "stay")
JOURNALED = VolumePlan(
    root=tuple(File(name) for name in NAMES), journal=Journal(), catalog=Tree(4096, total_nodes=8), total_blocks=4096
)


def flushed(journal, runs):
    """Build a journal with all transactions flushed: the first pending one would start at the end."""
    data = bytearray(render_hfsplus(journal, runs))
    data[8:16] = data[16:24]
    data[36:40] = bytes(4)
    data[36:40] = checksum(bytes(data[:44])).to_bytes(4, journal.byte_order)
    return data


@pytest.fixture
def contradicting(tmp_path):
    """Return a function that makes a volume with two versions of a catalog leaf, and no header that selects one.

    The first version has one file more, which was deleted. The argument lists the journal's writes, by place and
    content.
    """
    layouts, leaves = {}, {}
    for name, root in (("now", JOURNALED.root), ("before", (*JOURNALED.root, File("gone")))):
        path = tmp_path / f"{name}.img"
        write(replace(JOURNALED, root=root), path)
        layouts[name] = layoutscope.read_layouts(path)[0]
        at = layouts[name].nodes.filter(tree="catalog", node_id=1)["image_offset"].item()
        leaves[name] = path.read_bytes()[at : at + 4096]
    where = layouts["now"].regions.filter(type="journal")["image_offset"].item()

    def make(*order):
        data = bytearray((tmp_path / "now.img").read_bytes())
        places = {"before": at, "now": at + 4096}
        # The header node is lost.
        data[at - 4096 : at] = bytes(4096)
        for name, place in places.items():
            data[place : place + 4096] = leaves[name]
        runs = [(places[name], leaves[name]) for name in order]
        journal = flushed(replace(JOURNALED.journal, transactions=2), runs)
        data[where : where + len(journal)] = journal
        path = tmp_path / "made.img"
        path.write_bytes(data)
        return layoutscope.scan(path, drives=())

    return make


@pytest.mark.parametrize(
    ("order", "is_back"), [(("before", "now"), False), (("now", "before"), True), ((), True)], ids=str
)
def test_of_two_leaves_the_one_is_taken_that_the_journal_wrote_last(contradicting, order, is_back):
    """The journal wrote both to their places earlier; if it does not decide, the one with more records is used."""
    result = contradicting(*order)
    names = result.volumes[0].layout.entries["name"].to_list()
    assert set(NAMES) <= set(names)
    assert ("gone" in names) == is_back
    assert result.exit_code == 3
    assert result.coverage != 1


# Broken HFS+ trees: the range of lost keys is reported, and nodes without an index are reassembled.


def broken(name, *kinds, tree="catalog"):
    """Zero all nodes of some kinds of a tree."""
    data, expected = rendered(name)
    places = [
        (node.image_offset, node.size_bytes) for node in expected.nodes if node.tree == tree and node.kind in kinds
    ]
    assert places
    return zeroed(data, *places)


def codes(layout):
    return set(layout.findings["code"])


def test_a_lost_leaf_is_bounded_by_its_neighbours():
    """The third leaf is zeroed and the chain broken: the keys from its pointer to the next one are reported missing."""
    data, expected = rendered("victim")
    leaf = expected.tree_nodes("catalog", "leaf")[2]
    layout = read_layout(MemorySource(zeroed(data, (leaf.image_offset, leaf.size_bytes))))
    keys = expected.keys["catalog"]
    first, after = keys[leaf.first_record][0], keys[leaf.first_record + leaf.num_records][0]
    lost = [row for row in layout.findings.iter_rows(named=True) if row["code"] == "subtree-missing"]
    assert len(lost) == 1
    assert (
        f"node {leaf.node_number} cannot be reached: records from folder {first} up to folder {after}"
        in lost[0]["message"]
    )
    assert layout.coverage < 1


def test_a_lost_index_node_is_bounded_and_its_leaves_are_found_by_the_chain():
    """The chain of leaves is complete, so the lost node is reported without a loss."""
    data, expected = rendered("victim")
    index = next(
        n for n in expected.tree_nodes("catalog", "index") if n.node_number != expected.trees["catalog"]["root_node"]
    )
    layout = read_layout(MemorySource(zeroed(data, (index.image_offset, index.size_bytes))))
    assert layout.entries.height == whole("victim").entries.height
    assert "node-invalid" in codes(layout)


@pytest.mark.parametrize("name", ["victim", "strewn-catalog", "straddling-nodes", "odd-names", "long-names"])
def test_tree_without_any_index_is_rebuilt_from_its_own_file(name):
    """Without root, index nodes and the first leaf's address, the same entries are found in the same order."""
    data, expected = rendered(name)
    header = expected.node("catalog", 0)
    # TN1150, BTHeaderRec: the root is at byte 2, first and last leaf at 10 and 14; the descriptor takes 14.
    data = zeroed(broken(name, "index"), (header.image_offset + 14 + 10, 8))
    layout = read_layout(MemorySource(data))
    sound = whole(name)
    assert layout.entries["file_id", "parent_id", "name_raw"].equals(sound.entries["file_id", "parent_id", "name_raw"])
    assert layout.extents.select("file_id", "image_offset", "length_bytes").equals(
        sound.extents.select("file_id", "image_offset", "length_bytes")
    )
    assert {"tree-rebuilt", "tree-unreachable"} <= codes(layout)
    assert layout.coverage < 1
    assert set(catalog_leaves(layout)["state"]) == {"inferred"}
    assert_same_with_sweep(layout, data)


def catalog_leaves(layout):
    nodes = layout.nodes
    return nodes.filter((nodes["tree"] == "catalog") & (nodes["kind"] == "leaf") & (nodes["state"] != "stale"))


def assert_same_with_sweep(layout, data):
    """Assert that a sweep finds the same as the tree's own file, and does not raise coverage."""
    swept = read_layout(MemorySource(data), sweep=True)
    assert swept.entries.equals(layout.entries)
    assert swept.coverage == layout.coverage


@pytest.mark.parametrize(
    "name",
    ["victim", "strewn-catalog", "straddling-nodes", "hard-links", "case-sensitive", "half-full-nodes",
     "block-512-node-4096", "block-4096-node-8192", "block-65536-node-4096", "block-4096-node-32768"],
)  # fmt: skip
def test_tree_without_a_header_node_is_read_all_the_same(name):
    """Without a header node not even the node size is known: nodes in the tree's file give it, and the root."""
    data = broken(name, "header")
    layout, sound = read_layout(MemorySource(data)), whole(name)
    assert layout.entries.equals(sound.entries)
    assert {"tree-header-invalid", "tree-rebuilt"} <= codes(layout)
    assert layout.coverage < 1
    live = layout.nodes.filter((layout.nodes["tree"] == "catalog") & (layout.nodes["key_rank"].is_not_null()))
    before = sound.nodes.filter((sound.nodes["tree"] == "catalog") & (sound.nodes["key_rank"].is_not_null()))
    assert live.drop("row", "state").equals(before.drop("row", "state"))
    assert set(live["state"]) == {"inferred"}
    assert_same_with_sweep(layout, data)


def test_header_node_with_another_node_size_is_told_by_the_nodes():
    """A power of two that is not the node size contradicts the stored nodes, which take precedence."""
    data, expected = rendered("victim")
    header = expected.node("catalog", 0)
    for wrong in {512, 1024, 2048, 4096, 8192, 16384, 32768} - {header.size_bytes}:
        image = bytearray(data)
        # TN1150, BTHeaderRec: nodeSize is at byte 18, after a descriptor of 14.
        image[header.image_offset + 32 : header.image_offset + 34] = wrong.to_bytes(2, "big")
        layout = read_layout(MemorySource(bytes(image)))
        assert layout.entries.equals(whole("victim").entries)
        assert "tree-rebuilt" in codes(layout)
        assert layout.coverage < 1


@pytest.mark.parametrize("tree", ["catalog", "attributes", "extents-overflow"])
def test_extents_that_the_volume_header_lost_are_those_of_its_copy(tree):
    """The header's own extents of a tree lead nowhere; those of its copy are right, and the finding says so."""
    name = {"catalog": "victim", "attributes": "attributes", "extents-overflow": "overflow"}[tree]
    data = bytearray(rendered(name)[0])
    # TN1150, HFSPlusVolumeHeader: fork data of 80 bytes each from byte 112, extents after 16 bytes of each.
    place = 1024 + {"extents-overflow": 192, "catalog": 272, "attributes": 352}[tree] + 16
    data[place + 3] ^= 0x15
    layout, sound = read_layout(MemorySource(bytes(data))), whole(name)
    assert layout.entries.equals(sound.entries)
    assert layout.nodes.equals(sound.nodes)
    assert layout.extents.equals(sound.extents)
    told = layout.findings.filter(layout.findings["code"] == "volume-header-invalid")
    assert told.select("level", "image_offset").rows() == [("error", place - 16)]
    assert layout.coverage is None or layout.coverage < 1


def test_old_leaf_does_not_come_back_into_a_tree_without_a_header():
    """A leaf of deleted files in a free node has keys of its own, but its neighbors link to each other."""
    data, expected = rendered("half-full-nodes")
    leaves = expected.tree_nodes("catalog", "leaf")
    last = leaves[-1]
    free = next(
        node for node in expected.nodes if node.tree == "catalog" and node.kind == "free" and node.node_number > 0
    )
    old = bytearray(data[last.image_offset : last.image_offset + last.size_bytes])
    # The first record's key: its length and the parent's CNID, which no folder has; the other records are removed.
    old[16:20], old[10:12] = (0x7FFFFFFF).to_bytes(4, "big"), (1).to_bytes(2, "big")
    old[-4:-2] = old[-4:-2]
    old[:8] = bytes(8)
    image = bytearray(broken("half-full-nodes", "header"))
    image[free.image_offset : free.image_offset + len(old)] = old
    layout = read_layout(MemorySource(bytes(image)))
    assert layout.entries.equals(whole("half-full-nodes").entries)
    assert any("1 with keys of others" in text for text in layout.findings["message"])


@pytest.mark.parametrize("name", ["victim", "strewn-catalog", "half-full-nodes"])
def test_tree_without_extents_is_found_on_the_volume(name):
    """Neither header has extents of the catalog: its leaves are found at any place."""
    data, expected = rendered(name)
    # TN1150: the catalog's fork data start at byte 272 of the volume header, its extents 16 bytes later.
    places = [(at + 272, 80) for at in (1024, expected.region("alternate-volume-header").image_offset)]
    layout = read_layout(MemorySource(zeroed(data, *places)), sweep=True)
    assert layout.entries["file_id", "name_raw"].equals(whole(name).entries["file_id", "name_raw"])
    assert "tree-rebuilt" in codes(layout)


def test_attributes_and_overflow_trees_are_rebuilt_too():
    """Their extents are unchanged."""
    for name, tree in (("attributes", "attributes"), ("overflow", "extents-overflow")):
        layout = read_layout(MemorySource(broken(name, "header", tree=tree)))
        assert "tree-rebuilt" in codes(layout)
        assert layout.extents.select("file_id", "image_offset").equals(
            whole(name).extents.select("file_id", "image_offset")
        )


def test_of_two_leaves_with_the_same_keys_the_linked_one_is_taken():
    """An old copy of a leaf, in a free block and with other links, is ignored and counted."""
    data, expected = rendered("strewn-catalog")
    leaf = expected.tree_nodes("catalog", "leaf")[3]
    free = next(at for at, length in expected.free if length >= leaf.size_bytes)
    copy = bytearray(data[leaf.image_offset : leaf.image_offset + leaf.size_bytes])
    copy[:8] = bytes(8)
    image = bytearray(data)
    image[free : free + len(copy)] = copy
    for places in ([(1024 + 272, 80), (expected.region("alternate-volume-header").image_offset + 272, 80)], []):
        layout = read_layout(MemorySource(zeroed(bytes(image), *places)), sweep=True)
        assert layout.entries["file_id", "name_raw"].equals(whole("strewn-catalog").entries["file_id", "name_raw"])
        assert layout.facts.details["stale catalog nodes"] == (1 if not places else 2)


def test_sound_volume_is_the_same_with_a_sweep():
    """A sweep of a volume without old copies only adds three zeros."""
    sound, layout = whole("victim"), read_layout(MemorySource(rendered("victim")[0]), sweep=True)
    assert layout.nodes.equals(sound.nodes)
    assert layout.entries.equals(sound.entries)
    assert [layout.facts.details[f"stale {tree} nodes"] for tree in ("catalog", "attributes", "extents-overflow")] == [
        0
    ] * 3


def test_copies_in_the_journal_are_stale():
    """Journaled nodes are copies: one per transaction, except those that do not start at a sector."""
    layout = read_layout(MemorySource(rendered("journal-pending")[0]), sweep=True)
    assert layout.facts.details["stale catalog nodes"] >= 1
    assert layout.findings.filter(code="stale-nodes")["level"].to_list() == ["info"]


def test_check_looks_at_what_was_rebuilt():
    """The records of a tree without a header are checked: a wrong valence is found at its byte."""
    from fixtures.faults_hfsplus import FAULTS

    fault = next(fault for fault in FAULTS if fault.name == "valence")
    image = bytearray(broken("victim", "header"))
    at = fault.apply(image, rendered("victim")[1])
    for sweep in (False, True):
        found = check_volume(MemorySource(bytes(image)), sweep=sweep)
        assert ("valence-differs", at) in {(item.code, item.image_offset) for item in found}


def test_command_line_sweeps(tmp_path):
    """``scan --sweep`` and ``check --sweep`` report inferred data, and end with 3."""
    from typer.testing import CliRunner

    from layoutscope.cli import app

    path = tmp_path / "broken.img"
    path.write_bytes(broken("victim", "header"))
    for command in (["scan", "--details"], ["check"]):
        result = CliRunner().invoke(app, [*command, str(path), "--sweep"])
        assert result.exit_code == 3
        assert "tree-rebuilt" in result.stdout


def test_real_volume_with_old_nodes(reference_image):
    """An aged macOS volume has old copies; none belongs to the live tree, and the sweep finds every leaf."""
    from layoutscope.image import open_image

    with open_image(reference_image("apple/hfsinspect_hfsj.raw")) as source:
        layout = read_layout(source, sweep=True)
        before = read_layout(source)
    assert layout.entries.equals(before.entries)
    assert layout.facts.details["stale catalog nodes"] > 0


def without_headers(name):
    """Zero the volume header and its copy near the end."""
    data = rendered(name)[0]
    return zeroed(data, (1024, 512), (len(data) - 1024, 512))


def own_extents(layout):
    """Return the extents of files, without those of special files in the header."""
    rows = layout.extents.filter(layout.extents["file_id"] >= 16)
    return set(rows.select("file_id", "image_offset", "length_bytes").rows())


@pytest.mark.parametrize(
    "name",
    ["victim", "case-sensitive", "overflow", "hot-files", "hard-links", "journal-empty", "strewn-catalog",
     "block-512-node-4096", "block-4096-node-8192", "block-65536-node-4096"],
)  # fmt: skip
def test_volume_without_any_header_is_salvaged(name):
    """Names, files, extents and the block size are those of the sound volume; an error says that all is inferred."""
    source = MemorySource(without_headers(name))
    with pytest.raises(FormatError):
        read_layout(source)
    layout, sound = read_layout(source, sweep=True), whole(name)
    assert listing(layout) == listing(sound)
    assert own_extents(layout) == own_extents(sound)
    assert layout.facts.block_size_bytes == sound.facts.block_size_bytes
    assert (layout.facts.name, layout.facts.variant) == (sound.facts.name, sound.facts.variant)
    told = layout.findings.filter(layout.findings["code"] == "volume-header-lost")
    assert told.select("level", "image_offset").rows() == [("error", 1024)]
    assert layout.coverage < 1


@pytest.mark.parametrize("name", ["victim", "case-sensitive", "overflow", "journal-empty"])
def test_salvaged_volume_contradicts_nothing(name):
    """A check reports the lost headers and rebuilt trees, and no false findings."""
    found = check_volume(MemorySource(without_headers(name)), sweep=True)
    assert {item.code for item in found if item.level != "info"} <= {"volume-header-lost", "tree-rebuilt"}


def test_the_copy_of_a_header_is_found_at_the_end_of_its_partition():
    """If the disk continues after the partition, the partition's size gives the place of the copy."""
    data = zeroed(rendered("victim")[0], (1024, 512))
    source = MemorySource(data + bytes(1 << 20))
    layout = read_layout(source, size_bytes=len(data))
    assert listing(layout) == listing(whole("victim"))
    assert codes(layout) == {"volume-header-invalid"}
    assert {item.code for item in check_volume(source, size_bytes=len(data))} == {"volume-header-invalid"}


def test_nothing_is_salvaged_where_no_catalog_is():
    """For zeros, and for a volume without a catalog, the error is the one without a sweep."""
    expected = rendered("victim")[1]
    nodes = [(node.image_offset, node.size_bytes) for node in expected.nodes if node.tree == "catalog"]
    for image in (bytes(1 << 20), zeroed(without_headers("victim"), *nodes)):
        with pytest.raises(FormatError):
            read_layout(MemorySource(image), sweep=True)


@pytest.mark.parametrize("name", ["strewn-catalog", "victim"])
def test_a_deleted_file_does_not_come_back_out_of_an_old_leaf(name):
    """Without a header, an old leaf with one record more, in a free block, is recognized by place and links."""
    data, expected = rendered(name)
    sound = whole(name)
    leaf, image = next(found for found in (less_a_record(data, leaf) for leaf in leaves_of(expected)) if found[1])
    after = read_layout(MemorySource(image))
    assert len(after.entries) == len(sound.entries) - 1
    free = next(at for at, length in expected.free if length >= leaf.size_bytes)
    old = bytearray(image)
    old[free : free + leaf.size_bytes] = data[leaf.image_offset : leaf.image_offset + leaf.size_bytes]
    # The copies of the volume header: at byte 1024 and 1024 bytes before the end.
    layout = read_layout(MemorySource(zeroed(bytes(old), (1024, 512), (len(data) - 1024, 512))), sweep=True)
    # The removed record's thread remains and is reported separately.
    known = layout.changed(entries=layout.entries.filter(layout.entries["flags"] < 32))
    assert listing(known) == listing(after)
    assert layout.facts.details["stale catalog nodes"] > 0


def leaves_of(expected):
    return expected.tree_nodes("catalog", "leaf")[2:-2]


def less_a_record(data, leaf):
    """Return a leaf and an image without the leaf's last record, as after a deletion; no image if it is a thread."""
    image, at = bytearray(data), leaf.image_offset
    count = int.from_bytes(image[at + 10 : at + 12], "big")
    # TN1150: offsets grow from the end of a node; free space now starts where the last record started.
    start = int.from_bytes(image[at + leaf.size_bytes - 2 * count :][:2], "big")
    key = int.from_bytes(image[at + start : at + start + 2], "big")
    kind = int.from_bytes(image[at + start + 2 + key :][:2], "big")
    image[at + 10 : at + 12] = (count - 1).to_bytes(2, "big")
    return leaf, bytes(image) if kind == 2 else b""


def leaves_with_entries(name):
    """Return the leaves of the catalog in key order, with the file and folder records of each."""
    _, expected = rendered(name)
    entries = whole(name).entries
    return [
        (leaf, entries.filter(entries["entry_node_row"] == row))
        for leaf, row in (
            (leaf, whole(name).nodes.filter(tree="catalog", node_id=leaf.node_number)["row"].item())
            for leaf in expected.tree_nodes("catalog", "leaf")
        )
    ]


def test_files_whose_records_are_lost_are_listed_where_their_threads_say():
    """Each file's thread is at its own number, mostly in another leaf: it gives name, folder and number."""
    data, _ = rendered("victim")
    # A thread does not show whether its file is a hard link: it has the number of the link itself.
    listed = [pl.col("parent_id"), pl.coalesce("link_id", "file_id"), pl.col("name"), pl.col("kind") == "directory"]
    places, sound = {}, set(whole("victim").entries.select(listed).rows())
    for leaf, own in leaves_with_entries("victim")[1::7]:
        image = zeroed(data, (leaf.image_offset, leaf.size_bytes))
        plain, swept = (read_layout(MemorySource(image), sweep=sweep) for sweep in (False, True))
        again = swept.entries.filter(swept.entries["flags"] >= 32)
        assert set(again.select(listed).rows()) <= set(own.select(listed).rows()) <= sound
        assert again["size_bytes"].null_count() == again["modify_time"].null_count() == again.height
        assert swept.entries.height == plain.entries.height + again.height
        assert (plain.entries["flags"] < 32).all()
        assert swept.coverage <= plain.coverage < 1
        assert swept.facts.num_missing_entries == plain.facts.num_missing_entries
        assert ("tree-rebuilt" in codes(swept)) == (again.height > 0)
        places[leaf.node_number] = again.height
    assert sum(places.values()) > 0


def test_a_walk_goes_through_what_threads_list():
    """A folder known only by its thread is listed with its files."""
    data, _ = rendered("victim")
    for leaf, own in leaves_with_entries("victim"):
        folders = own.filter((own["kind"] == "directory") & (own["parent_id"] > 1))
        layout = read_layout(MemorySource(zeroed(data, (leaf.image_offset, leaf.size_bytes))), sweep=True)
        again = layout.entries.filter(layout.entries["flags"] >= 32)
        if folders.height and set(folders["file_id"]) <= set(again["file_id"]):
            reads = trace(layout)
            assert len(reads) > 0
            return
    raise AssertionError("no folder lies in another leaf than its thread")
