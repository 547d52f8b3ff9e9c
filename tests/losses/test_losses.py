"""Short form of the campaign: a few hundred mutants of images from our writers, the same in every run."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.losses.campaign import Campaign, Reading, damaged, read
from tests.losses.damage import KINDS, Damage, before_the_last, damages
from tests.losses.figures import BEGIN, END, by_structure, figures, page, table
from tests.losses.images import written_images
from tests.losses.victim import pages_of

COUNT = 120
SEED = 13


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses")
    work = folder / "work"
    work.mkdir()
    return Campaign(written_images(folder), work, SEED)


@pytest.fixture(scope="module")
def judged(campaign):
    return [campaign.judge(number) for number in range(COUNT)]


@pytest.mark.full
def test_nothing_is_lost_in_silence(judged):
    """Lost entries give exit code 3 and a coverage below 1 or unknown, whatever was damaged."""
    silent = [item for item in judged if item.plain.is_silent or item.swept.is_silent]
    assert [(item.image, item.number, item.damages) for item in silent] == []


def test_every_scan_ends_as_it_should(judged):
    """Each scan ends with a result or with an error of the package."""
    failures = [reading.failure for item in judged for reading in (item.plain, item.swept)]
    assert set(failures) == {""}


def test_damage_is_done_and_costs_something(judged):
    """Guards the other tests: every kind of damage is drawn, and entries are lost."""
    assert {done.kind for item in judged for done in item.damages} == set(KINDS)
    assert sum(item.plain.lost > 0 for item in judged) > COUNT // 10
    assert figures(judged).kept < figures(judged).kept_swept < 1


def test_copies_are_made_sound_again(campaign):
    """After each mutant the working copy is restored."""
    for victim in campaign.victims:
        before = pages_of(victim.path)
        with damaged(victim, damages(victim, random.Random(5), 8)):  # noqa: S311
            assert pages_of(victim.path) != before
        assert pages_of(victim.path) == before
        assert read(victim, sweep=False)[0].lost == 0


@pytest.mark.parametrize(
    ("reading", "is_silent"),
    [
        (Reading(3, 0.9, 5, 0, 0), False),
        (Reading(3, None, 5, 0, 0), False),
        (Reading(3, 1.0, 5, 0, 0), True),
        (Reading(0, 0.9, 5, 0, 0), True),
        (Reading(0, 1.0, 0, 0, 0), False),
        (Reading(1, None, 5, 0, 0), False),
    ],
)
def test_silence_is_told(reading, is_silent):
    """Silence is judged by exit code and coverage; an image that cannot be opened raises an error."""
    assert reading.is_silent == is_silent


@pytest.mark.parametrize(("exit_code", "is_told"), [(0, False), (3, True)])
def test_other_names_are_losses_unless_told(campaign, monkeypatch, exit_code, is_told):
    """A renamed entry counts as lost where the exit code reports no problem."""
    victim = next(item for item in campaign.victims if item.name == "written-hfsplus-everything")
    parent, number, name = min(victim.rows)
    rows = victim.rows - Counter({(parent, number, name): 1}) + Counter({(parent, number, "other"): 1})
    monkeypatch.setattr("tests.losses.campaign.rows_of", lambda _: rows)
    monkeypatch.setattr("layoutscope.results.scan.ScanResult.exit_code", exit_code)
    reading, _ = read(victim, sweep=False)
    assert (reading.renamed, reading.lost, reading.extra) == (1, 0 if is_told else 1, 0)
    assert reading.is_silent != is_told


def test_a_leaf_before_its_last_record_is_shorter_by_one(campaign):
    """The older version of an HFS+ leaf has one entry less, and the tree stays consistent."""
    victim = next(item for item in campaign.victims if item.name == "written-hfsplus-deep")
    leaf = next(spot for spot in victim.spots if spot.structure == "catalog leaf")
    old = victim.read(leaf.at, leaf.length)
    with damaged(victim, (Damage(leaf, "older", False, leaf.at, before_the_last(old)),)):
        reading, _ = read(victim, sweep=False)
    assert (reading.lost, reading.exit_code) == (1, 3)


def test_figures_sum_up(judged):
    """Mutants with one damaged structure and those with several add up to all."""
    groups = by_structure(judged)
    assert sum(group.mutants for group in groups.values()) == COUNT
    assert [group.kept for group in groups.values()] == sorted(group.kept for group in groups.values())
    assert table(judged).splitlines()[-1].startswith(f"| **all** | {COUNT} |")


def test_figures_go_into_a_page(judged):
    """The figures replace those between the two marks; text around the marks stays."""
    text = f"before\n{BEGIN}\nyesterday\n{END}\nafter\n"
    once = page(text, judged, SEED)
    assert once == page(once, judged, SEED)
    assert once.startswith(f"before\n{BEGIN}\n`python -m tests.losses --seed {SEED} --count {COUNT} ")
    assert once.endswith(f"\n{END}\nafter\n")
    assert table(judged) in once
    assert "yesterday" not in once


def test_what_fls_was_not_asked_it_does_not_answer(judged):
    """Without ``--fls`` its column is empty and the command does not name it; with it, a mutant gets its own count."""
    row = table([replace(item, peer_is_better=None) for item in judged]).splitlines()[-1]
    assert row.split(" | ")[-2] == ""
    first, *others = [replace(item, peer_is_better=False) for item in judged]
    asked = [replace(first, peer_is_better=True), *others]
    assert table(asked).splitlines()[-1].split(" | ")[-2] == "1"
    text = f"{BEGIN}\n{END}"
    assert "--fls" in page(text, asked, SEED)
    assert "--fls" not in page(text, [replace(item, peer_is_better=None) for item in judged], SEED)
