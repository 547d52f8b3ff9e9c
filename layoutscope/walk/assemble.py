"""From touches to an :class:`~layoutscope.access.trace.AccessTrace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.access.touches import CAUSES, concatenated
from layoutscope.access.trace import AccessTrace
from layoutscope.walk.cache import cached_by_mount, read_limited, read_once
from layoutscope.walk.requests import requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.touches import Touches
    from layoutscope.walk.requests import Requests


def metadata_reads(
    model: Model,
    passes: Sequence[tuple[Touches, NDArray[np.uint16]]],
    *,
    uncounted: int = 0,
) -> AccessTrace:
    """Apply the host's cache to touches of metadata.

    Parameters
    ----------
    model : Model
        The volume and its host.
    passes : sequence of (Touches, (n_touches,) uint16 array)
        What the workload needs, in order, and the thread that makes each touch; once for each time that it is done.
    uncounted : int
        How many of the first passes do no more than fill the cache.
    """
    known = cached_by_mount(model)
    needed = concatenated([touched for touched, _ in passes])
    made = requests(model)
    if model.host.cache_bytes is None:
        reads, touch = read_pages_once(made, needed, model, len(model.nodes), known)
    else:
        reads, touch = read_limited(needed, model, known, model.host.cache_bytes)
    begin = sum(len(touched) for touched, _ in passes[:uncounted])
    counted = touch >= begin
    thread = np.concatenate([threads for _, threads in passes])
    return requested(model, made, Timeline(needed, begin, thread), reads[counted], touch[counted])[0]


def read_pages_once(
    made: Requests, needed: Touches, model: Model, size: int, known: NDArray[np.int32]
) -> tuple[Touches, NDArray[np.int64]]:
    """Reduce touches as :func:`read_once` does; a page that several nodes share is read with the first of them.

    Parameters
    ----------
    made : Requests
        The requests of each node and piece.
    needed : Touches
        What is needed, in order.
    model : Model
        The volume and its host.
    size : int
        Nodes and pieces are numbered from 0 to ``size - 1``.
    known : int32 array
        Nodes that are cached at the start.
    """
    reads, touch = read_once(needed, model, size, known)
    if not made.are_shared:
        return reads, touch
    new = made.new(reads.node, known)
    return reads[new], touch[new]


class Timeline(NamedTuple):
    """When the host does what.

    Attributes
    ----------
    needed : Touches
        All touches, whose host time passes whether or not they are read.
    begin : int
        Touch at which the clock starts.
    thread : (n_touches,) uint16 array, optional
        The thread that makes each touch; the first one without it.
    """

    needed: Touches
    begin: int = 0
    thread: NDArray[np.uint16] | None = None


def requested(
    model: Model, made: Requests, timeline: Timeline, reads: Touches, touch: NDArray[np.int64]
) -> tuple[AccessTrace, NDArray[np.int64]]:
    """Turn reads of nodes and of pieces of files into requests.

    Parameters
    ----------
    model : Model
        The volume and its host.
    made : Requests
        The requests of each node and piece.
    timeline : Timeline
        The host's time, read or not.
    reads : Touches
        What the cache lacks.
    touch : (n_reads,) int64 array
        The touch that each read belongs to.

    Returns
    -------
    AccessTrace, int64 array
        The requests, and for each the read that it belongs to.
    """
    clock = np.concatenate([[0.0], np.cumsum(timeline.needed.host_us, dtype=np.float64)])
    at_us = np.concatenate([clock[[timeline.begin]], clock[touch], clock[-1:]])
    place, source = made.of(made.unit[reads.node])
    node = np.minimum(reads.node, len(model.nodes))
    think_us = np.diff(at_us)[:-1] + np.where(node < len(model.nodes), model.costs.node_us, 0.0)
    begins = np.diff(source, prepend=-1) != 0
    result = AccessTrace(
        device=made.device[place],
        image_offset=made.image_offset[place],
        length_bytes=made.length_bytes[place],
        cause=reads.cause[source],
        tree=np.append(model.nodes.tree, np.uint8(len(model.nodes.trees)))[node[source]],
        directory_id=reads.directory_id[source],
        issuer=np.zeros(len(source), np.uint16) if timeline.thread is None else timeline.thread[touch[source]],
        think_us=np.where(begins, think_us[source], 0.0),
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
        after_us=float(at_us[-1] - at_us[-2]),
    )
    return result, source
