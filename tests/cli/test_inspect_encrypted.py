"""``inspect`` on an encrypted APFS volume."""

from __future__ import annotations

import json

import pytest

from fixtures.apfs.scenarios import PASSWORD, SCENARIOS
from fixtures.apfs.writer import write


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """Write an encrypted volume; return its image and planned layout."""
    path = tmp_path_factory.mktemp("locked") / "a.img"
    return path, write(SCENARIOS["encrypted"], path)


def leaf_of(expected):
    """Return the first leaf of the file-system tree."""
    return next(n for n in expected.live.nodes if (n.tree, n.level, n.key_rank) == ("fs", 0, 0))


@pytest.mark.parametrize("by", ["address", "number"])
def test_with_the_password_the_plain_records_are_shown(run, locked, by):
    """The header has the planned identifier and transaction, and every record is decoded."""
    path, expected = locked
    leaf = leaf_of(expected)
    place = ("--at", leaf.paddr * 4096) if by == "address" else ("--node", f"fs:{leaf.oid}")
    result = run("inspect", path, "--json", "--password", PASSWORD, *place)
    assert result.exit_code == 0, result.stderr
    parts = json.loads(result.stdout)["structures"]
    head = {field["path"]: field["value"] for field in parts[0]["fields"]}
    assert (int(head["hdr.oid"]), int(head["hdr.xid"])) == (leaf.oid, leaf.xid)
    assert int(head["num_keys"]) == leaf.num_keys
    assert not any(part["error"] for part in parts)
    if by == "number":
        assert len([part for part in parts if " record " in part["title"]]) == leaf.num_keys


def test_a_file_is_found_by_its_path(run, locked):
    """The records of a file are those of its inode number."""
    result = run("inspect", locked[0], "--json", "--password", PASSWORD, "--path", "Folder/plain.txt")
    assert result.exit_code == 0, result.stderr
    entry = next(item for item in locked[1].live.entries if item.name == "plain.txt")
    values = [field["value"] for part in json.loads(result.stdout)["structures"] for field in part["fields"]]
    assert str(entry.file_id) in values


def test_without_it_the_node_is_named_and_not_decoded(run, locked):
    """The owner is known from the object map; the ciphertext is not taken for a node."""
    path, expected = locked
    leaf = leaf_of(expected)
    result = run("inspect", path, "--json", "--at", leaf.paddr * 4096)
    found = json.loads(result.stdout)
    assert found["owners"][0]["facts"]["node id"] == str(leaf.oid)
    (part,) = found["structures"]
    assert part["fields"] == []
    assert "encrypted" in part["error"]
