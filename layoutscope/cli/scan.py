"""Images as a whole: ``layoutscope scan``, ``map``, ``compare`` and ``series``.

Options that the library has as well are declared in :mod:`layoutscope.options`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.parameters import SEVERAL, TO_FILE, AsJson, Image, Plot, complete_options
from layoutscope.cli.running import show, show_curves
from layoutscope.options import (
    OUTPUT,
    EnumerationOptions,
    Force,
    HashNames,
    MapOptions,
    Option,
    ScanOptions,
    SeriesOptions,
)

Images = Annotated[
    list[Path], typer.Argument(metavar="IMAGE...", help="Two or more images or captures, or IMAGE:VOLUME.")
]
Page = Annotated[
    Path | None,
    Option("Write an interactive map.", panel=OUTPUT, flag="--map", metavar="FILE.html", absence="not drawn"),
]
Capture = Annotated[
    Path | None,
    Option(
        "Save a capture, which every verb accepts.",
        panel=OUTPUT,
        flag="--save",
        metavar="NAME.lscope",
        absence="not saved",
    ),
]


def scan(
    image: Image,
    *,
    as_json: AsJson = False,
    details: Annotated[bool, Option("Show all measurements.", panel=OUTPUT)] = False,
    explain: Annotated[bool, Option("With --details: add the definition of every metric.", panel=OUTPUT)] = False,
    is_ascii: Annotated[bool, Option("Use only ASCII characters.", panel=OUTPUT, flag="--ascii")] = False,
    map_to: Page = None,
    save_to: Capture = None,
    hash_names: HashNames = False,
    force: Force = False,
    options: ScanOptions,
) -> int:
    """Measure how scattered the metadata of an image is, and how long a listing takes."""
    from layoutscope.api.outputs import check_output, file_form
    from layoutscope.api.scan import scan as run

    if map_to is not None:
        file_form(map_to, "html", ("html",), "html")
        check_output(map_to, force=force, reads=(image,))
    if save_to is not None:
        from layoutscope.api.save import check_capture, save

        check_capture(save_to, force=force, reads=(image,))
        options["identify"] = True
    if not as_json:
        options.pop("on_locked")  # the screen begins with it
    result = run(image, **complete_options(options))
    if save_to is not None:
        save(result, save_to, hash_names=hash_names, force=force)
    if map_to is not None:
        from layoutscope.api.map import write_map

        write_map(result, map_to, names=options["names"], force=force)
    if as_json:
        show(result, as_json=True)
        return result.exit_code
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.scan import print_scan

    print_scan(result, make_console(sys.stdout), details=details, explain=explain, is_ascii=is_ascii)
    return result.exit_code


def map_images(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE...", help="One or more images or captures, or IMAGE:VOLUME, shown on one scale."),
    ],
    *,
    output: Annotated[Path | None, TO_FILE._replace(help="Output page; - for standard output.", metavar="FILE.html")],
    options: MapOptions,
) -> int:
    """Write an interactive map of one or more images: one HTML page that needs no network."""
    from layoutscope.api.map import map_images as run

    results = run(images, sys.stdout.buffer if output is None else output, **complete_options(options))
    return max(result.exit_code for result in results)


def compare(
    images: Images,
    *,
    nodes: Annotated[
        Path | None,
        Option(
            "Write a list of nodes that moved, appeared or disappeared: .csv, .parquet or .jsonl.",
            panel=OUTPUT,
            absence="not written",
        ),
    ] = None,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[EnumerationOptions, SEVERAL],
) -> None:
    """Compare file systems, ages or disks: metrics, predictions, and the causes of the difference."""
    from layoutscope.api.compare import compare as run
    from layoutscope.api.compare import write_changed_nodes, write_plot
    from layoutscope.api.outputs import check_output

    for path in filter(None, (nodes, plot)):
        check_output(path, force=force, reads=images)
    found = run(images, **complete_options(options))
    if nodes is not None:
        write_changed_nodes(found, nodes, force=force)
    if plot is not None:
        write_plot(found, plot, force=force)
    show(found, as_json=as_json)


def series(
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Images or captures of one volume, or IMAGE:VOLUME.")
    ],
    *,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[SeriesOptions, SEVERAL],
) -> None:
    """Show how metrics and predicted times of a volume change over several images or captures."""
    from layoutscope.api.compare import series as run
    from layoutscope.api.compare import write_plot

    show_curves(
        lambda: run(images, **complete_options(options)), write_plot, images, plot, force=force, as_json=as_json
    )
