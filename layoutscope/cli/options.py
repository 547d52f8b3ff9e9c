"""The image, and the options that several commands share: of reading it, of enumerating it, of workloads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from layoutscope import inputs
from layoutscope.cli.running import Group, option
from layoutscope.errors import ImageError, UsageError
from layoutscope.options import Workload

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
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress on the terminal.")] = False

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
        del given["no_names"], given["heard_by"], given["quiet"]
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


class WorkOptions(Group):
    """What is done on a volume."""

    order: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="fts, readdir-stat, bulk, names, catalog, searchfs, paths, copy, read; predict: all."
        ),
    ] = "fts"
    host: Annotated[str, typer.Option(metavar="linux|macos", help="Whose drivers and libraries do it.")] = "linux"
    host_property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Where the host differs, such as read_ahead_bytes=256KiB; repeatable."),
    ] = None
    start: Annotated[str | None, typer.Option("--from", metavar="PATH", help="Directory to start at.")] = None
    no_stat: Annotated[bool, typer.Option("--no-stat", help="fts with FTS_NOSTAT: only directories are stat'ed.")] = (
        False
    )
    paths: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="For paths: a list of paths, one a line.")
    ] = None
    file: Annotated[str | None, typer.Option(metavar="PATH", help="For read: the file.")] = None
    records: Annotated[int | None, typer.Option(metavar="N", min=1, help="For read: so many random records.")] = None
    record_size: Annotated[str, typer.Option(metavar="BYTES", help="For read: length of a record.")] = "4096"
    seed: Annotated[int, typer.Option(metavar="S", help="For read: draws the records.")] = 1
    offsets: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For read: offsets of records, the last number a line.")
    ] = None
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads that share the host's work.")] = 1
    warm: Annotated[bool, typer.Option("--warm", help="With the metadata of a first pass in the cache.")] = False
    passes: Annotated[int, typer.Option(metavar="N", min=1, help="How often it is done.")] = 1

    def asked(self) -> Workload:
        """Return what was asked for, in the library's words."""
        return {
            "order": self.order,
            "host": self.host,
            "host_properties": named_values(self.host_property),
            "start": self.start,
            "stat": not self.no_stat,
            "paths": None if self.paths is None else read_lines(self.paths),
            "file": self.file,
            "records": self.records,
            "record_bytes": byte_count(self.record_size) or 0,
            "seed": self.seed,
            "offsets": None if self.offsets is None else read_offsets(self.offsets),
            "threads": self.threads,
            "warm": self.warm,
            "passes": self.passes,
        }


class WorkInMemory(WorkOptions):
    """What is done on a volume by a host with so much memory; ``replay`` has a ``--cache`` that is the drive's."""

    cache: Annotated[str | None, typer.Option(metavar="SIZE", help="Host's memory for metadata; unlimited else.")] = (
        None
    )

    def asked(self) -> Workload:
        """Return what was asked for, in the library's words."""
        return {**super().asked(), "cache_bytes": byte_count(self.cache)}


def named_values(given: list[str] | None) -> dict[str, str]:
    """Split properties at their equals sign.

    Raises
    ------
    UsageError
        If one has none.
    """
    pairs = [item.partition("=") for item in given or ()]
    for name, sign, _ in pairs:
        if not sign:
            raise UsageError(f"{name!r} is no NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def read_lines(path: Path) -> list[str]:
    """Read a list of paths, one a line.

    Raises
    ------
    UsageError
        If the file cannot be read.
    """
    try:
        return [line for line in inputs.read_text(path, errors="surrogateescape").split("\n") if line]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a list of paths") from error


def read_offsets(path: Path) -> list[int]:
    """Read offsets of records in bytes: the last number of each line, so that a count may stand before it.

    Raises
    ------
    UsageError
        If the file cannot be read, or a line does not end with a number.
    """
    lines = [line.strip() for line in read_lines(path)]
    found = [re.search(r"(?:^|[\s,;])(\d{1,18})$", line) for line in lines]
    for number, match in enumerate(found, 1):
        if match is None:
            raise UsageError(f"{path}: line {number} does not end with an offset")
    return [int(match[1]) for match in found if match]
