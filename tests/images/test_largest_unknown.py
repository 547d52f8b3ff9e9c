"""The unknown that a prediction names affects its time more than any other."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import layoutscope
from layoutscope.drive import load_profile, simulate
from layoutscope.drive.simulation import draw_seconds
from layoutscope.drive.uncertain import MODEL, OFFSET, Host, uncertain
from layoutscope.results.explanation import UNKNOWNS

MAC = Host("macos")
CASES = [
    ("apfs-20000-c00", "generic-7200", "on_arrival"),
    ("apfs-20000-c20", "st2000dm006", "on_arrival"),
    ("hfsplus-20000-c20", "wd-mybook-duo-disk", "on_arrival"),
    ("hfsplus-20000-c00", "wd-mybook-duo-2tb", "mirror"),
    ("apfs-20000-c20", "sata-ssd", "host"),
]


def fixed(unknown, name, number):
    """Return the unknown inputs with one fixed to the value of a draw."""
    found = {**unknown.factor, **unknown.choice, OFFSET: unknown.offset}[name]
    known = {name: np.full_like(found, found[number])}
    if name == OFFSET:
        return replace(unknown, offset=known[name])
    if name in unknown.factor:
        return replace(unknown, factor={**unknown.factor, **known})
    return replace(unknown, choice={**unknown.choice, **known})


def left_variance(trace, profile, unknown, name, values):
    """Return the mean variance of the logarithm of time that remains when an input is known."""
    kinds, counts = np.unique(values, return_counts=True)
    if len(kinds) > 6:
        numbers, counts = np.argsort(values)[[10, 32, 53]], np.ones(3)
    else:
        numbers = [int(np.flatnonzero(values == kind)[0]) for kind in kinds]
    left = [np.log(draw_seconds(trace, profile, fixed(unknown, name, k)).seconds).var() for k in numbers]
    return float(np.average(left, weights=counts))


@pytest.mark.full
@pytest.mark.parametrize(("image", "drive", "name"), CASES)
def test_the_named_unknown_moves_the_time_most(reference_image, image, drive, name):
    """Knowing the named input leaves less spread than knowing any other."""
    trace = layoutscope.trace(reference_image(f"aged/{image}.img"), host="macos")
    profile = load_profile(drive)
    found = simulate(trace, profile, MAC, knows_offset=False)
    assert (found.largest_unknown, found.largest_unknown in UNKNOWNS) == (name, True)
    unknown = uncertain(profile, MAC, knows_offset=False)
    left = {
        each: left_variance(trace, profile, unknown, each, values)
        for each, (group, values) in unknown.columns().items()
        if group != MODEL
    }
    assert min(left, key=lambda each: left[each]) == name
    assert left[name] < np.log(found.draws_s).var()
