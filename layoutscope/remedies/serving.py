"""What changed work takes on its drives, and between which times: the same draws for all, so that they compare.

Of long walks a part is served, and scaled by what the whole of the unchanged work takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.drive import service
from layoutscope.drive.interval import LAYOUT, interval_of
from layoutscope.drive.result import on_host
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import ServiceResult
    from layoutscope.drive.interval import Interval
    from layoutscope.drive.uncertain import Host
    from layoutscope.remedies.case import Changed, Part

    F64 = NDArray[np.float64]

PHASES = 3
"""Start angles that are tried of each; the first makes the time."""


@frozen
class Served:
    """What work takes.

    Attributes
    ----------
    seconds : float
        On the drive as it is named.
    draws_s : (n_draws,) float64 array
        On each of the drives like it; those of two works belong together one by one.
    """

    seconds: float
    draws_s: F64

    @property
    def interval(self) -> Interval:
        """Between which times it lies."""
        return interval_of(self.draws_s, {}, LAYOUT)

    def scaled(self, factor: float) -> Served:
        """Return so many times as much."""
        return Served(self.seconds * factor, self.draws_s * factor)


def served(changed: Changed, host: Host, scale: float = 1.0) -> Served:
    """Serve what changed work reads.

    Parameters
    ----------
    changed : Changed
        The work.
    host : Host
        What is said of the computer.
    scale : float
        How many times what a sample of the unchanged work takes the whole takes, reads counted.

    Raises
    ------
    UsageError
        If reads do not fit on a drive.
    """
    parts = [_served(part, host, scale) for part in changed.parts]
    seconds = max(sum(part.seconds for part in parts), changed.least_s)
    draws_s = _summed(parts)
    if changed.less_well:
        other = _summed([_served(part, host, scale) for part in changed.less_well])
        draws_s = np.where(np.arange(len(draws_s)) % 2, other, draws_s)
    return Served(seconds, np.maximum(draws_s, changed.least_s))


def _summed(parts: list[Served]) -> F64:
    return sum((part.draws_s for part in parts[1:]), parts[0].draws_s)


def _served(part: Part, host: Host, scale: float) -> Served:
    result, factor = _of_sample(part, PHASES, scale)
    found = on_host(result, part.drive, host)
    return Served(found.seconds, np.array(found.draws_s)).scaled(factor)


def _of_sample(part: Part, phases: int, scale: float) -> tuple[ServiceResult, float]:
    """Serve a part, or of a disk a sample of it; and say how many times as long the whole takes."""
    chosen = _sampled(part.reads) if serves_a_sample(part) else part.reads
    result = service(
        chosen,
        part.drive,
        start_offset_bytes=part.start_offset_bytes,
        phases=phases,
        queue_depth=part.queue_depth,
    )
    factor = scale * len(part.reads) / len(chosen) if len(chosen) < len(part.reads) else 1.0
    return result, factor * part.times


def seconds_alone(changed: Changed, scale: float = 1.0) -> float:
    """Serve what changed work reads as :func:`served` does, for its time on the named drive alone.

    Parameters
    ----------
    changed : Changed
        The work.
    scale : float
        As of :func:`served`.
    """
    found = [_of_sample(part, 1, scale) for part in changed.parts]
    return max(sum(result.seconds * factor for result, factor in found), changed.least_s)


SAMPLE_READS = 1 << 15
STRETCHES = 8
"""Of longer work so many reads are served, in so many stretches at even distances: there are many remedies."""


def serves_a_sample(part: Part) -> bool:
    """Whether a part of the reads stands for all of them.

    Flash has no arm whose way must be followed: all of its reads are served at once, and as wherever it is predicted.

    Parameters
    ----------
    part : Part
        The work.
    """
    return part.drive.geometry != "none" and len(part.reads) > SAMPLE_READS


def _sampled(reads: AccessTrace) -> AccessTrace:
    """Return some stretches of many reads."""
    long = SAMPLE_READS // STRETCHES
    starts = np.linspace(0, len(reads) - long, STRETCHES).astype(np.int64)
    return reads[(starts[:, None] + np.arange(long)).ravel()]


def whole(part: Part, host: Host) -> tuple[Served, float]:
    """Serve all reads of unchanged work; and how many times its sample, reads counted, that is.

    Parameters
    ----------
    part : Part
        The work.
    host : Host
        What is said of the computer.
    """
    result = service(part.reads, part.drive, start_offset_bytes=part.start_offset_bytes, phases=PHASES)
    found = on_host(result, part.drive, host)
    plain = Served(found.seconds, np.array(found.draws_s))
    if not serves_a_sample(part):
        return plain, 1.0
    estimate = _served(part, host, 1.0)
    return plain, plain.seconds / estimate.seconds if estimate.seconds else 1.0
