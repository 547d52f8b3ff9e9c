"""A volume filled anew with the files that it has, in one order or another.

A file system numbers files as they are made, and sorts its tree by these numbers: whoever copies everything off and
back chooses, by the order of the copy, which records come to lie side by side. So the entries get the numbers of that
order, and their own file system lays them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID
from layoutscope.analysis.verdict import placement
from layoutscope.arrays.lookup import find
from layoutscope.arrays.ragged import ranges
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.tables import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.remedies.case import Case
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]

FIRST_NUMBER: Final = 16
"""The first number that files get (TN1150, "Catalog Node IDs"; the reference of Apple's other one, inode numbers)."""

HEAD_BYTES: Final = 24
"""Names are told apart by so many bytes: those that agree in them may change places."""


def in_walk_order(case: Case) -> I64:
    """Return the entries directory by directory, as a walk comes to them and lists them."""
    return ranges(case.descent.first, case.descent.count)


def by_name(case: Case) -> I64:
    """Return the entries as a program comes to them that sorts names: each folder's by name, folders by name."""
    entries = case.model.entries
    heads = entries.stored_names.take(np.arange(len(entries))[entries.order]).heads(HEAD_BYTES)
    # Eight letters as one number, the first of them the highest.
    words = heads.view(np.dtype(np.uint64).newbyteorder("big"))
    group = np.repeat(np.arange(len(entries.group_id)), np.diff(entries.group_start))
    place = np.lexsort((*words.T[::-1], group))
    descent = descend(entries.chosen(place), ROOT_ID)
    return place[ranges(descent.first, descent.count)]


def level_by_level(case: Case) -> I64:
    """Return the entries of the root, then those of its folders, then those of theirs."""
    entries, descent = case.model.entries, case.descent
    above = np.where(descent.entry >= 0, entries.parent_id[np.maximum(descent.entry, 0)], np.uint64(0))
    parent = find(descent.directory_id, above)
    depth = np.zeros(len(descent), np.int64)
    # A parent stands before its folders, so that as many rounds as the tree is deep settle all of them.
    for _ in range(len(descent)):
        deeper = np.where((parent >= 0) & (np.arange(len(descent)) > 0), depth[np.maximum(parent, 0)] + 1, 0)
        if np.array_equal(deeper, depth):
            break
        depth = deeper
    chosen = np.argsort(depth, kind="stable")
    return ranges(descent.first[chosen], descent.count[chosen])


def as_dense(case: Case, made: VolumeLayout) -> VolumeLayout:
    """Leave as much room between the nodes of a new volume as there is between those of the old one.

    Where every node has a place of its own, a file system puts nodes among the data as these come, or keeps them
    together; which of both it does is seen by how it did so before. A tree that is one file lies in one piece.
    """
    found = placement(case.by_node, 0.0)
    if found is None or not filesystem_of(made).traits.maps_every_node:
        return made
    nodes = made.columns("nodes")
    start = made.facts.image_offset
    # Nodes begin at multiples of their size, and the last one must lie on the volume.
    room = max(made.facts.size_bytes // max(len(nodes), 1), 1)
    apart = nodes["size_bytes"].signed() * min(1 / found.density, room / NODE_BYTES)
    offset = start + np.arange(len(nodes)) * np.maximum(apart // NODE_BYTES, 1).astype(np.int64) * NODE_BYTES
    return made.changed(nodes=nodes.changed("image_offset", Values(offset.astype(nodes["image_offset"].data.dtype))))


EMPTIER: Final = 1.68
"""Leaves that a copy may have for each one that is modelled: a driver that splits leaves whose room is in pieces left
1,510 bytes in a leaf of a fresh volume, where the one that was measured left 2,541."""


def as_split(made: VolumeLayout) -> VolumeLayout:
    """Move every second leaf behind all others.

    A leaf that is full is split, and half of it goes to a new node, which lies where the disk is being filled by then:
    far from its neighbours, where names come to folders that were made long before.
    """
    nodes = made.columns("nodes")
    leaves = np.flatnonzero((nodes["level"].data == 0) & nodes["tree"].equals(filesystem_of(made).traits.main_tree))
    leaves = leaves[np.argsort(nodes["key_rank"].signed()[leaves], kind="stable")]
    offset = nodes["image_offset"].data.copy()
    places = np.sort(offset[leaves])
    offset[np.concatenate([leaves[::2], leaves[1::2]])] = places
    return made.changed(nodes=nodes.changed("image_offset", Values(offset)))


NODE_BYTES: Final = 4096
"""Size of the nodes that are laid out one by one."""


def numbered(case: Case, order: I64) -> VolumeLayout:
    """Give the entries of a volume the numbers that they get when they are made in an order."""
    entries, layout = case.model.entries, case.layout
    rows = np.arange(len(entries))[entries.order]
    left = np.ones(len(entries), bool)
    left[order] = False
    made = rows[np.concatenate([order, np.flatnonzero(left)])]
    table = layout.columns("entries")
    own, parent = table["file_id"].data, table["parent_id"].data
    first = np.sort(np.unique(own[made], return_index=True)[1])
    known = own[made][first]
    number = np.arange(FIRST_NUMBER, FIRST_NUMBER + len(known), dtype=np.uint64)
    # The root and what the file system keeps for itself have the numbers that they always have.
    number = np.where(known < FIRST_NUMBER, known, number)

    def new(ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        place = find(known, ids)
        # A folder that is gone keeps a number that nobody gets.
        return np.where(place >= 0, number[np.maximum(place, 0)], np.where(ids < FIRST_NUMBER, ids, np.uint64(1)))

    renumbered = table.changed("file_id", Values(new(own))).changed("parent_id", Values(new(parent)))
    return layout.changed(entries=renumbered)
