"""All commands together.

A command is built on demand. Its options take as long as the rest of a start, and installed file systems add options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from layoutscope.cli import commands
from layoutscope.cli.help import EXAMPLES, EXIT_CODES, FORMS, OVERVIEW, Verb, command_of_form
from layoutscope.cli.parameters import Command
from layoutscope.version import __version__

GROUPS: Final = {
    "Start here": ("scan", "list", "plan", "map", "compare", "check"),
    "For developers": ("predict", "trace", "drives", "forecast"),
    "Data": ("export", "query", "batch", "inspect"),
    "Help": ("explain",),
}
"""The commands of the overview under the question that they answer."""

PARTS: Final = (*FORMS, "verify", "cache")
"""Commands that the overview leaves out: parts of others, and those of developers."""

FUNCTIONS: Final = {"list": "list_files", "map": "map_images"}
"""Commands whose functions have another name, since their own would hide a built-in function."""

COMMANDS: Final[dict[str, Callable[..., int | None]]] = {
    name: vars(commands)[FUNCTIONS.get(name, name)] for name in chain(*GROUPS.values(), PARTS)
}
"""Every command; all but `cache` are the library's."""


class OnDemand(Mapping[str, Any]):
    """Commands by their names, each made when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        examples = "\n".join(line for example in EXAMPLES[name] for line in example)
        alone.command(name, cls=Verb, epilog=examples)(Command(COMMANDS[name]))
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

    def get_params(self, ctx: Any) -> list[Any]:
        """Leave out --install-completion.

        Typer writes a shell's own settings with it: it changes their line ends, and leaves them empty on a full disk.
        """
        return [item for item in super().get_params(ctx) if item.name != "install_completion"]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  (click calls it so)
        """Write the usage line: a verb, or an image alone."""
        return ["VERB IMAGE [OPTIONS]"]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the purpose of the program, with the file systems that it knows."""
        from layoutscope.filesystems.registry import labels

        known = " and ".join(labels())
        self.help = f"Inspect the on-disk layout of {known}, and predict how long listing all files takes."
        super().format_help_text(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (click calls it so)
        """List the commands by groups, with what each does, without their options."""
        widest = max(len(name) for group in GROUPS.values() for name in group)
        for title, names in GROUPS.items():
            with formatter.section(title):
                said = {name: " ".join((COMMANDS[name].__doc__ or "").split()) for name in names}
                formatter.write_dl([(name.ljust(widest), text) for name, text in said.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  (click calls it so)
        """Describe where to find more."""
        with formatter.section("Parts of these commands"):
            formatter.write_text(", ".join(FORMS.values()))
        with formatter.section("Examples"):
            for words, purpose in OVERVIEW:
                formatter.write(f"  {words}\n      {purpose}\n")
        with formatter.section("Exit codes"):
            formatter.write_dl(EXIT_CODES)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command of two words or of an option, and scan an image that is given without a verb."""
        name, rest = command_of_form(args)
        if name:
            _, command, rest = super().resolve_command(ctx, [name, *rest])
            return FORMS[name], command, rest
        from layoutscope.inputs import split_volume

        if args[0] not in COMMANDS and Path(split_volume(args[0])[0]).exists():
            return super().resolve_command(ctx, ["scan", *args])
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if Path(args[0]).suffix or "/" in args[0]:
                error.message = f"{args[0]}: no such file or verb. Write: layoutscope scan IMAGE"  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    name="layoutscope",
    cls=Overview,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="With --version: also show which code runs the loops.")
    ] = False,
) -> None:
    """Take the options before a command."""
    if version:
        typer.echo(f"layoutscope {__version__}")
        if verbose:
            from layoutscope.structs.native import core

            typer.echo(f"core: {core()}")
        raise typer.Exit
    if verbose or context.invoked_subcommand is None:
        context.fail("Missing command.")
