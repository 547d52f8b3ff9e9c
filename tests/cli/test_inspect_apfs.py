from __future__ import annotations

import json

import polars as pl
import pytest

from layoutscope import read_layouts
from layoutscope.results.inspect import paths_of


@pytest.fixture(scope="module")
def layouts(apfs_image):
    """Return the container and its volumes."""
    return read_layouts(apfs_image)


@pytest.fixture
def inspected(run, apfs_image):
    """Return a function that inspects the image and parses the JSON."""

    def call(*words: object):
        result = run("inspect", apfs_image, "--json", *words)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return call


def test_every_record_of_every_kind_of_node_is_parsed(inspected, layouts):
    """One node of each tree and level: header, all declared records, none damaged or unknown."""
    for layout in layouts:
        firsts = layout.nodes.group_by("tree", "level", maintain_order=True).first()
        for row in firsts.iter_rows(named=True):
            found = inspected("--at", row["image_offset"], "--volume-at", layout.facts.image_offset)
            assert found["owners"][0]["facts"]["node id"] == str(row["node_id"])
            node = inspected("--node", f"{row['tree']}:{row['node_id']}")
            ours = [part for part in node["structures"] if part["title"].startswith(f"{row['tree']}:")]
            records = [part for part in ours if " record " in part["title"]]
            assert len(records) >= row["num_records"]
            assert not any(part["error"] for part in ours), [part for part in ours if part["error"]][:2]
            assert not any("unknown" in part["title"] for part in records)


def test_fields_stand_where_they_are_said_to(inspected, layouts, apfs_image):
    """Each integer of a header is stored little-endian at the address that is shown."""
    node = layouts[-1].nodes.filter(pl.col("tree") == "fs").row(0, named=True)
    head = inspected("--at", node["image_offset"])["structures"][0]
    with apfs_image.open("rb") as file:
        for field in head["fields"]:
            if field["image_offset"] is not None:
                file.seek(field["image_offset"])
                stored = int.from_bytes(file.read(field["length_bytes"]), "little")
                assert stored == int(field["value"].split()[0])


def test_a_file_is_found_by_path_and_number(inspected, layouts):
    """Both give the same owner; the records include its inode and its directory entry."""
    entries = layouts[-1].entries
    row = entries.filter((pl.col("kind") == "file") & (pl.col("link_count") == 1)).row(0, named=True)
    (path,) = paths_of(layouts[-1], row["file_id"])
    by_path = inspected("--path", path)
    by_number = inspected("--cnid", row["file_id"])
    assert by_path["structures"] == by_number["structures"]
    titles = " ".join(part["title"] for part in by_path["structures"])
    assert "(inode)" in titles
    assert "(dir rec)" in titles


def test_the_container_superblock_by_address(inspected, layouts):
    """Block 0 of a container starts with an object header; the magic NXSB follows at byte 32."""
    start = layouts[0].facts.image_offset
    structure = inspected("--at", start)["structures"][0]
    magic = next(field for field in structure["fields"] if field["path"] == "magic")
    assert magic["image_offset"] == start + 32
    assert int(magic["value"].split()[0]) == int.from_bytes(b"NXSB", "little")
