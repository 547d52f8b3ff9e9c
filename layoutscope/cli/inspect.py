"""``layoutscope inspect``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson, Image, Reading, byte_count


def inspect(
    image: Image,
    *,
    options: Reading,
    node: Annotated[
        str | None, typer.Option(metavar="TREE:NUMBER", help="A node, such as catalog:3 or fs:1028.")
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="BYTES", help="Whatever lies at this byte of the image.")] = None,
    lba: Annotated[int | None, typer.Option(metavar="N", help="Whatever lies in this sector.")] = None,
    cnid: Annotated[int | None, typer.Option(metavar="N", help="The file of this CNID or inode number.")] = None,
    path: Annotated[str | None, typer.Option(metavar="P", help="The file at this path.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the structure at a place field by field, and who owns that place: tree, node, file, path."""
    from layoutscope.api.inspect import inspect as run
    from layoutscope.report.json.inspect import inspect_json
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.inspect import print_inspection

    found = run(image, node=node, at=byte_count(at), lba=lba, cnid=cnid, file_path=path, **options)
    if as_json:
        sys.stdout.write(inspect_json(found) + "\n")
    else:
        print_inspection(found, make_console(sys.stdout))
