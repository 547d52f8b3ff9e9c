"""The verdict of a scan on a volume: the time, its causes, remedies, and the placement of the nodes.

Each number is a run of the model with one change. The limits here determine which numbers are put into words
(docs/concepts.md); reports, documents and maps show the same. The runs are made in :mod:`layoutscope.remedies.planning`
and judged in :mod:`layoutscope.api.scan`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from layoutscope.display import Displayed, Struct

NAMED_FROM: Final = 0.1
"""Causes with a smaller share of the time are not named."""

HELPS_FROM: Final = 0.05
"""Remedies that save a smaller share of the time do not count as helpful."""

WORTH_S: Final = 1.0
"""A shorter listing needs neither an explanation nor a remedy."""

SLOW_FROM: Final = 0.5
"""A listing counts as slow if a single cause accounts for this share of its time."""

DENSE: Final = 0.5
"""Nodes that fill this share of their span count as close together, so gaps are not a cause."""

ALL_OVER: Final = 0.5
"""Nodes with gaps count as spread over the volume from this share of the volume in their span."""

MAX_NAMED: Final = 3
"""Causes, and remedies, that a screen lists where it has room."""

INSTALLED: Final = ("list-from-disk",)
"""Remedies of software that is installed already: this one."""


class Why(StrEnum):
    """Reasons for a slow walk; the values are the words in JSON."""

    words: str  # as a screen shows them next to their share of the time
    short: str  # for screens with several volumes
    change: str  # the change that removes the cause, in :data:`layoutscope.remedies.changes.CHANGES`

    def __new__(cls, value: str, words: str, short: str, change: str) -> Self:
        """Make a reason of its value and its facts."""
        why = str.__new__(cls, value)
        why._value_, why.words, why.short, why.change = value, words, short, change
        return why

    STAT = "stat", "attributes are stored apart from the names", "separate attributes", "names-only"
    ORDER = "order", "metadata is not stored in the order in which it is read", "metadata out of order", "one-sweep"
    DISTANCE = "distance", "other data is stored between the metadata blocks", "data in between", "clumped-like-hfs"
    MAPS = "maps", "the addresses of metadata blocks must be looked up", "address look-ups", "without-maps"
    FILL = "fill", "metadata blocks are partly empty, so more are read", "partly empty blocks", "full-leaves"
    REQUESTS = "requests", "metadata blocks are read page by page, not whole", "reads page by page", "larger-requests"


class Cause(Displayed, Struct, frozen=True):
    """The effect of one cause on the time."""

    name: Why  # the cause; `title` has it in plain words
    seconds: float  # predicted time without it
    # share of the time that removing it saves; negative if the walk takes longer. Causes overlap, so their shares
    # do not sum to 1.
    share: float

    @property
    def title(self) -> str:
        """The reason in plain words."""
        return self.name.words


class Remedy(Displayed, Struct, frozen=True):
    """A remedy: a row of the plan for the same drive."""

    name: str  # name in the plan, and of its page in docs/remedies
    seconds: float  # predicted time of the listing with it
    share: float  # share of the time that it saves; negative if the listing takes longer
    title: str = ""  # the action in a few words
    is_bought: bool = False  # whether it needs another drive
    is_sure: bool = True  # whether it saves time on at least 95 % of the simulated drives, as in the plan

    @property
    def helps(self) -> bool:
        """Whether it saves enough to be recommended, by the rule of the plan."""
        return self.share >= HELPS_FROM

    @property
    def is_in_software(self) -> bool:
        """Whether only the authors of the reading program can apply it."""
        return not self.is_bought and self.name not in INSTALLED

    @property
    def advice(self) -> str:
        """The action, marked if it is a change of a program."""
        return f"in software: {self.title}" if self.is_in_software else self.title


class Placement(Displayed, Struct, frozen=True):
    """The distances between the nodes that a walk reads."""

    span_bytes: int  # length of the smallest stretch of the volume with 90 % of their bytes
    volume_share: float  # that span as a share of the volume
    density: float  # share of the span that the nodes fill
    saved_by_nearness: float  # share of the time that removing the gaps between the nodes saves on this drive

    @property
    def is_close(self) -> bool:
        """Whether they are close together, with little data between them."""
        return self.density >= DENSE

    @property
    def is_near(self) -> bool:
        """Whether removing the gaps would save little."""
        return self.saved_by_nearness < NAMED_FROM

    @property
    def is_all_over(self) -> bool:
        """Whether they are spread over most of the volume."""
        return not self.is_close and not self.is_near and self.volume_share >= ALL_OVER


class Yardstick(Displayed, Struct, frozen=True):
    """The time of the same files copied to another file system in listing order: a row of the plan for that drive."""

    filesystem: str  # name of the other file system, for people
    seconds: float  # predicted time of the listing there
    seconds_low: float  # lower end of its 90 % range
    seconds_high: float  # upper end


class Verdict(Displayed, Struct, frozen=True):
    """The verdict on one volume, on one drive."""

    drive: str  # the drive of the causes and remedies: the first one requested
    seconds: float  # time to list all files on it
    packed_seconds: float  # time of the same listing with contiguous nodes in key order, for comparison
    seconds_per_1000: float  # time per 1,000 files, folders and links that a listing shows
    causes: tuple[Cause, ...]  # all evaluated causes, the largest first
    remedies: tuple[Remedy, ...]  # remedies of the plan that need no other layout, the best first
    placement: Placement | None  # placement of the nodes; None with fewer than two nodes, or without an arm
    yardsticks: tuple[Yardstick, ...] = ()  # the same files on other file systems, if modelled

    @property
    def is_noticeable(self) -> bool:
        """Whether the time is long enough to matter."""
        return self.seconds >= WORTH_S

    @property
    def is_slow(self) -> bool:
        """Whether the time is noticeable, and a single cause accounts for half of it."""
        return any(cause.share >= SLOW_FROM for cause in self.named_causes)

    @property
    def named_causes(self) -> tuple[Cause, ...]:
        """Causes that are large enough to be named; gaps between nodes only if the nodes are not close together.

        Moving contiguous nodes changes only the rotational delays.
        """
        if not self.is_noticeable:
            return ()
        is_close = self.placement is not None and self.placement.is_close
        return tuple(
            cause
            for cause in self.causes
            if cause.share >= NAMED_FROM and not (is_close and cause.name is Why.DISTANCE)
        )

    @property
    def _told(self) -> tuple[Remedy, ...]:
        """Remedies for a noticeable time."""
        return self.remedies if self.is_noticeable else ()

    @property
    def _surely_helpful(self) -> tuple[Remedy, ...]:
        """Remedies that help on nearly all similar drives, the best first."""
        return tuple(remedy for remedy in self._told if remedy.helps and remedy.is_sure)

    def choose_helpful(self, count: int) -> tuple[Remedy, ...]:
        """Return the best `count` of the remedies that help on nearly all similar drives, those for readers first."""
        return tuple(sorted(self._surely_helpful[:count], key=lambda remedy: remedy.is_in_software))

    @property
    def helpful(self) -> tuple[Remedy, ...]:
        """Remedies that help on nearly all similar drives: the best, those for readers first, then the others."""
        return (*self.choose_helpful(MAX_NAMED), *self._surely_helpful[MAX_NAMED:])

    @property
    def unsure(self) -> tuple[Remedy, ...]:
        """Remedies that help on this drive, but not on some similar drives."""
        return tuple(remedy for remedy in self._told if remedy.helps and not remedy.is_sure)

    @property
    def best(self) -> Remedy | None:
        """The best helpful remedy that needs no other drive."""
        return next((remedy for remedy in self._surely_helpful if not remedy.is_bought), None)

    @property
    def useless(self) -> tuple[Remedy, ...]:
        """Remedies that do not help."""
        return tuple(remedy for remedy in self._told if not remedy.helps)
