"""APFS names that were damaged inside otherwise sound records with correct checksums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import layoutscope
from fixtures.apfs import locate as at
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.structures.records import RecordType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from layoutscope.checks.apfs import names
from layoutscope.filesystems.apfs.fsrecords import Names

HEAD = 12
"""Bytes before the name in the key of a hashed directory record: identifier and type, length and hash."""


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Write a container; return its image and layout."""
    path = tmp_path_factory.mktemp("names") / "disk.img"
    return path, write(VICTIMS["victim"], path)


@pytest.fixture
def renamed(victim, tmp_path):
    """Return a function that changes one byte of an entry's name, and corrects the checksum of its node."""
    path, expected = victim

    def change(which, byte, *, of=RecordType.DIR_REC, head=HEAD):
        data = bytearray(path.read_bytes())
        node, place = at.leaf_records(data, expected, of)[which]
        start = (place.value if of == RecordType.SIBLING_LINK else place.key) + head
        data[start] = byte
        at.fix_checksum(data, node, expected.block_size)
        copy = tmp_path / "renamed.img"
        copy.write_bytes(data)
        return copy

    return change


def told(result):
    return {(item.code, item.level) for volume in result.volumes for item in volume.findings}


@pytest.mark.parametrize("which", [3, 20, -1])
def test_changed_name_is_damage_in_a_scan(renamed, which):
    """The hash reveals it: exit code 3, and coverage below 1."""
    result = layoutscope.scan(renamed(which, ord("Q")), drives=())
    assert ("name-hash-differs", "error") in told(result)
    assert result.exit_code == 3
    assert result.coverage != 1


def test_name_that_is_no_text_is_damage_in_a_scan(renamed):
    """A byte that is not valid UTF-8."""
    result = layoutscope.scan(renamed(20, 0xFF), drives=())
    assert ("record-invalid", "error") in told(result)
    assert result.exit_code == 3


def test_name_that_is_no_text_is_damage_where_names_have_no_hashes(tmp_path):
    """Early APFS volumes store names without hashes; invalid UTF-8 reveals damage there, too."""
    path = tmp_path / "disk.img"
    expected = write(replace(SCENARIOS["plain-keys"], block_count=16384), path)
    assert layoutscope.scan(path, drives=()).exit_code == 0
    data = bytearray(path.read_bytes())
    node, place = at.leaf_records(data, expected, RecordType.DIR_REC)[5]
    # The key has eight bytes of identifier and type and two of length, followed by the name.
    data[place.key + 10] = 0xFF
    at.fix_checksum(data, node, expected.block_size)
    path.write_bytes(data)
    result = layoutscope.scan(path, drives=())
    assert ("record-invalid", "error") in told(result)
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("name", "stored"),
    [("\u1c90", 3_222_383), ("\u1c90\u1c91", 1_713_518), ("\u1c90\u10d1", 3_399_766), ("\u10d0", 1_633_879)],
)
def test_hashes_of_letters_younger_than_the_tables_of_apfs(name, stored):
    """Georgian capitals of Unicode 11 do not fold: the hashes are those that Linux's driver stored in a volume."""
    raw = np.frombuffer(name.encode(), np.uint8)
    hashes, known = names.hash_names(Names(raw, np.array([len(raw)], np.uint32)), folded=True)
    assert known.all()
    assert hashes.tolist() == [stored]


def test_changed_name_of_a_hard_link_is_damage_in_a_scan(renamed):
    """The record at its inode and the entry in its directory have the same name."""
    result = layoutscope.scan(renamed(0, ord("Q"), of=RecordType.SIBLING_LINK, head=10), drives=())
    assert ("record-differs", "error") in told(result)
    assert result.exit_code == 3


def test_check_says_the_same(renamed):
    """A check reports the same code at the same level."""
    result = layoutscope.check(renamed(20, ord("Q")))
    assert ("name-hash-differs", "error") in told(result)


def test_sound_names_are_not_told(victim):
    """Every name matches its hash, and the names of each link agree."""
    assert layoutscope.scan(victim[0], drives=()).exit_code == 0


def test_names_in_other_scripts_are_hashed_where_they_are_few(monkeypatch, victim):
    """Above the limit only ASCII names are compared, without a note on the others."""
    monkeypatch.setattr(names, "MAX_SLOW_HASHES", -1)
    assert layoutscope.scan(victim[0], drives=()).exit_code == 0
