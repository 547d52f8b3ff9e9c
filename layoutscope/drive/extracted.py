"""Drives as parameter extraction describes them: the tables that go with results of the DiskSim simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

EXTRACTED: Final = ("arm", "command", "buffer", "layout")
"""Tables of a drive as parameter extraction describes it: the figures that go with results of the DiskSim simulator."""


def is_extracted(table: Mapping[str, Any]) -> bool:
    """Tell whether a TOML table is one of parameter extraction."""
    return all(isinstance(table.get(name), dict) for name in EXTRACTED)


def extracted_values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a profile, all of them measured.

    A read that begins with the sector that the look-ahead reads next may wait for it, whatever the table says: a drive
    that had to turn it away would lose a turn at every read of a stream.
    """
    arm, command, buffer = table["arm"], table["command"], table["buffer"]
    return {
        "capacity_bytes": table["capacity_bytes"],
        "rpm": 60_000 / table["revolution_ms"] if "revolution_ms" in table else table["rpm"],
        "heads": table["heads"],
        "cylinders": table["cylinders"],
        "map_file": table["layout"]["map_file"],
        "seek_distance_cylinders": arm["seek_distance_cyl"],
        "seek_ms": arm["seek_read_ms"],
        "head_switch_ms": arm["head_switch_ms"],
        "read_miss_ms": command["read_miss_ms"],
        "read_hit_ms": command["read_hit_ms"],
        "segments": buffer["segments"],
        "segment_sectors": buffer["segment_sectors"],
        "look_ahead": "track",
        "join": "next-sector",
        "start_anywhere": int(buffer.get("start_anywhere_in_request", False)),
    }
