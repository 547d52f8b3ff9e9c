"""``layoutscope compare`` and ``layoutscope series``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Enumerating, Force, Reading
from layoutscope.cli.running import Group, show


class MovedNodes(Group):
    """Where a list of what moved goes."""

    nodes: Annotated[
        Path | None,
        typer.Option(
            "--nodes", metavar="FILE", help="List the nodes that moved, appeared or went: .csv, .parquet, .jsonl."
        ),
    ] = None
    force: Force = False


class Curves(Group):
    """What a series is ordered by, and where its curves go."""

    by: Annotated[str, typer.Option(metavar="order|xid|time", help="What they are ordered by.")] = "order"
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.html", help="Draw the curves.")] = None
    force: Force = False


def compare(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Two or more images or captures.")],
    *,
    moved: MovedNodes,
    enumerating: Enumerating,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Compare file systems, ages or disks: metrics and predictions side by side, and what explains the difference."""
    from layoutscope.api.compare import compare as run
    from layoutscope.api.compare import write_changed_nodes

    found = run(images, **enumerating.asked(reading))
    if moved.nodes is not None:
        write_changed_nodes(found, moved.nodes, force=moved.force)
    show(found, as_json=as_json)


def series(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Images or captures of one volume.")],
    *,
    curves: Curves,
    enumerating: Enumerating,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Follow a volume over several images or captures: the aging curve of every metric and predicted time."""
    from layoutscope.api.series import series as run
    from layoutscope.api.series import write_series_plot

    found = run(images, by=curves.by, **enumerating.asked(reading))
    if curves.plot is not None:
        write_series_plot(found, curves.plot, force=curves.force)
    show(found, as_json=as_json)
