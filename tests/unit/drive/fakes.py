"""Fake drives for calibration: the drive model itself, with a clock of its own."""

from __future__ import annotations

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import service
from layoutscope.drive.geometry import build_surface, num_segments, single_drives, split
from layoutscope.drive.hdd import CLOSED_LOOP, SECTOR_BYTES, TURN, new_drives
from layoutscope.drive.simulation import flash_ms

UNALIKE_TURNS = 0.37
"""Angle between the platters of the disks of a set, in turns."""


SURFACES = {}
"""Surfaces of the last drives by their figures; many tests measure the same one."""


def surface_of(leaf):
    """Lay out a whole drive, or return what was laid out before."""
    key = leaf.name, repr(leaf.figures)
    if key not in SURFACES:
        if len(SURFACES) == 4:
            del SURFACES[next(iter(SURFACES))]
        SURFACES[key] = build_surface(leaf, 0, leaf.capacity_bytes // SECTOR_BYTES - 1)
    return SURFACES[key]


class FakeDrive:
    """Stand-in for the device of `Calibration`; times are the model's, with optional host jitter.

    A stripe has a disk for each member. A mirror has two: it reads from the `first`, from each in turn (`turns`), or
    from the one that is idle and nearer (`nearest`).
    """

    def __init__(self, profile, *, host_ms=0.02, jitter_ms=0.0, mirror=None):
        """Start at time 0."""
        self.profile, self.mirror = profile, mirror
        self.capacity_bytes = profile.capacity_bytes
        self.host_ms, self.jitter_ms = host_ms, jitter_ms
        self.random = np.random.default_rng(5)
        self.now_ms = 0.0
        self.reads = 0
        leaves = single_drives(profile) * (2 if mirror else 1)
        if leaves[0].kind == "hdd":
            surface = surface_of(leaves[0])
            self.per_ms = TURN / leaves[0].turn_ms
            segments = num_segments(leaves[0], surface.segment_sectors)
            figures = np.array([surface.guess_shift, *surface[4:]], np.int64)
            self.tables = surface.runs, surface.guess, surface.seek, figures
            self.disks = [new_drives(surface, 1, segments) for _ in leaves]
            self.idle_ms, self.places = [0.0] * len(leaves), [0] * len(leaves)

    def read(self, offset, length):
        """Return when the model began the read and how long it took."""
        assert 0 <= offset <= self.capacity_bytes - length
        self.reads += 1
        late = float(self.random.exponential(self.jitter_ms)) if self.jitter_ms else 0.0
        began = self.now_ms
        self.now_ms = self._done_ms(offset, length) + late
        at_ns, ns = round(began * 1e6), round((self.now_ms - began) * 1e6)
        self.now_ms += self.host_ms
        return at_ns, ns

    def _done_ms(self, offset, length):
        """Serve a read that is requested now; return when its last piece is complete."""
        if self.profile.kind == "ssd":
            return self.now_ms + float(flash_ms(self.profile, np.array([length]))[0][0])
        if self.mirror:
            return self._serve(self._choose(offset), offset, length)
        _, *pieces = split(self.profile, np.array([offset]), np.array([length]), np.zeros(1, np.uint8))
        return max(self._serve(*part) for part in zip(*(column.tolist() for column in pieces), strict=True))

    def _choose(self, offset):
        """Return the disk of a mirror that serves a read."""
        if self.mirror == "first":
            return 0
        if self.mirror == "turns":
            return self.reads % 2
        return min(
            range(2), key=lambda number: (max(self.idle_ms[number], self.now_ms), abs(self.places[number] - offset))
        )

    def _serve(self, number, offset, length):
        self.places[number] = offset
        times, think = np.zeros((1, 5), np.int64), np.zeros(1, np.int64)
        first, stop = offset // SECTOR_BYTES, -(-(offset + length) // SECTOR_BYTES)
        begin = max(self.now_ms, self.idle_ms[number])
        ticks = round((begin + number * UNALIKE_TURNS * TURN / self.per_ms) * self.per_ms)
        piece = np.array([[0, 0, first, stop, 0]])
        CLOSED_LOOP(*self.tables, *self.disks[number], piece, think, ticks, times, np.zeros(1, np.uint8))
        self.idle_ms[number] = begin + float(times[0, 3]) / self.per_ms
        return self.idle_ms[number]

    def read_together(self, offsets, length, depth):
        """Return the model's time for a queue; the disks of a set take reads in order of arrival."""
        if not self.mirror and not self.profile.members:
            self.reads += len(offsets)
            reads = AccessTrace.from_reads(np.array(offsets), np.full(len(offsets), length))
            taken_s = service(reads, self.profile, queue_depth=depth).service_s
            self.now_ms += taken_s * 1000
            return round(taken_s * 1e9)
        began, under_way, done = self.now_ms, [], self.now_ms
        for offset in offsets:
            if len(under_way) == depth:
                self.now_ms = max(self.now_ms, under_way.pop(under_way.index(min(under_way))))
            self.reads += 1
            under_way.append(self._done_ms(offset, length))
            done = max(done, under_way[-1])
        self.now_ms = done
        return round((done - began) * 1e6)

    def wait(self, milliseconds):
        """Let time pass."""
        self.now_ms += milliseconds
