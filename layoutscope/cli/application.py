"""All commands together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.models import OptionInfo

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


def ask(context: typer.Context, option: typer.CallbackParam, *, wanted: bool) -> None:
    """Note whether an option before the commands was given; once both are known, show what was asked for and leave.

    Options that are asked early are heard before anything else is loaded, in the order in which they were given.
    """
    asked = context.meta.setdefault("layoutscope.asked", {})
    asked[option.name] = wanted
    if {"version", "verbose"} <= set(asked):
        if asked["version"]:
            show_version(verbose=asked["verbose"])
            raise typer.Exit
        if asked["verbose"]:
            context.fail("Missing command.")


def early(flag: str, text: str) -> OptionInfo:
    """Declare an option that is asked before the commands."""

    def answer(context: typer.Context, option: typer.CallbackParam, value: bool) -> None:
        ask(context, option, wanted=value)

    declared: OptionInfo = typer.Option(flag, callback=answer, is_eager=True, help=text)
    return declared


@app.callback()
def main(
    *,
    version: Annotated[bool, early("--version", "Show the version.")] = False,
    verbose: Annotated[bool, early("--verbose", "With --version: also what runs the loops.")] = False,
) -> None:
    """Take the options that stand before a command."""


def show_version(*, verbose: bool) -> None:
    """Print the version, and which core runs."""
    typer.echo(f"layoutscope {__version__}")
    if verbose:
        from layoutscope.native import describe

        typer.echo(f"core: {describe()}")
