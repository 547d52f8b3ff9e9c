"""Read the disk lines of macOS ``fs_usage -w -f diskio``.

A line is written when the access is complete, by Apple's ``fs_usage.c``: the time of day, the call with its flags in
brackets (synchronous or asynchronous, not cached, throttle tier, upgraded, passive), ``D=`` the first block in units of
the device that stands behind ``/dev/``, ``B=`` the bytes (or the number of the error in brackets, without a device),
with ``-b`` then ``BC:``, the file's path except for metadata, how long it took, ``W`` if the thread waited, and the
process with the number of its thread.

References
----------
.. [1] fs_usage(1).
.. [2] ``fs_usage.c`` of Apple's system_cmds, ``diskio_print`` and ``format_print``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from layoutscope.drive.recorded import (
    BELOW,
    CHUNK,
    FILE_SYSTEM,
    HIGHEST_BLOCK,
    LONGEST_READ,
    LineCounts,
    Read,
    Recorded,
    recording,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        found = _read_of(begin, line, clock)
        if isinstance(found, Read):
            reads.append(found)
        else:
            counts[found] += 1
            first_unparsed = first_unparsed or (number if found == "unparsed" else 0)
    lines = LineCounts(reads=len(reads), first_unparsed=first_unparsed, **counts)
    return recording(reads, lines, form=FORM, host="macos", unit_bytes=None)


def _read_of(begin: re.Match[str], line: str, clock: _Clock) -> Read | str:
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
