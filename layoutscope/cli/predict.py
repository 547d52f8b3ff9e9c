"""Times on drives: ``layoutscope predict``, ``trace``, ``replay`` and ``drives``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.choices import Buffer, ReplayFormat, TraceFormat, complete_what_if
from layoutscope.cli.inspect import Target
from layoutscope.cli.options import (
    OUTPUT,
    WORKLOAD,
    AsJson,
    Drives,
    Force,
    Image,
    Reading,
    StartOffset,
    WorkInMemory,
    WorkOfAnyOrder,
    WorkOptions,
    byte_count,
)
from layoutscope.cli.running import Group, show
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.predict import DriveFacts


class Question(Group):
    """What is asked about a workload."""

    panel = WORKLOAD

    drive: Drives = None
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="NAME",
            show_default="packed",
            autocompletion=complete_what_if,
            help="Also with one thing changed, such as outer-zone, no-snapshots, double-cache or ssd; "
            "'layoutscope explain what-if' has all.",
        ),
    ] = None
    start_offset: StartOffset = "0"
    top: Annotated[
        int, typer.Option(metavar="N", min=0, rich_help_panel=OUTPUT, help="How many directories are listed.")
    ] = 10
    ncdu: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            show_default="not written",
            help="Write the costs of all directories for ncdu -f; its sizes are milliseconds.",
        ),
    ] = None
    force: Force = False


class TraceFile(Target):
    """Where a trace goes, and in which form."""

    file_format: Annotated[
        TraceFormat | None,
        typer.Option("--format", show_default="as the file ends, else csv", help="How it is written."),
    ] = None
    disk: Annotated[str, typer.Option(metavar="PATH", help="Of a fio iolog: the disk to replay on.")] = "/dev/sdX"


class Service(Group):
    """What serves a trace, and what it is held against."""

    panel = WORKLOAD

    drive: Drives = None
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGE", show_default="nothing", help="The image that was read: scores the prediction for it."
        ),
    ] = None
    form: Annotated[
        ReplayFormat | None,
        typer.Option("--format", show_default="as the content tells", help="Format of the trace."),
    ] = None
    start_offset: StartOffset = "0"
    buffer: Annotated[
        Buffer, typer.Option(help="The drive's buffer: its own, off, or (no-join: not) waiting for look-ahead.")
    ] = "own"
    think_us: Annotated[
        float | None,
        typer.Option(metavar="US", min=0, show_default="the trace's", help="Microseconds between reads."),
    ] = None
    queue_depth: Annotated[int, typer.Option(metavar="N", min=1, help="Reads that are outstanding.")] = 1


class FitOptions(Group):
    """What a new profile is made of."""

    panel = "Fitting a new profile"

    datasheet: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", show_default="none", help="A number of a datasheet, such as rpm=7200."),
    ] = None
    fio: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="none", help="Output of fio --output-format=json.")
    ] = None
    random_ms: Annotated[
        float | None,
        typer.Option(metavar="MS", show_default="the base's", help="Median random 4 KiB read, as of ioping."),
    ] = None
    rate_mb_s: Annotated[
        float | None, typer.Option(metavar="MB/S", show_default="the base's", help="Sequential rate, as of dd.")
    ] = None
    base: Annotated[str, typer.Option(metavar="NAME", help="Profile that gives the rest.")] = "generic-7200"


class DriveFiles(Group):
    """Where plots of drives and new profiles go."""

    panel = OUTPUT

    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", show_default="not drawn", help="Plot seek curves and latencies."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.toml", show_default="standard output", help="fit: where the profile goes."
        ),
    ] = None
    force: Force = False


def predict(
    image: Image, *, question: Question, work: WorkOfAnyOrder, reading: Reading, as_json: AsJson = False
) -> None:
    """Predict how long a workload takes on drives, why, and what would change it."""
    from layoutscope.api.predict import predict as run
    from layoutscope.options import Predict

    asked: Predict = {
        "what_ifs": question.what_if or (),
        "top": question.top,
        "start_offset_bytes": byte_count(question.start_offset) or 0,
        **work.asked(),
    }
    result = run(
        image, drives=question.drive, workload=asked, ncdu=question.ncdu, force=question.force, **reading.asked()
    )
    show(result, as_json=as_json)


def trace(
    image: Image,
    *,
    written: TraceFile,
    work: WorkInMemory,
    reading: Reading,
) -> None:
    """Write the reads of a workload in order: table, fio iolog or blkparse text."""
    from layoutscope.api.trace import trace as run
    from layoutscope.api.trace import trace_form, write_trace

    target = sys.stdout.buffer if written.output is None else written.output
    trace_form(target, written.file_format)
    reads = run(image, workload=work.asked(), **reading.asked())
    write_trace(reads, target, file_format=written.file_format, disk=written.disk, force=written.force)


def replay(
    trace: Annotated[
        Path, typer.Argument(metavar="TRACE", help="CSV, fio iolog, blkparse or fs_usage text, or pairs.")
    ],
    *,
    service: Service,
    work: WorkOptions,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Compute what drives make of a real trace, and score a prediction against it."""
    from layoutscope.api.trace import replay as run

    result = run(
        trace,
        drives=service.drive,
        against=service.against,
        workload=work.asked(),
        form=service.form or "",
        start_offset_bytes=byte_count(service.start_offset) or 0,
        buffer=service.buffer,
        think_us=service.think_us,
        queue_depth=service.queue_depth,
        **reading.asked(),
    )
    show(result, as_json=as_json)


def drives(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            show_default="all profiles",
            help="Profiles, model numbers or TOML files; 'fit NAME' makes a new one.",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    measured: FitOptions,
    files: DriveFiles,
) -> None:
    """List drive profiles, show one with its sources, compare several, or fit a new one to measurements."""
    from layoutscope.api.drives import drives as describe

    if names and names[0] == "fit":
        if len(names) != 2:
            raise UsageError("write: layoutscope drives fit NAME, with what it is fitted to")
        _write(_fitted(names[1], measured), files)
        return
    found = describe(names or ())
    if files.plot is not None:
        from layoutscope.api.drives import write_drive_plot

        write_drive_plot(found, files.plot, force=files.force)
    _show_drives(found, as_json=as_json)


def _fitted(name: str, measured: FitOptions) -> str:
    from layoutscope.api.drives import fit

    return fit(
        name,
        base=measured.base,
        datasheet=numbers(measured.datasheet),
        fio=measured.fio,
        random_ms=measured.random_ms,
        rate_mb_s=measured.rate_mb_s,
    )


def numbers(figures: list[str] | None) -> dict[str, float]:
    """Read figures such as ``rpm=7200``.

    Raises
    ------
    UsageError
        If one is not of that form.
    """
    found = {}
    for figure in figures or ():
        name, _, value = figure.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise UsageError(f"{figure!r} is no figure; write NAME=NUMBER, such as rpm=7200") from error
    return found


def _write(text: str, files: DriveFiles) -> None:
    """Write a profile to a file or to standard output."""
    if files.output is None:
        sys.stdout.write(text)
        return
    from layoutscope.api.outputs import output

    with output(files.output, force=files.force) as file:
        file.write(text.encode())


def _show_drives(found: Sequence[DriveFacts], *, as_json: bool) -> None:
    """Print profiles as JSON or as text."""
    if as_json:
        from layoutscope.report.json.predict import drives_json

        sys.stdout.write(drives_json(found) + "\n")
        return
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.predict import print_drives

    print_drives(found, make_console(sys.stdout))
