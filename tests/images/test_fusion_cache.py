"""The write-back cache of a Fusion set: the newest bytes of dirty runs are on the main device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.structures import space
from fixtures.apfs.writer import write
from layoutscope.filesystems.apfs.blocks import Blocks, DirtyRuns

BLOCK = 4096
FAR = 500
"""First block, on the second device, of the four-block extent in the middle of the file "far"."""


def written(folder, *runs, flags=space.FUSION_MT_DIRTY) -> tuple[list, int]:
    """Write a set that caches some runs; return its images and the cache's first block."""
    plan = SCENARIOS["fusion"]
    plan = replace(plan, fusion=replace(plan.fusion, cached_runs=runs))
    paths = [folder / "main.img", folder / "second.img"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(space, "FUSION_MT_DIRTY", flags)
        write(plan, *paths)
    layout = layoutscope.scan(paths[0], second=paths[1], drives=()).parts[0].layout
    (cache,) = layout.regions.filter(layout.regions["type"] == "fusion-write-cache")["image_offset"].to_list()
    return paths, cache // BLOCK


def pieces_of_far(paths):
    """Return the rows of the file whose middle four blocks are on the second device."""
    layout = layoutscope.scan(paths[0], second=paths[1], drives=()).parts[1].layout
    (number,) = layout.entries.filter(layout.entries["name"] == "far")["file_id"].to_list()
    rows = layout.extents.filter(layout.extents["file_id"] == number)
    return rows.select("device", "image_offset", "logical_offset", "length_bytes").rows()


@pytest.mark.parametrize(
    ("run", "middle"),
    [
        # (cache block, block on the second device, blocks) -> (device, block, block in the file, blocks); the file has
        # two blocks on the main device before these four.
        ((0, 600, 4), [(1, FAR, 2, 4)]),
        ((7, FAR, 4), [(0, 7, 2, 4)]),
        ((7, FAR - 3, 20), [(0, 10, 2, 4)]),
        ((7, FAR + 1, 2), [(1, FAR, 2, 1), (0, 7, 3, 2), (1, FAR + 3, 5, 1)]),
        ((7, FAR - 1, 2), [(0, 8, 2, 1), (1, FAR + 1, 3, 3)]),
        ((7, FAR + 3, 9), [(1, FAR, 2, 3), (0, 7, 5, 1)]),
    ],
)
def test_extents_follow_dirty_runs(tmp_path, run, middle):
    """An extent is split where a dirty run begins and ends: that piece is in the cache on the main device."""
    paths, cache = written(tmp_path, run)
    base = {0: cache, 1: 0}
    wanted = [
        (device, (base[device] + block) * BLOCK, at * BLOCK, count * BLOCK) for device, block, at, count in middle
    ]
    first, *found, last = pieces_of_far(paths)
    assert found == wanted
    assert (first[0], first[2:]) == (0, (0, 2 * BLOCK))
    assert (last[0], last[2:]) == (0, (6 * BLOCK, BLOCK))


def test_two_runs_that_touch_are_two_pieces(tmp_path):
    """The cache stores adjacent runs of the second device at separate places."""
    paths, cache = written(tmp_path, (20, FAR, 2), (3, FAR + 2, 2))
    _, *found, _ = pieces_of_far(paths)
    assert [row[:2] for row in found] == [(0, (cache + 20) * BLOCK), (0, (cache + 3) * BLOCK)]


def test_clean_runs_are_the_same_on_both_devices(tmp_path):
    """Blocks that are not dirty keep their address."""
    paths, _ = written(tmp_path, (7, FAR, 4), flags=0)
    assert pieces_of_far(paths)[1][:2] == (1, FAR * BLOCK)


def test_nodes_are_read_where_they_are_newest(tmp_path):
    """A dirty node of the second device is read from the cache and shown there; its old version is not shown."""
    paths, _ = written(tmp_path, (0, 600, 4))
    whole = layoutscope.scan(paths[0], second=paths[1], drives=()).parts[2].layout
    leaves = whole.nodes.filter((whole.nodes["tree"] == "fs") & (whole.nodes["level"] == 0)).sort("key_rank")
    home = leaves["image_offset"][1] // BLOCK
    assert leaves["device"][1] == 1
    folder = tmp_path / "cached"
    folder.mkdir()
    paths, cache = written(folder, (5, home, 1))
    data = bytearray(paths[1].read_bytes())
    node = bytes(data[home * BLOCK : (home + 1) * BLOCK])
    data[home * BLOCK : (home + 1) * BLOCK] = bytes(BLOCK)
    paths[1].write_bytes(data)
    with paths[0].open("r+b") as file:
        file.seek((cache + 5) * BLOCK)
        file.write(node)
    result = layoutscope.scan(paths[0], second=paths[1], drives=())
    found = result.parts[2].layout
    assert result.exit_code == 0
    assert found.entries.equals(whole.entries)
    moved = found.nodes.filter(found.nodes["node_id"] == leaves["node_id"][1], found.nodes["tree"] == "fs")
    assert moved.select("device", "image_offset").rows() == [(0, (cache + 5) * BLOCK)]
    check = layoutscope.check(paths[0], second=paths[1])
    assert [item.code for item in check.findings if item.level == "error"] == []


def test_dirty_runs_find_blocks():
    """Two runs of the second device, blocks 10 to 12 and 20, are in the cache at 100 and 200."""
    mark = Blocks((), (), BLOCK).tier2_mark
    start, stop, cached = [mark + 10, mark + 20], [mark + 13, mark + 21], [100, 200]
    runs = DirtyRuns(*(np.array(values, np.uint64) for values in (start, stop, cached)))
    wanted = np.array([10, mark + 9, mark + 10, mark + 12, mark + 13, mark + 20, mark + 21], np.uint64)
    assert runs.newest(wanted).tolist() == [10, mark + 9, 100, 102, mark + 13, 200, mark + 21]
