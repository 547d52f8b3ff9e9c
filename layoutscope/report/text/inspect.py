"""An inspection as text, and the states that a container still has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.report.text.console import plain_table, print_parts
from layoutscope.units import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from layoutscope.results.inspect import Inspection, StateLine, StructureLines


def print_inspection(found: Inspection, console: Console) -> None:
    """Print who owns the place, then every structure field by field."""
    print_parts(_parts(found), console)


def _parts(found: Inspection) -> Iterator[RenderableType]:
    yield Text(f"{escape_text(found.image)}: {escape_text(found.subject)}", style="bold")
    for owner in found.owners:
        start = owner.image_offset
        where = "" if start is None else f" at byte {start:,}, {owner.length_bytes:,} bytes,"
        yield Text(f"{owner.what}{where} in {escape_text(owner.volume)}")
        for name, value in owner.facts:
            yield Text(escape_text(f"  {name}: {value}"))
    for structure in found.structures:
        yield Text()
        yield _structure(structure)


def _structure(structure: StructureLines) -> RenderableType:
    columns = [("Field", False), ("Byte", True), ("Length", True), ("Value", False)]
    rows = [
        (
            escape_text(field.path),
            NOTHING if field.image_offset is None else f"{field.image_offset:,}",
            f"{field.length_bytes:,}" if field.image_offset is not None else NOTHING,
            escape_text(field.value),
        )
        for field in structure.fields
    ]
    if structure.error:
        rows.append(("damaged", NOTHING, NOTHING, escape_text(structure.error)))
    return plain_table(f"{escape_text(structure.title)} at byte {structure.image_offset:,}", columns, rows)


def print_states(states: Sequence[StateLine], console: Console) -> None:
    """Print the states of a container, and what is left of each."""
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
    print_parts(iter([plain_table("States (--xid or --snapshot reads one)", columns, rows)]), console)


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S") if time_ns else NOTHING


def _left(item: StateLine) -> str:
    parts = "" if item.is_complete else ", superblock or map lost"
    return f"{item.num_sound_nodes:,} of {item.num_nodes:,}{parts}"
