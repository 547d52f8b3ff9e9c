"""Captures of every released version are readable and match what the writers of their images put there."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS
from fixtures.hfsplus.writer import write as write_hfsplus
from layoutscope.errors import ImageError
from layoutscope.tables.capture import FORMAT, read_table

OLDER = Path(__file__).parent / "older"
MANIFESTS = {
    "3-apfs": "a0e604aa570db5c09bded8d39ae74e0788c47662d582a61affb7c45f6ee94455",
    "3-hfsplus": "45e2d697932ef3c586629f2fff6313afbd5bb8546e54a6ecb5caee3bfa552592",
}
"""SHA-256 of each manifest, which contains those of the tables."""


def volume(name):
    """Return the volume of an older capture."""
    return layoutscope.read_layouts(OLDER / f"{name}.lscope")[-1]


def test_a_capture_of_each_older_version_is_read():
    """Each is as it was written, up to this version."""
    found = {path.parent.stem: path.read_bytes() for path in OLDER.glob("*.lscope/manifest.json")}
    assert {name: hashlib.sha256(text).hexdigest() for name, text in found.items()} == MANIFESTS
    # A version increase requires a capture of the new version, and a reader for the previous one.
    assert FORMAT.partition("/")[2] in {name.partition("-")[0] for name in MANIFESTS}


def test_an_older_capture_of_hfsplus_has_what_its_writer_put_there(tmp_path):
    """Nodes are where the writer put them, and every entry has its name, number and links."""
    expected = write_hfsplus(HFSPLUS["hard-links"], tmp_path / "disk.img")
    layout = volume("3-hfsplus")
    nodes = layout.nodes
    trees = [name.replace("_", "-") for name in nodes["tree"].to_list()]
    placed = sorted(zip(trees, nodes["node_id"].to_list(), nodes["image_offset"].to_list(), strict=True))
    assert placed == sorted(
        (node.tree.replace("_", "-"), node.node_number, node.fragments[0][0]) for node in expected.nodes
    )
    entries = layout.entries
    found = set(
        zip(entries["parent_id"].to_list(), entries["name"].to_list(), entries["link_count"].to_list(), strict=True)
    )
    wanted = {(entry.parent_id, entry.name, entry.link_count) for entry in expected.entries if entry.kind == "file"}
    assert wanted <= found
    assert len(entries) >= len(expected.entries)


def test_an_older_capture_of_apfs_has_what_its_writer_put_there(tmp_path):
    """The live nodes of the volume are where the writer put them, and every entry exists once."""
    expected = write_apfs(APFS["snapshots"], tmp_path / "disk.img").live
    layout = volume("3-apfs")
    live = layout.nodes.filter(state="live", tree="fs")
    assert sorted(live["image_offset"].to_list()) == sorted(
        node.paddr * 4096 for node in expected.nodes if (node.volume, node.tree) == (0, "fs")
    )
    found = sorted(zip(layout.entries["parent_id"].to_list(), layout.entries["name"].to_list(), strict=True))
    # The directories that every volume has are not in the plan.
    named = [entry for entry in found if entry[0] != 1]
    assert named == sorted((entry.parent_id, entry.name) for entry in expected.entries)


@pytest.mark.parametrize("name", MANIFESTS)
def test_verbs_take_older_captures(name):
    """The reads of a copy are computed, and a scan finds nothing missing."""
    assert len(layoutscope.trace(OLDER / f"{name}.lscope", workload={"order": "copy"})) > 0
    assert layoutscope.scan(OLDER / f"{name}.lscope", drives="sata-ssd").exit_code == 0


@pytest.mark.parametrize("version", ["1", "2", "4"])
def test_other_versions_are_refused_by_name(version, tmp_path):
    """Versions before the first release and future versions are refused, not misread."""
    capture = tmp_path / "a.lscope"
    shutil.copytree(OLDER / "3-apfs.lscope", capture)
    document = json.loads((capture / "manifest.json").read_text())
    document["format"] = f"layoutscope.capture/{version}"
    (capture / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(ImageError, match=r"not a capture of the version layoutscope\.capture/3"):
        layoutscope.read_layouts(capture)


@pytest.mark.parametrize("name", ["3-apfs", "3-hfsplus"])
def test_nodes_of_captures_from_before_conditions_are_sound(name):
    """The column is newer: verified nodes are sound."""
    nodes = volume(name).nodes
    assert len(nodes) > 0
    assert set(nodes["condition"].cast(pl.String)) == {"sound"}


def test_optional_column_that_is_newer_than_a_capture_is_null(tmp_path):
    """A later version may add a column that not every file system has; older captures stay readable."""
    table = tmp_path / "entries.parquet"
    stored = next((OLDER / "3-hfsplus.lscope").rglob("entries.parquet"))
    pl.read_parquet(stored).drop("valence").write_parquet(table)
    entries = read_table(table, "entries")
    assert entries["valence"].null_count() == len(entries) > 0
