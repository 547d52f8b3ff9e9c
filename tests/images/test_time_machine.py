"""Volumes of Time Machine and iOS: hundreds of snapshots, clones, files without data, groups, bundles."""

from __future__ import annotations

import plistlib
import sys

import pytest

import layoutscope
from fixtures.apfs.plan import (
    DirectoryPlan,
    EncryptionPlan,
    ExtentPlan,
    FilePlan,
    Remove,
    TakeSnapshot,
    Touch,
    TransactionPlan,
    TreeShape,
    VolumePlan,
    XattrPlan,
)
from fixtures.apfs.scenarios import CLONES, GROUP, container, many
from fixtures.apfs.structures.volume import VolumeRole
from fixtures.apfs.writer import write

BLOCK = 4096
NUM_SNAPSHOTS = 300
FILES = 60


def backups(num_snapshots):
    """Plan a backup volume with a number of snapshots; before each a file is touched and one is added."""
    steps = tuple(
        TransactionPlan((Touch(f"file {number % FILES:04}"), TakeSnapshot(f"backup {number:03}")))
        for number in range(num_snapshots)
    )
    volume = VolumePlan("Backups", many(FILES), role=VolumeRole.BACKUP, fs_shape=TreeShape(16, 8))
    return container(volume, transactions=(*steps, TransactionPlan((Touch("file 0001"),))))


@pytest.fixture(scope="module")
def time_machine(tmp_path_factory):
    """Write a volume with 300 snapshots; return it with the expected states."""
    path = tmp_path_factory.mktemp("backups") / "disk.img"
    return path, write(backups(NUM_SNAPSHOTS), path)


def test_every_snapshot_is_listed(time_machine):
    """`checkpoints` lists them in order, each with all of its nodes; the role is named, and there is no damage."""
    path, _ = time_machine
    states = [state for state in layoutscope.checkpoints(path) if state.kind == "snapshot"]
    assert [state.label for state in states] == [f"backup {number:03}" for number in range(NUM_SNAPSHOTS)]
    assert all(state.is_complete and state.num_nodes == state.num_sound_nodes > 0 for state in states)
    result = layoutscope.scan(path, drives=())
    layout = result.parts[-1].layout
    assert (result.exit_code, layout.facts.details["role"], layout.facts.details["snapshots"]) == (0, "backup", 300)
    assert set(layout.node_views["view"].unique()) >= {"live", "snapshot backup 000", "snapshot backup 299"}


@pytest.mark.full
@pytest.mark.parametrize("number", [0, 150, NUM_SNAPSHOTS - 1])
def test_a_snapshot_shows_its_own_state(time_machine, number):
    """File times are as of then: file N was first touched in the transaction of snapshot N."""
    path, _ = time_machine
    result = layoutscope.scan(path, drives=(), snapshot=f"backup {number:03}")
    layout = result.parts[-1].layout
    assert (result.exit_code, layout.facts.view) == (0, f"snapshot backup {number:03}")
    assert layout.entries.filter(kind="file").height == FILES
    times = layout.entries.filter(kind="file").sort("name")["modify_time"]
    assert times.arg_max() == number % FILES


@pytest.mark.full
def test_work_grows_no_faster_than_snapshots(tmp_path):
    """Three times as many take about three times as many calls to list, read and check; nine would be quadratic."""
    took = []

    def count(_frame, event, _given):
        took[-1] += event == "call"

    for num_snapshots in (60, 180):
        path = tmp_path / f"{num_snapshots}.img"
        write(backups(num_snapshots), path)
        took.append(0)
        sys.setprofile(count)
        try:
            layoutscope.checkpoints(path)
            layoutscope.scan(path, drives=())
            layoutscope.scan(path, drives=(), snapshot="backup 030")
            layoutscope.check(path)
        finally:
            sys.setprofile(None)
    assert took[1] < 5 * took[0]


def uses(result):
    """Return the bytes by use from everywhere in a result."""
    found = {}
    for volume in result.parts:
        for use in volume.space:
            found[use.use] = found.get(use.use, 0) + use.size_bytes
    return found


def test_shared_extents_are_counted_once(tmp_path):
    """Four files, clones of each other, in two runs of five blocks in total: 20 KiB of data, not 80."""
    path = tmp_path / "clones.img"
    write(container(VolumePlan("Clones", CLONES), block_count=16384), path)
    result = layoutscope.scan(path, drives=())
    assert uses(result)["data"] == 5 * BLOCK
    extents = result.parts[-1].layout.extents
    assert extents["length_bytes"].sum() == 4 * 5 * BLOCK
    assert (extents["flags"] & 1 == 1).all()


def test_data_that_only_snapshots_hold_is_data(tmp_path):
    """A deleted file of three blocks still occupies them while a snapshot has it."""
    path = tmp_path / "kept.img"
    steps = (TransactionPlan((TakeSnapshot("before"),)), TransactionPlan((Remove("gone"),)))
    write(
        container(VolumePlan("Kept", (FilePlan("gone", (ExtentPlan(3),)),)), transactions=steps, block_count=16384),
        path,
    )
    result = layoutscope.scan(path, drives=())
    assert result.parts[-1].layout.entries.filter(name="gone").height == 0
    assert uses(result)["data"] == 3 * BLOCK


@pytest.fixture
def dataless(tmp_path):
    path = tmp_path / "dataless.img"
    files = (FilePlan("in the cloud", size_bytes=100_000, is_dataless=True), FilePlan("here", (ExtentPlan(3),)))
    write(container(VolumePlan("Cloud", files), block_count=16384), path)
    return path


def test_files_without_data_keep_their_size(dataless):
    """They allocate nothing, have a flag, and neither scan nor check reports anything about them."""
    result = layoutscope.scan(dataless, drives=())
    entry = result.parts[-1].layout.entries.filter(name="in the cloud").row(0, named=True)
    assert (entry["size_bytes"], entry["flags"]) == (100_000, 16)
    assert result.parts[-1].layout.extents.filter(file_id=entry["file_id"]).height == 0
    assert (result.exit_code, layoutscope.check(dataless).exit_code) == (0, 0)
    assert uses(result)["data"] == 3 * BLOCK


@pytest.fixture
def group(tmp_path):
    """A system volume with firmlinks, its data volume, and one that belongs to no group."""
    path = tmp_path / "group.img"
    links = (
        DirectoryPlan("Users", (XattrPlan("com.apple.fs.firmlink", b"Users\0"),)),
        DirectoryPlan("usr"),
        DirectoryPlan("usr/local", (XattrPlan("com.apple.fs.firmlink", b"usr/local\0"),)),
    )
    volumes = (
        VolumePlan("Macintosh HD", links, role=VolumeRole.SYSTEM, group=GROUP),
        VolumePlan("Macintosh HD - Data", (DirectoryPlan("Users"),), role=VolumeRole.DATA, group=GROUP),
        VolumePlan("Preboot", role=VolumeRole.PREBOOT),
    )
    write(container(*volumes, block_count=3 * 131072), path)
    return path


def test_a_volume_group_is_told(group):
    """The container names the members with their roles, and each member its group."""
    layouts = layoutscope.read_layouts(group)
    told = [text for name, text in layouts[0].facts.details.items() if name.startswith("volume group")]
    assert told == ["volume 1 (system) + volume 2 (data)"]
    names = {layout.facts.name: layout.facts.details.get("volume group") for layout in layouts[1:]}
    assert names["Macintosh HD"] == names["Macintosh HD - Data"] is not None
    assert names["Preboot"] is None


@pytest.mark.parametrize("name", ["empty", "locked"])
def test_a_system_volume_without_attributes_has_no_firmlinks(tmp_path, name):
    """The same if no file has attributes, or if nothing can be read without a password."""
    locked = EncryptionPlan("secret") if name == "locked" else None
    path = tmp_path / "system.img"
    write(container(VolumePlan("System", many(3), role=VolumeRole.SYSTEM, encryption=locked), block_count=16384), path)
    result = layoutscope.scan(path, drives=())
    assert not result.parts[-1].layout.facts.details.get("firmlinks", 0)


def test_firmlinks_are_named(group):
    """Folders of the system volume that show folders of the data volume."""
    layouts = {layout.facts.name: layout for layout in layoutscope.read_layouts(group)}
    assert layouts["Macintosh HD"].facts.details["firmlinks"] == 2
    assert "firmlinks" not in layouts["Macintosh HD - Data"].facts.details


@pytest.mark.full
def test_a_backup_in_bands_is_the_backup(time_machine, tmp_path):
    """A sparse bundle, as Time Machine makes on a server: missing bands are zeros, the tables are the same."""
    path, _ = time_machine
    band, folder = 1 << 20, tmp_path / "Mac.sparsebundle"
    (folder / "bands").mkdir(parents=True)
    facts = {
        "band-size": band,
        "size": path.stat().st_size,
        "diskimage-bundle-type": "com.apple.diskimage.sparsebundle",
    }
    (folder / "Info.plist").write_bytes(plistlib.dumps(facts))
    with path.open("rb") as file:
        for number in range(-(-facts["size"] // band)):
            data = file.read(band)
            if any(data):
                (folder / "bands" / f"{number:x}").write_bytes(data)
    assert len(list((folder / "bands").iterdir())) < facts["size"] // band
    raw, inside = (layoutscope.read_layouts(item) for item in (path, folder))
    assert [layout.facts.name for layout in inside] == [layout.facts.name for layout in raw]
    for one, other in zip(raw, inside, strict=True):
        assert one.nodes.equals(other.nodes)
        assert one.entries.equals(other.entries)
