"""What ``forecast`` returns: what a volume's layout and its enumeration will be like, cycle by cycle."""

from __future__ import annotations

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown


class ForecastRange(Displayed, Struct, frozen=True):
    """A number of a layout that has aged, over several draws of what happens to it."""

    value: float  # the median
    low: float  # the smallest
    high: float  # the greatest


class ForecastTime(Displayed, Struct, frozen=True):
    """How long an enumeration takes on a drive."""

    profile: str  # the drive
    seconds: ForecastRange  # on the drive as it is named: over what may happen to the layout
    # lower end of the range in which nine of ten drives like it are, whatever happens to the layout, with the
    # error that the model had on volumes that real drivers aged; it reaches to the lower end of `seconds` where
    # that is outside
    low_s: float
    high_s: float  # upper end of that range, which reaches to the upper end of `seconds`


class ForecastMetric(Displayed, Struct, frozen=True):
    """A metric of a layout that has aged."""

    name: str  # name of the metric
    subject: str  # what it is a metric of
    title: str  # its title
    unit: str  # its unit
    found: ForecastRange | None  # its value; None where it has none
    # lower end of the range in which it is if the model is off by as much as it was on volumes that real drivers
    # aged; None where it was not compared with any
    low: float | None = None
    high: float | None = None  # upper end of that range


class ForecastPoint(Displayed, Struct, frozen=True):
    """A volume after some cycles."""

    cycle: int  # after how many
    files: ForecastRange  # files that it has
    nodes: ForecastRange  # leaves of the tree that is enumerated
    reads: ForecastRange  # reads of an enumeration
    times: tuple[ForecastTime, ...]  # on each drive
    metrics: tuple[ForecastMetric, ...]  # every metric of its layout


class Churn(Displayed, Struct, frozen=True):
    """What several images of one volume show about its changes."""

    replaced: tuple[float, ...]  # share of the files of each image but the first that were not there in the one before
    # share of the leaves of the enumerated tree that were written since the one before; None if nodes do not show it
    rewritten: tuple[float | None, ...]
    # share of files for the last step by the mean of those before it; None with fewer than three images
    expected: float | None


class ForecastResult(Shown, Struct, frozen=True):
    """A forecast."""

    image: str  # the image
    volume: str  # the volume
    filesystem: str  # its file system
    host: str  # whose driver writes
    workload: str  # the workload
    does: str  # what the workload does
    share: float  # share of the files that a cycle is about
    cycles: int  # cycles that were asked for
    simulated_cycles: int  # cycles that were followed
    cycles_a_step: int  # how many of them are followed in one step
    seeds: int  # how many draws there are
    points: tuple[ForecastPoint, ...]  # the volume after some of the cycles, the first as it is
    notes: tuple[str, ...]  # what is assumed or left out, a sentence each
    churn: Churn | None = None  # measured from several images
