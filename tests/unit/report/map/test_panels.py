"""Data of the panels next to the map: separate walks of several volumes, and labelled distances."""

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
from layoutscope.report.map.page import OF_WALKS, first_screen, shares_of
from layoutscope.report.map.panels import MOST_POINTS, charts_of, directories, order_charts, walk_panel
from layoutscope.report.map.pyramid import verified_xids
from layoutscope.report.map.scans import disks, first_walks
from layoutscope.units import format_seconds
from tests.layouts import layout, leaves

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """Return both devices of a set with two volumes; the second volume is only on the second device."""
    folder = tmp_path_factory.mktemp("set")
    write(SCENARIOS["fusion"], folder / "main.img", folder / "second.img")
    return disks([scan(folder / "main.img", second=folder / "second.img")])


def test_devices_and_volumes_of_a_set(devices):
    """The top sentence is about it, and its walk is drawn first."""
    main, _ = devices
    seconds = {walk.name: walk.seconds for walk in first_walks(main)}
    assert list(seconds) == ["Slow", "Mixed"]
    assert seconds["Slow"] > seconds["Mixed"]
    page = first_screen(devices, shares_of(devices))
    assert "<h1>OK: listing all files of “Slow” takes" in page
    labels = [note["text"] for note in figure(devices, shares_of(devices))["layout"]["annotations"]]
    assert sum(f": {format_seconds(sum(seconds.values()))}</b>" in label for label in labels) == len(devices)
    # If a walk reads nothing from a device, nothing is drawn there.
    for disk in devices:
        for walk in disk.walks:
            panel = walk_panel(walk, disk, next(n for n, one in enumerate(disk.walks) if one.trace is walk.trace))
            own = walk.trace.device == disk.device
            assert panel["reads"] == own.sum()
    assert not (devices[1].walks[-1].trace.device == 1).any()


def test_a_volume_that_reads_nothing_has_no_time(tmp_path):
    """Mounting reads all of an empty volume: next to two others it has no walk, no time and no bar."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    result = scan(tmp_path / "volumes.img")
    assert {volume.layout.facts.name for volume in result.parts[1:]} == {"System", "Data", "VM"}
    (disk,) = disks([result])
    assert {walk.name for walk in disk.walks} == {"System", "Data"}


def test_a_disk_of_which_nothing_is_read_has_no_parts_of_walks(tmp_path):
    """An empty volume has no list of drives, no time axis and no empty chart."""
    write(SCENARIOS["empty"], tmp_path / "empty.img")
    page = map_page([scan(tmp_path / "empty.img")])
    assert "mounting has already loaded everything" in page
    assert not any(f'id="{anchor}"' in page for anchor in OF_WALKS)
    assert 'class="swalk"' not in page
    assert 'id="drive"' not in page


def test_volumes_and_transactions_without_names():
    """Neither a lone volume nor a denied transaction is named."""
    (disk,) = disks([scan(FIXTURES / "apfs-scattered.img.zst")])
    assert {walk.name for walk in disk.walks} == {""}
    assert not disk.story[0].startswith("“")
    # An unverified node shows no age, whatever its bytes are.
    nodes = layout(nodes=leaves(1, 2, 3, xid=[5, 2**63, 7], condition=["sound", "damaged", "sound"])).columns("nodes")
    assert verified_xids(nodes).tolist() == [5, 0, 7]


def _counts(chart) -> list[int]:
    return chart["data"][0]["y"]


def test_distances_are_within_a_device_on_one_scale(devices):
    # A file with inode and data on two devices has no distance; all others have one.
    for disk, charts in zip(devices, charts_of(devices, names=True), strict=True):
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
        found = [sum(_counts(chart)) for chart in charts["distances"] if "inode" in chart["title"]]
        assert found == [expected] * bool(expected)
    # Every read but the first has a distance; the bars of two disks have the same power-of-two bins.
    pair = disks([scan(FIXTURES / f"{name}-scattered.img.zst") for name in ("hfsplus", "apfs")])
    charts = [one["distances"] for one in charts_of(pair, names=True)]
    axes = [chart["data"][0]["x"] for one in charts for chart in one]
    assert len(axes) == 4
    assert all(axis == axes[0] for axis in axes)
    for disk, (seeks, _) in zip(pair, charts, strict=True):
        trace = disk.walks[0].trace
        jump = np.abs(np.diff(trace.image_offset) - trace.length_bytes[:-1])
        assert sum(_counts(seeks)) == len(trace) - 1
        assert _counts(seeks)[0] == np.count_nonzero(jump == 0)
        powers = np.floor(np.log2(jump[jump > 0])).astype(int)
        counts = np.bincount(powers - powers.min()).tolist()
        drawn = _counts(seeks)[1:]
        first = next(place for place, count in enumerate(drawn) if count)
        assert drawn[first : first + len(counts)] == counts


def test_order_on_disk_leaves_out_what_snapshots_alone_hold():
    """Their ranks belong to other trees, so only the live leaves are drawn, one rank each."""
    (disk,) = disks([scan(FIXTURES / "apfs-scattered.img.zst", drives=())])
    drawn = next(chart for chart in order_charts(disk) if chart["title"].startswith("file-system"))
    fs = disk.layouts[-1].nodes.filter(tree="fs", kind="leaf")
    live = fs.filter(state="live")
    (points,) = drawn["data"]
    assert sorted(points["x"]) == sorted(live["key_rank"].to_list())
    assert len(points["x"]) == live.height < fs.height
    assert sum(int(row[1]) for row in drawn["table"]["rows"]) == live.height


def test_order_on_disk_is_that_of_one_volume_each(devices, tmp_path):
    """Two volumes have a file-system tree each: two charts, each with only its own leaves."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    for disk in (*devices, *disks([scan(tmp_path / "volumes.img")])):
        titles = [chart["title"] for chart in order_charts(disk)]
        assert len(set(titles)) == len(titles)
        assert not [title for title in titles if "space manager" in title]
        for place, name in disk.called.items():
            is_leaf = (pl.col("tree") == "fs") & (pl.col("kind") == "leaf") & (pl.col("state") != "snapshot")
            own = disk.layouts[place].nodes.filter(is_leaf & (pl.col("device") == disk.device))
            told = [title for title in titles if title.startswith(f"{name}: file-system")]
            assert told == ([f"{name}: file-system B-tree: {own.height:,} leaves"] if own.height > 1 else [])


def test_of_many_points_one_is_drawn_in_each_spot(monkeypatch):
    """Overlapping points are drawn once to save space; the text rows count all of them."""
    (disk,) = disks([scan(FIXTURES / "apfs-scattered.img.zst", drives=())])
    assert len(order_charts(disk)[0]["data"][0]["x"]) < MOST_POINTS
    monkeypatch.setattr("layoutscope.report.map.panels.MOST_POINTS", 1)
    monkeypatch.setattr("layoutscope.report.map.panels.SPOTS", (10, 10))
    chart = order_charts(disk)[0]
    assert 10 <= len(chart["data"][0]["x"]) <= 100
    assert sum(int(row[1]) for row in chart["table"]["rows"]) > 600


def test_volumes_of_one_name_are_told_apart(tmp_path):
    """Numbers distinguish them in times, orders and directories; without names, nothing else does."""
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
        tops = [name for _, _, name, _ in directories(disk, names=names)[0] if name.endswith(" /")]
        assert tops == [f"{name} /" for name in called[:2]]
