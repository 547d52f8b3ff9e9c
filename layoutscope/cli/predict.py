"""``layoutscope predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.api.options import ReadOptions
from layoutscope.cli import workloads
from layoutscope.cli.options import AsJson, Drives, Force, Host, Image, byte_count, reads_image

WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if", metavar="NAME", help="packed, clumped-like-hfs, outer-zone, no-snapshots, double-cache, ssd."
    ),
]


@reads_image
def predict(
    image: Image,
    *,
    options: ReadOptions,
    drive: Drives = None,
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
    what_if: WhatIf = None,
    starts_at: Annotated[str, typer.Option(metavar="BYTES", help="Where the image lies on the drive.")] = "0",
    top: Annotated[int, typer.Option(metavar="N", min=0, help="How many directories are listed.")] = 10,
    ncdu: Annotated[Path | None, typer.Option(metavar="FILE", help="Write costs for ncdu -f (sizes are ms).")] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Predict how long a workload takes on drives, why, and what would change it."""
    from layoutscope.api.predicting import Predict
    from layoutscope.api.predicting import predict as run
    from layoutscope.report.predict import predict_json, print_prediction
    from layoutscope.report.text import make_console

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
    asked: Predict = {"what_ifs": what_if or (), "top": top, "start_offset_bytes": byte_count(starts_at) or 0}
    result = run(image, drives=drive, workload={**asked, **work}, ncdu=ncdu, force=force, **options)
    if as_json:
        sys.stdout.write(predict_json(result) + "\n")
    else:
        print_prediction(result, make_console(sys.stdout))
