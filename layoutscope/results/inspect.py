"""Results of ``inspect``, ``checkpoints`` and ``extract``: structures and owners, states, and written images."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID, Paths, path_component
from layoutscope.display import Displayed, Struct
from layoutscope.errors import UsageError
from layoutscope.metrics.scatter import split_nodes
from layoutscope.results import Shown
from layoutscope.results.scan import volume_name
from layoutscope.walk.directories import components_of

if TYPE_CHECKING:
    from layoutscope.filesystems.contract import Row
    from layoutscope.tables import Table, VolumeLayout


class FieldLine(Displayed, Struct, frozen=True):
    """One field."""

    path: str  # names from the structure down
    image_offset: int | None  # start, in bytes from the start of the image; None for a computed value
    length_bytes: int  # 0 for a computed value
    value: str  # as text; names are not escaped
    meaning: str = ""  # a time or a mode, decoded; empty for other fields


class StructureLines(Displayed, Struct, frozen=True):
    """One structure with its fields; `error` gives the reason if some are missing."""

    title: str
    image_offset: int
    fields: tuple[FieldLine, ...]
    error: str = ""


class Owner(Displayed, Struct, frozen=True):
    """The owner of a range of bytes."""

    volume: str  # layer stack and name of the volume
    what: str  # ``node``, ``region``, ``file data``, ``free space``, or the kind of an entry, such as ``directory``
    image_offset: int | None  # start of the range; None for an entry without extents, such as a directory
    length_bytes: int  # length of the range; for an entry, of all its extents
    facts: tuple[tuple[str, str], ...]  # tree, node, level, file, fork, path and so on, as far as they apply


class Inspection(Shown, Struct, frozen=True):
    """Everything about one place, node or file."""

    image: str
    subject: str
    owners: tuple[Owner, ...]
    structures: tuple[StructureLines, ...]


class StateLine(Displayed, Struct, frozen=True):
    """One readable state of a container, with the fields of the reader's list of states."""

    container: str
    kind: str
    label: str
    xid: int
    volume: str
    time_ns: int
    is_complete: bool
    num_nodes: int
    num_sound_nodes: int

    @property
    def is_whole(self) -> bool:
        """Whether it can be read, and all of its nodes are sound."""
        return self.is_complete and self.num_sound_nodes == self.num_nodes


class Extract(Displayed, Struct, frozen=True):
    """An extracted image."""

    size_bytes: int  # length of the image
    metadata_bytes: int  # bytes of the image that were kept
    written_bytes: int  # stored bytes of the file


_SIZES: Final = {"nodes": "size_bytes", "regions": "length_bytes", "extents": "length_bytes", "free": "length_bytes"}

_WORDS: Final = {"nodes": "node", "regions": "region", "extents": "file data", "free": "free space"}

_MAX_PATHS: Final = 8

_NODE_FACTS: Final = (
    *("tree", "node_id", "kind", "level", "num_records", "used_bytes"),
    *("free_bytes", "xid", "key_rank", "state", "valid", "condition"),
)


def resolve(layout: VolumeLayout, path: str) -> int | None:
    """Find the id of the file at a path from the root; None if there is none.

    A name with characters that no path can have is spelled with the escapes of paths. If no name matches exactly, the
    search ignores composition, because a terminal may compose a name that the volume stores decomposed, and also case
    if the volume does.
    """
    file_id, entries, folds = ROOT_ID, layout.columns("entries"), not layout.facts.case_sensitive
    for name in components_of(path):
        inside = entries.take(entries["parent_id"].data == file_id)
        names = [path_component(own or "") for own in inside.listed("name")]
        ids = dict(zip(reversed(names), reversed(inside.listed("file_id")), strict=True))  # the first of equal names
        found: str | None = name
        if name not in ids:
            wanted = _normalise(name, folds=folds)
            found = next((own for own in names if _normalise(own, folds=folds) == wanted), None)
        if found is None:
            return None
        file_id = int(ids[found])
    return file_id


def _normalise(name: str, *, folds: bool) -> str:
    """Normalise a name for the inexact comparison: decomposed, and in one case if the volume folds case."""
    plain = unicodedata.normalize("NFD", name)
    return unicodedata.normalize("NFD", plain.casefold()) if folds else plain


def paths_of(layout: VolumeLayout, file_id: int) -> list[str]:
    """List the paths of a file: several with hard links, none without an entry."""
    if file_id == ROOT_ID:
        return ["/"]
    paths, rows = Paths(layout), _select_file(layout, "entries", file_id).rows()
    return [paths.entry(file_id, row["parent_id"], row["name"]).text for row in rows]


def _select_file(layout: VolumeLayout, table: str, file_id: int) -> Table:
    """Select the rows of a table that belong to a file."""
    rows = layout.columns(table)
    return rows.take(rows["file_id"].data == file_id)


def find_on_volumes(layouts: tuple[VolumeLayout, ...], path: str) -> list[tuple[VolumeLayout, int]]:
    """Find a path on the volumes, and return the volumes that have it with the file id."""
    volumes = [layout for layout in layouts if layout.facts.volume is not None]
    places = [(layout, file_id) for layout in volumes if (file_id := resolve(layout, path)) is not None]
    if not places:
        raise UsageError(f"no file at {path!r}")
    return places


def owners_at(layout: VolumeLayout, at: int) -> list[tuple[str, Row]]:
    """List the rows of all tables that cover a byte, as table and row."""
    nodes, fragments = layout.columns("nodes"), layout.columns("node_fragments")
    pieces = _select_covering(fragments, "length_bytes", at)
    split = nodes.take(np.isin(nodes["row"].data, pieces["node_row"].data))
    whole, _ = split_nodes(layout, _select_covering(nodes, "size_bytes", at))
    owners = [("nodes", row) for table in (whole, split) for row in table.rows()]
    for name in ("regions", "extents", "free"):
        owners += [(name, row) for row in _select_covering(layout.columns(name), _SIZES[name], at).rows()]
    return owners


def _select_covering(table: Table, size: str, at: int) -> Table:
    start = table["image_offset"]
    return table.take(start.is_known & (start.data <= at) & (at < start.data + table[size].data))


def row_owner(layout: VolumeLayout, table: str, row: Row, at: int | None) -> Owner:
    """Describe a row as an owner."""
    facts: list[tuple[str, str]] = []
    if table == "nodes":
        facts = [(name.replace("_", " "), str(row[name])) for name in _NODE_FACTS if row[name] is not None]
        for name in ("parent_row", "locator_row"):
            if row[name] is not None:
                nodes = layout.columns("nodes")
                (other,) = nodes.take(nodes["row"].data == row[name]).rows()
                facts.append((name.removesuffix("_row").replace("_", " "), f"{other['tree']}:{other['node_id']}"))
    elif table == "regions":
        facts = [("type", str(row["type"])), ("owner", row["owner"] or "-")]
    elif table == "extents":
        facts = [("file", str(row["file_id"])), ("fork", str(row["fork"]))]
        facts += [("from byte of the fork", f"{row['logical_offset']:,}"), *_path_facts(layout, row["file_id"])]
    if at is not None:
        facts.append((f"byte of this {_WORDS[table]}", f"{at - row['image_offset']:,}"))
    return Owner(volume_name(layout), _WORDS[table], row["image_offset"], row[_SIZES[table]], tuple(facts))


def _path_facts(layout: VolumeLayout, file_id: int) -> list[tuple[str, str]]:
    return [("path", path) for path in paths_of(layout, file_id)[:_MAX_PATHS]]


def file_owner(layout: VolumeLayout, file_id: int) -> Owner:
    """Describe a file as an owner, with its names, sizes and extents."""
    entry = _select_file(layout, "entries", file_id).take(slice(1)).rows()
    names = ("kind", "size_bytes", "link_count", "parent_id", "create_time", "modify_time")
    row = entry[0] if entry else {}
    facts = [("file", str(file_id)), *_path_facts(layout, file_id)]
    facts += [(name.replace("_", " "), str(row[name])) for name in names if row.get(name) is not None]
    extents = _select_file(layout, "extents", file_id)
    extents = extents.take(extents["image_offset"].is_known)
    facts += [
        (f"extent of {item['fork']}", f"byte {item['image_offset']:,}, {item['length_bytes']:,} bytes")
        for item in extents.take(slice(64)).rows()
    ]
    what = str(row.get("kind", "directory" if file_id == ROOT_ID else "file"))
    first = int(extents["image_offset"].data[0]) if len(extents) else None
    return Owner(volume_name(layout), what, first, int(extents["length_bytes"].data.sum()), tuple(facts))
