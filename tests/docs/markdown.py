"""Tables in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """Return a table; its head has the columns with bars between them."""
    lines = [head, "|".join("---" for _ in head.split("|"))]
    lines += [" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(f"|{line}|" if line is lines[1] else f"| {line} |" for line in lines)


def percent(share: float, digits: int = 0, sign: str = "") -> str:
    """Write a share as the pages do."""
    return f"{share:{sign}.{digits}%}".replace("%", " %")
