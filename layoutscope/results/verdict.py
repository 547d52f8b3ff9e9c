"""What a scan concludes of a volume, as data: the time, its causes, what would change it, and where the nodes are.

Every number is a run of the model with one thing changed. The limits here decide which of them are put into words
(docs/concepts.md); reports, documents and maps show the same.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from layoutscope.display import Displayed, Struct

NAMED_FROM: Final = 0.1
"""A cause that carries a smaller share of the time is not named as one."""

HELPS_FROM: Final = 0.05
"""A remedy that saves a smaller share of the time would not help here."""

WORTH_S: Final = 1.0
"""A shorter listing needs no explanation, and nothing needs to be done about it."""

SLOW_FROM: Final = 0.5
"""A listing is called slow if a single cause accounts for this share of its time: without it, it takes half as long."""

DENSE: Final = 0.5
"""Nodes that fill a smaller share of their span are not called close together; of those that do, no gap is a cause."""

ALL_OVER: Final = 0.5
"""Nodes whose span is a smaller share of the volume are not spread over it, however far apart they are."""


class Why(StrEnum):
    """What a walk may take long for; the values are the words of the JSON."""

    STAT = "stat"
    ORDER = "order"
    DISTANCE = "distance"
    MAPS = "maps"
    FILL = "fill"
    REQUESTS = "requests"


TITLES: Final = {
    Why.STAT: "attributes are stored apart from the names",
    Why.ORDER: "metadata is not stored in the order in which it is read",
    Why.DISTANCE: "other data is stored between the metadata blocks",
    Why.MAPS: "the addresses of metadata blocks must be looked up",
    Why.FILL: "metadata blocks are partly empty, so more are read",
    Why.REQUESTS: "metadata blocks are read page by page, not whole",
}
"""Causes in plain words, as a screen shows them next to their share of the time."""


class Cause(Displayed, Struct, frozen=True):
    """What part of the time is there for one reason."""

    name: Why  # which reason; `title` has it in plain words
    seconds: float  # what the walk would take without it
    # share of the time that would be saved; below 0 where it would take longer. Causes overlap, their shares do
    # not sum up.
    share: float

    @property
    def title(self) -> str:
        """The reason in plain words."""
        return TITLES[self.name]


class Remedy(Displayed, Struct, frozen=True):
    """What somebody could do: a row of the plan for the same drive."""

    name: str  # by which the plan knows it, and the name of its page in docs/remedies
    seconds: float  # what the listing would take then
    share: float  # share of the time that this saves; below 0 where it would take longer
    title: str = ""  # what somebody does, in a few words
    is_bought: bool = False  # whether it needs another drive
    is_sure: bool = True  # whether it saves time on 95 of 100 drives that were drawn, as of the plan's row

    @property
    def helps(self) -> bool:
        """Whether it saves enough to be named as help: by the plan's rule."""
        return self.share >= HELPS_FROM


class Placement(Displayed, Struct, frozen=True):
    """How far apart the nodes are that a walk reads."""

    span_bytes: int  # the smallest stretch of the volume that holds 90 % of their bytes
    volume_share: float  # that span as a share of the volume
    density: float  # share of the span that such nodes fill
    # share of the time that the walk would save if nothing were between the nodes: what the gaps cost on this
    # drive
    saved_by_nearness: float

    @property
    def is_close(self) -> bool:
        """Whether they are close together: they fill most of their span, so little is between them."""
        return self.density >= DENSE

    @property
    def is_near(self) -> bool:
        """Whether nearer would save little, be there gaps or not."""
        return self.saved_by_nearness < NAMED_FROM

    @property
    def is_all_over(self) -> bool:
        """Whether they are apart, and over most of the volume."""
        return not self.is_close and not self.is_near and self.volume_share >= ALL_OVER


class Yardstick(Displayed, Struct, frozen=True):
    """The same files, copied to another file system in the order of the listing: a row of the plan for that drive."""

    filesystem: str  # which one, as people say
    seconds: float  # what listing them takes there
    seconds_low: float  # lower end of its 90 % range
    seconds_high: float  # upper end


class Verdict(Displayed, Struct, frozen=True):
    """What a scan concludes of one volume, on one drive."""

    drive: str  # the drive of the causes and remedies: the first one requested
    seconds: float  # what listing every file takes on it
    packed_seconds: float  # the same listing if the nodes were contiguous and in key order, for comparison
    seconds_per_1000: float  # time for 1,000 files, folders and links that a listing shows
    causes: tuple[Cause, ...]  # all that were tried, the largest first
    remedies: tuple[Remedy, ...]  # those of the plan that need no other layout, what saves most first
    placement: Placement | None  # where nodes are; None where there are fewer than two, or the drive has no arm
    yardsticks: tuple[Yardstick, ...] = ()  # the same files on other file systems, as far as that is modelled

    @property
    def is_noticeable(self) -> bool:
        """Whether the time is long enough for anybody to care."""
        return self.seconds >= WORTH_S

    @property
    def is_slow(self) -> bool:
        """Whether the time is noticeable, and would be half as long without one of its causes."""
        return any(cause.share >= SLOW_FROM for cause in self.named_causes)

    @property
    def named_causes(self) -> tuple[Cause, ...]:
        """Causes large enough to be named; gaps between nodes only if there are any.

        Moving contiguous nodes changes only the turns of the disk.
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
        """Remedies of a time that is long enough for anybody to care."""
        return self.remedies if self.is_noticeable else ()

    @property
    def helpful(self) -> tuple[Remedy, ...]:
        """Remedies that save enough to be named as help on nearly every such drive, the best first."""
        return tuple(remedy for remedy in self._told if remedy.helps and remedy.is_sure)

    @property
    def unsure(self) -> tuple[Remedy, ...]:
        """Remedies that save as much on this drive, and nothing on some drives like it."""
        return tuple(remedy for remedy in self._told if remedy.helps and not remedy.is_sure)

    @property
    def best(self) -> Remedy | None:
        """What saves most of what helps and needs no other drive."""
        return next((remedy for remedy in self.helpful if not remedy.is_bought), None)

    @property
    def useless(self) -> tuple[Remedy, ...]:
        """Remedies that do not help, which somebody might try."""
        return tuple(remedy for remedy in self._told if not remedy.helps)
