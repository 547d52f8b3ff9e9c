"""Findings of a check in states that only snapshots keep, each reported once."""

from __future__ import annotations

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.structures import records as written
from fixtures.apfs.structures.records import KEY, OBJECT_TYPE_SHIFT, RecordType
from fixtures.fault import Fault, planted
from layoutscope.structs.records import APFS_SUPERBLOCK
from tests.images.test_check_apfs_fields import BLOCK_BYTES, changed, findings


def kept_records(image, expected, kind):
    """Return records of a type in leaves that a snapshot has and the live state no longer has."""
    live = {node.paddr for node in expected.live.nodes}
    nodes = [node for snapshot in expected.snapshots for node in expected.states[snapshot.xid].nodes]
    starts = [
        node.paddr * BLOCK_BYTES for node in nodes if (node.tree, node.level) == ("fs", 0) and node.paddr not in live
    ]
    return [
        (start, place)
        for start in starts
        for place in at.records(image, start, BLOCK_BYTES)
        if at.parse(image, KEY, place.key).obj_id_and_type >> OBJECT_TYPE_SHIFT == kind
    ]


def in_kept(kind, change):
    """Return a fault in a record that only snapshots keep."""

    def apply(image, expected):
        start, place = kept_records(image, expected, kind)[-1]
        where = change(image, place)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return Fault("kept", "", "", "", apply, "snapshots")


def _strange_pad(image, place):
    where = place.value + at.field_offset(written.INODE, "pad1")
    image[where] ^= 0x55
    return where


def _another_hash(image, place):
    where = place.key + KEY.sizeof()
    image[where + 2] ^= 0x10
    return where


def _another_inode(image, place):
    return at.put_field(image, place.value, written.DIRECTORY_RECORD, "file_id", lambda _: 0x7000)


FAULTS = {
    "a rule of a field": (RecordType.INODE, _strange_pad, "record-invalid"),
    "a hash of a name": (RecordType.DIR_REC, _another_hash, "name-hash-differs"),
    "an entry without inode": (RecordType.DIR_REC, _another_inode, "inode-missing"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_in_a_leaf_of_snapshots_alone_is_found_there_once(name, victims):
    """Snapshot records follow the rules of the live state, and nothing is reported twice."""
    kind, change, code = FAULTS[name]
    with planted(in_kept(kind, change), victims) as image:
        found = findings(image.path)
    here = [
        item for item in found if item.code == code and item.image_offset // BLOCK_BYTES == image.where // BLOCK_BYTES
    ]
    assert here
    assert len({(item.code, item.image_offset, item.message) for item in here}) == len(here)


def test_finding_of_a_comparison_names_the_snapshot(victims):
    """The finding tells the reader to look into that state, not into the live one."""
    kind, change, code = FAULTS["an entry without inode"]
    with planted(in_kept(kind, change), victims) as image:
        whole, rest = findings(image.path), findings(image.path, without={"states"})
    found = [item for item in whole if item.code == code]
    assert found
    assert [item for item in rest if item.code == code] == []
    assert all(item.structure.startswith("snapshot ") for item in found)


@pytest.mark.parametrize("field", ["num_files", "num_directories", "role", "incompatible_features"])
def test_superblock_of_a_snapshot_is_compared_with_its_records(field, victims):
    """Counts, role and the rule of names in the snapshot's copy."""
    where = at.region("snapshot-superblock")
    fault = Fault("copy", "", "", "", changed(where, getattr(APFS_SUPERBLOCK, field)), "snapshots")
    with planted(fault, victims) as image:
        found = findings(image.path)
    assert image.where in {item.image_offset for item in found}


def _name_record(image, expected):
    start = next(node.paddr for node in expected.live.nodes if node.tree == "snapmeta") * BLOCK_BYTES
    kinds = {
        at.parse(image, KEY, each.key).obj_id_and_type >> OBJECT_TYPE_SHIFT: each
        for each in at.records(image, start, BLOCK_BYTES)
    }
    return start, kinds[RecordType.SNAP_NAME].key


@pytest.mark.parametrize(
    ("plus", "message"),
    [
        (KEY.sizeof() + 2, "a name is not that in the metadata of its snapshot"),
        (KEY.sizeof() - 2, "its key has the number of an object"),
    ],
)
def test_name_of_a_snapshot_is_that_of_its_metadata(plus, message, victims):
    """A snapshot with two names, or a name under another key, is not clean, according to apfsck as well."""

    def apply(image, expected):
        start, key = _name_record(image, expected)
        image[key + plus] ^= 1
        at.fix_checksum(image, start, BLOCK_BYTES)
        return start

    with planted(Fault("name", "", "", "", apply, "snapshots"), victims) as image:
        found = [item for item in findings(image.path) if item.code == "snapshot-differs"]
    assert message in {item.message for item in found}
    assert {item.image_offset // BLOCK_BYTES for item in found} == {image.where // BLOCK_BYTES}
