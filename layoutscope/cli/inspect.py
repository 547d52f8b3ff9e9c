"""What stands on an image: ``layoutscope inspect``, ``check``, ``verify``, ``checkpoints``, ``export``, ``extract``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layoutscope.cli.options import (
    OUTPUT,
    AsJson,
    CheckFormat,
    Drives,
    ExportFormat,
    Force,
    Image,
    ImageItself,
    Reading,
    ReadingContainer,
    ReadingWhole,
    Table,
    WorkInMemory,
    byte_count,
)
from layoutscope.cli.running import STANDARD_OUTPUT, Group, show, warn
from layoutscope.errors import EXIT_DAMAGED, UsageError

if TYPE_CHECKING:
    from layoutscope.results.check import CheckResult


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
        typer.Option("-o", "--output", metavar="FILE", show_default=STANDARD_OUTPUT, help="Where it is written to."),
    ] = None
    force: Force = False


def inspect(image: ImageItself, *, place: PlaceOptions, reading: Reading, as_json: AsJson = False) -> None:
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


def checkpoints(image: ImageItself, *, reading: ReadingContainer, as_json: AsJson = False) -> int | None:
    """List older states, checkpoints and snapshots, and how much of each still exists."""
    from layoutscope.api.inspect import checkpoints as run
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.inspect import print_states

    found = run(image, **reading.asked())
    if as_json:
        from layoutscope.report.json import list_json

        sys.stdout.write(list_json("layoutscope.checkpoints/1", "states", found) + "\n")
    else:
        print_states(found, make_console(sys.stdout))
    # What older checkpoints have lost was given free; the newest and snapshots are to be whole.
    kept = {state.container: state for state in reversed(found) if state.kind == "checkpoint"}
    whole = all(state.is_whole for state in (*kept.values(), *(each for each in found if each.kind == "snapshot")))
    return None if whole else EXIT_DAMAGED


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
    image: ImageItself,
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
    from layoutscope.api.extract import extract as run

    run(image, output, second_target=second_output, force=force, **reading.asked())
    warn("it holds the names of files and volumes; a capture can leave them out (scan --save --no-names)")


class CheckOptions(Group):
    """What is shown of a check, and how."""

    panel = OUTPUT

    file_format: Annotated[
        CheckFormat | None,
        typer.Option("--format", show_default="text", help="Text, JSON, a table as CSV, or SARIF for other programs."),
    ] = None
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="CODE",
            show_default="all",
            help="Only findings of this code, more than once for several; the verdict is about these alone.",
        ),
    ] = None
    explain: Annotated[
        bool, typer.Option("--explain", help="Say below the text what each code means, and what to do.")
    ] = False

    def as_chosen(self, *, as_json: bool) -> CheckFormat:
        """Return the format, which two options say."""
        if as_json and self.file_format not in (None, "json"):
            raise UsageError(f"--json and --format {self.file_format} contradict each other")
        chosen = "json" if as_json else self.file_format or "text"
        if self.explain and chosen != "text":
            raise UsageError(f"--explain is for text; {chosen} has what a code means, or no place for it")
        return chosen


Later = Annotated[
    Path | None,
    typer.Argument(
        metavar="[LATER]",
        show_default="none",
        help="A later image of the same volumes: only what came between the two is shown.",
    ),
]


def check(
    image: Image, later: Later = None, *, options: CheckOptions, reading: Reading, as_json: AsJson = False
) -> int:
    """Check the structures of an image, read-only: each fault once, with its code and address."""
    from layoutscope.api.check import check as run

    chosen = options.as_chosen(as_json=as_json)
    found = run(image, **reading.asked())
    if later is not None:
        found = run(later, **reading.asked()).since(found)
    if options.rules:
        found = found.of_rules(*options.rules)
    if chosen in ("text", "json"):
        show(found, as_json=chosen == "json")
    else:
        _show_table(found, chosen)
    if options.explain:
        from layoutscope.report.text.check import print_meanings
        from layoutscope.report.text.console import make_console

        print_meanings(found, make_console(sys.stdout))
    return found.exit_code


def _show_table(found: CheckResult, chosen: CheckFormat) -> None:
    """Write the findings in a format of other programs."""
    if chosen == "sarif":
        from layoutscope.report.sarif import sarif_json

        sys.stdout.write(sarif_json(found) + "\n")
        return
    from layoutscope.report.tables import write_csv

    write_csv(found.rows("faults"), sys.stdout.buffer)


def verify(image: ImageItself, *, reading: Reading, as_json: AsJson = False) -> int:
    """Read an image with both decoders, in bulk and through the grammars, and list what differs."""
    from layoutscope.api.check import verify as run

    found = run(image, **reading.asked())
    show(found, as_json=as_json)
    return found.exit_code
