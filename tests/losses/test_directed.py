"""Losses that are hard to notice: the rest is consistent, or the counter evidence was lost as well."""

from __future__ import annotations

import pytest

from fixtures.apfs.checksum import with_checksum
from tests.losses.damage import Damage, damaged, read

HFSPLUS, APFS, DEEP = "written-hfsplus-deep", "written-apfs-many", "written-apfs-deep"
KIND_AT, NUM_RECORDS_AT = 8, 10
"""Offsets in a node descriptor (TN1150, BTNodeDescriptor)."""
NUM_KEYS_AT = 36
"""Offset in a node (Apple File System Reference, btree_node_phys_t)."""


def spots(victim, structure):
    return [spot for spot in victim.spots if spot.structure == structure]


def put(victim, spot, at, data, *, mends=False):
    """Change bytes of a node; with `mends`, correct its checksum."""
    node = bytearray(victim.read(spot.at, spot.length))
    node[at : at + len(data)] = data
    return Damage(spot, "bytes", mends, spot.at, with_checksum(bytes(node)) if mends else bytes(node))


def losses(victim, *done):
    """Scan a mutant without and with a sweep; every loss must show in exit code and coverage."""
    with damaged(victim, done):
        readings = [read(victim, sweep=sweep)[0] for sweep in (False, True)]
    for reading in readings:
        assert reading.failure == ""
        assert not reading.is_silent
        assert reading.exit_code == 3
        assert reading.coverage is None or reading.coverage < 1
    return [reading.lost for reading in readings]


@pytest.mark.parametrize("kind", [0x00, 0x01, 0x02, 0x37])
def test_a_leaf_that_calls_itself_no_leaf(victim, kind):
    """HFS+: the node's kind is changed, so no leaf seems to be lost."""
    image = victim(HFSPLUS)
    leaf = spots(image, "catalog leaf")[3]
    losses(image, put(image, leaf, KIND_AT, bytes([kind])))


def test_a_root_of_zeros(victim):
    """HFS+: a node of kind 0 is an index node without records."""
    image = victim(HFSPLUS)
    for spot in spots(image, "catalog index"):
        losses(image, Damage(spot, "zeroed", False, spot.at, bytes(spot.length)))


@pytest.mark.parametrize("left", [-1, -4, 0])
def test_a_leaf_with_fewer_records_than_were_counted(victim, left):
    """HFS+: the leaf itself is consistent, but the tree header and the volume header count more records."""
    image = victim(HFSPLUS)
    leaf = spots(image, "catalog leaf")[3]
    count = int.from_bytes(image.read(leaf.at + NUM_RECORDS_AT, 2), "big")
    fewer = max(count + left, 0) if left else 0
    losses(image, put(image, leaf, NUM_RECORDS_AT, fewer.to_bytes(2, "big")))


def test_a_leaf_of_zeros(victim):
    """HFS+: index, chain and map lead to the leaf, and nothing in it shows its former content."""
    image = victim(HFSPLUS)
    leaf = spots(image, "catalog leaf")[3]
    lost = losses(image, Damage(leaf, "zeroed", False, leaf.at, bytes(leaf.length)))
    assert lost[0] > 0
    assert lost[1] < lost[0]


@pytest.mark.parametrize("structure", ["fs index", "omap leaf", "object-map", "volume-superblock"])
def test_the_way_to_a_whole_tree_is_gone(victim, structure):
    """APFS: the root holds the node count, so without it the share of what is left would always be 1."""
    image = victim(APFS)
    for spot in spots(image, structure)[:2]:
        losses(image, Damage(spot, "zeroed", False, spot.at, bytes(spot.length)))


def test_two_leaves_in_each_others_place(victim):
    """APFS: both checksums are right, but each place holds another object than expected."""
    image = victim(APFS)
    one, other = spots(image, "fs leaf")[1:3]
    nodes = [image.read(spot.at, spot.length) for spot in (one, other)]
    done = [
        Damage(spot, "exchanged", False, spot.at, data) for spot, data in zip((one, other), nodes[::-1], strict=True)
    ]
    losses(image, *done)


@pytest.mark.parametrize("fewer", [1, 3])
def test_a_leaf_with_fewer_keys(victim, fewer):
    """APFS: the checksum is right, but the root counts more keys than there are."""
    image = victim(APFS)
    leaf = spots(image, "fs leaf")[2]
    count = int.from_bytes(image.read(leaf.at + NUM_KEYS_AT, 4), "little")
    losses(image, put(image, leaf, NUM_KEYS_AT, (count - fewer).to_bytes(4, "little"), mends=True))


def test_more_gaps_than_are_listed(victim, monkeypatch):
    """APFS: findings name only the first of many gaps; leaves are found for all of them."""
    image = victim(DEEP)
    nodes = [spot for spot in spots(image, "fs index") if int.from_bytes(image.read(spot.at + 34, 2), "little") == 1]
    done = [Damage(spot, "zeroed", False, spot.at, bytes(spot.length)) for spot in nodes]
    assert len(done) > 1
    monkeypatch.setattr("layoutscope.filesystems.apfs.fsrecords.MAX_LISTED", 1)
    assert losses(image, *done) == [0, 0]
