"""Hostile files end with results or intended errors: all past failures, and some new cases of each kind."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.campaign import counted, entries_of, remaining, table
from tests.fuzz.mutate import mutate
from tests.fuzz.recipe import from_json
from tests.fuzz.runner import CORPUS, Runner
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from pathlib import Path

CASES = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.json"))
SHORT = {"hfsplus": 40, "apfs": 20, "partitions": 60, "containers": 120, "maps": 60, "traces": 40, "profiles": 120,
         "captures": 40, "foreign": 20, "lists": 40, "sets": 36, "beside": 60, "timings": 6, "kits": 10,
         "forecasts": 20}  # fmt: skip
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
def test_what_ever_failed_ends_well(name, runner):
    """A case of the corpus ends with exit code 0, 1 or 3."""
    recipe = from_json((CORPUS / name).read_text())
    outcome = runner(recipe.target).run(recipe)
    assert outcome.failure == ""
    assert outcome.exit in (0, 1, 3)


def test_damaged_tables_leave_the_standard_error_clean(runner, capfd):
    """Polars panics on some captures of the corpus and prints a location; the user sees only our own line."""
    for name in (name for name in CASES if name.startswith("captures/")):
        assert runner("captures").run(from_json((CORPUS / name).read_text())).exit == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("target", sorted(SHORT))
def test_new_cases_end_well(target, runner):
    """Mutated files end with 0, 1 or 3, in bounded time."""
    run = runner(target)
    if not run.bases:
        pytest.skip("qemu-img and ewfacquire, which make these inputs, are not installed")
    for number in range(SHORT[target]):
        recipe = run.case(2024, number)
        outcome = run.run(recipe)
        assert (outcome.failure, number) == ("", number)
        assert outcome.exit in (0, 1, 3)


@pytest.mark.full
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_sound_files_end_with_0(target, runner):
    """The files that mutation starts from are sound, so a case's result is due to its changes."""
    from tests.fuzz.recipe import Recipe

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

    def fail(path: Path, _: object) -> int:
        if wanted in path.read_bytes():
            raise RuntimeError
        return 0

    monkeypatch.setattr(run, "target", replace(run.target, run=fail))
    assert len(run.shrink(recipe, run.run(recipe)).changes) <= len(recipe.changes)
    assert run.run(run.shrink(recipe, run.run(recipe))).signature == "RuntimeError"


def test_a_file_that_is_touched_is_a_failure(runner, monkeypatch):
    """A reader that writes to a file, or only sets its times, is detected."""
    run = runner("maps")

    def touch(path: Path, _: object) -> int:
        path.touch()
        return 0

    monkeypatch.setattr(run, "target", replace(run.target, run=touch))
    assert run.run(run.case(1, 1)).signature == "ChangedInput"


def test_campaigns_count_what_their_runs_report():
    """The last report of each process counts; an early end and each kind of failure count as one failure."""
    lines = [
        '{"target": "a", "cases": 10, "exits": {"0": 9, "1": 1}, "slowest_s": 0.1, "peak_MiB": 70}',
        '{"target": "a", "cases": 20, "exits": {"0": 15, "1": 4, "-1": 1}, "slowest_s": 0.5, "peak_MiB": 90}',
        '{"case": 20, "process ended with": -6}',
        '{"case": 25, "failed": "KeyError", "at": "x", "kept": "y"}',
        '{"target": "a", "cases": 5, "exits": {"0": 5}, "slowest_s": 0.2, "peak_MiB": 80}',
    ]
    found = counted(lines, 1)
    assert (found["cases"], found["exits"], found["failed"]) == (25, {"0": 20, "1": 4}, 2)
    assert (found["slowest_s"], found["peak_MiB"]) == (0.5, 90)
    assert counted([], 9)["failed"] == 1
    assert table([{"target": "a", **found}]).splitlines()[2] == "| a | 25 | 20 | 4 | 0 | 2 | 0.50 s | 90 MiB |"


def test_a_campaign_goes_on_where_it_was(tmp_path):
    """Logged blocks are not run again, those of another seed are; targets advance together, by their shares."""
    whole = remaining(["hfsplus", "apfs"], 3000, [], 7)
    assert {name: sum(each.count for each in whole if each.target == name) for name in ("hfsplus", "apfs")} == {
        "hfsplus": 2000,
        "apfs": 1000,
    }
    assert {each.target for each in whole[:2]} == {"hfsplus", "apfs"}
    log = tmp_path / "log"
    log.write_text("".join(json.dumps({**each._asdict(), "seed": 7}) + "\n" for each in whole[:3]) + '{"target": "ap')
    assert remaining(["hfsplus", "apfs"], 3000, entries_of(log), 7) == whole[3:]
    assert remaining(["hfsplus", "apfs"], 3000, entries_of(log), 8) == whole


class Given:
    """Atheris's data provider, with its method names."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311

    def ConsumeIntInRange(self, low: int, high: int) -> int:  # noqa: N802
        """Return a number."""
        return self._rng.randint(low, high)

    def ConsumeBytes(self, length: int) -> bytes:  # noqa: N802
        """Return bytes."""
        return self._rng.randbytes(length)


@pytest.mark.parametrize("target", ["partitions", "profiles", "beside"])
def test_guided_cases_are_recipes_of_the_same_kind(target, runner):
    """Any fuzzer input becomes changes of a sound file, which end as other cases do."""
    from tests.fuzz.guided import recipe_of

    run = runner(target)
    for seed in range(8):
        recipe = recipe_of(Given(seed), run)
        assert recipe == from_json(recipe.to_json())
        assert run.run(recipe).exit in (0, 1, 3)
