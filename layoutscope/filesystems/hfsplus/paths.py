"""Paths of entries, all at once.

Not part of the tables: a path is as long as the tree is deep, and most work needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.arrays.lookup import find
from layoutscope.ondisk import grammar
from layoutscope.tables.schema import FLAG_DIRECTORY_LINK

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64

MAX_DEPTH = 1000
"""Deeper folders are taken as a loop."""


def entry_paths(entries: pl.DataFrame) -> pl.Series:
    """Return the path of every entry from the root folder, which itself is empty.

    Parameters
    ----------
    entries : polars.DataFrame
        The table of entries.

    Returns
    -------
    polars.Series of String
        Null where no chain of parents leads to the root folder.

    Notes
    -----
    Folders are done level by level: as many steps over arrays as the tree is deep.
    """
    parent = entries["parent_id"].to_numpy().astype(np.int64)
    own = entries["file_id"].to_numpy().astype(np.int64)
    is_folder = (entries["kind"] == "directory").to_numpy()
    is_folder &= (entries["flags"].to_numpy() & FLAG_DIRECTORY_LINK) == 0
    folders = np.flatnonzero(is_folder)
    place = find(own[folders], parent)
    above = np.where(place >= 0, np.append(folders, -1)[place], -1)
    names = entries["name"]
    is_root = parent == _ROOT_PARENT
    paths = pl.Series("path", [None], dtype=pl.String).new_from_index(0, len(entries))
    level = np.flatnonzero(is_root)
    paths = paths.scatter(level, pl.Series([""], dtype=pl.String).new_from_index(0, len(level)))
    for _ in range(MAX_DEPTH):
        level = _children(above, level, len(entries))
        if not len(level):
            break
        prefix = paths.gather(above[level])
        joined = pl.select(
            pl.when(prefix == "").then(names.gather(level)).otherwise(prefix + "/" + names.gather(level))
        ).to_series()
        paths = paths.scatter(level, joined)
    return paths


_ROOT_PARENT: Final = int(grammar.HfsplusVolume.Cnid.root_parent)


def _children(above: I64, level: I64, num_entries: int) -> I64:
    """Rows whose folder is one of the level."""
    chosen = np.zeros(num_entries + 1, np.bool_)
    chosen[level] = True
    return np.flatnonzero(chosen[above])
