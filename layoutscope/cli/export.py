"""``layoutscope export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import (
    CacheDir,
    Force,
    Image,
    MapFile,
    NoJournal,
    NoNames,
    Partition,
    Volume,
    VolumeAt,
    reading,
)


def export(
    image: Image,
    *,
    table: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="nodes, regions, extents, entries, free, findings, node_fragments or node_views."
        ),
    ],
    file_format: Annotated[
        str, typer.Option("--format", metavar="csv|parquet|jsonl", help="How it is written.")
    ] = "csv",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to; standard output by default.")
    ] = None,
    no_names: NoNames = False,
    no_journal: NoJournal = False,
    partition: Partition = None,
    volume: Volume = None,
    volume_at: VolumeAt = None,
    map_file: MapFile = None,
    cache_dir: CacheDir = None,
    force: Force = False,
) -> None:
    """Export a table of the layout as CSV, Parquet or JSON lines."""
    from layoutscope.api.exporting import export as run

    target = output if output is not None else sys.stdout.buffer
    with reading(
        no_names=no_names,
        no_journal=no_journal,
        partition=partition,
        volume=volume,
        volume_at=volume_at,
        map_file=map_file,
        cache_dir=cache_dir,
    ) as options:
        run(image, table, target, file_format=file_format, force=force, **options)
