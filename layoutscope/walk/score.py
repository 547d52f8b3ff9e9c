"""Agreement of a predicted trace with a real one.

Both traces are cut into blocks and reduced to the first read of each block. *Blocks*: the share of the real blocks that
were predicted. *Extra*: predicted blocks that were not real, divided by the real ones. *Pairs*: the share of the real
steps from one block to the next that are also steps of the prediction. A listing of all leaves in key order has the
right blocks; only the pairs distinguish it from a real prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import field

from layoutscope.access.trace import place_of
from layoutscope.display import Displayed, Struct
from layoutscope.structs.arrays import match, ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout


class Score(Displayed, Struct, frozen=True):
    """Agreement of a prediction with a real trace."""

    block_bytes: int  # size of the blocks that are compared
    # real_blocks, predicted_blocks, shared_blocks: different blocks in each and in both
    real_blocks: int
    predicted_blocks: int
    shared_blocks: int
    # real_pairs, shared_pairs: steps from block to block in the real trace, and those of them that are predicted
    real_pairs: int
    shared_pairs: int
    # missed, extra: blocks that were not predicted, and that were predicted in vain, by the tree they belong to
    missed: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, int] = field(default_factory=dict)
    # real steps and those of them that are predicted, by why the host reads the block that they lead to, as the
    # prediction says
    pairs_by_cause: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def block_share(self) -> float:
        """Share of the real blocks that were predicted, 0 to 1."""
        return self.shared_blocks / self.real_blocks if self.real_blocks else 1.0

    @property
    def extra_share(self) -> float:
        """Predicted blocks that were not real, over the real ones."""
        return (self.predicted_blocks - self.shared_blocks) / self.real_blocks if self.real_blocks else 0.0

    @property
    def pair_share(self) -> float:
        """Share of the real steps that were predicted, 0 to 1."""
        return self.shared_pairs / self.real_pairs if self.real_pairs else 1.0


def score(real: AccessTrace, predicted: AccessTrace, layout: VolumeLayout | None = None) -> Score:
    """Compare a real trace with a prediction."""
    size = block_size(real, predicted)
    there, here = first_blocks(real, size), first_blocks(predicted, size)
    # A step is predicted if it leads to the next block of the prediction, too.
    at, shared = match(here, there)
    follows = (at[1:] == at[:-1] + 1) & shared[1:] & shared[:-1]
    missed, extra = there[~shared], here[~np.isin(here, there)]
    return Score(
        block_bytes=size,
        real_blocks=len(there),
        predicted_blocks=len(here),
        shared_blocks=int(shared.sum()),
        real_pairs=len(follows),
        shared_pairs=int(follows.sum()),
        missed=bytes_by_owner(missed * size, layout) if layout else {},
        extra=bytes_by_owner(extra * size, layout) if layout else {},
        pairs_by_cause=_count_by_cause(there, follows, predicted, size),
    )


NOT_PREDICTED: Final = "not predicted"


def _count_by_cause(
    there: NDArray[np.int64], follows: NDArray[np.bool_], predicted: AccessTrace, block_bytes: int
) -> dict[str, tuple[int, int]]:
    """Count steps by the predicted cause of the block at their end, most frequent cause first."""
    here, read = _blocks(predicted, block_bytes)
    if not len(here) or not len(follows):
        return {NOT_PREDICTED: (len(follows), 0)} if len(follows) else {}
    row, is_known = match(here, there[1:])
    nothing = len(predicted.causes)
    cause = np.where(is_known, predicted.cause[read[row]].astype(np.int64), nothing)
    steps = np.bincount(cause, minlength=nothing + 1)
    met = np.bincount(cause[follows], minlength=nothing + 1)
    names = (*predicted.causes, NOT_PREDICTED)
    return {
        names[code]: (int(steps[code]), int(met[code])) for code in np.argsort(-steps, kind="stable") if steps[code]
    }


def block_size(*traces: AccessTrace) -> int:
    """Return the largest block size, up to 4096 bytes, to which the start and end of every read are aligned."""
    numbers = [trace.image_offset for trace in traces] + [trace.length_bytes for trace in traces]
    return int(np.gcd.reduce(np.concatenate([*numbers, [4096]])))


def first_blocks(trace: AccessTrace, block_bytes: int) -> NDArray[np.int64]:
    """Return the numbers of the blocks of a trace, each at its first read."""
    blocks, _ = _blocks(trace, block_bytes)
    _, first = np.unique(blocks, return_index=True)
    return blocks[np.sort(first)]


def _blocks(trace: AccessTrace, block_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of all blocks that are read, and the read of each."""
    counts = trace.length_bytes // block_bytes
    blocks = ranges(trace.image_offset // block_bytes, counts)
    return place_of(np.repeat(trace.device, counts), blocks), np.repeat(np.arange(len(trace)), counts)


def bytes_by_owner(image_offset: NDArray[np.int64], layout: VolumeLayout) -> dict[str, int]:
    """Count addresses by what is stored there: a tree with its level, file data, other metadata, or unknown."""
    names = np.full(len(image_offset), "unknown", dtype=object)
    nodes, split, extents, regions = map(layout.columns, ("nodes", "node_fragments", "extents", "regions"))
    kinds = [f"{tree} {kind}" for tree, kind in zip(nodes.listed("tree"), nodes.listed("kind"), strict=True)]
    for table, length_bytes, label in (
        (nodes, "size_bytes", np.array(kinds, object)),
        (split, "length_bytes", np.full(len(split), "node fragment", dtype=object)),
        (extents, "length_bytes", np.full(len(extents), "file data", dtype=object)),
        (regions, "length_bytes", np.array(regions.listed("type"), object)),
    ):
        start = table["image_offset"].signed()
        order = np.argsort(start)
        place = np.searchsorted(start[order], image_offset, side="right") - 1
        hit = order[np.maximum(place, 0)] if len(order) else place
        if not len(order):
            continue
        length = table[length_bytes].data
        inside = (place >= 0) & (start[hit] >= 0) & (image_offset < start[hit] + length[hit]) & (names == "unknown")
        names[inside] = label[hit[inside]]
    values, counts = np.unique(names.astype(str), return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
