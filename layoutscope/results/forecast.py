"""Results of ``forecast``: the layout of a volume and the time of its enumeration, cycle by cycle."""

from __future__ import annotations

from layoutscope.display import Displayed, Struct
from layoutscope.results import Shown


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
