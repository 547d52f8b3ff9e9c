"""``report``: one page over a batch, and the maps of its captures next to it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from layoutscope.access.entries import ROOT_ID
from layoutscope.api.map import map_images
from layoutscope.api.outputs import check_output, file_form, open_output, refuse_place
from layoutscope.api.scan import scan
from layoutscope.errors import LayoutscopeError, UsageError
from layoutscope.fleet.query import FleetViews
from layoutscope.fleet.store import FLEET_MANIFEST, FleetFolder
from layoutscope.progress import phase
from layoutscope.report.fleetpage import BINS, SLOWEST, FleetPage, VolumeCard, fleet_page
from layoutscope.report.map.page import draw_rows, shares_of
from layoutscope.report.map.scans import disks
from layoutscope.results.fleet import STATUSES, ReportResult
from layoutscope.tables.schema import DATA_REGIONS
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from layoutscope.report.map.scans import MapDisk

SHOWN_METRICS: Final = (
    ("walk", "request-layout-score"),
    ("metadata", "span-share"),
    ("metadata", "clump-largest-share"),
    ("files", "file-layout-score"),
    ("free space", "free-largest-share"),
)
"""Metrics that the page shows per volume, by subject."""

DEFAULT_ORDER: Final = "fts"
"""The workload of a scan, which the figure shows; batches of other workloads have no figure."""

OLDEST_DAYS: Final = 60 * 365
"""A higher age means that a clock was never set."""

_STRIPS_SQL: Final = f"""
WITH pieces AS (
    SELECT source, layout, image_offset::DOUBLE AS start, size_bytes::DOUBLE AS length, true AS is_metadata
    FROM nodes WHERE state <> 'stale'
    UNION ALL
    SELECT source, layout, image_offset, length_bytes, type NOT IN ({", ".join(f"'{each}'" for each in DATA_REGIONS)})
    FROM regions
    UNION ALL
    SELECT source, layout, image_offset, length_bytes, false FROM extents WHERE image_offset IS NOT NULL
), placed AS (
    SELECT source, layout, is_metadata, start - image_offset AS low, start - image_offset + length AS high,
        size_bytes / {BINS}.0 AS width
    FROM pieces JOIN layouts USING (source, layout) WHERE size_bytes > 0 AND length > 0
), cut AS (
    SELECT *, greatest(0, floor(low / width)) AS first, least({BINS - 1}, ceil(high / width) - 1) AS last
    FROM placed WHERE high > 0 AND low < width * {BINS}
), spread AS (
    SELECT source, layout, is_metadata, low, high, width, unnest(range(first::BIGINT, last::BIGINT + 1)) AS bin FROM cut
)
SELECT source, layout, is_metadata, bin,
    least(1.0, sum(least(high, (bin + 1) * width) - greatest(low, bin * width)) / any_value(width)) AS share
FROM spread GROUP BY source, layout, is_metadata, bin
"""  # noqa: S608
"""Shares of metadata and of file data in each part of a volume; pieces outside the volume are ignored."""

_AGES_SQL: Final = f"""
SELECT source, layout,
    (epoch(max(modify_time)) - epoch(min(create_time) FILTER (file_id = {ROOT_ID}))) / 86400.0 AS days
FROM entries GROUP BY source, layout
"""  # noqa: S608


def write_report(
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    maps: bool = False,
    names: bool = True,
    force: bool = False,
) -> ReportResult:
    """Write one self-contained page over a batch.

    Parameters
    ----------
    folder : path
        The folder of the batch.
    target : path
        The page, ``.html``.
    maps : bool
        Whether to write a map of each capture into the folder ``NAME-maps`` next to the page.
    names : bool
        Whether paths and names of volumes may appear.
    force : bool
        Whether existing files are overwritten.

    Returns
    -------
    ReportResult

    Raises
    ------
    UsageError
        If it is not the folder of a batch, or the page exists.
    UnsupportedError
        If DuckDB is not installed.
    LayoutscopeError
        If its tables cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> _ = layoutscope.batch("fixtures/images/*.zst", "both", drives="generic-7200")
    >>> layoutscope.write_report("both", "both.html").headline[:23]
    '2 sources: 2 complete. '
    """
    place, page = Path(folder), Path(target)
    file_form(page, "html", ("html",), "html")
    check_output(page, force=force)
    if not (place / FLEET_MANIFEST).is_file() or not FleetFolder(place).is_ours():
        raise UsageError(f"{place}: is not a batch; 'layoutscope batch {place} -o FLEET' makes one of the images in it")
    FleetFolder(place).note()
    with phase("gathering the tables"), FleetViews(place, _STRIPS_SQL + _AGES_SQL) as fleet_views:
        maps_by_source, left_out = {}, list(fleet_views.left_out)
        if maps:
            maps_by_source = _write_maps(fleet_views, place, page, force=force, left_out=left_out)
        fleet = _gather_page(fleet_views, place, maps_by_source, left_out, names=names)
    with open_output(page, force=force, holds=f"{len(fleet.volumes):,} volumes") as file:
        file.write(fleet_page(fleet).encode("utf-8", "replace"))
    return ReportResult(os.fspath(page), fleet.headline(), len(fleet.volumes), fleet.left_out)


def _write_maps(
    fleet_views: FleetViews, place: Path, page: Path, *, force: bool, left_out: list[str]
) -> dict[str, str]:
    """Write the maps of all captures; return their links by source."""
    folder = page.with_name(f"{page.stem}-maps")
    refuse_place(folder)
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder, and maps are written into it. Remove it or name another page.")
    folder.mkdir(exist_ok=True)
    links = {}
    for source, capture in fleet_views.captures.items():
        goal = folder / f"{Path(capture).stem}.html"
        try:
            map_images([place / capture], goal, force=force)
        except UsageError:
            raise
        except LayoutscopeError as error:
            left_out.append(f"no map of {capture}: {error}")
        else:
            links[source] = f"{folder.name}/{goal.name}"
    return links


def _gather_page(
    fleet_views: FleetViews, place: Path, maps: Mapping[str, str], left_out: list[str], *, names: bool
) -> FleetPage:
    """Gather the contents of the page from the views of a batch."""
    sources = {row["source"]: row for row in fleet_views.rows("SELECT * FROM sources")}

    def path_of(source: str) -> str:
        return (sources.get(source, {}).get("path") or source) if names else source

    predicted = fleet_views.rows("SELECT * FROM predictions WHERE isfinite(seconds) AND seconds >= 0")
    order = predicted[0]["order"] if predicted else ""
    predicted = [row for row in predicted if row["order"] == order]
    times: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in predicted:
        times.setdefault((row["source"], row["volume"]), []).append(row)
    metrics, values = _shown_metrics(fleet_views)
    strips, ages = _read_strips_and_ages(fleet_views)
    cards = []
    for row in fleet_views.rows(
        "SELECT v.*, l.layout FROM volumes v JOIN layouts l USING (source, volume, number, image_offset) "
        "WHERE number IS NOT NULL ORDER BY l.place"
    ):
        source, volume, layout = row["source"], (row["source"], row["volume"]), (row["source"], row["layout"])
        own, strip = times.get(volume, []), strips.get(layout, {})
        cards.append(
            VolumeCard(
                source=source,
                path=path_of(source),
                status=sources.get(source, {}).get("status") or "",
                volume=(row["volume"] or "") if names else f"volume {row['number']}",
                name=(row["name"] or "") if names else "",
                kind=row["variant"] or row["filesystem"] or "",
                size_bytes=row["size_bytes"] or 0,
                entries=(row["num_files"] or 0) + (row["num_directories"] or 0),
                seconds={time["drive"]: time["seconds"] for time in own},
                reads=own[0]["reads"] if own else None,
                metrics=values.get(volume, {}),
                age_days=ages.get(layout),
                metadata=tuple(strip.get(True, ())),
                data=tuple(strip.get(False, ())),
                map_page=maps.get(source, ""),
            )
        )
    gravity: dict[str, int] = {status: number for number, status in enumerate(STATUSES)}
    incomplete = [row for row in sources.values() if row["status"] != STATUSES[0]]
    incomplete.sort(key=lambda row: -gravity.get(row["status"] or "", 0))
    left_out += [line for line in fleet_views.left_out if line not in left_out]
    host_by_source = {row["source"]: row["host"] for row in predicted}
    hosts = " and ".join(dict.fromkeys(str(row["host"]) for row in predicted))
    fleet = FleetPage(
        title=str(place) if names else "fleet",
        made=f"made by layoutscope {__version__} from {len(sources):,} sources",
        counts={status: sum(row["status"] == status for row in sources.values()) for status in STATUSES},
        order=f"{order} as on {hosts}",
        drives=tuple(dict.fromkeys(row["drive"] for row in predicted)),
        metrics=metrics,
        volumes=tuple(cards),
        failures=tuple(
            (path_of(row["source"]), row["status"] or "", (row["message"] or "") if names else "") for row in incomplete
        ),
        left_out=tuple(left_out) if names else (f"{len(left_out):,} tables",) * bool(left_out),
    )
    if order != DEFAULT_ORDER:
        return fleet
    slowest = [cards[number] for number in fleet.places[:SLOWEST]]
    shown = [
        disk
        for card in slowest
        for disk in _disks_of(card, fleet_views.captures.get(card.source), place, fleet.drives[0], host_by_source)
    ]
    shown = [replace(disk, title=disk.title if names else f"volume {number}") for number, disk in enumerate(shown, 1)]
    drawn = draw_rows(shown, shares_of(shown), is_one_scale=False) if shown else ""
    return replace(fleet, figure=drawn, num_not_drawn=len(slowest) - len(shown))


def _disks_of(
    card: VolumeCard, capture: str | None, place: Path, drive: str, host_by_source: Mapping[str, str]
) -> Iterator[MapDisk]:
    """Yield the disk of a volume as its capture has it, with the reads of its listing; nothing without a capture."""
    if capture is None:
        return
    try:
        found = disks([scan(place / capture, drives=drive, host=host_by_source[card.source])])
    except LayoutscopeError:
        return
    yield from (disk for disk in found[:1] if disk.walks)


def _shown_metrics(
    fleet_views: FleetViews,
) -> tuple[dict[str, tuple[str, str]], dict[tuple[str, str], dict[str, float]]]:
    """Return titles and units of the metrics that the page shows, and their values by source and volume."""
    keys = [f"{subject} {metric}" for subject, metric in SHOWN_METRICS]
    titles: dict[str, tuple[str, str]] = {}
    values: dict[tuple[str, str], dict[str, float]] = {}
    for row in fleet_views.rows("SELECT * FROM metrics WHERE isfinite(value)"):
        key = f"{row['subject']} {row['metric']}"
        if key in keys:
            titles.setdefault(key, (row["title"] or key, row["unit"] or ""))
            values.setdefault((row["source"], row["volume"]), {})[key] = row["value"]
    return {key: titles[key] for key in keys if key in titles}, values


def _read_strips_and_ages(
    fleet_views: FleetViews,
) -> tuple[dict[tuple[str, int], dict[bool, list[float]]], dict[tuple[str, int], float]]:
    """Return strips and ages by source and layout, of the captures that can be read."""
    strips: dict[tuple[str, int], dict[bool, list[float]]] = {}
    for row in fleet_views.rows(_STRIPS_SQL):
        own = strips.setdefault((row["source"], row["layout"]), {})
        line = own.setdefault(row["is_metadata"], [0.0] * BINS)
        if 0 <= row["bin"] < BINS and row["share"] is not None and math.isfinite(row["share"]):
            line[row["bin"]] = row["share"]
    ages = {
        (row["source"], row["layout"]): row["days"]
        for row in fleet_views.rows(_AGES_SQL)
        if row["days"] is not None and 0 <= row["days"] <= OLDEST_DAYS
    }
    return strips, ages
