"""The treemap's directories: separate for each volume, with times from the walk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.report.map import MapDisk, MapWalk
from layoutscope.report.map.panels import ALL, directories, directory_charts
from layoutscope.tables import VolumeFacts, VolumeLayout, build_table, findings_table

IMAGES = Path(__file__).resolve().parents[4] / "fixtures" / "images"


def _layout(name: str, *rows: tuple[int, int, str, str, int]) -> VolumeLayout:
    """Make a layout from parent, number, name, kind and size of each entry."""
    parent, number, names, kind, size = zip(*rows, strict=True)
    columns = {
        "volume": 0, "parent_id": np.array(parent, np.uint64), "file_id": np.array(number, np.uint64),
        "name": list(names), "name_raw": [text.encode() for text in names], "kind": list(kind),
        "size_bytes": np.array(size, np.int64), "link_count": 1, "create_time": 0, "modify_time": 0, "flags": 0,
        "entry_rank": 0, "entry_node_row": None, "inode_node_row": None,
    }  # fmt: skip
    facts = VolumeFacts("apfs", "APFS", 0, name, "", (), 0, 4096, 4096, False, 1, 0, 0)
    empty = {key: build_table(key, {}) for key in ("nodes", "node_fragments", "regions", "extents", "free")}
    return VolumeLayout(facts, entries=build_table("entries", columns), findings=findings_table([]), **empty)


def _walk(volume: int, *reads: tuple[int, float], drive: str = "generic-7200") -> MapWalk:
    """Make a walk from directory and seconds of each read; half of the time is the host's."""
    caused, seconds = zip(*reads, strict=True)
    n = len(reads)
    half = np.array(seconds) / 2
    zeros = np.zeros(n, np.int64)
    trace = AccessTrace(
        zeros.astype(np.uint8), zeros, zeros, zeros.astype(np.uint8), zeros.astype(np.uint8),
        np.array(caused, np.uint64), zeros.astype(np.uint16), half * 1e6,
    )  # fmt: skip
    return MapWalk("fts", drive, trace, half, {"seek": sum(seconds)}, volume=volume)


HOME = ((1, 2, "root", "directory", 0), (2, 16, "home", "directory", 0), (16, 20, "a", "file", 700))
WORK = ((1, 2, "root", "directory", 0), (2, 16, "work", "directory", 0), (16, 21, "b", "file", 40))


def test_folders_of_one_number_on_two_volumes_are_two_boxes():
    """Each has its own volume's name and time; roots are named after their volumes."""
    layouts = [_layout("Home", *HOME), _layout("Work", *WORK)]
    walks = [_walk(0, (16, 3.0), (2, 1.0)), _walk(0, (16, 9.0), drive="sata-ssd"), _walk(1, (16, 5.0))]
    called = {0: "Home", 1: "Work"}
    found = directories(MapDisk("both", "", layouts, 0, 4096, 4096, walks, called=called), names=True)
    boxes = [
        ("0:2", ALL, "Home /", 1.0), ("0:16", "0:2", "home", 3.0),
        ("1:2", ALL, "Work /", 0.0), ("1:16", "1:2", "work", 5.0),
    ]  # fmt: skip
    assert found == (boxes, 9.0, 4)


def test_the_root_is_one_box():
    """The root's parent is not a directory; a directory whose entry is lost is not called the root."""
    lost = ((77, 78, "orphan", "file", 9),)
    found = directories(MapDisk("", "", [_layout("Home", *HOME, *lost)], 0, 1, 1, [_walk(0, (16, 1.0))]), names=True)
    boxes = [("0:2", ALL, "/", 0.0), ("0:16", "0:2", "home", 1.0), ("0:77", ALL, "directory 77", 0.0)]
    assert found == (boxes, 1.0, 3)


def test_no_name_stands_where_names_are_left_out():
    """Directories and volumes are shown by number."""
    layouts = [_layout("Home", *HOME), _layout("Work", *WORK)]
    called, walks = {0: "volume 1", 1: "volume 2"}, [_walk(0, (2, 1.0)), _walk(1, (2, 1.0))]
    boxes, _, _ = directories(MapDisk("", "", layouts, 0, 4096, 4096, walks, called=called), names=False)
    assert {name for _, _, name, _ in boxes} == {"volume 1 /", "volume 2 /", "directory 16"}


def test_reads_that_no_directory_caused_have_a_box_of_their_own():
    """With that box, all boxes together make up the walk."""
    disk = MapDisk("", "", [_layout("Home", *HOME)], 0, 1, 1, [_walk(0, (0, 2.0), (2, 1.0))])
    boxes, seconds, _ = directories(disk, names=True)
    assert ("0:0", ALL, "no directory", 2.0) in boxes
    assert seconds == sum(own for *_, own in boxes) == 3.0


def test_a_directory_that_lies_in_itself_is_a_top():
    """Damage can create cycles of directories, which no treemap can draw; their descendants become tops as well."""
    circle = ((5, 6, "x", "directory", 0), (6, 5, "y", "directory", 0), (5, 7, "z", "directory", 0))
    disk = MapDisk("", "", [_layout("Home", *circle, *HOME)], 0, 1, 1, [_walk(0, (7, 1.0))])
    boxes, _, _ = directories(disk, names=True)
    parents = {box: parent for box, parent, _, _ in boxes}
    assert [parents[f"0:{number}"] for number in (5, 6, 7, 2)] == [ALL] * 4


def test_boxes_hold_what_is_in_them_and_the_first_view_has_several(monkeypatch):
    """A single box in another one is entered; directories without a box of their own share one."""
    rows = ((1, 2, "root", "directory", 0), (2, 16, "Users", "directory", 0), (16, 20, "<a>", "directory", 0))
    rows += ((16, 21, "b", "directory", 0), (2, 22, "c", "directory", 0))
    disk = MapDisk("", "", [_layout("Home", *rows)], 0, 1, 1, [_walk(0, (20, 5.0), (21, 4.0), (22, 0.5), (2, 0.1))])
    (chart,) = directory_charts(disk, names=True)
    (boxes,) = chart["data"]
    assert dict(zip(boxes["ids"], boxes["text"], strict=True)) == {
        "all": "9.60 s", "0:2": "9.60 s", "0:16": "9.00 s", "0:20": "5.00 s", "0:21": "4.00 s", "0:22": "500 ms",
    }  # fmt: skip
    assert sum(boxes["values"]) == pytest.approx(9.6)
    assert boxes["level"] == "0:16"
    assert "&lt;a&gt;" in boxes["labels"]
    assert chart["table"]["rows"][3] == ["<a>", "Users", "5.00 s", "5.00 s"]
    monkeypatch.setattr("layoutscope.report.map.panels.MOST", 1)
    (chart,) = directory_charts(disk, names=True)
    (boxes,) = chart["data"]
    assert dict(zip(boxes["labels"], boxes["text"], strict=True)) == {
        "all": "9.60 s", "/": "5.10 s", "Users": "5.00 s", "&lt;a&gt;": "5.00 s", "2 other directories": "4.50 s",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_a_page_is_made_without_frames(name):
    """Scan and page use only arrays: polars is not loaded."""
    script = (
        "import sys; from layoutscope.api.map import map_page; from layoutscope.api.scan import scan;"
        "map_page([scan(sys.argv[1])]); sys.exit('polars' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, IMAGES / f"{name}-scattered.img.zst"], check=True)
