"""Seek curves from tables and from three published times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.drive.seeks import seek_curve, table_curve, three_point_curve
from tests.unit.drive.lesser import mean_seek_ms, pair_weights
from tests.unit.drive.toys import disk


def test_table_is_interpolated_and_prolonged():
    """Interpolation between points is linear, and the line of the last two is extended."""
    curve = table_curve(np.arange(7.0), np.array([1.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0]))
    assert curve[1:].tolist() == [1.0, 1.5, 2.0, 4.0, 6.0, 8.0]
    # Of the 6 ordered pairs of 3 different cylinders, 4 are neighbours.
    assert pair_weights(3).tolist() == pytest.approx([0, 4 / 6, 2 / 6])


@pytest.mark.parametrize(
    ("shortest", "mean", "longest"),
    [(1.0, 12.0, 21.0), (1.0, 12.0, 20.0), (0.6, 8.0, 18.0), (0.8, 5.4, 10.6), (2.0, 9.0, 23.0)],
)
def test_three_points_are_met(shortest, mean, longest):
    """Shortest and longest are exact, the mean over all pairs is within 1 %."""
    curve = three_point_curve(np.arange(50_000.0), shortest, mean, longest, 49_999)
    assert curve[1] == pytest.approx(shortest)
    assert curve[-1] == pytest.approx(longest)
    curve[0] = 0
    assert mean_seek_ms(curve) == pytest.approx(mean, rel=0.01)


def test_without_a_full_stroke_the_curve_is_a_square_root():
    """Full stroke = shortest + (mean - shortest) x 15/8: 1 + 11 x 1.875 = 21.625 ms."""
    curve = seek_curve(disk(seek_ms=None, track_to_track_ms=1.0, average_seek_ms=12.0), 10_000)
    assert curve[-1] == pytest.approx(21.625)
    assert curve[0] == 0


@pytest.mark.parametrize("changes", [{}, {"seek_ms": None, "track_to_track_ms": 1.0, "average_seek_ms": 12.0}])
def test_a_part_of_a_curve_is_its_beginning(changes):
    """Up to its end, it equals the curve of the whole stroke, for a table and for a fitted curve."""
    profile = disk(**changes)
    part = seek_curve(profile, 10_000, 300)
    assert part == pytest.approx(seek_curve(profile, 10_000)[:300])
    assert len(part) == 300


@settings(max_examples=60)
@given(shortest=st.floats(0.1, 2), mean=st.floats(2, 20), longest=st.floats(20, 40), cylinders=st.integers(2, 5000))
def test_no_curve_falls(shortest, mean, longest, cylinders):
    """A longer seek is never quicker, whatever the datasheet says."""
    curve = three_point_curve(np.arange(float(cylinders)), shortest, mean, longest, cylinders - 1)
    assert (np.diff(curve[1:]) >= 0).all()
