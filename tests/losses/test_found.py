"""Damage found by the campaign that once lost entries silently, each at its place in an image."""

from __future__ import annotations

import pytest

import layoutscope
from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.fsrecords import RecordTree, no_records
from tests.cases import for_each
from tests.losses.damage import Damage, damaged, read


@pytest.fixture
def readings(victim):
    """Return a function that changes bytes of chosen structures and returns the scans without and with a sweep."""

    def get(name, structure, at, data, which=(0,)):
        image = victim(name)
        spots = [spot for spot in image.spots if spot.structure == structure]
        done = tuple(Damage(spots[place], "bytes", False, spots[place].at + at, data) for place in which)
        with damaged(image, done):
            return [read(image, sweep=sweep)[0] for sweep in (False, True)]

    return get


def is_told(reading):
    """Whether every loss of entries or names is reported."""
    return not reading.is_silent and not reading.failure


ELSEWHERE = bytes(32) + (1 << 20).to_bytes(8, "big")
JOURNALS = [
    # A journal that is on the volume and holds transactions, but is marked as elsewhere or empty
    *(("journal-info-block", 0, flags.to_bytes(4, "big")) for flags in (0, 2, 3, 5, 6, 0x8000_0001, 0xA1B2_C3D2)),
    # The journal file leads to the journal where the journal info block does not.
    *(("journal-info-block", 0, flags.to_bytes(4, "big") + ELSEWHERE) for flags in (2, 4, 5, 6)),
    # A volume that is marked as not journaled, but was last mounted with its journal
    ("volume-header", 6, b"\xc0\0"),
]


@for_each("order", ["", "-big-endian"])
@for_each("structure, at, data", JOURNALS)
def test_hidden_transactions_of_a_journal_are_reported(readings, order, structure, at, data):
    """Changes that were not replayed are damage."""
    found = readings(f"written-hfsplus-journal-pending{order}", structure, at, data)
    assert all(is_told(reading) for reading in found)
    assert {reading.exit_code for reading in found} == {3}


@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_superblocks_of_a_volume_and_its_snapshot(readings, which):
    """If the requested snapshot cannot be opened, the scan says so and shows nothing in its place."""
    found = readings("written-apfs-sealed-snapshot-view", "volume-superblock", 0, bytes(4096), which)
    assert [reading.failure for reading in found] == ["", ""]
    assert all(is_told(reading) for reading in found)


def test_a_header_whose_catalog_claims_more_than_the_volume(victim):
    """A block count larger than the volume creates no nodes: the scan ends and reports the fault."""
    image = victim("written-hfsplus-deep")
    header, root = (
        next(spot for spot in image.spots if spot.structure == kind) for kind in ("volume-header", "catalog header")
    )
    # The catalog's fork data start at byte 272 of the header; the block count is 12 bytes further on (HFSPlusForkData).
    claim = Damage(header, "bytes", False, header.at + 272 + 12, b"\xff" * 4)
    with damaged(image, (claim, Damage(root, "zeroed", False, root.at, bytes(root.length)))):
        found = [read(image, sweep=sweep, seconds=20)[0] for sweep in (False, True)]
    assert [reading.failure for reading in found] == ["", ""]
    assert all(is_told(reading) for reading in found)


@pytest.mark.parametrize("row", [0, 5, -1])
def test_a_leaf_of_which_one_record_leaves_it(victim, row):
    """APFS, checksum correct: only that record is lost and named with its place; the leaf does not count as read."""
    image = victim("written-apfs-many")
    spot = [spot for spot in image.spots if spot.structure == "fs leaf"][2]
    leaf = bytearray(image.read(spot.at, spot.length))
    # After 32 bytes of object header, 4 of flags and level, and 4 of key count comes the place of the table, counted
    # from byte 56. Each entry has 8 bytes: key offset and length, value offset and length.
    count, start = (int.from_bytes(leaf[at : at + size], "little") for at, size in ((36, 4), (40, 2)))
    entry = 56 + start + 8 * (row % count)
    leaf[entry : entry + 2] = b"\xf0\xff"
    with damaged(image, (Damage(spot, "bytes", True, spot.at, with_checksum(bytes(leaf))),)):
        readings = [read(image, sweep=sweep) for sweep in (False, True)]
    for reading, result in readings:
        assert is_told(reading)
        assert reading.exit_code == 3
        assert reading.coverage < 1
        assert reading.lost <= 1
        assert reading.extra == 0
        told = [item for volume in result.parts for item in volume.findings if item.code == "record-invalid"]
        assert [item.image_offset for item in told] == [spot.at + entry]


@pytest.mark.parametrize("row", [0, 2])
def test_a_leaf_of_which_one_offset_leads_out_of_it(victim, row):
    """HFS+: a record ends where the next one starts, so two records are lost; the others of the leaf are read."""
    image = victim("written-hfsplus-deep")
    spot = [spot for spot in image.spots if spot.structure == "catalog leaf"][2]
    at = spot.at + spot.length - 2 * (row + 1)
    with damaged(image, (Damage(spot, "bytes", False, at, b"\xff\xf0"),)):
        readings = [read(image, sweep=sweep) for sweep in (False, True)]
    for reading, result in readings:
        assert is_told(reading)
        assert reading.exit_code == 3
        assert reading.coverage < 1
        assert reading.lost <= 2
        told = [item for volume in result.volumes for item in volume.findings if item.code == "records-invalid"]
        assert [item.image_offset for item in told] == [spot.at]


def test_entries_without_a_single_inode(sounds, monkeypatch):
    """If all leaves with inodes are lost, directory records still give names and kinds; the exit code reports it."""
    sound = sounds["written-apfs-many"]
    whole = layoutscope.scan(sound.path, drives=()).parts[1].layout.entries
    kept = RecordTree.get
    monkeypatch.setattr(
        RecordTree, "get", lambda tables, name: no_records(name) if name == "inode" else kept(tables, name)
    )
    result = layoutscope.scan(sound.path, drives=())
    found = result.parts[1].layout.entries
    assert result.exit_code == 3
    assert found["name"].to_list() == whole["name"].to_list()
    assert found["kind"].to_list() == whole["kind"].to_list()


def test_a_container_that_claims_more_blocks_than_numbers_count(victim):
    """The newest superblock has a 64-bit block count and a correct checksum; it says that its data are elsewhere."""
    image = victim("written-apfs-group")
    ring = [spot for spot in image.spots if spot.structure == "container-superblock" and spot.at]
    # After the checksum and the object identifier, the transaction is at byte 16; the block count is at byte 40, the
    # number of data blocks at 108, and the address of the descriptors at 112 (nx_superblock_t).
    newest = max(ring, key=lambda spot: int.from_bytes(image.read(spot.at + 16, 8), "little"))
    block = bytearray(image.read(newest.at, newest.length))
    block[40:48], block[108:116] = b"\xff" * 8, b"\x6b" * 8
    with damaged(image, (Damage(newest, "bytes", True, newest.at, with_checksum(bytes(block))),)):
        found = [read(image, sweep=sweep, seconds=20)[0] for sweep in (False, True)]
    assert [reading.failure for reading in found] == ["", ""]
    assert all(is_told(reading) for reading in found)


@pytest.mark.parametrize("key", [2, 1])
def test_the_entry_of_the_root_or_of_the_private_directory_is_moved(victim, key):
    """No inode counts the entries of directory 1, so the inode that a lost entry named reveals the loss."""
    image = victim("written-apfs-group")
    # The first eight bytes of a key hold the object identifier in 60 bits and the record type in the top four: 9 for an
    # entry.
    wanted = (1 | 9 << 60).to_bytes(8, "little")
    spot = next(
        spot for spot in image.spots if spot.structure == "fs leaf" and wanted in image.read(spot.at, spot.length)
    )
    leaf = bytearray(image.read(spot.at, spot.length))
    at = -1
    for _ in range(key):
        at = leaf.index(wanted, at + 1)
    leaf[at : at + 4] = b"\x1e\x34\x6f\x36"
    with damaged(image, (Damage(spot, "bytes", True, spot.at, with_checksum(bytes(leaf))),)):
        found = [read(image, sweep=sweep)[0] for sweep in (False, True)]
    assert all(reading.lost == 1 and is_told(reading) for reading in found)
    assert {reading.exit_code for reading in found} == {3}


def test_a_name_that_damage_turned_into_letters_beyond_ascii(victim):
    """The stored hash does not match the changed letters, whose case folding is fixed since Unicode 3.2."""
    image = victim("written-apfs-rich")
    entries = layoutscope.scan(image.path, drives=()).parts[1].layout.entries
    name = next(name for name in entries["name"] if name.isascii() and len(name) > 5).encode()
    spot = next(
        spot for spot in image.spots if spot.structure == "fs leaf" and name in image.read(spot.at, spot.length)
    )
    leaf = bytearray(image.read(spot.at, spot.length))
    # The inode's own field holds the same bytes, so every copy is changed.
    leaf = leaf.replace(name, b"8\xc7\x8e" + name[3:])
    with damaged(image, (Damage(spot, "bytes", True, spot.at, with_checksum(bytes(leaf))),)):
        found = [read(image, sweep=sweep) for sweep in (False, True)]
    for reading, result in found:
        assert is_told(reading)
        assert ("name-hash-differs", "error") in {(item.code, item.level) for item in result.parts[1].findings}
