"""The rows of a plan that a scan tells: remedies whose reads follow from the walk that there is, on the drives alone.

Their seconds are those of the plan. Remedies that lay the volume out anew take longer to try than a scan takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.errors import UsageError
from layoutscope.remedies.case import NotHere, read_by
from layoutscope.remedies.hardware import SolidState
from layoutscope.remedies.serving import seconds_alone, serves_a_sample
from layoutscope.remedies.software import NamesOnly, OneSweep, RememberedWalk, TreeInKeyOrder
from layoutscope.results.plan import HARDWARE
from layoutscope.results.verdict import Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.remedies.case import Case, Treatment

QUICK: Final[tuple[Treatment, ...]] = (
    NamesOnly(),
    TreeInKeyOrder(),
    OneSweep(),
    RememberedWalk(),
    SolidState(),
)
"""In the order of a plan, which rows that save alike keep."""


def quick_remedies(case: Case, seconds: float) -> tuple[Remedy, ...]:
    """Try these remedies, and rank them by what they save, as a plan does.

    Parameters
    ----------
    case : Case
        The work as it is.
    seconds : float
        What it takes.
    """
    # What a remedy itself takes is told by a plan, which has to serve the files for it.
    case.efforts_s["copying"] = 0.0
    now = read_by(case, case.reads)
    sample = seconds_alone(now) if any(map(serves_a_sample, now.parts)) else seconds
    scale = seconds / sample if sample else 1.0
    return tuple(sorted(_tried(case, seconds, scale), key=lambda item: item.seconds))


def _tried(case: Case, seconds: float, scale: float) -> Iterator[Remedy]:
    for treatment in QUICK:
        changed = treatment.model(case)
        if isinstance(changed, NotHere):
            continue
        words = treatment.words
        try:
            then = seconds_alone(changed, scale)
        except UsageError:
            # The volume does not fit on that drive: the plan says so.
            continue
        share = 1 - then / seconds if seconds else 0.0
        yield Remedy(words.name, then, share, words.title, words.kind == HARDWARE)
