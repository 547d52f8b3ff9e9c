"""What ``verify`` and ``checkpoints`` return, as text and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.grid import plain_table
from layoutscope.report.text.scan import print_parts
from layoutscope.results.scan import EXIT_COMPLETE, EXIT_DAMAGED
from layoutscope.results.shown import Shown
from layoutscope.units import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """One table, read with both decoders.

    Attributes
    ----------
    volume, table : str
        Which.
    rows : int
        Rows that the bulk decoder gives.
    differences : tuple of str
        What differs, by column and row; empty where both agree.
    """

    volume: str
    table: str
    rows: int
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification(Shown):
    """All tables of an image, read with both decoders."""

    image: str
    tables: tuple[TableVerdict, ...]

    @property
    def exit_code(self) -> int:
        """0 if both decoders agree, else 3."""
        return EXIT_DAMAGED if any(table.differences for table in self.tables) else EXIT_COMPLETE


@dataclass(frozen=True, slots=True)
class StateLine:
    """One state of a container that can be read; fields as in the reader's list of states."""

    container: str
    kind: str
    label: str
    xid: int
    volume: str
    time_ns: int
    is_complete: bool
    num_nodes: int
    num_sound_nodes: int


def print_verification(found: Verification, console: Console) -> None:
    """Print each table with its rows and the differences."""
    print_parts(_verified(found), console)


def _verified(found: Verification) -> Iterator[RenderableType]:
    columns = [("Volume", False), ("Table", False), ("Rows", True), ("Both decoders", False)]
    rows = [
        (escape_text(item.volume), item.table, f"{item.rows:,}", "; ".join(item.differences) or "agree")
        for item in found.tables
    ]
    yield plain_table(
        f"{escape_text(found.image)}: read twice, through bulk dtypes and through the grammars", columns, rows
    )
    differing = sum(bool(item.differences) for item in found.tables)
    yield Text(f"{differing} tables differ" if differing else "Both decoders agree on every row.", style="bold")


def verification_json(found: Verification) -> str:
    """Write a verification as JSON text."""
    document = {
        "schema": "layoutscope.verify/1",
        "image": found.image,
        "exit_code": found.exit_code,
        "tables": [
            {"volume": item.volume, "table": item.table, "rows": item.rows, "differences": list(item.differences)}
            for item in found.tables
        ],
    }
    return json.dumps(document, indent=2)


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


def states_json(states: Sequence[StateLine]) -> str:
    """Write states as JSON text; xids as strings."""
    return json.dumps({"schema": "layoutscope.checkpoints/1", "states": [_state(item) for item in states]}, indent=2)


def _state(item: StateLine) -> dict[str, Any]:
    return {
        "container": item.container,
        "kind": item.kind,
        "label": item.label,
        "xid": str(item.xid),
        "volume": item.volume,
        "time_ns": str(item.time_ns),
        "is_complete": item.is_complete,
        "num_nodes": item.num_nodes,
        "num_sound_nodes": item.num_sound_nodes,
    }
