"""What would help, and what will become of a volume: ``layoutscope plan`` and ``forecast``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from layoutscope.cli.options import SEVERAL, AsJson, Image, complete_options
from layoutscope.cli.running import show, warn
from layoutscope.options import OUTPUT, Force, ForecastOptions, Option, PlanOptions


def plan(
    image: Image,
    *,
    file_format: Annotated[
        Literal["text", "json", "csv"], Option("How the plan is printed.", panel=OUTPUT, flag="--format")
    ] = "text",
    options: PlanOptions,
) -> None:
    """Say what would help, ranked by the time it saves, with what it takes and how to do it."""
    from layoutscope.api.plan import plan as run

    result = run(image, **complete_options(options))
    for missing in () if result.emitted is None else result.emitted.missing:
        warn(missing.sentence)
    if file_format == "csv":
        from layoutscope.report.tables import write_table

        write_table(result.rows("remedies"), sys.stdout.buffer, "csv")
        return
    show(result, as_json=file_format == "json")


def forecast(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...", help="Image or capture, or IMAGE:VOLUME; several of one volume, oldest first."
        ),
    ],
    *,
    plot: Annotated[
        Path | None, Option("Draw the curves.", panel=OUTPUT, metavar="FILE.html", absence="not drawn")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[ForecastOptions, SEVERAL],
) -> None:
    """Say what a volume's layout and its enumeration will be like after some more cycles of work."""
    from layoutscope.api.forecast import forecast as run
    from layoutscope.api.forecast import write_forecast_plot
    from layoutscope.api.outputs import check_output

    if plot is not None:
        check_output(plot, force=force, reads=images)
    found = run(images, **complete_options(options))
    if plot is not None:
        write_forecast_plot(found, plot, force=force)
    show(found, as_json=as_json)
