"""The content of an image: the commands that show, check, list and copy it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from layoutscope.cli.parameters import CONTAINER, AsJson, Image, ImageItself, Output, complete_options
from layoutscope.cli.running import show, warn
from layoutscope.errors import EXIT_DAMAGED, UsageError
from layoutscope.options import (
    EXPORTED_TABLES,
    OUTPUT,
    ExportOptions,
    ExtractOptions,
    InspectOptions,
    ListOptions,
    Option,
    ReadOptions,
)


def inspect(image: ImageItself, *, as_json: AsJson = False, options: InspectOptions) -> None:
    """Show the fields of the structure at a place, and its owner: tree, node, file, path."""
    from layoutscope.api.inspect import inspect as run

    show(run(image, **complete_options(options)), as_json=as_json)


def checkpoints(
    image: ImageItself, *, as_json: AsJson = False, options: Annotated[ReadOptions, CONTAINER]
) -> int | None:
    """List older states (checkpoints and snapshots), and how much of each still exists."""
    from layoutscope.api.inspect import checkpoints as run
    from layoutscope.report.text.check import print_states
    from layoutscope.report.text.console import make_console

    found = run(image, **complete_options(options))
    if as_json:
        from layoutscope.report.json import list_json

        sys.stdout.write(list_json("layoutscope.checkpoints/1", "states", found) + "\n")
    else:
        print_states(found, make_console(sys.stdout))
    # What older checkpoints have lost was given free; the newest and snapshots are to be whole.
    kept = {state.container: state for state in reversed(found) if state.kind == "checkpoint"}
    whole = all(state.is_whole for state in (*kept.values(), *(each for each in found if each.kind == "snapshot")))
    return None if whole else EXIT_DAMAGED


def export(
    image: Image,
    *,
    output: Output = None,
    table: Annotated[
        str | None,
        Option(
            "Table to export, or all for one file per table; 'layoutscope explain TABLE' lists its columns.",
            panel=OUTPUT,
            absence="none, for a document",
            choices=EXPORTED_TABLES,
        ),
    ] = None,
    options: ExportOptions,
) -> None:
    """Export tables of the layout, or file lists and walks in formats of other programs."""
    from layoutscope.api.export import export as run

    run(image, table, _choose_target(output, options.get("file_format")), **complete_options(options))


def list_files(image: Image, *, output: Output = None, options: ListOptions) -> None:
    """List every file of a volume with its path, straight from the metadata: faster than any listing on a slow disk."""
    from layoutscope.api.listing import list_files as run

    run(image, _choose_target(output, options.get("file_format")), **complete_options(options))


def _choose_target(output: Path | None, file_format: str | None) -> Path | IO[bytes]:
    """Return where a table goes; a terminal takes no binary one."""
    if output is None and file_format == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is binary, and this is a terminal. Write it to a file: -o FILE.parquet.")
    return sys.stdout.buffer if output is None else output


def extract(
    image: ImageItself,
    *,
    output: Annotated[
        Path,
        Option("Output file, compressed if its name ends in .zst, otherwise sparse.", panel=OUTPUT, flag="-o --output"),
    ],
    options: Annotated[ExtractOptions, {"names": None}],
) -> None:
    """Write a raw image with only the metadata, including file names; it scans the same."""
    from layoutscope.api.extract import extract as run

    run(image, output, **complete_options(options))
    warn("it holds the names of files and volumes; a capture can leave them out (scan --save --no-names)")


Later = Annotated[
    Path | None,
    typer.Argument(
        metavar="[LATER]",
        show_default="none",
        help="Show only findings that are new in this later image of the same volumes.",
    ),
]


def check(
    image: Image,
    later: Later = None,
    *,
    file_format: Annotated[
        Literal["text", "json", "csv", "sarif"] | None,
        Option("Output format: text, JSON, a CSV table, or SARIF.", panel=OUTPUT, flag="--format", absence="text"),
    ] = None,
    rules: Annotated[
        list[str] | None,
        Option(
            "Show only findings with this code (repeatable); the verdict covers only these.",
            panel=OUTPUT,
            flag="--rule",
            metavar="CODE",
            absence="all",
        ),
    ] = None,
    explain: Annotated[bool, Option("Also explain each code, and what to do.", panel=OUTPUT)] = False,
    as_json: AsJson = False,
    options: ReadOptions,
) -> int:
    """Check the structures of an image (read-only), and list each fault once, with code and address."""
    from layoutscope.api.check import check as run

    if as_json and file_format not in (None, "json"):
        raise UsageError(f"--json and --format {file_format} contradict each other")
    chosen = "json" if as_json else file_format or "text"
    if explain and chosen != "text":
        raise UsageError(f"--explain needs text output: {chosen} was chosen")
    reading = complete_options(options)
    found = run(image, **reading)
    if later is not None:
        found = run(later, **reading).since(found)
    if rules:
        found = found.of_rules(*rules)
    if chosen in ("text", "json"):
        show(found, as_json=chosen == "json")
    elif chosen == "sarif":
        from layoutscope.report.sarif import sarif_json

        sys.stdout.write(sarif_json(found) + "\n")
    else:
        from layoutscope.report.tables import write_csv

        write_csv(found.rows("faults"), sys.stdout.buffer)
    if explain:
        from layoutscope.report.text.check import print_meanings
        from layoutscope.report.text.console import make_console

        print_meanings(found, make_console(sys.stdout))
    return found.exit_code


def verify(image: ImageItself, *, as_json: AsJson = False, options: ReadOptions) -> int:
    """Parse every node with the grammars, and list differences from bulk decoding."""
    from layoutscope.api.check import verify as run

    found = run(image, **complete_options(options))
    show(found, as_json=as_json)
    return found.exit_code
