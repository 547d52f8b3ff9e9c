"""What a remedy changes, and what it makes of it: the work on one volume and drive, and the reads that are left."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID
from layoutscope.analysis.counterfactual import ReadsOfNodes, walked
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.frozen import frozen
from layoutscope.walk.orders import ORDERS, Work, model_of, trace_on

if TYPE_CHECKING:
    from layoutscope.access.descent import Descent
    from layoutscope.access.host import HostProfile
    from layoutscope.access.model import Model
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.filesystems.traits import Traits
    from layoutscope.results.plan import RemedyWords
    from layoutscope.tables import VolumeLayout

LISTINGS: Final = ("fts", "readdir-stat", "du", "backup", "ls", "git-status")
"""Orders that ask for the attributes of every entry."""

WITH_DATA: Final = ("copy", "archive")
"""Orders that read the contents of files, too."""


class Case:
    """The work that a plan is about, on one volume and one drive."""

    def __init__(
        self, layout: VolumeLayout, drive: DriveProfile, order: str, host: HostProfile, start_offset_bytes: int = 0
    ) -> None:
        self.layout, self.drive, self.order, self.host = layout, drive, order, host
        self.start_offset_bytes = start_offset_bytes
        self.efforts_s: dict[str, float] = {}

    @cached_property
    def model(self) -> Model:
        """The volume as the host's driver sees it."""
        return model_of(self.layout, self.host)

    @cached_property
    def reads(self) -> AccessTrace:
        """What the work reads."""
        return self.walk(self.order)

    @cached_property
    def by_node(self) -> ReadsOfNodes:
        """The same with the node of each read."""
        return walked(self.layout, self.reads)

    @cached_property
    def descent(self) -> Descent:
        """The directories in the order of the walk."""
        return descend(self.model.entries, ROOT_ID)

    @property
    def traits(self) -> Traits:
        """What is known of its file system."""
        return filesystem_of(self.layout).traits

    @property
    def reads_data(self) -> bool:
        """Whether the work reads the contents of files."""
        return self.order in WITH_DATA

    def walk(self, order: str, work: Work | None = None) -> AccessTrace:
        """Work out the reads of an order on this volume."""
        return trace_on(self.model, ORDERS[order], work or Work())

    def having(self, reads: ReadsOfNodes) -> Case:
        """Take what the work reads from somebody who has walked already, and return the same case."""
        self.reads, self.by_node = reads.trace, reads
        return self

    def on(self, layout: VolumeLayout, host: HostProfile | None = None) -> Case:
        """Return the same work on another layout, or done by another host."""
        return Case(layout, self.drive, self.order, host or self.host, self.start_offset_bytes)


@frozen
class Part:
    """Reads that one drive serves."""

    reads: AccessTrace  # in the order in which they come
    drive: DriveProfile  # which drive
    queue_depth: int = 1  # reads that are outstanding
    start_offset_bytes: int = 0  # where the image lies on the drive
    times: float = 1.0  # how many times as long as these reads the part takes


@frozen
class Changed:
    """What a remedy makes of the work."""

    parts: tuple[Part, ...]  # what is read then, drive by drive, one after the other
    effort_s: float | None = 0.0  # what the remedy itself takes, once; None where no model tells
    # the volume as it lies then, for remedies on top of this one; None where it stays as it is
    case: Case | None = None
    least_s: float = 0.0  # the computer's time, where it passes beside the drive's: the work takes no less
    # the same, if what nobody knows turns out otherwise: the draws take turns; empty where nothing can
    otherwise: tuple[tuple[Part, ...], ...] = ()
    # by what share of the time the model of the remedy was off: of the draws of each outcome a third takes so much
    # less, and a third so much more
    error_share: float = 0.0


@frozen
class NotHere:
    """That a remedy does not apply, and why."""

    why: str  # as a clause


class Treatment(Protocol):
    """A remedy: what is to be known of it, and its model."""

    @property
    def words(self) -> RemedyWords:
        """What it is, how to do it, what it assumes."""

    def model(self, case: Case) -> Changed | NotHere:
        """Say what would be read, or why it does not apply."""


def read_by(case: Case, reads: AccessTrace, effort_s: float | None = 0.0) -> Changed:
    """Say that other reads do the work, on the same drive."""
    return Changed((Part(reads, case.drive, start_offset_bytes=case.start_offset_bytes),), effort_s)


def lying_so(case: Case, layout: VolumeLayout, effort_s: float | None) -> Changed:
    """Say that the same work is done on another layout."""
    then = case.on(layout)
    return Changed(read_by(then, then.reads).parts, effort_s, then)
