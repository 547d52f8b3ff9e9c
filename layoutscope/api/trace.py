"""``trace``: the reads of a workload, in order, for whoever wants to replay or study them."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Final

from layoutscope.api.outputs import output
from layoutscope.api.reading import opened, request_of
from layoutscope.api.workloads import checked, walk
from layoutscope.drive.export import blkparse_lines, csv_text, fio_lines
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import ReadOptions, Workload
    from layoutscope.tables import VolumeLayout

FORMATS: Final = ("csv", "fio", "blkparse")
"""Forms in which traces are written."""

LINES_AT_ONCE: Final = 65_536


def trace(
    path: str | os.PathLike[str], *, workload: Workload | None = None, **options: Unpack[ReadOptions]
) -> AccessTrace:
    """Work out the reads of a workload on the one volume of an image that was chosen.

    Parameters
    ----------
    path : path
        The image.
    workload : Workload, optional
        What is done; a cold enumeration from the root without it.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    UsageError
        If the workload is not possible, or several volumes could be walked.
    LayoutscopeError
        If the image cannot be read.
    """
    work = checked(workload or {})
    with opened(path, request_of(options)) as image:
        return walk(only_volume(image.layouts), work).reads


def only_volume(layouts: Sequence[VolumeLayout]) -> VolumeLayout:
    """Return the one volume that can be walked.

    Raises
    ------
    UsageError
        If there is none, or more than one.
    """
    walked = [layout for layout in layouts if not layout.entries.is_empty()]
    if not walked:
        raise UsageError("no volume that can be walked")
    if len(walked) > 1:
        names = ", ".join(repr(layout.facts.name) for layout in walked)
        raise UsageError(f"there are {len(walked)} volumes ({names}); choose with --partition or --volume")
    return walked[0]


def write_trace(
    reads: AccessTrace,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    file_format: str = "csv",
    disk: str = "/dev/sdX",
    force: bool = False,
) -> None:
    """Write a trace.

    Parameters
    ----------
    reads : AccessTrace
        From :func:`trace`.
    target : path or binary file
        Where to.
    file_format : {'csv', 'fio', 'blkparse'}
        A table; an iolog of fio, version 3; the text of blkparse.
    disk : str
        Of an iolog: the disk that it is replayed on.
    force : bool
        Whether an existing file is overwritten.

    Raises
    ------
    UsageError
        If the format is unknown or the file exists.
    """
    if file_format not in FORMATS:
        raise UsageError(f"no format {file_format!r}; there are {', '.join(FORMATS)}")
    if isinstance(target, str | os.PathLike):
        with output(target, force=force) as file:
            _write(reads, file, file_format, disk)
    else:
        _write(reads, target, file_format, disk)


def _write(reads: AccessTrace, file: IO[bytes], file_format: str, disk: str) -> None:
    if file_format == "csv":
        file.write(csv_text(reads).encode())
        return
    lines = fio_lines(reads, file=disk) if file_format == "fio" else blkparse_lines(reads)
    for text in _joined(lines):
        file.write(text.encode())


def _joined(lines: Iterable[str]) -> Iterable[str]:
    """Join lines, many at once."""
    held: list[str] = []
    for line in lines:
        held.append(f"{line}\n")
        if len(held) == LINES_AT_ONCE:
            yield "".join(held)
            held = []
    yield "".join(held)
