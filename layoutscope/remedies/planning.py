"""From a volume to a plan: every remedy tried on it, what each saves, and which two go best together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.drive.uncertain import Host
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystems
from layoutscope.progress import each
from layoutscope.remedies.case import (
    Changed,
    Served,
    change_reads,
    nominal_seconds,
    serve_change,
    words_of,
)
from layoutscope.remedies.changes import TREATMENTS, on_other_file_system
from layoutscope.results.plan import FEW_READS, HARDWARE, SOFTWARE, VOLUME, PlannedRemedy, RemedyPair, VolumePlan
from layoutscope.results.scan import volume_name
from layoutscope.results.verdict import WORTH_S, Remedy, Yardstick

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from layoutscope.remedies.case import Case, Treatment
    from layoutscope.results.scan import Prediction


def every_treatment() -> dict[str, Treatment]:
    """Return every remedy by name; one for each file system that a volume could be copied to."""
    return TREATMENTS | {f"on-{item.name}": on_other_file_system(item.name) for item in filesystems()}


def plan_of(case: Case, treatments: Mapping[str, Treatment] | None = None) -> VolumePlan:
    """Try remedies on one volume, and rank them by what they save."""
    treatments = every_treatment() if treatments is None else treatments
    trial = _Trial(case)
    tried = [trial.of(name, treatments[name]) for name in each([*treatments], "trying remedies")]
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
        pair=_pair(trial, ranked, treatments),
        coverage=layout.coverage,
        num_errors=layout.num_errors,
        unknown=tuple(_unknown(case)),
    )


class _Trial:
    """The time as it is, and that of each remedy on the same draws."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._host = Host.of(case.host)
        self.now = serve_change(change_reads(case, case.reads), self._host)
        self.changed: dict[str, Changed] = {}

    def of(self, name: str, treatment: Treatment) -> PlannedRemedy:
        """Try one remedy."""
        made, words = self._made(treatment, self.case), words_of(name)
        if isinstance(made, str):
            return PlannedRemedy(words, self.now.seconds, why_not=made)
        then, changed = made
        self.changed[name] = changed
        saved_s = self.now.seconds - then.seconds
        saved = Served(self.now.draws_s - then.draws_s).interval
        share = saved_s / self.now.seconds if self.now.seconds else 0.0
        return PlannedRemedy(words, then.seconds, then.interval, saved_s, saved, share, changed.effort_s)

    def both(self, volume: str, treatment: Treatment) -> float | None:
        """Return what the work takes with a remedy of the program on top of one of the volume; None where it cannot."""
        then = self.changed[volume].case
        made = None if then is None else self._made(treatment, then)
        return None if made is None or isinstance(made, str) else made[0].seconds

    def _made(self, treatment: Treatment, case: Case) -> tuple[Served, Changed] | str:
        try:
            changed = treatment(case)
            if isinstance(changed, str):
                return changed
            return (serve_change(changed, self._host), changed) if len(case.reads) else NO_READS
        except UsageError as error:
            return f"it cannot be modelled on this drive: {error}"


def _pair(trial: _Trial, ranked: Sequence[PlannedRemedy], treatments: Mapping[str, Treatment]) -> RemedyPair | None:
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
    found = [(trial.both(volume, treatments[software]), (volume, software)) for volume, software in pairs]
    known = [(seconds, names) for seconds, names in found if seconds is not None]
    if not known:
        return None
    seconds, names = min(known)
    # Two that save hardly more than the better of them are no pair.
    if seconds > (1 - PAIR_FROM) * best.seconds:
        return None
    return RemedyPair(names, seconds, 1 - seconds / trial.now.seconds)


PAIR_FROM: Final = 0.05
"""What the second of two must save of the time that the first one leaves."""


def _unknown(case: Case) -> Iterator[str]:
    """Say what a plan for this volume cannot know."""
    layout = case.layout
    if layout.coverage != 1 or layout.num_errors:
        yield "what could not be read is not in the plan: no copy is planned of a damaged volume before it is repaired"
    if len(case.reads) == 0:
        yield f"{NO_READS}: there is nothing to save"
    elif len(case.reads) < FEW_READS:
        yield f"reads: {len(case.reads)}, too few to judge a remedy by"
    if case.traits.maps_every_node and len(case.reads):
        taken = "as dense as now" if case.host.name == "macos" else "to lie where Linux's driver puts them"
        yield f"where macOS puts the nodes of a new volume is not published: those of a copy are taken {taken}"


NO_READS: Final = "the work reads nothing beyond the mount"


QUICK: Final = {
    name: TREATMENTS[name]
    for name in ("names-only", "tree-in-key-order", "one-sweep", "remembered-walk", "solid-state")
}
"""In the order of a plan, which rows that save alike keep."""


def quick_remedies(case: Case, now: Prediction) -> tuple[Remedy, ...]:
    """Try these remedies on the work of a prediction, and rank them by what they save, as a plan does."""
    # What a remedy itself takes is told by a plan, which has to serve the files for it.
    case.efforts_s["copying"] = 0.0
    return tuple(sorted(_tried(case, now), key=lambda item: item.seconds))


def _tried(case: Case, now: Prediction) -> Iterator[Remedy]:
    host = Host.of(case.host)
    draws_s = np.array(now.draws_s)
    for name, treatment in QUICK.items():
        changed, words = treatment(case), words_of(name)
        if isinstance(changed, str):
            continue
        is_sure = True
        try:
            if now.seconds < WORTH_S:
                # No remedy is shown for short work, so the profile as it stands will do.
                seconds = nominal_seconds(changed) * (now.seconds / now.nominal_s if now.nominal_s else 1.0)
            else:
                then = serve_change(changed, host)
                seconds, is_sure = then.seconds, Served(draws_s - then.draws_s).interval.low_s > 0
        except UsageError:
            # The volume does not fit on that drive: the plan says so.
            continue
        share = 1 - seconds / now.seconds if now.seconds else 0.0
        yield Remedy(name, seconds, share, words.title, words.kind == HARDWARE, is_sure=is_sure)


def copies_elsewhere(case: Case) -> Iterator[Yardstick]:
    """Predict the work on a copy of the volume on each other file system, as a plan does.

    File systems that place every node by itself are left out: their time depends on where they put the nodes.
    """
    host = Host.of(case.host)
    case.efforts_s["copying"] = 0.0
    for other in filesystems():
        if other.name == case.layout.facts.filesystem or other.traits.maps_every_node:
            continue
        changed = on_other_file_system(other.name)(case)
        if not isinstance(changed, str):
            found = serve_change(changed, host).interval
            yield Yardstick(other.traits.label, found.median_s, found.low_s, found.high_s)
