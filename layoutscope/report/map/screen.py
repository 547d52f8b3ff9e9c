"""The page's first screen: one sentence, the disks as bands on one scale, the race over them, where the time goes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.drive.uncertain import paired_ratio
from layoutscope.report.map import pyramid as classes
from layoutscope.report.map.panels import walk_words
from layoutscope.report.map.pyramid import held_by, used_span, verified_xids
from layoutscope.report.map.scans import first_walks, images_of
from layoutscope.results.explanation import drive_words
from layoutscope.structs.arrays import total, union
from layoutscope.units import format_bytes, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.pyramid import MapClass, Share
    from layoutscope.report.map.scans import MapDisk, MapWalk


COLUMNS: Final = 1200
MAX_TOLD: Final = 2
"""The legend shows the content of at most this many disks."""
UPPER, LOWER = 38, 14
"""Heights of the two parts of a band."""

HATCH: Final = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<path class="hatch" d="M-1 1L1 -1M0 5L5 0M4 6L6 4"/></pattern></defs>'
)
HATCHED_SWATCH: Final = '<rect width="12" height="12" fill="url(#hatch)"/>'
HATCHED: Final = frozenset({"damaged", "unknown"})
"""Classes that must be recognisable without colour."""

SHADES: Final = ((0.5, 1.0), (0.2, 0.85), (0.05, 0.68), (0.02, 0.52), (0.005, 0.38), (0.0, 0.25))
"""Least share of each shade, strongest first, and its opacity; those of the map's cells (``web/src/cells.ts``)."""


class BandPart(Struct, frozen=True):
    """A category of the legend: its key, label, map classes, and colour."""

    key: str
    label: str
    holds: Callable[[MapClass], bool]
    is_metadata: bool = False
    colour: str = ""

    @property
    def style(self) -> str:
        """Name of its colour in the page's style."""
        return self.colour or self.key


PARTS: Final = (
    BandPart("damaged", "damaged metadata", lambda item: item.key == classes.DAMAGED.key, is_metadata=True),
    BandPart("locked", "locked metadata", lambda item: item.key == classes.LOCKED.key, is_metadata=True),
    BandPart("main", "file list", lambda item: item.role == "main", is_metadata=True),
    BandPart("places", "object map or extents overflow", lambda item: item.role == "map", is_metadata=True),
    BandPart("other", "other metadata", lambda item: item.group == classes.METADATA, is_metadata=True),
    BandPart("freed", "freed, not yet reusable", lambda item: item.key == classes.PENDING.key),
    BandPart("data", "file data", lambda item: item.group == classes.DATA),
    BandPart("free", "free space", lambda item: item.group == classes.FREE),
    BandPart("unknown", "unknown", lambda _: True),
)
"""Each class belongs to the first that takes it."""


def _changed(item: MapClass, colour: str, *, is_metadata: bool = False) -> BandPart:
    return BandPart(item.key, item.label, lambda other: other.key == item.key, is_metadata, colour)


CHANGED: Final = (
    _changed(classes.MOVED_HERE, "main", is_metadata=True),
    _changed(classes.CAME, "other", is_metadata=True),
    _changed(classes.MOVED_AWAY, "locked", is_metadata=True),
    _changed(classes.WENT, "damaged", is_metadata=True),
    _changed(classes.NEW_DATA, "places"),
    _changed(classes.OLD_DATA, "freed"),
    _changed(classes.STILL_THERE, "data"),
    BandPart(classes.FREE_NOW.key, classes.FREE_NOW.label, lambda item: item.key == classes.FREE_NOW.key),
    BandPart("unknown", classes.NOT_TOLD.label, lambda _: True),
)
"""The same of a disk that two states are set against each other on."""


def parts_for(shares: Sequence[Share]) -> tuple[BandPart, ...]:
    """Return the parts that the classes of a disk belong to."""
    return CHANGED if any(share.item.key == classes.STILL_THERE.key for share in shares) else PARTS


def scale_of(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> int:
    """Return how many bytes every band spans: what is in use, or all where more than half of it is."""
    used = max((used_span(held) or disk.size_bytes for disk, held in zip(disks, shares, strict=True)), default=0)
    span = max((disk.size_bytes for disk in disks), default=0)
    return span if used > span / 2 else used


def parts_of(shares: Sequence[Share]) -> dict[str, list[int]]:
    """Sort the classes of a disk into parts: places in `shares`, by the parts' keys."""
    known = parts_for(shares)
    parts: dict[str, list[int]] = {part.key: [] for part in known}
    for place, share in enumerate(shares):
        parts[next(part.key for part in known if part.holds(share.item))].append(place)
    return parts


def picture(disk: MapDisk, shares: Sequence[Share], span: int) -> str:
    """Draw one band.

    SVG as wide as its place; a disk that ends before the span leaves the rest empty.
    """
    edges = np.minimum(np.arange(COLUMNS + 1) * span // COLUMNS, disk.size_bytes).astype(np.int64)
    widths = np.maximum(np.diff(np.arange(COLUMNS + 1) * span // COLUMNS), 1)
    held = held_by(shares, edges)
    own = {key: held[places].sum(axis=0) / widths for key, places in parts_of(shares).items()}
    known = parts_for(shares)
    paths = "".join((*_metadata(known, own), *_others(known, own)))
    end = -(-COLUMNS * min(disk.size_bytes, span) // max(span, 1))
    words = escape(f"{disk.title}: {', '.join(f'{name} {told}' for name, told in _amounts(shares, disk.size_bytes))}")
    return (
        f'<svg viewBox="0 0 {COLUMNS} {UPPER + LOWER}" preserveAspectRatio="none" role="img" aria-label="{words}">'
        f'{HATCH}<rect class="part-free" width="{end}" height="{UPPER + LOWER}"/>{paths}</svg>'
    )


def _metadata(parts: Sequence[BandPart], own: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Paint each column that holds any metadata as what holds most of it, damage before all, by the share of all."""
    kinds = [part for part in parts if part.is_metadata]
    shares = np.stack([own[part.key] for part in kinds])
    most = shares.argmax(axis=0)
    if kinds[0].key == classes.DAMAGED.key:
        most[shares[0] > 0] = 0
    whole = shares.sum(axis=0)
    # The worst comes last: where columns are narrower than a point of the screen, nothing is painted over it.
    for place, part in reversed(list(enumerate(kinds))):
        yield from _shaded(part, np.where((most == place) & (whole > 0), whole, 0), 0, UPPER)


def _others(parts: Sequence[BandPart], own: dict[str, NDArray[np.float64]]) -> Iterator[str]:
    """Paint the lower part: what nobody knows wherever there is any, else what is more, but changes before the rest."""
    kinds = [part for part in reversed(parts) if not part.is_metadata and part.key not in ("unknown", "free")]
    changed = [part.key in (classes.NEW_DATA.key, classes.OLD_DATA.key) for part in kinds]
    shares = np.stack([own[part.key] for part in kinds])
    most = (shares + np.outer(changed, np.ones(COLUMNS)) * (shares > 0)).argmax(axis=0)
    (nobody,) = (part for part in parts if part.key == "unknown")
    known = own[nobody.key] == 0
    for place, part in enumerate(kinds):
        yield from _shaded(part, np.where(known & (most == place), shares[place], 0), UPPER, LOWER)
    yield from _shaded(nobody, own[nobody.key], UPPER, LOWER)


def _shaded(part: BandPart, shares: NDArray[np.float64], top: int, height: int) -> Iterator[str]:
    """Paint columns in steps, each step as one path over runs of neighbours."""
    least = np.array([low for low, _ in SHADES])
    step = np.where(shares > 0, (shares[:, None] < least).sum(axis=1), -1)
    for number, (_, opacity) in enumerate(SHADES):
        inside = np.flatnonzero(np.diff(np.concatenate([[0], step == number, [0]]).astype(np.int8)))
        runs = inside.reshape(-1, 2)
        if len(runs):
            path = "".join(f"M{low} {top}h{high - low}v{height}h{low - high}z" for low, high in runs.tolist())
            yield f'<path class="part-{part.style}" fill-opacity="{opacity}" d="{path}"/>'
            if part.key in HATCHED:
                yield f'<path fill="url(#hatch)" d="{path}"/>'


def file_list_reach(shares: Sequence[Share]) -> str:
    """Say in how many pieces the file list is and how far they reach; nothing if there is none."""
    runs = (
        union([shares[place].runs for place in parts_of(shares).get("main", [])])
        if shares
        else np.empty((0, 2), np.int64)
    )
    if not len(runs):
        return ""
    reach = "" if len(runs) == 1 else f", over {format_bytes(int(runs[-1].sum() - runs[0, 0]))}"
    return f"file list: {format_bytes(total(runs))} in {format_count(len(runs), 'piece')}{reach}"


def _amounts(shares: Sequence[Share], size_bytes: int) -> Iterator[tuple[str, str]]:
    """Return what each part holds: bytes, share of the disk, pieces; parts that hold nothing are left out."""
    parts = parts_of(shares)
    for part in parts_for(shares):
        runs = [shares[place].runs for place in parts[part.key] if len(shares[place].runs)]
        if runs:
            held = union(runs)
            amount = total(held)
            share = format_share(amount / size_bytes)
            yield part.label, f"{format_bytes(amount)} ({share}) in {format_count(len(held), 'piece')}"


def legend(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the colours of the bands with what each disk holds of them, disks apart by a bar."""
    told = [dict(_amounts(held, disk.size_bytes)) for disk, held in zip(disks, shares, strict=True)]
    # If there are many disks, a table of its own shows the amounts.
    amounts = [{part.label: "" for part in PARTS}] if len(told) > MAX_TOLD else told
    entries = (
        f'<span><svg class="swatch" viewBox="0 0 12 12"><rect class="part-{part.style}" width="12" height="12"/>'
        f"{HATCHED_SWATCH if part.key in HATCHED else ''}</svg> "
        f'{part.label} <span class="muted">{" | ".join(own.get(part.label, "none") for own in amounts)}</span></span>'
        for part in parts_for(shares[0] if shares else ())
        if any(part.label in own for own in told)
    )
    return f'<div class="bar parts">{"".join(entries)}</div>'


WORTH_TELLING: Final = 1.1
"""Disks whose times differ by less are not compared in words."""

NO_TIME: Final = "No listing time: nothing can be listed here."

SAME: Final = 0.01
"""Numbers of entries that differ by no larger share count as the same."""


def first_screen(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the first section as HTML, a disk above the other with what each holds by class.

    A script only adds heads that move and clocks that run; every text from an image is escaped.
    """
    span = scale_of(disks, shares)
    headline = headline_of(disks)
    first = headline if len(images_of(disks)) == 1 else ""
    bands = "".join(
        _band(place, disk, held, span, first) for place, (disk, held) in enumerate(zip(disks, shares, strict=True))
    )
    on_top = f'<p class="headline">{escape(headline)}</p>' if headline else ""
    return (
        f'<section id="what">{on_top}{bands}{_scale(span, disks)}'
        f'{legend(disks, shares)}<div id="race"></div>{_times(disks)}</section>'
    )


def headline_of(
    disks: Sequence[MapDisk],  # several are compared; empty where there is nothing to compare
) -> str:
    """Return the sentence that says what matters: of one disk what is in the way of its numbers, else the time."""
    if len(images_of(disks)) > 1:
        return comparison(disks)
    return (*disks[0].warnings, *disks[0].story, NO_TIME)[0]


def comparison(disks: Sequence[MapDisk]) -> str:
    """Say how much longer the slowest of several disks takes than the quickest, on one drive and in one order."""
    listed = [disk for disk in images_of(disks) if disk.walks and _entries(disk)]
    if len(listed) < 2 or len({(disk.walks[0].order, disk.walks[0].drive) for disk in listed}) > 1:
        return ""
    ranked = sorted(listed, key=lambda disk: _seconds(disk) / _entries(disk))
    quick, slow = ranked[0], ranked[-1]
    most, least = ((_seconds(disk), _entries(disk)) for disk in (slow, quick))
    ratio = paired_ratio(*(_draws(disk) / _entries(disk) for disk in (slow, quick)))
    if ratio is None or ratio.is_open or ratio.median < WORTH_TELLING:
        return ""
    per = abs(most[1] - least[1]) > SAME * most[1]
    times = [format_seconds(1000 * seconds / entries if per else seconds) for seconds, entries in (most, least)]
    names = (slow.kind, quick.kind) if slow.kind != quick.kind else (slow.title, quick.title)
    what = "1,000 files and folders" if per else "as many files"
    return (
        f"On a {drive_words(slow.walks[0].drive)}, {names[0]} takes {ratio.words} as long as {names[1]} "
        f"to list {what}: {times[0]} against {times[1]}."
    )


def _seconds(disk: MapDisk) -> float:
    """How long all volumes of a disk take, one after the other."""
    return sum(walk.seconds for walk in first_walks(disk))


def _draws(disk: MapDisk) -> NDArray[np.float64]:
    """The same in each simulation."""
    return np.asarray(np.sum([walk.draws_s for walk in first_walks(disk)], axis=0))


def _entries(disk: MapDisk) -> int:
    return sum(walk.entries for walk in first_walks(disk))


def _band(place: int, disk: MapDisk, shares: Sequence[Share], span: int, first: str) -> str:
    times = "".join(
        f"<span><b>{format_seconds(walk.seconds)}</b> {escape(walk_words(walk))}</span>"
        for walk in (disk.walks if not disk.device else ())
    )
    clock = f'<span class="clock">{clock_words(disk.walks[0])}</span>' if disk.walks else ""
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in disk.story if sentence != first)
    more = "What else changed" if disk.num_earlier else "Why, and what would help"
    why = f'<details class="story"><summary>{more}</summary>{sentences}</details>' if sentences else ""
    return (
        f'<div class="disk"><div class="bar"><h2>{escape(disk.title)}</h2>'
        f'<span class="muted">{escape(disk.subtitle)}</span>{times}</div>{_unread(disk, shares, first)}'
        f'<div class="band" data-disk="{place}" data-span="{span}">{picture(disk, shares, span)}'
        f'<canvas aria-hidden="true"></canvas></div>'
        f'<div class="bar under"><span>{file_list_reach(shares)}</span>{why}{clock}</div></div>'
    )


def clock_words(walk: MapWalk) -> str:
    """Return how long a walk takes, with its volume where the disk has several; as ``web/src/band.ts`` does."""
    return escape(f"{walk.name}: " if walk.name else "") + format_seconds(walk.seconds)


def _unread(disk: MapDisk, shares: Sequence[Share], first: str) -> str:
    sentences = [warning for warning in disk.warnings if warning != first]
    if disk.coverage != 1:
        share = "An unknown share" if disk.coverage is None else format_share(disk.coverage)
        sentences.append(f"{share} of the known metadata was read; places of what was not are never drawn as empty.")
    unknown = sum(share.size_bytes for share in shares if share.item.group == classes.UNKNOWN)
    if unknown and disk.coverage == 1:
        # All was read, so that the volume contradicts itself: blocks are marked as used that no tree has.
        sentences.append(f"{format_bytes(unknown)} count as used, and nothing that was read says by what.")
    return f'<p class="warn">{escape(" ".join(sentences))}</p>' if sentences else ""


def _scale(span: int, disks: Sequence[MapDisk]) -> str:
    """Return how much of the disks the bands show: of those that are nearly empty, the part in use."""
    whole = max((disk.size_bytes for disk in disks), default=span)
    end = format_bytes(span) + (f" of {format_bytes(whole)}" if span < whole else "")
    return f'<div class="bar under muted"><span>0</span><span>{end}</span></div>'


def _times(disks: Sequence[MapDisk]) -> str:
    """Show where the time of each disk's first walk goes, on one scale, with what its best remedy leaves."""
    listed = [disk for disk in images_of(disks) if disk.walks]
    walks = [(disk, walk) for disk in listed for walk in first_walks(disk)]
    most = max((walk.seconds for _, walk in walks), default=0.0)
    if not most:
        return ""
    kinds = [disk.kind for disk in listed]
    # The titles distinguish two disks of one file system.
    are_apart = all(kinds) and len(set(kinds)) == len(kinds)
    rows = "".join(
        _time(" ".join(filter(None, [disk.kind if are_apart else disk.title, walk.name])), walk, most)
        for disk, walk in walks
    )
    drive = drive_words(walks[0][1].drive)
    return f'<h3>Where the time goes on a {escape(drive)}</h3><table class="times">{rows}</table>'


def _time(name: str, walk: MapWalk, most: float) -> str:
    causes = sorted(walk.causes_s.items(), key=lambda item: -item[1])
    bars = "".join(_cause(cause, seconds, most) for cause, seconds in causes if seconds > 0)
    best = ""
    if walk.best_s is not None:
        words = escape(f"{walk.best} {format_seconds(walk.best_s)}")
        best = f'<i class="best" style="left:{_percent(min(walk.best_s, most), most)}" title="{words}"></i>'
    told = ", ".join(_largest(walk))
    return f'<tr><th scope="row">{escape(name)}</th><td><div class="stack">{bars}{best}</div>{told}</td></tr>'


def _cause(cause: str, seconds: float, most: float) -> str:
    words = f"{cause} {format_seconds(seconds)}"
    return f'<i class="cause-{cause}" style="width:{_percent(seconds, most)}" title="{escape(words)}"></i>'


def _largest(walk: MapWalk) -> Iterator[str]:
    """Name the causes that are worth a tenth of the time, the largest first."""
    for cause, seconds in sorted(walk.causes_s.items(), key=lambda item: -item[1]):
        if seconds >= walk.seconds / 10:
            yield (
                f'<span class="swatch cause-{escape(cause)}"></span> {escape(cause)} {format_seconds(seconds)} '
                f"({format_share(seconds / walk.seconds)})"
            )
    if walk.best_s is not None:
        yield f'<span class="swatch best"></span> {escape(walk.best)} {format_seconds(walk.best_s)}'


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%"


PANELS: Final = {
    "map": (
        "Address space",
        (
            "Each cell is a stretch of the disk. Metadata shows through whatever shares its cell: the stronger the "
            "colour, the larger its share."
        ),
    ),
    "costs": ("Costs", "Seconds of the predicted walk by cause, on each drive."),
    "order": ("Order on disk", "Leaves in the order of their keys against their place on disk."),
    "walk": ("The walk", "Where the head is while the files are enumerated, coloured by what is read."),
    "directories": ("Directories by cost", "Each read is charged to the directory that caused it."),
    "history": ("History", "When nodes were written."),
    "distances": ("Distances", "How far related data is apart."),
}
"""Parts of the page that are drawn, by their anchors: title and explanation. Each has a card per disk."""

SHARED: Final = ("costs",)
"""Panels with one card for all disks."""

FOLDED: Final = ("directories", "history", "distances")
"""Panels that a reader opens."""

OF_WALKS: Final = ("costs", "walk", "directories")
"""Panels that show nothing where no disk can be listed."""

CHANGED_PANEL: Final = (
    "Each cell is a stretch of the disk. What changed shows through whatever stayed: the stronger the colour, the "
    "larger its share. What is there now goes before what was there."
)
"""In place of the map's explanation where two states are set against each other."""


def sections(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the page's sections as HTML: what can be read at once, and cards for drawings, next to each other.

    `shares` is what each disk holds, by class; every text from an image is escaped.
    """
    panels = {anchor: words for anchor, words in PANELS.items() if _has(anchor, disks)}
    if any(disk.num_earlier for disk in disks):
        panels = {anchor: (title, CHANGED_PANEL) for anchor, (title, _) in panels.items()}
    anchors = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, (title, _) in panels.items())
    holdings = "".join(_card(_holdings(disk, held)) for disk, held in zip(disks, shares, strict=True))
    facts = "".join(_card("".join(_table(*fact) for fact in disk.facts)) for disk in disks if disk.facts)
    anchors += '<a href="#holdings">In numbers</a><a href="#facts">Facts</a>'
    return "\n".join(
        [
            first_screen(disks, shares),
            f'<nav aria-label="parts of this page">{anchors}</nav>',
            *(_panel(anchor, *words, len(disks)) for anchor, words in panels.items()),
            _folded("holdings", "In numbers", "What the disk holds, as the map shows it.", holdings),
            _folded("facts", "Facts", "The report's tables.", facts),
        ]
    )


def _has(anchor: str, disks: Sequence[MapDisk]) -> bool:
    """Return whether there is anything to draw; what the panel's card would say instead is not worth a title."""
    if any(disk.num_earlier for disk in disks):
        return anchor == "map"
    if anchor == "history":
        return any((verified_xids(layout.columns("nodes")) > 0).any() for disk in disks for layout in disk.layouts)
    return anchor not in OF_WALKS or any(disk.walks for disk in disks)


def _panel(anchor: str, title: str, text: str, num_disks: int) -> str:
    cards = '<div class="card"></div>' * (1 if anchor in SHARED else num_disks)
    if anchor in FOLDED:
        return _folded(anchor, title, text, cards)
    return (
        f'<section id="{anchor}"><h2>{title}</h2><p class="muted">{text}</p>'
        f'<div class="above"></div><div class="disks">{cards}</div></section>'
    )


def _folded(anchor: str, title: str, text: str, cards: str) -> str:
    return (
        f'<section id="{anchor}"><details><summary><h2>{title}</h2></summary><p class="muted">{text}</p>'
        f'<div class="disks">{cards}</div></details></section>'
    )


def _card(content: str) -> str:
    return f'<div class="card">{content}</div>'


def _holdings(disk: MapDisk, shares: Sequence[Share]) -> str:
    rows = (
        (
            share.item.label,
            format_bytes(share.size_bytes),
            format_share(share.size_bytes / disk.size_bytes),
            f"{len(share.runs):,}",
        )
        for share in shares
        if share.size_bytes
    )
    return _table(disk.title, ("what", "bytes", "share of the disk", "pieces"), rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
