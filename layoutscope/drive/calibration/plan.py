"""The reads of a calibration, step by step: up to 11,000 within a minute.

Each step is a generator of reads; what a step must know of the drive was measured by the ones before it. Where a place
matters it is drawn, always with the same seed.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


HEADER: Final = ("step", "offset", "length", "at_ns", "ns")
FILE: Final = "file"
"""In place of a step: the reads are those of a file."""

MAX_LINES: Final = 1_000_000
MAX_LOG_BYTES: Final = 128 << 20
_LARGEST: Final = 1 << 62


class Readable(Protocol):
    """A drive that reads can be timed on: a device, or a substitute for one."""

    capacity_bytes: int

    def read(self, offset: int, length: int) -> tuple[int, int]:
        """Read, and return when it began and how long it took, in nanoseconds."""

    def read_together(self, offsets: list[int], length: int, depth: int) -> int:
        """Read with several reads outstanding."""

    def wait(self, milliseconds: float) -> None:
        """Let the drive read ahead for a while."""


class ReadLog(Struct, frozen=True):
    """Timed reads, in order; all arrays have shape (n_reads,)."""

    capacity_bytes: int  # size of the drive that they were made on
    step: NDArray[np.str_]  # the step of the plan that asked for each
    # offset, length: in bytes
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    # at_ns, ns: when each began, by a clock that only goes on, and how long it took
    at_ns: NDArray[np.int64]
    ns: NDArray[np.int64]
    is_file: bool = False  # whether that was a file in place of a drive

    def __len__(self) -> int:
        return len(self.ns)

    @property
    def ms(self) -> NDArray[np.float64]:
        """Return how long each read took, in milliseconds."""
        return np.asarray(self.ns / 1e6)

    @property
    def done_ms(self) -> NDArray[np.float64]:
        """Return when each read was complete, from the first one on."""
        return np.asarray((self.at_ns + self.ns - self.at_ns[:1].sum()) / 1e6)

    def of(self, *steps: str) -> ReadLog:
        """Return the reads of some steps."""
        return self.where(np.isin(self.step, steps))

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> ReadLog:
        """Return some of the reads."""
        columns = {name: getattr(self, name)[chosen] for name in ("step", "offset", "length", "at_ns", "ns")}
        return replace(self, **columns)

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
    """Make a log of rows: step, offset, length, beginning, duration."""
    listed = list(rows)
    step, *numbers = zip(*listed, strict=True) if listed else ((), (), (), (), ())
    offset, length, at_ns, ns = (np.array(column, np.int64) for column in numbers)
    return ReadLog(capacity_bytes, np.array(step, np.str_), offset, length, at_ns, ns)


def read_log(text: str, name: str) -> ReadLog:
    """Read a log from its CSV."""
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
"""Places, from the outer to the inner edge, at which rate and tracks are measured."""
SWEPT_TRACKS: Final = 4
SWEEP: Final = 8
"""Reads a track where tracks are measured, so that each step turns by an eighth."""
SKIPS: Final = tuple(SMALL << k for k in range(11))
BEHIND: Final = tuple(round(SMALL * 2 ** (k / 4)) for k in range(8, 41))
"""How far back from where the reading ended it is asked for again, a quarter of an octave each time."""
BEHIND_BYTES: Final = 4 << 20
QUICK: Final = 3.0
"""Times what comes from the buffer at once: reads that take longer do not come from it."""
AGAIN: Final = 3
"""Times that what was just read is asked for again."""
GIVE_UP: Final = 8
"""Consecutive reads that are no longer in the buffer, after which the search ends."""
ARRIVAL: Final = "arrival"
"""Step of reads before the read before that came from the buffer."""
REPEATED: Final = 300
"""Places that are read twice; more than most buffers have segments of a track."""
REPEATED_OF_HELD: Final = 2400
"""So many at last where the buffer holds what was read."""
FEWEST_TURNS: Final = 50
"""Fewest places whose second read comes from the medium, to find the turn."""
LADDER: Final = 100
"""Reads of each stride that measure the turn."""
WAIT_MS: Final = 25.0
"""For which the drive may read ahead: more than two turns at 5,400 rpm."""
HIT_BYTES: Final = (SMALL, 2 * SMALL, 4 * SMALL)
"""Sizes of reads from the buffer: what a read takes by its size is overhead and transfer."""
STREAMS: Final = 64
FOLLOWED: Final = 3
"""Reads of each stream after its first, when several are read in turn."""
PACE_MS: Final = 0.5
"""Between them, in which the drive reads ahead of the stream by more than is asked for."""
ACROSS: Final = 0.3
ARM_PLACES: Final = 2 * (*3 * (0.05, 0.55), 0.05, ACROSS)
"""Where pairs of far places begin, as shares of the drive. Two pairs straddle its middle, where a concatenation of two
disks has its border."""
ARM_DISTANCE: Final = 0.4
ARM_STEP: Final = 4 << 20
"""Between two reads at one place there are some of these. That is a multiple of two chunks of any usual stripe, so both
reads are on one disk, and more than a track, so neither is in the buffer."""
STREAM_BYTES: Final = 8 << 20
STREAM_MS: Final = 200.0
STREAMED: Final = 120
HIT_MS: Final = 1.0
"""Reads that take less on the median come from no platter, which would have to turn."""
FLASH_MS: Final = 2.0
"""Random reads that take less on the median come from no disk."""
FLASH_BYTES: Final = (4 << 10, 16 << 10, 64 << 10, 128 << 10)
DEPTH: Final = 32
FLASH_DEPTHS: Final = (1, 2, 4, 8, 16, 32)
DISTANCES: Final = 24
LEAST_BYTES: Final = 64 << 20
"""On less there is nothing to be measured."""


class Calibration:
    """The measurement of one drive: what was read so far, and the steps."""

    def __init__(self, drive: Readable) -> None:
        if drive.capacity_bytes < LEAST_BYTES:
            raise UsageError(f"a drive of {drive.capacity_bytes:,} bytes is too small to be measured")
        self.drive = drive
        self.rows: list[tuple[str, int, int, int, int]] = []
        self._random = np.random.default_rng(SEED)

    @property
    def log(self) -> ReadLog:
        """Return what was read so far."""
        return replace(make_log(self.drive.capacity_bytes, self.rows), is_file=getattr(self.drive, "is_file", False))

    def read(self, step: str, offset: int, length: int = SMALL) -> float:
        """Read once; milliseconds that it took."""
        offset = max(0, min(offset, self.drive.capacity_bytes - length)) // SMALL * SMALL
        at_ns, ns = self.drive.read(offset, length)
        self.rows.append((step, offset, length, at_ns, ns))
        return ns / 1e6

    @property
    def seconds(self) -> float:
        """How long the measurement has taken so far."""
        return (max(at_ns + ns for *_, at_ns, ns in self.rows) - self.rows[0][3]) / 1e9 if self.rows else 0.0

    def is_flash(self) -> bool:
        """Let the drive spin up, discard ten reads, and look how long the next fifty take."""
        for offset in self.anywhere(10):
            self.read("start", offset)
        return float(np.median([self.read("kind", offset) for offset in self.anywhere(50)])) < FLASH_MS

    def anywhere(self, count: int) -> list[int]:
        """Draw places all over the drive."""
        blocks = self._random.integers(0, self.drive.capacity_bytes // SMALL - 1, count)
        return [int(block) * SMALL for block in blocks]

    def near(self, count: int) -> list[int]:
        """Draw places in one part of the drive, where the arm has no long way: only what the buffer does matters."""
        # Many places need more room: a drive may keep the whole track of each.
        span = min(max(count // REPEATED, 1) << 30, self.drive.capacity_bytes // 4)
        blocks = self._random.integers(0, span // SMALL, count)
        return [self.drive.capacity_bytes // 3 + int(block) * SMALL for block in blocks]

    def places(self, count: int = PLACES) -> list[int]:
        """Return places from the outer to the inner edge."""
        room = self.drive.capacity_bytes - 2 * STREAM_BYTES
        return [int(room * k / (count - 1)) // LARGE * LARGE for k in range(count)]

    def arms(self) -> None:
        """Read at one place, at two far places in turn, and at both at once: two arms need not move between them."""
        for share in ARM_PLACES:
            starts = (np.array([share, share + ARM_DISTANCE]) + self._random.random(2) / 20) * self.drive.capacity_bytes
            # Steps of one length would find the platter at one angle.
            steps = ARM_STEP * self._random.integers(1, 9, (9, 2)).cumsum(axis=0)
            rows = np.maximum(starts.astype(np.int64) - steps, 0) // SMALL * SMALL
            for near, _ in rows[:3].tolist():
                self.read("close", near)
            for offset in rows[3:6].ravel().tolist():
                self.read("apart", offset)
            for offsets in rows[6:].tolist():
                self.rows.append(("together", offsets[0], SMALL, 0, self.drive.read_together(offsets, SMALL, 2)))

    def ladder(self, count: int = LADDER) -> bool:
        """Read upwards by two strides, each read below the one before: it lacks a turn by what it is lower.

        A drive that keeps its track on arrival has these reads in its buffer. Returns whether the drive is such a one.
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
        """Read places in one order and in the opposite one: between two reads of a place pass whole turns.

        Twice as many where the buffer has nearly all of them when they are read again. Returns how many it has.
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
        """Read streams at places from edge to edge, shorter ones of a slow drive."""
        for place in self.places(places):
            taken_ms = 0.0
            for k in range(STREAM_BYTES // LARGE):
                if k < 3 or taken_ms < STREAM_MS:
                    taken_ms += self.read("rates", place + k * LARGE, LARGE)

    def tracks(self, track_bytes: Iterable[float], *, in_turn: bool = False) -> None:
        """Read a few tracks downwards at each place, by what they hold there, a share of a turn each time.

        In turn: each read at another place, and the next one there on another track, because the drive keeps a track.
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
        """Read what the drive has read ahead, in several sizes, and the last again: that the buffer has."""
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
        """Read small contiguous pieces, at once or at a program's pace, as a reader of a whole tree does."""
        for number, place in enumerate(self.near(16)):
            self.read("before", place)
            for k in range(STREAMED):
                if number % 2:
                    self.drive.wait(0.1)
                self.read("paced" if number % 2 else "stream", place + SMALL + k * SMALL)

    def interleaved(self, most: int = STREAMS) -> None:
        """Read one stream at a pace, then two in turn, then twice as many, until the drive does not keep up."""
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
        """Read a little ahead of the read before, at once and after a wait."""
        for skip in SKIPS:
            for k, place in enumerate(self.near(20)):
                self.read("before", place)
                if k % 2:
                    self.drive.wait(WAIT_MS)
                self.read("late" if k % 2 else "skips", place + SMALL + int(skip * (1 + self._random.random())))

    def behind(self) -> None:
        """Come back to what was just read, further and further from its end, until a segment does not hold it."""
        quick = self.quick_ms()
        for place in self.near(24):
            for k in range(BEHIND_BYTES // LARGE):
                self.read("before", place + k * LARGE, LARGE)
            self.drive.wait(WAIT_MS)
            share = 2 ** (self._random.random() / 4)
            for distance in BEHIND:
                if self.read("behind", place + BEHIND_BYTES - int(distance * share)) > quick:
                    break

    def back(self) -> None:
        """Come back to the reads all over the drive, the last one first: as many are held as there are segments."""
        quick, misses = self.quick_ms(), 0
        for step, offset, _, _, _ in reversed(list(self.rows)):
            if step not in ("pairs", "edge", "uniform") or misses == GIVE_UP:
                return
            misses = misses + 1 if self.read("back", offset) > quick else 0

    def quick_ms(self) -> float:
        """Return how long a read from the buffer takes at most."""
        log = self.log
        return quick_ms(log.of("hits"), log.of("turn"))

    def pairs(self, count: int, shortest: float) -> None:
        """Read at distances from the shortest to the whole drive; short ones down, where nothing was read ahead."""
        capacity = self.drive.capacity_bytes
        place = int(self._random.integers(capacity))
        powers = (np.arange(count) % DISTANCES + self._random.random(count)) / DISTANCES
        low = np.log(shortest)
        for power in self._random.permutation(powers):
            distance = int(np.exp(low + power * (np.log(capacity * 0.97) - low)))
            down = place >= distance
            up = place + distance < capacity - SMALL and (distance > 4 * STREAM_BYTES or not down)
            if not (up or down):
                # From the middle of the drive the longest distances lead nowhere; they begin at an edge.
                place = int(self._random.integers(capacity - distance))
                self.read("edge", place)
                up, down = True, False
            place += distance if up and (not down or self._random.random() < 1 / 2) else -distance
            self.read("pairs", place)

    def uniform(self, count: int = 400) -> None:
        """Read anywhere; nothing is fitted to it."""
        for offset in self.anywhere(count):
            self.read("uniform", offset)

    def deep(self, depths: Iterable[int], count: int = 128) -> None:
        """Read anywhere with several reads outstanding; the time is that of all together."""
        for depth in depths:
            ns = self.drive.read_together(self.anywhere(count), SMALL, depth)
            self.rows.append((f"depth{depth}", 0, count * SMALL, 0, ns))

    def sizes(self) -> None:
        """Read all sizes at random places, which is enough to describe flash."""
        for length in FLASH_BYTES:
            for offset in self.anywhere(60):
                self.read("sizes", offset, length)

    def walk(self, reads: Iterable[tuple[int, int]]) -> None:
        """Read the predicted reads of an image; they are not used for the fit."""
        for offset, length in reads:
            self.read("walk", offset, length)


def quick_ms(hits: ReadLog, turn: ReadLog) -> float:
    """Return how long a read from the buffer takes at most: a few times what hits take, and no large part of a turn."""
    most = float(np.median(turn.ms)) / QUICK if len(turn) else np.inf
    return min(QUICK * float(np.median(hits.ms)), most) if len(hits) else most


def keeps_streams(log: ReadLog, count: int) -> bool:
    """Return whether the drive read ahead of so many alternating streams: most reads are in the buffer."""
    followed = log.of(f"streams{count}").ms[count:]
    return len(followed) > 0 and float(np.median(followed)) <= quick_ms(log.of("hits"), log.of("turn"))
