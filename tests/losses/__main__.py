"""``python -m tests.losses --count 300 --seed 1``: damage the available images, and print the losses."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # frames have few rows: passing them to threads would double the time

from tests.losses.campaign import run
from tests.losses.figures import figures, page, table, tell


def main() -> int:
    """Run the mutants that the arguments select; return 1 if anything was lost silently or failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.losses", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--only", default="", help="images with this in their names")
    parser.add_argument("--fls", action="store_true", help="compare with what fls lists")
    parser.add_argument("--into", type=Path, help="a page whose figures are replaced, such as docs/reference/losses.md")
    parser.add_argument("--told", action="store_true", help="list the mutants with silent losses and failures")
    given = parser.parse_args()
    last = given.first + given.count
    numbers = [range(given.first + job, last, given.jobs) for job in range(given.jobs)]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        teller = tell if given.told else None
        asked = {"only": given.only, "asks_peer": given.fls, "tell": teller, "seconds": given.seconds}
        parts = pool.map(partial(run, given.seed, **asked), numbers)
        judged = [item for part in parts for item in part]
    print(table(judged))  # noqa: T201
    if given.into is not None:
        given.into.write_text(page(given.into.read_text(), judged, given.seed))
    all_of = figures(judged)
    return 1 if all_of.silent or all_of.silent_swept or all_of.failures else 0


if __name__ == "__main__":
    sys.exit(main())
