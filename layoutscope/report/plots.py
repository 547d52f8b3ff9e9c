"""Self-contained pages of curves: comparisons, series and forecasts, drives, and calibrations."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.drive.geometry import total_cylinders
from layoutscope.drive.seeks import seek_curve
from layoutscope.report import escape_text
from layoutscope.report.map.figure import MAX_ROWS, figure
from layoutscope.report.map.page import fill_page, first_screen, shares_of, table
from layoutscope.report.map.panels import make_chart
from layoutscope.report.map.pyramid import packed_json
from layoutscope.report.map.scans import disks
from layoutscope.results.compare import side_letters
from layoutscope.results.explanation import drive_words
from layoutscope.units import GIB, KIB, MIB, TIB, format_share, format_value
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.drive import DriveProfile
    from layoutscope.drive.calibration.fitting import Calibrated
    from layoutscope.report.map.panels import Chart
    from layoutscope.report.map.scans import MapDisk
    from layoutscope.results.compare import Comparison, Series
    from layoutscope.results.plan import ForecastRange, ForecastResult
    from layoutscope.results.predict import DriveFacts

    Curve = tuple[str, Sequence[Any], Sequence[float | None], Sequence[tuple[float, float]]]
    """A name, positions, values, and the low and high ends of those that have a range."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a919c")
"""Colors of volumes and drives, which color-blind people can distinguish (Okabe & Ito), on light and on dark."""

DASHES: Final = ("solid", "dash", "dot")
"""Line styles, which distinguish drives beyond the palette."""

RANGE_OPACITY: Final = 0.2

AXES: Final = {
    "order": "image, in the given order",
    "xid": "transaction or write count",
    "time": "last change of any file",
}
"""Titles of the horizontal axes."""

ENTRY_PIXELS: Final = 30
"""Height of each entry of the legend of drives."""

SEEK_POINTS: Final = 400
"""Number of points of a curve of a drive."""


def compare_page(found: Comparison) -> str:
    """Draw the sides of a comparison as rows on one time axis, over the explanation and all metrics."""
    sides = [
        f"{letter}: {escape_text(name)}"
        for letter, name in zip(side_letters(len(found.names)), found.names, strict=True)
    ]
    rows = [[row.title, row.subject, *(format_value(value, row.unit) for value in row.values)] for row in found.metrics]
    metrics = table("", ("metric", "of", *sides), rows)
    scrolled = f'<div class="rows" tabindex="0" role="region" aria-label="metrics">{metrics}</div>'
    why = f"<p>{escape(escape_text(found.verdict))}</p>{scrolled}"
    return _make_page("layoutscope compare", _disks_of(found), _fold("All metrics", why), [])


def series_page(series: Series) -> str:
    """Draw the layouts of a series as rows on one time axis, over curves of times and metrics, a color per volume."""
    shown = _disks_of(series.found)
    chosen = np.unique(np.linspace(0, len(shown) - 1, min(len(shown), MAX_ROWS)).astype(int)).tolist()
    left = f"<p>The figure shows {len(chosen)} of {len(shown)} states.</p>" if len(chosen) < len(shown) else ""
    disks = [shown[place] for place in chosen]
    return _make_page("layoutscope series", disks, left, _series_charts(series), len(series.found.times))


def _disks_of(found: Comparison) -> list[MapDisk]:
    """Return the disk of each side, under the side's name."""
    return [
        replace(disk, title=escape_text(name))
        for name, scan in zip(found.names, found.scans, strict=True)
        for disk in disks([scan])
        if any(layout is scan.volume.layout for layout in disk.layouts)
    ]


def _series_charts(series: Series) -> list[Chart]:
    """Draw all times, then all metrics, each with a curve per volume."""
    axis: dict[str, Any] = {"title": {"text": AXES[series.by]}, "nticks": 6}
    if series.by == "order":
        axis |= {"rangemode": "tozero", "dtick": max(1, max(map(len, series.curves.values())) // 6)}
    at: dict[str, Sequence[Any]] = {}  # horizontal positions: times or numbers; by order, each volume starts at 1
    for name, layouts in series.curves.items():
        places: list[Any] = [series.places[number] for number in layouts]
        if series.by == "order":
            places = list(range(1, len(layouts) + 1))
        elif series.by != "time":
            places = list(map(int, places))
        at[name] = places
    charts = []
    for row in series.found.times:
        curves: list[Curve] = []
        for name, layouts in series.curves.items():
            costs = [row.costs[number] for number in layouts]
            ranges = [(cost.seconds_low, cost.seconds_high) for cost in costs if cost is not None]
            curves.append((name, at[name], [None if cost is None else cost.seconds for cost in costs], ranges))
        charts.append(_make_curves(f"Listing every file on a {drive_words(row.drive)}", "seconds", curves, axis))
    for metric in series.found.metrics:
        curves = [(name, at[name], [metric.values[n] for n in own], ()) for name, own in series.curves.items()]
        charts.append(_make_curves(f"{metric.title} ({metric.subject})", metric.unit, curves, axis))
    return charts


def _make_curves(title: str, unit: str, curves: Sequence[Curve], axis: dict[str, Any]) -> Chart:
    """Draw a curve per volume with its range; a single one has the color of the page."""
    factor, name = _choose_unit(unit, [value for _, _, values, _ in curves for value in values])
    traces: list[dict[str, Any]] = []
    rows = []
    for number, (own_name, places, values, ranges) in enumerate(curves):
        label = escape_text(own_name)
        trace: dict[str, Any] = {"type": "scatter", "name": escape(label), "legendgroup": str(number)}
        looks = {"color": COLOURS[number % len(COLOURS)]}
        trace |= {"meta": {"role": "main"}} if len(curves) == 1 else {}
        known = [place for place, value in zip(places, values, strict=True) if value is not None]
        if ranges:
            ends = [*(high for _, high in ranges), *(low for low, _ in reversed(ranges))]
            traces.append(
                {
                    **trace,
                    "mode": "lines",
                    "x": [*known, *reversed(known)],
                    "y": [end / factor for end in ends],
                    "fill": "toself",
                    "fillcolor": looks["color"],
                    "opacity": RANGE_OPACITY,
                    "line": {"width": 0},
                    "hoverinfo": "skip",
                    "showlegend": False,
                }
            )
        scaled = [None if value is None else value / factor for value in values]
        traces.append({**trace, "mode": "lines+markers", "x": places, "y": scaled, "line": looks, "marker": looks})
        rows += [[label, str(place), format_value(value, unit)] for place, value in zip(places, values, strict=True)]
    vertical: dict[str, Any] = {"title": {"text": name}, "rangemode": "tozero"}
    if name == "%":
        vertical["range"] = [0, 102]  # a line at 100 % would be on the edge
    layout = {"xaxis": axis, "yaxis": vertical, "showlegend": len(curves) > 1, "legend": {"orientation": "h", "y": 1.2}}
    columns = ("curve", "at", "value")
    return make_chart(escape_text(title), traces, layout, height=240, columns=columns, rows=rows)


def _choose_unit(unit: str, values: Sequence[float | None]) -> tuple[float, str]:
    """Choose the unit of an axis, and its size in the unit of the metric."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if unit == "bytes":
        named = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
        return next(((size, name) for size, name in named if largest >= size), (1, "bytes"))
    if unit == "seconds":
        return (60, "min") if largest >= 600 else (1, "s")
    return (0.01, "%") if unit == "share" else (1, unit)


def forecast_page(forecast: ForecastResult) -> str:
    """Draw times by drive and all metrics over the cycles of a forecast, with the range of the simulations."""
    cycles = [point.cycle for point in forecast.points]
    first = forecast.points[0]
    found: list[tuple[str, str, list[ForecastRange | None]]] = [
        (
            f"Listing every file on a {drive_words(drive.profile)}",
            "seconds",
            [one.times[place].seconds for one in forecast.points],
        )
        for place, drive in enumerate(first.times)
    ]
    for metric in first.metrics:
        by_point = ({(item.name, item.subject): item.found for item in point.metrics} for point in forecast.points)
        ranges = [known.get((metric.name, metric.subject)) for known in by_point]
        found.append((f"{metric.title} ({metric.subject})", metric.unit, ranges))
    charts = []
    for title, unit, ranges in found:
        ends = [(item.low, item.high) for item in ranges if item is not None]
        curve = ("median of the simulations", cycles, [None if item is None else item.value for item in ranges], ends)
        charts.append(_make_curves(title, unit, [curve], {"title": {"text": "cycles"}, "nticks": 6}))
    share = f"{format_share(forecast.share)} of the files per cycle"
    title = f"{forecast.filesystem} {forecast.volume}: {forecast.workload}, {share}"
    return _make_page("layoutscope forecast", [], f"<h1>{escape(escape_text(title))}</h1>", charts)


def drive_page(drives: Sequence[DriveFacts]) -> str:
    """Draw the seek curves of drives with an arm, and the latencies of all drives."""
    seeks, latencies = [], []
    for number, item in enumerate(drives):
        drawn: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "name": item.profile.name,
            "line": {"color": COLOURS[number % len(COLOURS)], "dash": DASHES[number // len(COLOURS) % len(DASHES)]},
        }
        curve = seek_points(item.profile)
        if curve is not None:
            seeks.append({**drawn, "x": curve[0], "y": curve[1]})
        ordered = np.quantile(item.latencies_ms, np.linspace(0, 1, SEEK_POINTS))
        latencies.append({**drawn, "x": ordered.tolist(), "y": np.linspace(0, 100, len(ordered)).tolist()})
    to_share = {
        "xaxis": {"title": {"text": "ms"}, "type": "log"},
        "yaxis": {"title": {"text": "% of reads that are no slower"}},
    }
    height = max(360, 80 + ENTRY_PIXELS * len(drives))
    charts = [
        make_chart("Seek time by distance", seeks, SEEK_AXES, height=360),
        make_chart("Random 4 KiB reads", latencies, {**to_share, "showlegend": True}, height=height),
    ]
    return _make_page("layoutscope drives", [], "<h1>Drives</h1>", charts)


SEEK_AXES: Final = {
    "xaxis": {"title": {"text": "distance, share of a full stroke"}},
    "yaxis": {"title": {"text": "ms"}},
}


def calibration_page(calibration: Calibrated) -> str:
    """Draw the residuals of the reads of a calibration by distance, and the seek curve."""
    dots = {"type": "scatter", "mode": "markers", "marker": {"size": 3}, "meta": {"role": "main"}}
    dots |= {"x": np.asarray(calibration.tracks).tolist(), "y": np.asarray(calibration.residual_ms).tolist()}
    by_track = {"xaxis": {"title": {"text": "distance in tracks"}, "type": "log"}, "yaxis": {"title": {"text": "ms"}}}
    title = "What the distance does not explain: the wait of up to a turn, less half of it"
    charts = [make_chart(title, [dots], by_track, height=360)]
    curve = seek_points(calibration.profile)
    if curve is not None:
        line = {"type": "scatter", "mode": "lines", "x": curve[0], "y": curve[1], "meta": {"role": "main"}, "line": {}}
        charts.append(make_chart("Seek time by distance", [line], SEEK_AXES, height=360))
    return _make_page("layoutscope drives measure", [], "<h1>Calibration</h1>", charts)


def _fold(title: str, content: str) -> str:
    return f"<section><details><summary><h2>{title}</h2></summary>{content}</details></section>"


def _make_page(
    title: str, shown: Sequence[MapDisk], words: str, charts: Sequence[Chart], num_first: int | None = None
) -> str:
    """Return a page of disks as rows of the figure, if there are any, words, and charts, the later ones folded."""
    shares = shares_of(shown)
    empty = ['<div class="card"></div>'] * len(charts)
    first, more = empty[:num_first], empty[num_first:] if num_first else []
    sections = [first_screen(shown, shares) if shown else "", words]
    if first:
        cards = f'<div class="disks charts">{"".join(first)}</div>'
        sections.append(f'<section class="scripted"><h2>Curves</h2>{cards}</section>')
    if more:
        sections.append(_fold("All metrics", f'<div class="disks charts">{"".join(more)}</div>'))
    return fill_page(
        title=title,
        sections="".join(sections),
        made=f"Made by layoutscope {__version__}.",
        payload={"packed": packed_json({"figure": figure(shown, shares) if shown else None, "charts": charts})},
        script="curves.js",
    )


def seek_points(profile: DriveProfile) -> tuple[list[float], list[float]] | None:
    """Return distances in shares of a stroke and times in ms; None for a drive without an arm."""
    if profile.kind != "hdd":
        return None
    cylinders = int(total_cylinders(profile))
    curve = seek_curve(profile, cylinders)
    at = np.unique(np.geomspace(1, cylinders - 1, SEEK_POINTS).astype(np.int64))
    return (at / cylinders).tolist(), curve[at].tolist()
