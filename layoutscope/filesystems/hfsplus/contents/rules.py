"""What must hold in a catalog and its extents, as arithmetic on arrays that a scan and a check share.

A scan counts the cases and names the first one's leaf; a check names the field of each. TN1150, "Catalog File" and
"Extents Overflow File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import find, is_ascending
from layoutscope.arrays.ragged import heads, lengths_of

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask


def counted_entries(parent_ids: I64, folder_ids: I64) -> I64:
    """How many entries name each folder as their parent, shape (n_folders,).

    Examples
    --------
    >>> counted_entries(np.array([2, 2, 16]), np.array([16, 2, 17])).tolist()
    [1, 2, 0]
    """
    # The catalog is in the order of parents, unless its keys are damaged.
    ordered = parent_ids if is_ascending(parent_ids) else np.sort(parent_ids)
    starts = heads(ordered)
    counts = lengths_of(starts, len(ordered))
    place = find(ordered[starts], folder_ids)
    return np.where(place >= 0, np.append(counts, 0)[place], 0)


def overflow_blocks(file_ids: I64, owner_ids: I64, block_counts: I64) -> I64:
    """Blocks that overflow records of one kind of fork add to each file.

    Parameters
    ----------
    file_ids : (n_files,) int64 array
        CNIDs of files; of two with the same one, the first has the blocks.
    owner_ids : (n_records,) int64 array
        The file that each record names; records of other files count for none.
    block_counts : (n_records, 8) int64 array
        Blocks of its extents.

    Returns
    -------
    (n_files,) int64 array

    Examples
    --------
    >>> counts = np.array([[4, 1, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]])
    >>> overflow_blocks(np.array([16, 17]), np.array([17, 5]), counts).tolist()
    [0, 5]
    """
    place = find(file_ids, owner_ids)
    blocks = block_counts.sum(axis=1)
    return np.bincount(place[place >= 0], blocks[place >= 0], minlength=len(file_ids)).astype(np.int64)


def are_outside(start_blocks: I64, block_counts: I64, total_blocks: int) -> Mask:
    """Say which extents leave the volume; unused ones do not, whatever their start says.

    Parameters
    ----------
    start_blocks, block_counts : integer arrays of one shape
        In allocation blocks.
    total_blocks : int
        Blocks of the volume.

    Returns
    -------
    bool array of that shape
    """
    found: Mask = (block_counts > 0) & (start_blocks + block_counts > total_blocks)
    return found
