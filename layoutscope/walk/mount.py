"""What the mount has read already, so that no walk reads it again.

Linux 6.1 ``fs/hfsplus/super.c``: header nodes, the root directory, the directory of iNode files. linux-apfs-rw
``super.c``: the root node of every tree, the root directory and the private directory. macOS is taken to read the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID
from layoutscope.access.touches import touches
from layoutscope.walk.cache import with_ways
from layoutscope.walk.directories import lookups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.walk.model import Model

PRIVATE_ID: Final = 3
"""Private directory of APFS (Apple File System Reference, inode numbers)."""


def mounted(model: Model) -> NDArray[np.int32]:
    """Return the nodes that are cached once the volume is mounted."""
    searched = _hfsplus_searches(model) if model.is_hfsplus else _apfs_searches(model)
    searched = searched[searched >= 0]
    ids = np.zeros(len(searched), np.uint64)
    ways, _ = with_ways(touches(searched, "inode", ids), model.nodes, len(model.nodes))
    own = model.nodes.is_header if model.is_hfsplus else (model.nodes.parent < 0) & (model.nodes.level >= 0)
    return np.union1d(ways.node, np.flatnonzero(own)).astype(np.int32)


def _hfsplus_searches(model: Model) -> NDArray[np.int32]:
    """Leaves of the root's records, and those that the search for the directory of iNode files ends in.

    Where there is no such directory, the search ends at the last record that is smaller than its name: in case-folded
    order, where a leading NUL sorts behind everything, the last of the root; in binary order the root's thread record.
    """
    table = model.entries
    root = np.flatnonzero((table.file_id == ROOT_ID) & table.is_directory)
    hidden = np.flatnonzero(table.is_hidden)
    found = lookups(model, np.concatenate([root[:1], hidden[:1]]))[0].node
    if len(hidden):
        return found
    return np.append(found, _end_of_root(model)[:1]).astype(np.int32)


def _end_of_root(model: Model) -> NDArray[np.int32]:
    table = model.entries
    if model.layout.facts.case_sensitive:
        return np.empty(0, np.int32)
    return table.name_node[np.flatnonzero(table.parent_id == ROOT_ID)][::-1]


def _apfs_searches(model: Model) -> NDArray[np.int32]:
    """Leaves with the inodes of the root and of the private directory."""
    table = model.entries
    first = [table.inode_node[np.flatnonzero(table.file_id == number)[:1]] for number in (ROOT_ID, PRIVATE_ID)]
    return np.concatenate(first).astype(np.int32)
