"""What the panels beside the map are given: walks of several volumes apart, distances with what they are of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.report.map.figure import figure
from layoutscope.report.map.page import disk_data, shares_of
from layoutscope.report.map.panels import NO_BIN, directories, distances, walk_panel
from layoutscope.report.map.pyramid import from_layouts, verified_xids
from layoutscope.report.map.scans import disks, first_walks
from layoutscope.report.map.screen import OF_WALKS, first_screen
from layoutscope.units import format_seconds
from tests.layouts import layout, leaves
from tests.pages import unpacked

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"


def _plain(packed) -> np.ndarray:
    return np.array(unpacked(packed), np.int64)


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """Both devices of a set with two volumes, of which the second lies on the second device alone."""
    folder = tmp_path_factory.mktemp("set")
    write(SCENARIOS["fusion"], folder / "main.img", folder / "second.img")
    return disks([scan(folder / "main.img", second=folder / "second.img")])


def test_the_slowest_volume_is_the_first(devices):
    """The sentence on top is of it, and its walk is drawn first."""
    main, _ = devices
    seconds = {walk.name: walk.seconds for walk in first_walks(main)}
    assert list(seconds) == ["Slow", "Mixed"]
    assert seconds["Slow"] > seconds["Mixed"]
    page = first_screen(devices, shares_of(devices))
    assert "<h1>OK: listing all files of “Slow” takes" in page
    labels = [note["text"] for note in figure(devices, shares_of(devices))["layout"]["annotations"]]
    assert sum(f": {format_seconds(sum(seconds.values()))}</b>" in label for label in labels) == len(devices)


def test_a_volume_that_reads_nothing_has_no_time(tmp_path):
    """Mounting has read all of an empty volume: beside two others it has no walk, no time and no bar."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    result = scan(tmp_path / "volumes.img")
    assert {volume.layout.facts.name for volume in result.parts[1:]} == {"System", "Data", "VM"}
    (disk,) = disks([result])
    assert {walk.name for walk in disk.walks} == {"System", "Data"}


def test_a_disk_of_which_nothing_is_read_has_no_parts_of_walks(tmp_path):
    """An empty volume: no list of drives, no time axis, nor an empty picture of them."""
    write(SCENARIOS["empty"], tmp_path / "empty.img")
    page = map_page([scan(tmp_path / "empty.img")])
    assert "mounting has already loaded everything" in page
    assert not any(f'id="{anchor}"' in page for anchor in OF_WALKS)
    assert 'class="swalk"' not in page
    assert 'id="drive"' not in page


def test_a_volume_alone_is_not_named():
    """One volume needs no name beside its drives."""
    (disk,) = disks([scan(FIXTURES / "apfs-scattered.img.zst")])
    assert {walk.name for walk in disk.walks} == {""}
    assert not disk.story[0].startswith("“")


def test_a_device_shows_its_own_reads_alone(devices):
    """Where a walk reads nothing of a device, nothing is drawn there, and it reaches nowhere."""
    for disk in devices:
        for walk in disk.walks:
            panel = walk_panel(walk, disk, next(n for n, one in enumerate(disk.walks) if one.trace is walk.trace))
            own = walk.trace.device == disk.device
            assert panel["reads"] == own.sum()
    assert not (devices[1].walks[-1].trace.device == 1).any()


def test_distances_are_within_a_device(devices):
    """An inode and its data on two devices are in no bin; all others are, each with its node."""
    for disk in devices:
        found = distances(disk)["to_data"]
        expected = 0
        for one in disk.layouts:
            rows = one.nodes.filter(pl.col("device") == disk.device)["row"].to_list()
            inodes = one.entries.filter(pl.col("inode_node_row").is_in(rows))["file_id"].unique()
            starts = one.extents.filter(
                (pl.col("logical_offset") == 0)
                & (pl.col("device") == disk.device)
                & pl.col("image_offset").is_not_null()
                & pl.col("file_id").is_in(inodes.to_list())
            )
            expected += starts["file_id"].n_unique()
        assert found["total"] == expected == found["node"]["n"] == found["bin"]["n"]
        assert found["total"] == found["touching"] + sum(found["counts"])


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_bins_count_what_the_bars_show(name):
    """Of reads and of files: as many in each bin as the bar is high; the first read has none before it."""
    (disk,) = disks([scan(FIXTURES / f"{name}-scattered.img.zst")])
    found = distances(disk)
    for key, column in (("seek", "reads"), ("to_data", "bin")):
        bins = _plain(found[key][column])
        counts = np.bincount(bins[bins != NO_BIN], minlength=1 + len(found[key]["counts"]))
        assert counts.tolist() == [found[key]["touching"], *found[key]["counts"]]
    assert _plain(found["seek"]["reads"])[0] == NO_BIN


def test_what_a_checksum_denies_has_no_transaction():
    """A node that is not verified tells no age, whatever stands in it."""
    nodes = layout(nodes=leaves(1, 2, 3, xid=[5, 2**63, 7], condition=["sound", "damaged", "sound"])).columns("nodes")
    assert verified_xids(nodes).tolist() == [5, 0, 7]


def test_order_on_disk_leaves_out_what_snapshots_alone_hold():
    """Ranks of their leaves are of other trees: of the tree's leaves those of the live one are drawn, a rank each."""
    (disk,) = disks([scan(FIXTURES / "apfs-scattered.img.zst", drives=())])
    drawn = next(each for each in distances(disk)["key_order"] if each["tree"] == "fs")
    fs = disk.layouts[-1].nodes.filter(tree="fs", kind="leaf")
    live = fs.filter(state="live")
    assert drawn["total"] == live.height == live["key_rank"].n_unique() < fs.height


def test_order_on_disk_is_that_of_one_volume_each(devices, tmp_path):
    """Two volumes have a file-system tree each: two orders, each of the leaves of its volume alone."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    for disk in (*devices, *disks([scan(tmp_path / "volumes.img")])):
        drawn = {(one["volume"], one["tree"]): one for one in distances(disk)["key_order"]}
        for (place, tree), one in drawn.items():
            is_leaf = (pl.col("tree") == tree) & (pl.col("kind") == "leaf") & (pl.col("state") != "snapshot")
            own = disk.layouts[place].nodes.filter(is_leaf & (pl.col("device") == disk.device))
            assert one["total"] == own.height == own["key_rank"].n_unique() > 1
        assert "spaceman" not in {tree for _, tree in drawn}
    assert [disk.called[place] for place, _ in drawn] == ["System", "Data"]


def test_ranks_that_the_page_carries_are_those_of_its_orders(tmp_path):
    """As many nodes have a rank as an order has leaves: what snapshots alone hold has none."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    for image in (
        FIXTURES / "apfs-scattered.img.zst",
        FIXTURES / "hfsplus-scattered.img.zst",
        tmp_path / "volumes.img",
    ):
        for disk, held in zip(found := disks([scan(image, drives=())]), shares_of(found), strict=True):
            data = disk_data(disk, from_layouts(disk.layouts), held, names=True)
            nodes, volumes = data["nodes"], data["volumes"]
            rank, tree, kind = (np.array(unpacked(nodes[name])) for name in ("rank", "tree", "kind"))
            for order in data["distances"]["key_order"]:
                own = slice(*volumes[order["volume"]]["nodes"])
                is_leaf = (tree[own] == nodes["trees"].index(order["tree"])) & (
                    kind[own] == nodes["kinds"].index("leaf")
                )
                assert (is_leaf & (rank[own] >= 0)).sum() == order["total"]


def test_volumes_of_one_name_are_told_apart(tmp_path):
    """By their numbers, in times, orders and directories; where names are left out, by nothing else."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    result = scan(tmp_path / "volumes.img")
    same = [
        replace(one, layout=one.layout.changed(facts=replace(one.layout.facts, name="Data")))
        if one.layout.facts.name == "System"
        else one
        for one in result.parts
    ]
    for names, called in (
        (True, ["Data (volume 1)", "Data (volume 2)", "VM"]),
        (False, ["volume 1", "volume 2", "volume 3"]),
    ):
        (disk,) = disks([replace(result, parts=tuple(same))], names=names)
        assert list(disk.called.values()) == called
        assert {walk.name for walk in disk.walks} == set(called[:2])
        tops = [name for name in directories(disk, names=names)["name"] if name.endswith(" /")]
        assert tops == [f"{name} /" for name in called[:2]]
