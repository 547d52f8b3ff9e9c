"""What is not known of a drive and of a host, drawn: a column of draws for each input, and drives made of them.

A figure is drawn by its kind: what was measured hardly, what was assumed widely. A profile that stands for a class of
drives has no data sheet of its own.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.drive.members import single_drives
from layoutscope.drive.priors import drawn, factors, num_draws, priors, uniform
from layoutscope.drive.spread import split_name
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from layoutscope.drive.profile import DriveProfile, Figure

    F64 = NDArray[np.float64]

DRIVE, MODEL, OFFSET, HOST, START = "drive", "model", "offset", "host", "start"
"""Groups of inputs: which drive it is, what the model is off on such drives, where on it the volume lies, how fast the
computer is, where the disk stood."""

FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "track_to_track": ("track_to_track_ms",),
    "seek": ("average_seek_ms", "seek_ms"),
    "rate": ("outer_mb_s",),
    "overhead": ("read_miss_ms",),
    "interface": ("interface_mb_s",),
    "buffer": ("buffer_bytes", "segment_sectors"),
    "flash_latency": ("latency_us",),
    "flash_rate": ("bandwidth_mb_s",),
}
"""Inputs of a drive, and the figures whose kind tells how well each is known: the first that a profile has."""

GEOMETRIES: Final = 16
"""Drives that are laid out; draws share them in turn."""


class Host(NamedTuple):
    """What is said of a host: an empty name where the times between the reads are known.

    `machine` is how many times as long the computer takes as the one whose costs are known; 0 where nothing is told.
    """

    name: str = ""
    threads: int = 1
    processors: int = 4
    machine: float = 0.0


UNSAID: Final = Host()
"""Of a trace whose times between the reads are known."""


@frozen
class Uncertain:
    """What is not known, drawn."""

    # factors on figures, on the host's time and on the drive's, by input; those that are known are absent
    factor: Mapping[str, F64]
    # values in place of the profile's: `rpm`, `join`, `look_ahead`, `chunk_bytes`, `mirror`
    choice: Mapping[str, NDArray[Any]]
    angle: F64  # turns at which the disk stands at the start
    # where on the drive the image begins, as a share of what is left of it; None where that is known
    offset: F64 | None = None
    # draws of figures that were measured together, by their names in the profile's `spread`
    together: Mapping[str, F64] = field(default_factory=dict)

    def columns(self) -> dict[str, tuple[str, NDArray[Any]]]:
        """Return every input that is drawn with its group, for telling what contributes."""
        found = {name: (name if name in (HOST, MODEL) else DRIVE, values) for name, values in self.factor.items()}
        found |= {name: (DRIVE, values) for name, values in (*self.choice.items(), *self.together.items())}
        if self.offset is not None:
            found[OFFSET] = (OFFSET, self.offset)
        return found

    @property
    def varies_geometry(self) -> bool:
        """Whether drives that are laid out differ."""
        drawn = any(name in SCALED for name in self.factor) or bool(self.choice) or bool(self.together)
        return drawn or self.offset is not None

    def of(self, name: str) -> F64:
        """Return the factors of an input: ones where it is known."""
        return self.factor.get(name, np.ones(num_draws()))


def uncertain(profile: DriveProfile, host: Host, *, knows_offset: bool = True, left_out: str = "") -> Uncertain:
    """Draw what is not known of a drive and a host."""
    inputs, leaves = priors()["drive"], single_drives(profile)
    factor, choice = {}, dict(_choices(profile))
    for name, figures in FIGURES.items():
        known = next((leaf.figures[each] for leaf in leaves for each in figures if each in leaf), None)
        told = known is None or any(each in measured_together(leaves[0]) for each in figures)
        width = 1.0 if told or known is None else inputs[name][kind_of(leaves[0], known)]
        if width > 1:
            factor[name] = _in_turn(factors(f"drive.{name}", width, GEOMETRIES if name in SCALED else 0))
    error = model_error(profile.geometry, left_out)
    if error:
        factor[MODEL] = factors("drive.model", error)
    if host.name:
        factor[HOST] = host_factors(host)
    angle = drawn("start.angle", {"span": [0.0, 1.0]})
    anywhere = priors()["placement"]["offset"]
    offset = None if knows_offset else _in_turn(drawn("placement.offset", anywhere, GEOMETRIES))
    spreads = [leaf.spread.figures for leaf in leaves if leaf.spread is not None]
    together = {figure: _in_turn(np.exp(uniform_normal(figure))) for figures in spreads for figure in figures}
    return Uncertain(factor, choice, angle, offset, together)


def _in_turn(values: NDArray[Any]) -> NDArray[Any]:
    """Give each draw the value of its geometry."""
    return np.resize(values, num_draws())


def kind_of(drive: DriveProfile, figure: Figure) -> str:
    """Return how well a figure is known: of a class of drives a data sheet is but that of one of them."""
    stands_for_class = bool(drive.take_for) and not drive.models
    return "assumed" if figure.kind == "datasheet" and stands_for_class else figure.kind


def measured_together(drive: DriveProfile) -> set[str]:
    """Return the figures whose errors a profile itself tells, by what was measured of the drive."""
    return set() if drive.spread is None else {split_name(figure)[0] for figure in drive.spread.figures}


def is_measured(profile: DriveProfile) -> bool:
    """Tell whether every figure of a drive that is drawn was measured."""
    figures = {each for names in FIGURES.values() for each in names} | {"rpm", "join", "look_ahead", "chunk_bytes"}
    held = (profile, *single_drives(profile))
    return all(each.kind == "measured" for leaf in held for name, each in leaf.figures.items() if name in figures)


def _choices(profile: DriveProfile) -> Mapping[str, NDArray[Any]]:
    """Draw what is chosen among several: where a profile only assumes its own."""
    inputs, found = priors()["drive"], {}
    rotating = [leaf for leaf in single_drives(profile) if leaf.kind == "hdd"]
    assumed = {name for leaf in rotating for name, figure in leaf.figures.items() if figure.kind == "assumed"}
    if "rpm" in assumed:
        found["rpm"] = _in_turn(drawn("drive.rotation", inputs["rotation"], GEOMETRIES))
    for name in ("join", "look_ahead"):
        if name in assumed:
            found[name] = _in_turn(drawn(f"drive.{name}", inputs[name], GEOMETRIES))
    if is_any_set(profile):
        found["chunk_bytes"] = _in_turn(drawn("drive.chunk", inputs["set"], GEOMETRIES))
        found["mirror"] = _in_turn(drawn("drive.mirror", {"span": [0.0, 1.0]}, GEOMETRIES) < inputs["set"]["mirror"])
    return found


def is_any_set(profile: DriveProfile) -> bool:
    """Tell whether a profile is of two disks, of which it is not known how they are set up."""
    chunk = profile.figures.get("chunk_bytes")
    rotating = [member for member in profile.members if member.kind == "hdd"]
    is_assumed = chunk is not None and chunk.kind == "assumed"
    return is_assumed and profile.kind == "stripe" and len(rotating) == len(profile.members) == 2


def model_error(geometry: str, left_out: str = "") -> float:
    """Return the factor that nine in ten drives of which as much is known lie within; 0 for flash.

    Of so few drives the spread itself is hardly known: a t distribution with as many degrees of freedom as there are
    drives says how much wider an interval must be.
    """
    if geometry == "none":
        return 0.0
    errors = [error for drive, error in priors()["model"][geometry].items() if drive != left_out]
    rms = float(np.sqrt(np.mean(np.square(errors))))
    return float(np.exp(rms * T_95[len(errors)]))


def model_drives(geometry: str) -> int:
    """Return how many drives the model's error is known of."""
    return len(priors()["model"][geometry])


T_95: Final[Mapping[int, float]] = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015}
"""Quantile of Student's t at 95 %, by degrees of freedom."""


def host_factors(host: Host) -> F64:
    """Draw by how much the host's time differs from what its costs say, on the wall."""
    prior = priors()["host"][host.name]
    machine = host.machine or drawn("host.machine", prior["machine"])
    wall = factors("host.cost", prior["cost"]["factor"]) * machine
    if host.threads > 1:
        usual = min(host.threads, host.processors)
        wall = wall * usual / np.minimum(host.threads, drawn("host.processors", prior["processors"]))
    return np.asarray(wall)


def drawn_drive(profile: DriveProfile, unknown: Uncertain, number: int) -> DriveProfile:
    """Return the drive of one draw, but for seeks, overhead and buses, which need no other geometry."""
    figures = {name: values[number] for name, values in unknown.factor.items()}
    choice = {name: values[number] for name, values in unknown.choice.items()}
    if choice.get("mirror"):
        # One disk of a mirror serves a read alone, wherever it lies; each is as large as the set.
        one = replace(profile.members[0], name=profile.name)
        return _changed(one, number, figures, choice).with_figures(capacity_bytes=profile.capacity_bytes)
    made = _changed(profile, number, figures, choice)
    return made.with_figures(chunk_bytes=int(choice["chunk_bytes"])) if "chunk_bytes" in choice else made


def _changed(
    profile: DriveProfile, number: int, figures: Mapping[str, float], choice: Mapping[str, Any]
) -> DriveProfile:
    members = tuple(_changed(member, number, figures, choice) for member in profile.members)
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
        scaled |= {name: _plain(choice[name]) for name in ("rpm", "join", "look_ahead") if name in choice}
    return profile.with_figures(**scaled)


SCALED: Final[Mapping[str, tuple[str, ...]]] = {
    "track_to_track": ("track_to_track_ms",),
    "rate": ("outer_mb_s", "inner_mb_s"),
    "buffer": ("buffer_bytes", "segment_sectors"),
    "flash_latency": ("latency_us",),
    "flash_rate": ("bandwidth_mb_s",),
}
"""Figures that an input of the geometry scales. A measured seek table and measured zones stay."""


def uniform_normal(figure: str) -> F64:
    """Return the draws of a figure that was measured, as of a normal distribution (by the logistic one, within 1 %)."""
    share = uniform(f"measured.{figure}", GEOMETRIES)
    return np.asarray(np.log(share / (1 - share)) / LOGIT_OF_NORMAL)


LOGIT_OF_NORMAL: Final = 1.702
"""What makes a logistic distribution nearly a normal one (Haley 1952)."""


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, list):
        return [_times(each, factor) for each in value]
    return max(round(value * factor), 1) if isinstance(value, int) and value > 1000 else value * factor


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
