"""A disk whose times can be worked out by hand.

6000 rpm: 10 ms a turn. One head, 1000 cylinders of one track, 100 sectors a track: 0.1 ms a sector. A seek over d
cylinders takes 1 ms + 0.01 ms x (d - 1). The skew is 0.2 turns, so that a track takes 12 ms in a row. Track t begins at
angle 0.2 t.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.drive.profile import DriveProfile, Figure
from layoutscope.drive.recordings import Place, Recorded, check_reads, load_trace

SECTOR = 512
TRACK = 100 * SECTOR
FIGURES = {
    "capacity_bytes": 1000 * TRACK,
    "rpm": 6000,
    "heads": 1,
    "zones": [[0, 0, 100]],
    "track_skew_turns": 0.2,
    "seek_distance_cylinders": [1, 999],
    "seek_ms": [1.0, 10.98],
    "read_miss_ms": 0.5,
    "read_hit_ms": 0.0,
    "segments": 2,
    "segment_sectors": 100,
    "look_ahead": "segment",
    "join": "window",
}
FLASH = {
    "capacity_bytes": 1 << 40,
    "latency_bytes": [4096, 8192],
    "latency_us": [100, 120],
    "bandwidth_mb_s": 100,
    "parallel_reads": 4,
}


def figures(values):
    """Return figures of the values, all assumed."""
    return {name: Figure(value, "assumed", "made up") for name, value in values.items() if value is not None}


def disk(**changes):
    """Return the disk with some figures changed; a value of None removes the figure."""
    return DriveProfile("toy", "Toy", "hdd", figures(FIGURES | changes), Path())


def flash(**changes):
    """Return a flash drive: 100 us at 4 KiB, 120 us at 8 KiB, 100 MB/s beyond."""
    return DriveProfile("flash", "Flash", "ssd", figures(FLASH | changes), Path())


def drive_set(kind, *members, **values):
    """Return a set of drives."""
    return DriveProfile("set", "Set", kind, figures(values), Path(), members)


def trace(*sectors, count=8, think_ms=0.0):
    """Return reads of `count` sectors each; the first comes at once."""
    offsets = np.array(sectors, np.int64) * SECTOR
    reads = AccessTrace.from_reads(offsets, np.full(len(offsets), count * SECTOR), think_us=think_ms * 1000)
    reads.think_us[:1] = 0
    return reads


def read_trace(path, *, form="", think_us=None, block_bytes=SECTOR):
    """Read a trace file whose blocks are counted from the start of the image, or of one disk."""
    found = load_trace(path, form=form)
    if isinstance(found, Recorded):
        unit = found.unit_bytes or block_bytes
        found = found.trace([Place(device, unit) for device in found.devices])
    check_reads(path, found)
    if think_us is not None:
        found.think_us[:] = think_us
        found.think_us[:1] = 0
    return found
