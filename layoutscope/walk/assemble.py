"""From touches to an :class:`~layoutscope.walk.trace.AccessTrace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.walk.cache import read_limited, read_once
from layoutscope.walk.mount import mounted
from layoutscope.walk.requests import requests
from layoutscope.walk.touches import CAUSES, concatenated
from layoutscope.walk.trace import AccessTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.walk.model import Model
    from layoutscope.walk.requests import Requests
    from layoutscope.walk.touches import Touches


def metadata_reads(
    model: Model,
    needed: Touches,
    *,
    warm: bool = False,
    passes: int = 1,
    thread: NDArray[np.uint16] | None = None,
) -> AccessTrace:
    """Apply the host's cache to touches of metadata.

    Parameters
    ----------
    model : Model
        The volume and its host.
    needed : Touches
        What the workload needs, in order.
    warm : bool
        Whether an uncounted pass has filled the cache before.
    passes : int
        How often the workload is done.
    thread : uint16 array, optional
        The thread that makes each touch; the first one without it.
    """
    known = mounted(model)
    whole = concatenated([needed] * (passes + warm))
    skipped = len(needed) if warm else 0
    if model.host.cache_bytes is None:
        reads, think_us, place = read_once(whole, model.nodes, len(model.nodes), known)
    else:
        reads, think_us, place = read_limited(whole, model.nodes, known, model.host.cache_bytes)
    counted = place >= skipped
    issuer = np.zeros(len(needed), np.uint16) if thread is None else thread
    made = requests(model.layout, model.nodes, model.host)
    issuer = issuer[place[counted] % max(len(needed), 1)]
    return requested(model, made, reads[counted], think_us[counted], known, issuer)[0]


def requested(
    model: Model,
    made: Requests,
    reads: Touches,
    think_us: NDArray[np.float64],
    known: NDArray[np.int32],
    issuer: NDArray[np.uint16],
) -> tuple[AccessTrace, NDArray[np.int64]]:
    """Turn reads of nodes and of pieces of files into requests.

    A page that several nodes share is read with the first of them.

    Returns
    -------
    AccessTrace, int64 array
        The requests, and for each the read that it belongs to.
    """
    if model.host.cache_bytes is None and made.are_shared:
        new = made.new(reads.node, known)
        reads, think_us, issuer = reads[new], np.diff(np.cumsum(think_us)[new], prepend=0.0), issuer[new]
    else:
        new = np.arange(len(reads))
    place, source = made.of(made.unit[reads.node])
    begins = np.diff(source, prepend=-1) != 0
    is_node = reads.node < len(model.nodes)
    tree = np.append(model.nodes.tree, len(model.nodes.trees))[np.minimum(reads.node, len(model.nodes))]
    think_us = think_us + np.where(is_node, model.costs.node_us, 0.0)
    result = AccessTrace(
        device=made.device[place],
        image_offset=made.image_offset[place],
        length_bytes=made.length_bytes[place],
        cause=reads.cause[source],
        tree=tree[source].astype(np.uint8),
        directory_id=reads.directory_id[source],
        issuer=issuer[source],
        think_us=np.where(begins, think_us[source], 0.0),
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
    )
    return result, new[source]
