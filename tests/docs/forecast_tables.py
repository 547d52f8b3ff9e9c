"""``docs/forecast.md``: forecasts of fresh volumes beside the same volumes aged by real drivers.

``python -m tests.docs.forecast_tables FRESH AGED`` prints the table of one pair; the images are made by drivers and do
not lie in the repository.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import layoutscope

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVE = "generic-7200"
CYCLES = 20


def rows(fresh: str, aged: str, seeds: int = 4) -> Iterator[tuple[bool, str]]:
    """Yield whether each number of the aged volume lies within the range of the draws, and its row."""
    found = layoutscope.forecast(fresh, cycles=CYCLES, seeds=seeds, drives=DRIVE)
    point = found.points[-1]
    scanned = layoutscope.scan(aged, drives=DRIVE).volume
    time = point.times[0]
    yield _row("seconds on " + DRIVE, scanned.predictions[0].seconds, (time.seconds.value, time.low_s, time.high_s))
    told = {(metric.definition.name, metric.subject): metric.value for metric in scanned.metrics}
    for metric in point.metrics:
        value = told.get((metric.name, metric.subject))
        if metric.found is not None and value is not None:
            range_ = (metric.found.value, metric.found.low, metric.found.high)
            yield _row(f"{metric.title} ({metric.subject})", value, range_)


def _row(name: str, real: float, told: tuple[float, float, float]) -> tuple[bool, str]:
    value, low, high = told
    off = f"{value / real - 1:+.1%}" if real else "-"
    is_met = low <= real <= high
    numbers = " | ".join(f"{number:.4g}" for number in (real, value, low, high))
    return is_met, f"| {name} | {numbers} | {off} | {'yes' if is_met else 'no'} |"


def main() -> None:
    """Print the table of a pair, what is missed first."""
    print("| number | real | forecast | low | high | off | inside |\n|---|---|---|---|---|---|---|")  # noqa: T201
    for _, line in sorted(rows(*sys.argv[1:3]), key=lambda row: row[0]):
        print(line)  # noqa: T201


if __name__ == "__main__":
    main()
