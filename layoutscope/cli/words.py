"""What belongs to the program itself: ``layoutscope explain`` and ``cache``."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Literal

import typer

from layoutscope.cli.options import AsJson
from layoutscope.options import COMPRESSED, Option


def explain(
    word: Annotated[
        str,
        typer.Argument(
            metavar="[WORD]",
            show_default="all of them are listed",
            help="A word, a metric, the code of a finding, an order, a remedy, a drive, a table or a what-if.",
        ),
    ] = "",
) -> None:
    """Say what a word means, how a metric is defined, or what a finding says and what to do about it."""
    from layoutscope.api.explain import explain as run

    text = run(word)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in text.split("\n"))
    sys.stdout.write(f"{text}\n")


def cache(
    what: Annotated[
        Literal["show", "clear"], typer.Argument(metavar="[show|clear]", help="List what is kept, or remove it.")
    ] = "show",
    *,
    cache_dir: Annotated[
        Path | None,
        Option(
            "The folder that is meant.", panel=COMPRESSED, metavar="DIR", absence="LAYOUTSCOPE_CACHE, else the user's"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or clear the cache of decompressed images: where it is, its limit, and what is in it."""
    from layoutscope.image import cache as kept
    from layoutscope.report.text.cache import cache_text

    place = cache_dir or kept.default_folder()
    images = [] if place is None else kept.list_cached_images(place)
    freed = kept.remove(images) if what == "clear" else None
    sys.stdout.write(cache_text(place, kept.limit_bytes(), images, freed=freed, as_json=as_json) + "\n")
