"""Damaged HFS+ volumes: readable data are read, and each loss is reported with its address."""

from __future__ import annotations

from functools import cache

import pytest

from fixtures.hfsplus.journal import ORDERS, checksum
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope.errors import FormatError
from layoutscope.image import MemorySource, Window
from tests.hfsplus import read_layout


@cache
def sound(name):
    canvas, expected = render(SCENARIOS[name])
    assert expected.volume_offset == 0
    return bytes(canvas.to_bytearray())


def zeroed(data, start, length):
    return data[:start] + bytes(length) + data[start + length :]


def test_lost_volume_header_is_replaced_by_its_copy():
    """Without the header at byte 1024 the copy is used: the same nodes and entries, and one finding."""
    data = sound("populated")
    layout = read_layout(MemorySource(zeroed(data, 1024, 512)))
    whole = read_layout(MemorySource(data))
    assert layout.nodes.equals(whole.nodes)
    assert layout.entries.equals(whole.entries)
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
    data = zeroed(without_first_transaction(sound("journal-pending-transactions")), 1024, 512)
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
    data = sound("strewn-catalog")
    whole = read_layout(MemorySource(data))
    index = whole.nodes.filter((whole.nodes["tree"] == "catalog") & (whole.nodes["kind"] == "index"))
    root = index.filter(index["parent_row"].is_null())
    at, size = root["image_offset"].item(), root["size_bytes"].item()
    layout = read_layout(MemorySource(zeroed(data, at, size)))
    assert layout.entries["file_id"].to_list() == whole.entries["file_id"].to_list()
    assert "tree-unreachable" in layout.findings["code"].to_list()


@pytest.mark.parametrize("byte", [0x00, 0xA5])
@pytest.mark.parametrize("kind", ["leaf", "index"])
def test_destroyed_nodes_are_neither_free_nor_sound(kind, byte):
    """Overwritten nodes, including the root, are unreadable and not verified; all others are unchanged."""
    data = sound("strewn-catalog")
    whole = read_layout(MemorySource(data)).nodes
    rows = whole.filter((whole["tree"] == "catalog") & (whole["kind"] == kind))
    lost = set(rows["image_offset"].to_list()[::3])
    for at in lost:
        size = rows["size_bytes"][0]
        data = data[:at] + bytes([byte]) * size + data[at + size :]
    found = read_layout(MemorySource(data)).nodes
    bad = found.filter(found["valid"] == "no")
    assert set(bad["image_offset"]) == lost
    assert set(bad["kind"]) == {"unreadable"}
    kept = [nodes.filter(~nodes["image_offset"].is_in(lost))["image_offset", "kind"] for nodes in (whole, found)]
    assert kept[0].equals(kept[1])


def test_truncated_image_counts_what_it_lacks():
    """Nodes after the truncation are unreadable, coverage is below 1, and the rest is read."""
    data = sound("strewn-catalog")
    whole = read_layout(MemorySource(data))
    leaves = whole.nodes.filter((whole.nodes["tree"] == "catalog") & (whole.nodes["kind"] == "leaf"))
    cut = max(leaves["image_offset"])
    layout = read_layout(MemorySource(data[:cut]))
    assert "node-unreadable" in layout.findings["code"].to_list()
    assert layout.coverage < whole.coverage == 1
    kept = layout.nodes.filter((layout.nodes["tree"] == "catalog") & (layout.nodes["kind"] == "leaf"))
    assert set(kept["image_offset"]) == {at for at in leaves["image_offset"] if at < cut}
    assert 0 < len(layout.entries) < len(whole.entries)


def test_loop_among_leaves_ends():
    """A leaf whose link leads back to the first leaf is reported, and every entry is listed once."""
    data = bytearray(sound("populated"))
    whole = read_layout(MemorySource(bytes(data)))
    leaves = whole.nodes.filter((whole.nodes["tree"] == "catalog") & (whole.nodes["kind"] == "leaf")).sort("key_rank")
    last, first = leaves["image_offset"][-1], leaves["node_id"][0]
    data[last : last + 4] = int(first).to_bytes(4, "big")
    layout = read_layout(MemorySource(bytes(data)))
    assert layout.entries.equals(whole.entries)
    assert ("leaf-chain-broken", last) in layout.findings["code", "image_offset"].rows()


@pytest.mark.parametrize("where", ["entry", "thread"])
def test_a_name_that_damage_changed_is_an_error_in_a_scan(where):
    """Each name is in an entry and in its thread; if one letter changes they differ, and nothing else does."""
    data = bytearray(sound("populated"))
    whole = read_layout(MemorySource(bytes(data)))
    row = whole.entries.filter(whole.entries["kind"] == "file").row(3, named=True)
    raw = row["name_raw"]
    # TN1150: in a key, the parent's CNID and the name's length precede the name; in a thread's data as well.
    before = row["parent_id"].to_bytes(4, "big") + (len(raw) // 2).to_bytes(2, "big")
    places = [at for at in range(len(data) - len(raw)) if data[at : at + len(before) + len(raw)] == before + raw]
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
