"""``trace``: the reads of a workload, and the files that they are written to."""

from __future__ import annotations

from itertools import islice
from typing import IO, TYPE_CHECKING, Final

from layoutscope.api.images import only_volume
from layoutscope.api.keywords import takes
from layoutscope.api.outputs import file_form, open_output
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.api.workloads import check_workload, refuse_unused, walk, work_of
from layoutscope.drive.recordings import blkparse_lines, csv_text, fio_lines
from layoutscope.options import TraceOptions

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import Workload

FORMATS: Final = ("csv", "fio", "blkparse")
"""Forms in which traces are written."""

LINES_AT_ONCE: Final = 65_536


@takes(TraceOptions)
def trace(
    path: str | os.PathLike[str], *, workload: Workload | None = None, **options: Unpack[TraceOptions]
) -> AccessTrace:
    """Work out the reads of a workload on the one volume of an image that was chosen.

    Parameters
    ----------
    path : path
        The image.
    workload : Workload, optional
        The keywords from ``order`` to ``passes`` together, for those who keep them in a dictionary.
    **options
        What is done and how the image is read: see :class:`~layoutscope.options.TraceOptions`. A cold enumeration from
        the root without them.

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If the workload is not possible, or several volumes could be walked.
    LayoutscopeError
        If the image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> reads = layoutscope.trace("fixtures/images/hfsplus-scattered.img.zst", order="catalog")
    >>> len(reads), set(reads.length_bytes.tolist())
    (209, {8192})
    """
    work = check_workload(work_of(options, workload))
    refuse_unused(work)
    with open_volumes(path, make_request(options, path)) as image:
        return walk(only_volume(image.layouts), work).reads


def trace_form(target: object, asked: str | None) -> str:
    """Return the format of a trace; see :func:`layoutscope.api.outputs.file_form`."""
    return file_form(target, asked, FORMATS, "csv")


def write_trace(
    reads: AccessTrace,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    file_format: str | None = None,
    disk: str = "/dev/sdX",
    force: bool = False,
) -> None:
    """Write a trace.

    Parameters
    ----------
    reads : AccessTrace
        From :func:`trace`.
    target : path or binary file
        The file to write.
    file_format : {'csv', 'fio', 'blkparse'}, optional
        A table; an iolog of fio, version 3; the text of blkparse. By default from the target's name, else a table.
    disk : str
        Of an iolog: the disk that it is replayed on.
    force : bool
        Whether an existing file is overwritten.

    Raises
    ------
    UsageError
        If the format is unknown or another than the target ends in, or the file exists.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.write_trace(layoutscope.trace("fixtures/images/hfsplus-scattered.img.zst"), "walk.csv")
    """
    form = trace_form(target, file_format)
    with open_output(target, force=force, holds=f"{len(reads):,} reads") as file:
        if form == "csv":
            file.write(csv_text(reads).encode())
            return
        lines = iter(fio_lines(reads, file=disk) if form == "fio" else blkparse_lines(reads))
        while part := list(islice(lines, LINES_AT_ONCE)):
            file.write("".join(f"{line}\n" for line in part).encode())
