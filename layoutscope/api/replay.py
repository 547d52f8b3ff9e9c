"""``replay``: what drives make of somebody's real trace, and how well a prediction meets it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.api.predict import DEFAULT_DRIVES, fits, prediction
from layoutscope.api.reading import opened, request_of
from layoutscope.api.trace import only_volume
from layoutscope.api.workloads import checked, walk
from layoutscope.drive import load_profile, service
from layoutscope.drive.replay import read_trace
from layoutscope.options import ReadOptions
from layoutscope.results.predict import ReplayResult
from layoutscope.walk.score import score

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import Workload
    from layoutscope.results.scan import Prediction


class Replay(ReadOptions, total=False):
    """Options of :func:`replay`: how the trace is served, and how the image is read.

    Attributes
    ----------
    form : str
        Format of the trace, where its content does not tell.
    start_offset_bytes : int
        Where the traced disk lies on the drive.
    cache : str
        ``own``, ``off``, ``join`` or ``no-join``, see :meth:`layoutscope.drive.DriveProfile.with_cache`.
    think_us : float
        Host time between reads, in place of what the trace tells.
    queue_depth : int
        Reads that are outstanding.
    """

    form: str
    start_offset_bytes: int
    cache: str
    think_us: float | None
    queue_depth: int


def replay(
    trace: Path,
    *,
    drives: Sequence[str] | None = None,
    against: str | os.PathLike[str] | None = None,
    workload: Workload | None = None,
    **options: Unpack[Replay],
) -> ReplayResult:
    """Compute the service time of a trace, and hold a prediction against it.

    Parameters
    ----------
    trace : Path
        CSV, an iolog of fio, blkparse or ``fs_usage`` text, or pairs of 64-bit numbers; compressed too.
    drives : sequence of str, optional
        Profiles or TOML files; of the usual ones those that are too small are left out.
    against : path, optional
        The image that was read; its prediction is scored.
    workload : Workload, optional
        What was done on it.
    **options
        See :class:`Replay`; those of reading are for the image.

    Raises
    ------
    UsageError
        If the trace cannot be read, or something is unknown.
    LayoutscopeError
        If the image cannot be read.
    """
    work = checked(workload or {})
    think_us, start = options.pop("think_us", None), options.pop("start_offset_bytes", 0)
    cache, depth = options.pop("cache", "own"), options.pop("queue_depth", 1)
    real = read_trace(trace, form=options.pop("form", ""), think_us=think_us)
    profiles = [load_profile(name) for name in (DEFAULT_DRIVES if drives is None else drives)]
    if drives is None:
        profiles = [profile for profile in profiles if fits(profile, real, start)]

    def serve(reads: AccessTrace) -> tuple[Prediction, ...]:
        return tuple(
            prediction(service(reads, profile.with_cache(cache), start_offset_bytes=start, queue_depth=depth), profile)
            for profile in profiles
        )

    times = serve(real)
    if against is None:
        return ReplayResult(str(trace), len(real), int(real.length_bytes.sum()), times)
    with opened(against, request_of(options)) as image:
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
