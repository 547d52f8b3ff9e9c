"""What figures of a drive can be: whoever writes a profile is told which of them cannot.

Far beyond every drive that was ever made, and still so small that no computation overflows or takes all memory.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from layoutscope.errors import ImageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CYLINDERS: Final = 10**7
MAX_HEADS: Final = 256

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "capacity_bytes": (512, 1e16),
    "rpm": (60, 1e6),
    "heads": (1, MAX_HEADS),
    "cylinders": (1, MAX_CYLINDERS),
    "band_cylinders": (0, MAX_CYLINDERS),
    "track_skew_turns": (0, 1),
    "cylinder_skew_turns": (0, 1),
    "outer_mb_s": (1e-3, 1e5),
    "inner_mb_s": (1e-3, 1e5),
    "track_to_track_ms": (0, 1e4),
    "average_seek_ms": (0, 1e4),
    "full_stroke_ms": (0, 1e4),
    "head_switch_ms": (0, 1e4),
    "read_miss_ms": (0, 1e4),
    "read_hit_ms": (0, 1e4),
    "interface_mb_s": (0, 1e6),
    "buffer_bytes": (0, 1e12),
    "segments": (1, 65536),
    "segment_sectors": (0, 1e9),
    "start_anywhere": (0, 1),
    "queue_window": (1, 65536),
    "bandwidth_mb_s": (1e-3, 1e7),
    "parallel_reads": (1, 65536),
    "chunk_bytes": (512, 1e12),
}
"""Smallest and largest value of figures that are numbers."""

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "look_ahead": ("track", "segment", "none"),
    "join": ("never", "next-sector", "window"),
}
"""Values of figures that are words."""

TABLES: Final[Mapping[str, str]] = {"seek_ms": "seek_distance_cylinders", "latency_us": "latency_bytes"}
"""Lists of results, and the lists that say of what."""

FEWEST: Final[Mapping[str, int]] = {"seek_ms": 2, "latency_us": 1}
"""Results that a list needs: the last two seeks are prolonged, one latency holds up to its size."""


_MEMBERS: Final = {
    "sources": dict,
    "figures": dict,
    "members": list,
    "name": str,
    "note": str,
    "take_for": str,
    "models": list,
    "spread": dict,
}
"""What a profile may say besides its kind, and as what."""


def check_tables(name: str, table: Mapping[str, Any]) -> None:
    """Check that what must be a table or a text is one."""
    for key, kind in _MEMBERS.items():
        if not isinstance(table.get(key, kind()), kind):
            raise UsageError(f"drive profile {name}: {key} is no {kind.__name__}")
    for key in ("members", "models"):
        if not all(isinstance(member, str) for member in table.get(key, [])):
            raise UsageError(f"drive profile {name}: {key} are named by text")


def check_figures(profile: str, values: Mapping[str, Any]) -> None:
    """Check all figures of a profile."""
    for name, value in values.items():
        if name in RANGES and not _is_within(value, *RANGES[name]):
            low, high = RANGES[name]
            raise UsageError(f"drive profile {profile}: {name} is {value!r}, not a number from {low:g} to {high:g}")
        # 0 means that it costs nothing; what is next to it would take for ever.
        if name == "interface_mb_s" and 0 < value < RANGES["outer_mb_s"][0]:
            raise UsageError(f"drive profile {profile}: {name} is {value!r}, neither 0 nor a rate")
        if name in WORDS and value not in WORDS[name]:
            raise UsageError(f"drive profile {profile}: {name} is {value!r}, not one of {', '.join(WORDS[name])}")
    for result, of in TABLES.items():
        if result in values or of in values:
            _check_table(profile, values, of, result)
    if "zones" in values:
        _check_zones(profile, values)


def _is_within(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _check_table(profile: str, values: Mapping[str, Any], of: str, result: str) -> None:
    places, results = values.get(of), values.get(result)
    if not _are_numbers(places, 1e12) or not _are_numbers(results, 1e9) or len(places) != len(results):  # type: ignore[arg-type]
        raise UsageError(f"drive profile {profile}: {of} and {result} are no lists of as many numbers")
    fewest = FEWEST[result]
    if len(places) < fewest or any(after <= before for before, after in pairwise(places)):  # type: ignore[arg-type]
        raise UsageError(f"drive profile {profile}: {of} has fewer numbers than {fewest}, or they do not ascend")


def _are_numbers(value: object, largest: float) -> bool:
    return isinstance(value, list) and all(_is_within(item, 0, largest) for item in value)


def _check_zones(profile: str, values: Mapping[str, Any]) -> None:
    """Zones begin at sector 0, ascend, and have as many columns each."""
    rows = values["zones"]
    if not isinstance(rows, list) or not rows or not all(_are_numbers(row, 1e13) for row in rows):
        raise UsageError(f"drive profile {profile}: zones is no list of rows of numbers")
    if len({len(row) for row in rows}) != 1 or len(rows[0]) < 3 or any(row[2] < 1 for row in rows):
        raise UsageError(f"drive profile {profile}: zones has rows of other lengths, or tracks without a sector")
    for column in (0, 1):
        values_of = [row[column] for row in rows]
        if values_of[0] != 0 or any(after <= before for before, after in pairwise(values_of)):
            raise UsageError(f"drive profile {profile}: zones do not begin at 0, or do not ascend")


def check_cylinders(profile: str, cylinders: float) -> int:
    """Return the number of cylinders that follows from other figures."""
    if not math.isfinite(cylinders) or not 0 < cylinders <= MAX_CYLINDERS:
        raise UsageError(f"drive profile {profile}: its figures give {cylinders:g} cylinders")
    return int(cylinders)


def unpacked(data: bytes) -> bytes:
    """Decompress a small file that goes with drives."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            found = bytearray()
            # The library makes room for all that is asked for, before anything has come.
            while len(found) <= MAX_UNPACKED_BYTES and (piece := reader.read(_PIECE_BYTES)):
                found += piece
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(found) > MAX_UNPACKED_BYTES:
        raise ImageError(f"a compressed file holds more than {MAX_UNPACKED_BYTES:,} bytes")
    return bytes(found)


_PIECE_BYTES: Final = 1 << 20
MAX_UNPACKED_BYTES: Final = 1 << 30
"""A trace of 60 million reads; a map of all tracks of a large disk is a tenth of it."""
