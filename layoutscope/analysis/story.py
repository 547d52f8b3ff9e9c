"""What the numbers mean, in two or three sentences.

Input: one volume's result. The bounds of the words stand here and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.pieces import main_tree
from layoutscope.units import format_bytes, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.traits import TreeTraits
    from layoutscope.metrics import TreeSummary
    from layoutscope.results.scan import Prediction, VolumeScan

TOGETHER: Final = 0.8
"""From this share of a tree in one clump on it lies together."""

STREWN: Final = 0.2
"""Below this share in its largest clump a tree is strewn."""

FOLLOWS: Final = 0.5
"""From this share of leaves whose successor is next on disk on, a tree's order follows its keys."""

LOST: Final = 0.1
"""Below this share it does not."""


def story(volume: VolumeScan) -> tuple[str, ...]:
    """Say how the enumerated tree lies, whether its order follows the keys, and what an enumeration costs."""
    return tuple(_sentences(volume))


def _sentences(volume: VolumeScan) -> Iterator[str]:
    main = main_tree(volume.layout)
    summary = next((tree for tree in volume.trees if tree.tree == main), None)
    values = {(metric.name, metric.subject): metric.value for metric in volume.metrics}
    adjacent = values.get(("next-leaf-adjacent", main))
    if summary is not None:
        yield placement(summary, filesystem_of(volume.layout).traits.tree(main))
    if adjacent is not None:
        yield key_order(adjacent, values.get(("key-order-inversions", main)))
    if volume.predictions:
        yield cost(volume.predictions[0], None if volume.walk is None else volume.walk.reads)


def placement(tree: TreeSummary, traits: TreeTraits) -> str:
    """Say whether a tree lies together or is strewn, in the words of its file system."""
    words = traits.words or f"The tree {tree.tree}"
    share = f"{format_share(tree.clumped_share)} of its {format_bytes(tree.size_bytes)}"
    where = f"{share}, {_pieces(tree.pieces)}"
    if tree.clumped_share >= TOGETHER:
        return f"{words} lies together (one clump holds {where})."
    if tree.clumped_share < STREWN:
        return f"{words} is strewn over the volume (its largest clump holds {where})."
    return f"{words} falls into several clumps (the largest holds {where})."


def _pieces(count: int) -> str:
    return f"{count:,} piece{'s' if count != 1 else ''} in all"


def key_order(adjacent: float, inversions: float | None) -> str:
    """Say whether the order on disk follows the order of the keys."""
    share = f"{format_share(adjacent)} of the leaves are followed on disk by the next in key order"
    if adjacent >= FOLLOWS:
        return f"Its order on disk follows its keys ({share})."
    pairs = "" if inversions is None else f"; {format_share(inversions)} of all pairs are out of order, 50 % is random"
    if adjacent < LOST and inversions is not None and inversions < LOST:
        return f"Its order on disk follows its keys, but with gaps ({share}{pairs})."
    if adjacent < LOST:
        return f"Its order on disk does not follow its keys ({share}{pairs})."
    return f"Its order on disk follows its keys in part ({share})."


def cost(prediction: Prediction, reads: int | None = None) -> str:
    """Say what an enumeration costs and what the time is spent on."""
    if not prediction.seconds:
        return "A cold enumeration reads nothing that the mount has not read."
    shown = sorted(prediction.causes_s, key=lambda cause: -cause[1])
    causes = ", ".join(
        f"{format_share(seconds / prediction.seconds)} {name}" for name, seconds in shown[:2] if seconds > 0
    )
    made = "" if reads is None else f" makes {reads:,} read{'s' if reads != 1 else ''}, and"
    time = format_seconds(prediction.seconds)
    return f"A cold enumeration{made} takes about {time} on {prediction.drive}: {causes}."
