"""The process that runs cases; a crash in it does not end the others."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.bounds import CASE_BYTES, limit_memory, peak_bytes
from tests.fuzz.recipe import Recipe
from tests.fuzz.runner import Runner, keep, work_folder
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

REPORT_SECONDS = 60
BROKEN = 9
"""Exit code of a run in which even the sound files fail."""


def work(
    target: str,
    seed: int,
    corpus: Path,
    stop: int,
    seconds: float,
    current: Synchronized[int],
    found: Synchronized[int],
) -> None:
    """Run cases from a number until a number or a time is reached."""
    start = reported = time.monotonic()
    exits: dict[int, int] = {}
    known: set[str] = set()
    first, slowest = current.value, (0.0, -1)
    with work_folder() as folder:
        runner = Runner(TARGETS[target], Path(folder))
        if not runner.bases:
            raise SystemExit(f"{target}: what makes its inputs is not installed")
        for name in runner.bases:
            _must_pass(runner, name)
        sound = runner.digests()
        limit_memory(CASE_BYTES)
        for number in range(first, stop):
            current.value = number
            before = time.process_time()
            recipe = runner.case(seed, number)
            outcome = runner.run(recipe)
            exits[outcome.exit] = exits.get(outcome.exit, 0) + 1
            slowest = max(slowest, (time.process_time() - before, number))
            if outcome.signature and outcome.signature not in known:
                known.add(outcome.signature)
                found.value += 1
                path = keep(runner.shrink(recipe, outcome), corpus)
                told = {"case": number, "failed": outcome.failure, "at": outcome.signature, "kept": path.name}
                print(json.dumps(told), flush=True)  # noqa: T201
            now = time.monotonic()
            if now - reported > REPORT_SECONDS or number == stop - 1 or now - start > seconds:
                reported = now
                _report(target, seed, number + 1 - first, now - start, exits, slowest, len(known))
            if now - start > seconds:
                break
        if runner.digests() != sound:
            found.value += 1
            print(json.dumps({"target": target, "failed": "a sound file is not what it was"}), flush=True)  # noqa: T201


def _must_pass(runner: Runner, name: str) -> None:
    outcome = runner.run(Recipe(runner.target.name, name, ()))
    if outcome.exit != 0:
        print(f"{name}: the sound file ends with {outcome}", flush=True)  # noqa: T201
        sys.exit(BROKEN)


def _report(
    target: str, seed: int, count: int, seconds: float, exits: dict[int, int], slowest: tuple[float, int], failures: int
) -> None:
    document = {
        "target": target, "seed": seed, "cases": count, "seconds": round(seconds),
        "exits": {str(code): exits[code] for code in sorted(exits)}, "slowest_s": round(slowest[0], 2),
        "slowest_case": slowest[1], "peak_MiB": peak_bytes() >> 20, "failures": failures,
    }  # fmt: skip
    print(json.dumps(document), flush=True)  # noqa: T201
