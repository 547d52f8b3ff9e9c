"""Recordings of somebody's disk: reads by a device's own block numbers, before it is known where on an image they are.

What block numbers count, and from where, no such recording tells (:mod:`layoutscope.api.replay` finds it out); a
:class:`Place` says it for one device, and :meth:`Recorded.trace` makes of its reads what drives serve.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.trace import AccessTrace
from layoutscope.display import Displayed, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


HIGHEST_BLOCK: Final = 1 << 54
"""A block number beyond it is none of a disk: in blocks of 512 bytes it lies behind 8 EiB."""

LONGEST_READ: Final = 1 << 40

FILE_SYSTEM, CHUNK, BELOW = 0, 1, 2
"""Who asked for a read: a file system; CoreStorage, on behalf of one; CoreStorage for itself."""


class LineCounts(Displayed, Struct, frozen=True):
    """What became of the lines of a recording."""

    reads: int = 0  # reads of disks, those of CoreStorage among them
    # writes, failed: writes; reads that ended in an error or brought nothing
    writes: int = 0
    failed: int = 0
    other: int = 0  # lines of calls, titles and notes, which no disk has served
    unparsed: int = 0  # lines that begin as a read of a disk, and do not go on as one
    first_unparsed: int = 0  # the number of the first of them, from 1; 0 where there is none
    lost: int = 0  # lines in which the recorder says that it lost events


class Read(Struct, frozen=True):
    """One read as a line of a recording tells it; times in microseconds of the recorder's clock, NaN where not told."""

    block: int
    length_bytes: int
    device: str
    process: str
    is_metadata: bool = False
    layer: int = FILE_SYSTEM
    issued_us: float = float("nan")
    done_us: float = float("nan")


class Place(Displayed, Struct, frozen=True):
    """Where on an image the blocks of a recorded device are."""

    device: str  # its name in the recording
    unit_bytes: int  # what a block number counts
    # where block 0 lies, in bytes from the start of the image; negative where the image begins behind it
    image_offset: int = 0
    image_device: int = 0  # image of a Fusion set, 0 otherwise


class Recorded(Displayed, Struct, frozen=True):
    """Reads in the order in which they were issued; all arrays have shape (n_reads,)."""

    # form, host: the format, and the host whose tool writes it
    form: str
    host: str
    unit_bytes: int | None  # what block numbers count where the format fixes it
    # block, length_bytes: first block, and length in bytes
    block: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    # device, process: indexes into `devices` and `processes`
    device: NDArray[np.uint32]
    process: NDArray[np.uint32]
    is_metadata: NDArray[np.bool_]  # whether the recording calls it a read of metadata
    layer: NDArray[np.uint8]  # who asked for it: `FILE_SYSTEM`, `CHUNK` or `BELOW`
    # issued_us, done_us: when it was asked for and complete, in microseconds; NaN where that is not told
    issued_us: NDArray[np.float64]
    done_us: NDArray[np.float64]
    # devices, processes: names
    devices: tuple[str, ...]
    processes: tuple[str, ...]
    lines: LineCounts  # what became of the lines

    def __len__(self) -> int:
        return len(self.block)

    def __getitem__(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Recorded:
        """Select reads."""
        arrays = ("block", "length_bytes", "device", "process", "is_metadata", "layer", "issued_us", "done_us")
        return replace(self, **{name: getattr(self, name)[rows] for name in arrays})

    def select_devices(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the reads of some devices, named with or without their folder."""
        wanted = {name.removeprefix("/dev/") for name in names}
        found: NDArray[np.bool_] = np.isin(
            self.device, [code for code, name in enumerate(self.devices) if name in wanted]
        )
        return found

    def select_processes(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Mark the reads of some processes."""
        found: NDArray[np.bool_] = np.isin(
            self.process, [code for code, name in enumerate(self.processes) if name in set(names)]
        )
        return found

    def offsets(self, places: Sequence[Place]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]:
        """Return where the reads are on an image, on which image of a set, and which of them have a place."""
        offset, image, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.uint8), np.zeros(len(self), bool)
        for place in places:
            rows = self.select_devices([place.device])
            offset[rows] = self.block[rows] * place.unit_bytes + place.image_offset
            image[rows], known[rows] = place.image_device, True
        return offset, image, known & (offset >= 0)

    def trace(self, places: Sequence[Place]) -> AccessTrace:
        """Make a trace of the reads that have a place; think times follow where completions are told."""
        offset, image, known = self.offsets(places)
        there = self[known]
        trace = AccessTrace.from_reads(offset[known], there.length_bytes)
        trace.device[:] = image[known]
        trace.think_us[:] = there.gaps_us()
        return trace

    @property
    def is_timed(self) -> bool:
        """Whether it tells of each read when it was asked for and when it was complete."""
        return len(self) > 0 and bool(np.isfinite(self.issued_us).all() and np.isfinite(self.done_us).all())

    def gaps_us(self) -> NDArray[np.float64]:
        """Return the time before each read in which no other was under way; zeros where times are not told."""
        if not self.is_timed:
            return np.zeros(len(self))
        idle = self.issued_us[1:] - np.maximum.accumulate(self.done_us)[:-1]
        return np.concatenate([[0.0], np.maximum(idle, 0.0)])

    def busy_us(self) -> float:
        """Return the time in which at least one read was under way."""
        if not self.is_timed:
            return 0.0
        return float(self.done_us.max() - self.issued_us[0] - self.gaps_us().sum())

    def overlaps(self) -> NDArray[np.bool_]:
        """Mark reads that were under way together with another one, whose time is not theirs alone."""
        if not self.is_timed or len(self) == 0:
            return np.zeros(len(self), bool)
        late = self.issued_us[1:] < np.maximum.accumulate(self.done_us)[:-1]
        # Of several that are late for one long read, that one is marked by the first of them.
        shared = np.zeros(len(self), bool)
        shared[1:] |= late
        shared[:-1] |= late
        return shared


def recording(reads: Sequence[Read], lines: LineCounts, *, form: str, host: str, unit_bytes: int | None) -> Recorded:
    """Put reads together in the order in which they were issued."""
    issued = np.array([read.issued_us for read in reads], np.float64)
    order = np.argsort(issued, kind="stable")
    devices, device = np.unique([read.device for read in reads] or np.zeros(0, str), return_inverse=True)
    processes, process = np.unique([read.process for read in reads] or np.zeros(0, str), return_inverse=True)
    told = Recorded(
        form=form,
        host=host,
        unit_bytes=unit_bytes,
        block=np.array([read.block for read in reads], np.int64),
        length_bytes=np.array([read.length_bytes for read in reads], np.int64),
        device=device.astype(np.uint32),
        process=process.astype(np.uint32),
        is_metadata=np.array([read.is_metadata for read in reads], bool),
        layer=np.array([read.layer for read in reads], np.uint8),
        issued_us=issued,
        done_us=np.array([read.done_us for read in reads], np.float64),
        devices=tuple(str(name) for name in devices),
        processes=tuple(str(name) for name in processes),
        lines=lines,
    )
    return told[order]


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
"""Titles of columns, in capitals, and what they hold; others are passed over."""

MICROSECONDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("STIME", "TIME", "DELTA"), 1.0),
    **dict.fromkeys(("LAT(MS)", "LATMS"), 1e3),
    **dict.fromkeys(("STARTS", "ENDS", "TIME(S)"), 1e6),
}
"""What the columns of times count."""

FREE: Final = frozenset({"COMM", "EXECNAME", "PROCESS", "PATHNAME", "ARGS", "FILE"})
"""Columns whose words may hold spaces: they are what stands between the others."""

WORDS: Final[Mapping[str, int]] = {"STRTIME": 4}
"""Columns of several words: ``2005 Jan  6 19:38:35``."""

NEEDED: Final = frozenset({"block", "bytes"})

LINUX_TITLES: Final = frozenset({"TIME(S)", "SECTOR", "LATMS"})
"""Titles that only tools of Linux have, whose blocks count 512 bytes whatever the disk."""


def titles_of(line: str) -> list[str] | None:
    """Return the titles of a line that is one of titles, in capitals; None of any other."""
    found = line.upper().split()
    roles = [ROLES.get(title) for title in found]
    return found if set(roles) >= NEEDED and len(set(found)) == len(found) else None


def read_snoop(data: bytes) -> Recorded:
    """Read a table of disk accesses; what stands before its titles is passed over."""
    titles: list[str] | None = None
    reads: list[Read] = []
    counts: Counter[str] = Counter()
    first_unparsed = 0
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        here = titles_of(line)
        titles = here or titles
        if here is not None or titles is None or not line.strip():
            counts["other"] += bool(line.strip())
            continue
        found = _parse_read(titles, line)
        if isinstance(found, Read):
            reads.append(found)
        else:
            counts[found] += 1
            first_unparsed = first_unparsed or (number if found == "unparsed" else 0)
    is_linux = titles is not None and not LINUX_TITLES.isdisjoint(titles)
    lines = LineCounts(reads=len(reads), first_unparsed=first_unparsed, **counts)
    return recording(
        reads,
        lines,
        form="biosnoop" if is_linux else "iosnoop",
        host="linux" if is_linux else "macos",
        unit_bytes=512 if is_linux else None,
    )


def _parse_read(titles: Sequence[str], line: str) -> Read | str:
    """Turn a line into a read, or say what else it is."""
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
    issued, done = _both_times(times)
    device, process = (cells.get(name, ("", ""))[1] for name in ("device", "process"))
    return Read(block=block, length_bytes=length, device=device, process=process, issued_us=issued, done_us=done)


def _both_times(times: Mapping[str, float]) -> tuple[float, float]:
    """Return when a read was asked for and complete, from two of three; NaN where that does not follow."""
    unknown = float("nan")
    issued, done, elapsed = (times.get(name, unknown) for name in ("issued", "done", "elapsed"))
    if math.isnan(issued):
        issued = done - elapsed
    return issued, issued + elapsed if math.isnan(done) else done


def _cells(titles: Sequence[str], words: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Part a line's words among the columns: what each role holds, with the title of its column."""
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
        cells["process"] = (titles[first], _command(words[at:end], has_path=last > first))
    return cells


def _command(words: Sequence[str], *, has_path: bool) -> str:
    """Return the command of what stands between the columns; a path begins with a slash, with ``??/`` or with ``<``."""
    starts = [place for place, word in enumerate(words) if place and word.startswith(("/", "??/", "<"))]
    return " ".join(words[: (starts[0] if starts else 1) if has_path else len(words)])


FORM: Final = "fs_usage"

LAYERS: Final[Mapping[str, int]] = {
    "RdMeta": FILE_SYSTEM,
    "RdData": FILE_SYSTEM,
    "PgIn": FILE_SYSTEM,
    # A logical volume of CoreStorage has a line for the file system's read and, indented before it, one for the read
    # that served it from the physical volume; the others are CoreStorage's own: its metadata, and data that it moves
    # between the devices of a Fusion drive (Migr) or encrypts (Tf) in the background.
    "RdChunkCS": CHUNK,
    "RdMetaCS": BELOW,
    "RdBgMigrCS": BELOW,
    "RdBgTfCS": BELOW,
}
"""Calls that read a disk, and who asks for it."""

WRITES: Final = frozenset({"WrMeta", "WrData", "PgOut", "WrChunkCS", "WrMetaCS", "WrBgMigrCS", "WrBgTfCS"})

BEGIN: Final = re.compile(
    r"^\s*(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:\.\d+)?)\s+(?P<call>[A-Z]\w*)(?:\[[A-Z0-9]*\])?\s+D=0x"
)
"""How every disk line begins."""

REST: Final = re.compile(
    r"(?P<block>[0-9a-fA-F]+)\s+"
    r"(?:\[\s*(?P<error>-?\d+)\]|B=0x(?P<length>[0-9a-fA-F]+)\s+(?:BC:\S*\s+)?/dev/(?P<device>\S+))"
    # The path is somebody's and may hold anything; the last time on the line is fs_usage's own.
    r"(?:.*\s|\s+)(?P<elapsed>\d+\.\d+)(?:\s+W)?\s+(?P<process>\S.*?)(?:\.(?P<thread>\d+))?\s*$"
)
"""How it goes on behind ``D=0x``."""

LOST: Final = re.compile(
    r"overrun|events? (?:were |was )?(?:lost|dropped)|(?:lost|dropped) \d* ?events?", re.IGNORECASE
)

DAY_US: Final = 86_400e6


class _Clock:
    """The time of day as a time that goes on over midnight."""

    def __init__(self) -> None:
        self._days_us, self._latest = 0.0, 0.0

    def us(self, begin: re.Match[str]) -> float:
        """Return the microseconds of a line."""
        of_day = ((int(begin["hour"]) * 60 + int(begin["minute"])) * 60 + float(begin["second"])) * 1e6
        # Lines of two processors may be a little out of order; half a day back is a new day.
        if of_day + self._days_us < self._latest - DAY_US / 2:
            self._days_us += DAY_US
        now = of_day + self._days_us
        self._latest = max(self._latest, now)
        return now


def read_fs_usage(data: bytes) -> Recorded:
    """Read what ``fs_usage`` wrote; lines of calls and titles are passed over."""
    reads: list[Read] = []
    counts: Counter[str] = Counter()
    clock, first_unparsed = _Clock(), 0
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        begin = BEGIN.match(line)
        if begin is None:
            counts["lost" if LOST.search(line) else "other"] += bool(line.strip())
            continue
        found = _fs_usage_read(begin, line, clock)
        if isinstance(found, Read):
            reads.append(found)
        else:
            counts[found] += 1
            first_unparsed = first_unparsed or (number if found == "unparsed" else 0)
    lines = LineCounts(reads=len(reads), first_unparsed=first_unparsed, **counts)
    return recording(reads, lines, form=FORM, host="macos", unit_bytes=None)


def _fs_usage_read(begin: re.Match[str], line: str, clock: _Clock) -> Read | str:
    """Turn a disk line into a read, or say what else it is."""
    now = clock.us(begin)
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
        is_metadata=begin["call"] == "RdMeta",
        layer=LAYERS[begin["call"]],
        issued_us=now - float(rest["elapsed"]) * 1e6,
        done_us=now,
    )
