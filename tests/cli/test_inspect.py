"""``inspect``: objects of both file systems by address, number and path."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import polars as pl
import pytest

from layoutscope import read_layouts
from layoutscope.results.inspect import paths_of


@pytest.fixture(scope="module")
def layout(image):
    """Return the tables of the image's volume."""
    return read_layouts(image)[0]


def inspect_json(run, image, *words: object):
    """Inspect an image, and parse the JSON."""
    result = run("inspect", image, "--json", *words)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def inspected(run, image):
    """Return a function that inspects the image and parses the JSON."""
    return partial(inspect_json, run, image)


def fields(structure):
    """Map a structure's fields by path."""
    return {field["path"]: field for field in structure["fields"]}


def test_the_volume_header_by_address_and_sector(inspected, layout):
    """TN1150 puts it 1024 bytes into the volume: signature H+, and the block size at byte 40 of it."""
    start = layout.facts.image_offset + 1024
    (structure,) = inspected("--at", start)["structures"]
    found = fields(structure)
    assert found["signature"]["value"].startswith(str(int.from_bytes(b"H+", "big")))
    assert (found["len_block"]["image_offset"], found["len_block"]["length_bytes"]) == (start + 40, 4)
    assert found["len_block"]["value"] == str(layout.facts.block_size_bytes)
    assert found["create_date"]["meaning"].endswith(" local time")
    assert inspected("--lba", start // 512)["owners"][0]["facts"]["type"] == "volume-header"


def test_bytes_at_field_addresses_are_the_values(inspected, image):
    """Each integer of a node descriptor is stored big-endian at the address that is shown."""
    head = inspected("--node", "catalog:1")["structures"][0]
    raw = image.read_bytes()
    for field in head["fields"]:
        if field["image_offset"] is not None:
            stored = raw[field["image_offset"] : field["image_offset"] + field["length_bytes"]]
            assert int.from_bytes(stored, "big", signed=field["path"] == "kind") == int(field["value"].split()[0])


def test_a_byte_leads_to_its_node_and_record(inspected, layout):
    """A leaf has a structure per record and its descriptor; a record's key gives the same node, with only that one."""
    leaf = layout.nodes.filter((pl.col("tree") == "catalog") & (pl.col("kind") == "leaf")).row(1, named=True)
    node = inspected("--node", f"catalog:{leaf['node_id']}")
    assert len(node["structures"]) == 1 + leaf["num_records"]
    assert not any(structure["error"] for structure in node["structures"])
    record = node["structures"][2]
    found = inspected("--at", record["image_offset"])
    assert found["owners"][0]["facts"]["node id"] == str(leaf["node_id"])
    assert found["structures"][1:] == [record]


def test_path_and_number_lead_to_the_same_file(inspected, layout):
    """A file by its path and by its CNID: same facts, same records; its thread names its parent."""
    by_id = {row["file_id"]: row for row in layout.entries.iter_rows(named=True)}
    file = layout.entries.filter((pl.col("kind") == "file") & (pl.col("link_count") == 1) & (pl.col("flags") == 0)).row(
        30, named=True
    )
    names, parent = [file["name"]], file["parent_id"]
    while parent != 2:
        names.append(by_id[parent]["name"])
        parent = by_id[parent]["parent_id"]
    path = "/" + "/".join(reversed(names))
    by_path, by_number = inspected("--path", path), inspected("--cnid", file["file_id"])
    assert by_path["owners"] == by_number["owners"]
    assert by_path["structures"] == by_number["structures"]
    assert by_number["owners"][0]["facts"]["path"] == path
    values = [fields(structure) for structure in by_number["structures"]]
    assert any(value.get("data.body.file_id", {}).get("value") == str(file["file_id"]) for value in values)


def test_data_leads_to_its_file(inspected, layout):
    """A byte inside an extent names the file, the fork and the path."""
    extent = layout.extents.filter((pl.col("fork") == "data") & (pl.col("file_id") >= 16)).row(5, named=True)
    found = inspected("--at", extent["image_offset"] + 1)
    owner = next(owner for owner in found["owners"] if owner["what"] == "file data")
    assert owner["facts"]["file"] == str(extent["file_id"])
    assert owner["facts"]["path"].startswith("/")


@pytest.mark.parametrize("options", [[], ["--no-journal"]])
def test_records_are_those_of_the_state_that_was_asked_for(run, tmp_path, options):
    """With a pending journal, inspect shows the bytes after its replay, or with --no-journal those before it."""
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import write

    target = tmp_path / "pending.img"
    write(SCENARIOS["journal-pending"], target)
    layout = read_layouts(target, no_journal=bool(options))[0]
    states = [read_layouts(target, no_journal=state)[0].nodes["num_records"].to_list() for state in (True, False)]
    assert states[0] != states[1]
    leaves = layout.nodes.filter((pl.col("tree") == "catalog") & (pl.col("kind") == "leaf"))
    for leaf in leaves.iter_rows(named=True):
        found = json.loads(run("inspect", target, "--json", "--node", f"catalog:{leaf['node_id']}", *options).stdout)
        assert len(found["structures"]) == 1 + leaf["num_records"]
        assert not any(structure["error"] for structure in found["structures"])


def test_what_has_no_extents_has_no_place(run, image, inspected, layout):
    """A folder is reported without an address, a file with data at that of its first extent, in text as well."""
    (root,) = inspected("--path", "/")["owners"]  # a volume only: a container has no folders
    assert (root["what"], root["image_offset"], root["facts"]["path"]) == ("directory", None, "/")
    (folder,) = inspected("--path", "/Users")["owners"]
    assert (folder["what"], folder["image_offset"], folder["length_bytes"]) == ("directory", None, 0)
    said = run("inspect", image, "--path", "/Users").stdout.splitlines()
    assert any(line.startswith("directory in ") for line in said)
    assert not any(line.startswith(("file at", "directory at")) for line in said)
    extent = layout.extents.filter((pl.col("fork") == "data") & (pl.col("file_id") >= 16)).row(5, named=True)
    file = inspected("--cnid", extent["file_id"])["owners"][0]
    assert file["what"] == "file"
    at = f"file at byte {file['image_offset']:,}, {file['length_bytes']:,} bytes, in "
    assert file["image_offset"] is not None
    assert any(line.startswith(at) for line in run("inspect", image, "--cnid", extent["file_id"]).stdout.splitlines())


def test_times_and_modes_are_decoded(run, image, inspected):
    """Dates of TN1150 count from 1904, of APFS in nanoseconds from 1970; a mode is shown as by ls -l."""
    (structure,) = [
        item for item in inspected("--path", "/Users/jo")["structures"] if "data.body.folder_id" in fields(item)
    ]
    found = fields(structure)
    date = found["data.body.content_mod_date"]
    since = datetime(1904, 1, 1, tzinfo=UTC) + timedelta(seconds=int(date["value"]))
    assert date["meaning"] == since.strftime("%Y-%m-%d %H:%M:%S UTC")
    assert found["data.body.backup_date"] == found["data.body.backup_date"] | {"value": "0", "meaning": ""}
    assert found["data.body.permissions.file_mode"]["meaning"] == "drwxr-xr-x"
    assert f"{date['value']} ({date['meaning']})" in run("inspect", image, "--path", "/Users/jo").stdout
    text = run("inspect", "fixtures/images/apfs-scattered.img.zst", "--path", "/Users/jo/Desktop").stdout
    assert "1600000001000000000 (2020-09-13 12:26:41 UTC)" in text


@pytest.fixture(scope="module")
def layouts(apfs_image):
    """Return the container and its volumes."""
    return read_layouts(apfs_image)


@pytest.fixture
def inspected_apfs(run, apfs_image):
    """Return a function that inspects the image and parses the JSON."""
    return partial(inspect_json, run, apfs_image)


def test_every_record_of_every_kind_of_node_is_parsed(inspected_apfs, layouts):
    """One node of each tree and level: header, all declared records, none damaged or unknown."""
    for layout in layouts:
        firsts = layout.nodes.group_by("tree", "level", maintain_order=True).first()
        for row in firsts.iter_rows(named=True):
            found = inspected_apfs("--at", row["image_offset"], "--volume-at", layout.facts.image_offset)
            assert found["owners"][0]["facts"]["node id"] == str(row["node_id"])
            node = inspected_apfs("--node", f"{row['tree']}:{row['node_id']}")
            ours = [part for part in node["structures"] if part["title"].startswith(f"{row['tree']}:")]
            records = [part for part in ours if " record " in part["title"]]
            assert len(records) >= row["num_records"]
            assert not any(part["error"] for part in ours), [part for part in ours if part["error"]][:2]
            assert not any("unknown" in part["title"] for part in records)


def test_fields_stand_where_they_are_said_to(inspected_apfs, layouts, apfs_image):
    """Each integer of a header is stored little-endian at the address that is shown."""
    node = layouts[-1].nodes.filter(pl.col("tree") == "fs").row(0, named=True)
    head = inspected_apfs("--at", node["image_offset"])["structures"][0]
    with apfs_image.open("rb") as file:
        for field in head["fields"]:
            if field["image_offset"] is not None:
                file.seek(field["image_offset"])
                stored = int.from_bytes(file.read(field["length_bytes"]), "little")
                assert stored == int(field["value"].split()[0])


def test_a_file_is_found_by_path_and_number(inspected_apfs, layouts):
    """Both give the same owner; the records include its inode and its directory entry."""
    entries = layouts[-1].entries
    row = entries.filter((pl.col("kind") == "file") & (pl.col("link_count") == 1)).row(0, named=True)
    (path,) = paths_of(layouts[-1], row["file_id"])
    by_path = inspected_apfs("--path", path)
    by_number = inspected_apfs("--cnid", row["file_id"])
    assert by_path["structures"] == by_number["structures"]
    titles = " ".join(part["title"] for part in by_path["structures"])
    assert "(inode)" in titles
    assert "(dir rec)" in titles


def test_the_container_superblock_by_address(inspected_apfs, layouts):
    """Block 0 of a container starts with an object header; the magic NXSB follows at byte 32."""
    start = layouts[0].facts.image_offset
    structure = inspected_apfs("--at", start)["structures"][0]
    magic = next(field for field in structure["fields"] if field["path"] == "magic")
    assert magic["image_offset"] == start + 32
    assert int(magic["value"].split()[0]) == int.from_bytes(b"NXSB", "little")
