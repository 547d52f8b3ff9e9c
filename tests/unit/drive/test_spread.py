"""Uncertainty of a drive's figures."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.drive.profile import Spread, parse_profile, profile_text
from layoutscope.errors import UsageError
from tests.unit.drive.toys import disk

KNOWN = Spread(("rpm", "seek_ms[1]"), ((0.0001, 0.00006), (0.00006, 0.0009)))
"""The speed to 1 %, the longest seek to 3 %, correlated by 0.2."""


def test_it_is_written_as_it_is_read(tmp_path):
    """The table is in the profile's text."""
    measured = replace(disk(), spread=KNOWN, folder=tmp_path)
    assert parse_profile(profile_text(measured), name="toy", folder=tmp_path) == measured


def test_drives_are_drawn():
    """The logarithms of drawn figures vary as specified; with zeros the figures stay, and no other figure changes."""
    profile = replace(disk(), spread=KNOWN)
    assert profile.drawn(np.zeros(2)).number("rpm") == 6000
    draws = [profile.drawn(normal) for normal in np.random.default_rng(1).standard_normal((4000, 2))]
    logs = np.log([[drawn.number("rpm"), drawn.numbers("seek_ms")[1]] for drawn in draws])
    assert np.cov(logs.T) == pytest.approx(np.array(KNOWN.covariance), rel=0.1)
    assert {drawn.numbers("seek_ms")[0] for drawn in draws} == {1.0}


@pytest.mark.parametrize(
    "table",
    [
        'figures = ["rpm"]\ncovariance = [[1, 2]]',
        'figures = ["rpm"]\ncovariance = [[-1]]',
        'figures = ["rpm", "rpm"]\ncovariance = [[1, 0], [0, 1]]',
        'figures = ["rpm", "heads"]\ncovariance = [[1, 0.5], [0, 1]]',
        'figures = ["seek_ms[2]"]\ncovariance = [[0]]',
        'figures = ["seek_ms"]\ncovariance = [[0]]',
        'figures = ["colour"]\ncovariance = [[0]]',
        "figures = [3]\ncovariance = [[0]]",
        "figures = []\ncovariance = []",
    ],
)
def test_what_is_no_covariance_is_refused(table, tmp_path):
    """Asymmetric, negative, with a figure twice, and with figures that do not exist."""
    with pytest.raises(UsageError):
        parse_profile(profile_text(disk()) + "\n[spread]\n" + table, name="toy", folder=tmp_path)
