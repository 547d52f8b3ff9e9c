"""``python -m tests.fuzz --target hfsplus --count 1000 --seed 1``: run mutated files and keep those that fail."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.fuzz.runner import CORPUS, Runner, keep, work_folder
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import BROKEN, work


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
