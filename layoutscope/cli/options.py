"""The image, and the options that several commands share: of reading it, of enumerating it, of workloads."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, cast

import typer

from layoutscope import inputs
from layoutscope.cli.running import Group, option, warn
from layoutscope.errors import ImageError, UsageError
from layoutscope.options import Workload

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterator

    from layoutscope.filesystems.traits import ReadOption
    from layoutscope.options import EnumerationOptions, ReadOptions


Order = Literal[
    "fts",
    "readdir-stat",
    "du",
    "backup",
    "backup-events",
    "delete",
    "mount",
    "fsck",
    "find",
    "ls",
    "ls-folder",
    "archive",
    "git-status",
    "search",
    "bulk",
    "names",
    "catalog",
    "searchfs",
    "paths",
    "copy",
    "read",
]
OrderOrAll = Literal[Order, "all"]
PlannedOrder = Literal["fts", "readdir-stat", "du", "backup", "ls", "git-status", "copy", "archive"]
Host = Literal["linux", "macos"]
Placement = Literal["known", "unknown"]
Table = Literal[
    "nodes",
    "node_fragments",
    "node_views",
    "regions",
    "extents",
    "entries",
    "free",
    "findings",
    "metrics",
    "times",
    "directories",
    "reads",
    "all",
]
ExportFormat = Literal["csv", "parquet", "jsonl", "bodyfile", "dfxml", "speedscope", "perfetto", "folded"]
CheckFormat = Literal["text", "json", "csv", "sarif"]
PlanFormat = Literal["text", "json", "csv"]
TraceFormat = Literal["csv", "fio", "blkparse"]
ReplayFormat = Literal["csv", "fio", "blkparse", "pairs", "fs_usage", "iosnoop", "biosnoop"]
Buffer = Literal["own", "off", "join", "no-join"]
Ordering = Literal["order", "xid", "time"]
CacheVerb = Literal["show", "clear"]


def what_ifs() -> list[str]:
    """Name every what-if, for completion; help does not load what knows them."""
    from layoutscope.api.predict import WHAT_IF_NAMES

    return list(WHAT_IF_NAMES)


def complete_what_if(incomplete: str) -> list[str]:
    """Name the what-ifs that begin so."""
    return [name for name in what_ifs() if name.startswith(incomplete)]


def secret_of(name: str, typed: str | None, file: Path | None) -> str | None:
    """Return a secret: from its file, as typed, asked for without an echo, or from the environment."""
    if file is not None:
        return read_secret(file)
    if typed == "-":
        return _asked_for(name)
    if typed is None:
        return os.environ.get(f"LAYOUTSCOPE_{name.upper()}") or None
    warn(f"others on this machine can see what stands behind --{name}; --{name} - asks for it without showing it")
    return typed


def _asked_for(name: str) -> str:
    from getpass import getpass

    if not sys.stdin.isatty():
        raise UsageError(f"--{name} - asks at a terminal, and there is none; write --{name}-file FILE")
    return getpass(f"{name.capitalize()}: ")


def read_secret(path: Path) -> str:
    """Read a password from a file, without the line end that editors add."""
    try:
        return inputs.read_text(path, most_bytes=inputs.MOST_SECRET_BYTES).rstrip("\r\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImageError(f"{path}: cannot be read as a password file: {reason}") from error
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: cannot be read as a password file") from error


WORKLOAD: Final = "Workload"
OUTPUT: Final = "Output"
CHOOSING: Final = "Choosing the volume"
ENCRYPTED: Final = "Encrypted"
DAMAGED: Final = "Damaged images"
COMPRESSED: Final = "Compressed images"

Image = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGE", help="Raw image (split or compressed too), disk image, device or capture; or IMAGE:VOLUME."
    ),
]
ImageItself = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGE",
        help="Raw image (split or compressed too), disk image or device, but no capture; or IMAGE:VOLUME.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON.")]
Force = Annotated[
    bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Replace outputs that layoutscope wrote; nothing else.")
]
Drives = Annotated[
    list[str] | None,
    typer.Option(
        "--drive",
        metavar="NAME",
        rich_help_panel=WORKLOAD,
        show_default="generic-5400-2.5, generic-7200, sata-ssd",
        help="Drive by profile, model number or FILE.toml, or main=NAME,second=NAME of a Fusion set; "
        "'layoutscope drives' says which to take.",
    ),
]
HostOption = Annotated[
    Host,
    typer.Option("--host", rich_help_panel=WORKLOAD, help="Operating system whose drivers and libraries do it."),
]
StartOffset = Annotated[
    str,
    typer.Option(
        metavar="BYTES", rich_help_panel=WORKLOAD, help="Where the image, or the traced disk, lies on the drive."
    ),
]

KINDS: Final[dict[str, tuple[object, str | None, str, str]]] = {
    "number": (int | None, "N", CHOOSING, "the newest"),
    "text": (str | None, "NAME", CHOOSING, "none"),
    "secret": (str | None, "TEXT", ENCRYPTED, "stays locked"),
    "image": (Path | None, "IMAGE", CHOOSING, "there is one device"),
    "switch": (bool, None, DAMAGED, ""),
}
"""What typer takes for a file system's own option, what stands for its value, its panel, and what holds without it."""


class Reading(Group):
    """How images are read: the options of every file system, and behind them those of single ones.

    A verb at which some of them would change nothing takes a subclass that names these in `without`; those of single
    file systems go by their kind.
    """

    without: ClassVar[frozenset[str]] = frozenset()

    partition: Annotated[
        int | None,
        typer.Option(
            metavar="N", rich_help_panel=CHOOSING, show_default="all", help="Only the volumes of this partition."
        ),
    ] = None
    volume: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=CHOOSING,
            show_default="all",
            help="Only the volume of this name or number (from 1).",
        ),
    ] = None
    volume_at: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            rich_help_panel=CHOOSING,
            show_default="anywhere",
            help="Read what starts at this byte, named by a partition map or not.",
        ),
    ] = None
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep", rich_help_panel=DAMAGED, help="Find nodes by scanning the whole volume, rebuild broken trees."
        ),
    ] = False
    no_names: Annotated[bool, typer.Option("--no-names", rich_help_panel=OUTPUT, help="Leave names out.")] = False
    ddrescue_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=DAMAGED,
            show_default="all of it was read",
            help="ddrescue's map of the image: bad areas are unread, not zero.",
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=COMPRESSED,
            show_default="as 'layoutscope cache' shows",
            help="Keep decompressed images in this folder.",
        ),
    ] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", rich_help_panel=COMPRESSED, help="Keep no decompressed image.")
    ] = False
    evidence: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            show_default="not hashed",
            help="Hash every file of the images before and after, and report it: .txt or .json.",
        ),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress on the terminal.")] = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.heard_by: dict[str, Any] = {}

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """List the options, those of each file system under its label."""
        from layoutscope.filesystems.registry import read_options

        asked = [(each, labels) for each, labels in read_options().values() if each.kind not in cls.without]
        own = [made for each, labels in asked for made in _declared(each, " or ".join(labels))]
        return [item for item in (*super().options(), *own) if item.name not in cls.without]

    def asked(self) -> ReadOptions:
        """Return what was asked for, in the library's words."""
        from layoutscope.filesystems.registry import read_options

        unasked = {name: getattr(self, name) for name in self.without if hasattr(self, name)}
        given = {**unasked, **vars(self), **self.heard_by, "volume_at": byte_count(self.volume_at)}
        given["names"] = not self.no_names
        given["cache_dir"] = None if self.no_cache else self.cache_dir or usual_cache()
        for name in ("no_names", "no_cache", "heard_by", "quiet", "evidence"):
            given.pop(name, None)
        for secret in [name for name, (each, _) in read_options().items() if each.kind == "secret"]:
            given[secret] = secret_of(secret, given[secret], given.pop(f"{secret}_file"))
        return cast("ReadOptions", given)


class ReadingSeveral(Reading):
    """How images are read that stand beside one another: what is a matter of one image alone is not asked."""

    without = frozenset({"ddrescue_map", "image"})


class ReadingContainer(Reading):
    """How images are read of which no state is chosen, and no tree is rebuilt."""

    without = frozenset({"sweep", "number", "text", "switch"})


class ReadingWhole(Reading):
    """How images are read of which names cannot be left out."""

    without = frozenset({"no_names"})


def _declared(own: ReadOption, label: str) -> Iterator[inspect.Parameter]:
    """Turn a file system's own option into one of the command line.

    A secret may be read from a file, too: words on a command line are seen by everybody on the machine.
    """
    kind, metavar, panel, default = KINDS[own.kind]
    # What lies around a volume, CoreStorage and disk images, opens with the same words.
    label = f"{label}, FileVault 2, encrypted disk images" if own.kind == "secret" else label
    flag, word = f"--{own.name.replace('_', '-')}", own.name.replace("_", " ")
    about: dict[str, Any] = {"rich_help_panel": panel, "show_default": default or False}
    more = f", or - to be asked; else LAYOUTSCOPE_{own.name.upper()} is looked at." if own.kind == "secret" else ""
    text = own.help.removesuffix(".") + more if more else own.help
    told = typer.Option(flag, metavar=metavar, help=f"{label}: {text}", **about)
    yield option(own.name, Annotated[kind, told], own.default)
    if own.kind == "secret":
        told = typer.Option(f"{flag}-file", metavar="FILE", help=f"{label}: a file with the {word}.", **about)
        yield option(f"{own.name}_file", Annotated[Path | None, told], None)


class Enumerating(Group):
    """On which drives and by whose drivers a volume is enumerated."""

    drive: Drives = None
    host: HostOption = "linux"

    def asked(self, reading: Reading) -> EnumerationOptions:
        """Return what was asked for, in the library's words, with how images are read."""
        return {"drives": self.drive, "host": self.host, **reading.asked()}


def usual_cache() -> Path | None:
    """Return the folder in which decompressed images are kept by default; None where it cannot be made."""
    from layoutscope.image.cache import TAG, default_folder
    from layoutscope.image.split import refuse_part

    folder = default_folder()
    if folder is None:
        return None
    try:
        refuse_part(folder / TAG)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except UsageError:
        return folder  # in a bundle: that is said where an image is to be kept
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def byte_count(text: str | None) -> int | None:
    """Read a size or an address such as ``4096``, ``0x1000`` or ``64KiB``."""
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

    panel = WORKLOAD

    order: Annotated[Order, typer.Option(help="What a program does; 'layoutscope explain ORDER' tells of each.")] = (
        "fts"
    )
    host: HostOption = "linux"
    host_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            show_default="as the operating system",
            help="Where the operating system differs, such as read_ahead_bytes=256KiB.",
        ),
    ] = None
    start: Annotated[
        str | None, typer.Option("--start", metavar="PATH", show_default="the root", help="Directory to start at.")
    ] = None
    no_stat: Annotated[bool, typer.Option("--no-stat", help="fts with FTS_NOSTAT: only directories are stat'ed.")] = (
        False
    )
    paths: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="none", help="paths, backup-events: a list of paths, one a line."),
    ] = None
    file: Annotated[str | None, typer.Option(metavar="PATH", show_default="none", help="read: the file.")] = None
    records: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="the whole file", help="read: so many random records."),
    ] = None
    record_size: Annotated[str, typer.Option(metavar="BYTES", help="read: length of a record.")] = "4096"
    seed: Annotated[int, typer.Option(metavar="N", help="read: draws the records.")] = 1
    offsets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="random ones",
            help="read: offsets of records in bytes, the last number a line.",
        ),
    ] = None
    threads: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Threads that share the computer's time between reads; the drive gets one read at a time.",
        ),
    ] = 1
    warm: Annotated[bool, typer.Option("--warm", help="With what a first pass read in memory.")] = False
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
    """What is done on a volume by a computer with so much memory; a recorded trace has been through its own."""

    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", show_default="unlimited", help="Memory that holds what was read."),
    ] = None

    def asked(self) -> Workload:
        """Return what was asked for, in the library's words."""
        return {**super().asked(), "memory_bytes": byte_count(self.memory)}


class WorkOfAnyOrder(WorkInMemory):
    """What is done on a volume, where all orders can be asked for at once."""

    order: Annotated[
        OrderOrAll,
        typer.Option(help="What a program does; 'layoutscope explain ORDER' tells of each."),
    ] = "fts"  # type: ignore[assignment]  # there is one more of them here


def named_values(given: list[str] | None) -> dict[str, str]:
    """Split properties at their equals sign."""
    pairs = [item.partition("=") for item in given or ()]
    for name, sign, _ in pairs:
        if not sign:
            raise UsageError(f"{name!r} is no NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def read_lines(path: Path) -> list[str]:
    """Read a list of paths, one a line."""
    try:
        return [line for line in inputs.read_text(path, errors="surrogateescape").split("\n") if line]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a list of paths") from error


def read_offsets(path: Path) -> list[int]:
    """Read offsets of records in bytes: the last number of each line, so that a count may stand before it."""
    lines = [line.strip() for line in read_lines(path)]
    found = [re.search(r"(?:^|[\s,;])(\d{1,18})$", line) for line in lines]
    for number, match in enumerate(found, 1):
        if match is None:
            raise UsageError(f"{path}: line {number} does not end with an offset")
    return [int(match[1]) for match in found if match]
