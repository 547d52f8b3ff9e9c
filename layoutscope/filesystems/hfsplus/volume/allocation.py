"""The allocation file: which blocks are free.

TN1150, "Allocation File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.bitmap import clear_runs
from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus.volume.fork import Fork, read_fork

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.hfsplus.volume.volume import Volume


def read_free_runs(volume: Volume, fork: Fork) -> tuple[I64, I64]:
    """Read the allocation file.

    Parameters
    ----------
    volume : Volume
        Receives findings.
    fork : Fork
        The file's extents.

    Returns
    -------
    starts, counts : (n,) int64 arrays
        Runs of free blocks, in allocation blocks. Blocks behind the last bit are taken as used.
    """
    none: I64 = np.empty(0, np.int64)
    if volume.is_inferred and not fork.num_blocks:
        return none, none
    try:
        bitmap = read_fork(volume, fork)
    except FormatError as error:
        volume.log.survive(error, code="allocation-file-unreadable")
        return none, none
    # The first block is the highest bit of the first byte; bits behind the last block may say anything.
    _, starts, counts = clear_runs(bitmap[None], np.array([int(volume.header.total_blocks)]), "big")
    if not volume.is_inferred:
        check_free_count(volume, counts)
    return starts, counts


def check_free_count(volume: Volume, counts: I64) -> None:
    """Compare the free blocks that the volume header counts with those of the allocation file."""
    found, declared = int(counts.sum()), int(volume.header.free_blocks)
    if found != declared:
        message = "the volume header counts other free blocks than the allocation file"
        volume.header_field("free_blocks").add("free-count-differs", "warning", message, expected=found, found=declared)
