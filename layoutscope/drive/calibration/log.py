"""What was read of a drive under calibration, and how long each read took."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from layoutscope.errors import UsageError
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

HEADER: Final = ("step", "offset", "length", "at_ns", "ns")
FILE: Final = "file"
"""In place of a step: the reads are those of a file."""

MOST_LINES: Final = 1_000_000
MOST_LOG_BYTES: Final = 128 << 20
_LARGEST: Final = 1 << 62


class Readable(Protocol):
    """A drive that reads can be timed on: a device, or something that stands in for one."""

    capacity_bytes: int

    def read(self, offset: int, length: int) -> tuple[int, int]:
        """Read, and return when it began and how long it took, in nanoseconds."""

    def read_together(self, offsets: list[int], length: int, depth: int) -> int:
        """Read with several reads outstanding."""

    def wait(self, milliseconds: float) -> None:
        """Let the drive read ahead for a while."""


@frozen
class ReadLog:
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


def logged(capacity_bytes: int, rows: Iterable[tuple[str, int, int, int, int]]) -> ReadLog:
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
            raise UsageError(f"{name}: is no log of a calibration; it begins with {','.join(HEADER)}")
        for number, (step, *fields) in enumerate(lines, 2):
            offset, length, at_ns, ns = map(int, fields)
            if min(offset, length, at_ns, ns) < 0 or max(offset, length, at_ns, ns) > _LARGEST or number > MOST_LINES:
                raise UsageError(f"{name}: line {number} has a number that no drive gives, or there are too many lines")
            if step == "capacity":
                capacity = length
            elif step == FILE:
                is_file = True
            elif ns == 0:
                raise UsageError(f"{name}: line {number} is a read that took no time, as none does")
            else:
                rows.append((step[:16], offset, length, at_ns, ns))
    except (ValueError, csv.Error) as error:
        raise UsageError(f"{name}: line {lines.line_num} is no timed read") from error
    if capacity < 1 or not rows or any(offset + length > capacity for _, offset, length, _, _ in rows):
        raise UsageError(f"{name}: has no capacity, no reads, or reads beyond the end of the drive")
    return replace(logged(capacity, rows), is_file=is_file)
