"""``replay``: what drives make of somebody's real reads, and how well a prediction meets them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.analysis.explanation import host_times, measured_times
from layoutscope.analysis.placing import place
from layoutscope.api.images import only_volume
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.predict import DEFAULT_DRIVES, fits
from layoutscope.api.reading import opened, request_of
from layoutscope.api.workloads import checked, entries_of, knows_offset, met_best, refuse_unused, said_of, work_of
from layoutscope.display import Struct
from layoutscope.drive import service
from layoutscope.drive.recordings import Recorded, check_reads, load_trace
from layoutscope.drive.simulation import draw_interval
from layoutscope.drive.uncertain import uncertain
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.options import ReplayOptions, fill, leave_out
from layoutscope.results.predict import ReplayResult
from layoutscope.results.recorded import Wanted
from layoutscope.results.scan import Prediction

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from layoutscope.access.driver import HostProfile
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile, ServiceResult
    from layoutscope.drive.uncertain import Interval
    from layoutscope.options import Workload
    from layoutscope.results.recorded import Recording
    from layoutscope.tables import VolumeLayout

LARGEST_UNIT: Final = 1 << 20
"""Of what a block number counts."""


@takes(ReplayOptions)
def replay(
    trace: str | os.PathLike[str],
    *,
    workload: Workload | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Compute the service time of a trace, and hold a prediction against it.

    Parameters
    ----------
    trace : path
        CSV, an iolog of fio, the text of blkparse, ``fs_usage``, iosnoop or biosnoop, or pairs of 64-bit numbers;
        compressed too. What a tool of macOS has recorded is held against ``host="macos"`` unless that is given.
    workload : Workload, optional
        The keywords from ``order`` to ``passes`` together, for those who keep them in a dictionary.
    **options
        How the trace is served, what was done on the image, and how that is read: see
        :class:`~layoutscope.options.ReplayOptions`.

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
    asked, given = fill(ReplayOptions, options), work_of(options, workload)
    against, is_host_given = asked["against"], given.get("host") is not None
    work = checked(given if is_host_given else leave_out(given, ["host"]))
    refuse_unused(work)
    told = load_trace(Path(trace), form=asked["form"])
    wanted = wanted_of(asked)
    if isinstance(told, Recorded) and not is_host_given:
        work["host"] = told.host
    layout = None
    if against is not None:
        with opened(against, request_of(options, against)) as image:
            layout = only_volume(image.layouts)
    real = real_reads(trace, told, wanted, layout)
    return replayed(real, served_by(asked, real), layout, work)


class Real(Struct, frozen=True):
    """Somebody's reads."""

    name: str  # of their file
    reads: AccessTrace  # as drives serve them
    used: Recorded | None = None  # of a recording by blocks: the same reads as it tells them
    recording: Recording | None = None  # what became of the rest of it


class Serving(Struct, frozen=True):
    """How reads are served: by which drives, with which buffer, from where, at which pace.

    With `draws` predictions have the interval over drives and computers like that, as those of ``predict`` have.
    """

    profiles: tuple[DriveProfile, ...]
    buffer: str = "own"
    start_offset_bytes: int = 0
    queue_depth: int = 1
    think_us: float | None = None
    draws: bool = False

    def serve(self, reads: AccessTrace) -> list[tuple[ServiceResult, DriveProfile]]:
        """Serve reads on each drive."""
        how = {"start_offset_bytes": self.start_offset_bytes, "queue_depth": self.queue_depth}
        return [(service(reads, each.with_cache(self.buffer), **how), each) for each in self.profiles]

    def interval(
        self, reads: AccessTrace, profile: DriveProfile, host: HostProfile, *, knows_offset: bool
    ) -> Interval | None:
        """Draw drives and hosts like these, where that is asked for."""
        if not self.draws:
            return None
        unknown = uncertain(profile, said_of(host), knows_offset=knows_offset)
        return draw_interval(reads, profile, unknown, start_offset_bytes=self.start_offset_bytes)


def served_by(asked: ReplayOptions, real: Real) -> Serving:
    """Say what serves reads; of the usual drives those that are too small for them are left out."""
    profiles = profiles_of(asked["drives"], DEFAULT_DRIVES)
    start, think_us = asked["start_offset_bytes"], asked["think_us"]
    if asked["drives"] is None:
        profiles = [profile for profile in profiles if fits(profile, real.reads, start)]
    if think_us is not None:
        real.reads.think_us[:] = think_us
        real.reads.think_us[:1] = 0
    return Serving(tuple(profiles), asked["buffer"], start, asked["queue_depth"], think_us)


def replayed(real: Real, serving: Serving, layout: VolumeLayout | None, work: Workload) -> ReplayResult:
    """Serve reads, and hold the prediction for an image against them."""
    served = serving.serve(real.reads)
    timed = real.used if real.used is not None and real.used.is_timed else None
    result = ReplayResult(
        real.name,
        len(real.reads),
        int(real.reads.length_bytes.sum()),
        tuple(Prediction.of(each, profile) for each, profile in served),
        recording=real.recording,
        measured=tuple(measured_times(timed, each) for each, _ in served) if timed is not None else (),
    )
    if layout is None:
        return result
    met, driver = met_best(real.reads, layout, work)
    host, paced = met.model.host, _paced_alike(met.predicted, real.reads, serving.think_us)
    knows = knows_offset(layout, serving.start_offset_bytes)
    return replace(
        result,
        expected=tuple(
            Prediction.of(each, profile, serving.interval(paced, profile, host, knows_offset=knows))
            for each, profile in serving.serve(paced)
        ),
        agreement=met.agreement,
        host=host_times(timed, met.predicted, entries_of(met.model, work)) if timed is not None else None,
        driver=driver,
    )


def wanted_of(asked: ReplayOptions) -> Wanted:
    """Gather what is said of a recording."""
    unit, devices = asked["trace_unit"], asked["trace_devices"] or ()
    if unit is not None and not 0 < unit <= LARGEST_UNIT:
        raise UsageError(f"a block of a disk has 1 to {LARGEST_UNIT:,} bytes, not {unit:,}")
    names = tuple(name.removeprefix("/dev/") for name in devices)
    return Wanted(unit, asked["trace_at"], names, tuple(asked["trace_processes"] or ()))


def real_reads(
    path: str | os.PathLike[str], told: AccessTrace | Recorded, wanted: Wanted, layout: VolumeLayout | None
) -> Real:
    """Find out where the reads of a recording are; any other trace says it."""
    if not isinstance(told, Recorded):
        if wanted != Wanted():
            raise UsageError(
                "unit, start, device and process are those of a recording by blocks, which this trace is not"
            )
        check_reads(Path(path), told)
        return Real(str(path), told)
    for kind, names, there in (("device", wanted.devices, told.devices), ("process", wanted.processes, told.processes)):
        unknown = [name for name in names if name not in there]
        if unknown:
            hint = did_you_mean(unknown[0], there)
            raise UsageError(f"{path}: no read of {kind} {unknown[0]!r}{hint}; there are {', '.join(there)}")
    used, recording = place(told, wanted, layout)
    if not len(used):
        raise UsageError(f"{path}: no read is left of those devices and processes")
    reads = used.trace([item.place for item in recording.placed])
    check_reads(Path(path), reads)
    return Real(str(path), reads, used, recording)


def _paced_alike(predicted: AccessTrace, real: AccessTrace, think_us: float | None) -> AccessTrace:
    """Give a prediction the host time of the trace where that is one for all, none at all among them.

    While the host works the disk turns, so that the same reads at another pace are served in other times.
    """
    if think_us is None and real.think_us.any():
        return predicted
    pace = np.full(len(predicted), think_us or 0.0)
    pace[:1] = real.think_us[:1]
    return replace(predicted, think_us=pace, after_us=0.0)
