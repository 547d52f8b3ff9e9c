"""A container that is mounted and written while it is read.

Apple File System Reference, Container (Mounting): the newest superblock of the descriptor area tells the newest
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import TruncatedError
from layoutscope.filesystems.apfs.container.checkpoint import read_descriptor_area
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.checkpoint import DescriptorArea
    from layoutscope.filesystems.apfs.container.container import Container


def newest_xid(area: DescriptorArea) -> int:
    """Return the newest transaction of a sound superblock in the ring, 0 if there is none."""
    rows = np.flatnonzero(area.kind == int(grammar.ApfsObject.ObjectType.nx_superblock))
    return int(area.xid[rows].max(initial=0))


def report_changes(container: Container) -> None:
    """Look whether a newer transaction appeared since the container was opened."""
    before = newest_xid(container.area)
    try:
        after = newest_xid(read_descriptor_area(container.blocks, container.decoder, container.area.paddr))
    except TruncatedError:
        after = 0
    if after != before:
        message = "the container changed while it was read; what was read is of no single state"
        container.at_superblock().add("container-changed", "warning", message, expected=before, found=after)
