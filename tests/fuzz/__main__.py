"""``python -m tests.fuzz --target hfsplus --count 1000 --seed 1``: run mutated files and keep those that fail."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.base import Recipe
from tests.fuzz.runner import CASE_BYTES, CORPUS, TARGETS, Runner, keep, limit_memory, peak_bytes, work_folder

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


def main() -> int:
    """Run the cases that the arguments select; return 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), required=True)
    parser.add_argument("--count", type=int, default=1_000_000_000, help="how many cases")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where failing cases are kept")
    given = parser.parse_args()
    failures, number, end = 0, given.first, time.monotonic() + given.seconds
    while number < given.first + given.count and time.monotonic() < end:
        # The case that ended the whole process is the one that started last.
        current = multiprocessing.get_context("spawn").Value("q", number)
        found = multiprocessing.get_context("spawn").Value("q", 0)
        stop = given.first + given.count
        process = multiprocessing.get_context("spawn").Process(
            target=work, args=(given.target, given.seed, given.corpus, stop, end - time.monotonic(), current, found)
        )
        process.start()
        process.join()
        failures += found.value + (process.exitcode == BROKEN)
        if process.exitcode in (0, BROKEN):
            break
        failures += 1
        _keep_crash(given.target, given.seed, current.value, given.corpus, process.exitcode)
        number = current.value + 1
    return 1 if failures else 0


def _keep_crash(target: str, seed: int, number: int, corpus: Path, exit_code: int | None) -> None:
    """Store the case that ended its process, unshrunk, because it must not run in this process."""
    with work_folder() as folder:
        recipe = Runner(TARGETS[target], Path(folder)).case(seed, number)
    print(json.dumps({"case": number, "process ended with": exit_code}), flush=True)  # noqa: T201
    keep(replace(recipe, why=f"the process ended with {exit_code}"), corpus)


if __name__ == "__main__":
    sys.exit(main())
