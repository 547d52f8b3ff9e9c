"""The image and the options of reading it, which most commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from layoutscope import inputs
from layoutscope.cli.running import Group, option
from layoutscope.errors import ImageError, UsageError

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterator

    from layoutscope.filesystems.traits import ReadOption
    from layoutscope.options import EnumerationOptions, ReadOptions

Image = Annotated[Path, typer.Argument(metavar="IMAGE", help="Raw image (split or compressed too), device or capture.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]
Drives = Annotated[
    list[str] | None, typer.Option("--drive", metavar="NAME", help="Drive profile or FILE.toml; repeatable.")
]
Host = Annotated[str, typer.Option(metavar="linux|macos", help="Whose drivers and libraries enumerate.")]
StartsAt = Annotated[str, typer.Option(metavar="BYTES", help="Where the image lies on the drive.")]

KINDS: Final[dict[str, tuple[object, str | None]]] = {
    "number": (int | None, "N"),
    "text": (str | None, "NAME"),
    "secret": (str | None, "TEXT"),
    "image": (Path | None, "IMAGE"),
    "switch": (bool, None),
}
"""What typer takes for a file system's own option, and what stands for its value, by the option's kind."""


class Reading(Group):
    """How images are read: the options of every file system, and behind them those of single ones."""

    partition: Annotated[int | None, typer.Option(metavar="N", help="Only the volumes of this partition.")] = None
    volume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the volume of this name or number (from 1).")
    ] = None
    volume_at: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Only what starts at this byte of the image.")
    ] = None
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Find nodes by scanning the whole volume, rebuild broken trees.")
    ] = False
    no_names: Annotated[bool, typer.Option("--no-names", help="Leave names out.")] = False
    map_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="ddrescue's map: bad areas are unread, not zero.")
    ] = None
    cache_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep decompressed images here.")] = None

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.heard_by: dict[str, Any] = {}

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """List the options, those of each file system under its label."""
        from layoutscope.filesystems.registry import read_options

        own = [made for each, labels in read_options().values() for made in _declared(each, " or ".join(labels))]
        return [*super().options(), *own]

    def asked(self) -> ReadOptions:
        """Return what was asked for, in the library's words."""
        from layoutscope.filesystems.registry import read_options

        given = {**vars(self), **self.heard_by, "volume_at": byte_count(self.volume_at), "names": not self.no_names}
        del given["no_names"], given["heard_by"]
        for secret in [name for name, (each, _) in read_options().items() if each.kind == "secret"]:
            file = given.pop(f"{secret}_file")
            given[secret] = given[secret] if file is None else read_secret(file)
        return cast("ReadOptions", given)


def _declared(own: ReadOption, label: str) -> Iterator[inspect.Parameter]:
    """Turn a file system's own option into one of the command line.

    A secret may be read from a file, too: words on a command line are seen by everybody on the machine.
    """
    kind, metavar = KINDS[own.kind]
    flag, word = f"--{own.name.replace('_', '-')}", own.name.replace("_", " ")
    told = typer.Option(flag, metavar=metavar, help=f"{label}: {own.help}")
    yield option(own.name, Annotated[kind, told], own.default)
    if own.kind == "secret":
        told = typer.Option(f"{flag}-file", metavar="FILE", help=f"{label}: a file with the {word}.")
        yield option(f"{own.name}_file", Annotated[Path | None, told], None)


class Enumerating(Group):
    """On which drives and by whose drivers a volume is enumerated."""

    drive: Drives = None
    host: Host = "linux"

    def asked(self, reading: Reading) -> EnumerationOptions:
        """Return what was asked for, in the library's words, with how images are read."""
        return {"drives": self.drive, "host": self.host, **reading.asked()}


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
