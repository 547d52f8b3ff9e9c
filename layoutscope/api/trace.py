"""``trace`` and ``replay``: the reads of a workload, and what drives make of somebody's real ones."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypedDict

import numpy as np

from layoutscope.api.images import only_volume
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.outputs import file_form, output
from layoutscope.api.predict import DEFAULT_DRIVES, fits
from layoutscope.api.reading import opened, request_of
from layoutscope.api.workloads import checked, parted, walk
from layoutscope.drive import service
from layoutscope.drive.export import blkparse_lines, csv_text, fio_lines
from layoutscope.drive.replay import read_trace
from layoutscope.options import ReadOptions, Workload
from layoutscope.results.predict import ReplayResult
from layoutscope.results.scan import Prediction
from layoutscope.walk.score import score

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import Drives

FORMATS: Final = ("csv", "fio", "blkparse")
"""Forms in which traces are written."""

LINES_AT_ONCE: Final = 65_536


class TraceOptions(ReadOptions, Workload, total=False):
    """All keywords of :func:`trace` that it hands on."""


@takes(Workload, ReadOptions)
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
        What is done and how the image is read: see :class:`~layoutscope.options.Workload` and
        :class:`~layoutscope.options.ReadOptions`. A cold enumeration from the root without them.

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
    (416, {4096})
    """
    asked, reading = parted(options, workload)
    work = checked(asked)
    with opened(path, request_of(reading, path)) as image:
        return walk(only_volume(image.layouts), work).reads


def trace_form(target: object, asked: str | None) -> str:
    """Tell the form in which a trace is written; see :func:`layoutscope.api.outputs.file_form`.

    Raises
    ------
    UsageError
        If there is no such form, or the target ends in that of another one.
    """
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
        Where to.
    file_format : {'csv', 'fio', 'blkparse'}, optional
        A table; an iolog of fio, version 3; the text of blkparse. As the target ends without it, and a table where that
        tells nothing.
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
    if isinstance(target, str | os.PathLike):
        with output(target, force=force, holds=f"{len(reads):,} reads") as file:
            _write(reads, file, form, disk)
    else:
        _write(reads, target, form, disk)


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


class Replay(TypedDict, total=False):
    """Options of :func:`replay` besides those of the workload and of reading: how the trace is served.

    Attributes
    ----------
    form : str, default ''
        Format of the trace, where its content does not tell.
    start_offset_bytes : int, bytes, default 0
        Where the traced disk lies on the drive.
    buffer : str, default 'own'
        What the drive's buffer does: ``own``, ``off``, ``join`` or ``no-join``, see
        :meth:`layoutscope.drive.DriveProfile.with_cache`.
    think_us : float, microseconds, optional
        Host time between reads, in place of what the trace tells.
    queue_depth : int, count, default 1
        Reads that are outstanding.
    """

    form: str
    start_offset_bytes: int
    buffer: str
    think_us: float | None
    queue_depth: int


class ReplayOptions(ReadOptions, Workload, Replay, total=False):
    """All keywords of :func:`replay` that it hands on."""


@takes(Replay, Workload, ReadOptions)
def replay(
    trace: str | os.PathLike[str],
    *,
    drives: Drives | None = None,
    against: str | os.PathLike[str] | None = None,
    workload: Workload | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Compute the service time of a trace, and hold a prediction against it.

    Parameters
    ----------
    trace : path
        CSV, an iolog of fio, blkparse or ``fs_usage`` text, or pairs of 64-bit numbers; compressed too.
    drives : str or sequence of str, optional
        Profiles or TOML files, one or several; of the usual ones those that are too small are left out.
    against : path, optional
        The image that was read; its prediction is scored.
    workload : Workload, optional
        The keywords from ``order`` to ``passes`` together, for those who keep them in a dictionary.
    **options
        How the trace is served, what was done on the image, and how that is read: see :class:`Replay`,
        :class:`~layoutscope.options.Workload` and :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If the trace cannot be read, or something is unknown.
    LayoutscopeError
        If the image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> layoutscope.write_trace(layoutscope.trace(image), "recorded.csv")
    >>> found = layoutscope.replay("recorded.csv", drives="generic-7200", against=image)
    >>> abs(found.times[0].seconds - found.expected[0].seconds) < 0.001
    True
    """
    think_us, start = options.pop("think_us", None), options.pop("start_offset_bytes", 0)
    buffer, depth = options.pop("buffer", "own"), options.pop("queue_depth", 1)
    form = options.pop("form", "")
    asked, reading = parted(options, workload)
    work = checked(asked)
    real = read_trace(Path(trace), form=form, think_us=think_us)
    profiles = profiles_of(drives, DEFAULT_DRIVES)
    if drives is None:
        profiles = [profile for profile in profiles if fits(profile, real, start)]

    def serve(reads: AccessTrace) -> tuple[Prediction, ...]:
        buffered = [profile.with_cache(buffer) for profile in profiles]
        return tuple(
            Prediction.of(service(reads, each, start_offset_bytes=start, queue_depth=depth), profile)
            for each, profile in zip(buffered, profiles, strict=True)
        )

    times = serve(real)
    if against is None:
        return ReplayResult(str(trace), len(real), int(real.length_bytes.sum()), times)
    with opened(against, request_of(reading, against)) as image:
        layout = only_volume(image.layouts)
    predicted = walk(layout, work).reads
    expected = serve(_paced_alike(predicted, real, think_us))
    agreement = score(real, predicted, layout)
    return ReplayResult(str(trace), len(real), int(real.length_bytes.sum()), times, expected, agreement)


def _paced_alike(predicted: AccessTrace, real: AccessTrace, think_us: float | None) -> AccessTrace:
    """Give a prediction the host time of the trace where that is one for all, none at all among them.

    While the host works the disk turns, so that the same reads at another pace are served in other times.
    """
    if think_us is None and real.think_us.any():
        return predicted
    pace = np.full(len(predicted), think_us or 0.0)
    pace[:1] = real.think_us[:1]
    return replace(predicted, think_us=pace, after_us=0.0)
