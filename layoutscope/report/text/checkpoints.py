"""States of a container as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from layoutscope.report.escape import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.units import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from layoutscope.results.checkpoints import StateLine


def print_states(states: Sequence[StateLine], console: Console) -> None:
    """Print the states of a container that can be read."""
    columns = [
        ("Kind", False),
        ("Label", False),
        ("Xid", True),
        ("Time (UTC)", False),
        ("Nodes left", True),
        ("Volumes", False),
    ]
    rows = [
        (
            item.kind,
            escape_text(item.label),
            f"{item.xid:,}",
            _time(item.time_ns),
            _left(item),
            escape_text(item.volume),
        )
        for item in states
    ]
    print_parts(iter([plain_table("States that can be read (with --xid or --snapshot)", columns, rows)]), console)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S") if time_ns else NOTHING


def _left(item: StateLine) -> str:
    parts = "" if item.is_complete else ", fixed parts lost"
    return f"{item.num_sound_nodes:,} of {item.num_nodes:,}{parts}"
