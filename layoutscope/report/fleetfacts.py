"""What a page over a fleet says: its volumes, which are the slowest, and why.

The time of 1,000 entries is the product of two numbers, how many reads they take and how long a read takes, so that one
of them, or both, is the reason.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from layoutscope.analysis.story import drive_words
from layoutscope.frozen import frozen
from layoutscope.results.fleet import STATUSES
from layoutscope.units import format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping

FEWEST_ENTRIES: Final = 100
"""Volumes of fewer are not ranked: what is paid once, such as mounting, would decide."""

FEWEST_VOLUMES: Final = 3
"""A median of fewer is one of them."""

MARKED: Final = 1.25
"""So many times the median is worth a word."""

IN_SEQUENCE: Final = "walk request-layout-score"
"""The metric that says how many reads follow on the one before."""


@frozen
class CardMetric:
    """A metric that the page shows the distribution of: its key, title, and the unit of its values."""

    key: str
    title: str
    unit: str


@frozen
class VolumeCard:
    """A volume in the table."""

    source: str
    path: str
    status: str
    # volume, name, kind: its layers and name, its name alone, and which kind of file system it has
    volume: str
    name: str
    kind: str
    # size_bytes, entries: its length, and how many files and directories it has
    size_bytes: int
    entries: int
    seconds: Mapping[str, float]  # predicted time of the order, by drive
    reads: int | None  # reads of that order
    metrics: Mapping[str, float]  # values by the keys of `CardMetric`
    age_days: float | None  # from the creation of its root folder to the newest change on it
    # metadata, data: share of each part of the volume that is metadata, and that is data of files, 0 to 1; empty where
    # unknown
    metadata: tuple[float, ...]
    data: tuple[float, ...]
    map_page: str = ""  # address of its map, from this page; empty without one

    @property
    def called(self) -> str:
        """Its name, or what else tells which it is."""
        return self.name or self.volume or self.source


@frozen
class FleetPage:
    """What the page is made of."""

    # title, made: the batch's folder, and what made the page
    title: str
    made: str
    counts: Mapping[str, int]  # how many sources ended how, by `STATUSES`
    order: str  # what times are of
    drives: tuple[str, ...]  # which drives they are on; ranks are by the first
    metrics: tuple[CardMetric, ...]  # which metrics are shown
    volumes: tuple[VolumeCard, ...]  # all volumes
    failures: tuple[tuple[str, str, str], ...]  # path, status and message of every source that is not complete
    left_out: tuple[str, ...] = ()  # what could not be read of the batch


class Ranking:
    """The volumes of a fleet by the time of 1,000 entries on its first drive, the slowest first."""

    def __init__(self, fleet: FleetPage) -> None:
        self.fleet = fleet
        self.paces = [self._pace(card) for card in fleet.volumes]
        known = [
            (-pace, card.path, card.volume, place)
            for place, (card, pace) in enumerate(zip(fleet.volumes, self.paces, strict=True))
            if pace is not None and card.entries >= FEWEST_ENTRIES
        ]
        self.places = [item[-1] for item in sorted(known)]
        parts = [found for place in self.places if (found := self.parts(place)) is not None]
        self._medians = None
        if len(parts) >= FEWEST_VOLUMES:
            self._medians = median(part[0] for part in parts), median(part[1] for part in parts)

    def _pace(self, card: VolumeCard) -> float | None:
        seconds = card.seconds.get(self.fleet.drives[0]) if self.fleet.drives else None
        return seconds * 1000 / card.entries if seconds is not None and card.entries > 0 else None

    def parts(self, place: int) -> tuple[float, float] | None:
        """Part the time of 1,000 entries into reads for them and milliseconds a read; None without reads."""
        card, pace = self.fleet.volumes[place], self.paces[place]
        if not card.reads or pace is None:
            return None
        reads = card.reads * 1000 / card.entries
        return reads, pace * 1000 / reads

    def time(self, place: int) -> str:
        """Say what 1,000 entries take."""
        return f"{format_seconds(self.paces[place] or 0)} for 1,000 entries"

    def headline(self) -> str:
        """Say how many sources ended how, and which volume is the slowest."""
        fleet = self.fleet
        number = sum(fleet.counts.values())
        ended = [f"{fleet.counts[status]:,} {status}" for status in STATUSES if fleet.counts.get(status)]
        said = f"{number:,} source{'' if number == 1 else 's'}: {', '.join(ended) or 'none'}."
        if not self.places:
            return f"{said} There is no volume to compare." if fleet.volumes else f"{said} Nothing could be read."
        time = f"{self.time(self.places[0])} on a {drive_words(fleet.drives[0])}"
        worst = fleet.volumes[self.places[0]]
        called = f"{worst.called} of {worst.path.rpartition('/')[2] or worst.path}"
        if len(self.places) == 1:
            return f"{said} {called}: {time}."
        return f"{said} The slowest of {len(self.places):,} volumes is {called}: {time}{self._against()}."

    def _against(self) -> str:
        if len(self.places) < FEWEST_VOLUMES:
            return ""
        usual = median(self.paces[place] or 0 for place in self.places)
        times = (self.paces[self.places[0]] or 0) / usual if usual > 0 else 0
        return f", {times:.1f} times the median" if times >= MARKED else ""

    def about(self) -> str:
        """Say how many volumes there are, and what their times are of."""
        number = len(self.fleet.volumes)
        said = "1 volume" if number == 1 else f"{number:,} volumes"
        if self.fleet.drives:
            drives = ", ".join(map(drive_words, self.fleet.drives))
            said += f"; predicted times are of the order {self.fleet.order} on {drives}"
        few = number - len(self.places)
        if self.fleet.drives and few:
            said += f"; {few:,} with fewer than {FEWEST_ENTRIES} entries, or without a prediction, not ranked"
        return f"{said}."

    def reason(self, place: int) -> str:
        """Say why a volume takes as long as it does: more reads than others, or longer ones; empty if it has none."""
        parts = self.parts(place)
        if parts is None:
            return ""
        said = f"{parts[0]:,.0f} reads for them, {parts[1]:.2g} ms each"
        score = self.fleet.volumes[place].metrics.get(IN_SEQUENCE)
        apart = f"; {format_share(1 - score)} of the reads do not follow on the one before" if score is not None else ""
        if self._medians is None:
            return f"{said}{apart}."
        held = zip(parts, self._medians, ("reads", "the time of a read"), strict=True)
        more = [
            f"{now / middle:.1f} times the median of {what}"
            for now, middle, what in held
            if middle > 0 and now / middle >= MARKED
        ]
        return f"{said}: {', '.join(more)}{apart}." if more else f"{said}, neither far above the median{apart}."
