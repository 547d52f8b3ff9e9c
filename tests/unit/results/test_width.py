"""The sentence about the width of a prediction, and its absence where it would be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from layoutscope.drive import load_profile
from layoutscope.drive.profile import list_profiles
from layoutscope.drive.uncertain import LAYOUT, MODEL, VOLUME, Host, Interval, uncertain
from layoutscope.results.explanation import UNKNOWNS, describe_unknown
from layoutscope.results.predict import WORDS, Alternative, DriveCase, advice, bound, ends, width
from layoutscope.results.scan import Prediction


def interval(*shares, of=LAYOUT, high=9.0):
    """Return a range that starts at 3 s."""
    return Interval(of, 3.0, 4.0, 5.0, 6.0, high, shares, 64)


def case(found, **changes):
    """Return a prediction with that range."""
    made = Prediction("disk", "Disk", True, 5.0, 3.0, 9.0, (), 0, 0, 0.0, np.empty(0), interval=found)
    return replace(DriveCase(made, None, (), ()), **changes)


def test_the_ends_are_those_of_the_draws():
    """Half of the draws are between the inner ends, 90 % between the outer ones."""
    said = "half of 64 simulations take 4.00 s to 6.00 s, 90 % of them 3.00 s to 9.00 s"
    assert ends(interval()) == f"same layout, other drives of this type: {said}"
    assert ends(interval(of=VOLUME)) == f"similar volumes: {said}"
    # A prediction without draws has no sentence.
    assert width(case(None)) == ()


def test_the_largest_share_is_named():
    """The largest share of the width, and what settles it."""
    # If the drive was not named, the advice is to name it or measure it.
    first, second = width(case(interval(("drive", 0.7), ("host", 0.2))))
    assert first == ends(interval())
    assert second.startswith("70 % of the uncertainty: which drive it is; name yours with --drive, or measure it")
    # A drive's behaviour is settled by measuring, others by their option; minor unknowns are not named.
    made = case(interval()).prediction
    told = replace(made, largest_unknown="on_arrival", largest_unknown_share=0.6)
    assert describe_unknown(told) == "Unknown: whether the drive buffers whole tracks (layoutscope drives measure)"
    assert describe_unknown(replace(told, largest_unknown="offset")).endswith(" (--start-offset)")
    assert describe_unknown(replace(told, largest_unknown_share=0.2)) == describe_unknown(made) == ""
    assert describe_unknown(replace(told, seconds_low=told.seconds_high)) == ""
    assert max(len(f"  {describe_unknown(replace(told, largest_unknown=name))}") for name in UNKNOWNS) <= 80
    # The volume's place and the computer's costs have options.
    assert "--start-offset" in advice("offset", case(None))
    assert "--host-property" in advice("host", case(None))
    assert "--drive" not in advice("host", case(None)) + advice("offset", case(None))


@pytest.mark.parametrize("drive", list_profiles())
def test_whatever_is_drawn_of_a_drive_has_words(drive):
    """Each input that may be the largest unknown has words."""
    unknown = uncertain(load_profile(drive), Host("macos"), knows_offset=False)
    assert {name for name, (group, _) in unknown.columns().items() if group != MODEL} <= set(UNKNOWNS)


@pytest.mark.parametrize("share", [0.995, 1.0, 1.02])
def test_no_share_is_more_than_the_whole(share):
    """An estimate from 64 draws may exceed one, which would make no sense to a reader."""
    assert width(case(interval(("start", share))))[1].startswith("all of the uncertainty: ")


def test_named_drives_and_placements():
    """Placement is named, and what is known is not asked for."""
    # Both ranges and the shares of node order and place are given, except for a place where nothing rotates.
    found = interval(("placement", 0.6), ("offset", 0.1), ("drive", 0.2), of=VOLUME, high=30.0)
    said = width(case(interval(("drive", 0.7)), volume=found, halves_s=(4.0, 5.0)))
    assert said[0].startswith("same layout, other drives of this type: ")
    assert said[2].startswith("similar volumes: ")
    assert said[3] == "60 % of the uncertainty: how the nodes were placed"
    placement = "placement, of the uncertainty of similar volumes"
    assert said[4] == f"{placement}: where the nodes are, 60 %; where on the drive, 10 %"
    assert said[5].endswith("takes 4.00 s, on the inner half 5.00 s (+25%)")
    still = case(interval(("drive", 0.7)), volume=found)
    flash = replace(still, prediction=replace(still.prediction, rotates=False))
    assert width(flash)[-1] == "placement, of the uncertainty of similar volumes: where the nodes are, 60 %"
    assert not any("placement" in sentence or "half of the drive" in sentence for sentence in width(case(found)))
    # Then only measuring is advised; for a measured drive, nothing.
    found = interval(("drive", 0.7))
    named = width(case(found, drive_was_named=True))[1]
    assert "--drive" not in named
    assert "measure it" in named
    measured = width(case(found, drive_was_named=True, is_measured=True))[1]
    assert measured == "70 % of the uncertainty: which drive it is"
    assert "name" not in width(case(found, is_measured=True))[1]


@pytest.mark.parametrize(
    "found",
    [interval(("drive", 0.29)), interval(), interval(("drive", 0.9), high=3.05)],
    ids=["small", "none", "narrow"],
)
def test_nothing_is_named_that_contributes_little_or_to_little(found):
    """Below three tenths, without shares, or with nearly equal ends, only the ends are given."""
    assert len(width(case(found))) == 1


@pytest.mark.parametrize("group", ["model", "start", "placement"])
def test_what_nobody_can_change_has_no_advice(group):
    """The model's error, the angle of the disk and the nodes' places cannot be changed."""
    assert advice(group, case(None)) == ""
    assert width(case(interval((group, 0.8))))[1] == f"80 % of the uncertainty: {WORDS[group]}"


def test_the_best_of_all_layouts_is_called_what_it_is():
    """The sentence has the number of tried layouts; for one there is no best, and it is never called a bound."""
    best = Alternative("walk-order", "they lie as they are read", 1.5)
    said = bound(case(None, best=best, tried=4))
    assert said == "the best of 4 layouts of its nodes that were tried takes 1.50 s: they lie as they are read"
    assert "bound" not in said
    assert bound(case(None, best=best, tried=1)) == ""
    assert bound(case(None)) == ""
