"""Figures for notebooks, and pictures."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import BROWSERS, write_picture
from layoutscope.api.scan import scan
from layoutscope.errors import UnsupportedError, UsageError
from layoutscope.zstd import zstd

IMAGE = Path(__file__).resolve().parents[4] / "fixtures" / "images" / "hfsplus-scattered.img.zst"


@pytest.fixture(scope="module")
def result():
    return scan(IMAGE)


def test_notebook_gets_every_panel(result):
    """One call gives the figures, each with something drawn; several scans stand side by side."""
    drawn = result.figures(result)
    assert list(drawn) == ["address", "walk", "costs", "overview"]
    assert all(figure.data for figure in drawn.values())
    walked = sum(len(trace.x) for trace in drawn["walk"].data)
    assert walked == 2 * len(result.volumes[0].walk.trace)


def test_picture_says_first_what_matters(result):
    """The page's sentence stands on top, the scale under each title, and each class is named once."""
    overview = result.figures()["overview"]
    assert "listing all files takes" in overview.layout.title.text.replace("<br>", " ")
    assert "; a cell is " in overview.layout.annotations[0].text
    named = [trace.name for trace in overview.data if trace.showlegend]
    assert len(named) == len(set(named))
    assert "catalog B-tree" in named
    assert "catalog" not in named


def test_volumes_and_devices_of_a_set_are_told_apart(tmp_path):
    """Each bar is one walk's, told once of the set; each device has the reads that go to it."""
    write(SCENARIOS["fusion"], tmp_path / "main.img", tmp_path / "second.img")
    found = scan(tmp_path / "main.img", second=tmp_path / "second.img")
    drawn = found.figures()
    bars = drawn["costs"].data[0].y
    assert len(bars) == len(set(bars)) == sum(len(volume.predictions) for volume in found.parts)
    assert any(bar.endswith("Slow, 2.5-inch disk (5400 rpm)") for bar in bars)
    walk = max(
        (volume for volume in found.parts if volume.predictions), key=lambda one: one.predictions[0].seconds
    ).walk
    reads = {}
    for trace in drawn["walk"].data:
        reads[trace.xaxis] = reads.get(trace.xaxis, 0) + len(trace.x)
    assert sorted(reads.values()) == sorted(n for n in np.bincount(walk.trace.device, minlength=2).tolist() if n)


def test_damage_among_sound_nodes_is_marked(tmp_path):
    """One node of many in a cell is marked over the others; on the sound image nothing is."""
    packed = IMAGE.with_name("apfs-scattered.img.zst")
    sound = scan(packed)
    image = tmp_path / "damaged.img"
    image.write_bytes(zstd.decompress(packed.read_bytes()))
    nodes = next(volume.layout for volume in sound.parts if volume.walk is not None).nodes
    leaf = nodes.filter((nodes["tree"] == "fs") & (nodes["kind"] == "leaf")).row(20, named=True)
    with image.open("r+b") as file:
        file.seek(leaf["image_offset"])
        file.write(bytes(leaf["size_bytes"]))

    def damage(result):
        drawn = result.figures()["address"].data
        return [trace for trace in drawn if trace.name == "damaged metadata block"]

    assert damage(sound) == []
    assert len(damage(scan(image))) == 1


def test_picture_needs_a_known_ending(result, tmp_path):
    """A picture is PNG or SVG."""
    with pytest.raises(UsageError):
        write_picture(result, tmp_path / "map.gif")


def test_missing_browser_is_one_clear_line(result, tmp_path, monkeypatch):
    """Without a browser the message says what to install, and nothing is written."""
    monkeypatch.setitem(write_picture.__globals__, "BROWSERS", ("no-such-browser",))
    with pytest.raises(UnsupportedError, match="install Chromium"):
        write_picture(result, tmp_path / "map.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.images
@pytest.mark.filterwarnings("ignore")  # kaleido's own
def test_picture_is_written(result, tmp_path):
    """An SVG of the overview is drawn by Chromium."""
    pytest.importorskip("kaleido", reason="the extra 'png' is not installed")
    if not any(shutil.which(name) for name in BROWSERS):
        pytest.skip("Chromium is not installed")
    write_picture(result, tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_bytes().startswith(b"<svg")
