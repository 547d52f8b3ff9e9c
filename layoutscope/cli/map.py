"""``layoutscope map``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import Drives, Force, Host, Reading

Images = Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="One or more images, shown on one scale.")]
Page = Annotated[Path, typer.Option("-o", "--output", metavar="FILE.html", help="Where to.")]


def map_images(
    images: Images,
    *,
    options: Reading,
    output: Page,
    drive: Drives = None,
    host: Host = "linux",
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an overview too, as PNG or SVG.")] = None,
    force: Force = False,
) -> int:
    """Write an interactive map of images, side by side on one scale: one page that needs no network."""
    from layoutscope.api.map import map_images as run

    results = run(images, output, drives=drive, host=host, picture=png, force=force, **options)
    return max(result.exit_code for result in results)
