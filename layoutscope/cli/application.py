"""All commands together."""

from __future__ import annotations

import inspect as signatures
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import ParameterInfo

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
from layoutscope.cli.running import guarded
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

COMMANDS = {
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


def leave_checks_to_the_reader(command: Callable[..., int | None]) -> None:
    """Keep typer from asking whether files may be read: whoever opens one says why it cannot, with one exit code."""
    for parameter in signatures.signature(command, eval_str=True).parameters.values():
        for declared in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(declared, ParameterInfo):
                declared.readable = False


for name, command in COMMANDS.items():
    leave_checks_to_the_reader(command)
    app.command(name)(guarded(command))


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
