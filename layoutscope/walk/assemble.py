"""From touches to an :class:`~layoutscope.access.trace.AccessTrace`: cache, pages, pieces, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.access.touches import CAUSES, concatenated
from layoutscope.access.trace import AccessTrace
from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.frozen import frozen
from layoutscope.walk.cache import cached_by_mount, read_limited, read_once
from layoutscope.walk.visits import clock_at, visited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.access.model import Model
    from layoutscope.access.nodes import NodeTable
    from layoutscope.access.touches import Touches
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.visits import Visits


def metadata_reads(
    model: Model,
    passes: Sequence[tuple[Touches, NDArray[np.uint16]]],
    *,
    uncounted: int = 0,
) -> AccessTrace:
    """Apply the host's cache to touches of metadata."""
    known = cached_by_mount(model)
    needed = concatenated([touched for touched, _ in passes])
    made = requests(model)
    if model.host.cache_bytes is None:
        reads, touch = read_pages_once(made, needed, model, len(model.nodes), known)
    else:
        reads, touch = read_limited(needed, model, known)
    begin = sum(len(touched) for touched, _ in passes[:uncounted])
    counted = touch >= begin
    thread = passes[0][1] if len(passes) == 1 else np.concatenate([threads for _, threads in passes])
    touch = touch[counted]
    return requested(model, made, reads[counted], Timeline(clock_at(needed, touch, begin), thread[touch]))[0]


def walked_reads(model: Model, visits: Visits) -> AccessTrace:
    """Apply an unlimited cache to a walk that is done once."""
    made = requests(model)
    reads, at_us = visited(visits, model)
    new = _lacking(made, reads.node, cached_by_mount(model))
    return requested(model, made, reads[new], Timeline(np.concatenate([at_us[:1], at_us[1:-1][new], at_us[-1:]])))[0]


def read_pages_once(
    made: Requests, needed: Touches, model: Model, size: int, known: NDArray[np.int32]
) -> tuple[Touches, NDArray[np.int64]]:
    """Reduce touches as :func:`read_once` does; a page that several nodes share is read with the first of them."""
    reads, touch = read_once(needed, model, size)
    new = _lacking(made, reads.node, known)
    return reads[new], touch[new]


def _lacking(made: Requests, node: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int64]:
    """Places of the nodes that are not cached at the start, nor with another one before."""
    fresh = np.ones(len(made.unit), bool)
    fresh[known] = False
    new = np.flatnonzero(fresh[node])
    return new[made.new(node[new], known)] if made.are_shared else new


class Timeline(NamedTuple):
    """When the host does what."""

    # host time at the start, before each read, and in the end; all of it passes, read or not
    at_us: NDArray[np.float64]
    thread: NDArray[np.uint16] | None = None  # the thread that makes each; the first one without it


def requested(
    model: Model, made: Requests, reads: Touches, timeline: Timeline
) -> tuple[AccessTrace, NDArray[np.int64]]:
    """Turn reads of nodes and of pieces of files into requests."""
    # Between two reads passes the time of all touches that the cache served, not of the next one alone.
    at_us = timeline.at_us
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
        issuer=np.zeros(len(source), np.uint16) if timeline.thread is None else timeline.thread[source],
        think_us=np.where(begins, think_us[source], 0.0),
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
        after_us=float(at_us[-1] - at_us[-2]),
    )
    return result, source


@frozen
class Requests:
    """The requests that bring each cache unit in."""

    # cache unit of each node, and of what is numbered behind the nodes: nodes smaller than a page share one
    unit: NDArray[np.int64]
    start: NDArray[np.int64]  # first request of each unit
    device: NDArray[np.uint8]  # image of a Fusion set
    # image_offset, length_bytes: the requests
    image_offset: NDArray[np.int64]
    length_bytes: NDArray[np.int64]

    @property
    def are_shared(self) -> bool:
        """Whether several nodes have a unit in common."""
        return len(self.start) - 1 < len(self.unit)

    def of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the requests of a sequence of units, and for each the place of its unit in the sequence."""
        count = self.start[units + 1] - self.start[units]
        return ranges(self.start[units], count), np.repeat(np.arange(len(units)), count)

    def new(self, nodes: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the places in a sequence of nodes whose units are neither known nor read before."""
        unit = self.unit[nodes]
        first = np.sort(np.unique(unit, return_index=True)[1])
        return first[~np.isin(unit[first], self.unit[known])]

    def followed_by(
        self,
        device: NDArray[np.uint8],
        image_offset: NDArray[np.int64],  # image_offset, length_bytes: the pieces, in bytes
        length_bytes: NDArray[np.int64],
    ) -> Requests:
        """Number further requests on behind the nodes, each a unit of its own: pieces of files."""
        own = np.arange(len(image_offset) + 1)
        return Requests(
            unit=np.concatenate([self.unit, len(self.start) - 1 + own[:-1]]),
            start=np.concatenate([self.start[:-1], len(self.image_offset) + own]),
            device=np.concatenate([self.device, device]),
            image_offset=np.concatenate([self.image_offset, image_offset]),
            length_bytes=np.concatenate([self.length_bytes, length_bytes]),
        )


def requests(model: Model) -> Requests:
    """Work out the requests of every node of a layout."""
    nodes, host, page_bytes = model.nodes, model.host, model.driver.page_bytes
    unit = _units(nodes, page_bytes)
    node, device, offset, length = _pieces(model.layout, nodes)
    order = np.lexsort((np.arange(len(node)), nodes.node_id[node], unit[node])) if page_bytes else np.arange(len(node))
    owner, device, offset, length = _joined(unit[node][order], device[order], offset[order], length[order])
    if host.node_read_bytes:
        owner, device, offset, length = _cut(owner, device, offset, length, host.node_read_bytes)
    n_units = int(unit.max(initial=-1)) + 1
    start = np.searchsorted(owner, np.arange(n_units + 1))
    return Requests(unit, start, device, offset, length)


def _units(nodes: NodeTable, page_bytes: int) -> NDArray[np.int64]:
    """Number cache units; nodes of one file page have one."""
    small = (nodes.size_bytes > 0) & (nodes.size_bytes < page_bytes)
    if not small.any():
        return np.arange(len(nodes))
    # Linux reads nodes through the page cache of the tree's file: those that share a page come and go with it.
    page = np.where(small, nodes.node_id * nodes.size_bytes // max(page_bytes, 1), nodes.node_id)
    keys = np.stack([nodes.tree.astype(np.int64), page], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _pieces(
    layout: VolumeLayout, nodes: NodeTable
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Pieces of every node in the order of its bytes: node, device, image_offset, length_bytes."""
    split = layout.columns("node_fragments")
    owner = nodes.nodes_of(split["node_row"]).astype(np.int64)
    whole = np.ones(len(nodes), bool)
    whole[owner] = False
    kept = np.flatnonzero(whole & (nodes.image_offset >= 0))
    node = np.concatenate([kept, owner])
    device = np.concatenate([nodes.device[kept], split["device"].filled(0)])
    offset = np.concatenate([nodes.image_offset[kept], split["image_offset"].data])
    length = np.concatenate([nodes.size_bytes[kept], split["length_bytes"].data])
    order = np.argsort(node, kind="stable") if len(owner) else slice(None)
    return node[order], device[order], offset[order], length[order]


def _joined(
    owner: NDArray[np.int64], device: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Join pieces of one unit that touch on the drive."""
    begins = np.ones(len(owner), bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (device[1:] != device[:-1]) | (offset[1:] != offset[:-1] + length[:-1])
    first = np.flatnonzero(begins)
    lengths = np.add.reduceat(length, first) if len(first) else length
    return owner[first], device[first], offset[first], lengths


def _cut(
    owner: NDArray[np.int64],
    device: NDArray[np.uint8],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    largest: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Cut pieces where the bytes of their unit cross a multiple of `largest`."""
    total = starts_of(length)
    first = np.searchsorted(owner, owner)
    # The page cache counts pages from the start of the node or file, wherever on the drive that lies.
    at = total - total[first]
    count = (at + length - 1) // largest - at // largest + 1
    source = np.repeat(np.arange(len(owner)), count)
    chunk = at[source] // largest + np.arange(len(source)) - starts_of(count)[source]
    begin = np.maximum(chunk * largest, at[source])
    end = np.minimum((chunk + 1) * largest, (at + length)[source])
    return owner[source], device[source], offset[source] + begin - at[source], end - begin
