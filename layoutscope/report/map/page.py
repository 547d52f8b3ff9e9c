"""One offline HTML page from the data of one or more disks, each a :class:`~layoutscope.report.map.scans.MapDisk`.

Its first screen is a sentence and one figure; what is below it is folded.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.drive.uncertain import paired_ratio
from layoutscope.findings import MAX_CASES
from layoutscope.report import escape_text
from layoutscope.report.map import figure
from layoutscope.report.map import pyramid as encode
from layoutscope.report.map.panels import (
    NODE_BUDGET,
    charts_of,
    entries,
    first_of,
    identifiers,
    pack_nodes_table,
    walk_panel,
)
from layoutscope.report.map.pyramid import (
    UNKNOWN,
    Share,
    damage_without_node,
    from_layouts,
    merge_touching,
    partition,
    pyramid,
    used_span,
    verified_xids,
)
from layoutscope.report.map.scans import images_of, walks_on
from layoutscope.results.explanation import drive_words
from layoutscope.tables.columns import stack_tables
from layoutscope.units import brief_share, format_bytes, format_list, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.pyramid import Segments
    from layoutscope.report.map.scans import MapDisk


def render(disks: Sequence[MapDisk], *, made: str, names: bool = True, all_paths: bool = False) -> str:
    """Return the whole page; the same input gives the same text."""
    segments = [from_layouts(item.layouts, item.device) for item in disks]
    shares = [disk_shares(item, own) for item, own in zip(disks, segments, strict=True)]
    parts = zip(disks, segments, shares, strict=True)
    span = figure.scale_of(disks[: figure.MAX_ROWS], shares[: figure.MAX_ROWS])
    known = figure.CHANGES if any(disk.num_earlier for disk in disks) else figure.ROLES
    data = {
        "disks": [disk_data(item, own, held, names=names, all_paths=all_paths) for item, own, held in parts],
        # What the figure shows is not part of it: the page has that as cells and reads.
        "figure": {
            **figure.skeleton(disks, shares),
            "span": span,
            "unit": figure.unit_of(span),
            "bins": figure.BINS,
            "dots": figure.MAX_DOTS,
            "times": [(least, length, name) for least, length, name, _ in figure.TIME_UNITS],
            "roles": [role.key for role in known],
        },
        "drives": drive_words_of(disks),
        "charts": [encode.packed_json(charts) for charts in charts_of(disks, names=names)],
    }
    return fill_page(
        title=" and ".join(item.title for item in disks) if names else "layout map",
        sections=sections(disks, shares),
        made=made,
        payload=data,
        script="page.js",
    )


def fill_page(*, title: str, sections: str, made: str, payload: dict[str, Any], script: str) -> str:
    """Return a page of sections that are HTML, with what its script draws."""
    return Template(asset("page.html")).substitute(
        title=escape(title),
        style=asset("figure.css") + asset("page.css"),
        sections=sections,
        made=escape(made),
        payload=encode.script_json(payload),
        boot=asset("boot.js"),
        plotly=_pack("plotly.js"),
        script=_pack(script),
    )


@cache
def _pack(name: str) -> str:
    return encode.packed_text(asset(name))


@cache
def asset(name: str) -> str:
    """Return the text of one of the files that pages are made of."""
    return resources.files("layoutscope.report.map").joinpath("assets", name).read_text("utf-8")


OWNER_BUDGET: Final = 800_000
"""Stretches whose file or node the page always names; past it those of files only where all are asked for."""

TILE_SEGMENTS: Final = 16_384


def disk_shares(item: MapDisk, segments: Segments) -> tuple[Share, ...]:
    """Share out a disk among the classes of the map; one of two states among those of what changed."""
    if item.num_earlier:
        from layoutscope.report.map.difference import share_by_change

        return share_by_change(item)
    return partition(segments, item.image_offset, item.size_bytes, item.block_size_bytes)


def shares_of(disks: Sequence[MapDisk]) -> list[tuple[Share, ...]]:
    """Share out disks."""
    return [disk_shares(item, from_layouts(item.layouts, item.device)) for item in disks]


def disk_data(
    item: MapDisk, segments: Segments, shares: Sequence[Share], *, names: bool, all_paths: bool = False
) -> dict[str, Any]:
    """Return what the page draws of one disk, ready for JSON."""
    # The page lists at most this many nodes; the places of the others are in the pyramid.
    owned = merge_touching(segments.take(np.flatnonzero((segments.owner != 0) & (segments.owner <= NODE_BUDGET))))
    tells_files = all_paths or len(owned) <= OWNER_BUDGET
    nodes = stack_tables([layout.columns("nodes") for layout in item.layouts])
    ends = np.cumsum([0, *(len(layout.columns("nodes")) for layout in item.layouts)]).tolist()
    unit_bytes, cell_bytes, cells = pyramid(shares, item.block_size_bytes)
    return {
        "title": item.title if names else "volume",
        "start": item.image_offset,
        "size": item.size_bytes,
        "used": used_span(shares),
        "block": item.block_size_bytes,
        # Volumes are named where there are several, each with the stretch of the nodes that are its own.
        "volumes": [
            {"name": item.called.get(place, ""), "nodes": ends[place : place + 2]} for place in range(len(item.layouts))
        ],
        "classes": [
            {"key": share.item.key, "label": share.item.label, "role": share.item.role, "bytes": share.size_bytes}
            for share in shares
        ],
        "pyramid": {"unit": unit_bytes, "cell": cell_bytes, "cells": [_cells(*one) for one in cells]},
        "owners": tiles(owned if tells_files else owned.take(np.flatnonzero(owned.owner > 0))),
        "tells_files": tells_files,
        "nodes": pack_nodes_table(nodes, item, segments, [share.item.key for share in shares]),
        # Owners of data are files, each of a volume.
        "files": {"volume": encode.array(owned.files[:, 0]), **identifiers(owned.files[:, 1])},
        "entries": entries(item, names=names, all_paths=all_paths),
        "walks": [walk_panel(one, item, first_of(one.trace, item.walks)) for one in item.walks],
        "damage": [
            {"at": found.image_offset, "text": escape_text(f"{found.structure}: {found.message}")}
            for layout in item.layouts
            for found in damage_without_node(layout)[:MAX_CASES]
            if found.device == item.device
        ],
        "earlier": len(item.layouts) - item.num_earlier,
    }


def _cells(first: NDArray[np.int64], count: NDArray[np.int64], held: NDArray[np.int64]) -> dict[str, Any]:
    behind = np.concatenate([[0], (first + count)[:-1]])[: len(first)]
    return {"gap": encode.array(first - behind), "count": encode.array(count - 1), "held": encode.array(held)}


def tiles(segments: Segments) -> list[dict[str, Any]]:
    """Cut segments in address order into tiles of equal count, which the page unpacks when they are needed.

    `from` and `to`, in bytes of the image, and the packed `start`, `length` and `owner`.
    """
    parts = (
        segments.take(np.arange(first, min(first + TILE_SEGMENTS, len(segments))))
        for first in range(0, len(segments), TILE_SEGMENTS)
    )
    return [
        {
            "from": int(part.start[0]),
            "to": int((part.start + part.length).max()),
            "start": encode.array(part.start, delta=True),
            "length": encode.array(part.length),
            "owner": encode.array(part.owner),
        }
        for part in parts
    ]


WORTH_TELLING: Final = 1.1
"""Disks whose times differ by less are not compared in words."""

NO_TIME: Final = "No listing time: nothing can be listed here."

SAME: Final = 0.01
"""Numbers of entries that differ by no larger share count as the same."""

CAUSES: Final = {
    "rotation": "waiting for the platter to turn",
    "seek": "moving the head",
    "transfer": "reading",
    "overhead": "commands",
    "host": "the computer",
}
"""What a drive spends its time on, in words that need no glossary."""

NAMED_FROM: Final = 0.1
"""Least share of the time of a cause that is named."""


def headline_of(disks: Sequence[MapDisk], drive: str = "") -> str:
    """Return the sentence that says what matters, for a drive.

    For several disks how their times compare; for one disk what is in the way of its numbers, else the time.
    """
    shown = images_of(disks)
    if len(shown) > 1:
        if sentence := comparison(disks, drive):
            return sentence
        # The times do not differ enough to be compared, or cannot be.
        drive = drive or next(iter(figure.drives_of(shown)), "")
        named = zip(shown, figure.names_of(shown), strict=True)
        times = [
            f"{format_seconds(figure.end_of(disk, drive))} ({name})" for disk, name in named if walks_on(disk, drive)
        ]
        if len(times) == len(shown):
            return f"Listing every file takes {format_list(times)}."
        return next((warning for disk in shown for warning in disk.warnings), format_list([d.title for d in shown]))
    return (*disks[0].warnings, *disks[0].story, NO_TIME)[0]


def comparison(disks: Sequence[MapDisk], drive: str = "") -> str:
    """Say how much longer the slowest of several disks takes than the quickest, on one drive and in one order."""
    drive = drive or next(iter(figure.drives_of(disks)), "")
    listed = [disk for disk in images_of(disks) if walks_on(disk, drive) and _entries(disk, drive)]
    if len(listed) < 2 or len({disk.walks[0].order for disk in listed}) > 1:
        return ""
    ranked = sorted(listed, key=lambda disk: figure.end_of(disk, drive) / _entries(disk, drive))
    quick, slow = ranked[0], ranked[-1]
    most, least = ((figure.end_of(disk, drive), _entries(disk, drive)) for disk in (slow, quick))
    ratio = paired_ratio(*(_draws(disk, drive) / _entries(disk, drive) for disk in (slow, quick)))
    if ratio is None or ratio.is_open or ratio.median < WORTH_TELLING:
        return ""
    per = abs(most[1] - least[1]) > SAME * most[1]
    times = [format_seconds(1000 * seconds / entries if per else seconds) for seconds, entries in (most, least)]
    called = dict(zip(map(id, listed), figure.names_of(listed), strict=True))
    names = called[id(slow)], called[id(quick)]
    what = "1,000 files and folders" if per else "every file"
    return f"Listing {what} takes {names[0]} {ratio.words} as long as {names[1]}: {times[0]} against {times[1]}."


def _draws(disk: MapDisk, drive: str) -> NDArray[np.float64]:
    """Return how long all volumes of a disk take, one after the other, in each simulation."""
    return np.asarray(np.sum([walk.draws_s for walk in walks_on(disk, drive)], axis=0))


def _entries(disk: MapDisk, drive: str) -> int:
    return sum(walk.entries for walk in walks_on(disk, drive))


def cause_of(disks: Sequence[MapDisk], drive: str) -> str:
    """Say what the slowest disk spends its time on, and which remedy the report names first."""
    listed = [disk for disk in images_of(disks) if figure.end_of(disk, drive) > 0]
    if not listed:
        return ""
    slow = max(listed, key=lambda disk: figure.end_of(disk, drive))
    walks = walks_on(slow, drive)
    spent: dict[str, float] = {}
    for walk in walks:
        for cause, seconds in walk.causes_s.items():
            spent[cause] = spent.get(cause, 0.0) + seconds
    whole = sum(spent.values())
    named = [
        f"{brief_share(seconds / whole)} {CAUSES.get(cause, cause)}"
        for cause, seconds in sorted(spent.items(), key=lambda item: -item[1])
        if seconds >= NAMED_FROM * whole
    ]
    who = dict(zip(map(id, disks), figure.names_of(disks), strict=True))[id(slow)]
    said = f"Where the time {f'of {who} ' if who else ''}goes: {format_list(named)}."
    best = max((walk for walk in walks if walk.best_s is not None), key=lambda walk: walk.seconds, default=None)
    if best is None or best.best_s is None or len(walks) > 1:
        return said
    return f"{said} What helps: {best.best}, {format_seconds(best.best_s)}."


def drive_words_of(disks: Sequence[MapDisk]) -> list[dict[str, Any]]:
    """Return the first screen's texts for each drive that can be chosen; the page's script only shows them."""
    names = figure.names_of(disks)
    found = []
    for drive in figure.drives_of(disks):
        rows = disks[: figure.MAX_ROWS]
        seconds = max((figure.end_of(disk, drive) for disk in rows), default=0.0)
        marks = [figure.end_marks(place, disk, names[place], drive, seconds) for place, disk in enumerate(rows)]
        found.append(
            {
                "drive": drive_words(drive),
                "headline": headline_of(disks, drive),
                "why": cause_of(disks, drive),
                "seconds": seconds,
                "ends": [{"shape": shape, "label": label} for shape, label in marks],
            }
        )
    return found


def draw_rows(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]], *, is_one_scale: bool = True) -> str:
    """Return what the rows are, the colors, and the figure without a script."""
    lead = "What fills each stretch of the disk; an empty part is free space."
    if drive := next(iter(figure.drives_of(disks)), ""):
        words = f'Predicted for a <span id="drive">{escape(drive_words(drive))}</span>.'
        lead = f"{words} {figure.dots_words(disks, drive)} An empty part is free space."
        if len(disks) > figure.MAX_ROWS:
            lead += f" The figure shows the first {figure.MAX_ROWS} of {len(disks):,} disks."
    drawn = figure.static(disks, shares, is_one_scale=is_one_scale)
    return f'<p class="lead muted">{lead}</p>{_key(disks, shares)}<div id="figure">{drawn}</div>'


def first_screen(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the first section: the sentence, what it is of, the figure without a script, causes and remedies.

    Every text from an image is escaped.
    """
    headline = headline_of(disks) if disks else NO_TIME
    drive = next(iter(figure.drives_of(disks)), "")
    warnings = "".join(_unread(disk, held, headline) for disk, held in zip(disks, shares, strict=True))
    why = f'<p id="why">{escape(cause_of(disks, drive))}</p>' if drive else ""
    texts = ""
    for disk in images_of(disks):
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in disk.story if sentence != headline)
        texts += f"<p><b>{escape(disk.title)}</b></p>" if len(disks) > 1 and sentences else ""
        texts += sentences
    more = "All causes and remedies" if drive else "More about this disk"
    if any(disk.num_earlier for disk in disks):
        more = "What else changed"
    stories = f'<details class="story"><summary>{more}</summary>{texts}</details>' if texts else ""
    figures = draw_rows(disks, shares)
    return f'<section id="what"><h1>{escape(headline)}</h1>{warnings}{figures}{why}{stories}</section>'


def _key(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Name the colours that are there, and how much of the disks is damaged."""
    bad = [share for held in shares for share in held if share.item.role == figure.DAMAGED.key]
    amount = f": {format_bytes(sum(share.size_bytes for share in bad))}" if bad else ""
    entries = "".join(
        f'<span><i class="swatch back-{role.key}"></i>{escape(role.label)}'
        f"{amount if role.key == figure.DAMAGED.key else ''}</span>"
        for role in figure.roles_for(disks, shares)
    )
    return f'<div class="key">{entries}</div>'


def _unread(disk: MapDisk, shares: Sequence[Share], headline: str) -> str:
    sentences = [warning for warning in disk.warnings if warning != headline]
    if disk.coverage != 1:
        share = "An unknown share" if disk.coverage is None else format_share(disk.coverage)
        sentences.append(f"{share} of the known metadata was read; what was not read is never drawn as free.")
    unknown = sum(share.size_bytes for share in shares if share.item.group == UNKNOWN)
    if unknown and disk.coverage == 1:
        # All was read, so that the volume contradicts itself: blocks are marked as used that no tree has.
        sentences.append(f"{format_bytes(unknown)} count as used, and nothing that was read says by what.")
    return f'<p class="warn">{escape(" ".join(sentences))}</p>' if sentences else ""


PANELS: Final = {
    "directories": ("Directories", "Each read is charged to the directory that caused it."),
    "history": ("History", "When metadata was written."),
    "distances": ("Distances", "How far apart related data is."),
    "order": ("Order on disk", "Leaves in the order of their keys, and where they are on the disk."),
}
"""Parts of the page that a reader opens, by their anchors: title and explanation. Each has a card per disk."""

OF_WALKS: Final = ("directories",)
"""Panels that show nothing where no disk can be listed."""


def sections(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the page's sections as HTML: what can be read at once, and cards for drawings, next to each other.

    `shares` is what each disk holds, by class; every text from an image is escaped.
    """
    cards = '<div class="card"></div>' * len(disks)
    holdings = ""
    for disk, held in zip(disks, shares, strict=True):
        rows = (
            (
                share.item.label,
                format_bytes(share.size_bytes),
                format_share(share.size_bytes / disk.size_bytes),
                f"{len(share.runs):,}",
            )
            for share in held
            if share.size_bytes
        )
        holdings += _card(table(disk.title, ("what", "bytes", "share of the disk", "pieces"), rows))
    facts = "".join(_card("".join(table(*fact) for fact in disk.facts)) for disk in disks if disk.facts)
    ways = "".join(f'<tr><th scope="row">{want}</th><td>{way}</td></tr>' for want, way in WAYS)
    keys = f"<summary>Keyboard and mouse ( ? )</summary><table>{ways}</table>"
    return "\n".join(
        [
            first_screen(disks, shares),
            f'<section id="map" class="scripted"></section><details class="help scripted">{keys}</details>',
            *(_folded(anchor, *words, cards, "scripted") for anchor, words in PANELS.items() if _has(anchor, disks)),
            _folded("holdings", "Numbers", "What the disk holds, as the map shows it.", holdings),
            _folded("facts", "Facts", "The report's tables.", facts),
        ]
    )


WAYS: Final = (
    ("see what is at a place", "point at it, or tap it"),
    (
        "zoom in",
        "drag over a stretch of disk, of time, or of both; Ctrl or Cmd and the wheel; two fingers; plus and minus",
    ),
    ("move", "arrow up, arrow down"),
    ("go back", "double click, Backspace"),
    ("see everything", "0"),
    ("find a path, a file by its number, or a byte", "/"),
)
"""What a reader may want, and which keys and movements do it."""


def _has(anchor: str, disks: Sequence[MapDisk]) -> bool:
    """Return whether there is anything to draw; what the panel's card would say instead is not worth a title."""
    if any(disk.num_earlier for disk in disks):
        return False
    if anchor == "history":
        return any((verified_xids(layout.columns("nodes")) > 0).any() for disk in disks for layout in disk.layouts)
    return anchor not in OF_WALKS or any(disk.walks for disk in disks)


def _folded(anchor: str, title: str, text: str, cards: str, kind: str = "") -> str:
    return (
        f'<section id="{anchor}" class="{kind}"><details><summary><h2>{title}</h2></summary>'
        f'<p class="muted">{text}</p><div class="disks">{cards}</div></details></section>'
    )


def _card(content: str) -> str:
    return f'<div class="card">{content}</div>'


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
