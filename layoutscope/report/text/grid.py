"""Tables without frames, and indented lists, for a terminal of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def plain_table(
    title: str, columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str | Text]], *, gap: int = 2
) -> Group:
    """Make a table without a frame under its title; columns are named and say whether they are numbers.

    A row may have fewer cells than there are columns; `gap` is the distance of the columns.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return Group(Text(title, style="bold"), table)


def bullets(lines: Iterable[str]) -> Table:
    """Make a list whose long lines hang."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        grid.add_row(Text("*"), Text(line, style="bold"))
    return grid
