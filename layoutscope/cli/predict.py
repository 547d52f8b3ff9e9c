"""Times on drives: ``layoutscope predict``, ``trace`` and ``replay``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from layoutscope.cli.inspect import Target
from layoutscope.cli.options import (
    OUTPUT,
    WORKLOAD,
    AsJson,
    Buffer,
    Drives,
    Force,
    Host,
    Image,
    Placement,
    Reading,
    ReplayFormat,
    StartOffset,
    TraceFormat,
    WorkInMemory,
    WorkOfAnyOrder,
    WorkOptions,
    byte_count,
    complete_what_if,
)
from layoutscope.cli.running import Group, show

if TYPE_CHECKING:
    from layoutscope.api.replay import OfRecording


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
    placement: Annotated[
        Placement,
        typer.Option(help="unknown: also for a volume like that, of other order, age and place."),
    ] = "known"
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


RECORDED: Final = "Recordings of fs_usage, iosnoop, biosnoop"


class RecordingOptions(Group):
    """What is said of a recording that tells reads by a device and its blocks."""

    trace_unit: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            rich_help_panel=RECORDED,
            show_default="found by trial",
            help="What a block number counts: 512 or 4096.",
        ),
    ] = None
    trace_at: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            rich_help_panel=RECORDED,
            show_default="found by trial",
            help="Where block 0 lies on the image; with a minus, how far before it.",
        ),
    ] = None
    trace_device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=RECORDED,
            show_default="those on the image",
            help="Only reads of this device, as disk3s5.",
        ),
    ] = None
    trace_process: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=RECORDED,
            show_default="the one that reads most nodes",
            help="Only reads of this program, as find.",
        ),
    ] = None

    def told(self) -> OfRecording:
        """Return what was said, in the library's words."""
        is_before = self.trace_at is not None and self.trace_at.startswith("-")
        at = byte_count(self.trace_at.removeprefix("-") if self.trace_at else None)
        return {
            "trace_unit": byte_count(self.trace_unit),
            "trace_at": -at if at is not None and is_before else at,
            "trace_devices": self.trace_device,
            "trace_processes": self.trace_process,
        }


class Service(RecordingOptions):
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


class WorkOfTrace(WorkOptions):
    """What a recorded program did; on which host, its recorder may tell."""

    host: Annotated[
        Host | None,
        typer.Option(
            show_default="macos where a tool of macOS recorded, else linux",
            help="Operating system whose drivers and libraries do it.",
        ),
    ] = None  # type: ignore[assignment]  # the others always have one


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
        "placement": question.placement,
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
    from layoutscope.api.outputs import check_output
    from layoutscope.api.trace import trace as run
    from layoutscope.api.trace import trace_form, write_trace

    target = sys.stdout.buffer if written.output is None else written.output
    trace_form(target, written.file_format)
    if written.output is not None:
        check_output(written.output, force=written.force, reads=[image])
    reads = run(image, workload=work.asked(), **reading.asked())
    write_trace(reads, target, file_format=written.file_format, disk=written.disk, force=written.force)


def replay(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="CSV, fio iolog, blkparse, fs_usage, iosnoop or biosnoop text; or u64 pairs."
        ),
    ],
    *,
    service: Service,
    work: WorkOfTrace,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Compute what drives make of a real trace, and score a prediction against it."""
    from layoutscope.api.replay import replay as run

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
        **service.told(),
        **reading.asked(),
    )
    show(result, as_json=as_json)


def validate(
    kit: Annotated[
        Path, typer.Argument(metavar="KIT", help="What the kit's script made on a Mac: the archive, or its folder.")
    ],
    *,
    drive: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=WORKLOAD,
            show_default="as the kit measured it, else by its model",
            help="Drive by profile, model number or FILE.toml.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGE", rich_help_panel=WORKLOAD, show_default="the kit's", help="Image or capture of the volume."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold predictions against what the kit's script measured on a Mac."""
    from layoutscope.api.validate import validate as run

    show(run(kit, drive=drive, against=against), as_json=as_json)
