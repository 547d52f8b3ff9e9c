"""Rules of single APFS fields: each is broken once, and found at its byte under its name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fixtures.apfs import locate as at
from fixtures.fault import Fault, planted
from layoutscope.checks.apfs import objects, spaceman
from layoutscope.image import open_image
from layoutscope.structs.records import NX_SUPERBLOCK
from tests.apfs import check_container
from tests.cases import for_each

BLOCK_BYTES = 4096


class Ones(int):
    """A structure whose fields are all 1: the set of fields with rules does not depend on other fields."""

    def __getattr__(self, _: str) -> Ones:
        """Return any field."""
        return self

    def __iter__(self):
        """Yield no item."""
        return iter(())


ONES = Ones(1)
STRANGE = (1, 0x10)
"""A bit that is never set in these fields: its byte, and its value there."""
OTHERS = {"hdr.type_and_flags": (3, 0x08), "max_file_systems": (0, 1)}
"""Fields that a reader needs: a bit of these that the reader ignores."""


def container_map(image, expected):
    """Return the block of the object map that the superblock points to."""
    start = at.superblock(image, expected) + NX_SUPERBLOCK.omap_oid.offset
    return int.from_bytes(image[start : start + 8], "little") * BLOCK_BYTES


PLACES = {
    "superblock": (at.superblock, objects.make_superblock_rules(ONES)),
    "checkpoint map": (at.checkpoint_map, objects.make_map_rules(np.zeros(1, np.uint64))),
    "reaper": (at.ephemeral("nx_reaper_oid"), objects.make_reaper_rules(1, 1, 0, is_idle=True)),
    "space manager": (at.ephemeral("nx_spaceman_oid"), spaceman.make_space_rules(ONES, ONES, None, [])),
    "container object map": (container_map, objects.make_omap_rules(is_own=True)),
    "volume object map": (at.region("object-map"), objects.make_omap_rules(is_own=False)[:5]),
}
CASES = {(name, str(rule.field)): rule for name, (_, declared) in PLACES.items() for rule in declared}


def changed(place, field):
    """Return a function that changes a bit of a field of the object at a place, and corrects the checksum."""

    def apply(image, expected):
        start = place(image, expected)
        # The last item of a repeated field: rules about second devices concern only that one.
        last = sum((count - 1) * stride for count, stride in zip(field.counts, field.strides, strict=True))
        where = start + field.offset + last
        byte, bit = OTHERS.get(str(field), STRANGE)
        image[where + byte] ^= bit
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return apply


def findings(path, without=()):
    with open_image(path) as source:
        return check_container(source, without=without).findings()


@for_each("name, field", CASES)
def test_broken_rule_is_found_at_its_field(name, field, victims):
    """One strange bit gives a finding with the rule's code, at the field, starting with the field's name."""
    rule = CASES[name, field]
    with planted(Fault(name, "", "", "", changed(PLACES[name][0], rule.field)), victims) as image:
        found = [item for item in findings(image.path) if item.image_offset == image.where]
    assert (rule.code, field) in {(item.code, re.split(r"[:\\[]", item.message)[0]) for item in found}


COPIED = [each for each in objects.list_copied_fields() if each.offset >= NX_SUPERBLOCK.xp_desc_next.offset][::5]


@pytest.mark.parametrize("field", COPIED, ids=str)
def test_copy_in_block_0_is_compared_field_by_field(field, victims):
    """Only the check of the copy finds a strange bit in block 0."""
    with planted(Fault("copy", "", "", "", changed(lambda *_: 0, field)), victims) as image:
        whole, rest = findings(image.path), findings(image.path, without={"superblock-copy"})
    here = {item.code for item in whole if item.image_offset == image.where}
    assert "superblock-differs" in here
    assert not [item for item in rest if item.image_offset == image.where and item.code == "superblock-differs"]
