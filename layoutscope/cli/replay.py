"""``layoutscope replay``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Drives, Reading, byte_count
from layoutscope.cli.workloads import WorkingWithAnyMemory

Trace = Annotated[Path, typer.Argument(metavar="TRACE", help="CSV, fio iolog, blkparse or fs_usage text, or pairs.")]
Against = Annotated[Path | None, typer.Option(metavar="IMAGE", help="The image that was read: scores the prediction.")]
Cache = Annotated[
    str, typer.Option(metavar="NAME", help="The drive's buffer: own, off, join or no-join (waiting for look-ahead).")
]
Think = Annotated[float | None, typer.Option(min=0, help="Host time between reads, in place of the trace's.")]
Form = Annotated[str, typer.Option("--format", metavar="NAME", help="csv, fio, blkparse, fs_usage or pairs.")]


def replay(
    trace: Trace,
    *,
    work: WorkingWithAnyMemory,
    options: Reading,
    drive: Drives = None,
    against: Against = None,
    form: Form = "",
    starts_at: Annotated[str, typer.Option(metavar="BYTES", help="Where the traced disk lies on the drive.")] = "0",
    cache: Cache = "own",
    think_us: Think = None,
    queue_depth: Annotated[int, typer.Option(min=1, help="Reads that are outstanding.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Compute what drives make of a real trace, and score a prediction against it."""
    from layoutscope.api.replay import replay as run
    from layoutscope.report.json.predict import replay_json
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.predict import print_replay

    result = run(
        trace,
        drives=drive,
        against=against,
        workload=work,
        form=form,
        start_offset_bytes=byte_count(starts_at) or 0,
        cache=cache,
        think_us=think_us,
        queue_depth=queue_depth,
        **options,
    )
    if as_json:
        sys.stdout.write(replay_json(result) + "\n")
    else:
        print_replay(result, make_console(sys.stdout))
