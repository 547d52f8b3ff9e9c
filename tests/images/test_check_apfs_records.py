"""Fields of records: rules of lengths, flags, reserved bytes and extended fields, each found at its record."""

from __future__ import annotations

import numpy as np
import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.structures.records import RecordType
from fixtures.fault import Fault, planted
from layoutscope.checks.apfs import records as rules
from layoutscope.structs.records import KVLOC, X_FIELD, XF_BLOB_HEAD
from tests.images.test_check_apfs_fields import BLOCK_BYTES, findings

KINDS = {
    "inode": (RecordType.INODE, "fs", "victim"),
    "dir_rec": (RecordType.DIR_REC, "fs", "victim"),
    "file_extent": (RecordType.FILE_EXTENT, "fs", "victim"),
    "xattr": (RecordType.XATTR, "fs", "victim"),
    "extent": (RecordType.EXTENT, "extentref", "victim"),
    "snap_metadata": (RecordType.SNAP_METADATA, "snapmeta", "snapshots"),
}
# Key states are in encrypted nodes, and file hashes in nodes whose own hash is in their parents.
FOLLOWING = (("inode", rules.INODE.len_uncompressed), ("file_extent", rules.EXTENT.crypto_id))
FOLLOWING += (("extent", rules.REFERENCE.owning_obj_id),)
"""Fields whose rules need another field of the record, or the volume."""
CASES = [(kind, rule.field) for kind, declared in rules.VALUE_RULES.items() if kind in KINDS for rule in declared]
CASES += FOLLOWING
VALUES = {
    "fixed.inum": bytes(8),
    "fixed.flags": b"\x08",
    "len_and_kind": bytes(8),
    "refcnt": bytes(4),
}


def in_value(kind, change, number=1):
    """Return a function that changes the value of a record, by its place."""
    record, tree, scenario = KINDS[kind]

    def apply(image, expected):
        found = at.leaf_records(image, expected, record, tree=tree)
        start, place = found[min(number, len(found) - 1)]
        where = change(image, place)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return Fault(kind, "", "", "", apply, scenario)


@pytest.mark.parametrize(("kind", "field"), CASES, ids=str)
def test_broken_rule_of_a_value_is_found_at_its_field(kind, field, victims):
    """Each rule of a value is broken once, and the finding is at the field's first byte."""

    def change(image, place):
        where = place.value + field.offset
        value = VALUES.get(str(field), b"\x77\x77")
        image[where : where + len(value)] = value
        if field.scalar.itemsize == 8 and str(field) not in {"fixed.inum", "len_and_kind"}:
            image[where + 7] = 0x42
        return where

    with planted(in_value(kind, change), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert "record-invalid" in found


OUT_OF_REACH = [rule for kind in ("crypto_state", "file_info") for rule in rules.VALUE_RULES[kind]]
AS_WRITTEN = {
    "fixed.refcnt": 1,
    "fixed.major_version": 5,
    "fixed.persistent_class": 3,
    "fixed.num_hashed_blocks": 1,
    "fixed.len_hash": 32,
}
"""The key state and hash that macOS writes; zero where unknown."""


@pytest.mark.parametrize("rule", OUT_OF_REACH, ids=lambda rule: str(rule.field))
def test_rules_of_records_that_no_fault_can_be_planted_in(rule):
    """What macOS writes satisfies each rule, and another value breaks it."""
    sound = AS_WRITTEN.get(str(rule.field), 0)
    broken = 0 if str(rule.field) in {"fixed.refcnt", "fixed.num_hashed_blocks", "fixed.len_hash"} else 0x77
    values = np.array([sound, broken], rule.field.scalar)
    assert rule.want.is_met(values).tolist() == [True, False]


@pytest.mark.parametrize("part", ["key", "val"])
@pytest.mark.parametrize("kind", ["inode", "xattr", "file_extent"])
def test_record_that_is_longer_than_it_says_is_found(part, kind, victims):
    """A length in the table of contents that is one too large is found, for keys and values."""

    def change(image, place):
        image[place.entry + getattr(KVLOC, part).len_data.offset] += 1
        return place.key if part == "key" else place.value

    with planted(in_value(kind, change), victims) as image:
        found = {item.message for item in findings(image.path) if item.code == "record-invalid"}
    assert any("length" in message or "do not fill" in message for message in found)


XFIELDS = {
    "bytes in use": lambda blob: (blob + XF_BLOB_HEAD.used_data.offset, 8),
    "type": lambda blob: (blob + XF_BLOB_HEAD.width + X_FIELD.type.offset, 0x55),
    "flags": lambda blob: (blob + XF_BLOB_HEAD.width + X_FIELD.flags.offset, 0x40),
}


@pytest.mark.parametrize("name", XFIELDS)
def test_extended_fields_fit_their_types(name, victims):
    """Used bytes, type and flags of extended fields are compared with the rules of their types."""

    def change(image, place):
        where, bits = XFIELDS[name](place.value + rules.INODE.width)
        image[where] ^= bits
        return place.value

    with planted(in_value("inode", change), victims) as image:
        found = {item.code for item in findings(image.path) if item.image_offset == image.where}
    assert "record-invalid" in found
