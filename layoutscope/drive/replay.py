"""Read someone else's trace: CSV, fio iolog, blkparse text, pairs of numbers, or a recording of a disk by its blocks.

Output: an `AccessTrace` of its reads, in order, or a `Recorded`, of which it must still be found out where its blocks
are; writes are left out.

References
----------
.. [1] fio documentation, "Trace file format v2" and "v3".
.. [2] blkparse(1), default output format.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope import inputs
from layoutscope.access.trace import AccessTrace
from layoutscope.drive.hdd import MAX_THINK_S, SECTOR_BYTES
from layoutscope.drive.profile import unpacked
from layoutscope.drive.recorded import Place, Recorded, read_fs_usage, read_snoop, titles_of
from layoutscope.errors import ImageError, UsageError
from layoutscope.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    Columns = dict[str, tuple[str, ...]]

OFFSET_NAMES: Final = ("image_offset", "offset_bytes", "offset")
LENGTH_NAMES: Final = ("length_bytes", "length", "size")

BLKPARSE: Final = re.compile(
    r"^\s*\d+,\d+\s+\d+\s+\d+\s+(?P<second>\d+\.\d+)\s+\d+\s+(?P<action>[A-Z]+)\s+(?P<kind>[A-Z]+)"
    r"\s+(?P<sector>\d+)(?:\s+\+\s+(?P<sectors>\d+))?"
)


def read_trace(
    path: str | Path, *, form: str = "", think_us: float | None = None, block_bytes: int = SECTOR_BYTES
) -> AccessTrace:
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


def load_trace(path: str | Path, *, form: str = "") -> AccessTrace | Recorded:
    """Read a trace file, or a recording as far as it goes without an image; see :func:`read_trace`."""
    data = _read_unpacked(Path(path))
    name = form or guess_form(Path(path).name, data)
    if name not in FORMS:
        raise UsageError(f"unknown trace format {name!r}; there are {', '.join(FORMS)}")
    trace = _parse_trace(path, name, data)
    if len(trace) == 0:
        tried = f"the format {name}" if form else f"any format that was tried: {', '.join(FORMS)}"
        raise ImageError(f"{path}: holds no reads in {tried}{_first_unparsed(trace)}")
    return trace


def _first_unparsed(trace: AccessTrace | Recorded) -> str:
    """Say which line looked like a read and was none."""
    number = trace.lines.first_unparsed if isinstance(trace, Recorded) else 0
    return f"; line {number} begins as one and is cut or damaged" if number else ""


def _parse_trace(path: str | Path, name: str, data: bytes) -> AccessTrace | Recorded:
    """Read a trace; whatever its numbers and words are, what cannot be understood is an error of the file."""
    try:
        with np.errstate(invalid="raise", over="raise"):
            return (READERS.get(name) or RECORDERS[name])(data)
    except (ValueError, ArithmeticError, IndexError, TypeError, csv.Error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ImageError(f"{path}: is no trace in the format {name}: {reason}") from error


def check_reads(path: str | Path, trace: AccessTrace) -> None:
    """Refuse reads that no drive could serve."""
    start, length = trace.image_offset, trace.length_bytes
    bad = (start < 0) | (length <= 0) | (length > MAX_READ_BYTES) | (start > MAX_DRIVE_BYTES)
    bad |= ~np.isfinite(trace.think_us) | (trace.think_us < 0) | (trace.think_us > MAX_THINK_US)
    bad |= (trace.device < 0) | (trace.device >= MAX_DEVICES)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        what = f"{length[row]} bytes at {start[row]} after {trace.think_us[row]:g} us"
        raise ImageError(f"{path}: read {row + 1} is none that a drive could serve: {what}")


MAX_TRACE_BYTES: Final = 4 * GIB
"""Of a trace as it is stored: a hundred million lines."""

MAX_READ_BYTES: Final = 1 << 40
MAX_DRIVE_BYTES: Final = 10**16
MAX_THINK_US: Final = MAX_THINK_S * 1e6
MAX_DEVICES: Final = 256
"""What is beyond them is no trace of a drive."""


def _read_unpacked(path: Path) -> bytes:
    try:
        data = inputs.read_bytes(path, MAX_TRACE_BYTES)
        return unpacked(data) if path.suffix == ".zst" else data
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise ImageError(f"{path}: {reason[0].lower()}{reason[1:]}") from error


def guess_form(name: str, data: bytes) -> str:
    """Tell the format of a trace from its name and first lines."""
    if name.removesuffix(".zst").endswith(".trace"):
        return "pairs"
    lines = data[:4096].decode("utf-8", "replace").splitlines()
    first = lines[0] if lines else ""
    if first.startswith("fio version"):
        return "fio"
    if "," in first and any(title in first for title in OFFSET_NAMES):
        return "csv"
    if any(re.match(r"\s*\d\d:\d\d:\d\d", line) for line in lines):
        return "fs_usage"
    titles = next(filter(None, map(titles_of, lines)), None)
    if titles is not None:
        return "biosnoop" if "SECTOR" in titles else "iosnoop"
    return "blkparse"


def read_pairs(data: bytes) -> AccessTrace:
    """Read pairs of little-endian 64-bit numbers: byte offset, byte length."""
    if len(data) % 16:
        raise ImageError(f"a trace of pairs has {len(data)} bytes, not a multiple of 16")
    pairs = np.frombuffer(data, np.dtype(np.uint64).newbyteorder("<")).astype(np.int64).reshape(-1, 2)
    return AccessTrace.from_reads(pairs[:, 0], pairs[:, 1])


def read_csv(data: bytes) -> AccessTrace:
    """Read a table with a column of offsets and one of lengths, in bytes, and whatever else `AccessTrace` has."""
    lines = csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
    titles = next(lines, [])
    rows = [row for row in lines if row]
    if any(len(row) != len(titles) for row in rows):
        raise ValueError("lines have different numbers of columns")
    table: Columns = dict.fromkeys(titles, ())
    if rows:
        table = dict(zip(titles, zip(*rows, strict=True), strict=True))
    trace = AccessTrace.from_reads(_column(table, OFFSET_NAMES), _column(table, LENGTH_NAMES))
    for name in ("device", "directory_id", "issuer", "think_us"):
        if name in table:
            column: NDArray[np.float64] = getattr(trace, name)
            column[:] = [float(text) if name == "think_us" else int(text) for text in _zeros(table[name])]
    return _restore_names(trace, table)


def _zeros(texts: Iterable[str]) -> Iterator[str]:
    """Put 0 in place of what is not said."""
    return (text or "0" for text in texts)


def _column(table: Columns, names: Iterable[str]) -> NDArray[np.int64]:
    for name in names:
        if name in table:
            return np.array([int(text) for text in table[name]], np.int64)
    raise ImageError(f"a CSV trace needs a column {' or '.join(names)}; it has {', '.join(table)}")


def _restore_names(trace: AccessTrace, table: Columns) -> AccessTrace:
    """Take over the columns of causes and trees, which are words in a table."""
    from msgspec.structs import replace

    words: dict[str, tuple[str, ...]] = {}
    for column, names in (("cause", "causes"), ("tree", "trees")):
        if column in table:
            categories, codes = np.unique(np.array(table[column], np.str_), return_inverse=True)
            getattr(trace, column)[:] = codes
            words[names] = tuple(str(word) for word in categories)
    return replace(trace, **words)


def read_fio(data: bytes) -> AccessTrace:
    """Read an iolog of fio, version 2 or 3.

    Version 2 says ``file action offset length``, and ``wait`` with microseconds; version 3 puts a time stamp before it,
    from which no think time follows.
    """
    lines = data.decode("utf-8", "replace").splitlines()
    fields = [line.split() for line in lines[1:]]
    if lines[0].startswith("fio version 3"):
        fields = [line[1:] for line in fields]
    reads: list[tuple[int, int, int]] = []
    wait = 0
    for line in fields:
        if len(line) >= 3 and line[1] == "wait":
            wait += int(line[2])
        elif len(line) == 4 and line[1] == "read":
            reads.append((int(line[2]), int(line[3]), wait))
            wait = 0
    return _build_from_rows(np.array(reads, np.float64).reshape(-1, 3))


def read_blkparse(data: bytes) -> AccessTrace:
    """Read the text of blkparse: issued reads, else queued ones; think times follow where completions are told."""
    events = [match for line in data.decode("utf-8", "replace").splitlines() if (match := BLKPARSE.match(line))]
    reads = [event for event in events if "R" in event["kind"] and event["sectors"]]
    # Q: asked for by the file system; D: handed to the drive, merged and sorted; C: done (blkparse(1)).
    begun = "D" if any(event["action"] == "D" for event in reads) else "Q"
    rows, completed = [], -1.0
    for event in reads:
        second = float(event["second"])
        if event["action"] == "C":
            completed = second
        elif event["action"] == begun:
            think = max(second - completed, 0.0) * 1e6 if completed >= 0 else 0.0
            rows.append((int(event["sector"]) * SECTOR_BYTES, int(event["sectors"]) * SECTOR_BYTES, think))
    return _build_from_rows(np.array(rows, np.float64).reshape(-1, 3))


def _build_from_rows(rows: NDArray[np.float64]) -> AccessTrace:
    trace = AccessTrace.from_reads(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64))
    trace.think_us[:] = rows[:, 2]
    return trace


READERS: Final[dict[str, Callable[[bytes], AccessTrace]]] = {
    "csv": read_csv,
    "fio": read_fio,
    "blkparse": read_blkparse,
    "pairs": read_pairs,
}

RECORDERS: Final[dict[str, Callable[[bytes], Recorded]]] = {
    "fs_usage": read_fs_usage,
    "iosnoop": read_snoop,
    "biosnoop": read_snoop,
}
"""Formats of recordings, which tell reads by a device and its blocks."""

FORMS: Final = (*READERS, *RECORDERS)
"""Every format of a trace."""


def arrival_us(trace: AccessTrace, service_ms: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return when each read is issued, from the think times and, where known, the service times."""
    busy = np.zeros(len(trace)) if service_ms is None else service_ms * 1000
    return np.cumsum(trace.think_us) + np.cumsum(busy) - busy


def csv_text(trace: AccessTrace) -> str:
    """Return a trace as CSV, one line a read, causes and trees as words."""
    columns: dict[str, list[object]] = {
        "device": trace.device.tolist(),
        "image_offset": trace.image_offset.tolist(),
        "length_bytes": trace.length_bytes.tolist(),
        "cause": np.array(trace.causes)[trace.cause].tolist(),
        "tree": np.array(trace.trees)[trace.tree].tolist(),
        "directory_id": trace.directory_id.tolist(),
        "issuer": trace.issuer.tolist(),
        "think_us": trace.think_us.tolist(),
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def fio_lines(
    trace: AccessTrace,
    *,
    file: str,
    # how long each read takes; without it only think times pass between reads
    service_ms: NDArray[np.float64] | None = None,
) -> Iterator[str]:
    """Yield the lines of an iolog of fio, version 3."""
    times = np.rint(arrival_us(trace, service_ms)).astype(np.int64)
    yield "fio version 3 iolog"
    yield f"0 {file} add"
    yield f"0 {file} open"
    for time, offset, length in zip(
        times.tolist(), trace.image_offset.tolist(), trace.length_bytes.tolist(), strict=True
    ):
        yield f"{time} {file} read {offset} {length}"
    yield f"{times[-1] if len(times) else 0} {file} close"


def blkparse_lines(trace: AccessTrace, *, service_ms: NDArray[np.float64] | None = None) -> Iterator[str]:
    """Yield lines as blkparse prints them: each read issued, and completed where the service times are known."""
    seconds = (arrival_us(trace, service_ms) / 1e6).tolist()
    sectors = (trace.image_offset // SECTOR_BYTES).tolist()
    counts = (-(-trace.length_bytes // SECTOR_BYTES)).tolist()
    number = 0
    for k, (second, sector, count) in enumerate(zip(seconds, sectors, counts, strict=True)):
        events = [(second, "D")]
        if service_ms is not None:
            events.append((second + float(service_ms[k]) / 1000, "C"))
        for when, action in events:
            number += 1
            yield f"  8,0    0 {number:8d} {when:14.9f}     1  {action:<2s}  R {sector} + {count} [layoutscope]"
