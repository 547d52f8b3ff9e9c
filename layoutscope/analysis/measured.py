"""The times of a recording beside those of a model: of the drive read by read, of the host between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive import hdd
from layoutscope.results.recorded import HostTimes, MeasuredTimes, OutcomeTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import ServiceResult
    from layoutscope.drive.recorded import Recorded

OUTCOMES: Final = {
    hdd.MISS: "from the medium",
    hdd.PART_HIT: "in part from the buffer",
    hdd.WHOLE_HIT: "from the buffer",
}


def measured_times(reads: Recorded, served: ServiceResult) -> MeasuredTimes:
    """Set the recorded times of reads beside those of a drive that serves the same ones."""
    taken_ms = (reads.done_us - reads.issued_us) / 1000
    predicted_ms, outcome = served.reads_ms.service_ms, served.reads_ms.outcome
    # What several reads took that were under way together is no one's time.
    alone = ~reads.overlaps()
    outcomes = [
        OutcomeTimes(words, int(rows.sum()), _middle(taken_ms[rows]), _middle(predicted_ms[rows]))
        for code, words in OUTCOMES.items()
        if (rows := alone & (outcome == code)).any()
    ]
    return MeasuredTimes(served.drive, tuple(outcomes), reads.busy_us() / 1e6, served.service_s)


def _middle(times_ms: NDArray[np.float64]) -> tuple[float, float]:
    """Return median and 90th percentile."""
    middle, high = np.quantile(times_ms, [0.5, 0.9])
    return float(middle), float(high)


def host_times(reads: Recorded, predicted: AccessTrace, entries: int | None) -> HostTimes:
    """Set the time between recorded reads beside the host time of a prediction."""
    return HostTimes(float(reads.gaps_us().sum()), float(predicted.think_us[1:].sum()), entries)
