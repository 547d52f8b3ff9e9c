"""The balance of a container's blocks: what its bitmaps say against what its structures and files claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.report.text.console import plain_table
from layoutscope.units import format_bytes, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from layoutscope.tables import VolumeFacts

ROWS: Final = {
    "blocks": "all",
    "free blocks": "free in the bitmaps",
    "used blocks": "used in the bitmaps",
    "claimed blocks": "claimed by metadata or files",
    "pending-free blocks": "  of them waiting to become free",
    "unclaimed blocks": "used, but claimed by nothing",
    "claimed but free blocks": "claimed, but free in the bitmaps",
}
"""Rows of the balance: name of the fact, and how it is called in the table."""


def block_table(facts: VolumeFacts) -> Iterator[RenderableType]:
    """Show the balance of a container; nothing for a volume, which has none of its own."""
    counts = {name: facts.details[name] for name in ROWS if isinstance(facts.details.get(name), int)}
    total = int(counts.get("blocks", 0))
    if "claimed blocks" not in counts or not total:
        return
    columns = [("Blocks", False), ("Number", True), ("Size", True), ("Share", True)]
    rows = [
        (ROWS[name], f"{count:,}", format_bytes(int(count) * facts.block_size_bytes), format_share(int(count) / total))
        for name, count in counts.items()
    ]
    wrong = int(counts.get("unclaimed blocks", 0)) + int(counts.get("claimed but free blocks", 0))
    verdict = "every used block belongs to something" if not wrong else f"{wrong:,} blocks do not agree"
    yield plain_table(f"Balance of the blocks: {verdict}", columns, rows)
