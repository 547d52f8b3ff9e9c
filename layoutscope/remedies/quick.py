"""The rows of a plan that a scan tells: remedies whose reads follow from the walk that there is, on the drives alone.

Their seconds are those of the plan. Remedies that lay the volume out anew take longer to try than a scan takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.drive.uncertain import Host
from layoutscope.errors import UsageError
from layoutscope.remedies.case import NotHere, read_by
from layoutscope.remedies.hardware import SolidState
from layoutscope.remedies.serving import Served, seconds_alone, served, whole
from layoutscope.remedies.software import NamesOnly, OneSweep, RememberedWalk, TreeInKeyOrder
from layoutscope.results.plan import HARDWARE
from layoutscope.results.verdict import WORTH_S, Remedy

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


def quick_remedies(case: Case) -> tuple[Remedy, ...]:
    """Try these remedies, and rank them by what they save, as a plan does."""
    # What a remedy itself takes is told by a plan, which has to serve the files for it.
    case.efforts_s["copying"] = 0.0
    return tuple(sorted(_tried(case), key=lambda item: item.seconds))


def _tried(case: Case) -> Iterator[Remedy]:
    host = Host(case.host.name, case.host.threads, case.host.processors)
    (part,) = read_by(case, case.reads).parts
    now, scale = whole(part, host)
    # Of short work nothing is told: other drives are not drawn for it.
    is_told = now.seconds >= WORTH_S
    for treatment in QUICK:
        changed = treatment.model(case)
        if isinstance(changed, NotHere):
            continue
        words = treatment.words
        try:
            then = served(changed, host, scale) if is_told else Served(seconds_alone(changed, scale), now.draws_s)
        except UsageError:
            # The volume does not fit on that drive: the plan says so.
            continue
        saved = Served(now.seconds - then.seconds, now.draws_s - then.draws_s)
        share = saved.seconds / now.seconds if now.seconds else 0.0
        is_sure = not is_told or saved.interval.low_s > 0
        yield Remedy(words.name, then.seconds, share, words.title, words.kind == HARDWARE, is_sure=is_sure)
