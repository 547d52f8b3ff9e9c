"""States and volumes reopened from damaged images: selected states, both halves of a Fusion set, and losses."""

from __future__ import annotations

import subprocess

import polars as pl
import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.errors import LayoutscopeError

BLOCK = 4096


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the images of a scenario, one or the two of a Fusion set."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = [folder / "main.img"] + ([folder / "second.img"] if SCENARIOS[name].fusion else [])
            write(SCENARIOS[name], *made[name])
        return made[name]

    return get


def without(path, folder, *places):
    """Return a copy of an image with zeroed blocks at some places."""
    copy = folder / path.name
    subprocess.run(["cp", "--sparse=always", path, copy], check=True)
    with copy.open("r+b") as file:
        for at in places:
            file.seek(at)
            file.write(bytes(BLOCK))
    return copy


def places(result, kind, device=0):
    """Return the addresses of a scan's regions of a type."""
    tables = [volume.layout.regions.with_columns(pl.col("type").cast(pl.String)) for volume in result.parts]
    chosen = [table.filter(type=kind, device=device)["image_offset"].to_list() for table in tables]
    return [at for table in chosen for at in table]


def names(result):
    """Return the entries of all volumes."""
    return [
        set(volume.layout.entries.select("parent_id", "file_id", "name").rows())
        for volume in result.parts
        if volume.layout.facts.volume is not None
    ]


def errors(result):
    return [item for volume in result.parts for item in volume.findings if item.level == "error"]


@pytest.mark.parametrize("sweep", [False, True])
def test_a_chosen_state_whose_object_map_is_lost(written, tmp_path, sweep):
    """Its volumes are found by their superblocks of that transaction, not those of the newest state."""
    (path,) = written("edited")
    states = [state for state in layoutscope.checkpoints(path) if state.kind == "checkpoint"]
    xid = states[1].xid
    assert xid < states[0].xid
    whole = layoutscope.scan(path, xid=xid, drives=())
    lost = places(whole, "object-map")[0]
    image = without(path, tmp_path, lost)
    found = layoutscope.scan(image, xid=xid, drives=(), sweep=sweep)
    assert found.exit_code == 3
    assert found.coverage != 1
    assert {volume.layout.facts.view for volume in found.parts} == {f"xid {xid}"}
    assert names(found) == names(whole) != names(layoutscope.scan(path, drives=()))


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fusion_set_whose_object_map_is_lost(written, tmp_path, order, sweep):
    """Volume superblocks are searched for on both devices, whichever image is named first."""
    main, second = written("fusion")
    whole = layoutscope.scan(main, second=second, drives=())
    pair = without(main, tmp_path, places(whole, "object-map")[0]), second
    found = layoutscope.scan(pair[order[0]], second=pair[order[1]], drives=(), sweep=sweep)
    assert found.exit_code == 3
    assert found.coverage != 1
    assert names(found) == names(whole)
    assert any("container object map" in item.structure for item in errors(found))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fusion_set_without_any_superblock_of_its_main_device(written, tmp_path, order):
    """A sweep reassembles it: the second device's superblock copy shows which image is which."""
    main, second = written("fusion")
    whole = layoutscope.scan(main, second=second, drives=())
    pair = without(main, tmp_path, 0, *places(whole, "container-superblock")), second
    found = layoutscope.scan(pair[order[0]], second=pair[order[1]], drives=(), sweep=True)
    assert found.exit_code == 3
    assert names(found) == names(whole)


@pytest.mark.parametrize(("order", "sweep"), [((0, 1), False), ((0, 1), True), ((1, 0), True)])
def test_a_second_device_whose_superblock_is_lost(written, tmp_path, order, sweep):
    """The main device's superblock shows which is which; nothing is lost, and the damage has its device."""
    main, second = written("fusion")
    pair = main, without(second, tmp_path, 0)
    whole = layoutscope.scan(main, second=second, drives=())
    found = layoutscope.scan(pair[order[0]], second=pair[order[1]], drives=(), sweep=sweep)
    assert names(found) == names(whole)
    told = [item for volume in found.parts for item in volume.findings if item.code == "checkpoint-invalid"]
    # The magic follows the 32 bytes of the object header.
    assert [(item.level, item.image_offset, item.device) for item in told] == [("warning", 32, 1)]


def test_a_second_image_that_is_nothing_is_refused(written, tmp_path):
    """A container that is not a Fusion set has no second device."""
    (path,) = written("edited")
    other = tmp_path / "zeros.img"
    other.write_bytes(bytes(1 << 20))
    with pytest.raises(LayoutscopeError):
        layoutscope.scan(path, second=other, drives=())


@pytest.mark.parametrize("sweep", [False, True])
def test_a_volume_of_whose_superblock_no_copy_is_left(written, tmp_path, sweep):
    """The loss has no address, and is reported as far as the search went; the other volume is complete."""
    (path,) = written("volumes")
    whole = layoutscope.scan(path, drives=())
    (first,) = [item for item in whole.parts if item.layout.facts.volume == 1]
    own = first.layout.regions.with_columns(pl.col("type").cast(pl.String)).filter(type="volume-superblock")
    image = without(path, tmp_path, *own["image_offset"].to_list())
    found = layoutscope.scan(image, drives=(), sweep=sweep)
    assert found.exit_code == 3
    assert found.coverage is None
    assert names(found) == names(whole)[1:]
    (lost,) = [item for item in errors(found) if "no copy" in item.message]
    assert (lost.code, lost.image_offset) == ("volume-unreadable", None)
    assert "missing from the tables" in lost.message
    assert ("--sweep" in lost.message) is not sweep
