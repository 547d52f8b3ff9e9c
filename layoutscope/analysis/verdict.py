"""From a walk to a verdict: runs of the model with one thing changed, and what they say of causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.analysis.counterfactual import CAUSES, ReadsOfNodes, seconds_of, walked
from layoutscope.drive.draws import is_sampled
from layoutscope.filesystems.registry import filesystem_of, filesystems
from layoutscope.results.verdict import Cause, Placement, Verdict, Why, Yardstick
from layoutscope.walk import trace
from layoutscope.walk.whatif import what_if

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from layoutscope.drive import DriveProfile
    from layoutscope.results.scan import Prediction, WalkFacts
    from layoutscope.results.verdict import Remedy
    from layoutscope.tables import VolumeLayout

    Tried = Callable[[ReadsOfNodes, DriveProfile], tuple[Remedy, ...]]

SPAN_ENDS: Final = (0.01, 0.99)
"""Shares of the bytes before which a span begins and ends: a single stray node makes no span."""


MODELLED_ENTRIES: Final = (10_000, 500_000)
"""Volumes of 22,000 and of 222,000 entries were held against their like: nothing is said of much smaller or larger."""

PACKED: Final = "packed"
"""The what-if that is the yardstick: the number is that of ``predict``."""

MODELLED_HOST: Final = "linux"
"""Whose driver filled those volumes."""

MODEL_ERROR: Final = 0.25
"""By how much a remade volume may miss a real one: by 23 % at most on three drives, on four pairs whose fill it has."""


def judge(
    layout: VolumeLayout,
    walk: WalkFacts | None,
    predictions: Sequence[Prediction],
    profiles: Sequence[DriveProfile],
    remedied: Tried | None = None,
) -> Verdict | None:
    """Draw the conclusions from a walk.

    None where nothing is walked, or on no drive.
    """
    if walk is None or not predictions:
        return None
    first = predictions[0]
    profile = next(item for item in profiles if item.name == first.drive)
    entries = len(layout.columns("entries"))
    plain = Verdict(first.drive, first.seconds, first.seconds, 1000 * first.seconds / max(entries, 1), (), (), None)
    if not len(walk.trace):
        return plain
    reads = walked(layout, walk.trace)
    # Of long walks a part is served, changed and unchanged alike, so that both err alike.
    scale = first.seconds / seconds_of(walk.trace, profile) if is_sampled(walk.trace, profile) else 1.0
    runs = {change: scale * seconds_of(change(reads), profile) for change in CAUSES.values()}
    packed = what_if(PACKED, layout, walk.host).layout
    causes = [Cause(name, runs[change], _saved(first.seconds, runs[change])) for name, change in CAUSES.items()]
    return replace(
        plain,
        packed_seconds=scale * seconds_of(trace(packed, order=walk.order, host=walk.host), profile),
        causes=tuple(sorted(causes, key=lambda cause: -cause.share)),
        remedies=() if remedied is None else remedied(reads, profile),
        placement=placement(reads, _saved(first.seconds, runs[CAUSES[Why.DISTANCE]])) if first.rotates else None,
        yardsticks=tuple(_yardsticks(layout, walk, profile)) if plain.is_worth_a_word else (),
    )


def _yardsticks(layout: VolumeLayout, walk: WalkFacts, profile: DriveProfile) -> Iterator[Yardstick]:
    """List the same files on other file systems, within what that was held against real volumes for."""
    entries = len(layout.columns("entries"))
    if layout.coverage != 1 or not MODELLED_ENTRIES[0] <= entries <= MODELLED_ENTRIES[1] or walk.host != MODELLED_HOST:
        return
    own = filesystem_of(layout)
    for other in filesystems():
        # Where every node has a place of its own, how long it takes depends on the order in which it was filled.
        is_comparable = other.name != own.name and not other.traits.maps_every_node
        made = other.remade(layout) if is_comparable else None
        if made is not None:
            seconds = seconds_of(trace(made, order=walk.order, host=walk.host), profile)
            low, high = (seconds * (1 + sign * MODEL_ERROR) for sign in (-1, 1))
            yield Yardstick(other.traits.label, seconds, low, high)


def _saved(before: float, after: float) -> float:
    return 1 - after / before if before else 0.0


def placement(reads: ReadsOfNodes, saved_by_nearness: float) -> Placement | None:
    """Say how far apart the nodes of a walk lie, by their span and by what the drive's arm makes of it."""
    nodes = reads.nodes
    order = reads.used[nodes.device[reads.used] == 0]
    if len(order) < 2:
        return None
    start, size = nodes.image_offset[order], nodes.size_bytes[order]
    low, high = np.searchsorted(np.cumsum(size), np.array(SPAN_ENDS) * size.sum())
    span = int(start[high] + size[high] - start[low])
    return Placement(
        span_bytes=span,
        volume_share=min(span / max(reads.layout.facts.size_bytes, 1), 1.0),
        density=min(int(size[low : high + 1].sum()) / span, 1.0),
        saved_by_nearness=saved_by_nearness,
    )
