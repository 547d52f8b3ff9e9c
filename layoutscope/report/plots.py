"""Self-contained pages of plots: the curves of a series or forecast, comparisons of drives, and calibrations."""

from __future__ import annotations

import json
from html import escape
from itertools import groupby
from string import Template
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.drive.geometry import seek_curve
from layoutscope.report import escape_text
from layoutscope.report.map.page import asset, pack_plotly, start_script
from layoutscope.report.map.pyramid import script_json
from layoutscope.results.explanation import drive_words
from layoutscope.units import GIB, KIB, MIB, TIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plotly.graph_objects import Figure

    from layoutscope.drive import DriveProfile
    from layoutscope.drive.calibration.fitting import Calibrated
    from layoutscope.results.compare import MetricRow, Series, TimeRow
    from layoutscope.results.forecast import ForecastRange, ForecastResult
    from layoutscope.results.predict import DriveFacts

COLUMNS: Final = 3
"""Number of panels per row."""

PANEL_PIXELS: Final = 210
"""Height of a row of panels."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of volumes, which colour-blind people can distinguish (Okabe & Ito)."""

BAND_OPACITY: Final = 0.2
"""Opacity of the interval of a prediction."""

AXES: Final = {
    "order": "place in the order given",
    "xid": "transaction or write count",
    "time": "last change of any file",
}
"""Labels of the horizontal axes."""

DASHES: Final = ("solid", "dash", "dot")
"""Line styles, which distinguish drives beyond the palette."""

HEIGHT_PIXELS: Final = 560
"""Least height of the page of drives, and height of each entry of its legend."""
ENTRY_PIXELS: Final = 30

SEEK_POINTS = 400
"""Number of points of a seek curve."""


def series_page(series: Series) -> str:
    """Draw predicted times with their intervals and all metrics over the sequence, with one colour per volume."""
    from plotly.subplots import make_subplots

    panels: list[TimeRow | MetricRow] = [*series.found.times, *series.found.metrics]
    rows = list(_arrange_titles(series))
    where = [(line, column) for line, cells in enumerate(rows, 1) for column in range(1, len(cells) + 1)]
    specs: list[list[dict[str, Any] | None]] = [
        [{} if column < len(cells) else None for column in range(COLUMNS)] for cells in rows
    ]
    titles = [title for cells in rows for title in cells]
    figure = make_subplots(
        len(rows),
        COLUMNS,
        specs=specs,
        subplot_titles=titles,
        vertical_spacing=0.35 / len(rows),
        horizontal_spacing=0.07,
    )
    for panel, place in zip(panels, where, strict=True):
        _draw_panel(figure, series, panel, place)
    _style_figure(figure, series, len(rows))
    return _make_page(figure, "layoutscope series")


def _arrange_titles(series: Series) -> Iterator[list[str]]:
    """Yield the titles of the panels, row by row; each subject starts a row."""
    yield from _wrap_titles([f"Enumeration on {drive_words(row.drive)}" for row in series.found.times])
    for subject, group in groupby(series.found.metrics, key=lambda row: row.subject):
        yield from _wrap_titles([f"{row.title} ({subject})" for row in group])


def _wrap_titles(titles: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(titles), COLUMNS):
        yield [escape(escape_text(title)) for title in titles[start : start + COLUMNS]]


def _draw_panel(figure: Figure, series: Series, panel: TimeRow | MetricRow, place: tuple[int, int]) -> None:
    """Draw the curves of one panel, one per volume."""
    from layoutscope.results.compare import TimeRow

    values = panel.seconds if isinstance(panel, TimeRow) else panel.values
    factor, unit = _choose_unit("seconds" if isinstance(panel, TimeRow) else panel.unit, values)
    for number, (name, layouts) in enumerate(series.curves.items()):
        colour, around = COLOURS[number % len(COLOURS)], [_get_position(series, layouts, n) for n in layouts]
        if isinstance(panel, TimeRow):
            known = [
                (where, cost) for where, n in zip(around, layouts, strict=True) if (cost := panel.costs[n]) is not None
            ]
            ranges = [(cost.seconds_low / factor, cost.seconds_high / factor) for _, cost in known]
            _shade(figure, place, [where for where, _ in known], ranges, colour)
        scaled = [None if (value := values[n]) is None else value / factor for n in layouts]
        _draw_curve(figure, place, escape(escape_text(name)), around, scaled, colour)
    figure.update_yaxes(title_text=unit, row=place[0], col=place[1])
    if unit == "%":
        # Without this range, a line at 100 % would be on the edge of the panel.
        figure.update_yaxes(range=[0, 102], row=place[0], col=place[1])


def _get_position(series: Series, layouts: Sequence[int], number: int) -> int | str:
    """Return the horizontal position: a time or a number; by order, all volumes start at 1."""
    if series.by == "order":
        return layouts.index(number) + 1
    return series.places[number] if series.by == "time" else int(series.places[number])


def _choose_unit(unit: str, values: Sequence[float | None]) -> tuple[float, str]:
    """Choose the unit of an axis, and its size in the unit of the metric."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if unit == "bytes":
        named = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
        return next(((size, name) for size, name in named if largest >= size), (1, "bytes"))
    if unit == "seconds":
        return (60, "min") if largest >= 600 else (1, "s")
    return (0.01, "%") if unit == "share" else (1, unit)


def _shade(
    figure: Figure,
    place: tuple[int, int],
    around: Sequence[int | str],
    ranges: Sequence[tuple[float, float]],
    colour: str,
) -> None:
    """Shade the area between two curves."""
    import plotly.graph_objects as go

    shape = go.Scatter(
        x=[*around, *reversed(around)],
        y=[*(high for _, high in ranges), *reversed([low for low, _ in ranges])],
        fill="toself",
        fillcolor=colour,
        opacity=BAND_OPACITY,
        line_width=0,
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_trace(shape, *place)


def _draw_curve(
    figure: Figure,
    place: tuple[int, int],
    name: str,
    around: Sequence[int | str],
    values: Sequence[float | None],
    colour: str,
) -> None:
    """Draw a curve; the curves of the first panel are in the legend."""
    import plotly.graph_objects as go

    line = go.Scatter(
        x=around,
        y=values,
        name=name,
        legendgroup=name,
        showlegend=place == (1, 1),
        mode="lines+markers",
        line_color=colour,
        marker_size=6,
    )
    figure.add_trace(line, *place)


def _style_figure(figure: Figure, series: Series, rows: int) -> None:
    """Set the common style of all panels: title, legend, sizes, and axes."""
    height = PANEL_PIXELS * rows + 190
    figure.update_layout(
        title={"text": f"Aging curves, by {series.by}", "yref": "container", "yanchor": "top", "y": 1 - 20 / height},
        template="plotly_white",
        height=height,
        margin={"l": 70, "r": 30, "t": 130, "b": 60},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0 + 35 / (PANEL_PIXELS * rows), "x": 0},
    )
    figure.update_annotations(font_size=13)
    figure.update_yaxes(rangemode="tozero", title_font_size=11, title_standoff=4)
    figure.update_xaxes(nticks=6)
    if series.by == "order":
        figure.update_xaxes(dtick=max(1, max(map(len, series.curves.values())) // 6), tickformat="d")
    figure.update_xaxes(title_text=AXES[series.by], title_font_size=11, row=1)


def forecast_page(forecast: ForecastResult) -> str:
    """Draw times by drive and all metrics over the cycles of a forecast, with the range of the simulations."""
    from plotly.subplots import make_subplots

    cycles = [point.cycle for point in forecast.points]
    panels: list[tuple[str, str, Sequence[ForecastRange | None]]] = [
        (
            f"Enumeration on {drive_words(drive.profile)}",
            "seconds",
            [one.times[place].seconds for one in forecast.points],
        )
        for place, drive in enumerate(forecast.points[0].times)
    ]
    for metric in forecast.points[0].metrics:
        by_point = ({(item.name, item.subject): item.found for item in point.metrics} for point in forecast.points)
        ranges = [known.get((metric.name, metric.subject)) for known in by_point]
        panels.append((f"{metric.title} ({metric.subject})", metric.unit, ranges))
    rows = -(-len(panels) // COLUMNS)
    titles = [escape(escape_text(title)) for title, _, _ in panels]
    figure = make_subplots(rows, COLUMNS, subplot_titles=titles, vertical_spacing=0.35 / rows, horizontal_spacing=0.07)
    for number, (_, unit, values) in enumerate(panels):
        place = (number // COLUMNS + 1, number % COLUMNS + 1)
        factor, name = _choose_unit(unit, [None if item is None else item.high for item in values])
        known = [(cycle, item) for cycle, item in zip(cycles, values, strict=True) if item is not None]
        around = [cycle for cycle, _ in known]
        _shade(figure, place, around, [(item.low / factor, item.high / factor) for _, item in known], COLOURS[0])
        _draw_curve(
            figure, place, "median of the draws", around, [item.value / factor for _, item in known], COLOURS[0]
        )
        figure.update_yaxes(title_text=name, row=place[0], col=place[1])
    title = f"{forecast.filesystem} {forecast.volume}: {forecast.workload}, {forecast.share:.1%} of the files a cycle"
    figure.update_layout(title=escape(escape_text(title)), template="plotly_white", height=PANEL_PIXELS * rows + 190)
    figure.update_yaxes(rangemode="tozero", title_font_size=11)
    figure.update_xaxes(title_text="cycles", title_font_size=11, row=rows)
    figure.update_annotations(font_size=13)
    return _make_page(figure, "layoutscope forecast")


def drive_page(drives: Sequence[DriveFacts]) -> str:
    """Draw the seek curves of drives with an arm, and the latencies of all drives."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(1, 2, subplot_titles=("Seek time by distance", "Random 4 KiB reads"))
    for number, item in enumerate(drives):
        drawn: dict[str, Any] = {
            "name": item.profile.name,
            "legendgroup": item.profile.name,
            "line_color": COLOURS[number % len(COLOURS)],
            "line_dash": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        curve = seek_points(item.profile)
        if curve is not None:
            figure.add_trace(go.Scatter(x=curve[0], y=curve[1], showlegend=False, **drawn), 1, 1)
        ordered = np.sort(item.latencies_ms)
        share = np.linspace(0, 100, len(ordered))
        figure.add_trace(go.Scatter(x=ordered, y=share, **drawn), 1, 2)
    figure.update_xaxes(title_text="distance, share of a full stroke", row=1, col=1)
    figure.update_yaxes(title_text="ms", row=1, col=1)
    figure.update_xaxes(title_text="ms", type="log", row=1, col=2)
    figure.update_yaxes(title_text="% of reads that are no slower", row=1, col=2)
    height = max(HEIGHT_PIXELS, 200 + ENTRY_PIXELS * len(drives))
    figure.update_layout(template="plotly_white", height=height)
    return _make_page(figure, "layoutscope drives")


def calibration_page(calibration: Calibrated) -> str:
    """Draw the residuals of the reads of a calibration by distance, and the seek curve."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = ("What the distance does not explain: the wait of up to a turn, less half of it", "Seek time by distance")
    figure = make_subplots(1, 2, subplot_titles=titles)
    dots = {"mode": "markers", "marker": {"size": 3, "color": COLOURS[0]}, "name": "reads"}
    figure.add_trace(go.Scattergl(x=calibration.tracks, y=calibration.residual_ms, **dots), 1, 1)
    curve = seek_points(calibration.profile)
    if curve is not None:
        figure.add_trace(go.Scatter(x=curve[0], y=curve[1], line_color=COLOURS[1], name="seek"), 1, 2)
    figure.update_xaxes(title_text="distance in tracks", type="log", row=1, col=1)
    figure.update_yaxes(title_text="ms", row=1, col=1)
    figure.update_xaxes(title_text="distance, share of a full stroke", row=1, col=2)
    figure.update_yaxes(title_text="ms", row=1, col=2)
    figure.update_layout(template="plotly_white", height=HEIGHT_PIXELS)
    return _make_page(figure, "layoutscope drives measure")


def _make_page(figure: Figure, title: str) -> str:
    """Embed a figure in a self-contained page."""
    return Template(asset("plots.html")).substitute(
        title=escape(title),
        payload=script_json(json.loads(figure.to_json())),
        plotly=pack_plotly(),
        script=start_script(asset("plots.js")),
    )


def seek_points(profile: DriveProfile) -> tuple[list[float], list[float]] | None:
    """Return distances in shares of a stroke and times in ms; None for a drive without an arm."""
    if profile.kind != "hdd":
        return None
    from layoutscope.drive.geometry import total_cylinders

    cylinders = int(total_cylinders(profile))
    curve = seek_curve(profile, cylinders)
    at = np.unique(np.geomspace(1, cylinders - 1, SEEK_POINTS).astype(np.int64))
    return (at / cylinders).tolist(), curve[at].tolist()
