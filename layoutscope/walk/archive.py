"""The order ``archive``: what ``tar -c`` reads of a tree, its files among it.

Sources: GNU tar's ``create.c`` (dump_dir0, dump_file0, dump_regular_file, write_header_name), ``misc.c`` (tar_savedir)
and ``buffer.c`` (available_space_after).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.descent import descend, turns_of
from layoutscope.access.entries import name_bytes
from layoutscope.walk.data import FileTouches, WalkPart, files_in_turn, read_in_turn
from layoutscope.walk.directories import listed_entries, reached, searches_of_lookup
from layoutscope.walk.programs import followed_by, in_turn, names_alone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.model import Model

BLOCK_BYTES: Final = 512
"""A member's header, and what its data are rounded up to."""

RECORD_BYTES: Final = 20 * BLOCK_BYTES
"""What is written at once; a file is read into what is left of a record."""

NAME_BYTES: Final = 100
"""Room for a name in a header; a longer one has a member of its own before."""


def archive(model: Model, start_id: int) -> FileTouches:
    """List a directory whole, then stat each entry in the order of the listing, read it, and go down into it at once.

    Of a hard link's names the first one is read; where symbolic links lead is read, too.
    """
    table = model.entries
    descent = listed_entries(model, descend(table, start_id))
    entry, turns = turns_of(descent, len(table))
    turn = np.full(len(table) + 1, -1, np.int64)
    turn[entry] = turns
    listed, per_buffer, cut = names_alone(model, descent)
    shown = in_turn(model, descent, turn)
    searches, has_data = searches_of_lookup(model), table.is_file
    if model.driver.links_are_attributes:
        target = np.where(table.is_symlink, table.xattr_node, -1).astype(np.int32)
        searches = followed_by(searches, target, "xattr")
    else:
        has_data = has_data | table.is_symlink
    found = searches.of(shown, table.parent_id[shown])
    # A directory is read to its end when its turn comes; the start, which has none, before all others.
    when = 2 * turn[descent.entry[cut.directory]] + 1
    steps = [
        WalkPart(listed, when, per_buffer),
        WalkPart(found, 2 * turn[shown], np.full(len(shown), len(searches.nodes))),
    ]
    files, file_turns = files_in_turn(model, descent, has_data)
    first = np.minimum(_space_left(model, descent, shown)[files], table.size_bytes[files])
    return read_in_turn(model, steps, (files, 2 * file_turns), reached(model, start_id), first)


def _space_left(model: Model, descent: Descent, shown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of the archive's record behind the header of each entry, in the order of the table."""
    table = model.entries
    name = _path_bytes(model, descent)[shown]
    # A long name stands in a member of its own, with a zero byte behind it.
    header = np.where(name > NAME_BYTES, 2 * BLOCK_BYTES + _rounded(name + 1), BLOCK_BYTES)
    is_first = np.zeros(len(shown), bool)
    is_first[np.unique(table.file_id[shown], return_index=True)[1]] = True
    data = np.where(table.is_file[shown] & is_first, _rounded(table.size_bytes[shown]), 0)
    # The header of the start comes first.
    at = BLOCK_BYTES + np.cumsum(header + data) - data
    left = np.zeros(len(table), np.int64)
    left[shown] = RECORD_BYTES - at % RECORD_BYTES
    return left


def _rounded(size: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = -(-size // BLOCK_BYTES) * BLOCK_BYTES
    return found


def _path_bytes(model: Model, descent: Descent) -> NDArray[np.int64]:
    """Length of each entry's path from the start, ``./`` before it and a slash behind directories."""
    table = model.entries
    own = name_bytes(table) + table.is_directory
    order = np.argsort(descent.directory_id, kind="stable")
    ids = descent.directory_id[order]
    above = order[np.minimum(np.searchsorted(ids, table.parent_id), len(ids) - 1)]
    entry = np.maximum(descent.entry, 0)
    path = np.full(len(descent), len("./"), np.int64)
    # Directory by directory from the top: as many rounds as the tree is deep.
    for _ in range(len(descent)):
        longer = path[above[entry]] + own[entry]
        longer[0] = len("./")
        if np.array_equal(longer, path):
            break
        path = longer
    return path[above] + own
