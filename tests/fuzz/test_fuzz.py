"""Hostile files end with results or intended errors: all past failures, and some new cases of each kind."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.base import Recipe, from_json
from tests.fuzz.mutate import mutate
from tests.fuzz.runner import CORPUS, TARGETS, Runner, Target

if TYPE_CHECKING:
    from pathlib import Path

CASES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.json"))
SHORT = {"hfsplus": 40, "apfs": 20, "fusion": 4, "maps": 60, "traces": 40, "profiles": 120, "captures": 40, "lists": 40,
         "beside": 60, "timings": 6, "kits": 10, "forecasts": 20}  # fmt: skip
"""So many cases take two or three seconds each."""

_RUNNERS: dict[str, Runner] = {}


@pytest.fixture
def runner(tmp_path_factory):
    """Return the runner of a target; sound files are written once."""

    def get(name: str) -> Runner:
        if name not in _RUNNERS:
            _RUNNERS[name] = Runner(TARGETS[name], tmp_path_factory.mktemp(name), seconds=30)
        return _RUNNERS[name]

    return get


@pytest.mark.parametrize("name", CASES)
def test_what_ever_failed_ends_well(name, runner, capfd):
    """A case of the corpus ends with exit code 0, 1 or 3; captures with 1, where only our own line is shown.

    Polars panics on some of them and prints a location.
    """
    recipe = from_json((CORPUS / name).read_text())
    outcome = runner(recipe.target).run(recipe)
    assert outcome.failure == ""
    assert outcome.exit in ((1,) if recipe.target == "captures" else (0, 1, 3))
    assert capfd.readouterr().err == "" or recipe.target != "captures"


@pytest.mark.full
@pytest.mark.parametrize("target", sorted(SHORT))
def test_new_cases_end_well(target, runner):
    """Mutated files end with 0, 1 or 3, in bounded time."""
    run = runner(target)
    for number in range(SHORT[target]):
        recipe = run.case(2024, number)
        outcome = run.run(recipe)
        assert (outcome.failure, number) == ("", number)
        assert outcome.exit in (0, 1, 3)


@pytest.mark.full
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_sound_files_end_with_0(target, runner):
    """The files that mutation starts from are sound, so a case's result is due to its changes."""
    run = runner(target)
    assert {name: run.run(Recipe(target, name, ())).exit for name in run.bases} == dict.fromkeys(run.bases, 0)


def test_cases_are_made_again_from_their_numbers(runner):
    """The same seed and number give the same recipe; a recipe survives a round trip through JSON."""
    run = runner("hfsplus")
    assert run.case(1, 7) == run.case(1, 7)
    assert run.case(1, 7) != run.case(2, 7)
    assert from_json(run.case(1, 7).to_json()) == run.case(1, 7)


def test_most_mutations_of_images_change_what_is_read(runner):
    """Mutation hits fields that matter: the check finds at least a third of the cases."""
    run = runner("hfsplus")
    exits = [run.run(run.case(3, number)).exit for number in range(30)]
    assert sum(code != 0 for code in exits) >= 10


def test_failures_are_shrunk_to_what_they_need(runner, monkeypatch):
    """Of several changes only the one that causes the failure is kept."""
    run = runner("maps")
    base = next(iter(run.bases.values()))
    rng = random.Random(5)  # noqa: S311
    recipe = next(item for item in iter(lambda: mutate("maps", base, rng), None) if len(item.changes) > 4)
    wanted = recipe.changes[2].data

    def fail(_: Target, path: Path, __: object) -> int:
        if wanted in path.read_bytes():
            raise RuntimeError
        return 0

    monkeypatch.setattr(Target, "run", fail)
    assert len(run.shrink(recipe, run.run(recipe)).changes) <= len(recipe.changes)
    assert run.run(run.shrink(recipe, run.run(recipe))).signature == "RuntimeError"


def test_a_file_that_is_touched_is_a_failure(runner, monkeypatch):
    """A reader that writes to a file, or only sets its times, is detected."""
    run = runner("maps")

    def touch(_: Target, path: Path, __: object) -> int:
        path.touch()
        return 0

    monkeypatch.setattr(Target, "run", touch)
    assert run.run(run.case(1, 1)).signature == "ChangedInput"
