"""Results of ``plan`` and ``forecast``: remedies with savings and costs, and the time of a volume as it ages."""

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
"""The target of a remedy: the reading program, the layout of the volume, or its drive."""

FEW_READS: Final = 20
"""A workload with fewer reads is too small to judge a remedy."""


class RemedyWords(Displayed, Struct, frozen=True):
    """The description of a remedy, independent of the volume."""

    name: str  # name of the remedy, and of its page
    title: str  # the action in a few words
    kind: str  # `SOFTWARE`, `VOLUME` or `HARDWARE`
    ways: tuple[tuple[str, str], ...]  # system and command of each way to do it
    risk: str  # what can go wrong
    side_effects: str  # what else changes
    assumes: str  # assumptions of its prediction
    source: str  # source of the remedy

    @property
    def page(self) -> str:
        """The page of documentation with its effect on the disk, its conditions, and its validation."""
        name = "on-other" if self.name.startswith("on-") else self.name
        return f"docs/remedies.md#{name}"


class PlannedRemedy(Displayed, Struct, frozen=True):
    """One remedy on one volume."""

    words: RemedyWords  # its description
    seconds: float  # predicted time with the remedy; the present time if it does not apply
    interval: Interval | None = None  # range of that time; None if it does not apply
    saved_s: float = 0.0  # seconds saved; negative if the remedy takes longer
    saved: Interval | None = None  # range of the seconds saved, simulated on the same drives as the present time
    share: float = 0.0  # share of the time that it saves
    effort_s: float | None = 0.0  # one-time cost of the remedy itself, by the same models; None if not modelled
    why_not: str = ""  # why it does not apply to this volume, workload or drive; empty if it does

    @property
    def helps(self) -> bool:
        """Whether it saves enough to be recommended."""
        return not self.why_not and self.share >= HELPS_FROM

    @property
    def is_sure(self) -> bool:
        """Whether it saves time on at least 95 % of the simulated drives."""
        return self.saved is not None and self.saved.low_s > 0

    @property
    def pays_after(self) -> float | None:
        """Number of runs after which the remedy has paid off; None if it saves nothing or is not modelled."""
        return self.effort_s / self.saved_s if self.effort_s is not None and self.saved_s > 0 else None


class RemedyPair(Displayed, Struct, frozen=True):
    """Two remedies that can be combined: the best one that needs no other drive, and the best addition to it."""

    names: tuple[str, str]  # the remedy for the volume, and the one for the program
    seconds: float  # predicted time with both
    share: float  # share of the time that both save


class MissingFiles(Displayed, Struct, frozen=True):
    """Files that are not in a list, for one reason."""

    reason: str  # why they are not in the list
    files: int  # number of files
    example: str = ""  # the path of one of them, with escapes; empty if none has a path

    @property
    def sentence(self) -> str:
        """The omission and its reason, as a sentence."""
        count = "1 file is" if self.files == 1 else f"{self.files:,} files are"
        example = f", such as {self.example}" if self.example else ""
        return f"{count} left out of the list: {self.reason}{example}"


class EmittedOrder(Displayed, Struct, frozen=True):
    """A list of all files in the best order for reading, which was written to a file."""

    path: str  # path of the list
    files: int  # number of names in it, each once
    missing: tuple[MissingFiles, ...]  # files that are not in it, by reason
    windows: int  # pieces of the walk that were sorted separately
    seconds: tuple[tuple[str, float], ...]  # time for looking up and reading the files: in this order, then in others


class Pace(Displayed, Struct, frozen=True):
    """The slowdown of a workload as the volume ages further, by a forecast."""

    cycles: int  # number of forecast cycles
    share: float  # share of the files that each cycle replaces
    now_s: float  # present time
    then_s: float  # time after the cycles

    @property
    def per_cycle_s(self) -> float:
        """Additional seconds per cycle; negative if the workload becomes faster."""
        return (self.then_s - self.now_s) / self.cycles if self.cycles else 0.0

    def lasts(self, item: PlannedRemedy) -> float | None:
        """Return the number of cycles after which the savings are used up; None if they last.

        A remedy for the program or the drive does not wear off.
        """
        if item.words.kind != VOLUME or item.saved_s <= 0 or self.per_cycle_s <= 0:
            return None
        return item.saved_s / self.per_cycle_s


class VolumePlan(Displayed, Struct, frozen=True):
    """The remedies for one volume on one drive."""

    volume: str  # name of the volume
    order: str  # name of the workload
    host: str  # host profile
    drive: str  # name of the drive profile
    title: str  # title of the drive profile
    reads: int  # number of reads of the workload
    seconds: float  # present time
    interval: Interval  # range of that time
    remedies: tuple[PlannedRemedy, ...]  # the best first; then those that do not help, then those that do not apply
    pair: RemedyPair | None = None  # the best combination; None if no pair helps more than a single remedy
    coverage: float | None = 1.0  # share of the known metadata that was read
    num_errors: int = 0  # number of findings that are errors
    unknown: tuple[str, ...] = ()  # unknowns of the plan, in sentences
    pace: Pace | None = None  # slowdown as the volume ages; None if it was not requested

    @property
    def helpful(self) -> tuple[PlannedRemedy, ...]:
        """Remedies that help, the best first."""
        return tuple(item for item in self.remedies if item.helps)

    @property
    def useless(self) -> tuple[PlannedRemedy, ...]:
        """Remedies that apply but do not help here."""
        return tuple(item for item in self.remedies if not item.helps and not item.why_not)

    @property
    def inapplicable(self) -> tuple[PlannedRemedy, ...]:
        """Remedies that do not apply."""
        return tuple(item for item in self.remedies if item.why_not)


class PlanResult(Shown, Struct, frozen=True):
    """Remedies by volume; `untold` has the reasons why other volumes have no plan."""

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


class ForecastRange(Displayed, Struct, frozen=True):
    """A number of an aged layout, over several simulations of its future."""

    value: float  # median
    low: float  # minimum
    high: float  # maximum


class ForecastTime(Displayed, Struct, frozen=True):
    """The time of an enumeration on a drive."""

    profile: str  # name of the drive profile
    seconds: ForecastRange  # on the nominal drive, over the simulated futures of the layout
    # lower end of the range of nine in ten similar drives over all simulated futures, including the error of the
    # model on volumes that real drivers aged; it is never above the lower end of `seconds`
    low_s: float
    high_s: float  # upper end of that range, never below the upper end of `seconds`


class ForecastMetric(Displayed, Struct, frozen=True):
    """A metric of an aged layout."""

    name: str  # name of the metric
    subject: str  # the measured object
    title: str  # title of the metric
    unit: str  # unit of the metric
    found: ForecastRange | None  # its value; None without a value
    # lower end of its range if the model is as wrong as on volumes that real drivers aged; None if it was not
    # compared with any
    low: float | None = None
    high: float | None = None  # upper end of that range


class ForecastPoint(Displayed, Struct, frozen=True):
    """A volume after some cycles."""

    cycle: int  # number of cycles
    files: ForecastRange  # number of files
    nodes: ForecastRange  # leaves of the enumerated tree
    reads: ForecastRange  # reads of an enumeration
    times: tuple[ForecastTime, ...]  # one per drive
    metrics: tuple[ForecastMetric, ...]  # metrics of its layout


class Churn(Displayed, Struct, frozen=True):
    """Changes of a volume between several images of it."""

    replaced: tuple[float, ...]  # share of the files of each later image that are not in the previous one
    # share of the leaves of the enumerated tree written since the previous image; None if nodes do not show it
    rewritten: tuple[float | None, ...]
    # share of files expected for the last step: the mean of the earlier ones; None with fewer than three images
    expected: float | None


class ForecastResult(Shown, Struct, frozen=True):
    """The forecast for a volume."""

    image: str  # name of the image
    volume: str  # name of the volume
    filesystem: str  # its file system
    host: str  # host profile whose driver writes
    workload: str  # name of the workload
    does: str  # description of the workload
    share: float  # share of the files that a cycle changes
    cycles: int  # number of requested cycles
    simulated_cycles: int  # number of simulated cycles
    cycles_a_step: int  # number of cycles per step of the simulation
    seeds: int  # number of simulations
    points: tuple[ForecastPoint, ...]  # the volume after some of the cycles, first in its present state
    notes: tuple[str, ...]  # assumptions and omissions, one sentence each
    churn: Churn | None = None  # measured from several images
