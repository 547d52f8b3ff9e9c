"""A verification as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from layoutscope.report.escape import escape_text
from layoutscope.report.text.console import plain_table, print_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from layoutscope.results.verify import Verification


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
