"""Read tables that programs print of disk accesses under a line of titles: iosnoop, biosnoop, and DTrace's io provider.

The titles say which columns there are, so that every choice of options is read: ``iosnoop -Dets`` has five more than
``iosnoop``, and a script of one's own may have any of them.

References
----------
.. [1] iosnoop(1m) of macOS: BLOCK is "relative to this filesystem", SIZE in bytes; STIME, TIME, DELTA in microseconds.
.. [2] biosnoop(8) of BCC: SECTOR of 512 bytes, TIME(s) of the completion, LAT(ms).
.. [3] iosnoop(8) of perf-tools: BLOCK of 512 bytes, STARTs, ENDs, LATms.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from layoutscope.drive.recorded import HIGHEST_BLOCK, LONGEST_READ, LineCounts, Read, Recorded, recording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        found = _read_of(titles, line)
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


def _read_of(titles: Sequence[str], line: str) -> Read | str:
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
