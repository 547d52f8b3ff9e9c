"""Costs of directories as a file for ``ncdu -f``: predicted milliseconds stand where sizes would.

ncdu's export format, https://dev.yorhel.nl/ncdu/jsonfmt: a list, whose first item describes a directory and whose
others are what is in it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.paths import path_component
from layoutscope.report import escape_text
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from layoutscope.tables import VolumeLayout


MAX_LEVELS: Final = 4096
"""Directories within directories that are written; what is deeper is left out."""


def ncdu_text(layout: VolumeLayout, milliseconds: Mapping[int, float]) -> Iterator[str]:
    """Yield the text of an export, a directory a line."""
    head = {"progname": "layoutscope", "progver": __version__}
    yield f"[1,2,{json.dumps(head)}"
    children = _children(layout)
    # An explicit stack: directories may be deeper than the interpreter's own.
    stack: list[tuple[int, str] | None] = [(ROOT_ID, layout.facts.name or "/")]
    depth = 0
    while stack:
        item = stack.pop()
        if item is None:
            depth -= 1
            yield "]"
            continue
        directory_id, name = item
        cost = round(milliseconds.get(directory_id, 0.0))
        yield ",\n[" + json.dumps({"name": escape_text(name), "asize": cost, "dsize": cost, "ino": directory_id})
        stack.append(None)
        depth += 1
        if depth < MAX_LEVELS:
            stack += children.pop(directory_id, [])
    yield "]\n"


def _children(layout: VolumeLayout) -> dict[int, list[tuple[int, str]]]:
    """List the subdirectories of each directory; one that is listed twice is followed once."""
    entries = layout.columns("entries")
    folders = entries.take(entries["kind"].equals("directory") & (entries["file_id"].data != ROOT_ID))
    found: dict[int, list[tuple[int, str]]] = {}
    seen: set[int] = set()
    for parent, number, name in zip(*map(folders.listed, ("parent_id", "file_id", "name")), strict=True):
        if number not in seen:
            seen.add(number)
            found.setdefault(parent, []).append((number, path_component(name) if name else f"<{number}>"))
    return found
