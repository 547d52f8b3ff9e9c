"""Images as a whole: ``layoutscope scan``, ``map``, ``compare`` and ``series``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Enumerating, Force, Image, Reading
from layoutscope.cli.running import Group, show


class Screen(Group):
    """How a scan is told."""

    as_json: AsJson = False
    details: Annotated[bool, typer.Option("--details", help="Show all that was measured, not the verdict alone.")] = (
        False
    )
    explain: Annotated[bool, typer.Option("--explain", help="With details: every metric with its definition.")] = False
    is_ascii: Annotated[bool, typer.Option("--ascii", help="Draw in ASCII.")] = False
    strict: Annotated[bool, typer.Option("--strict", help="Treat damage as an error.")] = False


class Kept(Group):
    """What is kept of a scan."""

    map_to: Annotated[Path | None, typer.Option("--map", metavar="FILE.html", help="Write an interactive map.")] = None
    save_to: Annotated[
        Path | None, typer.Option("--save", metavar="NAME.lscope", help="Save a capture, which every verb takes.")
    ] = None
    hash_names: Annotated[bool, typer.Option("--hash-names", help="Save hashes in place of names.")] = False
    force: Force = False


class Pages(Group):
    """Where a map goes."""

    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html", help="Where to.")]
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an overview too, as PNG or SVG.")] = None
    force: Force = False


def scan(image: Image, *, verdict: Screen, kept: Kept, enumerating: Enumerating, reading: Reading) -> int:
    """Scan an image: where metadata lies, how scattered it is, and what an enumeration costs."""
    from layoutscope.api.outputs import check_output
    from layoutscope.api.scan import scan as run

    if kept.map_to is not None:
        check_output(kept.map_to, force=kept.force, reads=(image,))
    if kept.save_to is not None:
        from layoutscope.api.save import check_capture, save

        check_capture(kept.save_to, force=kept.force, reads=(image,))
    asked = enumerating.asked(reading)
    result = run(image, strict=verdict.strict, identify=kept.save_to is not None, **asked)
    if kept.save_to is not None:
        save(result, kept.save_to, hash_names=kept.hash_names, force=kept.force)
    if kept.map_to is not None:
        from layoutscope.api.map import write_map

        write_map(result, kept.map_to, names=asked["names"], force=kept.force)
    if verdict.as_json:
        show(result, as_json=True)
        return result.exit_code
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.scan import print_scan

    told = {"details": verdict.details, "explain": verdict.explain, "is_ascii": verdict.is_ascii}
    print_scan(result, make_console(sys.stdout), **told)
    return result.exit_code


def map_images(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="One or more images, shown on one scale.")],
    *,
    pages: Pages,
    enumerating: Enumerating,
    reading: Reading,
) -> int:
    """Write an interactive map of images, side by side on one scale: one page that needs no network."""
    from layoutscope.api.map import map_images as run

    results = run(images, pages.output, picture=pages.png, force=pages.force, **enumerating.asked(reading))
    return max(result.exit_code for result in results)


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
    from layoutscope.api.compare import series as run
    from layoutscope.api.compare import write_series_plot

    found = run(images, by=curves.by, **enumerating.asked(reading))
    if curves.plot is not None:
        write_series_plot(found, curves.plot, force=curves.force)
    show(found, as_json=as_json)
