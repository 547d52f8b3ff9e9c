"""One self-contained page over a fleet: the slowest volumes as the figure of the map, a table, distributions, ages.

The page can be read without scripts, which only sort, search and change colours. Names are not trusted: they are
escaped for HTML, and the page's policy allows only its own script and style, by hash.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections import Counter
from functools import cached_property, partial
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
from layoutscope.units import format_bytes, format_count, format_seconds, format_share, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


MIN_ENTRIES: Final = 100
"""Volumes with fewer entries are not ranked, because one-time costs, such as mounting, dominate their times."""

MIN_VOLUMES: Final = 3
"""Least number of volumes for a meaningful median."""

MIN_MENTIONED_RATIO: Final = 1.25
"""Least ratio to the median that is mentioned."""


class VolumeCard(Struct, frozen=True):
    """A volume in the table."""

    source: str
    path: str
    status: str
    volume: str  # layers and name
    name: str  # name only
    kind: str  # kind of file system
    size_bytes: int
    entries: int  # number of files and directories
    seconds: Mapping[str, float]  # predicted time of the order, by drive
    reads: int | None  # number of reads of that order
    metrics: Mapping[str, float]  # values by the keys of `FleetPage.metrics`
    age_days: float | None  # from the creation of its root folder to its newest change
    metadata: tuple[float, ...]  # share of metadata in each part of the volume, 0 to 1; empty if unknown
    data: tuple[float, ...]  # share of file data in each part of the volume, 0 to 1; empty if unknown
    map_page: str = ""  # link to its map; empty without one

    @property
    def label(self) -> str:
        """Its name, or another identification."""
        return self.name or self.volume or self.source


class FleetPage(Struct, frozen=True, dict=True):
    """The contents of the page, with the ranks of its volumes."""

    title: str  # folder of the batch
    made: str  # program and version that made the page
    counts: Mapping[str, int]  # number of sources by status
    order: str  # order of the predicted times
    drives: tuple[str, ...]  # drives of the predicted times; the first determines the ranks
    metrics: Mapping[str, tuple[str, str]]  # title and unit of the shown metrics, by key
    volumes: tuple[VolumeCard, ...]
    failures: tuple[tuple[str, str, str], ...]  # path, status and message of each incomplete source
    left_out: tuple[str, ...] = ()  # parts of the batch that could not be read
    figure: str = ""  # the slowest volumes as rows of the figure of the map, in HTML; empty where nothing is drawn
    num_not_drawn: int = 0  # of the slowest volumes, those of which no reads are stored

    @cached_property
    def paces(self) -> list[float | None]:
        """The time per 1,000 entries of each volume on the first drive."""
        seconds = [card.seconds.get(self.drives[0]) if self.drives else None for card in self.volumes]
        return [
            time * 1000 / card.entries if time is not None and card.entries > 0 else None
            for card, time in zip(self.volumes, seconds, strict=True)
        ]

    @cached_property
    def places(self) -> list[int]:
        """The places of the ranked volumes by that time, the slowest first."""
        known = [
            (-pace, card.path, card.volume, place)
            for place, (card, pace) in enumerate(zip(self.volumes, self.paces, strict=True))
            if pace is not None and card.entries >= MIN_ENTRIES
        ]
        return [item[-1] for item in sorted(known)]

    def split_time(self, place: int) -> tuple[float, float] | None:
        """Split the time per 1,000 entries into the number of reads and milliseconds per read; None without reads."""
        card, pace = self.volumes[place], self.paces[place]
        if not card.reads or pace is None:
            return None
        reads = card.reads * 1000 / card.entries
        return reads, pace * 1000 / reads

    def headline(self) -> str:
        """Describe the statuses of the sources, and name the slowest volume."""
        ended = [f"{self.counts[status]:,} {status}" for status in STATUSES if self.counts.get(status)]
        counts = f"{format_count(sum(self.counts.values()), 'source')}: {', '.join(ended) or 'none'}."
        if not self.places:
            return f"{counts} There is no volume to compare." if self.volumes else f"{counts} Nothing could be read."
        worst, pace = self.volumes[self.places[0]], self.paces[self.places[0]] or 0
        time = f"{format_seconds(pace)} for 1,000 entries on a {drive_words(self.drives[0])}"
        label = f"{worst.label} of {worst.path.rpartition('/')[2] or worst.path}"
        if len(self.places) == 1:
            return f"{counts} {label}: {time}."
        usual = median(self.paces[place] or 0 for place in self.places)
        times = pace / usual if usual > 0 and len(self.places) >= MIN_VOLUMES else 0
        than_usual = f", {times:.1f} times the median" if times >= MIN_MENTIONED_RATIO else ""
        return f"{counts} The slowest of {len(self.places):,} volumes is {label}: {time}{than_usual}."

    def describe(self) -> str:
        """Describe the number of volumes, and the order and drives of their times."""
        number = len(self.volumes)
        text = format_count(number, "volume")
        if self.drives:
            drives = ", ".join(map(drive_words, self.drives))
            text += f"; predicted times are of the order {self.order} on {drives}"
        few = number - len(self.places)
        if self.drives and few:
            text += f"; {few:,} with fewer than {MIN_ENTRIES} entries, or without a prediction, not ranked"
        return f"{text}."


BINS: Final = 120
"""Number of parts of a strip."""

PACE: Final = "1,000 entries"
"""The column by which the table is sorted."""

STRENGTHS: Final = 15
MIN_STRENGTH: Final = 5
"""Least strength of a part that is not empty, so it is visible."""

SLOWEST: Final = 6
"""Volumes that have a row of the figure."""

KINDS: Final = 4
"""Number of colours for kinds of file systems; the last is for all others."""

PNG: Final = b"\x89PNG\r\n\x1a\n"

STRIP_COLOURS: Final = tuple(tuple(bytes.fromhex(role.light.removeprefix("#"))) for role in (MAIN, DATA))
"""Colours of metadata and of file data, those of maps; visible on light and on dark."""


def fleet_page(fleet: FleetPage) -> str:
    """Return the page as text; the same input gives the same text."""
    script, style = asset("fleet.js"), asset("figure.css") + asset("fleet.css")
    return Template(asset("fleet.html")).substitute(
        title=_format_text(fleet.title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        sections="".join(_sections(fleet)),
        made=_format_text(fleet.made),
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _format_text(text: str) -> str:
    return escape(escape_text(text))


def _sections(fleet: FleetPage) -> Iterator[str]:
    yield f'<section id="what"><p class="headline">{_format_text(fleet.headline())}</p>\n'
    yield f'<p class="muted">{_format_text(fleet.describe())}</p></section>\n'
    if fleet.figure or fleet.num_not_drawn:
        yield f'<section id="slowest"><h2>The slowest volumes</h2>\n{fleet.figure}'
        if fleet.num_not_drawn:
            left = f"No reads are stored of {fleet.num_not_drawn:,} of the {SLOWEST} slowest volumes; they have no row."
            yield f'<p class="muted small">{left}</p>'
        yield "</section>\n"
    if fleet.volumes:
        yield from _draw_table(fleet)
        yield from _draw_charts(fleet)
    if not fleet.failures and not fleet.left_out:
        return
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


def _draw_table(fleet: FleetPage) -> Iterator[str]:
    yield '<section id="all"><h2>All volumes</h2>\n<div class="bar" hidden><input id="search" type="search" '
    yield 'placeholder="search names, paths, kinds, states" aria-label="search the table">'
    yield '<span id="shown" class="muted small" role="status"></span></div>\n<div class="legend">'
    for colour, what in zip(STRIP_COLOURS, ("metadata", "data of files"), strict=True):
        filled = f'<rect width="10" height="10" fill="#{bytes(colour).hex()}"/>'
        yield f'<span><svg viewBox="0 0 10 10">{filled}</svg>{what}</span>'
    yield '<span class="muted">from the start of the volume to its end; the stronger, the denser</span></div>\n'
    yield '<div class="rows" tabindex="0" role="region" aria-label="all volumes"><table id="volumes"><thead><tr>'
    numbers = [PACE, "Reads for them", "Time of a read", *map(drive_words, fleet.drives)] if fleet.drives else []
    numbers = ["Size", "Entries", *numbers, *(title for title, _ in fleet.metrics.values()), "Age, days"]
    for title in ("Volume", "State", "Kind", "Layout", *numbers):
        ordered = ' aria-sort="descending"' if title == PACE else ""
        label = _format_text(title) if title == "Layout" else f'<button type="button">{_format_text(title)}</button>'
        yield f'<th scope="col"{" class=n" if title in numbers else ""}{ordered}>{label}</th>'
    yield "</tr></thead><tbody>\n"
    paces = fleet.paces
    for place in sorted(range(len(paces)), key=lambda each: (paces[each] is None, -(paces[each] or 0))):
        card, (reads, each) = fleet.volumes[place], fleet.split_time(place) or (None, None)
        label = _format_text(card.label)
        if card.map_page:
            label = f'<a href="{escape(quote(card.map_page))}">{label}</a>'
        times = [each and each / 1000, *map(card.seconds.get, fleet.drives)]
        shown = [(paces[place], "seconds"), (reads, "reads"), *((seconds, "seconds") for seconds in times)]
        values = [(card.metrics.get(key), unit) for key, (_, unit) in fleet.metrics.items()]
        cells = [
            f'<td class="name" title="{_format_text(card.volume)}">{label}<span>{_format_text(card.path)}</span></td>',
            f'<td class="status status-{_format_text(card.status)}">{_format_text(card.status)}</td>',
            f"<td>{_format_text(card.kind)}</td>",
            f"<td>{draw_strip(card)}</td>",
            _number_cell(card.size_bytes, format_bytes(card.size_bytes)),
            _number_cell(card.entries, f"{card.entries:,}"),
            *(
                _number_cell(value, _format_value(value, unit))
                for value, unit in (*(shown if fleet.drives else ()), *values)
            ),
            _number_cell(card.age_days, "" if card.age_days is None else _format_days(card.age_days)),
        ]
        yield f'<tr id="v{place}">{"".join(cells)}</tr>\n'
    yield "</tbody></table></div></section>\n"


def _number_cell(value: float | None, text: str) -> str:
    return f'<td class="n" data-v="{"" if value is None else f"{value:.10g}"}">{_format_text(text)}</td>'


def _format_value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "reads":
        return f"{value:,.0f}"
    return format_value(value, unit) if unit in ("share", "seconds", "bytes") else f"{value:,.3g}"


def _format_days(age: float) -> str:
    return f"{age:,.0f}" if age >= 10 else f"{age:.1f}"


def draw_strip(card: VolumeCard) -> str:
    """Draw a volume as a strip, with metadata above file data, as a picture without scripts."""
    if not card.metadata and not card.data:
        return ""
    # Even the densest parts have only a few per cent of metadata, so the square root is shown.
    lines = (
        _to_palette([math.sqrt(max(0.0, share)) for share in card.metadata]),
        _to_palette(card.data, STRENGTHS + 1),
    )
    palette = b"".join(bytes(colour) * (STRENGTHS + 1) for colour in STRIP_COLOURS)
    opaque = bytes(round(strength * 255 / STRENGTHS) for strength in range(STRENGTHS + 1)) * 2
    # Eight bits per pixel, with a palette.
    header = BINS.to_bytes(4) + len(lines).to_bytes(4) + bytes((8, 3, 0, 0, 0))
    packed = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"tRNS", opaque), (b"IDAT", packed), (b"IEND", b""))
    data = PNG + b"".join(
        len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4) for kind, body in chunks
    )
    label = f"metadata in {format_share(sum(share > 0 for share in card.metadata) / BINS)} of its parts"
    address = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    return f'<img class="strip" alt="{label}" title="{label}" src="{address}">'


def _to_palette(shares: Sequence[float], first: int = 0) -> bytes:
    """Return the palette indices of a line."""
    filled = (*shares, *[0.0] * (BINS - len(shares)))
    within = (min(1.0, max(0.0, share)) for share in filled)
    return bytes(first + (max(MIN_STRENGTH, math.ceil(STRENGTHS * share)) if share > 0 else 0) for share in within)


def _draw_charts(fleet: FleetPage) -> Iterator[str]:
    # The most frequent kinds have a colour each; the last colour is for all others.
    counted = Counter(card.kind for card in fleet.volumes)
    kinds = sorted(counted, key=lambda kind: (-counted[kind], kind))
    kinds = kinds if len(kinds) <= KINDS else [*kinds[: KINDS - 1], "others"]
    colours = {kind: place for place, kind in enumerate(kinds)}
    drawn = "".join(_draw_ranking(fleet, [colours.get(card.kind, KINDS - 1) for card in fleet.volumes]))
    if not drawn:
        return
    yield '<section id="charts"><h2>How they are distributed</h2>\n<div class="legend">'
    for kind, place in colours.items():
        filled = f'<rect class="f{place}" width="10" height="10"/>'
        yield f'<span><svg viewBox="0 0 10 10">{filled}</svg>{_format_text(kind)}</span>'
    yield f'</div>\n<div class="charts">\n{drawn}</div></section>\n'


def _draw_ranking(fleet: FleetPage, colours: Sequence[int]) -> Iterator[str]:
    volumes = fleet.volumes
    for drive in fleet.drives:
        known = [(volumes[place], colours[place]) for place in fleet.places if drive in volumes[place].seconds]
        times = [(card.seconds[drive] * 1000 / card.entries, colour) for card, colour in known]
        yield from _draw_histogram(f"1,000 entries on {drive_words(drive)}", times, math.log, format_seconds)
    for key, (title, unit) in fleet.metrics.items():
        cards = zip(volumes, colours, strict=True)
        values = [(card.metrics[key], colour) for card, colour in cards if key in card.metrics]
        yield from _draw_histogram(title, values, float, partial(_format_value, unit=unit))
    yield from _draw_scatter(fleet, colours)


WIDTH: Final = 300
HEIGHT: Final = 130
LEFT: Final = 54
BASELINE: Final = HEIGHT - 18
BARS: Final = 24


def _draw_histogram(
    title: str, values: Sequence[tuple[float, int]], scale: Callable[[float], float], form: Callable[[float], str]
) -> Iterator[str]:
    """Draw a histogram of values, stacked by kind."""
    known = [(value, kind) for value, kind in values if value > 0 or scale is float]
    if len(known) < MIN_VOLUMES:
        return
    low, high = min(value for value, _ in known), max(value for value, _ in known)
    span = scale(high) - scale(low) or 1.0
    stacks = [[0] * KINDS for _ in range(BARS)]
    for value, kind in known:
        stacks[min(BARS - 1, int((scale(value) - scale(low)) / span * BARS))][kind] += 1
    max_count, middle = max(map(sum, stacks)), form(median(value for value, _ in known))
    label = f"{title}: from {form(low)} to {form(high)}, median {middle}"
    yield f'<figure class="card"><h3>{_format_text(title)}</h3><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
    yield f'aria-label="{_format_text(label)}">'
    step = (WIDTH - LEFT - 4) / BARS
    for place, stack in enumerate(stacks):
        top = float(BASELINE)
        for kind, count in enumerate(stack):
            height = (BASELINE - 8) * count / max_count
            top -= height
            if count:
                yield f'<rect class="f{kind}" x="{LEFT + place * step:.1f}" y="{top:.1f}" '
                yield f'width="{step - 1:.1f}" height="{height:.1f}"><title>{count:,}</title></rect>'
    yield from _draw_axes((form(low), form(high)), [(8.0, f"{max_count:,}")])
    yield f'</svg><p class="small muted">median {_format_text(middle)}; bars count volumes</p></figure>\n'


def _draw_axes(below: tuple[str, str], beside: Sequence[tuple[float, str]]) -> Iterator[str]:
    yield f'<path class="axis" d="M{LEFT} {BASELINE}H{WIDTH - 4}"/>'
    yield f'<text x="{LEFT}" y="{HEIGHT - 4}">{_format_text(below[0])}</text>'
    if below[1] != below[0]:
        yield f'<text x="{WIDTH - 4}" y="{HEIGHT - 4}" text-anchor="end">{_format_text(below[1])}</text>'
    for y, text in beside:
        yield f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{_format_text(text)}</text>'


def _draw_scatter(fleet: FleetPage, colours: Sequence[int]) -> Iterator[str]:
    """Draw age against time; each point links to its row."""
    points = [(place, fleet.volumes[place].age_days, fleet.paces[place]) for place in fleet.places]
    known = [(place, age, pace) for place, age, pace in points if age is not None and pace]
    if len(known) < MIN_VOLUMES:
        return
    oldest = max(age for _, age, _ in known) or 1.0
    low, high = min(pace for _, _, pace in known), max(pace for _, _, pace in known)
    span = math.log(high / low) or 1.0
    yield f'<figure class="card"><h3>Age against 1,000 entries on {_format_text(drive_words(fleet.drives[0]))}</h3>'
    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="age against time, a point a volume">'
    for place, age, pace in known:
        x = LEFT + 8 + age / oldest * (WIDTH - LEFT - 18)
        y = BASELINE - 6 - math.log(pace / low) / span * (BASELINE - 16)
        label = f"{fleet.volumes[place].label}: {_format_days(age)} days, {format_seconds(pace)}"
        yield f'<a href="#v{place}"><circle class="f{colours[place]}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
        yield f"<title>{_format_text(label)}</title></circle></a>"
    yield from _draw_axes(
        ("0 days", f"{_format_days(oldest)} days"),
        [(10.0, format_seconds(high)), (BASELINE - 6.0, format_seconds(low))],
    )
    yield "</svg></figure>\n"
