"""``layoutscope trace``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from layoutscope.cli.export import Output
from layoutscope.cli.options import Force, Image, Reading
from layoutscope.cli.workloads import Working


def trace(
    image: Image,
    *,
    work: Working,
    options: Reading,
    file_format: Annotated[
        str, typer.Option("--format", metavar="csv|fio|blkparse", help="How it is written.")
    ] = "csv",
    disk: Annotated[str, typer.Option(metavar="PATH", help="Of a fio iolog: the disk to replay on.")] = "/dev/sdX",
    output: Output = None,
    force: Force = False,
) -> None:
    """Write the reads of a workload in order: table, fio iolog or blkparse text."""
    from layoutscope.api.trace import trace as run
    from layoutscope.api.trace import write_trace

    target = sys.stdout.buffer if output is None else output
    write_trace(run(image, workload=work, **options), target, file_format=file_format, disk=disk, force=force)
