"""Nodes read before the trees that lead to them: the tables equal those of reading level by level."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.apfs import locate
from fixtures.apfs.plan import EncryptionPlan, TreeShape, VolumePlan
from fixtures.apfs.scenarios import PASSWORD
from fixtures.apfs.writer import write
from layoutscope.filesystems.apfs import btree
from layoutscope.image.raw import RawFile
from layoutscope.tables.schema import TABLES
from tests.apfs import read_layouts
from tests.images.test_apfs_snapshots import FILES, PLAN

SHAPE = TreeShape(12, 6)
ENCRYPTED = VolumePlan("Secret", FILES, fs_shape=SHAPE, encryption=EncryptionPlan(PASSWORD))
PLANS = {"snapshots": PLAN, "encrypted": replace(PLAN, volumes=(ENCRYPTED,), transactions=())}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the containers; return the bytes of each, and the addresses of nodes by level."""
    found = {}
    for name, plan in PLANS.items():
        path, by_level = tmp_path_factory.mktemp("ahead") / "a.img", {}
        for node in write(plan, path).live.nodes:
            if node.tree == "fs":
                by_level.setdefault(node.level, []).append(node.paddr * 4096)
        found[name] = path.read_bytes(), by_level
    return found


def flip(data, start):
    data[start + 200] ^= 1


def disorder(data, start):
    """Make the first key of a leaf the greatest."""
    place = locate.records(data, start, 4096)[0]
    data[place.key + 6] |= 1
    locate.fix_checksum(data, start, 4096)


def unknown(data, start):
    """Give the last record of a leaf a type that does not exist."""
    place = locate.records(data, start, 4096)[-1]
    data[place.key + 7] |= 0xF0
    locate.fix_checksum(data, start, 4096)


CASES = [
    (name, level, damage)
    for name in PLANS
    for level, damage in ((0, None), (0, flip), (0, disorder), (0, unknown), (1, flip), (2, flip))
    # Records of encrypted nodes cannot be changed in place.
    if name != "encrypted" or damage in (None, flip)
]


@pytest.mark.full
@pytest.mark.parametrize("room_bytes", [btree.MAX_KEPT_BYTES, 0])
@pytest.mark.parametrize(("name", "level", "damage"), CASES)
def test_tables_are_those_of_reading_level_by_level(written, name, level, damage, room_bytes, monkeypatch, tmp_path):
    """Row for row, including findings; index nodes that are not cached are read again."""
    plain, by_level = written[name]
    data = bytearray(plain)
    for start in by_level[level][1::3] if damage else ():
        damage(data, start)
    path = tmp_path / "changed.img"
    path.write_bytes(data)
    ahead = []
    leaves = btree.Ahead.leaves
    monkeypatch.setattr(btree.Ahead, "leaves", lambda *words: ahead.append(leaves(*words)) or ahead[-1])
    monkeypatch.setattr(btree, "MAX_KEPT_BYTES", room_bytes)
    found = read(path)
    monkeypatch.setattr(btree.Ahead, "read", lambda *_: iter(()))
    assert read(path) == found
    num_ahead = len(ahead[0].numbers) if ahead else 0
    if level == 0:
        assert num_ahead == len(by_level[0]) - (len(by_level[0][1::3]) if damage else 0)
    else:
        assert num_ahead < len(by_level[0])


def read(path):
    """Return the rows of all tables."""
    with RawFile(path) as source:
        layouts = read_layouts(source, password=PASSWORD)
        return [layout.table(name).rows() for layout in layouts for name in TABLES]
