"""What would help: ``layoutscope plan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import (
    OUTPUT,
    WORKLOAD,
    Force,
    Host,
    Image,
    PlanFormat,
    PlannedOrder,
    Reading,
    StartOffset,
    byte_count,
)
from layoutscope.cli.running import Group, show, warn


class Planned(Group):
    """The work that is to take less, and how the plan is shown."""

    panel = WORKLOAD

    drive: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Drive by profile, model number or FILE.toml; 'layoutscope drives' says which to take.",
        ),
    ] = "generic-5400-2.5"
    order: Annotated[
        PlannedOrder, typer.Option(help="What is to take less: a listing, or copy and archive, which read contents.")
    ] = "fts"
    host: Annotated[Host, typer.Option(help="Operating system whose drivers and libraries do it.")] = "linux"
    start_offset: StartOffset = "0"
    shows_all: Annotated[
        bool,
        typer.Option("--all", rich_help_panel=OUTPUT, help="Also tell of what would not help or does not apply."),
    ] = False
    emit_order: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            show_default="not written",
            help="Write a list of all files, in the order in which they are best read.",
        ),
    ] = None
    emit_script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            show_default="not written",
            help="Write a script that goes through that list with tar, cp or rsync.",
        ),
    ] = None
    null: Annotated[
        bool, typer.Option("--null", "-0", rich_help_panel=OUTPUT, help="End names in the list with a zero byte.")
    ] = False
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", show_default="unlimited", help="What may be held of the list to sort it."),
    ] = None
    lasts: Annotated[
        int | None,
        typer.Option(
            metavar="CYCLES",
            show_default="not forecast",
            help="Also forecast over so many cycles, to tell how long remedies last; takes longer than the plan.",
        ),
    ] = None
    force: Force = False
    file_format: Annotated[
        PlanFormat, typer.Option("--format", rich_help_panel=OUTPUT, help="How the plan is printed.")
    ] = "text"


def plan(image: Image, *, planned: Planned, reading: Reading) -> None:
    """Say what would help, ranked by the time it saves, with what it takes and how to do it."""
    from layoutscope.api.plan import plan as run

    result = run(
        image,
        drive=planned.drive,
        order=planned.order,
        host=planned.host,
        start_offset_bytes=byte_count(planned.start_offset) or 0,
        shows_all=planned.shows_all,
        emit_order=planned.emit_order,
        emit_script=planned.emit_script,
        is_null_separated=planned.null,
        memory_bytes=byte_count(planned.memory),
        lasts=planned.lasts,
        force=planned.force,
        **reading.asked(),
    )
    for missing in () if result.emitted is None else result.emitted.missing:
        warn(missing.sentence)
    if planned.file_format == "csv":
        from layoutscope.report.tables import write_table

        write_table(result.rows("remedies"), sys.stdout.buffer, "csv")
        return
    show(result, as_json=planned.file_format == "json")
