"""Many images at once: ``layoutscope batch``, ``query`` and ``report``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.parameters import FLEET, TO_FILE, AsJson, complete_options
from layoutscope.cli.running import show, warn
from layoutscope.errors import UsageError
from layoutscope.options import OUTPUT, BatchOptions, Force, Option, QueryOptions

if TYPE_CHECKING:
    from layoutscope.results.fleet import SourceEnd


def batch(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Images, captures, folders, patterns in quotes, or @FILE: a list with one path per line.",
        ),
    ],
    *,
    output: Annotated[
        Path,
        Option("Folder for captures and tables; created if missing.", panel=OUTPUT, flag="-o --output", metavar="DIR"),
    ],
    as_json: AsJson = False,
    quiet: bool,
    options: Annotated[BatchOptions, FLEET],
) -> int:
    """Read many images into one folder of captures and tables, with limits per image."""
    from layoutscope.fleet.batch import batch as run

    # Every source has its row.
    del options["on_damage"], options["on_locked"]
    result = run(
        sources, output, on_source=None if quiet or sys.stderr.isatty() else print_end, **complete_options(options)
    )
    show(result, as_json=as_json)
    return result.exit_code


def print_end(end: SourceEnd, done: int, total: int) -> None:
    """Print in a line how a source ended."""
    why = end.message.removeprefix(f"{end.path}: ")
    warn(f"{done:,} of {total:,}: {end.status} {end.path}{': ' if why else ''}{why} ({end.seconds:.1f} s)")


def query_fleet(
    place: Annotated[Path, typer.Argument(metavar="DIR|IMAGE", help="Folder of a batch, image or capture.")],
    sql: Annotated[
        str | None,
        typer.Argument(metavar="[SELECT]", help="SQL query, in quotes.", show_default="none, with --list"),
    ] = None,
    *,
    list_views: Annotated[
        bool, Option("List the views with columns and units, and run no query.", panel=OUTPUT, flag="--list")
    ] = False,
    file_format: Annotated[
        str | None,
        Option("Format: csv, json, md or parquet.", panel=OUTPUT, flag="--format", metavar="FORM", absence="a table"),
    ] = None,
    output: Annotated[Path | None, TO_FILE._replace(help="File for the result.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    options: Annotated[QueryOptions, FLEET],
) -> int:
    """Query a batch or an image with SQL."""
    from layoutscope.api.outputs import check_output, file_form
    from layoutscope.fleet.query import ANSWER_FORMATS, views, write_answer
    from layoutscope.fleet.query import query as run

    file_format = file_format or ("json" if as_json else None)
    if list_views:
        show(views(), as_json=file_format == "json")
        return 0
    if sql is None:
        raise UsageError("missing SQL query: quote it, such as 'SELECT * FROM volumes'; --list shows the views")
    if output is not None:
        file_form(output, file_format, ANSWER_FORMATS, "csv")
        check_output(output, force=force, reads=[place])
    result = run(place, sql, **complete_options(options))
    for line in result.left_out:
        warn(f"left out: {line}")
    if output is not None:
        write_answer(result, output, file_format=file_format, force=force)
    elif file_format is not None:
        write_answer(result, sys.stdout.buffer, file_format=file_format)
    else:
        show(result, as_json=False)
    return result.exit_code


def report_fleet(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a batch.")],
    *,
    output: Annotated[Path, Option("Output page.", panel=OUTPUT, flag="-o --output", metavar="FILE.html")],
    maps: Annotated[bool, Option("Also write a map of each image into FILE-maps.", panel=OUTPUT)] = False,
    no_names: Annotated[bool, Option("Leave out names and paths.", panel=OUTPUT)] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Write one HTML page about a batch: all volumes, distributions, and the slowest with the reasons."""
    from layoutscope.fleet.report import write_report

    result = write_report(folder, output, maps=maps, names=not no_names, force=force)
    for line in result.left_out:
        warn(f"left out: {line}")
    show(result, as_json=as_json)
    return result.exit_code
