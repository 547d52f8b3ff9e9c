"""Locations of sectors: zones, serpentine bands, datasheets, sector maps."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.drive import load_profile
from layoutscope.drive.geometry import build_surface, datasheet_zones, place_tracks, read_listed_zones
from layoutscope.drive.hdd import ANGLE, CYLINDER, HEAD, LBN, TRACK_BEGIN, TRACK_END, TRACK_SECTORS, TURN
from tests.unit.drive.lesser import edge_rates
from tests.unit.drive.toys import disk
from tests.unit.native.reference.hdd import run_at


def test_tracks_fill_cylinders_or_serpentine_bands():
    """Tracks go down the cylinder, or over bands in serpentines."""
    # Without bands track 5 of a drive with two heads is the second of cylinder 2.
    cylinder, head = place_tracks(np.arange(6), 2, 0)
    assert cylinder.tolist() == [0, 0, 1, 1, 2, 2]
    assert head.tolist() == [0, 1, 0, 1, 0, 1]
    # Head 0 goes in over a band of three cylinders, head 1 comes back; the next band begins with head 1.
    cylinder, head = place_tracks(np.arange(12), 2, 3)
    assert cylinder.tolist() == [0, 1, 2, 2, 1, 0, 3, 4, 5, 5, 4, 3]
    assert head.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    # Its maker's serpentine bands of 65 cylinders: 1200 sectors a track, head 0 inwards, head 1 back.
    runs = build_surface(load_profile("cheetah15k5"), 0, 1).runs
    track = runs[np.unique(runs[:-1, TRACK_BEGIN], return_index=True)[1]]
    assert track[:3, LBN].tolist() == [0, 1200, 2400]
    assert track[:66, HEAD].tolist() == [0] * 65 + [1]
    assert track[63:67, CYLINDER].tolist() == [63, 64, 64, 63]


def test_tracks_of_zones():
    """Tracks of 100 sectors begin 0.2 turns later each; only requested tracks are laid out."""
    runs = build_surface(disk(look_ahead="none"), 250, 310).runs
    assert runs[:-1, LBN].tolist() == [200, 300, 400, 500]
    assert runs[:-1, CYLINDER].tolist() == [2, 3, 4, 5]
    turns = (runs[:-1, ANGLE] / TURN + 0.5) % 1 - 0.5
    assert turns.tolist() == pytest.approx([0.4, -0.4, -0.2, 0.0], abs=1e-6)
    assert runs[-1, LBN] == 600
    # The second zone has its own cylinders and sectors per track.
    runs = build_surface(disk(zones=[[0, 0, 100], [200, 7, 50]], look_ahead="none"), 0, 300).runs
    assert runs[:5, LBN].tolist() == [0, 100, 200, 250, 300]
    assert runs[:5, CYLINDER].tolist() == [0, 1, 7, 8, 9]
    assert runs[:5, TRACK_SECTORS].tolist() == [100, 100, 50, 50, 50]
    # A skew of 25 of 100 sectors is a quarter turn, 25 of 50 is half a turn.
    zones = read_listed_zones(disk(zones=[[0, 0, 100, 25, 30], [200, 2, 50, 25, 10]]))
    assert zones.head_skew.tolist() == [0.25, 0.5]
    assert zones.cylinder_skew.tolist() == [0.3, 0.2]


@pytest.mark.parametrize("lbn", [0, 99, 100, 250, 12_345, 99_999])
def test_a_sector_is_found_from_anywhere(lbn):
    """The run of a sector does not depend on where the search begins."""
    surface = build_surface(disk(), 0, 100_000)
    assert {run_at(surface, lbn, near) for near in (0, 1, 500, 998)} == {lbn // 100}


@pytest.mark.parametrize("name", ["generic-5400-3.5", "generic-5400-2.5", "generic-7200", "st2000dm006"])
def test_a_datasheet_is_given_back(name):
    """Zones made from two rates have these rates at the edges, within one of 24 zones, and the capacity."""
    profile = load_profile(name)
    zones = datasheet_zones(profile)
    outer, inner = edge_rates(zones, profile.turn_ms)
    step = (profile.number("outer_mb_s") - profile.number("inner_mb_s")) / 24
    assert outer == pytest.approx(profile.number("outer_mb_s"), abs=step)
    assert inner == pytest.approx(profile.number("inner_mb_s"), abs=step)
    cylinders = np.diff(zones.first_cylinder)[0]
    held = int(zones.sectors.sum()) * cylinders * zones.heads * 512
    assert held == pytest.approx(profile.capacity_bytes, rel=0.001)
    assert held >= profile.capacity_bytes


@pytest.mark.parametrize(("name", "sectors"), [("cheetah15k5", 286749487), ("cheetah9lp", 17783240)])
def test_sector_maps_cover_the_drive(name, sectors):
    """Every addressable sector has exactly one place, and each run is within its track."""
    runs = build_surface(load_profile(name), 0, 1).runs
    assert runs[0, LBN] == 0
    assert sectors <= runs[-1, LBN] < sectors * 1.01
    assert (np.diff(runs[:, LBN]) > 0).all()
    assert (runs[:-1, TRACK_BEGIN] <= runs[:-1, LBN]).all()
    assert (runs[:-1, TRACK_END] >= runs[1:, LBN]).all()
    assert (runs[:-1, LBN] - runs[:-1, TRACK_BEGIN] < runs[:-1, TRACK_SECTORS]).all()
