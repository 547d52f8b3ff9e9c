"""What ``forecast`` returns: what a volume's layout and its enumeration will be like, cycle by cycle."""

from __future__ import annotations

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown


class ForecastRange(Displayed, Struct, frozen=True):
    """A number of a layout that has aged, over several draws of what happens to it.

    Attributes
    ----------
    value : float
        The median.
    low, high : float
        The smallest and the greatest.
    """

    value: float
    low: float
    high: float


class ForecastTime(Displayed, Struct, frozen=True):
    """How long an enumeration takes on a drive.

    Attributes
    ----------
    profile : str
        The drive.
    seconds : ForecastRange
        On the drive as it is named: over what may happen to the layout.
    low_s, high_s : float
        Between which times nine of ten drives like it are, whatever happens to the layout, with what the model was off
        by on volumes that real drivers aged. They reach to the ends of `seconds` where those lie outside.
    """

    profile: str
    seconds: ForecastRange
    low_s: float
    high_s: float


class ForecastMetric(Displayed, Struct, frozen=True):
    """A metric of a layout that has aged.

    Attributes
    ----------
    name, subject, title, unit : str
        Which one it is, and of what.
    found : ForecastRange or None
        Its value; None where it has none.
    low, high : float or None
        Between which values it is where the model is off by as much as it was on volumes that real drivers aged; None
        where it was held against none.
    """

    name: str
    subject: str
    title: str
    unit: str
    found: ForecastRange | None
    low: float | None = None
    high: float | None = None


class ForecastPoint(Displayed, Struct, frozen=True):
    """A volume after some cycles.

    Attributes
    ----------
    cycle : int
        After how many.
    files : ForecastRange
        Files that it has.
    nodes : ForecastRange
        Leaves of the tree that is enumerated.
    reads : ForecastRange
        Reads of an enumeration.
    times : tuple of ForecastTime
        On each drive.
    metrics : tuple of ForecastMetric
        Every metric of its layout.
    """

    cycle: int
    files: ForecastRange
    nodes: ForecastRange
    reads: ForecastRange
    times: tuple[ForecastTime, ...]
    metrics: tuple[ForecastMetric, ...]


class Churn(Displayed, Struct, frozen=True):
    """What several images of one volume tell of what happens to it.

    Attributes
    ----------
    replaced : tuple of float
        Share of the files of each image but the first that were not there in the one before.
    rewritten : tuple of float or None
        Share of the leaves of the enumerated tree that were written since the one before; None where nodes do not tell.
    expected : float or None
        Share of files for the last step by the mean of those before it; None with fewer than three images.
    """

    replaced: tuple[float, ...]
    rewritten: tuple[float | None, ...]
    expected: float | None


class ForecastResult(Shown, Struct, frozen=True):
    """A forecast.

    Attributes
    ----------
    image, volume, filesystem : str
        Of what.
    host, workload, does : str
        Whose driver writes, the workload, and what it does.
    share : float
        Share of the files that a cycle is about.
    cycles, simulated_cycles : int
        Cycles that were asked for, and those that were followed.
    cycles_a_step : int
        How many of them are followed in one step.
    seeds : int
        How many draws there are.
    points : tuple of ForecastPoint
        The volume after some of the cycles, the first as it is.
    notes : tuple of str
        What is assumed or left out, a sentence each.
    churn : Churn or None
        What several images tell.
    """

    image: str
    volume: str
    filesystem: str
    host: str
    workload: str
    does: str
    share: float
    cycles: int
    simulated_cycles: int
    cycles_a_step: int
    seeds: int
    points: tuple[ForecastPoint, ...]
    notes: tuple[str, ...]
    churn: Churn | None = None
