"""A hard disk in a hundred lines, for readers who want to check the drive model's arithmetic.

It knows only a drive's data sheet and shares no code with :mod:`layoutscope.drive`. All tracks are as long as the
outermost, seek time grows with the square root of the distance, a platter's angle follows from the clock, and the
buffer holds segments of a track that are filled as the platter turns. ``python -m tests.validation.arithmetic TRACE.csv
PROFILE`` prints the seconds of a trace that ``layoutscope trace IMAGE -o TRACE.csv`` wrote.
"""

from __future__ import annotations

import csv
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope.drive import load_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass
class Segment:
    """A part of the buffer: bytes from `begin` to `end` are in it, and look-ahead continues up to `limit`."""

    begin: float
    end: float
    limit: float
    time_s: float  # when `end` was reached


def serve_seconds(
    reads: Iterable[tuple[int, int, float]],  # offset and length in bytes, host seconds before the read
    sheet: Mapping[str, float | str],  # the figures of a profile, by name
) -> float:
    """Return the total time of reads that are issued one at a time."""
    turn_s, one_track_s = 60 / sheet["rpm"], sheet["track_to_track_ms"] / 1000
    # A data sheet gives the sustained rate: one revolution plus the step to the next track reads one track.
    bytes_per_s = sheet["outer_mb_s"] * 1e6
    track = int(bytes_per_s * (turn_s + one_track_s))
    mean_track = track * (1 + sheet["inner_mb_s"] / sheet["outer_mb_s"]) / 2
    cylinders = sheet["capacity_bytes"] / (mean_track * sheet["heads"])
    # Two random cylinders are a third of the stroke apart, so that distance takes the average seek time.
    root_s = (sheet["average_seek_ms"] / 1000 - one_track_s) / math.sqrt(cylinders / 3)
    max_segments = int(sheet["buffer_bytes"] / track)

    now_s, cylinder = 0.0, 0
    segments: list[Segment] = []  # most recently used last
    active: Segment | None = None  # the one that look-ahead is filling
    for offset, length, think_s in reads:
        now_s += think_s
        stop = offset + length
        if active is not None:
            read_ahead = active.end + (now_s - active.time_s) * bytes_per_s
            active.end, active.time_s = min(active.limit, read_ahead), now_s
            active.begin = max(active.begin, active.end - track)
        held = [item for item in segments if item.begin <= offset and stop <= item.end]
        found = held[-1] if held else None
        if found is None and active is not None and _may_wait(active, offset, track):
            found = active
        is_running = active is not None and active.end < active.limit
        if found is None or (stop > found.end and not is_running):
            # Look-ahead that has reached its limit continues only after another read from the platter.
            first, begin = (offset, offset) if found is None else (found.end, found.begin)
            now_s += sheet["read_miss_ms"] / 1000
            target = first // track // int(sheet["heads"])
            if target != cylinder:
                now_s += one_track_s + root_s * math.sqrt(abs(target - cylinder) - 1)
            # Track skew equals the time of a one-track seek, so sequential reading loses no revolution.
            angle = first / track + first // track * one_track_s / turn_s
            wait_s = (angle - now_s / turn_s) % 1 * turn_s
            now_s += wait_s + (stop - first) / bytes_per_s
            cylinder = target
            active = Segment(begin, stop, stop + track / 2, now_s)
            if sheet.get("on_arrival") == "track":
                # The buffer also holds the part of this track that passed under the head before the read began.
                active.begin = min(begin, max(first - wait_s / turn_s * track, first // track * track))
            segments = [*(item for item in segments if item is not found), active][-max_segments:]
            continue
        if found is active and stop > found.end:
            now_s += (stop - found.end) / bytes_per_s
            found.end, found.time_s = stop, now_s
        else:
            now_s += sheet["read_hit_ms"] / 1000
        if found is active and is_running:
            found.limit = max(found.limit, stop + track / 2)
            cylinder = int(found.end) // track // int(sheet["heads"])
        elif found is not active:
            active = None  # a hit in another segment ends the look-ahead
        segments.remove(found)
        segments.append(found)
    return now_s


def _may_wait(active: Segment, offset: int, track: int) -> bool:
    """Whether a read begins in the active segment, or less than a track after the current look-ahead position."""
    return active.begin <= offset < min(active.limit, active.end + track)


def main(trace: str, profile: str) -> None:
    """Print the seconds of a trace on a drive."""
    with Path(trace).open(encoding="utf-8", newline="") as file:
        rows = [
            (int(row["image_offset"]), int(row["length_bytes"]), float(row["think_us"]) / 1e6)
            for row in csv.DictReader(file)
        ]
    sheet = {name: figure.value for name, figure in load_profile(profile).figures.items()}
    sys.stdout.write(f"{serve_seconds(rows, sheet):.3g} s\n")  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
