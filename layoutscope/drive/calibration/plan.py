"""The reads of a calibration, step by step: up to 11,000 within a minute.

Each step is a generator of reads; earlier steps measure what a step must know of the drive. If a place matters, it is
drawn, always with the same seed.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import UsageError
from layoutscope.structs.arrays import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


HEADER: Final = ("step", "offset", "length", "at_ns", "ns")
FILE: Final = "file"
"""Marks, instead of a step, reads from a file."""

MAX_LINES: Final = 1_000_000
MAX_LOG_BYTES: Final = 128 << 20
_LARGEST: Final = 1 << 62


class Readable(Protocol):
    """A drive whose reads can be timed: a device, or a substitute for one."""

    capacity_bytes: int

    def read(self, offset: int, length: int) -> tuple[int, int]:
        """Read, and return when the read began and how long it took, in nanoseconds."""

    def read_together(self, offsets: list[int], length: int, depth: int) -> int:
        """Read with several reads outstanding."""

    def wait(self, milliseconds: float) -> None:
        """Let the drive read ahead for a while."""


class ReadLog(Rows, frozen=True):
    """Timed reads, in order; all arrays have shape (n_reads,)."""

    capacity_bytes: int  # size of the measured drive
    step: NDArray[np.str_]  # the step of the plan that made each read
    # offset, length: in bytes
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    # at_ns, ns: when each read began, by a monotonic clock, and how long it took
    at_ns: NDArray[np.int64]
    ns: NDArray[np.int64]
    is_file: bool = False  # whether a file was measured in place of a drive

    @property
    def ms(self) -> NDArray[np.float64]:
        """Return the time of each read in milliseconds."""
        return np.asarray(self.ns / 1e6)

    @property
    def done_ms(self) -> NDArray[np.float64]:
        """Return when each read was complete, in milliseconds from the start of the first."""
        return np.asarray((self.at_ns + self.ns - self.at_ns[:1].sum()) / 1e6)

    def of(self, *steps: str) -> ReadLog:
        """Return the reads of some steps."""
        return self.take(np.isin(self.step, steps))

    def text(self) -> str:
        """Return the log as CSV."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerow(("capacity", 0, self.capacity_bytes, 0, 0))
        if self.is_file:
            writer.writerow((FILE, 0, 0, 0, 0))
        columns = (column.tolist() for column in (self.step, self.offset, self.length, self.at_ns, self.ns))
        writer.writerows(zip(*columns, strict=True))
        return file.getvalue()


def make_log(capacity_bytes: int, rows: Iterable[tuple[str, int, int, int, int]]) -> ReadLog:
    """Make a log from rows: step, offset, length, start time, duration."""
    listed = list(rows)
    step, *numbers = zip(*listed, strict=True) if listed else ((), (), (), (), ())
    offset, length, at_ns, ns = (np.array(column, np.int64) for column in numbers)
    return ReadLog(capacity_bytes, np.array(step, np.str_), offset, length, at_ns, ns)


def read_log(text: str, name: str) -> ReadLog:
    """Read a log from CSV."""
    lines = csv.reader(io.StringIO(text))
    capacity, rows, is_file = 0, [], False
    try:
        if tuple(next(lines, ())) != HEADER:
            raise UsageError(f"{name}: is not a log of a calibration; it begins with {','.join(HEADER)}")
        for number, (step, *fields) in enumerate(lines, 2):
            offset, length, at_ns, ns = map(int, fields)
            if min(offset, length, at_ns, ns) < 0 or max(offset, length, at_ns, ns) > _LARGEST or number > MAX_LINES:
                raise UsageError(f"{name}: line {number} has a number that no drive gives, or there are too many lines")
            if step == "capacity":
                capacity = length
            elif step == FILE:
                is_file = True
            elif ns == 0:
                raise UsageError(f"{name}: line {number} is a read without a duration")
            else:
                rows.append((step[:16], offset, length, at_ns, ns))
    except (ValueError, csv.Error) as error:
        raise UsageError(f"{name}: line {lines.line_num} is not a timed read") from error
    if capacity < 1 or not rows or any(offset + length > capacity for _, offset, length, _, _ in rows):
        raise UsageError(f"{name}: has no capacity, no reads, or reads beyond the end of the drive")
    return replace(make_log(capacity, rows), is_file=is_file)


SEED: Final = 21
SMALL: Final = 4096
LARGE: Final = 1 << 20
PLACES: Final = 32
"""Number of places, from the outer to the inner edge, at which rate and tracks are measured."""
SWEPT_TRACKS: Final = 4
SWEEP: Final = 8
"""Reads per track when tracks are measured, so each step is an eighth of a revolution."""
SKIPS: Final = tuple(SMALL << k for k in range(11))
BEHIND: Final = tuple(round(SMALL * 2 ** (k / 4)) for k in range(8, 41))
"""Distances before the end of the data just read at which it is read again, a quarter of an octave apart."""
BEHIND_BYTES: Final = 4 << 20
QUICK: Final = 3.0
"""Factor on the time of reads from the buffer: reads that take longer do not come from it."""
AGAIN: Final = 3
"""Number of times that data just read is read again."""
GIVE_UP: Final = 8
"""Number of consecutive reads outside the buffer after which the search ends."""
ARRIVAL: Final = "arrival"
"""Step of reads that are each below the previous one and came from the buffer."""
REPEATED: Final = 300
"""Number of places that are read twice; most buffers have fewer segments of a track."""
REPEATED_OF_HELD: Final = 2400
"""Most places that are read twice if the buffer still contains the reads."""
FEWEST_TURNS: Final = 50
"""Fewest second reads from the medium that show the revolution time."""
LADDER: Final = 100
"""Number of reads per stride that measure the revolution."""
WAIT_MS: Final = 25.0
"""Time for the drive to read ahead: more than two revolutions at 5,400 rpm."""
HIT_BYTES: Final = (SMALL, 2 * SMALL, 4 * SMALL)
"""Sizes of reads from the buffer, whose times divide into overhead and transfer."""
STREAMS: Final = 64
FOLLOWED: Final = 3
"""Number of reads of each stream after its first, when several alternate."""
PACE_MS: Final = 0.5
"""Pause between these reads, in which the drive reads more of the stream ahead than is requested."""
ACROSS: Final = 0.3
ARM_PLACES: Final = 2 * (*3 * (0.05, 0.55), 0.05, ACROSS)
"""Starts of pairs of distant places, as shares of the drive. Two pairs straddle its middle, where a concatenation of
two disks has its border."""
ARM_DISTANCE: Final = 0.4
ARM_STEP: Final = 4 << 20
"""Unit of the distance between two reads at one place. It is a multiple of two chunks of any usual stripe, so both
reads are on one disk, and more than a track, so neither is in the buffer."""
STREAM_BYTES: Final = 8 << 20
STREAM_MS: Final = 200.0
STREAMED: Final = 120
HIT_MS: Final = 1.0
"""Reads with a lower median time do not come from a platter, which would have to turn."""
FLASH_MS: Final = 2.0
"""Random reads with a lower median time do not come from a disk."""
FLASH_BYTES: Final = (4 << 10, 16 << 10, 64 << 10, 128 << 10)
DEPTH: Final = 32
DEEP_READS: Final = 128
FLASH_DEPTHS: Final = (1, 2, 4, 8, 16, 32)
DISTANCES: Final = 24
LEAST_BYTES: Final = 64 << 20
"""A smaller drive cannot be measured."""


class Calibration:
    """The measurement of one drive: its reads so far, and its steps."""

    def __init__(self, drive: Readable) -> None:
        if drive.capacity_bytes < LEAST_BYTES:
            raise UsageError(f"a drive of {drive.capacity_bytes:,} bytes is too small to be measured")
        self.drive = drive
        self.rows: list[tuple[str, int, int, int, int]] = []
        self._random = np.random.default_rng(SEED)

    @property
    def log(self) -> ReadLog:
        """Return the reads so far."""
        return replace(make_log(self.drive.capacity_bytes, self.rows), is_file=getattr(self.drive, "is_file", False))

    def read(self, step: str, offset: int, length: int = SMALL) -> float:
        """Read once, and return the time in milliseconds."""
        offset = max(0, min(offset, self.drive.capacity_bytes - length)) // SMALL * SMALL
        at_ns, ns = self.drive.read(offset, length)
        self.rows.append((step, offset, length, at_ns, ns))
        return ns / 1e6

    @property
    def seconds(self) -> float:
        """Duration of the measurement so far."""
        return (max(at_ns + ns for *_, at_ns, ns in self.rows) - self.rows[0][3]) / 1e9 if self.rows else 0.0

    def is_flash(self) -> bool:
        """Let the drive spin up, discard ten reads, and return whether the next fifty are as fast as flash."""
        for offset in self.anywhere(10):
            self.read("start", offset)
        return float(np.median([self.read("kind", offset) for offset in self.anywhere(50)])) < FLASH_MS

    def anywhere(self, count: int) -> list[int]:
        """Draw places all over the drive."""
        blocks = self._random.integers(0, self.drive.capacity_bytes // SMALL - 1, count)
        return [int(block) * SMALL for block in blocks]

    def near(self, count: int) -> list[int]:
        """Draw places in one part of the drive, where seeks are short and the effects of the buffer dominate."""
        # Many places need more room: a drive may keep the whole track of each.
        span = min(max(count // REPEATED, 1) << 30, self.drive.capacity_bytes // 4)
        blocks = self._random.integers(0, span // SMALL, count)
        return [self.drive.capacity_bytes // 3 + int(block) * SMALL for block in blocks]

    def places(self, count: int = PLACES) -> list[int]:
        """Return places from the outer to the inner edge."""
        room = self.drive.capacity_bytes - 2 * STREAM_BYTES
        return [int(room * k / (count - 1)) // LARGE * LARGE for k in range(count)]

    def arms(self) -> None:
        """Read at one place, alternately at two distant places, and at both at once: two arms need not move."""
        for share in ARM_PLACES:
            starts = (np.array([share, share + ARM_DISTANCE]) + self._random.random(2) / 20) * self.drive.capacity_bytes
            # Equal steps would find the platter at the same angle.
            steps = ARM_STEP * self._random.integers(1, 9, (9, 2)).cumsum(axis=0)
            rows = np.maximum(starts.astype(np.int64) - steps, 0) // SMALL * SMALL
            for near, _ in rows[:3].tolist():
                self.read("close", near)
            for offset in rows[3:6].ravel().tolist():
                self.read("apart", offset)
            for offsets in rows[6:].tolist():
                self.rows.append(("together", offsets[0], SMALL, 0, self.drive.read_together(offsets, SMALL, 2)))

    def ladder(self, count: int = LADDER) -> bool:
        """Read with two strides, each read below the previous one: it takes a revolution minus the time of the stride.

        A drive that keeps its track on arrival has these reads in its buffer. Returns whether the drive does this.
        """
        start = self.drive.capacity_bytes // 3
        first = len(self.rows)
        for name, stride in (("turn", SMALL), ("turn-wide", 4 * SMALL)):
            start -= 4 * LARGE
            for k in range(count):
                self.read(name, start - k * stride)
        if float(np.median(self.log.of("turn-wide").ms)) > HIT_MS:
            return False
        self.rows[first:] = [(ARRIVAL, *row[1:]) for row in self.rows[first:]]
        return True

    def repeat(self, count: int = REPEATED) -> int:
        """Read places in one order and in reverse: whole revolutions pass between two reads of a place.

        Twice as many are read if the buffer still has nearly all of them. Returns the number still in the buffer.
        """
        places, first = self.near(count), len(self.rows)
        once, again = ([self.read("turn", offset) for offset in order] for order in (places, reversed(places)))
        least = float(np.median(once)) / QUICK
        held = sum(taken <= least for taken in again)
        if held > count - FEWEST_TURNS and count < REPEATED_OF_HELD:
            self.rows[first:] = [("held", *row[1:]) for row in self.rows[first:]]
            return self.repeat(min(2 * count, REPEATED_OF_HELD))
        return held

    def rates(self, places: int = PLACES) -> None:
        """Read streams at places from edge to edge, shorter ones on a slow drive."""
        for place in self.places(places):
            taken_ms = 0.0
            for k in range(STREAM_BYTES // LARGE):
                if k < 3 or taken_ms < STREAM_MS:
                    taken_ms += self.read("rates", place + k * LARGE, LARGE)

    def tracks(self, track_bytes: Iterable[float], *, in_turn: bool = False) -> None:
        """Read a few tracks downwards at each place, in steps of a share of a revolution according to the track size.

        With `in_turn`, reads alternate between places and continue on another track, because the drive keeps a track.
        """
        reads = []
        for number, (place, size) in enumerate(zip(self.places(), track_bytes, strict=True)):
            stride = max(round(size / SWEEP / SMALL), 1) * SMALL
            top = place + 2 * STREAM_BYTES - LARGE
            steps = range(int(SWEPT_TRACKS * size / stride) + 1)
            reads += [(k % SWEEP, k // SWEEP, number, top - k * stride) for k in steps]
        for *_, offset in sorted(reads) if in_turn else reads:
            self.read("tracks", offset)

    def hits(self, places: int = 16) -> None:
        """Read what the drive has read ahead, in several sizes, and the last piece again, which the buffer has."""
        for place in self.near(places):
            for number, length in enumerate(HIT_BYTES):
                start = place + number * 32 * LARGE
                self.read("before", start)
                self.drive.wait(WAIT_MS)
                for k in range(4):
                    self.read("hits", start + SMALL + k * length, length)
                for _ in range(AGAIN):
                    self.read("again", start + SMALL + 3 * length, length)

    def streams(self) -> None:
        """Read small contiguous pieces, at once or at a program's pace, like a program that reads a whole tree."""
        for number, place in enumerate(self.near(16)):
            self.read("before", place)
            for k in range(STREAMED):
                if number % 2:
                    self.drive.wait(0.1)
                self.read("paced" if number % 2 else "stream", place + SMALL + k * SMALL)

    def interleaved(self, most: int = STREAMS) -> None:
        """Read one stream at a fixed pace, then two alternately, then twice as many, until the drive cannot keep up."""
        count = 1
        while count <= most:
            places = self.near(count)
            for k in range(1 + FOLLOWED):
                for place in places:
                    self.read(f"streams{count}", place + k * SMALL)
                    self.drive.wait(PACE_MS)
            if not keeps_streams(self.log, count):
                break
            count *= 2

    def skips(self) -> None:
        """Read slightly ahead of the previous read, at once and after a wait."""
        for skip in SKIPS:
            for k, place in enumerate(self.near(20)):
                self.read("before", place)
                if k % 2:
                    self.drive.wait(WAIT_MS)
                self.read("late" if k % 2 else "skips", place + SMALL + int(skip * (1 + self._random.random())))

    def behind(self) -> None:
        """Read data again at growing distances before its end, until a segment no longer contains it."""
        quick = quick_ms(self.log)
        for place in self.near(24):
            for k in range(BEHIND_BYTES // LARGE):
                self.read("before", place + k * LARGE, LARGE)
            self.drive.wait(WAIT_MS)
            share = 2 ** (self._random.random() / 4)
            for distance in BEHIND:
                if self.read("behind", place + BEHIND_BYTES - int(distance * share)) > quick:
                    break

    def back(self) -> None:
        """Repeat the reads all over the drive, the last one first: the buffer still has one for each segment."""
        quick, misses = quick_ms(self.log), 0
        for step, offset, _, _, _ in reversed(list(self.rows)):
            if step not in ("pairs", "edge", "uniform") or misses == GIVE_UP:
                return
            misses = misses + 1 if self.read("back", offset) > quick else 0

    def pairs(self, count: int, shortest: float) -> None:
        """Read at distances from the shortest to the whole drive; short ones downwards, where nothing is read ahead."""
        capacity = self.drive.capacity_bytes
        place = int(self._random.integers(capacity))
        powers = (np.arange(count) % DISTANCES + self._random.random(count)) / DISTANCES
        low = np.log(shortest)
        for power in self._random.permutation(powers):
            distance = int(np.exp(low + power * (np.log(capacity * 0.97) - low)))
            down = place >= distance
            up = place + distance < capacity - SMALL and (distance > 4 * STREAM_BYTES or not down)
            if not (up or down):
                # The longest distances are impossible from the middle of the drive; they begin at an edge.
                place = int(self._random.integers(capacity - distance))
                self.read("edge", place)
                up, down = True, False
            place += distance if up and (not down or self._random.random() < 1 / 2) else -distance
            self.read("pairs", place)

    def uniform(self, count: int = 400) -> None:
        """Read at random places; nothing is fitted to these reads."""
        for offset in self.anywhere(count):
            self.read("uniform", offset)

    def deep(self, depths: Iterable[int]) -> None:
        """Read at random places with several outstanding reads, and record the total time."""
        for depth in depths:
            ns = self.drive.read_together(self.anywhere(DEEP_READS), SMALL, depth)
            self.rows.append((f"depth{depth}", 0, DEEP_READS * SMALL, 0, ns))

    def sizes(self) -> None:
        """Read all sizes at random places, which is enough to describe flash."""
        for length in FLASH_BYTES:
            for offset in self.anywhere(60):
                self.read("sizes", offset, length)

    def walk(self, reads: Iterable[tuple[int, int]]) -> None:
        """Read the predicted reads of an image; they are not used for the fit."""
        for offset, length in reads:
            self.read("walk", offset, length)


def quick_ms(log: ReadLog, step: str = "hits") -> float:
    """Return the longest time of a read from the buffer: a few times that of hits, and a small part of a revolution."""
    hits, turn = log.of(step), log.of("turn")
    most = float(np.median(turn.ms)) / QUICK if len(turn) else np.inf
    return min(QUICK * float(np.median(hits.ms)), most) if len(hits) else most


def keeps_streams(log: ReadLog, count: int) -> bool:
    """Return whether the drive read ahead for this many alternating streams: most reads are in the buffer."""
    followed = log.of(f"streams{count}").ms[count:]
    return len(followed) > 0 and float(np.median(followed)) <= quick_ms(log)
