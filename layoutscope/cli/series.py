"""``layoutscope series``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Drives, Force, Host, Reading

Images = Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Images or captures of one volume.")]
By = Annotated[str, typer.Option(metavar="order|xid|time", help="What they are ordered by.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.html", help="Draw the curves.")]


def series(
    images: Images,
    *,
    options: Reading,
    by: By = "order",
    drive: Drives = None,
    host: Host = "linux",
    plot: Plot = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Follow a volume over several images or captures: the aging curve of every metric and predicted time."""
    from layoutscope.api.series import series as run
    from layoutscope.api.series import write_series_plot
    from layoutscope.report.json.compare import series_json
    from layoutscope.report.text.compare import print_series
    from layoutscope.report.text.console import make_console

    found = run(images, by=by, drives=drive, host=host, **options)
    if plot is not None:
        write_series_plot(found, plot, force=force)
    if as_json:
        sys.stdout.write(series_json(found) + "\n")
    else:
        print_series(found, make_console(sys.stdout))
