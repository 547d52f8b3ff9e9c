"""``layoutscope extract``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import Force, Image, Reading

Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Where to; compressed if it ends in .zst, else sparse.")
]


def extract(image: Image, *, options: Reading, output: Output, force: Force = False) -> None:
    """Write a raw image with the metadata alone, which scans the same; names of files are metadata and are in it."""
    from layoutscope.api.extract import extract as run
    from layoutscope.report.escape import escape_text
    from layoutscope.units import format_bytes

    found = run(image, output, force=force, **options)
    held = f"{format_bytes(found.metadata_bytes)} of {format_bytes(found.size_bytes)}"
    sys.stdout.write(f"{escape_text(str(output))}: {held} as {format_bytes(found.written_bytes)}\n")
    sys.stdout.write(
        "It holds the names of files and volumes; a capture can leave them out (scan --save --no-names).\n"
    )
