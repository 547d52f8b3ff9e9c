"""What dates decide on HFS+: whether a file of a link's type is a link, and from which year records count."""

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
    """An image whose catalog records are changed by the names of their files."""

    def __init__(self, path):
        self.path = path
        self.data = bytearray(path.read_bytes())

    def record(self, name):
        """Find where a file's record starts: behind its key."""
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
        """Scan the image as it is by now."""
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
    """Somebody gave it that type: a driver shows the file itself, nothing is broken; fsck_hfs mends the date."""
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
    """Created, by its date, with the private directory: it stands for the inode that it numbers."""
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
    """It shows as a file, as in a driver; the inode counts a link more than leads to it, and that is damage."""
    whole = rows(image.scan())
    image.put("two", field, ">I", new)
    result = image.scan()
    assert rows(result)["two"]["file_id"] != whole["two"]["file_id"]
    assert ("link-count-differs", "error") in codes(result)
    assert result.exit_code == 3
    assert result.coverage is None
    assert "link-count-differs" in {finding.code for finding in layoutscope.check(image.path).volumes[0].findings}


def test_inode_of_fewer_links_than_lead_to_it_loses_none(image):
    """A check says so; a scan shows all entries, and is complete."""
    image.put(f"iNode{image.get('one', SPECIAL)}", SPECIAL, ">I", 1)
    result = image.scan()
    assert result.exit_code == 0
    assert result.coverage == 1
    assert layoutscope.check(image.path).exit_code == 3


def test_dates_beyond_2040_count_from_1970(image):
    """A record says so by a flag; the others count from 1904."""
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
    """It is damage, and shown as no size: a negative one it is not."""
    image.put("other", 88, ">Q", 2**63 + 5)
    result = image.scan()
    assert rows(result)["other"]["size_bytes"] is None
    assert result.exit_code == 3
