"""Whose a place is: from a byte of the image to tree, node, file and path; and from a path to the file it names."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from layoutscope.access.entries import ROOT_ID
from layoutscope.errors import UsageError
from layoutscope.frames import pl
from layoutscope.results.inspect import Owner

if TYPE_CHECKING:
    from layoutscope.filesystems.contract import Row
    from layoutscope.tables import VolumeLayout

MOST_LEVELS: Final = 4096
"""A path with more names leads in a circle."""

_SIZES: Final = {"nodes": "size_bytes", "regions": "length_bytes", "extents": "length_bytes", "free": "length_bytes"}
_WORDS: Final = {"nodes": "node", "regions": "region", "extents": "file data", "free": "free space"}
_MOST_PATHS: Final = 8
_NODE_FACTS: Final = (
    *("tree", "node_id", "kind", "level", "num_records", "used_bytes"),
    *("free_bytes", "xid", "key_rank", "state", "valid"),
)


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


def owners_at(layout: VolumeLayout, at: int) -> list[tuple[str, Row]]:
    """List the rows of all tables that cover a byte, as table and row."""
    pieces = _covering(layout.node_fragments, "length_bytes", at)
    split = layout.nodes.filter(pl.col("row").is_in(pieces["node_row"].to_list()))
    whole = _covering(layout.nodes, "size_bytes", at).join(
        layout.node_fragments, left_on="row", right_on="node_row", how="anti"
    )
    found = [("nodes", row) for frame in (whole, split) for row in frame.iter_rows(named=True)]
    for table in ("regions", "extents", "free"):
        rows = _covering(layout.table(table), _SIZES[table], at).iter_rows(named=True)
        found += [(table, row) for row in rows]
    return found


def _covering(frame: pl.DataFrame, size: str, at: int) -> pl.DataFrame:
    start = pl.col("image_offset")
    return frame.filter((start <= at) & (at < start + pl.col(size)))


def row_owner(layout: VolumeLayout, table: str, row: Row, at: int | None) -> Owner:
    """Say what a row is.

    Parameters
    ----------
    layout : VolumeLayout
        Whose row it is.
    table : str
        ``nodes``, ``regions``, ``extents`` or ``free``.
    row : dict
        The row, by the names of its columns.
    at : int or None
        The byte of the image that was asked for.
    """
    describe = {"nodes": _node_facts, "regions": _region_facts, "extents": _extent_facts, "free": _free_facts}[table]
    facts = describe(layout, row)
    if at is not None:
        facts.append((f"byte of this {_WORDS[table]}", f"{at - row['image_offset']:,}"))
    return Owner(volume_name(layout), _WORDS[table], row["image_offset"], row[_SIZES[table]], tuple(facts))


def volume_name(layout: VolumeLayout) -> str:
    """Name a volume by its layers and its own name."""
    own = f' "{layout.facts.name}"' if layout.facts.name else ""
    return " > ".join(layout.facts.stack) + own


def _node_facts(layout: VolumeLayout, row: Row) -> list[tuple[str, str]]:
    facts = [(name.replace("_", " "), str(row[name])) for name in _NODE_FACTS if row[name] is not None]
    for name in ("parent_row", "locator_row"):
        if row[name] is not None:
            other = layout.nodes.filter(pl.col("row") == row[name]).row(0, named=True)
            facts.append((name.removesuffix("_row").replace("_", " "), f"{other['tree']}:{other['node_id']}"))
    return facts


def _region_facts(_layout: VolumeLayout, row: Row) -> list[tuple[str, str]]:
    return [("type", str(row["type"])), ("owner", row["owner"] or "-")]


def _free_facts(_layout: VolumeLayout, _row: Row) -> list[tuple[str, str]]:
    return []


def _extent_facts(layout: VolumeLayout, row: Row) -> list[tuple[str, str]]:
    facts = [
        ("file", str(row["file_id"])),
        ("fork", str(row["fork"])),
        ("from byte of the fork", f"{row['logical_offset']:,}"),
    ]
    return facts + _path_facts(layout, row["file_id"])


def _path_facts(layout: VolumeLayout, file_id: int) -> list[tuple[str, str]]:
    return [("path", path) for path in paths_of(layout, file_id)[:_MOST_PATHS]]


def file_owner(layout: VolumeLayout, file_id: int) -> Owner:
    """Say what a file is: its names, sizes, extents and the nodes with its records."""
    entry = layout.entries.filter(pl.col("file_id") == file_id).head(1)
    names = ("kind", "size_bytes", "link_count", "parent_id", "create_time", "modify_time")
    row = entry.row(0, named=True) if not entry.is_empty() else {}
    facts = [("file", str(file_id)), *_path_facts(layout, file_id)]
    facts += [(name.replace("_", " "), str(row[name])) for name in names if row.get(name) is not None]
    extents = layout.extents.filter((pl.col("file_id") == file_id) & pl.col("image_offset").is_not_null())
    facts += [
        (f"extent of {item['fork']}", f"byte {item['image_offset']:,}, {item['length_bytes']:,} bytes")
        for item in extents.head(64).iter_rows(named=True)
    ]
    first = extents["image_offset"][0] if extents.height else layout.facts.image_offset
    return Owner(volume_name(layout), "file", first, int(extents["length_bytes"].sum()), tuple(facts))
