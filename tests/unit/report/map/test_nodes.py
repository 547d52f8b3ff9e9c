"""Node data on the page: what reading the nodes costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from layoutscope.access.trace import AccessTrace
from layoutscope.api.scan import scan
from layoutscope.report.map.panels import node_seconds
from layoutscope.report.map.pyramid import from_layouts
from layoutscope.report.map.scans import MapWalk, disks
from tests.unit.report.map.test_segments import segments

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"


def walk(*reads: tuple[int, int, float], drive: str = "slow") -> MapWalk:
    """Make a walk from offset, length and service time of each read."""
    offset, length, service = (np.array(column) for column in zip(*reads, strict=True))
    nothing = np.zeros(len(reads), np.uint8)
    trace = AccessTrace(nothing, offset, length, nothing, nothing, nothing, nothing, np.zeros(len(reads)))
    return MapWalk("fts", drive, trace, service, {})


def test_a_read_is_charged_to_the_nodes_that_it_brings_in_by_their_bytes():
    """A read of 8 KiB covers a node of 4 KiB, a gap of 2 and half a node: two thirds and one third of 6 ms."""
    nodes = segments((0, 4096, 0, 1), (6144, 4096, 0, 2), (65536, 4096, 0, 3), (90000, 4096, 1, -1))
    place = np.array([0, 6144, 65536, -1])
    charged = node_seconds(place, nodes, [walk((0, 8192, 0.006), (6144, 512, 0.001), (90000, 4096, 0.5))])
    assert charged.tolist() == pytest.approx([0.004, 0.003, 0.0, 0.0])
    # Volumes of a container have one row each for a shared node; only walks of the first drive are added.
    walks = [walk((0, 4096, 0.5)), walk((0, 4096, 0.25)), walk((0, 4096, 9.0), drive="quick")]
    assert node_seconds(np.array([0, 0]), segments((0, 4096, 0, 1)), walks).tolist() == [0.75, 0.75]
    assert node_seconds(np.array([0]), segments((0, 4096, 0, 1)), []).tolist() == [0.0]


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_what_nodes_cost_is_what_the_walk_spends_on_them(name):
    """All nodes together cost the time of the reads that touch a node; in these images nearly every read does."""
    (disk,) = disks([scan(FIXTURES / f"{name}-scattered.img.zst")])
    found = from_layouts(disk.layouts)
    place = pl.concat([each.nodes for each in disk.layouts], how="vertical_relaxed")["image_offset"]
    charged = node_seconds(place.to_numpy(), found, disk.walks)
    own = {int(at): seconds for at, seconds in zip(place, charged, strict=True)}
    first = disk.walks[0]
    nodes = found.take(np.flatnonzero(found.owner > 0))
    begin, end = first.trace.image_offset, first.trace.image_offset + first.trace.length_bytes
    touched = [
        bool(((nodes.start < e) & (nodes.start + nodes.length > b)).any()) for b, e in zip(begin, end, strict=True)
    ]
    assert np.mean(touched) > 0.9
    assert sum(own.values()) == pytest.approx(float(first.service_s[touched].sum()))
