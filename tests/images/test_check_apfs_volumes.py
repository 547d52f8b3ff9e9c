"""Superblocks of volumes and of snapshots, and seals: each rule is broken once, and found at its byte."""

from __future__ import annotations

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.structures import records as disk
from fixtures.apfs.structures.records import RecordType
from fixtures.fault import Fault, planted
from fixtures.faults_apfs import FAULTS
from layoutscope import check
from layoutscope.checks.apfs import objects as rules
from layoutscope.structs.records import APFS_SUPERBLOCK
from tests.cases import for_each
from tests.images.test_check_apfs_fields import BLOCK_BYTES, ONES, findings

VOLUME = APFS_SUPERBLOCK
LARGE = {"hdr.xid", "num_quota_blocks", "fs_flags", "next_doc_id", "root_tree_type", "hdr.type_and_flags"}
LARGE |= {"meta_crypto.key_revision"}
"""Fields where a strange bit is no contradiction, or leads to another volume; their own values are below."""
VALUES = {
    "num_quota_blocks": b"\1",
    "fs_flags": b"\0",
    "next_doc_id": b"\0",
    "meta_crypto.key_revision": b"\0",
    "hdr.type_and_flags": b"\x0d\0\0\x08",
}


def snapshot(image, expected):
    """Locate the superblock of the first snapshot."""
    _, place = at.leaf_records(image, expected, RecordType.SNAP_METADATA, tree="snapmeta")[0]
    return int(at.parse(image, disk.SNAP_METADATA, place.value).sblock_oid) * BLOCK_BYTES


PLACES = {"live": at.region("volume-superblock"), "snapshot": snapshot}
OF_COPIES = {
    "incompatible_features",
    "fs_index",
    "omap_oid",
    "extentref_tree_oid",
    "snap_meta_tree_oid",
    "root_tree_oid",
    "next_obj_id",
}
RULES = rules.make_volume_rules(ONES, ONES, ONES, [], is_copy=True)
FIELDS = {str(rule.field): rule.field for rule in RULES}
CASES = [
    (view, name)
    for view in PLACES
    for name in FIELDS
    if (name not in LARGE or name in VALUES)
    and (view == "snapshot" or name not in OF_COPIES)
    and (view, name) != ("snapshot", "num_quota_blocks")
]


def changed(place, field):
    def apply(image, expected):
        start = place(image, expected)
        where, value = start + field.offset, VALUES.get(str(field))
        if value is None:
            image[where + field.scalar.itemsize - 1 if field.scalar.itemsize < 8 else where + 4] ^= 0x40
        else:
            image[where : where + len(value)] = value
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return apply


@for_each("view, name", CASES)
def test_strange_value_in_a_superblock_is_found_at_its_field(view, name, victims):
    """The same rules apply to the live superblock and a snapshot's, where they are applicable."""
    with planted(Fault(name, "", "", "", changed(PLACES[view], FIELDS[name]), "snapshots"), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert "superblock-differs" in found


@pytest.mark.parametrize(
    "field", [rule.field for rule in rules.make_seal_rules(1) if str(rule.field) != "hdr.xid"], ids=str
)
def test_strange_value_in_a_seal_is_found_at_its_field(field, victims):
    """Header, version, flags and reserved bytes of integrity metadata follow their rules."""
    with planted(
        Fault("seal", "", "", "", changed(at.region("integrity-metadata"), field), "sealed"), victims
    ) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert "seal-broken" in found


def history(change):
    def apply(image, expected):
        start = at.region("volume-superblock")(image, expected)
        where = change(image, start)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return apply


ENTRY = VOLUME.modified_by.id.strides[0]
HISTORIES = {
    "time without program": (VOLUME.modified_by.timestamp, 0),
    "transaction without program": (VOLUME.modified_by.last_xid, 0),
    "entry behind the last": (VOLUME.modified_by.id, 3),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_entries_of_programs_stand_in_order(name, victims):
    """An entry without program is empty, and behind it there is none."""
    field, number = HISTORIES[name]

    def change(image, start):
        where = start + field.offset + number * ENTRY
        image[where] = 1
        return where

    with planted(Fault(name, "", "", "", history(change), "victim"), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert found == {"superblock-differs"}


@pytest.mark.parametrize("field", [VOLUME.volname, VOLUME.formatted_by.id], ids=str)
def test_volumes_have_a_name_and_a_maker(field, victims):
    """An empty name gives a finding, and so does an empty maker."""

    def change(image, start):
        image[start + field.offset] = 0
        return start + field.offset

    with planted(Fault("name", "", "", "", history(change), "victim"), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert found == {"superblock-differs"}


@pytest.mark.parametrize("name", ["volume-oid", "volume-checksum"])
def test_what_stands_in_for_a_lost_volume_is_no_fault_of_its_own(name, victims):
    """An older copy that a search found is a consequence of the unreadable superblock."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    with planted(fault, victims) as image:
        found = check(image.path, password=PASSWORD)
    told = [item for part in (found, *found.volumes) for item in part.findings]
    assert [item for item in told if item.code == "tree-rebuilt"]
    assert {item.code for item in told if item.is_cause and item.level == "error"}
    assert not [item for item in told if item.code == "tree-rebuilt" and item.is_cause]
