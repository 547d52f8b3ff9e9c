"""Traces from other tools: CSV, fio iolog, blkparse text, pairs of numbers, and recordings of a disk by block number.

The result is an `AccessTrace`, or a `Recorded`. A recording does not show the unit and start of block numbers
(:mod:`layoutscope.api.trace` finds them); a :class:`Place` contains them for one device, and :meth:`Recorded.trace`
makes a trace of its reads. Writes are left out.

References
----------
.. [1] fio documentation, "Trace file format v2" and "v3".
.. [2] blkparse(1), default output format.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from layoutscope import inputs
from layoutscope.access.trace import AccessTrace
from layoutscope.display import Displayed, Struct
from layoutscope.drive.hdd import MAX_THINK_S, SECTOR_BYTES
from layoutscope.drive.profile import unpack
from layoutscope.errors import ImageError, UsageError
from layoutscope.structs.arrays import Rows
from layoutscope.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Columns = dict[str, tuple[str, ...]]

HIGHEST_BLOCK: Final = 1 << 54
"""A larger block number is not from a disk: with blocks of 512 bytes it is beyond 8 EiB."""

LONGEST_READ: Final = 1 << 40

FILE_SYSTEM, CHUNK, BELOW = 0, 1, 2
"""Origin of a read: a file system; CoreStorage, on behalf of one; CoreStorage itself."""


class LineCounts(Displayed, Struct, frozen=True):
    """The number of lines of a recording by their kind."""

    reads: int = 0  # reads of disks, those of CoreStorage among them
    # writes, failed: writes; reads that ended in an error or brought nothing
    writes: int = 0
    failed: int = 0
    other: int = 0  # lines of calls, titles and notes, which no disk has served
    unparsed: int = 0  # lines that begin as a read of a disk, and do not go on as one
    first_unparsed: int = 0  # the number of the first of them, from 1; 0 where there is none
    lost: int = 0  # lines in which the recorder says that it lost events


class Read(NamedTuple):
    """One read, from a line of a recording; times in microseconds of the recorder's clock, NaN if not recorded."""

    block: int
    length_bytes: int
    device: str
    process: str
    issued_us: float
    done_us: float
    is_metadata: bool = False
    layer: int = FILE_SYSTEM


class Place(Displayed, Struct, frozen=True):
    """Where on an image the blocks of a recorded device are."""

    device: str  # its name in the recording
    unit_bytes: int  # what a block number counts
    # position of block 0, in bytes from the start of the image; negative if the image begins after it
    image_offset: int = 0
    image_device: int = 0  # image of a Fusion set, 0 otherwise


class Recorded(Displayed, Rows, frozen=True):
    """Reads in the order in which they were issued; all arrays have shape (n_reads,)."""

    # form, host: the format, and the host whose tool writes it
    form: str
    host: str
    unit_bytes: int | None  # unit of block numbers if the format fixes it
    # block, length_bytes: first block, and length in bytes
    block: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    # device, process: indexes into `devices` and `processes`
    device: NDArray[np.uint32]
    process: NDArray[np.uint32]
    is_metadata: NDArray[np.bool_]  # whether the recording marks it as a read of metadata
    layer: NDArray[np.uint8]  # its origin: `FILE_SYSTEM`, `CHUNK` or `BELOW`
    # issued_us, done_us: when it was issued and complete, in microseconds; NaN if not recorded
    issued_us: NDArray[np.float64]
    done_us: NDArray[np.float64]
    # devices, processes: names
    devices: tuple[str, ...]
    processes: tuple[str, ...]
    lines: LineCounts  # numbers of lines by kind

    def __getitem__(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Recorded:
        """Select reads."""
        return self.take(rows)

    def select_devices(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the reads of some devices, named with or without their folder."""
        wanted = {name.removeprefix("/dev/") for name in names}
        return np.asarray(np.isin(self.device, [code for code, name in enumerate(self.devices) if name in wanted]))

    def select_processes(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the reads of some processes."""
        return np.asarray(np.isin(self.process, [code for code, name in enumerate(self.processes) if name in names]))

    def offsets(self, places: Sequence[Place]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]:
        """Return the offsets of the reads on an image, their image of a set, and which of them have a place."""
        offset, image, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.uint8), np.zeros(len(self), bool)
        for place in places:
            rows = self.select_devices([place.device])
            offset[rows] = self.block[rows] * place.unit_bytes + place.image_offset
            image[rows], known[rows] = place.image_device, True
        return offset, image, known & (offset >= 0)

    def trace(self, places: Sequence[Place]) -> AccessTrace:
        """Make a trace of the reads that have a place, with think times if completions are recorded."""
        offset, image, known = self.offsets(places)
        there = self[known]
        trace = AccessTrace.from_reads(offset[known], there.length_bytes)
        trace.device[:] = image[known]
        trace.think_us[:] = there.gaps_us()
        return trace

    @property
    def is_timed(self) -> bool:
        """Whether it records when each read was issued and complete."""
        return len(self) > 0 and bool(np.isfinite(self.issued_us).all() and np.isfinite(self.done_us).all())

    def gaps_us(self) -> NDArray[np.float64]:
        """Return the time before each read in which no other read was outstanding; zeros if times are not recorded."""
        if not self.is_timed:
            return np.zeros(len(self))
        idle = self.issued_us[1:] - np.maximum.accumulate(self.done_us)[:-1]
        return np.concatenate([[0.0], np.maximum(idle, 0.0)])

    def busy_us(self) -> float:
        """Return the time in which at least one read was outstanding."""
        if not self.is_timed:
            return 0.0
        return float(self.done_us.max() - self.issued_us[0] - self.gaps_us().sum())

    def overlaps(self) -> NDArray[np.bool_]:
        """Mark reads that overlapped others, so that their time cannot be assigned to one of them."""
        if not self.is_timed or len(self) == 0:
            return np.zeros(len(self), bool)
        late = self.issued_us[1:] < np.maximum.accumulate(self.done_us)[:-1]
        # If one long read delays several others, the first of them marks it.
        shared = np.zeros(len(self), bool)
        shared[1:] |= late
        shared[:-1] |= late
        return shared


def _record(lines: Iterable[Read | str], *, form: str, host: str, unit_bytes: int | None) -> Recorded:
    """Combine the lines of a recording, which are reads or named by their kinds, in the order of issue."""
    reads: list[Read] = []
    counts: Counter[str] = Counter()
    first_unparsed = 0
    for number, line in enumerate(lines, 1):
        if isinstance(line, Read):
            reads.append(line)
        elif line:
            counts[line] += 1
            first_unparsed = first_unparsed or (number if line == "unparsed" else 0)
    columns = zip(*reads, strict=True) if reads else [()] * len(Read._fields)
    block, length_bytes, named_device, named_process, issued_us, done_us, is_metadata, layer = columns
    devices, device = np.unique(np.array(named_device, np.str_), return_inverse=True)
    processes, process = np.unique(np.array(named_process, np.str_), return_inverse=True)
    found = Recorded(
        form=form,
        host=host,
        unit_bytes=unit_bytes,
        block=np.array(block, np.int64),
        length_bytes=np.array(length_bytes, np.int64),
        device=device.astype(np.uint32),
        process=process.astype(np.uint32),
        is_metadata=np.array(is_metadata, bool),
        layer=np.array(layer, np.uint8),
        issued_us=np.array(issued_us, np.float64),
        done_us=np.array(done_us, np.float64),
        devices=tuple(str(name) for name in devices),
        processes=tuple(str(name) for name in processes),
        lines=LineCounts(reads=len(reads), first_unparsed=first_unparsed, **counts),
    )
    return found[np.argsort(found.issued_us, kind="stable")]


ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("BLOCK", "SECTOR", "BLKNO"), "block"),
    **dict.fromkeys(("SIZE", "BYTES", "BCOUNT"), "bytes"),
    **dict.fromkeys(("D", "T", "TYPE", "RW", "R/W"), "direction"),
    **dict.fromkeys(("DEVICE", "DISK", "DEV"), "device"),
    **dict.fromkeys(("COMM", "EXECNAME", "PROCESS"), "process"),
    **dict.fromkeys(("STIME", "STARTS"), "issued"),
    **dict.fromkeys(("TIME", "TIME(S)", "ENDS"), "done"),
    **dict.fromkeys(("DELTA", "LAT(MS)", "LATMS"), "elapsed"),
}
"""Titles of columns, in capitals, and their roles; other columns are ignored."""

MICROSECONDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("STIME", "TIME", "DELTA"), 1.0),
    **dict.fromkeys(("LAT(MS)", "LATMS"), 1e3),
    **dict.fromkeys(("STARTS", "ENDS", "TIME(S)"), 1e6),
}
"""Units of the columns of times, in microseconds."""

FREE: Final = frozenset({"COMM", "EXECNAME", "PROCESS", "PATHNAME", "ARGS", "FILE"})
"""Columns whose words may contain spaces: they take all text between the other columns."""

WORDS: Final[Mapping[str, int]] = {"STRTIME": 4}
"""Columns of several words: ``2005 Jan  6 19:38:35``."""

NEEDED: Final = frozenset({"block", "bytes"})

LINUX_TITLES: Final = frozenset({"TIME(S)", "SECTOR", "LATMS"})
"""Titles that only Linux tools use, whose blocks count 512 bytes on every disk."""


def titles_of(line: str) -> list[str] | None:
    """Return the titles in a title line, in capitals; None for any other line."""
    found = line.upper().split()
    roles = [ROLES.get(title) for title in found]
    return found if set(roles) >= NEEDED and len(set(found)) == len(found) else None


def read_snoop(data: bytes) -> Recorded:
    """Read a table of disk accesses; lines before its titles are skipped."""
    titles: list[str] | None = None
    found: list[Read | str] = []
    for line in data.decode("utf-8", "replace").split("\n"):
        here = titles_of(line)
        titles = here or titles
        if here is not None or titles is None or not line.strip():
            found.append("other" if line.strip() else "")
        else:
            found.append(_parse_read(titles, line))
    is_linux = titles is not None and not LINUX_TITLES.isdisjoint(titles)
    form, host = ("biosnoop", "linux") if is_linux else ("iosnoop", "macos")
    return _record(found, form=form, host=host, unit_bytes=512 if is_linux else None)


def _parse_read(titles: Sequence[str], line: str) -> Read | str:
    """Parse a line as a read, or return its kind."""
    try:
        cells = _cells(titles, line.split())
        block, length = int(cells["block"][1]), int(cells["bytes"][1])
        times = {
            name: float(text) * MICROSECONDS[title] for name, (title, text) in cells.items() if title in MICROSECONDS
        }
    except (ValueError, KeyError):
        return "unparsed"
    if not cells.get("direction", ("", "R"))[1].upper().startswith("R"):
        return "writes"
    if not (0 <= block < HIGHEST_BLOCK and 0 <= length <= LONGEST_READ):
        return "unparsed"
    if length == 0:
        return "failed"
    # Two of three times determine the third.
    issued, done, elapsed = (times.get(name, math.nan) for name in ("issued", "done", "elapsed"))
    issued = done - elapsed if math.isnan(issued) else issued
    done = issued + elapsed if math.isnan(done) else done
    device, process = (cells.get(name, ("", ""))[1] for name in ("device", "process"))
    return Read(block, length, device, process, issued, done)


def _cells(titles: Sequence[str], words: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Divide a line's words among the columns: each role with the title of its column and its text."""
    free = [place for place, title in enumerate(titles) if title in FREE]
    first, last = (free[0], free[-1]) if free else (len(titles), len(titles) - 1)
    before, behind = titles[:first], titles[last + 1 :]
    wanted = [(title, WORDS.get(title, 1)) for title in before]
    at = sum(count for _, count in wanted)
    if len(words) < at + len(behind) + bool(free) or (not free and len(words) != at):
        raise ValueError("too few words")
    cells: dict[str, tuple[str, str]] = {}
    place = 0
    for title, count in wanted:
        cells[ROLES.get(title, title)] = (title, " ".join(words[place : place + count]))
        place += count
    end = len(words) - len(behind)
    cells |= {ROLES.get(title, title): (title, text) for title, text in zip(behind, words[end:], strict=True)}
    if free and ROLES.get(titles[first]) == "process":
        # A path begins with a slash, with `??/` or with `<`; the command is before it.
        free_words = words[at:end]
        paths = [place for place, word in enumerate(free_words) if place and word.startswith(("/", "??/", "<"))]
        count = (paths[0] if paths else 1) if last > first else len(free_words)
        cells["process"] = (titles[first], " ".join(free_words[:count]))
    return cells


LAYERS: Final[Mapping[str, int]] = {
    "RdMeta": FILE_SYSTEM,
    "RdData": FILE_SYSTEM,
    "PgIn": FILE_SYSTEM,
    # A logical volume of CoreStorage has a line for the file system's read and, indented before it, one for the read
    # from the physical volume that served it. The others are CoreStorage's own: its metadata, and data that it moves
    # between the devices of a Fusion drive (Migr) or encrypts (Tf) in the background.
    "RdChunkCS": CHUNK,
    "RdMetaCS": BELOW,
    "RdBgMigrCS": BELOW,
    "RdBgTfCS": BELOW,
}
"""Calls that read a disk, and their origin."""

WRITES: Final = frozenset({"WrMeta", "WrData", "PgOut", "WrChunkCS", "WrMetaCS", "WrBgMigrCS", "WrBgTfCS"})

BEGIN: Final = re.compile(
    r"^\s*(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:\.\d+)?)\s+(?P<call>[A-Z]\w*)(?:\[[A-Z0-9]*\])?\s+D=0x"
)
"""Start of every disk line."""

REST: Final = re.compile(
    r"(?P<block>[0-9a-fA-F]+)\s+"
    r"(?:\[\s*(?P<error>-?\d+)\]|B=0x(?P<length>[0-9a-fA-F]+)\s+(?:BC:\S*\s+)?/dev/(?P<device>\S+))"
    # The path is a user's and may contain anything; the last time on the line is fs_usage's own.
    r"(?:.*\s|\s+)(?P<elapsed>\d+\.\d+)(?:\s+W)?\s+(?P<process>\S.*?)(?:\.(?P<thread>\d+))?\s*$"
)
"""The rest of the line after ``D=0x``."""

LOST: Final = re.compile(
    r"overrun|events? (?:were |was )?(?:lost|dropped)|(?:lost|dropped) \d* ?events?", re.IGNORECASE
)

DAY_US: Final = 86_400e6


def read_fs_usage(data: bytes) -> Recorded:
    """Read the output of ``fs_usage``; lines of calls and titles are skipped."""
    found: list[Read | str] = []
    days_us = latest_us = 0.0
    for line in data.decode("utf-8", "replace").split("\n"):
        begin = BEGIN.match(line)
        if begin is None:
            kind = "lost" if LOST.search(line) else "other"
            found.append(kind if line.strip() else "")
            continue
        of_day = ((int(begin["hour"]) * 60 + int(begin["minute"])) * 60 + float(begin["second"])) * 1e6
        # Lines of two processors may be slightly out of order; a step back by half a day is a new day.
        if of_day + days_us < latest_us - DAY_US / 2:
            days_us += DAY_US
        now_us = of_day + days_us
        latest_us = max(latest_us, now_us)
        found.append(_parse_disk_line(begin, line, now_us))
    return _record(found, form="fs_usage", host="macos", unit_bytes=None)


def _parse_disk_line(begin: re.Match[str], line: str, now_us: float) -> Read | str:
    """Parse a disk line as a read that was complete now, or return its kind."""
    if begin["call"] in WRITES:
        return "writes"
    rest = REST.match(line, begin.end())
    if rest is None or begin["call"] not in LAYERS:
        return "unparsed"
    if rest["error"] is not None or int(rest["length"], 16) == 0:
        return "failed"
    block, length = int(rest["block"], 16), int(rest["length"], 16)
    if block >= HIGHEST_BLOCK or length > LONGEST_READ:
        return "unparsed"
    return Read(
        block=block,
        length_bytes=length,
        device=rest["device"],
        process=rest["process"].strip(),
        issued_us=now_us - float(rest["elapsed"]) * 1e6,
        done_us=now_us,
        is_metadata=begin["call"] == "RdMeta",
        layer=LAYERS[begin["call"]],
    )


OFFSET_NAMES: Final = ("image_offset", "offset_bytes", "offset")
LENGTH_NAMES: Final = ("length_bytes", "length", "size")

BLKPARSE: Final = re.compile(
    r"^\s*\d+,\d+\s+\d+\s+\d+\s+(?P<second>\d+\.\d+)\s+\d+\s+(?P<action>[A-Z]+)\s+(?P<kind>[A-Z]+)"
    r"\s+(?P<sector>\d+)(?:\s+\+\s+(?P<sectors>\d+))?"
)


def load_trace(path: str | Path, *, form: str = "") -> AccessTrace | Recorded:
    """Read a trace file, or a recording as far as possible without an image."""
    file = Path(path)
    try:
        data = inputs.read_bytes(file, MAX_TRACE_BYTES)
        data = unpack(data) if file.suffix == ".zst" else data
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise ImageError(f"{path}: {reason[0].lower()}{reason[1:]}") from error
    name = form or guess_form(file.name, data)
    if name not in FORMS:
        raise UsageError(f"unknown trace format {name!r}. Choose from: {', '.join(FORMS)}")
    try:
        with np.errstate(invalid="raise", over="raise"):
            trace = (READERS.get(name) or RECORDERS[name])(data)
    except (ValueError, ArithmeticError, IndexError, TypeError, csv.Error) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ImageError(f"{path}: is not a trace in the format {name}: {reason}") from error
    if len(trace) == 0:
        tried = f"the format {name}" if form else f"any format that was tried: {', '.join(FORMS)}"
        unparsed = trace.lines.first_unparsed if isinstance(trace, Recorded) else 0
        damage = f"; line {unparsed} begins as one and is cut or damaged" if unparsed else ""
        raise ImageError(f"{path}: holds no reads in {tried}{damage}")
    return trace


def check_reads(path: str | Path, trace: AccessTrace) -> None:
    """Refuse reads that no drive could serve."""
    start, length = trace.image_offset, trace.length_bytes
    bad = (start < 0) | (length <= 0) | (length > MAX_READ_BYTES) | (start > MAX_DRIVE_BYTES)
    bad |= ~np.isfinite(trace.think_us) | (trace.think_us < 0) | (trace.think_us > MAX_THINK_US)
    bad |= (trace.device < 0) | (trace.device >= MAX_DEVICES)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        what = f"{length[row]} bytes at {start[row]} after {trace.think_us[row]:g} us"
        raise ImageError(f"{path}: read {row + 1} cannot be served by a drive: {what}")


MAX_TRACE_BYTES: Final = 4 * GIB
"""Size limit of a stored trace: a hundred million lines."""

MAX_READ_BYTES: Final = 1 << 40
MAX_DRIVE_BYTES: Final = 10**16
MAX_THINK_US: Final = MAX_THINK_S * 1e6
MAX_DEVICES: Final = 256
"""Anything larger is not a trace of a drive."""


def guess_form(name: str, data: bytes) -> str:
    """Recognise the format of a trace by its name and first lines."""
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
    """Read a table with columns of offsets and lengths in bytes, and any other columns of `AccessTrace`."""
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
            # A missing value is 0.
            column[:] = [float(text or 0) if name == "think_us" else int(text or 0) for text in table[name]]
    # Causes and trees are words in a table.
    words: dict[str, tuple[str, ...]] = {}
    for name, names in (("cause", "causes"), ("tree", "trees")):
        if name in table:
            categories, codes = np.unique(np.array(table[name], np.str_), return_inverse=True)
            getattr(trace, name)[:] = codes
            words[names] = tuple(str(word) for word in categories)
    return replace(trace, **words)


def _column(table: Columns, names: Iterable[str]) -> NDArray[np.int64]:
    for name in names:
        if name in table:
            return np.array([int(text) for text in table[name]], np.int64)
    raise ImageError(f"a CSV trace needs a column {' or '.join(names)}; it has {', '.join(table)}")


def read_fio(data: bytes) -> AccessTrace:
    """Read an iolog of fio, version 2 or 3.

    Version 2 has ``file action offset length``, and ``wait`` with microseconds; version 3 puts a time stamp before it,
    which gives no think time.
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
    return _build_from_rows(reads)


def read_blkparse(data: bytes) -> AccessTrace:
    """Read blkparse text: issued reads, otherwise queued ones, with think times if completions are recorded."""
    events = [match for line in data.decode("utf-8", "replace").splitlines() if (match := BLKPARSE.match(line))]
    reads = [event for event in events if "R" in event["kind"] and event["sectors"]]
    # Q: requested by the file system; D: sent to the drive, merged and sorted; C: complete (blkparse(1)).
    begun = "D" if any(event["action"] == "D" for event in reads) else "Q"
    rows, completed = [], -1.0
    for event in reads:
        second = float(event["second"])
        if event["action"] == "C":
            completed = second
        elif event["action"] == begun:
            think = max(second - completed, 0.0) * 1e6 if completed >= 0 else 0.0
            rows.append((int(event["sector"]) * SECTOR_BYTES, int(event["sectors"]) * SECTOR_BYTES, think))
    return _build_from_rows(rows)


def _build_from_rows(rows: Sequence[tuple[int, int, float]]) -> AccessTrace:
    """Make a trace of offsets, lengths and think times."""
    table = np.array(rows, np.float64).reshape(-1, 3)
    trace = AccessTrace.from_reads(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64))
    trace.think_us[:] = table[:, 2]
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
"""Formats of recordings, which contain reads by device and block."""

FORMS: Final = (*READERS, *RECORDERS)
"""Every format of a trace."""


def csv_text(trace: AccessTrace) -> str:
    """Return a trace as CSV, one line per read, with causes and trees as words."""
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


def fio_lines(trace: AccessTrace, *, file: str) -> Iterator[str]:
    """Yield the lines of an iolog of fio, version 3; only think times pass between reads."""
    times = np.rint(np.cumsum(trace.think_us)).astype(np.int64)
    yield "fio version 3 iolog"
    yield f"0 {file} add"
    yield f"0 {file} open"
    offsets, lengths = trace.image_offset.tolist(), trace.length_bytes.tolist()
    for time, offset, length in zip(times.tolist(), offsets, lengths, strict=True):
        yield f"{time} {file} read {offset} {length}"
    yield f"{times[-1] if len(times) else 0} {file} close"


def blkparse_lines(trace: AccessTrace) -> Iterator[str]:
    """Yield lines in blkparse format, one per issued read; only think times pass between reads."""
    seconds = np.cumsum(trace.think_us) / 1e6
    sectors, counts = trace.image_offset // SECTOR_BYTES, -(-trace.length_bytes // SECTOR_BYTES)
    rows = zip(seconds.tolist(), sectors.tolist(), counts.tolist(), strict=True)
    for number, (second, sector, count) in enumerate(rows, 1):
        yield f"  8,0    0 {number:8d} {second:14.9f}     1  D   R {sector} + {count} [layoutscope]"
