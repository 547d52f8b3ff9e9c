"""The loops of rotating disks in C and in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.drive import hdd
from layoutscope.drive.geometry import build_surface, num_segments
from layoutscope.drive.hdd import Surface
from layoutscope.structs.native import RefusedError
from tests.unit.drive.toys import SECTOR, disk
from tests.unit.native.fences import EXAMPLES, Fenced, spoil
from tests.unit.native.reference.hdd import Drives, ServedPieces, closed_loop, queued_loop

KERNELS = {"closed": (hdd.CLOSED_LOOP, closed_loop), "queued": (hdd.QUEUED_LOOP, queued_loop)}


def new_drives(profile, count) -> Drives:
    """Return disks of one kind with their first sectors laid out."""
    tracks = build_surface(profile, 0, 3000)
    return Drives(tracks, *hdd.new_drives(tracks, count, num_segments(profile, tracks.segment_sectors)))


@st.composite
def drives(draw) -> Drives:
    """Return disks of every kind in the model, as many as a set may have."""
    zones = [[0, 0, 100], [500, 5, 7], [640, 25, 3]] if draw(st.booleans()) else [[0, 0, 100]]
    profile = disk(
        zones=zones,
        capacity_bytes=draw(st.sampled_from([1000, 3000])) * SECTOR,
        heads=draw(st.integers(1, 3)),
        band_cylinders=draw(st.sampled_from([None, 0, 2])),
        head_switch_ms=draw(st.sampled_from([None, 0.3, 2.0])),
        seek_distance_cylinders=[1, 999],
        start_anywhere=draw(st.integers(0, 1)),
        look_ahead=draw(st.sampled_from(["none", "segment", "track"])),
        on_arrival=draw(st.sampled_from(["none", "track"])),
        join=draw(st.sampled_from(["never", "next-sector", "window"])),
        segments=draw(st.integers(1, 4)),
        segment_sectors=draw(st.sampled_from([8, 100, 250])),
        read_hit_ms=draw(st.sampled_from([0.0, 0.2])),
        interface_mb_s=draw(st.sampled_from([None, 4.096])),
    )
    return new_drives(profile, draw(st.integers(1, 3)))


@st.composite
def reads(draw, some: Drives, *, queued: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pieces of reads, near and far, on these disks and on flash, and the loop's other arguments."""
    last = int(some.surface.runs[-1, 0])
    count = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    near = rng.integers(0, min(300, last - 1), count)
    first = np.where(rng.random(count) < 0.7, near, rng.integers(0, last - 1, count))
    stop = np.minimum(first + rng.integers(0, 120, count), last)
    drive = np.zeros(count, np.int64) if queued else rng.integers(-1, len(some.arms), count)
    number = np.arange(count) if queued else np.cumsum(rng.integers(0, 2, count))
    parts = np.stack([number, drive, first, stop, rng.integers(0, 2**32, count)], axis=1).astype(np.int64)
    if queued:
        return parts, np.zeros(draw(st.integers(1, 8)), np.int64)
    return parts, rng.integers(0, draw(st.sampled_from([1, 2**30, 2**34])), count + 1)


def buffers(some: Drives, parts: np.ndarray, extra: np.ndarray) -> list[np.ndarray]:
    """Return all buffers of a kernel in order, outputs last."""
    surface = some.surface
    figures = np.array([surface.guess_shift, *surface[4:]], np.int64)
    return [
        surface.runs, surface.guess, surface.seek, figures, some.arms, some.segments, parts, extra,
        np.zeros((len(parts), 5), np.int64), np.zeros(len(parts), np.uint8),
    ]  # fmt: skip


def run_kernel(kernel, fenced: Fenced, now: int) -> bool:
    """Run a kernel between fences; return whether it accepted the input."""
    *given, spent, outcomes = fenced.copies
    accepted = kernel.attempt(*given, now, spent, outcomes) is not None
    assert fenced.hold()
    assert fenced.unchanged(0, 1, 2, 3, 6)
    return accepted


def run_twin(loop, given: list[np.ndarray], now: int) -> list[np.ndarray]:
    """Run the Python loop on copies; return its output."""
    runs, guess, seek, figures, arms, segments, parts, extra, spent, outcomes = (each.copy() for each in given)
    shift, *rest = (int(figure) for figure in figures)
    surface = Surface(runs, guess, shift, seek, *rest)
    loop(Drives(surface, arms, segments), parts, extra, now, ServedPieces(spent, outcomes))
    return [arms, segments, extra, spent, outcomes]


@pytest.mark.parametrize("name", KERNELS)
@EXAMPLES
@given(data=st.data())
def test_every_tick_is_the_same(name, data):
    """On sound disks the kernel refuses nothing and gives the ticks, hits and states of the Python loop.

    With any number replaced and any end cut off, nothing outside is touched; accepted input gives right results.
    """
    kernel, loop = KERNELS[name]
    some = data.draw(drives())
    sound = buffers(some, *data.draw(reads(some, queued=name == "queued")))
    for arrays, latest in ((sound, 2**32), (spoil(data.draw, sound), 2**62)):
        fenced = Fenced(*arrays)
        now = data.draw(st.integers(0, latest))
        if not run_kernel(kernel, fenced, now):
            assert arrays is not sound
            continue
        # Accepted: the lengths fit, so the shapes are valid again.
        shapes = [(-1, 8), (-1,), (-1,), (-1,), (-1, 8), None, (-1, 5), (-1,), (-1, 5), (-1,)]
        shapes[5] = (fenced.originals[4].size // 8, -1, 3)
        tables = [array.reshape(shape) for array, shape in zip(fenced.originals, shapes, strict=True)]
        for ours, theirs in zip([fenced.copies[k] for k in (4, 5, 7, 8, 9)], run_twin(loop, tables, now), strict=True):
            assert np.array_equal(ours.ravel(), theirs.ravel())


def test_what_is_refused_is_an_error():
    """Times that overflow the kernel's sums give an error that names the kernel."""
    parts = np.array([[0, 0, 5, 9, 0], [1, 0, 700, 705, 0]])
    with pytest.raises(RefusedError, match="closed_loop"):
        hdd.serve_pieces(build_surface(disk(), 0, 3000), 1, 1, parts, np.full(2, 2**62), 2**62)
