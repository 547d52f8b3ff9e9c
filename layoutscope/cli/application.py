"""All commands together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from layoutscope.cli import (
    check,
    checkpoints,
    compare,
    drives,
    export,
    extract,
    inspect,
    predict,
    replay,
    scan,
    series,
    trace,
    verify,
)
from layoutscope.cli.map import map_images
from layoutscope.cli.running import Command
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    name="layoutscope",
    help="Inspect the on-disk layout of HFS+ and APFS, and predict what an enumeration costs in seeks.",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: Final[dict[str, Callable[..., int | None]]] = {
    "scan": scan.scan,
    "map": map_images,
    "predict": predict.predict,
    "trace": trace.trace,
    "replay": replay.replay,
    "compare": compare.compare,
    "series": series.series,
    "drives": drives.drives,
    "inspect": inspect.inspect,
    "export": export.export,
    "extract": extract.extract,
    "check": check.check,
    "checkpoints": checkpoints.checkpoints,
    "verify": verify.verify,
}
"""Every command, in the order of the overview."""


for name, command in COMMANDS.items():
    app.command(name)(Command(command))


def show_version(*, wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        typer.echo(f"layoutscope {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: show_version(wanted=value), is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""
