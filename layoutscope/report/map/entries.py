"""The directories of a disk, as a page carries them: what each entry is called, where it lies, and in which node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.paths import path_component
from layoutscope.arrays.lookup import match
from layoutscope.report.map import encode
from layoutscope.report.map.nodes import identifiers, ids_of
from layoutscope.tables.table import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.report.map.model import MapDisk
    from layoutscope.tables.columns import TextColumn

NAME_BUDGET: Final = 100_000
"""Entries whose paths the page carries in any case; of a disk that has more, only where all are asked for."""

BLOCK: Final = 16_384
"""Names that are compressed together: the page unpacks and searches them in slices between two pictures."""

_ZERO: Final = b"\0"
"""What stands before each name; paths spell a zero of a name, as private directories of old volumes have it."""


def entries(item: MapDisk, *, names: bool, all_paths: bool) -> dict[str, Any]:
    """Pack the entries of all volumes of a disk by their numbers: these and their nodes rise then, and take a fifth.

    `total` entries, whether they are `withheld`, and `packed`, None where the page has none of them.
    """
    tables = [layout.columns("entries") for layout in item.layouts]
    total = sum(map(len, tables))
    carried = names and (all_paths or total <= NAME_BUDGET) and total > 0
    return {"total": total, "withheld": not names, "packed": _packed(item) if carried else None}


def _packed(item: MapDisk) -> dict[str, Any]:
    tables = [layout.columns("entries") for layout in item.layouts]
    base = np.cumsum([0, *(len(layout.columns("nodes")) for layout in item.layouts)])
    rows = [table["inode_node_row"].signed() for table in tables]
    nodes = np.concatenate([np.where(row >= 0, row + first, -1) for row, first in zip(rows, base, strict=False)])
    volume = np.repeat(np.arange(len(tables)), list(map(len, tables)))
    stack = stacked(tables)
    order = np.lexsort((ids_of(stack["file_id"]), volume))
    found, volume = stack.take(order), volume[order]
    ids, parents = ids_of(found["file_id"]), ids_of(found["parent_id"])
    above = _above(volume, ids, parents, len(tables))
    return {
        "volume": encode.array(volume),
        "node": encode.array(nodes[order], delta=True),
        "id": identifiers(ids),
        "above": encode.array(above, delta=True),
        "orphan": identifiers(parents[above < 0]),
        "block": BLOCK,
        "names": packed_names(found.texts("name")),
    }


def _above(
    volume: NDArray[np.int64], ids: NDArray[np.uint64], parents: NDArray[np.uint64], num_volumes: int
) -> NDArray[np.int64]:
    """Return the place of the first entry of each one's directory, -1 where none names it; all by volume and number."""
    above = np.full(len(ids), -1, np.int64)
    for number, first in enumerate(np.searchsorted(volume, np.arange(num_volumes)).tolist()):
        own = slice(first, int(np.searchsorted(volume, number, side="right")))
        place, is_there = match(ids[own], parents[own])
        above[own] = np.where(is_there, place + first, -1)
    return above


def packed_names(names: TextColumn) -> Sequence[str]:
    """Compress names, spelled as components of paths, block by block, each with a zero before it."""
    spelled = [path_component(name or "").encode("utf-8", "surrogatepass") for name in names.to_list()]
    blocks = (spelled[first : first + BLOCK] for first in range(0, len(spelled), BLOCK))
    return [encode.packed_bytes(b"".join(_ZERO + name for name in block)) for block in blocks]
