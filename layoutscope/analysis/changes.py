"""What stayed, moved, appeared and went between two states of one volume.

Nodes are known by tree and the number by which their file system finds them. Where that number is the address itself,
as of physical objects, nodes appear and go and never move. Addresses count from the start of the volume, so that a copy
elsewhere is alike.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.arrays.ragged import is_head, ranges
from layoutscope.errors import UsageError
from layoutscope.metrics.pieces import live_nodes, main_tree
from layoutscope.results.compare import (
    NODE_APPEARED,
    NODE_MOVED,
    NODE_STAYED,
    NODE_WENT,
    ChangeRow,
    Changes,
    NodeChanges,
    side_letters,
)
from layoutscope.tables import LIVE_STATES, Column, Values
from layoutscope.tables.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.results.compare import Comparison
    from layoutscope.tables import Table, VolumeLayout

NONE: Final = -1
"""The row of what one of the two states lacks."""


def layout_changes(earlier: VolumeLayout, later: VolumeLayout) -> Changes | None:
    """Follow nodes, entries and data from one state to another; None unless both are states of one volume.

    Images of one volume share its identifier; so do copies that went on apart.
    """
    if not earlier.facts.uuid or earlier.facts.uuid != later.facts.uuid:
        return None
    nodes = node_changes(earlier, later)
    rows = (*_tree_rows(nodes, main_tree(later)), _entry_row(earlier, later), _data_row(earlier, later))
    return Changes(rows, nodes.take(nodes.change != NODE_STAYED))


def changed_nodes(found: Comparison) -> Rows:
    """Put the nodes that did not stay into one table, with the letters of the sides."""
    sides = (
        Column("earlier", "String", "", "side that is the earlier state"),
        Column("later", "String", "", "the other"),
    )
    rows: list[tuple[object, ...]] = []
    columns: tuple[Column, ...] = ()
    for letters, change in zip(pairwise(side_letters(len(found.names))), found.changes, strict=True):
        if change is not None:
            own = change.followed.rows()
            columns = (*sides, *own.columns)
            rows += ((*letters, *row) for row in zip(*own.part(slice(None)).values(), strict=True))
    if not columns:
        raise UsageError("no two of these are states of one volume, so that no nodes can be followed")
    return Rows.listed(columns, rows)


def node_changes(earlier: VolumeLayout, later: VolumeLayout) -> NodeChanges:
    """Join the nodes in use of two states, and say of each what happened to it; in the order of trees and numbers."""
    tables = [_in_use(layout) for layout in (earlier, later)]
    words = sorted({word for table in tables for word in table["tree"].words})
    trees = [codes_in(table["tree"], words) for table in tables]
    numbers = [table["node_id"].data for table in tables]
    (tree, number), (before, now) = _joined((trees[0], numbers[0]), (trees[1], numbers[1]))
    sides = [
        (_of(table["image_offset"], rows).signed() - layout.facts.image_offset, _of(table["device"], rows).signed())
        for table, rows, layout in zip(tables, (before, now), (earlier, later), strict=True)
    ]
    is_same = (sides[0][0] == sides[1][0]) & (sides[0][1] == sides[1][1])
    change = np.where(
        now == NONE, NODE_WENT, np.where(before == NONE, NODE_APPEARED, np.where(is_same, NODE_STAYED, NODE_MOVED))
    )
    levels = [_of(table["level"], rows) for table, rows in zip(tables, (before, now), strict=True)]
    level = np.where(levels[1].is_known, levels[1].data, levels[0].data)
    return NodeChanges(
        Values(tree, None, words),
        number.astype(np.uint64),
        Values(level, levels[0].is_known | levels[1].is_known),
        Values(sides[0][0], before != NONE),
        Values(sides[1][0], now != NONE),
        change.astype(np.uint8),
    )


def _in_use(layout: VolumeLayout) -> Table:
    live = live_nodes(layout)
    return live.take(live["state"].is_in(LIVE_STATES))


def codes_in(column: Values, words: list[str]) -> I64:
    """Return the words of a column by their places among others, which are more."""
    places = np.array([words.index(word) for word in column.words] or [0], np.int64)
    found: I64 = places[column.data]
    return found


def _of(column: Values, rows: I64) -> Values:
    """Return the values of some rows, unknown where there is none."""
    if not len(column):
        return Values(np.zeros(len(rows), column.data.dtype), np.zeros(len(rows), np.bool_))
    taken = column.take(np.maximum(rows, 0))
    return Values(taken.data, taken.is_known & (rows != NONE))


def _joined(
    first: Sequence[NDArray[np.integer[Any]]], second: Sequence[NDArray[np.integer[Any]]]
) -> tuple[list[NDArray[np.integer[Any]]], tuple[I64, I64]]:
    """Join two sets of rows by the same keys, of which the first row counts where several have one.

    The different keys, ascending.

    The row of each set that has them, or `NONE`.
    """
    (one, other), keys = _groups(first, second)
    return keys, (_first_rows(one, len(keys[0])), _first_rows(other, len(keys[0])))


def matching(own: Sequence[NDArray[np.integer[Any]]], others: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Return for each row of a set the first row of another that has the same keys, or :data:`NONE`."""
    (mine, theirs), keys = _groups(own, others)
    return _first_rows(theirs, len(keys[0]))[mine]


def _groups(
    first: Sequence[NDArray[np.integer[Any]]], second: Sequence[NDArray[np.integer[Any]]]
) -> tuple[tuple[I64, I64], list[NDArray[np.integer[Any]]]]:
    """Number the different keys of two sets in ascending order; return the number of each row, and the keys."""
    keys = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    order = np.lexsort(keys[::-1])
    keys = [key[order] for key in keys]
    begins = is_head(*keys)
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(begins) - 1
    return (group[: len(first[0])], group[len(first[0]) :]), [key[begins] for key in keys]


def _first_rows(group: I64, num_groups: int) -> I64:
    rows = np.full(num_groups, NONE, np.int64)
    # Of several values for one place the last one stays: backwards, that is the first.
    rows[group[::-1]] = np.arange(len(group) - 1, -1, -1)
    return rows


def _tree_rows(nodes: NodeChanges, main: str) -> Iterator[ChangeRow]:
    present = nodes.tree.numbered()[1]
    for tree in (main, *(name for name in sorted(present) if name != main)):
        own = nodes.take(nodes.tree.equals(tree))
        moved = own.take(own.change == NODE_MOVED)
        distance = np.abs(moved.later_offset.data - moved.earlier_offset.data)
        yield ChangeRow(f"nodes of {tree}", *_tally(own.change), float(np.median(distance)) if len(distance) else None)


def _tally(change: NDArray[np.integer[Any]]) -> tuple[int, int, int, int]:
    stayed, moved, appeared, went = np.bincount(change, minlength=4).tolist()
    return stayed, moved, appeared, went


def _entry_row(earlier: VolumeLayout, later: VolumeLayout) -> ChangeRow:
    """Count files and directories; one that another directory lists now has moved."""
    (before, first), (now, second) = map(_parents, (earlier, later))
    _, rows = _joined((before,), (now,))
    return ChangeRow("files and directories", *_told(rows, lambda one, other: first[one] == second[other]))


def _parents(layout: VolumeLayout) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return every file, and the smallest number of a directory that lists it."""
    entries = layout.columns("entries")
    number, parent = entries["file_id"].data, entries["parent_id"].data
    order = np.lexsort((parent, number))
    first = order[is_head(number[order])]
    return number[first], parent[first]


def _told(rows: tuple[I64, I64], is_same: Callable[[I64, I64], Mask]) -> tuple[int, int, int, int]:
    """Count what happened to things that are joined, from whether those in both states are the same."""
    before, now = rows
    both = (before != NONE) & (now != NONE)
    stayed = int(np.count_nonzero(is_same(before[both], now[both])))
    appeared, went = int(np.count_nonzero(before == NONE)), int(np.count_nonzero(now == NONE))
    return stayed, int(both.sum()) - stayed, appeared, went


def _data_row(earlier: VolumeLayout, later: VolumeLayout) -> ChangeRow:
    """Count the files that have data on disk; one whose extents are not the same has moved."""
    first, second = map(_data, (earlier, later))
    _, rows = _joined((first.file_id,), (second.file_id,))
    return ChangeRow("files' data", *_told(rows, lambda one, other: _are_same(first, second, one, other)))


class _Data(NamedTuple):
    """Extents by file: each file, its first extent and how many it has; extents are rows of four numbers, in order."""

    file_id: NDArray[np.uint64]
    first: I64
    num: I64
    extents: I64


def _data(layout: VolumeLayout) -> _Data:
    extents = layout.columns("extents")
    extents = extents.take(extents["fork"].equals("data") & extents["image_offset"].is_known)
    number, start = extents["file_id"].data, extents["image_offset"].signed() - layout.facts.image_offset
    others = [extents[name].signed() for name in ("logical_offset", "length_bytes", "device")]
    order = np.lexsort((*others, start, number))
    first = np.flatnonzero(is_head(number[order]))
    return _Data(
        number[order][first],
        first,
        np.diff(np.append(first, len(order))),
        np.stack([start, *others], axis=1)[order],
    )


def _are_same(first: _Data, second: _Data, one: I64, other: I64) -> Mask:
    """Tell which files of two states have the same extents."""
    same: Mask = first.num[one] == second.num[other]
    kept = np.flatnonzero(same)
    counts = first.num[one[kept]]
    rows = ranges(first.first[one[kept]], counts), ranges(second.first[other[kept]], counts)
    differs = (first.extents[rows[0]] != second.extents[rows[1]]).any(axis=1)
    same[kept] = np.bincount(np.repeat(np.arange(len(kept)), counts), differs, minlength=len(kept)) == 0
    return same
