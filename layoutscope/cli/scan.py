"""``layoutscope scan``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.options import AsJson, Drives, Force, Host, Image, Reading

if TYPE_CHECKING:
    from layoutscope.results.scan import ScanResult


def scan(
    image: Image,
    *,
    options: Reading,
    as_json: AsJson = False,
    map_to: Annotated[Path | None, typer.Option("--map", metavar="FILE.html", help="Write an interactive map.")] = None,
    drive: Drives = None,
    host: Host = "linux",
    explain: Annotated[bool, typer.Option("--explain", help="Show every metric with its definition.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat damage as an error.")] = False,
    save_to: Annotated[
        Path | None, typer.Option("--save", metavar="NAME.lscope", help="Save a capture, which every verb takes.")
    ] = None,
    hash_names: Annotated[bool, typer.Option("--hash-names", help="Save hashes in place of names.")] = False,
    force: Force = False,
) -> int:
    """Scan an image: where metadata lies, how scattered it is, and what an enumeration costs."""
    from layoutscope.api.outputs import check_output
    from layoutscope.api.scan import scan as run

    if map_to is not None:
        check_output(map_to, force=force, reads=(image,))
    if save_to is not None:
        from layoutscope.api.save import check_capture, save

        check_capture(save_to, force=force, reads=(image,))
    result = run(image, drives=drive, host=host, strict=strict, identify=save_to is not None, **options)
    if save_to is not None:
        save(result, save_to, hash_names=hash_names, force=force)
    if map_to is not None:
        from layoutscope.api.map import write_map

        write_map(result, map_to, names=options["names"], force=force)
    _show(result, as_json=as_json, explain=explain)
    return result.exit_code


def _show(result: ScanResult, *, as_json: bool, explain: bool) -> None:
    """Print a result as JSON or as text."""
    if as_json:
        from layoutscope.report.json.scan import scan_json

        sys.stdout.write(scan_json(result) + "\n")
        return
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.scan import print_scan

    print_scan(result, make_console(sys.stdout), explain=explain)
