"""Figures for notebooks, and pictures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import layoutscope
from layoutscope.api.map import BROWSERS, write_picture
from layoutscope.api.scan import scan
from layoutscope.errors import UnsupportedError, UsageError

IMAGE = Path(__file__).resolve().parents[4] / "fixtures" / "images" / "hfsplus-scattered.img.zst"


@pytest.fixture(scope="module")
def result():
    return scan(IMAGE)


def test_notebook_gets_every_panel(result):
    """One call gives the figures, each with something drawn; several scans stand side by side."""
    drawn = layoutscope.layout_map([result, result])
    assert list(drawn) == ["address", "walk", "costs", "overview"]
    assert all(figure.data for figure in drawn.values())
    walked = sum(len(trace.x) for trace in drawn["walk"].data)
    assert walked == 2 * len(result.volumes[0].walk.trace)


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
