"""What the page says in words and numbers: plain HTML, which needs no script to be read."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Final

from layoutscope.frozen import frozen
from layoutscope.report.map.first import first_screen
from layoutscope.report.map.segments import verified_xids
from layoutscope.units import format_bytes, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from layoutscope.report.map.model import MapDisk, MapFact
    from layoutscope.report.map.pyramid import Share


@frozen
class Panel:
    """A part of the page that is drawn: its anchor, title and explanation; one card a disk, or one for all."""

    anchor: str
    title: str
    text: str
    folded: bool = False
    is_shared: bool = False


PANELS: Final = (
    Panel(
        "map",
        "Address space",
        "Each cell is a stretch of the disk. Metadata shows through whatever shares its cell: the stronger the colour, "
        "the larger its share.",
    ),
    Panel("costs", "Costs", "Seconds of the predicted walk by cause, on each drive.", is_shared=True),
    Panel("order", "Order on disk", "Leaves in the order of their keys against their place on disk."),
    Panel("walk", "The walk", "Where the head is while the files are enumerated, coloured by what is read."),
    Panel("directories", "Directories by cost", "Each read is charged to the directory that caused it.", folded=True),
    Panel("history", "History", "When nodes were written.", folded=True),
    Panel("distances", "Distances", "How far apart lies what belongs together.", folded=True),
)


OF_WALKS: Final = ("costs", "walk", "directories")
"""Panels that show nothing where no disk can be listed."""

CHANGED: Final = (
    "Each cell is a stretch of the disk. What changed shows through whatever stayed: the stronger the colour, the "
    "larger its share. What is there now goes before what was there."
)
"""In place of the map's explanation where two states are set against each other."""


def sections(disks: Sequence[MapDisk], shares: Sequence[Sequence[Share]]) -> str:
    """Return the page's sections as HTML: what can be read at once, and cards for what is drawn, side by side.

    `shares` is what each disk holds, by class; every text from an image is escaped.
    """
    panels = [panel for panel in PANELS if _has(panel, disks)]
    if any(disk.num_earlier for disk in disks):
        panels = [replace(panel, text=CHANGED) for panel in panels]
    anchors = "".join(f'<a href="#{panel.anchor}">{panel.title}</a>' for panel in panels)
    holdings = "".join(_card(_holdings(disk, held)) for disk, held in zip(disks, shares, strict=True))
    facts = "".join(_card("".join(map(_fact, disk.facts))) for disk in disks if disk.facts)
    anchors += '<a href="#holdings">In numbers</a><a href="#facts">Facts</a>'
    return "\n".join(
        [
            first_screen(disks, shares),
            f'<nav aria-label="parts of this page">{anchors}</nav>',
            *(_panel(panel, len(disks)) for panel in panels),
            _folded("holdings", "In numbers", "What the disk holds, as the map shows it.", holdings),
            _folded("facts", "Facts", "The report's tables.", facts),
        ]
    )


def _has(panel: Panel, disks: Sequence[MapDisk]) -> bool:
    """Tell whether there is anything to draw; what the panel's card would say instead is not worth a title."""
    if any(disk.num_earlier for disk in disks):
        return panel.anchor == "map"
    if panel.anchor == "history":
        return any((verified_xids(layout.columns("nodes")) > 0).any() for disk in disks for layout in disk.layouts)
    return panel.anchor not in OF_WALKS or any(disk.walks for disk in disks)


def _panel(panel: Panel, num_disks: int) -> str:
    cards = '<div class="card"></div>' * (1 if panel.is_shared else num_disks)
    if panel.folded:
        return _folded(panel.anchor, panel.title, panel.text, cards)
    return (
        f'<section id="{panel.anchor}"><h2>{panel.title}</h2><p class="muted">{panel.text}</p>'
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


def _fact(fact: MapFact) -> str:
    return _table(fact.title, fact.columns, fact.rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
