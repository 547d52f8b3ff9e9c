"""``python -m tests.fuzz.campaign --seed S --log FILE``: every target with an unused seed, in blocks.

Each block's result is a line of the log, so a stopped campaign resumes where it was; all targets advance together.
Failing cases are stored in the corpus, as by :mod:`tests.fuzz`; the counts are printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz.runner import CORPUS
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]


class Block(NamedTuple):
    """Cases that one process runs: those of a target from a given number."""

    target: str
    first: int
    count: int


def main() -> int:
    """Run blocks until all cases have run or the time is over; return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True, help="what was run; a campaign goes on behind it")
    parser.add_argument("--cases", type=int, default=200_000, help="of all targets, each by its share")
    parser.add_argument("--hours", type=float, default=float("inf"), help="how long")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="all of them without")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where failing cases are kept")
    given = parser.parse_args()
    os.nice(19)
    end, lock = time.monotonic() + given.hours * 3600, threading.Lock()

    def run(block: Block) -> None:
        if time.monotonic() > end:
            return
        entry = {**block._asdict(), "seed": given.seed, **run_block(block, given.seed, given.corpus)}
        with lock, given.log.open("a") as log:
            log.write(json.dumps(entry) + "\n")

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(run, remaining(given.target or TARGETS, given.cases, entries_of(given.log), given.seed)))
    found = entries_of(given.log)
    print(table(found))  # noqa: T201
    return 1 if any(entry["failed"] for entry in found) else 0


def entries_of(log: Path) -> list[dict[str, Any]]:
    """Read a log; a truncated last line is skipped."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def remaining(targets: Any, cases: int, done: list[dict[str, Any]], seed: int) -> list[Block]:
    """List the blocks that a campaign has not run yet.

    Parameters
    ----------
    targets : iterable of str
        Targets to run.
    cases : int
        Total number of cases.
    done : list of dict
        The log.
    seed : int
        Of this campaign; a log may hold others.

    Returns
    -------
    list of Block
        Blocks of all targets, interleaved.
    """
    run = {(entry["target"], entry["first"]) for entry in done if entry["seed"] == seed}
    shares = {name: TARGETS[name].share for name in targets}
    blocks = []
    for name, share in shares.items():
        wanted, size = round(cases * share / sum(shares.values())), TARGETS[name].block
        places = ((first / wanted, Block(name, first, min(size, wanted - first))) for first in range(0, wanted, size))
        blocks += [(part, block) for part, block in places if (name, block.first) not in run]
    return [block for _, block in sorted(blocks)]


def run_block(block: Block, seed: int, corpus: Path) -> dict[str, Any]:
    """Run the cases of a block in its own process; failing ones are stored in a folder."""
    numbers = ("--seed", seed, "--first", block.first, "--count", block.count)
    command = [sys.executable, "-m", "tests.fuzz", "--target", block.target, *map(str, numbers), "--corpus", corpus]
    # As in the command: waiting OpenBLAS threads spin, and that time would count for the case.
    around = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=around)
    return counted(result.stdout.splitlines(), result.returncode)


def counted(lines: list[str], exit_code: int) -> dict[str, Any]:
    """Count the results in a run's report; a run that did not start has failed.

    Returns
    -------
    dict
        Cases by exit code, failed ones with their messages, the slowest one's seconds and the peak of memory.
    """
    exits: Counter[str] = Counter()
    documents = [json.loads(line) for line in lines if line.startswith("{")]
    # The counts of a process grow; after a process that ended early, the next one starts again from zero.
    reports = [item for item in documents if "cases" in item]
    following = [*(item["cases"] for item in reports[1:]), 0][: len(reports)]
    last = [item for item, more in zip(reports, following, strict=True) if more <= item["cases"]]
    for item in last:
        exits.update({code: number for code, number in item["exits"].items() if int(code) >= 0})
    said = [item for item in documents if "failed" in item or "process ended with" in item]
    return {
        "cases": sum(item["cases"] for item in last), "exits": dict(exits),
        "failed": max(len(said), int(exit_code != 0)), "failures": said,
        "slowest_s": max((item["slowest_s"] for item in last), default=0.0),
        "peak_MiB": max((item["peak_MiB"] for item in last), default=0),
    }  # fmt: skip


def table(entries: list[dict[str, Any]]) -> str:
    """Return a table of a log's counts, one line per target."""
    columns = ("cases", "exit 0", "exit 1", "exit 3", "failed", "slowest", "peak")
    lines = [f"| {' | '.join(('target', *columns))} |", "|---" * (len(columns) + 1) + "|"]
    for name in dict.fromkeys(entry["target"] for entry in entries):
        own = [entry for entry in entries if entry["target"] == name]
        exits = [sum(entry["exits"].get(code, 0) for entry in own) for code in ("0", "1", "3")]
        numbers = [sum(entry["cases"] for entry in own), *exits, sum(entry["failed"] for entry in own)]
        most = (f"{max(each['slowest_s'] for each in own):.2f} s", f"{max(each['peak_MiB'] for each in own)} MiB")
        lines.append(f"| {' | '.join((name, *(f'{number:,}' for number in numbers), *most))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
