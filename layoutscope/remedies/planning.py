"""From a volume to a plan: every remedy tried on it, what each saves, and which two go best together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive.uncertain import Host
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystems
from layoutscope.progress import each
from layoutscope.remedies.case import Changed, Served, change_reads, nominal_seconds, serve_change, words_of
from layoutscope.remedies.changes import CHANGES, REMEDIES, on_other_file_system
from layoutscope.results.plan import FEW_READS, HARDWARE, SOFTWARE, VOLUME, PlannedRemedy, RemedyPair, VolumePlan
from layoutscope.results.scan import volume_name
from layoutscope.results.verdict import Remedy, Yardstick

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from layoutscope.remedies.case import Case, Change, Unknowns
    from layoutscope.results.scan import Prediction


def list_remedies() -> list[str]:
    """List every remedy by name; one for each file system that a volume could be copied to."""
    return [*REMEDIES, *(f"on-{item.name}" for item in filesystems())]


def change_of(name: str) -> Change:
    """Return a change by its name."""
    return CHANGES[name] if name in CHANGES else on_other_file_system(name.removeprefix("on-"))


def plan_of(case: Case, names: Sequence[str] | None = None) -> VolumePlan:
    """Try remedies on one volume, and rank them by what they save."""
    trial = Trial(case)
    tried = [trial.remedy(name) for name in each(list_remedies() if names is None else names, "trying remedies")]
    ranked = tuple(sorted(tried, key=lambda row: (bool(row.why_not), -row.saved_s)))
    layout = case.layout
    return VolumePlan(
        volume=volume_name(layout),
        order=case.order,
        host=case.host.name,
        drive=case.drive.name,
        title=case.drive.title,
        reads=len(case.reads),
        seconds=trial.now.seconds,
        interval=trial.now.interval,
        remedies=ranked,
        pair=_pair(trial, ranked),
        coverage=layout.coverage,
        num_errors=layout.num_errors,
        unknown=tuple(_unknown(case)),
    )


class Trial:
    """What changes make of some work: each is tried once, on the draws of the work as it is."""

    def __init__(
        self,
        case: Case,
        known: Prediction | None = None,  # what the work takes, if somebody has served it already
        *,
        # changes to simulate, None for all: others come from the nominal drive, in proportion to `known`
        simulated: Collection[str] | None = None,
    ) -> None:
        self.case, self._known, self._simulated = case, known, simulated
        self._host = Host.of(case.host)
        self._unknowns: Unknowns = {}
        if known is None:
            self.now = serve_change(change_reads(case, case.reads), self._host, self._unknowns)
        else:
            self.now = Served(np.array(known.draws_s))
        self._tried: dict[str, tuple[Served, Changed] | str] = {}

    def made(self, name: str) -> tuple[Served, Changed] | str:
        """Try a change by its name: what the work takes then, or why it does not apply."""
        if name not in self._tried:
            self._tried[name] = self._made(name, self.case)
        return self._tried[name]

    def seconds(self, name: str) -> float:
        """Describe what the work takes with a change; as long as without it where that does not apply."""
        found = self.made(name)
        return self.now.seconds if isinstance(found, str) else found[0].seconds

    def remedy(self, name: str) -> PlannedRemedy:
        """Try a remedy."""
        found, words = self.made(name), words_of(name)
        if isinstance(found, str):
            return PlannedRemedy(words, self.now.seconds, why_not=found)
        then, changed = found
        saved_s = self.now.seconds - then.seconds
        saved = Served(self.now.draws_s - then.draws_s).interval
        share = saved_s / self.now.seconds if self.now.seconds else 0.0
        effort_s = None if changed.effort is None else changed.effort(self.case)
        return PlannedRemedy(words, then.seconds, then.interval, saved_s, saved, share, effort_s)

    def both(self, volume: str, software: str) -> float | None:
        """Return what the work takes with a remedy of the program on top of one of the volume; None where it cannot."""
        found = self.made(volume)
        then = None if isinstance(found, str) else found[1].case
        made = None if then is None else self._made(software, then)
        return None if made is None or isinstance(made, str) else made[0].seconds

    def _made(self, name: str, case: Case) -> tuple[Served, Changed] | str:
        try:
            changed = change_of(name)(case)
            if isinstance(changed, str):
                return changed
            return (self._serve(name, changed), changed) if len(case.reads) else NO_READS
        except UsageError as error:
            return f"it cannot be modelled on this drive: {error}"

    def _serve(self, name: str, changed: Changed) -> Served:
        known = self._known
        if changed.case is not None:
            # Each has tables of all entries, and only the best of them is looked at again.
            changed.case.forget()
        if known is None or self._simulated is None or name in self._simulated:
            return serve_change(changed, self._host, self._unknowns)
        times = known.seconds / known.nominal_s if known.nominal_s else 1.0
        return Served(np.array([nominal_seconds(changed) * times]))

    def quick_remedies(self) -> tuple[Remedy, ...]:
        """Try those that need no other layout, and rank them by what they save."""
        rows = [(name, self.made(name)) for name in QUICK]
        tried = [self._quick(name, row[0]) for name, row in rows if not isinstance(row, str)]
        return tuple(sorted(tried, key=lambda item: item.seconds))

    def _quick(self, name: str, then: Served) -> Remedy:
        words, now_s = words_of(name), self.now.seconds
        share = 1 - then.seconds / now_s if now_s else 0.0
        is_sure = self._simulated is not None or Served(self.now.draws_s - then.draws_s).interval.low_s > 0
        return Remedy(name, then.seconds, share, words.title, words.kind == HARDWARE, is_sure=is_sure)

    def yardsticks(self) -> tuple[Yardstick, ...]:
        """Take the copies to other file systems; of large volumes they would take long.

        File systems that place every node by itself are left out: their time depends on where they put the nodes.
        """
        if len(self.case.layout.columns("entries")) > MOST_COPIED:
            return ()
        others = [item for item in filesystems() if not item.traits.maps_every_node]
        made = [(item.traits.label, self.made(f"on-{item.name}")) for item in others]
        found = [(label, row[0].interval) for label, row in made if not isinstance(row, str)]
        return tuple(Yardstick(label, each.median_s, each.low_s, each.high_s) for label, each in found)


QUICK: Final = ("names-only", "tree-in-key-order", "list-from-disk", "remembered-walk", "solid-state")
"""In the order of a plan, which rows that save alike keep."""

MOST_COPIED: Final = 500_000
"""Entries of the largest volume of which a scan says what it would take on another file system."""


def _pair(trial: Trial, ranked: Sequence[PlannedRemedy]) -> RemedyPair | None:
    """Take the best remedy that needs no other drive, and add what saves most beside it."""
    helpful = [row for row in ranked if row.helps and row.words.kind != HARDWARE]
    if not helpful:
        return None
    best = helpful[0]
    other = {SOFTWARE: VOLUME, VOLUME: SOFTWARE}[best.words.kind]
    pairs = [
        (best.words.name, row.words.name) if best.words.kind == VOLUME else (row.words.name, best.words.name)
        for row in helpful
        if row.words.kind == other
    ]
    found = [(trial.both(*names), names) for names in pairs]
    known = [(seconds, names) for seconds, names in found if seconds is not None]
    if not known:
        return None
    seconds, names = min(known)
    # Two that save hardly more than the better of them are not a pair.
    if seconds > (1 - PAIR_FROM) * best.seconds:
        return None
    return RemedyPair(names, seconds, 1 - seconds / trial.now.seconds)


PAIR_FROM: Final = 0.05
"""What the second of two must save of the time that the first one leaves."""


def _unknown(case: Case) -> Iterator[str]:
    """Describe what a plan for this volume cannot know."""
    layout = case.layout
    if layout.coverage != 1 or layout.num_errors:
        yield "what could not be read is not in the plan: no copy is planned of a damaged volume before it is repaired"
    if len(case.reads) == 0:
        yield f"{NO_READS}: there is nothing to save"
    elif len(case.reads) < FEW_READS:
        yield f"reads: {len(case.reads)}, too few to judge a remedy by"
    if case.traits.maps_every_node and len(case.reads):
        taken = "as dense as now" if case.host.name == "macos" else "where Linux's driver puts them"
        yield f"where macOS stores nodes of a new volume is not documented: the model places those of a copy {taken}"


NO_READS: Final = "the work reads nothing beyond the mount"
