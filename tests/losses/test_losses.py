"""A hundred mutants of images from our writers, the same in every run: every loss of entries shows.

The fuzzer (`tests.fuzz`) tests whether a reader survives. These tests ask whether it reports the truth: lost entries
must give exit code 3 and a coverage below 1.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import pytest

from tests.losses.damage import KINDS, Damage, Reading, before_the_last, damaged, damages, read
from tests.losses.victim import pages_of

COUNT = 120
SEED = 13
WHOLE_SCANS = 8
"""One mutant in this many gets a full scan; the others are only read."""


class Judged(NamedTuple):
    """A mutant, with its scans without and with a sweep."""

    image: str
    number: int
    damages: tuple[Damage, ...]
    plain: Reading
    swept: Reading


@pytest.fixture(scope="module")
def victims(sounds, victim):
    return [victim(name) for name in sounds]


@pytest.fixture(scope="module")
def judged(victims):
    """Scan each mutant without and with a sweep."""
    found = []
    for number in range(COUNT):
        rng, victim = random.Random(f"{SEED} {number}"), victims[number % len(victims)]  # noqa: S311
        done, is_whole = damages(victim, rng), number // len(victims) % WHOLE_SCANS == 0
        with damaged(victim, done):
            readings = [read(victim, sweep=sweep, is_whole=is_whole)[0] for sweep in (False, True)]
        found.append(Judged(victim.name, number, done, *readings))
    return found


@pytest.mark.full
def test_nothing_is_lost_in_silence(judged):
    """Lost entries give exit code 3 and a coverage below 1 or unknown, whatever was damaged."""
    silent = [item for item in judged if item.plain.is_silent or item.swept.is_silent]
    assert [(item.image, item.number, item.damages) for item in silent] == []


@pytest.mark.full
def test_every_scan_ends_as_it_should(judged):
    """Each scan ends with a result or with an error of the package."""
    failures = [reading.failure for item in judged for reading in (item.plain, item.swept)]
    assert set(failures) == {""}


@pytest.mark.full
def test_damage_is_done_and_costs_something(judged):
    """Guards the other tests: every kind of damage is drawn, entries are lost, and a sweep finds more of them."""
    assert {done.kind for item in judged for done in item.damages} == set(KINDS)
    assert sum(item.plain.lost > 0 for item in judged) > COUNT // 10
    assert sum(item.plain.lost for item in judged) > sum(item.swept.lost for item in judged) > 0


def test_copies_are_made_sound_again(victims):
    """After each mutant the working copy is restored."""
    for victim in victims:
        before = pages_of(victim.path)
        with damaged(victim, damages(victim, random.Random(5), 8)):  # noqa: S311
            assert pages_of(victim.path) != before
        assert pages_of(victim.path) == before
        assert read(victim, sweep=False)[0].lost == 0


@pytest.mark.parametrize(
    ("reading", "is_silent"),
    [
        (Reading(3, 0.9, 5, 0), False),
        (Reading(3, None, 5, 0), False),
        (Reading(3, 1.0, 5, 0), True),
        (Reading(0, 0.9, 5, 0), True),
        (Reading(0, 1.0, 0, 0), False),
        (Reading(1, None, 5, 0), False),
    ],
)
def test_silence_is_told(reading, is_silent):
    """Silence is judged by exit code and coverage; an image that cannot be opened raises an error."""
    assert reading.is_silent == is_silent


@pytest.mark.parametrize(("exit_code", "is_told"), [(0, False), (3, True)])
def test_other_names_are_losses_unless_told(victims, monkeypatch, exit_code, is_told):
    """A renamed entry counts as lost where the exit code reports no problem."""
    victim = next(item for item in victims if item.name == "written-hfsplus-everything")
    parent, number, name = min(victim.rows)
    rows = victim.rows - Counter({(parent, number, name): 1}) + Counter({(parent, number, "other"): 1})
    monkeypatch.setattr("tests.losses.damage.rows_of", lambda _: rows)
    monkeypatch.setattr("layoutscope.results.scan.ScanResult.exit_code", exit_code)
    reading, _ = read(victim, sweep=False)
    assert (reading.renamed, reading.lost, reading.extra) == (1, 0 if is_told else 1, 0)
    assert reading.is_silent != is_told


def test_a_leaf_before_its_last_record_is_shorter_by_one(victims):
    """The older version of an HFS+ leaf has one entry less, and the tree stays consistent."""
    victim = next(item for item in victims if item.name == "written-hfsplus-deep")
    leaf = next(spot for spot in victim.spots if spot.structure == "catalog leaf")
    old = victim.read(leaf.at, leaf.length)
    with damaged(victim, (Damage(leaf, "older", False, leaf.at, before_the_last(old)),)):
        reading, _ = read(victim, sweep=False)
    assert (reading.lost, reading.exit_code) == (1, 3)
