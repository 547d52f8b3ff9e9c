"""The map's panels as Plotly figures, for a notebook or a picture file."""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from layoutscope.filesystems.registry import filesystem_of
from layoutscope.report.map.panels import walk_words
from layoutscope.report.map.pyramid import DAMAGED, METADATA, from_layouts, held_by, partition, tree_class, used_span
from layoutscope.report.map.scans import images_of
from layoutscope.report.map.screen import headline_of
from layoutscope.report.notebook import frame_page
from layoutscope.units import MIB, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.pyramid import MapClass, Share
    from layoutscope.report.map.scans import MapDisk

    Traces = list[go.Scatter | go.Heatmap]

LINE: Final = 72
"""Characters of a line of the headline over one disk."""
COLUMNS: Final = 256
ROWS: Final = 64
MAX_POINTS: Final = 20_000
CAUSE_COLOURS: Final = {
    "seek": "#5B3A8E",
    "rotation": "#B0699F",
    "transfer": "#2A8C82",
    "overhead": "#C7B27B",
    "host": "#8C8C8C",
}
"""As on the page, none of the colours of trees."""

KEPT_HERE: Final = {"remove": ["sendChartToCloud", "editInChartStudio"]}
"""Buttons of Plotly that would send what is drawn to a server."""


class Figures(dict[str, go.Figure]):
    """Figures by name; a notebook shows the page of the map itself, as alive as in a window of its own."""

    def __init__(self, drawn: Mapping[str, go.Figure], page: Callable[[], str]) -> None:
        super().__init__(drawn)
        self._page = page

    def __repr__(self) -> str:
        return f"Figures({', '.join(self)})"

    def _repr_html_(self) -> str:
        return frame_page(self._page())


def figures(disks: Sequence[MapDisk], page: Callable[[], str]) -> Figures:
    """Draw the panels of one or more disks."""
    span, addresses = _addresses(disks)
    drawn = {
        "address": _side_by_side(disks, addresses, "row"),
        "walk": _side_by_side(disks, [_walk(disk) for disk in disks], "place on disk, MiB"),
        "costs": _costs(disks),
        "overview": _overview(disks, addresses, span),
    }
    for figure in drawn.values():
        figure.update_layout(modebar=KEPT_HERE)
    return Figures(drawn, page)


def _addresses(disks: Sequence[MapDisk]) -> tuple[int, list[Traces]]:
    """Draw the part in use of each disk, on the scale of the largest, whose bytes come first."""
    held = [
        partition(from_layouts(disk.layouts, disk.device), disk.image_offset, disk.size_bytes, disk.block_size_bytes)
        for disk in disks
    ]
    cells = COLUMNS * ROWS
    span = max(*map(used_span, held), *(cells * disk.block_size_bytes for disk in disks))
    edges = np.linspace(0, span, cells + 1).astype(np.int64)
    return span, [_address(shares, edges) for shares in held]


def _address(shares: Sequence[Share], edges: NDArray[np.int64]) -> Traces:
    held = held_by(shares, edges).astype(np.float64)
    metadata = np.array([share.item.group == METADATA for share in shares])
    # Metadata shows through whatever shares its cell.
    weight = np.where(metadata[:, None], held * 1e6, held)
    best = np.where(weight.max(axis=0) > 0, weight.argmax(axis=0), -1).reshape(ROWS, COLUMNS)
    classes = [share.item for share in shares]
    marks = [mark for k, item in enumerate(classes) if item is DAMAGED for mark in _marks(item, held[k], best != k)]
    return [_legend(classes[code]) for code in np.unique(best[best >= 0]).tolist()] + [_cells(best, classes), *marks]


def _marks(item: MapClass, held: NDArray[np.float64], is_other: NDArray[np.bool_]) -> Traces:
    """Mark cells that hold a class among others: a node among many would leave no trace in their colour."""
    row, column = np.nonzero((held.reshape(ROWS, COLUMNS) > 0) & is_other)
    if not len(row):
        return []
    marker = {"symbol": "x-thin", "size": 6, "line": {"width": 1.5, "color": item.light}, "color": item.light}
    return [go.Scatter(x=column, y=row, mode="markers", name=item.label, marker=marker, hoverinfo="skip")]


def _cells(best: NDArray[np.int64], classes: Sequence[MapClass]) -> go.Heatmap:
    # A heat map has a scale of colours, not a list: each class is a step of it, with the same colour at both of its
    # ends.
    count = len(classes)
    steps = [((number / count, item.light), ((number + 1) / count, item.light)) for number, item in enumerate(classes)]
    scale = [pair for step in steps for pair in step]
    shown = np.where(best < 0, np.nan, best + 0.5)
    return go.Heatmap(z=shown, zmin=0, zmax=count, colorscale=scale, showscale=False, hoverinfo="skip")


def _legend(item: MapClass) -> go.Scatter:
    marker = {"symbol": "square", "size": 10, "color": item.light}
    return go.Scatter(x=[None], y=[None], mode="markers", name=item.label, legendgroup=item.key, marker=marker)


def _walk(disk: MapDisk) -> Traces:
    if not disk.walks:
        return []
    walk = disk.walks[0]
    begin = walk.begin_s
    step = max(1, -(-len(begin) // MAX_POINTS))
    place = (walk.trace.image_offset - disk.image_offset) / MIB
    points, traits = [], filesystem_of(disk.layouts[0]).traits
    for code, tree in enumerate(walk.trace.trees):
        own = np.flatnonzero((walk.trace.tree == code) & (walk.trace.device == disk.device))[::step]
        if len(own):
            item = tree_class(traits.tree(tree))
            marker = {"size": 3, "color": item.light}
            points.append(go.Scatter(x=begin[own], y=place[own], mode="markers", name=item.label, marker=marker))
    return points


def _side_by_side(disks: Sequence[MapDisk], parts: list[Traces], title: str) -> go.Figure:
    figure = make_subplots(1, len(disks), subplot_titles=[disk.title for disk in disks], shared_yaxes=True)
    for column, traces in enumerate(parts, 1):
        _add(figure, traces, 1, column)
    figure.update_yaxes(title_text=title, col=1)
    if title == "row":
        figure.update_yaxes(visible=False, autorange="reversed").update_xaxes(visible=False)
    else:
        figure.update_xaxes(title_text="seconds since the start of the walk")
    return figure.update_layout(template="plotly_white", legend={"orientation": "h", "y": -0.15})


def _add(figure: go.Figure, traces: Traces, row: int, column: int) -> None:
    """Add traces; a class that another disk has shown already is not named again."""
    known = {trace.name for trace in figure.data}
    for trace in traces:
        if isinstance(trace, go.Scatter):
            trace.showlegend = trace.name not in known
        figure.add_trace(trace, row=row, col=column)


def _costs(disks: Sequence[MapDisk]) -> go.Figure:
    rows = [(f"{disk.title}: {walk_words(walk)}", walk) for disk in images_of(disks) for walk in disk.walks]
    causes = list(dict.fromkeys(cause for _, walk in rows for cause in walk.causes_s))
    names = [name for name, _ in rows]
    bars = [
        go.Bar(
            y=names,
            x=[walk.causes_s.get(cause, 0.0) for _, walk in rows],
            name=cause,
            orientation="h",
            marker_color=CAUSE_COLOURS.get(cause),
        )
        for cause in causes
    ]
    layout = {"barmode": "stack", "template": "plotly_white", "yaxis": {"autorange": "reversed", "automargin": True}}
    return go.Figure(bars, {**layout, "xaxis": {"title": {"text": "seconds of the predicted walk, by cause"}}})


def _overview(disks: Sequence[MapDisk], addresses: Sequence[Traces], span: int) -> go.Figure:
    scale = f"the first {format_bytes(span)}; a cell is {format_bytes(span // (COLUMNS * ROWS))}"
    titles = [f"{escape(disk.title)}<br><sub>{scale}</sub>" for disk in disks]
    figure = make_subplots(2, len(disks), subplot_titles=titles, vertical_spacing=0.08)
    for column, (disk, address) in enumerate(zip(disks, addresses, strict=True), 1):
        _add(figure, address, 1, column)
        _add(figure, _walk(disk), 2, column)
    figure.update_yaxes(visible=False, autorange="reversed", row=1).update_xaxes(visible=False, row=1)
    figure.update_xaxes(title_text="seconds since the start of the walk", row=2)
    figure.update_yaxes(title_text="place on disk, MiB", row=2, col=1)
    first = len(disks) + 1  # the axes of the second row, all on the scale of its first
    figure.update_xaxes(matches=f"x{first}", row=2).update_yaxes(matches=f"y{first}", row=2)
    lines = wrap(headline_of(disks), LINE * len(disks))
    return figure.update_layout(
        template="plotly_white",
        title={"text": "<br>".join(map(escape, lines)), "x": 0.05, "yref": "container", "y": 0.97, "yanchor": "top"},
        margin={"t": 100 + 24 * len(lines)},
        legend={"orientation": "h", "y": -0.12},
        width=700 * len(disks),
        height=900,
    )
