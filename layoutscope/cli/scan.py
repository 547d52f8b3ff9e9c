"""Images as a whole: ``layoutscope scan``, ``map``, ``compare`` and ``series``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import (
    DAMAGED,
    OUTPUT,
    AsJson,
    Enumerating,
    Force,
    Image,
    Ordering,
    Reading,
    ReadingSeveral,
)
from layoutscope.cli.running import STANDARD_OUTPUT, Group, show


class Screen(Group):
    """How a scan is told."""

    panel = OUTPUT

    as_json: AsJson = False
    details: Annotated[bool, typer.Option("--details", help="Show all that was measured, not the verdict alone.")] = (
        False
    )
    explain: Annotated[bool, typer.Option("--explain", help="With details: every metric with its definition.")] = False
    is_ascii: Annotated[bool, typer.Option("--ascii", help="Draw in ASCII.")] = False
    strict: Annotated[bool, typer.Option("--strict", rich_help_panel=DAMAGED, help="Treat damage as an error.")] = False


class Keeping(Group):
    """What is kept of a scan."""

    panel = OUTPUT

    map_to: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE.html", show_default="not drawn", help="Write an interactive map."),
    ] = None
    save_to: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="NAME.lscope", show_default="not saved", help="Save a capture, which every verb takes."
        ),
    ] = None
    hash_names: Annotated[bool, typer.Option("--hash-names", help="Save hashes in place of names.")] = False
    force: Force = False


class Pages(Group):
    """Where a map goes."""

    panel = OUTPUT

    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.html",
            show_default=STANDARD_OUTPUT,
            help="Where the page is written to; - is standard output.",
        ),
    ]
    png: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="not drawn", help="Write an overview too, as PNG or SVG."),
    ] = None
    difference: Annotated[
        bool,
        typer.Option("--difference", help="Of two states of one volume, the earlier first: what moved, came and went."),
    ] = False
    all_paths: Annotated[
        bool,
        typer.Option(
            "--all-paths",
            help="Carry every path and where its file lies, however many there are; some 10 MB for a million files.",
        ),
    ] = False
    force: Force = False


def scan(image: Image, *, verdict: Screen, kept: Keeping, enumerating: Enumerating, reading: Reading) -> int:
    """Scan an image: where metadata lies, how scattered it is, and what an enumeration costs."""
    from layoutscope.api.outputs import check_output, file_form
    from layoutscope.api.scan import scan as run

    if kept.map_to is not None:
        file_form(kept.map_to, "html", ("html",), "html")
        check_output(kept.map_to, force=kept.force, reads=(image,))
    if kept.save_to is not None:
        from layoutscope.api.save import check_capture, save

        check_capture(kept.save_to, force=kept.force, reads=(image,))
    if not verdict.as_json:
        del reading.heard_by["on_locked"]  # the screen begins with it
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
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE...", help="One or more images or captures, or IMAGE:VOLUME, shown on one scale."),
    ],
    *,
    pages: Pages,
    enumerating: Enumerating,
    reading: Reading,
) -> int:
    """Write an interactive map of images, side by side on one scale: one page that needs no network."""
    from layoutscope.api.map import map_images as run

    asked = enumerating.asked(reading)
    shown = {"difference": pages.difference, "all_paths": pages.all_paths}
    target = sys.stdout.buffer if pages.output is None else pages.output
    results = run(images, target, picture=pages.png, force=pages.force, **shown, **asked)
    return max(result.exit_code for result in results)


class MovedNodes(Group):
    """Where a list of what moved goes."""

    panel = OUTPUT

    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="not written",
            help="List the nodes that moved, appeared or went: .csv, .parquet, .jsonl.",
        ),
    ] = None
    force: Force = False


class Curves(Group):
    """What a series is ordered by, and where its curves go."""

    panel = OUTPUT

    by: Annotated[Ordering, typer.Option(help="What they are ordered by: as given, transaction or last change.")] = (
        "order"
    )
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.html", show_default="not drawn", help="Draw the curves.")
    ] = None
    force: Force = False


def compare(
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Two or more images or captures, or IMAGE:VOLUME.")
    ],
    *,
    moved: MovedNodes,
    enumerating: Enumerating,
    reading: ReadingSeveral,
    as_json: AsJson = False,
) -> None:
    """Compare file systems, ages or disks: metrics and predictions side by side, and what explains the difference."""
    from layoutscope.api.compare import compare as run
    from layoutscope.api.compare import write_changed_nodes
    from layoutscope.api.outputs import check_output

    if moved.nodes is not None:
        check_output(moved.nodes, force=moved.force, reads=images)
    found = run(images, **enumerating.asked(reading))
    if moved.nodes is not None:
        write_changed_nodes(found, moved.nodes, force=moved.force)
    show(found, as_json=as_json)


def series(
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Images or captures of one volume, or IMAGE:VOLUME.")
    ],
    *,
    curves: Curves,
    enumerating: Enumerating,
    reading: ReadingSeveral,
    as_json: AsJson = False,
) -> None:
    """Follow a volume over several images or captures: the aging curve of every metric and predicted time."""
    from layoutscope.api.compare import series as run
    from layoutscope.api.compare import write_series_plot
    from layoutscope.api.outputs import check_output

    if curves.plot is not None:
        check_output(curves.plot, force=curves.force, reads=images)
    found = run(images, by=curves.by, **enumerating.asked(reading))
    if curves.plot is not None:
        write_series_plot(found, curves.plot, force=curves.force)
    show(found, as_json=as_json)
