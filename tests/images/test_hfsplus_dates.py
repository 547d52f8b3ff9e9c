"""Effects of dates on HFS+: whether a file of link type is a link, and the epoch of a record."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

import layoutscope
from fixtures.hfsplus.plan import File, Folder, Fork, Tree, VolumePlan
from fixtures.hfsplus.writer import write

FLAGS, CREATED, MODIFIED, SPECIAL, FINDER_TYPE = 2, 12, 16, 44, 48
"""Offsets in the record of a file (TN1150, HFSPlusCatalogFile)."""

EPOCH = 2_082_844_800
EXPANDED = 0x1000
PLAN = VolumePlan(
    root=(
        File("victim", Fork(10)),
        File("other", Fork(20)),
        Folder("links", (File("one", links_to="i"), File("two", links_to="i"))),
    ),
    inodes=(File("i", Fork(900)),),
    catalog=Tree(4096),
)


class Image:
    """An image whose catalog records are changed by file name."""

    def __init__(self, path):
        self.path = path
        self.data = bytearray(path.read_bytes())

    def record(self, name):
        """Return the start of a file's record, after its key."""
        key = struct.pack(">H", len(name)) + name.encode("utf-16-be")
        at = self.data.find(key)
        while self.data[at + len(key) : at + len(key) + 2] != b"\0\2":
            at = self.data.find(key, at + 1)
        return at + len(key)

    def put(self, name, offset, form, *values):
        """Write fields of a file's record."""
        at = self.record(name) + offset
        struct.pack_into(form, self.data, at, *values)

    def get(self, name, offset):
        """Read a number of four bytes."""
        return struct.unpack_from(">I", self.data, self.record(name) + offset)[0]

    def scan(self):
        """Scan the image in its present state."""
        self.path.write_bytes(self.data)
        return layoutscope.scan(self.path, drives=())


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    write(PLAN, path)
    return Image(path)


def rows(result):
    return {row["name"]: row for row in result.volumes[0].layout.entries.iter_rows(named=True)}


def codes(result):
    return {(finding.code, finding.level) for finding in result.volumes[0].findings}


def make_link(image, special, created):
    image.put("victim", FINDER_TYPE, ">4s4s", b"hlnk", b"hfs+")
    image.put("victim", SPECIAL, ">I", special)
    image.put("victim", CREATED, ">I", created)


@pytest.mark.parametrize("special", [0, 1])
def test_file_of_a_links_type_with_another_date_is_a_file(image, special):
    """A user set that type: a driver shows the file itself, nothing is broken; fsck_hfs corrects the date."""
    before = rows(image.scan())
    number = image.get("one", SPECIAL)
    make_link(image, special * number, image.get("one", CREATED) + 1000)
    result = image.scan()
    assert rows(result)["victim"]["file_id"] == before["victim"]["file_id"]
    assert rows(result)["victim"]["size_bytes"] == before["victim"]["size_bytes"]
    assert codes(result) == {("hard-link-plain", "info")}
    assert result.exit_code == 0
    found = layoutscope.check(image.path).volumes[0].findings
    assert {(finding.code, finding.level) for finding in found} == {("link-invalid", "warning")}


def test_file_of_a_links_type_and_date_is_a_link(image):
    """Its creation date is that of the private directory, so it links to the inode in its record."""
    inode = rows(image.scan())["one"]["file_id"]
    make_link(image, image.get("one", SPECIAL), image.get("one", CREATED))
    assert rows(image.scan())["victim"]["file_id"] == inode


def test_link_of_that_date_to_nowhere_is_broken(image):
    """A link whose inode is lost is damage."""
    make_link(image, 999_999, image.get("one", CREATED))
    result = image.scan()
    assert ("hard-link-broken", "error") in codes(result)
    assert result.exit_code == 3


@pytest.mark.parametrize(("field", "new"), [(CREATED, 0), (FINDER_TYPE, int.from_bytes(b"text", "big"))])
def test_link_that_is_none_any_more_is_missed_by_its_inode(image, field, new):
    """It shows as a file, as in a driver; the inode counts a link more than exists, and that is damage."""
    whole = rows(image.scan())
    image.put("two", field, ">I", new)
    result = image.scan()
    assert rows(result)["two"]["file_id"] != whole["two"]["file_id"]
    assert ("link-count-differs", "error") in codes(result)
    assert result.exit_code == 3
    assert result.coverage is None
    assert "link-count-differs" in {finding.code for finding in layoutscope.check(image.path).volumes[0].findings}


def test_inode_of_fewer_links_than_lead_to_it_loses_none(image):
    """A check reports it; a scan shows all entries, and is complete."""
    image.put(f"iNode{image.get('one', SPECIAL)}", SPECIAL, ">I", 1)
    result = image.scan()
    assert result.exit_code == 0
    assert result.coverage == 1
    assert layoutscope.check(image.path).exit_code == 3


def test_dates_beyond_2040_count_from_1970(image):
    """A flag in the record says so; the others count from 1904."""
    day = int(datetime(2050, 1, 1, tzinfo=UTC).timestamp())
    flags = struct.unpack_from(">H", image.data, image.record("other") + FLAGS)[0]
    image.put("other", FLAGS, ">H", flags | EXPANDED)
    image.put("other", CREATED, ">II", day, day + 60)
    image.put("victim", CREATED, ">I", day - 2 * EPOCH & 0xFFFFFFFF)
    found = rows(image.scan())
    assert found["other"]["create_time"] == datetime(2050, 1, 1, tzinfo=UTC)
    assert found["other"]["modify_time"] == datetime(2050, 1, 1, 0, 1, tzinfo=UTC)
    assert found["victim"]["create_time"].year < 2041


def test_size_that_no_file_can_have_is_unknown(image):
    """Such a size, including a negative one, is damage, and is shown as unknown."""
    image.put("other", 88, ">Q", 2**63 + 5)
    result = image.scan()
    assert rows(result)["other"]["size_bytes"] is None
    assert result.exit_code == 3
