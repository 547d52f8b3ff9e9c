"""Options that several commands share."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.api.reading import ReadOptions

Image = Annotated[Path, typer.Argument(metavar="IMAGE", help="Raw image (split or compressed too) or device.")]
Partition = Annotated[int | None, typer.Option(metavar="N", help="Only the volumes of this partition.")]
Volume = Annotated[str | None, typer.Option(metavar="NAME", help="Only the volume of this name or number.")]
VolumeAt = Annotated[str | None, typer.Option(metavar="BYTES", help="Only what starts at this byte of the image.")]
NoJournal = Annotated[
    bool, typer.Option("--no-journal", help="Show HFS+ as its bytes lie, without replaying its journal.")
]
NoNames = Annotated[bool, typer.Option("--no-names", help="Leave names out.")]
MapFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="ddrescue's map of the image: bad areas are unread, not zero.")
]
CacheDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Keep decompressed images here.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]


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
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no number of bytes; write 4096, 0x1000 or 64KiB") from error


@contextmanager
def reading(**options: Any) -> Iterator[ReadOptions]:
    """Put together how an image is read, with a progress bar if somebody watches."""
    volume_at = byte_count(options.pop("volume_at", None))
    names = not options.pop("no_names", False)
    with progress_bar() as progress:
        chosen: ReadOptions = {**options, "volume_at": volume_at, "names": names, "progress": progress}  # type: ignore[typeddict-item]
        yield chosen


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
