"""What changed work takes on its drives, and between which times: the same draws for all, so that they compare.

Of long walks a part is served, and scaled by what the whole of the unchanged work takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.drive import service
from layoutscope.drive.draws import is_sampled, sampled
from layoutscope.drive.interval import LAYOUT, interval_of
from layoutscope.drive.result import on_host
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive import ServiceResult
    from layoutscope.drive.interval import Interval
    from layoutscope.drive.uncertain import Host
    from layoutscope.remedies.case import Changed, Part

    F64 = NDArray[np.float64]

ERROR_SIGNS = np.array([0, -1, 1])
"""How many times the error of a remedy's model draws have, in turn."""

PHASES = 3
"""Start angles that are tried of each; the first makes the time."""


@frozen
class Served:
    """What work takes."""

    seconds: float  # on the drive as it is named
    draws_s: F64  # on each of the drives like it; those of two works belong together one by one

    @property
    def interval(self) -> Interval:
        """Between which times it lies, that of the named drive among them."""
        return interval_of(self.draws_s, {}, LAYOUT).reaching(self.seconds)

    def scaled(self, factor: float) -> Served:
        """Return so many times as much."""
        return Served(self.seconds * factor, self.draws_s * factor)


def served(changed: Changed, host: Host, scale: float = 1.0) -> Served:
    """Serve what changed work reads."""
    parts = [_served(part, host, scale) for part in changed.parts]
    seconds = max(sum(part.seconds for part in parts), changed.least_s)
    others = [_summed([_served(part, host, scale) for part in other]) for other in changed.otherwise]
    every = np.array([_summed(parts), *others])
    turn = np.arange(every.shape[1])
    error = 1 + changed.error_share * ERROR_SIGNS[turn // len(every) % len(ERROR_SIGNS)]
    return Served(seconds, np.maximum(every[turn % len(every), turn] * error, changed.least_s))


def _summed(parts: list[Served]) -> F64:
    return sum((part.draws_s for part in parts[1:]), parts[0].draws_s)


def _served(part: Part, host: Host, scale: float) -> Served:
    result, factor = _of_sample(part, PHASES, scale)
    found = on_host(result, part.drive, host)
    return Served(found.seconds, np.array(found.draws_s)).scaled(factor)


def _of_sample(part: Part, phases: int, scale: float) -> tuple[ServiceResult, float]:
    """Serve a part, or of a disk a sample of it; and say how many times as long the whole takes."""
    chosen = sampled(part.reads) if serves_a_sample(part) else part.reads
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
    """Serve what changed work reads as :func:`served` does, for its time on the named drive alone."""
    found = [_of_sample(part, 1, scale) for part in changed.parts]
    return max(sum(result.seconds * factor for result, factor in found), changed.least_s)


def serves_a_sample(part: Part) -> bool:
    """Whether a part of the reads stands for all of them."""
    return is_sampled(part.reads, part.drive)


def whole(part: Part, host: Host) -> tuple[Served, float]:
    """Serve all reads of unchanged work; and how many times its sample, reads counted, that is."""
    result = service(part.reads, part.drive, start_offset_bytes=part.start_offset_bytes, phases=PHASES)
    found = on_host(result, part.drive, host)
    plain = Served(found.seconds, np.array(found.draws_s))
    if not serves_a_sample(part):
        return plain, 1.0
    estimate = _served(part, host, 1.0)
    return plain, plain.seconds / estimate.seconds if estimate.seconds else 1.0
