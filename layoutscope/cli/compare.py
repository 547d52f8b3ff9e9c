"""``layoutscope compare``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Drives, Force, Host, Reading

Images = Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Two or more images or captures.")]

Nodes = Annotated[
    Path | None,
    typer.Option(
        "--nodes", metavar="FILE", help="List the nodes that moved, appeared or went: .csv, .parquet, .jsonl."
    ),
]


def compare(
    images: Images,
    *,
    options: Reading,
    drive: Drives = None,
    host: Host = "linux",
    nodes: Nodes = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Compare file systems, ages or disks: metrics and predictions side by side, and what explains the difference."""
    from layoutscope.api.compare import compare as run
    from layoutscope.api.compare import write_changed_nodes
    from layoutscope.report.json.compare import comparison_json
    from layoutscope.report.text.compare import print_comparison
    from layoutscope.report.text.console import make_console

    found = run(images, drives=drive, host=host, **options)
    if nodes is not None:
        write_changed_nodes(found, nodes, force=force)
    if as_json:
        sys.stdout.write(comparison_json(found) + "\n")
    else:
        print_comparison(found, make_console(sys.stdout))
