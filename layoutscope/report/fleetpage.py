"""One offline page over a fleet: a table with a strip of each volume, distributions, age against time, the slowest.

Everything is in the page's text, and can be read without scripts, which only sort, search and change colours. Names are
hostile: they are escaped for HTML, and the page may run no script and use no style but its own, which it names by hash.
"""

from __future__ import annotations

import base64
import math
import zlib
from functools import partial
from hashlib import sha256
from html import escape
from statistics import median
from string import Template
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from layoutscope.display import Struct
from layoutscope.report import escape_text
from layoutscope.report.map.figure import DATA, MAIN
from layoutscope.report.map.page import asset
from layoutscope.results.explanation import drive_words
from layoutscope.results.fleet import STATUSES
from layoutscope.units import format_bytes, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


FEWEST_ENTRIES: Final = 100
"""Volumes of fewer are not ranked: what is paid once, such as mounting, would decide."""

FEWEST_VOLUMES: Final = 3
"""A median of fewer is one of them."""

MARKED: Final = 1.25
"""So many times the median is worth a word."""

IN_SEQUENCE: Final = "walk request-layout-score"
"""The metric that says how many reads follow on the one before."""


class VolumeCard(Struct, frozen=True):
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
    metrics: Mapping[str, float]  # values by the keys of `FleetPage.metrics`
    age_days: float | None  # from the creation of its root folder to the newest change on it
    # metadata, data: share of each part of the volume that is metadata, and that is data of files, 0 to 1; empty where
    # unknown
    metadata: tuple[float, ...]
    data: tuple[float, ...]
    map_page: str = ""  # address of its map, from this page; empty without one

    @property
    def called(self) -> str:
        """Its name, or something else that identifies it."""
        return self.name or self.volume or self.source


class FleetPage(Struct, frozen=True):
    """What the page is made of."""

    # title, made: the batch's folder, and what made the page
    title: str
    made: str
    counts: Mapping[str, int]  # how many sources ended how, by `STATUSES`
    order: str  # what times are of
    drives: tuple[str, ...]  # which drives they are on; ranks are by the first
    metrics: Mapping[str, tuple[str, str]]  # which metrics are shown: title and unit by key
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
        ended = [f"{fleet.counts[status]:,} {status}" for status in STATUSES if fleet.counts.get(status)]
        said = f"{format_count(sum(fleet.counts.values()), 'source')}: {', '.join(ended) or 'none'}."
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
        said = format_count(number, "volume")
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


BINS: Final = 120
"""Parts of a strip."""

STRENGTHS: Final = 15
FAINTEST: Final = 5
"""What is there at all is seen."""

SLOWEST: Final = 10

KINDS: Final = 4
"""Colours for kinds of file systems; the last is for all others."""

PNG: Final = b"\x89PNG\r\n\x1a\n"

STRIP_COLOURS: Final = tuple(tuple(bytes.fromhex(role.light.removeprefix("#"))) for role in (MAIN, DATA))
"""Colours of metadata and of file data, those of maps; visible on light and on dark."""


def fleet_page(fleet: FleetPage) -> str:
    """Return the whole page; the same input gives the same text."""
    script, style = asset("fleet.js"), asset("fleet.css")
    return Template(asset("fleet.html")).substitute(
        title=_format_text(fleet.title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        sections="".join(_sections(fleet, Ranking(fleet))),
        made=_format_text(fleet.made),
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _format_text(text: str) -> str:
    return escape(escape_text(text))


def _sections(fleet: FleetPage, ranking: Ranking) -> Iterator[str]:
    yield f'<section id="what"><p class="headline">{_format_text(ranking.headline())}</p>\n'
    yield f'<p class="muted">{_format_text(ranking.about())}</p></section>\n'
    slowest = ranking.places[:SLOWEST]
    if len(slowest) > 1:
        title = "The slowest first" if len(ranking.places) <= SLOWEST else f"The {SLOWEST} slowest"
        yield f'<section id="worst"><h2>{title}</h2>\n<ol>\n'
        for place in slowest:
            card = fleet.volumes[place]
            yield f'<li><a href="#v{place}">{_format_text(card.called)}</a> '
            yield f'<span class="small muted path">{_format_text(card.path)}</span>'
            state = "" if card.status == STATUSES[0] else f"{card.status}; of what was read "
            told = _format_text(f"{state}{ranking.time(place)}: {ranking.reason(place)}")
            yield f'<span class="muted">{told}</span></li>\n'
        yield "</ol></section>\n"
    if fleet.volumes:
        yield from _table(fleet, ranking)
        yield from _charts(fleet, ranking)
    if fleet.failures or fleet.left_out:
        yield from _list_failed(fleet)


def _table(fleet: FleetPage, ranking: Ranking) -> Iterator[str]:
    yield '<section id="all"><h2>All volumes</h2>\n<div class="bar" hidden><input id="search" type="search" '
    yield 'placeholder="search names, paths, kinds, states" aria-label="search the table">'
    yield '<span id="shown" class="muted small" role="status"></span></div>\n<div class="legend">'
    for colour, what in zip(STRIP_COLOURS, ("metadata", "data of files"), strict=True):
        filled = f'<rect width="10" height="10" fill="#{bytes(colour).hex()}"/>'
        yield f'<span><svg viewBox="0 0 10 10">{filled}</svg>{what}</span>'
    yield '<span class="muted">from the start of the volume to its end; the stronger, the denser</span></div>\n'
    yield '<div class="rows" tabindex="0" role="region" aria-label="all volumes"><table id="volumes"><thead><tr>'
    numbers = ["1,000 entries", *map(drive_words, fleet.drives)] if fleet.drives else []
    numbers = ["Size", "Entries", *numbers, *(title for title, _ in fleet.metrics.values()), "Age, days"]
    for title in ("Volume", "State", "Kind", "Layout", *numbers):
        ordered = ' aria-sort="descending"' if title == "1,000 entries" else ""
        label = _format_text(title) if title == "Layout" else f'<button type="button">{_format_text(title)}</button>'
        yield f'<th scope="col"{" class=n" if title in numbers else ""}{ordered}>{label}</th>'
    yield "</tr></thead><tbody>\n"
    paces = ranking.paces
    for place in sorted(range(len(paces)), key=lambda each: (paces[each] is None, -(paces[each] or 0))):
        yield _row(fleet, place, paces[place])
    yield "</tbody></table></div></section>\n"


def _row(fleet: FleetPage, place: int, pace: float | None) -> str:
    card = fleet.volumes[place]
    called = _format_text(card.called)
    if card.map_page:
        called = f'<a href="{escape(quote(card.map_page))}">{called}</a>'
    times = [pace, *(card.seconds.get(drive) for drive in fleet.drives)] if fleet.drives else []
    values = [(card.metrics.get(key), unit) for key, (_, unit) in fleet.metrics.items()]
    cells = [
        f'<td class="name" title="{_format_text(card.volume)}">{called}<span>{_format_text(card.path)}</span></td>',
        f'<td class="status status-{_format_text(card.status)}">{_format_text(card.status)}</td>',
        f"<td>{_format_text(card.kind)}</td>",
        f"<td>{strip(card)}</td>",
        _number(card.size_bytes, format_bytes(card.size_bytes)),
        _number(card.entries, f"{card.entries:,}"),
        *(_number(value, "" if value is None else format_seconds(value)) for value in times),
        *(_number(value, _format_value(value, unit)) for value, unit in values),
        _number(card.age_days, "" if card.age_days is None else _days(card.age_days)),
    ]
    return f'<tr id="v{place}">{"".join(cells)}</tr>\n'


def _number(value: float | None, text: str) -> str:
    return f'<td class="n" data-v="{"" if value is None else f"{value:.10g}"}">{_format_text(text)}</td>'


def _format_value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "share":
        return format_share(value)
    return format_bytes(value) if unit == "bytes" else f"{value:,.3g}"


def _days(age: float) -> str:
    return f"{age:,.0f}" if age >= 10 else f"{age:.1f}"


def strip(card: VolumeCard) -> str:
    """Draw a volume as a strip, metadata above and data of files below: a picture that needs no script."""
    if not card.metadata and not card.data:
        return ""
    # Metadata are a few per cent where they are densest.
    lines = (_strengths([math.sqrt(max(0.0, share)) for share in card.metadata]), _strengths(card.data, STRENGTHS + 1))
    palette = b"".join(bytes(colour) * (STRENGTHS + 1) for colour in STRIP_COLOURS)
    opaque = bytes(round(strength * 255 / STRENGTHS) for strength in range(STRENGTHS + 1)) * 2
    # Eight bits a pixel, by the palette.
    header = b"".join(map(_word, (BINS, len(lines)))) + bytes((8, 3, 0, 0, 0))
    packed = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"tRNS", opaque), (b"IDAT", packed), (b"IEND", b""))
    data = PNG + b"".join(_word(len(body)) + kind + body + _word(zlib.crc32(kind + body)) for kind, body in chunks)
    said = f"metadata in {format_share(sum(share > 0 for share in card.metadata) / BINS)} of its parts"
    address = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return f'<img class="strip" alt="{said}" title="{said}" src="{address}">'


def _word(number: int) -> bytes:
    return number.to_bytes(4)


def _strengths(shares: Sequence[float], first: int = 0) -> bytes:
    """Return the colours of a line."""
    filled = (*shares, *[0.0] * (BINS - len(shares)))
    within = (min(1.0, max(0.0, share)) for share in filled)
    return bytes(first + (max(FAINTEST, math.ceil(STRENGTHS * share)) if share > 0 else 0) for share in within)


def _kinds(fleet: FleetPage) -> list[str]:
    """Return the kinds that have a colour, the most frequent first; the last colour is of all others."""
    counted: dict[str, int] = {}
    for card in fleet.volumes:
        counted[card.kind] = counted.get(card.kind, 0) + 1
    kinds = sorted(counted, key=lambda kind: (-counted[kind], kind))
    return kinds if len(kinds) <= KINDS else [*kinds[: KINDS - 1], "others"]


def _charts(fleet: FleetPage, ranking: Ranking) -> Iterator[str]:
    colours = {kind: place for place, kind in enumerate(_kinds(fleet))}
    drawn = "".join(_draw_ranking(fleet, ranking, [colours.get(card.kind, KINDS - 1) for card in fleet.volumes]))
    if not drawn:
        return
    yield '<section id="charts"><h2>How they are distributed</h2>\n<div class="legend">'
    for kind, place in colours.items():
        filled = f'<rect class="f{place}" width="10" height="10"/>'
        yield f'<span><svg viewBox="0 0 10 10">{filled}</svg>{_format_text(kind)}</span>'
    yield f'</div>\n<div class="charts">\n{drawn}</div></section>\n'


def _draw_ranking(fleet: FleetPage, ranking: Ranking, colours: Sequence[int]) -> Iterator[str]:
    volumes = fleet.volumes
    for drive in fleet.drives:
        known = [(volumes[place], colours[place]) for place in ranking.places if drive in volumes[place].seconds]
        times = [(card.seconds[drive] * 1000 / card.entries, colour) for card, colour in known]
        yield from _histogram(f"1,000 entries on {drive_words(drive)}", times, math.log, format_seconds)
    for key, (title, unit) in fleet.metrics.items():
        held = zip(volumes, colours, strict=True)
        values = [(card.metrics[key], colour) for card, colour in held if key in card.metrics]
        yield from _histogram(title, values, float, partial(_format_value, unit=unit))
    yield from _scatter(fleet, ranking, colours)


WIDTH: Final = 300
TALL: Final = 130
LEFT: Final = 54
FOOT: Final = TALL - 18
BARS: Final = 24


def _histogram(
    title: str, values: Sequence[tuple[float, int]], scale: Callable[[float], float], told: Callable[[float], str]
) -> Iterator[str]:
    """Draw how many volumes have which value, stacked by kind."""
    known = [(value, kind) for value, kind in values if value > 0 or scale is float]
    if len(known) < FEWEST_VOLUMES:
        return
    low, high = min(value for value, _ in known), max(value for value, _ in known)
    span = scale(high) - scale(low) or 1.0
    stacks = [[0] * KINDS for _ in range(BARS)]
    for value, kind in known:
        stacks[min(BARS - 1, int((scale(value) - scale(low)) / span * BARS))][kind] += 1
    most, middle = max(map(sum, stacks)), told(median(value for value, _ in known))
    said = f"{title}: from {told(low)} to {told(high)}, median {middle}"
    yield f'<figure class="card"><h3>{_format_text(title)}</h3><svg viewBox="0 0 {WIDTH} {TALL}" role="img" '
    yield f'aria-label="{_format_text(said)}">'
    step = (WIDTH - LEFT - 4) / BARS
    for place, stack in enumerate(stacks):
        top = float(FOOT)
        for kind, count in enumerate(stack):
            height = (FOOT - 8) * count / most
            top -= height
            if count:
                yield f'<rect class="f{kind}" x="{LEFT + place * step:.1f}" y="{top:.1f}" '
                yield f'width="{step - 1:.1f}" height="{height:.1f}"><title>{count:,}</title></rect>'
    yield from _axes((told(low), told(high)), [(8.0, f"{most:,}")])
    yield f'</svg><p class="small muted">median {_format_text(middle)}</p></figure>\n'


def _axes(below: tuple[str, str], beside: Sequence[tuple[float, str]]) -> Iterator[str]:
    yield f'<path class="axis" d="M{LEFT} {FOOT}H{WIDTH - 4}"/>'
    yield f'<text x="{LEFT}" y="{TALL - 4}">{_format_text(below[0])}</text>'
    if below[1] != below[0]:
        yield f'<text x="{WIDTH - 4}" y="{TALL - 4}" text-anchor="end">{_format_text(below[1])}</text>'
    for y, text in beside:
        yield f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{_format_text(text)}</text>'


def _scatter(fleet: FleetPage, ranking: Ranking, colours: Sequence[int]) -> Iterator[str]:
    """Draw age against time; a point leads to its row."""
    held = [(place, fleet.volumes[place].age_days, ranking.paces[place]) for place in ranking.places]
    known = [(place, age, pace) for place, age, pace in held if age is not None and pace]
    if len(known) < FEWEST_VOLUMES:
        return
    oldest = max(age for _, age, _ in known) or 1.0
    low, high = min(pace for _, _, pace in known), max(pace for _, _, pace in known)
    span = math.log(high / low) or 1.0
    yield f'<figure class="card"><h3>Age against 1,000 entries on {_format_text(drive_words(fleet.drives[0]))}</h3>'
    yield f'<svg viewBox="0 0 {WIDTH} {TALL}" role="img" aria-label="age against time, a point a volume">'
    for place, age, pace in known:
        x = LEFT + 8 + age / oldest * (WIDTH - LEFT - 18)
        y = FOOT - 6 - math.log(pace / low) / span * (FOOT - 16)
        said = f"{fleet.volumes[place].called}: {_days(age)} days, {format_seconds(pace)}"
        yield f'<a href="#v{place}"><circle class="f{colours[place]}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
        yield f"<title>{_format_text(said)}</title></circle></a>"
    yield from _axes(
        ("0 days", f"{_days(oldest)} days"), [(10.0, format_seconds(high)), (FOOT - 6.0, format_seconds(low))]
    )
    yield "</svg></figure>\n"


def _list_failed(fleet: FleetPage) -> Iterator[str]:
    yield '<section id="failures"><h2>Not complete</h2>\n'
    if fleet.failures:
        yield '<div class="rows" tabindex="0" role="region" aria-label="sources that are not complete"><table>'
        yield '<thead><tr><th scope="col">State</th><th scope="col">Source</th><th scope="col">Why</th></tr></thead>'
        yield "<tbody>\n"
        for path, status, message in fleet.failures:
            why = message.removeprefix(f"{path}: ")
            yield f'<tr><td class="status status-{_format_text(status)}">{_format_text(status)}</td>'
            yield f'<td class="name">{_format_text(path)}</td><td class="name">{_format_text(why)}</td></tr>\n'
        yield "</tbody></table></div>\n"
    for line in fleet.left_out:
        yield f'<p class="small">left out: {_format_text(line)}</p>\n'
    yield "</section>\n"
