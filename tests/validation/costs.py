"""Costs of an entry, a lookup and a flash read on a Mac, fitted to the published times of other experiments.

A time is the sum of the program's start, the computer's work and the drive's work:

    start + machine x (entries of bulk listings x bulk_us + look-ups x stat_us) / gain
          + random reads x read_us / gain + sequential reads x 61 us / gain

The counts come from the workloads of drawn plans. `machine` is the computer's time relative to one of 2017, and `gain`
is the speedup by several threads, 1 for one. The fitted costs start from values that were assumed before these times
were looked at. Two widths are tried: those of ``priors.toml``, which were set with all of these times in view, and the
spread of the other experiments around their own fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.drive.uncertain import drawn, factors, num_draws, priors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F64 = NDArray[np.float64]

COSTS: Final = ("bulk_us", "stat_us", "read_us", "gain")
BELIEVED: Final = np.log([5.0, 13.0, 150.0, 2.5])
"""Timings on warm caches, data sheets, and reports of locks in APFS (2018): the prior values that dominate where there
are few times."""
NINE_IN_TEN_NORMAL: Final = 1.645
BELIEF: Final = np.log(2.0) / NINE_IN_TEN_NORMAL
"""Nine in ten values are within a factor of 2 of these."""
START_S: Final = 0.005
"""Start time of a program on a computer of 2017. Assumed."""
SEQUENTIAL_US: Final = 61.4
"""A read of 4 KiB that follows the previous one (apple-ap0256j-2017); no time is fitted to it."""
STEPS: Final = 30


def seconds(work: F64, machine: F64 | float, cost: F64, is_parallel: bool) -> F64:
    """Return the times of work: bulk entries, look-ups, random and sequential reads in its last axis."""
    bulk_us, stat_us, read_us, gain = np.moveaxis(cost, -1, 0)
    host_us = machine * (work[..., 0] * bulk_us + work[..., 1] * stat_us)
    drive_us = work[..., 2] * read_us + work[..., 3] * SEQUENTIAL_US
    return np.asarray(machine * START_S + (host_us + drive_us) / 1e6 / (gain if is_parallel else 1.0))


def middle_machine(row: dict[str, Any]) -> float:
    """Return the speed factor of a row's computer: as published, else the median of the drawn ones."""
    return float(row["machine"] or np.exp(np.mean(np.log(priors()["host"]["macos"]["machine"]["range"]))))


def fitted_seconds(row: dict[str, Any], cost: F64) -> float:
    """Return a row's time for given costs: the median over its volumes, on the median computer if none is published."""
    return float(np.median(seconds(np.array(row["counts"]), middle_machine(row), cost, row["threads"] > 1)))


def fit(rows: list[dict[str, Any]]) -> tuple[F64, float]:
    """Fit the costs to the middle of each measured range; an experiment counts once, whatever its number of rows.

    Gauss-Newton steps to the most likely costs. The spread of the times around the fit, as the logarithm of a factor,
    is estimated on the way.
    """
    rows = [row for row in rows if row["low"] > 0]
    names = [row["experiment"] for row in rows]
    weight = np.array([1 / names.count(name) for name in names])
    measured = np.array([np.log(row["low"] * row["high"]) / 2 for row in rows])

    def errors(at: F64) -> F64:
        return measured - np.log([fitted_seconds(row, np.exp(at)) for row in rows])

    at, spread = BELIEVED.copy(), 1.0
    for _ in range(STEPS):
        left = errors(at)
        slope = np.stack([(left - errors(at + step)) / 1e-4 for step in np.eye(len(at)) * 1e-4], axis=1)
        scaled = slope * (weight / spread**2)[:, None]
        at = at + np.linalg.solve(
            slope.T @ scaled + np.eye(len(at)) / BELIEF**2, scaled.T @ left - (at - BELIEVED) / BELIEF**2
        )
        # Times are published with two or three digits.
        spread = max(float(np.sqrt(np.average(errors(at) ** 2, weights=weight))), 0.01)
    return np.asarray(np.exp(at)), spread


def predict(row: dict[str, Any], cost: F64, spread: float = 0.0) -> F64:
    """Draw the times of a row: costs, the computer where it is not published, and the volume.

    With a spread, only the spread is drawn, around the median: differences among experiments already include those of
    computers, threads and volumes.
    """
    if spread:
        middle = fitted_seconds(row, cost)
        return middle * factors("costs.spread", float(np.exp(NINE_IN_TEN_NORMAL * spread)))
    drive, host = priors()["drive"], priors()["host"]["macos"]
    widths = [host["bulk_entry"]["factor"], host["stat"]["factor"], drive["flash_latency"]["fitted"]]
    of_costs = [factors(f"costs.{name}", width) for name, width in zip(COSTS, widths, strict=False)]
    processors = drawn("host.processors", host["processors"])
    gain = processors / np.exp(np.mean(np.log(host["processors"]["range"])))
    machine = row["machine"] or drawn("host.machine", host["machine"])
    work = np.array(row["counts"])[np.arange(num_draws()) % len(row["counts"])]
    return seconds(work, machine, cost * np.stack([*of_costs, gain], axis=-1), row["threads"] > 1)


def left_out(rows: list[dict[str, Any]]) -> list[tuple[F64, float]]:
    """Return, for each row, the costs and the spread that are fitted to the other experiments."""
    names = dict.fromkeys(row["experiment"] for row in rows)
    others = {name: fit([row for row in rows if row["experiment"] != name]) for name in names}
    return [others[row["experiment"]] for row in rows]
