"""What the mount has read already, so that no walk reads it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.access.touches import touches
from layoutscope.walk.cache import with_ways

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.access.model import Model


def mounted(model: Model) -> NDArray[np.int32]:
    """Return the nodes that are cached once the volume is mounted, those on the way to others among them."""
    found = model.driver.mounted(model.layout.facts, model.nodes, model.entries)
    searched = found.searched[found.searched >= 0]
    ids = np.zeros(len(searched), np.uint64)
    ways, _ = with_ways(touches(searched, "inode", ids), model, len(model.nodes))
    return np.union1d(ways.node, found.read).astype(np.int32)
