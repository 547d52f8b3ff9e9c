"""From the steps of a mount or a check to a trace: nodes with what leads to them, and places as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.access.steps import FixedPlaces, fixed_place
from layoutscope.access.touches import CAUSES, CODE, concatenated, touches
from layoutscope.access.trace import AccessTrace
from layoutscope.walk.assemble import Timeline, read_pages_once, requested, requests
from layoutscope.walk.visits import clock_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.steps import MountStep
    from layoutscope.access.touches import Touches


def mount(model: Model) -> AccessTrace:
    """Read what a mount of the volume reads, with nothing cached, and what comes before it with a disk that is new."""
    steps = model.driver.mount(model.layout, model.nodes, model.entries)
    scan = fixed_place("partition-scan", 0, model.host.partition_scan_bytes)
    return stepped(model, [scan, *steps] if model.host.partition_scan_bytes else steps)


def fsck(model: Model) -> AccessTrace:
    """Read what the maker's checker reads of the volume, which keeps a cache of its own."""
    reads = model.driver.check(model.layout, model.nodes, model.entries)
    n = len(reads.image_offset)
    return AccessTrace(
        device=reads.device,
        image_offset=reads.image_offset,
        length_bytes=reads.length_bytes,
        cause=np.full(n, CODE["check"], np.uint8),
        tree=reads.kind,
        directory_id=np.zeros(n, np.uint64),
        issuer=np.zeros(n, np.uint16),
        think_us=np.full(n, model.costs.node_us),
        causes=CAUSES,
        trees=reads.kinds,
    )


def stepped(model: Model, steps: Sequence[MountStep]) -> AccessTrace:
    """Make a trace of steps, whose nodes are read once and whose places are read as often as they are named."""
    pieces = [step for step in steps if isinstance(step, FixedPlaces)]
    first = len(model.nodes)
    needed: list[Touches] = []
    for step in steps:
        if isinstance(step, FixedPlaces):
            node = np.arange(first, first + len(step), dtype=np.int32)
            first += len(step)
            needed.append(touches(node, "structure", np.zeros(len(step), np.uint64)))
        else:
            needed.append(touches(step.node, step.cause, np.zeros(len(step.node), np.uint64), model.costs.search_us))
    made = requests(model).followed_by(
        _joined([each.device for each in pieces], np.uint8),
        _joined([each.image_offset for each in pieces], np.int64),
        _joined([each.length_bytes for each in pieces], np.int64),
    )
    whole = concatenated(needed)
    reads, touch = read_pages_once(made, whole, model, first, np.empty(0, np.int32))
    trace, source = requested(model, made, reads, Timeline(clock_at(whole, touch)))
    return named(trace, reads.node[source] - len(model.nodes), pieces)


def _joined(arrays: Sequence[NDArray[Any]], kind: type[np.integer[Any]]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *arrays]).astype(kind)


def named(trace: AccessTrace, place: NDArray[np.int32], pieces: Sequence[FixedPlaces]) -> AccessTrace:
    """Say of each read place what lies there, in the column of trees."""
    kinds = list(dict.fromkeys(each.kind for each in pieces))
    names = [*trace.trees, *(kind for kind in kinds if kind not in trace.trees)]
    codes = np.repeat([names.index(each.kind) for each in pieces], [len(each) for each in pieces]).astype(np.uint8)
    tree = trace.tree.copy()
    tree[place >= 0] = codes[place[place >= 0]]
    return replace(trace, tree=tree, trees=tuple(names))
