"""Draws for unknown properties of a drive and a host: a column of draws for each input, and drives made from them.

The kind of a figure determines how widely draws vary: measured figures hardly, assumed ones widely. A profile that
represents a class of drives has no data sheet of its own.
"""

from __future__ import annotations

import hashlib
import tomllib
from functools import lru_cache
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Displayed, Struct
from layoutscope.drive.geometry import single_drives
from layoutscope.drive.profile import split_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.driver import HostProfile
    from layoutscope.drive.profile import DriveProfile, Figure

    F64 = NDArray[np.float64]
    Inputs = Mapping[str, tuple[str, NDArray[Any]]]
    """Drawn inputs by name, each with its group and its values."""

FILE: Final = Path(__file__).with_name("priors.toml")
NINE_IN_TEN: Final = float(np.log(19))
"""Logit of 95 %: 90 % of the draws of a logistic distribution are between minus and plus this value."""


@lru_cache(maxsize=1)
def priors() -> dict[str, Any]:
    """Return the contents of the file of priors."""
    return tomllib.loads(FILE.read_text("utf-8"))


def num_draws() -> int:
    """Return the number of draws of an interval."""
    return int(priors()["draws"])


@lru_cache(maxsize=64)
def uniform(name: str, count: int = 0) -> F64:
    """Return the column of an input: evenly distributed shares between 0 and 1, in an order derived from its name."""
    count = count or num_draws()
    drawn = hashlib.shake_128(name.encode()).digest(8 * count)
    order = np.argsort(np.frombuffer(drawn, np.uint64), kind="stable")
    column = (order + 0.5) / count
    column.setflags(write=False)
    return np.asarray(column)


def factors(name: str, factor: float, count: int = 0) -> F64:
    """Draw factors; 90 % of them are between ``1 / factor`` and `factor`."""
    share = uniform(name, count)
    return np.asarray(np.exp(np.log(share / (1 - share)) * (np.log(factor) / NINE_IN_TEN)))


def drawn(name: str, prior: Mapping[str, Any], count: int = 0) -> NDArray[Any]:
    """Draw from a range (evenly by logarithm), from a span (evenly) or from words (by their weights)."""
    share = uniform(name, count)
    if "range" in prior:
        low, high = np.log(prior["range"])
        return np.asarray(np.exp(low + (high - low) * share))
    if "span" in prior:
        low, high = prior["span"]
        return np.asarray(low + (high - low) * share)
    key = next(key for key in ("words", "rpm", "chunk_bytes") if key in prior)
    values = np.array(prior[key])
    weights = np.cumsum(prior.get("weights", np.full(len(values), 1 / len(values))))
    return np.asarray(values[np.minimum(np.searchsorted(weights, share, side="right"), len(values) - 1)])


DRIVE, MODEL, OFFSET, HOST, START = "drive", "model", "offset", "host", "start"
"""Groups of inputs: the drive's own figures, the error of the model on such drives, the place of the volume on the
drive, the speed of the host, the start angle of the disk."""

FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "track_to_track": ("track_to_track_ms",),
    "seek": ("average_seek_ms", "seek_ms"),
    "rate": ("outer_mb_s",),
    "overhead": ("read_miss_ms",),
    "interface": ("interface_mb_s",),
    "buffer": ("buffer_bytes", "segment_sectors"),
    "flash_latency": ("latency_us",),
    "flash_sequential": ("sequential_us",),
    "flash_rate": ("bandwidth_mb_s",),
}
"""Inputs of a drive, each with the figures whose kind shows how well it is known: the first that a profile has."""

HABITS: Final = ("join", "look_ahead", "on_arrival")
"""How a drive uses its buffer, which no data sheet specifies."""

GEOMETRIES: Final = 16
"""Number of drives that are laid out; draws share them in turn."""


class Host(NamedTuple):
    """The facts of a host; the name is empty if the times between the reads are known.

    `machine` is the host's time as a multiple of the time of the host whose costs are known; 0 if it is unknown.
    """

    name: str = ""
    threads: int = 1
    processors: int = 4
    machine: float = 0.0

    @classmethod
    def of(cls, host: HostProfile) -> Host:
        """Return the facts from a host's profile."""
        return cls(host.name, host.threads, host.processors)


UNSAID: Final = Host()
"""The host of a trace whose times between the reads are known."""


class Uncertain(Struct, frozen=True):
    """Draws for everything that is unknown."""

    # factors on figures, on host time and on drive time, by input; known inputs are absent
    factor: Mapping[str, F64]
    # values that replace the profile's: `rpm`, those of `HABITS`, `chunk_bytes`, `mirror`
    choice: Mapping[str, NDArray[Any]]
    angle: F64  # start angle of the disk in revolutions
    # where the image begins on the drive, as a share of the free space; None if that is known
    offset: F64 | None = None
    # draws of figures that were measured together, by their names in the profile's `spread`
    together: Mapping[str, F64] = field(default_factory=dict)

    def columns(self) -> dict[str, tuple[str, NDArray[Any]]]:
        """Return every drawn input with its group, to compute contributions."""
        found = {name: (name if name in (HOST, MODEL) else DRIVE, values) for name, values in self.factor.items()}
        found |= {name: (DRIVE, values) for name, values in (*self.choice.items(), *self.together.items())}
        if self.offset is not None:
            found[OFFSET] = (OFFSET, self.offset)
        return found

    @property
    def varies_geometry(self) -> bool:
        """Whether the drives that are laid out differ."""
        drawn = any(name in SCALED for name in self.factor) or bool(self.choice) or bool(self.together)
        return drawn or self.offset is not None

    def of(self, name: str) -> F64:
        """Return the factors of an input; ones if it is known."""
        return self.factor.get(name, np.ones(num_draws()))


def uncertain(profile: DriveProfile, host: Host, *, knows_offset: bool = True, left_out: str = "") -> Uncertain:
    """Draw what is unknown about a drive and a host."""
    inputs, leaves = priors()["drive"], single_drives(profile)
    spread = leaves[0].spread
    # Figures whose errors the profile contains, from measurements of the drive.
    measured = set() if spread is None else {split_name(figure)[0] for figure in spread.figures}
    factor, choice = {}, {}
    for name, figures in FIGURES.items():
        known = next((leaf.figures[each] for leaf in leaves for each in figures if each in leaf), None)
        if known is None or not measured.isdisjoint(figures):
            continue
        width = inputs[name][kind_of(leaves[0], known)]
        if width > 1:
            factor[name] = _expand_to_draws(factors(f"drive.{name}", width, GEOMETRIES if name in SCALED else 0))
    rotating = [leaf for leaf in leaves if leaf.kind == "hdd"]
    assumed = {name for leaf in rotating for name, figure in leaf.figures.items() if figure.kind == "assumed"}
    if "rpm" in assumed:
        choice["rpm"] = _expand_to_draws(drawn("drive.rotation", inputs["rotation"], GEOMETRIES))
    for name in HABITS:
        if name in assumed:
            choice[name] = _expand_to_draws(drawn(f"drive.{name}", inputs[name], GEOMETRIES))
    if is_any_set(profile):
        choice["chunk_bytes"] = _expand_to_draws(drawn("drive.chunk", inputs["set"], GEOMETRIES))
        mirrors = drawn("drive.mirror", {"span": [0.0, 1.0]}, GEOMETRIES) < inputs["set"]["mirror"]
        choice["mirror"] = _expand_to_draws(mirrors)
    error = model_error(profile.geometry, left_out)
    if error:
        factor[MODEL] = factors("drive.model", error)
    if host.name:
        factor[HOST] = host_factors(host)
    angle = drawn("start.angle", {"span": [0.0, 1.0]})
    anywhere = priors()["placement"]["offset"]
    offset = None if knows_offset else _expand_to_draws(drawn("placement.offset", anywhere, GEOMETRIES))
    spreads = [leaf.spread.figures for leaf in leaves if leaf.spread is not None]
    together = {figure: _expand_to_draws(np.exp(uniform_normal(figure))) for figures in spreads for figure in figures}
    return Uncertain(factor, choice, angle, offset, together)


def _expand_to_draws(values: NDArray[Any]) -> NDArray[Any]:
    """Assign to each draw the value of its geometry."""
    return np.resize(values, num_draws())


def kind_of(drive: DriveProfile, figure: Figure) -> str:
    """Return how well a figure is known: for a class of drives, a data sheet describes only one of them."""
    stands_for_class = bool(drive.take_for) and not drive.models
    return "assumed" if figure.kind == "datasheet" and stands_for_class else figure.kind


def is_measured(profile: DriveProfile) -> bool:
    """Return whether every drawn figure of a drive was measured."""
    figures = {each for names in FIGURES.values() for each in names} | {"rpm", "chunk_bytes", *HABITS}
    held = (profile, *single_drives(profile))
    return all(each.kind == "measured" for leaf in held for name, each in leaf.figures.items() if name in figures)


def is_any_set(profile: DriveProfile) -> bool:
    """Return whether a profile is a set of two disks whose configuration is unknown."""
    chunk = profile.figures.get("chunk_bytes")
    rotating = [member for member in profile.members if member.kind == "hdd"]
    is_assumed = chunk is not None and chunk.kind == "assumed"
    return is_assumed and profile.kind == "stripe" and len(rotating) == len(profile.members) == 2


def model_error(geometry: str, left_out: str = "") -> float:
    """Return the factor within which the model is for 90 % of equally well known drives; 0 for flash.

    With so few drives, the spread itself is uncertain: a t distribution with as many degrees of freedom as there are
    drives determines how much wider an interval must be.
    """
    if geometry == "none":
        return 0.0
    errors = [error for drive, error in priors()["model"][geometry].items() if drive != left_out]
    rms = float(np.sqrt(np.mean(np.square(errors))))
    return float(np.exp(rms * T_95[len(errors)]))


def model_drives(geometry: str) -> int:
    """Return the number of drives from which the model's error is known."""
    return len(priors()["model"][geometry])


T_95: Final[Mapping[int, float]] = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015}
"""Quantile of Student's t at 95 %, by degrees of freedom."""


def host_factors(host: Host) -> F64:
    """Draw the ratios of the host's elapsed time to its computed costs."""
    prior = priors()["host"][host.name]
    machine = host.machine or drawn("host.machine", prior["machine"])
    wall = factors("host.cost", max(line.get("factor", 1.0) for line in prior.values())) * machine
    if host.threads > 1:
        usual = min(host.threads, host.processors)
        wall = wall * usual / np.minimum(host.threads, drawn("host.processors", prior["processors"]))
    return np.asarray(wall)


def draw_drive(profile: DriveProfile, unknown: Uncertain, number: int) -> DriveProfile:
    """Return the drive of one draw; seeks, overhead and buses, which leave the geometry unchanged, are not varied."""
    figures = {name: values[number] for name, values in unknown.factor.items()}
    choice = {name: values[number] for name, values in unknown.choice.items()}
    if choice.get("mirror"):
        # One disk of a mirror serves a read by itself, wherever the data is; each disk is as large as the set.
        one = replace(profile.members[0], name=profile.name)
        return _change_profile(one, number, figures, choice).with_figures(capacity_bytes=profile.capacity_bytes)
    made = _change_profile(profile, number, figures, choice)
    return made.with_figures(chunk_bytes=int(choice["chunk_bytes"])) if "chunk_bytes" in choice else made


def _change_profile(
    profile: DriveProfile, number: int, figures: Mapping[str, float], choice: Mapping[str, Any]
) -> DriveProfile:
    members = tuple(_change_profile(member, number, figures, choice) for member in profile.members)
    if members:
        return replace(profile, members=members)
    if profile.spread is not None:
        normal = np.array([uniform_normal(figure)[number] for figure in profile.spread.figures])
        profile = profile.drawn(normal)
    scaled: dict[str, Any] = {}
    for name, keys in SCALED.items():
        for key in keys:
            if name in figures and key in profile:
                scaled[key] = _times(profile.figures[key].value, figures[name])
    if profile.kind == "hdd":
        scaled |= {name: choice[name].item() for name in ("rpm", *HABITS) if name in choice}
    return profile.with_figures(**scaled)


SCALED: Final[Mapping[str, tuple[str, ...]]] = {
    "track_to_track": ("track_to_track_ms",),
    "rate": ("outer_mb_s", "inner_mb_s"),
    "buffer": ("buffer_bytes", "segment_sectors"),
    "flash_latency": ("latency_us",),
    "flash_sequential": ("sequential_us",),
    "flash_rate": ("bandwidth_mb_s",),
}
"""Figures that an input of the geometry scales. Measured seek tables and measured zones do not change."""


def uniform_normal(figure: str) -> F64:
    """Return the draws of a measured figure, from a normal distribution (a logistic one approximates it within 1 %)."""
    share = uniform(f"measured.{figure}", GEOMETRIES)
    return np.asarray(np.log(share / (1 - share)) / LOGIT_OF_NORMAL)


LOGIT_OF_NORMAL: Final = 1.702
"""Scale that makes a logistic distribution nearly normal (Haley 1952)."""


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, list):
        return [_times(each, factor) for each in value]
    return max(round(value * factor), 1) if isinstance(value, int) and value > 1000 else value * factor


QUANTILES: Final = (0.05, 0.25, 0.75, 0.95)
LAYOUT, VOLUME = "layout", "volume"
"""What an interval describes: this layout on other drives of this type, or a similar volume with other placements."""


class Interval(Displayed, Struct, frozen=True):
    """The range of a prediction."""

    # ``layout``: this layout, on a drive like that. ``volume``: a similar volume whose nodes were placed in an
    # unknown way
    of: str
    low_s: float  # the quantile of the draws at 5 %
    quarter_s: float  # the quantile at 25 %
    median_s: float  # the median of the draws
    three_quarters_s: float  # the quantile at 75 %: half of the draws are between it and `quarter_s`
    high_s: float  # the quantile at 95 %: 90 % of the draws are between it and `low_s`
    # what contributes, by group of inputs, the most first: shares of the variance of the time's logarithm, at
    # most 1 together. What is left belongs to no single one
    shares: tuple[tuple[str, float], ...]
    draws: int  # how many drives were tried

    @property
    def ratio(self) -> float:
        """How many times the lower end the upper end is."""
        return self.high_s / self.low_s if self.low_s else 1.0


def interval_of(
    seconds: F64,  # time of each draw
    columns: Inputs,
    of: str = LAYOUT,
    # uncertainty from sampling the reads, as the logarithm of a factor: it widens the outer quantiles
    sampling_error: float = 0.0,
) -> Interval:
    """Make an interval from draws."""
    low, quarter, three_quarters, high = quantiles(seconds).tolist()
    median = float(seconds[median_draw(seconds)])
    shares = contributions(seconds, columns)
    wider = float(np.exp(sampling_error))
    return Interval(of, low / wider, quarter, median, three_quarters, high * wider, shares, len(seconds))


def quantiles(seconds: F64, shares: Sequence[float] = QUANTILES) -> F64:
    """Return quantiles of the draws at shares from 0 to 1, with linear interpolation."""
    # This is ``numpy.quantile``, whose import of masked arrays would take longer than all intervals of a scan.
    ordered, found = sorted(seconds.tolist()), []
    for share in shares:
        before, part = divmod((len(ordered) - 1) * share, 1)
        low, high = ordered[int(before)], ordered[min(int(before) + 1, len(ordered) - 1)]
        found.append(high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part)
    return np.array(found)


def median_draw(seconds: F64) -> int:
    """Return the number of the median draw; of the two in the middle, the faster one."""
    return int(np.argsort(seconds, kind="stable")[(len(seconds) - 1) // 2])


class PairedRatio(NamedTuple):
    """How many times as long one trace takes as another, compared drive by drive."""

    median: float
    low: float  # 90 % of the drives are between this and `high`
    high: float

    @property
    def is_open(self) -> bool:
        """Whether it is uncertain which of the two takes longer."""
        return self.low <= 1 <= self.high

    @property
    def is_one(self) -> bool:
        """Whether both take equally long, to two digits, on nearly every drive."""
        return two_digits(self.low) == two_digits(self.high) == "1.0"

    @property
    def words(self) -> str:
        """The ratio and its range in words."""
        median, low, high = map(two_digits, self)
        return f"{median} times ({low} to {high})"


def two_digits(value: float) -> str:
    """Round to two digits, which is already more than the accuracy of a ratio.

    >>> [two_digits(value) for value in (0.2049, 0.999, 3.96, 38.8, 12345.6)]
    ['0.20', '1.0', '4.0', '39', '12,000']
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:#.2g}"


def paired_ratio(longer_s: Sequence[float] | F64, shorter_s: Sequence[float] | F64) -> PairedRatio | None:
    """Divide two lists of simulated times pairwise; None if they are empty or do not match, or a time is 0."""
    longer, shorter = np.array(longer_s), np.array(shorter_s)
    if not shorter.size or longer.shape != shorter.shape or not shorter.min():
        return None
    found = longer / shorter
    low, high = quantiles(found, (QUANTILES[0], QUANTILES[-1])).tolist()
    return PairedRatio(float(found[median_draw(found)]), low, high)


def contributions(seconds: F64, columns: Inputs) -> tuple[tuple[str, float], ...]:
    """Return the share of the variance of the times' logarithm that each group of inputs explains, largest first.

    Least squares on the logarithms of the inputs, with words as choices. The share that equally many inputs without
    effect would explain by chance is subtracted. Groups can explain a share together, because with few draws one can
    substitute for another. This share is divided among them by Shapley's value: the mean, over all orders in which
    groups can be added, of what each group adds. So no share is below 0, and the sum is at most 1.

    References
    ----------
    .. [1] R. H. Lindeman, P. F. Merenda, R. Z. Gold, "Introduction to bivariate and multivariate analysis", 1980.
    """
    log = _centre_logarithms(seconds)
    if log is None:
        return ()
    tables: dict[str, list[F64]] = {}
    for group, values in columns.values():
        if len(np.unique(values)) > 1:
            tables.setdefault(group, []).append(_standard(values))
    names = list(tables)
    explained = {
        chosen: _explained_share(log, [table for name in chosen for table in tables[name]])
        for count in range(len(names) + 1)
        for chosen in combinations(names, count)
    }
    added = dict.fromkeys(names, 0.0)
    for name in names:
        gain = 0.0
        for before, share in explained.items():
            if name not in before:
                both = tuple(each for each in names if each == name or each in before)
                gain += (explained[both] - share) / comb(len(names) - 1, len(before)) / len(names)
        added[name] = max(gain, 0.0)
    total = sum(added.values())
    most = max(explained[tuple(names)], 0.0) if names else 0.0
    scale = min(most / total, 1.0) if total else 0.0
    return tuple(sorted(((name, share * scale) for name, share in added.items()), key=lambda item: -item[1]))


def _centre_logarithms(seconds: F64) -> F64 | None:
    """Return the logarithms of times, less their mean; None if all times are equal."""
    log = np.log(np.maximum(seconds, 1e-12))
    log = log - log.mean()
    # Times that agree to one millionth are not compared: their differences are rounding errors.
    return None if float(log @ log) < len(log) * 1e-12 else log


def largest_unknown(seconds: F64, columns: Inputs) -> tuple[str, float]:
    """Return the input that by itself explains most of the variance of the time's logarithm, and that share.

    The name is empty if no input explains anything. The model's error is not an input that anybody could determine.
    """
    log = _centre_logarithms(seconds)
    if log is None:
        return "", 0.0
    tables = {name: _standard(values) for name, (group, values) in columns.items() if group != MODEL}
    # The last digits of products of vectors depend on where numpy's memory starts.
    shares = {name: round(_explained_share(log, [table]), 9) for name, table in tables.items() if table.any()}
    return max(shares.items(), key=lambda item: item[1], default=("", 0.0))


def _explained_share(log: F64, tables: list[F64]) -> float:
    """Return the share of the variance that some inputs explain, minus the share expected by chance."""
    if not tables:
        return 0.0
    table = np.concatenate(tables, axis=1)
    slope, _, rank, _ = np.linalg.lstsq(table, log, rcond=None)
    left = float(((log - table @ slope) ** 2).sum()) / float(log @ log)
    return 1 - left * (len(log) - 1) / max(len(log) - 1 - int(rank), 1)


def _standard(values: NDArray[Any]) -> F64:
    """Return columns with mean 0: the logarithm of a number, or one column for each word or truth value."""
    kinds, _ = np.unique(values, return_index=True)  # without indices, numpy would load masked arrays
    if values.dtype.kind in "iuf" and len(kinds) > MAX_WORDS:
        table = np.log(np.maximum(values.astype(np.float64), 1e-9))[:, None]
    else:
        table = (values[:, None] == kinds[None, 1:]).astype(np.float64)
    return np.asarray(table - table.mean(axis=0))


MAX_WORDS: Final = 6
"""An input with at most this many distinct values is treated as a choice."""
