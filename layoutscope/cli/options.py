"""The image and the options of reading it, which most commands share."""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from layoutscope import inputs
from layoutscope.cli.running import EXIT_DAMAGED, warn
from layoutscope.errors import ImageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from layoutscope.options import ReadOptions

Image = Annotated[Path, typer.Argument(metavar="IMAGE", help="Raw image (split or compressed too), device or capture.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]
Drives = Annotated[
    list[str] | None, typer.Option("--drive", metavar="NAME", help="Drive profile or FILE.toml; repeatable.")
]
Host = Annotated[str, typer.Option(metavar="linux|macos", help="Whose drivers and libraries enumerate.")]
Order = Annotated[str, typer.Option(metavar="NAME", help="The workload, such as fts, names, catalog or copy.")]


def option(kind: Any, flag: str, text: str, metavar: str | None = None, **limits: Any) -> Any:
    """Declare an option of a shared table."""
    return Annotated[kind, typer.Option(flag, metavar=metavar, help=text, **limits)]


READING: Final[dict[str, tuple[Any, Any]]] = {
    "partition": (option(int | None, "--partition", "Only the volumes of this partition.", "N"), None),
    "volume": (option(str | None, "--volume", "Only the volume of this name or number (from 1).", "NAME"), None),
    "volume_at": (option(str | None, "--volume-at", "Only what starts at this byte of the image.", "BYTES"), None),
    "xid": (option(int | None, "--xid", "APFS: the state of this transaction.", "N"), None),
    "snapshot": (option(str | None, "--snapshot", "APFS: the snapshot of this name.", "NAME"), None),
    "second": (option(Path | None, "--second", "APFS: the other image of a Fusion set.", "IMAGE"), None),
    "password": (option(str | None, "--password", "APFS: password or recovery key.", "TEXT"), None),
    "password_file": (option(Path | None, "--password-file", "APFS: a file with the password.", "FILE"), None),
    "no_journal": (option(bool, "--no-journal", "HFS+: the bytes as they lie, journal not replayed."), False),
    "sweep": (option(bool, "--sweep", "Find nodes by scanning the whole volume, rebuild broken trees."), False),
    "no_names": (option(bool, "--no-names", "Leave names out."), False),
    "map_file": (option(Path | None, "--map-file", "ddrescue's map: bad areas are unread, not zero.", "FILE"), None),
    "cache_dir": (option(Path | None, "--cache-dir", "Keep decompressed images here.", "DIR"), None),
}
"""Options of reading: their types and defaults."""


def reads_image(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Add the options of reading to a command, which gets them together as ``options``; damage has its exit code."""

    @functools.wraps(command)
    def run(*, options: ReadOptions, **given: Any) -> int | None:
        damaged: dict[str, str] = {}

        def on_damage(name: str, coverage: float, errors: int) -> None:
            told = f"{100 * coverage:.3g} % of the known metadata was read, {errors:,} findings are errors"
            damaged.setdefault(name, f"{name}: {told}; layoutscope check lists them")

        code = command(options={**options, "on_damage": on_damage}, **given)
        if code is None and damaged:
            # What shows no findings itself says at least that there are some.
            for line in damaged.values():
                warn(line)
            return EXIT_DAMAGED
        return code

    return add_options(run, READING, "options", reading)


def add_options(
    command: Callable[..., int | None],
    table: dict[str, tuple[Any, Any]],
    target: str,
    gather: Callable[[dict[str, Any]], AbstractContextManager[Any]],
) -> Callable[..., int | None]:
    """Add options to a command, which gets them together as one argument.

    Parameters
    ----------
    command : callable
        Takes `target` as a keyword.
    table : dict
        Type and default of each option.
    target : str
        The argument that takes them.
    gather : callable
        Makes a context manager of them, whose value the command gets.
    """
    own = inspect.signature(command, eval_str=True)
    kept = [item for item in own.parameters.values() if item.name != target]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in table.items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> int | None:
        shared = {name: given.pop(name) for name in table}
        with gather(shared) as value:
            return command(**given, **{target: value})

    run.__signature__ = own.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in (*kept, *added)}
    return run


@contextmanager
def reading(given: dict[str, Any]) -> Iterator[ReadOptions]:
    """Put together how an image is read, with a progress bar if somebody watches."""
    secret = given.pop("password_file")
    if secret is not None:
        given["password"] = read_secret(secret)
    given["volume_at"] = byte_count(given["volume_at"])
    given["names"] = not given.pop("no_names")
    with progress_bar() as progress:
        chosen: ReadOptions = {**given, "progress": progress}  # type: ignore[typeddict-item]
        yield chosen


def read_secret(path: Path) -> str:
    """Read a password from a file, without the line end that editors add.

    Raises
    ------
    ImageError
        If it cannot be read.
    """
    try:
        return inputs.read_text(path).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"{path}: cannot be read as a password file") from error


def byte_count(text: str | None) -> int | None:
    """Read a size or an address such as ``4096``, ``0x1000`` or ``64KiB``.

    Raises
    ------
    UsageError
        If it is none.
    """
    from layoutscope.units import parse_size

    if text is None:
        return None
    try:
        number = parse_size(text)
    except (ValueError, OverflowError):
        number = -1
    if number < 0:
        raise UsageError(f"{text!r} is no number of bytes; write 4096, 0x1000 or 64KiB")
    return number


@contextmanager
def progress_bar() -> Iterator[Any]:
    """Show a bar on standard error while something takes long; nothing unless that is a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("decompressing", visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
