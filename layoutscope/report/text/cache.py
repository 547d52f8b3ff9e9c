"""The cache of decompressed images, as text or JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from layoutscope.report import escape_text
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    _Kept = tuple[str, Path, int, int, float]
    """Name, place, length, what it takes on the disk, and when it was used last."""


def cache_text(
    folder: Path | None,  # where; None where nothing is kept
    limit_bytes: int,
    images: Sequence[_Kept],
    *,
    freed: int | None,  # bytes that removing them gave back; None where they are only shown
    as_json: bool,
) -> str:
    """Tell what is kept, or what was removed."""
    if as_json:
        listed = [
            {"name": name, "size_bytes": size, "stored_bytes": stored, "used": _when(used)}
            for name, _, size, stored, used in images
        ]
        about = {"folder": None if folder is None else str(folder), "limit_bytes": limit_bytes, "freed_bytes": freed}
        return json.dumps({"schema": "layoutscope.cache/1", **about, "images": listed}, indent=2)
    if folder is None:
        return "Nothing is kept: LAYOUTSCOPE_CACHE is empty."
    number = f"{len(images)} image{'' if len(images) == 1 else 's'}"
    if freed is not None:
        return f"{escape_text(str(folder))}: {number} removed, {format_bytes(freed)} given back"
    stored = format_bytes(sum(item[3] for item in images))
    lines = [f"{escape_text(str(folder))}: {number}, {stored} of at most {format_bytes(limit_bytes)}"]
    for name, _, size, held, used in images:
        sizes = f"{format_bytes(held)} ({format_bytes(size)} with holes)"
        lines.append(f"  {escape_text(name)}: {sizes}, used {_when(used)} UTC")
    return "\n".join(lines)


def _when(used: float) -> str:
    return datetime.fromtimestamp(used, UTC).strftime("%Y-%m-%d %H:%M:%S")
