"""``layoutscope trace``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from layoutscope.api.options import ReadOptions
from layoutscope.cli import workloads
from layoutscope.cli.export import Output
from layoutscope.cli.options import Force, Host, Image, reads_image


@reads_image
def trace(
    image: Image,
    *,
    options: ReadOptions,
    order: workloads.Order = "fts",
    host: Host = "linux",
    start: workloads.Start = None,
    no_stat: workloads.NoStat = False,
    paths: workloads.Paths = None,
    file: workloads.File = None,
    cache: workloads.Cache = None,
    threads: workloads.Threads = 1,
    warm: workloads.Warm = False,
    passes: workloads.Passes = 1,
    file_format: Annotated[
        str, typer.Option("--format", metavar="csv|fio|blkparse", help="How it is written.")
    ] = "csv",
    disk: Annotated[str, typer.Option(metavar="PATH", help="Of a fio iolog: the disk to replay on.")] = "/dev/sdX",
    output: Output = None,
    force: Force = False,
) -> None:
    """Write the reads of a workload in order: table, fio iolog or blkparse text."""
    from layoutscope.api.tracing import trace as run
    from layoutscope.api.tracing import write_trace

    work = workloads.workload(
        {
            "order": order,
            "host": host,
            "start": start,
            "no_stat": no_stat,
            "paths": paths,
            "file": file,
            "cache": cache,
            "threads": threads,
            "warm": warm,
            "passes": passes,
        }
    )
    target = sys.stdout.buffer if output is None else output
    write_trace(run(image, workload=work, **options), target, file_format=file_format, disk=disk, force=force)
