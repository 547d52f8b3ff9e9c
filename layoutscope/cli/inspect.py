"""What stands on an image: ``layoutscope inspect``, ``check``, ``verify``, ``checkpoints``, ``export``, ``extract``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from layoutscope.cli.choices import ExportFormat, Table
from layoutscope.cli.options import (
    OUTPUT,
    AsJson,
    Drives,
    Force,
    Image,
    Reading,
    ReadingContainer,
    ReadingWhole,
    WorkInMemory,
    byte_count,
)
from layoutscope.cli.running import Group, show, warn
from layoutscope.errors import UsageError


class PlaceOptions(Group):
    """What is looked at: one of these."""

    panel = "Place"

    node: Annotated[
        str | None,
        typer.Option(metavar="TREE:NUMBER", show_default="none", help="A node, such as catalog:3 or fs:1028."),
    ] = None
    at: Annotated[
        str | None, typer.Option(metavar="BYTES", show_default="none", help="Whatever lies at this byte of the image.")
    ] = None
    lba: Annotated[int | None, typer.Option(metavar="N", show_default="none", help="Whatever lies in this sector.")] = (
        None
    )
    cnid: Annotated[
        int | None, typer.Option(metavar="N", show_default="none", help="The file of this CNID or inode number.")
    ] = None
    path: Annotated[str | None, typer.Option(metavar="PATH", show_default="none", help="The file at this path.")] = None


class Target(Group):
    """Where a table or a trace goes."""

    panel = OUTPUT

    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", show_default="standard output", help="Where it is written to."),
    ] = None
    force: Force = False


def inspect(image: Image, *, place: PlaceOptions, reading: Reading, as_json: AsJson = False) -> None:
    """Show the structure at a place field by field, and who owns that place: tree, node, file, path."""
    from layoutscope.api.inspect import inspect as run

    found = run(
        image,
        node=place.node,
        at=byte_count(place.at),
        lba=place.lba,
        cnid=place.cnid,
        file_path=place.path,
        **reading.asked(),
    )
    show(found, as_json=as_json)


def checkpoints(image: Image, *, reading: ReadingContainer, as_json: AsJson = False) -> None:
    """List the older states that can be read, checkpoints and snapshots, and how much of them still exists."""
    from layoutscope.api.inspect import checkpoints as run
    from layoutscope.report.json.inspect import states_json
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.inspect import print_states

    found = run(image, **reading.asked())
    if as_json:
        sys.stdout.write(states_json(found) + "\n")
    else:
        print_states(found, make_console(sys.stdout))


class Exported(Target):
    """What is exported, where to, and in which form."""

    table: Annotated[
        Table | None,
        typer.Option(
            show_default="none, for a document",
            help="Which table, or all as a file each; 'layoutscope explain TABLE' lists its columns.",
        ),
    ] = None
    file_format: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            show_default="as the file ends, else csv",
            help="A table as csv, parquet, jsonl; files as bodyfile, dfxml; a walk as speedscope, perfetto, folded.",
        ),
    ] = None


def export(image: Image, *, wanted: Exported, drive: Drives = None, work: WorkInMemory, reading: Reading) -> None:
    """Export tables of the layout, or lists of files and walks as other programs read them."""
    from layoutscope.api.export import export as run

    if wanted.output is None and wanted.file_format == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is binary, and this is a terminal; write it to a file: -o FILE.parquet")
    output = wanted.output if wanted.output is not None else sys.stdout.buffer
    options: Any = {"drives": drive, **work.asked(), **reading.asked()}
    run(image, wanted.table, output, file_format=wanted.file_format, force=wanted.force, **options)


def extract(
    image: Image,
    *,
    reading: ReadingWhole,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Where it is written to; compressed if it ends in .zst, else sparse.",
        ),
    ],
    second_output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            show_default="there is one image",
            help="Of a Fusion set: where the other image is written to, that of --second.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write a raw image with the metadata alone, which scans the same; names of files are metadata and are in it."""
    from layoutscope.api.export import extract as run

    run(image, output, second_target=second_output, force=force, **reading.asked())
    warn("it holds the names of files and volumes; a capture can leave them out (scan --save --no-names)")


def check(image: Image, *, reading: Reading, as_json: AsJson = False) -> int:
    """Check the structures of an image, read-only: every contradiction with its code and address."""
    from layoutscope.api.check import check as run

    found = run(image, **reading.asked())
    show(found, as_json=as_json)
    return found.exit_code


def verify(image: Image, *, reading: Reading, as_json: AsJson = False) -> int:
    """Read an image with both decoders, in bulk and through the grammars, and list what differs."""
    from layoutscope.api.check import verify as run

    found = run(image, **reading.asked())
    show(found, as_json=as_json)
    return found.exit_code
