"""The image and the options of reading it, which most commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layoutscope import inputs
from layoutscope.cli.running import MadeOf
from layoutscope.errors import ImageError, UsageError
from layoutscope.options import ReadOptions

Image = Annotated[Path, typer.Argument(metavar="IMAGE", help="Raw image (split or compressed too), device or capture.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]
Drives = Annotated[
    list[str] | None, typer.Option("--drive", metavar="NAME", help="Drive profile or FILE.toml; repeatable.")
]
Host = Annotated[str, typer.Option(metavar="linux|macos", help="Whose drivers and libraries enumerate.")]
Order = Annotated[str, typer.Option(metavar="NAME", help="The workload, such as fts, names, catalog or copy.")]


def reading(
    *,
    partition: Annotated[int | None, typer.Option(metavar="N", help="Only the volumes of this partition.")] = None,
    volume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the volume of this name or number (from 1).")
    ] = None,
    volume_at: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Only what starts at this byte of the image.")
    ] = None,
    xid: Annotated[int | None, typer.Option(metavar="N", help="APFS: the state of this transaction.")] = None,
    snapshot: Annotated[str | None, typer.Option(metavar="NAME", help="APFS: the snapshot of this name.")] = None,
    second: Annotated[Path | None, typer.Option(metavar="IMAGE", help="APFS: the other image of a Fusion set.")] = None,
    password: Annotated[str | None, typer.Option(metavar="TEXT", help="APFS: password or recovery key.")] = None,
    password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="APFS: a file with the password.")] = None,
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="HFS+: the bytes as they lie, journal not replayed.")
    ] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Find nodes by scanning the whole volume, rebuild broken trees.")
    ] = False,
    no_names: Annotated[bool, typer.Option("--no-names", help="Leave names out.")] = False,
    map_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="ddrescue's map: bad areas are unread, not zero.")
    ] = None,
    cache_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep decompressed images here.")] = None,
) -> ReadOptions:
    """Say how images are read."""
    return {
        "partition": partition,
        "volume": volume,
        "volume_at": byte_count(volume_at),
        "xid": xid,
        "snapshot": snapshot,
        "second": second,
        "password": password if password_file is None else read_secret(password_file),
        "no_journal": no_journal,
        "sweep": sweep,
        "names": not no_names,
        "map_file": map_file,
        "cache_dir": cache_dir,
    }


Reading = Annotated[ReadOptions, MadeOf(reading)]


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
