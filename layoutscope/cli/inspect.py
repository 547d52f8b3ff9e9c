"""``layoutscope inspect``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from layoutscope.cli.options import (
    CacheDir,
    Image,
    MapFile,
    NoJournal,
    NoNames,
    Partition,
    Volume,
    VolumeAt,
    byte_count,
    reading,
)


def inspect(
    image: Image,
    *,
    node: Annotated[
        str | None, typer.Option(metavar="TREE:NUMBER", help="A node, such as catalog:3 or fs:1028.")
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="BYTES", help="Whatever lies at this byte of the image.")] = None,
    lba: Annotated[int | None, typer.Option(metavar="N", help="Whatever lies in this sector.")] = None,
    cnid: Annotated[int | None, typer.Option(metavar="N", help="The file of this CNID or inode number.")] = None,
    path: Annotated[str | None, typer.Option(metavar="P", help="The file at this path.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema layoutscope.inspect/1).")] = False,
    no_names: NoNames = False,
    no_journal: NoJournal = False,
    partition: Partition = None,
    volume: Volume = None,
    volume_at: VolumeAt = None,
    map_file: MapFile = None,
    cache_dir: CacheDir = None,
) -> None:
    """Show the structure at a place field by field, and who owns that place: tree, node, file, path."""
    from layoutscope.api.inspecting import inspect as run
    from layoutscope.report.inspect import inspect_json, print_inspection
    from layoutscope.report.text import make_console

    with reading(
        no_names=no_names,
        no_journal=no_journal,
        partition=partition,
        volume=volume,
        volume_at=volume_at,
        map_file=map_file,
        cache_dir=cache_dir,
    ) as options:
        found = run(image, node=node, at=byte_count(at), lba=lba, cnid=cnid, file_path=path, **options)
    if as_json:
        sys.stdout.write(inspect_json(found) + "\n")
    else:
        print_inspection(found, make_console(sys.stdout))
