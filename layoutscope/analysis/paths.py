"""Paths and ids: which file a path names, and which paths a file has."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import polars as pl

from layoutscope.access.entries import ROOT_ID
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from layoutscope.tables import VolumeLayout

MOST_LEVELS: Final = 4096
"""A path with more names leads in a circle."""


def resolve(layout: VolumeLayout, path: str) -> int | None:
    """Find the id of the file at a path from the root; None where there is none.

    Names are compared as they are; where none matches exactly, without regard to composition, as a terminal may compose
    what the volume keeps decomposed, and to case where the volume does so.
    """
    file_id = ROOT_ID
    for name in [part for part in path.split("/") if part not in ("", ".")]:
        child = _child(layout, file_id, name)
        if child is None:
            return None
        file_id = child
    return file_id


def _child(layout: VolumeLayout, parent_id: int, name: str) -> int | None:
    inside = layout.entries.filter(pl.col("parent_id") == parent_id)
    found = inside.filter(pl.col("name") == name)["file_id"].to_list()
    if not found:
        names, ids = inside["name"].fill_null(""), inside["file_id"]
        folds = not layout.facts.case_sensitive
        wanted = _compared(name, folds=folds)
        found = [number for own, number in zip(names, ids, strict=True) if _compared(own, folds=folds) == wanted]
    return int(found[0]) if found else None


def _compared(name: str, *, folds: bool) -> str:
    """Name as it is compared when it is not spelled exactly: decomposed, of one case."""
    plain = unicodedata.normalize("NFD", name)
    return unicodedata.normalize("NFD", plain.casefold()) if folds else plain


def paths_of(layout: VolumeLayout, file_id: int) -> list[str]:
    """List the paths of a file; several with hard links, none where nothing names it."""
    if file_id == ROOT_ID:
        return ["/"]
    rows = layout.entries.filter(pl.col("file_id") == file_id).select("parent_id", "name")
    return [f"{_directory(layout, parent_id)}/{name or '?'}" for parent_id, name in rows.iter_rows()]


def _directory(layout: VolumeLayout, directory_id: int) -> str:
    """Spell the path of a directory, without a slash at its end."""
    names: list[str] = []
    while directory_id != ROOT_ID and len(names) < MOST_LEVELS:
        row = layout.entries.filter((pl.col("file_id") == directory_id) & (pl.col("kind") == "directory")).head(1)
        if row.is_empty():
            names.append(f"<{directory_id}>")
            break
        names.append(row["name"][0] or "?")
        directory_id = int(row["parent_id"][0])
    return "".join(f"/{name}" for name in reversed(names))


def needed_id(layouts: tuple[VolumeLayout, ...], path: str) -> list[tuple[VolumeLayout, int]]:
    """Find a path on every volume that has it.

    Raises
    ------
    UsageError
        If none has.
    """
    found = [(layout, file_id) for layout in layouts if (file_id := resolve(layout, path)) is not None]
    if not found:
        raise UsageError(f"no file at {path!r}")
    return found
