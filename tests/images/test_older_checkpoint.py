"""If the last checkpoint is damaged an older one is read: that is damage, and its transaction is reported."""

from __future__ import annotations

import subprocess

import polars as pl
import pytest

import layoutscope

BLOCK = 4096
LAST, BEFORE = 183, 182

pytestmark = pytest.mark.images


@pytest.fixture(scope="module")
def sound(reference_image):
    return reference_image("driver/apfs-ci.img")


@pytest.fixture(scope="module")
def regions(sound):
    return layoutscope.scan(sound, drives=()).parts[0].layout.regions.with_columns(pl.col("type").cast(pl.String))


@pytest.fixture
def without(sound, tmp_path):
    """Return a function that zeroes blocks of a copy."""

    def make(*places):
        path = tmp_path / "damaged.img"
        subprocess.run(["cp", "--sparse=always", "--no-preserve=mode", sound, path], check=True)
        with path.open("r+b") as file:
            for at in places:
                file.seek(at)
                file.write(bytes(BLOCK))
        return path

    return make


def place(regions, kind, owner):
    found = regions.filter((pl.col("type") == kind) & (pl.col("owner") == owner))
    return found["image_offset"][0]


def errors(result):
    return [finding for volume in result.parts for finding in volume.findings if finding.level == "error"]


def test_newest_superblock_lost(without, regions):
    """The previous state is shown and labeled, both transactions are reported, and the exit code says damage."""
    result = layoutscope.scan(without(place(regions, "container-superblock", f"checkpoint {LAST}")), drives=())
    assert result.exit_code == 3
    assert {volume.layout.facts.view for volume in result.parts} == {f"xid {BEFORE}"}
    assert any(str(LAST) in item.message and str(BEFORE) in item.message for item in errors(result))


def names_of(result):
    """Return entries of the volume from the last layout."""
    return set(result.parts[-1].layout.entries.select("parent_id", "name", "file_id").rows())


def test_newest_object_map_lost(without, regions, sound):
    """Volumes of the last state are found in blocks that the bitmaps mark as used; they are inferred, and damage."""
    result = layoutscope.scan(without(place(regions, "object-map", "container object map")), drives=())
    assert result.exit_code == 3
    assert result.coverage != 1
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}
    assert names_of(result) == names_of(layoutscope.scan(sound, drives=()))
    assert "tree-rebuilt" in {item.code for volume in result.parts for item in volume.findings}


def test_older_object_map_is_read_where_much_is_in_use(without, regions, monkeypatch):
    """If more blocks are in use than the search limit, the previous state is shown and labeled."""
    monkeypatch.setattr("layoutscope.filesystems.apfs.rescue.SEARCHED_BYTES", 0)
    result = layoutscope.scan(without(place(regions, "object-map", "container object map")), drives=())
    assert result.exit_code == 3
    assert {volume.layout.facts.view for volume in result.parts} == {f"xid {BEFORE}"}
    assert any(str(LAST) in item.message and str(BEFORE) in item.message for item in errors(result))


def test_newest_map_lost(without, regions, sound):
    """Files are found without the map: the last state is shown as damaged, but nothing is missing."""
    result = layoutscope.scan(without(place(regions, "checkpoint-map", f"checkpoint {LAST}")), drives=())
    assert result.exit_code == 3
    assert result.coverage != 1
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}
    whole = layoutscope.scan(sound, drives=())
    found, all_of = (item.parts[-1].layout.entries.drop("row") for item in (result, whole))
    assert found.select("parent_id", "name", "file_id").equals(all_of.select("parent_id", "name", "file_id"))


def test_sweep_goes_back_to_the_last_state(without, regions, sound):
    """If its superblock is lost, nodes of the last transaction take precedence over a readable older state."""
    path = without(place(regions, "container-superblock", f"checkpoint {LAST}"))
    found, all_of = (
        set(layoutscope.scan(image, drives=(), sweep=sweep).parts[-1].layout.entries.select("name", "file_id").rows())
        for image, sweep in ((path, True), (sound, False))
    )
    assert found == all_of


def test_newest_superblock_and_its_copy_lost(without, regions):
    """The map of the lost checkpoint is left, followed by nothing sound, so it was committed."""
    result = layoutscope.scan(without(place(regions, "container-superblock", f"checkpoint {LAST}"), 0), drives=())
    assert result.exit_code == 3
    assert {volume.layout.facts.view for volume in result.parts} == {f"xid {BEFORE}"}


@pytest.mark.parametrize("kind", ["container-superblock", "checkpoint-map"])
def test_older_checkpoint_lost(without, regions, kind):
    """Their places are reused sooner or later: nothing of the live state is damaged."""
    result = layoutscope.scan(without(place(regions, kind, f"checkpoint {BEFORE}")), drives=())
    assert result.exit_code == 0
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}


def test_older_state_that_was_asked_for_is_no_damage(sound):
    """Choosing a state by its transaction loses nothing."""
    result = layoutscope.scan(sound, xid=BEFORE, drives=())
    assert result.exit_code == 0
    assert {volume.layout.facts.view for volume in result.parts} == {f"xid {BEFORE}"}


def test_transaction_that_was_never_finished_is_no_damage(without, regions):
    """After a crash a map may exist without its superblock, whose place still holds that of the previous round."""
    newest = place(regions, "container-superblock", f"checkpoint {LAST}")
    oldest = place(regions, "container-superblock", "checkpoint 180")
    path = without(0)
    with path.open("r+b") as file:
        file.seek(oldest)
        former = file.read(BLOCK)
        file.seek(newest)
        file.write(former)
    result = layoutscope.scan(path, drives=())
    assert errors(result) == []
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}


def test_block_0_lost(without):
    """A bare container is recognized by the superblocks of its checkpoints, without a sweep."""
    result = layoutscope.scan(without(0), drives=())
    assert sum(volume.layout.entries.height for volume in result.parts) == 2464
    assert {volume.layout.facts.view for volume in result.parts} == {"live"}


def test_copies_that_snapshots_keep_are_no_volumes(reference_image, tmp_path):
    """Without any container superblock, a sweep finds the one volume, with its newest entries."""
    image, path = reference_image("driver/apfs-snap.img"), tmp_path / "damaged.img"
    whole = layoutscope.scan(image, drives=())
    regions = whole.parts[0].layout.regions.with_columns(pl.col("type").cast(pl.String))
    places = regions.filter(pl.col("type") == "container-superblock")["image_offset"].to_list()
    subprocess.run(["cp", "--sparse=always", "--no-preserve=mode", image, path], check=True)
    with path.open("r+b") as file:
        for at in places:
            file.seek(at)
            file.write(bytes(BLOCK))
    result = layoutscope.scan(path, drives=(), sweep=True)
    found = [volume.layout for volume in result.parts if volume.layout.facts.volume is not None]
    assert [layout.facts.name for layout in found] == ["SnapAPFS"]
    rows = [set(layout.entries.select("parent_id", "name", "file_id").rows()) for layout in found]
    assert rows == [set(whole.parts[-1].layout.entries.select("parent_id", "name", "file_id").rows())]
    assert result.exit_code == 3
