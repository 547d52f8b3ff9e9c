"""``layoutscope scan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from layoutscope.report.result import ScanResult


def scan(
    image: Image,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema layoutscope.scan/1).")] = False,
    map_to: Annotated[Path | None, typer.Option("--map", metavar="FILE.html", help="Write an interactive map.")] = None,
    drive: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Predict for this drive profile or FILE.toml; repeatable.")
    ] = None,
    host: Annotated[str, typer.Option(metavar="linux|macos", help="Whose driver enumerates.")] = "linux",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every metric with its definition and source.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat damage as an error.")] = False,
    no_names: NoNames = False,
    no_journal: NoJournal = False,
    partition: Partition = None,
    volume: Volume = None,
    volume_at: VolumeAt = None,
    map_file: MapFile = None,
    cache_dir: CacheDir = None,
    force: Force = False,
) -> int:
    """Scan an image: where metadata lies, how scattered it is, and what an enumeration costs."""
    from layoutscope.api.outputs import check_output
    from layoutscope.api.scanning import scan as run

    if map_to is not None:
        check_output(map_to, force=force)
    with reading(
        no_names=no_names,
        no_journal=no_journal,
        partition=partition,
        volume=volume,
        volume_at=volume_at,
        map_file=map_file,
        cache_dir=cache_dir,
    ) as options:
        result = run(image, drives=drive, host=host, strict=strict, **options)
    if map_to is not None:
        from layoutscope.api.mapping import write_map

        write_map(result, map_to, names=not no_names, force=force)
    show(result, as_json=as_json, explain=explain)
    return result.exit_code


def show(result: ScanResult, *, as_json: bool, explain: bool) -> None:
    """Print a result as JSON or as text."""
    if as_json:
        from layoutscope.report.json_scan import scan_json

        sys.stdout.write(scan_json(result) + "\n")
        return
    from layoutscope.report.text import make_console, print_scan

    print_scan(result, make_console(sys.stdout), explain=explain)
