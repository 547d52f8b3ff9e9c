"""What ``plan`` returns: what could be done about the time that a volume takes, each with what it saves and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown
from layoutscope.results.verdict import HELPS_FROM

if TYPE_CHECKING:
    from layoutscope.drive.uncertain import Interval
    from layoutscope.frames import pl
    from layoutscope.results.scan import ImageFacts

SOFTWARE: Final = "software"
VOLUME: Final = "volume"
HARDWARE: Final = "hardware"
"""What a remedy changes: the program that reads, the layout of the volume, or its drive."""

FEW_READS: Final = 20
"""Fewer reads are too few to judge a remedy."""


class RemedyWords(Displayed, Struct, frozen=True):
    """What is to be known of a remedy, whatever the volume."""

    name: str  # by which it is asked for, and the name of its page
    title: str  # what somebody does, in a few words
    kind: str  # `SOFTWARE`, `VOLUME` or `HARDWARE`
    ways: tuple[tuple[str, str], ...]  # how to do it: on which system, and the command
    risk: str  # what can go wrong
    side_effects: str  # what else changes
    assumes: str  # what its prediction takes for granted
    source: str  # where it is known from

    @property
    def page(self) -> str:
        """The page of documentation with what it does on the disk, when it helps, and how that was checked."""
        name = "on-other" if self.name.startswith("on-") else self.name
        return f"docs/remedies.md#{name}"


class PlannedRemedy(Displayed, Struct, frozen=True):
    """One remedy on one volume."""

    words: RemedyWords  # what it is
    seconds: float  # what the work would take then; the present time if it does not apply
    interval: Interval | None = None  # range of that time; None if it does not apply
    saved_s: float = 0.0  # seconds less, below 0 where it would take longer
    saved: Interval | None = None  # of the seconds that are saved, draw by draw on the same drives as the time without
    share: float = 0.0  # share of the time that it saves
    effort_s: float | None = 0.0  # what the remedy itself takes, once, by the same models; None if no model knows
    why_not: str = ""  # why it does not apply to this volume, this work or this drive; an empty string where it does

    @property
    def helps(self) -> bool:
        """Whether it saves enough to be called a help."""
        return not self.why_not and self.share >= HELPS_FROM

    @property
    def is_sure(self) -> bool:
        """Whether it saves time on 95 of 100 drives that were drawn."""
        return self.saved is not None and self.saved.low_s > 0

    @property
    def pays_after(self) -> float | None:
        """How often the work must be done until the remedy has paid; None if it saves nothing or no model knows."""
        return self.effort_s / self.saved_s if self.effort_s is not None and self.saved_s > 0 else None


class RemedyPair(Displayed, Struct, frozen=True):
    """Two remedies that go together: the best one that needs no other drive, and what saves most beside it."""

    names: tuple[str, str]  # what is done to the volume, and what the program then does
    seconds: float  # what the work would take with both
    share: float  # share of the time that both save


class MissingFiles(Displayed, Struct, frozen=True):
    """Files that a list does not hold, for one reason."""

    reason: str  # why
    files: int  # how many
    example: str = ""  # the path of one of them, with escapes for what a path cannot hold; empty where none leads to it

    @property
    def sentence(self) -> str:
        """What is left out, and why."""
        count = "1 file is" if self.files == 1 else f"{self.files:,} files are"
        example = f", such as {self.example}" if self.example else ""
        return f"{count} left out of the list: {self.reason}{example}"


class EmittedOrder(Displayed, Struct, frozen=True):
    """A list of all files that was written, in the order in which they are best read."""

    path: str  # where it is
    files: int  # names in it, each once
    missing: tuple[MissingFiles, ...]  # what is not in it, reason by reason
    windows: int  # pieces of the walk that were sorted by themselves
    seconds: tuple[tuple[str, float], ...]  # what looking up and reading them takes: in this order, then in others


class Pace(Displayed, Struct, frozen=True):
    """How fast the work becomes slower as the volume ages on, by a forecast."""

    cycles: int  # cycles that were forecast
    share: float  # share of the files that each of them replaces
    now_s: float  # what the work takes now
    then_s: float  # what it takes after the cycles

    @property
    def per_cycle_s(self) -> float:
        """Seconds more with each cycle; below 0 where it becomes quicker."""
        return (self.then_s - self.now_s) / self.cycles if self.cycles else 0.0

    def lasts(self, item: PlannedRemedy) -> float | None:
        """Return after how many cycles the work takes again what it takes now; None where that is not to be seen.

        A remedy in the program or the drive does not wear off, nor does one that saves nothing.
        """
        if item.words.kind != VOLUME or item.saved_s <= 0 or self.per_cycle_s <= 0:
            return None
        return item.saved_s / self.per_cycle_s


class VolumePlan(Displayed, Struct, frozen=True):
    """What could be done about one volume, on one drive."""

    volume: str  # the volume
    order: str  # the work
    host: str  # whose drivers do it
    drive: str  # the drive
    title: str  # its title
    reads: int  # what the work reads
    seconds: float  # what it takes as it is
    interval: Interval  # range of that time
    # what saves most first, after it what would not help, then what does not apply
    remedies: tuple[PlannedRemedy, ...]
    pair: RemedyPair | None = None  # the best two together; None where no two help more than one
    coverage: float | None = 1.0  # share of the known metadata that was read
    num_errors: int = 0  # findings that are errors
    unknown: tuple[str, ...] = ()  # what the plan cannot know, in sentences
    pace: Pace | None = None  # how fast the work becomes slower; None where that was not asked for

    @property
    def helpful(self) -> tuple[PlannedRemedy, ...]:
        """Those that would help, the best first."""
        return tuple(item for item in self.remedies if item.helps)

    @property
    def useless(self) -> tuple[PlannedRemedy, ...]:
        """Those that apply, and would not help here."""
        return tuple(item for item in self.remedies if not item.helps and not item.why_not)

    @property
    def inapplicable(self) -> tuple[PlannedRemedy, ...]:
        """Those that do not apply."""
        return tuple(item for item in self.remedies if item.why_not)


class PlanResult(Shown, Struct, frozen=True):
    """What could be done, volume by volume; one of which nothing can be listed has its reason in `untold`."""

    frames: ClassVar = ("remedies",)

    image: ImageFacts
    volumes: tuple[VolumePlan, ...]
    untold: tuple[str, ...] = ()
    shows_all: bool = False
    emitted: EmittedOrder | None = None

    @property
    def remedies(self) -> pl.DataFrame:
        """All remedies, one row per volume and remedy, the best first."""
        return self._frame("remedies")
