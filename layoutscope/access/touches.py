"""Touches: the leaves that an order needs, one after the other, before any cache.

A touch is a node that a search ends in. What must be read on the way to it (index nodes, object map) is added by
:mod:`layoutscope.walk.cache`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.ragged import interleave
from layoutscope.frozen import frozen
from layoutscope.native import Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CAUSES: Final = (
    "list",
    "next",
    "name",
    "inode",
    "thread",
    "dstream",
    "xattr",
    "extents",
    "index",
    "omap",
    "overflow",
    "data",
    "scan",
    "structure",
    "check",
)
"""Why the host reads: the search that begins a listing; the listing's next leaf; the search of a name, an inode, a
thread record, a data-stream record, an extended attribute or extents; an index node on the way; a node that tells
where another lies (object map, overflow tree); file data; a scan of all nodes; a structure
that is no node of a tree, such as a header, a checkpoint or a bitmap; a pass of a checker."""

CODE: Final = {name: np.uint8(code) for code, name in enumerate(CAUSES)}


@frozen
class Touches:
    """Leaves in the order in which they are needed; arrays of shape (n_touches,)."""

    node: NDArray[np.int32]  # node; file data are numbered on after the nodes
    cause: NDArray[np.uint8]  # index into `CAUSES`
    directory_id: NDArray[np.uint64]  # directory whose enumeration needs it
    host_us: NDArray[np.float32]  # host time that is spent from this touch to the next

    def __len__(self) -> int:
        return len(self.node)

    def __getitem__(self, places: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Touches:
        """Select touches."""
        return Touches(self.node[places], self.cause[places], self.directory_id[places], self.host_us[places])


def touches(
    node: NDArray[np.int32],  # nodes that are needed; -1 for none
    cause: str | NDArray[np.uint8],
    directory_id: NDArray[np.uint64],
    host_us: float = 0.0,
) -> Touches:
    """Make touches of one cause and cost."""
    causes = np.full(len(node), CODE[cause], np.uint8) if isinstance(cause, str) else cause
    return Touches(node, causes, directory_id, np.full(len(node), host_us, np.float32))


def nothing() -> Touches:
    """Return no touches."""
    return touches(np.empty(0, np.int32), "list", np.empty(0, np.uint64))


def concatenated(parts: Sequence[Touches]) -> Touches:
    """Put touches one after the other; one part alone is not copied."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return nothing()
    if len(parts) == 1:
        return parts[0]
    return Touches(
        np.concatenate([part.node for part in parts]),
        np.concatenate([part.cause for part in parts]),
        np.concatenate([part.directory_id for part in parts]),
        np.concatenate([part.host_us for part in parts]),
    )


def interleaved(parts: Sequence[Touches], places: Sequence[NDArray[np.int64]]) -> Touches:
    """Lay touches out so that element j of part i comes to ``places[i][j]`` of the whole."""
    total = sum(len(part) for part in parts)
    result = Touches(
        np.empty(total, np.int32), np.empty(total, np.uint8), np.empty(total, np.uint64), np.empty(total, np.float32)
    )
    for part, place in zip(parts, places, strict=True):
        result.node[place] = part.node
        result.cause[place] = part.cause
        result.directory_id[place] = part.directory_id
        result.host_us[place] = part.host_us
    return result


MERGE_RUNS: Final = Kernel("merge_runs", "lllccC")


def merged(
    first: Touches, second: Touches, first_counts: NDArray[np.int64], second_counts: NDArray[np.int64]
) -> Touches:
    """Lay out touches that alternate: those of group 0 of both, then those of group 1 of both."""
    parts = [[np.ascontiguousarray(column) for column in _columns(part)] for part in (first, second)]
    whole = [np.empty(len(first) + len(second), column.dtype) for column in parts[0]]
    counts = [np.ascontiguousarray(each, np.int64) for each in (first_counts, second_counts)]
    widths = np.array([column.itemsize for column in whole])
    if MERGE_RUNS(*counts, widths, *parts, whole) is None:
        return plain_merged(first, second, first_counts, second_counts)
    return Touches(*whole)


def plain_merged(
    first: Touches, second: Touches, first_counts: NDArray[np.int64], second_counts: NDArray[np.int64]
) -> Touches:
    """Lay out touches by their places; the twin of the kernel."""
    return interleaved([first, second], interleave([first_counts, second_counts]))


def _columns(part: Touches) -> tuple[NDArray[Any], ...]:
    return part.node, part.cause, part.directory_id, part.host_us


def columns(
    nodes: Sequence[NDArray[np.int32]],
    causes: Sequence[str],
    directory_id: NDArray[np.uint64],
    host_us: Sequence[float],
) -> Touches:
    """Interleave searches: of each entry the first column's node, then the second's, …; nodes of -1 stay in place."""
    n = len(directory_id)
    return Touches(
        np.stack(nodes, axis=1).ravel() if n else np.empty(0, np.int32),
        np.tile(np.array([CODE[cause] for cause in causes], np.uint8), n),
        np.repeat(directory_id, len(nodes)),
        np.tile(np.asarray(host_us, np.float32), n),
    )
