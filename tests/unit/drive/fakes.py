"""A drive under calibration that is none: the drive model itself, with a clock of its own."""

from __future__ import annotations

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.drive import service
from layoutscope.drive.geometry import build_surface, num_segments, turn_ms
from layoutscope.drive.hdd import SECTOR_BYTES, TURN, new_drives
from layoutscope.drive.simulation import flash_ms
from tests.unit.native.reference.hdd import Drives, drive_of, serve_read


class FakeDrive:
    """What `Calibration` takes for a device; times are the model's, with some jitter of a host if asked for."""

    def __init__(self, profile, *, host_ms=0.02, jitter_ms=0.0):
        """Start at time 0."""
        self.profile = profile
        self.capacity_bytes = profile.capacity_bytes
        self.host_ms, self.jitter_ms = host_ms, jitter_ms
        self.random = np.random.default_rng(5)
        self.now_ms = 0.0
        self.reads = 0
        if profile.kind == "hdd":
            surface = build_surface(profile, 0, profile.capacity_bytes // SECTOR_BYTES - 1)
            self.per_ms = TURN / turn_ms(profile)
            self.disk = drive_of(
                Drives(surface, *new_drives(surface, 1, num_segments(profile, surface.segment_sectors))), 0
            )

    def read(self, offset, length):
        """Return when the model began and how long it took."""
        assert 0 <= offset <= self.capacity_bytes - length
        self.reads += 1
        late = float(self.random.exponential(self.jitter_ms)) if self.jitter_ms else 0.0
        began = self.now_ms
        self.now_ms += self._service_ms(offset, length) + late
        at_ns, ns = round(began * 1e6), round((self.now_ms - began) * 1e6)
        self.now_ms += self.host_ms
        return at_ns, ns

    def _service_ms(self, offset, length):
        if self.profile.kind == "ssd":
            return float(flash_ms(self.profile, np.array([length]))[0][0])
        times = np.zeros(5, np.int64)
        first, stop = offset // SECTOR_BYTES, -(-(offset + length) // SECTOR_BYTES)
        serve_read(self.disk, first, stop, round(self.now_ms * self.per_ms), times)
        return float(times[3]) / self.per_ms

    def read_together(self, offsets, length, depth):
        """Return what the model says of a queue."""
        self.reads += len(offsets)
        reads = AccessTrace.from_reads(np.array(offsets), np.full(len(offsets), length))
        return round(service(reads, self.profile, queue_depth=depth).service_s * 1e9)

    def wait(self, milliseconds):
        """Let the time pass."""
        self.now_ms += milliseconds
