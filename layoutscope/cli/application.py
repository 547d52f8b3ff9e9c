"""All commands together.

A command is made when it is asked for: to find out what its options are takes as long as all the rest of a start, and
file systems that are installed or have joined add options of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from layoutscope.cli import inspect, predict, scan
from layoutscope.cli.running import Command
from layoutscope.version import __version__

if TYPE_CHECKING:
    from typer.models import OptionInfo

COMMANDS: Final[dict[str, Callable[..., int | None]]] = {
    "scan": scan.scan,
    "map": scan.map_images,
    "predict": predict.predict,
    "trace": predict.trace,
    "replay": predict.replay,
    "compare": scan.compare,
    "series": scan.series,
    "drives": predict.drives,
    "inspect": inspect.inspect,
    "export": inspect.export,
    "extract": inspect.extract,
    "check": inspect.check,
    "checkpoints": inspect.checkpoints,
    "verify": inspect.verify,
}
"""Every command, in the order of the overview."""


class OnDemand(Mapping[str, Any]):
    """Commands by their names, each made when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name)(Command(COMMANDS[name]))
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Overview(TyperGroup):
    """The program: what it is for, and its commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = OnDemand()  # type: ignore[assignment]  # commands are looked up and listed, never added

    def format_help_text(self, context: Any, formatter: Any) -> None:
        """Say what it is for, with the file systems that it knows."""
        from layoutscope.filesystems.registry import labels

        known = " and ".join(labels())
        self.help = f"Inspect the on-disk layout of {known}, and predict what an enumeration costs in seeks."
        super().format_help_text(context, formatter)

    def format_commands(self, context: Any, formatter: Any) -> None:
        """List the commands with their first sentences, without their options."""
        named = [TyperCommand(name, help=command.__doc__) for name, command in COMMANDS.items()]
        TyperGroup(commands=named).format_commands(context, formatter)


app = typer.Typer(
    name="layoutscope",
    cls=Overview,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
        from layoutscope.native import core

        typer.echo(f"core: {core()}")
