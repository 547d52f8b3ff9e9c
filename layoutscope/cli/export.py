"""``layoutscope export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import Force, Image, Reading

Table = Annotated[str, typer.Option(metavar="NAME", help="Such as nodes, regions, extents, entries, free or findings.")]
Format = Annotated[str, typer.Option("--format", metavar="csv|parquet|jsonl", help="How it is written.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; standard output by default.")
]


def export(
    image: Image,
    *,
    options: Reading,
    table: Table,
    file_format: Format = "csv",
    output: Output = None,
    force: Force = False,
) -> None:
    """Export a table of the layout as CSV, Parquet or JSON lines."""
    from layoutscope.api.export import export as run

    target = output if output is not None else sys.stdout.buffer
    run(image, table, target, file_format=file_format, force=force, **options)
