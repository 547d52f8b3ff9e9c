"""Impossible drive figures are refused by name."""

from __future__ import annotations

import pytest

from layoutscope.drive import list_profiles, load_profile
from layoutscope.drive.profile import check_figures
from layoutscope.errors import ImageError, UsageError
from tests.unit.drive.toys import read_trace

SOUND = {"capacity_bytes": 10**9, "rpm": 7200, "latency_bytes": [512, 4096], "latency_us": [80, 90], "join": "never",
         "zones": [[0, 0, 100], [1000, 10, 90]]}  # fmt: skip


def test_sound_figures_pass():
    """All profiles in the package have figures within the limits."""
    check_figures("mine", SOUND)
    assert [load_profile(name).name for name in list_profiles()] == list_profiles()


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("capacity_bytes", float("nan")),
        ("capacity_bytes", 10**30),
        ("rpm", 0),
        ("interface_mb_s", 1e-320),
        ("rpm", True),
        ("rpm", "7200"),
        ("join", "always"),
        ("latency_us", [80]),
        ("latency_bytes", [4096, 512]),
        ("latency_bytes", 512),
        ("zones", []),
        ("zones", [[0, 0, 0], [1000, 10, 90]]),
        ("zones", [[0, 0, 100], [1000, 10]]),
        ("zones", [[5, 0, 100], [1000, 10, 90]]),
    ],
)
def test_impossible_figure_is_named(figure, value):
    """The message says which figure it is."""
    with pytest.raises(UsageError, match=figure):
        check_figures("mine", SOUND | {figure: value})


@pytest.mark.parametrize(
    "text",
    [
        "image_offset,length_bytes\n-5,4096\n",
        "image_offset,length_bytes\n0,0\n",
        "image_offset,length_bytes\n0,99999999999999\n",
        "image_offset,length_bytes,think_us\n0,4096,-1\n",
        "image_offset,length_bytes\nzero,4096\n",
    ],
)
def test_reads_that_no_drive_could_serve_are_refused(text, tmp_path):
    """Negative, empty, endless and unreadable reads give an error of the trace."""
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ImageError):
        read_trace(path)


def test_compressed_trace_cannot_fill_the_memory(tmp_path, monkeypatch):
    """A trace that decompresses to more than the limit is refused."""
    from layoutscope.drive import profile
    from layoutscope.zstd import zstd

    monkeypatch.setattr(profile, "MAX_UNPACKED_BYTES", 1000)
    path = tmp_path / "bomb.trace.zst"
    path.write_bytes(zstd.compress(bytes(1008)))
    with pytest.raises(ImageError, match="more than 1,000 bytes"):
        read_trace(path)
