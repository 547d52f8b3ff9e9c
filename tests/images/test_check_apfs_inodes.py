"""Inodes, attributes and names: each contradiction is planted once and found at its record."""

from __future__ import annotations

import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.structures import records as written
from fixtures.apfs.structures.records import KEY, RecordType
from fixtures.fault import Fault, planted
from layoutscope.structs.records import INODE_VAL_FIXED, X_FIELD, XF_BLOB_HEAD
from tests.images.test_check_apfs_fields import BLOCK_BYTES, findings

BLOB = INODE_VAL_FIXED.width


def fields_of(image, place):
    """Yield type, description offset and data offset of an inode's extended fields."""
    if place.value_length <= BLOB:
        return
    start = place.value + BLOB
    count = int.from_bytes(image[start : start + 2], "little")
    data = start + XF_BLOB_HEAD.width + count * X_FIELD.width
    for number in range(count):
        head = start + XF_BLOB_HEAD.width + number * X_FIELD.width
        yield image[head], head, data
        size = int.from_bytes(image[head + 2 : head + 4], "little")
        data += -(-size // 8) * 8


def inodes(image, expected):
    """Return node start, offset and number of every inode but the root and the private directory."""
    found = []
    for start, place in at.leaf_records(image, expected, RecordType.INODE):
        number = at.parse(image, KEY, place.key).obj_id_and_type & (1 << 60) - 1
        if number >= 16:
            found.append((start, place, number))
    return found


def planted_in(choose, change):
    """Return a fault in the first chosen inode."""

    def apply(image, expected):
        start, place, _ = next(item for item in inodes(image, expected) if choose(image, item[1]))
        where = change(image, place)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return Fault("inode", "", "", "", apply)


def has(kind):
    return lambda image, place: kind in {each for each, *_ in fields_of(image, place)}


def is_of(form):
    return lambda image, place: at.parse(image, written.INODE, place.value).mode & 0xF000 == form


def _flag(bit):
    return lambda image, place: at.put_field(image, place.value, written.INODE, "internal_flags", lambda old: old ^ bit)


def _data(kind):
    """Change the first byte of an extended field's data."""

    def change(image, place):
        where = next(data for each, _, data in fields_of(image, place) if each == kind)
        image[where] ^= 1
        return where

    return change


def _kind(old, new):
    """Change the type of an extended field."""

    def change(image, place):
        head = next(head for each, head, _ in fields_of(image, place) if each == old)
        image[head] = new
        return head

    return change


def _another_stream(image, place):
    return at.put_field(image, place.value, written.INODE, "private_id", lambda old: old + 1)


def _key_of_stream(image, place):
    where = next(data for each, _, data in fields_of(image, place) if each == 8) + 16
    image[where] = 0x77
    return where


def _compressed(image, place):
    return at.put_field(image, place.value, written.INODE, "bsd_flags", lambda old: old ^ 0x20)


FILE, LINK, DIRECTORY = 0x8000, 0xA000, 0x4000
FAULTS = {
    "a name that is not the entry's": (has(4), _data(4), "the name in it"),
    "a flag of statistics without them": (is_of(DIRECTORY), _flag(0x2), "disagree about statistics"),
    "a flag of holes without a count": (is_of(LINK), _flag(0x200), "disagree about a count"),
    "a flag of a resource fork": (is_of(DIRECTORY), _flag(0x4000), "disagree about a resource fork"),
    "a flag of access rights": (is_of(DIRECTORY), _flag(0x40), "disagree about a list"),
    "a flag of the Finder": (is_of(DIRECTORY), _flag(0x100), "disagree about information"),
    "an origin of statistics": (is_of(DIRECTORY), _flag(0x4), "statistics begin here"),
    "flags that exclude each other": (is_of(DIRECTORY), _flag(0x3000), "pinned to both"),
    "a stream of another file": (lambda i, p: has(8)(i, p) and is_of(FILE)(i, p), _another_stream, "is not a clone"),
    "a key in a plain volume": (has(8), _key_of_stream, "a key that it cannot have"),
    "two fields of one type": (lambda i, p: has(4)(i, p) and has(8)(i, p), _kind(8, 4), "two extended fields"),
    "compression without a header": (is_of(DIRECTORY), _compressed, "called compressed"),
    "a count of other holes": (has(13), _data(13), "other sparse bytes"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_contradiction_of_an_inode_is_found_at_its_record(name, victims):
    """The finding is in the leaf, and names both sides of the contradiction."""
    choose, change, message = FAULTS[name]
    with planted(planted_in(choose, change), victims) as image:
        found = findings(image.path)
    here = {item.message for item in found if item.image_offset // BLOCK_BYTES == image.where // BLOCK_BYTES}
    assert any(message in each for each in here), here


def in_record(kind, change):
    def apply(image, expected):
        start, place = at.leaf_records(image, expected, kind)[0]
        where = change(image, place)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return Fault("record", "", "", "", apply)


def _no_end(image, place):
    where = place.key + place.key_length - 1
    image[where] = ord("x")
    return where


def _owned(image, place):
    image[place.value] ^= 4
    return place.value


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (RecordType.XATTR, _no_end, "does not end with its first zero byte"),
        (RecordType.DIR_REC, _no_end, "does not end with its first zero byte"),
    ],
)
def test_name_without_an_end_is_found(kind, change, message, victims):
    """Lengths include the terminating zero byte of a name."""
    with planted(in_record(kind, change), victims) as image:
        found = {item.message for item in findings(image.path)}
    assert any(message in each for each in found), found


def test_attribute_of_the_file_system_is_known_by_its_name(victims):
    """Link targets belong to the file system, other known attributes do not."""

    def apply(image, expected):
        for start, place in at.leaf_records(image, expected, RecordType.XATTR):
            if b"com.apple.fs.symlink" in bytes(image[place.key : place.key + place.key_length]):
                _owned(image, place)
                at.fix_checksum(image, start, BLOCK_BYTES)
                return place.value
        raise AssertionError

    with planted(Fault("owned", "", "", "", apply), victims) as image:
        found = {item.message for item in findings(image.path) if item.image_offset == image.where}
    assert any("against its name" in message for message in found)
