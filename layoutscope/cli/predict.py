"""Times on drives: ``layoutscope predict``, ``trace``, ``replay``, ``validate``, ``plan`` and ``forecast``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from layoutscope.cli.parameters import SEVERAL, AsJson, Image, Output, Plot, complete_options
from layoutscope.cli.running import show, show_curves, warn
from layoutscope.options import (
    ORDERS,
    OUTPUT,
    Force,
    ForecastOptions,
    Option,
    PlanOptions,
    PredictOptions,
    ReplayOptions,
    TraceOptions,
    ValidateOptions,
    Workload,
    options_of,
)

WORK: Final = options_of(Workload)

ANY_ORDER: Final = {"order": WORK["order"]._replace(choices=(*ORDERS, "all"))}
"""All orders can be predicted at once."""

RECORDED_WORK: Final = {
    # Its recorder may show which host it was; a recorded trace has been through its own memory.
    "host": WORK["host"]._replace(default=None, absence="the one whose tool recorded, else as of predict"),
    "memory_bytes": None,
}


def predict(
    image: Image,
    *,
    as_json: AsJson = False,
    options: Annotated[PredictOptions, ANY_ORDER],
) -> None:
    """Predict how long a workload takes on drives, and show the causes and alternatives."""
    from layoutscope.api.predict import predict as run

    show(run(image, **complete_options(options)), as_json=as_json)


def trace(
    image: Image,
    *,
    output: Output = None,
    force: Force = False,
    file_format: Annotated[
        Literal["csv", "fio", "blkparse"] | None,
        Option("Output format.", panel=OUTPUT, flag="--format", absence="from the file name, else csv"),
    ] = None,
    disk: Annotated[str, Option("The disk to replay on, for a fio iolog.", panel=OUTPUT, metavar="PATH")] = "/dev/sdX",
    options: TraceOptions,
) -> None:
    """Write the reads of a workload in order, as a table, fio iolog or blkparse text."""
    from layoutscope.api.outputs import check_output, file_form
    from layoutscope.api.trace import FORMATS, write_trace
    from layoutscope.api.trace import trace as run

    target = sys.stdout.buffer if output is None else output
    file_form(target, file_format, FORMATS, "csv")
    if output is not None:
        check_output(output, force=force, reads=[image])
    write_trace(run(image, **complete_options(options)), target, file_format=file_format, disk=disk, force=force)


def replay(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="CSV, fio iolog, blkparse, fs_usage, iosnoop or biosnoop text; or u64 pairs."
        ),
    ],
    *,
    as_json: AsJson = False,
    options: Annotated[ReplayOptions, RECORDED_WORK],
) -> None:
    """Compute the time of a recorded trace on drives, and score a prediction with it."""
    from layoutscope.api.trace import replay as run

    show(run(trace, **complete_options(options)), as_json=as_json)


def validate(
    kit: Annotated[
        Path, typer.Argument(metavar="KIT", help="Output of the kit's script on a Mac: the archive, or its folder.")
    ],
    *,
    as_json: AsJson = False,
    options: ValidateOptions,
) -> None:
    """Compare predictions with measurements from a Mac."""
    from layoutscope.api.validate import validate as run

    show(run(kit, **options), as_json=as_json)


def plan(
    image: Image,
    *,
    file_format: Annotated[
        Literal["text", "json", "csv"], Option("Output format.", panel=OUTPUT, flag="--format")
    ] = "text",
    as_json: AsJson = False,
    options: PlanOptions,
) -> None:
    """Rank remedies by time saved, with cost and instructions."""
    from layoutscope.api.plan import plan as run

    result = run(image, **complete_options(options))
    for missing in () if result.emitted is None else result.emitted.missing:
        warn(missing.sentence)
    if file_format == "csv":
        from layoutscope.report.tables import write_table

        write_table(result.rows("remedies"), sys.stdout.buffer, "csv")
        return
    show(result, as_json=as_json or file_format == "json")


def forecast(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...", help="Image or capture, or IMAGE:VOLUME; several of one volume, oldest first."
        ),
    ],
    *,
    plot: Plot = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[ForecastOptions, SEVERAL],
) -> None:
    """Forecast the layout and listing time of a volume after more cycles of use."""
    from layoutscope.api.forecast import forecast as run
    from layoutscope.api.forecast import write_forecast_plot

    show_curves(
        lambda: run(images, **complete_options(options)),
        write_forecast_plot,
        images,
        plot,
        force=force,
        as_json=as_json,
    )
