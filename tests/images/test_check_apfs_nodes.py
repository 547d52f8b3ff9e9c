"""Headers, free lists and roots of nodes: each rule is broken once, and found at its byte."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.structures.objects import OMAP_VALUE
from fixtures.fault import Fault, planted
from fixtures.faults_apfs import FAULTS
from layoutscope import check, read_layouts
from layoutscope.checks.apfs import btree as rules
from layoutscope.structs.records import BTREE_INFO, BTREE_NODE
from tests.cases import for_each
from tests.images.test_check_apfs_fields import BLOCK_BYTES, findings

TREES = ("fs", "omap", "container-omap", "extentref", "snapmeta", "spaceman")
INFO = BLOCK_BYTES - BTREE_INFO.width
FS = MagicMock()
FS.tree.source.tree = "fs"
OF_ROOTS = (*rules.make_info_rules(FS), *rules.make_longest_rules(FS, (0, 0)))
FIELDS = {
    **{str(rule.field): (rule.field.offset, rule.code) for rule in rules.make_node_rules(FS, 1)},
    **{str(rule.field): (INFO + rule.field.offset, rule.code) for rule in OF_ROOTS},
    "key_free_list.len_data": (BTREE_NODE.key_free_list.len_data.offset, rules.DIFFERS),
    "val_free_list.len_data": (BTREE_NODE.val_free_list.len_data.offset, rules.DIFFERS),
}
FLAGS = {"hdr.type_and_flags": (3, 0x08), "flags": (0, 0x10), "hdr.xid": (0, None), "table_space.ofs_data": (0, 4)}
FLAGS |= {"fixed.len_key": (1, 1), "fixed.len_val": (0, 4)}
"""The changed byte and its value, where a strange bit in the second byte would stop the reader; None zeroes all."""


def changed(tree, field):
    offset, _ = FIELDS[field]
    byte, bit = FLAGS.get(field, (1, 0x10))

    def apply(image, expected):
        start = at.root(tree, -1 if tree in {"container-omap", "spaceman"} else 0)(image, expected)
        if bit is None:
            image[start + offset : start + offset + 8] = bytes(8)
        else:
            image[start + offset + byte] ^= bit
        at.fix_checksum(image, start, BLOCK_BYTES)
        return start + offset

    return apply


TORN = {("container-omap", "fixed.len_val"), *((tree, "table_space.ofs_data") for tree in TREES[:3] + TREES[5:])}
"""Changes that put records outside the node: reading reports and skips the whole node."""
CASES = [(tree, field) for tree in TREES for field in FIELDS if (tree, field) not in {*TORN, ("fs", "hdr.xid")}]
"""Reading compares the transaction of a virtual node with the object map's."""


@for_each("tree, field", CASES)
def test_strange_value_in_a_root_is_found_at_its_field(tree, field, victims):
    """Every rule of headers and roots applies to every kind of tree."""
    victim = "snapshots" if tree == "snapmeta" else "victim"
    with planted(Fault(field, "", "", "", changed(tree, field), victim), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert FIELDS[field][1] in found


def put(image, place, *numbers):
    for number in numbers:
        image[place : place + 2] = number.to_bytes(2, "little")
        place += 2


def number(image, place):
    return int.from_bytes(image[place : place + 2], "little")


LIST_END = 0xFFFF
FREED = 16
"""Bytes taken from the gap between keys and values for each free list."""


def freed(change=None):
    """Return a function that gives a leaf two free lists, as after a record was removed, and changes them."""

    def apply(image, expected):
        start = at.node("fs", min_keys=4)(image, expected)
        field = {name: start + getattr(BTREE_NODE, name).ofs_data.offset for name in (*LISTS, "free_space")}
        table = start + BTREE_NODE.table_space.ofs_data.offset
        keys = start + BTREE_NODE.width + number(image, table) + number(image, table + 2)
        end = start + BLOCK_BYTES - (BTREE_INFO.width if image[start + BTREE_NODE.flags.offset] & 1 else 0)
        gap, room = number(image, field["free_space"]), number(image, field["free_space"] + 2)
        put(image, field["free_space"], gap + FREED, room - 2 * FREED)
        value = end - (keys + gap + room - FREED)
        put(image, field["key_free_list"], gap, FREED)
        put(image, field["val_free_list"], value, FREED)
        put(image, keys + gap, LIST_END, FREED)
        put(image, end - value, LIST_END, FREED)
        where = start
        if change is not None:
            where = change(image, field, {"key_free_list": keys + gap, "val_free_list": end - value})
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return apply


LISTS = ("key_free_list", "val_free_list")
CHANGES = {
    "a piece too small": ("entry", 2, 3),
    "a piece too long": ("entry", 2, 4000),
    "an entry outside": ("entry", 0, 4000),
    "a start outside": ("head", 0, 4000),
    "bytes of a record": ("head", 0, 8),
    "another sum": ("head", 2, FREED + 4),
}


def test_free_lists_that_add_up_are_sound(victims):
    """Listed and summed pieces between records and gap give no finding."""
    with planted(Fault("lists", "", "", "", freed(), "victim"), victims) as image:
        assert findings(image.path) == []


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("change", CHANGES)
def test_broken_free_list_is_found_in_its_node(change, name, victims):
    """Pieces that are too small, too long, outside or in use, and a wrong sum, are findings in the node."""

    def apply(image, head, entry):
        part, plus, value = CHANGES[change]
        put(image, {"entry": entry, "head": head}[part][name] + plus, value)
        return head[name]

    with planted(Fault("lists", "", "", "", freed(apply), "victim"), victims) as image:
        found = findings(image.path)
        first = image.where - image.where % BLOCK_BYTES
    assert {item.code for item in found} == {rules.DIFFERS}
    assert all(first <= item.image_offset < first + BLOCK_BYTES for item in found)


@pytest.mark.parametrize("name", LISTS)
def test_free_list_in_a_loop_ends(name, victims):
    """A piece that points to itself is found, and the traversal of the list ends."""

    def apply(image, head, entry):
        put(image, entry[name], number(image, head[name]))
        return head[name]

    with planted(Fault("lists", "", "", "", freed(apply), "victim"), victims) as image:
        assert {item.code for item in findings(image.path)} == {rules.DIFFERS}


def test_size_in_a_map_is_that_of_the_node(victims):
    """A reader that trusts the map reads two extra blocks; apfsck rejects such an object."""

    def apply(image, expected):
        leaf = next(node.paddr for node in expected.live.nodes if (node.tree, node.level) == ("omap", 0)) * BLOCK_BYTES
        leaves = {node.paddr for node in expected.live.nodes if (node.tree, node.level) == ("fs", 0)}
        places = at.records(image, leaf, BLOCK_BYTES)
        where = max(each.value for each in places if _leads_to(image, each) in leaves)
        image[where + 4 : where + 8] = (3 * BLOCK_BYTES).to_bytes(4, "little")
        at.fix_checksum(image, leaf, BLOCK_BYTES)
        return where + 4

    with planted(Fault("size", "", "", "", apply), victims) as image:
        found = {
            (item.image_offset, item.message) for item in findings(image.path) if item.code == "object-map-differs"
        }
    assert found == {(image.where, "the node there has another size")}


def _leads_to(image, place):
    return at.parse(image, OMAP_VALUE, place.value).ov_paddr


def causes(name, victims):
    """Return the subjects of a fault's primary findings, and the number of consequences."""
    with planted(next(fault for fault in FAULTS if fault.name == name), victims) as image:
        found = check(image.path).every()
    worse = [item for item in found if item.level != "info"]
    alone = [item for item in worse if item.cause is None]
    return {item.structure.partition(",")[0] for item in alone}, len(worse) - len(alone)


@pytest.mark.parametrize("name", ["omap-leaf-checksum", "omap-leaf-oid", "omap-child-outside"])
def test_what_a_map_lost_follows_from_the_map(name, victims):
    """Nodes missing from a damaged map are not separate faults."""
    about, following = causes(name, victims)
    assert about == {"omap tree"}
    assert following


def test_a_lost_node_follows_from_no_sound_map(victims):
    """A broken leaf of another tree is reported there, unrelated to the map."""
    about, _ = causes("leaf-checksum", victims)
    assert about
    assert "omap tree" not in about


def test_a_map_whose_keys_do_not_ascend_is_one_cause_at_its_node(victims):
    """The map lacks nothing: a binary search would have missed two nodes of the volume's tree."""
    fault = next(fault for fault in FAULTS if fault.name == "omap-key-order")
    whole = read_layouts(victims["victim"][0])
    with planted(fault, victims) as image:
        (found,) = findings(image.path)
        layouts = read_layouts(image.path)
        first = image.where - image.where % BLOCK_BYTES
    assert (found.code, found.level, found.causes) == ("keys-unordered", "error", ())
    assert first <= found.image_offset < first + BLOCK_BYTES
    for before, after in zip(whole, layouts, strict=True):
        assert after.nodes["image_offset"].to_list() == before.nodes["image_offset"].to_list()
        assert after.entries.height == before.entries.height
