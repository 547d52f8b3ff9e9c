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


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="With --version: also what runs the loops.")] = False,
) -> None:
    """Take the options that stand before a command."""
    if version:
        show_version(verbose=verbose)
        raise typer.Exit
    if verbose or context.invoked_subcommand is None:
        context.fail("Missing command.")


def show_version(*, verbose: bool) -> None:
    """Print the version, and which core runs."""
    typer.echo(f"layoutscope {__version__}")
    if verbose:
        from layoutscope.native import describe

        typer.echo(f"core: {describe()}")
