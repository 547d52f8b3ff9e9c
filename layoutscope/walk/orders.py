"""What programs do on a volume: the orders, and the work that they are given.

An :class:`Order` says what it needs and how it makes the reads that reach the drive.

>>> sorted(ORDERS)
['bulk', 'catalog', 'copy', 'fts', 'names', 'paths', 'read', 'readdir-stat', 'searchfs']
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np

from layoutscope.access.entries import ROOT_ID, entry_table
from layoutscope.access.model import Model
from layoutscope.access.nodes import node_table
from layoutscope.access.touches import CAUSES, CODE, concatenated, touches
from layoutscope.access.trace import AccessTrace
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.frozen import frozen
from layoutscope.walk import data, directories
from layoutscope.walk.assemble import metadata_reads, requests
from layoutscope.walk.host import host_profile
from layoutscope.walk.paths import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.host import HostProfile
    from layoutscope.access.touches import Touches
    from layoutscope.tables import VolumeLayout

T = TypeVar("T")


@frozen
class Work:
    """What an order is done on, and how often.

    Attributes
    ----------
    start_directory_id : int
        Directory (CNID or oid) in which to start; the root without it.
    stat : bool
        False for ``fts`` with FTS_NOSTAT: only directories are stat'ed.
    paths : sequence of str or None
        For ``paths``: what to look up, from the root.
    file_id : int or None
        For ``read``: the file.
    records : int64 array or None
        For ``read``: offsets of the records in the file, in order; the whole file from its beginning without it.
    record_bytes : int or None
        For ``read`` with `records`: their length.
    warm : bool
        Start with the metadata of a first, uncounted pass in the cache, and with its names in the name cache.
    passes : int
        How often the order is done; what the cache keeps is not read again.
    """

    start_directory_id: int = ROOT_ID
    stat: bool = True
    paths: Sequence[str] | None = None
    file_id: int | None = None
    records: NDArray[np.int64] | None = None
    record_bytes: int | None = None
    warm: bool = False
    passes: int = 1

    @property
    def is_repeated(self) -> bool:
        """Whether the order is done with something cached."""
        return self.warm or self.passes > 1


@frozen
class Order:
    """A way in which a program goes through a volume.

    Attributes
    ----------
    name : str
        As users say it.
    run : callable
        Makes the reads of some work on a model.
    needs : str
        ``paths`` or ``file`` where the work must name them, an empty string otherwise.
    is_done_once : bool
        Whether it is done once, with nothing cached.
    does : str
        What a program gets by it, in a few words.
    """

    name: str
    run: Callable[[Model, Work], AccessTrace]
    needs: Literal["", "paths", "file"] = ""
    is_done_once: bool = False
    does: str = ""

    def check(self, given: Collection[str], *, is_repeated: bool) -> None:
        """Refuse work that this order cannot do.

        Parameters
        ----------
        given : collection of str
            Which of ``paths`` and ``file`` the work names.
        is_repeated : bool
            Whether it is to be done with something cached.

        Raises
        ------
        ValueError
            If something is missing, or the order is done once and was to be repeated.
        """
        if self.needs and self.needs not in given:
            raise ValueError(f"the order {self.name} needs its {self.needs}")
        if self.is_done_once and is_repeated:
            raise ValueError(f"the order {self.name} is done once, with nothing cached")


def by_touches(
    needed: Callable[[Model, Work], Touches | tuple[Touches, NDArray[np.uint16]]],
) -> Callable[[Model, Work], AccessTrace]:
    """Make an order's run of what it touches, before any cache, and of the threads that do so if they are several."""

    def run(model: Model, work: Work) -> AccessTrace:
        def once(one: Model) -> tuple[Touches, NDArray[np.uint16]]:
            found = needed(one, work)
            return found if isinstance(found, tuple) else (found, np.zeros(len(found), np.uint16))

        return metadata_reads(model, _repeated(model, once, work.passes + work.warm), uncounted=work.warm)

    return run


def _repeated(model: Model, once: Callable[[Model], tuple[Touches, T]], times: int) -> list[tuple[Touches, T]]:
    """Make the touches of each time that a workload is done.

    Each look-up takes a place in the name cache. Gone through in one order again and again, a cache that drops the
    least recently used answers all of them if it holds them all, and none otherwise.
    """
    first = once(model)
    if times == 1:
        return [first]
    looked_up = np.count_nonzero(first[0].cause == CODE["name"])
    room = model.host.name_cache_entries
    is_kept = room is None or looked_up <= room
    later = once(replace(model, names_are_cached=True)) if is_kept else first
    return [first, *[later] * (times - 1)]


def leaves(model: Model) -> Touches:
    """Touch every leaf of the main tree in key order, as ``searchfs`` is taken to where it does not go by numbers."""
    node = np.flatnonzero((model.nodes.tree == model.main_tree_code) & (model.nodes.level == 0))
    ordered = node[np.argsort(model.nodes.key_rank[node], kind="stable")].astype(np.int32)
    cause = np.full(len(ordered), CODE["next"], np.uint8)
    cause[:1] = CODE["scan"]
    return touches(ordered, cause, np.zeros(len(ordered), np.uint64))


def all_nodes(model: Model) -> AccessTrace:
    """Read the catalog node by node in the order of node numbers, several at once where they touch.

    Apple's ``BTScanNextRecord``: links between nodes are ignored.
    """
    made = requests(model)
    node = np.flatnonzero(model.nodes.tree == model.main_tree_code)
    node = node[np.argsort(model.nodes.node_id[node], kind="stable")]
    units = made.unit[node]
    place, _ = made.of(units[np.sort(np.unique(units, return_index=True)[1])])
    begins = _chunks(made.image_offset[place], made.length_bytes[place], model.host.scan_read_bytes)
    first = np.flatnonzero(begins)
    n = len(first)
    length_bytes = np.add.reduceat(made.length_bytes[place], first) if n else np.empty(0, np.int64)
    nodes_each = length_bytes / model.nodes.size_bytes[node].max(initial=1)
    return AccessTrace(
        device=made.device[place][first],
        image_offset=made.image_offset[place][first],
        length_bytes=length_bytes,
        cause=np.full(n, CODE["scan"], np.uint8),
        tree=np.full(n, max(model.main_tree_code, 0), np.uint8),
        directory_id=np.zeros(n, np.uint64),
        issuer=np.zeros(n, np.uint16),
        think_us=model.costs.node_us * nodes_each,
        causes=CAUSES,
        trees=(*model.nodes.trees, "data"),
    )


def _chunks(offset: NDArray[np.int64], length: NDArray[np.int64], largest: int) -> NDArray[np.bool_]:
    """Mark where requests begin when neighbours are joined up to `largest` bytes."""
    begins = np.ones(len(offset), bool)
    begins[1:] = offset[1:] != offset[:-1] + length[:-1]
    run = np.cumsum(begins) - 1
    within = offset - offset[begins][run] if len(offset) else offset
    chunk = within // largest
    begins[1:] |= (chunk[1:] != chunk[:-1]) & (run[1:] == run[:-1])
    return begins


def trace(
    layout: VolumeLayout, *, order: str = "fts", host: str | HostProfile = "linux", work: Work | None = None
) -> AccessTrace:
    """Work out the reads of a workload on one volume.

    Parameters
    ----------
    layout : VolumeLayout
        Tables of the volume.
    order : str
        Key of :data:`ORDERS`.
    host : str or HostProfile
        ``linux``, ``macos`` or a profile with changes.
    work : Work, optional
        What it is done on, and how often: once from the root without it, with nothing cached.

    Returns
    -------
    AccessTrace
        Reads in the order in which they reach the drive.

    Raises
    ------
    KeyError
        If the order or the host is unknown.
    ValueError
        If the order cannot do the work.
    """
    return trace_on(model_of(layout, host_profile(host)), ORDERS[order], work or Work())


def trace_on(model: Model, order: Order, work: Work) -> AccessTrace:
    """Work out the reads of a workload on a model, which serves several of them.

    Parameters
    ----------
    model : Model
        From :func:`model_of`.
    order : Order
        What is done.
    work : Work
        What it is done on.

    Raises
    ------
    ValueError
        If the order cannot do the work.
    """
    given = {"paths": work.paths, "file": work.file_id}
    order.check([name for name, value in given.items() if value is not None], is_repeated=work.is_repeated)
    return order.run(model, work)


def model_of(layout: VolumeLayout, host: HostProfile) -> Model:
    """Turn tables into the arrays of one host's driver."""
    chosen = filesystem_of(layout)
    driver, nodes = chosen.driver(host), node_table(layout)
    entries = entry_table(layout, nodes, backwards=driver.lists_backwards, hidden_names=driver.hidden_names)
    return Model(layout, host, driver, chosen.traits.main_tree, nodes, entries)


def _from_the_start(model: Model, work: Work, walked: Touches) -> Touches:
    """Put before a walk what leads to the directory in which it starts."""
    return concatenated([directories.reached(model, work.start_directory_id), walked])


def _readdir_stat(model: Model, work: Work) -> Touches:
    return _from_the_start(model, work, directories.fts(model, work.start_directory_id, stat=work.stat))


def _fts(model: Model, work: Work) -> Touches:
    if not (work.stat and model.host.listing_carries_attributes):
        return _readdir_stat(model, work)
    return _from_the_start(model, work, directories.bulk(model, work.start_directory_id, descend_by_stat=True))


def _bulk(model: Model, work: Work) -> Touches:
    return _from_the_start(model, work, directories.bulk(model, work.start_directory_id))


def _names(model: Model, work: Work) -> Touches:
    return _from_the_start(model, work, directories.names(model, work.start_directory_id))


def _catalog(model: Model, _: Work) -> Touches:
    return leaves(model)


def _searchfs(model: Model, work: Work) -> AccessTrace:
    return all_nodes(model) if model.driver.scans_by_number else by_touches(_catalog)(model, work)


def _paths(model: Model, work: Work) -> tuple[Touches, NDArray[np.uint16]]:
    return paths(model, work.paths or (), ROOT_ID)


def _copy(model: Model, work: Work) -> AccessTrace:
    return data.copy(model, work.start_directory_id)


def _read(model: Model, work: Work) -> AccessTrace:
    return data.read(model, work.file_id or 0, work.records, work.record_bytes)


ORDERS: Final[Mapping[str, Order]] = MappingProxyType(
    {
        order.name: order
        for order in (
            Order("readdir-stat", by_touches(_readdir_stat), does="names and attributes: readdir, and stat of each"),
            Order("fts", by_touches(_fts), does="names and attributes as fts(3) gets them: find, rsync, du"),
            Order("bulk", by_touches(_bulk), does="names and attributes at once: getattrlistbulk"),
            Order("names", by_touches(_names), does="names alone: readdir without stat"),
            Order("catalog", by_touches(_catalog), does="the whole tree in the order of its keys"),
            Order("searchfs", _searchfs, is_done_once=True, does="the whole tree as searchfs reads it"),
            Order("paths", by_touches(_paths), needs="paths", does="paths of a list, looked up one by one"),
            Order("copy", _copy, is_done_once=True, does="names, attributes and the contents of all files"),
            Order("read", _read, needs="file", is_done_once=True, does="the contents of one file"),
        )
    }
)
"""Every order by its name."""
