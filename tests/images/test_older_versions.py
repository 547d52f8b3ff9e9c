"""An older version of an object in place of the live one: checksum and identifier are right, the state is wrong."""

from __future__ import annotations

import pytest

import layoutscope
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from tests.losses.victim import rows_of


@pytest.fixture(scope="module")
def victim(tmp_path_factory):
    """Write a container with several transactions; return its image and layout."""
    path = tmp_path_factory.mktemp("versions") / "disk.img"
    return path, write(VICTIMS["victim"], path)


def leaf_places(expected):
    """Return blocks of a file-system leaf that was written more than once: now, and before."""
    for node in expected.live.nodes:
        older = older_place(expected, node)
        if (node.tree, node.level) == ("fs", 0) and older is not None:
            return node.paddr, older
    raise AssertionError


def root_places(expected):
    """Return blocks of the root of the file-system tree."""
    root = max((node for node in expected.live.nodes if node.tree == "fs"), key=lambda node: node.level)
    return root.paddr, older_place(expected, root)


def superblock_places(expected):
    """Return blocks of the volume's superblock."""
    states = [expected.states[xid] for xid in sorted(expected.states)]
    found = [next(item.paddr for item in state.regions if item.type == "volume-superblock") for state in states]
    return found[-1], next(paddr for paddr in reversed(found) if paddr != found[-1])


def older_place(expected, node):
    versions = {
        other.xid: other.paddr
        for state in expected.states.values()
        for other in state.nodes
        if (other.tree, other.oid) == (node.tree, node.oid) and other.xid < node.xid
    }
    return versions[max(versions)] if versions else None


def with_older(path, expected, places, copy):
    """Write a copy of the image with the older version at the live one's address."""
    size = expected.block_size
    now, before = places(expected)
    data = bytearray(path.read_bytes())
    data[now * size : (now + 1) * size] = data[before * size : (before + 1) * size]
    copy.write_bytes(data)
    return copy


@pytest.mark.parametrize("places", [leaf_places, root_places, superblock_places])
def test_older_version_is_damage(places, victim, tmp_path):
    """The object map names the transaction of each version: another one is an error, and coverage is below 1."""
    path, expected = victim
    whole = layoutscope.scan(path, drives=())
    result = layoutscope.scan(with_older(path, expected, places, tmp_path / "older.img"), drives=())
    told = [item.message for volume in result.parts for item in volume.findings if item.level == "error"]
    assert any("of another transaction than the object map says" in message for message in told)
    assert result.exit_code == 3
    assert result.coverage is None or result.coverage < 1
    # The leaves below a lost root are found through the object map; a lost leaf leaves nothing.
    assert bool(rows_of(whole) - rows_of(result)) == (places is leaf_places)


def test_sound_versions_are_no_damage(victim):
    """Each live node has the transaction in its mapping."""
    path, _ = victim
    result = layoutscope.scan(path, drives=())
    assert (result.exit_code, result.coverage) == (0, 1.0)
