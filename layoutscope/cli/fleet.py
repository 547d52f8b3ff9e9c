"""Many images at once: ``layoutscope batch``, and what is asked of them: ``query``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.options import OUTPUT, WORKLOAD, AsJson, Enumerating, Force, ReadingSeveral, byte_count
from layoutscope.cli.running import STANDARD_OUTPUT, Group, show, warn
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from layoutscope.results.fleet import SourceEnd

FLEET_LIMITS = "Limits of each process"
QUERY_LIMITS = "Limits of a query"


class ReadingFleet(ReadingSeveral):
    """How the images of a batch are read; what is examined as evidence is one image."""

    without = ReadingSeveral.without | {"evidence"}


class FleetPlace(Group):
    """Where a batch goes, what is kept there, and how it is told."""

    panel = OUTPUT

    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for captures and tables, made where needed.")
    ]
    resume: Annotated[
        bool, typer.Option("--resume", help="Take up the batch in DIR: what is there and unchanged is not read again.")
    ] = False
    hash_names: Annotated[bool, typer.Option("--hash-names", help="Save hashes in place of names.")] = False
    as_json: AsJson = False
    order: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=WORKLOAD,
            show_default="fts",
            help="Order that times are predicted for; several times.",
        ),
    ] = None


class FleetWork(Group):
    """How many processes read, and what each may take."""

    panel = FLEET_LIMITS

    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", metavar="N", min=1, show_default="one a core, as memory allows", help="Sources at a time."
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", show_default="its part of the machine's", help="Memory of each, such as 4GiB."),
    ] = None
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Time for each source.")] = 3600.0
    written: Annotated[
        str | None,
        typer.Option(metavar="SIZE", show_default="as there is room", help="The longest file that each may write."),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            show_default="processes here",
            help="Have the workers of a Dask scheduler read, such as tcp://host:8786; local makes one here.",
        ),
    ] = None
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Make a Dask cluster here, with its own page, and tell its address.")
    ] = False


def batch(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...", help="Images, captures, folders, patterns in quotes, or @FILE: a list, a path a line."
        ),
    ],
    *,
    place: FleetPlace,
    work: FleetWork,
    enumerating: Enumerating,
    reading: ReadingFleet,
) -> int:
    """Read many images, each within limits of its own: captures and tables over all of them."""
    from layoutscope.fleet.batch import batch as run

    reading.heard_by.clear()  # every source has its row
    result = run(
        sources,
        place.output,
        resume=place.resume,
        hash_names=place.hash_names,
        orders=place.order or ("fts",),
        workers=work.jobs,
        memory_bytes=byte_count(work.memory),
        timeout_ms=work.timeout * 1000,
        written_bytes=byte_count(work.written),
        scheduler=work.scheduler,
        dashboard=work.dashboard,
        on_source=None if reading.quiet or sys.stderr.isatty() else _told,
        **enumerating.asked(reading),
    )
    show(result, as_json=place.as_json)
    return result.exit_code


def _told(end: SourceEnd, done: int, total: int) -> None:
    """Say in a line how a source ended."""
    why = end.message.removeprefix(f"{end.path}: ")
    warn(f"{done:,} of {total:,}: {end.status} {end.path}{': ' if why else ''}{why} ({end.seconds:.1f} s)")


class QueryPlace(Group):
    """What a query is of, and where its answer goes."""

    panel = OUTPUT

    list_views: Annotated[
        bool, typer.Option("--list", help="Name the views, with columns and units, and ask nothing.")
    ] = False
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="FORM", show_default="a table", help="csv, json, md or parquet."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            show_default=STANDARD_OUTPUT,
            help="File for the answer.",
        ),
    ] = None
    force: Force = False
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=QUERY_LIMITS,
            show_default="a quarter of the machine's",
            help="Memory that the answer may take, such as 4GiB.",
        ),
    ] = None
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, rich_help_panel=QUERY_LIMITS, help="Time that the answer may take."),
    ] = 300.0


def query_fleet(
    place: Annotated[Path, typer.Argument(metavar="DIR|IMAGE", help="Folder of a batch, image or capture.")],
    sql: Annotated[
        str | None,
        typer.Argument(metavar="[SELECT]", help="Question in SQL, in quotes.", show_default="none, with --list"),
    ] = None,
    *,
    answer: QueryPlace,
    reading: ReadingFleet,
) -> int:
    """Ask questions in SQL over all that a batch has read, or over one image."""
    from layoutscope.api.outputs import check_output, file_form
    from layoutscope.fleet.query import ANSWER_FORMATS, views, write_answer
    from layoutscope.fleet.query import query as run

    if answer.list_views:
        show(views(), as_json=answer.file_format == "json")
        return 0
    if sql is None:
        raise UsageError("which question? write it in quotes, such as 'SELECT * FROM volumes'; --list names the views")
    if answer.output is not None:
        file_form(answer.output, answer.file_format, ANSWER_FORMATS, "csv")
        check_output(answer.output, force=answer.force, reads=[place])
    memory_bytes, timeout_ms = byte_count(answer.memory), answer.timeout * 1000
    result = run(place, sql, memory_bytes=memory_bytes, timeout_ms=timeout_ms, **reading.asked())
    for line in result.left_out:
        warn(f"left out: {line}")
    if answer.output is not None:
        write_answer(result, answer.output, file_format=answer.file_format, force=answer.force)
    elif answer.file_format is not None:
        write_answer(result, sys.stdout.buffer, file_format=answer.file_format)
    else:
        show(result, as_json=False)
    return result.exit_code


class ReportPage(Group):
    """Where the page over a batch goes, and what is written beside it."""

    panel = OUTPUT

    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html", help="The page.")]
    maps: Annotated[bool, typer.Option("--maps", help="Write a map of each image, too, into FILE-maps.")] = False
    no_names: Annotated[bool, typer.Option("--no-names", help="Leave names and paths out.")] = False
    force: Force = False
    as_json: AsJson = False


def report_fleet(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a batch.")], *, page: ReportPage
) -> int:
    """Write one page over a batch: a table with every volume's layout, distributions, the slowest and why."""
    from layoutscope.fleet.report import write_report

    options = {"maps": page.maps, "names": not page.no_names, "force": page.force}
    result = write_report(folder, page.output, **options)
    for line in result.left_out:
        warn(f"left out: {line}")
    show(result, as_json=page.as_json)
    return result.exit_code
