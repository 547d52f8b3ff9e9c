"""``compare``: two or more volumes, ages or disks side by side."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from layoutscope.api.scanning import scan
from layoutscope.errors import UsageError
from layoutscope.metrics.pieces import live_nodes, main_tree
from layoutscope.report.comparison import Comparison, MetricRow, NodeChanges, TimeRow, explain

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from layoutscope.api.options import ReadOptions
    from layoutscope.metrics import Metric
    from layoutscope.report.result import ScanResult, VolumeScan
    from layoutscope.tables import VolumeLayout

MAIN = "enumerated tree"
"""Subject under which the catalog of HFS+ and the file-system tree of APFS stand side by side."""


def compare(
    paths: Sequence[str | os.PathLike[str]],
    *,
    drives: Sequence[str] | None = None,
    host: str = "linux",
    **options: Unpack[ReadOptions],
) -> Comparison:
    """Compare the one volume that can be walked on each image.

    Parameters
    ----------
    paths : sequence of path
        At least two images.
    drives : sequence of str, optional
        Profiles or TOML files.
    host : {'linux', 'macos'}
        Whose drivers enumerate.
    **options
        See :class:`~layoutscope.api.options.ReadOptions`.

    Raises
    ------
    UsageError
        If there are fewer than two images, or one has no or several volumes that can be walked.
    LayoutscopeError
        If an image cannot be read.
    """
    if len(paths) < 2:
        raise UsageError("compare needs at least two images")
    return compare_scans([scan(path, drives=drives, host=host, **options) for path in paths])


def compare_scans(results: Sequence[ScanResult]) -> Comparison:
    """Compare scans that are already there."""
    volumes = [walked_volume(result) for result in results]
    names = tuple(
        f"{Path(result.image.name).name}, {item.layout.facts.variant}"
        for result, item in zip(results, volumes, strict=True)
    )
    metrics, times = tuple(_metrics(volumes)), tuple(_times(volumes))
    changes = tuple(node_changes(one.layout, other.layout) for one, other in pairwise(volumes))
    return Comparison(names, metrics, times, changes, explain(times, metrics))


def walked_volume(result: ScanResult) -> VolumeScan:
    """Return the one volume of a scan that can be walked.

    Raises
    ------
    UsageError
        If there is none, or more than one.
    """
    found = [volume for volume in result.volumes if volume.walk is not None]
    if len(found) != 1:
        raise UsageError(f"{result.image.name}: {len(found)} volumes can be walked; choose one with --volume")
    return found[0]


def _metrics(volumes: Sequence[VolumeScan]) -> Iterator[MetricRow]:
    """Yield the metrics that some side has, in the order of the first side."""
    tables = [_by_subject(volume) for volume in volumes]
    keys = {key: metric for table in reversed(tables) for key, metric in table.items()}
    ordered = sorted(keys, key=lambda key: list(tables[0]).index(key) if key in tables[0] else len(tables[0]))
    for key in ordered:
        values = tuple(table[key].value if key in table else None for table in tables)
        if any(value is not None for value in values):
            definition = keys[key].definition
            yield MetricRow(definition.name, definition.title, definition.unit, key[1], values)


def _by_subject(volume: VolumeScan) -> dict[tuple[str, str], Metric]:
    main = main_tree(volume.layout)
    walked = volume.walk.metrics if volume.walk is not None else ()
    subjects = {main: MAIN, "metadata": "metadata", "files": "files", "free space": "free space", "walk": "walk"}
    return {
        (metric.name, subjects[metric.subject]): metric
        for metric in (*walked, *volume.metrics)
        if metric.subject in subjects
    }


def _times(volumes: Sequence[VolumeScan]) -> Iterator[TimeRow]:
    tables = [{item.drive: item for item in volume.predictions} for volume in volumes]
    for drive in tables[0]:
        found = [table.get(drive) for table in tables]
        yield TimeRow(
            drive,
            tuple(item.seconds if item else None for item in found),
            tuple(item.causes_s if item else () for item in found),
        )


def node_changes(earlier: VolumeLayout, later: VolumeLayout) -> NodeChanges | None:
    """Follow the nodes of the enumerated tree by number; None unless both are states of one volume.

    Images of one volume share its identifier; so do copies that went on apart.
    """
    if not earlier.facts.uuid or earlier.facts.uuid != later.facts.uuid:
        return None
    places = [live_nodes(layout, main_tree(layout)).select("node_id", "image_offset") for layout in (earlier, later)]
    both = places[0].join(places[1], on="node_id", how="inner", suffix="_later")
    stayed = both.filter(pl.col("image_offset") == pl.col("image_offset_later")).height
    return NodeChanges(stayed, both.height - stayed, places[1].height - both.height, places[0].height - both.height)
