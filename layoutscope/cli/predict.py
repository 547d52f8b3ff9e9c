"""``layoutscope predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Drives, Force, Image, Reading, byte_count
from layoutscope.cli.workloads import Working

WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if", metavar="NAME", help="packed, clumped-like-hfs, outer-zone, no-snapshots, double-cache, ssd."
    ),
]


def predict(
    image: Image,
    *,
    work: Working,
    options: Reading,
    drive: Drives = None,
    what_if: WhatIf = None,
    starts_at: Annotated[str, typer.Option(metavar="BYTES", help="Where the image lies on the drive.")] = "0",
    top: Annotated[int, typer.Option(metavar="N", min=0, help="How many directories are listed.")] = 10,
    ncdu: Annotated[Path | None, typer.Option(metavar="FILE", help="Write costs for ncdu -f (sizes are ms).")] = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Predict how long a workload takes on drives, why, and what would change it."""
    from layoutscope.api.predict import Predict
    from layoutscope.api.predict import predict as run
    from layoutscope.report.json.predict import predict_json
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.predict import print_prediction

    asked: Predict = {"what_ifs": what_if or (), "top": top, "start_offset_bytes": byte_count(starts_at) or 0}
    result = run(image, drives=drive, workload={**asked, **work}, ncdu=ncdu, force=force, **options)
    if as_json:
        sys.stdout.write(predict_json(result) + "\n")
    else:
        print_prediction(result, make_console(sys.stdout))
