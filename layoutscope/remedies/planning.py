"""From a volume to a plan: tries every remedy on it, and finds what each saves and which two work best together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.drive.simulation import Unknowns
from layoutscope.drive.uncertain import Host
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystems
from layoutscope.progress import each
from layoutscope.remedies.case import Changed, Served, change_reads, serve_change, words_of
from layoutscope.remedies.changes import CHANGES, REMEDIES, on_other_file_system
from layoutscope.results.plan import FEW_READS, HARDWARE, SOFTWARE, VOLUME, PlannedRemedy, RemedyPair, VolumePlan
from layoutscope.results.scan import volume_name
from layoutscope.results.verdict import Remedy, Yardstick

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from layoutscope.remedies.case import Case, Change
    from layoutscope.results.scan import Prediction


def list_remedies() -> list[str]:
    """List the names of all remedies; there is one for each file system that a volume could be copied to."""
    return [*REMEDIES, *(f"on-{item.name}" for item in filesystems())]


def change_of(name: str) -> Change:
    """Return a change by its name."""
    return CHANGES[name] if name in CHANGES else on_other_file_system(name.removeprefix("on-"))


def plan_of(case: Case, names: Sequence[str] | None = None) -> VolumePlan:
    """Try remedies on one volume, and rank them by what they save."""
    trial = Trial(case)
    wanted = list_remedies() if names is None else names
    tried: dict[str, PlannedRemedy] = {}
    best: PlannedRemedy | None = None  # the best remedy so far that needs no other drive; its volume is kept
    programs: list[str] = []  # programs' remedies that help
    both: dict[tuple[str, str], float | None] = {}  # seconds with a remedy of the volume and one of the program
    # Programs come first: what the best of them saves on top of a changed volume is computed while that volume exists.
    for name in each(sorted(wanted, key=lambda name: words_of(name).kind == VOLUME), "trying remedies"):
        row = tried[name] = trial.remedy(name)
        kind = row.words.kind
        if row.helps and kind != HARDWARE and (best is None or row.seconds < best.seconds):
            if best is not None:
                trial.forget(best.words.name)
            best = row
        elif row.helps and kind == VOLUME and best is not None and best.words.kind == SOFTWARE:
            both[name, best.words.name] = trial.both(name, best.words.name)
        if row.helps and kind == SOFTWARE:
            programs.append(name)
        if best is not row:
            trial.forget(name)
    if best is not None and best.words.kind == VOLUME:
        both = {(best.words.name, name): trial.both(best.words.name, name) for name in programs}
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
        remedies=tuple(sorted((tried[name] for name in wanted), key=lambda row: (bool(row.why_not), -row.saved_s))),
        pair=None if best is None else _best_pair(both, best.seconds, trial.now.seconds),
        coverage=layout.coverage,
        num_errors=layout.num_errors,
        unknown=tuple(_list_unknown(case)),
    )


def _best_pair(both_s: Mapping[tuple[str, str], float | None], best_s: float, now_s: float) -> RemedyPair | None:
    """Return the two remedies that together save most; None if they save hardly more than the better of them."""
    known = [(seconds, names) for names, seconds in both_s.items() if seconds is not None]
    if not known:
        return None
    seconds, names = min(known)
    return None if seconds > (1 - PAIR_FROM) * best_s else RemedyPair(names, seconds, 1 - seconds / now_s)


PAIR_FROM: Final = 0.05
"""Least share of the time left by the first remedy that the second one must save."""


class Trial:
    """The effects of changes on some work: each is tried once, on the same simulations."""

    def __init__(
        self,
        case: Case,
        known: Prediction | None = None,  # the predicted time of the work, if it has been served already
        unknowns: Unknowns | None = None,  # the draws with which it was served
    ) -> None:
        self.case = case
        self._unknowns = unknowns or Unknowns(Host.of(case.host))
        if known is None:
            self.now = serve_change(change_reads(case, case.reads), self._unknowns)
        else:
            self.now = Served(np.array(known.draws_s))
        self._tried: dict[str, tuple[Served, Changed] | str] = {}

    def made(self, name: str) -> tuple[Served, Changed] | str:
        """Try a change by its name; return the work's new time, or why the change does not apply."""
        if name not in self._tried:
            self._tried[name] = self._made(name, self.case)
        return self._tried[name]

    def seconds(self, name: str) -> float:
        """Return the time of the work with a change; the unchanged time if the change does not apply."""
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

    def forget(self, name: str) -> None:
        """Free the volume that a change would make, which is as large as the original one."""
        found = self._tried.get(name)
        if found is not None and not isinstance(found, str):
            self._tried[name] = found[0], replace(found[1], case=None)

    def both(self, volume: str, software: str) -> float | None:
        """Return the time of the work with a remedy of the program on top of one of the volume; None if impossible."""
        found = self.made(volume)
        then = None if isinstance(found, str) else found[1].case
        made = None if then is None else self._made(software, then)
        return None if made is None or isinstance(made, str) else made[0].seconds

    def _made(self, name: str, case: Case) -> tuple[Served, Changed] | str:
        try:
            changed = change_of(name)(case)
            if isinstance(changed, str):
                return changed
            if not len(case.reads):
                return NO_READS
            # The served reads are not needed again.
            return self._serve(changed), replace(changed, parts=(), alternatives=())
        except UsageError as error:
            return f"it cannot be modelled on this drive: {error}"

    def _serve(self, changed: Changed) -> Served:
        if changed.case is not None:
            # Each result has tables of all entries, and only the best one is needed again.
            changed.case.forget()
        # The same reads on the same drive need not be served again.
        first, own = changed.parts[0], self.case.part(self.case.reads)
        is_same = (
            changed == Changed((first,), changed.effort, changed.case)
            and first == replace(own, reads=first.reads)
            and all(np.array_equal(getattr(first.reads, name), getattr(own.reads, name)) for name in TIMED)
        )
        return self.now if is_same else serve_change(changed, self._unknowns)

    def quick_remedies(self) -> tuple[Remedy, ...]:
        """Try the remedies that need no other layout, and rank them by what they save."""
        now_s, tried = self.now.seconds, []
        for name in QUICK:
            row, words = self.made(name), words_of(name)
            if not isinstance(row, str):
                then = row[0]
                share = 1 - then.seconds / now_s if now_s else 0.0
                is_sure = Served(self.now.draws_s - then.draws_s).interval.low_s > 0
                is_bought = words.kind == HARDWARE
                tried.append(Remedy(name, then.seconds, share, words.title, is_bought, is_sure=is_sure))
        return tuple(sorted(tried, key=lambda item: item.seconds))

    def yardsticks(self) -> tuple[Yardstick, ...]:
        """Predict copies to other file systems, except for large volumes, where they would take long.

        File systems that place every node separately are left out: their time depends on where they put the nodes.
        """
        if len(self.case.layout.columns("entries")) > MOST_COPIED:
            return ()
        others = [item for item in filesystems() if not item.traits.maps_every_node]
        made = [(item.traits.label, self.made(f"on-{item.name}")) for item in others]
        found = [(label, row[0].interval) for label, row in made if not isinstance(row, str)]
        return tuple(Yardstick(label, each.median_s, each.low_s, each.high_s) for label, each in found)


TIMED: Final = ("device", "image_offset", "length_bytes", "think_us", "after_us")
"""The inputs that determine the time of reads."""

QUICK: Final = ("names-only", "tree-in-key-order", "list-from-disk", "remembered-walk", "solid-state")
"""Order of a plan, which rows with equal savings keep."""

MOST_COPIED: Final = 500_000
"""Entries of the largest volume for which a scan predicts the time on another file system."""


def _list_unknown(case: Case) -> Iterator[str]:
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
